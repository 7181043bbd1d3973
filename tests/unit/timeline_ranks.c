/* Two ranks of one job on clocks that differ by seconds and drift: aligned by the ends of their collectives, and never without. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/trace_make.h"

/* A rank's file: ten collectives a millisecond apart, which end together on all ranks; this rank comes `late` to each. Its
 * clock is ahead by offset and runs fast by ppm. */
static void add_rank(session *s, int rank, const char *name, int64_t late, int64_t offset, int64_t ppm)
{
    buf text = { 0 };
    foray_error err;
    buf_printf(&text, "{\"schemaVersion\":1,\"distributedInfo\":{\"rank\":%d},\"traceEvents\":[", rank);
    for (int k = 0; k < 10; k++) {
        int64_t start = k * 1000000 + late, end = k * 1000000 + 400000;
        int64_t shown_start = start + start * ppm / 1000000 + offset,
                shown_end = end + end * ppm / 1000000 + offset;
        buf_printf(&text,
                   "%s{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"%s\",\"pid\":0,\"tid\":7,\"ts\":%lld.%"
                   "03lld,\"dur\":%lld.%03lld}",
                   k != 0 ? ",\n" : "", name, (long long)(shown_start / 1000),
                   (long long)(shown_start % 1000), (long long)((shown_end - shown_start) / 1000),
                   (long long)((shown_end - shown_start) % 1000));
    }
    buf_puts(&text, "]}");
    assert_int_equal(session_add_text(s, "rank.json", text.data, text.len, &err), FORAY_OK);
    buf_free(&text);
}

static void clocks_are_aligned_by_the_ends_of_collectives(void **state)
{
    (void)state;
    session s;
    foray_error err;
    assert_int_equal(session_open(NULL, NULL, &s, &err), FORAY_OK);
    add_rank(&s, 0, "ncclDevKernel_AllReduce", 0, 0, 0);
    add_rank(&s, 1, "ncclDevKernel_AllReduce", 150000, 11560000000, 50);
    assert_int_equal(session_finish(&s, &err), FORAY_OK);
    assert_int_equal(s.count, 2);
    const analysis *a = &s.analyses[1];
    assert_true(a->clock_tried && a->clock_aligned);
    assert_int_equal(a->clock_pairs, 10);
    assert_in_range(a->clock_offset_ns, 11560000000,
                    11560000500); /* drift over ten milliseconds: half a microsecond */
    assert_in_range(a->clock_residual_ns, 0, 500);
    assert_in_range(a->peer_late_ns, 10 * 149000, 10 * 151000);
    session_free(&s);
}

static void ranks_without_common_collectives_are_not_aligned(void **state)
{
    (void)state;
    session s;
    foray_error err;
    assert_int_equal(session_open(NULL, NULL, &s, &err), FORAY_OK);
    add_rank(&s, 0, "ncclDevKernel_AllReduce", 0, 0, 0);
    add_rank(&s, 1, "matmul", 0, 5000000, 0);
    assert_int_equal(session_finish(&s, &err), FORAY_OK);
    assert_false(s.analyses[1].clock_aligned);
    assert_true(s.analyses[1].clock_tried);
    session_free(&s);
}

/* A rank of three that share a broadcast every 400 us, which ends at 400 us on all of them; before it this one runs a kernel for
 * `even` or `odd` ns, which says its stage. */
static void add_working_rank(session *s, int rank, int64_t even, int64_t odd, int64_t offset)
{
    buf text = { 0 };
    foray_error err;
    buf_printf(&text, "{\"schemaVersion\":1,\"distributedInfo\":{\"rank\":%d},\"traceEvents\":[{}", rank);
    for (int k = 0; k < 10; k++) {
        int64_t at = k * 400000 + offset, come = k % 2 == 0 ? even : odd;
        const char *called[] = { k % 2 == 0 ? "verify_tree_greedy" : "commit_rows",
                                 "ncclDevKernel_Broadcast" };
        int64_t start[] = { at, at + come }, dur[] = { come, 400000 - come };
        for (int i = 0; i < 2; i++)
            buf_printf(&text,
                       ",\n{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"%s\",\"pid\":0,\"tid\":7,\"ts\":%lld,"
                       "\"dur\":%lld}",
                       called[i], (long long)(start[i] / 1000), (long long)(dur[i] / 1000));
    }
    buf_puts(&text, "]}");
    assert_int_equal(session_add_text(s, "rank.json", text.data, text.len, &err), FORAY_OK);
    buf_free(&text);
}

static int64_t saved_without_peers(const analysis *a)
{
    for (size_t i = 0; i < a->what_if_count; i++)
        if (a->what_ifs[i].kind == WHAT_NO_PEER)
            return a->what_ifs[i].saved_ns;
    return 0;
}

/* Rank 1 comes last to the even ones by 150 us, rank 2 to the odd ones by 250 us: rank 0 waits 150 and 250, rank 1 waits 250 at the odd
 * ones and rank 2 waits 150 at the even ones. */
static void waiting_is_charged_to_the_rank_that_came_last_and_its_stage(void **state)
{
    (void)state;
    session s;
    foray_error err;
    assert_int_equal(session_open(NULL, NULL, &s, &err), FORAY_OK);
    add_working_rank(&s, 0, 100000, 100000, 0);
    add_working_rank(&s, 1, 250000, 100000, 7000000000);
    add_working_rank(&s, 2, 100000, 350000, -300000);
    assert_int_equal(session_finish(&s, &err), FORAY_OK);
    assert_int_equal(s.count, 3);
    for (size_t r = 0; r < 3; r++) {
        const analysis *a = &s.analyses[r];
        const step *x = &a->steps[0];
        int64_t for_one = r == 1 ? 0 : 5 * 150000, for_two = r == 2 ? 0 : 5 * 250000;
        assert_int_equal(a->sums_wrong, 0);
        assert_int_equal(x->peer_ns, for_one + for_two);
        assert_int_equal(x->phases_ns[PHASE_EXPOSED_COMM], x->peer_ns + x->transfer_ns);
        assert_int_equal(x->transfer_ns, 5 * 150000 + 5 * 50000);
        assert_int_equal(saved_without_peers(a), x->peer_ns);
        assert_int_equal(a->peer_count, r == 0 ? 2 : 1);
        for (size_t i = 0; i < a->peer_count; i++) {
            const peer_charge *c = &a->peers[i];
            bool one = c->rank == 1;
            assert_true(c->given && !c->exact);
            assert_int_equal(c->path_ns, one ? for_one : for_two);
            assert_int_equal(c->all_ns, c->path_ns);
            assert_int_equal(c->phases_ns[one ? PHASE_ACCEPT : PHASE_COMMIT], c->path_ns);
            assert_string_equal(names_text(&s.input.events.names, c->longest_words),
                                one ? "verify_tree_greedy" : "commit_rows");
        }
    }
    session_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clocks_are_aligned_by_the_ends_of_collectives),
        cmocka_unit_test(waiting_is_charged_to_the_rank_that_came_last_and_its_stage),
        cmocka_unit_test(ranks_without_common_collectives_are_not_aligned),
    };
    return cmocka_run_group_tests_name("unit_timeline_ranks", tests, NULL, NULL);
}
