/* bench_roofline.c: adding up task records by kernel. See bench_roofline.h. */
#include "cli/bench_roofline.h"

#include <stdlib.h>
#include <string.h>

static int longer_first(const void *a, const void *b)
{
    double x = ((const bench_kernel *)a)->ns, y = ((const bench_kernel *)b)->ns;
    return (x < y) - (x > y);
}

/* The sum that a task belongs to; NULL: there are more kernels than are kept. */
static bench_kernel *find_kernel(bench_roofline *r, const char *name)
{
    int k = 0;
    while (k < r->count && strcmp(r->kernels[k].name, name) != 0)
        k++;
    if (k == BENCH_MOST_KERNELS)
        return NULL;
    if (k == r->count)
        r->kernels[r->count++] = (bench_kernel) { .name = name };
    return &r->kernels[k];
}

static int earlier_first(const void *a, const void *b)
{
    int64_t x = ((const task_record *)a)->start_ns, y = ((const task_record *)b)->start_ns;
    return (x > y) - (x < y);
}

void bench_roofline_add_up(task_record *tasks, size_t count, bench_roofline *out)
{
    int64_t round = -1, first = 0, last = 0;
    *out = (bench_roofline) { 0 };
    qsort(tasks, count, sizeof *tasks, earlier_first);
    for (size_t i = 0; i < count; i++) {
        const task_record *t = &tasks[i];
        if (t->phase != PHASE_DECODE &&
            (t->phase != PHASE_ACCEPT || t->round != round)) /* a prompt's last chunk accepts too */
            continue;
        bench_kernel *k = find_kernel(out, t->name);
        if (!k)
            continue;
        k->ns += (double)(t->end_ns - t->start_ns);
        k->flops += t->flops;
        k->bytes += t->bytes;
        k->calls++;
        if (t->round != round) {
            round = t->round;
            first = out->rounds == 0 ? t->start_ns : first;
            out->rounds++;
        }
        const int64_t from = t->start_ns > last ? t->start_ns : last;
        out->busy_ns += t->end_ns > from ? (double)(t->end_ns - from) : 0;
        last = t->end_ns > last ? t->end_ns : last;
    }
    out->span_ns = (double)(last - first);
    qsort(out->kernels, (size_t)out->count, sizeof *out->kernels, longer_first);
}

double bench_roofline_between_ns(const bench_roofline *r)
{
    return r->span_ns - r->busy_ns;
}
