/* impl.h: how a CPU runs a kernel: in tiles, by any number of workers, in any order, to the same bits.
 *
 * A table per instruction set. tiles() and the rest are called when the kernel is ready to run, so they may read
 * device memory (live rows). Implementations live in kernel/ref (portable and defining) and kernel/cpu.
 * Threads: run() of different tiles at once; prepare() once per worker before its first tile.
 */
#ifndef FORAY_KERNEL_IMPL_H
#define FORAY_KERNEL_IMPL_H

#include "kernel/kernel.h"

typedef struct {
    int (*tiles)(const kernel_args *args);                   /* 0: nothing to do */
    size_t (*scratch)(const kernel_args *args);              /* per worker, upper bound; NULL: none */
    void (*prepare)(const kernel_args *args, void *scratch); /* NULL: none */
    void (*run)(const kernel_args *args, int tile, void *scratch);
} kernel_impl;

typedef struct {
    const char *name; /* "portable", "avx2", "avx512" */
    int lanes;        /* rows per weight group */
    kernel_impl kernel[KERNEL_COUNT];
} kernel_table;

/* The table of an instruction set; NULL name: the best that this machine has. FORAY_EUNSUPPORTED when the
 * machine lacks it, EUSAGE (with the known names) when there is no such name. */
int kernel_table_get(const char *name, const kernel_table **out, foray_error *err);

/* kernel/ref: one tile per row or matrix, scalar, obvious. The oracle of every test, and what `portable` uses
 * where it has nothing faster. Weights packed with any lanes. */
const kernel_table *kernel_table_ref(void);

#endif
