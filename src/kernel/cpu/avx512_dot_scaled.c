/* avx512_dot_scaled.c: weights with scales of their own (kernel/scaled.h): F8_E4M3 and e2m1 times rounded activations,
 * I8 times int8, and all of them widened to f32: 16 weight rows x up to 8 rows.
 *
 * The sums of a block are kept in units of its scale, as kernel/cpu/matmul.h allows: codes are multiplied, not weights.
 * An e4m3 code becomes an f16 of 2^-8 its value by a shift and a mask, two codes at a time, and passes through a buffer:
 * converting from memory spares the port that the shuffle of registers would take. An e2m1 code indexes a register of
 * sixteen floats. Type, rows and groups are constants of each copy of a body. Threads: any; no state.
 */
#include <immintrin.h>
#include <math.h>

#include "kernel/cpu/avx512_matmul.h"
#include "kernel/scaled.h"

enum { LANES = 16, F8_SHIFT = 8 /* f16 of an e4m3 code: 2^-8 its value */, PIECE = 16 };

MATMUL_TEMPLATE __m512 e2m1_values(void)
{
    return _mm512_setr_ps(0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6);
}

MATMUL_TEMPLATE __m512i e8m0_bytes(const uint8_t *scales)
{
    return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)scales));
}

/* An e8m0 scale times 2^shift, and one over that, of ordinary scales (and of the zeros of padding, whose sums are
 * nothing). */
MATMUL_TEMPLATE __m512 ordinary_scale(__m512i bytes, int shift)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_add_epi32(bytes, _mm512_set1_epi32(shift)), 23));
}

MATMUL_TEMPLATE __m512 ordinary_inverse(__m512i bytes, int shift)
{
    return _mm512_castsi512_ps(
        _mm512_slli_epi32(_mm512_sub_epi32(_mm512_set1_epi32(254 - shift), bytes), 23));
}

/* Four columns of e4m3 as f16 [4][lanes]. Byte to the top, one to the right with its sign, and the sign's copy out:
 * a load from one byte below brings the low bytes to the top. */
MATMUL_TEMPLATE void unpack_f8(const uint8_t *words, uint16_t *out)
{
    const __m512i keep = _mm512_set1_epi16((short)0xbf80);
    const __m512i low = _mm512_loadu_si512(words - 1), high = _mm512_loadu_si512(words);
    _mm512_storeu_si512(out, _mm512_and_si512(_mm512_srai_epi16(low, 1), keep));
    _mm512_storeu_si512(out + 2 * LANES, _mm512_and_si512(_mm512_srai_epi16(high, 1), keep));
}

MATMUL_TEMPLATE __m512 load_f16(const uint16_t *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}

MATMUL_TEMPLATE void scale_sums(int groups, int rows, const __m512 *by, __m512 *acc)
{
    MATMUL_UNROLL
    for (int i = 0; i < groups * rows; i++)
        acc[i] = _mm512_mul_ps(acc[i], by[i / rows]);
}

/* One column of each group times the rows. */
MATMUL_TEMPLATE void add_column(int groups, int rows, const __m512 *column, const float *x, __m512 *acc)
{
    MATMUL_UNROLL
    for (int r = 0; r < rows; r++) {
        const __m512 xr = _mm512_set1_ps(x[r]);
        MATMUL_UNROLL
        for (int g = 0; g < groups; g++)
            acc[g * rows + r] = _mm512_fmadd_ps(column[g], xr, acc[g * rows + r]);
    }
}

/* `n` columns (16, or what is left of the last block) of F8 from words[g] on. */
MATMUL_TEMPLATE void add_piece_f8(int groups, int rows, int n, const uint8_t *const *words, size_t ahead,
                                  const float *x, __m512 *acc)
{
    uint16_t codes[MATMUL_STREAMS][PIECE * LANES] __attribute__((aligned(64)));
    MATMUL_UNROLL
    for (int g = 0; g < groups; g++) {
        MATMUL_UNROLL
        for (int j = 0; j < PIECE / 4; j++) {
            if (4 * j < n)
                unpack_f8(words[g] + 64 * j, codes[g] + 4 * j * LANES);
            _mm_prefetch((const char *)words[g] + 64 * j + ahead, _MM_HINT_T0);
        }
    }
    __asm__ volatile("" : : "r"(codes) : "memory"); /* through memory indeed */
    MATMUL_UNROLL_MOST
    for (int k = 0; k < n; k++) {
        __m512 column[MATMUL_STREAMS];
        MATMUL_UNROLL
        for (int g = 0; g < groups; g++)
            column[g] = load_f16(codes[g] + k * LANES);
        add_column(groups, rows, column, x + k * rows, acc);
    }
}

