/* sparse_tiles.h: one tile of sparse attention at work: the common ground of the vector implementations.
 *
 * A tile is up to SPARSE_HEADS heads of a row, which share every load of a key (kernel/ref/sparse.h). Three passes: scores
 * of all heads, weights, sums of weighted keys. Threads: any; the work of a tile lies in the worker's scratch.
 */
#ifndef FORAY_KERNEL_CPU_SPARSE_TILES_H
#define FORAY_KERNEL_CPU_SPARSE_TILES_H

#include "kernel/ref/sparse.h"

enum { SPARSE_KEYS = 16 }; /* keys that one step takes: the list is padded to whole steps */

typedef struct {
    int heads, width, keys;
    float scale;
    const float **key; /* [keys, padded with the last] */
    const float *q;    /* [heads, width] */
    const float *sink; /* [heads] */
    float *weight; /* [heads, stride]: scores, then exp(score - max); what stands past keys is of no use */
    size_t stride;
    float *out; /* [heads, width] */
} sparse_work;

/* As kernel_impl's tiles and scratch. */
int sparse_attention_tiles(const kernel_args *args);
size_t sparse_attention_scratch(const kernel_args *args);

/* Fills *w for a tile; weights are the caller's to fill. All of w's memory lies in scratch. */
void sparse_begin(const args_sparse_attention *a, int tile, entry_loader load, void *scratch, sparse_work *w);

#endif
