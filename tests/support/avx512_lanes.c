/* avx512_lanes.c: the functions of kernel/cpu/avx512_vmath.h over arrays, for tests.
 *
 * Compiled for AVX-512: nothing here may run on a machine without it. Threads: any.
 */
#include "kernel/cpu/avx512_vmath.h"
#include "support/lanes.h"

void lanes_avx512(lanes_function f, const float *x, float *y, size_t n)
{
    for (size_t i = 0; i < n; i += 16) {
        const __m512 v = _mm512_loadu_ps(x + i);
        const __m512 w = f == LANES_EXP     ? avx512_exp(v)
                         : f == LANES_LOG   ? avx512_log(v)
                         : f == LANES_LOG1P ? avx512_log1p(v)
                         : f == LANES_SILU  ? avx512_silu(v)
                                            : avx512_gelu(v);
        _mm512_storeu_ps(y + i, w);
    }
}
