/* Rounding and products of quantised weights against the values that the reference model code gives for the same
 * inputs: tests/golden/deepseek4/README.md says where they come from. Quantisers are equal in every bit.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "kernel/ref/round.h"
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(activations_round_to_e4m3_as_the_reference_does),
        cmocka_unit_test(index_vectors_round_to_e2m1_as_the_reference_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
