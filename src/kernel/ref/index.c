/* index.c: the indexer: a score for each entry that a row sees, then the entries that it attends to.
 *
 *   d[h]     = q[h] . key_j                              lanes and tree of kernel/ref/reduce.h, with fma
 *   score[j] = (((0 + w[0] d+[0]) + w[1] d+[1]) + …) * scale     one chain of fma over the heads, d+ = d where d > 0, else 0
 *
 * Chosen is a set, so how it is found leaves no trace in the bits: here by the top score, eight bits of it at a time. A
 * NaN counts as the smallest score, -0 and +0 as equals. Scalar; the selection serves every instruction set. Tiles: a
 * block of entries of a row (sparse.h); a row. Threads: tiles at once.
 */
#include <math.h>

#include "kernel/cpu/entries.h"
#include "kernel/ref/reduce.h"
#include "kernel/ref/sparse.h"
#include "kernel/ref/vmath.h"

static float score_entry(const args_index_score *a, int row, const float *key)
{
    const float *q = a->q + (size_t)row * a->heads * a->width, *weight = a->weight + (size_t)row * a->heads;
    float score = 0;
    for (int h = 0; h < a->heads; h++, q += a->width) {
        const float d = reduce_dot(q, key, a->width);
        score = fmaf(weight[h], d > 0 ? d : 0, score);
    }
    return score * a->scale;
}

static void index_score_run(const kernel_args *args, int tile, void *scratch)
{
    (void)scratch;
    const args_index_score *a = &args->index_score;
    const sparse_tile at = sparse_score_tile(a, tile);
    float *score = a->score + (size_t)at.row * a->max_entries;
    for (int j = at.first; j < at.first + at.count; j++)
        score[j] = score_entry(a, at.row, entry_at(&a->keys, a->slot[at.row], j));
}

const kernel_impl ref_index_score = { .tiles = sparse_score_tiles, .run = index_score_run };

/* ---- selection ---- */

static int index_select_tiles(const kernel_args *args)
{
    return rows_live(args->index_select.rows);
}

/* Ascends with the score. */
static inline uint32_t rank_score(float score)
{
    const uint32_t u = vmath_bits(score + 0.0f); /* -0 and +0 are equals */
    return isnan(score) ? 0 : u & 0x80000000u ? ~u : u | 0x80000000u;
}

/* The rank of the top-th best of n scores, n > top; *equals: how many with this very rank are among the best. */
static uint32_t find_least(const float *score, int n, int top, int *equals)
{
    uint32_t prefix = 0;
    for (int shift = 24; shift >= 0; shift -= 8) {
        int count[256] = { 0 };
        for (int i = 0; i < n; i++) {
            const uint32_t rank = rank_score(score[i]);
            if (shift == 24 || rank >> (shift + 8) == prefix)
                count[rank >> shift & 255]++;
        }
        int digit = 255;
        while (count[digit] < top)
            top -= count[digit--];
        prefix = prefix << 8 | (uint32_t)digit;
    }
    *equals = top;
    return prefix;
}

static void index_select_run(const kernel_args *args, int tile, void *scratch)
{
    (void)scratch;
    const args_index_select *a = &args->index_select;
    const float *score = a->score + (size_t)tile * a->max_entries;
    int32_t *chosen = a->chosen + (size_t)tile * a->top;
    const int visible = sparse_visible(a->position[tile], a->ratio);
    if (visible <= a->top) {
        for (int j = 0; j < visible; j++)
            chosen[j] = j;
        a->count[tile] = visible;
        return;
    }
    int equals, n = 0;
    const uint32_t least = find_least(score, visible, a->top, &equals);
    for (int j = 0; j < visible && n < a->top; j++) {
        const uint32_t rank = rank_score(score[j]);
        if (rank > least || (rank == least && equals-- > 0))
            chosen[n++] = j;
    }
    a->count[tile] = n;
}

const kernel_impl ref_index_select = { .tiles = index_select_tiles, .run = index_select_run };
