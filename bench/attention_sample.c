/* attention_sample.c: what attention and sampling cost on one thread, per instruction set of this machine.
 *
 *   bench_attention_sample [rounds]
 *       attention: milliseconds per step of a 135M-shaped model (30 layers, 9 query and 3 K/V heads of 64)
 *       for decode (1 row), verify (2, 4, 8 rows) and a prompt of 512 rows, with the rate in 10^9
 *       multiply-adds per second.
 *       sampling: microseconds per row of 49152 logits.
 *
 * Time is the thread's own processor time, so a neighbour that takes the core away does not count, only what
 * it does to the caches. The variants take turns within a round; figures are medians, with the best beside
 * them. Keys and values of all layers lie in pages of 16 entries as in the engine's cache, so a step finds
 * them where a step would: in the cache level they fit in; beside it the same with one layer's entries used
 * again and again.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "kernel/ref/sample.h"
#include "support/kernel_runner.h"

enum {
    LAYERS = 30,
    HEADS = 9,
    KV_HEADS = 3,
    HEAD_DIM = 64,
    PAGE_ROWS = 16,
    MAX_CONTEXT = 4096,
    MAX_ROWS = 512
};
enum { VOCAB = 49152, MAX_ROUNDS = 101 };

/* Bytes of one layer's share of a page, and of a page of all layers. */
enum { LAYER_BYTES = 2 * 2 * KV_HEADS * PAGE_ROWS * HEAD_DIM, PAGE_BYTES = LAYERS * LAYER_BYTES };

static double cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

static void *scratch;
static size_t scratch_bytes;

