/* kernels.c: how fast the matmul kernels are, against what the machine can do in the same run.
 *
 *   bench_kernels [step] [--model 135m|1b] [--type NAME,…] [--isa NAME] [--rounds N] [--rows N,…] [--threads N]
 *       one step of a model-shaped set of matrices, each in memory of its own: ms, GB/s and share of the read
 *       bandwidth for one and all threads, and the cost of several rows relative to one. Everything, the bandwidth
 *       included, runs in turn; figures are medians.
 *   bench_kernels floor …     the same step beside busy neighbours: every matrix and every piece of the bandwidth
 *       measurement counts with its fastest round. Shares are comparable with each other, not with medians.
 *   bench_kernels rate …      one matrix that stays in the second-level cache, one thread: products per second by
 *       rows. Steady to a few percent even beside neighbours: for tuning and for finding regressions.
 *   bench_kernels prefill …   the step's matrices for 512 rows (--rows): share of the multiply-add peaks.
 *
 * Weights are made of one packed group repeated: speed does not depend on their values.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/thread.h"
#include "kernel/impl.h"
#include "kernel/scaled.h"
#include "list.h"
#include "measure/compare.h"
#include "measure/peaks.h"
#include "support/matmul_case.h"

enum { MAX_MATRICES = 256, MAX_ROWS = 512, MAX_LIST = 16, MAX_THREADS = 256 };

typedef struct {
    const char *mode, *model, *isa;
    dtype types[MAX_LIST];
    int type_count;
    int rows[MAX_LIST], row_count;
    int rounds, threads;
} options;

typedef struct {
    const kernel_table *table;
    team *team;
    peaks *peaks;
    packed_weight w[MAX_MATRICES];
    matmul_epilogue epilogue[MAX_MATRICES];
    int matrices;
    size_t bytes;    /* of all weights */
    double products; /* per row */
    int widest;      /* input or output */
    float *x, *out;  /* [MAX_ROWS, widest] */
    void *ready;
    size_t ready_bytes, scratch_bytes, xout_bytes;
    void *scratch[MAX_THREADS];
} bench;

/* ---- the matrices ---- */

static void add_matrix(bench *b, dtype type, int n, int k, matmul_epilogue epilogue)
{
    const int lanes = b->table->lanes;
    size_t bytes, scale_bytes, stride;
    uint8_t *data = matmul_random_weights(type, lanes, k, VALUES_ORDINARY, 1, &bytes);
    uint8_t *scale = matmul_random_scales(type, lanes, k, VALUES_ORDINARY, 2, &scale_bytes, &stride);
    const weight_source one = {
        .data = data, .type = type, .rows = lanes, .cols = k, .scale = scale, .scale_stride = stride
    };
    packed_weight group, *w = &b->w[b->matrices];
    if (weight_pack(&one, 1, false, true, lanes, &group, NULL) != 0)
        abort();
    mem_free(MEM_GENERAL, data, bytes);
    mem_free(MEM_GENERAL, scale, scale_bytes);
    *w = group;
    w->rows = n;
    w->groups = n / lanes;
    w->bytes = (size_t)w->groups * w->group_bytes;
    w->data = mem_alloc(MEM_WEIGHTS, w->bytes);
    for (int g = 0; g < w->groups; g++)
        memcpy(w->data + (size_t)g * w->group_bytes, group.data, w->group_bytes);
    weight_free(&group);
    b->epilogue[b->matrices++] = epilogue;
    b->bytes += w->bytes;
    b->products += (double)n * k;
    b->widest = n > b->widest ? n : b->widest;
    b->widest = k > b->widest ? k : b->widest;
}

static void add_model(bench *b, dtype type, const char *model)
{
    const bool small = strcmp(model, "135m") == 0;
    const int layers = small ? 30 : 16, dim = small ? 576 : 2048, ffn = small ? 1536 : 8192;
    const int qkv = small ? 960 : 3072;
    for (int i = 0; i < layers; i++) {
        add_matrix(b, type, qkv, dim, EPILOGUE_STORE);
        add_matrix(b, type, dim, dim, EPILOGUE_ADD);
        add_matrix(b, type, 2 * ffn, dim, EPILOGUE_SWIGLU);
        add_matrix(b, type, dim, ffn, EPILOGUE_ADD);
    }
    add_matrix(b, type, 49152, dim, EPILOGUE_STORE);
}

