/* vmath.h: exp, log, log1p, silu, gelu, sin and cos as foray defines them (design.md P2), one value at a time.
 *
 * This page defines the bits. It uses fmaf, + - * / and bit patterns only, all exactly rounded, so every
 * machine gives the same result; kernel/cpu/avx2_vmath.h and avx512_vmath.h do the same operations in vectors
 * and equal it lane for lane (tests/unit/kernel_vmath.c). exp and log are within 1 ulp of the true value, sin
 * and cos within 1 ulp too. All functions are total: what infinities, NaN and denormals give is stated at
 * each. Assumes round to nearest and gradual underflow (nobody sets FTZ). Pure. Threads: any.
 */
#ifndef FORAY_KERNEL_REF_VMATH_H
#define FORAY_KERNEL_REF_VMATH_H

#include <math.h>
#include <stdint.h>
#include <string.h>

/* Adding this rounds a small float to an integer, which then stands in the low bits of the sum. */
#define VMATH_ROUND 0x1.8p23f

/* exp: r = x - n ln 2 in two parts, e^r = 1 + r + r^2 (C0 + C1 r + ...), minimax fit over |r| <= ln 2 / 2. */
#define VMATH_LOG2E 0x1.715476p+0f
#define VMATH_LN2 0x1.62e43p-1f
#define VMATH_LN2_REST -0x1.05c61p-29f
#define VMATH_EXP_MAX 0x1.62e42ep+6f  /* the largest x whose exponential is finite */
#define VMATH_EXP_MIN -0x1.5d589ep+6f /* the smallest x whose exponential is a normal number */
#define VMATH_EXP_C0 0x1.fffffcp-2f
#define VMATH_EXP_C1 0x1.555492p-3f
#define VMATH_EXP_C2 0x1.5558f2p-5f
#define VMATH_EXP_C3 0x1.1239f2p-7f
#define VMATH_EXP_C4 0x1.6a2416p-10f

/* log: x = m 2^e with m in [sqrt 1/2, sqrt 2), f = m - 1, log m = f - f^2 / 2 + f^3 (C0 + C1 f + ...). */
#define VMATH_LN2_HIGH 0x1.62ep-1f /* 12 bits: exact times any exponent */
#define VMATH_LN2_LOW 0x1.0bfbe8p-15f
#define VMATH_LOG_SPLIT 0x3f3504f3 /* bits of sqrt 1/2 */
#define VMATH_LOG_C0 0x1.555554p-2f
#define VMATH_LOG_C1 -0x1.000228p-2f
#define VMATH_LOG_C2 0x1.99a008p-3f
#define VMATH_LOG_C3 -0x1.547244p-3f
#define VMATH_LOG_C4 0x1.22da22p-3f
#define VMATH_LOG_C5 -0x1.0d8552p-3f
#define VMATH_LOG_C6 0x1.055b48p-3f
#define VMATH_LOG_C7 -0x1.38b4d2p-4f

/* gelu, tanh form: gelu(x) = x / (1 + exp(-2 u)), u = sqrt(2 / pi) (x + 0.044715 x^3) */
#define VMATH_GELU_CUBE 0.044715f
#define VMATH_GELU_SCALE -0x1.988454p+0f /* -2 sqrt(2 / pi) */

#define VMATH_GATE_MIN -128.0f /* a gate's input below this gives -0 anyway; keeps -inf / inf away */

