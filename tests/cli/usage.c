/* usage.c: what the program does with wrong usage: exit status, one line, the nearest name.
 *
 * Needs no model. Anything that the program prints on stdout here would be a fault.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "support/cli_program.h"

#define RUN(setting, ...) cli_run((const char *const[]) { __VA_ARGS__, NULL }, NULL, setting)

static size_t lines(const buf *b)
{
    size_t n = 0;
    for (size_t i = 0; i < b->len; i++)
        n += b->data[i] == '\n';
    return n;
}

/* Status, one line on stderr that holds text, and nothing on stdout. */
static void assert_refused(cli_result r, int status, const char *text)
{
    cli_assert_says(&r, status, text);
    assert_int_equal(lines(&r.err), 1);
    assert_int_equal(r.out.len, 0);
    cli_free(&r);
}

static void unknown_names_are_refused_with_the_nearest(void **state)
{
    (void)state;
    assert_refused(RUN(NULL, "rum"), 2, "run");
    assert_refused(RUN(NULL, "run", "--thread", "2"), 2, "--threads");
    assert_refused(RUN(NULL, "run", "--spec", "ngran"), 2, "ngram");
    assert_refused(RUN("FORAY_THREAD=2", "run", "-p", "x"), 2, "FORAY_THREADS");
}

static void values_out_of_range_are_refused_by_name(void **state)
{
    (void)state;
    assert_refused(RUN(NULL, "run", "-n", "many", "-p", "x"), 2, "many");
    assert_refused(RUN(NULL, "run", "--top-p", "1.5", "-p", "x"), 2, "--top-p");
    assert_refused(RUN("FORAY_TEMP=-1", "run", "-p", "x"), 2, "FORAY_TEMP");
    assert_refused(RUN(NULL, "run", "-p"), 2, "-p");
}

static void a_known_model_is_asked_for_by_name(void **state)
{
    (void)state;
    assert_refused(RUN(NULL, "model", "smollm3"), 2, "smollm2");
    assert_refused(RUN(NULL, "model", "smollm2", "more"), 2, "more");
}

static void a_built_in_model_is_found_beside_the_program(void **state)
{
    (void)state;
    cli_result all = RUN(NULL, "model"), one = RUN(NULL, "model", "nano"),
               shown = RUN(NULL, "inspect", "nano");
    assert_int_equal(all.status, 0);
    assert_non_null(strstr(all.out.data, "smollm2   not obtained yet"));
    assert_non_null(strstr(all.out.data, "nano      built in: /"));
    assert_int_equal(one.status, 0);
    assert_non_null(strstr(all.out.data, one.out.data)); /* the same path, to the end of its line */
    assert_int_equal(one.err.len, 0);
    assert_int_equal(shown.status, 0);
    assert_non_null(strstr(shown.out.data, "bpe/deepseek-v3"));
    cli_free(&all);
    cli_free(&one);
    cli_free(&shown);
}

static void help_is_an_answer_and_no_command_is_wrong_usage(void **state)
{
    (void)state;
    cli_result asked = RUN(NULL, "help"), command = RUN(NULL, "run", "--help"), none = RUN(NULL, NULL);
    assert_int_equal(asked.status, 0);
    assert_non_null(strstr(asked.out.data, "inspect"));
    assert_int_equal(asked.err.len, 0);
    assert_int_equal(command.status, 0);
    assert_non_null(strstr(command.out.data, "--spec-tokens"));
    assert_int_equal(none.status, 2);
    assert_int_equal(none.out.len, 0);
    assert_string_equal(none.err.data, asked.out.data);
    cli_free(&asked);
    cli_free(&command);
    cli_free(&none);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unknown_names_are_refused_with_the_nearest),
        cmocka_unit_test(values_out_of_range_are_refused_by_name),
        cmocka_unit_test(a_known_model_is_asked_for_by_name),
        cmocka_unit_test(a_built_in_model_is_found_beside_the_program),
        cmocka_unit_test(help_is_an_answer_and_no_command_is_wrong_usage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
