/* gather.c: rows picked by index; one implementation for all instruction sets, because it only copies.
 *
 * One tile per row. Threads: tiles at once.
 */
#include <string.h>

#include "kernel/cpu/entries.h"

static int gather_tiles(const kernel_args *args)
{
    return rows_live(args->gather.rows);
}

static void gather_run(const kernel_args *args, int tile, void *scratch)
{
    (void)scratch;
    const args_gather *a = &args->gather;
    const size_t dim = (size_t)a->dim;
    memcpy(a->out + (size_t)tile * dim, a->x + (size_t)a->index[tile] * dim, dim * sizeof(float));
}

const kernel_impl ref_gather = { .tiles = gather_tiles, .run = gather_run };
