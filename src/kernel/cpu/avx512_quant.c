/* avx512_quant.c: RMSNorm and activations in the form that weights want, as kernel/ref/quant.c defines it.
 *
 * A panel of up to 8 rows at a time, each row in one pass (two with a norm). Four blocks go together: their maxima
 * and sums are found by transposing, their divisions are one. The hardware's conversion rounds to nearest even,
 * which is what the reference does by its magic number. Threads: any; no state.
 */
#include <immintrin.h>

#include "kernel/cpu/avx512_matmul.h"
#include "kernel/cpu/avx512_reduce.h"
#include "kernel/cpu/avx512_round.h"
#include "kernel/cpu/entries.h"

enum { BATCH = 4, BLOCK = 32, GROUP = 128 /* of F8 */ };

/* Sixteen values from x, normalised where there is a norm. */
MATMUL_TEMPLATE __m512 load(const float *x, const float *norm, __m512 s, __mmask16 mask)
{
    const __m512 v = _mm512_maskz_loadu_ps(mask, x);
    return norm ? _mm512_mul_ps(_mm512_mul_ps(v, s), _mm512_maskz_loadu_ps(mask, norm)) : v;
}

/* The largest of sixteen numbers, in four candidates. */
MATMUL_TEMPLATE __m128i four_candidates(__m512i v)
{
    const __m256i eight = _mm256_max_epi32(_mm512_castsi512_si256(v), _mm512_extracti64x4_epi64(v, 1));
    return _mm_max_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
}

/* {max of a, of b, of c, of d} */
MATMUL_TEMPLATE __m128i max_of_each(__m128i a, __m128i b, __m128i c, __m128i d)
{
    const __m128i ab = _mm_max_epi32(_mm_unpacklo_epi32(a, b), _mm_unpackhi_epi32(a, b));
    const __m128i cd = _mm_max_epi32(_mm_unpacklo_epi32(c, d), _mm_unpackhi_epi32(c, d));
    return _mm_max_epi32(_mm_unpacklo_epi64(ab, cd), _mm_unpackhi_epi64(ab, cd));
}

/* The same for sums, in both halves. */
MATMUL_TEMPLATE __m256i sum_of_each(const __m256i v[BATCH])
{
    const __m256i ab = _mm256_add_epi32(_mm256_unpacklo_epi32(v[0], v[1]), _mm256_unpackhi_epi32(v[0], v[1]));
    const __m256i cd = _mm256_add_epi32(_mm256_unpacklo_epi32(v[2], v[3]), _mm256_unpackhi_epi32(v[2], v[3]));
    return _mm256_add_epi32(_mm256_unpacklo_epi64(ab, cd), _mm256_unpackhi_epi64(ab, cd));
}

/* Operand order: a product that is a NaN becomes -127. */
MATMUL_TEMPLATE __m512i to_integers(__m512 v, __m512 inverse)
{
    return _mm512_cvtps_epi32(_mm512_max_ps(_mm512_mul_ps(v, inverse), _mm512_set1_ps(-127.0f)));
}

/* Two blocks' integers {a, b} and {c, d} as bytes. The packs work within 128 bits: the permutation puts them in order. */
MATMUL_TEMPLATE __m512i to_bytes(__m512i a, __m512i b, __m512i c, __m512i d)
{
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    return _mm512_permutexvar_epi32(order,
                                    _mm512_packs_epi16(_mm512_packs_epi32(a, b), _mm512_packs_epi32(c, d)));
}

