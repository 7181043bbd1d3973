/* host.c: the kernel of class host: one C function in stream order, on some worker, the same for every
 * instruction set. One tile: the function runs once. It shares the worker's thread, so it may not block,
 * allocate or call the device.
 */
#include "kernel/cpu/entries.h"

static int host_tiles(const kernel_args *args)
{
    (void)args;
    return 1;
}

static void host_run(const kernel_args *args, int tile, void *scratch)
{
    (void)tile;
    (void)scratch;
    args->host.run(args->host.user);
}

const kernel_impl ref_host = { .tiles = host_tiles, .run = host_run };
