/* avx2_sparse_attention.c: sparse attention with eight channels or eight keys per vector; the bits of
 * kernel/ref/sparse_attention.c.
 *
 * Scores are 2 heads x 2 keys at a time (avx2_dots.h), weights sixteen keys of a head, sums a template over heads and
 * channels whose accumulators fill the registers.
 * Threads: tiles at once, each in its worker's scratch.
 */
#include <immintrin.h>

#include "kernel/cpu/avx2_dots.h"
#include "kernel/cpu/avx2_vmath.h"
#include "kernel/cpu/avx2_entry.h"
#include "kernel/cpu/entries.h"
#include "kernel/cpu/sparse_tiles.h"

#define TEMPLATE static inline __attribute__((always_inline))

/* Scores of H heads from `head` on, for all keys. */
TEMPLATE void scores_of(const sparse_work *w, int head, const int H)
{
    const float *q = w->q + (size_t)head * w->width;
    float *to = w->weight + (size_t)head * w->stride;
    const __m128 scale = _mm_set1_ps(w->scale);
    for (int k = 0; k < w->keys; k += AVX2_DOTS) {
        const __m128 s = _mm_mul_ps(avx2_dots(q, (size_t)w->width, w->key + k, w->width, H), scale);
        _mm_storel_pi((__m64 *)(void *)(to + k), s);
        if (H > 1)
            _mm_storeh_pi((__m64 *)(void *)(to + w->stride + k), s);
    }
}

static void scores(const sparse_work *w)
{
    int head = 0;
    for (; head + 2 <= w->heads; head += 2)
        scores_of(w, head, 2);
    if (head < w->heads)
        scores_of(w, head, 1);
}

static float largest(__m256 x)
{
    __m128 v = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    v = _mm_max_ps(v, _mm_movehl_ps(v, v));
    return _mm_cvtss_f32(_mm_max_ss(v, _mm_movehdup_ps(v)));
}

/* Scores of one head to weights. Returns 1 / sum. */
static float weights(const sparse_work *w, int head)
{
    float *s = w->weight + (size_t)head * w->stride;
    __m256 max = _mm256_set1_ps(w->sink[head]); /* stays where a score is NaN */
    for (int k = 0; k < w->keys; k += 8) {
        const __m256 seen = _mm256_castsi256_ps(avx2_mask_below(w->keys - k));
        max = _mm256_blendv_ps(max, _mm256_max_ps(_mm256_loadu_ps(s + k), max), seen);
    }
    const float most = largest(max);
    __m256 sum[2] = { _mm256_setzero_ps(), _mm256_setzero_ps() };
    for (int k = 0; k < w->keys; k += 8) {
        const __m256 seen = _mm256_castsi256_ps(avx2_mask_below(w->keys - k));
        const __m256 e = avx2_exp(_mm256_sub_ps(_mm256_loadu_ps(s + k), _mm256_set1_ps(most)));
        _mm256_storeu_ps(s + k, e);
        sum[k / 8 % 2] = _mm256_add_ps(sum[k / 8 % 2], _mm256_and_ps(e, seen));
    }
    return 1.0f / (avx2_tree(sum[0], sum[1]) + vmath_exp(w->sink[head] - most));
}

/* out of H heads from `head` on, C vectors of channels from `channel` on; only those of `mask` in the last one. */
TEMPLATE void sums_of(const sparse_work *w, const float *scale, int head, int channel, __m256i mask,
                      const int H, const int C)
{
    __m256 o[4][4], v[4];
    const float *weight = w->weight + (size_t)head * w->stride;
#pragma GCC unroll 4
    for (int i = 0; i < H; i++)
#pragma GCC unroll 4
        for (int c = 0; c < C; c++)
            o[i][c] = _mm256_setzero_ps();
    for (int k = 0; k < w->keys; k++) {
        const float *key = w->key[k] + channel;
#pragma GCC unroll 4
        for (int c = 0; c < C; c++)
            v[c] = C == 1 ? _mm256_maskload_ps(key, mask) : _mm256_loadu_ps(key + c * 8);
#pragma GCC unroll 4
        for (int i = 0; i < H; i++) {
            const __m256 by = _mm256_set1_ps(weight[(size_t)i * w->stride + k]);
#pragma GCC unroll 4
            for (int c = 0; c < C; c++)
                o[i][c] = _mm256_fmadd_ps(by, v[c], o[i][c]);
        }
    }
#pragma GCC unroll 4
    for (int i = 0; i < H; i++)
#pragma GCC unroll 4
        for (int c = 0; c < C; c++) {
            float *out = w->out + (size_t)(head + i) * w->width + channel + c * 8;
            const __m256 y = _mm256_mul_ps(o[i][c], _mm256_set1_ps(scale[head + i]));
            if (C == 1)
                _mm256_maskstore_ps(out, mask, y);
            else
                _mm256_storeu_ps(out, y);
        }
}

/* All channels, C vectors at a time and the rest one by one. */
TEMPLATE void sums_all(const sparse_work *w, const float *scale, int head, const int H, const int C)
{
    int channel = 0;
    for (; channel + 8 * C <= w->width; channel += 8 * C)
        sums_of(w, scale, head, channel, _mm256_set1_epi32(-1), H, C);
    for (; channel < w->width; channel += 8)
        sums_of(w, scale, head, channel, avx2_mask_below(w->width - channel), H, 1);
}

static void sums(const sparse_work *w, const float *scale)
{
    int head = 0;
    for (; head + 4 <= w->heads; head += 4)
        sums_all(w, scale, head, 4, 2);
    for (; head < w->heads; head++)
        sums_all(w, scale, head, 1, 4);
}

static void sparse_attention_run(const kernel_args *args, int tile, void *scratch)
{
    sparse_work w;
    float scale[SPARSE_HEADS];
    sparse_begin(&args->sparse_attention, tile, avx2_entry_load, scratch, &w);
    scores(&w);
    for (int h = 0; h < w.heads; h++)
        scale[h] = weights(&w, h);
    sums(&w, scale);
}

const kernel_impl avx2_sparse_attention = { .tiles = sparse_attention_tiles,
                                            .scratch = sparse_attention_scratch,
                                            .run = sparse_attention_run };
