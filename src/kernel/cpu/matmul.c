/* matmul.c: cuts a matmul into tiles and walks a tile. See matmul.h; the arithmetic is in avx2_/avx512_ files.
 *
 * Bits do not depend on anything decided here: every output is one chain along k whoever computes it and beside
 * whatever else. Sizes below were measured with bench/kernels.c.
 */
#include "kernel/cpu/matmul.h"

#include <string.h>

#include "kernel/scaled.h"

enum {
    TILE_BYTES = 128 << 10,      /* of weights, where there is that much */
    SMALL_TILE_BYTES = 32 << 10, /* small matrices: so many that workers can share them evenly … */
    HALVED_BYTES = 24 << 10,     /* … of this size: two */
    SMALL_TILES = 8,             /* … but no more than this; large ones: a multiple of four */
    MANY_TILE_BYTES = 512 << 10, /* of weights, for many rows … */
    MANY_TILES = 16,             /* … where that still makes so many tiles, blocks of rows counted */
    ROW_BLOCK = 64,              /* rows that pass over a tile's weights together … */
    WIDE_BLOCK = 128,            /* … and of floats, whose weights are widened once for all of them */
    WIDE_COLS = 128, /* columns of f32 weights at a time: three groups fit the first-level cache */
    WIDE_GROUPS = 3,
    WIDENED_COLS = 32, /* columns of scaled weights at a time, for few rows */
    AHEAD = 8 << 10,   /* how far ahead of its loads a stream of weights is prefetched, in bytes */
};

typedef struct {
    int units, groups_per_unit;
    int weight_tiles; /* ranges of units … */
    int step, steps;  /* … that begin at multiples of a step: of one group alone there is no overlap */
    int row_blocks, block_rows; /* ranges of rows */
    int rows;                   /* live */
} plan;

/* Scratch of a worker for many rows of floats: widened weights and the sums of a block of rows. */
typedef struct {
    float wide[WIDE_GROUPS][WIDE_COLS * MATMUL_MAX_LANES];
    float y[WIDE_BLOCK / 4][WIDE_GROUPS * MATMUL_MAX_PANEL * MATMUL_MAX_LANES];
} wide_scratch;

static int div_up(int a, int b)
{
    return (a + b - 1) / b;
}

/* Whether a type's own dot takes these weights and activations (see matmul.h). */
static bool has_dot(const packed_weight *w)
{
    return !scaled_is(w->type) || w->form == ACTIVATION_I8 || (w->form == ACTIVATION_F8 && w->ordinary);
}

/* Ranges of a matrix's weights. Few rows: of the size above (what has to be widened takes as long as f32 would), in
 * multiples of four where there are many. Many rows: larger ones, so that a block of rows is not fetched again and
 * again for a few weights each; there are blocks enough to share. */
static int wanted_tiles(const packed_weight *w, int rows, int row_blocks)
{
    const size_t small_bytes = has_dot(w) ? w->bytes : sizeof(float) * (size_t)w->rows * (size_t)w->cols;
    const int tiles = (int)(small_bytes / SMALL_TILE_BYTES);
    const int small = tiles < 2 && small_bytes >= HALVED_BYTES ? 2 : tiles;
    const int large = (int)((w->bytes + TILE_BYTES - 1) / TILE_BYTES + 3) / 4 * 4;
    if (rows > MATMUL_MAX_PANEL) {
        const int share = div_up(MANY_TILES, row_blocks), fit = (int)(w->bytes / MANY_TILE_BYTES);
        return share > fit ? share : fit;
    }
    return small < SMALL_TILES ? small : large > SMALL_TILES ? large : SMALL_TILES;
}

static plan make_plan(const args_matmul *a)
{
    const packed_weight *w = a->w;
    plan p = { .rows = rows_live(a->rows), .groups_per_unit = matmul_gated(a) ? 2 : 1 };
    if (p.rows == 0)
        return p;

    /* Blocks of nearly equal size, whole panels of 8. */
    p.row_blocks = div_up(p.rows, panel_is_float(w->form) ? WIDE_BLOCK : ROW_BLOCK);
    p.block_rows = div_up(div_up(p.rows, p.row_blocks), MATMUL_MAX_PANEL) * MATMUL_MAX_PANEL;
    p.row_blocks = div_up(p.rows, p.block_rows);

    /* Tiles of whole bundles: four groups where there are many, two otherwise, single units of what has few. */
    const int wanted = wanted_tiles(w, p.rows, p.row_blocks);
    const int bundle = w->groups / 16 >= wanted  ? MATMUL_STREAMS
                       : w->groups / 2 >= wanted ? 2
                                                 : p.groups_per_unit;
    p.units = w->groups / p.groups_per_unit;
    p.step = bundle / p.groups_per_unit;
    p.steps = div_up(p.units, p.step);
    p.weight_tiles = wanted < 1 ? 1 : wanted > p.steps ? p.steps : wanted;
    return p;
}

int matmul_tiles(const kernel_args *args)
{
    const plan p = make_plan(&args->matmul);
    return p.weight_tiles * p.row_blocks;
}

/* ---- activations ---- */

