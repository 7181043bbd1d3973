/* kernel_vmath.c: foray's exp, log, log1p, silu, gelu, sin and cos: how true they are, what they give for special
 * values, and that every instruction set gives the same bits.
 *
 * The oracle is libm in double precision. Values are swept through the bit patterns of float with a stride
 * that reaches every exponent, plus the edges themselves. One thread.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "kernel/ref/vmath.h"
#include "support/lanes.h"

/* |got - want| in units of the last place of want as a float. */
static double ulps(float got, double want)
{
    int exponent;
    frexp(want, &exponent);
    if (exponent < -125)
        exponent = -125;
    return fabs((double)got - want) / ldexp(1.0, exponent - 24);
}

static void exp_is_within_an_ulp(void **state)
{
    (void)state;
    double worst = 0;
    for (uint32_t u = 0; u < 0x42b17218u; u += 977) { /* every exponent up to the largest finite result */
        const float x = vmath_float(u);
        worst = fmax(worst, ulps(vmath_exp(x), exp((double)x)));
        if (-x >= VMATH_EXP_MIN)
            worst = fmax(worst, ulps(vmath_exp(-x), exp(-(double)x)));
    }
    assert_true(worst < 1.0);
}

static void log_is_within_an_ulp(void **state)
{
    (void)state;
    double worst = 0;
    for (uint32_t u = 1; u < 0x7f800000u; u += 1499)
        worst = fmax(worst, ulps(vmath_log(vmath_float(u)), log((double)vmath_float(u))));
    for (uint32_t u = 0x3f700000u; u < 0x3f900000u; u += 7) /* around 1, where the result cancels */
        if (u != 0x3f800000u)
            worst = fmax(worst, ulps(vmath_log(vmath_float(u)), log((double)vmath_float(u))));
    assert_true(worst < 1.0);
    assert_true(vmath_log(1.0f) == 0.0f);
}

static void log1p_is_within_two_ulp(void **state)
{
    (void)state;
    double worst = 0;
    for (uint32_t u = 1; u < 0x7f800000u; u += 1499) {
        const float x = vmath_float(u);
        worst = fmax(worst, ulps(vmath_log1p(x), log1p((double)x)));
        if (x < 1)
            worst = fmax(worst, ulps(vmath_log1p(-x), log1p(-(double)x)));
    }
    for (uint32_t u = 0x3eb00000u; u < 0x3ef00000u;
         u += 7) /* around sqrt 2 - 1, where the exponent changes */
        worst = fmax(worst, ulps(vmath_log1p(vmath_float(u)), log1p((double)vmath_float(u))));
    assert_true(worst < 2.0);
    assert_true(vmath_log1p(0) == 0 && vmath_log1p(-1) == -INFINITY && vmath_log1p(INFINITY) == INFINITY);
    assert_true(isnan(vmath_log1p(-1.5f)) && isnan(vmath_log1p(-INFINITY)) && isnan(vmath_log1p(NAN)));
}

static void sin_and_cos_are_within_an_ulp_for_every_position(void **state)
{
    (void)state;
    double worst = 0;
    const float frequency[] = { 1.0f, 0.7498942f, 0.1f, 0.0031622776f, 1e-4f, 1e-6f, 3.0e-8f };
    for (int f = 0; f < 7; f++)
        for (int p = 0; p <= 1 << 20; p += p < 4096 ? 1 : 61) {
            const double x = (double)p * (double)frequency[f];
            const vmath_angle a = vmath_sincos(x);
            worst = fmax(worst, fmax(ulps(a.sin, sin(x)), ulps(a.cos, cos(x))));
        }
    assert_true(worst < 0.51);
    for (double x = -3e6; x < 2e9; x = x * (x < 0 ? 0.97 : 1.001) + 1.37) { /* far out: absolute error */
        const vmath_angle a = vmath_sincos(x);
        assert_true(fabs((double)a.sin - sin(x)) < 1e-7 && fabs((double)a.cos - cos(x)) < 1e-7);
    }
}

