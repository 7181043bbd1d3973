/* avx2_dot_scaled.c: weights with scales of their own (kernel/scaled.h): F8_E4M3 and e2m1 times rounded activations, I8
 * times int8, and all of them widened to f32: 8 weight rows x up to 4 rows.
 *
 * The sums of a block are kept in units of its scale, as kernel/cpu/matmul.h allows: codes are multiplied, not weights.
 * A code becomes an f16 of its value times a power of two by shifts and a mask, and passes through a buffer: converting
 * from memory spares the port that the shuffle of registers would take. Type, rows and groups are constants of each copy
 * of a body. Threads: any; no state.
 */
#include <immintrin.h>
#include <math.h>

#include "kernel/cpu/avx2_matmul.h"
#include "kernel/scaled.h"

enum { LANES = 8, ROWS = 4, PIECE = 16 };

/* An f16 made of a code holds 2^-shift of its value. */
MATMUL_TEMPLATE int code_shift(dtype type)
{
    return type == DTYPE_F8_E4M3 ? 8 : 14;
}

/* Bytes of `cols` columns of a group, a multiple of those in a vector. */
MATMUL_TEMPLATE size_t column_bytes(dtype type, int cols)
{
    return (size_t)(type == DTYPE_F8_E4M3 ? cols : cols / 2) * LANES;
}

MATMUL_TEMPLATE __m256i e8m0_bytes(const uint8_t *scales)
{
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)scales));
}

/* An e8m0 scale times 2^shift, and one over that, of ordinary scales (and of the zeros of padding, whose sums are
 * nothing). */
MATMUL_TEMPLATE __m256 ordinary_scale(__m256i bytes, int shift)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(bytes, _mm256_set1_epi32(shift)), 23));
}

MATMUL_TEMPLATE __m256 ordinary_inverse(__m256i bytes, int shift)
{
    return _mm256_castsi256_ps(
        _mm256_slli_epi32(_mm256_sub_epi32(_mm256_set1_epi32(254 - shift), bytes), 23));
}

MATMUL_TEMPLATE __m256i load_bytes(const uint8_t *p)
{
    return _mm256_loadu_si256((const __m256i *)p);
}

MATMUL_TEMPLATE void put_codes(uint16_t *out, __m256i v)
{
    _mm256_storeu_si256((__m256i *)out, v);
}

/* Four columns of e4m3 as f16 [4][lanes]. Byte to the top, one to the right with its sign, and the sign's copy out:
 * a load from one byte below brings the low bytes to the top. */
MATMUL_TEMPLATE void unpack_f8(const uint8_t *words, uint16_t *out)
{
    const __m256i keep = _mm256_set1_epi16((short)0xbf80);
    put_codes(out, _mm256_and_si256(_mm256_srai_epi16(load_bytes(words - 1), 1), keep));
    put_codes(out + 2 * LANES, _mm256_and_si256(_mm256_srai_epi16(load_bytes(words), 1), keep));
}

/* Eight columns of e2m1 in the same way: each nibble to the top, three to the right. */
MATMUL_TEMPLATE void unpack_fp4(const uint8_t *words, uint16_t *out)
{
    const __m256i keep = _mm256_set1_epi16((short)0x8e00);
    const __m256i high = load_bytes(words), low = load_bytes(words - 1);
    const __m256i top[4] = { _mm256_slli_epi16(low, 4), low, _mm256_slli_epi16(high, 4), high };
    MATMUL_UNROLL
    for (int i = 0; i < 4; i++)
        put_codes(out + 2 * i * LANES, _mm256_and_si256(_mm256_srai_epi16(top[i], 3), keep));
}

MATMUL_TEMPLATE __m256 load_f16(const uint16_t *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
}

MATMUL_TEMPLATE void scale_sums(int groups, int rows, const __m256 *by, __m256 *acc)
{
    MATMUL_UNROLL
    for (int i = 0; i < groups * rows; i++)
        acc[i] = _mm256_mul_ps(acc[i], by[i / rows]);
}

