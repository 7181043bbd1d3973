/* bench_spread.h: median, mean and spread of the samples of a benchmark. Pure. Threads: any. */
#ifndef FORAY_CLI_BENCH_SPREAD_H
#define FORAY_CLI_BENCH_SPREAD_H

enum { BENCH_MOST_SAMPLES = 512 };

typedef struct {
    double median, mean, deviation, low, high; /* low, high: 10th and 90th percentile */
} bench_spread;

/* Of at most BENCH_MOST_SAMPLES. count 0: zeros. */
bench_spread bench_spread_of(const double *samples, int count);
/* Of any number, which it sorts. */
bench_spread bench_spread_sort(double *samples, int count);

#endif
