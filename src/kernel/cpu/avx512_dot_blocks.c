/* avx512_dot_blocks.c: block-quantised weights times int8 activations with VNNI: 16 weight rows x up to 8 rows.
 *
 * vpdpbusd multiplies four unsigned weight bytes of each lane with four signed activation bytes that all lanes
 * share and adds them to the lane's integer: so weights are kept unsigned and their centre (128, 8, 16, 32) is
 * taken off through the activation's exact sum, before the first product. One body serves every type: type, rows
 * and groups are constants of each copy. The order of the float steps is kernel/ref/matmul.c's.
 * Threads: any; no state.
 */
#include <immintrin.h>

#include "kernel/cpu/avx512_matmul.h"

enum { LANES = 16, SUB = 32, MOST_SUMS = 10 /* integer and float registers each */ };

/* One sub-block of 32 columns of a group. */
typedef struct {
    const uint8_t *quants;
    __m512 scale[2], min; /* the second scale: of the second 16 columns, Q6_K only */
} block;

MATMUL_TEMPLATE __m512 load_f16(const uint8_t *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}

MATMUL_TEMPLATE __m512 load_u8(const uint8_t *p)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p)));
}

MATMUL_TEMPLATE __m512 load_s8(const uint8_t *p)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)p)));
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

/* Sub-block b of the group at w: the layout of kernel/weight.h with 16 lanes. */
MATMUL_TEMPLATE block find_block(dtype type, const uint8_t *w, int b)
{
    enum { F16 = 2 * LANES };
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
        const __m512 minus = _mm512_xor_ps(load_f16(p + F16), _mm512_set1_ps(-0.0f));
        o.quants = p + 2 * F16 + 16 * LANES + at % 8 * sub;
        o.scale[0] = _mm512_mul_ps(load_f16(p), load_u8(fine));
        o.min = _mm512_mul_ps(minus, load_u8(fine + 8 * LANES));
        break;
    }
    case DTYPE_Q6_K: {
        const uint8_t *p = w + at / 8 * (16 * LANES + 64 + 8 * sub), *fine = p + at % 8 * 2 * LANES;
        const __m512 d = load_f16(p + 16 * LANES);
        o.quants = p + 16 * LANES + 64 + at % 8 * sub;
        o.scale[0] = _mm512_mul_ps(d, load_s8(fine));
        o.scale[1] = _mm512_mul_ps(d, load_s8(fine + LANES));
        break;
    }
    default: { /* two blocks share a header */
        const uint8_t *p = w + at / 2 * (2 * F16 + 2 * sub);
        o.quants = p + 2 * F16 + at % 2 * sub;
        o.scale[0] = load_f16(p + at % 2 * F16);
    }
    }
    return o;
}

MATMUL_TEMPLATE __m512i load_vector(const uint8_t *quants, int vector)
{
    return _mm512_loadu_si512(quants + vector * 64);
}

/* Chunks j and j + 4 (j < 4) of a sub-block: four unsigned columns per lane each. */
MATMUL_TEMPLATE void unpack(dtype type, const uint8_t *quants, int j, __m512i *low, __m512i *high)
{
    const int bits = quant_bits(type);
    if (bits == 8) {
        *low = load_vector(quants, j);
        *high = load_vector(quants, j + 4);
        return;
    }
    const __m512i nibble = _mm512_set1_epi8(15), packed = load_vector(quants, bits - 4 + j);
    *low = _mm512_and_si512(packed, nibble);
    *high = _mm512_and_si512(_mm512_srli_epi16(packed, 4), nibble);
    if (bits == 5) {
        const __m512i plane = load_vector(quants, 0), fifth = _mm512_set1_epi8(16);
        const __m512i low_bit = j < 4 ? _mm512_slli_epi16(plane, 4 - j) : plane;
        const __m512i high_bit = j == 0 ? plane : _mm512_srli_epi16(plane, j);
        *low = _mm512_ternarylogic_epi32(*low, low_bit, fifth, 0xf8); /* a | (b & c) */
        *high = _mm512_ternarylogic_epi32(*high, high_bit, fifth, 0xf8);
    } else if (bits == 6) {
        const __m512i top = _mm512_set1_epi8(48);
        const __m512i first = load_vector(quants, 0), second = load_vector(quants, 1);
        const int left = j < 2 ? 4 - 2 * j : 0, right = j > 2 ? 2 * j - 4 : 0;
        const __m512i low_bits = left ? _mm512_slli_epi16(first, left) : _mm512_srli_epi16(first, right);
        const __m512i high_bits = left ? _mm512_slli_epi16(second, left) : _mm512_srli_epi16(second, right);
        *low = _mm512_ternarylogic_epi32(*low, low_bits, top, 0xf8);
        *high = _mm512_ternarylogic_epi32(*high, high_bits, top, 0xf8);
    }
}

