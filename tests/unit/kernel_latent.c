/* kernel_latent.c: heads, latents and compressed entries are normed, rotated, rounded and pooled as their definitions
 * say, in double; every instruction set has the bits of ref; nothing depends on how rows are spread over passes.
 *
 * One thread.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "kernel/ref/round.h"
#include "support/entry_pool.h"
#include "support/kernel_runner.h"

#include <cmocka.h> /* last: its macro fail() hides ours */

enum { MAX_WIDTH = 512, MAX_FLOATS = 3 * 18 * MAX_WIDTH, SLOTS = 2 };

static uint32_t counter;
static const kernel_table *tables[RUNNER_MAX_TABLES + 1]; /* ref first */
static int table_count;

static void fill(float *x, size_t n, float size)
{
    for (size_t i = 0; i < n; i++)
        x[i] = size * runner_float(1, &counter);
}

/* ---- oracles: one vector, in double but for the rounding ---- */

static void norm_in_double(double *x, int n, const float *weight)
{
    double squares = 0;
    for (int i = 0; i < n; i++)
        squares += x[i] * x[i];
    for (int i = 0; i < n; i++)
        x[i] *= (weight ? (double)weight[i] : 1) / sqrt(squares / n + 1e-6);
}

static void rotate_in_double(double *x, int n, int rope_dim, const double *angle, double direction)
{
    for (int i = 0; i < rope_dim / 2; i++) {
        double *pair = x + n - rope_dim + 2 * i;
        const double a = pair[0], b = pair[1], c = cos(angle[i]), s = direction * sin(angle[i]);
        pair[0] = a * c - b * s;
        pair[1] = a * s + b * c;
    }
}

/* The sum over all b of (-1)^(bits that a and b share) x[b]. */
static void hadamard_in_double(double *x, int n)
{
    double y[MAX_WIDTH];
    for (int a = 0; a < n; a++) {
        y[a] = 0;
        for (int b = 0; b < n; b++)
            y[a] += __builtin_popcount((unsigned)(a & b)) % 2 ? -x[b] : x[b];
    }
    for (int a = 0; a < n; a++)
        x[a] = y[a] / sqrt(n);
}

/* Is got a rounding of want to some format with `steps` between powers of two? Loose: which rounding is tested with
 * the reference's values (tests/golden). */
static bool is_near(double got, double want, vector_rounding rounding, bool rounded)
{
    const double most = rounding == ROUND_HADAMARD_FP4 ? 0.5 : 0.07;
    return fabs(got - want) <= (rounded ? most * fmax(fabs(want), 1.0) : 1e-5 * fmax(fabs(want), 1.0));
}

static void check_vector(const float *got, const double *want, int n, int rope_dim, vector_rounding rounding)
{
    for (int i = 0; i < n; i++) {
        const bool rounded = rounding == ROUND_HADAMARD_FP4 || (rounding == ROUND_F8 && i < n - rope_dim);
        assert_true(is_near((double)got[i], want[i], rounding, rounded));
    }
    float again[64];
    for (int i = 0; rounding == ROUND_F8 && i < n - rope_dim; i += 64) { /* what is rounded already, stays */
        const int group = n - rope_dim - i < 64 ? n - rope_dim - i : 64;
        round_group_f8(got + i, group, again);
        assert_memory_equal(again, got + i, (size_t)group * sizeof *again);
    }
    for (int i = 0; rounding == ROUND_HADAMARD_FP4 && i < n; i += 32) {
        const int group = n - i < 32 ? n - i : 32;
        round_group_fp4(got + i, group, again);
        assert_memory_equal(again, got + i, (size_t)group * sizeof *again);
    }
}

/* ---- head_rope ---- */

typedef struct {
    int rows, heads, width, rope_dim;
    bool norm, inverse;
    vector_rounding rounding;
} head_shape;

