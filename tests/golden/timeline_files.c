/* Real files of other people's profilers (golden/traces/README.md): counts that were made by other means, sums that add up in every
 * step, and what is known to be in them is found.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/trace_make.h"

/* More of the kind, too large for the repository; looked at where they are. */
#define MORE FORAY_TESTS "/../../shared/traces/"

/* Opens and analyses files of the folder of traces, or of any other. */
static void opened(session *s, const char *first, const char *second)
{
    foray_error err;
    const char *files[] = { first, second };
    assert_int_equal(session_open(NULL, NULL, s, &err), FORAY_OK);
    for (int i = 0; i < 2 && files[i] != NULL; i++) {
        char path[512];
        snprintf(path, sizeof path, "%s%s", files[i][0] == '/' ? "" : FORAY_TESTS "/golden/traces/",
                 files[i]);
        if (session_add(s, path, FORMAT_UNKNOWN, &err) != FORAY_OK)
            fail_msg("%s", err.text);
    }
    if (session_finish(s, &err) != FORAY_OK)
        fail_msg("%s", err.text);
}

static int64_t device_union(const session *s)
{
    int64_t sum = 0, end = INT64_MIN;
    const task_graph *g = &s->analyses[0].graph;
    for (size_t i = 0; i < g->count; i++) {
        int64_t from = g->tasks[i].start > end ? g->tasks[i].start : end;
        sum += g->tasks[i].end > from ? g->tasks[i].end - from : 0;
        end = g->tasks[i].end > end ? g->tasks[i].end : end;
    }
    return sum;
}

/* Counted with exact decimal arithmetic by another program. -1: not counted there. */
static const struct {
    const char *name;
    int64_t events, tasks, union_ns;
    size_t replays;
} counted[] = {
    { "sglang_decode.json.gz", 2058, 558, -1, 1 },
    { "vllm_decode_full.json.gz", 1993, 434, -1, 1 },
    { "hta_simple_add.json.gz", 1348, 98, -1, 0 },
    { "hta_event_sync.json.gz", 92, 5, -1, 0 },
    { "hta_cpu_only.json.gz", 30, 0, 0, 0 },
    { "hta_mi250.json.gz", 220, 16, 149042, 0 },
    { "hta_triton.json.gz", 71, 1, 1760, 0 },
    { "ascend_rank0.json.gz", 10112, 535, -1, 0 },
    { "ascend_rank1.json.gz", 9969, 535, -1, 0 },
    { "ascend_heatmap.json", 6, 1, -1, 0 },
    { "ascend_tiny.json", 23, 0, 0, 0 },
    { "ascend_graph_dump.json", 82, 0, 0, 0 },
    { MORE "hta-odd/rank_non_gpu.json.gz", 2467, 0, 0, 0 },
    { MORE "hta-odd/distributed_info_not_found.json.gz", 2467, 0, 0, 0 },
    { MORE "hta-odd/cupti_profiler.json.gz", 4222, 0, 0, 0 },
    { MORE "hta-odd/backward_thread.json", 7, -1, -1, 0 },
    { MORE "vllm-prefilldecode-piecewise/graph_execution.json.gz", 19289, -1, -1, 25 },
    { MORE "hta-cp-alexnet/benchmark_result_2869224_1695835535_trace.json.gz", -1, 98, -1, 0 },
    { MORE "gpu-only-mi210/gpu_only_trace.json.gz", -1, 562, -1, 0 },
    { MORE "torch-compile-triton/trace.json.gz", -1, 12, -1, 0 },
};

static bool is_there(const char *name)
{
    return name[0] != '/' || access(name, R_OK) == 0;
}

static void counts_are_those_of_another_program(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof counted / sizeof *counted; i++) {
        session s;
        if (!is_there(counted[i].name))
            continue;
        opened(&s, counted[i].name, NULL);
        const analysis *a = &s.analyses[0];
        if ((counted[i].events >= 0 && (int64_t)s.input.events.parts[0].events != counted[i].events) ||
            (counted[i].tasks >= 0 && (int64_t)a->graph.count != counted[i].tasks) ||
            a->graph.replay_count != counted[i].replays ||
            (counted[i].union_ns >= 0 && device_union(&s) != counted[i].union_ns))
            fail_msg("%s: %d events, %zu tasks, %zu replays, union %lld", counted[i].name,
                     (int)s.input.events.parts[0].events, a->graph.count, a->graph.replay_count,
                     (long long)device_union(&s));
        session_free(&s);
    }
}

