/* hyper.h: the small numbers of a hyper-connection: how residual streams are mixed, as foray defines the bits
 * (design.md P2). The work on whole streams is hyper.c's; these few dozen numbers per row are scalar everywhere.
 *
 *   m[i]     = mix[i] * s                                    s of kernel/ref/reduce.h over all streams of the row
 *   z[i]     = fma(m[i], scale, base[i])
 *   pre      = sigmoid(z) + eps    post = 2 sigmoid(z)       sigmoid(z) = 1 / (1 + exp(-z))
 *   softmax  e[k] = exp(z[k] - largest), e[k] * (1 / sum of e) + eps
 *   Sinkhorn each number of a row or column times 1 / (sum + eps): columns, then rows and columns in turn
 *
 * Sums ascend from the first number on. Pure. Threads: any.
 */
#ifndef FORAY_KERNEL_REF_HYPER_H
#define FORAY_KERNEL_REF_HYPER_H

#include <string.h>

#include "kernel/kernel.h"
#include "kernel/ref/vmath.h"

static inline float hyper_sigmoid(float x)
{
    return 1.0f / (1.0f + vmath_exp(-x));
}

/* Divides line `at` of n numbers, `step` apart, by their sum. */
static inline __attribute__((always_inline)) void hyper_balance(float *line, const int n, const int step,
                                                                float eps)
{
    float sum = line[0];
    for (int i = 1; i < n; i++)
        sum += line[i * step];
    const float factor = 1.0f / (sum + eps);
    for (int i = 0; i < n; i++)
        line[i * step] *= factor;
}

/* z [S, S] to a matrix whose columns sum to one and whose rows nearly do. */
static inline __attribute__((always_inline)) void hyper_sinkhorn(float *z, const int S, int iterations,
                                                                 float eps)
{
    for (int j = 0; j < S; j++) {
        float *row = z + j * S, max = row[0], sum = 0;
        for (int k = 1; k < S; k++)
            max = row[k] > max ? row[k] : max;
        for (int k = 0; k < S; k++)
            sum += row[k] = vmath_exp(row[k] - max);
        const float factor = 1.0f / sum;
        for (int k = 0; k < S; k++)
            row[k] = row[k] * factor + eps;
    }
    for (int k = 0; k < S; k++)
        hyper_balance(z + k, S, S, eps);
    for (int i = 1; i < iterations; i++) {
        for (int j = 0; j < S; j++)
            hyper_balance(z + j * S, S, 1, eps);
        for (int k = 0; k < S; k++)
            hyper_balance(z + k, S, S, eps);
    }
}

/* pre [S] of a row, and its post and comb where wanted; s is the factor of the norm. */
static inline void hyper_weights(const args_hyper_pre *a, int row, float s, float *pre)
{
    const int S = a->streams;
    const float *mix = a->mix + (size_t)row * (a->post ? (2 + S) * S : S);
    for (int j = 0; j < S; j++)
        pre[j] = hyper_sigmoid(fmaf(mix[j] * s, a->scale[0], a->base[j])) + a->eps;
    if (!a->post)
        return;
    for (int j = 0; j < S; j++)
        a->post[(size_t)row * S + j] = 2 * hyper_sigmoid(fmaf(mix[S + j] * s, a->scale[1], a->base[S + j]));
    float comb[HYPER_MAX_STREAMS * HYPER_MAX_STREAMS];
    for (int i = 0; i < S * S; i++)
        comb[i] = fmaf(mix[2 * S + i] * s, a->scale[2], a->base[2 * S + i]);
    if (S == 4) /* what models have: unrolled, kept in registers */
        hyper_sinkhorn(comb, 4, a->iterations, a->eps);
    else
        hyper_sinkhorn(comb, S, a->iterations, a->eps);
    memcpy(a->comb + (size_t)row * S * S, comb, (size_t)(S * S) * sizeof *comb);
}

#endif
