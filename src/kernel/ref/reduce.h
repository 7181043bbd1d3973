/* reduce.h: sums over a vector, as foray defines them (design.md P2).
 *
 * Element i belongs to virtual lane i mod 16; each lane adds its elements in increasing order, starting from
 * +0; the sixteen lanes are then added by one fixed tree: l with l + 8, then + 4, + 2, + 1. Elements that are
 * not there count as +0, which changes nothing. Vector forms with the same bits: kernel/cpu/avx2_reduce.h and
 * avx512_reduce.h. Pure. Threads: any.
 */
#ifndef FORAY_KERNEL_REF_REDUCE_H
#define FORAY_KERNEL_REF_REDUCE_H

#include <math.h>

enum { REDUCE_LANES = 16 };

/* The sum of the lanes; overwrites them. */
static inline float reduce_tree(float lane[REDUCE_LANES])
{
    for (int half = REDUCE_LANES / 2; half > 0; half /= 2)
        for (int l = 0; l < half; l++)
            lane[l] += lane[l + half];
    return lane[0];
}

static inline float reduce_sum(const float *x, int n)
{
    float lane[REDUCE_LANES] = { 0 };
    for (int i = 0; i < n; i++)
        lane[i % REDUCE_LANES] += x[i];
    return reduce_tree(lane);
}

static inline float reduce_sum_squares(const float *x, int n)
{
    float lane[REDUCE_LANES] = { 0 };
    for (int i = 0; i < n; i++)
        lane[i % REDUCE_LANES] = fmaf(x[i], x[i], lane[i % REDUCE_LANES]);
    return reduce_tree(lane);
}

static inline float reduce_dot(const float *x, const float *y, int n)
{
    float lane[REDUCE_LANES] = { 0 };
    for (int i = 0; i < n; i++)
        lane[i % REDUCE_LANES] = fmaf(x[i], y[i], lane[i % REDUCE_LANES]);
    return reduce_tree(lane);
}

/* RMSNorm: y[i] = (x[i] * s) * weight[i] with this s = 1 / sqrt(mean of squares + eps). */
static inline float reduce_rms_scale(float sum_squares, int n, float eps)
{
    return 1.0f / sqrtf(sum_squares / (float)n + eps);
}

#endif
