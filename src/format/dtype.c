/* dtype.c: element types and the one definition of their values.
 *
 * A quantised block is little-endian: its f16 scales first (K-quants: where the format has them), then packed
 * integers. The expansions below are the plainest reading of each layout and are meant to be checked
 * against, not to be fast: packing at load goes through them or is tested to agree with them. Products of a
 * scale and a quant fit in 24 bits (but for Q6_K, which rounds once), so the order of operations written here
 * is the value.
 * Threads: any; no state.
 */
#include "format/dtype.h"

#include <assert.h>
#include <string.h>

enum { K_BLOCK = 256 };

static const dtype_info infos[DTYPE_COUNT] = {
    [DTYPE_F32] = { "F32", 1, 4, true },
    [DTYPE_F16] = { "F16", 1, 2, true },
    [DTYPE_BF16] = { "BF16", 1, 2, true },
    [DTYPE_Q4_0] = { "Q4_0", 32, 18, true },
    [DTYPE_Q4_1] = { "Q4_1", 32, 20, true },
    [DTYPE_Q5_0] = { "Q5_0", 32, 22, true },
    [DTYPE_Q5_1] = { "Q5_1", 32, 24, true },
    [DTYPE_Q8_0] = { "Q8_0", 32, 34, true },
    [DTYPE_Q4_K] = { "Q4_K", K_BLOCK, 144, true },
    [DTYPE_Q5_K] = { "Q5_K", K_BLOCK, 176, true },
    [DTYPE_Q6_K] = { "Q6_K", K_BLOCK, 210, true },
    [DTYPE_F8_E4M3] = { "F8_E4M3", 1, 1, false },
    [DTYPE_F8_E8M0] = { "F8_E8M0", 1, 1, false },
    [DTYPE_F4_E2M1] = { "F4_E2M1", 2, 1, false },
    [DTYPE_MXFP4] = { "MXFP4", 32, 17, true },
    [DTYPE_I32] = { "I32", 1, 4, false },
    [DTYPE_I64] = { "I64", 1, 8, false },
    [DTYPE_I8] = { "I8", 1, 1, false },
    [DTYPE_U8] = { "U8", 1, 1, false },
};

static const dtype_info unknown_info = { "unknown", 1, 0, false };

const dtype_info *dtype_get(dtype type)
{
    return type >= 0 && type < DTYPE_COUNT ? &infos[type] : &unknown_info;
}

bool dtype_bytes(dtype type, uint64_t n, uint64_t *bytes)
{
    const dtype_info *info = dtype_get(type);
    if (info->bytes == 0 || n % (uint64_t)info->block != 0)
        return false;
    return !__builtin_mul_overflow(n / (uint64_t)info->block, (uint64_t)info->bytes, bytes);
}

static float bits_to_f32(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

float dtype_bf16_to_f32(uint16_t h)
{
    return bits_to_f32((uint32_t)h << 16);
}

float dtype_f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16;
    uint32_t exponent = (h >> 10) & 0x1f, fraction = h & 0x3ff;
    if (exponent == 0x1f) /* infinity; a NaN is made quiet, as the processor's own conversion does */
        return bits_to_f32(sign | 0x7f800000 | fraction << 13 | (fraction ? 0x400000 : 0));
    if (exponent != 0)
        return bits_to_f32(sign | (exponent + 112) << 23 | fraction << 13);
    float tiny = (float)fraction * 0x1p-24f; /* zero and subnormals, exactly */
    return sign ? -tiny : tiny;
}

uint16_t dtype_f32_to_f16(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    uint32_t sign = (bits >> 16) & 0x8000, magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000) /* NaN, quiet, with the payload's top bits */
        return (uint16_t)(sign | 0x7e00 | ((magnitude >> 13) & 0x3ff));
    if (magnitude >= 0x477ff000) /* 65520 and above rounds to infinity */
        return (uint16_t)(sign | 0x7c00);
    if (magnitude < 0x38800000) { /* below 2^-14: a multiple of 2^-24; adding 1/2 rounds it there to even */
        float shifted = bits_to_f32(magnitude) + 0.5f;
        memcpy(&bits, &shifted, sizeof bits);
        return (uint16_t)(sign | (bits - 0x3f000000));
    }
    uint32_t odd = (magnitude >> 13) & 1;
    return (uint16_t)(sign | ((magnitude + 0xfff + odd - (112u << 23)) >> 13));
}

