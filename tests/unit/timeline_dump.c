/* Dumps of captured graphs over replays that were made by running such graphs: each task's cause is the one that released it in the
 * run. The oracle is the run itself; gaps are too long for anything to be inferred from ends.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/trace_make.h"
#include "timeline/dump.h"

enum { STREAMS = 3, NODES = 60, REPLAYS = 3, US = 1000, NOBODY = -1 };

static const char *const node_names[] = { "Cast_b2717900ea7d_high_performance_210000000",
                                          "MatMulV2_ND_ND_FP32_FP32_false_true",
                                          "MoeGatingTopK_81369a2f_1",
                                          "GroupedMatmul_5967203d_335741442",
                                          "aiv_all_gather_bfloat16_t",
                                          "MoeDistributeCombineV2_37d3570b1cb" };
static const char *const task_names[] = { "aclnnCast_CastAiCore_Cast",
                                          "aclnnMatmul_MatMulCommon_MatMulV2",
                                          "aclnnMoeGatingTopK_MoeGatingTopK_MoeGatingTopK",
                                          "aclnnGroupedMatmulV4_GroupedMatmul_GroupedMatmul",
                                          "aiv_all_gather_bfloat16_t",
                                          "aclnnMoeDistributeCombineV2_MoeDistributeCombineV2" };
enum { NAMES = 6 };

/* A node of the graph: work with a name, or a record or wait of an event. */
typedef struct {
    char kind; /* 'k', 'r', 'w' */
    int stream, number, name, event;
} made_node;

typedef struct {
    made_node node[NODES];
    int count, events;
    /* Of the run: for each node that is work. */
    int64_t start[NODES], end[NODES];
    int cause[NODES]; /* node whose end, seen through a wait, came last; NOBODY: no wait */
} made_graph;

static uint64_t draw(uint64_t *r)
{
    *r = *r * 6364136223846793005u + 1442695040888963407u;
    return *r >> 33;
}

/* Waits only for what was recorded before, as a program must. */
static void make_graph(uint64_t *r, made_graph *g)
{
    int next[STREAMS] = { 0 };
    *g = (made_graph) { 0 };
    for (int i = 0; i < NODES; i++) {
        made_node *n = &g->node[g->count++];
        uint32_t what = (uint32_t)(draw(r) % 10);
        n->stream = (int)(draw(r) % STREAMS);
        n->number = next[n->stream]++;
        n->kind = what < 2 ? 'r' : what < 4 && g->events > 0 ? 'w' : 'k';
        n->name = (int)(draw(r) % NAMES);
        n->event = n->kind == 'r' ? g->events++ : n->kind == 'w' ? (int)(draw(r) % (uint64_t)g->events) : 0;
    }
}

static void run_graph(uint64_t *r, made_graph *g, int64_t at)
{
    int64_t now[STREAMS], event_time[NODES];
    int by[STREAMS], waited[STREAMS], event_by[NODES];
    for (int t = 0; t < STREAMS; t++) {
        now[t] = at;
        by[t] = waited[t] = NOBODY;
    }
    for (int i = 0; i < g->count; i++) {
        const made_node *n = &g->node[i];
        int t = n->stream, from;
        if (n->kind == 'r') {
            event_time[n->event] = now[t];
            event_by[n->event] = by[t];
        } else if (n->kind == 'w') {
            from = event_by[n->event];
            if (from != NOBODY && (waited[t] == NOBODY || g->end[from] > g->end[waited[t]]))
                waited[t] = from;
            if (event_time[n->event] > now[t]) {
                now[t] = event_time[n->event];
                by[t] = from;
            }
        } else {
            g->start[i] = now[t] + (10 + (int64_t)(draw(r) % 10)) * US + i;
            g->end[i] = now[t] = g->start[i] + (5 + (int64_t)(draw(r) % 90)) * US;
            g->cause[i] = waited[t];
            by[t] = i;
            waited[t] = NOBODY;
        }
    }
}

