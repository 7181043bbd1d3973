/* scaled.c: packing and reading back of weights with scales of their own; see scaled.h.
 *
 * Threads: any; no state.
 */
#include "kernel/scaled.h"

#include <string.h>

static int div_up(int a, int b)
{
    return (a + b - 1) / b;
}

size_t scaled_group_bytes(dtype type, int cols, int lanes)
{
    const size_t n = (size_t)lanes;
    if (type == DTYPE_I8)
        return SCALED_HEADER + (size_t)div_up(cols, 4) * 4 * n;
    const int per_word = type == DTYPE_F8_E4M3 ? 4 : 8;
    const int runs = div_up(div_up(cols, scaled_block_cols(type)), SCALED_HEADER / lanes);
    return (size_t)runs * SCALED_HEADER + (size_t)div_up(cols, per_word) * 4 * n;
}

uint64_t scaled_file_bytes(dtype type, int rows, int cols)
{
    switch (type) {
    case DTYPE_F8_E4M3:
        return (uint64_t)div_up(rows, SCALED_F8_COLS) * (uint64_t)div_up(cols, SCALED_F8_COLS);
    case DTYPE_F4_E2M1:
        return (uint64_t)rows * (uint64_t)div_up(cols, SCALED_FP4_COLS);
    case DTYPE_I8:
        return (uint64_t)rows * sizeof(float);
    default:
        return 0;
    }
}

/* ---- packing ---- */

/* Up to 4 bytes from p, the first lowest. */
static uint32_t word_at(const uint8_t *p, int bytes)
{
    uint32_t word = 0;
    memcpy(&word, p, bytes < 4 ? (size_t)bytes : 4);
    return word;
}

static void put_word32(uint8_t *words, int lanes, int j, int lane, uint32_t word)
{
    memcpy(words + ((size_t)j * (size_t)lanes + (size_t)lane) * 4, &word, 4);
}

/* Words p = 0, 1 of pair j. */
static void put_words16(uint8_t *words, int lanes, int j, int lane, uint32_t first, uint32_t second)
{
    const uint16_t pair[2] = { (uint16_t)first, (uint16_t)second };
    for (int p = 0; p < 2; p++)
        memcpy(words + ((size_t)(2 * j + p) * (size_t)lanes + (size_t)lane) * 2, &pair[p], 2);
}

static bool is_ordinary(uint8_t scale)
{
    return scale >= SCALED_MIN && scale <= SCALED_MAX;
}

static bool pack_f8(const uint8_t *src, const uint8_t *scale, int cols, int lanes, int lane, uint8_t *group)
{
    bool ordinary = true;
    for (int k = 0; k < cols; k += 4) {
        const int b = k / SCALED_F8_COLS;
        const uint32_t w = word_at(src + k, cols - k);
        if (k % SCALED_F8_COLS == 0) {
            ((uint8_t *)(uintptr_t)scaled_scales(DTYPE_F8_E4M3, lanes, group, b))[lane] = scale[b];
            ordinary = ordinary && is_ordinary(scale[b]);
        }
        put_words16((uint8_t *)(uintptr_t)scaled_words(DTYPE_F8_E4M3, lanes, group, b), lanes,
                    k % SCALED_F8_COLS / 4, lane, (w & 0xff) | (w >> 8 & 0xff00),
                    (w >> 8 & 0xff) | (w >> 16 & 0xff00));
        ordinary = ordinary && !(((w & 0x7f7f7f7f) + 0x01010101) & 0x80808080); /* 0x7f: NaN */
    }
    return ordinary;
}

/* The nibbles at even places, together. */
static uint32_t even_nibbles(uint32_t w)
{
    w &= 0x0f0f0f0f;
    w = (w | w >> 4) & 0x00ff00ff;
    return (w | w >> 8) & 0xffff;
}

/* Eight columns, the first lowest. */
static void put_nibbles(uint8_t *words, int lanes, int j, int lane, uint32_t w)
{
    if (lanes == 16)
        put_word32(words, lanes, j, lane, w);
    else
        put_words16(words, lanes, j, lane, even_nibbles(w), even_nibbles(w >> 4));
}

static bool pack_e2m1(const uint8_t *src, const uint8_t *scale, int cols, int lanes, int lane, uint8_t *group)
{
    bool ordinary = true;
    for (int k = 0; k < cols; k += SCALED_FP4_COLS) {
        const int b = k / SCALED_FP4_COLS;
        uint8_t *words = (uint8_t *)(uintptr_t)scaled_words(DTYPE_F4_E2M1, lanes, group, b);
        ((uint8_t *)(uintptr_t)scaled_scales(DTYPE_F4_E2M1, lanes, group, b))[lane] = scale[b];
        ordinary = ordinary && is_ordinary(scale[b]);
        for (int i = 0; i < SCALED_FP4_COLS && k + i < cols; i += 8)
            put_nibbles(words, lanes, i / 8, lane, word_at(src + (k + i) / 2, (cols - k - i + 1) / 2));
    }
    return ordinary;
}