float dtype_e4m3_to_f32(uint8_t code)
{
    const int exponent = code >> 3 & 15, fraction = code & 7;
    if ((code & 0x7f) == 0x7f) /* the only NaN; there are no infinities */
        return bits_to_f32(0x7fc00000 | (uint32_t)(code & 0x80) << 24);
    const float size = exponent ? bits_to_f32((uint32_t)(exponent + 120) << 23 | (uint32_t)fraction << 20)
                                : (float)fraction * 0x1p-9f;
    return code & 0x80 ? -size : size;
}

float dtype_e8m0_to_f32(uint8_t code)
{
    return bits_to_f32(code == 0xff ? 0x7fc00000 : code ? (uint32_t)code << 23 : 0x400000 /* 2^-127 */);
}

float dtype_e2m1_to_f32(int code)
{
    static const float values[16] = { 0,     0.5f,  1,     1.5f,  2,     3,     4,     6,
                                      -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f };
    return values[code & 15];
}

static uint16_t u16_at(const uint8_t *p)
{
    return (uint16_t)(p[0] | p[1] << 8);
}

static uint32_t u32_at(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static float f16_at(const uint8_t *p)
{
    return dtype_f16_to_f32(u16_at(p));
}

/* The plain formats. ---------------------------------------------------------------------------- */

static void expand_plain(dtype type, const uint8_t *p, size_t n, float *out)
{
    for (size_t i = 0; i < n; i++) {
        switch (type) {
        case DTYPE_F32:
            memcpy(&out[i], p + 4 * i, 4);
            break;
        case DTYPE_F16:
            out[i] = f16_at(p + 2 * i);
            break;
        case DTYPE_BF16:
            out[i] = dtype_bf16_to_f32(u16_at(p + 2 * i));
            break;
        case DTYPE_I32:
            out[i] = (float)(int32_t)u32_at(p + 4 * i);
            break;
        case DTYPE_I64:
            out[i] = (float)(int64_t)((uint64_t)u32_at(p + 8 * i + 4) << 32 | u32_at(p + 8 * i));
            break;
        case DTYPE_I8:
            out[i] = (float)(int8_t)p[i];
            break;
        case DTYPE_F8_E4M3:
            out[i] = dtype_e4m3_to_f32(p[i]);
            break;
        case DTYPE_F8_E8M0:
            out[i] = dtype_e8m0_to_f32(p[i]);
            break;
        default:
            out[i] = (float)p[i];
        }
    }
}

/* Blocks of 32. ---------------------------------------------------------------------------------
 *
 *   Q4_0  d            | 16 bytes: low nibbles are elements 0…15, high nibbles 16…31    (q - 8) d
 *   Q4_1  d m          | the same                                                        q d + m
 *   Q5_0  d   | 32 fifth bits | the same                                                (q - 16) d
 *   Q5_1  d m | 32 fifth bits | the same                                                 q d + m
 *   Q8_0  d            | 32 signed bytes                                                 q d
 */

static void expand_nibbles(dtype type, const uint8_t *p, float out[32])
{
    bool has_min = type == DTYPE_Q4_1 || type == DTYPE_Q5_1;
    bool five = type == DTYPE_Q5_0 || type == DTYPE_Q5_1;
    float d = f16_at(p), m = has_min ? f16_at(p + 2) : 0;
    p += has_min ? 4 : 2;
    uint32_t fifth = five ? u32_at(p) : 0;
    p += five ? 4 : 0;
    int centre = has_min ? 0 : five ? 16 : 8;
    for (int i = 0; i < 16; i++) {
        int low = (p[i] & 15) | (int)(fifth >> i & 1) << 4;
        int high = p[i] >> 4 | (int)(fifth >> (i + 16) & 1) << 4;
        out[i] = (float)(low - centre) * d;
        out[i + 16] = (float)(high - centre) * d;
        if (has_min) {
            out[i] += m;
            out[i + 16] += m;
        }
    }
}

static void expand_q8_0(const uint8_t *p, float out[32])
{
    float d = f16_at(p);
    for (int i = 0; i < 32; i++)
        out[i] = (float)(int8_t)p[2 + i] * d;
}

/* MXFP4: a power-of-two scale for 32 e2m1 values, in the order of the blocks above. */
static void expand_mxfp4(const uint8_t *p, float out[32])
{
    const float scale = dtype_e8m0_to_f32(p[0]);
    for (int i = 0; i < 16; i++) {
        out[i] = dtype_e2m1_to_f32(p[1 + i]) * scale;
        out[i + 16] = dtype_e2m1_to_f32(p[1 + i] >> 4) * scale;
    }
}

/* Blocks of 256. --------------------------------------------------------------------------------
 *
 *   Q4_K  d dmin | 12 bytes: 8 scales and 8 minima of 6 bits |             128 bytes of nibbles
 *   Q5_K  d dmin | 12 bytes                                  | 32 bytes qh | 128 bytes of nibbles
 *         sub-block s of 32: value = d scale[s] q - dmin min[s]. Nibbles of sub-blocks 2j (low) and 2j+1 (high)
 *         share 32 bytes; bit s of qh[i] is the fifth bit of element i of sub-block s.
 *   Q6_K  128 bytes ql | 64 bytes qh | 16 signed scales | d
 *         value = d scale[e / 16] (q - 32). Each half of 128 elements: ql[0…63] holds elements 0…63 (low) and
 *         64…127 (high), two bits of qh[e % 32] at 2 (e / 32) on top.
 */

/* The 6-bit scale and minimum of sub-block s: four plain bytes, and the last four's low bits with their two
 * high bits put on top of the first ones. */
static void scale_min(const uint8_t *packed, int s, int *scale, int *min)
{
    if (s < 4) {
        *scale = packed[s] & 63;
        *min = packed[s + 4] & 63;
    } else {
        *scale = (packed[s + 4] & 15) | (packed[s - 4] >> 6) << 4;
        *min = packed[s + 4] >> 4 | (packed[s] >> 6) << 4;
    }
}

static void expand_q45_k(bool five, const uint8_t *p, float out[K_BLOCK])
{
    float d = f16_at(p), dmin = f16_at(p + 2);
    const uint8_t *packed = p + 4, *qh = p + 16, *qs = p + (five ? 48 : 16);
    for (int s = 0; s < 8; s++) {
        int scale, min;
        scale_min(packed, s, &scale, &min);
        float step = d * (float)scale, offset = dmin * (float)min;
        for (int i = 0; i < 32; i++) {
            int q = s & 1 ? qs[32 * (s / 2) + i] >> 4 : qs[32 * (s / 2) + i] & 15;
            if (five)
                q |= (qh[i] >> s & 1) << 4;
            out[32 * s + i] = step * (float)q - offset;
        }
    }
}

static void expand_q6_k(const uint8_t *p, float out[K_BLOCK])
{
    const uint8_t *ql = p, *qh = p + 128, *scales = p + 192;
    float d = f16_at(p + 208);
    for (int e = 0; e < K_BLOCK; e++) {
        int half = e / 128, in = e % 128;
        int low = ql[64 * half + in % 64] >> (in / 64 * 4) & 15;
        int high = qh[32 * half + in % 32] >> (in / 32 * 2) & 3;
        float step = d * (float)(int8_t)scales[e / 16];
        out[e] = step * (float)((low | high << 4) - 32);
    }
}

void dtype_to_f32(dtype type, const void *data, size_t n, float *out)
{
    const dtype_info *info = dtype_get(type);
    assert(info->bytes > 0 && n % (size_t)info->block == 0);
    const uint8_t *p = data;
    if (info->block == 1) {
        expand_plain(type, p, n, out);
        return;
    }
    for (size_t i = 0; i < n; i += (size_t)info->block, p += info->bytes, out += info->block) {
        switch (type) {
        case DTYPE_F4_E2M1:
            out[0] = dtype_e2m1_to_f32(*p);
            out[1] = dtype_e2m1_to_f32(*p >> 4);
            break;
        case DTYPE_MXFP4:
            expand_mxfp4(p, out);
            break;
        case DTYPE_Q8_0:
            expand_q8_0(p, out);
            break;
        case DTYPE_Q4_K:
        case DTYPE_Q5_K:
            expand_q45_k(type == DTYPE_Q5_K, p, out);
            break;
        case DTYPE_Q6_K:
            expand_q6_k(p, out);
            break;
        default:
            expand_nibbles(type, p, out);
        }
    }
}

/* ---- values that are no numbers ---- */

enum { PIECE = 4096 }; /* elements looked at before the first question is asked */

/* The exponent of ones: infinities and NaNs. */
static bool odd16(const uint8_t *p, size_t n, uint16_t exponent)
{
    uint16_t odd = 0;
    for (size_t i = 0; i < n; i++) {
        uint16_t x;
        memcpy(&x, p + 2 * i, sizeof x);
        odd |= (x & exponent) == exponent;
    }
    return odd;
}

static bool odd32(const uint8_t *p, size_t n)
{
    uint32_t odd = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t x;
        memcpy(&x, p + 4 * i, sizeof x);
        odd |= (x & 0x7f800000) == 0x7f800000;
    }
    return odd;
}

