/* The options: values arrive by command line, environment and default in that order; whatever cannot be is
 * refused with its name, its value and what would be right; the table itself is sound.
 */
#include "base/options.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/options_table.h"

static const char *const NOTHING[] = { NULL };

#define ARGV(...)                                                                                            \
    (int)(sizeof((const char *[]) { __VA_ARGS__ }) / sizeof(char *)), (const char *[])                       \
    {                                                                                                        \
        __VA_ARGS__                                                                                          \
    }
#define ENVIRONMENT(...)                                                                                     \
    (const char *const[])                                                                                    \
    {                                                                                                        \
        __VA_ARGS__, NULL                                                                                    \
    }

static options parsed(command c, int argc, const char *const *argv, const char *const *environment)
{
    options o;
    foray_error err = { .text = "" };
    if (options_parse(c, argc, argv, environment, &o, &err) != FORAY_OK)
        fail_msg("refused: %s", err.text);
    return o;
}

static void assert_refused(command c, int argc, const char *const *argv, const char *const *environment,
                           const char *text)
{
    options o;
    foray_error err;
    int64_t blocks = mem_get_stats().blocks;
    assert_int_equal(options_parse(c, argc, argv, environment, &o, &err), FORAY_EUSAGE);
    assert_string_equal(err.text, text);
    assert_int_equal(mem_get_stats().blocks, blocks);
}

static void every_spelling_of_an_option_is_read(void **state)
{
    (void)state;
    options o = parsed(COMMAND_RUN,
                       ARGV("-m", "a.gguf", "--prompt=x=y", "-n64", "--temp", "0.5", "--stop", "a", "-q",
                            "--stop=b", "-s", "18446744073709551615", "--spec-budget", "3", "--raw"),
                       NOTHING);
    assert_string_equal(options_string(&o, OPT_MODEL), "a.gguf");
    assert_string_equal(options_string(&o, OPT_PROMPT), "x=y");
    assert_int_equal(options_int(&o, OPT_MAX_TOKENS), 64);
    assert_true(options_float(&o, OPT_TEMP) == 0.5);
    assert_true(options_flag(&o, OPT_QUIET));
    assert_true(options_flag(&o, OPT_RAW));
    assert_false(options_flag(&o, OPT_JSON));
    assert_true(options_seed(&o, OPT_SEED) == UINT64_MAX);
    assert_int_equal(options_int(&o, OPT_SPEC_BUDGET), 3);
    size_t count;
    const char *const *stops = options_strings(&o, OPT_STOP, &count);
    assert_int_equal(count, 2);
    assert_string_equal(stops[0], "a");
    assert_string_equal(stops[1], "b");
    options_free(&o);
}

static void a_letter_means_what_its_command_says(void **state)
{
    (void)state;
    options o = parsed(COMMAND_BENCH, ARGV("-p", "512,1024", "-n", "0", "-pg", "64,16", "-pg", "8,4", "-d16"),
                       NOTHING);
    size_t count;
    const int64_t *ints = options_ints(&o, OPT_N_PROMPT, &count);
    assert_int_equal(count, 2);
    assert_int_equal(ints[0], 512);
    assert_int_equal(ints[1], 1024);
    ints = options_ints(&o, OPT_PG, &count);
    assert_int_equal(count, 4);
    assert_int_equal(ints[2], 8);
    ints = options_ints(&o, OPT_N_DEPTH, &count);
    assert_int_equal(count, 1);
    assert_int_equal(ints[0], 16);
    options_free(&o);

    o = parsed(COMMAND_INSPECT, ARGV("--graph", "x.gguf"), ENVIRONMENT("FORAY_GRAPH=off"));
    assert_true(options_flag(&o, OPT_INSPECT_GRAPH));
    assert_int_equal(o.operand_count, 1);
    assert_string_equal(o.operands[0], "x.gguf");
    options_free(&o);
}

