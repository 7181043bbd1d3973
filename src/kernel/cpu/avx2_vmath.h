/* avx2_vmath.h: the functions of kernel/ref/vmath.h on eight floats at once, equal to it bit for bit.
 *
 * Only for files compiled for AVX2, FMA and F16C. What each function gives for special values stands there.
 * Operation order and the operand order of max follow the scalar page line by line: change both or neither.
 * Pure. Threads: any.
 */
#ifndef FORAY_KERNEL_CPU_AVX2_VMATH_H
#define FORAY_KERNEL_CPU_AVX2_VMATH_H

#include <immintrin.h>

#include "kernel/ref/vmath.h"

static inline __m256 avx2_exp(__m256 x)
{
    const __m256 round = _mm256_set1_ps(VMATH_ROUND);
    const __m256 t = _mm256_fmadd_ps(x, _mm256_set1_ps(VMATH_LOG2E), round);
    const __m256 n = _mm256_sub_ps(t, round);
    const __m256 high = _mm256_fnmadd_ps(n, _mm256_set1_ps(VMATH_LN2), x);
    const __m256 r = _mm256_fnmadd_ps(n, _mm256_set1_ps(VMATH_LN2_REST), high);
    __m256 q = _mm256_fmadd_ps(_mm256_set1_ps(VMATH_EXP_C4), r, _mm256_set1_ps(VMATH_EXP_C3));
    q = _mm256_fmadd_ps(q, r, _mm256_set1_ps(VMATH_EXP_C2));
    q = _mm256_fmadd_ps(q, r, _mm256_set1_ps(VMATH_EXP_C1));
    q = _mm256_fmadd_ps(q, r, _mm256_set1_ps(VMATH_EXP_C0));
    const __m256 p = _mm256_add_ps(_mm256_set1_ps(1.0f), _mm256_fmadd_ps(q, _mm256_mul_ps(r, r), r));
    const __m256i scale = _mm256_slli_epi32(_mm256_castps_si256(t), 23);
    __m256 y = _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(p), scale));
    y = _mm256_andnot_ps(_mm256_cmp_ps(x, _mm256_set1_ps(VMATH_EXP_MIN), _CMP_LT_OQ), y);
    return _mm256_blendv_ps(_mm256_add_ps(x, _mm256_set1_ps(INFINITY)), y,
                            _mm256_cmp_ps(x, _mm256_set1_ps(VMATH_EXP_MAX), _CMP_LE_OQ));
}

static inline __m256 avx2_log(__m256 x)
{
    const __m256 tiny = _mm256_cmp_ps(x, _mm256_set1_ps(0x1p-126f), _CMP_LT_OQ);
    const __m256 scaled = _mm256_blendv_ps(x, _mm256_mul_ps(x, _mm256_set1_ps(0x1p24f)), tiny);
    const __m256i split = _mm256_set1_epi32(VMATH_LOG_SPLIT);
    const __m256i u =
        _mm256_add_epi32(_mm256_castps_si256(scaled), _mm256_set1_epi32(0x3f800000 - VMATH_LOG_SPLIT));
    const __m256i bias = _mm256_add_epi32(_mm256_set1_epi32(127),
                                          _mm256_and_si256(_mm256_castps_si256(tiny), _mm256_set1_epi32(24)));
    const __m256 e = _mm256_cvtepi32_ps(_mm256_sub_epi32(_mm256_srai_epi32(u, 23), bias));
    const __m256i m = _mm256_add_epi32(_mm256_and_si256(u, _mm256_set1_epi32(0x007fffff)), split);
    const __m256 f = _mm256_sub_ps(_mm256_castsi256_ps(m), _mm256_set1_ps(1.0f));
    const __m256 z = _mm256_mul_ps(f, f);
    __m256 q = _mm256_fmadd_ps(_mm256_set1_ps(VMATH_LOG_C7), f, _mm256_set1_ps(VMATH_LOG_C6));
    q = _mm256_fmadd_ps(q, f, _mm256_set1_ps(VMATH_LOG_C5));
    q = _mm256_fmadd_ps(q, f, _mm256_set1_ps(VMATH_LOG_C4));
    q = _mm256_fmadd_ps(q, f, _mm256_set1_ps(VMATH_LOG_C3));
    q = _mm256_fmadd_ps(q, f, _mm256_set1_ps(VMATH_LOG_C2));
    q = _mm256_fmadd_ps(q, f, _mm256_set1_ps(VMATH_LOG_C1));
    q = _mm256_fmadd_ps(q, f, _mm256_set1_ps(VMATH_LOG_C0));
    __m256 y = _mm256_fmadd_ps(q, _mm256_mul_ps(z, f), _mm256_mul_ps(e, _mm256_set1_ps(VMATH_LN2_LOW)));
    y = _mm256_fmadd_ps(z, _mm256_set1_ps(-0.5f), y);
    y = _mm256_fmadd_ps(e, _mm256_set1_ps(VMATH_LN2_HIGH), _mm256_add_ps(f, y));
    const __m256 zero = _mm256_cmp_ps(x, _mm256_setzero_ps(), _CMP_EQ_OQ);
    const __m256 other = _mm256_blendv_ps(_mm256_set1_ps(NAN), _mm256_set1_ps(-INFINITY), zero);
    y = _mm256_blendv_ps(other, y, _mm256_cmp_ps(x, _mm256_setzero_ps(), _CMP_GT_OQ));
    return _mm256_blendv_ps(x, y, _mm256_cmp_ps(x, _mm256_set1_ps(INFINITY), _CMP_LT_OQ));
}

