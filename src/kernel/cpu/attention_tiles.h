/* attention_tiles.h: how attention is cut into tiles, and the common ground of the vector implementations.
 *
 * A tile is a block of rows of one span times some query heads of one K/V head: up to ATTENTION_QUERIES pairs
 * (row, head), called queries, which share every load of K and V. The cut depends on the arguments only.
 * Where there are few K/V heads, their query heads are split over several tiles so that workers have
 * something to share. The bits do not depend on the cut: a query never sees its neighbours
 * (kernel/ref/attention.c).
 * Threads: any; the work of a tile lies in the worker's scratch.
 */
#ifndef FORAY_KERNEL_CPU_ATTENTION_TILES_H
#define FORAY_KERNEL_CPU_ATTENTION_TILES_H

#include "kernel/ref/attention.h"

enum { ATTENTION_QUERIES = 12 };

/* One tile at work. Queries are row-major: query i is head i % heads of row i / heads. Entries count from the
 * first entry of the first tile of keys, t = 0, and score holds them as the vector units want them:
 *
 *   score [key_tiles][queries][16]     first scores, then the weights exp(s - max); 0 where not seen
 */
typedef struct {
    int rows, heads, queries;
    int head_dim;
    int key_tiles;
    int first[ATTENTION_QUERIES], last[ATTENTION_QUERIES]; /* visible entries of each row, both included */
    int shared_begin, shared_end; /* seen by every row: begin <= t < end, maybe none */
    size_t values;                /* from a tile's K to its V, in elements */
    const uint16_t **keys;        /* [key_tiles] K of 16 entries: [head_dim][16] */
    float *q;                     /* [head_dim][ATTENTION_QUERIES] */
    float *score;                 /* [key_tiles][queries][16] */
    float *sum;                   /* [queries, head_dim up to 16] of weight times V */
    int sum_stride;
    const float *source[ATTENTION_QUERIES]; /* [head_dim] q of each query, in the kernel's input */
    float *out[ATTENTION_QUERIES];          /* [head_dim] of each query, in the kernel's output */
} attention_work;

/* Where to prefetch from while a pass computes, because pages end before the hardware's prefetcher has caught
 * on: the scores pass runs one group of key tiles ahead and on into the first values, the values pass two
 * tiles. */
static inline const uint16_t *attention_ahead_of_scores(const attention_work *w, int tile)
{
    const int last = w->key_tiles - 1, value_tile = tile - w->key_tiles;
    return tile <= last ? w->keys[tile] : w->keys[value_tile < last ? value_tile : last] + w->values;
}

static inline const uint16_t *attention_ahead_of_values(const attention_work *w, int tile)
{
    return w->keys[tile + 2 < w->key_tiles ? tile + 2 : w->key_tiles - 1] + w->values;
}

static inline void attention_prefetch(const uint16_t *p)
{
    __builtin_prefetch(p, 0, 3);
}

/* As kernel_impl's tiles and scratch. */
int attention_tiles(const kernel_args *args);
size_t attention_scratch(const kernel_args *args);

/* Fills *w for a tile: key addresses, ranges, sources, sum = 0; q and score are the caller's to fill. All of
 * w's memory lies in scratch. */
void attention_begin(const args_attention *a, int tile, void *scratch, attention_work *w);

#endif
