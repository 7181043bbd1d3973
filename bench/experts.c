/* experts.c: how fast a layer of experts is, against the read bandwidth of the same run.
 *
 *   bench_experts [--model large|nano] [--type NAME] [--isa NAME] [--rounds N] [--rows N,…] [--threads N]
 *
 * Each pass: a few rows with random logits are routed, grouped, and go through both products and the sum, as in a
 * model, with a barrier after each kernel. large: 6 of 256 experts of 4096 x 2048 (48 of them in memory of their own,
 * more than a cache holds; the others share it); nano: eight layers of 2 of 8 experts of 256 x 128, which stay in a
 * cache: the fastest of ten passes.
 * A rate is the bytes of the distinct experts' weights over the time of the whole pass; `of B2` compares it with the
 * read bandwidth, round by round (medians), `best` the best of each. Weights are one packed group repeated.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/thread.h"
#include "kernel/scaled.h"
#include "list.h"
#include "measure/compare.h"
#include "measure/peaks.h"
#include "support/experts_case.h"
#include "support/matmul_case.h"

enum { MAX_ROWS = 512, MAX_LIST = 16, MAX_THREADS = 256, MAX_LAYERS = 8, DISTINCT = 48 };

typedef struct {
    const char *model, *isa, *type;
    int rows[MAX_LIST], row_count, rounds, threads;
} options;

typedef struct {
    const kernel_table *table;
    team *team;
    peaks *peaks;
    experts_shape shape;
    int layers, repeats;
    expert_block block[MAX_LAYERS];
    experts_pass pass;
    size_t scratch_bytes;
    void *scratch[MAX_THREADS];
    uint32_t draws;
    int threads; /* of the step that runs */
} bench;

/* ---- the layers ---- */

/* n x k, many times one group of random weights, from *at on. */
static packed_weight repeat(const bench *b, int n, int k, uint8_t **at)
{
    size_t bytes;
    const int lanes = b->table->lanes;
    uint8_t *data = matmul_random_weights(b->shape.type, lanes, k, VALUES_ORDINARY, 1, &bytes);
    size_t scale_bytes, stride;
    uint8_t *scales =
        matmul_random_scales(b->shape.type, lanes, k, VALUES_ORDINARY, 2, &scale_bytes, &stride);
    const weight_source one = {
        .data = data, .type = b->shape.type, .rows = lanes, .cols = k, .scale = scales, .scale_stride = stride
    };
    packed_weight group, w;
    if (weight_pack(&one, 1, false, true, lanes, &group, NULL) != 0)
        abort();
    w = group;
    w.rows = n;
    w.groups = n / lanes;
    w.bytes = (size_t)w.groups * w.group_bytes;
    w.data = *at;
    for (int g = 0; *at && g < w.groups; g++)
        memcpy(w.data + (size_t)g * w.group_bytes, group.data, w.group_bytes);
    *at = *at ? *at + w.bytes : NULL;
    weight_free(&group);
    mem_free(MEM_GENERAL, data, bytes);
    mem_free(MEM_GENERAL, scales, scale_bytes);
    return w;
}

static void open_layer(const bench *b, expert_block *out)
{
    const experts_shape *s = &b->shape;
    const int own = s->experts < DISTINCT ? s->experts : DISTINCT;
    uint8_t *at = NULL;
    *out = (expert_block) { .experts = s->experts };
    out->bytes =
        (size_t)own * (repeat(b, 2 * s->width, s->dim, &at).bytes + repeat(b, s->dim, s->width, &at).bytes);
    out->gate_up = mem_alloc(MEM_WEIGHTS, 2 * (size_t)s->experts * sizeof *out->gate_up);
    out->data = at = mem_alloc(MEM_WEIGHTS, out->bytes);
    if (!out->gate_up || !out->data)
        abort();
    out->down = out->gate_up + s->experts;
    for (int e = 0; e < s->experts; e++) {
        out->gate_up[e] = e < own ? repeat(b, 2 * s->width, s->dim, &at) : out->gate_up[e % own];
        out->down[e] = e < own ? repeat(b, s->dim, s->width, &at) : out->down[e % own];
    }
}

