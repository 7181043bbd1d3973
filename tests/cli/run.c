/* run.c: `foray run` and `foray inspect` as a user or a script meets them, over tiny models.
 *
 * What is compared: the text with and without speculation, as text and as JSON, from every kind of file; the
 * account's sums; and that whatever cannot be is refused before anything is written.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "support/cli_program.h"
#include "support/tiny.h"

#define RUN(setting, ...) cli_run((const char *const[]) { __VA_ARGS__, NULL }, NULL, setting)
#define PROMPT "the cat and the dog and the cat and the"
#define COMMIT "0123456789abcdef0123456789abcdef01234567"

static char model[512]; /* a tiny GGUF file */

static int make_model(void **state)
{
    (void)state;
    tiny_spec spec = tiny_default();
    snprintf(model, sizeof model, "%s", tiny_gguf(&spec));
    return 0;
}

static json_t *parsed(const buf *text)
{
    json_error_t fault;
    json_t *value = json_loadb(text->data, text->len, JSON_ALLOW_NUL, &fault); /* any byte may be a token */
    if (!value)
        fail_msg("not JSON: %s: %s", fault.text, text->data);
    return value;
}

static json_int_t whole(const json_t *object, const char *key)
{
    json_t *value = json_object_get(object, key);
    if (!json_is_integer(value))
        fail_msg("%s is missing or not a whole number", key);
    return json_integer_value(value);
}

/* One answer with --json, which must succeed. The caller's. */
static json_t *answer(const char *setting, const char *which, const char *spec)
{
    cli_result r = RUN(setting, "run", "-m", which, "-p", PROMPT, "-n", "60", "--temp", "0", "--ignore-eos",
                       "--spec", spec, "--json", "-q");
    if (r.status)
        fail_msg("status %d: %s", r.status, r.err.data);
    assert_int_equal(r.err.len, 0);
    json_t *value = parsed(&r.out);
    cli_free(&r);
    return value;
}

static void assert_refused(cli_result r, int status, const char *text)
{
    cli_assert_says(&r, status, text);
    assert_int_equal(r.out.len, 0);
    cli_free(&r);
}

static void stdout_is_the_text_alone(void **state)
{
    (void)state;
    json_t *expected = answer(NULL, model, "ngram");
    cli_result r = RUN(NULL, "run", "-m", model, "-p", PROMPT, "-n", "60", "--temp", "0", "--ignore-eos");
    cli_result quiet =
        RUN(NULL, "run", "-m", model, "-p", PROMPT, "-n", "60", "--temp", "0", "--ignore-eos", "-q");
    const char *text = json_string_value(json_object_get(expected, "text"));
    size_t bytes = strlen(text);
    assert_int_equal(r.status, 0);
    assert_memory_equal(r.out.data, text, bytes);
    assert_true(r.out.len - bytes <= 1); /* a line end, unless the text has one */
    assert_non_null(strstr(r.err.data, "60 generated"));
    assert_string_equal(quiet.out.data, r.out.data);
    assert_int_equal(quiet.err.len, 0);
    cli_free(&r);
    cli_free(&quiet);
    json_decref(expected);
}

static void the_text_does_not_depend_on_speculation_or_on_the_kind_of_file(void **state)
{
    (void)state;
    tiny_spec spec = tiny_default();
    const char *folder = tiny_path(tiny_folder(), "same");
    tiny_write_hf(&spec, folder);
    json_t *plain = answer(NULL, model, "off"), *fast = answer(NULL, model, "ngram");
    json_t *other = answer(NULL, folder, "ngram");
    assert_true(json_equal(json_object_get(plain, "tokens"), json_object_get(fast, "tokens")));
    assert_true(json_equal(json_object_get(plain, "text"), json_object_get(fast, "text")));
    assert_true(json_equal(json_object_get(plain, "tokens"), json_object_get(other, "tokens")));
    json_decref(plain);
    json_decref(fast);
    json_decref(other);
}

