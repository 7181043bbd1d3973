/* sparse.c: how long the kernels of hyper-connections and compressed sparse attention take, one thread.
 *
 *   bench_sparse [--rounds N] [--case NAME] [--kernel NAME]
 *
 * Cases have the proportions of a very small model, and of a large one of the family (64 heads of 512) after 1k and 32k
 * tokens; 1 and 4 rows each. Instruction sets run in turn (`portable` only where there is no other); figures are medians of whole kernels (all their tiles) in
 * microseconds; the last column is the rate of the best set in its fastest round, in 10^9 operations per second.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/mem.h"
#include "kernel/impl.h"
#include "support/entry_pool.h"
#include "support/kernel_runner.h"

enum { MAX_JOBS = 16, MAX_ROUNDS = 1001, MAX_ROWS = 4, SETS = RUNNER_MAX_TABLES };

typedef struct {
    const char *name;
    int position; /* of the first row */
    int dim, heads, width, rope_dim, window;
    int index_heads, index_width, top;
    int ratio; /* 4: with an indexer; else every entry is attended to */
} proportions;

static const proportions cases[] = {
    { "nano", 303, 256, 4, 128, 64, 64, 4, 128, 32, 4 },
    { "flash-1k", 1023, 4096, 64, 512, 64, 128, 64, 128, 512, 4 },
    { "flash-32k", 32767, 4096, 64, 512, 64, 128, 64, 128, 512, 4 },
    { "flash-32k-c128", 32767, 4096, 64, 512, 64, 128, 0, 0, 0, 128 },
};

typedef struct {
    const char *name;
    kernel_id id;
    kernel_args args;
} job;

typedef struct {
    const proportions *p;
    int rows, jobs;
    job job[MAX_JOBS];
    int32_t position[MAX_ROWS], slot[MAX_ROWS], *count;
    entry_pool ring, entries, keys, state;
    arena memory;
} bench;

static uint32_t counter;

static float *random_floats(bench *b, size_t n)
{
    float *x = arena_array(&b->memory, n, sizeof *x);
    for (size_t i = 0; i < n; i++)
        x[i] = runner_float(1, &counter);
    return x;
}

static void add_job(bench *b, const char *name, kernel_id id, kernel_args args)
{
    b->job[b->jobs++] = (job) { name, id, args };
}

static void add_streams(bench *b)
{
    const size_t rows = (size_t)b->rows, dim = (size_t)b->p->dim;
    float *x = random_floats(b, rows * 4 * dim), *y = random_floats(b, rows * dim);
    float *post = random_floats(b, rows * 4), *comb = random_floats(b, rows * 16);
    const row_count count = { .max = b->rows };
    add_job(b, "hyper_pre", KERNEL_HYPER_PRE,
            (kernel_args) { .hyper_pre = { count, x, random_floats(b, rows * 24), random_floats(b, 3),
                                           random_floats(b, 24), 4, b->p->dim, 20, 1e-6f, 1e-6f, y, post,
                                           comb } });
    float *small = random_floats(b, rows * 16);
    for (size_t i = 0; i < rows * 16; i++) /* streams must not grow from call to call */
        small[i] *= 0.25f;
    add_job(b, "hyper_post", KERNEL_HYPER_POST,
            (kernel_args) { .hyper_post = { count, x, y, post, small, 4, b->p->dim } });
}

static void add_heads(bench *b, const char *name, int heads, int width, bool norm, vector_rounding rounding)
{
    const size_t rows = (size_t)b->rows;
    add_job(b, name, KERNEL_HEAD_ROPE,
            (kernel_args) { .head_rope = { .rows = { .max = b->rows },
                                           .x = random_floats(b, rows * (size_t)(heads * width)),
                                           .heads = heads,
                                           .width = width,
                                           .rope_dim = b->p->rope_dim,
                                           .norm = norm,
                                           .eps = 1e-6f,
                                           .cos_sin = random_floats(b, rows * (size_t)b->p->rope_dim),
                                           .rounding = rounding } });
}

