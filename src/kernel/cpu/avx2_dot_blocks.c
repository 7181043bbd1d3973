/* avx2_dot_blocks.c: block-quantised weights times int8 activations: 8 weight rows x up to 4 rows.
 *
 * maddubs multiplies unsigned by signed bytes and adds pairs into i16. How many pairs an i16 holds decides the
 * shape: 4-bit weights (<= 15) fit a whole block of 32 columns, 5-bit ones half a block, 6-bit ones two pairs,
 * and 8-bit ones one, by the sign trick (|w| times x with w's sign; |x| <= 127 keeps even -128 in range). Every
 * sum is exact, so the integers are those of kernel/ref/matmul.c. One body serves every type: type, rows and
 * groups are constants of each copy. Threads: any; no state.
 */
#include <immintrin.h>

#include "kernel/cpu/avx2_matmul.h"

enum { LANES = 8, SUB = 32, ROWS = 4 };

/* One sub-block of 32 columns of a group. */
typedef struct {
    const uint8_t *quants;
    __m256 scale[2], min; /* the second scale: of the second 16 columns, Q6_K only */
} block;

MATMUL_TEMPLATE __m256 load_f16(const uint8_t *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
}

MATMUL_TEMPLATE __m256 load_u8(const uint8_t *p)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p)));
}

MATMUL_TEMPLATE __m256 load_s8(const uint8_t *p)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)p)));
}

MATMUL_TEMPLATE bool has_min(dtype type)
{
    return type == DTYPE_Q4_1 || type == DTYPE_Q5_1 || type == DTYPE_Q4_K || type == DTYPE_Q5_K;
}

MATMUL_TEMPLATE int quant_bits(dtype type)
{
    return type == DTYPE_Q8_0                                               ? 8
           : type == DTYPE_Q6_K                                             ? 6
           : type == DTYPE_Q5_0 || type == DTYPE_Q5_1 || type == DTYPE_Q5_K ? 5
                                                                            : 4;
}

/* What stands for zero in the unsigned quants. */
MATMUL_TEMPLATE int centre(dtype type)
{
    return type == DTYPE_Q4_0 ? 8 : type == DTYPE_Q5_0 ? 16 : type == DTYPE_Q6_K ? 32 : 0;
}

/* Sub-block b of the group at w: the layout of kernel/weight.h with 8 lanes. */
MATMUL_TEMPLATE block find_block(dtype type, const uint8_t *w, int b)
{
    enum { F16 = 2 * LANES, Q6_HEADER = (18 * LANES + 63) / 64 * 64 };
    const size_t sub = (size_t)(quant_bits(type) * SUB / 8 * LANES), at = (size_t)b;
    block o;
    switch (type) {
    case DTYPE_Q4_1:
    case DTYPE_Q5_1: {
        const uint8_t *p = w + at * (2 * F16 + sub);
        o.quants = p + 2 * F16;
        o.scale[0] = load_f16(p);
        o.min = load_f16(p + F16);
        break;
    }
    case DTYPE_Q4_K:
    case DTYPE_Q5_K: {
        const uint8_t *p = w + at / 8 * (2 * F16 + 16 * LANES + 8 * sub),
                      *fine = p + 2 * F16 + at % 8 * LANES;
        const __m256 minus = _mm256_xor_ps(load_f16(p + F16), _mm256_set1_ps(-0.0f));
        o.quants = p + 2 * F16 + 16 * LANES + at % 8 * sub;
        o.scale[0] = _mm256_mul_ps(load_f16(p), load_u8(fine));
        o.min = _mm256_mul_ps(minus, load_u8(fine + 8 * LANES));
        break;
    }
    case DTYPE_Q6_K: {
        const uint8_t *p = w + at / 8 * (Q6_HEADER + 8 * sub), *fine = p + at % 8 * 2 * LANES;
        const __m256 d = load_f16(p + 16 * LANES);
        o.quants = p + Q6_HEADER + at % 8 * sub;
        o.scale[0] = _mm256_mul_ps(d, load_s8(fine));
        o.scale[1] = _mm256_mul_ps(d, load_s8(fine + LANES));
        break;
    }
    default: { /* four blocks share a header */
        const uint8_t *p = w + at / 4 * (4 * F16 + 4 * sub);
        o.quants = p + 4 * F16 + at % 4 * sub;
        o.scale[0] = load_f16(p + at % 4 * F16);
    }
    }
    return o;
}

