/* kv.h: the pool of full attention: one entry per token, K and V of every layer in f16.
 *
 * A page holds page_rows entries of all layers; inside a layer K lies transposed in tiles of 16 entries and V
 * by rows (kernel.h, kv_layer). Pure. Threads: any.
 */
#ifndef FORAY_CACHE_KV_H
#define FORAY_CACHE_KV_H

#include "cache/cache.h"

typedef struct {
    int layers, kv_heads, head_dim, page_rows; /* page_rows: a multiple of 16 */
} kv_shape;

/* The descriptor of the pool; shape is borrowed as long as the cache lives. */
pool_desc kv_pool(const kv_shape *shape);

/* One layer of pool `pool`, as the kernels take it. */
kv_layer kv_layer_of(const cache *c, int pool, const kv_shape *shape, int layer);

#endif
