/* experts.c: what the mixture-of-experts kernels cost and which memory they touch. See describe.h.
 *
 * An expert's weights count once however many rows it has: what a pass reads depends on how many different experts
 * its rows chose. Before that is known the bound stands: each pair an expert of its own.
 * Threads: any; no state.
 */
#include "kernel/describe.h"

static kernel_cost cost_route(const args_route *a, bool live)
{
    const double rows = count_rows(a->rows, live);
    const double work = a->table ? 40.0 * a->chosen : (40.0 + a->chosen) * a->experts;
    return (kernel_cost) { .flops = rows * work,
                           .bytes = 4.0 * rows * ((a->table ? a->chosen : a->experts) + 2 * a->chosen) };
}

static kernel_cost cost_experts(const args_experts *a, bool live)
{
    double pairs = (double)a->max_rows * a->chosen, distinct = pairs < a->experts ? pairs : a->experts;
    if (live) {
        pairs = a->first[a->experts];
        distinct = 0;
        for (int e = 0; e < a->experts; e++)
            distinct += a->first[e + 1] > a->first[e];
    }
    const double n = a->w->rows, k = a->w->cols, out = a->weight ? n / 2 : n;
    return (kernel_cost) { .flops = 2.0 * pairs * n * k,
                           .bytes = distinct * (double)a->w->bytes + 4.0 * pairs * (k + out) };
}

kernel_cost experts_cost(kernel_id id, const kernel_args *args, bool live)
{
    switch (id) {
    case KERNEL_ROUTE:
        return cost_route(&args->route, live);
    case KERNEL_GROUP: {
        const args_group *a = &args->group;
        const double pairs = count_rows(a->rows, live) * a->chosen;
        return (kernel_cost) { .flops = 2.0 * pairs, .bytes = 12.0 * pairs + 8.0 * a->experts };
    }
    case KERNEL_EXPERTS:
        return cost_experts(&args->experts, live);
    case KERNEL_COMBINE: {
        const args_combine *a = &args->combine;
        const double n = count_rows(a->rows, live) * a->dim, terms = a->chosen + (a->add ? 1 : 0);
        return (kernel_cost) { .flops = n * (terms - 1), .bytes = 4.0 * n * (terms + 1) };
    }
    default:
        return (kernel_cost) { 0 };
    }
}

void experts_accesses(access_list *l, kernel_id id, const kernel_args *args)
{
    switch (id) {
    case KERNEL_ROUTE: {
        const args_route *a = &args->route;
        const size_t rows = (size_t)a->rows.max, pairs = rows * (size_t)a->chosen;
        access_add_rows(l, a->rows);
        access_add(l, a->logits, rows * (size_t)a->experts * sizeof(float), false);
        if (a->table)
            access_add(l, a->ids, rows * sizeof(int32_t), false);
        access_add(l, a->choice, pairs * sizeof(int32_t), true);
        access_add(l, a->weight, pairs * sizeof(float), true);
        break;
    }
    case KERNEL_GROUP: {
        const args_group *a = &args->group;
        const size_t pairs = (size_t)a->rows.max * (size_t)a->chosen;
        access_add_rows(l, a->rows);
        access_add(l, a->choice, pairs * sizeof(int32_t), false);
        access_add(l, a->first, ((size_t)a->experts + 1) * sizeof(int32_t), true);
        access_add(l, a->pair, pairs * sizeof(int32_t), true);
        access_add(l, a->distinct, sizeof(int32_t), true);
        break;
    }
    case KERNEL_EXPERTS: {
        const args_experts *a = &args->experts;
        const size_t rows = (size_t)a->max_rows, pairs = rows * (size_t)a->chosen;
        const size_t outputs = (size_t)(a->weight ? a->w->rows / 2 : a->w->rows);
        access_add(l, a->first, ((size_t)a->experts + 1) * sizeof(int32_t), false);
        access_add(l, a->pair, pairs * sizeof(int32_t), false);
        access_add(l, a->x, (a->by_pair ? pairs : rows) * (size_t)a->w->cols * sizeof(float), false);
        access_add(l, a->weight, pairs * sizeof(float), false);
        access_add(l, a->out, pairs * outputs * sizeof(float), true);
        break;
    }
    case KERNEL_COMBINE: {
        const args_combine *a = &args->combine;
        const size_t n = (size_t)a->rows.max * (size_t)a->dim * sizeof(float);
        access_add_rows(l, a->rows);
        access_add(l, a->y, n * (size_t)a->chosen, false);
        access_add(l, a->add, n, false);
        access_add(l, a->out, n, true);
        break;
    }
    default:
        break;
    }
}
