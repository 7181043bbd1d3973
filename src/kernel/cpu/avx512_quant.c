/* avx512_quant.c: RMSNorm and activations in the form that weights want, as kernel/ref/quant.c defines it.
 *
 * A panel of up to 8 rows at a time, each row in one pass (two with a norm). Threads: any; no state.
 */
#include <immintrin.h>

#include "kernel/cpu/avx512_matmul.h"
#include "kernel/cpu/avx512_reduce.h"
#include "kernel/cpu/entries.h"
#include "kernel/ref/vmath.h"

/* Sixteen values from x, normalised where there is a norm. */
static inline __m512 load(const float *x, const float *norm, __m512 s, __mmask16 mask)
{
    const __m512 v = _mm512_maskz_loadu_ps(mask, x);
    return norm ? _mm512_mul_ps(_mm512_mul_ps(v, s), _mm512_maskz_loadu_ps(mask, norm)) : v;
}

/* To nearest even by the magic number, cut to +-127; the operand order sends a NaN to -127. */
static inline __m512i to_integers(__m512 v, __m512 inverse)
{
    const __m512 round = _mm512_set1_ps(VMATH_ROUND);
    __m512 q = _mm512_max_ps(_mm512_mul_ps(v, inverse), _mm512_set1_ps(-127.0f));
    q = _mm512_min_ps(q, _mm512_set1_ps(127.0f));
    return _mm512_cvtps_epi32(_mm512_sub_ps(_mm512_add_ps(q, round), round));
}

static inline void quant_block(__m512 a, __m512 b, q8_block *out)
{
    const __m512i magnitude = _mm512_set1_epi32(0x7fffffff);
    const float top = vmath_float((uint32_t)_mm512_reduce_max_epi32(
        _mm512_max_epi32(_mm512_and_si512(_mm512_castps_si512(a), magnitude),
                         _mm512_and_si512(_mm512_castps_si512(b), magnitude))));
    const bool tiny = top < 0x1p-100f;
    const __m512 inverse = _mm512_set1_ps(tiny ? 0.0f : 127.0f / top);
    const __m512i qa = to_integers(a, inverse), qb = to_integers(b, inverse);
    const int first = _mm512_reduce_add_epi32(qa), sum = first + _mm512_reduce_add_epi32(qb);
    _mm_storeu_si128((__m128i *)out->q, _mm512_cvtepi32_epi8(qa));
    _mm_storeu_si128((__m128i *)(out->q + 16), _mm512_cvtepi32_epi8(qb));
    out->scale = tiny ? 0.0f : top / 127.0f;
    out->sum = out->scale * (float)sum;
    out->offset[0] = -128 * sum;
    out->offset[1] = -128 * first;
}

void avx512_prepare_panel(activation_form form, const float *x, size_t stride, int rows, int cols,
                          const float *norm, float eps, void *panel)
{
    const __mmask16 all = 0xffff;
    for (int r = 0; r < rows; r++) {
        const float *row = x + (size_t)r * stride;
        const __m512 s =
            _mm512_set1_ps(norm ? reduce_rms_scale(avx512_sum_squares(row, cols), cols, eps) : 1.0f);
        if (form == ACTIVATION_Q8) {
            q8_block *out = (q8_block *)panel + r;
            for (int k = 0; k < cols; k += 32, out += rows)
                quant_block(load(row + k, norm ? norm + k : NULL, s, all),
                            load(row + k + 16, norm ? norm + k + 16 : NULL, s, all), out);
            continue;
        }
        float *out = (float *)panel + r;
        const __m512i place = _mm512_mullo_epi32(
            _mm512_set1_epi32(rows), _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
        for (int k = 0; k < cols; k += 16) {
            const __mmask16 mask = cols - k >= 16 ? all : avx512_mask_below(cols - k);
            const __m512 v = load(row + k, norm ? norm + k : NULL, s, mask);
            if (rows == 1)
                _mm512_mask_storeu_ps(out + k, mask, v);
            else
                _mm512_mask_i32scatter_ps(out + (size_t)k * (size_t)rows, mask, place, v, 4);
        }
    }
}

static int tiles(const kernel_args *args)
{
    return quant_tiles(avx512_matmul_ops.panel, args);
}

static void run(const kernel_args *args, int tile, void *scratch)
{
    (void)scratch;
    quant_run(&avx512_matmul_ops, args, tile);
}

const kernel_impl avx512_quant = { .tiles = tiles, .run = run };