static bool odd8(const uint8_t *p, size_t n, uint8_t bits, uint8_t code)
{
    uint8_t odd = 0;
    for (size_t i = 0; i < n; i++)
        odd |= (p[i] & bits) == code;
    return odd;
}

/* Of `n` elements of a plain type, or of `n` elements in blocks, whose scales alone can be odd. */
static bool any_odd(dtype type, const uint8_t *p, size_t n)
{
    const dtype_info *info = dtype_get(type);
    bool odd = false;
    switch ((int)type) {
    case DTYPE_F32:
        return odd32(p, n);
    case DTYPE_F16:
        return odd16(p, n, 0x7c00);
    case DTYPE_BF16:
        return odd16(p, n, 0x7f80);
    case DTYPE_F8_E4M3:
        return odd8(p, n, 0x7f, 0x7f);
    case DTYPE_F8_E8M0:
        return odd8(p, n, 0xff, 0xff);
    case DTYPE_MXFP4:
        for (size_t b = 0; b < n / 32; b++)
            odd = odd || p[b * (size_t)info->bytes] == 0xff;
        return odd;
    case DTYPE_Q4_0:
    case DTYPE_Q5_0:
    case DTYPE_Q8_0:
    case DTYPE_Q4_1:
    case DTYPE_Q5_1:
    case DTYPE_Q4_K:
    case DTYPE_Q5_K:
    case DTYPE_Q6_K: {
        size_t at = type == DTYPE_Q6_K ? 208 : 0;
        bool two = type == DTYPE_Q4_1 || type == DTYPE_Q5_1 || type == DTYPE_Q4_K || type == DTYPE_Q5_K;
        for (size_t b = 0; b < n / (size_t)info->block; b++)
            odd = odd || odd16(p + b * (size_t)info->bytes + at, two ? 2 : 1, 0x7c00);
        return odd;
    }
    default:
        return false;
    }
}

size_t dtype_find_odd(dtype type, const void *data, size_t n)
{
    const dtype_info *info = dtype_get(type);
    const uint8_t *p = data;
    const size_t block = (size_t)info->block;
    for (size_t i = 0, m; i < n; i += m) {
        m = n - i < PIECE ? n - i : PIECE;
        if (!any_odd(type, p + i / block * (size_t)info->bytes, m))
            continue;
        while (!any_odd(type, p + i / block * (size_t)info->bytes, block))
            i += block;
        return i;
    }
    return n;
}
