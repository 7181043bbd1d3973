/* avx512_dots.h: sixteen dot products at once, each with the bits of reduce_dot (kernel/ref/reduce.h).
 *
 * A product's sixteen lanes are one register; 4 x 4 products fill sixteen of them, enough independent chains, and each
 * vector of x or y serves four. At the end the registers are turned while their trees are added up, so that no product
 * needs a sum across lanes of its own. Only for files compiled for AVX-512 F, BW, VL and DQ. Pure. Threads: any.
 */
#ifndef FORAY_KERNEL_CPU_AVX512_DOTS_H
#define FORAY_KERNEL_CPU_AVX512_DOTS_H

#include "kernel/cpu/avx512_reduce.h"

enum { AVX512_DOTS = 4 }; /* x's and y's per call */

/* sum[i][j]: lanes of a product. Out: lane 4 i + j its sum. */
static inline __attribute__((always_inline)) __m512 avx512_trees(__m512 sum[4][4])
{
    __m512 four[4]; /* of each j: 128-bit lane i, four lanes left to add */
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) {
        const __m512 a = _mm512_add_ps(_mm512_shuffle_f32x4(sum[0][j], sum[1][j], 0x44),
                                       _mm512_shuffle_f32x4(sum[0][j], sum[1][j], 0xee));
        const __m512 b = _mm512_add_ps(_mm512_shuffle_f32x4(sum[2][j], sum[3][j], 0x44),
                                       _mm512_shuffle_f32x4(sum[2][j], sum[3][j], 0xee));
        four[j] = _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd));
    }
    const __m512 a =
        _mm512_add_ps(_mm512_shuffle_ps(four[0], four[1], 0x44), _mm512_shuffle_ps(four[0], four[1], 0xee));
    const __m512 b =
        _mm512_add_ps(_mm512_shuffle_ps(four[2], four[3], 0x44), _mm512_shuffle_ps(four[2], four[3], 0xee));
    return _mm512_add_ps(_mm512_shuffle_ps(a, b, 0x88), _mm512_shuffle_ps(a, b, 0xdd));
}

/* Lane 4 i + j: x_i . y_j over n floats, x_i = x + i * stride for i < X, a constant up to 4; the others give 0. */
static inline __attribute__((always_inline)) __m512 avx512_dots(const float *x, size_t stride,
                                                                const float *const y[4], int n, const int X)
{
    __m512 sum[4][4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++)
            sum[i][j] = _mm512_setzero_ps();
    int c = 0;
    for (; c + 16 <= n; c += 16) {
        const __m512 y0 = _mm512_loadu_ps(y[0] + c), y1 = _mm512_loadu_ps(y[1] + c);
        const __m512 y2 = _mm512_loadu_ps(y[2] + c), y3 = _mm512_loadu_ps(y[3] + c);
#pragma GCC unroll 4
        for (int i = 0; i < X; i++) {
            const __m512 v = _mm512_loadu_ps(x + (size_t)i * stride + c);
            sum[i][0] = _mm512_fmadd_ps(v, y0, sum[i][0]);
            sum[i][1] = _mm512_fmadd_ps(v, y1, sum[i][1]);
            sum[i][2] = _mm512_fmadd_ps(v, y2, sum[i][2]);
            sum[i][3] = _mm512_fmadd_ps(v, y3, sum[i][3]);
        }
    }
    if (c < n) {
        const __mmask16 m = avx512_mask_below(n - c);
#pragma GCC unroll 4
        for (int i = 0; i < X; i++) {
            const __m512 v = _mm512_maskz_loadu_ps(m, x + (size_t)i * stride + c);
#pragma GCC unroll 4
            for (int j = 0; j < 4; j++)
                sum[i][j] = _mm512_fmadd_ps(v, _mm512_maskz_loadu_ps(m, y[j] + c), sum[i][j]);
        }
    }
    return avx512_trees(sum);
}

#endif
