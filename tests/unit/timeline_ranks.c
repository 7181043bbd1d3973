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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clocks_are_aligned_by_the_ends_of_collectives),
        cmocka_unit_test(ranks_without_common_collectives_are_not_aligned),
    };
    return cmocka_run_group_tests_name("unit_timeline_ranks", tests, NULL, NULL);
}
