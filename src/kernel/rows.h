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

/* A run of rows of one request with consecutive positions: they share one read of the keys. A request without rows in this
 * pass may have a span of 0 rows among the others: nothing else of it is looked at. */
typedef struct {
    int32_t first_row, rows, slot, first_position;
} row_span;

/* How an entry's floats are kept: as they are, or in what rounding left of them (kernel/ref/entry_pack.h). */
typedef enum { ENTRY_F32, ENTRY_F8, ENTRY_FP4 } entry_packing;

/* Bytes of an entry of `width` floats, of which the last `plain` are never packed by ENTRY_F8. */
static inline size_t entry_packed_bytes(entry_packing packing, int width, int plain)
{
    size_t coded = (size_t)(packing == ENTRY_F8 ? width - plain : width);
    size_t bytes = packing == ENTRY_F32  ? 4 * coded
                   : packing == ENTRY_F8 ? coded + (coded + 63) / 64
                                         : (coded + 1) / 2 + (coded + 31) / 32;
    return (bytes + 3) / 4 * 4 + (packing == ENTRY_F8 ? 4 * (size_t)plain : 0);
}

/* One layer's share of a pool of entries of `width` floats (cache/cache.h). A growing pool keeps entry e for ever; a
 * ring keeps the last `ring` of them, e at e % ring.
 *
 *   page:  [layer 0: page_rows x stride] [layer 1: …] …     base points at this layer's share of page 0 */
typedef struct {
    uint8_t *base;        /* page p starts at base + p * page_stride */
    size_t page_stride;   /* bytes */
    const int32_t *table; /* [slots, table_stride] page numbers of each request slot */
    int table_stride;
    int page_rows, width;
    int ring; /* 0: growing */
    entry_packing packing;
    int plain;     /* ENTRY_F8: the last channels, which are not rounded */
    size_t stride; /* bytes of an entry: entry_packed_bytes */
} entry_rows;

static inline uint8_t *entry_bytes_at(const entry_rows *e, int slot, int entry)
{
    int at = e->ring ? entry % e->ring : entry;
    int32_t page = e->table[(size_t)slot * (size_t)e->table_stride + (size_t)(at / e->page_rows)];
    uint8_t *start = e->base + (size_t)page * e->page_stride;
    return start + (size_t)(at % e->page_rows) * e->stride;
}

/* Of ENTRY_F32. */
static inline float *entry_at(const entry_rows *e, int slot, int entry)
{
    return (float *)(void *)entry_bytes_at(e, slot, entry);
}

#endif