static void run_heads(const kernel_table *t, head_shape s, float *x, const float *cos_sin)
{
    const kernel_args args = { .head_rope = { .rows = { .max = s.rows },
                                              .x = x,
                                              .heads = s.heads,
                                              .width = s.width,
                                              .rope_dim = s.rope_dim,
                                              .norm = s.norm,
                                              .eps = 1e-6f,
                                              .cos_sin = cos_sin,
                                              .inverse = s.inverse,
                                              .rounding = s.rounding } };
    runner_run(t, KERNEL_HEAD_ROPE, &args);
}

static void check_heads(head_shape s)
{
    static float x[MAX_FLOATS], got[MAX_FLOATS], ref[MAX_FLOATS];
    float cos_sin[3 * MAX_WIDTH];
    double angle[3][MAX_WIDTH], want[MAX_WIDTH];
    const size_t n = (size_t)(s.rows * s.heads * s.width);
    assert_true(n <= MAX_FLOATS && s.rows <= 3);
    fill(x, n, 2);
    for (int r = 0; r < s.rows; r++)
        for (int i = 0; i < s.rope_dim / 2; i++) {
            angle[r][i] = 3 * (double)runner_float(1, &counter);
            cos_sin[r * s.rope_dim + i] = (float)cos(angle[r][i]);
            cos_sin[r * s.rope_dim + s.rope_dim / 2 + i] = (float)sin(angle[r][i]);
        }
    memcpy(ref, x, n * sizeof *x);
    run_heads(tables[0], s, ref, cos_sin);
    for (int v = 0; v < s.rows * s.heads; v++) {
        for (int i = 0; i < s.width; i++)
            want[i] = (double)x[v * s.width + i];
        if (s.norm)
            norm_in_double(want, s.width, NULL);
        rotate_in_double(want, s.width, s.rope_dim, angle[v / s.heads], s.inverse ? -1 : 1);
        if (s.rounding >= ROUND_HADAMARD)
            hadamard_in_double(want, s.width);
        check_vector(ref + v * s.width, want, s.width, s.rope_dim, s.rounding);
    }
    for (int i = 0; i < table_count; i++) {
        memcpy(got, x, n * sizeof *x);
        run_heads(tables[i], s, got, cos_sin);
        assert_memory_equal(got, ref, n * sizeof *x);
        memcpy(got, x, n * sizeof *x);
        for (int r = s.rows - 1; r >= 0; r--) {
            head_shape one = s;
            one.rows = 1;
            run_heads(tables[i], one, got + r * s.heads * s.width, cos_sin + r * s.rope_dim);
        }
        assert_memory_equal(got, ref, n * sizeof *x);
    }
}

static void heads_of_every_width(void **state)
{
    (void)state;
    for (int width = 2; width <= 200; width += 1 + width / 9)
        for (int rope = 0; rope <= width && rope <= 64; rope = 2 * rope + 2) {
            check_heads((head_shape) { 2, 3, width, rope, true, false, ROUND_NONE });
            check_heads((head_shape) { 1, 2, width, rope, false, true, ROUND_F8 });
        }
    check_heads((head_shape) { 3, 18, 512, 64, true, false, ROUND_NONE });
    check_heads((head_shape) { 1, 17, 512, 64, false, true, ROUND_NONE });
    check_heads((head_shape) { 2, 4, 80, 16, true, false, ROUND_F8 });
}

static void heads_through_the_hadamard(void **state)
{
    (void)state;
    for (int width = 1; width <= 512; width *= 2)
        for (int rounding = ROUND_HADAMARD; rounding <= ROUND_HADAMARD_FP4; rounding++) {
            const int rope = width >= 128 ? 64 : width / 2 * 2;
            check_heads((head_shape) { 2, 3, width, rope, false, false, (vector_rounding)rounding });
        }
    check_heads((head_shape) { 2, 18, 128, 64, false, false, ROUND_HADAMARD_FP4 });
}

