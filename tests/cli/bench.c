/* bench.c: `foray bench` as a script meets it: the fields of every row, and what cannot be measured. No test here looks
 * at a time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "support/cli_program.h"
#include "support/tiny.h"

#define RUN(setting, ...) cli_run((const char *const[]) { __VA_ARGS__, NULL }, NULL, setting)

static char model[512];

static int make_model(void **state)
{
    (void)state;
    tiny_spec spec = tiny_default();
    snprintf(model, sizeof model, "%s", tiny_gguf(&spec));
    return 0;
}

static void assert_refused(cli_result r, int status, const char *text)
{
    cli_assert_says(&r, status, text);
    assert_int_equal(r.out.len, 0);
    cli_free(&r);
}

/* The row of a test, which must be there. */
static json_t *row(json_t *rows, const char *test)
{
    size_t i;
    json_t *r;
    json_array_foreach(rows, i,
                       r) if (strcmp(json_string_value(json_object_get(r, "test")), test) == 0) return r;
    fail_msg("there is no row %s", test);
    return NULL;
}

static double number(const json_t *o, const char *key)
{
    json_t *value = json_object_get(o, key);
    if (!json_is_number(value))
        fail_msg("%s is missing or no number", key);
    return json_number_value(value);
}

static void every_row_has_the_documented_fields(void **state)
{
    (void)state;
    static const char *const texts[] = { "test",    "isa",      "commit",         "build_commit",
                                         "machine", "cpu_info", "model_filename", "model_type" };
    static const char *const numbers[] = { "n_prompt",        "n_gen",     "n_depth",       "n_rows",
                                           "n_requests",      "avg_ns",    "stddev_ns",     "avg_ts",
                                           "stddev_ts",       "ms_median", "bytes_touched", "read_bandwidth",
                                           "bandwidth_share", "threads",   "n_threads",     "model_size",
                                           "model_n_params" };
    static const char *const lists[] = { "samples_ns", "samples_ts", "ms_samples" };
    cli_result r = RUN(NULL, "bench", "-m", model, "-p", "8", "-n", "4", "-pg", "6,3", "-r", "2", "--rows",
                       "4,1", "--spec", "off", "--roofline", "-o", "json");
    if (r.status)
        fail_msg("status %d: %s", r.status, r.err.data);
    json_t *rows = json_loadb(r.out.data, r.out.len, 0, NULL), *one;
    size_t i, kernels = 0, phases = 0;
    assert_true(json_is_array(rows));
    json_array_foreach(rows, i, one)
    {
        for (size_t k = 0; k < sizeof texts / sizeof *texts; k++)
            assert_true(json_is_string(json_object_get(one, texts[k])));
        if (strncmp(json_string_value(json_object_get(one, "test")), "roofline ", 9) == 0) {
            kernels++;
            continue;
        }
        if (strncmp(json_string_value(json_object_get(one, "test")), "round", 5) == 0) {
            phases++;
            continue;
        }
        for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++)
            (void)number(one, numbers[k]);
        for (size_t k = 0; k < sizeof lists / sizeof *lists; k++)
            assert_true(json_array_size(json_object_get(one, lists[k])) > 0);
    }
    assert_true(number(row(rows, "pp8"), "n_prompt") == 8);
    assert_true(number(row(rows, "tg4"), "n_gen") == 4);
    assert_true(number(row(rows, "pg9"), "n_gen") == 3);
    assert_true(number(row(rows, "verify4"), "n_rows") == 4);
    assert_true(number(row(rows, "verify4"), "ratio") > 0);
    assert_true(number(row(rows, "load"), "peak_bytes") > 0);
    assert_true(number(row(rows, "load"), "packed_bytes") > 0);
    assert_true(number(row(rows, "roofline matmul"), "calls_per_round") > 0);
    assert_true(kernels > 3 && phases > 3);
    json_decref(rows);
    cli_free(&r);
}