MATMUL_TEMPLATE __m256i load_vector(const uint8_t *quants, int vector)
{
    return _mm256_loadu_si256((const __m256i *)(quants + vector * 32));
}

/* Bits of `bits` shifted up by `by` (down where negative); the bytes' neighbours' bits must be masked off after. */
MATMUL_TEMPLATE __m256i shift_bits(__m256i bits, int by)
{
    return by > 0 ? _mm256_slli_epi16(bits, by) : by < 0 ? _mm256_srli_epi16(bits, -by) : bits;
}

/* Chunk c (of 8) of a sub-block: four columns per lane, as they are stored. */
MATMUL_TEMPLATE __m256i unpack(dtype type, const uint8_t *quants, int c)
{
    const int bits = quant_bits(type);
    if (bits == 8)
        return load_vector(quants, c);
    const __m256i packed = load_vector(quants, bits - 4 + c % 4);
    const __m256i low = _mm256_and_si256(shift_bits(packed, c < 4 ? 0 : -4), _mm256_set1_epi8(15));
    if (bits == 4)
        return low;
    const __m256i top = bits == 5 ? shift_bits(load_vector(quants, 0), 4 - c)
                                  : shift_bits(load_vector(quants, c / 4), 4 - 2 * (c % 4));
    return _mm256_or_si256(low, _mm256_and_si256(top, _mm256_set1_epi8(bits == 5 ? 16 : 48)));
}

MATMUL_TEMPLATE __m256i four_columns(const int8_t *q)
{
    int32_t word;
    __builtin_memcpy(&word, q, 4);
    return _mm256_set1_epi32(word);
}

/* sum[r] = the exact integers of chunks [first, last), each weight as stored. */
MATMUL_TEMPLATE void add_chunks(dtype type, int rows, const uint8_t *quants, const q8_block *x, int first,
                                int last, __m256i *sum)
{
    const __m256i one = _mm256_set1_epi16(1);
    const int bits = quant_bits(type), run = bits == 4 ? 8 : bits == 5 ? 4 : bits == 6 ? 2 : 1; /* per i16 */
    __m256i pairs[ROWS];
    MATMUL_UNROLL
    for (int i = first; i < last; i++) {
        /* Low and high nibbles of one load in turn, where a whole block is summed. */
        const int c = bits == 4 ? i / 2 + i % 2 * 4 : i;
        const __m256i w = unpack(type, quants, c);
        const __m256i size = bits == 8 ? _mm256_abs_epi8(w) : w;
        MATMUL_UNROLL
        for (int r = 0; r < rows; r++) {
            __m256i xr = four_columns(x[r].q + 4 * c);
            if (bits == 8)
                xr = _mm256_sign_epi8(xr, w);
            const __m256i products = _mm256_maddubs_epi16(size, xr);
            pairs[r] = i % run == 0 ? products : _mm256_add_epi16(pairs[r], products);
            __asm__("" : "+x"(pairs[r])); /* in this order: a tree of sums would not fit the registers */
            if (i % run == run - 1) {
                const __m256i fours = _mm256_madd_epi16(pairs[r], one);
                sum[r] = i - run < first ? fours : _mm256_add_epi32(sum[r], fours);
            }
        }
    }
}

MATMUL_TEMPLATE __m256 scaled_step(__m256 acc, __m256i sum, __m256 scale, float x_scale)
{
    return _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum), _mm256_mul_ps(scale, _mm256_set1_ps(x_scale)), acc);
}

