/* avx512_index.c: the indexer's scores, 4 heads x 4 entries at a time (avx512_dots.h); the bits of
 * kernel/ref/index.c. The choice is the page of kernel/ref, compiled for this instruction set. Threads: tiles at once.
 */
#include <immintrin.h>

#include "kernel/cpu/avx512_dots.h"
#include "kernel/cpu/avx2_entry.h"
#include "kernel/cpu/entries.h"
#include "kernel/ref/index_select.h"

/* sum of four entries + weight . relu(q . key) of H heads. */
static inline __attribute__((always_inline)) __m128
add_heads(__m128 sum, const float *weight, const float *q, int width, const float *const key[4], const int H)
{
    /* max gives its second operand where the first is NaN */
    const __m512 d = _mm512_max_ps(avx512_dots(q, (size_t)width, key, width, H), _mm512_setzero_ps());
    sum = _mm_fmadd_ps(_mm_set1_ps(weight[0]), _mm512_castps512_ps128(d), sum);
    if (H == 1)
        return sum;
    sum = _mm_fmadd_ps(_mm_set1_ps(weight[1]), _mm512_extractf32x4_ps(d, 1), sum);
    sum = _mm_fmadd_ps(_mm_set1_ps(weight[2]), _mm512_extractf32x4_ps(d, 2), sum);
    return _mm_fmadd_ps(_mm_set1_ps(weight[3]), _mm512_extractf32x4_ps(d, 3), sum);
}

static void index_score_run(const kernel_args *args, int tile, void *scratch)
{
    float *room = scratch;
    const args_index_score *a = &args->index_score;
    const sparse_tile at = sparse_score_tile(a, tile);
    const float *q = a->q + (size_t)at.row * a->heads * a->width,
                *weight = a->weight + (size_t)at.row * a->heads;
    float *score = a->score + (size_t)at.row * a->max_entries + at.first;
    for (int j = 0; j < at.count; j += 4) {
        const int entries = at.count - j < 4 ? at.count - j : 4;
        const float *key[4];
        __m128 sum = _mm_setzero_ps();
        for (int i = 0; i < 4; i++) /* the last again instead of those that are not there */
            key[i] =
                avx2_entry_load(&a->keys, a->slot[at.row], at.first + j + (i < entries ? i : entries - 1),
                                room + (size_t)i * (size_t)a->width);
        int h = 0;
        for (; h + 4 <= a->heads; h += 4)
            sum = add_heads(sum, weight + h, q + (size_t)h * a->width, a->width, key, 4);
        for (; h < a->heads; h++)
            sum = add_heads(sum, weight + h, q + (size_t)h * a->width, a->width, key, 1);
        _mm_mask_storeu_ps(score + j, (__mmask8)((1 << entries) - 1), _mm_mul_ps(sum, _mm_set1_ps(a->scale)));
    }
}

const kernel_impl avx512_index_score = { .tiles = sparse_score_tiles,
                                         .scratch = sparse_score_scratch,
                                         .run = index_score_run };

const kernel_impl avx512_index_select = { .tiles = index_select_tiles,
                                          .scratch = index_select_scratch,
                                          .run = index_select_run };
