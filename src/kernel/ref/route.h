/* route.h: the parts of routing that every instruction set shares: all but the scores of whole rows and the search
 * for the largest. See route.c. Threads: any; no state.
 */
#ifndef FORAY_KERNEL_REF_ROUTE_H
#define FORAY_KERNEL_REF_ROUTE_H

#include <limits.h>

#include "kernel/kernel.h"

#define ROUTE_LINEAR -64.0f     /* logits below this: s = exp(l / 2) */
enum { ROUTE_TAKEN = INT_MIN }; /* the rank of an expert that was chosen; NaN has the next one */

float route_score(float logit);

/* Writes weight[row] from choice[row] and score [experts], of which the chosen ones are read. */
void route_weigh(const args_route *a, int row, const float *score);

/* A hash layer's choice[row] and the scores of those experts; false, and nothing done, without a table. */
bool route_by_table(const args_route *a, int row, float *score);

/* The tiles of the kernel, and its scratch: two arrays of a word per expert, each padded to whole registers. */
int route_tiles(const kernel_args *args);
size_t route_scratch(const kernel_args *args);

static inline int route_padded(int experts)
{
    return (experts + 15) / 16 * 16;
}

#endif
