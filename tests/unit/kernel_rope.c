/* kernel_rope.c: rotation angles, rope_store, norm_add and gather: true to their formulas, the same bits on
 * every instruction set, and entries land where attention looks for them.
 *
 * One thread.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "kernel/ref/attention.h"
#include "support/kernel_runner.h"

enum { MAX_ROWS = 9, MAX_WIDTH = 12 * 96, PAGES = 8, MAX_PAGE = 2 * 4 * 32 * 96 };

static uint32_t counter;

static void fill(float *x, int n)
{
    for (int i = 0; i < n; i++)
        x[i] = 3.0f * runner_float(7, &counter);
}

static void angles_are_cos_and_sin_of_position_times_frequency(void **state)
{
    (void)state;
    enum { HALF = 5 };
    const int32_t position[] = { 0, 1, 17, 4095, 131071, 1 << 20 };
    const float frequency[HALF] = { 1.0f, 0.5623413f, 0.1f, 3.1e-3f, 1e-5f };
    float cos_sin[7][2 * HALF];
    const int32_t live = 6;
    const kernel_args args = { .rope_angles = { .rows = { &live, 7 },
                                                .position = position,
                                                .frequency = frequency,
                                                .half = HALF,
                                                .mscale = 1.25f,
                                                .cos_sin = &cos_sin[0][0] } };
    memset(cos_sin, 0x11, sizeof cos_sin);
    runner_run(kernel_table_ref(), KERNEL_ROPE_ANGLES, &args);
    for (int r = 0; r < 6; r++)
        for (int i = 0; i < HALF; i++) {
            const double x = (double)position[r] * (double)frequency[i];
            assert_true(fabs((double)cos_sin[r][i] - 1.25 * cos(x)) < 2e-7);
            assert_true(fabs((double)cos_sin[r][i + HALF] - 1.25 * sin(x)) < 2e-7);
        }
    for (size_t i = 0; i < sizeof cos_sin[6]; i++) /* a row that is not live is not touched */
        assert_int_equal(((const unsigned char *)cos_sin[6])[i], 0x11);
}

typedef struct {
    float qkv[MAX_ROWS * MAX_WIDTH];
    uint16_t pages[PAGES * MAX_PAGE];
} outcome;

static void store(const kernel_table *t, const outcome *before, args_rope_store a, outcome *after)
{
    *after = *before;
    a.qkv = after->qkv;
    a.kv.base = (uint8_t *)(void *)after->pages;
    const kernel_args args = { .rope_store = a };
    runner_run(t, KERNEL_ROPE_STORE, &args);
}

/* The rotated (and normed) head in double precision. */
static void rotate_in_double(const args_rope_store *a, int row, const float *x, const float *norm,
                             double *out)
{
    const int d = a->kv.head_dim, half = a->rope_dim / 2;
    const float *cos_sin = a->cos_sin + row * a->rope_dim;
    double squares = 0;
    for (int i = 0; i < d; i++)
        squares += (double)x[i] * (double)x[i];
    for (int i = 0; i < d; i++)
        out[i] = norm ? (double)x[i] / sqrt(squares / d + (double)a->eps) * (double)norm[i] : (double)x[i];
    for (int i = 0; i < half; i++) {
        const double p = out[i], q = out[i + half], c = (double)cos_sin[i], s = (double)cos_sin[i + half];
        out[i] = p * c - q * s;
        out[i + half] = q * c + p * s;
    }
}

static void check_against_double(const args_rope_store *a, const outcome *before, const outcome *after)
{
    const int d = a->kv.head_dim, heads = a->heads + 2 * a->kv.kv_heads;
    kv_layer kv = a->kv;
    kv.base = (uint8_t *)(void *)(uintptr_t)after->pages;
    for (int row = 0; row < a->rows.max; row++)
        for (int h = 0; h < heads - a->kv.kv_heads; h++) {
            double want[96];
            const float *x = before->qkv + (row * heads + h) * d, *got = after->qkv + (row * heads + h) * d;
            rotate_in_double(a, row, x, h < a->heads ? a->q_norm : a->k_norm, want);
            for (int i = 0; i < d; i++)
                assert_true(fabs((double)got[i] - want[i]) < 1e-5);
            if (h < a->heads)
                continue;
            const int p = a->position[row];
            const uint16_t *k = attention_keys(&kv, a->slot[row], h - a->heads, p / 16);
            const uint16_t *v = k + attention_values(&kv) + p % 16 * d;
            for (int i = 0; i < d; i++) {
                assert_int_equal(k[i * 16 + p % 16], dtype_f32_to_f16(got[i]));
                assert_int_equal(v[i], dtype_f32_to_f16(x[i + a->kv.kv_heads * d]));
            }
        }
}