MATMUL_TEMPLATE void dot_f8(int groups, int rows, const uint8_t *const *w, const matmul_dot *job, float *y)
{
    const float *x = job->x;
    __m512 acc[MATMUL_STREAMS * MATMUL_MAX_PANEL];
    MATMUL_UNROLL
    for (int i = 0; i < groups * rows; i++)
        acc[i] = _mm512_load_ps(y + i * LANES);
    for (int first = 0; first < job->cols; first += SCALED_F8_COLS) {
        const int b = first / SCALED_F8_COLS, left = job->cols - first;
        const int n = left < SCALED_F8_COLS ? left : SCALED_F8_COLS;
        const uint8_t *words[MATMUL_STREAMS];
        __m512 scale[MATMUL_STREAMS], inverse[MATMUL_STREAMS];
        MATMUL_UNROLL
        for (int g = 0; g < groups; g++) {
            const __m512i bytes = e8m0_bytes(scaled_scales(DTYPE_F8_E4M3, LANES, w[g], b));
            words[g] = scaled_words(DTYPE_F8_E4M3, LANES, w[g], b);
            scale[g] = ordinary_scale(bytes, F8_SHIFT);
            inverse[g] = ordinary_inverse(bytes, F8_SHIFT);
        }
        scale_sums(groups, rows, inverse, acc);
        int k = 0;
        for (; k + PIECE <= n; k += PIECE, x += PIECE * rows) {
            add_piece_f8(groups, rows, PIECE, words, job->ahead, x, acc);
            MATMUL_UNROLL
            for (int g = 0; g < groups; g++)
                words[g] += PIECE * LANES;
        }
        if (k < n)
            add_piece_f8(groups, rows, n - k, words, 0, x, acc);
        scale_sums(groups, rows, scale, acc);
    }
    MATMUL_UNROLL
    for (int i = 0; i < groups * rows; i++)
        _mm512_store_ps(y + i * LANES, acc[i]);
}

/* The codes of column i (of 8) at the bottom of each 32-bit lane. A load from some bytes above does most shifts, but not
 * where it would read behind the block. */
MATMUL_TEMPLATE __m512i e2m1_codes(const uint8_t *words, int i, bool last)
{
    if (last)
        return _mm512_srli_epi32(_mm512_loadu_si512(words), (unsigned)(4 * i));
    const __m512i v = _mm512_loadu_si512(words + i / 2);
    return i % 2 ? _mm512_srli_epi32(v, 4) : v;
}

/* Eight columns from word j of each block on. */
MATMUL_TEMPLATE void add_piece_fp4(int groups, int rows, int n, const uint8_t *const *words, bool last,
                                   const float *x, __m512 *acc)
{
    MATMUL_UNROLL
    for (int i = 0; i < 8; i++) {
        __m512 column[MATMUL_STREAMS];
        if (i >= n)
            break;
        MATMUL_UNROLL
        for (int g = 0; g < groups; g++)
            column[g] = _mm512_permutexvar_ps(e2m1_codes(words[g], i, last), e2m1_values());
        add_column(groups, rows, column, x + i * rows, acc);
    }
}

