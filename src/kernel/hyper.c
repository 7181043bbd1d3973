/* hyper.c: what the hyper-connection kernels cost and which memory they touch. See describe.h.
 *
 * Threads: any; no state.
 */
#include "kernel/describe.h"

kernel_cost hyper_cost(kernel_id id, const kernel_args *args, bool live)
{
    (void)id, (void)args, (void)live;
    return (kernel_cost) { 0 };
}

void hyper_accesses(access_list *l, kernel_id id, const kernel_args *args)
{
    (void)l, (void)id, (void)args;
}
