/* cache_impl.h: what stands behind cache.h, for the files of this room.
 *
 * A page number is in exactly one place: the free list, or the table row of the slot that holds it. Promises are
 * numbers only: they say what admission may still give away, not who holds what.
 * Threads: as cache.h.
 */
#ifndef FORAY_CACHE_CACHE_IMPL_H
#define FORAY_CACHE_CACHE_IMPL_H

#include "cache/cache.h"

typedef struct {
    int held, promised; /* pages */
} slot_pages;

typedef struct {
    pool_desc desc;
    uint8_t *pages;     /* [page_count][page bytes] device memory */
    int32_t *table;     /* [slots][stride] device memory */
    int32_t *free_list; /* [page_count - 1] numbers of free pages, a stack */
    slot_pages *slot;   /* [slots] */
    int page_count, free_count, stride, promised;
    /* Pages below this one have memory behind them. Those from here on were never taken: the stack gives out what came back
     * before it goes on, from the lowest number up. */
    int warm;
} page_pool;

struct cache {
    device *device;
    page_pool pool[CACHE_MAX_POOLS];
    int pools, slots, max_length; /* max_length: see cache_max_length */
    uint8_t *entry;               /* [entry_bytes] one entry on its way into a digest */
    size_t entry_bytes;
};

/* The page of an entry that slot has a page for; *index: its place in there. */
uint8_t *page_of_entry(const page_pool *p, int slot, int entry, int *index);

#endif