static void the_json_account_adds_up(void **state)
{
    (void)state;
    json_t *a = answer(NULL, model, "ngram");
    json_t *usage = json_object_get(a, "usage"), *timings = json_object_get(a, "timings");
    json_t *speculation = json_object_get(a, "speculative_decoding"),
           *phases = json_object_get(a, "phases_ns");
    json_t *value;
    const char *key;
    json_int_t sum = 0;
    assert_int_equal(json_array_size(json_object_get(a, "tokens")), 60);
    assert_string_equal(json_string_value(json_object_get(a, "finish_reason")), "length");
    assert_int_equal(whole(usage, "completion_tokens"), 60);
    assert_int_equal(whole(usage, "total_tokens"), whole(usage, "prompt_tokens") + 60);
    assert_int_equal(whole(timings, "prompt_n"), whole(usage, "prompt_tokens"));
    assert_int_equal(whole(timings, "predicted_n"), 60);
    assert_int_equal(whole(timings, "draft_n"), whole(speculation, "num_draft_tokens"));
    assert_int_equal(whole(timings, "draft_n_accepted"), whole(speculation, "num_accepted_draft_tokens"));
    assert_string_equal(json_string_value(json_object_get(speculation, "kind")), "ngram");
    assert_string_equal(json_string_value(json_object_get(speculation, "accept")), "coupled");
    assert_true(json_is_number(json_object_get(speculation, "net_ms_saved")));
    assert_true(json_number_value(json_object_get(speculation, "net_ms_saved_error")) >= 0);
    assert_true(json_is_string(json_object_get(speculation, "verdict")));
    assert_int_equal(json_object_size(phases), FORAY_PHASES);
    json_object_foreach(phases, key, value) sum += json_integer_value(value);
    assert_int_equal(sum, whole(a, "wall_ns"));
    json_decref(a);
}

/* cases.md G06: who drafts is who was asked to, as many at once as were asked for, and both are stated. */
static void the_json_states_who_drafted_and_how_much(void **state)
{
    (void)state;
    static const struct {
        const char *option, *value, *kind, *asked; /* --spec-tokens */
        int most;
    } rows[] = { { "--spec", "off", "off", "3", 0 },
                 { "--spec", "ngram", "ngram", "2", 2 },
                 { "--spec", "auto", "ngram", "4", 4 },
                 { "--spec", "ngram", "ngram", "auto", 7 }, /* its own */
                 { "--draft-model", model, "draft", "3", 3 } };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        cli_result r =
            RUN(NULL, "run", "-m", model, "-p", PROMPT, "-n", "40", "--temp", "0", "--ignore-eos", "--json",
                rows[i].option, rows[i].value, "--spec-tokens", rows[i].asked, "--spec-budget", "2");
        json_t *value = parsed(&r.out), *said = json_object_get(value, "speculative_decoding");
        const int steps = (int)whole(said, "num_spec_steps"), drafts = (int)whole(said, "num_draft_tokens");
        assert_string_equal(json_string_value(json_object_get(said, "kind")), rows[i].kind);
        assert_in_range(drafts, rows[i].most > 0, rows[i].most > 0 ? 2 * steps : 0);
        assert_in_range(json_array_size(json_object_get(said, "acceptance_histogram")), 1, 3);
        if (rows[i].most > 0)
            assert_int_equal(whole(said, "num_spec_tokens"), rows[i].most);
        else
            assert_true(json_is_null(json_object_get(said, "num_spec_tokens")));
        json_decref(value);
        cli_free(&r);
    }
}

static void a_seed_repeats_a_sampled_text_and_a_drawn_one_is_reported(void **state)
{
    (void)state;
    cli_result drawn = RUN(NULL, "run", "-m", model, "-p", PROMPT, "-n", "30", "--temp", "1", "--json", "-q");
    json_t *first = parsed(&drawn.out);
    char seed[32];
    snprintf(seed, sizeof seed, "%lld", (long long)whole(first, "seed"));
    cli_result again = RUN(NULL, "run", "-m", model, "-p", PROMPT, "-n", "30", "--temp", "1", "--json", "-q",
                           "-s", seed, "--spec", "off");
    json_t *second = parsed(&again.out);
    assert_true(json_equal(json_object_get(first, "tokens"), json_object_get(second, "tokens")));
    json_decref(first);
    json_decref(second);
    cli_free(&drawn);
    cli_free(&again);
}

