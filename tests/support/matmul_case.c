/* matmul_case.c: see matmul_case.h. */
#include "support/matmul_case.h"

#include <assert.h>
#include <string.h>

#include "base/mem.h"

/* The i-th word of a seed's sequence (splitmix64's mixer: cheap, and any i at once). */
static uint32_t word(uint64_t seed, size_t i)
{
    uint64_t z = (seed << 32) + (uint64_t)i * 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (uint32_t)(z >> 32 ^ z);
}

/* In [-1, 1). */
static float unit(uint64_t seed, size_t i)
{
    return (float)(int32_t)word(seed, i) * 0x1p-31f;
}

/* Byte offsets of the f16 numbers of a block; returns how many. */
static int f16_places(dtype type, int at[2])
{
    if (type >= DTYPE_F8_E4M3) /* none */
        return 0;
    at[0] = type == DTYPE_Q6_K ? 208 : 0;
    at[1] = 2;
    return type == DTYPE_Q4_1 || type == DTYPE_Q5_1 || type == DTYPE_Q4_K || type == DTYPE_Q5_K ? 2 : 1;
}

static float weight_scale(matmul_values values, uint64_t seed, size_t i)
{
    static const float extreme[] = { 0, 0x1p-24f, -0x1.8p-20f, 60000.0f, -0.0f, 1, -3e-5f, 65504.0f };
    return values == VALUES_EXTREME ? extreme[word(seed, i) % 8] : 0.02f * unit(seed, i);
}

/* An e8m0 byte: 2^-12 … 2^0, or one end or another. */
static uint8_t random_e8m0(matmul_values values, uint64_t seed, size_t i)
{
    static const uint8_t extreme[] = { 0, 1, 60, 127, 200, 254, 255, 120 };
    const uint32_t w = word(seed, i);
    return values == VALUES_EXTREME ? extreme[w % 8] : (uint8_t)(115 + w % 13);
}

static bool is_bytes(dtype type)
{
    return dtype_get(type)->block > 1 || dtype_get(type)->bytes == 1;
}

uint8_t *matmul_random_weights(dtype type, int rows, int cols, matmul_values values, uint64_t seed,
                               size_t *bytes)
{
    uint64_t size;
    const dtype_info *info = dtype_get(type);
    const size_t n = (size_t)rows * (size_t)cols;
    bool whole = dtype_bytes(type, n, &size);
    assert(whole);
    (void)whole;
    *bytes = (size_t)size;
    uint8_t *data = mem_alloc(MEM_GENERAL, *bytes);
    if (!is_bytes(type)) {
        for (size_t i = 0; i < n; i++) {
            float f = values == VALUES_EXTREME ? weight_scale(values, seed, i) : unit(seed, i);
            uint32_t bits;
            memcpy(&bits, &f, 4);
            uint16_t half = type == DTYPE_F16 ? dtype_f32_to_f16(f) : (uint16_t)(bits >> 16);
            memcpy(data + i * (size_t)info->bytes, type == DTYPE_F32 ? (void *)&f : (void *)&half,
                   (size_t)info->bytes);
        }
        return data;
    }
    for (size_t i = 0; i < *bytes; i += 4) {
        uint32_t w = word(seed, i);
        if (values == VALUES_EXTREME && w % 3 == 0) /* all ends: 0x00, 0x7f, 0x80, 0xff */
            w = (w >> 8) % 4 == 0 ? 0 : (w >> 8) % 4 == 1 ? 0x7f7f7f7f : (w >> 8) % 4 == 2 ? 0x80808080 : ~0u;
        memcpy(data + i, &w, *bytes - i < 4 ? *bytes - i : 4);
    }
    for (size_t i = 0; type == DTYPE_F8_E4M3 && values != VALUES_EXTREME && i < *bytes; i++)
        if ((data[i] & 0x7f) == 0x7f)
            data[i] ^= 1; /* NaN */
    for (size_t b = 0; b < n / (size_t)info->block; b++) {
        int at[2];
        if (type == DTYPE_MXFP4)
            data[b * (size_t)info->bytes] = random_e8m0(values, seed + 1, b);
        for (int i = 0, count = f16_places(type, at); i < count; i++) {
            uint16_t half = dtype_f32_to_f16(weight_scale(values, seed + 1, 2 * b + (size_t)i));
            memcpy(data + b * (size_t)info->bytes + at[i], &half, 2);
        }
    }
    return data;
}