/* A single row of f32 without a norm needs no preparation: it is its own panel. */
static bool needs_own_rows(const args_matmul *a)
{
    return a->x && (a->w->form != ACTIVATION_F32 || a->norm || a->rows.max > 1);
}

static size_t own_bytes(const args_matmul *a)
{
    return needs_own_rows(a) ? activation_bytes(a->w->form, a->rows.max, a->w->cols) : 0;
}

size_t matmul_scratch(const kernel_args *args)
{
    const args_matmul *a = &args->matmul;
    return own_bytes(a) + matmul_walk_scratch(a->w);
}

static void prepare_panels(const matmul_ops *ops, activation_form form, const float *x, size_t stride,
                           int first, int rows, int cols, const float *norm, float eps, void *data)
{
    for (int r = first; r < first + rows; r += ops->panel) {
        const int n = first + rows - r < ops->panel ? first + rows - r : ops->panel;
        ops->prepare(form, x + (size_t)r * stride, stride, n, cols, norm, eps, panel_at(form, cols, data, r));
    }
}

void matmul_prepare(const matmul_ops *ops, const kernel_args *args, void *scratch)
{
    const args_matmul *a = &args->matmul;
    if (needs_own_rows(a))
        prepare_panels(ops, a->w->form, a->x, a->x_stride, 0, rows_live(a->rows), a->w->cols, a->norm, a->eps,
                       scratch);
}

int quant_tiles(int panel, const kernel_args *args)
{
    return div_up(rows_live(args->quant.rows), panel);
}

void quant_run(const matmul_ops *ops, const kernel_args *args, int tile)
{
    const args_quant *a = &args->quant;
    const int first = tile * ops->panel, left = rows_live(a->rows) - first;
    prepare_panels(ops, a->form, a->x, a->x_stride, first, left < ops->panel ? left : ops->panel, a->cols,
                   a->norm, a->eps, a->out.data);
}

/* ---- walking a tile ---- */

static int panel_rows(const matmul_walk *t, int row)
{
    const int left = t->last_row - row;
    return left < t->ops->panel ? left : t->ops->panel;
}

static const uint8_t *group_at(const matmul_walk *t, int group)
{
    return t->w->data + (size_t)group * t->w->group_bytes;
}

/* y: [groups][rows][lanes] of the unit's groups. */
static void finish_unit(const matmul_walk *t, int unit, int row, int rows, const float *y)
{
    t->finish(t->job, unit * t->ops->lanes, row, rows, y, y + rows * t->ops->lanes);
}

/* Weights of kernel/scaled.h as their values: what is not ordinary, and activations that are not rounded. */
static void dot_widened(const matmul_walk *t, const matmul_dot *job)
{
    float wide[MATMUL_STREAMS][WIDENED_COLS * MATMUL_MAX_LANES] __attribute__((aligned(64)));
    matmul_dot piece = *job;
    for (int k = 0; k < job->cols; k += WIDENED_COLS) {
        const int end = job->cols - k < WIDENED_COLS ? job->cols : k + WIDENED_COLS;
        for (int g = 0; g < job->groups; g++) {
            t->ops->widen(t->w->type, job->w[g], k, end, wide[g]);
            piece.w[g] = (const uint8_t *)wide[g];
        }
        piece.cols = end - k;
        piece.x = (const float *)job->x + (size_t)k * (size_t)job->rows;
        piece.ahead = 0;
        t->ops->dot[DTYPE_F32](&piece);
    }
}

static void run_dot(const matmul_walk *t, const matmul_dot *job)
{
    if (has_dot(t->w))
        t->ops->dot[t->w->type](job);
    else
        dot_widened(t, job);
}

/* Some units side by side, each panel of rows in turn while their weights are in a cache. */
static void run_units(const matmul_walk *t, const int *unit, int units)
{
    const packed_weight *w = t->w;
    const int per = t->groups_per_unit;
    matmul_dot job = { .groups = units * per, .cols = w->cols, .ahead = AHEAD };
    for (int i = 0; i < job.groups; i++)
        job.w[i] = group_at(t, unit[i / per] * per + i % per);
    for (int row = t->first_row; row < t->last_row; row += t->ops->panel) {
        float y[MATMUL_STREAMS * MATMUL_MAX_PANEL * MATMUL_MAX_LANES] __attribute__((aligned(64)));
        job.rows = panel_rows(t, row);
        job.x = panel_at(w->form, w->cols, t->rows, row);
        job.y = y;
        const int unit_sums = per * job.rows * t->ops->lanes;
        memset(y, 0, (size_t)(units * unit_sums) * sizeof y[0]);
        run_dot(t, &job);
        for (int i = 0; i < units; i++)
            finish_unit(t, unit[i], row, job.rows, y + i * unit_sums);
    }
}