static void add_stores(bench *b)
{
    const proportions *p = b->p;
    const bool overlap = p->ratio == 4;
    const int width = overlap ? 2 * p->width : p->width;
    const size_t rows = (size_t)b->rows;
    add_job(b, "latent_store", KERNEL_LATENT_STORE,
            (kernel_args) { .latent_store = { .rows = { .max = b->rows },
                                              .x = random_floats(b, rows * (size_t)p->width),
                                              .x_stride = (size_t)p->width,
                                              .width = p->width,
                                              .rope_dim = p->rope_dim,
                                              .norm = random_floats(b, (size_t)p->width),
                                              .eps = 1e-6f,
                                              .cos_sin = random_floats(b, rows * (size_t)p->rope_dim),
                                              .position = b->position,
                                              .slot = b->slot,
                                              .rounding = ROUND_F8,
                                              .out = b->ring.rows } });
    add_job(b, "state_store", KERNEL_STATE_STORE,
            (kernel_args) { .state_store = { .rows = { .max = b->rows },
                                             .x = random_floats(b, rows * 2 * (size_t)width),
                                             .x_stride = 2 * (size_t)width,
                                             .ape = random_floats(b, (size_t)(p->ratio * width)),
                                             .width = width,
                                             .ratio = p->ratio,
                                             .position = b->position,
                                             .slot = b->slot,
                                             .state = b->state.rows } });
    add_job(b, "compress", KERNEL_COMPRESS,
            (kernel_args) { .compress = { .rows = { .max = b->rows },
                                          .position = b->position,
                                          .slot = b->slot,
                                          .ratio = p->ratio,
                                          .width = p->width,
                                          .rope_dim = p->rope_dim,
                                          .overlap = overlap,
                                          .norm = random_floats(b, (size_t)p->width),
                                          .eps = 1e-6f,
                                          .frequency = random_floats(b, (size_t)p->rope_dim),
                                          .rounding = ROUND_F8,
                                          .state = b->state.rows,
                                          .out = b->entries.rows } });
}

static void add_indexer(bench *b, int most, int32_t *chosen)
{
    const proportions *p = b->p;
    const size_t rows = (size_t)b->rows;
    float *score = random_floats(b, rows * (size_t)most);
    add_heads(b, "index_rope", p->index_heads, p->index_width, false, ROUND_HADAMARD_FP4);
    add_job(b, "index_score", KERNEL_INDEX_SCORE,
            (kernel_args) {
                .index_score = { .rows = { .max = b->rows },
                                 .position = b->position,
                                 .slot = b->slot,
                                 .q = random_floats(b, rows * (size_t)(p->index_heads * p->index_width)),
                                 .weight = random_floats(b, rows * (size_t)p->index_heads),
                                 .scale = 0.01f,
                                 .heads = p->index_heads,
                                 .width = p->index_width,
                                 .ratio = p->ratio,
                                 .top = p->top,
                                 .keys = b->keys.rows,
                                 .max_entries = most,
                                 .score = score } });
    add_job(b, "index_select", KERNEL_INDEX_SELECT,
            (kernel_args) { .index_select = { .rows = { .max = b->rows },
                                              .position = b->position,
                                              .ratio = p->ratio,
                                              .top = p->top,
                                              .max_entries = most,
                                              .score = score,
                                              .chosen = chosen,
                                              .count = b->count } });
}

static void add_attention(bench *b, int most, const int32_t *chosen)
{
    const proportions *p = b->p;
    const size_t n = (size_t)b->rows * (size_t)(p->heads * p->width);
    add_job(b, "sparse_attention", KERNEL_SPARSE_ATTENTION,
            (kernel_args) { .sparse_attention = { .rows = { .max = b->rows },
                                                  .position = b->position,
                                                  .slot = b->slot,
                                                  .q = random_floats(b, n),
                                                  .heads = p->heads,
                                                  .width = p->width,
                                                  .scale = 0.05f,
                                                  .sink = random_floats(b, (size_t)p->heads),
                                                  .window = p->window,
                                                  .ring = b->ring.rows,
                                                  .ratio = p->ratio,
                                                  .entries = b->entries.rows,
                                                  .chosen = chosen,
                                                  .count = chosen ? b->count : NULL,
                                                  .top = p->top,
                                                  .max_entries = chosen && p->top < most ? p->top : most,
                                                  .out = random_floats(b, n) } });
}

static void open_case(bench *b, const proportions *p, int rows)
{
    const int last = p->position + rows - 1, most = (last + 1) / p->ratio, guard = 8;
    const int tokens = p->ratio * (p->ratio == 4 ? 2 : 1) + guard;
    *b = (bench) { .p = p, .rows = rows };
    arena_init(&b->memory, MEM_GENERAL, 0);
    for (int r = 0; r < rows; r++)
        b->position[r] = p->position + r;
    b->count = arena_array(&b->memory, (size_t)rows, sizeof *b->count);
    entry_pool_init(&b->ring, 1, p->window + guard, 16, p->width, p->window + guard);
    entry_pool_init(&b->entries, 1, most, 64, p->width, 0);
    entry_pool_init(&b->state, 1, tokens, 8, p->width * (p->ratio == 4 ? 4 : 2), tokens);
    entry_pool_fill(&b->ring, 0, 0, p->window + guard - 1, 1, &counter);
    entry_pool_fill(&b->entries, 0, 0, most - 1, 1, &counter);
    entry_pool_fill(&b->state, 0, 0, tokens - 1, 1, &counter);
    add_streams(b);
    add_heads(b, "head_rope", p->heads, p->width, true, ROUND_NONE);
    add_stores(b);
    int32_t *chosen = NULL;
    if (p->top > 0) {
        chosen = arena_array(&b->memory, (size_t)(rows * p->top), sizeof *chosen);
        entry_pool_init(&b->keys, 1, most, 64, p->index_width, 0);
        entry_pool_fill(&b->keys, 0, 0, most - 1, 1, &counter);
        add_indexer(b, most, chosen);
    }
    add_attention(b, most, chosen);
}

