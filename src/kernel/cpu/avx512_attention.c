/* avx512_attention.c: attention with sixteen entries or sixteen dimensions per vector; the bits of
 * kernel/ref/attention.c.
 *
 * Three passes over a tile (attention_tiles.h): scores, weights, values. Scores and values are templates over
 * the number of queries: each K or V vector is converted once and meets every query, and all accumulators
 * stay in registers. The template's second number fills the registers: without about eight independent chains
 * the multiply-adds would wait for each other.
 * Threads: tiles at once, each in its worker's scratch.
 */
#include <immintrin.h>

#include "kernel/cpu/attention_tiles.h"
#include "kernel/cpu/avx2_queries.h"
#include "kernel/cpu/avx512_reduce.h"
#include "kernel/cpu/avx512_vmath.h"
#include "kernel/cpu/entries.h"

#define TEMPLATE static inline __attribute__((always_inline))

/* Scores of all Q queries for T key tiles at a time. At the end the last tile is repeated to fill T. */
TEMPLATE void scores_of(const attention_work *w, float scale, const int Q, const int T)
{
    const int last = w->key_tiles - 1;
    for (int j = 0; j <= last; j += T) {
        const uint16_t *k[8], *next[8];
        __m512 s[ATTENTION_QUERIES][8], key[8];
#pragma GCC unroll 8
        for (int t = 0; t < T; t++) {
            k[t] = w->keys[j + t < last ? j + t : last];
            next[t] = attention_ahead_of_scores(w, j + T + t);
        }
#pragma GCC unroll 12
        for (int i = 0; i < Q; i++)
#pragma GCC unroll 8
            for (int t = 0; t < T; t++)
                s[i][t] = _mm512_setzero_ps();
        for (int d = 0; d < w->head_dim; d++) {
            const float *q = w->q + d * ATTENTION_QUERIES;
            if (d % 2 == 0)
#pragma GCC unroll 8
                for (int t = 0; t < T; t++)
                    attention_prefetch(next[t] + d * 16);
#pragma GCC unroll 8
            for (int t = 0; t < T; t++)
                key[t] = _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)(k[t] + d * 16)));
#pragma GCC unroll 12
            for (int i = 0; i < Q; i++)
#pragma GCC unroll 8
                for (int t = 0; t < T; t++)
                    s[i][t] = _mm512_fmadd_ps(_mm512_set1_ps(q[i]), key[t], s[i][t]);
        }
#pragma GCC unroll 8
        for (int t = 0; t < T; t++) {
            float *to = w->score + (size_t)(j + t < last ? j + t : last) * Q * 16;
#pragma GCC unroll 12
            for (int i = 0; i < Q; i++)
                _mm512_storeu_ps(to + i * 16, _mm512_mul_ps(s[i][t], _mm512_set1_ps(scale)));
        }
    }
}

static void scores(const attention_work *w, float scale)
{
    switch (w->queries) {
    case 1:
        scores_of(w, scale, 1, 8);
        break;
    case 2:
        scores_of(w, scale, 2, 6);
        break;
    case 3:
        scores_of(w, scale, 3, 4);
        break;
    case 4:
        scores_of(w, scale, 4, 4);
        break;
    case 5:
        scores_of(w, scale, 5, 4);
        break;
    case 6:
        scores_of(w, scale, 6, 4);
        break;
    case 7:
        scores_of(w, scale, 7, 3);
        break;
    case 8:
        scores_of(w, scale, 8, 3);
        break;
    case 9:
        scores_of(w, scale, 9, 2);
        break;
    case 10:
        scores_of(w, scale, 10, 2);
        break;
    case 11:
        scores_of(w, scale, 11, 2);
        break;
    default:
        scores_of(w, scale, 12, 2);
        break;
    }
}

/* Scores of one query to weights; entries that its row does not see get 0. Returns 1 / sum. */
static float weights(const attention_work *w, int query)
{
    const int first = w->first[query / w->heads], last = w->last[query / w->heads];
    const int begin = first / 16, end = last / 16;
    const __mmask16 head = (__mmask16)(0xffffu << first % 16),
                    tail = (__mmask16)(0xffffu >> (15 - last % 16));
    const size_t stride = (size_t)w->queries * 16;
    float *s = w->score + (size_t)query * 16;

    __m512 max = _mm512_set1_ps(-INFINITY);
    for (int j = begin; j <= end; j++) {
        const __mmask16 seen = (__mmask16)((j == begin ? head : 0xffffu) & (j == end ? tail : 0xffffu));
        max = _mm512_mask_max_ps(max, seen, _mm512_loadu_ps(s + (size_t)j * stride), max);
    }
    max = _mm512_set1_ps(_mm512_reduce_max_ps(max));
    __m512 sum = _mm512_setzero_ps();
    for (int j = begin; j <= end; j++) {
        const __mmask16 seen = (__mmask16)((j == begin ? head : 0xffffu) & (j == end ? tail : 0xffffu));
        const __m512 x = _mm512_sub_ps(_mm512_loadu_ps(s + (size_t)j * stride), max);
        const __m512 e = _mm512_maskz_mov_ps(seen, avx512_exp(x));
        _mm512_storeu_ps(s + (size_t)j * stride, e);
        sum = _mm512_add_ps(sum, e);
    }
    return 1.0f / avx512_tree(sum);
}