static void the_parts_of_every_step_add_up(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof counted / sizeof *counted; i++) {
        session s;
        if (!is_there(counted[i].name))
            continue;
        opened(&s, counted[i].name, NULL);
        const analysis *a = &s.analyses[0];
        assert_int_equal(a->sums_wrong, 0);
        assert_int_equal(a->replay_error_ns, 0); /* and running the steps again changes nothing */
        for (size_t k = 0; k < a->step_count; k++) {
            int64_t phases = 0, at = a->steps[k].start;
            for (int p = 0; p < PHASE_COUNT; p++)
                phases += a->steps[k].phases_ns[p];
            assert_int_equal(phases, a->steps[k].end - a->steps[k].start);
            for (size_t n = 0; n < a->steps[k].segments; n++) {
                const segment *x = path_at(a, a->steps[k].first_segment + n);
                assert_int_equal(x->from, at);
                at = x->to;
            }
            assert_int_equal(at, a->steps[k].end);
        }
        session_free(&s);
    }
}

static void a_graph_step_ends_with_its_last_node_not_with_its_annotation(void **state)
{
    (void)state;
    session s;
    opened(&s, "sglang_decode.json.gz", NULL);
    const analysis *a = &s.analyses[0];
    assert_int_equal(a->step_count, 1);
    assert_int_equal(a->steps[0].requests, 32);
    assert_string_equal(names_text(&s.input.events.names, a->steps[0].label), "step[DECODE bs=32]");
    assert_int_equal(a->graph.replays[0].tasks, 544);
    const event *label = store_event(&s.input.events, a->steps[0].opener - 1);
    int64_t behind = a->steps[0].end - event_end(label);
    assert_in_range(behind, 8300000, 8450000); /* the annotation ends 8.37 ms before the last node */
    assert_true(a->steps[0].phases_ns[PHASE_DECODE] > 9000000);
    session_free(&s);
}

static void blocked_waits_find_their_records(void **state)
{
    (void)state;
    for (int rank = 0; rank < 2; rank++) {
        session s;
        opened(&s, rank == 0 ? "ascend_rank0.json.gz" : "ascend_rank1.json.gz", NULL);
        const task_graph *g = &s.analyses[0].graph;
        assert_int_equal(g->waits, 10);
        assert_int_equal(g->waits_blocking, g->waits_resolved);
        assert_true(g->waits_blocking >= 5);
        assert_int_equal(s.input.events.parts[0].faults[FAULT_DUPLICATE],
                         296); /* HCCL's planes repeat the hardware's tasks */
        session_free(&s);
    }
}

static void two_ranks_are_told_apart_and_their_peer_waits_found(void **state)
{
    (void)state;
    session s;
    opened(&s, "ascend_rank0.json.gz", "ascend_rank1.json.gz");
    assert_int_equal(s.count, 2);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(s.groups.groups[i].rank, i);
        assert_int_equal(s.analyses[i].graph.count, 535);
        assert_int_equal(s.analyses[i].steps[0].phases_ns[PHASE_EXPOSED_COMM],
                         s.analyses[i].steps[0].peer_ns + s.analyses[i].steps[0].transfer_ns);
        assert_true(s.analyses[i].steps[0].peer_ns > 50000000); /* most of the step is waiting for a peer */
        /* Both wait for rank 5 of eight, whose files are not there: its notifies come last. */
        assert_int_equal(s.analyses[i].peers[0].rank, 5);
        assert_true(s.analyses[i].peers[0].exact && !s.analyses[i].peers[0].given);
        assert_true(s.analyses[i].peers[0].path_ns > s.analyses[i].steps[0].peer_ns * 99 / 100);
    }
    /* Rank 0's longest wait for rank 1 takes 5 615.7 us, beside one for rank 5 that takes 78 764.6: off the path. */
    const peer_charge *one = NULL;
    for (size_t k = 0; k < s.analyses[0].peer_count; k++)
        if (s.analyses[0].peers[k].rank == 1)
            one = &s.analyses[0].peers[k];
    assert_non_null(one);
    assert_true(one->given && one->exact);
    assert_in_range(one->all_ns, 5615692, 5800000);
    assert_true(one->path_ns < 200000);
    session_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_are_those_of_another_program),
        cmocka_unit_test(the_parts_of_every_step_add_up),
        cmocka_unit_test(a_graph_step_ends_with_its_last_node_not_with_its_annotation),
        cmocka_unit_test(blocked_waits_find_their_records),
        cmocka_unit_test(two_ranks_are_told_apart_and_their_peer_waits_found),
    };
    return cmocka_run_group_tests_name("golden_timeline_files", tests, NULL, NULL);
}
