/* index.c: the indexer: a score for each entry that a row sees, then the entries that it attends to.
 *
 *   d[h]     = q[h] . key_j                              lanes and tree of kernel/ref/reduce.h, with fma
 *   score[j] = (((0 + w[0] d+[0]) + w[1] d+[1]) + …) * scale     one chain of fma over the heads, d+ = d where d > 0, else 0
 *
 * The choice is index_select.h. Scalar. Tiles: a block of entries of a row (sparse.h); a row. Threads: tiles at once.
 */
#include <math.h>

#include "kernel/cpu/entries.h"
#include "kernel/ref/index_select.h"
#include "kernel/ref/entry_pack.h"
#include "kernel/ref/reduce.h"

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
    const args_index_score *a = &args->index_score;
    const sparse_tile at = sparse_score_tile(a, tile);
    float *score = a->score + (size_t)at.row * a->max_entries;
    for (int j = at.first; j < at.first + at.count; j++)
        score[j] = score_entry(a, at.row, entry_load(&a->keys, a->slot[at.row], j, scratch));
}

const kernel_impl ref_index_score = { .tiles = sparse_score_tiles,
                                      .scratch = sparse_score_scratch,
                                      .run = index_score_run };

const kernel_impl ref_index_select = { .tiles = index_select_tiles,
                                       .scratch = index_select_scratch,
                                       .run = index_select_run };