MATMUL_TEMPLATE void dot_fp4(int groups, int rows, const uint8_t *const *w, const matmul_dot *job, float *y)
{
    const float *x = job->x;
    __m512 acc[MATMUL_STREAMS * MATMUL_MAX_PANEL];
    MATMUL_UNROLL
    for (int i = 0; i < groups * rows; i++)
        acc[i] = _mm512_load_ps(y + i * LANES);
    for (int first = 0; first < job->cols; first += SCALED_FP4_COLS) {
        const int b = first / SCALED_FP4_COLS, left = job->cols - first;
        const uint8_t *words[MATMUL_STREAMS];
        __m512 scale[MATMUL_STREAMS], inverse[MATMUL_STREAMS];
        MATMUL_UNROLL
        for (int g = 0; g < groups; g++) {
            const __m512i bytes = e8m0_bytes(scaled_scales(DTYPE_F4_E2M1, LANES, w[g], b));
            words[g] = scaled_words(DTYPE_F4_E2M1, LANES, w[g], b);
            scale[g] = ordinary_scale(bytes, 0);
            inverse[g] = ordinary_inverse(bytes, 0);
            MATMUL_UNROLL
            for (int line = 0; line < 4; line++)
                _mm_prefetch((const char *)words[g] + 64 * line + job->ahead, _MM_HINT_T0);
        }
        scale_sums(groups, rows, inverse, acc);
        if (left >= SCALED_FP4_COLS) {
            MATMUL_UNROLL
            for (int j = 0; j < 4; j++) {
                const uint8_t *at[MATMUL_STREAMS];
                MATMUL_UNROLL
                for (int g = 0; g < groups; g++)
                    at[g] = words[g] + 64 * j;
                add_piece_fp4(groups, rows, 8, at, j == 3, x + 8 * j * rows, acc);
            }
            x += SCALED_FP4_COLS * rows;
        } else {
            for (int k = 0; k < left; k += 8, x += 8 * rows) {
                add_piece_fp4(groups, rows, left - k, words, true, x, acc);
                for (int g = 0; g < groups; g++)
                    words[g] += 64;
            }
        }
        scale_sums(groups, rows, scale, acc);
    }
    MATMUL_UNROLL
    for (int i = 0; i < groups * rows; i++)
        _mm512_store_ps(y + i * LANES, acc[i]);
}

/* The whole row at once: integers wrap around, their sum without the weights' + 128 fits again. */
MATMUL_TEMPLATE void dot_i8(int groups, int rows, const uint8_t *const *w, const matmul_dot *job, float *y)
{
    const i8_head *head = job->x;
    const uint8_t *x = (const uint8_t *)(head + rows);
    __m512i sum[MATMUL_STREAMS * MATMUL_MAX_PANEL];
    MATMUL_UNROLL
    for (int i = 0; i < groups * rows; i++)
        sum[i] = _mm512_set1_epi32(head[i % rows].offset);
    for (int k = 0; k < job->cols; k += 4, x += 4 * rows) {
        __m512i column[MATMUL_STREAMS];
        MATMUL_UNROLL
        for (int g = 0; g < groups; g++) {
            const uint8_t *at = w[g] + SCALED_HEADER + (size_t)k * LANES;
            column[g] = _mm512_loadu_si512(at);
            _mm_prefetch((const char *)at + job->ahead, _MM_HINT_T0);
        }
        MATMUL_UNROLL
        for (int r = 0; r < rows; r++) {
            int32_t word;
            __builtin_memcpy(&word, x + 4 * r, 4);
            const __m512i four = _mm512_set1_epi32(word);
            MATMUL_UNROLL
            for (int g = 0; g < groups; g++)
                sum[g * rows + r] = _mm512_dpbusd_epi32(sum[g * rows + r], column[g], four);
        }
    }
    MATMUL_UNROLL
    for (int i = 0; i < groups * rows; i++) {
        const __m512 by = _mm512_set1_ps(head[i % rows].scale);
        _mm512_store_ps(y + i * LANES, _mm512_mul_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(sum[i]), by),
                                                     _mm512_loadu_ps(w[i / rows])));
    }
}

/* `many` groups at once, as many as the registers hold beside their rows; then `some`, then one by one. */
#define ROWS(name, n, many, some)                                                                            \
    case n: {                                                                                                \
        int g = 0;                                                                                           \
        for (; g + many <= job->groups; g += many)                                                           \
            dot_##name(many, n, job->w + g, job, job->y + g * n * LANES);                                    \
        for (; some < many && g + some <= job->groups; g += some)                                            \
            dot_##name(some < many ? some : 1, n, job->w + g, job, job->y + g * n * LANES);                  \
        for (; some > 1 && g < job->groups; g++)                                                             \
            dot_##name(1, n, job->w + g, job, job->y + g * n * LANES);                                       \
        break;                                                                                               \
    }

#define DEFINE_DOT(name)                                                                                     \
    void avx512_dot_##name(const matmul_dot *job)                                                            \
    {                                                                                                        \
        switch (job->rows) {                                                                                 \
            ROWS(name, 1, 4, 2)                                                                              \
            ROWS(name, 2, 4, 2)                                                                              \
            ROWS(name, 3, 2, 1)                                                                              \
            ROWS(name, 4, 2, 1)                                                                              \
            ROWS(name, 5, 2, 1)                                                                              \
            ROWS(name, 6, 2, 1)                                                                              \
            ROWS(name, 7, 2, 1)                                                                              \
            ROWS(name, 8, 2, 1)                                                                              \
        }                                                                                                    \
    }

