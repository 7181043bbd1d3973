/* args_hyper.h: arguments of the hyper-connection kernels: several residual streams that are mixed before and after
 * each sub-layer (spec: DeepSeek-V4 2.3). Part of kernel.h.
 */
#ifndef FORAY_KERNEL_ARGS_HYPER_H
#define FORAY_KERNEL_ARGS_HYPER_H

#include "kernel/rows.h"

enum { HYPER_MAX_STREAMS = 8 };

/* y = sum_j pre[j] x[j], and what hyper_post will need. `mix` is the plain product of fn with the flattened streams;
 * the norm over all streams x dim (eps norm_eps, no weight) is applied here, after the product.
 *
 *   m = mix * rsqrt(mean(x^2) + norm_eps)
 *   pre[j]     = sigmoid(m[j] scale[0] + base[j]) + eps
 *   post[j]    = 2 sigmoid(m[S + j] scale[1] + base[S + j])
 *   comb[j][k] = Sinkhorn of m[2S + S j + k] scale[2] + base[2S + S j + k]: softmax over k, + eps, columns divided
 *                by (their sum + eps), then iterations - 1 times rows, columns likewise
 *
 * post NULL: only pre (the collapse in front of the head); mix and base then have S columns, scale one. */
typedef struct {
    row_count rows;
    const float *x;     /* [rows, S, dim] */
    const float *mix;   /* [rows, (2 + S) S] */
    const float *scale; /* [3] */
    const float *base;  /* [(2 + S) S] */
    int streams, dim, iterations;
    float norm_eps, eps;
    float *y;    /* [rows, dim] */
    float *post; /* [rows, S] or NULL */
    float *comb; /* [rows, S, S] or NULL: first index = source stream */
} args_hyper_pre;

/* x[k] = post[k] y + sum_j comb[j][k] x[j], in place. */
typedef struct {
    row_count rows;
    float *x;                 /* [rows, S, dim] */
    const float *y;           /* [rows, dim] */
    const float *post, *comb; /* of hyper_pre */
    int streams, dim;
} args_hyper_post;

#endif
