/* describe.h: what kernel.c and the files of the kernel families share when they say what a kernel costs and which
 * memory it touches. Only they include this.
 *
 * Threads: any; no state.
 */
#ifndef FORAY_KERNEL_DESCRIBE_H
#define FORAY_KERNEL_DESCRIBE_H

#include "kernel/kernel.h"

typedef struct {
    kernel_access *out;
    int count;
} access_list;

/* Adds `bytes` from start (NULL: nothing; 0 bytes: the whole device buffer that start lies in). */
void access_add(access_list *l, const void *start, size_t bytes, bool write);
void access_add_rows(access_list *l, row_count rows);
/* One layer's share of page 0 stands for all pages: every kernel on the layer names the same bytes, and other layers
 * name other bytes. Adds the page table too. */
void access_add_entries(access_list *l, const entry_rows *e, bool write);

/* The families: hyper.c, sparse.c, experts.c. `live`: of the live rows, read from device memory. */
kernel_cost hyper_cost(kernel_id id, const kernel_args *args, bool live);
void hyper_accesses(access_list *l, kernel_id id, const kernel_args *args);
kernel_cost sparse_cost(kernel_id id, const kernel_args *args, bool live);
void sparse_accesses(access_list *l, kernel_id id, const kernel_args *args);
kernel_cost experts_cost(kernel_id id, const kernel_args *args, bool live);
void experts_accesses(access_list *l, kernel_id id, const kernel_args *args);

static inline double count_rows(row_count rows, bool live)
{
    return live ? rows_live(rows) : rows.max;
}

#endif
