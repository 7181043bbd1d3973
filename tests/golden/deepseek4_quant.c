/* Rounding and products of quantised weights against the values that the reference model code gives for the same
 * inputs: tests/golden/deepseek4/README.md says where they come from. Quantisers are equal in every bit.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <math.h>

#include "base/mem.h"
#include "kernel/impl.h"
#include "kernel/panel.h"
#include "kernel/ref/prepare.h"
#include "kernel/ref/round.h"
#include "support/matmul_case.h"
#include "support/tensor_file.h"

#include <cmocka.h> /* last: its macro fail() hides ours */

#define UNITS "deepseek4/units-quant.safetensors"

enum { MOST = 256 };

static void assert_rounds(const char *of, const char *to, int rows, int cols, int group,
                          void (*round)(const float *x, int n, float *out))
{
    tensor_file f;
    tensor_file_open(UNITS, &f);
    const size_t n = (size_t)(rows * cols);
    const float *x = tensor_file_data(&f, of, DTYPE_F32, n), *want = tensor_file_data(&f, to, DTYPE_F32, n);
    float got[MOST];
    for (size_t i = 0; i < n; i += (size_t)group) {
        round(x + i, group, got);
        for (size_t k = 0; k < (size_t)group; k++)
            if (memcmp(&got[k], &want[i + k], sizeof got[k]) != 0)
                fail_msg("%s: row %zu column %zu: %a gives %a, not %a", to, (i + k) / (size_t)cols,
                         (i + k) % (size_t)cols, (double)x[i + k], (double)got[k], (double)want[i + k]);
    }
    tensor_file_close(&f);
}

static void activations_round_to_e4m3_as_the_reference_does(void **state)
{
    (void)state;
    assert_rounds("fp8.x", "fp8.128.dequant", 20, 256, 128, round_group_f8);
    assert_rounds("fp8.x", "fp8.64.dequant", 20, 256, 64, round_group_f8);
}

static void index_vectors_round_to_e2m1_as_the_reference_does(void **state)
{
    (void)state;
    assert_rounds("fp4.x", "fp4.dequant", 14, 128, 32, round_group_fp4);
}

static void codes_have_the_values_of_the_reference(void **state)
{
    (void)state;
    static const struct {
        dtype type;
        const char *name;
        size_t count;
    } kinds[] = { { DTYPE_F8_E4M3, "e4m3.value", 256 },
                  { DTYPE_F8_E8M0, "e8m0.value", 256 },
                  { DTYPE_F4_E2M1, "e2m1.value", 16 } };
    tensor_file f;
    tensor_file_open(UNITS, &f);
    for (int t = 0; t < 3; t++) {
        const float *want = tensor_file_data(&f, kinds[t].name, DTYPE_F32, kinds[t].count);
        for (size_t code = 0; code < kinds[t].count; code++) {
            const uint8_t byte = (uint8_t)code;
            float got[2];
            dtype_to_f32(kinds[t].type, &byte, kinds[t].type == DTYPE_F4_E2M1 ? 2 : 1, got);
            if (isnan(want[code]) ? !isnan(got[0]) : memcmp(&got[0], &want[code], 4) != 0)
                fail_msg("%s %zu: %a, not %a", kinds[t].name, code, (double)got[0], (double)want[code]);
        }
    }
    tensor_file_close(&f);
}

/* A product of the units file on every instruction set: `rows` activations times packed weights. */
static void run_product(tensor_file *f, const char *a, weight_source w, bool rounded, int rows,
                        const float *want, double limit)
{
    static const char *const names[] = { "portable", "avx2", "avx512" };
    const float *x = tensor_file_data(f, a, DTYPE_F32, (size_t)(rows * w.cols));
    for (int i = 0; i < 3; i++) {
        const kernel_table *t;
        packed_weight packed;
        float out[MOST * 5];
        if (kernel_table_get(names[i], &t, NULL) != 0)
            continue;
        assert_int_equal(weight_pack(&w, 1, false, rounded, t->lanes, &packed, NULL), 0);
        const args_matmul args = { .rows.max = rows,
                                   .w = &packed,
                                   .x = x,
                                   .x_stride = (size_t)w.cols,
                                   .out = out,
                                   .out_stride = (size_t)w.rows };
        matmul_run_kernel(&t->kernel[KERNEL_MATMUL], &(kernel_args) { .matmul = args });
        double size = 0;
        for (int k = 0; k < rows * w.rows; k++)
            size = fmax(size, fabs((double)want[k]));
        for (int k = 0; k < rows * w.rows; k++)
            if (!(fabs((double)out[k] - (double)want[k]) <= limit * size))
                fail_msg("%s %s: [%d] %.9g, not %.9g", names[i], a, k, (double)out[k], (double)want[k]);
        weight_free(&packed);
    }
}

