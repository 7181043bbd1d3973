/* quantise.c: round to nearest against the block's range; no search for better scales. */
#include "support/quantise.h"

#include <math.h>
#include <string.h>

static void put_u16(uint8_t *p, uint16_t v)
{
    p[0] = (uint8_t)v;
    p[1] = (uint8_t)(v >> 8);
}

static int clamp_round(float x, int low, int high)
{
    long n = lrintf(x);
    return (int)(n < low ? low : n > high ? high : n);
}

static float over(float x, float scale)
{
    return scale != 0 ? x / scale : 0;
}

/* Blocks of 32 with an optional minimum: levels 16 (Q4), 32 (Q5) or, signed, 255 (Q8_0). */
static void block32(dtype type, const float *x, uint8_t *out)
{
    bool has_min = type == DTYPE_Q4_1 || type == DTYPE_Q5_1, five = type == DTYPE_Q5_0 || type == DTYPE_Q5_1;
    float low = x[0], high = x[0], far = 0;
    for (int i = 0; i < 32; i++) {
        low = fminf(low, x[i]);
        high = fmaxf(high, x[i]);
        far = fabsf(x[i]) > fabsf(far) ? x[i] : far;
    }
    int levels = five ? 32 : 16, centre = has_min ? 0 : levels / 2;
    float scale = type == DTYPE_Q8_0 ? fabsf(far) / 127
                  : has_min          ? (high - low) / (float)(levels - 1)
                                     : -far / (float)centre;
    put_u16(out, dtype_f32_to_f16(scale));
    scale = dtype_f16_to_f32(dtype_f32_to_f16(scale)); /* what will be read back */
    out += 2;
    if (type == DTYPE_Q8_0) {
        for (int i = 0; i < 32; i++)
            out[i] = (uint8_t)(int8_t)clamp_round(over(x[i], scale), -127, 127);
        return;
    }
    float min = has_min ? dtype_f16_to_f32(dtype_f32_to_f16(low)) : 0;
    if (has_min) {
        put_u16(out, dtype_f32_to_f16(low));
        out += 2;
    }
    uint32_t fifth = 0;
    uint8_t *nibbles = five ? out + 4 : out;
    for (int i = 0; i < 32; i++) {
        int q = clamp_round(over(x[i] - min, scale) + (float)centre, 0, levels - 1);
        fifth |= (uint32_t)(q >> 4 & 1) << i;
        nibbles[i % 16] = (uint8_t)(i < 16 ? q & 15 : nibbles[i % 16] | (q & 15) << 4);
    }
    if (five)
        memcpy(out, &fifth, 4);
}

/* Q4_K, Q5_K: eight sub-blocks of 32 with 6-bit scales and minima. */
static void block_q45_k(bool five, const float *x, uint8_t *out)
{
    float scale[8], min[8], top_scale = 0, top_min = 0;
    int levels = five ? 32 : 16;
    for (int s = 0; s < 8; s++) {
        float low = 0, high = 0; /* the minimum may not be above zero */
        for (int i = 0; i < 32; i++) {
            low = fminf(low, x[32 * s + i]);
            high = fmaxf(high, x[32 * s + i]);
        }
        scale[s] = (high - low) / (float)(levels - 1);
        min[s] = -low;
        top_scale = fmaxf(top_scale, scale[s]);
        top_min = fmaxf(top_min, min[s]);
    }
    uint16_t d16 = dtype_f32_to_f16(top_scale / 63), m16 = dtype_f32_to_f16(top_min / 63);
    float d = dtype_f16_to_f32(d16), dmin = dtype_f16_to_f32(m16);
    memset(out, 0, five ? 176 : 144);
    put_u16(out, d16);
    put_u16(out + 2, m16);
    uint8_t *packed = out + 4, *qh = out + 16, *qs = out + (five ? 48 : 16);
    for (int s = 0; s < 8; s++) {
        int sc = clamp_round(over(scale[s], d), 0, 63), m = clamp_round(over(min[s], dmin), 0, 63);
        if (s < 4) {
            packed[s] = (uint8_t)(packed[s] | sc);
            packed[s + 4] = (uint8_t)(packed[s + 4] | m);
        } else {
            packed[s + 4] = (uint8_t)((sc & 15) | (m & 15) << 4);
            packed[s - 4] = (uint8_t)(packed[s - 4] | (sc >> 4) << 6);
            packed[s] = (uint8_t)(packed[s] | (m >> 4) << 6);
        }
        for (int i = 0; i < 32; i++) {
            int q = clamp_round(over(x[32 * s + i] + dmin * (float)m, d * (float)sc), 0, levels - 1);
            qs[32 * (s / 2) + i] = (uint8_t)(qs[32 * (s / 2) + i] | (q & 15) << (s % 2 * 4));
            if (five)
                qh[i] = (uint8_t)(qh[i] | (q >> 4) << s);
        }
    }
}

static void block_q6_k(const float *x, uint8_t *out)
{
    float top = 0;
    for (int i = 0; i < 256; i++)
        top = fmaxf(top, fabsf(x[i]));
    uint16_t d16 = dtype_f32_to_f16(top / (32 * 127));
    float d = dtype_f16_to_f32(d16);
    memset(out, 0, 210);
    put_u16(out + 208, d16);
    for (int s = 0; s < 16; s++) {
        float most = 0;
        for (int i = 0; i < 16; i++)
            most = fmaxf(most, fabsf(x[16 * s + i]));
        int scale = clamp_round(over(most / 32, d), 0, 127);
        out[192 + s] = (uint8_t)scale;
        for (int i = 0; i < 16; i++) {
            int e = 16 * s + i, half = e / 128, in = e % 128;
            int q = clamp_round(over(x[e], d * (float)scale), -32, 31) + 32;
            uint8_t *low = &out[64 * half + in % 64], *high = &out[128 + 32 * half + in % 32];
            *low = (uint8_t)(*low | (q & 15) << (in / 64 * 4));
            *high = (uint8_t)(*high | (q >> 4) << (in / 32 * 2));
        }
    }
}

static uint16_t to_bf16(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, 4);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

void quantise(dtype type, const float *x, size_t n, void *out)
{
    const dtype_info *info = dtype_get(type);
    uint8_t *p = out;
    for (size_t i = 0; i < n; i += (size_t)info->block, p += info->bytes) {
        switch (type) {
        case DTYPE_F32:
            memcpy(p, &x[i], 4);
            break;
        case DTYPE_F16:
            put_u16(p, dtype_f32_to_f16(x[i]));
            break;
        case DTYPE_BF16:
            put_u16(p, to_bf16(x[i]));
            break;
        case DTYPE_Q4_K:
        case DTYPE_Q5_K:
            block_q45_k(type == DTYPE_Q5_K, x + i, p);
            break;
        case DTYPE_Q6_K:
            block_q6_k(x + i, p);
            break;
        default:
            block32(type, x + i, p);
        }
    }
}

uint32_t quantise_gguf_number(dtype type)
{
    static const uint32_t numbers[DTYPE_COUNT] = {
        [DTYPE_F32] = 0,   [DTYPE_F16] = 1,  [DTYPE_BF16] = 30, [DTYPE_Q4_0] = 2,  [DTYPE_Q4_1] = 3,
        [DTYPE_Q5_0] = 6,  [DTYPE_Q5_1] = 7, [DTYPE_Q8_0] = 8,  [DTYPE_Q4_K] = 12, [DTYPE_Q5_K] = 13,
        [DTYPE_Q6_K] = 14, [DTYPE_I32] = 26, [DTYPE_I64] = 27,  [DTYPE_I8] = 24,
    };
    return numbers[type];
}
