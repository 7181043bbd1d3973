/* avx2_attention.c: attention with eight entries or eight dimensions per vector; the bits of
 * kernel/ref/attention.c.
 *
 * Three passes over a tile (attention_tiles.h): scores, weights, values. Scores and values are templates over
 * the number of queries, at most six: with sixteen registers twelve accumulators are all there is room for.
 * More queries go in two blocks. The template's second number fills the registers: without about eight
 * independent chains the multiply-adds would wait for each other.
 * Threads: tiles at once, each in its worker's scratch.
 */
#include <immintrin.h>

#include "kernel/cpu/attention_tiles.h"
#include "kernel/cpu/avx2_queries.h"
#include "kernel/cpu/avx2_reduce.h"
#include "kernel/cpu/avx2_vmath.h"
#include "kernel/cpu/entries.h"

#define TEMPLATE static inline __attribute__((always_inline))

enum { BLOCK = 6 }; /* queries that share one load */

static inline __m256 load_half(const uint16_t *h)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)h));
}

/* Scores of Q queries from `query` on, for T key tiles of two vectors at a time. At the end the last tile is
 * repeated to fill T. */
TEMPLATE void scores_of(const attention_work *w, float scale, int query, const int Q, const int T)
{
    const int last = w->key_tiles - 1;
    for (int j = 0; j <= last; j += T) {
        const uint16_t *k[4], *next[4];
        __m256 s[BLOCK][8], key[8];
#pragma GCC unroll 4
        for (int t = 0; t < T; t++) {
            k[t] = w->keys[j + t < last ? j + t : last];
            next[t] = attention_ahead_of_scores(w, j + T + t);
        }
#pragma GCC unroll 6
        for (int i = 0; i < Q; i++)
#pragma GCC unroll 8
            for (int t = 0; t < 2 * T; t++)
                s[i][t] = _mm256_setzero_ps();
        for (int d = 0; d < w->head_dim; d++) {
            const float *q = w->q + d * ATTENTION_QUERIES + query;
            if (d % 2 == 0)
#pragma GCC unroll 4
                for (int t = 0; t < T; t++)
                    attention_prefetch(next[t] + d * 16);
            if (Q > 2 * T) { /* whichever are fewer stay in registers: keys or broadcast numbers */
#pragma GCC unroll 8
                for (int t = 0; t < 2 * T; t++)
                    key[t] = load_half(k[t / 2] + d * 16 + t % 2 * 8);
#pragma GCC unroll 6
                for (int i = 0; i < Q; i++) {
                    const __m256 number = _mm256_broadcast_ss(q + i);
#pragma GCC unroll 8
                    for (int t = 0; t < 2 * T; t++)
                        s[i][t] = _mm256_fmadd_ps(number, key[t], s[i][t]);
                }
                continue;
            }
#pragma GCC unroll 8
            for (int t = 0; t < 2 * T; t++) {
                key[t] = load_half(k[t / 2] + d * 16 + t % 2 * 8);
#pragma GCC unroll 6
                for (int i = 0; i < Q; i++)
                    s[i][t] = _mm256_fmadd_ps(_mm256_broadcast_ss(q + i), key[t], s[i][t]);
            }
        }
#pragma GCC unroll 8
        for (int t = 0; t < 2 * T; t++) {
            const int tile = j + t / 2 < last ? j + t / 2 : last;
            float *to = w->score + ((size_t)tile * w->queries + query) * 16 + t % 2 * 8;
#pragma GCC unroll 6
            for (int i = 0; i < Q; i++)
                _mm256_storeu_ps(to + i * 16, _mm256_mul_ps(s[i][t], _mm256_set1_ps(scale)));
        }
    }
}

static void scores(const attention_work *w, float scale, int query, int queries)
{
    switch (queries) {
    case 1:
        scores_of(w, scale, query, 1, 4);
        break;
    case 2:
        scores_of(w, scale, query, 2, 3);
        break;
    case 3:
        scores_of(w, scale, query, 3, 2);
        break;
    case 4:
        scores_of(w, scale, query, 4, 1);
        break;
    case 5:
        scores_of(w, scale, query, 5, 1);
        break;
    default:
        scores_of(w, scale, query, 6, 1);
        break;
    }
}

/* The lanes of entries t … t + 7 that lie in first … last, as all ones. */
static inline __m256 seen(int t, int first, int last)
{
    return _mm256_castsi256_ps(
        _mm256_andnot_si256(avx2_mask_below(first - t), avx2_mask_below(last + 1 - t)));
}

/* x where seen, else `other`. Only a row's first and last tile have lanes that it does not see. */
static inline __m256 only_seen(__m256 x, __m256 other, int t, int first, int last)
{
    return t >= first && t + 7 <= last ? x : _mm256_blendv_ps(other, x, seen(t, first, last));
}