static args_matmul args_of(const bench *b, int matrix, int rows)
{
    const packed_weight *w = &b->w[matrix];
    args_matmul a = { .rows.max = rows,
                      .w = w,
                      .x = b->x,
                      .x_stride = (size_t)w->cols,
                      .norm = b->x,
                      .eps = 1e-5f,
                      .epilogue = b->epilogue[matrix],
                      .out = b->out,
                      .out_stride = (size_t)w->rows };
    if (b->matrices > 1 && matrix == b->matrices - 1 && rows > 8)
        a.rows.max = 1; /* the head of a prefill: its last row */
    else if (rows > 8) {
        a.x = NULL;
        a.ready = activation_at(w->form, rows, w->cols, b->ready);
    }
    return a;
}

static void open_buffers(bench *b)
{
    int rows = MAX_ROWS;
    b->xout_bytes = (size_t)rows * (size_t)b->widest * sizeof(float);
    b->x = matmul_random_floats(b->xout_bytes / sizeof(float), VALUES_ORDINARY, 7);
    b->out = mem_alloc_zeroed(MEM_GENERAL, b->xout_bytes);
    b->ready_bytes = activation_bytes(ACTIVATION_F32, rows, b->widest);
    b->ready = mem_alloc_zeroed(MEM_GENERAL, b->ready_bytes);
    for (int m = 0; m < b->matrices; m++)
        for (int r = 8; r <= MAX_ROWS; r *= 64) {
            kernel_args a = { .matmul = args_of(b, m, r) };
            size_t bytes = b->table->kernel[KERNEL_MATMUL].scratch(&a);
            b->scratch_bytes = bytes > b->scratch_bytes ? bytes : b->scratch_bytes;
        }
    for (int t = 0; t < team_threads(b->team); t++)
        b->scratch[t] = mem_alloc_zeroed(MEM_GENERAL, b->scratch_bytes);
}

static void close_matrices(bench *b)
{
    for (int m = 0; m < b->matrices; m++)
        weight_free(&b->w[m]);
    mem_free(MEM_GENERAL, b->x, b->xout_bytes);
    mem_free(MEM_GENERAL, b->out, b->xout_bytes);
    mem_free(MEM_GENERAL, b->ready, b->ready_bytes);
    for (int t = 0; t < team_threads(b->team); t++)
        mem_free(MEM_GENERAL, b->scratch[t], b->scratch_bytes);
    b->matrices = 0;
    b->bytes = b->scratch_bytes = 0;
    b->products = 0;
    b->widest = 0;
}

/* ---- one step, as the executor would run it: a contiguous share of the tiles each, then a barrier ---- */

typedef struct {
    bench *b;
    int rows, threads;
} step;

static void run_share(const kernel_impl *k, const kernel_args *a, int thread, int threads, void *scratch)
{
    const int tiles = k->tiles(a), first = tiles * thread / threads, last = tiles * (thread + 1) / threads;
    if (k->prepare && first < last)
        k->prepare(a, scratch);
    for (int i = first; i < last; i++)
        k->run(a, i, scratch);
}

static void step_thread(void *user, int thread)
{
    const step *s = user;
    bench *b = s->b;
    for (int m = 0; m < b->matrices; m++) {
        const args_matmul a = args_of(b, m, s->rows);
        if (!a.x) {
            const args_quant q = { .rows = a.rows,
                                   .x = b->x,
                                   .x_stride = a.x_stride,
                                   .cols = a.w->cols,
                                   .norm = b->x,
                                   .eps = a.eps,
                                   .form = a.w->form,
                                   .out = a.ready };
            run_share(&b->table->kernel[KERNEL_QUANT], &(kernel_args) { .quant = q }, thread, s->threads,
                      b->scratch[thread]);
            team_barrier(b->team);
        }
        run_share(&b->table->kernel[KERNEL_MATMUL], &(kernel_args) { .matmul = a }, thread, s->threads,
                  b->scratch[thread]);
        team_barrier(b->team);
    }
}

