/* avx2_quant.c: RMSNorm and activations in the form that weights want, as kernel/ref/quant.c defines it.
 *
 * A panel of up to 4 rows at a time, each row in one pass (two with a norm). Four blocks go together: their maxima
 * and sums are found by transposing, their divisions are one. The hardware's conversion rounds to nearest even,
 * which is what the reference does by its magic number. Threads: any; no state.
 */
#include <immintrin.h>

#include "kernel/cpu/avx2_matmul.h"
#include "kernel/cpu/avx2_reduce.h"
#include "kernel/cpu/avx2_round.h"
#include "kernel/cpu/entries.h"

enum { BATCH = 4, BLOCK = 32, GROUP = 128 /* of F8 */ };

/* Eight values from x, normalised where there is a norm. */
MATMUL_TEMPLATE __m256 load(const float *x, const float *norm, __m256 s)
{
    const __m256 v = _mm256_loadu_ps(x);
    return norm ? _mm256_mul_ps(_mm256_mul_ps(v, s), _mm256_loadu_ps(norm)) : v;
}

/* The largest magnitude of a block (as bits: a NaN beats everything), in four candidates. */
MATMUL_TEMPLATE __m128i four_candidates(const float *x, const float *norm, __m256 s)
{
    __m256i top = _mm256_setzero_si256();
    MATMUL_UNROLL
    for (int i = 0; i < 4; i++) {
        const __m256i bits = _mm256_castps_si256(load(x + 8 * i, norm ? norm + 8 * i : NULL, s));
        top = _mm256_max_epi32(top, _mm256_and_si256(bits, _mm256_set1_epi32(0x7fffffff)));
    }
    return _mm_max_epi32(_mm256_castsi256_si128(top), _mm256_extracti128_si256(top, 1));
}

/* {max of a[0], of a[1], of a[2], of a[3]} */
MATMUL_TEMPLATE __m128i max_of_each(const __m128i a[BATCH])
{
    const __m128i low = _mm_max_epi32(_mm_unpacklo_epi32(a[0], a[1]), _mm_unpackhi_epi32(a[0], a[1]));
    const __m128i high = _mm_max_epi32(_mm_unpacklo_epi32(a[2], a[3]), _mm_unpackhi_epi32(a[2], a[3]));
    return _mm_max_epi32(_mm_unpacklo_epi64(low, high), _mm_unpackhi_epi64(low, high));
}

/* The same for sums, in both halves. */
MATMUL_TEMPLATE __m256i sum_of_each(const __m256i a[BATCH])
{
    const __m256i low =
        _mm256_add_epi32(_mm256_unpacklo_epi32(a[0], a[1]), _mm256_unpackhi_epi32(a[0], a[1]));
    const __m256i high =
        _mm256_add_epi32(_mm256_unpacklo_epi32(a[2], a[3]), _mm256_unpackhi_epi32(a[2], a[3]));
    return _mm256_add_epi32(_mm256_unpacklo_epi64(low, high), _mm256_unpackhi_epi64(low, high));
}

/* Operand order: a product that is a NaN becomes -127. */
MATMUL_TEMPLATE __m256i to_integers(__m256 v, __m256 inverse)
{
    return _mm256_cvtps_epi32(_mm256_max_ps(_mm256_mul_ps(v, inverse), _mm256_set1_ps(-127.0f)));
}

