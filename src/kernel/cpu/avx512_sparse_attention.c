/* avx512_sparse_attention.c: sparse attention with sixteen channels or sixteen keys per vector; the bits of
 * kernel/ref/sparse_attention.c.
 *
 * Scores are 4 heads x 4 keys at a time (avx512_dots.h), weights sixteen keys of a head, sums a template over heads and
 * channels whose accumulators fill the registers.
 * Threads: tiles at once, each in its worker's scratch.
 */
#include <immintrin.h>

#include "kernel/cpu/avx512_dots.h"
#include "kernel/cpu/avx512_vmath.h"
#include "kernel/cpu/avx2_entry.h"
#include "kernel/cpu/entries.h"
#include "kernel/cpu/sparse_tiles.h"

#define TEMPLATE static inline __attribute__((always_inline))

/* Scores of H heads from `head` on, for all keys. */
TEMPLATE void scores_of(const sparse_work *w, int head, const int H)
{
    const float *q = w->q + (size_t)head * w->width;
    float *to = w->weight + (size_t)head * w->stride;
    const __m512 scale = _mm512_set1_ps(w->scale);
    for (int k = 0; k < w->keys; k += AVX512_DOTS) {
        const __m512 s = _mm512_mul_ps(avx512_dots(q, (size_t)w->width, w->key + k, w->width, H), scale);
        _mm_storeu_ps(to + k, _mm512_castps512_ps128(s));
        if (H > 1)
            _mm_storeu_ps(to + w->stride + k, _mm512_extractf32x4_ps(s, 1));
        if (H > 2)
            _mm_storeu_ps(to + 2 * w->stride + k, _mm512_extractf32x4_ps(s, 2));
        if (H > 3)
            _mm_storeu_ps(to + 3 * w->stride + k, _mm512_extractf32x4_ps(s, 3));
    }
}

static void scores(const sparse_work *w)
{
    int head = 0;
    for (; head + 4 <= w->heads; head += 4)
        scores_of(w, head, 4);
    for (; head < w->heads; head++)
        scores_of(w, head, 1);
}

static __mmask16 keys_from(const sparse_work *w, int k)
{
    return w->keys - k >= 16 ? 0xffff : avx512_mask_below(w->keys - k);
}

/* Scores of one head to weights. Returns 1 / sum. */
static float weights(const sparse_work *w, int head)
{
    float *s = w->weight + (size_t)head * w->stride;
    __m512 max = _mm512_set1_ps(w->sink[head]); /* stays where a score is NaN */
    for (int k = 0; k < w->keys; k += 16)
        max = _mm512_mask_max_ps(max, keys_from(w, k), _mm512_loadu_ps(s + k), max);
    const float most = _mm512_reduce_max_ps(max);
    __m512 sum = _mm512_setzero_ps();
    for (int k = 0; k < w->keys; k += 16) {
        const __m512 e = avx512_exp(_mm512_sub_ps(_mm512_loadu_ps(s + k), _mm512_set1_ps(most)));
        _mm512_storeu_ps(s + k, e);
        sum = _mm512_mask_add_ps(sum, keys_from(w, k), sum, e);
    }
    return 1.0f / (avx512_tree(sum) + vmath_exp(w->sink[head] - most));
}

/* out of H heads from `head` on, C vectors of channels from `channel` on; only those of `mask` in the last one. */
TEMPLATE void sums_of(const sparse_work *w, const float *scale, int head, int channel, __mmask16 mask,
                      const int H, const int C)
{
    __m512 o[8][8], v[8];
    const float *weight = w->weight + (size_t)head * w->stride;
#pragma GCC unroll 8
    for (int i = 0; i < H; i++)
#pragma GCC unroll 8
        for (int c = 0; c < C; c++)
            o[i][c] = _mm512_setzero_ps();
    for (int k = 0; k < w->keys; k++) {
        const float *key = w->key[k] + channel;
#pragma GCC unroll 8
        for (int c = 0; c < C; c++)
            v[c] = C == 1 ? _mm512_maskz_loadu_ps(mask, key) : _mm512_loadu_ps(key + c * 16);
#pragma GCC unroll 8
        for (int i = 0; i < H; i++)
#pragma GCC unroll 8
            for (int c = 0; c < C; c++)
                o[i][c] = _mm512_fmadd_ps(_mm512_set1_ps(weight[(size_t)i * w->stride + k]), v[c], o[i][c]);
    }
#pragma GCC unroll 8
    for (int i = 0; i < H; i++)
#pragma GCC unroll 8
        for (int c = 0; c < C; c++) {
            float *out = w->out + (size_t)(head + i) * w->width + channel + c * 16;
            const __m512 y = _mm512_mul_ps(o[i][c], _mm512_set1_ps(scale[head + i]));
            if (C == 1)
                _mm512_mask_storeu_ps(out, mask, y);
            else
                _mm512_storeu_ps(out, y);
        }
}

/* All channels, C vectors at a time and the rest one by one. */
TEMPLATE void sums_all(const sparse_work *w, const float *scale, int head, const int H, const int C)
{
    int channel = 0;
    for (; channel + 16 * C <= w->width; channel += 16 * C)
        sums_of(w, scale, head, channel, 0xffff, H, C);
    for (; channel < w->width; channel += 16) {
        const int left = w->width - channel;
        sums_of(w, scale, head, channel, left < 16 ? avx512_mask_below(left) : 0xffff, H, 1);
    }
}

static void sums(const sparse_work *w, const float *scale)
{
    int head = 0;
    for (; head + 8 <= w->heads; head += 8)
        sums_all(w, scale, head, 8, 2);
    for (; head + 4 <= w->heads; head += 4)
        sums_all(w, scale, head, 4, 4);
    for (; head < w->heads; head++)
        sums_all(w, scale, head, 1, 8);
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

const kernel_impl avx512_sparse_attention = { .tiles = sparse_attention_tiles,
                                              .scratch = sparse_attention_scratch,
                                              .run = sparse_attention_run };