/* What the integer sum starts from: minus the weights' centre times the sum of the activations. */
MATMUL_TEMPLATE __m512i start(dtype type, const q8_block *x)
{
    const __m512i offset = _mm512_set1_epi32(x->offset[0]); /* 128 times */
    switch (type) {
    case DTYPE_Q8_0:
        return offset;
    case DTYPE_Q5_0:
        return _mm512_srai_epi32(offset, 3);
    case DTYPE_Q4_0:
        return _mm512_srai_epi32(offset, 4);
    default:
        return _mm512_setzero_si512();
    }
}

MATMUL_TEMPLATE __m512i four_columns(const int8_t *q)
{
    int32_t word;
    __builtin_memcpy(&word, q, 4);
    return _mm512_set1_epi32(word);
}

MATMUL_TEMPLATE __m512 scaled_step(__m512 acc, __m512i sum, __m512 scale, float x_scale)
{
    return _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum), _mm512_mul_ps(scale, _mm512_set1_ps(x_scale)), acc);
}

/* A sub-block of each group times the rows of a panel; acc [groups][rows]. The groups go side by side: a chain of
 * eight vpdpbusd is longer than its work. Q6_K keeps the two halves of 16 columns apart. */
MATMUL_TEMPLATE void add_blocks(dtype type, int groups, int rows, const block *w, const q8_block *x,
                                __m512 *acc)
{
    const bool halves = type == DTYPE_Q6_K;
    __m512i sum[MOST_SUMS], second[MOST_SUMS];
    MATMUL_UNROLL
    for (int i = 0; i < groups * rows; i++) {
        const q8_block *xr = x + i % rows;
        sum[i] = start(type, xr);
        if (halves) {
            const __m512i first = _mm512_set1_epi32(xr->offset[1]);
            second[i] = _mm512_srai_epi32(_mm512_sub_epi32(_mm512_set1_epi32(xr->offset[0]), first), 2);
            sum[i] = _mm512_srai_epi32(first, 2);
        }
    }
    MATMUL_UNROLL
    for (int j = 0; j < 4; j++) {
        MATMUL_UNROLL
        for (int g = 0; g < groups; g++) {
            __m512i low, high;
            unpack(type, w[g].quants, j, &low, &high);
            MATMUL_UNROLL
            for (int r = 0; r < rows; r++) {
                const int i = g * rows + r;
                __m512i *other = halves ? &second[i] : &sum[i];
                sum[i] = _mm512_dpbusd_epi32(sum[i], low, four_columns(x[r].q + 4 * j));
                *other = _mm512_dpbusd_epi32(*other, high, four_columns(x[r].q + 16 + 4 * j));
            }
        }
    }
    MATMUL_UNROLL
    for (int i = 0; i < groups * rows; i++) {
        const block *wg = w + i / rows;
        const q8_block *xr = x + i % rows;
        if (has_min(type))
            acc[i] = _mm512_fmadd_ps(wg->min, _mm512_set1_ps(xr->sum), acc[i]);
        acc[i] = scaled_step(acc[i], sum[i], wg->scale[0], xr->scale);
        if (halves)
            acc[i] = scaled_step(acc[i], second[i], wg->scale[1], xr->scale);
    }
}

MATMUL_TEMPLATE void prefetch_block(dtype type, const uint8_t *quants, size_t ahead)
{
    MATMUL_UNROLL
    for (int line = -1; line < quant_bits(type) * SUB / 8 * LANES / 64; line++) /* the first: scales */
        _mm_prefetch((const char *)quants + ahead + 64 * line, _MM_HINT_T0);
}

/* The template: groups x rows accumulators over all columns. */
MATMUL_TEMPLATE void dot(dtype type, int groups, int rows, const uint8_t *const *w, const matmul_dot *job,
                         float *y)
{
    const q8_block *x = job->x;
    __m512 acc[MOST_SUMS];
    MATMUL_UNROLL
    for (int i = 0; i < groups * rows; i++)
        acc[i] = _mm512_load_ps(y + i * LANES);
    for (int b = 0; b < job->cols / SUB; b++, x += rows) {
        block o[MATMUL_STREAMS];
        MATMUL_UNROLL
        for (int g = 0; g < groups; g++) {
            o[g] = find_block(type, w[g], b);
            prefetch_block(type, o[g].quants, job->ahead);
        }
        add_blocks(type, groups, rows, o, x, acc);
    }
    MATMUL_UNROLL
    for (int i = 0; i < groups * rows; i++)
        _mm512_store_ps(y + i * LANES, acc[i]);
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
    void avx512_dot_##name(const matmul_dot *job)                                                            \
    {                                                                                                        \
        switch (job->rows) {                                                                                 \
            ROWS(type, 1, 4, 2)                                                                              \
            ROWS(type, 2, 4, 2)                                                                              \
            ROWS(type, 3, 2, 1)                                                                              \
            ROWS(type, 4, 2, 1)                                                                              \
            ROWS(type, 5, 2, 1)                                                                              \
            ROWS(type, 6, 1, 1)                                                                              \
            ROWS(type, 7, 1, 1)                                                                              \
            ROWS(type, 8, 1, 1)                                                                              \
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