/* Four blocks v[2 i], v[2 i + 1]; block i goes to out[i * stride]. */
MATMUL_TEMPLATE void quant_batch(const __m512 v[2 * BATCH], q8_block *out, int stride)
{
    const __m512i magnitude = _mm512_set1_epi32(0x7fffffff);
    __m128i largest[BATCH];
    MATMUL_UNROLL
    for (int i = 0; i < BATCH; i++)
        largest[i] =
            four_candidates(_mm512_max_epi32(_mm512_and_si512(_mm512_castps_si512(v[2 * i]), magnitude),
                                             _mm512_and_si512(_mm512_castps_si512(v[2 * i + 1]), magnitude)));
    const __m128 top = _mm_castsi128_ps(max_of_each(largest[0], largest[1], largest[2], largest[3]));
    const __m128 tiny = _mm_cmplt_ps(top, _mm_set1_ps(0x1p-100f)), most = _mm_set1_ps(127.0f);
    const __m128 scale = _mm_andnot_ps(tiny, _mm_div_ps(top, most));
    const __m512 inverse = _mm512_castps128_ps512(_mm_andnot_ps(tiny, _mm_div_ps(most, top)));

    __m256i bytes[BATCH], sums[BATCH];
    MATMUL_UNROLL
    for (int i = 0; i < BATCH; i += 2) {
        const __m512 first = _mm512_permutexvar_ps(_mm512_set1_epi32(i), inverse);
        const __m512 second = _mm512_permutexvar_ps(_mm512_set1_epi32(i + 1), inverse);
        const __m512i both = to_bytes(to_integers(v[2 * i], first), to_integers(v[2 * i + 1], first),
                                      to_integers(v[2 * i + 2], second), to_integers(v[2 * i + 3], second));
        bytes[i] = _mm512_castsi512_si256(both);
        bytes[i + 1] = _mm512_extracti64x4_epi64(both, 1);
    }
    MATMUL_UNROLL
    for (int i = 0; i < BATCH; i++)
        sums[i] = _mm256_dpbusd_epi32(_mm256_setzero_si256(), _mm256_set1_epi8(1), bytes[i]);
    const __m256i halves = sum_of_each(sums);
    const __m128i first = _mm256_castsi256_si128(halves);
    const __m128i whole = _mm_add_epi32(first, _mm256_extracti128_si256(halves, 1)),
                  zero = _mm_setzero_si128();
    __m128 scales = scale, sum = _mm_mul_ps(scale, _mm_cvtepi32_ps(whole));
    __m128 offset = _mm_castsi128_ps(_mm_slli_epi32(_mm_sub_epi32(zero, whole), 7));
    __m128 offset_first = _mm_castsi128_ps(_mm_slli_epi32(_mm_sub_epi32(zero, first), 7));
    _MM_TRANSPOSE4_PS(scales, sum, offset, offset_first);
    const __m128 rest[BATCH] = { scales, sum, offset, offset_first }; /* now one block each */
    MATMUL_UNROLL
    for (int i = 0; i < BATCH; i++) {
        _mm256_storeu_si256((__m256i *)out[i * stride].q, bytes[i]);
        _mm_storeu_ps(&out[i * stride].scale, rest[i]);
    }
}

static void prepare_row_q8(const float *x, int cols, const float *norm, __m512 s, q8_block *out, int stride)
{
    const __mmask16 all = 0xffff;
    __m512 v[2 * BATCH];
    int k = 0;
    for (; k + BATCH * BLOCK <= cols; k += BATCH * BLOCK, out += BATCH * stride) {
        MATMUL_UNROLL
        for (int i = 0; i < 2 * BATCH; i++)
            v[i] = load(x + k + 16 * i, norm ? norm + k + 16 * i : NULL, s, all);
        quant_batch(v, out, stride);
    }
    if (k == cols)
        return;
    q8_block last[BATCH]; /* fewer than four blocks are left */
    for (int i = 0; i < 2 * BATCH; i++)
        v[i] = k + 16 * i < cols ? load(x + k + 16 * i, norm ? norm + k + 16 * i : NULL, s, all)
                                 : _mm512_setzero_ps();
    quant_batch(v, last, 1);
    for (int i = 0; k + BLOCK * i < cols; i++)
        out[i * stride] = last[i];
}