static void speculation_is_measured_against_the_same_text(void **state)
{
    (void)state;
    tiny_spec spec = tiny_default();
    spec.context = 2048;
    cli_result r = RUN(NULL, "bench", "-m", tiny_gguf(&spec), "-p", "0", "-n", "0", "-r", "1", "-o", "json");
    if (r.status)
        fail_msg("status %d: %s", r.status, r.err.data);
    json_t *rows = json_loadb(r.out.data, r.out.len, 0, NULL), *edit = row(rows, "sd edit ngram");
    assert_true(json_is_true(json_object_get(edit, "same_text")));
    assert_true(number(edit, "mean_acceptance_length") >= 1);
    assert_true(json_is_number(json_object_get(edit, "net_ms_saved")));
    json_decref(rows);
    cli_free(&r);
}

/* Rows that begin with "round ": their sum of a field. */
static double sum_over_phases(json_t *rows, const char *key)
{
    json_t *one;
    size_t i;
    double sum = 0;
    json_array_foreach(rows, i, one)
    {
        if (strncmp(json_string_value(json_object_get(one, "test")), "round ", 6) == 0)
            sum += number(one, key);
    }
    return sum;
}

static json_t *account_of(const char *path, const char *requests, const char *spec, const char *budget)
{
    cli_result r = RUN(NULL, "bench", "-m", path, "-p", "0", "-n", "0", "-r", "2", "-t", "1", "--requests",
                       requests, "--spec", spec, "--spec-budget", budget, "-o", "json");
    if (r.status)
        fail_msg("status %d: %s", r.status, r.err.data);
    json_t *rows = json_loadb(r.out.data, r.out.len, 0, NULL);
    cli_free(&r);
    return rows;
}

/* Every request gets 64 tokens, the first of them from its prompt. */
static void the_account_of_a_round_holds_every_round_and_all_of_it(void **state)
{
    (void)state;
    tiny_spec spec = tiny_default();
    spec.context = 2048;
    const char *path = tiny_gguf(&spec);
    for (int drafts = 0; drafts < 2; drafts++) {
        json_t *rows = account_of(path, "3", drafts ? "ngram" : "off", drafts ? "2" : "auto");
        json_t *whole = row(rows, "round"),
               *forward = row(rows, drafts ? "round target_verify" : "round decode");
        assert_true(json_is_true(json_object_get(whole, "sums_exactly")));
        assert_true(json_is_array(json_object_get(whole, "waits")));
        assert_string_equal(json_string_value(json_object_get(whole, "spec")), drafts ? "ngram" : "off");
        const double steps = number(whole, "steps"), length = number(whole, "mean_acceptance_length");
        assert_true(number(whole, "unseen_steps") == 0);
        assert_true(number(whole, "prompt_steps") >= 2 * 3);
        assert_true(number(whole, "warm_steps") > 0);
        const double tokens = steps * number(whole, "requests_per_step") * length;
        assert_true(tokens > 2 * 3 * 63 - .01 && tokens < 2 * 3 * 63 + .01);
        assert_true(drafts || length == 1);
        assert_true(number(whole, "rows_launched") >= number(whole, "rows_live"));
        const double share = sum_over_phases(rows, "share"), ms = sum_over_phases(rows, "ms_mean_per_step");
        assert_true(share > .999999 && share < 1.000001);
        assert_true(ms > .999999 * number(whole, "ms_mean") && ms < 1.000001 * number(whole, "ms_mean"));
        assert_true(number(forward, "runs") > 0 && number(forward, "runs") == number(forward, "replays"));
        assert_true(sum_over_phases(rows, "runs") == steps);
        json_decref(rows);
    }
}

static void the_account_of_a_round_stands_in_every_form(void **state)
{
    (void)state;
    cli_result r = RUN(NULL, "bench", "-m", model, "-p", "0", "-n", "0", "-r", "1", "-t", "1", "--spec",
                       "off", "--graph", "off");
    assert_int_equal(r.status, 0);
    assert_non_null(strstr(r.out.data, "a round of up to 1 request, speculation off: 63 rounds"));
    assert_non_null(strstr(r.out.data, "sum to the wall of the round in each of the 63"));
    assert_non_null(strstr(r.out.data, "| 0 of 63 (0.0 %) |"));
    cli_free(&r);
    r = RUN(NULL, "bench", "-m", model, "-p", "0", "-n", "0", "-r", "1", "-t", "1", "--spec", "off", "-o",
            "csv");
    assert_int_equal(r.status, 0);
    size_t commas = 0;
    for (const char *line = r.out.data, *end; (end = strchr(line, '\n')); line = end + 1) {
        size_t n = 0;
        for (const char *c = line; c < end; c++)
            n += *c == ',';
        commas = line == r.out.data ? n : commas;
        assert_true(n >= commas); /* a machine's name may hold some */
    }
    assert_non_null(strstr(r.out.data, "\"round decode\",,,,,1,63,"));
    cli_free(&r);
    r = RUN(NULL, "bench", "-m", model, "-p", "0", "-n", "0", "-r", "1", "-t", "1", "--spec", "off", "-c",
            "64");
    assert_int_equal(r.status, 0);
    assert_non_null(strstr(r.err.data, "no account of a round"));
    cli_free(&r);
}