/* The reference multiplies scales after each group; foray's weights carry theirs: only the order of roundings differs. */
static void products_of_quantised_weights_are_those_of_the_reference(void **state)
{
    (void)state;
    tensor_file f;
    tensor_file_open(UNITS, &f);
    weight_source w8 = { .type = DTYPE_F8_E4M3, .rows = 256, .cols = 256, .scale_stride = 2 };
    weight_source w4 = { .type = DTYPE_F4_E2M1, .rows = 128, .cols = 256, .scale_stride = 8 };
    w8.data = tensor_file_data(&f, "gemm8.w", DTYPE_U8, 256 * 256);
    w8.scale = tensor_file_data(&f, "gemm8.wscale", DTYPE_U8, 2 * 2);
    w4.data = tensor_file_data(&f, "gemm4.w", DTYPE_U8, 128 * 128);
    w4.scale = tensor_file_data(&f, "gemm4.wscale", DTYPE_U8, 128 * 8);
    run_product(&f, "gemm8.a", w8, true, 5, tensor_file_data(&f, "gemm8.y", DTYPE_F32, 5 * 256), 1e-6);
    run_product(&f, "gemm8.a", w8, false, 5, tensor_file_data(&f, "gemm8.y_noaq", DTYPE_F32, 5 * 256), 1e-6);
    run_product(&f, "gemm4.a", w4, true, 5, tensor_file_data(&f, "gemm4.y", DTYPE_F32, 5 * 128), 1e-6);
    run_product(&f, "gemm4.a", w4, false, 5, tensor_file_data(&f, "gemm4.y_noaq", DTYPE_F32, 5 * 128), 1e-6);
    tensor_file_close(&f);
}

/* One int8 linear: codes, scales and sums exactly, outputs but for the last rounding. */
static void int8_rows_and_sums_are_those_of_the_reference(void **state)
{
    (void)state;
    enum { ROWS = 8, COLS = 32, OUTPUTS = 16 };
    tensor_file f;
    tensor_file_open(UNITS, &f);
    const float *x = tensor_file_data(&f, "w8a8.x", DTYPE_F32, ROWS * COLS);
    const float *s = tensor_file_data(&f, "w8a8.s", DTYPE_F32, ROWS);
    const float *y = tensor_file_data(&f, "w8a8.y", DTYPE_F32, ROWS * OUTPUTS);
    const float *ws = tensor_file_data(&f, "w8a8.w_scale", DTYPE_F32, OUTPUTS);
    const int8_t *q = tensor_file_data(&f, "w8a8.q", DTYPE_I8, ROWS * COLS);
    const int32_t *acc = tensor_file_data(&f, "w8a8.acc", DTYPE_I32, ROWS * OUTPUTS);
    weight_source w = { .type = DTYPE_I8, .rows = OUTPUTS, .cols = COLS, .scale = ws };
    w.data = tensor_file_data(&f, "w8a8.w", DTYPE_I8, OUTPUTS * COLS);
    for (int r = 0; r < ROWS; r++) {
        struct {
            i8_head head;
            int8_t q[COLS];
        } row;
        ref_prepare_row(ACTIVATION_I8, x + r * COLS, COLS, NULL, 0, &row);
        assert_memory_equal(row.q, q + r * COLS, COLS);
        assert_memory_equal(&row.head.scale, &s[r], sizeof s[r]);
        float want[OUTPUTS];
        for (int n = 0; n < OUTPUTS; n++) {
            want[n] = ((float)acc[r * OUTPUTS + n] * s[r]) * ws[n];
            assert_true(fabsf(want[n] - y[r * OUTPUTS + n]) <= 3e-7f * fabsf(want[n]));
        }
    }
    run_product(&f, "w8a8.x", w, true, ROWS, y, 3e-7);
    tensor_file_close(&f);
}

/* Limits cut the gate from above only and up from both sides. */
static void limits_of_swiglu_are_those_of_the_reference(void **state)
{
    (void)state;
    enum { ROWS = 4, COLS = 32 };
    static const struct {
        const char *name;
        float limit;
    } kinds[] = { { "swiglu.0.y", 0 }, { "swiglu.1.y", 1 }, { "swiglu.10.y", 10 } };
    tensor_file f;
    tensor_file_open(UNITS, &f);
    const float *gate = tensor_file_data(&f, "swiglu.gate", DTYPE_F32, ROWS * COLS);
    const float *up = tensor_file_data(&f, "swiglu.up", DTYPE_F32, ROWS * COLS);
    for (int t = 0; t < 3; t++) {
        const float *want = tensor_file_data(&f, kinds[t].name, DTYPE_F32, ROWS * COLS);
        for (int i = 0; i < ROWS * COLS; i++) {
            const float got = vmath_swiglu(gate[i], up[i], kinds[t].limit);
            assert_true(fabsf(got - want[i]) <= 1e-6f * fmaxf(1, fabsf(want[i])));
        }
    }
    tensor_file_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(activations_round_to_e4m3_as_the_reference_does),
        cmocka_unit_test(index_vectors_round_to_e2m1_as_the_reference_does),
        cmocka_unit_test(codes_have_the_values_of_the_reference),
        cmocka_unit_test(products_of_quantised_weights_are_those_of_the_reference),
        cmocka_unit_test(int8_rows_and_sums_are_those_of_the_reference),
        cmocka_unit_test(limits_of_swiglu_are_those_of_the_reference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