static void rows_are_rotated_and_stored_alike_everywhere(void **state)
{
    (void)state;
    static outcome before, want, got;
    static float norm[96], cos_sin[MAX_ROWS * 96];
    const int32_t position[MAX_ROWS] = { 0, 15, 16, 31, 32, 47, 5, 63, 21 },
                  slot[MAX_ROWS] = { 0, 1, 0, 1, 0, 1 };
    const int32_t table[] = { 6, 1, 3, 7, 2, 0, 5, 4 };
    static const int dims[][2] = { { 64, 64 }, { 16, 16 }, { 80, 80 }, { 96, 32 },
                                   { 32, 20 }, { 24, 0 },  { 8, 8 } };
    const kernel_table *tables[RUNNER_MAX_TABLES];
    const int n = runner_tables(tables);
    for (int c = 0; c < 7 * 4; c++)
        for (int rows = 1; rows <= MAX_ROWS; rows += 2) {
            args_rope_store a = {
                .rows = { NULL, rows },
                .heads = 1 + c % 4,
                .rope_dim = dims[c / 4][1],
                .cos_sin = cos_sin,
                .q_norm = c & 1 ? norm : NULL,
                .k_norm = c & 2 ? norm : NULL,
                .eps = 1e-5f,
                .position = position,
                .slot = slot,
                .kv = { .page_stride = MAX_PAGE * 2,
                        .table = table,
                        .table_stride = 4,
                        .page_rows = c % 2 ? 16 : 32,
                        .kv_heads = 1 + c % 3,
                        .head_dim = dims[c / 4][0] },
            };
            fill(before.qkv, MAX_ROWS * MAX_WIDTH);
            fill(norm, 96);
            fill(cos_sin, MAX_ROWS * 96);
            memset(before.pages, 0x5a, sizeof before.pages);
            store(kernel_table_ref(), &before, a, &want);
            check_against_double(&a, &before, &want);
            for (int i = 0; i < n; i++) {
                store(tables[i], &before, a, &got);
                assert_memory_equal(&got, &want, sizeof got);
            }
        }
}

static void halves_round_to_even_and_overflow_to_infinity(void **state)
{
    (void)state;
    static outcome before, got;
    const float edge[8] = { 65519.0f, 65520.0f, 1.00048828125f, 1.00146484375f,
                            3e-8f,    -1e-9f,   -70000.0f,      0x1p-24f };
    const uint16_t half[8] = { 0x7bff, 0x7c00, 0x3c00, 0x3c02, 0x0001, 0x8000, 0xfc00, 0x0001 };
    const int32_t zero[1] = { 0 };
    const args_rope_store a = { .rows = { NULL, 1 },
                                .position = zero,
                                .slot = zero,
                                .kv = { .page_stride = MAX_PAGE * 2,
                                        .table = zero,
                                        .table_stride = 1,
                                        .page_rows = 16,
                                        .kv_heads = 1,
                                        .head_dim = 8 } };
    memcpy(before.qkv, edge, sizeof edge);
    memcpy(before.qkv + 8, edge, sizeof edge);
    const kernel_table *tables[RUNNER_MAX_TABLES];
    int n = runner_tables(tables);
    tables[n++] = kernel_table_ref();
    while (n-- > 0) {
        store(tables[n], &before, a, &got);
        for (int i = 0; i < 8; i++) {
            assert_int_equal(got.pages[i * 16], half[i]);
            assert_int_equal(got.pages[8 * 16 + i], half[i]);
        }
    }
}

static void norm_add_is_the_same_everywhere(void **state)
{
    (void)state;
    enum { DIM = 75 };
    float x[3 * DIM], y[3 * DIM], norm[DIM], want[3 * DIM], got[3 * DIM];
    const kernel_table *tables[RUNNER_MAX_TABLES];
    const int n = runner_tables(tables);
    for (int dim = 1; dim <= DIM; dim++) {
        fill(x, 3 * DIM);
        fill(y, 3 * DIM);
        fill(norm, DIM);
        memcpy(want, x, sizeof x);
        kernel_args args = { .norm_add = { { NULL, 3 }, want, y, norm, 1e-6f, dim } };
        runner_run(kernel_table_ref(), KERNEL_NORM_ADD, &args);
        double squares = 0;
        for (int i = 0; i < dim; i++)
            squares += (double)y[2 * dim + i] * (double)y[2 * dim + i];
        for (int i = 0; i < dim; i++) {
            const double y_normed = (double)y[2 * dim + i] / sqrt(squares / dim + 1e-6);
            assert_true(
                fabs((double)x[2 * dim + i] + y_normed * (double)norm[i] - (double)want[2 * dim + i]) < 1e-5);
        }
        for (int i = 0; i < n; i++) {
            memcpy(got, x, sizeof x);
            args.norm_add.x = got;
            runner_run(tables[i], KERNEL_NORM_ADD, &args);
            assert_memory_equal(got, want, sizeof got);
        }
    }
}

static void gather_takes_the_rows_that_the_index_names(void **state)
{
    (void)state;
    const float x[4][3] = { { 0, 1, 2 }, { 3, 4, 5 }, { 6, 7, 8 }, { 9, 10, 11 } };
    const int32_t index[3] = { 3, 0, 3 }, live = 2;
    float out[3][3] = { { 0 } };
    const kernel_args args = { .gather = { { &live, 3 }, index, &x[0][0], 3, &out[0][0] } };
    const kernel_table *best;
    foray_error err;
    assert_int_equal(kernel_table_get(NULL, &best, &err), 0);
    runner_run(best, KERNEL_GATHER, &args);
    assert_memory_equal(out[0], x[3], sizeof x[0]);
    assert_memory_equal(out[1], x[0], sizeof x[0]);
    assert_true(out[2][0] == 0 && out[2][1] == 0 && out[2][2] == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(angles_are_cos_and_sin_of_position_times_frequency),
        cmocka_unit_test(rows_are_rotated_and_stored_alike_everywhere),
        cmocka_unit_test(halves_round_to_even_and_overflow_to_infinity),
        cmocka_unit_test(norm_add_is_the_same_everywhere),
        cmocka_unit_test(gather_takes_the_rows_that_the_index_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