static void open_pass(bench *b)
{
    b->pass = experts_case_pass(&b->shape, MAX_ROWS, 7);
    const kernel_args args[3] = { experts_case_gate_up(&b->pass, &b->block[0]),
                                  experts_case_down(&b->pass, &b->block[0]), experts_case_route(&b->pass) };
    for (int i = 0; i < 3; i++) {
        const size_t bytes = b->table->kernel[i < 2 ? KERNEL_EXPERTS : KERNEL_ROUTE].scratch(&args[i]);
        b->scratch_bytes = bytes > b->scratch_bytes ? bytes : b->scratch_bytes;
    }
    for (int t = 0; t < team_threads(b->team); t++)
        b->scratch[t] = mem_alloc_zeroed(MEM_GENERAL, b->scratch_bytes);
}

/* ---- a pass ---- */

static void run_share(const bench *b, kernel_id id, kernel_args args, int thread)
{
    const kernel_impl *k = &b->table->kernel[id];
    const int tiles = k->tiles(&args), first = tiles * thread / b->threads,
              last = tiles * (thread + 1) / b->threads;
    if (k->prepare && first < last)
        k->prepare(&args, b->scratch[thread]);
    for (int i = first; i < last; i++)
        k->run(&args, i, b->scratch[thread]);
    team_barrier(b->team);
}

static void pass_thread(void *user, int thread)
{
    const bench *b = user;
    for (int l = 0; l < b->layers; l++) {
        run_share(b, KERNEL_ROUTE, experts_case_route(&b->pass), thread);
        run_share(b, KERNEL_GROUP, experts_case_group(&b->pass), thread);
        run_share(b, KERNEL_EXPERTS, experts_case_gate_up(&b->pass, &b->block[l]), thread);
        run_share(b, KERNEL_EXPERTS, experts_case_down(&b->pass, &b->block[l]), thread);
        run_share(b, KERNEL_COMBINE, experts_case_combine(&b->pass), thread);
    }
}

/* New logits for the rows: other experts than the last time. */
static void choose(bench *b)
{
    const int n = *b->pass.live * b->shape.experts;
    for (int i = 0; i < n; i++)
        b->pass.logits[i] = (float)(int32_t)rng_at(5, b->draws++, RNG_TEST, 0, 0).word[0] * 0x1p-28f;
}

typedef struct {
    bench *b;
    int rows, threads; /* rows 0: the read bandwidth */
    double seconds, best, distinct;
    int passes;
} step;

/* Bytes of weights per second. */
static double measure(void *user)
{
    step *s = user;
    bench *b = s->b;
    if (s->rows == 0)
        return peaks_read(b->peaks, s->threads);
    *b->pass.live = s->rows;
    b->threads = s->threads;
    choose(b);
    double seconds = 1e9;
    for (int i = 0; i < b->repeats; i++) {
        const int64_t start = clock_ns();
        team_run(b->team, s->threads, pass_thread, b);
        const double took = (double)(clock_ns() - start) * 1e-9;
        seconds = took < seconds ? took : seconds;
    }
    const packed_weight *up = b->block[0].gate_up, *down = b->block[0].down;
    s->seconds += seconds;
    s->best = s->best > 0 && s->best < seconds ? s->best : seconds;
    s->distinct += *b->pass.distinct;
    s->passes++;
    return (double)b->layers * *b->pass.distinct * (double)(up->bytes + down->bytes) / seconds;
}

static void report(bench *b, const options *o)
{
    enum { MAX_CASES = 2 * (MAX_LIST + 1) };
    step steps[MAX_CASES];
    compare_case cases[MAX_CASES];
    int count = 0;
    for (int threads = 1; threads <= o->threads; threads += threads < o->threads ? o->threads - 1 : 1)
        for (int i = -1; i < o->row_count; i++, count++) {
            steps[count] = (step) { .b = b, .rows = i < 0 ? 0 : o->rows[i], .threads = threads };
            cases[count] = (compare_case) { "pass", measure, &steps[count] };
        }
    double *samples = malloc((size_t)(count * o->rounds) * sizeof *samples);
    compare_interleaved(cases, count, 2, o->rounds, samples);
    const double *bandwidth = samples, products = 3.0 * b->shape.dim * b->shape.width * b->layers;
    for (int c = 0; c < count; c++) {
        const double *rate = samples + c * o->rounds;
        const step *s = &steps[c];
        const compare_summary m = compare_summarise(rate, o->rounds);
        if (s->rows == 0) {
            bandwidth = rate;
            printf("T%d  read bandwidth (B2) %6.1f GB/s [%.1f … %.1f]\n", s->threads, m.median * 1e-9,
                   m.low * 1e-9, m.high * 1e-9);
            continue;
        }
        const compare_ratio share = compare_pairs(rate, bandwidth, o->rounds);
        const double pairs = (double)s->rows * b->shape.chosen * s->passes;
        printf("T%d  R=%-3d %9.3f ms (best %.3f)  %6.1f experts  %6.1f GB/s  %.2f of B2 [%.2f … %.2f]  best "
               "%.2f  %6.1f "
               "GMAC/s\n",
               s->threads, s->rows, s->seconds / s->passes * 1e3, s->best * 1e3, s->distinct / s->passes,
               m.median * 1e-9, share.ratio, share.low, share.high,
               m.worst / compare_summarise(bandwidth, o->rounds).worst, pairs * products / s->seconds * 1e-9);
    }
    free(samples);
}