/* A sub-block times the rows of a panel; acc [rows]. */
MATMUL_TEMPLATE void add_block(dtype type, int rows, const block *w, const q8_block *x, __m256 *acc)
{
    const int halves = type == DTYPE_Q6_K ? 2 : 1;
    MATMUL_UNROLL
    for (int h = 0; h < halves; h++) {
        __m256i sum[ROWS];
        add_chunks(type, rows, w->quants, x, h * 4, h * 4 + 8 / halves, sum);
        MATMUL_UNROLL
        for (int r = 0; r < rows; r++) {
            if (centre(type)) {
                const int whole = x[r].offset[0], first = x[r].offset[1]; /* 128 times */
                const int part = halves == 1 ? whole : h == 0 ? first : whole - first;
                sum[r] = _mm256_add_epi32(sum[r], _mm256_set1_epi32(part / (128 / centre(type))));
            }
            if (has_min(type))
                acc[r] = _mm256_fmadd_ps(w->min, _mm256_set1_ps(x[r].sum), acc[r]);
            acc[r] = scaled_step(acc[r], sum[r], w->scale[h], x[r].scale);
        }
    }
}

MATMUL_TEMPLATE void prefetch_block(dtype type, const uint8_t *quants, size_t ahead)
{
    MATMUL_UNROLL
    for (int line = 0; line <= quant_bits(type) * SUB / 8 * LANES / 64; line++)
        _mm_prefetch((const char *)quants + ahead + 64 * line, _MM_HINT_T0);
}

/* The template: groups x rows accumulators over all columns. */
MATMUL_TEMPLATE void dot(dtype type, int groups, int rows, const uint8_t *const *w, const matmul_dot *job,
                         float *y)
{
    const q8_block *x = job->x;
    __m256 acc[MATMUL_STREAMS * ROWS];
    MATMUL_UNROLL
    for (int i = 0; i < groups * rows; i++)
        acc[i] = _mm256_load_ps(y + i * LANES);
    for (int b = 0; b < job->cols / SUB; b++, x += rows) {
        MATMUL_UNROLL
        for (int g = 0; g < groups; g++) {
            const block o = find_block(type, w[g], b);
            prefetch_block(type, o.quants, job->ahead);
            add_block(type, rows, &o, x, acc + g * rows);
        }
    }
    MATMUL_UNROLL
    for (int i = 0; i < groups * rows; i++)
        _mm256_store_ps(y + i * LANES, acc[i]);
}

/* `many` groups at once, as many as the registers hold beside their rows; then `some`, then one by one. */
#define ROWS(type, n, many, some)                                                                            \
    case n: {                                                                                                \
        int g = 0;                                                                                           \
        for (; g + many <= job->groups; g += many)                                                           \
            dot(type, many, n, job->w + g, job, job->y + g * n * LANES);                                     \
        for (; some < many && g + some <= job->groups; g += some)                                            \
            dot(type, some < many ? some : 1, n, job->w + g, job, job->y + g * n * LANES);                   \
        for (; some > 1 && g < job->groups; g++)                                                             \
            dot(type, 1, n, job->w + g, job, job->y + g * n * LANES);                                        \
        break;                                                                                               \
    }

#define DEFINE_DOT(name, type)                                                                               \
    void avx2_dot_##name(const matmul_dot *job)                                                              \
    {                                                                                                        \
        switch (job->rows) {                                                                                 \
            ROWS(type, 1, 4, 2)                                                                              \
            ROWS(type, 2, 4, 2)                                                                              \
            ROWS(type, 3, 4, 2)                                                                              \
            ROWS(type, 4, 4, 2)                                                                              \
        }                                                                                                    \
    }

DEFINE_DOT(q4_0, DTYPE_Q4_0)
DEFINE_DOT(q4_1, DTYPE_Q4_1)
DEFINE_DOT(q5_0, DTYPE_Q5_0)
DEFINE_DOT(q5_1, DTYPE_Q5_1)
DEFINE_DOT(q8_0, DTYPE_Q8_0)
DEFINE_DOT(q4_k, DTYPE_Q4_K)
DEFINE_DOT(q5_k, DTYPE_Q5_K)
DEFINE_DOT(q6_k, DTYPE_Q6_K)
