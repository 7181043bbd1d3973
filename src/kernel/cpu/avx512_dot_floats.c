/* avx512_dot_floats.c: F32, F16 and BF16 weights times f32 activations: 16 weight rows x up to 8 rows.
 *
 * One chain of fma per output, as kernel/ref/matmul.c defines it; the processor's two multipliers are kept busy by
 * computing several groups (few rows) or rows (many) side by side. F16 converts on the way; a BF16 pair is a shift
 * and a mask. Type, rows and groups are constants of each copy of the body. Threads: any; no state.
 */
#include <immintrin.h>

#include "kernel/cpu/avx512_matmul.h"
#include "kernel/scaled.h"

enum { LANES = 16 };

MATMUL_TEMPLATE size_t column_bytes(dtype type)
{
    return type == DTYPE_F32 ? 4 * LANES : 2 * LANES;
}

/* Column k of a group; at: the group's columns from 2 (k / 2). */
MATMUL_TEMPLATE __m512 load_column(dtype type, const uint8_t *at, int k)
{
    if (type == DTYPE_F32)
        return _mm512_loadu_ps(at + k % 2 * 4 * LANES);
    if (type == DTYPE_F16)
        return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(at + k % 2 * 2 * LANES)));
    const __m512i pair = _mm512_loadu_si512(at);
    return _mm512_castsi512_ps(k % 2 ? _mm512_and_si512(pair, _mm512_set1_epi32((int)0xffff0000u))
                                     : _mm512_slli_epi32(pair, 16));
}

MATMUL_TEMPLATE void add_column(dtype type, int groups, int rows, const uint8_t *const *w, size_t at, int k,
                                const float *x, __m512 *acc)
{
    __m512 column[MATMUL_STREAMS];
    MATMUL_UNROLL
    for (int g = 0; g < groups; g++)
        column[g] = load_column(type, w[g] + at, k);
    MATMUL_UNROLL
    for (int r = 0; r < rows; r++) {
        const __m512 xr = _mm512_set1_ps(x[r]);
        MATMUL_UNROLL
        for (int g = 0; g < groups; g++)
            acc[g * rows + r] = _mm512_fmadd_ps(column[g], xr, acc[g * rows + r]);
    }
}

/* The template: groups x rows accumulators over all columns. */
MATMUL_TEMPLATE void dot(dtype type, int groups, int rows, const uint8_t *const *w, const matmul_dot *job,
                         float *y)
{
    const float *x = job->x;
    const int cols = job->cols;
    const size_t ahead = job->ahead;
    __m512 acc[MATMUL_STREAMS * MATMUL_MAX_PANEL];
    MATMUL_UNROLL
    for (int i = 0; i < groups * rows; i++)
        acc[i] = _mm512_load_ps(y + i * LANES);
    size_t at = 0;
    int k = 0;
    for (; k + 4 <= cols; k += 4, at += 4 * column_bytes(type), x += 4 * rows) {
        MATMUL_UNROLL
        for (int g = 0; g < groups; g++) {
            _mm_prefetch((const char *)w[g] + at + ahead, _MM_HINT_T0);
            _mm_prefetch((const char *)w[g] + at + ahead + 64, _MM_HINT_T0);
            if (type == DTYPE_F32) {
                _mm_prefetch((const char *)w[g] + at + ahead + 128, _MM_HINT_T0);
                _mm_prefetch((const char *)w[g] + at + ahead + 192, _MM_HINT_T0);
            }
        }
        MATMUL_UNROLL
        for (int i = 0; i < 4; i++)
            add_column(type, groups, rows, w, at + (size_t)(i / 2) * 2 * column_bytes(type), i, x + i * rows,
                       acc);
    }
    for (; k < cols; k++, x += rows)
        add_column(type, groups, rows, w, (size_t)(k / 2) * 2 * column_bytes(type), k, x, acc);
    MATMUL_UNROLL
    for (int i = 0; i < groups * rows; i++)
        _mm512_store_ps(y + i * LANES, acc[i]);
}

/* `many` groups at once, as many as the registers hold beside their rows; then `some`, then one by one. F32 also
 * serves many rows of any type, three groups at a time. */
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

#define DEFINE_DOT(name, type, most, some)                                                                   \
    void avx512_dot_##name(const matmul_dot *job)                                                            \
    {                                                                                                        \
        switch (job->rows) {                                                                                 \
            ROWS(type, 1, 4, 2)                                                                              \
            ROWS(type, 2, 4, 2)                                                                              \
            ROWS(type, 3, most, some)                                                                        \
            ROWS(type, 4, most, some)                                                                        \
            ROWS(type, 5, most, some)                                                                        \
            ROWS(type, 6, most, some)                                                                        \
            ROWS(type, 7, most, some)                                                                        \
            ROWS(type, 8, most, some)                                                                        \
        }                                                                                                    \
    }

DEFINE_DOT(f32, DTYPE_F32, 3, 2)
DEFINE_DOT(f16, DTYPE_F16, 2, 1)
DEFINE_DOT(bf16, DTYPE_BF16, 2, 1)

/* Columns [first, last) of one type, two at a time: a BF16 pair is one load. */
MATMUL_TEMPLATE void widen(dtype type, const uint8_t *group, int first, int last, float *out)
{
    const uint8_t *at = group + (size_t)first * column_bytes(type);
    int k = first;
    for (; k + 2 <= last; k += 2, at += 2 * column_bytes(type), out += 2 * LANES) {
        _mm512_storeu_ps(out, load_column(type, at, 0));
        _mm512_storeu_ps(out + LANES, load_column(type, at, 1));
    }
    if (k < last)
        _mm512_storeu_ps(out, load_column(type, at, 0));
}

void avx512_widen(dtype type, const uint8_t *group, int first, int last, float *out)
{
    if (scaled_is(type))
        avx512_widen_scaled(type, group, first, last, out);
    else if (type == DTYPE_F16)
        widen(DTYPE_F16, group, first, last, out);
    else
        widen(DTYPE_BF16, group, first, last, out);
}