static float largest(__m256 low, __m256 high)
{
    const __m256 eight = _mm256_max_ps(low, high);
    const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

/* Scores of one query to weights; entries that its row does not see get 0. Returns 1 / sum. */
static float weights(const attention_work *w, int query)
{
    const int first = w->first[query / w->heads], last = w->last[query / w->heads];
    const size_t stride = (size_t)w->queries * 16;
    float *from = w->score + (size_t)(first / 16) * stride + (size_t)query * 16;
    const __m256 none = _mm256_set1_ps(-INFINITY), zero = _mm256_setzero_ps();

    __m256 low = none, high = none;
    float *s = from;
    for (int t = first / 16 * 16; t <= last; t += 16, s += stride) {
        const __m256 a = only_seen(_mm256_loadu_ps(s), none, t, first, last);
        const __m256 b = only_seen(_mm256_loadu_ps(s + 8), none, t + 8, first, last);
        low = _mm256_max_ps(a, low); /* the second operand stays where the first is NaN */
        high = _mm256_max_ps(b, high);
    }
    const __m256 max = _mm256_set1_ps(largest(low, high));
    low = high = zero;
    s = from;
    for (int t = first / 16 * 16; t <= last; t += 16, s += stride) {
        const __m256 a = avx2_exp(_mm256_sub_ps(_mm256_loadu_ps(s), max));
        const __m256 b = avx2_exp(_mm256_sub_ps(_mm256_loadu_ps(s + 8), max));
        const __m256 ea = _mm256_and_ps(a, seen(t, first, last)),
                     eb = _mm256_and_ps(b, seen(t + 8, first, last));
        _mm256_storeu_ps(s, ea);
        _mm256_storeu_ps(s + 8, eb);
        low = _mm256_add_ps(low, ea);
        high = _mm256_add_ps(high, eb);
    }
    return 1.0f / avx2_tree(low, high);
}

/* sum[i] += weight * V over entries begin … end - 1, for Q queries from `query` on and the 8 C dimensions
 * from `dim` on. */
TEMPLATE void values_of(const attention_work *w, int query, int begin, int end, int dim, const int Q,
                        const int C)
{
    __m256 o[BLOCK][8], v[8];
    float *sum = w->sum + query * w->sum_stride + dim;
#pragma GCC unroll 6
    for (int i = 0; i < Q; i++)
#pragma GCC unroll 8
        for (int c = 0; c < C; c++)
            o[i][c] = _mm256_loadu_ps(sum + i * w->sum_stride + c * 8);
    for (int t = begin; t < end;) {
        const int j = t / 16, stop = 16 * j + 16 < end ? 16 * j + 16 : end;
        const uint16_t *row = w->keys[j] + w->values + (size_t)(t % 16) * w->head_dim + dim;
        const uint16_t *next = attention_ahead_of_values(w, j) + (size_t)(t % 16) * w->head_dim + dim;
        const float *weight = w->score + ((size_t)j * w->queries + query) * 16 + t % 16;
        for (; t < stop; t++, weight++, row += w->head_dim, next += w->head_dim) {
            attention_prefetch(next);
            if (C == 8)
                attention_prefetch(next + 32);
            if (Q > C) {
#pragma GCC unroll 8
                for (int c = 0; c < C; c++)
                    v[c] = load_half(row + c * 8);
#pragma GCC unroll 6
                for (int i = 0; i < Q; i++) {
                    const __m256 number = _mm256_broadcast_ss(weight + i * 16);
#pragma GCC unroll 8
                    for (int c = 0; c < C; c++)
                        o[i][c] = _mm256_fmadd_ps(number, v[c], o[i][c]);
                }
                continue;
            }
#pragma GCC unroll 8
            for (int c = 0; c < C; c++) {
                v[c] = load_half(row + c * 8);
#pragma GCC unroll 6
                for (int i = 0; i < Q; i++)
                    o[i][c] = _mm256_fmadd_ps(_mm256_broadcast_ss(weight + i * 16), v[c], o[i][c]);
            }
        }
    }
#pragma GCC unroll 6
    for (int i = 0; i < Q; i++)
#pragma GCC unroll 8
        for (int c = 0; c < C; c++)
            _mm256_storeu_ps(sum + i * w->sum_stride + c * 8, o[i][c]);
}

/* All dimensions, C vectors at a time and the rest one by one. */
TEMPLATE void values_all(const attention_work *w, int query, int begin, int end, const int Q, const int C)
{
    int dim = 0;
    for (; dim + 8 * C <= w->head_dim; dim += 8 * C)
        values_of(w, query, begin, end, dim, Q, C);
    for (; dim < w->head_dim; dim += 8)
        values_of(w, query, begin, end, dim, Q, 1);
}

static void values_block(const attention_work *w, int query, int queries, int begin, int end)
{
    switch (queries) {
    case 1:
        values_all(w, query, begin, end, 1, 8);
        break;
    case 2:
        values_all(w, query, begin, end, 2, 4);
        break;
    case 3:
        values_all(w, query, begin, end, 3, 4);
        break;
    case 4:
        values_all(w, query, begin, end, 4, 2);
        break;
    case 5:
        values_all(w, query, begin, end, 5, 2);
        break;
    default:
        values_all(w, query, begin, end, 6, 2);
        break;
    }
}

static void values(const attention_work *w, int query, int queries, int begin, int end)
{
    if (begin >= end)
        return;
    const int first = queries > BLOCK ? (queries + 1) / 2 : queries;
    values_block(w, query, first, begin, end);
    if (queries > first)
        values_block(w, query + first, queries - first, begin, end);
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
    const int block = w.queries > BLOCK ? (w.queries + 1) / 2 : w.queries;
    scores(&w, args->attention.scale, 0, block);
    if (w.queries > block)
        scores(&w, args->attention.scale, block, w.queries - block);
    float scale[ATTENTION_QUERIES];
    for (int i = 0; i < w.queries; i++)
        scale[i] = weights(&w, i);
    sum_values(&w);
    for (int i = 0; i < w.queries; i++)
        for (int d = 0; d < w.head_dim; d += 8) {
            const __m256 sum = _mm256_loadu_ps(w.sum + i * w.sum_stride + d);
            _mm256_storeu_ps(w.out[i] + d, _mm256_mul_ps(sum, _mm256_set1_ps(scale[i])));
        }
}

const kernel_impl avx2_attention = { .tiles = attention_tiles,
                                     .scratch = attention_scratch,
                                     .run = attention_run };
