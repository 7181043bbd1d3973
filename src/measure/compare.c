/* compare.c: medians, quartiles, and intervals from order statistics. See compare.h.
 *
 * The interval: of n ratios the number below the true median is binomial with p = 1/2, so the r-th smallest and the
 * r-th largest hold it between them with probability 1 - 2 P(X < r). r is the largest that keeps 95 %.
 */
#include "measure/compare.h"

#include <stdlib.h>

/* Copies of samples are sorted a fixed number at most on the stack; longer series are thinned evenly. */
enum { MOST = 2048 };

void compare_interleaved(const compare_case *cases, int count, int warmup, int rounds, double *samples)
{
    for (int round = -warmup; round < rounds; round++)
        for (int i = 0; i < count; i++) {
            const int c = (i + warmup + round) % count;
            const double value = cases[c].run(cases[c].user);
            if (round >= 0)
                samples[(size_t)c * (size_t)rounds + (size_t)round] = value;
        }
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int thinned(int n)
{
    return n < MOST ? n : MOST;
}

/* The value at a fraction of the sorted samples, between neighbours. */
static double at_fraction(const double *sorted, int n, double fraction)
{
    const double at = fraction * (n - 1);
    const int below = (int)at;
    const double above = below + 1 < n ? sorted[below + 1] : sorted[below];
    return sorted[below] + (at - below) * (above - sorted[below]);
}

compare_summary compare_summarise(const double *samples, int n)
{
    double sorted[MOST];
    const int m = thinned(n);
    for (int i = 0; i < m; i++)
        sorted[i] = samples[(size_t)i * (size_t)n / (size_t)m];
    qsort(sorted, (size_t)m, sizeof sorted[0], by_value);
    return (compare_summary) { .median = at_fraction(sorted, m, 0.5),
                               .low = at_fraction(sorted, m, 0.25),
                               .high = at_fraction(sorted, m, 0.75),
                               .best = sorted[0],
                               .worst = sorted[m - 1] };
}

/* The largest r >= 1 with P(X < r) <= 2.5 %, X binomial(n, 1/2), n <= MOST, or 1; *tail is P(X < r). */
static int order_rank(int n, double *tail)
{
    /* C(n, k) relative to the middle one: outer terms of long series underflow to 0, which is what they are worth. */
    double term[MOST / 2 + 1], total = 0;
    term[n / 2] = 1;
    for (int k = n / 2; k > 0; k--)
        term[k - 1] = term[k] * k / (n - k + 1);
    for (int k = 0; k <= n; k++)
        total += term[k <= n / 2 ? k : n - k];
    int r = 0;
    double below = 0;
    while (r < n / 2 && below + term[r] / total <= 0.025)
        below += term[r++] / total;
    *tail = r > 0 ? below : term[0] / total;
    return r > 0 ? r : 1; /* too few samples: the whole range */
}

/* The median of one value for each pair, with its interval. Sorts them. */
static compare_difference summarise_pairs(double *values, int m)
{
    double tail;
    qsort(values, (size_t)m, sizeof values[0], by_value);
    const int r = order_rank(m, &tail);
    return (compare_difference) { .difference = at_fraction(values, m, 0.5),
                                  .low = values[r - 1],
                                  .high = values[m - r],
                                  .confidence = 1 - 2 * tail };
}

compare_ratio compare_pairs(const double *a, const double *b, int n)
{
    double ratios[MOST];
    const int m = thinned(n);
    for (int i = 0; i < m; i++) {
        const size_t at = (size_t)i * (size_t)n / (size_t)m;
        ratios[i] = a[at] / b[at];
    }
    const compare_difference d = summarise_pairs(ratios, m);
    return (
        compare_ratio) { .ratio = d.difference, .low = d.low, .high = d.high, .confidence = d.confidence };
}

compare_difference compare_differences(const double *a, const double *b, int n)
{
    double differences[MOST];
    const int m = thinned(n);
    for (int i = 0; i < m; i++) {
        const size_t at = (size_t)i * (size_t)n / (size_t)m;
        differences[i] = a[at] - b[at];
    }
    return summarise_pairs(differences, m);
}
