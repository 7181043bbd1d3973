/* trace.c: `foray trace` as a user or a script meets it: foray's own timelines against its own step records, other people's
 * profiles in every form of report, and refusals with a reason.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "support/cli_program.h"
#include "support/tiny.h"

#define RUN(...) cli_run((const char *const[]) { __VA_ARGS__, NULL }, NULL, NULL)
#define TRACES FORAY_TESTS "/golden/traces/"
#define PROMPT "the cat and the dog and the cat and the"

static char model[512], steps[512], timeline[512], plain_steps[512];

/* A tiny model's run, recorded in both ways, and one without speculation. */
static int record_runs(void **state)
{
    (void)state;
    tiny_spec spec = tiny_default();
    snprintf(model, sizeof model, "%s", tiny_gguf(&spec));
    const char *folder = tiny_folder();
    snprintf(steps, sizeof steps, "%s", tiny_path(folder, "steps.jsonl"));
    snprintf(timeline, sizeof timeline, "%s", tiny_path(folder, "timeline.json"));
    snprintf(plain_steps, sizeof plain_steps, "%s", tiny_path(folder, "plain.jsonl"));
    cli_result r = RUN("run", "-m", model, "-p", PROMPT, "-n", "40", "--temp", "0", "--ignore-eos", "-q",
                       "--steps", steps, "--timeline", timeline);
    int status = r.status;
    cli_free(&r);
    r = RUN("run", "-m", model, "-p", PROMPT, "-n", "40", "--temp", "0", "--ignore-eos", "-q", "--spec",
            "off", "--steps", plain_steps);
    status |= r.status;
    cli_free(&r);
    return status;
}

/* The object that a run printed, which must have succeeded. The caller's. */
static json_t *object(cli_result r)
{
    if (r.status)
        fail_msg("status %d: %s", r.status, r.err.data);
    json_error_t fault;
    json_t *value = json_loadb(r.out.data, r.out.len, 0, &fault);
    if (!json_is_object(value))
        fail_msg("not JSON: %s", fault.text);
    cli_free(&r);
    return value;
}

static json_int_t whole(const json_t *o, const char *key)
{
    json_t *value = json_object_get(o, key);
    if (!json_is_integer(value))
        fail_msg("%s is missing or not a whole number", key);
    return json_integer_value(value);
}

static void assert_refused(cli_result r, int status, const char *says)
{
    cli_assert_says(&r, status, says);
    cli_free(&r);
}

/* The decode records of a steps file by their number. The caller's. */
static json_t *read_records(const char *path)
{
    char *data;
    size_t bytes;
    foray_error err;
    assert_int_equal(file_read(path, 1 << 24, &data, &bytes, &err), 0);
    json_t *list = json_array();
    for (char *line = data, *end; (end = strchr(line, '\n')); line = end + 1) {
        json_t *one = json_loadb(line, (size_t)(end - line), 0, NULL);
        const char *kind = json_string_value(json_object_get(one, "kind"));
        if (kind != NULL && strcmp(kind, "decode") == 0)
            json_array_append(list, one);
        json_decref(one);
    }
    mem_free(MEM_GENERAL, data, bytes + 1);
    return list;
}

static void a_timeline_agrees_with_the_runs_own_records(void **state)
{
    (void)state;
    json_t *report = object(RUN("trace", timeline, steps, "--report", "json")),
           *records = read_records(steps);
    json_t *list = json_object_get(report, "steps");
    size_t count = json_array_size(list), n = json_array_size(records), compared = 0;
    assert_true(n > 10);
    /* What follows the last publication is the beginning of a step that never came. */
    const char *reason = json_string_value(json_object_get(json_array_get(list, count - 1), "reason"));
    count -= reason && strcmp(reason, "its end is not in the file") == 0;
    /* A step is published when its record says so; the timeline holds the engine's measuring rounds before them as well, so the last
     * steps correspond. */
    for (size_t back = 0; back < n && back < count; back++) {
        json_t *s = json_array_get(list, count - 1 - back), *r = json_array_get(records, n - 1 - back);
        json_int_t sum = 0;
        const char *phase;
        json_t *ns;
        json_object_foreach(json_object_get(s, "phases_ns"), phase, ns) sum += json_integer_value(ns);
        assert_int_equal(sum, whole(s, "wall_ns"));
        if (back + 1 == n || back + 1 == count)
            continue; /* the first round's beginning is the prefill's end for the record only, or has left the ring */
        if (llabs(whole(s, "wall_ns") - whole(r, "wall_ns")) > 1000)
            fail_msg("step %zu from the end: %lld ns, its record says %lld", back,
                     (long long)whole(s, "wall_ns"), (long long)whole(r, "wall_ns"));
        compared++;
    }
    assert_true(compared > 10);
    json_decref(records);
    json_decref(report);
}

