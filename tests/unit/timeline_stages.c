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

/* How the server says what it does: not at all, or by ranges of one of the forms that the format has. */
typedef enum { SAYS_NOTHING, SAYS_RANGES, SAYS_ASYNC, SAYS_OLD_ASYNC } manner;

/* A range of the host; async ones by an id of their own, their end on another thread. */
static void annotate(trace_make *m, manner how, const char *name, int64_t start, int64_t dur)
{
    static int id;
    char line[256];
    if (how == SAYS_RANGES)
        trace_make_host(m, "user_annotation", name, 7, start, dur, 0);
    id++;
    for (int end = 0; end < 2 && how > SAYS_RANGES; end++) {
        snprintf(line, sizeof line,
                 "{\"ph\":\"%c\",\"cat\":\"step\",\"id\":\"0x%x\",\"name\":\"%s\",\"pid\":4242,\"tid\":%d,"
                 "\"ts\":%lld}",
                 how == SAYS_ASYNC ? "be"[end] : "SF"[end], id, name, end == 0 ? 7 : 8,
                 (long long)(start + end * dur) / US);
        trace_make_line(m, line);
    }
}

/* A steady run: draft graph, verify graph, two eager kernels of accept and commit, extend graph; host ahead of the device. */
static void make_run(trace_make *m, manner how)
{
    int64_t at = 1000 * US, host = 0;
    for (int k = 0; k < ROUNDS; k++) {
        int64_t correlation = 100 + k * 10;
        host = at - 900 * US;
        annotate(m, how, "draft", host, 100 * US);
        annotate(m, how, "step[TARGET_VERIFY bs=8]", host + 110 * US, 200 * US);
        annotate(m, how, "draft_extend", host + 400 * US, 100 * US);
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

static void check_run(manner how)
{
    trace_make m;
    session s;
    trace_make_open(&m, 1, 0);
    make_run(&m, how);
    trace_make_analysed(&m, &s);
    const analysis *a = &s.analyses[0];
    assert_int_equal(a->boundary, how != SAYS_NOTHING ? BOUNDARY_ANNOTATION : BOUNDARY_GRAPH);
    assert_int_equal(a->step_count, ROUNDS);
    assert_int_equal(a->sums_wrong, 0);
    assert_int_equal(a->phases_annotated,
                     how != SAYS_NOTHING ? ROUNDS * (DRAFT_NODES + VERIFY_NODES + EXTEND_NODES) : 0);
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
    check_run(SAYS_RANGES);
}

static void replays_without_annotations_are_told_apart_by_size_and_order(void **state)
{
    (void)state;
    check_run(SAYS_NOTHING);
}

static void async_ranges_mark_stages_as_others_do(void **state)
{
    (void)state;
    check_run(SAYS_ASYNC);
    check_run(SAYS_OLD_ASYNC);
}

/* Requests' lifetimes, counters and instants are no stage of any thread: said, and nothing changes. */
static void what_is_not_used_is_counted(void **state)
{
    (void)state;
    trace_make m;
    session s;
    trace_make_open(&m, 1, 0);
    make_run(&m, SAYS_RANGES);
    annotate(&m, SAYS_ASYNC, "request 17", 0, 9000 * US);
    annotate(&m, SAYS_OLD_ASYNC, "request 18", 10, 9000 * US);
    trace_make_line(
        &m, "{\"ph\":\"b\",\"cat\":\"request\",\"id\":5,\"name\":\"cut\",\"pid\":4242,\"tid\":7,\"ts\":5}");
    trace_make_line(
        &m, "{\"ph\":\"e\",\"cat\":\"other\",\"id\":5,\"name\":\"cut\",\"pid\":4242,\"tid\":7,\"ts\":9}");
    trace_make_line(
        &m, "{\"ph\":\"n\",\"cat\":\"request\",\"id\":5,\"name\":\"token\",\"pid\":4242,\"tid\":7,\"ts\":6}");
    for (int i = 0; i < 3; i++)
        trace_make_line(&m,
                        "{\"ph\":\"C\",\"name\":\"memory\",\"pid\":4242,\"ts\":5,\"args\":{\"bytes\":7}}");
    trace_make_analysed(&m, &s);
    const part *p = &s.input.events.parts[0];
    assert_int_equal(p->faults[FAULT_ASYNC], 3);
    assert_int_equal(p->faults[FAULT_COUNTERS], 3);
    assert_int_equal(p->faults[FAULT_INSTANTS], 1);
    assert_int_equal(p->faults[FAULT_UNPAIRED], 2); /* a begin without end, and an end without begin */
    assert_int_equal(s.analyses[0].step_count, ROUNDS);
    assert_int_equal(s.analyses[0].steps[4].phases_ns[PHASE_UNATTRIBUTED], 0);
    session_free(&s);
    trace_make_free(&m);
}

/* A pass in ten pieces, and prefill rows in it: one line for the pieces, and it says that it is in no median. */
static void pieces_of_a_pass_are_one_line_of_the_cycle(void **state)
{
    (void)state;
    trace_make m;
    session s;
    graph_cycle c;
    foray_error err;
    trace_make_open(&m, 1, 0);
    trace_make_host(&m, "user_annotation", "execute_512_context_1(480)_generation_32(32)", 7, 0, 300 * US, 0);
    for (int k = 0; k < 10; k++)
        replay_graph(&m, "layer", (5 + k * 20) * US, 15 * US, (40 + k * 100) * US, 4, 20 * US, 1 * US,
                     100 + k);
    trace_make_analysed(&m, &s);
    assert_int_equal(cycle_measure(&s.analyses[0], &c, &err), FORAY_OK);
    assert_int_equal(c.steps, 1);
    assert_false(c.kept);
    assert_int_equal(c.graphs, 1);
    assert_int_equal(c.graph[0].phase, PHASE_PREFILL);
    assert_int_equal(c.graph[0].pieces, 10);
    assert_int_equal(c.graph[0].nodes, 40);
    assert_int_equal(c.graph[0].launch_ns, 150 * US);
    assert_int_equal(c.graph[0].span_ns, 900 * US + 83 * US);
    assert_int_equal(c.graph[0].sum_ns, 800 * US);
    session_free(&s);
    trace_make_free(&m);
}

static void a_users_rules_come_first(void **state)
{
    (void)state;
    trace_make m;
    session s;
    foray_error err;
    buf text = { 0 };
    trace_make_open(&m, 1, 0);
    make_run(&m, SAYS_NOTHING);
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
        cmocka_unit_test(async_ranges_mark_stages_as_others_do),
        cmocka_unit_test(what_is_not_used_is_counted),
        cmocka_unit_test(pieces_of_a_pass_are_one_line_of_the_cycle),
        cmocka_unit_test(a_users_rules_come_first),
    };
    return cmocka_run_group_tests_name("unit_timeline_stages", tests, NULL, NULL);
}