/* ---- the command ---- */

static bool parse(int argc, char **argv, options *o, experts_shape *shape)
{
    const char *rows = "1,2,4,8";
    *o = (options) { .model = "large", .type = "F4_E2M1", .rounds = 15, .threads = thread_cores() };
    for (int i = 1; i + 1 < argc; i += 2) {
        const char *a = argv[i], *value = argv[i + 1];
        if (strcmp(a, "--model") == 0)
            o->model = value;
        else if (strcmp(a, "--type") == 0)
            o->type = value;
        else if (strcmp(a, "--isa") == 0)
            o->isa = value;
        else if (strcmp(a, "--rounds") == 0)
            o->rounds = atoi(value);
        else if (strcmp(a, "--rows") == 0)
            rows = value;
        else if (strcmp(a, "--threads") == 0)
            o->threads = atoi(value);
        else
            return false;
    }
    const bool large = strcmp(o->model, "large") == 0;
    *shape = large ? (experts_shape) { .dim = 4096, .width = 2048, .experts = 256, .chosen = 6 }
                   : (experts_shape) { .dim = 256, .width = 128, .experts = 8, .chosen = 2 };
    shape->max_rows = MAX_ROWS;
    shape->limit = 10;
    shape->norm = true;
    shape->type = DTYPE_UNKNOWN;
    for (int t = 0; t < DTYPE_COUNT; t++)
        if (strcmp(dtype_get((dtype)t)->name, o->type) == 0 &&
            (weight_type_supported((dtype)t) || scaled_is((dtype)t)))
            shape->type = (dtype)t;
    o->row_count = list_parse(rows, MAX_ROWS, o->rows, MAX_LIST);
    return argc % 2 == 1 && shape->type != DTYPE_UNKNOWN && o->row_count > 0 && o->rounds > 0 &&
           o->threads >= 1 && o->threads <= MAX_THREADS && (large || strcmp(o->model, "nano") == 0);
}

int main(int argc, char **argv)
{
    options o;
    bench b = { 0 };
    foray_error err;
    if (!parse(argc, argv, &o, &b.shape)) {
        fprintf(stderr, "usage: bench_experts [--model large|nano] [--type NAME] [--isa NAME] [--rounds N]\n"
                        "                     [--rows 1,2,4,8] [--threads N]\n");
        return 2;
    }
    if (kernel_table_get(o.isa, &b.table, &err) != 0 || team_open(o.threads, &b.team, &err) != 0 ||
        peaks_open(b.table->name, 0, b.team, &b.peaks, &err) != 0) {
        fprintf(stderr, "bench_experts: %s\n", err.text);
        return 1;
    }
    b.layers = b.shape.experts > DISTINCT ? 1 : MAX_LAYERS;
    b.repeats = b.layers > 1 ? 10 : 1;
    for (int l = 0; l < b.layers; l++)
        open_layer(&b, &b.block[l]);
    open_pass(&b);
    printf("isa %s, %d threads, %s %s: %d of %d experts of %d x %d, %.1f MB each, %d layers\n", b.table->name,
           o.threads, o.model, o.type, b.shape.chosen, b.shape.experts, b.shape.dim, b.shape.width,
           (double)(b.block[0].gate_up->bytes + b.block[0].down->bytes) * 1e-6, b.layers);
    report(&b, &o);
    experts_case_free_pass(&b.pass);
    for (int l = 0; l < b.layers; l++)
        experts_free(&b.block[l]);
    for (int t = 0; t < o.threads; t++)
        mem_free(MEM_GENERAL, b.scratch[t], b.scratch_bytes);
    peaks_close(b.peaks);
    team_close(b.team);
    return 0;
}
