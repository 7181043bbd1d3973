/* kv.c: layout of full attention pages. See kv.h. */
#include "cache/kv.h"

#include <string.h>

/* K and V of one token in one layer. */
static size_t entry_bytes(const kv_shape *s)
{
    return 2 * sizeof(uint16_t) * (size_t)s->kv_heads * (size_t)s->head_dim;
}

static size_t layer_bytes(const kv_shape *s)
{
    return (size_t)s->page_rows * entry_bytes(s);
}

/* An entry outside a page: for every layer and head K, then V. */
static void kv_copy(const pool_desc *p, uint8_t *page, int index, uint8_t *entry, bool save)
{
    const kv_shape *s = p->user;
    size_t d = (size_t)s->head_dim, rows = (size_t)s->page_rows, half = sizeof(uint16_t);
    for (int layer = 0; layer < s->layers; layer++) {
        uint8_t *k = page + (size_t)layer * layer_bytes(s), *v = k + layer_bytes(s) / 2;
        for (size_t h = 0; h < (size_t)s->kv_heads; h++) {
            /* K is transposed: the entry is one column of its tile. */
            uint8_t *column = k + half * ((h * rows + (size_t)(index & ~15)) * d + (size_t)(index & 15));
            for (size_t i = 0; i < d; i++, entry += half)
                memcpy(save ? entry : column + i * 16 * half, save ? column + i * 16 * half : entry, half);
            uint8_t *row = v + half * (h * rows + (size_t)index) * d;
            memcpy(save ? entry : row, save ? row : entry, half * d);
            entry += half * d;
        }
    }
}

pool_desc kv_pool(const kv_shape *shape)
{
    return (pool_desc) { .name = "kv",
                         .layers = shape->layers,
                         .entry_bytes = entry_bytes(shape),
                         .page_rows = shape->page_rows,
                         .tokens = 1,
                         .poison = 0x7f,
                         .copy = kv_copy,
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
