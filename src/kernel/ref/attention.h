/* attention.h: where the entries of a paged K/V layer lie, for all who store or read them.
 *
 * The unit is the tile of 16 entries: [head_dim][16] of K, lane = entry, and [16][head_dim] of V, lane =
 * dimension. Both have the same size and the same place in their half of the page, so one pointer and one
 * constant distance find both. Pure. Threads: any.
 */
#ifndef FORAY_KERNEL_REF_ATTENTION_H
#define FORAY_KERNEL_REF_ATTENTION_H

#include "kernel/kernel.h"

enum { KV_TILE = 16 };

/* Live spans, 0 … max_spans. */
static inline int attention_spans(const args_attention *a)
{
    return rows_live((row_count) { a->span_count, a->max_spans });
}

/* The first entry that a row at position p sees. */
static inline int attention_first(const args_attention *a, int p)
{
    return a->window > 0 && p >= a->window ? p - a->window + 1 : 0;
}

/* K of entries 16 tile … 16 tile + 15 of a slot's request: [head_dim][16]. */
static inline uint16_t *attention_keys(const kv_layer *kv, int slot, int kv_head, int tile)
{
    const int per_page = kv->page_rows / KV_TILE;
    const int32_t page = kv->table[(size_t)slot * (size_t)kv->table_stride + (size_t)(tile / per_page)];
    uint16_t *k = (uint16_t *)(void *)(kv->base + (size_t)page * kv->page_stride);
    return k + ((size_t)kv_head * per_page + (size_t)(tile % per_page)) * KV_TILE * kv->head_dim;
}

/* Distance in elements from a tile's K to its V: [16][head_dim]. */
static inline size_t attention_values(const kv_layer *kv)
{
    return (size_t)kv->kv_heads * kv->page_rows * kv->head_dim;
}

#endif