/* A block as bytes. The packs work within 128 bits: the permutation puts the eight words of four in order. */
MATMUL_TEMPLATE __m256i to_bytes(const float *x, const float *norm, __m256 s, float inverse)
{
    __m256i q[4];
    MATMUL_UNROLL
    for (int i = 0; i < 4; i++)
        q[i] = to_integers(load(x + 8 * i, norm ? norm + 8 * i : NULL, s), _mm256_set1_ps(inverse));
    const __m256i bytes = _mm256_packs_epi16(_mm256_packs_epi32(q[0], q[1]), _mm256_packs_epi32(q[2], q[3]));
    return _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

/* Four blocks of x; block i goes to out[i * stride]. */
MATMUL_TEMPLATE void quant_batch(const float *x, const float *norm, __m256 s, q8_block *out, int stride)
{
    __m128i largest[BATCH];
    MATMUL_UNROLL
    for (int i = 0; i < BATCH; i++)
        largest[i] = four_candidates(x + BLOCK * i, norm ? norm + BLOCK * i : NULL, s);
    const __m128 top = _mm_castsi128_ps(max_of_each(largest));
    const __m128 tiny = _mm_cmplt_ps(top, _mm_set1_ps(0x1p-100f)), most = _mm_set1_ps(127.0f);
    const __m128 scale = _mm_andnot_ps(tiny, _mm_div_ps(top, most));
    float inverse[BATCH];
    _mm_storeu_ps(inverse, _mm_andnot_ps(tiny, _mm_div_ps(most, top)));

    __m256i sums[BATCH];
    MATMUL_UNROLL
    for (int i = 0; i < BATCH; i++) {
        const __m256i bytes = to_bytes(x + BLOCK * i, norm ? norm + BLOCK * i : NULL, s, inverse[i]);
        _mm256_storeu_si256((__m256i *)out[i * stride].q, bytes);
        sums[i] = _mm256_madd_epi16(_mm256_maddubs_epi16(_mm256_set1_epi8(1), bytes), _mm256_set1_epi16(1));
    }
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
    for (int i = 0; i < BATCH; i++)
        _mm_storeu_ps(&out[i * stride].scale, rest[i]);
}

static void prepare_row_q8(const float *x, int cols, const float *norm, float scale, q8_block *out,
                           int stride)
{
    const __m256 s = _mm256_set1_ps(scale);
    int k = 0;
    for (; k + BATCH * BLOCK <= cols; k += BATCH * BLOCK, out += BATCH * stride)
        quant_batch(x + k, norm ? norm + k : NULL, s, out, stride);
    if (k == cols)
        return;
    q8_block last[BATCH]; /* fewer than four blocks are left */
    float padded[2][BATCH * BLOCK] = { 0 };
    __builtin_memcpy(padded[0], x + k, (size_t)(cols - k) * sizeof(float));
    if (norm)
        __builtin_memcpy(padded[1], norm + k, (size_t)(cols - k) * sizeof(float));
    quant_batch(padded[0], norm ? padded[1] : NULL, s, last, 1);
    for (int i = 0; k + BLOCK * i < cols; i++)
        out[i * stride] = last[i];
}

/* The first columns of a whole panel of f32, as many as go by four. Returns how many. */
static int prepare_four_rows(const float *x, size_t stride, int cols, const float *norm, const float s[4],
                             float *out)
{
    int k = 0;
    for (; k + 4 <= cols; k += 4, out += 16) {
        __m128 row[4];
        MATMUL_UNROLL
        for (int r = 0; r < 4; r++) {
            row[r] = _mm_loadu_ps(x + (size_t)r * stride + k);
            if (norm)
                row[r] = _mm_mul_ps(_mm_mul_ps(row[r], _mm_set1_ps(s[r])), _mm_loadu_ps(norm + k));
        }
        _MM_TRANSPOSE4_PS(row[0], row[1], row[2], row[3]);
        MATMUL_UNROLL
        for (int i = 0; i < 4; i++)
            _mm_storeu_ps(out + 4 * i, row[i]);
    }
    return k;
}

/* Columns from `first` on of one row of a panel of f32. */
static void prepare_row_f32(const float *x, int first, int cols, const float *norm, float s, float *out,
                            int rows)
{
    int k = first;
    for (; k + 8 <= cols; k += 8) {
        float v[8];
        _mm256_storeu_ps(v, load(x + k, norm ? norm + k : NULL, _mm256_set1_ps(s)));
        for (int i = 0; i < 8; i++)
            out[(size_t)(k + i) * (size_t)rows] = v[i];
    }
    for (; k < cols; k++)
        out[(size_t)k * (size_t)rows] = norm ? (x[k] * s) * norm[k] : x[k];
}

/* Columns [k, k + n) of a row, n <= 128, with zeros up to a multiple of 8. Returns that multiple. */
static int load_values(const float *x, int k, int n, const float *norm, float s, float out[GROUP])
{
    int i = 0;
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(out + i, load(x + k + i, norm ? norm + k + i : NULL, _mm256_set1_ps(s)));
    for (; i < n; i++)
        out[i] = norm ? (x[k + i] * s) * norm[k + i] : x[k + i];
    for (; i % 8 != 0; i++)
        out[i] = 0;
    return i;
}

/* A panel of F8: its rows are rounded beside each other, then turned. */
static void prepare_panel_f8(const float *x, size_t stride, int rows, int cols, const float *norm,
                             const float s[4], float *out)
{
    for (int k = 0; k < cols; k += GROUP) {
        const int n = cols - k < GROUP ? cols - k : GROUP;
        float rounded[4][GROUP], *to = out + (size_t)k * (size_t)rows;
        for (int r = 0; r < rows; r++) {
            const int padded = load_values(x + (size_t)r * stride, k, n, norm, s[r], rounded[r]);
            avx2_round_group_f8(rounded[r], padded, rounded[r]);
        }
        const int done = rows == 4 ? prepare_four_rows(rounded[0], GROUP, n, NULL, s, to) : 0;
        for (int r = 0; r < rows; r++)
            prepare_row_f32(rounded[r], done, n, NULL, 1, to + r, rows);
    }
}

/* Eight integers: clamped, a NaN to -127. */
MATMUL_TEMPLATE __m256i to_i8(__m256 v)
{
    v = _mm256_max_ps(v, _mm256_set1_ps(-127.0f));
    return _mm256_cvtps_epi32(_mm256_min_ps(v, _mm256_set1_ps(127.0f)));
}

/* One row of int8 in a panel: its head, and its words from `words` on, `rows` apart. */
static void prepare_row_i8(const float *x, int cols, const float *norm, float s, i8_head *head,
                           uint8_t *words, int rows)
{
    float v[GROUP];
    int8_t q[GROUP];
    int sum = 0;
    __m256i top = _mm256_setzero_si256();
    for (int k = 0; k < cols; k += GROUP) {
        const int padded = load_values(x, k, cols - k < GROUP ? cols - k : GROUP, norm, s, v);
        for (int i = 0; i < padded; i += 8)
            top = avx2_top(top, _mm256_loadu_ps(v + i));
    }
    head->scale = vmath_float(avx2_largest(top)) / 127.0f;
    for (int k = 0; k < cols; k += GROUP) {
        const int n = cols - k < GROUP ? cols - k : GROUP, padded = load_values(x, k, n, norm, s, v);
        for (int i = 0; i < padded; i += 8) {
            const __m256i eight = to_i8(_mm256_div_ps(_mm256_loadu_ps(v + i), _mm256_set1_ps(head->scale)));
            const __m128i words16 =
                _mm_packs_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
            _mm_storel_epi64((__m128i *)(q + i), _mm_packs_epi16(words16, words16));
        }
        if (head->scale == 0)
            __builtin_memset(q, 0, sizeof q);
        for (int i = 0; i < padded; i++) {
            q[i] = i < n ? q[i] : 0;
            sum += q[i];
        }
        for (int i = 0; i < n; i += 4)
            __builtin_memcpy(words + (size_t)((k + i) / 4) * 4 * (size_t)rows, q + i, 4);
    }
    head->offset = -128 * sum;
}

void avx2_prepare_panel(activation_form form, const float *x, size_t stride, int rows, int cols,
                        const float *norm, float eps, void *panel)
{
    float s[MATMUL_MAX_PANEL];
    for (int r = 0; r < rows; r++)
        s[r] = norm ? reduce_rms_scale(avx2_sum_squares(x + (size_t)r * stride, cols), cols, eps) : 1.0f;
    if (form == ACTIVATION_F8) {
        prepare_panel_f8(x, stride, rows, cols, norm, s, panel);
        return;
    }
    int done = 0;
    if (form == ACTIVATION_F32 && rows == 4)
        done = prepare_four_rows(x, stride, cols, norm, s, panel);
    for (int r = 0; r < rows; r++) {
        const float *row = x + (size_t)r * stride;
        if (form == ACTIVATION_Q8)
            prepare_row_q8(row, cols, norm, s[r], (q8_block *)panel + r, rows);
        else if (form == ACTIVATION_I8)
            prepare_row_i8(row, cols, norm, s[r], (i8_head *)panel + r,
                           (uint8_t *)((i8_head *)panel + rows) + 4 * r, rows);
        else
            prepare_row_f32(row, done, cols, norm, s[r], (float *)panel + r, rows);
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