static void put_dump(const made_graph *g, buf *out)
{
    buf_puts(out, "[");
    for (int i = 0; i < g->count; i++) {
        const made_node *n = &g->node[i];
        char name[96];
        snprintf(name, sizeof name,
                 n->kind == 'k'   ? "%s"
                 : n->kind == 'r' ? "EVENT_RECORD_%s%d"
                                  : "EVENT_WAIT_%s%d",
                 n->kind == 'k' ? node_names[n->name] : "2062765627", 8000 + n->event * 8);
        buf_printf(out,
                   "%s{\"name\":\"%s\",\"pid\":\"77 "
                   "aclGraph\",\"tid\":\"stream%d\",\"ts\":%d,\"dur\":9.5,\"ph\":\"X\","
                   "\"args\":{\"Model Id\":1,\"Stream Id\":%d,\"Task Id\":%d}}",
                   i != 0 ? ",\n" : "", name, 161 + n->stream, n->number * 10, 161 + n->stream, n->number);
    }
    buf_puts(out, "]");
}

/* The profile of a run: work only, with the dump's numbers or with others. */
static void put_run(const made_graph *g, bool same_numbers, buf *out)
{
    for (int i = 0; i < g->count; i++) {
        const made_node *n = &g->node[i];
        int stream = same_numbers ? 161 + n->stream : 40 - n->stream;
        if (n->kind == 'k')
            buf_printf(out,
                       ",\n{\"name\":\"%s\",\"pid\":9,\"tid\":%d,\"ts\":\"%lld.%03d\",\"dur\":%lld.%03d,"
                       "\"ph\":\"X\",\"args\":{"
                       "\"Model Id\":1,\"Task Type\":\"AI_CORE\",\"Physic Stream Id\":%d,\"Task Id\":%d}}",
                       task_names[n->name], stream, (long long)(g->start[i] / US), (int)(g->start[i] % US),
                       (long long)((g->end[i] - g->start[i]) / US), (int)((g->end[i] - g->start[i]) % US),
                       stream, same_numbers ? n->number : 300 + n->number);
    }
}

static void analyse_run(uint64_t *r, made_graph *g, const made_graph *dumped, bool same_numbers, session *s)
{
    buf dump = { 0 }, run = { 0 };
    foray_error err;
    put_dump(dumped, &dump);
    buf_puts(&run,
             "[{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":9,\"args\":{\"name\":\"Ascend Hardware\"}}");
    for (int k = 0; k < REPLAYS; k++) {
        run_graph(r, g, 1000000 * US + (int64_t)k * 20000 * US);
        put_run(g, same_numbers, &run);
    }
    buf_puts(&run, "]");
    assert_int_equal(session_open(NULL, NULL, s, &err), FORAY_OK);
    assert_int_equal(session_add_text(s, "graph.json", dump.data, dump.len, &err), FORAY_OK);
    assert_int_equal(session_add_text(s, "trace_view.json", run.data, run.len, &err), FORAY_OK);
    assert_int_equal(session_finish(s, &err), FORAY_OK);
    assert_int_equal(s->count, 1);
    buf_free(&dump);
    buf_free(&run);
}

/* The causes in the last replay, whose run g still holds. */
static size_t check_causes(const session *s, const made_graph *g, evidence least)
{
    const task_graph *t = &s->analyses[0].graph;
    size_t edges = 0;
    for (int i = 0; i < g->count; i++) {
        const task *x = NULL;
        for (size_t k = 0; k < t->count; k++)
            if (t->tasks[k].start == g->start[i] && t->tasks[k].end == g->end[i])
                x = &t->tasks[k];
        if (g->node[i].kind != 'k')
            continue;
        assert_non_null(x);
        if (g->cause[i] == NOBODY) {
            assert_int_equal(x->cause, 0);
            continue;
        }
        edges++;
        assert_int_not_equal(x->cause, 0);
        assert_int_equal(t->tasks[x->cause - 1].end, g->end[g->cause[i]]);
        assert_true(x->cause_how >= least);
    }
    return edges;
}

