/* Which phases replay graphs, as a user asks for it and is told: lines at the start, manifests, refusals. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/cli_program.h"
#include "support/tiny.h"

#define RUN(...) cli_run((const char *const[]) { __VA_ARGS__, NULL }, NULL, NULL)
#define ASK                                                                                                  \
    "run", "-m", model, "-p", "the cat and the dog and the cat and the", "-n", "30", "--temp", "0",          \
        "--ignore-eos"

static char model[512];

static int make_model(void **state)
{
    (void)state;
    tiny_spec spec = tiny_default();
    snprintf(model, sizeof model, "%s", tiny_gguf(&spec));
    return 0;
}

static void assert_says(cli_result r, int status, const char *text)
{
    cli_assert_says(&r, status, text);
    cli_free(&r);
}

static void the_state_of_each_phase_is_said_at_the_start(void **state)
{
    (void)state;
    assert_says(
        RUN(ASK, "--spec", "ngram"), 0,
        "graphs: decode on, verify on, draft off (ngram runs on the host), draft-extend off (ngram runs on "
        "the host), prefill eager; asked for: all; 2 captured");
    assert_says(RUN(ASK, "--spec", "off"), 0,
                "decode on, verify off (nobody drafts), draft off (nobody drafts)");
    assert_says(RUN(ASK, "--graph-phases", "verify"), 0, "decode off (--graph-phases), verify on,");
    assert_says(RUN(ASK, "--graph", "off"), 0, "decode off (--graph off), verify off (--graph off),");
}

static void what_cannot_be_is_refused_or_said(void **state)
{
    (void)state;
    assert_says(RUN(ASK, "--graph-phases", "decode,draft"), 2,
                "graphs of a drafter need those of verify (add verify, or leave draft and draft-extend out)");
    assert_says(RUN(ASK, "--graph-phases", "decode,draft-extend"), 2, "need those of verify");
    assert_says(RUN(ASK, "--graph-phases", "decode,prefill"), 2,
                "no phase 'prefill' (decode, verify, draft, draft-extend)");
    assert_says(RUN(ASK, "--graph-phases", "decode,"), 2, "no phase ''");
    assert_says(RUN(ASK, "--graph-memory", "0"), 2, "--graph-memory");
    assert_says(RUN(ASK, "--graph", "off", "--graph-phases", "decode"), 0,
                "--graph-phases has no effect: --graph is off");
    assert_says(RUN(ASK, "--graph", "off", "--graph-memory", "4"), 0,
                "--graph-memory has no effect: --graph is off");
}

/* The lines of a steps file, and the text that went with it. */
static void run_steps(const char *phases, json_t *manifest, int routes[2], char *text, size_t bytes)
{
    char path[] = "/tmp/foray-steps-XXXXXX", line[1 << 16];
    close(mkstemp(path));
    cli_result r =
        RUN(ASK, "--spec", "ngram", "--spec-budget", "3", "-q", "--graph-phases", phases, "--steps", path);
    assert_int_equal(r.status, 0);
    snprintf(text, bytes, "%s", r.out.data);
    cli_free(&r);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    for (int i = 0; fgets(line, sizeof line, f); i++) {
        json_t *j = json_loads(line, 0, NULL);
        assert_non_null(j);
        if (i == 0)
            json_object_update(manifest, j);
        const char *route = json_string_value(json_object_get(json_object_get(j, "route"), "target_verify"));
        routes[0] += route && strncmp(route, "graph:", 6) == 0;
        routes[1] += route && strcmp(route, "eager:phases") == 0;
        json_decref(j);
    }
    fclose(f);
    unlink(path);
}

static void manifests_and_steps_say_it_too(void **state)
{
    (void)state;
    char all[4096], fewer[4096];
    int replayed[2] = { 0 }, eager[2] = { 0 };
    json_t *a = json_object(), *b = json_object();
    run_steps("decode,verify", a, replayed, all, sizeof all);
    run_steps("decode", b, eager, fewer, sizeof fewer);
    assert_string_equal(all, fewer);
    assert_true(replayed[0] > 3 && replayed[1] == 0);
    assert_true(eager[0] == 0 && eager[1] == replayed[0]);
    assert_string_equal(
        json_string_value(json_object_get(b, "graph")),
        "decode on, verify off (--graph-phases), draft off (--graph-phases), draft-extend off "
        "(--graph-phases), prefill eager");
    assert_string_equal(json_string_value(json_object_get(json_object_get(b, "options"), "graph-phases")),
                        "decode");
    json_decref(a);
    json_decref(b);
}

