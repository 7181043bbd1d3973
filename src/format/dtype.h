/* dtype.h: the element types of tensors in files: names, block sizes, and their exact values as f32.
 *
 * Pure. Threads: any.
 */
#ifndef FORAY_FORMAT_DTYPE_H
#define FORAY_FORMAT_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum {
    DTYPE_F32,
    DTYPE_F16,
    DTYPE_BF16,
    DTYPE_Q4_0,
    DTYPE_Q4_1,
    DTYPE_Q5_0,
    DTYPE_Q5_1,
    DTYPE_Q8_0,
    DTYPE_Q4_K,
    DTYPE_Q5_K,
    DTYPE_Q6_K,
    DTYPE_F8_E4M3, /* e4m3fn; scales stand in a tensor of their own */
    DTYPE_F8_E8M0, /* a power of two: 2^(byte - 127) */
    DTYPE_F4_E2M1, /* two per byte, the even column low; scales stand in a tensor of their own */
    DTYPE_MXFP4,   /* GGUF: blocks of 32 = e8m0 byte, then 16 bytes: columns 0 … 15 low, 16 … 31 high */
    DTYPE_I32,
    DTYPE_I64,
    DTYPE_I8,
    DTYPE_U8,
    DTYPE_COUNT,
    DTYPE_UNKNOWN = -1
} dtype;

typedef struct {
    const char *name; /* as GGUF tools print it: "Q4_1" */
    int block;        /* elements per block; 1 for plain types */
    int bytes;        /* bytes per block */
    bool weight;      /* a tensor of it is a weight matrix by itself: no scales elsewhere */
} dtype_info;

const dtype_info *dtype_get(dtype type);

/* Bytes of n consecutive elements (n a multiple of the block), false on overflow or a broken multiple. */
bool dtype_bytes(dtype type, uint64_t n, uint64_t *bytes);

/* Expands n elements (a multiple of the block) to f32, exactly: the definition of each format's values. */
void dtype_to_f32(dtype type, const void *data, size_t n, float *out);

/* Where the first value lies that is infinite or no number: the index of its block's first element; n: there is none, or
 * the type has no such values. n: a multiple of the block. As fast as memory: meant for whole files. */
size_t dtype_find_odd(dtype type, const void *data, size_t n);

float dtype_f16_to_f32(uint16_t h);
uint16_t dtype_f32_to_f16(float f); /* to nearest even */
float dtype_bf16_to_f32(uint16_t h);

/* e4m3fn (0x7f and 0xff are NaN), a power of two (0: 2^-127; 0xff: NaN), e2m1 (the low four bits). */
float dtype_e4m3_to_f32(uint8_t code);
float dtype_e8m0_to_f32(uint8_t code);
float dtype_e2m1_to_f32(int code);

#endif
