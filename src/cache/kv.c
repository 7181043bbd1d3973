/* kv.c: layout of full attention pages. See kv.h. */
#include "cache/kv.h"

#include <xxhash.h>

/* K and V of one layer in one page. */
static size_t layer_bytes(const kv_shape *s)
{
    return 2 * sizeof(uint16_t) * (size_t)s->page_rows * (size_t)s->kv_heads * (size_t)s->head_dim;
}

static int kv_entries(int length)
{
    return length;
}

static uint64_t kv_digest(const void *user, const uint8_t *page, int index, uint64_t hash)
{
    const kv_shape *s = user;
    size_t d = (size_t)s->head_dim, rows = (size_t)s->page_rows;
    for (int layer = 0; layer < s->layers; layer++) {
        const uint16_t *k = (const uint16_t *)(page + (size_t)layer * layer_bytes(s));
        const uint16_t *v = k + rows * (size_t)s->kv_heads * d;
        for (int h = 0; h < s->kv_heads; h++) {
            /* K is transposed: the entry is one column of its tile. */
            const uint16_t *tile = k + ((size_t)h * rows + (size_t)(index & ~15)) * d;
            for (size_t i = 0; i < d; i++)
                hash = (hash ^ tile[i * 16 + (size_t)(index & 15)]) * 0x100000001b3u;
            const uint16_t *row = v + ((size_t)h * rows + (size_t)index) * d;
            hash = XXH3_64bits_withSeed(row, sizeof(uint16_t) * d, hash);
        }
    }
    return hash;
}

pool_desc kv_pool(const kv_shape *shape)
{
    return (pool_desc) { .name = "kv",
                         .page_rows = shape->page_rows,
                         .page_bytes = layer_bytes(shape) * (size_t)shape->layers,
                         .entries = kv_entries,
                         .digest = kv_digest,
                         .user = shape };
}

kv_layer kv_layer_of(const cache *c, int pool, const kv_shape *shape, int layer)
{
    return (kv_layer) { .base = cache_pages(c, pool) + (size_t)layer * layer_bytes(shape),
                        .page_stride = layer_bytes(shape) * (size_t)shape->layers,
                        .table = cache_table(c, pool),
                        .table_stride = cache_table_stride(c, pool),
                        .page_rows = shape->page_rows,
                        .kv_heads = shape->kv_heads,
                        .head_dim = shape->head_dim };
}
