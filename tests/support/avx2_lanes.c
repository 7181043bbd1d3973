/* avx2_lanes.c: the functions of kernel/cpu/avx2_vmath.h over arrays, for tests.
 *
 * Compiled for AVX2: nothing here may run on a machine without it. Threads: any.
 */
#include "kernel/cpu/avx2_vmath.h"
#include "support/lanes.h"

void lanes_avx2(lanes_function f, const float *x, float *y, size_t n)
{
    for (size_t i = 0; i < n; i += 8) {
        const __m256 v = _mm256_loadu_ps(x + i);
        const __m256 w = f == LANES_EXP     ? avx2_exp(v)
                         : f == LANES_LOG   ? avx2_log(v)
                         : f == LANES_LOG1P ? avx2_log1p(v)
                         : f == LANES_SILU  ? avx2_silu(v)
                                            : avx2_gelu(v);
        _mm256_storeu_ps(y + i, w);
    }
}
