/* experts.h: what AVX2 and AVX-512 share of KERNEL_EXPERTS: tiles, and an expert's rows gathered into panels. The
 * product is the matmul's (cpu/matmul.h); what differs is where a row comes from and where its outputs go.
 *
 *   tile    a range of an expert's units x a block of its pairs; the tiles that share a block follow one another.
 *   block   pairs that pass over a range together: all of them, or 64 (floats: 128) at a time.
 *
 * A worker keeps the block that it prepared last, for its next tile. Threads: as kernel/impl.h says.
 */
#ifndef FORAY_KERNEL_CPU_EXPERTS_H
#define FORAY_KERNEL_CPU_EXPERTS_H

#include "kernel/cpu/matmul.h"

/* What a finish works for: row r of its walk is pair[r]. */
typedef struct {
    const args_experts *a;
    const int32_t *pair;
    int outputs; /* of one pair */
} experts_job;

int experts_tiles(const kernel_args *args);
size_t experts_scratch(const matmul_ops *ops, const kernel_args *args);
void experts_prepare(void *scratch);

/* finish: of KERNEL_EXPERTS, its job is an experts_job. */
void experts_run(const matmul_ops *ops, matmul_finish *finish, const kernel_args *args, int tile,
                 void *scratch);

#endif
