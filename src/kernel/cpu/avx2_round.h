/* avx2_round.h: rounding to e4m3 in groups, as kernel/ref/round.h defines it, eight floats at a time.
 *
 * Equal to it bit for bit. Only for files compiled for AVX2 and FMA. Pure. Threads: any.
 */
#ifndef FORAY_KERNEL_CPU_AVX2_ROUND_H
#define FORAY_KERNEL_CPU_AVX2_ROUND_H

#include <immintrin.h>

#include "kernel/ref/round.h"

static inline __m256 avx2_magnitude(__m256 v)
{
    return _mm256_and_ps(v, _mm256_castsi256_ps(_mm256_set1_epi32(0x7fffffff)));
}

/* The bits of the largest magnitude among v and `top`; a NaN beats everything. */
static inline __m256i avx2_top(__m256i top, __m256 v)
{
    return _mm256_max_epu32(top, _mm256_castps_si256(avx2_magnitude(v)));
}

static inline uint32_t avx2_largest(__m256i top)
{
    __m128i four = _mm_max_epu32(_mm256_castsi256_si128(top), _mm256_extracti128_si256(top, 1));
    four = _mm_max_epu32(four, _mm_shuffle_epi32(four, 0x4e));
    four = _mm_max_epu32(four, _mm_shuffle_epi32(four, 0xb1));
    return (uint32_t)_mm_cvtsi128_si32(four);
}

/* round_to_format(v, 448, 2^-6, 8). Operand order of min: a NaN stays one. */
static inline __m256 avx2_round_e4m3(__m256 v)
{
    const __m256 size = _mm256_min_ps(_mm256_set1_ps(ROUND_F8_MOST), avx2_magnitude(v));
    const __m256 power = _mm256_and_ps(size, _mm256_castsi256_ps(_mm256_set1_epi32(0x7f800000)));
    const __m256 magic =
        _mm256_mul_ps(_mm256_max_ps(power, _mm256_set1_ps(0x1p-6f)), _mm256_set1_ps(0x1p20f));
    const __m256 rounded = _mm256_sub_ps(_mm256_add_ps(size, magic), magic);
    return _mm256_or_ps(avx2_magnitude(rounded), _mm256_and_ps(v, _mm256_set1_ps(-0.0f)));
}

/* round_group_f8, n a multiple of 8. The inverse of a power of two is exact. */
static inline void avx2_round_group_f8(const float *x, int n, float *out)
{
    __m256i top = _mm256_setzero_si256();
    for (int i = 0; i < n; i += 8)
        top = avx2_top(top, _mm256_loadu_ps(x + i));
    const float scale = round_f8_scale(avx2_largest(top));
    const __m256 by = _mm256_set1_ps(scale), inverse = _mm256_set1_ps(1 / scale);
    for (int i = 0; i < n; i += 8)
        _mm256_storeu_ps(out + i,
                         _mm256_mul_ps(avx2_round_e4m3(_mm256_mul_ps(_mm256_loadu_ps(x + i), inverse)), by));
}

#endif
