/* hyper.c: what the hyper-connection kernels cost and which memory they touch. See describe.h.
 *
 * Threads: any; no state.
 */
#include "kernel/describe.h"

/* Numbers per row that mix the streams. */
static double count_mixes(int streams, bool post)
{
    return post ? (2.0 + streams) * streams : streams;
}

kernel_cost hyper_cost(kernel_id id, const kernel_args *args, bool live)
{
    if (id == KERNEL_HYPER_PRE) {
        const args_hyper_pre *a = &args->hyper_pre;
        double n = (double)a->streams * a->dim, mixes = count_mixes(a->streams, a->post != NULL);
        double sinkhorn = a->post ? 4.0 * a->iterations * a->streams * a->streams : 0;
        double rows = count_rows(a->rows, live);
        return (kernel_cost) { .flops = rows * (4.0 * n + 30.0 * mixes + sinkhorn),
                               .bytes = rows * 4.0 * (n + a->dim + 2.0 * mixes) };
    }
    const args_hyper_post *a = &args->hyper_post;
    double n = (double)a->streams * a->dim, rows = count_rows(a->rows, live);
    return (kernel_cost) { .flops = rows * n * (1.0 + 2.0 * a->streams),
                           .bytes = rows * 4.0 * (2.0 * n + a->dim + (1.0 + a->streams) * a->streams) };
}

void hyper_accesses(access_list *l, kernel_id id, const kernel_args *args)
{
    const size_t size = sizeof(float);
    if (id == KERNEL_HYPER_PRE) {
        const args_hyper_pre *a = &args->hyper_pre;
        const size_t rows = (size_t)a->rows.max, streams = (size_t)a->streams, dim = (size_t)a->dim;
        access_add_rows(l, a->rows);
        access_add(l, a->x, rows * streams * dim * size, false);
        access_add(l, a->mix, rows * (a->post ? (2 + streams) * streams : streams) * size, false);
        access_add(l, a->y, rows * dim * size, true);
        access_add(l, a->post, rows * streams * size, true);
        access_add(l, a->comb, rows * streams * streams * size, true);
        return;
    }
    const args_hyper_post *a = &args->hyper_post;
    const size_t rows = (size_t)a->rows.max, streams = (size_t)a->streams, dim = (size_t)a->dim;
    access_add_rows(l, a->rows);
    access_add(l, a->x, rows * streams * dim * size, true);
    access_add(l, a->y, rows * dim * size, false);
    access_add(l, a->post, rows * streams * size, false);
    access_add(l, a->comb, rows * streams * streams * size, false);
}