static void need_scratch(const kernel_impl *k, const kernel_args *args)
{
    const size_t bytes = k->scratch ? k->scratch(args) : 0;
    if (bytes > scratch_bytes) {
        scratch = mem_resize(MEM_GENERAL, scratch, scratch_bytes, bytes);
        scratch_bytes = bytes;
    }
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(double *ns, int n)
{
    qsort(ns, (size_t)n, sizeof *ns, by_size);
    return ns[n / 2];
}

/* ---- attention ---- */

typedef struct {
    uint8_t *pool;
    int32_t table[MAX_CONTEXT / PAGE_ROWS];
    float *q, *out;
} attention_data;

static double time_attention(const kernel_table *t, attention_data *d, int context, int rows, int layers,
                             bool hot)
{
    const kernel_impl *k = &t->kernel[KERNEL_ATTENTION];
    const row_span span = { 0, rows, 0, context - rows };
    const int32_t one = 1;
    const size_t width = (HEADS + 2 * KV_HEADS) * HEAD_DIM;
    kernel_args args = { .attention = { .span_count = &one,
                                        .spans = &span,
                                        .max_spans = 1,
                                        .max_rows = rows,
                                        .max_length = context,
                                        .q = d->q,
                                        .q_stride = width,
                                        .heads = HEADS,
                                        .scale = 0.125f,
                                        .kv = { .page_stride = PAGE_BYTES,
                                                .table = d->table,
                                                .table_stride = MAX_CONTEXT / PAGE_ROWS,
                                                .page_rows = PAGE_ROWS,
                                                .kv_heads = KV_HEADS,
                                                .head_dim = HEAD_DIM },
                                        .out = d->out } };
    need_scratch(k, &args);
    const double start = cpu_ns();
    for (int l = 0; l < layers; l++) {
        args.attention.kv.base = d->pool + (hot ? 0 : (size_t)l * LAYER_BYTES);
        const int tiles = k->tiles(&args);
        for (int i = 0; i < tiles; i++)
            k->run(&args, i, scratch);
    }
    return (cpu_ns() - start) * LAYERS / layers;
}

static void make_attention(attention_data *d)
{
    uint32_t counter = 0;
    const size_t pool = (size_t)PAGE_BYTES * (MAX_CONTEXT / PAGE_ROWS),
                 width = (HEADS + 2 * KV_HEADS) * HEAD_DIM;
    d->pool = mem_alloc(MEM_GENERAL, pool);
    d->q = mem_alloc(MEM_GENERAL, MAX_ROWS * width * sizeof(float));
    d->out = mem_alloc(MEM_GENERAL, (size_t)MAX_ROWS * HEADS * HEAD_DIM * sizeof(float));
    uint16_t *half = (uint16_t *)(void *)d->pool;
    for (size_t i = 0; i < pool / 2; i++)
        half[i] = i < 4096 ? dtype_f32_to_f16(runner_float(1, &counter)) : half[i % 4096 ^ (i >> 12) % 61];
    for (size_t i = 0; i < MAX_ROWS * width; i++)
        d->q[i] = runner_float(2, &counter);
    for (int i = 0; i < MAX_CONTEXT / PAGE_ROWS; i++)
        d->table[i] = (i * 5) % (MAX_CONTEXT / PAGE_ROWS);
}

static void bench_attention(const kernel_table *const *tables, int count, int rounds)
{
    static const int cases[][2] = { { 64, 1 },   { 64, 4 },   { 512, 1 },   { 512, 2 },
                                    { 512, 4 },  { 512, 8 },  { 1000, 1 },  { 1000, 4 },
                                    { 4000, 1 }, { 4000, 4 }, { 512, 512 }, { 2048, 512 } };
    static attention_data d;
    static double ns[RUNNER_MAX_TABLES][MAX_ROUNDS], hot[RUNNER_MAX_TABLES][MAX_ROUNDS];
    make_attention(&d);
    printf("%-10s %8s %5s %12s %10s %8s %12s %8s\n", "attention", "context", "rows", "median ms", "best ms",
           "GMAC/s", "one layer", "GMAC/s");
    for (int c = 0; c < 12; c++) {
        const int context = cases[c][0], rows = cases[c][1], n = rows > 8 ? (rounds + 6) / 7 : rounds;
        for (int r = 0; r < n; r++)
            for (int t = 0; t < count; t++) {
                const int layers = rows > 8 ? 1 : LAYERS;
                ns[t][r] = time_attention(tables[t], &d, context, rows, layers, false);
                hot[t][r] = time_attention(tables[t], &d, context, rows, layers, true);
            }
        for (int t = 0; t < count; t++) {
            const double ms = median(ns[t], n) / 1e6, hot_ms = median(hot[t], n) / 1e6;
            const double macs = 2.0 * LAYERS * HEADS * HEAD_DIM * rows * (context - (rows - 1) / 2.0);
            printf("%-10s %8d %5d %12.3f %10.3f %8.1f %12.3f %8.1f\n", tables[t]->name, context, rows, ms,
                   ns[t][0] / 1e6, macs / ms / 1e6, hot_ms, macs / hot_ms / 1e6);
        }
    }
}

/* ---- sampling ---- */

static double time_sample(const kernel_table *t, float *logits, const sample_params *p, int32_t position)
{
    static const sample_history none = { 0 };
    const kernel_impl *k = &t->kernel[KERNEL_SAMPLE];
    int32_t token;
    float logprob;
    const kernel_args args = { .sample = { .rows = { NULL, 1 },
                                           .logits = logits,
                                           .logits_stride = VOCAB,
                                           .vocab = VOCAB,
                                           .position = &position,
                                           .params = &p,
                                           .history = &none,
                                           .token = &token,
                                           .logprob = &logprob } };
    need_scratch(k, &args);
    const double start = cpu_ns();
    k->run(&args, 0, scratch);
    return cpu_ns() - start;
}

static void bench_sample(const kernel_table *const *tables, int count, int rounds)
{
    const sample_params off = { .temperature = 0.8f, .top_p = 1.0f, .repeat_penalty = 1.0f, .seed = 7 };
    sample_params p[7];
    static const char *const names[] = { "greedy",    "greedy+logp", "coupled",     "top-k 40",
                                         "top-p .95", "min-p .05",   "flat coupled" };
    static double ns[7][RUNNER_MAX_TABLES][MAX_ROUNDS];
    float *logits[2] = { mem_alloc(MEM_GENERAL, VOCAB * sizeof(float)),
                         mem_alloc(MEM_GENERAL, VOCAB * sizeof(float)) };
    uint32_t counter = 0;
    for (int i = 0; i < VOCAB; i++) {
        float sum = 0; /* about normal, as logits are */
        for (int j = 0; j < 12; j++)
            sum += runner_float(3, &counter);
        logits[0][i] = 1.25f * sum + (runner_below(4, &counter, 500) ? 0.0f : 9.0f);
        logits[1][i] = 0.05f * sum;
    }
    for (int v = 0; v < 7; v++)
        p[v] = off;
    p[0].temperature = p[1].temperature = 0;
    p[1].want_logprob = 1;
    p[3].top_k = 40;
    p[4].top_p = 0.95f;
    p[5].min_p = 0.05f;
    for (int r = 0; r < rounds; r++)
        for (int v = 0; v < 7; v++)
            for (int t = 0; t < count; t++)
                ns[v][t][r] = time_sample(tables[t], logits[v == 6], &p[v], r);
    printf("\n%-10s %-14s %12s %10s\n", "sampling", "", "median us", "best us");
    for (int v = 0; v < 7; v++)
        for (int t = 0; t < count; t++) {
            const double us = median(ns[v][t], rounds) / 1e3;
            printf("%-10s %-14s %12.1f %10.1f\n", tables[t]->name, names[v], us, ns[v][t][0] / 1e3);
        }
    mem_free(MEM_GENERAL, logits[0], VOCAB * sizeof(float));
    mem_free(MEM_GENERAL, logits[1], VOCAB * sizeof(float));
}

int main(int argc, char **argv)
{
    const int asked = argc > 1 ? atoi(argv[1]) : 21;
    const int rounds = asked < 1 ? 1 : asked > MAX_ROUNDS ? MAX_ROUNDS : asked;
    const kernel_table *tables[RUNNER_MAX_TABLES];
    const int count = runner_tables(tables);
    bench_attention(tables, count, rounds);
    bench_sample(tables, count, rounds);
    return 0;
}