static void a_prompt_comes_from_a_file_or_a_pipe_without_its_last_line_end(void **state)
{
    (void)state;
    const char *path = tiny_path(tiny_folder(), "prompt.txt");
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(PROMPT "\n", f);
    fclose(f);
    const char *const piped[] = { "run", "-m", model, "-n", "20", "--temp", "0", "-q", NULL };
    cli_result text = RUN(NULL, "run", "-m", model, "-n", "20", "--temp", "0", "-q", "-p", PROMPT);
    cli_result file = RUN(NULL, "run", "-m", model, "-n", "20", "--temp", "0", "-q", "-f", path);
    cli_result pipe = cli_run(piped, PROMPT "\n", NULL);
    assert_int_equal(text.status, 0);
    assert_string_equal(file.out.data, text.out.data);
    assert_string_equal(pipe.out.data, text.out.data);
    cli_free(&text);
    cli_free(&file);
    cli_free(&pipe);
}

static void every_line_of_the_steps_file_and_the_timeline_are_json(void **state)
{
    (void)state;
    const char *folder = tiny_folder(), *steps = tiny_path(folder, "steps.jsonl");
    const char *timeline = tiny_path(folder, "timeline.json");
    cli_result r = RUN(NULL, "run", "-m", model, "-p", PROMPT, "-n", "20", "-q", "--steps", steps,
                       "--timeline", timeline);
    assert_int_equal(r.status, 0);
    char *data;
    size_t bytes, count = 0;
    foray_error err;
    assert_int_equal(file_read(steps, 1 << 20, &data, &bytes, &err), 0);
    for (char *line = data, *end; (end = strchr(line, '\n')); line = end + 1, count++) {
        buf one = { .data = line, .len = (size_t)(end - line) };
        json_decref(parsed(&one));
    }
    assert_true(count > 2); /* the manifest, the prefill, and steps */
    assert_int_equal(data[bytes - 1], '\n');
    mem_free(MEM_GENERAL, data, bytes + 1);
    assert_int_equal(file_read(timeline, 1 << 24, &data, &bytes, &err), 0);
    buf all = { .data = data, .len = bytes };
    json_decref(parsed(&all));
    mem_free(MEM_GENERAL, data, bytes + 1);
    cli_free(&r);
}

static void what_cannot_be_meant_together_is_refused(void **state)
{
    (void)state;
    assert_refused(RUN(NULL, "run", "-m", model, "-p", "x", "-f", "y"), 2, "--prompt and --file");
    assert_refused(RUN(NULL, "run", "-m", model, "-p", "x", "--raw", "--system", "y"), 2, "--system");
    assert_refused(RUN(NULL, "run", "-m", model, "-p", ""), 2, "-p");
    assert_refused(RUN(NULL, "run", "-m", model), 2, "standard input");
    assert_refused(RUN(NULL, "run", "-m", model, "-q", "-p", "x", "--chat-template", "chatml2"), 2, "chatml");
}

