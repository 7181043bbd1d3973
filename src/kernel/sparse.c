/* sparse.c: what the compressed sparse attention kernels cost and which memory they touch. See describe.h.
 *
 * Threads: any; no state.
 */
#include "kernel/describe.h"

kernel_cost sparse_cost(kernel_id id, const kernel_args *args, bool live)
{
    (void)id, (void)args, (void)live;
    return (kernel_cost) { 0 };
}

void sparse_accesses(access_list *l, kernel_id id, const kernel_args *args)
{
    (void)l, (void)id, (void)args;
}