static void causes_are_those_of_the_run(void **state)
{
    (void)state;
    size_t edges = 0, exact = 0;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        uint64_t r;
        made_graph g;
        session s;
        r = seed;
        make_graph(&r, &g);
        bool same_numbers = seed % 2 == 0;
        analyse_run(&r, &g, &g, same_numbers, &s);
        const task_graph *t = &s.analyses[0].graph;
        assert_int_equal(t->dump_count, 1);
        if (t->replay_count != REPLAYS || t->dumps[0].replays != REPLAYS)
            fail_msg("seed %d: laid over %u of %zu replays", (int)seed, t->dumps[0].replays, t->replay_count);
        assert_int_equal(t->dumps[0].by_number, same_numbers ? REPLAYS : 0);
        exact += t->dumps[0].how == HOW_EXACT;
        edges += check_causes(&s, &g, HOW_GOOD);
        session_free(&s);
    }
    assert_true(edges > 300);
    assert_true(exact > 50);
}

/* Two streams with the same names: which is which cannot be told by names, and the report does not claim it. */
static void likeness_of_two_streams_is_no_proof(void **state)
{
    (void)state;
    uint64_t r;
    session s;
    made_graph g = { .count = 8, .events = 0 };
    r = 5;
    for (int i = 0; i < 8; i++)
        g.node[i] = (made_node) { .kind = 'k', .stream = i % 2, .number = i / 2, .name = i / 2 };
    analyse_run(&r, &g, &g, false, &s);
    assert_int_equal(s.analyses[0].graph.dumps[0].replays, REPLAYS);
    assert_int_equal(s.analyses[0].graph.dumps[0].how, HOW_GOOD);
    session_free(&s);
}

static void a_dump_of_another_graph_is_not_used(void **state)
{
    (void)state;
    uint64_t r;
    session s;
    made_graph g, other;
    r = 7;
    make_graph(&r, &g);
    other = g;
    for (int i = 0; i < other.count; i++)
        other.node[i].name = (other.node[i].name + 1 + i % 3) % NAMES;
    analyse_run(&r, &g, &other, false, &s);
    assert_int_equal(s.analyses[0].graph.dumps[0].replays, 0);
    for (size_t i = 0; i < s.analyses[0].graph.count; i++)
        assert_in_range(s.analyses[0].graph.tasks[i].cause_how, HOW_NONE, HOW_INFERRED);
    session_free(&s);
}

/* The names fit, but its events go the other way round than time did. */
static void a_dump_that_the_times_contradict_is_not_used(void **state)
{
    (void)state;
    uint64_t r;
    session s;
    made_graph g = { .count = 0, .events = 0 }, other;
    r = 9;
    for (int i = 0; i < 8; i++) /* two streams side by side */
        g.node[g.count++] =
            (made_node) { .kind = 'k', .stream = i % 2, .number = i / 2, .name = (i * 2 + i / 3) % NAMES };
    other = g;
    other.node[other.count++] = (made_node) { .kind = 'r', .stream = 1, .number = 99, .event = 0 };
    for (int i = 0; i < 8; i += 2)
        other.node[i].number += 1; /* the first stream waits for the whole of the second */
    other.node[other.count++] = (made_node) { .kind = 'w', .stream = 0, .number = 0, .event = 0 };
    analyse_run(&r, &g, &other, false, &s);
    assert_int_equal(s.analyses[0].graph.dumps[0].replays, 0);
    assert_int_equal(s.analyses[0].graph.dumps[0].contradicted, REPLAYS);
    session_free(&s);
}

static void a_symbol_and_its_operator_are_alike(void **state)
{
    (void)state;
    for (int i = 0; i < NAMES; i++)
        for (int k = 0; k < NAMES; k++)
            assert_int_equal(dump_names_alike(node_names[i], task_names[k]), i == k);
    assert_true(dump_names_alike("aiv_all_to_all_v_bfloat16_t", "hcom_allToAllV__586_0_1"));
    assert_true(dump_names_alike("Add_5f3_1", "aclnnAdd_AddAiCore_Add"));
    assert_false(dump_names_alike("Add_5f3_1", "aclnnAddRmsNorm_AddRmsNorm_AddRmsNorm"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(causes_are_those_of_the_run),
        cmocka_unit_test(likeness_of_two_streams_is_no_proof),
        cmocka_unit_test(a_dump_of_another_graph_is_not_used),
        cmocka_unit_test(a_dump_that_the_times_contradict_is_not_used),
        cmocka_unit_test(a_symbol_and_its_operator_are_alike),
    };
    return cmocka_run_group_tests_name("unit_timeline_dump", tests, NULL, NULL);
}
