/* A speculative server in graph mode, made by hand: with annotations and without any the same steps and stages must come out, and
 * the cycle's lines are those that went in.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/trace_make.h"
#include "timeline/cycle.h"

enum { ROUNDS = 12, US = 1000, VERIFY_NODES = 60, DRAFT_NODES = 8, EXTEND_NODES = 5 };

/* One launch of a graph: its call, and nodes of `each` ns back to back with `gap` between them. Returns the end. */
static int64_t replay_graph(trace_make *m, const char *node, int64_t call, int64_t call_ns, int64_t start,
                            int nodes, int64_t each, int64_t gap, int64_t correlation)
{
    trace_make_host(m, "cuda_runtime", "cudaGraphLaunch", 7, call, call_ns, correlation);
    for (int i = 0; i < nodes; i++)
        trace_make_task(m, "kernel", node, 1, start + i * (each + gap), each, correlation);
    return start + nodes * (each + gap) - gap;
}

/* A steady run: draft graph, verify graph, two eager kernels of accept and commit, extend graph; host ahead of the device. */
static void make_run(trace_make *m, bool annotated)
{
    int64_t at = 1000 * US, host = 0;
    for (int k = 0; k < ROUNDS; k++) {
        int64_t correlation = 100 + k * 10;
        host = at - 900 * US;
        if (annotated) {
            trace_make_host(m, "user_annotation", "draft", 7, host, 100 * US, 0);
            trace_make_host(m, "user_annotation", "step[TARGET_VERIFY bs=8]", 7, host + 110 * US, 200 * US,
                            0);
            trace_make_host(m, "user_annotation", "draft_extend", 7, host + 400 * US, 100 * US, 0);
        }
        int64_t end =
            replay_graph(m, "nextn", host + 10 * US, 20 * US, at, DRAFT_NODES, 10 * US, 0, correlation);
        end = replay_graph(m, "layer", host + 120 * US, 150 * US, end + 5 * US, VERIFY_NODES, 20 * US, 1 * US,
                           correlation + 1);
        trace_make_host(m, "cuda_runtime", "cudaLaunchKernel", 7, host + 320 * US, 5 * US, correlation + 2);
        trace_make_task(m, "kernel", "chain_speculative_sampling", 1, end + 5 * US, 15 * US, correlation + 2);
        trace_make_host(m, "cuda_runtime", "cudaLaunchKernel", 7, host + 330 * US, 5 * US, correlation + 3);
        trace_make_task(m, "kernel", "something_eager", 1, end + 25 * US, 10 * US, correlation + 3);
        end = replay_graph(m, "extend", host + 410 * US, 15 * US, end + 40 * US, EXTEND_NODES, 12 * US, 0,
                           correlation + 4);
        at = end + 8 * US;
    }
}

static void check_run(bool annotated)
{
    trace_make m;
    session s;
    trace_make_open(&m, 1, 0);
    make_run(&m, annotated);
    trace_make_analysed(&m, &s);
    const analysis *a = &s.analyses[0];
    assert_int_equal(a->boundary, annotated ? BOUNDARY_ANNOTATION : BOUNDARY_GRAPH);
    assert_int_equal(a->step_count, ROUNDS);
    assert_int_equal(a->sums_wrong, 0);
    const step *x = &a->steps[4];
    int64_t draft = DRAFT_NODES * 10 * US, verify = VERIFY_NODES * 21 * US - US,
            extend = EXTEND_NODES * 12 * US;
    assert_int_equal(x->end - x->start, draft + 5 * US + verify + 40 * US + extend + 8 * US);
    assert_int_equal(x->stages[PHASE_DRAFT].elapsed_ns, draft);
    assert_int_equal(x->stages[PHASE_TARGET_VERIFY].elapsed_ns, verify);
    assert_int_equal(x->stages[PHASE_TARGET_VERIFY].sum_ns, VERIFY_NODES * 20 * US);
    assert_int_equal(x->stages[PHASE_DRAFT_EXTEND].elapsed_ns, extend);
    assert_int_equal(x->stages[PHASE_ACCEPT].sum_ns, 15 * US);
    assert_int_equal(x->stages[PHASE_EAGER_TAIL].sum_ns, 10 * US);
    assert_int_equal(x->phases_ns[PHASE_UNATTRIBUTED], 0);
    graph_cycle c;
    foray_error err;
    assert_int_equal(cycle_measure(a, &c, &err), FORAY_OK);
    assert_int_equal(c.graphs, 3);
    assert_int_equal(c.wall_ns, x->end - x->start);
    assert_int_equal(c.eager_launches, 2);
    assert_int_equal(c.host_ns, 415 * US);
    const cycle_graph *v = &c.graph[1];
    assert_int_equal(v->phase, PHASE_TARGET_VERIFY);
    assert_int_equal(v->nodes, VERIFY_NODES);
    assert_int_equal(v->launch_ns, 150 * US);
    assert_int_equal(v->span_ns, verify);
    assert_int_equal(v->busy_ns, VERIFY_NODES * 20 * US);
    session_free(&s);
    trace_make_free(&m);
}

static void annotated_rounds_are_told_apart(void **state)
{
    (void)state;
    check_run(true);
}

static void replays_without_annotations_are_told_apart_by_size_and_order(void **state)
{
    (void)state;
    check_run(false);
}

static void a_users_rules_come_first(void **state)
{
    (void)state;
    trace_make m;
    session s;
    foray_error err;
    buf text = { 0 };
    trace_make_open(&m, 1, 0);
    make_run(&m, false);
    trace_make_text(&m, 0, 1, 0, &text);
    assert_int_equal(session_open("mine", "kernel something_eager commit\n", &s, &err), FORAY_OK);
    assert_int_equal(session_add_text(&s, "made.json", text.data, text.len, &err), FORAY_OK);
    assert_int_equal(session_finish(&s, &err), FORAY_OK);
    assert_int_equal(s.analyses[0].steps[4].stages[PHASE_COMMIT].sum_ns, 10 * US);
    session_free(&s);
    buf_free(&text);
    trace_make_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(annotated_rounds_are_told_apart),
        cmocka_unit_test(replays_without_annotations_are_told_apart_by_size_and_order),
        cmocka_unit_test(a_users_rules_come_first),
    };
    return cmocka_run_group_tests_name("unit_timeline_stages", tests, NULL, NULL);
}
