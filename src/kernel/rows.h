/* rows.h: how kernels are told about rows: how many are live, which belong to one request, and where the entries lie
 * that a request keeps between steps.
 *
 * Pure. Threads: any.
 */
#ifndef FORAY_KERNEL_ROWS_H
#define FORAY_KERNEL_ROWS_H

#include <stddef.h>
#include <stdint.h>

/* Live rows: *live in device memory (NULL: all), never above max. */
typedef struct {
    const int32_t *live;
    int32_t max;
} row_count;

static inline int rows_live(row_count r)
{
    int n = r.live ? *r.live : r.max;
    return n < 0 ? 0 : n < r.max ? n : r.max;
}

/* A run of rows of one request with consecutive positions: they share one read of the keys. */
typedef struct {
    int32_t first_row, rows, slot, first_position;
} row_span;

/* One layer's share of a pool of entries of `width` floats (cache/cache.h). A growing pool keeps entry e for ever; a
 * ring keeps the last `ring` of them, e at e % ring.
 *
 *   page:  [layer 0: page_rows x width] [layer 1: …] …     base points at this layer's share of page 0 */
typedef struct {
    uint8_t *base;        /* page p starts at base + p * page_stride */
    size_t page_stride;   /* bytes */
    const int32_t *table; /* [slots, table_stride] page numbers of each request slot */
    int table_stride;
    int page_rows, width;
    int ring; /* 0: growing */
} entry_rows;

static inline float *entry_at(const entry_rows *e, int slot, int entry)
{
    int at = e->ring ? entry % e->ring : entry;
    int32_t page = e->table[(size_t)slot * (size_t)e->table_stride + (size_t)(at / e->page_rows)];
    uint8_t *start = e->base + (size_t)page * e->page_stride;
    return (float *)(void *)start + (size_t)(at % e->page_rows) * (size_t)e->width;
}

#endif
