/* kernel_runner.h: runs one kernel of one instruction set to its end, for tests and benchmarks.
 *
 * Tiles run in an order that no executor would choose, each in the same scratch of exactly the size that the
 * kernel asked for, filled with garbage: a kernel that leans on order or on what scratch held is caught.
 * One thread.
 */
#ifndef FORAY_TESTS_SUPPORT_KERNEL_RUNNER_H
#define FORAY_TESTS_SUPPORT_KERNEL_RUNNER_H

#include "kernel/impl.h"

enum { RUNNER_MAX_TABLES = 4 };

/* The instruction sets of this machine other than ref. Returns how many. */
int runner_tables(const kernel_table *out[RUNNER_MAX_TABLES]);

void runner_run(const kernel_table *table, kernel_id id, const kernel_args *args);

/* Uniform in -1 … 1, a function of `stream` and of how often it was called with this counter. */
float runner_float(uint32_t stream, uint32_t *counter);

/* Integers 0 … n - 1, the same way. */
int runner_below(uint32_t stream, uint32_t *counter, int n);

#endif