/* Few rows, and all rows of block types: units from several far-apart places of the tile at once. */
static void run_streams(const matmul_walk *t, int first_unit, int last_unit)
{
    const int rows = t->last_row - t->first_row;
    const int streams = t->ops->streams[rows < t->ops->panel ? rows : t->ops->panel];
    const int at_once = streams > t->groups_per_unit ? streams / t->groups_per_unit : 1;
    const int each = (last_unit - first_unit) / at_once;
    for (int i = 0; i < each; i++) {
        int unit[MATMUL_STREAMS];
        for (int s = 0; s < at_once; s++)
            unit[s] = first_unit + s * each + i;
        run_units(t, unit, at_once);
    }
    int unit[MATMUL_STREAMS], left = 0;
    for (int u = first_unit + at_once * each; u < last_unit; u++)
        unit[left++] = u;
    if (left > 0)
        run_units(t, unit, left);
}

/* Many rows of floats: a few groups at a time, widened to f32 in pieces that stay in the first-level cache. */
/* Asks for a part of the weights that come next, so that they arrive while this piece is computed: of each group at
 * next[g], `bytes` in `parts` parts. */
static void fetch_part(const uint8_t *const *next, int groups, size_t bytes, int part, int parts)
{
    const size_t first = bytes / 64 * (size_t)part / (size_t)parts,
                 last = bytes / 64 * ((size_t)part + 1) / (size_t)parts;
    for (int g = 0; g < groups; g++)
        for (size_t line = first; line < last; line++)
            __builtin_prefetch(next[g] + line * 64);
}

static void run_wide(const matmul_walk *t, int first_unit, int last_unit, wide_scratch *s)
{
    const packed_weight *w = t->w;
    const int per = t->groups_per_unit, lanes = t->ops->lanes, at_once = per == 2 ? 1 : WIDE_GROUPS;
    const int panels = div_up(t->last_row - t->first_row, t->ops->panel);
    for (int unit = first_unit; unit < last_unit; unit += at_once) {
        const int units = last_unit - unit < at_once ? last_unit - unit : at_once, groups = units * per;
        memset(s->y, 0, (size_t)panels * sizeof s->y[0]);
        for (int k = 0; k < w->cols; k += WIDE_COLS) {
            const int end = w->cols - k < WIDE_COLS ? w->cols : k + WIDE_COLS;
            matmul_dot job = { .groups = groups, .cols = end - k };
            const size_t piece = w->group_bytes / (size_t)w->cols * WIDE_COLS;
            const uint8_t *next[WIDE_GROUPS];
            for (int g = 0; g < groups; g++) {
                const uint8_t *group = group_at(t, unit * per + g);
                next[g] = end < w->cols ? group + piece * (size_t)(end / WIDE_COLS)
                                        : group_at(t, (unit + at_once) * per + g);
                if (w->type != DTYPE_F32)
                    t->ops->widen(w->type, group, k, end, s->wide[g]);
                job.w[g] = w->type != DTYPE_F32 ? (const uint8_t *)s->wide[g]
                                                : group + (size_t)k * (size_t)lanes * sizeof(float);
            }
            for (int row = t->first_row, i = 0; row < t->last_row; row += t->ops->panel, i++) {
                job.rows = panel_rows(t, row);
                job.x =
                    (const float *)panel_at(w->form, w->cols, t->rows, row) + (size_t)k * (size_t)job.rows;
                job.y = s->y[i];
                fetch_part(next, groups, piece, i, panels);
                t->ops->dot[DTYPE_F32](&job);
            }
        }
        for (int row = t->first_row, i = 0; row < t->last_row; row += t->ops->panel, i++)
            for (int u = 0; u < units; u++)
                finish_unit(t, unit + u, row, panel_rows(t, row),
                            s->y[i] + u * per * panel_rows(t, row) * lanes);
    }
}

size_t matmul_walk_scratch(const packed_weight *w)
{
    return panel_is_float(w->form) ? sizeof(wide_scratch) : 0;
}

void matmul_walk_units(const matmul_walk *t, int first_unit, int last_unit, void *scratch)
{
    /* To take codes apart for two panels of four is cheaper than to widen them. */
    const int few = scaled_is(t->w->type) && has_dot(t->w) ? MATMUL_MAX_PANEL : t->ops->panel;
    if (panel_is_float(t->w->form) && t->last_row - t->first_row > few)
        run_wide(t, first_unit, last_unit, scratch);
    else
        run_streams(t, first_unit, last_unit);
}

void matmul_run(const matmul_ops *ops, const kernel_args *args, int tile, void *scratch)
{
    const args_matmul *a = &args->matmul;
    const plan p = make_plan(a);
    const int range = tile / p.row_blocks, block = tile % p.row_blocks;
    matmul_walk t = {
        .ops = ops, .w = a->w, .groups_per_unit = p.groups_per_unit, .finish = ops->finish, .job = a
    };
    t.rows = needs_own_rows(a) ? scratch : a->x ? (void *)(uintptr_t)a->x : a->ready.data;
    t.first_row = block * p.block_rows;
    t.last_row = p.rows - t.first_row < p.block_rows ? p.rows : t.first_row + p.block_rows;

    const int first = p.step * (int)((int64_t)p.steps * range / p.weight_tiles);
    const int end = p.step * (int)((int64_t)p.steps * (range + 1) / p.weight_tiles);
    matmul_walk_units(&t, first, end < p.units ? end : p.units, (char *)scratch + own_bytes(a));
}
