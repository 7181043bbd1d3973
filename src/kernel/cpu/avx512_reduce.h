/* avx512_reduce.h: the sums of kernel/ref/reduce.h with sixteen floats at a time, equal to it bit for bit.
 *
 * The sixteen virtual lanes are one register. Only for files compiled for AVX-512 F, BW, VL and DQ.
 * Pure. Threads: any.
 */
#ifndef FORAY_KERNEL_CPU_AVX512_REDUCE_H
#define FORAY_KERNEL_CPU_AVX512_REDUCE_H

#include <immintrin.h>

#include "kernel/ref/reduce.h"

/* Which of sixteen lanes lie below n, n in 0 … 15. */
static inline __mmask16 avx512_mask_below(int n)
{
    return (__mmask16)((1u << n) - 1);
}

static inline float avx512_tree(__m512 lanes)
{
    const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(lanes), _mm512_extractf32x8_ps(lanes, 1));
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

static inline float avx512_sum_squares(const float *x, int n)
{
    __m512 lanes = _mm512_setzero_ps();
    int i = 0;
    for (; i + 16 <= n; i += 16) {
        const __m512 a = _mm512_loadu_ps(x + i);
        lanes = _mm512_fmadd_ps(a, a, lanes);
    }
    if (i < n) {
        const __m512 a = _mm512_maskz_loadu_ps(avx512_mask_below(n - i), x + i);
        lanes = _mm512_fmadd_ps(a, a, lanes);
    }
    return avx512_tree(lanes);
}

#endif