static double time_step(void *user)
{
    step *s = user;
    const int64_t start = clock_ns();
    team_run(s->b->team, s->threads, step_thread, s);
    return (double)(clock_ns() - start) * 1e-9;
}

typedef struct {
    peaks *p;
    int threads;
    double (*measure)(peaks *p, int threads);
} peak_case;

static double time_peak(void *user)
{
    const peak_case *c = user;
    return c->measure(c->p, c->threads);
}

static void report_steps(bench *b, dtype type, const options *o)
{
    enum { MAX_CASES = 2 * (MAX_LIST + 1) };
    compare_case cases[MAX_CASES];
    step steps[MAX_CASES];
    peak_case peak[2];
    int count = 0;
    const int levels = o->threads > 1 ? 2 : 1;
    for (int l = 0; l < levels; l++) {
        const int threads = l == levels - 1 ? o->threads : 1;
        peak[l] = (peak_case) { b->peaks, threads, peaks_read };
        cases[count++] = (compare_case) { "B2", time_peak, &peak[l] };
        for (int i = 0; i < o->row_count; i++) {
            steps[count] = (step) { b, o->rows[i], threads };
            cases[count] = (compare_case) { "step", time_step, &steps[count] };
            count++;
        }
    }
    double *samples = malloc((size_t)(count * o->rounds) * sizeof *samples);
    compare_interleaved(cases, count, 2, o->rounds, samples);
    const double *bandwidth = NULL, *one_row = NULL;
    for (int c = 0; c < count; c++) {
        const double *s = samples + c * o->rounds;
        compare_summary m = compare_summarise(s, o->rounds);
        if (cases[c].run == time_peak) {
            bandwidth = s;
            one_row = NULL;
            printf("%-5s T%d  read bandwidth (B2) %6.1f GB/s [%.1f … %.1f]\n", dtype_get(type)->name,
                   ((peak_case *)cases[c].user)->threads, m.median * 1e-9, m.low * 1e-9, m.high * 1e-9);
            continue;
        }
        const step *st = cases[c].user;
        one_row = one_row ? one_row : s;
        double share[2048];
        for (int i = 0; i < o->rounds; i++)
            share[i] = (double)b->bytes / s[i] / bandwidth[i];
        compare_ratio v = compare_pairs(s, one_row, o->rounds);
        printf("%-5s T%d  R=%-3d %8.3f ms [%.3f … %.3f] best %.3f  %6.1f GB/s  %.2f of B2  x%.2f [%.2f … "
               "%.2f]\n",
               dtype_get(type)->name, st->threads, st->rows, m.median * 1e3, m.low * 1e3, m.high * 1e3,
               m.best * 1e3, (double)b->bytes / m.median * 1e-9, compare_summarise(share, o->rounds).median,
               v.ratio, v.low, v.high);
    }
    free(samples);
    fflush(stdout);
}

/* ---- floors: the fastest round of each matrix ---- */

enum { PIECES = 256 };

typedef struct {
    bench *b;
    int rows, threads;
    double *best; /* [matrices] seconds */
} floor_run;

static void floor_thread(void *user, int thread)
{
    const floor_run *f = user;
    bench *b = f->b;
    for (int m = 0; m < b->matrices; m++) {
        const kernel_args a = { .matmul = args_of(b, m, f->rows) };
        team_barrier(b->team);
        const int64_t start = clock_fast_ns();
        run_share(&b->table->kernel[KERNEL_MATMUL], &a, thread, f->threads, b->scratch[thread]);
        team_barrier(b->team);
        const double seconds = (double)(clock_fast_ns() - start) * 1e-9;
        if (thread == 0 && seconds < f->best[m])
            f->best[m] = seconds;
    }
}

static double sum_of(const double *x, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += x[i];
    return sum;
}