/* Eight columns of eight rows, turned: out [8 columns][8 rows]. */
MATMUL_TEMPLATE void turn_eight(const __m256 row[8], float *out)
{
    __m256 pair[8], quad[8];
    MATMUL_UNROLL
    for (int i = 0; i < 8; i += 2) {
        pair[i] = _mm256_unpacklo_ps(row[i], row[i + 1]);
        pair[i + 1] = _mm256_unpackhi_ps(row[i], row[i + 1]);
    }
    MATMUL_UNROLL
    for (int i = 0; i < 8; i += 4) {
        quad[i] = _mm256_shuffle_ps(pair[i], pair[i + 2], 0x44);
        quad[i + 1] = _mm256_shuffle_ps(pair[i], pair[i + 2], 0xee);
        quad[i + 2] = _mm256_shuffle_ps(pair[i + 1], pair[i + 3], 0x44);
        quad[i + 3] = _mm256_shuffle_ps(pair[i + 1], pair[i + 3], 0xee);
    }
    MATMUL_UNROLL
    for (int i = 0; i < 4; i++) { /* columns i and i + 4 share a register so far */
        _mm256_storeu_ps(out + 8 * i, _mm256_permute2f128_ps(quad[i], quad[i + 4], 0x20));
        _mm256_storeu_ps(out + 8 * (i + 4), _mm256_permute2f128_ps(quad[i], quad[i + 4], 0x31));
    }
}

/* The first columns of a whole panel of f32, as many as go by eight. Returns how many. */
static int prepare_eight_rows(const float *x, size_t stride, int cols, const float *norm, const float s[8],
                              float *out)
{
    int k = 0;
    for (; k + 8 <= cols; k += 8, out += 64) {
        __m256 row[8];
        MATMUL_UNROLL
        for (int r = 0; r < 8; r++) {
            row[r] = _mm256_loadu_ps(x + (size_t)r * stride + k);
            if (norm)
                row[r] =
                    _mm256_mul_ps(_mm256_mul_ps(row[r], _mm256_set1_ps(s[r])), _mm256_loadu_ps(norm + k));
        }
        turn_eight(row, out);
    }
    return k;
}

