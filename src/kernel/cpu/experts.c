/* experts.c: cuts the chosen experts into tiles, gathers their rows, and walks. See experts.h.
 *
 * Bits do not depend on anything decided here. Which experts have pairs is read from device memory when the kernel is
 * ready: tiles are only ever of those, so a pass costs what it chose. Sizes were measured with bench/kernels.c.
 */
#include "kernel/cpu/experts.h"

#include <string.h>

#include "kernel/ref/experts.h"

enum {
    TILE_BYTES = 256 << 10,      /* of weights, where there is that much */
    SMALL_TILE_BYTES = 16 << 10, /* small experts: so many that workers can share them evenly … */
    SMALL_TILES = 8,             /* … but no more than this in all */
    MANY_TILE_BYTES = 512 << 10, /* for many rows, which reuse weights while a cache has them */
    ROW_BLOCK = 64,
    WIDE_BLOCK = 128,
    HEADER = 64,
};

/* How one matrix is cut, the same for every expert but for the number of its pairs. */
typedef struct {
    int units, groups_per_unit;
    int step, steps; /* ranges begin at multiples of a step, so that no group runs alone */
    int few, many;   /* ranges for few pairs, for many */
    int block;       /* pairs at once */
} cut;

/* A worker's block: the first thing in its scratch, then the panels, a panel's gathered rows, the walk's own. */
typedef struct {
    int expert, block; /* whose rows the panels hold; -1: none */
} held;

typedef struct {
    char *panels, *rows, *walk;
} layout;

static int div_up(int a, int b)
{
    return (a + b - 1) / b;
}

static int within(int n, int low, int high)
{
    return n < low ? low : n > high ? high : n;
}

static int block_of(const packed_weight *w)
{
    return panel_is_float(w->form) ? WIDE_BLOCK : ROW_BLOCK;
}

static cut make_cut(const args_experts *a)
{
    const packed_weight *w = a->w;
    cut c = { .groups_per_unit = a->weight ? 2 : 1, .block = block_of(w) };
    c.units = w->groups / c.groups_per_unit;
    const int bytes =
        (int)(w->bytes / SMALL_TILE_BYTES < INT32_MAX ? w->bytes / SMALL_TILE_BYTES : INT32_MAX);
    int distinct = 0;
    for (int e = 0; e < a->experts; e++)
        distinct += a->first[e + 1] > a->first[e];

    const int large = bytes / (TILE_BYTES / SMALL_TILE_BYTES);
    const int share = distinct > 0 ? div_up(SMALL_TILES, distinct) : 1;
    const int few = large > share ? large : bytes < share ? bytes : share;
    const int bundle = w->groups / 16 >= few ? MATMUL_STREAMS : 2;
    c.step = bundle / c.groups_per_unit;
    c.steps = div_up(c.units, c.step);
    c.few = within(few, 1, c.steps);
    c.many = within(bytes / (MANY_TILE_BYTES / SMALL_TILE_BYTES), 1, c.few);
    return c;
}

static int ranges_for(const cut *c, int pairs)
{
    return pairs > MATMUL_MAX_PANEL ? c->many : c->few;
}

static int tiles_for(const cut *c, int pairs)
{
    return div_up(pairs, c->block) * ranges_for(c, pairs);
}

int experts_tiles(const kernel_args *args)
{
    const args_experts *a = &args->experts;
    const cut c = make_cut(a);
    int tiles = 0;
    for (int e = 0; e < a->experts; e++)
        tiles += tiles_for(&c, a->first[e + 1] - a->first[e]);
    return tiles;
}

/* ---- scratch ---- */

/* The most pairs that a block can have. */
static int most_rows(const args_experts *a)
{
    const int64_t pairs = (int64_t)a->max_rows * a->chosen;
    return pairs < block_of(a->w) ? (int)pairs : block_of(a->w);
}

static size_t rows_bytes(const matmul_ops *ops, const args_experts *a)
{
    const int rows = most_rows(a) < ops->panel ? most_rows(a) : ops->panel;
    return rows > 1 ? activation_bytes(ACTIVATION_F32, rows, a->w->cols) : 0;
}

static layout lay_out(const matmul_ops *ops, const args_experts *a, void *scratch)
{
    layout l = { .panels = (char *)scratch + HEADER };
    l.rows = l.panels + activation_bytes(a->w->form, most_rows(a), a->w->cols);
    l.walk = l.rows + rows_bytes(ops, a);
    return l;
}

size_t experts_scratch(const matmul_ops *ops, const kernel_args *args)
{
    const args_experts *a = &args->experts;
    return HEADER + activation_bytes(a->w->form, most_rows(a), a->w->cols) + rows_bytes(ops, a) +
           matmul_walk_scratch(a->w);
}

void experts_prepare(void *scratch)
{
    *(held *)scratch = (held) { .expert = -1 };
}

/* Panels of the rows of pair [rows]. A row alone is prepared where it stands. */
static void prepare_block(const matmul_ops *ops, const args_experts *a, const int32_t *pair, int rows,
                          const layout *l)
{
    const int cols = a->w->cols;
    for (int r = 0; r < rows; r += ops->panel) {
        const int n = rows - r < ops->panel ? rows - r : ops->panel;
        const float *x = n == 1 ? experts_row(a, pair[r]) : (const float *)(const void *)l->rows;
        for (int i = 0; n > 1 && i < n; i++)
            memcpy((float *)(void *)l->rows + (size_t)i * (size_t)cols, experts_row(a, pair[r + i]),
                   (size_t)cols * sizeof(float));
        ops->prepare(a->w->form, x, (size_t)cols, n, cols, a->norm, a->eps,
                     panel_at(a->w->form, cols, l->panels, r));
    }
}

/* ---- tiles ---- */

void experts_run(const matmul_ops *ops, matmul_finish *finish, const kernel_args *args, int tile,
                 void *scratch)
{
    const args_experts *a = &args->experts;
    const cut c = make_cut(a);
    int e = 0, pairs, tiles;
    while (tile >= (tiles = tiles_for(&c, pairs = a->first[e + 1] - a->first[e]))) {
        tile -= tiles;
        e++;
    }

    /* Blocks of nearly equal size, whole panels. */
    const int ranges = ranges_for(&c, pairs), blocks = div_up(pairs, c.block);
    const int block = tile / ranges, range = tile % ranges;
    const int block_rows = div_up(div_up(pairs, blocks), MATMUL_MAX_PANEL) * MATMUL_MAX_PANEL;
    const int first = block * block_rows;
    const int rows = pairs - first < block_rows ? pairs - first : block_rows;
    const int32_t *pair = a->pair + a->first[e] + first;

    held *h = scratch;
    const layout l = lay_out(ops, a, scratch);
    if (h->expert != e || h->block != block) {
        prepare_block(ops, a, pair, rows, &l);
        *h = (held) { .expert = e, .block = block };
    }
    const experts_job job = { .a = a, .pair = pair, .outputs = a->weight ? a->w->rows / 2 : a->w->rows };
    const matmul_walk t = { .ops = ops,
                            .w = &a->w[e],
                            .rows = l.panels,
                            .groups_per_unit = c.groups_per_unit,
                            .last_row = rows,
                            .finish = finish,
                            .job = &job };
    const int start = c.step * (int)((int64_t)c.steps * range / ranges);
    const int end = c.step * (int)((int64_t)c.steps * (range + 1) / ranges);
    matmul_walk_units(&t, start, end < c.units ? end : c.units, l.walk);
}