/* sum[i] += weight * V over entries begin … end - 1, for Q queries from `query` on and the 16 C dimensions
 * from `dim` on; only those of `mask` in the last vector. */
TEMPLATE void values_of(const attention_work *w, int query, int begin, int end, int dim, __mmask16 mask,
                        const int Q, const int C)
{
    __m512 o[ATTENTION_QUERIES][4], v[4];
    float *sum = w->sum + query * w->sum_stride + dim;
#pragma GCC unroll 12
    for (int i = 0; i < Q; i++)
#pragma GCC unroll 4
        for (int c = 0; c < C; c++)
            o[i][c] = _mm512_loadu_ps(sum + i * w->sum_stride + c * 16);
    for (int t = begin; t < end;) {
        const int j = t / 16, stop = 16 * j + 16 < end ? 16 * j + 16 : end;
        const uint16_t *row = w->keys[j] + w->values + (size_t)(t % 16) * w->head_dim + dim;
        const uint16_t *next = attention_ahead_of_values(w, j) + (size_t)(t % 16) * w->head_dim + dim;
        const float *weight = w->score + ((size_t)j * w->queries + query) * 16 + t % 16;
        for (; t < stop; t++, weight++, row += w->head_dim, next += w->head_dim) {
            attention_prefetch(next);
            if (C == 4)
                attention_prefetch(next + 32);
#pragma GCC unroll 4
            for (int c = 0; c < C; c++)
                v[c] =
                    C == 1
                        ? _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(mask, row))
                        : _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)(row + c * 16)));
#pragma GCC unroll 12
            for (int i = 0; i < Q; i++)
#pragma GCC unroll 4
                for (int c = 0; c < C; c++)
                    o[i][c] = _mm512_fmadd_ps(_mm512_set1_ps(weight[i * 16]), v[c], o[i][c]);
        }
    }
#pragma GCC unroll 12
    for (int i = 0; i < Q; i++)
#pragma GCC unroll 4
        for (int c = 0; c < C; c++)
            _mm512_storeu_ps(sum + i * w->sum_stride + c * 16, o[i][c]);
}

/* All dimensions, C vectors at a time and the rest one by one. */
TEMPLATE void values_all(const attention_work *w, int query, int begin, int end, const int Q, const int C)
{
    int dim = 0;
    for (; dim + 16 * C <= w->head_dim; dim += 16 * C)
        values_of(w, query, begin, end, dim, 0xffff, Q, C);
    for (; dim < w->head_dim; dim += 16)
        values_of(w, query, begin, end, dim, w->head_dim - dim < 16 ? 0x00ff : 0xffff, Q, 1);
}

static void values(const attention_work *w, int query, int queries, int begin, int end)
{
    if (begin >= end)
        return;
    switch (queries) {
    case 1:
        values_all(w, query, begin, end, 1, 4);
        break;
    case 2:
        values_all(w, query, begin, end, 2, 4);
        break;
    case 3:
        values_all(w, query, begin, end, 3, 4);
        break;
    case 4:
        values_all(w, query, begin, end, 4, 4);
        break;
    case 5:
        values_all(w, query, begin, end, 5, 4);
        break;
    case 6:
        values_all(w, query, begin, end, 6, 4);
        break;
    case 7:
        values_all(w, query, begin, end, 7, 2);
        break;
    case 8:
        values_all(w, query, begin, end, 8, 2);
        break;
    case 9:
        values_all(w, query, begin, end, 9, 2);
        break;
    case 10:
        values_all(w, query, begin, end, 10, 2);
        break;
    case 11:
        values_all(w, query, begin, end, 11, 2);
        break;
    default:
        values_all(w, query, begin, end, 12, 2);
        break;
    }
}

/* The entries that all rows see are summed for all queries together; those at either end that only some rows
 * see, row by row: an entry that a row does not see may hold anything, even NaN, and must not be
 * multiplied. */
static void sum_values(const attention_work *w)
{
    const bool shared = w->shared_begin < w->shared_end;
    for (int r = 0; r < w->rows; r++)
        values(w, r * w->heads, w->heads, w->first[r], shared ? w->shared_begin : w->last[r] + 1);
    if (!shared)
        return;
    values(w, 0, w->queries, w->shared_begin, w->shared_end);
    for (int r = 1; r < w->rows; r++)
        values(w, r * w->heads, w->heads, w->shared_end, w->last[r] + 1);
}

static void attention_run(const kernel_args *args, int tile, void *scratch)
{
    attention_work w;
    attention_begin(&args->attention, tile, scratch, &w);
    avx2_place_queries(&w);
    scores(&w, args->attention.scale);
    float scale[ATTENTION_QUERIES];
    for (int i = 0; i < w.queries; i++)
        scale[i] = weights(&w, i);
    sum_values(&w);
    for (int i = 0; i < w.queries; i++) {
        const float *sum = w.sum + i * w.sum_stride;
        int d = 0;
        for (; d + 16 <= w.head_dim; d += 16)
            _mm512_storeu_ps(w.out[i] + d, _mm512_mul_ps(_mm512_loadu_ps(sum + d), _mm512_set1_ps(scale[i])));
        for (; d < w.head_dim; d++)
            w.out[i][d] = sum[d] * scale[i];
    }
}

const kernel_impl avx512_attention = { .tiles = attention_tiles,
                                       .scratch = attention_scratch,
                                       .run = attention_run };
