/* weight.h: weight matrices as the kernels want them.
 *
 * At load each matrix is repacked for one instruction set: groups of `lanes` output rows (8 or 16), so that one
 * vector load serves `lanes` outputs, lane = row, and no horizontal sum is ever needed. One group is one
 * unbroken run of bytes; the groups follow one another. Rows are padded to a whole group with zeros.
 *
 *   group:  for each block of the K direction:  scales [lanes] f16 | minima [lanes] f16 (types that have them) |
 *                                               quants, 4 consecutive k of a row in one 32-bit lane
 *
 * Which form of activations a type is multiplied with, and the exact order of its arithmetic, is the
 * table in kernel/ref/matmul.c. Values do not change by packing; only their place does.
 */
#ifndef FORAY_KERNEL_WEIGHT_H
#define FORAY_KERNEL_WEIGHT_H

#include "base/error.h"
#include "format/dtype.h"

/* Activations: f32 as they are, or int8 in blocks of 32 with a scale and the scaled sum of each block. */
typedef enum { ACTIVATION_F32, ACTIVATION_Q8 } activation_form;

typedef struct {
    float *f32;    /* [rows, cols]        ACTIVATION_F32 */
    int8_t *q;     /* [rows, cols]        ACTIVATION_Q8: round-to-even(x / scale), |q| <= 127 */
    float *scale;  /* [rows, cols / 32]   max|x| / 127 */
    float *sum;    /* [rows, cols / 32]   scale * sum of q, exact integer sum first */
} activation;

/* Bytes for rows x cols in a form, and its carving out of one buffer (64-aligned parts). */
size_t activation_bytes(activation_form form, int rows, int cols);
activation activation_at(activation_form form, int rows, int cols, void *buffer);

typedef struct {
    dtype type;
    int rows, cols;  /* outputs N, inputs K; gated pairs: N counts both */
    int lanes;       /* rows per group */
    int groups;
    size_t group_bytes;
    uint8_t *data; /* [groups][group_bytes], MEM_WEIGHTS */
    size_t bytes;
    activation_form form;
    uint64_t file_bytes; /* of the same matrix in the file: what decode must read at least */
} packed_weight;

/* One source of rows for packing: rows of a matrix in a file. */
typedef struct {
    const void *data; /* [rows, cols] in the file's layout */
    dtype type;
    int rows, cols;
    const int32_t *order; /* [rows]: packed row i is source row order[i]; NULL: as they stand */
} weight_source;

/* Packs the sources one below the other (q|k|v), or, with interleave, row by row in turn (gate, up, gate, up, …
 * in blocks of `lanes` rows: a group of gates, then its group of ups). All sources have one type and one cols.
 * lanes: kernel_lanes(). *out is owned: weight_free. EUNSUPPORTED names a type without kernels. */
int weight_pack(const weight_source *sources, int count, bool interleave, int lanes, packed_weight *out,
                foray_error *err);
void weight_free(packed_weight *w);
bool weight_type_supported(dtype type);

#endif
