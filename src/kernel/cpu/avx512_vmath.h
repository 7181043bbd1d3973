/* avx512_vmath.h: the functions of kernel/ref/vmath.h on sixteen floats at once, equal to it bit for bit.
 *
 * Only for files compiled for AVX-512 F, BW, VL and DQ. What each function gives for special values stands
 * there. Operation order and the operand order of max follow the scalar page line by line: change both or
 * neither. Pure. Threads: any.
 */
#ifndef FORAY_KERNEL_CPU_AVX512_VMATH_H
#define FORAY_KERNEL_CPU_AVX512_VMATH_H

#include <immintrin.h>

#include "kernel/ref/vmath.h"

static inline __m512 avx512_exp(__m512 x)
{
    const __m512 round = _mm512_set1_ps(VMATH_ROUND);
    const __m512 t = _mm512_fmadd_ps(x, _mm512_set1_ps(VMATH_LOG2E), round);
    const __m512 n = _mm512_sub_ps(t, round);
    const __m512 high = _mm512_fnmadd_ps(n, _mm512_set1_ps(VMATH_LN2), x);
    const __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(VMATH_LN2_REST), high);
    __m512 q = _mm512_fmadd_ps(_mm512_set1_ps(VMATH_EXP_C4), r, _mm512_set1_ps(VMATH_EXP_C3));
    q = _mm512_fmadd_ps(q, r, _mm512_set1_ps(VMATH_EXP_C2));
    q = _mm512_fmadd_ps(q, r, _mm512_set1_ps(VMATH_EXP_C1));
    q = _mm512_fmadd_ps(q, r, _mm512_set1_ps(VMATH_EXP_C0));
    const __m512 p = _mm512_add_ps(_mm512_set1_ps(1.0f), _mm512_fmadd_ps(q, _mm512_mul_ps(r, r), r));
    const __m512i scale = _mm512_slli_epi32(_mm512_castps_si512(t), 23);
    const __mmask16 normal = _mm512_cmp_ps_mask(x, _mm512_set1_ps(VMATH_EXP_MIN), _CMP_NLT_UQ);
    const __m512 y = _mm512_castsi512_ps(_mm512_maskz_add_epi32(normal, _mm512_castps_si512(p), scale));
    const __mmask16 large = _mm512_cmp_ps_mask(x, _mm512_set1_ps(VMATH_EXP_MAX), _CMP_NLE_UQ);
    return _mm512_mask_add_ps(y, large, x, _mm512_set1_ps(INFINITY));
}

static inline __m512 avx512_log(__m512 x)
{
    const __mmask16 tiny = _mm512_cmp_ps_mask(x, _mm512_set1_ps(0x1p-126f), _CMP_LT_OQ);
    const __m512 scaled = _mm512_mask_mul_ps(x, tiny, x, _mm512_set1_ps(0x1p24f));
    const __m512i split = _mm512_set1_epi32(VMATH_LOG_SPLIT);
    const __m512i u =
        _mm512_add_epi32(_mm512_castps_si512(scaled), _mm512_set1_epi32(0x3f800000 - VMATH_LOG_SPLIT));
    const __m512i bias = _mm512_mask_set1_epi32(_mm512_set1_epi32(127), tiny, 127 + 24);
    const __m512 e = _mm512_cvtepi32_ps(_mm512_sub_epi32(_mm512_srai_epi32(u, 23), bias));
    const __m512i m = _mm512_add_epi32(_mm512_and_si512(u, _mm512_set1_epi32(0x007fffff)), split);
    const __m512 f = _mm512_sub_ps(_mm512_castsi512_ps(m), _mm512_set1_ps(1.0f));
    const __m512 z = _mm512_mul_ps(f, f);
    __m512 q = _mm512_fmadd_ps(_mm512_set1_ps(VMATH_LOG_C7), f, _mm512_set1_ps(VMATH_LOG_C6));
    q = _mm512_fmadd_ps(q, f, _mm512_set1_ps(VMATH_LOG_C5));
    q = _mm512_fmadd_ps(q, f, _mm512_set1_ps(VMATH_LOG_C4));
    q = _mm512_fmadd_ps(q, f, _mm512_set1_ps(VMATH_LOG_C3));
    q = _mm512_fmadd_ps(q, f, _mm512_set1_ps(VMATH_LOG_C2));
    q = _mm512_fmadd_ps(q, f, _mm512_set1_ps(VMATH_LOG_C1));
    q = _mm512_fmadd_ps(q, f, _mm512_set1_ps(VMATH_LOG_C0));
    __m512 y = _mm512_fmadd_ps(q, _mm512_mul_ps(z, f), _mm512_mul_ps(e, _mm512_set1_ps(VMATH_LN2_LOW)));
    y = _mm512_fmadd_ps(z, _mm512_set1_ps(-0.5f), y);
    y = _mm512_fmadd_ps(e, _mm512_set1_ps(VMATH_LN2_HIGH), _mm512_add_ps(f, y));
    const __mmask16 positive = _mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_GT_OQ);
    const __mmask16 zero = _mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_EQ_OQ);
    y = _mm512_mask_blend_ps(positive, _mm512_set1_ps(NAN), y);
    y = _mm512_mask_blend_ps(zero, y, _mm512_set1_ps(-INFINITY));
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(x, _mm512_set1_ps(INFINITY), _CMP_LT_OQ), x, y);
}

