/* measure.c: intervals that hold what they say, comparisons that run in turn, peaks that are finite.
 *
 * Nothing here depends on how fast the machine is: samples are made up, peaks only have to be positive.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rng.h"
#include "measure/compare.h"
#include "measure/peaks.h"

#include <cmocka.h> /* last: its macro fail() hides ours */

static void medians_and_quartiles_of_known_samples(void **state)
{
    (void)state;
    const double odd[] = { 5, 1, 4, 2, 3 }, even[] = { 4, 1, 3, 2 };
    compare_summary s = compare_summarise(odd, 5);
    assert_true(s.median == 3 && s.low == 2 && s.high == 4 && s.best == 1 && s.worst == 5);
    s = compare_summarise(even, 4);
    assert_true(s.median == 2.5 && s.low == 1.75 && s.high == 3.25);
    s = compare_summarise(odd, 1);
    assert_true(s.median == 5 && s.low == 5 && s.high == 5);
}

/* Ranks from a table of the binomial distribution: n = 6 -> 1, 8 -> 1, 9 -> 2, 15 -> 4, 20 -> 6, 100 -> 40. */
static void intervals_have_the_ranks_of_the_sign_test(void **state)
{
    (void)state;
    static const int known[][2] = { { 6, 1 }, { 8, 1 }, { 9, 2 }, { 15, 4 }, { 20, 6 }, { 100, 40 } };
    double a[100], b[100];
    for (int i = 0; i < 100; i++) {
        a[i] = 1 + (i * 37) % 100; /* a permutation of 1 … 100 */
        b[i] = 1;
    }
    for (int k = 0; k < 6; k++) {
        const int n = known[k][0], r = known[k][1];
        double line[100];
        for (int i = 0; i < n; i++)
            line[i] = n - i;
        compare_ratio c = compare_pairs(n == 100 ? a : line, b, n);
        assert_true(c.low == r && c.high == n + 1 - r && c.ratio == 0.5 * (n + 1));
        assert_true(c.confidence >= 0.95 && c.confidence < 1);
    }
    compare_ratio few = compare_pairs(a, b, 4);
    assert_true(few.low == 1 && few.high == 75 && few.confidence == 0.875);
    assert_true(compare_pairs(a, b, 1).ratio == 1);
}

/* 400 made-up experiments with a skewed spread around a ratio of 1.2: the interval misses it in about 5 %. */
static void intervals_hold_the_true_ratio(void **state)
{
    (void)state;
    int missed = 0;
    for (uint32_t e = 0; e < 400; e++) {
        double a[21], b[21];
        for (uint32_t i = 0; i < 21; i++) {
            rng_block r = rng_philox(e, i, 0, 0, 1, 2);
            double noise = (double)r.word[0] / 4294967296.0;
            b[i] = 1 + (double)(r.word[1] % 1000) / 100; /* common drift: cancels */
            a[i] = 1.2 * b[i] * (noise < 0.5 ? 1 - 0.05 * noise : 1 + 4 * (noise - 0.5));
        }
        compare_ratio c = compare_pairs(a, b, 21);
        missed += c.low > 1.2 || c.high < 1.2;
    }
    assert_in_range(missed, 4, 32);
}

/* A long series: the terms of the binomial must not underflow. */
static void long_series_have_narrow_intervals(void **state)
{
    (void)state;
    static double a[5000], b[5000];
    for (int i = 0; i < 5000; i++) {
        a[i] = (i * 7 % 5000) / 5000.0 + 1;
        b[i] = 1;
    }
    compare_ratio c = compare_pairs(a, b, 5000);
    assert_true(c.low < 1.5 && c.high > 1.5 && c.high - c.low < 0.06 && c.confidence >= 0.95);
}

static char order[64];
static int ordered;

static double note(void *user)
{
    order[ordered++] = *(const char *)user;
    return *(const char *)user;
}

static void cases_run_in_turn(void **state)
{
    (void)state;
    const compare_case cases[] = { { "a", note, "a" }, { "b", note, "b" }, { "c", note, "c" } };
    double samples[3][4];
    compare_interleaved(cases, 3, 1, 4, &samples[0][0]);
    order[ordered] = 0;
    assert_string_equal(order, "abcbcacababcbca");
    for (int i = 0; i < 3; i++)
        for (int r = 0; r < 4; r++)
            assert_true(samples[i][r] == 'a' + i);
}

typedef struct {
    team *t;
    int seen[4], sum[4];
} meeting;

static void count_together(void *user, int thread)
{
    meeting *m = user;
    for (int round = 0; round < 100; round++) {
        m->seen[thread] = round + 1;
        team_barrier(m->t);
        for (int i = 0; i < 3; i++)
            m->sum[thread] += m->seen[i];
        team_barrier(m->t);
    }
}

static void a_team_meets_at_its_barriers(void **state)
{
    (void)state;
    meeting m = { 0 };
    assert_int_equal(team_open(4, &m.t, NULL), 0);
    assert_int_equal(team_threads(m.t), 4);
    team_run(m.t, 3, count_together, &m);
    for (int i = 0; i < 3; i++)
        assert_int_equal(m.sum[i], 3 * 5050);
    assert_int_equal(m.seen[3], 0);
    team_close(m.t);
    assert_int_equal(team_open(0, &m.t, NULL), FORAY_EUSAGE);
}

static void peaks_are_positive(void **state)
{
    (void)state;
    team *t;
    peaks *p;
    assert_int_equal(team_open(2, &t, NULL), 0);
    assert_int_equal(peaks_open("portable", 1 << 20, t, &p, NULL), 0);
    for (int threads = 1; threads <= 2; threads++) {
        assert_true(peaks_read(p, threads) > 0);
        assert_true(peaks_fma(p, threads) > 0);
        assert_true(peaks_barrier_ns(p, threads) > 0);
        double best[3] = { 1e9, 1e9, 0 };
        peaks_read_pieces(p, threads, 3, best);
        assert_true(best[0] > 0 && best[0] < 1e9 && best[1] < 1e9 && best[2] == 0);
    }
    assert_true(peaks_int8(p, 1) == 0);
    peaks_close(p);
    team_close(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(medians_and_quartiles_of_known_samples),
        cmocka_unit_test(intervals_have_the_ranks_of_the_sign_test),
        cmocka_unit_test(intervals_hold_the_true_ratio),
        cmocka_unit_test(long_series_have_narrow_intervals),
        cmocka_unit_test(cases_run_in_turn),
        cmocka_unit_test(a_team_meets_at_its_barriers),
        cmocka_unit_test(peaks_are_positive),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
