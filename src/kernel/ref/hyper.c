/* hyper.c: several residual streams, mixed before and after a sub-layer: the bits (design.md P2).
 *
 *   pre    y[i]    = ((pre[0] x[0][i] + pre[1] x[1][i]) + …)                  a product, then fma
 *   post   x[k][i] = ((post[k] y[i] + comb[0][k] x[0][i]) + …)                a product, then fma
 *
 * with the numbers of hyper.h. One tile per row; scalar. Threads: tiles at once.
 */
#include <assert.h>
#include <math.h>

#include "kernel/cpu/entries.h"
#include "kernel/ref/hyper.h"
#include "kernel/ref/reduce.h"

static int hyper_pre_tiles(const kernel_args *args)
{
    return rows_live(args->hyper_pre.rows);
}

static void hyper_pre_run(const kernel_args *args, int tile, void *scratch)
{
    (void)scratch;
    const args_hyper_pre *a = &args->hyper_pre;
    const int S = a->streams, dim = a->dim;
    const float *x = a->x + (size_t)tile * S * dim;
    float *y = a->y + (size_t)tile * dim, pre[HYPER_MAX_STREAMS];
    assert(S <= HYPER_MAX_STREAMS);
    hyper_weights(a, tile, reduce_rms_scale(reduce_sum_squares(x, S * dim), S * dim, a->norm_eps), pre);
    for (int i = 0; i < dim; i++) {
        float sum = pre[0] * x[i];
        for (int j = 1; j < S; j++)
            sum = fmaf(pre[j], x[(size_t)j * dim + i], sum);
        y[i] = sum;
    }
}

const kernel_impl ref_hyper_pre = { .tiles = hyper_pre_tiles, .run = hyper_pre_run };

static int hyper_post_tiles(const kernel_args *args)
{
    return rows_live(args->hyper_post.rows);
}

static void hyper_post_run(const kernel_args *args, int tile, void *scratch)
{
    (void)scratch;
    const args_hyper_post *a = &args->hyper_post;
    const int S = a->streams, dim = a->dim;
    const float *y = a->y + (size_t)tile * dim, *post = a->post + (size_t)tile * S;
    const float *comb = a->comb + (size_t)tile * S * S;
    float *x = a->x + (size_t)tile * S * dim, old[HYPER_MAX_STREAMS];
    assert(S <= HYPER_MAX_STREAMS);
    for (int i = 0; i < dim; i++) {
        for (int j = 0; j < S; j++)
            old[j] = x[(size_t)j * dim + i];
        for (int k = 0; k < S; k++) {
            float sum = post[k] * y[i];
            for (int j = 0; j < S; j++)
                sum = fmaf(comb[j * S + k], old[j], sum);
            x[(size_t)k * dim + i] = sum;
        }
    }
}

const kernel_impl ref_hyper_post = { .tiles = hyper_post_tiles, .run = hyper_post_run };