static void what_cannot_be_done_fails_with_thing_and_place(void **state)
{
    (void)state;
    char prompt[4096];
    memset(prompt, 'x', sizeof prompt);
    prompt[sizeof prompt - 1] = 0;
    const char *broken = tiny_path(tiny_folder(), "broken.gguf");
    FILE *f = fopen(broken, "w");
    assert_non_null(f);
    fputs("GGUF", f);
    fclose(f);
    assert_refused(RUN(NULL, "run", "-q", "-m", "/nonexistent.gguf", "-p", "x"), 1, "/nonexistent.gguf");
    assert_refused(RUN(NULL, "run", "-q", "-m", model, "--draft-model", "/nonexistent.gguf", "-p", "x"), 1,
                   "/nonexistent.gguf");
    assert_refused(RUN(NULL, "run", "-q", "-m", model, "--draft-model", "smollm2", "-p", "x"), 1,
                   "foray model smollm2");
    assert_refused(RUN(NULL, "run", "-q", "-m", broken, "-p", "x"), 1, "broken.gguf");
    assert_refused(RUN(NULL, "run", "-q", "-m", model, "-p", prompt), 1, "512");
    assert_refused(RUN(NULL, "run", "-q", "-m", model, "-f", "/nonexistent.txt"), 1, "/nonexistent.txt");
    assert_refused(RUN(NULL, "run", "-q", "-m", model, "-p", "x", "--steps", "/nonexistent/s"), 1,
                   "/nonexistent/s");
}