/* A torture build reads prompts in pieces: the first of several short answers ends before the last begins. */
#ifdef FORAY_TORTURE
#define AT_ONCE "1"
#else
#define AT_ONCE "3"
#endif

/* All settings of a table run over the same texts, on few tokens. */
static void the_speed_table_has_a_row_for_each_class(void **state)
{
    (void)state;
    tiny_spec spec = tiny_default();
    spec.context = 2048;
    const char *path = tiny_gguf(&spec);
    cli_result r = RUN(NULL, "bench", "-m", path, "--spec-table", "-r", "1", "-n", "6", "-t", "1",
                       "--requests", AT_ONCE, "--spec-tokens", "3", "--spec", "ngram", "-p", "8");
    assert_int_equal(r.status, 0);
    assert_non_null(strstr(r.err.data, "--n-prompt has no effect"));
    assert_non_null(strstr(r.out.data, "ngram, " AT_ONCE " request"));
    assert_non_null(strstr(r.out.data, " at once, answers of at most 6 tokens, 5 blocks"));
    assert_non_null(strstr(r.out.data, "| class | plain, tokens/s | K 1 | K 2 | K 3 | best K"));
    static const char *const kinds[] = { "\n| edit |", "\n| prose |", "\n| list |", "\n| code |" };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        assert_non_null(strstr(r.out.data, kinds[i]));
    assert_null(strstr(r.out.data, "TEXTS DIFFER"));
    assert_non_null(strstr(r.out.data, " of 4 rows within both"));
    cli_free(&r);
    assert_refused(RUN(NULL, "bench", "-m", path, "--spec-table", "--spec", "off"), 2, "--spec off");
    assert_refused(RUN(NULL, "bench", "-m", path, "--spec-table", "--spec-budget", "2"), 2, "--spec-budget");
    assert_refused(RUN(NULL, "bench", "-m", path, "--spec-table", "--requests", "9"), 2, "--requests");
    assert_refused(RUN(NULL, "bench", "-m", path, "--spec-table", "-n", "8,9"), 2, "--n-gen");
    assert_refused(RUN(NULL, "bench", "-m", path, "--spec-table", "-o", "csv"), 2, "-o md");
    assert_refused(RUN(NULL, "bench", "-m", path, "--spec-table", "-c", "64"), 1, "the context holds 64");
}

static void two_sets_of_options_are_compared_on_equal_texts(void **state)
{
    (void)state;
    tiny_spec spec = tiny_default();
    spec.context = 2048;
    const char *path = tiny_gguf(&spec);
    cli_result r = RUN(NULL, "bench", "-m", path, "-r", "1", "-t", "1", "--ab", "--spec off", "--ab",
                       "--spec ngram --spec-budget 2");
    assert_int_equal(r.status, 0);
    assert_non_null(strstr(r.out.data, "--spec: off, ngram"));
    assert_non_null(strstr(r.out.data, "--spec-budget: auto, 2"));
    assert_non_null(strstr(r.out.data, "texts equal in 20 of 20 pairs"));
    assert_null(strstr(r.out.data, "--threads"));
    cli_free(&r);
    r = RUN(NULL, "bench", "-m", path, "-r", "1", "-t", "1", "--spec", "off", "--ab", "--graph off", "--ab",
            "");
    assert_refused(r, 2, "--ab");
    r = RUN(NULL, "bench", "-m", path, "-r", "1", "--ab", "--spec off");
    assert_refused(r, 2, "--ab: give it twice");
    r = RUN(NULL, "bench", "-m", path, "-r", "1", "--ab", "--spec off", "--ab", "--sepc off");
    assert_refused(r, 2, "--sepc");
}