DEFINE_DOT(f8)
DEFINE_DOT(fp4)
DEFINE_DOT(i8)

/* ---- widened ---- */

/* Any e8m0 scales. */
static __m512 any_scale(const uint8_t *scales)
{
    const __m512i bytes = e8m0_bytes(scales), least = _mm512_set1_epi32(0x400000); /* 2^-127 */
    const __m512i bits = _mm512_max_epu32(_mm512_slli_epi32(bytes, 23), least);
    const __mmask16 nan = _mm512_cmpeq_epi32_mask(bytes, _mm512_set1_epi32(255));
    return _mm512_castsi512_ps(_mm512_mask_or_epi32(bits, nan, bits, least));
}

/* Any e4m3 codes from their f16. */
static __m512 any_e4m3(const uint16_t *p)
{
    const __m512 v = _mm512_mul_ps(load_f16(p), _mm512_set1_ps(0x1p8f));
    const __mmask16 nan = _mm512_cmp_ps_mask(_mm512_abs_ps(v), _mm512_set1_ps(480), _CMP_EQ_OQ);
    return _mm512_mask_blend_ps(nan, v, _mm512_set1_ps(NAN));
}

static void widen_i8(const uint8_t *group, int first, int last, float *out)
{
    const __m512 scale = _mm512_loadu_ps(group), centre = _mm512_set1_ps(128);
    for (int k = first; k < last; k++, out += LANES) {
        const __m512i word = _mm512_loadu_si512(group + SCALED_HEADER + (size_t)(k / 4) * 64);
        const __m512i byte =
            _mm512_and_si512(_mm512_srl_epi32(word, _mm_cvtsi32_si128(k % 4 * 8)), _mm512_set1_epi32(255));
        _mm512_storeu_ps(out, _mm512_mul_ps(_mm512_sub_ps(_mm512_cvtepi32_ps(byte), centre), scale));
    }
}

static void widen_f8(const uint8_t *group, int first, int last, float *out)
{
    for (int k = first; k < last;) {
        const int b = k / SCALED_F8_COLS,
                  end = (b + 1) * SCALED_F8_COLS < last ? (b + 1) * SCALED_F8_COLS : last;
        const uint8_t *words = scaled_words(DTYPE_F8_E4M3, LANES, group, b) + k % SCALED_F8_COLS * LANES;
        const __m512 scale = any_scale(scaled_scales(DTYPE_F8_E4M3, LANES, group, b));
        for (; k < end; k += 4, words += 64) {
            uint16_t codes[4 * LANES];
            unpack_f8(words, codes);
            for (int i = 0; i < 4 && k + i < end; i++, out += LANES)
                _mm512_storeu_ps(out, _mm512_mul_ps(any_e4m3(codes + i * LANES), scale));
        }
    }
}

static void widen_fp4(const uint8_t *group, int first, int last, float *out)
{
    for (int k = first; k < last;) {
        const int b = k / SCALED_FP4_COLS;
        const int end = (b + 1) * SCALED_FP4_COLS < last ? (b + 1) * SCALED_FP4_COLS : last;
        const uint8_t *words = scaled_words(DTYPE_F4_E2M1, LANES, group, b);
        const __m512 scale = any_scale(scaled_scales(DTYPE_F4_E2M1, LANES, group, b));
        for (; k < end; k += 8, words += 64) {
            MATMUL_UNROLL
            for (int i = 0; i < 8; i++) {
                if (k + i >= end)
                    break;
                const __m512 code = _mm512_permutexvar_ps(e2m1_codes(words, i, true), e2m1_values());
                _mm512_storeu_ps(out, _mm512_mul_ps(code, scale));
                out += LANES;
            }
        }
    }
}

void avx512_widen_scaled(dtype type, const uint8_t *group, int first, int last, float *out)
{
    if (type == DTYPE_I8)
        widen_i8(group, first, last, out);
    else if (type == DTYPE_F8_E4M3)
        widen_f8(group, first, last, out);
    else
        widen_fp4(group, first, last, out);
}