static void the_command_line_beats_the_environment_beats_the_default(void **state)
{
    (void)state;
    options o = parsed(COMMAND_RUN, ARGV("-t", "3"),
                       ENVIRONMENT("FORAY_THREADS=2", "FORAY_SPEC_TOKENS=5", "HOME=/", "FORAYS=1"));
    assert_int_equal(options_int(&o, OPT_THREADS), 3);
    assert_int_equal(options_int(&o, OPT_SPEC_TOKENS), 5);
    assert_true(options_has(&o, OPT_SPEC_TOKENS));
    assert_int_equal(options_int(&o, OPT_SPEC_BUDGET), 0);
    assert_false(options_has(&o, OPT_SPEC_BUDGET));
    assert_string_equal(options_string(&o, OPT_SPEC), "auto");
    options_free(&o);

    /* A word on the command line undoes the environment; so does "off" for a flag. */
    o = parsed(COMMAND_RUN, ARGV("--spec-tokens=auto", "--json=off"),
               ENVIRONMENT("FORAY_SPEC_TOKENS=5", "FORAY_JSON=1"));
    assert_false(options_has(&o, OPT_SPEC_TOKENS));
    assert_int_equal(options_int(&o, OPT_SPEC_TOKENS), 0);
    assert_false(options_flag(&o, OPT_JSON));
    options_free(&o);

    /* Lists are replaced, not joined, across sources. */
    o = parsed(COMMAND_BENCH, ARGV("--rows", "4"), ENVIRONMENT("FORAY_ROWS=1,2"));
    size_t count;
    assert_int_equal(options_ints(&o, OPT_ROWS, &count)[0], 4);
    assert_int_equal(count, 1);
    options_free(&o);
}

static void every_twin_sets_its_option(void **state)
{
    (void)state;
    for (int c = 0; c < COMMAND_COUNT; c++) {
        for (int id = 0; id < OPT_COUNT; id++) {
            const option_row *r = &option_rows[id];
            if (!options_table_takes((command)c, id) || r->no_twin)
                continue;
            char entry[128], name[64];
            size_t n = 0;
            for (const char *p = r->name; *p != '\0'; p++)
                name[n++] = (char)(*p == '-' ? '_' : *p - 'a' + 'A');
            name[n] = '\0';
            const char *value = r->kind == KIND_FLAG     ? "yes"
                                : r->kind == KIND_CHOICE ? NULL
                                : r->group == 2          ? "1,1"
                                                         : "1";
            snprintf(entry, sizeof entry, "FORAY_%s=%s", name, value != NULL ? value : "");
            if (value == NULL)
                snprintf(entry + strlen(entry), 32, "%.*s", (int)strcspn(r->choices, "|"), r->choices);
            const char *operand[] = { "x" };
            options o = parsed((command)c, (option_commands[c].operands > 0), operand, ENVIRONMENT(entry));
            assert_int_equal(o.value[id].source, OPTION_FROM_ENVIRONMENT);
            options_free(&o);
        }
    }
}

static void an_unknown_name_is_answered_with_the_nearest(void **state)
{
    (void)state;
    assert_refused(COMMAND_RUN, ARGV("--thread", "2"), NOTHING,
                   "--thread: unknown option of foray run (the nearest is --threads; --help lists them)");
    assert_refused(COMMAND_RUN, ARGV("--sepc=off"), NOTHING,
                   "--sepc: unknown option of foray run (the nearest is --spec; --help lists them)");
    assert_refused(COMMAND_RUN, ARGV("--rows", "1"), NOTHING,
                   "--rows: an option of foray bench, not of foray run");
    assert_refused(COMMAND_RUN, ARGV("-pg", "1,2"), ENVIRONMENT("FORAY_TOP_KK=1"),
                   "FORAY_TOP_KK: unknown variable in the environment (the nearest is FORAY_TOP_K)");
    assert_refused(COMMAND_MODEL, ARGV("nano"), ENVIRONMENT("FORAY_TREADS=1"),
                   "FORAY_TREADS: unknown variable in the environment (the nearest is FORAY_THREADS)");
    assert_refused(COMMAND_RUN, ARGV("-x"), NOTHING,
                   "-x: unknown option of foray run (the nearest is --raw; --help lists them)");
    command c;
    foray_error err;
    assert_int_equal(options_command("rnu", &c, &err), FORAY_EUSAGE);
    assert_string_equal(err.text, "rnu: no such command (the nearest is run; foray --help lists them)");
    assert_int_equal(options_command("inspect", &c, &err), FORAY_OK);
    assert_int_equal(c, COMMAND_INSPECT);
}