static inline __m256 avx2_log1p(__m256 x)
{
    const __m256 one = _mm256_set1_ps(1.0f), sum = _mm256_add_ps(one, x);
    const __m256 lost = _mm256_sub_ps(x, _mm256_sub_ps(sum, one));
    const __m256i split = _mm256_set1_epi32(VMATH_LOG_SPLIT);
    const __m256i u =
        _mm256_add_epi32(_mm256_castps_si256(sum), _mm256_set1_epi32(0x3f800000 - VMATH_LOG_SPLIT));
    const __m256 e = _mm256_cvtepi32_ps(_mm256_sub_epi32(_mm256_srai_epi32(u, 23), _mm256_set1_epi32(127)));
    const __m256 m =
        _mm256_castsi256_ps(_mm256_add_epi32(_mm256_and_si256(u, _mm256_set1_epi32(0x007fffff)), split));
    const __m256 f = _mm256_add_ps(_mm256_sub_ps(m, one), _mm256_mul_ps(lost, _mm256_div_ps(m, sum)));
    const __m256 z = _mm256_mul_ps(f, f);
    __m256 q = _mm256_fmadd_ps(_mm256_set1_ps(VMATH_LOG_C7), f, _mm256_set1_ps(VMATH_LOG_C6));
    q = _mm256_fmadd_ps(q, f, _mm256_set1_ps(VMATH_LOG_C5));
    q = _mm256_fmadd_ps(q, f, _mm256_set1_ps(VMATH_LOG_C4));
    q = _mm256_fmadd_ps(q, f, _mm256_set1_ps(VMATH_LOG_C3));
    q = _mm256_fmadd_ps(q, f, _mm256_set1_ps(VMATH_LOG_C2));
    q = _mm256_fmadd_ps(q, f, _mm256_set1_ps(VMATH_LOG_C1));
    q = _mm256_fmadd_ps(q, f, _mm256_set1_ps(VMATH_LOG_C0));
    __m256 y = _mm256_fmadd_ps(q, _mm256_mul_ps(z, f), _mm256_mul_ps(e, _mm256_set1_ps(VMATH_LN2_LOW)));
    y = _mm256_fmadd_ps(z, _mm256_set1_ps(-0.5f), y);
    y = _mm256_fmadd_ps(e, _mm256_set1_ps(VMATH_LN2_HIGH), _mm256_add_ps(f, y));
    const __m256 least = _mm256_set1_ps(-1.0f), at_least = _mm256_cmp_ps(x, least, _CMP_EQ_OQ);
    const __m256 other = _mm256_blendv_ps(_mm256_set1_ps(NAN), _mm256_set1_ps(-INFINITY), at_least);
    y = _mm256_blendv_ps(other, y, _mm256_cmp_ps(x, least, _CMP_GT_OQ));
    return _mm256_blendv_ps(x, y, _mm256_cmp_ps(x, _mm256_set1_ps(INFINITY), _CMP_LT_OQ));
}

static inline __m256 avx2_silu(__m256 x)
{
    const __m256 e = avx2_exp(_mm256_xor_ps(x, _mm256_set1_ps(-0.0f)));
    const __m256 top = _mm256_max_ps(_mm256_set1_ps(VMATH_GATE_MIN), x);
    return _mm256_div_ps(top, _mm256_add_ps(_mm256_set1_ps(1.0f), e));
}

static inline __m256 avx2_swiglu(__m256 gate, __m256 up, float limit)
{
    if (limit > 0) {
        gate = _mm256_min_ps(_mm256_set1_ps(limit), gate);
        up = _mm256_min_ps(_mm256_set1_ps(limit), up);
        up = _mm256_max_ps(_mm256_set1_ps(-limit), up);
    }
    return _mm256_mul_ps(avx2_silu(gate), up);
}

static inline __m256 avx2_gelu(__m256 x)
{
    const __m256 cube =
        _mm256_fmadd_ps(_mm256_mul_ps(x, x), _mm256_set1_ps(VMATH_GELU_CUBE), _mm256_set1_ps(1.0f));
    const __m256 u = _mm256_mul_ps(cube, x);
    const __m256 e = avx2_exp(_mm256_mul_ps(u, _mm256_set1_ps(VMATH_GELU_SCALE)));
    const __m256 top = _mm256_max_ps(_mm256_set1_ps(VMATH_GATE_MIN), x);
    return _mm256_div_ps(top, _mm256_add_ps(_mm256_set1_ps(1.0f), e));
}

#endif
