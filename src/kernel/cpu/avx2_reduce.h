/* avx2_reduce.h: the sums of kernel/ref/reduce.h with eight floats at a time, equal to it bit for bit.
 *
 * The sixteen virtual lanes are two registers: low holds lanes 0-7, high lanes 8-15. Only for files compiled
 * for AVX2 and FMA. Pure. Threads: any.
 */
#ifndef FORAY_KERNEL_CPU_AVX2_REDUCE_H
#define FORAY_KERNEL_CPU_AVX2_REDUCE_H

#include <immintrin.h>

#include "kernel/ref/reduce.h"

/* Which of eight lanes lie below n (n may be negative or above 8). */
static inline __m256i avx2_mask_below(int n)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

static inline float avx2_tree(__m256 low, __m256 high)
{
    const __m256 eight = _mm256_add_ps(low, high);
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

static inline float avx2_sum_squares(const float *x, int n)
{
    __m256 low = _mm256_setzero_ps(), high = low;
    int i = 0;
    for (; i + 16 <= n; i += 16) {
        const __m256 a = _mm256_loadu_ps(x + i), b = _mm256_loadu_ps(x + i + 8);
        low = _mm256_fmadd_ps(a, a, low);
        high = _mm256_fmadd_ps(b, b, high);
    }
    if (i < n) {
        const __m256 a = _mm256_maskload_ps(x + i, avx2_mask_below(n - i));
        const __m256 b = _mm256_maskload_ps(x + i + 8, avx2_mask_below(n - i - 8));
        low = _mm256_fmadd_ps(a, a, low);
        high = _mm256_fmadd_ps(b, b, high);
    }
    return avx2_tree(low, high);
}

#endif