/* What the two sides share stands beside --ab; what --ab does not use is said. */
static void a_side_changes_nothing_that_both_share(void **state)
{
    (void)state;
    static const char *const shared[] = { "--help", "--ab=x",  "--requests 2", "-r 2",       "-n 8",   "-p 8",
                                          "-d 8",   "-pg 8,8", "--rows 1,2",   "--roofline", "-o json" };
    for (size_t i = 0; i < sizeof shared / sizeof *shared; i++) {
        char side[64];
        snprintf(side, sizeof side, "--spec off %s", shared[i]);
        assert_refused(RUN(NULL, "bench", "-m", model, "-r", "1", "--ab", side, "--ab", "--spec off"), 2,
                       "cannot be an option of one side");
    }
    static const char *const lengths[] = { "0", "1", "4097", "8,16" };
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        assert_refused(
            RUN(NULL, "bench", "-m", model, "-n", lengths[i], "--ab", "--spec off", "--ab", "-t 1"), 2,
            "--n-gen");
    assert_refused(RUN(NULL, "bench", "-m", model, "-n", "460", "--ab", "--spec off", "--ab", "-t 1"), 1,
                   "lower -n");
    tiny_spec spec = tiny_default();
    spec.context = 2048;
    cli_result r = RUN(NULL, "bench", "-m", tiny_gguf(&spec), "-r", "1", "-n", "2", "-o", "json", "--pg",
                       "8,8", "--ab", "--spec off", "--ab", "--spec off");
    assert_int_equal(r.status, 0);
    assert_non_null(strstr(r.err.data, "--output has no effect"));
    assert_non_null(strstr(r.err.data, "--pg has no effect"));
    assert_null(strstr(r.err.data, "--n-gen"));
    cli_free(&r);
}

static void what_cannot_be_measured_is_refused_by_name(void **state)
{
    (void)state;
    assert_refused(RUN(NULL, "bench", "-m", model, "-p", "0", "-n", "512", "--spec", "off"), 1,
                   "--n-gen 512");
    assert_refused(RUN(NULL, "bench", "-m", model, "-p", "500", "-d", "100"), 1, "--n-depth 100");
    assert_refused(RUN(NULL, "bench", "-m", model, "-p", "0", "-n", "0", "-pg", "500,20"), 1, "--pg 500");
    assert_refused(RUN(NULL, "bench", "-m", model, "--rows", "2,4,2"), 2, "--rows");
    assert_refused(RUN(NULL, "bench", "-m", model, "--rows", "17"), 2, "--rows");
    assert_refused(RUN(NULL, "bench", "-m", model, "--roofline", "-o", "csv"), 2, "--roofline");
}

static void the_longest_generation_that_fits_is_measured(void **state)
{
    (void)state;
    cli_result r = RUN(NULL, "bench", "-m", model, "-p", "0", "-n", "510", "-r", "1", "--spec", "off",
                       "--spec-tokens", "3", "-o", "jsonl");
    assert_int_equal(r.status, 0);
    assert_non_null(strstr(r.out.data, "\"n_gen\":510,"));
    assert_non_null(strstr(r.err.data, "--spec-tokens has no effect"));
    cli_free(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_has_the_documented_fields),
        cmocka_unit_test(speculation_is_measured_against_the_same_text),
        cmocka_unit_test(the_account_of_a_round_holds_every_round_and_all_of_it),
        cmocka_unit_test(the_account_of_a_round_stands_in_every_form),
        cmocka_unit_test(the_speed_table_has_a_row_for_each_class),
        cmocka_unit_test(two_sets_of_options_are_compared_on_equal_texts),
        cmocka_unit_test(a_side_changes_nothing_that_both_share),
        cmocka_unit_test(what_cannot_be_measured_is_refused_by_name),
        cmocka_unit_test(the_longest_generation_that_fits_is_measured),
    };
    return cmocka_run_group_tests(tests, make_model, NULL);
}