static void close_case(bench *b)
{
    entry_pool_free(&b->ring);
    entry_pool_free(&b->entries);
    entry_pool_free(&b->state);
    if (b->p->top > 0)
        entry_pool_free(&b->keys);
    arena_free(&b->memory);
}

/* Nanoseconds of all tiles. */
static double time_job(const kernel_table *t, const job *j, void *scratch)
{
    const kernel_impl *k = &t->kernel[j->id];
    const int64_t start = clock_ns();
    const int tiles = k->tiles(&j->args);
    for (int i = 0; i < tiles; i++)
        k->run(&j->args, i, scratch);
    return (double)(clock_ns() - start);
}

static void run_once(const kernel_table *t, const job *j)
{
    const kernel_impl *k = &t->kernel[j->id];
    const size_t bytes = k->scratch ? k->scratch(&j->args) : 0;
    void *scratch = mem_alloc(MEM_GENERAL, bytes);
    time_job(t, j, scratch);
    mem_free(MEM_GENERAL, scratch, bytes);
}

static int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void measure_job(const kernel_table *const *tables, int sets, const job *j, int rounds)
{
    static double ns[SETS][MAX_ROUNDS];
    void *scratch[SETS];
    size_t bytes[SETS];
    for (int s = 0; s < sets; s++) {
        const kernel_impl *k = &tables[s]->kernel[j->id];
        bytes[s] = k->scratch ? k->scratch(&j->args) : 0;
        scratch[s] = mem_alloc(MEM_GENERAL, bytes[s]);
        time_job(tables[s], j, scratch[s]);
    }
    for (int r = 0; r < rounds; r++)
        for (int s = 0; s < sets; s++)
            ns[s][r] = time_job(tables[s], j, scratch[s]);
    printf("  %-18s", j->name);
    for (int s = 0; s < sets; s++) {
        qsort(ns[s], (size_t)rounds, sizeof ns[s][0], compare_doubles);
        printf(" %11.2f", ns[s][rounds / 2] / 1e3);
        mem_free(MEM_GENERAL, scratch[s], bytes[s]);
    }
    printf(" %8.1f\n", kernel_get_live_cost(j->id, &j->args).flops / ns[sets - 1][0]);
}

static void measure_case(const proportions *p, int rows, const char *kernel, int rounds)
{
    const kernel_table *tables[SETS] = { kernel_table_ref() };
    const int found = runner_tables(tables), sets = found > 0 ? found : 1;
    static bench b;
    open_case(&b, p, rows);
    printf("%s, %d row%s", p->name, rows, rows > 1 ? "s" : "");
    for (int s = 0; s < sets; s++)
        printf(" %*s", s == 0 ? 20 - (int)strlen(p->name) + 2 : 11, tables[s]->name);
    printf("    Gop/s\n");
    for (int i = 0; i < b.jobs; i++) /* what one kernel writes the next one reads */
        run_once(tables[0], &b.job[i]);
    for (int i = 0; i < b.jobs; i++)
        if (!kernel || strcmp(kernel, b.job[i].name) == 0)
            measure_job(tables, sets, &b.job[i], rounds);
    close_case(&b);
}

int main(int argc, char **argv)
{
    const char *name = NULL, *kernel = NULL;
    int rounds = 51;
    for (int i = 1; i + 1 < argc; i += 2)
        if (strcmp(argv[i], "--rounds") == 0)
            rounds = atoi(argv[i + 1]);
        else if (strcmp(argv[i], "--case") == 0)
            name = argv[i + 1];
        else if (strcmp(argv[i], "--kernel") == 0)
            kernel = argv[i + 1];
    if (argc % 2 == 0 || rounds < 1 || rounds > MAX_ROUNDS) {
        fprintf(stderr, "usage: bench_sparse [--rounds 1…%d] [--case NAME] [--kernel NAME]\n", MAX_ROUNDS);
        return 2;
    }
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (!name || strcmp(name, cases[i].name) == 0)
            for (int rows = 1; rows <= MAX_ROWS; rows *= 4)
                measure_case(&cases[i], rows, kernel, rounds);
    return 0;
}
