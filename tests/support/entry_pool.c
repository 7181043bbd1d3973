/* entry_pool.c: pages from the end of the pool backwards, three layers to a page. One thread. */
#include "support/entry_pool.h"

#include <string.h>

#include "base/mem.h"
#include "support/kernel_runner.h"

void entry_pool_init(entry_pool *p, int slots, int entries, int page_rows, int width, int ring)
{
    const int per_slot = (entries + page_rows - 1) / page_rows, pages = slots * per_slot;
    const size_t layer = (size_t)page_rows * (size_t)width * sizeof(float);
    p->bytes = (size_t)pages * 3 * layer;
    p->table_bytes = (size_t)pages * sizeof(int32_t);
    p->memory = mem_alloc(MEM_GENERAL, p->bytes);
    memset(p->memory, 0xff, p->bytes);
    int32_t *table = mem_alloc(MEM_GENERAL, p->table_bytes);
    for (int i = 0; i < pages; i++)
        table[i] = pages - 1 - i;
    p->rows = (entry_rows) { .base = p->memory + layer,
                             .page_stride = 3 * layer,
                             .table = table,
                             .table_stride = per_slot,
                             .page_rows = page_rows,
                             .width = width,
                             .ring = ring,
                             .stride = sizeof(float) * (size_t)width };
}

void entry_pool_free(entry_pool *p)
{
    mem_free(MEM_GENERAL, p->memory, p->bytes);
    mem_free(MEM_GENERAL, (void *)p->rows.table, p->table_bytes);
}

void entry_pool_fill(entry_pool *p, int slot, int first, int last, float size, uint32_t *counter)
{
    for (int e = first; e <= last; e++) {
        float *entry = entry_at(&p->rows, slot, e);
        for (int i = 0; i < p->rows.width; i++)
            entry[i] = size * runner_float(2, counter);
    }
}
