/* compare.h: is A faster than B, on a machine that is never quiet?
 *
 * The things compared run in turn, round by round, so that a neighbour hits all of them alike, and what is reported
 * are medians and the median of the rounds' ratios with an interval. The interval comes from the order of the
 * ratios alone (as in a sign test): no assumption about their distribution, no random numbers, the same answer for
 * the same samples. Threads: any; no state.
 */
#ifndef FORAY_MEASURE_COMPARE_H
#define FORAY_MEASURE_COMPARE_H

#include <stddef.h>

typedef struct {
    const char *name;
    double (*run)(void *user); /* one measurement: seconds, or any positive figure */
    void *user;
} compare_case;

/* Runs every case once per round, after `warmup` rounds that do not count, starting a case later each round.
 * samples [count][rounds]. */
void compare_interleaved(const compare_case *cases, int count, int warmup, int rounds, double *samples);

typedef struct {
    double median, low, high; /* low, high: quartiles */
    double best, worst;       /* smallest and largest */
} compare_summary;

/* n >= 1. Does not change the samples. */
compare_summary compare_summarise(const double *samples, int n);

typedef struct {
    double ratio;      /* median of a[i] / b[i] */
    double low, high;  /* the interval that holds the true median with `confidence` */
    double confidence; /* 0.95 or a little more; less when n < 6, whose interval is smallest to largest */
} compare_ratio;

/* n >= 1 rounds of two cases, b[i] > 0. */
compare_ratio compare_pairs(const double *a, const double *b, int n);

typedef struct {
    double difference; /* median of a[i] - b[i] */
    double low, high, confidence;
} compare_difference;

/* As compare_pairs, of differences: any a, b. */
compare_difference compare_differences(const double *a, const double *b, int n);

#endif
