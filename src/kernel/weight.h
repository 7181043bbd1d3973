/* weight.h: weight matrices and activations as the kernels want them.
 *
 * At load each matrix is repacked for one instruction set: groups of `lanes` output rows (8 or 16), so that one
 * vector load serves `lanes` outputs, lane = row, and no horizontal sum is ever needed. One group is one
 * unbroken run of bytes, a multiple of 64; the groups follow one another. Rows are padded to a whole group.
 *
 *   F32, F16   [cols][lanes]
 *   BF16       [cols / 2][lanes] pairs: the even column in the low half of a 32-bit lane
 *   blocks     runs of { header | quants of its blocks }: weight_layout
 *   F8_E4M3, F4_E2M1, MXFP4, I8: kernel/scaled.h
 *
 * Which form of activations a type is multiplied with, and the exact order of its arithmetic, is the
 * table in kernel/ref/matmul.c. Values do not change by packing; only their place does.
 * Threads: any; a packed weight is never written after weight_pack.
 */
#ifndef FORAY_KERNEL_WEIGHT_H
#define FORAY_KERNEL_WEIGHT_H

#include "base/error.h"
#include "format/dtype.h"

/* Activations: f32 as they are; int8 in blocks of 32 with a scale and the scaled sum of each block; f32 rounded to e4m3 in
 * groups of 128 with power-of-two scales (laid out like F32); int8 with one scale for the whole row. */
typedef enum { ACTIVATION_F32, ACTIVATION_Q8, ACTIVATION_F8, ACTIVATION_I8 } activation_form;

/* Prepared activations of a pass: written by KERNEL_QUANT, read by KERNEL_MATMUL of the same instruction set,
 * opaque to everyone else (kernel/panel.h). */
typedef struct {
    void *data; /* NULL: none */
    size_t bytes;
} activation;

/* Bytes for up to rows x cols in a form, whatever the instruction set, and the view of a 64-aligned buffer of
 * that size. Q8 needs cols to be a multiple of 32. */
size_t activation_bytes(activation_form form, int rows, int cols);
activation activation_at(activation_form form, int rows, int cols, void *buffer);

typedef struct {
    dtype type;
    int rows, cols; /* outputs N, inputs K; gated pairs: N counts both */
    int lanes;      /* rows per group */
    int groups;
    size_t group_bytes;
    uint8_t *data; /* [groups][group_bytes], MEM_WEIGHTS */
    size_t bytes;
    activation_form form;
    bool ordinary;       /* F8_E4M3, F4_E2M1, MXFP4: neither scales nor codes are odd (kernel/scaled.h) */
    uint64_t file_bytes; /* of the same matrix in the file: what decode must read at least */
} packed_weight;

/* One source of rows for packing: rows of a matrix in a file. */
typedef struct {
    const void *data; /* [rows, cols] in the file's layout */
    dtype type;
    int rows, cols;
    const int32_t *order; /* [rows]: packed row i is source row order[i]; NULL: as they stand */
    /* F8_E4M3: one e8m0 byte per tile of 128 x 128, rows of tiles scale_stride bytes apart. F4_E2M1 (two per byte, the
     * even column low): one e8m0 byte per 32 columns of a row, rows scale_stride bytes apart. I8: one f32 per row. */
    const void *scale;
    size_t scale_stride;
    int first_row;    /* of the matrix: data is its row first_row, scale belongs to its row 0 */
    size_t row_bytes; /* from row to row, where the columns are some of longer rows; 0: cols are all */
} weight_source;

/* The form a type's activations take: what its own arithmetic needs, or with `rounded` false (F8_E4M3, F4_E2M1,
 * MXFP4, I8 only) plain f32: the weights' values times unrounded activations. */
activation_form weight_form(dtype type, bool rounded);

/* Packs the sources one below the other (q|k|v), or, with interleave, row by row in turn (gate, up, gate, up, …
 * in blocks of `lanes` rows: a group of gates, then its group of ups; all with the same number of rows). All
 * sources have one type and one cols. lanes: of the kernel table. *out is owned: weight_free.
 * EUNSUPPORTED names a type without kernels or without its scales, or columns that are not whole blocks. */
int weight_pack(const weight_source *sources, int count, bool interleave, bool rounded, int lanes,
                packed_weight *out, foray_error *err);
void weight_free(packed_weight *w); /* w may be zeroed */

/* The two halves of weight_pack, for owners of larger blocks (kernel/expert_block.h). What packing would give, but for
 * data, with weight_pack's errors; then the packing itself into w->data [w->bytes], which the caller set: 64-aligned,
 * borrowed (never weight_free). The sources are those of the plan. */
int weight_plan(const weight_source *sources, int count, bool interleave, bool rounded, int lanes,
                packed_weight *out, foray_error *err);
void weight_pack_into(const weight_source *sources, int count, bool interleave, packed_weight *w);

/* Whether tensors of a type can be packed as they stand: they have kernels, and need no scales from elsewhere. */
bool weight_type_supported(dtype type);

/* Where things are in a group of a block type. `run` blocks share one header; the last run may be shorter, its
 * header is not:
 *
 *   header   Q4_0 Q5_0 Q8_0   d [run][lanes] f16, 64 bytes in all
 *            Q4_1 Q5_1        d [lanes] f16 | m [lanes] f16
 *            Q4_K Q5_K        d [lanes] f16 | dmin [lanes] f16 | scale [8][lanes] u8 | min [8][lanes] u8
 *            Q6_K             scale [16][lanes] s8 | d [lanes] f16 | zeros up to 64
 *   quants   of each 32 columns: 32-bit lanes of 4 bytes i, so that chunk j of 8 holds column 4 j + i
 *            5 bits   plane [lanes] first: bit j of byte i is the fifth bit of chunk j
 *            6 bits   plane [2][lanes] first: bits 2j, 2j+1 of byte i of plane h are on top of chunk 4 h + j
 *            4 … 6    nibbles [4][lanes]: chunk j low, chunk j + 4 high
 *            8 bits   [8][lanes], 16 lanes: value + 128 as vpdpbusd wants it, 8 lanes: signed
 */
typedef struct {
    int block;            /* columns per block: 32, or 256 */
    int run;              /* blocks per header */
    size_t header, scale; /* bytes of a header; of one block's part of it */
    size_t quants;        /* bytes of a block's quants */
} weight_layout;

weight_layout weight_layout_of(dtype type, int lanes);

/* 32 columns of one packed row of a block type, read back: column k is scale[k / 16] * q[k] + min, exactly. */
typedef struct {
    int8_t q[32];
    float scale[2], min;
} weight_block;

void weight_read_block(const packed_weight *w, int group, int lane, int block32, weight_block *out);

/* One packed row of F32, F16 or BF16, or of a type of kernel/scaled.h: out [cols]. */
void weight_read_row(const packed_weight *w, int group, int lane, float *out);

#endif