/* Sixteen columns (or those in mask) of one row of a panel of f32. */
MATMUL_TEMPLATE void put_columns(float *out, int rows, __mmask16 mask, __m512 v)
{
    const __m512i place = _mm512_mullo_epi32(
        _mm512_set1_epi32(rows), _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
    if (rows == 1)
        _mm512_mask_storeu_ps(out, mask, v);
    else
        _mm512_mask_i32scatter_ps(out, mask, place, v, 4);
}

static __mmask16 mask_of(int left)
{
    return left >= 16 ? 0xffff : left > 0 ? avx512_mask_below(left) : 0;
}

/* Columns from `first` on of one row of a panel of f32. */
static void prepare_row_f32(const float *x, int first, int cols, const float *norm, __m512 s, float *out,
                            int rows)
{
    for (int k = first; k < cols; k += 16) {
        const __mmask16 mask = mask_of(cols - k);
        put_columns(out + (size_t)k * (size_t)rows, rows, mask, load(x + k, norm ? norm + k : NULL, s, mask));
    }
}

/* Columns [k, k + 128) of a row, rounded. */
static void round_group(const float *x, int k, int cols, const float *norm, __m512 s, __m512 v[GROUP / 16])
{
    for (int i = 0; i < GROUP / 16; i++) {
        const int at = k + 16 * i;
        v[i] = load(x + at, norm ? norm + at : NULL, s, mask_of(cols - at));
    }
    avx512_round_group_f8(v, GROUP / 16);
}

static void prepare_row_f8(const float *x, int cols, const float *norm, __m512 s, float *out, int rows)
{
    for (int k = 0; k < cols; k += GROUP) {
        __m512 v[GROUP / 16];
        round_group(x, k, cols, norm, s, v);
        for (int i = 0; i < GROUP / 16 && k + 16 * i < cols; i++)
            put_columns(out + (size_t)(k + 16 * i) * (size_t)rows, rows, mask_of(cols - k - 16 * i), v[i]);
    }
}

/* A whole panel: eight rows are rounded beside each other, then turned. */
static void prepare_panel_f8(const float *x, size_t stride, int rows, int cols, const float *norm,
                             const float s[8], float *out)
{
    int k = 0;
    for (; rows == 8 && k + GROUP <= cols; k += GROUP) {
        float rounded[8][GROUP];
        for (int r = 0; r < 8; r++) {
            __m512 v[GROUP / 16];
            round_group(x + (size_t)r * stride, k, cols, norm, _mm512_set1_ps(s[r]), v);
            for (int i = 0; i < GROUP / 16; i++)
                _mm512_storeu_ps(rounded[r] + 16 * i, v[i]);
        }
        prepare_eight_rows(rounded[0], GROUP, GROUP, NULL, s, out + (size_t)k * 8);
    }
    for (int r = 0; r < rows; r++)
        prepare_row_f8(x + (size_t)r * stride + k, cols - k, norm ? norm + k : NULL, _mm512_set1_ps(s[r]),
                       out + (size_t)k * (size_t)rows + r, rows);
}

/* Sixteen integers: clamped, a NaN to -127. */
MATMUL_TEMPLATE __m512i to_i8(__m512 v)
{
    v = _mm512_max_ps(v, _mm512_set1_ps(-127.0f));
    return _mm512_cvtps_epi32(_mm512_min_ps(v, _mm512_set1_ps(127.0f)));
}

/* One row of int8 in a panel: its head, and its words from `words` on, `rows` apart. */
static void prepare_row_i8(const float *x, int cols, const float *norm, __m512 s, i8_head *head,
                           uint8_t *words, int rows)
{
    __m512i top = _mm512_setzero_si512(), sum = top;
    for (int k = 0; k < cols; k += 16)
        top = _mm512_max_epu32(top,
                               avx512_magnitude(load(x + k, norm ? norm + k : NULL, s, mask_of(cols - k))));
    head->scale = vmath_float(_mm512_reduce_max_epu32(top)) / 127.0f;
    const __mmask16 any = head->scale == 0 ? 0 : 0xffff;
    for (int k = 0; k < cols; k += 16) {
        const __mmask16 mask = mask_of(cols - k) & any;
        const __m512 v = load(x + k, norm ? norm + k : NULL, s, mask);
        const __m512i q = _mm512_maskz_mov_epi32(mask, to_i8(_mm512_div_ps(v, _mm512_set1_ps(head->scale))));
        int32_t word[4];
        sum = _mm512_add_epi32(sum, q);
        _mm_storeu_si128((__m128i *)word, _mm512_cvtepi32_epi8(q));
        for (int i = 0; i < 4 && k + 4 * i < cols; i++)
            __builtin_memcpy(words + (size_t)(k / 4 + i) * 4 * (size_t)rows, &word[i], 4);
    }
    head->offset = -128 * _mm512_reduce_add_epi32(sum);
}

void avx512_prepare_panel(activation_form form, const float *x, size_t stride, int rows, int cols,
                          const float *norm, float eps, void *panel)
{
    float s[MATMUL_MAX_PANEL];
    for (int r = 0; r < rows; r++)
        s[r] = norm ? reduce_rms_scale(avx512_sum_squares(x + (size_t)r * stride, cols), cols, eps) : 1.0f;
    if (form == ACTIVATION_F8) {
        prepare_panel_f8(x, stride, rows, cols, norm, s, panel);
        return;
    }
    int done = 0;
    if (form == ACTIVATION_F32 && rows == 8)
        done = prepare_eight_rows(x, stride, cols, norm, s, panel);
    for (int r = 0; r < rows; r++) {
        const float *row = x + (size_t)r * stride;
        const __m512 sr = _mm512_set1_ps(s[r]);
        if (form == ACTIVATION_Q8)
            prepare_row_q8(row, cols, norm, sr, (q8_block *)panel + r, rows);
        else if (form == ACTIVATION_I8)
            prepare_row_i8(row, cols, norm, sr, (i8_head *)panel + r,
                           (uint8_t *)((i8_head *)panel + rows) + 4 * r, rows);
        else
            prepare_row_f32(row, done, cols, norm, sr, (float *)panel + r, rows);
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
