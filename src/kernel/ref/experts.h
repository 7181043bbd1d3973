/* experts.h: where a pair's input is, and which experts have pairs. Threads: any; no state.
 */
#ifndef FORAY_KERNEL_REF_EXPERTS_H
#define FORAY_KERNEL_REF_EXPERTS_H

#include "kernel/kernel.h"

/* The first expert from `expert` on that has pairs; a->experts: none. */
int experts_next(const args_experts *a, int expert);

static inline const float *experts_row(const args_experts *a, int pair)
{
    return a->x + (size_t)(a->by_pair ? pair : pair / a->chosen) * (size_t)a->w->cols;
}

#endif
