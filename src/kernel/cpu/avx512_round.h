/* avx512_round.h: rounding to e4m3 in groups, as kernel/ref/round.h defines it, sixteen floats at a time.
 *
 * Equal to it bit for bit. Only for files compiled for AVX-512 F, BW, VL and DQ. Pure. Threads: any.
 */
#ifndef FORAY_KERNEL_CPU_AVX512_ROUND_H
#define FORAY_KERNEL_CPU_AVX512_ROUND_H

#include <immintrin.h>

#include "kernel/ref/round.h"

static inline __m512i avx512_magnitude(__m512 v)
{
    return _mm512_and_si512(_mm512_castps_si512(v), _mm512_set1_epi32(0x7fffffff));
}

/* round_to_format(v, 448, 2^-6, 8). Operand order of min: a NaN stays one. */
static inline __m512 avx512_round_e4m3(__m512 v)
{
    const __m512 size =
        _mm512_min_ps(_mm512_set1_ps(ROUND_F8_MOST), _mm512_castsi512_ps(avx512_magnitude(v)));
    const __m512 power =
        _mm512_castsi512_ps(_mm512_and_si512(_mm512_castps_si512(size), _mm512_set1_epi32(0x7f800000)));
    const __m512 magic =
        _mm512_mul_ps(_mm512_max_ps(power, _mm512_set1_ps(0x1p-6f)), _mm512_set1_ps(0x1p20f));
    const __m512 rounded = _mm512_sub_ps(_mm512_add_ps(size, magic), magic);
    const __m512i sign = _mm512_set1_epi32(INT32_MIN); /* of v: a | (b & c) over the magnitude */
    return _mm512_castsi512_ps(
        _mm512_ternarylogic_epi32(avx512_magnitude(rounded), _mm512_castps_si512(v), sign, 0xf8));
}

/* One group of up to 128: v [vectors], zeros where nothing is. The inverse of a power of two is exact. */
static inline void avx512_round_group_f8(__m512 *v, int vectors)
{
    __m512i top = avx512_magnitude(v[0]);
    for (int i = 1; i < vectors; i++)
        top = _mm512_max_epu32(top, avx512_magnitude(v[i]));
    const float scale = round_f8_scale(_mm512_reduce_max_epu32(top));
    const __m512 by = _mm512_set1_ps(scale), inverse = _mm512_set1_ps(1 / scale);
    for (int i = 0; i < vectors; i++)
        v[i] = _mm512_mul_ps(avx512_round_e4m3(_mm512_mul_ps(v[i], inverse)), by);
}

#endif
