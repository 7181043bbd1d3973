/* kernel_hyper.c: hyper-connections do what their definition says, in double; every instruction set has the bits of
 * ref; a row's result depends on nothing but the row.
 *
 * Shapes: 1 … 8 streams, widths that fill vectors and that do not. One thread.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "support/kernel_runner.h"

#include <cmocka.h> /* last: its macro fail() hides ours */

enum { ROWS = 5, MAX_S = HYPER_MAX_STREAMS, MAX_DIM = 136, MAX_MIX = (2 + MAX_S) * MAX_S };

typedef struct {
    float x[ROWS * MAX_S * MAX_DIM], mix[ROWS * MAX_MIX], scale[3], base[MAX_MIX];
    float y[ROWS * MAX_DIM], post[ROWS * MAX_S], comb[ROWS * MAX_S * MAX_S];
} site;

static uint32_t counter;

static void fill(float *x, size_t n, float size)
{
    for (size_t i = 0; i < n; i++)
        x[i] = size * runner_float(1, &counter);
}

static void site_make(site *s)
{
    memset(s, 0xff, sizeof *s);
    fill(s->x, sizeof s->x / sizeof *s->x, 3);
    fill(s->mix, sizeof s->mix / sizeof *s->mix, 4);
    fill(s->scale, 3, 1.5f);
    fill(s->base, MAX_MIX, 1);
}

static args_hyper_pre site_pre(site *s, int streams, int dim, bool post)
{
    return (args_hyper_pre) { .rows = { .max = ROWS },
                              .x = s->x,
                              .mix = s->mix,
                              .scale = s->scale,
                              .base = s->base,
                              .streams = streams,
                              .dim = dim,
                              .iterations = 20,
                              .norm_eps = 1e-6f,
                              .eps = 1e-6f,
                              .y = s->y,
                              .post = post ? s->post : NULL,
                              .comb = post ? s->comb : NULL };
}

static void run_pre(const kernel_table *t, args_hyper_pre a)
{
    const kernel_args args = { .hyper_pre = a };
    runner_run(t, KERNEL_HYPER_PRE, &args);
}

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

/* comb of a row in double, from m after the norm. */
static void sinkhorn_in_double(const args_hyper_pre *a, const double *m, double *comb)
{
    const int S = a->streams;
    for (int j = 0; j < S; j++) {
        double sum = 0;
        for (int k = 0; k < S; k++)
            sum += comb[j * S + k] =
                exp(m[2 * S + j * S + k] * (double)a->scale[2] + (double)a->base[2 * S + j * S + k]);
        for (int k = 0; k < S; k++)
            comb[j * S + k] = comb[j * S + k] / sum + (double)a->eps;
    }
    for (int step = 1; step < 2 * a->iterations; step++) /* odd: columns, even: rows */
        for (int line = 0; line < S; line++) {
            const int first = step % 2 ? line : line * S, stride = step % 2 ? S : 1;
            double sum = (double)a->eps;
            for (int i = 0; i < S; i++)
                sum += comb[first + i * stride];
            for (int i = 0; i < S; i++)
                comb[first + i * stride] /= sum;
        }
}

static void check_pre_row(const args_hyper_pre *a, int row)
{
    const int S = a->streams, mixes = a->post ? (2 + S) * S : S;
    const float *x = a->x + row * S * a->dim;
    double m[MAX_MIX], comb[MAX_S * MAX_S], squares = 0;
    for (int i = 0; i < S * a->dim; i++)
        squares += (double)x[i] * (double)x[i];
    for (int i = 0; i < mixes; i++)
        m[i] = (double)a->mix[row * mixes + i] / sqrt(squares / (S * a->dim) + (double)a->norm_eps);
    for (int i = 0; i < a->dim; i++) {
        double y = 0;
        for (int j = 0; j < S; j++)
            y += (sigmoid(m[j] * (double)a->scale[0] + (double)a->base[j]) + (double)a->eps) *
                 (double)x[j * a->dim + i];
        assert_true(fabs(y - (double)a->y[row * a->dim + i]) < 1e-5);
    }
    if (!a->post)
        return;
    for (int j = 0; j < S; j++)
        assert_true(fabs(2 * sigmoid(m[S + j] * (double)a->scale[1] + (double)a->base[S + j]) -
                         (double)a->post[row * S + j]) < 1e-5);
    sinkhorn_in_double(a, m, comb);
    for (int i = 0; i < S * S; i++)
        assert_true(fabs(comb[i] - (double)a->comb[row * S * S + i]) < 1e-5);
}

static void check_post_row(const args_hyper_post *a, const float *before, int row)
{
    const int S = a->streams, dim = a->dim;
    for (int k = 0; k < S; k++)
        for (int i = 0; i < dim; i++) {
            double want = (double)a->post[row * S + k] * (double)a->y[row * dim + i];
            for (int j = 0; j < S; j++)
                want += (double)a->comb[(row * S + j) * S + k] * (double)before[(row * S + j) * dim + i];
            assert_true(fabs(want - (double)a->x[(row * S + k) * dim + i]) < 1e-5);
        }
}

