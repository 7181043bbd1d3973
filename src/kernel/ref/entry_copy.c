/* entry_copy.c (ref): rows to entries and back, byte for byte. Tiles are rows. */
#include <string.h>

#include "kernel/cpu/entries.h"

static int tiles(const kernel_args *args)
{
    return rows_live(args->entry_copy.rows);
}

static float *entry_of(const args_entry_copy *a, int row)
{
    return entry_at(&a->entries, a->slot[row], a->position ? a->position[row] : 0);
}

static void store(const kernel_args *args, int tile, void *scratch)
{
    const args_entry_copy *a = &args->entry_copy;
    size_t width = (size_t)a->entries.width;
    (void)scratch;
    memcpy(entry_of(a, tile), a->x + (size_t)tile * width, width * sizeof(float));
}

static void load(const kernel_args *args, int tile, void *scratch)
{
    const args_entry_copy *a = &args->entry_copy;
    size_t width = (size_t)a->entries.width;
    (void)scratch;
    memcpy(a->x + (size_t)tile * width, entry_of(a, tile), width * sizeof(float));
}

const kernel_impl ref_entry_store = { .tiles = tiles, .run = store };
const kernel_impl ref_entry_load = { .tiles = tiles, .run = load };
