/* avx2_index.c: the indexer's scores, 2 heads x 2 entries at a time (avx2_dots.h); the bits of
 * kernel/ref/index.c. The choice is the page of kernel/ref, compiled for this instruction set. Threads: tiles at once.
 */
#include <immintrin.h>

#include "kernel/cpu/avx2_dots.h"
#include "kernel/cpu/avx2_entry.h"
#include "kernel/cpu/entries.h"
#include "kernel/ref/index_select.h"

/* Scores of two entries, in the lowest lanes. */
static inline __m128 score_two(const args_index_score *a, int row, const float *const key[2])
{
    const float *q = a->q + (size_t)row * a->heads * a->width, *weight = a->weight + (size_t)row * a->heads;
    __m128 sum = _mm_setzero_ps();
    int h = 0;
    for (; h + 2 <= a->heads; h += 2) {
        /* max gives its second operand where the first is NaN */
        const __m128 d = _mm_max_ps(avx2_dots(q + (size_t)h * a->width, (size_t)a->width, key, a->width, 2),
                                    _mm_setzero_ps());
        sum = _mm_fmadd_ps(_mm_set1_ps(weight[h]), d, sum);
        sum = _mm_fmadd_ps(_mm_set1_ps(weight[h + 1]), _mm_movehl_ps(d, d), sum);
    }
    if (h < a->heads) {
        const __m128 d = _mm_max_ps(avx2_dots(q + (size_t)h * a->width, (size_t)a->width, key, a->width, 1),
                                    _mm_setzero_ps());
        sum = _mm_fmadd_ps(_mm_set1_ps(weight[h]), d, sum);
    }
    return _mm_mul_ps(sum, _mm_set1_ps(a->scale));
}

static void index_score_run(const kernel_args *args, int tile, void *scratch)
{
    float *room = scratch;
    const args_index_score *a = &args->index_score;
    const sparse_tile at = sparse_score_tile(a, tile);
    float *score = a->score + (size_t)at.row * a->max_entries;
    for (int j = at.first; j < at.first + at.count; j += 2) {
        const bool both = j + 1 < at.first + at.count;
        const float *const key[2] = { avx2_entry_load(&a->keys, a->slot[at.row], j, room),
                                      avx2_entry_load(&a->keys, a->slot[at.row], both ? j + 1 : j,
                                                      room + a->width) };
        const __m128 two = score_two(a, at.row, key);
        _mm_store_ss(score + j, two);
        if (both)
            _mm_store_ss(score + j + 1, _mm_movehdup_ps(two));
    }
}

const kernel_impl avx2_index_score = { .tiles = sparse_score_tiles,
                                       .scratch = sparse_score_scratch,
                                       .run = index_score_run };

const kernel_impl avx2_index_select = { .tiles = index_select_tiles,
                                        .scratch = index_select_scratch,
                                        .run = index_select_run };