static void a_value_out_of_range_is_named_with_its_range(void **state)
{
    (void)state;
    assert_refused(COMMAND_RUN, ARGV("-t", "0"), NOTHING,
                   "--threads: 0: not a whole number from 1 to 64 or auto");
    assert_refused(COMMAND_RUN, ARGV(), ENVIRONMENT("FORAY_THREADS=lots"),
                   "FORAY_THREADS: lots: not a whole number from 1 to 64 or auto");
    assert_refused(COMMAND_RUN, ARGV("--top-p", "1.5"), NOTHING,
                   "--top-p: 1.5: not a number from 0 to 1 or model");
    assert_refused(COMMAND_RUN, ARGV("--spec", "eagle"), NOTHING,
                   "--spec: eagle: not one of auto|off|ngram|nextn|draft");
    assert_refused(COMMAND_RUN, ARGV("-s", "-1"), NOTHING,
                   "--seed: -1: not a seed (0 … 18446744073709551615 or random)");
    assert_refused(COMMAND_RUN, ARGV("--json=maybe"), NOTHING, "--json: maybe: neither on nor off");
    assert_refused(COMMAND_RUN, ARGV("--stop", ""), NOTHING, "--stop: an empty text");
    assert_refused(COMMAND_RUN, ARGV("-m"), NOTHING, "--model: needs a value (MODEL)");
    assert_refused(COMMAND_BENCH, ARGV("-pg", "1,2,3"), NOTHING,
                   "--pg: 1,2,3: not 2 whole numbers with commas between (each 0 … 16777216)");
    assert_refused(COMMAND_BENCH, ARGV("-p", "1,,2"), NOTHING,
                   "--n-prompt: 1,,2: not a list of whole numbers from 0 to 16777216");
    static const char *const not_numbers[] = { "nan", "inf", "0x10", "",      " 1",
                                               "1 ",  "1e",  "--1",  "1.5.2", "99999999999999999999" };
    for (size_t i = 0; i < sizeof not_numbers / sizeof *not_numbers; i++) {
        foray_error err;
        options o;
        assert_int_equal(options_parse(COMMAND_RUN, ARGV("--temp", not_numbers[i]), NOTHING, &o, &err),
                         FORAY_EUSAGE);
        assert_int_equal(options_parse(COMMAND_RUN, ARGV("--top-k", not_numbers[i]), NOTHING, &o, &err),
                         FORAY_EUSAGE);
    }
}

static void what_excludes_each_other_is_refused_at_one_level_only(void **state)
{
    (void)state;
    assert_refused(COMMAND_RUN, ARGV("-p", "a", "-f", "b"), NOTHING,
                   "--prompt and --file exclude each other: give one of them");
    options o = parsed(COMMAND_RUN, ARGV("-f", "b"), ENVIRONMENT("FORAY_PROMPT=a"));
    assert_null(options_string(&o, OPT_PROMPT));
    assert_string_equal(options_string(&o, OPT_FILE), "b");
    options_free(&o);
    assert_refused(COMMAND_RUN, ARGV("x"), NOTHING, "x: not an option, and foray run takes no operand");
    assert_refused(COMMAND_INSPECT, ARGV(), NOTHING, "foray inspect: say which: foray inspect FILE");
    o = parsed(COMMAND_INSPECT, ARGV("--", "-odd-name"), NOTHING);
    assert_string_equal(o.operands[0], "-odd-name");
    options_free(&o);
}

static void help_wins_over_everything_else(void **state)
{
    (void)state;
    options o = parsed(COMMAND_INSPECT, ARGV("--nonsense", "-h"), ENVIRONMENT("FORAY_NONSENSE=1"));
    assert_true(options_flag(&o, OPT_HELP));
    options_free(&o);
}