static void turning_back_undoes_turning(void **state)
{
    (void)state;
    float x[128], before[128], cos_sin[64];
    fill(x, 128, 2);
    for (int i = 0; i < 32; i++) {
        cos_sin[i] = cosf((float)i);
        cos_sin[32 + i] = sinf((float)i);
    }
    memcpy(before, x, sizeof x);
    run_heads(tables[0], (head_shape) { 1, 1, 128, 64, false, false, ROUND_NONE }, x, cos_sin);
    for (int i = 66; i < 128; i++) /* pair 0 turns by 0 */
        assert_true(x[i] != before[i]);
    run_heads(tables[0], (head_shape) { 1, 1, 128, 64, false, true, ROUND_NONE }, x, cos_sin);
    for (int i = 0; i < 128; i++)
        assert_true(fabsf(x[i] - before[i]) < 1e-6f);
}

/* ---- latent_store ---- */

static void check_latents(int width, int rope_dim, vector_rounding rounding)
{
    enum { ROWS = 5, RING = 7 };
    const int32_t position[ROWS] = { 12, 13, 14, 15, 3 }, slot[ROWS] = { 1, 1, 1, 1, 0 };
    float x[ROWS * (MAX_WIDTH + 3)], norm[MAX_WIDTH], cos_sin[ROWS * MAX_WIDTH];
    double angle[ROWS][MAX_WIDTH], want[MAX_WIDTH];
    entry_pool pool[RUNNER_MAX_TABLES + 1];
    fill(x, (size_t)(ROWS * (width + 3)), 2);
    fill(norm, (size_t)width, 2);
    for (int r = 0; r < ROWS; r++)
        for (int i = 0; i < rope_dim / 2; i++) {
            angle[r][i] = 3 * (double)runner_float(1, &counter);
            cos_sin[r * rope_dim + i] = (float)cos(angle[r][i]);
            cos_sin[r * rope_dim + rope_dim / 2 + i] = (float)sin(angle[r][i]);
        }
    for (int i = 0; i < table_count; i++) {
        entry_pool_init(&pool[i], SLOTS, RING, 3, width, RING);
        const kernel_args args = { .latent_store = { .rows = { .max = ROWS },
                                                     .x = x,
                                                     .x_stride = (size_t)width + 3,
                                                     .width = width,
                                                     .rope_dim = rope_dim,
                                                     .norm = norm,
                                                     .eps = 1e-6f,
                                                     .cos_sin = cos_sin,
                                                     .position = position,
                                                     .slot = slot,
                                                     .rounding = rounding,
                                                     .out = pool[i].rows } };
        runner_run(tables[i], KERNEL_LATENT_STORE, &args);
        assert_memory_equal(pool[i].memory, pool[0].memory, pool[0].bytes);
    }
    for (int r = 0; r < ROWS; r++) {
        for (int i = 0; i < width; i++)
            want[i] = (double)x[r * (width + 3) + i];
        norm_in_double(want, width, norm);
        rotate_in_double(want, width, rope_dim, angle[r], 1);
        if (rounding >= ROUND_HADAMARD)
            hadamard_in_double(want, width);
        check_vector(entry_at(&pool[0].rows, slot[r], position[r]), want, width, rope_dim, rounding);
    }
    assert_true(isnan(entry_at(&pool[0].rows, 1, 16)[0])); /* the ring's others are as they were */
    assert_true(isnan(entry_at(&pool[0].rows, 0, 2)[0]));
    for (int i = 0; i < table_count; i++)
        entry_pool_free(&pool[i]);
}

static void latents_are_stored_round_the_ring(void **state)
{
    (void)state;
    for (int width = 2; width <= 200; width += 1 + width / 9) {
        check_latents(width, width / 4 * 2, ROUND_NONE);
        check_latents(width, width / 4 * 2, ROUND_F8);
    }
    check_latents(512, 64, ROUND_F8);
    check_latents(64, 64, ROUND_F8);
    check_latents(128, 64, ROUND_HADAMARD_FP4);
}

/* ---- compressor ---- */

enum { TOKENS = 40, GUARD = 6 };

typedef struct {
    int ratio, width, rope_dim;
    bool overlap;
    vector_rounding rounding;
} compressor;

typedef struct {
    const compressor *c;
    float *x, *ape, *norm, *frequency; /* x: [TOKENS, 2 state width] */
    entry_pool state, out;
} compression;

