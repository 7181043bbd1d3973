/* round.h: numbers rounded to e4m3 and e2m1 in groups that share a power-of-two scale, as foray defines it
 * (design.md P2; spec: DeepSeek-V4 2.0, 2.7). The results are kept as f32.
 *
 *   top    = max(largest |x| of the group, floor)
 *   scale  = the smallest power of two that is not below top * (1 / most), most = 448 or 6; the product is rounded. Of
 *            f8 at most 2^78, so that no result passes 2^87 (kernel/cpu/matmul.h rests on that)
 *   out[i] = scale * (x[i] / scale, to nearest, ties to even, at most +-most)
 *
 * A group with an infinity or NaN becomes all NaN. The sign of zero is kept. Divisions and products by the scale are
 * exact but for what underflows. Vector forms with the same bits: kernel/cpu/avx2_round.h and avx512_round.h.
 * Pure. Threads: any.
 */
#ifndef FORAY_KERNEL_REF_ROUND_H
#define FORAY_KERNEL_REF_ROUND_H

#include <math.h>
#include <stdint.h>

#include "kernel/ref/vmath.h"

#define ROUND_F8_MOST 448.0f
#define ROUND_F8_FLOOR 1e-4f
#define ROUND_F8_TOP_SCALE 0x1p78f
#define ROUND_FP4_MOST 6.0f
#define ROUND_FP4_FLOOR (6 * 0x1p-126f)

/* x to a small floating-point format: of the numbers in [1, 2) those 1 / steps apart; below `least`, the smallest
 * normal, they lie as in the binade above it. Adding 2^23 steps of x's own size rounds it there, ties to even. */
static inline float round_to_format(float x, float most, float least, float steps)
{
    float size = fabsf(x);
    size = size > most ? most : size; /* a NaN stays one */
    const float power = vmath_float(vmath_bits(size) & 0x7f800000);
    const float magic = (power > least ? power : least) * (0x1p23f / steps);
    return copysignf((size + magic) - magic, x);
}

/* The value of the nearest e4m3fn, e2m1. */
static inline float round_e4m3(float x)
{
    return round_to_format(x, ROUND_F8_MOST, 0x1p-6f, 8);
}

static inline float round_e2m1(float x)
{
    return round_to_format(x, ROUND_FP4_MOST, 1, 2);
}

/* The scale of a group whose largest magnitude has the bits `top`: infinity where that is an infinity or NaN. */
static inline float round_scale(uint32_t top, float floor, float inverse_most, float top_scale)
{
    if (top >= 0x7f800000)
        return INFINITY;
    const float size = vmath_float(top), least = (size > floor ? size : floor) * inverse_most;
    const float scale = vmath_float((vmath_bits(least) + 0x7fffff) & 0x7f800000);
    return scale < top_scale ? scale : top_scale;
}

static inline float round_f8_scale(uint32_t top)
{
    return round_scale(top, ROUND_F8_FLOOR, 1 / ROUND_F8_MOST, ROUND_F8_TOP_SCALE);
}

static inline float round_fp4_scale(uint32_t top)
{
    return round_scale(top, ROUND_FP4_FLOOR, 1 / ROUND_FP4_MOST, 0x1p126f);
}

static inline uint32_t round_top(const float *x, int n)
{
    uint32_t top = 0;
    for (int i = 0; i < n; i++) {
        const uint32_t bits = vmath_bits(x[i]) & 0x7fffffff;
        top = bits > top ? bits : top;
    }
    return top;
}

/* One group: x [n] to out [n], which may be x. Groups of f8 are 128 (matmuls) or 64 (latents) long, of fp4 32. */
static inline void round_group_f8(const float *x, int n, float *out)
{
    const float scale = round_f8_scale(round_top(x, n));
    for (int i = 0; i < n; i++)
        out[i] = round_e4m3(x[i] / scale) * scale;
}

static inline void round_group_fp4(const float *x, int n, float *out)
{
    const float scale = round_fp4_scale(round_top(x, n));
    for (int i = 0; i < n; i++)
        out[i] = round_e2m1(x[i] / scale) * scale;
}

#endif