static void report_floor(bench *b, dtype type, const options *o)
{
    static double pieces[PIECES], best[MAX_LIST][MAX_MATRICES];
    for (int i = 0; i < PIECES; i++)
        pieces[i] = 1;
    for (int i = 0; i < o->row_count; i++)
        for (int m = 0; m < b->matrices; m++)
            best[i][m] = 1;
    for (int round = 0; round < o->rounds; round++) {
        peaks_read_pieces(b->peaks, o->threads, PIECES, pieces);
        for (int i = 0; i < o->row_count; i++) {
            floor_run f = { b, o->rows[i], o->threads, best[i] };
            team_run(b->team, o->threads, floor_thread, &f);
        }
    }
    const double bandwidth = (double)((size_t)512 << 20) / sum_of(pieces, PIECES);
    printf("%-5s T%d  floor of %d rounds: B2 %.1f GB/s", dtype_get(type)->name, o->threads, o->rounds,
           bandwidth * 1e-9);
    for (int i = 0; i < o->row_count; i++) {
        const double s = sum_of(best[i], b->matrices);
        printf("   R=%d %.2f ms, %.2f of B2, x%.2f", o->rows[i], s * 1e3, (double)b->bytes / s / bandwidth,
               s / sum_of(best[0], b->matrices));
    }
    printf("\n");
    fflush(stdout);
}

/* ---- cache-resident rate, and prefill ---- */

static void report_rate(bench *b, dtype type, const options *o)
{
    const args_matmul whole = args_of(b, 0, 8);
    double *samples = malloc((size_t)o->rounds * sizeof *samples);
    printf("%-5s one thread, %zu KiB of weights:", dtype_get(type)->name, whole.w->bytes >> 10);
    for (int i = 0; i < o->row_count; i++) {
        const kernel_args a = { .matmul = args_of(b, 0, o->rows[i]) };
        const args_quant q = { .rows.max = o->rows[i],
                               .x = b->x,
                               .x_stride = (size_t)whole.w->cols,
                               .cols = whole.w->cols,
                               .form = whole.w->form,
                               .out = a.matmul.ready };
        if (!a.matmul.x)
            matmul_run_kernel(&b->table->kernel[KERNEL_QUANT], &(kernel_args) { .quant = q });
        for (int r = 0; r < o->rounds; r++) {
            const int64_t start = clock_ns();
            run_share(&b->table->kernel[KERNEL_MATMUL], &a, 0, 1, b->scratch[0]);
            samples[r] = b->products * o->rows[i] / (double)(clock_ns() - start);
        }
        printf("  R=%d %.0f", o->rows[i], compare_summarise(samples, o->rounds).worst);
    }
    double peak[2] = { 0 };
    for (int r = 0; r < o->rounds; r++) {
        const double fma = peaks_fma(b->peaks, 1) * 0.5e-9, int8 = peaks_int8(b->peaks, 1) * 0.5e-9;
        peak[0] = fma > peak[0] ? fma : peak[0];
        peak[1] = int8 > peak[1] ? int8 : peak[1];
    }
    printf(" GMAC/s (largest of %d); peaks: fma %.0f, int8 %.0f\n", o->rounds, peak[0], peak[1]);
    free(samples);
    fflush(stdout);
}

static void report_prefill(bench *b, dtype type, const options *o)
{
    for (int i = 0; i < o->row_count; i++) {
        step s = { b, o->rows[i], o->threads };
        peak_case fma = { b->peaks, o->threads, peaks_fma }, int8 = { b->peaks, o->threads, peaks_int8 };
        const compare_case cases[] = { { "fma", time_peak, &fma },
                                       { "int8", time_peak, &int8 },
                                       { "step", time_step, &s } };
        double *samples = malloc((size_t)(3 * o->rounds) * sizeof *samples);
        compare_interleaved(cases, 3, 1, o->rounds, samples);
        const double *ms = samples + 2 * o->rounds;
        const packed_weight *head = &b->w[b->matrices - 1];
        const double products =
            (b->products - (double)head->rows * head->cols) * s.rows + (double)head->rows * head->cols;
        const double peak_fma = compare_summarise(samples, o->rounds).median / 2;
        const double peak_int8 = compare_summarise(samples + o->rounds, o->rounds).median / 2;
        compare_summary m = compare_summarise(ms, o->rounds);
        printf("%-5s T%d  prefill %d rows %8.1f ms [%.1f … %.1f] best %.1f  %7.0f tok/s  %.0f GMAC/s  "
               "%.2f of the fma peak (%.0f), %.2f of int8's (%.0f)\n",
               dtype_get(type)->name, s.threads, s.rows, m.median * 1e3, m.low * 1e3, m.high * 1e3,
               m.best * 1e3, s.rows / m.median, products / m.median * 1e-9, products / m.median / peak_fma,
               peak_fma * 1e-9, peak_int8 > 0 ? products / m.median / peak_int8 : 0, peak_int8 * 1e-9);
        fflush(stdout);
        free(samples);
    }
}