static void gates_follow_their_formulas(void **state)
{
    (void)state;
    for (double x = -80; x < 80; x += 0.00917) {
        const double u = 0.7978845608028654 * ((double)(float)x + 0.044715 * pow((double)(float)x, 3));
        const double silu = (double)(float)x / (1 + exp(-(double)(float)x));
        const double gelu = 0.5 * (double)(float)x * (1 + tanh(u));
        assert_true(ulps(vmath_silu((float)x), silu) < 3);
        assert_true(fabs((double)vmath_gelu((float)x) - gelu) < 1e-6 * fmax(1, fabs(gelu)));
    }
}

static void special_values_are_as_stated(void **state)
{
    (void)state;
    assert_true(vmath_exp(-INFINITY) == 0 && vmath_exp(INFINITY) == INFINITY && isnan(vmath_exp(NAN)));
    assert_true(vmath_exp(0) == 1 && vmath_exp(-0.0f) == 1 && vmath_exp(1e-40f) == 1);
    assert_true(isfinite(vmath_exp(VMATH_EXP_MAX)) && vmath_exp(88.7229f) == INFINITY &&
                vmath_exp(1e30f) == INFINITY);
    assert_true(vmath_exp(VMATH_EXP_MIN) >= 0x1p-126f && vmath_exp(-87.3366f) == 0 && vmath_exp(-1e30f) == 0);
    assert_true(vmath_log(0) == -INFINITY && vmath_log(-0.0f) == -INFINITY && isnan(vmath_log(-1)));
    assert_true(isnan(vmath_log(-1e-40f)) && isnan(vmath_log(-INFINITY)) && isnan(vmath_log(NAN)));
    assert_true(vmath_log(INFINITY) == INFINITY);
    assert_true(vmath_silu(-INFINITY) == 0 && vmath_silu(INFINITY) == INFINITY && isnan(vmath_silu(NAN)));
    assert_true(vmath_gelu(-INFINITY) == 0 && vmath_gelu(INFINITY) == INFINITY && isnan(vmath_gelu(NAN)));
    assert_true(vmath_silu(-1e30f) == 0 && vmath_gelu(-1e30f) == 0 && vmath_silu(1e30f) == 1e30f);
    assert_true(vmath_sincos(0).sin == 0 && vmath_sincos(0).cos == 1);
    assert_true(isnan(vmath_sincos(NAN).sin) && isnan(vmath_sincos(INFINITY).cos) &&
                isnan(vmath_sincos(3e9).sin));
}

static void every_lane_equals_the_scalar_function(void **state)
{
    (void)state;
    static const float edges[16] = { 0.0f,          -0.0f,     INFINITY,         -INFINITY,
                                     NAN,           -NAN,      1e-45f,           -1e-45f,
                                     VMATH_EXP_MAX, 88.72284f, VMATH_EXP_MIN,    -87.33655f,
                                     1.0f,          0x1p-126f, 0x1.fffffcp-127f, 0x1.fffffep+127f };
    for (lanes_set set = 0; set < LANES_SETS; set++) {
        if (!lanes_present(set))
            continue;
        for (lanes_function f = 0; f < LANES_FUNCTIONS; f++) {
            float x[16], y[16];
            for (uint64_t u = 0; u < 0x100000000u + 16 * 9001;
                 u += 16 * 9001) { /* all exponents, both signs */
                for (int i = 0; i < 16; i++) {
                    x[i] = u < 0x100000000u ? vmath_float((uint32_t)u + (uint32_t)i * 9001u) : edges[i];
                }
                lanes_map(set, f, x, y, 16);
                for (int i = 0; i < 16; i++) {
                    const float want = lanes_scalar(f, x[i]);
                    if (isnan(want))
                        assert_true(isnan(y[i]));
                    else
                        assert_int_equal(vmath_bits(y[i]), vmath_bits(want));
                }
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exp_is_within_an_ulp),
        cmocka_unit_test(log_is_within_an_ulp),
        cmocka_unit_test(log1p_is_within_two_ulp),
        cmocka_unit_test(sin_and_cos_are_within_an_ulp_for_every_position),
        cmocka_unit_test(gates_follow_their_formulas),
        cmocka_unit_test(special_values_are_as_stated),
        cmocka_unit_test(every_lane_equals_the_scalar_function),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