uint8_t *matmul_random_scales(dtype type, int rows, int cols, matmul_values values, uint64_t seed,
                              size_t *bytes, size_t *stride)
{
    const size_t n = (size_t)rows, k = (size_t)cols;
    *stride = type == DTYPE_F8_E4M3 ? (k + 127) / 128 : type == DTYPE_F4_E2M1 ? (k + 31) / 32 : 0;
    *bytes = type == DTYPE_F8_E4M3 ? (n + 127) / 128 * *stride : type == DTYPE_I8 ? 4 * n : n * *stride;
    if (*bytes == 0)
        return NULL;
    uint8_t *data = mem_alloc(MEM_GENERAL, *bytes);
    for (size_t i = 0; i < n && type == DTYPE_I8; i++) {
        const float scale = weight_scale(values, seed, i);
        memcpy(data + 4 * i, &scale, 4);
    }
    for (size_t i = 0; i < *bytes && type != DTYPE_I8; i++)
        data[i] = random_e8m0(values, seed, i);
    return data;
}

void matmul_read_source(const weight_source *s, int row, float *out)
{
    const int from = s->order ? s->order[row] : row, at = s->first_row + from;
    const uint8_t *scale = s->scale;
    uint64_t row_bytes;
    dtype_bytes(s->type, (uint64_t)s->cols, &row_bytes);
    dtype_to_f32(s->type, (const uint8_t *)s->data + (size_t)from * row_bytes, (size_t)s->cols, out);
    for (int k = 0; scale && k < s->cols; k++) {
        float factor;
        if (s->type == DTYPE_I8)
            memcpy(&factor, scale + 4 * at, 4);
        else if (s->type == DTYPE_F8_E4M3)
            dtype_to_f32(DTYPE_F8_E8M0, scale + (size_t)(at / 128) * s->scale_stride + k / 128, 1, &factor);
        else
            dtype_to_f32(DTYPE_F8_E8M0, scale + (size_t)at * s->scale_stride + k / 32, 1, &factor);
        out[k] *= factor;
    }
}

float *matmul_random_floats(size_t n, matmul_values values, uint64_t seed)
{
    static const float extreme[] = { 0, -0.0f, 1e-42f, -1e-38f, 1e30f, -127.5f, 0.5f, 3e-30f };
    static const float broken[] = { 1, -2, __builtin_inff(), 0.25f, -__builtin_inff(), __builtin_nanf(""),
                                    0, 7 };
    float *x = mem_alloc(MEM_GENERAL, n * sizeof *x);
    for (size_t i = 0; i < n; i++) {
        x[i] = unit(seed, i);
        uint32_t block = word(seed + 2, i / 32);
        if (values == VALUES_EXTREME && block % 2)
            x[i] = block % 4 == 1 ? 0 : extreme[word(seed + 3, i) % 8];
        if (values == VALUES_BROKEN && block % 8 == 0 && i % 5 == 0)
            x[i] = broken[word(seed + 3, i) % 8];
    }
    return x;
}

void matmul_run_kernel(const kernel_impl *k, const kernel_args *args)
{
    const size_t bytes = k->scratch ? k->scratch(args) : 0;
    const int tiles = k->tiles(args);
    void *scratch[2];
    for (int i = 0; i < 2; i++) {
        scratch[i] = mem_alloc(MEM_GENERAL, bytes);
        memset(scratch[i], 0x7f, bytes);
        if (k->prepare && tiles > 0)
            k->prepare(args, scratch[i]);
    }
    for (int i = 0; i < (tiles + 1) / 2; i++) {
        k->run(args, i, scratch[0]);
        if (tiles - 1 - i > i)
            k->run(args, tiles - 1 - i, scratch[1]);
    }
    for (int i = 0; i < 2; i++)
        mem_free(MEM_GENERAL, scratch[i], bytes);
}
