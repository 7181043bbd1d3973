/* bench_spread.c: see bench_spread.h. */
#include "cli/bench_spread.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int compare_double(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

bench_spread bench_spread_sort(double *samples, int count)
{
    double sum = 0, squares = 0;
    bench_spread s = { 0 };
    if (count < 1)
        return s;
    qsort(samples, (size_t)count, sizeof *samples, compare_double);
    for (int i = 0; i < count; i++)
        sum += samples[i];
    s.mean = sum / count;
    for (int i = 0; i < count; i++)
        squares += (samples[i] - s.mean) * (samples[i] - s.mean);
    s.deviation = count > 1 ? sqrt(squares / (count - 1)) : 0;
    s.median = count % 2 ? samples[count / 2] : (samples[count / 2 - 1] + samples[count / 2]) / 2;
    s.low = samples[count / 10];
    s.high = samples[count - 1 - count / 10];
    return s;
}

bench_spread bench_spread_of(const double *samples, int count)
{
    double sorted[BENCH_MOST_SAMPLES];
    count = count < 1 ? 0 : count < BENCH_MOST_SAMPLES ? count : BENCH_MOST_SAMPLES;
    if (count > 0)
        memcpy(sorted, samples, sizeof *samples * (size_t)count);
    return bench_spread_sort(sorted, count);
}