static int state_width(const compressor *c)
{
    return c->overlap ? 2 * c->width : c->width;
}

/* Rows first … last of the text in one pass: store, then compress. */
static void run_pass(const compression *s, const kernel_table *t, int first, int last)
{
    int32_t position[TOKENS], slot[TOKENS];
    const compressor *c = s->c;
    const int width = state_width(c);
    for (int i = 0; i <= last - first; i++) {
        position[i] = first + i;
        slot[i] = 1;
    }
    const kernel_args store = { .state_store = { .rows = { .max = last - first + 1 },
                                                 .x = s->x + (size_t)first * 2 * (size_t)width,
                                                 .x_stride = 2 * (size_t)width,
                                                 .ape = s->ape,
                                                 .width = width,
                                                 .ratio = c->ratio,
                                                 .position = position,
                                                 .slot = slot,
                                                 .state = s->state.rows } };
    const kernel_args compress = { .compress = { .rows = { .max = last - first + 1 },
                                                 .position = position,
                                                 .slot = slot,
                                                 .ratio = c->ratio,
                                                 .width = c->width,
                                                 .rope_dim = c->rope_dim,
                                                 .overlap = c->overlap,
                                                 .norm = s->norm,
                                                 .eps = 1e-6f,
                                                 .frequency = s->frequency,
                                                 .rounding = c->rounding,
                                                 .state = s->state.rows,
                                                 .out = s->out.rows } };
    runner_run(t, KERNEL_STATE_STORE, &store);
    runner_run(t, KERNEL_COMPRESS, &compress);
}

/* Group j straight from the inputs. */
static void pool_in_double(const compression *s, int j, double *want)
{
    const compressor *c = s->c;
    const int width = state_width(c), first = c->ratio * j;
    double angle[MAX_WIDTH];
    for (int i = 0; i < c->width; i++) {
        double sum = 0, total = 0;
        for (int t = c->overlap && j > 0 ? first - c->ratio : first; t < first + c->ratio; t++) {
            const int channel = c->overlap && t >= first ? c->width + i : i;
            const float *x = s->x + (size_t)t * 2 * (size_t)width;
            const double w = exp((double)x[width + channel] + (double)s->ape[t % c->ratio * width + channel]);
            sum += w * (double)x[channel];
            total += w;
        }
        want[i] = sum / total;
    }
    for (int i = 0; i < c->rope_dim / 2; i++)
        angle[i] = (double)first * (double)s->frequency[i];
    norm_in_double(want, c->width, s->norm);
    rotate_in_double(want, c->width, c->rope_dim, angle, 1);
    if (c->rounding >= ROUND_HADAMARD)
        hadamard_in_double(want, c->width);
}

static void check_compressor(const compressor *c)
{
    static float x[TOKENS * 4 * MAX_WIDTH], ape[16 * 2 * MAX_WIDTH];
    float norm[MAX_WIDTH], frequency[MAX_WIDTH];
    double want[MAX_WIDTH];
    const int ring = c->ratio * (c->overlap ? 2 : 1) + GUARD, groups = TOKENS / c->ratio;
    compression all = { .c = c, .x = x, .ape = ape, .norm = norm, .frequency = frequency };
    fill(x, (size_t)(TOKENS * 2 * state_width(c)), 2);
    fill(ape, (size_t)(c->ratio * state_width(c)), 1);
    fill(norm, (size_t)c->width, 2);
    fill(frequency, (size_t)c->rope_dim / 2 + 1, 1);
    entry_pool_init(&all.state, SLOTS, TOKENS, 16, 2 * state_width(c), 0); /* the whole text in one pass */
    entry_pool_init(&all.out, SLOTS, groups + 1, 3, c->width, 0);
    run_pass(&all, tables[0], 0, TOKENS - 1);
    for (int j = 0; j < groups; j++) {
        pool_in_double(&all, j, want);
        check_vector(entry_at(&all.out.rows, 1, j), want, c->width, c->rope_dim, c->rounding);
    }
    assert_true(isnan(entry_at(&all.out.rows, 1, groups)[0])); /* not complete, or not begun */

    for (int i = 0; i < table_count; i++)
        for (int most = 1; most <= GUARD; most++) { /* in passes of `most` rows, round the ring */
            compression some = all;
            entry_pool_init(&some.state, SLOTS, ring, 5, 2 * state_width(c), ring);
            entry_pool_init(&some.out, SLOTS, groups + 1, 3, c->width, 0);
            for (int first = 0; first < TOKENS; first += most)
                run_pass(&some, tables[i], first, first + most < TOKENS ? first + most - 1 : TOKENS - 1);
            assert_memory_equal(some.out.memory, all.out.memory, all.out.bytes);
            entry_pool_free(&some.state);
            entry_pool_free(&some.out);
        }
    entry_pool_free(&all.state);
    entry_pool_free(&all.out);
}

