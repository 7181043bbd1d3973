/* lanes.c: picks the vector functions that a test asked for, and the scalar ones they must equal.
 *
 * Compiled without instruction-set flags: it may run before anybody knows what the machine has.
 * Threads: any.
 */
#include "support/lanes.h"

#include "kernel/ref/vmath.h"

bool lanes_present(lanes_set set)
{
    if (set == LANES_AVX2)
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}

void lanes_map(lanes_set set, lanes_function f, const float *x, float *y, size_t n)
{
    if (set == LANES_AVX2)
        lanes_avx2(f, x, y, n);
    else
        lanes_avx512(f, x, y, n);
}

float lanes_scalar(lanes_function f, float x)
{
    switch (f) {
    case LANES_EXP:
        return vmath_exp(x);
    case LANES_LOG:
        return vmath_log(x);
    case LANES_LOG1P:
        return vmath_log1p(x);
    case LANES_SILU:
        return vmath_silu(x);
    default:
        return vmath_gelu(x);
    }
}
