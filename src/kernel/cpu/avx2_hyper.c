/* avx2_hyper.c: residual streams mixed eight floats at a time; the bits of kernel/ref/hyper.c. The AVX-512 table uses it
 * too: memory sets the pace.
 *
 * Templates over the number of streams, which is 4 in the models there are. One tile per row. Threads: tiles at once.
 */
#include <assert.h>
#include <immintrin.h>

#include "kernel/cpu/avx2_reduce.h"
#include "kernel/cpu/entries.h"
#include "kernel/ref/hyper.h"

#define TEMPLATE static inline __attribute__((always_inline))

static int hyper_pre_tiles(const kernel_args *args)
{
    return rows_live(args->hyper_pre.rows);
}

/* y = sum over S streams of pre x. */
TEMPLATE void collapse(const float *x, const float *pre, int dim, float *y, const int S)
{
    for (int i = 0; i < dim; i += 8) {
        const __m256i m = avx2_mask_below(dim - i);
        __m256 sum = _mm256_mul_ps(_mm256_set1_ps(pre[0]), _mm256_maskload_ps(x + i, m));
        for (int j = 1; j < S; j++)
            sum =
                _mm256_fmadd_ps(_mm256_set1_ps(pre[j]), _mm256_maskload_ps(x + (size_t)j * dim + i, m), sum);
        _mm256_maskstore_ps(y + i, m, sum);
    }
}

static void hyper_pre_run(const kernel_args *args, int tile, void *scratch)
{
    (void)scratch;
    const args_hyper_pre *a = &args->hyper_pre;
    const int S = a->streams, n = S * a->dim;
    const float *x = a->x + (size_t)tile * n;
    float *y = a->y + (size_t)tile * a->dim, pre[HYPER_MAX_STREAMS];
    assert(S <= HYPER_MAX_STREAMS);
    hyper_weights(a, tile, reduce_rms_scale(avx2_sum_squares(x, n), n, a->norm_eps), pre);
    if (S == 4)
        collapse(x, pre, a->dim, y, 4);
    else
        collapse(x, pre, a->dim, y, S);
}

const kernel_impl avx2_hyper_pre = { .tiles = hyper_pre_tiles, .run = hyper_pre_run };

static int hyper_post_tiles(const kernel_args *args)
{
    return rows_live(args->hyper_post.rows);
}

/* x[k] = post[k] y + sum over S streams of comb[j][k] x[j], in place. */
TEMPLATE void spread(float *x, const float *y, const float *post, const float *comb, int dim, const int S)
{
    __m256 old[HYPER_MAX_STREAMS];
    for (int i = 0; i < dim; i += 8) {
        const __m256i m = avx2_mask_below(dim - i);
        const __m256 in = _mm256_maskload_ps(y + i, m);
        for (int j = 0; j < S; j++)
            old[j] = _mm256_maskload_ps(x + (size_t)j * dim + i, m);
        for (int k = 0; k < S; k++) {
            __m256 sum = _mm256_mul_ps(_mm256_set1_ps(post[k]), in);
            for (int j = 0; j < S; j++)
                sum = _mm256_fmadd_ps(_mm256_set1_ps(comb[j * S + k]), old[j], sum);
            _mm256_maskstore_ps(x + (size_t)k * dim + i, m, sum);
        }
    }
}

static void hyper_post_run(const kernel_args *args, int tile, void *scratch)
{
    (void)scratch;
    const args_hyper_post *a = &args->hyper_post;
    const int S = a->streams;
    float *x = a->x + (size_t)tile * S * a->dim;
    const float *y = a->y + (size_t)tile * a->dim, *post = a->post + (size_t)tile * S;
    const float *comb = a->comb + (size_t)tile * S * S;
    assert(S <= HYPER_MAX_STREAMS);
    if (S == 4)
        spread(x, y, post, comb, a->dim, 4);
    else
        spread(x, y, post, comb, a->dim, S);
}

const kernel_impl avx2_hyper_post = { .tiles = hyper_post_tiles, .run = hyper_post_run };
