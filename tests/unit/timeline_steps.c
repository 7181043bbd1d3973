/* Files of step records as servers and accidents write them: numbers that no step can have, lines that are no JSON, an end in the
 * middle, the same records twice. What is left out is counted with its place; no sum holds what cannot be.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "timeline/steps_file.h"

#define GOOD                                                                                                 \
    "{\"forward_ct\":1,\"bs\":2,\"kind\":\"decode\",\"wall_ns\":1000,\"phases_ns\":{\"draft\":10},"          \
    "\"waits\":[{\"stream\":\"main\",\"event\":\"kv\",\"from\":\"kv\",\"joins\":31,\"waited_ns\":5300}],"    \
    "\"waits_left_out\":0}\n"

static int opened(steps_file *f, const char *text, foray_error *err)
{
    *f = (steps_file) { 0 };
    char *exact = malloc(strlen(text) + 1); /* exactly as long as the text, for the sanitizers */
    memcpy(exact, text, strlen(text));
    int rc = steps_file_read(f, "s.jsonl", exact, strlen(text), err);
    free(exact);
    return rc;
}

static void numbers_that_no_step_can_have_leave_their_record_out(void **state)
{
    (void)state;
    static const char *const unfit[] = {
        "\"wall_ns\":9223372036854775808",
        "\"wall_ns\":9223372036854775807",
        "\"wall_ns\":-1000",
        "\"wall_ns\":\"1000\"",
        "\"wall_ns\":1e3",
        "\"wall_ns\":86400000000001",
        "\"step_cpu_ms\":-9.4",
        "\"step_gpu_ms\":1e300",
        "\"draft_gpu_ms\":true",
        "\"target_verify_gpu_ms\":-0.1",
        "\"bs\":-2",
        "\"bs\":4294967298",
        "\"num_verify_tokens\":18446744073709551616",
        "\"rank\":-7",
        "\"reqs\":[{\"acc_len\":3},{\"acc_len\":9223372036854775807}]",
        "\"reqs\":[{\"acc_len\":-3}]",
        "\"wall_ns\":100,\"phases_ns\":{\"draft\":60,\"target_verify\":50}",
        "\"wall_ns\":100,\"phases_ns\":{\"draft\":-60}",
        "\"forward_ct\":-4",
        "\"forward_ct\":9223372036854775808",
        "\"forward_ct\":null",
    };
    for (size_t i = 0; i < sizeof unfit / sizeof *unfit; i++) {
        char text[512];
        steps_file f;
        foray_error err;
        bool numbered = strncmp(unfit[i], "\"forward_ct\"", 12) == 0;
        snprintf(text, sizeof text, GOOD "\n{%s%s}\n", numbered ? "" : "\"forward_ct\":2,", unfit[i]);
        if (opened(&f, text, &err) != FORAY_OK)
            fail_msg("%s: %s", unfit[i], err.text);
        if (f.count != 1 || f.files[0].unfit != 1 || f.files[0].first_unfit != 3 || f.files[0].broken != 0)
            fail_msg("%s: %zu records, %d unfit, the first on line %d", unfit[i], f.count,
                     (int)f.files[0].unfit, (int)f.files[0].first_unfit);
        steps_file_free(&f);
        snprintf(text, sizeof text,
                 "{\"internal_states\":[{\"dspark_info_record\":{\"records\":[%s%s%s}]}}]}",
                 "{\"forward_ct\":1},{", numbered ? "" : "\"forward_ct\":2,", unfit[i]);
        assert_int_equal(opened(&f, text, &err), FORAY_OK);
        assert_true(f.count == 1 && f.files[0].answer);
        assert_true(f.files[0].unfit == 1 && f.files[0].first_unfit == 2);
        steps_file_free(&f);
    }
}

static void null_and_the_largest_possible_are_no_faults(void **state)
{
    (void)state;
    steps_file f;
    foray_error err;
    assert_int_equal(opened(&f,
                            "{\"forward_ct\":0,\"bs\":null,\"wall_ns\":86400000000000,\"step_gpu_ms\":null,"
                            "\"rank\":0,\"reqs\":null,\"phases_ns\":{\"draft\":86400000000000,\"new\":-1}}",
                            &err),
                     FORAY_OK);
    assert_int_equal(f.count, 1);
    assert_int_equal(f.files[0].unfit, 0);
    assert_true(f.entries[0].requests == -1 && f.entries[0].step_ns == -1 && f.entries[0].commit_sum == -1);
    steps_file_free(&f);
}

static void broken_lines_are_counted_with_the_first(void **state)
{
    (void)state;
    steps_file f;
    foray_error err;
    assert_int_equal(opened(&f, GOOD "oops\n[1]\n{\"forward_ct\":2}\n{\"forward_ct\":3", &err), FORAY_OK);
    assert_int_equal(f.count, 2);
    assert_true(f.files[0].broken == 2 && f.files[0].first_broken == 2 && f.files[0].truncated);
    steps_file_free(&f);
}

static void a_file_without_a_record_is_refused_with_its_reason(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } cases[] = {
        { "{\"forward_ct\":1,\"wall_ns\":-1}\n", "line 1: values that no step can have" },
        { "{\"forward_ct\"\n", "line 1: no JSON object" },
        { "{\"mode\":\"compact\"}\n   \t", "no step record" },
        { "{\"internal_states\":[{\"dspark_info_record\":{\"records\":[{\"forward_ct\":-1}]}}]}",
          "record 1" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        steps_file f;
        foray_error err;
        assert_int_equal(opened(&f, cases[i].text, &err), FORAY_EFILE);
        if (strstr(err.text, cases[i].says) == NULL)
            fail_msg("'%s' gives: %s", cases[i].text, err.text);
        steps_file_free(&f);
    }
}

static void the_same_records_again_are_refused(void **state)
{
    (void)state;
    steps_file f;
    foray_error err;
    int64_t before = mem_get_stats().blocks;
    assert_int_equal(opened(&f, GOOD, &err), FORAY_OK);
    assert_int_equal(steps_file_read(&f, "again.jsonl", GOOD, strlen(GOOD), &err), FORAY_EFILE);
    assert_non_null(strstr(err.text, "again.jsonl"));
    assert_non_null(strstr(err.text, "s.jsonl once more"));
    assert_int_equal(f.count, 1);
    static const char other[] = "{\"forward_ct\":1,\"bs\":2,\"kind\":\"decode\",\"wall_ns\":1001}\n";
    assert_int_equal(steps_file_read(&f, "other.jsonl", other, strlen(other), &err), FORAY_OK);
    assert_int_equal(f.count, 2);
    steps_file_free(&f);
    assert_int_equal(mem_get_stats().blocks, before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_that_no_step_can_have_leave_their_record_out),
        cmocka_unit_test(null_and_the_largest_possible_are_no_faults),
        cmocka_unit_test(broken_lines_are_counted_with_the_first),
        cmocka_unit_test(a_file_without_a_record_is_refused_with_its_reason),
        cmocka_unit_test(the_same_records_again_are_refused),
    };
    return cmocka_run_group_tests_name("unit_timeline_steps", tests, NULL, NULL);
}