/* `n` columns (16, or what is left of the last block) from words[g] on. */
MATMUL_TEMPLATE void add_piece(dtype type, int groups, int rows, int n, const uint8_t *const *words,
                               size_t ahead, const float *x, __m256 *acc)
{
    const int step = type == DTYPE_F8_E4M3 ? 4 : 8;
    uint16_t codes[MATMUL_STREAMS][PIECE * LANES] __attribute__((aligned(32)));
    MATMUL_UNROLL
    for (int g = 0; g < groups; g++) {
        MATMUL_UNROLL
        for (int k = 0; k < PIECE; k += step) {
            if (k < n && type == DTYPE_F8_E4M3)
                unpack_f8(words[g] + column_bytes(type, k), codes[g] + k * LANES);
            else if (k < n)
                unpack_fp4(words[g] + column_bytes(type, k), codes[g] + k * LANES);
        }
        _mm_prefetch((const char *)words[g] + ahead, _MM_HINT_T0);
        if (type == DTYPE_F8_E4M3)
            _mm_prefetch((const char *)words[g] + ahead + 64, _MM_HINT_T0);
    }
    __asm__ volatile("" : : "r"(codes) : "memory"); /* through memory indeed */
    MATMUL_UNROLL_MOST
    for (int k = 0; k < n; k++) {
        __m256 column[MATMUL_STREAMS];
        MATMUL_UNROLL
        for (int g = 0; g < groups; g++)
            column[g] = load_f16(codes[g] + k * LANES);
        MATMUL_UNROLL
        for (int r = 0; r < rows; r++) {
            const __m256 xr = _mm256_set1_ps(x[k * rows + r]);
            MATMUL_UNROLL
            for (int g = 0; g < groups; g++)
                acc[g * rows + r] = _mm256_fmadd_ps(column[g], xr, acc[g * rows + r]);
        }
    }
}

/* The template of both float types: groups x rows accumulators over all columns. */
MATMUL_TEMPLATE void dot_float(dtype type, int groups, int rows, const uint8_t *const *w,
                               const matmul_dot *job, float *y)
{
    const int block = type == DTYPE_F8_E4M3 ? SCALED_F8_COLS : SCALED_FP4_COLS;
    const float *x = job->x;
    __m256 acc[MATMUL_STREAMS * ROWS];
    MATMUL_UNROLL
    for (int i = 0; i < groups * rows; i++)
        acc[i] = _mm256_load_ps(y + i * LANES);
    for (int first = 0; first < job->cols; first += block) {
        const int n = job->cols - first < block ? job->cols - first : block;
        const uint8_t *words[MATMUL_STREAMS];
        __m256 scale[MATMUL_STREAMS], inverse[MATMUL_STREAMS];
        MATMUL_UNROLL
        for (int g = 0; g < groups; g++) {
            const __m256i bytes = e8m0_bytes(scaled_scales(type, LANES, w[g], first / block));
            words[g] = scaled_words(type, LANES, w[g], first / block);
            scale[g] = ordinary_scale(bytes, code_shift(type));
            inverse[g] = ordinary_inverse(bytes, code_shift(type));
        }
        scale_sums(groups, rows, inverse, acc);
        int k = 0;
        for (; k + PIECE <= n; k += PIECE, x += PIECE * rows) {
            add_piece(type, groups, rows, PIECE, words, job->ahead, x, acc);
            MATMUL_UNROLL
            for (int g = 0; g < groups; g++)
                words[g] += column_bytes(type, PIECE);
        }
        if (k < n)
            add_piece(type, groups, rows, n - k, words, 0, x, acc);
        scale_sums(groups, rows, scale, acc);
    }
    MATMUL_UNROLL
    for (int i = 0; i < groups * rows; i++)
        _mm256_store_ps(y + i * LANES, acc[i]);
}

MATMUL_TEMPLATE void dot_f8(int groups, int rows, const uint8_t *const *w, const matmul_dot *job, float *y)
{
    dot_float(DTYPE_F8_E4M3, groups, rows, w, job, y);
}

MATMUL_TEMPLATE void dot_fp4(int groups, int rows, const uint8_t *const *w, const matmul_dot *job, float *y)
{
    dot_float(DTYPE_F4_E2M1, groups, rows, w, job, y);
}