static bool pack_mxfp4(const uint8_t *src, int cols, int lanes, int lane, uint8_t *group)
{
    bool ordinary = true;
    for (int b = 0; b < cols / SCALED_FP4_COLS; b++, src += 17) {
        uint8_t *words = (uint8_t *)(uintptr_t)scaled_words(DTYPE_MXFP4, lanes, group, b);
        ((uint8_t *)(uintptr_t)scaled_scales(DTYPE_MXFP4, lanes, group, b))[lane] = src[0];
        ordinary = ordinary && is_ordinary(src[0]);
        for (int j = 0; j < 4; j++) { /* columns 0 … 15 are low nibbles, 16 … 31 high ones */
            uint32_t w = 0;
            for (int i = 0; i < 8; i++)
                w |= (uint32_t)(src[1 + j % 2 * 8 + i] >> (j / 2 * 4) & 15) << 4 * i;
            put_nibbles(words, lanes, j, lane, w);
        }
    }
    return ordinary;
}

static void pack_i8(const uint8_t *src, const void *scale, int cols, int lanes, int lane, uint8_t *group)
{
    const uint32_t flip = lanes == 16 ? 0x80808080u : 0;
    memcpy(group + 4 * lane, scale, sizeof(float));
    for (int k = 0; k < cols; k += 4)
        put_word32(group + SCALED_HEADER, lanes, k / 4, lane, word_at(src + k, cols - k) ^ flip);
}

bool scaled_pack_row(const weight_source *s, const uint8_t *src, int row, int lanes, int lane, uint8_t *group)
{
    const uint8_t *scale = s->scale;
    const size_t scale_row = (size_t)(s->first_row + row);
    switch (s->type) {
    case DTYPE_F8_E4M3:
        return pack_f8(src, scale + scale_row / SCALED_F8_COLS * s->scale_stride, s->cols, lanes, lane,
                       group);
    case DTYPE_F4_E2M1:
        return pack_e2m1(src, scale + scale_row * s->scale_stride, s->cols, lanes, lane, group);
    case DTYPE_MXFP4:
        return pack_mxfp4(src, s->cols, lanes, lane, group);
    default:
        pack_i8(src, scale + scale_row * sizeof(float), s->cols, lanes, lane, group);
        return true;
    }
}

/* ---- reading back ---- */

static int read_word16(const uint8_t *words, int lanes, int j, int p, int lane)
{
    const uint8_t *at = words + ((size_t)(2 * j + p) * (size_t)lanes + (size_t)lane) * 2;
    return at[0] | at[1] << 8;
}

static int read_nibble(const uint8_t *words, int lanes, int i, int lane)
{
    if (lanes == 16)
        return words[((size_t)(i / 8) * 16 + (size_t)lane) * 4 + (size_t)(i % 8 / 2)] >> (i % 2 * 4) & 15;
    return read_word16(words, lanes, i / 8, i % 2, lane) >> (i % 8 / 2 * 4) & 15;
}

float scaled_read_codes(const packed_weight *w, int group, int lane, int8_t *out)
{
    const uint8_t *p = w->data + (size_t)group * w->group_bytes, *words = p + SCALED_HEADER;
    float scale;
    memcpy(&scale, p + 4 * lane, sizeof scale);
    for (int k = 0; k < w->cols; k++) {
        const uint8_t byte = words[((size_t)(k / 4) * (size_t)w->lanes + (size_t)lane) * 4 + (size_t)(k % 4)];
        out[k] = (int8_t)(w->lanes == 16 ? byte ^ 0x80 : byte);
    }
    return scale;
}

void scaled_read_row(const packed_weight *w, int group, int lane, float *out)
{
    const uint8_t *p = w->data + (size_t)group * w->group_bytes;
    if (w->type == DTYPE_I8) {
        int8_t *codes = (int8_t *)out; /* the first quarter; widened from the end */
        const float scale = scaled_read_codes(w, group, lane, codes);
        for (int k = w->cols - 1; k >= 0; k--) {
            const float value = (float)codes[k] * scale;
            memcpy(&out[k], &value, sizeof value);
        }
        return;
    }
    const int cols = scaled_block_cols(w->type);
    for (int k = 0; k < w->cols; k++) {
        const uint8_t *words = scaled_words(w->type, w->lanes, p, k / cols);
        const float scale = dtype_e8m0_to_f32(scaled_scales(w->type, w->lanes, p, k / cols)[lane]);
        const int i = k % cols;
        const float code =
            w->type == DTYPE_F8_E4M3
                ? dtype_e4m3_to_f32(
                      (uint8_t)(read_word16(words, w->lanes, i / 4, i % 2, lane) >> (i % 4 / 2 * 8)))
                : dtype_e2m1_to_f32(read_nibble(words, w->lanes, i, lane));
        out[k] = code * scale;
    }
}