static inline __m512 avx512_log1p(__m512 x)
{
    const __m512 one = _mm512_set1_ps(1.0f), sum = _mm512_add_ps(one, x);
    const __m512 lost = _mm512_sub_ps(x, _mm512_sub_ps(sum, one));
    const __m512i split = _mm512_set1_epi32(VMATH_LOG_SPLIT);
    const __m512i u =
        _mm512_add_epi32(_mm512_castps_si512(sum), _mm512_set1_epi32(0x3f800000 - VMATH_LOG_SPLIT));
    const __m512 e = _mm512_cvtepi32_ps(_mm512_sub_epi32(_mm512_srai_epi32(u, 23), _mm512_set1_epi32(127)));
    const __m512 m =
        _mm512_castsi512_ps(_mm512_add_epi32(_mm512_and_si512(u, _mm512_set1_epi32(0x007fffff)), split));
    const __m512 f = _mm512_add_ps(_mm512_sub_ps(m, one), _mm512_mul_ps(lost, _mm512_div_ps(m, sum)));
    const __m512 z = _mm512_mul_ps(f, f);
    __m512 q = _mm512_fmadd_ps(_mm512_set1_ps(VMATH_LOG_C7), f, _mm512_set1_ps(VMATH_LOG_C6));
    q = _mm512_fmadd_ps(q, f, _mm512_set1_ps(VMATH_LOG_C5));
    q = _mm512_fmadd_ps(q, f, _mm512_set1_ps(VMATH_LOG_C4));
    q = _mm512_fmadd_ps(q, f, _mm512_set1_ps(VMATH_LOG_C3));
    q = _mm512_fmadd_ps(q, f, _mm512_set1_ps(VMATH_LOG_C2));
    q = _mm512_fmadd_ps(q, f, _mm512_set1_ps(VMATH_LOG_C1));
    q = _mm512_fmadd_ps(q, f, _mm512_set1_ps(VMATH_LOG_C0));
    __m512 y = _mm512_fmadd_ps(q, _mm512_mul_ps(z, f), _mm512_mul_ps(e, _mm512_set1_ps(VMATH_LN2_LOW)));
    y = _mm512_fmadd_ps(z, _mm512_set1_ps(-0.5f), y);
    y = _mm512_fmadd_ps(e, _mm512_set1_ps(VMATH_LN2_HIGH), _mm512_add_ps(f, y));
    const __m512 least = _mm512_set1_ps(-1.0f);
    y = _mm512_mask_blend_ps(_mm512_cmp_ps_mask(x, least, _CMP_GT_OQ), _mm512_set1_ps(NAN), y);
    y = _mm512_mask_blend_ps(_mm512_cmp_ps_mask(x, least, _CMP_EQ_OQ), y, _mm512_set1_ps(-INFINITY));
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(x, _mm512_set1_ps(INFINITY), _CMP_LT_OQ), x, y);
}

static inline __m512 avx512_silu(__m512 x)
{
    const __m512 e = avx512_exp(_mm512_xor_ps(x, _mm512_set1_ps(-0.0f)));
    const __m512 top = _mm512_max_ps(_mm512_set1_ps(VMATH_GATE_MIN), x);
    return _mm512_div_ps(top, _mm512_add_ps(_mm512_set1_ps(1.0f), e));
}

static inline __m512 avx512_swiglu(__m512 gate, __m512 up, float limit)
{
    if (limit > 0) {
        gate = _mm512_min_ps(_mm512_set1_ps(limit), gate);
        up = _mm512_min_ps(_mm512_set1_ps(limit), up);
        up = _mm512_max_ps(_mm512_set1_ps(-limit), up);
    }
    return _mm512_mul_ps(avx512_silu(gate), up);
}

static inline __m512 avx512_gelu(__m512 x)
{
    const __m512 cube =
        _mm512_fmadd_ps(_mm512_mul_ps(x, x), _mm512_set1_ps(VMATH_GELU_CUBE), _mm512_set1_ps(1.0f));
    const __m512 u = _mm512_mul_ps(cube, x);
    const __m512 e = avx512_exp(_mm512_mul_ps(u, _mm512_set1_ps(VMATH_GELU_SCALE)));
    const __m512 top = _mm512_max_ps(_mm512_set1_ps(VMATH_GATE_MIN), x);
    return _mm512_div_ps(top, _mm512_add_ps(_mm512_set1_ps(1.0f), e));
}

#endif