/* Both kernels of a site: ref against double, the sets against ref, rows alone against rows together. */
static void check_site(int streams, int dim, bool post)
{
    static site s, got;
    site_make(&s);
    const args_hyper_pre pre = site_pre(&s, streams, dim, post);
    const kernel_table *tables[RUNNER_MAX_TABLES];
    const int n = runner_tables(tables);
    got = s;
    run_pre(kernel_table_ref(), pre);
    for (int row = 0; row < ROWS; row++)
        check_pre_row(&pre, row);
    for (int i = 0; i < n; i++) {
        site again = got;
        run_pre(tables[i], site_pre(&again, streams, dim, post));
        assert_memory_equal(&again, &s, sizeof s);
        again = got;
        const args_hyper_pre all = site_pre(&again, streams, dim, post);
        for (int row = ROWS - 1; row >= 0; row--) {
            args_hyper_pre one = all;
            one.rows.max = 1;
            one.x += row * streams * dim;
            one.mix += row * (post ? (2 + streams) * streams : streams);
            one.y += row * dim;
            one.post = post ? one.post + row * streams : NULL;
            one.comb = post ? one.comb + row * streams * streams : NULL;
            run_pre(tables[i], one);
        }
        assert_memory_equal(&again, &s, sizeof s);
    }
    if (!post)
        return;

    const args_hyper_post back = { .rows = { .max = ROWS },
                                   .x = s.x,
                                   .y = s.y,
                                   .post = s.post,
                                   .comb = s.comb,
                                   .streams = streams,
                                   .dim = dim };
    got = s;
    kernel_args args = { .hyper_post = back };
    runner_run(kernel_table_ref(), KERNEL_HYPER_POST, &args);
    for (int row = 0; row < ROWS; row++)
        check_post_row(&back, got.x, row);
    for (int i = 0; i < n; i++) {
        site again = got;
        args.hyper_post.x = again.x;
        runner_run(tables[i], KERNEL_HYPER_POST, &args);
        assert_memory_equal(&again, &s, sizeof s);
    }
}

static void every_number_of_streams_and_every_width(void **state)
{
    (void)state;
    for (int streams = 1; streams <= MAX_S; streams++)
        for (int dim = 1; dim <= MAX_DIM; dim += 1 + dim / 3) {
            check_site(streams, dim, true);
            check_site(streams, dim, false);
        }
    check_site(4, 128, true);
    check_site(4, MAX_DIM, false);
}

static void columns_of_comb_sum_to_one(void **state)
{
    (void)state;
    static site s;
    site_make(&s);
    run_pre(kernel_table_ref(), site_pre(&s, 4, 32, true));
    for (int row = 0; row < ROWS; row++)
        for (int k = 0; k < 4; k++) {
            double column = 0, line = 0;
            for (int j = 0; j < 4; j++) {
                column += (double)s.comb[(row * 4 + j) * 4 + k];
                line += (double)s.comb[(row * 4 + k) * 4 + j];
            }
            assert_true(fabs(column - 1) < 3e-6);
            assert_true(fabs(line - 1) < 0.1);
        }
}

static void streams_that_are_zero_give_zero(void **state)
{
    (void)state;
    static site s;
    site_make(&s);
    memset(s.x, 0, sizeof s.x);
    memset(s.mix, 0, sizeof s.mix);
    run_pre(kernel_table_ref(), site_pre(&s, 4, 32, true));
    for (int i = 0; i < ROWS * 32; i++)
        assert_true(s.y[i] == 0);
    for (int i = 0; i < ROWS * 16; i++)
        assert_true(s.comb[i] > 0 && s.comb[i] < 1);
}

static void only_live_rows_are_computed(void **state)
{
    (void)state;
    const kernel_table *tables[RUNNER_MAX_TABLES + 1] = { kernel_table_ref() };
    const int n = 1 + runner_tables(tables + 1);
    const int32_t live = 2;
    for (int i = 0; i < n; i++) {
        static site s, before;
        site_make(&s);
        before = s;
        args_hyper_pre a = site_pre(&s, 4, 20, true);
        a.rows.live = &live;
        run_pre(tables[i], a);
        assert_memory_not_equal(s.y + 20, before.y + 20, 20 * sizeof *s.y);
        assert_memory_equal(s.y + 40, before.y + 40, sizeof s.y - 40 * sizeof *s.y);
        assert_memory_equal(s.post + 8, before.post + 8, sizeof s.post - 8 * sizeof *s.post);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_number_of_streams_and_every_width),
        cmocka_unit_test(columns_of_comb_sum_to_one),
        cmocka_unit_test(streams_that_are_zero_give_zero),
        cmocka_unit_test(only_live_rows_are_computed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
