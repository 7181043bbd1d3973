/* compress.h: one row of a compressor at work: which tokens pool into its group, where they lie, how the entry is turned.
 * What every implementation shares; kernel/ref/compress.c defines the bits.
 *
 * Threads: any; a tile's work lies in the worker's scratch.
 */
#ifndef FORAY_KERNEL_REF_COMPRESS_H
#define FORAY_KERNEL_REF_COMPRESS_H

#include "kernel/kernel.h"

typedef struct {
    const float **kv; /* [tokens] a token's channels [width], ascending in position */
    int tokens;
    size_t to_score; /* kv[t] + to_score: its scores */
    float *cos_sin;  /* [rope_dim] */
    float *entry;    /* [width] the group, to be stored as entry `index` of `slot` */
    int slot, index;
} compress_group;

/* As kernel_impl's tiles and scratch: one tile per row. */
int compress_tiles(const kernel_args *args);
size_t compress_scratch(const kernel_args *args);

/* Fills *g for a row; false where it completes no group. All of g's own memory lies in scratch. */
bool compress_begin(const args_compress *a, int row, void *scratch, compress_group *g);

#endif