static void commit_lengths_come_from_the_records(void **state)
{
    (void)state;
    json_t *report = object(RUN("trace", timeline, steps, "--report", "json"));
    size_t known = 0, at;
    json_t *s;
    json_array_foreach(json_object_get(report, "steps"), at, s) known +=
        json_is_real(json_object_get(s, "commit_length"));
    assert_true(known > 10);
    json_decref(report);
}

static void every_form_of_report_is_well_formed(void **state)
{
    (void)state;
    const char *overlay = tiny_path(tiny_folder(), "overlay.json");
    cli_result r = RUN("trace", TRACES "sglang_decode.json.gz", "--overlay", overlay);
    assert_int_equal(r.status, 0);
    assert_non_null(strstr(r.out.data, "step[DECODE bs=32]"));
    assert_non_null(strstr(r.out.data, "critical path"));
    cli_free(&r);
    char *data;
    size_t bytes;
    foray_error err;
    assert_int_equal(file_read(overlay, 1 << 24, &data, &bytes, &err), 0);
    json_t *written = json_loadb(data, bytes, 0, NULL);
    assert_true(json_array_size(json_object_get(written, "traceEvents")) > 558);
    json_decref(written);
    mem_free(MEM_GENERAL, data, bytes + 1);
    r = cli_run((const char *const[]) { "trace", overlay, NULL }, NULL, NULL); /* and can be read back */
    assert_true(r.status == 0 || r.status == 1);
    cli_free(&r);
    r = RUN("trace", TRACES "sglang_decode.json.gz", "--report", "csv");
    assert_int_equal(r.status, 0);
    size_t head = 0, line = 0;
    const char *second = strchr(r.out.data, '\n') + 1;
    for (const char *p = r.out.data; p < second; p++)
        head += *p == ',';
    for (const char *p = second; *p != '\0'; p++)
        line += *p == ',';
    assert_int_equal(head, line);
    cli_free(&r);
    r = RUN("trace", TRACES "sglang_decode.json.gz", "--report", "html");
    assert_int_equal(r.status, 0);
    assert_null(strstr(r.out.data, "http")); /* it asks no network for anything */
    assert_null(strstr(r.out.data, "src="));
    const char *start = strstr(r.out.data, "const D=\n"), *end = strstr(r.out.data, ";\n</script>");
    assert_true(start != NULL && end > start);
    json_t *page = json_loadb(start + 9, (size_t)(end - start - 9), 0, NULL);
    assert_true(json_is_object(page));
    json_decref(page);
    cli_free(&r);
}

static void one_step_can_be_asked_for(void **state)
{
    (void)state;
    json_t *report = object(RUN("trace", timeline, "--report", "json", "--step", "5"));
    assert_int_equal(json_array_size(json_object_get(report, "steps")), 1);
    assert_int_equal(whole(json_array_get(json_object_get(report, "steps"), 0), "index"), 5);
    json_decref(report);
    assert_refused(RUN("trace", timeline, "--step", "100000"), 2, "the steps here are 0 to");
    assert_refused(RUN("trace", TRACES "sglang_decode.json.gz", "--step", "1"), 2, "0 to 0");
}

static void two_runs_are_compared_with_their_conditions(void **state)
{
    (void)state;
    json_t *same = object(RUN("trace", steps, "--diff", steps, "--report", "json"));
    assert_int_equal(json_array_size(json_object_get(same, "conditions")), 0);
    size_t at, k;
    json_t *b, *l;
    json_array_foreach(json_object_get(same, "buckets"), at, b)
        json_array_foreach(json_object_get(b, "lines"), k, l)
            assert_true(json_is_false(json_object_get(l, "differs")));
    json_decref(same);
    cli_result r = RUN("trace", plain_steps, "--diff", steps);
    if (r.status == 0)
        assert_non_null(strstr(r.out.data, "options.spec: off → ngram"));
    else
        assert_non_null(strstr(r.err.data, "no bucket in common"));
    cli_free(&r);
}

