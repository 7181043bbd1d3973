/* avx2_dots.h: four dot products at once, each with the bits of reduce_dot (kernel/ref/reduce.h).
 *
 * A product's sixteen lanes are two registers; 2 x 2 products are eight independent chains, and each vector of x or y
 * serves two. At the end the registers are turned while their trees are added up. Only for files compiled for AVX2 and
 * FMA. Pure. Threads: any.
 */
#ifndef FORAY_KERNEL_CPU_AVX2_DOTS_H
#define FORAY_KERNEL_CPU_AVX2_DOTS_H

#include "kernel/cpu/avx2_reduce.h"

enum { AVX2_DOTS = 2 }; /* x's and y's per call */

/* The last steps of four trees: lanes l + 8 have been added to l in each of a … d. */
static inline __m128 avx2_trees(__m256 a, __m256 b, __m256 c, __m256 d)
{
    /* [x + 4 of lanes 0-3 | the same of the second] for pairs of products */
    const __m256 ab = _mm256_add_ps(_mm256_permute2f128_ps(a, b, 0x20), _mm256_permute2f128_ps(a, b, 0x31));
    const __m256 cd = _mm256_add_ps(_mm256_permute2f128_ps(c, d, 0x20), _mm256_permute2f128_ps(c, d, 0x31));
    /* per half: two lanes of a or b, two of c or d */
    const __m256 two = _mm256_add_ps(_mm256_shuffle_ps(ab, cd, 0x44), _mm256_shuffle_ps(ab, cd, 0xee));
    const __m128 ac = _mm256_castps256_ps128(two), bd = _mm256_extractf128_ps(two, 1);
    const __m128 even = _mm_shuffle_ps(ac, bd, 0x88), odd = _mm_shuffle_ps(ac, bd, 0xdd); /* a c b d */
    const __m128 sum = _mm_add_ps(even, odd);
    return _mm_shuffle_ps(sum, sum, 0xd8);
}

/* Lane 2 i + j: x_i . y_j over n floats, x_i = x + i * stride for i < X, 1 or 2; the others give 0. */
static inline __attribute__((always_inline)) __m128 avx2_dots(const float *x, size_t stride,
                                                              const float *const y[2], int n, const int X)
{
    __m256 low[2][2], high[2][2];
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++)
#pragma GCC unroll 2
        for (int j = 0; j < 2; j++)
            low[i][j] = high[i][j] = _mm256_setzero_ps();
    int c = 0;
    for (; c + 16 <= n; c += 16) {
        const __m256 y0 = _mm256_loadu_ps(y[0] + c), y1 = _mm256_loadu_ps(y[1] + c);
        const __m256 z0 = _mm256_loadu_ps(y[0] + c + 8), z1 = _mm256_loadu_ps(y[1] + c + 8);
#pragma GCC unroll 2
        for (int i = 0; i < X; i++) {
            const float *at = x + (size_t)i * stride + c;
            const __m256 v = _mm256_loadu_ps(at), w = _mm256_loadu_ps(at + 8);
            low[i][0] = _mm256_fmadd_ps(v, y0, low[i][0]);
            low[i][1] = _mm256_fmadd_ps(v, y1, low[i][1]);
            high[i][0] = _mm256_fmadd_ps(w, z0, high[i][0]);
            high[i][1] = _mm256_fmadd_ps(w, z1, high[i][1]);
        }
    }
    if (c < n) {
        const __m256i m = avx2_mask_below(n - c), mm = avx2_mask_below(n - c - 8);
#pragma GCC unroll 2
        for (int i = 0; i < X; i++) {
            const float *at = x + (size_t)i * stride + c;
            const __m256 v = _mm256_maskload_ps(at, m), w = _mm256_maskload_ps(at + 8, mm);
#pragma GCC unroll 2
            for (int j = 0; j < 2; j++) {
                low[i][j] = _mm256_fmadd_ps(v, _mm256_maskload_ps(y[j] + c, m), low[i][j]);
                high[i][j] = _mm256_fmadd_ps(w, _mm256_maskload_ps(y[j] + c + 8, mm), high[i][j]);
            }
        }
    }
    return avx2_trees(_mm256_add_ps(low[0][0], high[0][0]), _mm256_add_ps(low[0][1], high[0][1]),
                      _mm256_add_ps(low[1][0], high[1][0]), _mm256_add_ps(low[1][1], high[1][1]));
}

#endif