/* ---- the command line ---- */

static int parse_types(const char *text, dtype *types)
{
    int count = 0;
    for (const char *p = text; *p && count < MAX_LIST; p += *p == ',') {
        const size_t n = strcspn(p, ",");
        for (int t = 0; t < DTYPE_COUNT; t++)
            if (strlen(dtype_get((dtype)t)->name) == n && strncmp(dtype_get((dtype)t)->name, p, n) == 0 &&
                (weight_type_supported((dtype)t) || scaled_is((dtype)t)))
                types[count++] = (dtype)t;
        p += n;
    }
    return count;
}

static bool parse(int argc, char **argv, options *o)
{
    const char *types = "Q4_1,Q8_0,F16", *rows = NULL;
    *o = (options) { .mode = "step", .model = "135m", .threads = thread_cores() };
    for (int i = 1; i < argc; i++) {
        const char *a = argv[i], *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (a[0] != '-') {
            o->mode = a;
            continue;
        }
        if (!value)
            return false;
        if (strcmp(a, "--model") == 0)
            o->model = value;
        else if (strcmp(a, "--type") == 0)
            types = value;
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
        i++;
    }
    const bool step_mode = strcmp(o->mode, "step") == 0 || strcmp(o->mode, "floor") == 0;
    const bool rate = strcmp(o->mode, "rate") == 0;
    if (!step_mode && !rate && strcmp(o->mode, "prefill") != 0)
        return false;
    if (o->rounds < 1 || o->rounds > 2000)
        o->rounds = strcmp(o->mode, "floor") == 0 ? 25 : step_mode ? 15 : rate ? 200 : 5;
    o->row_count = list_parse(rows        ? rows
                              : step_mode ? "1,2,4,8"
                              : rate      ? "1,2,3,4,6,8,64"
                                          : "512",
                              MAX_ROWS, o->rows, MAX_LIST);
    o->type_count = parse_types(types, o->types);
    return o->row_count > 0 && o->type_count > 0 && o->threads >= 1 && o->threads <= MAX_THREADS &&
           (strcmp(o->model, "135m") == 0 || strcmp(o->model, "1b") == 0);
}

int main(int argc, char **argv)
{
    options o;
    bench b = { 0 };
    foray_error err;
    if (!parse(argc, argv, &o)) {
        fprintf(
            stderr,
            "usage: bench_kernels [step|floor|rate|prefill] [--model 135m|1b] [--type Q4_1,…] [--isa NAME]\n"
            "                     [--rounds N] [--rows 1,2,4,8] [--threads N]\n");
        return 2;
    }
    if (kernel_table_get(o.isa, &b.table, &err) != 0 || team_open(o.threads, &b.team, &err) != 0 ||
        peaks_open(b.table->name, 0, b.team, &b.peaks, &err) != 0) {
        fprintf(stderr, "bench_kernels: %s\n", err.text);
        return 1;
    }
    printf("isa %s, %d threads, barrier %.0f ns\n", b.table->name, o.threads,
           peaks_barrier_ns(b.peaks, o.threads));
    for (int t = 0; t < o.type_count; t++) {
        if (strcmp(o.mode, "rate") == 0)
            add_matrix(&b, o.types[t], 384, 768, EPILOGUE_STORE);
        else
            add_model(&b, o.types[t], o.model);
        open_buffers(&b);
        if (strcmp(o.mode, "rate") == 0)
            report_rate(&b, o.types[t], &o);
        else if (strcmp(o.mode, "prefill") == 0)
            report_prefill(&b, o.types[t], &o);
        else if (strcmp(o.mode, "floor") == 0)
            report_floor(&b, o.types[t], &o);
        else
            report_steps(&b, o.types[t], &o);
        close_matrices(&b);
    }
    peaks_close(b.peaks);
    team_close(b.team);
    return 0;
}
