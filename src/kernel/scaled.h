/* scaled.h: packed weights of a few bits with scales for tiles, groups or rows: F8_E4M3, F4_E2M1 and MXFP4, I8. How
 * they lie in a group of rows, packing and reading back. Part of weight.h, shared with the vector kernels.
 *
 * A weight is code times scale. A group is runs of { header | blocks }:
 *
 *   F8_E4M3       scale [64 / lanes blocks][lanes] e8m0 | per block of 128 columns: [columns / 4][2][lanes] words of
 *                 16 bits: word p of columns 4 j … holds column p in its low byte, column 2 + p in its high one
 *   F4_E2M1,      scale [64 / lanes blocks][lanes] e8m0 | per block of 32 columns, 16 lanes: [4][lanes] words of 32 bits:
 *   MXFP4         nibble i of word j is column 8 j + i; 8 lanes: [4][2][lanes] words of 16 bits: nibble i of word p is
 *                 column 8 j + 2 i + p
 *   I8            one run: scale [lanes] f32 up to 64 bytes | [columns / 4][lanes] words of 32 bits: byte i is column
 *                 4 j + i, 16 lanes: + 128 as vpdpbusd wants it
 *
 * The last block may be shorter; its words are whole and padded with zeros. Both e2m1 types are the same once packed.
 * Threads: any; no state.
 */
#ifndef FORAY_KERNEL_SCALED_H
#define FORAY_KERNEL_SCALED_H

#include "kernel/weight.h"

enum { SCALED_HEADER = 64, SCALED_F8_COLS = 128, SCALED_FP4_COLS = 32, SCALED_I8_MAX_COLS = 132000 };

/* What is ordinary (packed_weight.ordinary): e8m0 scales of 2^-22 … 2^2 and as many columns. Then a vector kernel may
 * multiply codes first and scales afterwards: kernel/cpu/matmul.h. */
enum { SCALED_MIN = 127 - 22, SCALED_MAX = 127 + 2, SCALED_COLS = 32768 };

static inline bool scaled_is(dtype type)
{
    return type == DTYPE_F8_E4M3 || type == DTYPE_F4_E2M1 || type == DTYPE_MXFP4 || type == DTYPE_I8;
}

/* Columns per block (a scale), bytes of a whole block's words. Not of I8. */
static inline int scaled_block_cols(dtype type)
{
    return type == DTYPE_F8_E4M3 ? SCALED_F8_COLS : SCALED_FP4_COLS;
}

static inline size_t scaled_block_bytes(dtype type, int lanes)
{
    return (size_t)(type == DTYPE_F8_E4M3 ? SCALED_F8_COLS : SCALED_FP4_COLS / 2) * (size_t)lanes;
}

/* Where block b's scales and words are in a group. */
static inline const uint8_t *scaled_scales(dtype type, int lanes, const uint8_t *group, int b)
{
    const int run = SCALED_HEADER / lanes;
    return group + (size_t)(b / run) * (SCALED_HEADER + (size_t)run * scaled_block_bytes(type, lanes)) +
           b % run * lanes;
}

static inline const uint8_t *scaled_words(dtype type, int lanes, const uint8_t *group, int b)
{
    const int run = SCALED_HEADER / lanes;
    return group + (size_t)(b / run + 1) * SCALED_HEADER + (size_t)b * scaled_block_bytes(type, lanes);
}

size_t scaled_group_bytes(dtype type, int cols, int lanes);

/* Bytes that the scales of such a matrix take in a file, at least. */
uint64_t scaled_file_bytes(dtype type, int rows, int cols);

/* Puts row `row` of the source (of data: after order), which stands at src, into its lane of a group that is all zeros.
 * Returns whether its scales are ordinary and no code is a NaN. */
bool scaled_pack_row(const weight_source *s, const uint8_t *src, int row, int lanes, int lane,
                     uint8_t *group);

/* One packed row's values as f32 [cols]; I8: q * scale, rounded. */
void scaled_read_row(const packed_weight *w, int group, int lane, float *out);

/* One packed row of I8: its codes [cols]; returns its scale. */
float scaled_read_codes(const packed_weight *w, int group, int lane, int8_t *out);

#endif