/* Makes the folders of a path below base, and the file when text is not NULL. */
static void put_file(const char *base, const char *path, const char *text)
{
    char whole_path[512];
    for (const char *slash = path; (slash = strchr(slash, '/')); slash++) {
        snprintf(whole_path, sizeof whole_path, "%s/%.*s", base, (int)(slash - path), path);
        mkdir(whole_path, 0700);
    }
    snprintf(whole_path, sizeof whole_path, "%s/%s", base, path);
    FILE *f = fopen(whole_path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void a_model_is_found_in_the_hugging_face_cache_by_what_refs_main_names(void **state)
{
    (void)state;
    const char *hub = tiny_folder();
    char setting[300];
    put_file(hub, "models--org--tiny/refs/main", COMMIT "\n");
    snprintf(setting, sizeof setting, "HF_HUB_CACHE=%s", hub);
    assert_refused(RUN(setting, "run", "-q", "-m", "org/tiny", "-p", "x"), 1, COMMIT);
    put_file(hub, "models--org--tiny/snapshots/" COMMIT "/README.md", "");
    assert_refused(RUN(setting, "run", "-q", "-m", "org/tiny", "-p", "x"), 1, "no GGUF files");
    assert_int_equal(symlink(model, tiny_path(hub, "models--org--tiny/snapshots/" COMMIT "/tiny.gguf")), 0);
    json_t *cached = answer(setting, "org/tiny", "ngram"), *direct = answer(NULL, model, "ngram");
    assert_true(json_equal(json_object_get(cached, "tokens"), json_object_get(direct, "tokens")));
    assert_refused(RUN(setting, "run", "-q", "-m", "org/other", "-p", "x"), 1, "models--org--other");
    assert_refused(RUN(setting, "run", "-q", "-m", "smollm2", "-p", "x"), 1, "foray model smollm2");
    put_file(hub, "models--org--tiny/refs/main", "../../elsewhere");
    assert_refused(RUN(setting, "run", "-q", "-m", "org/tiny", "-p", "x"), 1, "refs/main");
    json_decref(cached);
    json_decref(direct);
}

static void inspect_lists_what_the_file_holds(void **state)
{
    (void)state;
    cli_result r = RUN(NULL, "inspect", model, "--json"), text = RUN(NULL, "inspect", model);
    assert_int_equal(r.status, 0);
    json_t *all = parsed(&r.out), *config = json_object_get(all, "config"), *tensor;
    tiny_spec spec = tiny_default();
    size_t i;
    assert_int_equal(whole(config, "layers"), spec.layers);
    assert_int_equal(whole(config, "vocab"), spec.vocab);
    assert_int_equal(whole(json_object_get(all, "memory"), "kv_bytes_per_token"),
                     4 * spec.layers * spec.kv_heads * spec.head_dim);
    assert_string_equal(json_string_value(json_object_get(json_object_get(all, "tokenizer"), "chat_format")),
                        "chatml");
    json_array_foreach(json_object_get(all, "tensors"), i, tensor)
        assert_non_null(strstr(text.out.data, json_string_value(json_object_get(tensor, "name"))));
    assert_true(i > 3);
    assert_int_equal(text.status, 0);
    json_decref(all);
    cli_free(&r);
    cli_free(&text);
}

static void an_interrupt_ends_the_text_and_still_gives_the_account(void **state)
{
    (void)state;
    tiny_spec spec = tiny_default();
    spec.context = 1 << 15; /* so long that the text cannot be over before the signal comes */
    const char *const arguments[] = { "run", "-m", tiny_gguf(&spec), "-p", PROMPT, "--ignore-eos", NULL };
    cli_result r = cli_interrupt(arguments);
    assert_int_equal(r.status, 1);
    assert_true(r.out.len > 0);
    assert_non_null(strstr(r.err.data, "interrupted"));
    assert_non_null(strstr(r.err.data, "time "));
    cli_free(&r);
}

static void an_interrupted_text_is_that_of_its_tokens(void **state)
{
    (void)state;
    tiny_spec spec = tiny_default();
    spec.context = 1 << 15;
    const char *path = tiny_gguf(&spec);
    const char *const arguments[] = { "run", "-m", path, "-p", PROMPT, "--temp", "0", "--ignore-eos", NULL };
    cli_result r = cli_interrupt(arguments);
    const char *said = strstr(r.err.data, " of prompt in "), *count = said ? strstr(said, " · ") : NULL;
    assert_non_null(count);
    char n[16];
    snprintf(n, sizeof n, "%d", atoi(count + strlen(" · ")));
    cli_result whole =
        RUN(NULL, "run", "-m", path, "-p", PROMPT, "--temp", "0", "--ignore-eos", "-n", n, "-q");
    assert_int_equal(whole.status, 0);
    assert_string_equal(r.out.data, whole.out.data);
    cli_free(&r);
    cli_free(&whole);
}

static void a_step_that_fails_keeps_its_text_and_the_account(void **state)
{
    (void)state;
    if (access("/dev/full", W_OK) != 0)
        skip();
    const char *const plain[] = { "run", "-m", model, "-p", PROMPT, "-n", "60", "--temp", "0", "-q", NULL };
    cli_result expected = cli_run(plain, NULL, NULL);
    cli_result r =
        RUN(NULL, "run", "-m", model, "-p", PROMPT, "-n", "60", "--temp", "0", "--steps", "/dev/full");
    assert_int_equal(r.status, 1);
    assert_non_null(strstr(r.err.data, "/dev/full"));
    if (r.out.len > 0) { /* else opening the file failed already */
        assert_string_equal(r.out.data, expected.out.data);
        assert_non_null(strstr(r.err.data, "time "));
    }
    cli_free(&expected);
    cli_free(&r);
}

static void a_closed_pipe_ends_the_text_and_still_gives_the_account(void **state)
{
    (void)state;
    char line[2048];
    tiny_spec spec = tiny_default();
    spec.context = 1 << 13;
    const char *path = tiny_gguf(&spec), *said = tiny_path(tiny_folder(), "said");
    snprintf(line, sizeof line,
             "(%s/foray run -m %s -p x --ignore-eos 2>%s; echo $? >>%s) | head -c 8 >/dev/null", FORAY_BUILD,
             path, said, said);
    assert_true(system(line) != -1);
    char *data;
    size_t bytes;
    assert_int_equal(file_read(said, 1 << 20, &data, &bytes, NULL), 0);
    assert_non_null(strstr(data, "time "));
    assert_non_null(strstr(data, "standard output"));
    assert_int_equal(data[bytes - 2], '1');
    mem_free(MEM_GENERAL, data, bytes + 1);
}

/* The lines of warning that a run with options prints. */
static void assert_warned(cli_result r, const char *const *names, size_t count)
{
    size_t lines = 0;
    for (const char *at = r.err.data; at && (at = strstr(at, "warning:")); at++)
        lines++;
    assert_int_equal(r.status, 0);
    for (size_t i = 0; i < count; i++)
        if (!strstr(r.err.data, names[i]))
            fail_msg("stderr does not name %s: %s", names[i], r.err.data);
    assert_int_equal(lines, count);
    cli_free(&r);
}

static void options_that_others_turn_off_are_warned_of(void **state)
{
    (void)state;
    static const char *const sampling[] = { "--top-k", "--top-p", "--min-p", "--seed" };
    static const char *const drafts[] = { "--spec-tokens", "--spec-budget", "--accept" };
    assert_warned(RUN(NULL, "run", "-m", model, "-p", "x", "-n", "2", "-q", "--temp", "0", "--top-k", "5",
                      "--top-p", ".5", "--min-p", ".1", "-s", "1"),
                  sampling, 4);
    assert_warned(RUN(NULL, "run", "-m", model, "-p", "x", "-n", "2", "-q", "--spec", "off", "--spec-tokens",
                      "3", "--spec-budget", "2", "--accept", "exact"),
                  drafts, 3);
    assert_warned(RUN(NULL, "run", "-m", model, "-p", "x", "-n", "2", "-q", "--temp", "1", "--top-k", "5",
                      "-s", "1", "--spec-tokens", "3"),
                  NULL, 0);
}

static void the_bounds_of_an_option_are_accepted_by_the_engine(void **state)
{
    (void)state;
    assert_warned(RUN(NULL, "run", "-m", model, "-p", "x", "-n", "2", "-q", "--spec-tokens", "15",
                      "--spec-budget", "15", "-t", "64"),
                  NULL, 0);
    assert_warned(RUN(NULL, "run", "-m", model, "-p", "x", "-n", "1", "-q", "--spec-tokens", "1",
                      "--spec-budget", "1", "-t", "1"),
                  NULL, 0);
    assert_refused(RUN(NULL, "run", "-m", model, "-p", "x", "--spec-tokens", "16"), 2, "1 to 15");
    assert_refused(RUN(NULL, "run", "-m", model, "-p", "x", "-t", "65"), 2, "1 to 64");
}

static void a_full_disk_at_stdout_is_an_error(void **state)
{
    (void)state;
    char line[1024];
    if (access("/dev/full", W_OK) != 0)
        skip();
    snprintf(line, sizeof line, "%s/foray run -q -m %s -p x -n 5 >/dev/full 2>/dev/null", FORAY_BUILD, model);
    int status = system(line);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stdout_is_the_text_alone),
        cmocka_unit_test(the_text_does_not_depend_on_speculation_or_on_the_kind_of_file),
        cmocka_unit_test(the_json_account_adds_up),
        cmocka_unit_test(the_json_states_who_drafted_and_how_much),
        cmocka_unit_test(a_seed_repeats_a_sampled_text_and_a_drawn_one_is_reported),
        cmocka_unit_test(a_prompt_comes_from_a_file_or_a_pipe_without_its_last_line_end),
        cmocka_unit_test(every_line_of_the_steps_file_and_the_timeline_are_json),
        cmocka_unit_test(what_cannot_be_meant_together_is_refused),
        cmocka_unit_test(what_cannot_be_done_fails_with_thing_and_place),
        cmocka_unit_test(a_model_is_found_in_the_hugging_face_cache_by_what_refs_main_names),
        cmocka_unit_test(inspect_lists_what_the_file_holds),
        cmocka_unit_test(an_interrupt_ends_the_text_and_still_gives_the_account),
        cmocka_unit_test(an_interrupted_text_is_that_of_its_tokens),
        cmocka_unit_test(a_step_that_fails_keeps_its_text_and_the_account),
        cmocka_unit_test(a_closed_pipe_ends_the_text_and_still_gives_the_account),
        cmocka_unit_test(options_that_others_turn_off_are_warned_of),
        cmocka_unit_test(the_bounds_of_an_option_are_accepted_by_the_engine),
        cmocka_unit_test(a_full_disk_at_stdout_is_an_error),
    };
    return cmocka_run_group_tests(tests, make_model, NULL);
}
