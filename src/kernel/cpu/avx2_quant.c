/* avx2_quant.c: RMSNorm and activations in the form that weights want, as kernel/ref/quant.c defines it.
 *
 * A panel of up to 4 rows at a time, each row in one pass (two with a norm). Threads: any; no state.
 */
#include <immintrin.h>

#include "kernel/cpu/avx2_matmul.h"
#include "kernel/cpu/avx2_reduce.h"
#include "kernel/cpu/entries.h"
#include "kernel/ref/vmath.h"

/* Eight values from x, normalised where there is a norm. */
static inline __m256 load(const float *x, const float *norm, __m256 s)
{
    const __m256 v = _mm256_loadu_ps(x);
    return norm ? _mm256_mul_ps(_mm256_mul_ps(v, s), _mm256_loadu_ps(norm)) : v;
}

/* To nearest even by the magic number, cut to +-127; the operand order sends a NaN to -127. */
static inline __m256i to_integers(__m256 v, __m256 inverse)
{
    const __m256 round = _mm256_set1_ps(VMATH_ROUND);
    __m256 q = _mm256_max_ps(_mm256_mul_ps(v, inverse), _mm256_set1_ps(-127.0f));
    q = _mm256_min_ps(q, _mm256_set1_ps(127.0f));
    return _mm256_cvtps_epi32(_mm256_sub_ps(_mm256_add_ps(q, round), round));
}

static inline uint32_t largest_bits(const __m256 v[4])
{
    __m256i top = _mm256_setzero_si256();
    for (int i = 0; i < 4; i++)
        top = _mm256_max_epi32(top, _mm256_and_si256(_mm256_castps_si256(v[i]), _mm256_set1_epi32(0x7fffffff)));
    __m128i t = _mm_max_epi32(_mm256_castsi256_si128(top), _mm256_extracti128_si256(top, 1));
    t = _mm_max_epi32(t, _mm_shuffle_epi32(t, 0x4e));
    t = _mm_max_epi32(t, _mm_shuffle_epi32(t, 0xb1));
    return (uint32_t)_mm_cvtsi128_si32(t);
}

static inline int sum_of(__m256i a, __m256i b)
{
    const __m256i both = _mm256_add_epi32(a, b);
    __m128i t = _mm_add_epi32(_mm256_castsi256_si128(both), _mm256_extracti128_si256(both, 1));
    t = _mm_add_epi32(t, _mm_shuffle_epi32(t, 0x4e));
    t = _mm_add_epi32(t, _mm_shuffle_epi32(t, 0xb1));
    return _mm_cvtsi128_si32(t);
}

static inline void quant_block(const __m256 v[4], q8_block *out)
{
    const float top = vmath_float(largest_bits(v));
    const bool tiny = top < 0x1p-100f;
    const __m256 inverse = _mm256_set1_ps(tiny ? 0.0f : 127.0f / top);
    __m256i q[4];
    for (int i = 0; i < 4; i++)
        q[i] = to_integers(v[i], inverse);
    const int first = sum_of(q[0], q[1]), sum = first + sum_of(q[2], q[3]);
    /* The packs work within halves of 128 bits: the permutation puts the eight words of four back in order. */
    const __m256i bytes = _mm256_packs_epi16(_mm256_packs_epi32(q[0], q[1]), _mm256_packs_epi32(q[2], q[3]));
    _mm256_storeu_si256((__m256i *)out->q,
                        _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7)));
    out->scale = tiny ? 0.0f : top / 127.0f;
    out->sum = out->scale * (float)sum;
    out->offset[0] = -128 * sum;
    out->offset[1] = -128 * first;
}

static void prepare_row_f32(const float *x, int cols, const float *norm, float s, int rows, float *out)
{
    int k = 0;
    for (; k + 8 <= cols; k += 8) {
        float v[8];
        _mm256_storeu_ps(v, load(x + k, norm ? norm + k : NULL, _mm256_set1_ps(s)));
        for (int i = 0; i < 8; i++)
            out[(size_t)(k + i) * (size_t)rows] = v[i];
    }
    for (; k < cols; k++)
        out[(size_t)k * (size_t)rows] = norm ? (x[k] * s) * norm[k] : x[k];
}

void avx2_prepare_panel(activation_form form, const float *x, size_t stride, int rows, int cols, const float *norm,
                        float eps, void *panel)
{
    for (int r = 0; r < rows; r++) {
        const float *row = x + (size_t)r * stride;
        const float s = norm ? reduce_rms_scale(avx2_sum_squares(row, cols), cols, eps) : 1.0f;
        if (form == ACTIVATION_F32) {
            prepare_row_f32(row, cols, norm, s, rows, (float *)panel + r);
            continue;
        }
        q8_block *out = (q8_block *)panel + r;
        for (int k = 0; k < cols; k += 32, out += rows) {
            __m256 v[4];
            for (int i = 0; i < 4; i++)
                v[i] = load(row + k + 8 * i, norm ? norm + k + 8 * i : NULL, _mm256_set1_ps(s));
            quant_block(v, out);
        }
    }
}

static int tiles(const kernel_args *args)
{
    return quant_tiles(avx2_matmul_ops.panel, args);
}

static void run(const kernel_args *args, int tile, void *scratch)
{
    (void)scratch;
    quant_run(&avx2_matmul_ops, args, tile);
}

const kernel_impl avx2_quant = { .tiles = tiles, .run = run };
