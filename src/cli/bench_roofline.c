/* bench_roofline.c: adding up task records by kernel. See bench_roofline.h. */
#include "cli/bench_roofline.h"

#include <string.h>

enum { MOST_KERNELS = 24 };

typedef struct {
    const char *name;
    double ns, flops, bytes;
    int calls;
} kernel_sum;

/* Sums of the tasks of decode rounds, by name; returns how many kernels. *rounds, *span_ns: of those rounds. */
static int add_up(const task_record *tasks, size_t count, kernel_sum *sums, int *rounds, double *span_ns)
{
    int kernels = 0;
    int64_t round = -1, first = 0, last = 0;
    *rounds = 0;
    for (size_t i = 0; i < count; i++) {
        const task_record *t = &tasks[i];
        bool forward = t->phase == PHASE_DECODE;
        if (!forward &&
            (t->phase != PHASE_ACCEPT || t->round != round)) /* a prompt's last chunk accepts too */
            continue;
        int k = 0;
        while (k < kernels && strcmp(sums[k].name, t->name) != 0)
            k++;
        if (k == MOST_KERNELS)
            continue;
        if (k == kernels)
            sums[kernels++] = (kernel_sum) { .name = t->name };
        sums[k].ns += (double)(t->end_ns - t->start_ns);
        sums[k].flops += t->flops;
        sums[k].bytes += t->bytes;
        sums[k].calls++;
        if (t->round != round) {
            round = t->round;
            first = *rounds == 0 ? t->start_ns : first;
            (*rounds)++;
        }
        last = t->end_ns > last ? t->end_ns : last;
    }
    *span_ns = (double)(last - first);
    return kernels;
}

static void put_share(double rate, double peak, const char *unit, buf *out)
{
    buf_printf(out, " %.1f %s", rate / 1e9, unit);
    if (peak > 0)
        buf_printf(out, " (%.2f)", rate / peak);
    buf_puts(out, " |");
}

void bench_roofline(const task_record *tasks, size_t count, double peak_bytes, double peak_flops, buf *out)
{
    kernel_sum sums[MOST_KERNELS];
    int rounds;
    double span, busy = 0;
    int kernels = add_up(tasks, count, sums, &rounds, &span);
    if (rounds == 0)
        return;
    buf_printf(out,
               "\nroofline of plain decoding, %d rounds; peaks %.1f GB/s read, %.1f GFLOP/s f32 (shares in "
               "brackets)\n\n",
               rounds, peak_bytes / 1e9, peak_flops / 1e9);
    buf_puts(out,
             "| kernel | calls | us per round | share | moved | computed |\n|---|---|---|---|---|---|\n");
    for (int done = 0; done < kernels; done++) {
        int most = -1;
        for (int k = 0; k < kernels; k++)
            if (sums[k].calls > 0 && (most < 0 || sums[k].ns > sums[most].ns))
                most = k;
        kernel_sum *s = &sums[most];
        buf_printf(out, "| %s | %.1f | %.1f | %.1f %% |", s->name, (double)s->calls / rounds,
                   s->ns / 1e3 / rounds, 100 * s->ns / span);
        put_share(s->bytes / (s->ns / 1e9), peak_bytes, "GB/s", out);
        put_share(s->flops / (s->ns / 1e9), peak_flops, "GFLOP/s", out);
        buf_puts(out, "\n");
        busy += s->ns;
        s->calls = 0;
    }
    buf_printf(out, "| between kernels | | %.1f | %.1f %% | | |\n", (span - busy) / 1e3 / rounds,
               100 * (span - busy) / span);
}
