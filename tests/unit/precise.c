/* Tests of model/precise: exp and log good to 1e-14 against libm, and the bits themselves, which must never change. */
#include "model/precise.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void assert_close(double got, double want, double limit)
{
    if (!(fabs(got - want) <= limit * fabs(want)))
        fail_msg("%.17g is not %.17g", got, want);
}

static void logarithms_agree_with_libm(void **state)
{
    (void)state;
    for (double x = 1e-12; x < 1e13; x *= 1.0173)
        assert_close(precise_log(x), log(x), 1e-14);
    for (double x = 0.9; x < 1.1; x += 0.00037) /* where the result nearly vanishes */
        assert_true(fabs(precise_log(x) - log(x)) < 1e-16);
    assert_true(precise_log(1) == 0);
}

static void exponentials_agree_with_libm(void **state)
{
    (void)state;
    for (double x = -700; x < 700; x += 0.3137)
        assert_close(precise_exp(x), exp(x), 1e-14);
    assert_true(precise_exp(0) == 1);
}

static void powers_agree_with_libm(void **state)
{
    (void)state;
    static const double bases[] = { 10000, 100000, 500000, 1e6, 1.5, 2 };
    for (size_t b = 0; b < sizeof bases / sizeof bases[0]; b++)
        for (int i = 0; i < 256; i++)
            assert_close(precise_pow(bases[b], -i / 256.0), pow(bases[b], -i / 256.0), 1e-14);
}

static void the_bits_are_the_same_everywhere(void **state)
{
    (void)state;
    assert_true(precise_log(10000) == 0x1.26bb1bbb55516p+3);
    assert_true(precise_exp(-9.21) == 0x1.a392bc5c49422p-14);
    assert_true(precise_pow(500000, -0.375) == 0x1.ddee9c8c0aceep-8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logarithms_agree_with_libm),
        cmocka_unit_test(exponentials_agree_with_libm),
        cmocka_unit_test(powers_agree_with_libm),
        cmocka_unit_test(the_bits_are_the_same_everywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
