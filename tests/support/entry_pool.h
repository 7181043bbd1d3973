/* entry_pool.h: a pool of entries with pages in disorder, every float NaN until it is filled. For tests and benchmarks of
 * kernels that read or write entries (kernel/rows.h). One thread.
 */
#ifndef FORAY_TESTS_SUPPORT_ENTRY_POOL_H
#define FORAY_TESTS_SUPPORT_ENTRY_POOL_H

#include "kernel/rows.h"

typedef struct {
    entry_rows rows; /* of the middle one of three layers */
    uint8_t *memory;
    size_t bytes, table_bytes;
} entry_pool;

/* Room for `entries` of each of `slots`; ring: of which the last `entries` are kept. */
void entry_pool_init(entry_pool *p, int slots, int entries, int page_rows, int width, int ring);
void entry_pool_free(entry_pool *p);

/* Uniform in -1 … 1, times size, into entries first … last of a slot. */
void entry_pool_fill(entry_pool *p, int slot, int first, int last, float size, uint32_t *counter);

#endif