static void memory_that_runs_out_is_an_error(void **state)
{
    (void)state;
    int64_t blocks = mem_get_stats().blocks;
    for (int n = 1; n < 3; n++) {
        options o;
        foray_error err;
        mem_fail_nth(n, true);
        int code = options_parse(COMMAND_RUN, ARGV("--stop", "a"), NOTHING, &o, &err);
        mem_fail_nth(0, false);
        if (code == FORAY_OK)
            options_free(&o);
        else
            assert_int_equal(code, FORAY_ENOMEM);
        assert_true(n > 1 || code != FORAY_OK);
        assert_int_equal(mem_get_stats().blocks, blocks);
    }
}

/* What the parser takes for granted about the rows. */
static void the_table_is_sound(void **state)
{
    (void)state;
    for (int id = 0; id < OPT_COUNT; id++) {
        const option_row *r = &option_rows[id];
        assert_non_null(r->name);
        assert_non_null(r->help);
        assert_true(r->commands != 0);
        assert_true(r->kind == KIND_FLAG || r->argument != NULL);
        assert_true((r->kind == KIND_CHOICE) == (r->choices != NULL));
        if (r->kind == KIND_INT)
            assert_true(r->low >= INT_MIN && r->high <= INT_MAX);
        for (int other = 0; other < id; other++) {
            const option_row *s = &option_rows[other];
            if ((r->commands & s->commands) != 0) {
                assert_string_not_equal(r->name, s->name);
                assert_true(r->letter == NULL || s->letter == NULL || strcmp(r->letter, s->letter) != 0);
            }
            /* a variable belongs to one row */
            assert_true(r->no_twin || s->no_twin || strcmp(r->name, s->name) != 0);
        }
        /* A default reads like a value that a user wrote. */
        for (int c = 0; c < COMMAND_COUNT; c++) {
            if (!options_table_takes((command)c, id) || r->fallback == NULL)
                continue;
            char argument[128];
            const char *argv[] = { argument, "x" };
            snprintf(argument, sizeof argument, "--%s=%s", r->name, r->fallback);
            options o = parsed((command)c, 1 + (option_commands[c].operands > 0), argv, NOTHING);
            options_free(&o);
        }
    }
}

static void help_docs_and_manifest_list_every_option(void **state)
{
    (void)state;
    buf docs = { 0 };
    options_markdown(&docs);
    for (int c = 0; c < COMMAND_COUNT; c++) {
        const char *operand[] = { "x" };
        options o = parsed((command)c, (option_commands[c].operands > 0), operand, NOTHING);
        const char *names[OPT_COUNT], *values[OPT_COUNT];
        size_t listed = options_list(&o, names, values), taken = 0;
        buf help = { 0 };
        options_help((command)c, &help);
        for (int id = 0; id < OPT_COUNT; id++) {
            if (!options_table_takes((command)c, id))
                continue;
            char name[64];
            snprintf(name, sizeof name, "--%s", option_rows[id].name);
            assert_non_null(strstr(help.data, name));
            assert_non_null(strstr(docs.data, name));
            taken += id != OPT_HELP;
        }
        assert_int_equal(listed, taken);
        for (size_t i = 0; i < listed; i++)
            assert_non_null(values[i]);
        /* No line is wider than a terminal, except for one word that is. */
        for (const char *line = help.data; *line != '\0';) {
            size_t length = strcspn(line, "\n");
            assert_true(length < 100);
            line += length + (line[length] == '\n');
        }
        buf_free(&help);
        options_free(&o);
    }
    buf_free(&docs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_spelling_of_an_option_is_read),
        cmocka_unit_test(a_letter_means_what_its_command_says),
        cmocka_unit_test(the_command_line_beats_the_environment_beats_the_default),
        cmocka_unit_test(every_twin_sets_its_option),
        cmocka_unit_test(an_unknown_name_is_answered_with_the_nearest),
        cmocka_unit_test(a_value_out_of_range_is_named_with_its_range),
        cmocka_unit_test(what_excludes_each_other_is_refused_at_one_level_only),
        cmocka_unit_test(help_wins_over_everything_else),
        cmocka_unit_test(memory_that_runs_out_is_an_error),
        cmocka_unit_test(the_table_is_sound),
        cmocka_unit_test(help_docs_and_manifest_list_every_option),
    };
    return cmocka_run_group_tests_name("options", tests, NULL, NULL);
}