/* One graph of verify for each number of requests, whatever is drafted, and the same text. */
static void static_verify_launches_all_rows_at_once(void **state)
{
    (void)state;
    const char *shape[] = { "ragged", "static" };
    char text[2][4096], path[] = "/tmp/foray-steps-XXXXXX", line[1 << 16];
    int others[2] = { 0 }, widest[2] = { 0 };
    close(mkstemp(path));
    for (int i = 0; i < 2; i++) {
        cli_result r =
            RUN(ASK, "--spec", "ngram", "--spec-tokens", "5", "-q", "--verify", shape[i], "--steps", path);
        assert_int_equal(r.status, 0);
        snprintf(text[i], sizeof text[i], "%s", r.out.data);
        cli_free(&r);
        FILE *f = fopen(path, "r");
        assert_non_null(f);
        while (fgets(line, sizeof line, f)) {
            widest[i] += strstr(line, "\"target_verify\":\"graph:1x8\"") != NULL;
            others[i] += strstr(line, "\"target_verify\":\"graph:1x4\"") != NULL ||
                         strstr(line, "\"target_verify\":\"graph:1x2\"") != NULL;
        }
        fclose(f);
    }
    unlink(path);
    assert_string_equal(text[0], text[1]);
    assert_true(widest[0] > 0 && widest[1] > 0 && others[0] > 0);
    assert_int_equal(others[1], 0);
    assert_says(RUN(ASK, "--verify", "wide"), 2, "not one of ragged|static");
    assert_says(RUN(ASK, "--spec", "off", "--verify", "static"), 0, "--verify has no effect: --spec is off");
}

/* The cells of a row of the report: [count]; ends the test where there are fewer. */
static void cells_of(const char *report, const char *name, char cells[][128], int count)
{
    char start[32];
    snprintf(start, sizeof start, "\n| %s | ", name);
    const char *at = strstr(report, start);
    if (!at)
        fail_msg("no row %s in %s", name, report);
    at += strlen(start);
    for (int i = 0; i < count; i++) {
        const char *end = strstr(at, "| ");
        if (!end)
            end = strstr(at, "|\n");
        assert_non_null(end);
        snprintf(cells[i], sizeof cells[i], "%.*s", (int)(end - at), at);
        at = end + 2;
    }
}

/* Figures of work, none of time: graphs, pairs, rows live of launched. */
static void a_report_says_what_graphs_take(void **state)
{
    (void)state;
    enum { GRAPHS, KB, CAPTURE, PAIRS, EAGER, REPLAYED, SAVED, ROWS, VERDICT, CELLS };
    char cell[CELLS][128];
    long long live, launched;
    cli_result r =
        RUN("bench", "-m", model, "--graph-report", "--spec", "ngram", "--requests", "2", "-r", "1");
    assert_int_equal(r.status, 0);
    cells_of(r.out.data, "target_verify", cell, CELLS);
    assert_true(atoi(cell[GRAPHS]) >= 2);
    assert_true(atof(cell[KB]) > 1);
    assert_true(atoi(cell[PAIRS]) > 20);
    assert_int_equal(sscanf(cell[ROWS], "%lld of %lld", &live, &launched), 2);
    assert_true(live > 0 && live <= launched);
    assert_true(strstr(cell[VERDICT], "memory") || strstr(cell[VERDICT], "costs time"));
    cells_of(r.out.data, "draft", cell, CELLS);
    assert_int_equal(atoi(cell[GRAPHS]), 0);
    assert_int_equal(atoi(cell[PAIRS]), 0);
    assert_non_null(strstr(cell[VERDICT], "no graphs"));
    assert_non_null(strstr(r.out.data, "of 32 MB (--graph-memory)\n"));
    assert_null(strstr(r.out.data, "ran eagerly otherwise"));
    cli_free(&r);

    r = RUN("bench", "-m", model, "--graph-report", "--spec", "ngram", "--graph-phases", "decode", "-n", "4",
            "-r", "1");
    assert_int_equal(r.status, 0);
    cells_of(r.out.data, "target_verify", cell, CELLS);
    assert_int_equal(atoi(cell[GRAPHS]), 0);
    assert_int_equal(atoi(cell[PAIRS]), 0);
    assert_non_null(strstr(r.err.data, "--n-gen has no effect: --graph-report"));
    assert_non_null(strstr(r.out.data, "(phases)"));
    cli_free(&r);

    assert_says(RUN("bench", "-m", model, "--graph-report", "--graph", "off"), 2,
                "leaves no graphs to report on");
    assert_says(RUN("bench", "-m", model, "--graph-report", "-o", "json"), 2, "no other form than -o md");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_state_of_each_phase_is_said_at_the_start),
        cmocka_unit_test(what_cannot_be_is_refused_or_said),
        cmocka_unit_test(manifests_and_steps_say_it_too),
        cmocka_unit_test(static_verify_launches_all_rows_at_once),
        cmocka_unit_test(a_report_says_what_graphs_take),
    };
    return cmocka_run_group_tests(tests, make_model, NULL);
}
