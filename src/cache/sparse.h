/* sparse.h: the pools of compressed sparse attention (spec: DeepSeek-V4 7): per layer a window ring of latents and, by
 * its ratio, compressed entries and the compressor's state ring; for ratio 4 also the indexer's keys and its state.
 *
 *   pool              kind       entries of a request of n tokens   width per layer
 *   window            ring       window + guard                     head_dim          every layer
 *   streams           ring       window + guard                     streams x dim     the target's, for NextN (one "layer")
 *   entries/r         growing    n / r                              head_dim          layers of ratio r
 *   state/r           ring       span + guard                       2 C               C = head_dim, ratio 4: twice that
 *   index             growing    n / 4                              index_dim         layers of ratio 4
 *   index state       ring       8 + guard                          4 index_dim       layers of ratio 4
 *
 * span: tokens that a group needs: r, ratio 4: 8. guard: the most rows of one pass, so that rows which turn out
 * rejected, or a whole chunk of a prompt, never overwrite what is still needed. All entries are f32.
 * Pure. Threads: any.
 */
#ifndef FORAY_CACHE_SPARSE_H
#define FORAY_CACHE_SPARSE_H

#include "cache/cache.h"
#include "kernel/rows.h"

enum { SPARSE_MAX_LAYERS = 257 };

typedef struct {
    int layers;                   /* NextN's included */
    int ratio[SPARSE_MAX_LAYERS]; /* [layers] */
    int window, head_dim, index_dim;
    int stream_width; /* streams x dim of the target, or 0: nobody needs its streams */
    int guard;
    int page_tokens; /* tokens that a page of growing entries covers, a multiple of every ratio … or one entry per page */
} sparse_shape;

/* The descriptors; shape is borrowed as long as the cache lives. Returns how many. */
int sparse_pools(const sparse_shape *shape, pool_desc out[CACHE_MAX_POOLS]);

/* One layer's share of each pool, as the kernels take it; base NULL where the layer has no such entries. */
entry_rows sparse_window(const cache *c, const sparse_shape *shape, int layer);
entry_rows sparse_streams(const cache *c, const sparse_shape *shape);
entry_rows sparse_entries(const cache *c, const sparse_shape *shape, int layer);
entry_rows sparse_state(const cache *c, const sparse_shape *shape, int layer);
entry_rows sparse_index(const cache *c, const sparse_shape *shape, int layer);
entry_rows sparse_index_state(const cache *c, const sparse_shape *shape, int layer);

#endif