/* Writes a file of its own into the tests' folder. */
static const char *written(const char *name, const char *text)
{
    const char *path = tiny_path(tiny_folder(), name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, strlen(text), f), strlen(text));
    fclose(f);
    return path;
}

static void the_same_file_twice_is_refused_whatever_its_name(void **state)
{
    (void)state;
    char path[512];
    assert_refused(RUN("trace", TRACES "hta_triton.json.gz", TRACES "hta_triton.json.gz"), 1, "once more");
    char *data;
    size_t bytes;
    foray_error err;
    assert_int_equal(file_read(TRACES "hta_triton.json.gz", 1 << 20, &data, &bytes, &err), 0);
    snprintf(path, sizeof path, "%s", tiny_path(tiny_folder(), "copy.gz"));
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    fwrite(data, 1, bytes, f);
    fclose(f);
    mem_free(MEM_GENERAL, data, bytes + 1);
    assert_refused(RUN("trace", TRACES "hta_triton.json.gz", path), 1, "hta_triton.json.gz once more");
    assert_refused(RUN("trace", steps, timeline, steps), 1, "once more");
}

static void the_last_line_names_what_was_wrong(void **state)
{
    (void)state;
    char deep[5000];
    memset(deep, '[', sizeof deep - 1);
    deep[sizeof deep - 1] = '\0';
    assert_refused(RUN("trace", written("deep.json", deep)), 1, "byte 1");
    assert_refused(RUN("trace", written("odd.json", "{\"traceEvents\":[{\"ph\":\"X\",garbage}]}")), 1,
                   "byte 16: no event of a trace");
    assert_refused(RUN("trace", written("cut.json", "{\"traceEvents\":[{\"ph\":\"X\",\"na")), 1,
                   "byte 16: the file ends inside");
    assert_refused(RUN("trace", written("none.json", "[{\"ph\":\"M\"}]")), 1, "no device work");
    assert_refused(RUN("trace", "http://localhost:8000/trace"), 2, "GET /trace");
    cli_result r =
        RUN("trace", written("sums.jsonl", "{\"forward_ct\":1,\"wall_ns\":100}\n"
                                           "{\"forward_ct\":2,\"wall_ns\":-9223372036854775808}\n"));
    assert_int_equal(r.status, 0);
    assert_non_null(strstr(r.out.data, "1 records with values that no step can have (the first is line 2)"));
    cli_free(&r);
}

static void what_cannot_be_read_is_refused_with_a_reason(void **state)
{
    (void)state;
    assert_refused(RUN("trace"), 2, "FILE");
    assert_refused(RUN("trace", "/nowhere/at.all"), 1, "cannot open");
    assert_refused(RUN("trace", TRACES "README.md"), 1, "no JSON");
    assert_refused(RUN("trace", TRACES "ascend_tiny.json"), 1, "no device work");
    assert_refused(RUN("trace", TRACES "hta_cpu_only.json.gz"), 1, "no device work");
    assert_refused(RUN("trace", TRACES "sglang_decode.json.gz", "--format", "ascend"), 1, "is a kineto file");
    assert_refused(RUN("trace", TRACES "sglang_decode.json.gz", "--rules", TRACES "README.md"), 2, "line 3");
    assert_refused(RUN("trace", TRACES "sglang_decode.json.gz", "--report", "csv", "--diff",
                       TRACES "sglang_decode.json.gz"),
                   2, "text or json");
    assert_refused(RUN("trace", TRACES "licences"), 1, "no trace in this folder");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_timeline_agrees_with_the_runs_own_records),
        cmocka_unit_test(commit_lengths_come_from_the_records),
        cmocka_unit_test(every_form_of_report_is_well_formed),
        cmocka_unit_test(one_step_can_be_asked_for),
        cmocka_unit_test(two_runs_are_compared_with_their_conditions),
        cmocka_unit_test(the_same_file_twice_is_refused_whatever_its_name),
        cmocka_unit_test(the_last_line_names_what_was_wrong),
        cmocka_unit_test(what_cannot_be_read_is_refused_with_a_reason),
    };
    return cmocka_run_group_tests_name("cli_trace", tests, record_runs, NULL);
}