static inline uint32_t vmath_bits(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static inline float vmath_float(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

/* e^x. Results below the smallest normal number (x < -87.3365, -inf) are +0: never a denormal, which would
 * slow every product it meets. x > 88.7228 and +inf give +inf. NaN gives NaN. */
static inline float vmath_exp(float x)
{
    const float t = fmaf(x, VMATH_LOG2E, VMATH_ROUND);
    const float n = t - VMATH_ROUND;
    const float r = fmaf(n, -VMATH_LN2_REST, fmaf(n, -VMATH_LN2, x));
    float q = fmaf(VMATH_EXP_C4, r, VMATH_EXP_C3);
    q = fmaf(q, r, VMATH_EXP_C2);
    q = fmaf(q, r, VMATH_EXP_C1);
    q = fmaf(q, r, VMATH_EXP_C0);
    const float p = 1.0f + fmaf(q, r * r, r);
    float y = vmath_float(vmath_bits(p) + (vmath_bits(t) << 23)); /* times 2^n */
    y = x < VMATH_EXP_MIN ? 0.0f : y;
    return x <= VMATH_EXP_MAX ? y : x + INFINITY;
}

/* Natural logarithm. +-0 gives -inf, below zero and NaN give NaN, +inf gives +inf; denormals are exact inputs
 * like any other. */
static inline float vmath_log(float x)
{
    const int tiny = x < 0x1p-126f;
    const uint32_t u = vmath_bits(tiny ? x * 0x1p24f : x) + (0x3f800000u - VMATH_LOG_SPLIT);
    const float e = (float)(((int32_t)u >> 23) - (tiny ? 127 + 24 : 127));
    const float f = vmath_float((u & 0x007fffffu) + VMATH_LOG_SPLIT) - 1.0f;
    const float z = f * f;
    float q = fmaf(VMATH_LOG_C7, f, VMATH_LOG_C6);
    q = fmaf(q, f, VMATH_LOG_C5);
    q = fmaf(q, f, VMATH_LOG_C4);
    q = fmaf(q, f, VMATH_LOG_C3);
    q = fmaf(q, f, VMATH_LOG_C2);
    q = fmaf(q, f, VMATH_LOG_C1);
    q = fmaf(q, f, VMATH_LOG_C0);
    float y = fmaf(q, z * f, e * VMATH_LN2_LOW);
    y = fmaf(z, -0.5f, y);
    y = fmaf(e, VMATH_LN2_HIGH, f + y);
    y = x > 0.0f ? y : x == 0.0f ? -INFINITY : NAN;
    return x < INFINITY ? y : x; /* +inf and NaN pass */
}

/* log(1 + x), within 2 ulp also near 0. -1 gives -inf, below and NaN give NaN, +inf gives +inf, +-0 give +0. As
 * vmath_log of u = 1 + x, with what u has lost put back into f. */
static inline float vmath_log1p(float x)
{
    const float sum = 1.0f + x, lost = x - (sum - 1.0f);
    const uint32_t u = vmath_bits(sum) + (0x3f800000u - VMATH_LOG_SPLIT);
    const float e = (float)(((int32_t)u >> 23) - 127);
    const float m = vmath_float((u & 0x007fffffu) + VMATH_LOG_SPLIT);
    const float f = (m - 1.0f) + lost * (m / sum);
    const float z = f * f;
    float q = fmaf(VMATH_LOG_C7, f, VMATH_LOG_C6);
    q = fmaf(q, f, VMATH_LOG_C5);
    q = fmaf(q, f, VMATH_LOG_C4);
    q = fmaf(q, f, VMATH_LOG_C3);
    q = fmaf(q, f, VMATH_LOG_C2);
    q = fmaf(q, f, VMATH_LOG_C1);
    q = fmaf(q, f, VMATH_LOG_C0);
    float y = fmaf(q, z * f, e * VMATH_LN2_LOW);
    y = fmaf(z, -0.5f, y);
    y = fmaf(e, VMATH_LN2_HIGH, f + y);
    y = x > -1.0f ? y : x == -1.0f ? -INFINITY : NAN;
    return x < INFINITY ? y : x;
}

/* x / (1 + e^-x). -inf gives -0, +inf +inf, NaN NaN. */
static inline float vmath_silu(float x)
{
    return (VMATH_GATE_MIN > x ? VMATH_GATE_MIN : x) / (1.0f + vmath_exp(-x));
}

/* silu(gate) up, with the gate cut at +limit and up at +-limit first unless limit is 0. NaNs pass. */
static inline float vmath_swiglu(float gate, float up, float limit)
{
    if (limit > 0) {
        gate = limit < gate ? limit : gate;
        up = limit < up ? limit : up;
        up = -limit > up ? -limit : up;
    }
    return vmath_silu(gate) * up;
}

/* x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2. -inf gives -0, +inf +inf, NaN NaN. */
static inline float vmath_gelu(float x)
{
    const float u = fmaf(x * x, VMATH_GELU_CUBE, 1.0f) * x;
    return (VMATH_GATE_MIN > x ? VMATH_GATE_MIN : x) / (1.0f + vmath_exp(u * VMATH_GELU_SCALE));
}

typedef struct {
    float sin, cos;
} vmath_angle;

/* sin and cos of a double angle, |x| < 2^31 (a position times a frequency: the product is best formed in
 * double); outside, infinities and NaN give NaN for both. */
static inline vmath_angle vmath_sincos(double x)
{
    if (!(x > -0x1p31 && x < 0x1p31))
        return (vmath_angle) { NAN, NAN };
    /* n = x / (pi / 2) to nearest; pi / 2 in two pieces of 22 bits, whose products with n are exact, and the
     * rest. */
    const double n = (x * 0x1.45f306dc9c883p-1 + 0x1.8p52) - 0x1.8p52;
    const double r = ((x - n * 0x1.921fbp+0) - n * 0x1.5110bp-22) - n * 0x1.18469898cc517p-44;
    const double z = r * r;
    double s = -0x1.a966d46c499e1p-26;
    s = s * z + 0x1.71d77cd5436a2p-19;
    s = s * z - 0x1.a019f95a4eb26p-13;
    s = s * z + 0x1.1111110ca2517p-7;
    s = s * z - 0x1.55555555523f7p-3;
    s = s * z * r + r;
    double c = 0x1.1bc795a733f7p-29;
    c = c * z - 0x1.27e029f70a843p-22;
    c = c * z + 0x1.a019faa91c24fp-16;
    c = c * z - 0x1.6c16c1676a7bbp-10;
    c = c * z + 0x1.5555555553107p-5;
    c = c * z * z - 0.5 * z + 1.0;
    const uint32_t quarter = (uint32_t)(int64_t)n & 3;
    const double sine = quarter & 1 ? c : s, cosine = quarter & 1 ? s : c;
    return (vmath_angle) { (float)(quarter & 2 ? -sine : sine),
                           (float)((quarter + 1) & 2 ? -cosine : cosine) };
}

#endif