static void groups_pool_whatever_the_passes(void **state)
{
    (void)state;
    static const compressor all[] = {
        { 4, 16, 8, true, ROUND_NONE },       { 4, 80, 16, true, ROUND_F8 },
        { 8, 80, 16, false, ROUND_F8 },       { 4, 32, 16, true, ROUND_HADAMARD_FP4 },
        { 4, 33, 0, true, ROUND_NONE },       { 16, 128, 64, false, ROUND_F8 },
        { 3, 5, 2, true, ROUND_NONE },        { 1, 7, 4, false, ROUND_NONE },
        { 4, 128, 64, true, ROUND_HADAMARD },
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        check_compressor(&all[i]);
}

/* Drafts that are rejected: their rows and entries are overwritten by the rows that follow, and nothing is left. */
static void rejected_rows_leave_no_trace(void **state)
{
    (void)state;
    static float x[TOKENS * 4 * 32], other[TOKENS * 4 * 32], ape[4 * 64];
    float norm[32], frequency[8];
    const compressor c = { 4, 32, 16, true, ROUND_F8 };
    compression plain = { .c = &c, .x = x, .ape = ape, .norm = norm, .frequency = frequency };
    fill(x, TOKENS * 4 * 32, 2);
    fill(other, TOKENS * 4 * 32, 2);
    fill(ape, 4 * 64, 1);
    fill(norm, 32, 2);
    fill(frequency, 8, 1);
    for (int start = 5; start < 14; start++) {
        compression drafted = plain;
        entry_pool_init(&plain.state, SLOTS, 8 + GUARD, 5, 128, 8 + GUARD);
        entry_pool_init(&plain.out, SLOTS, TOKENS / 4, 3, 32, 0);
        entry_pool_init(&drafted.state, SLOTS, 8 + GUARD, 5, 128, 8 + GUARD);
        entry_pool_init(&drafted.out, SLOTS, TOKENS / 4, 3, 32, 0);
        run_pass(&plain, tables[0], 0, start - 1);
        run_pass(&drafted, tables[0], 0, start - 1);
        drafted.x = other;
        run_pass(&drafted, tables[0], start, start + GUARD - 1);
        drafted.x = x;
        for (int t = start; t < start + 12; t++) {
            run_pass(&plain, tables[0], t, t);
            run_pass(&drafted, tables[0], t, t);
        }
        assert_memory_equal(plain.out.memory, drafted.out.memory, plain.out.bytes);
        entry_pool_free(&plain.state);
        entry_pool_free(&plain.out);
        entry_pool_free(&drafted.state);
        entry_pool_free(&drafted.out);
    }
}

static int find_tables(void **state)
{
    (void)state;
    tables[0] = kernel_table_ref();
    table_count = 1 + runner_tables(tables + 1);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heads_of_every_width),
        cmocka_unit_test(heads_through_the_hadamard),
        cmocka_unit_test(turning_back_undoes_turning),
        cmocka_unit_test(latents_are_stored_round_the_ring),
        cmocka_unit_test(groups_pool_whatever_the_passes),
        cmocka_unit_test(rejected_rows_leave_no_trace),
    };
    return cmocka_run_group_tests(tests, find_tables, NULL);
}