/* The whole row at once. |w| times x with w's sign: two products of at most 128 * 127 fit an i16. */
MATMUL_TEMPLATE void dot_i8(int groups, int rows, const uint8_t *const *w, const matmul_dot *job, float *y)
{
    const i8_head *head = job->x;
    const uint8_t *x = (const uint8_t *)(head + rows);
    __m256i sum[MATMUL_STREAMS * ROWS];
    MATMUL_UNROLL
    for (int i = 0; i < groups * rows; i++)
        sum[i] = _mm256_setzero_si256();
    for (int k = 0; k < job->cols; k += 4, x += 4 * rows) {
        MATMUL_UNROLL
        for (int g = 0; g < groups; g++) {
            const uint8_t *at = w[g] + SCALED_HEADER + (size_t)k * LANES;
            const __m256i column = load_bytes(at), size = _mm256_abs_epi8(column);
            _mm_prefetch((const char *)at + job->ahead, _MM_HINT_T0);
            MATMUL_UNROLL
            for (int r = 0; r < rows; r++) {
                int32_t word;
                __builtin_memcpy(&word, x + 4 * r, 4);
                const __m256i pairs =
                    _mm256_maddubs_epi16(size, _mm256_sign_epi8(_mm256_set1_epi32(word), column));
                sum[g * rows + r] =
                    _mm256_add_epi32(sum[g * rows + r], _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
            }
        }
    }
    MATMUL_UNROLL
    for (int i = 0; i < groups * rows; i++) {
        const __m256 scale = _mm256_loadu_ps((const float *)(const void *)w[i / rows]);
        const __m256 by = _mm256_set1_ps(head[i % rows].scale);
        _mm256_store_ps(y + i * LANES, _mm256_mul_ps(_mm256_mul_ps(_mm256_cvtepi32_ps(sum[i]), by), scale));
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
    void avx2_dot_##name(const matmul_dot *job)                                                              \
    {                                                                                                        \
        switch (job->rows) {                                                                                 \
            ROWS(name, 1, 4, 2)                                                                              \
            ROWS(name, 2, 4, 2)                                                                              \
            ROWS(name, 3, 2, 1)                                                                              \
            ROWS(name, 4, 2, 1)                                                                              \
        }                                                                                                    \
    }

DEFINE_DOT(f8)
DEFINE_DOT(fp4)
DEFINE_DOT(i8)

/* ---- widened ---- */

/* Any e8m0 scales. */
static __m256 any_scale(const uint8_t *scales)
{
    const __m256i bytes = e8m0_bytes(scales), least = _mm256_set1_epi32(0x400000); /* 2^-127 */
    const __m256i bits = _mm256_max_epu32(_mm256_slli_epi32(bytes, 23), least);
    const __m256i nan = _mm256_cmpeq_epi32(bytes, _mm256_set1_epi32(255));
    return _mm256_castsi256_ps(_mm256_or_si256(bits, _mm256_and_si256(nan, least)));
}

/* Any codes from their f16; an e4m3 NaN looks like 480. */
static __m256 any_code(dtype type, const uint16_t *p)
{
    const __m256 v = _mm256_mul_ps(load_f16(p), _mm256_set1_ps(type == DTYPE_F8_E4M3 ? 0x1p8f : 0x1p14f));
    const __m256 size = _mm256_andnot_ps(_mm256_set1_ps(-0.0f), v);
    return _mm256_blendv_ps(v, _mm256_set1_ps(NAN), _mm256_cmp_ps(size, _mm256_set1_ps(480), _CMP_EQ_OQ));
}

static void widen_i8(const uint8_t *group, int first, int last, float *out)
{
    const __m256 scale = _mm256_loadu_ps((const float *)(const void *)group);
    for (int k = first; k < last; k++, out += LANES) {
        const __m256i word = load_bytes(group + SCALED_HEADER + (size_t)(k / 4) * 32);
        const __m256i top = _mm256_sll_epi32(word, _mm_cvtsi32_si128(24 - k % 4 * 8));
        _mm256_storeu_ps(out, _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_srai_epi32(top, 24)), scale));
    }
}

static void widen_float(dtype type, const uint8_t *group, int first, int last, float *out)
{
    const int block = scaled_block_cols(type), step = type == DTYPE_F8_E4M3 ? 4 : 8;
    for (int k = first; k < last;) {
        const int b = k / block, end = (b + 1) * block < last ? (b + 1) * block : last;
        const uint8_t *words = scaled_words(type, LANES, group, b) + column_bytes(type, k % block);
        const __m256 scale = any_scale(scaled_scales(type, LANES, group, b));
        for (; k < end; k += step, words += 32) {
            uint16_t codes[8 * LANES];
            if (type == DTYPE_F8_E4M3)
                unpack_f8(words, codes);
            else
                unpack_fp4(words, codes);
            for (int i = 0; i < step && k + i < end; i++, out += LANES)
                _mm256_storeu_ps(out, _mm256_mul_ps(any_code(type, codes + i * LANES), scale));
        }
    }
}

void avx2_widen_scaled(dtype type, const uint8_t *group, int first, int last, float *out)
{
    if (type == DTYPE_I8)
        widen_i8(group, first, last, out);
    else
        widen_float(type, group, first, last, out);
}
