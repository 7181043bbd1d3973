/* args_sparse.h: arguments of the compressed sparse attention kernels: one latent per token that is both key and
 * value, a window ring, compressed entries, an indexer that chooses among them (spec: DeepSeek-V4 2.4 to 2.7).
 * Part of kernel.h.
 *
 *   tokens     0 1 2 3 4 5 6 7 …             ratio 4: entry j is pooled from tokens 4j-4 … 4j+3 (j 0: from 0 … 3)
 *   entries          0       1               and is visible from token 4j+3 on, the one that completes it
 *
 * Rotation everywhere here: interleaved pairs (x[2i], x[2i+1]) of the LAST rope_dim channels.
 */
#ifndef FORAY_KERNEL_ARGS_SPARSE_H
#define FORAY_KERNEL_ARGS_SPARSE_H

#include <stdbool.h>

#include "kernel/rows.h"

/* What is done to a vector before it is used or stored: the rounding the checkpoint was trained with. */
typedef enum {
    ROUND_NONE,
    ROUND_F8,       /* e4m3 in groups of 64 with power-of-two scales, on the channels that are not rotated */
    ROUND_HADAMARD, /* Hadamard over all channels (width a power of two) */
    ROUND_HADAMARD_FP4, /* the same, then e2m1 in groups of 32 */
} vector_rounding;

/* Each head of a row in turn: optional RMSNorm without weight over the whole head, rotation, rounding. In place. */
typedef struct {
    row_count rows;
    float *x; /* [rows, heads, width] */
    int heads, width, rope_dim;
    bool norm;
    float eps;
    const float *cos_sin; /* [rows, rope_dim] of KERNEL_ROPE_ANGLES */
    bool inverse;         /* rotate back */
    vector_rounding rounding;
} args_head_rope;

/* The row's latent: RMSNorm with weight, rotation, rounding; stored as entry position[row] of slot[row]. */
typedef struct {
    row_count rows;
    const float *x; /* [rows, width] with stride */
    size_t x_stride;
    int width, rope_dim;
    const float *norm; /* [width] */
    float eps;
    const float *cos_sin;           /* [rows, rope_dim] */
    const int32_t *position, *slot; /* [rows] */
    vector_rounding rounding;
    entry_rows out;
} args_latent_store;

/* Compressor, first half: x row = [kv | score] of `width` floats each; kv and score + ape[p mod ratio] become entry
 * position[row] of the state ring, whose entries are [kv | score] (2 width floats). */
typedef struct {
    row_count rows;
    const float *x; /* [rows, 2 width] */
    size_t x_stride;
    const float *ape; /* [ratio, width] */
    int width, ratio;
    const int32_t *position, *slot; /* [rows] */
    entry_rows state;
} args_state_store;

/* Compressor, second half: a row whose token completes a group pools it and stores entry p / ratio. Not overlapped:
 * width channels over `ratio` tokens. Overlapped: the state is 2 width wide; the group before contributes its first
 * halves, this group its second halves, and a group before token 0 contributes nothing. Per channel a softmax over
 * the scores weighs the kv; then RMSNorm, rotation at position p - p % ratio, rounding. */
typedef struct {
    row_count rows;
    const int32_t *position, *slot; /* [rows] */
    int ratio, width, rope_dim;
    bool overlap;
    const float *norm; /* [width] */
    float eps;
    const float *frequency; /* [rope_dim / 2] */
    vector_rounding rounding;
    entry_rows state, out;
} args_compress;

/* score[row, j] = scale * sum_h weight[row, h] relu(q[row, h] . key_j) for the visible j < (p + 1) / ratio. Rows that see
 * at most `top` entries are skipped: all of them are chosen. */
typedef struct {
    row_count rows;
    const int32_t *position, *slot; /* [rows] */
    const float *q;                 /* [rows, heads, width] */
    const float *weight;            /* [rows, heads] */
    float scale;
    int heads, width, ratio, top;
    entry_rows keys;
    int max_entries; /* upper bound of visible entries */
    float *score;    /* [rows, max_entries] */
} args_index_score;

/* chosen[row, 0 … count[row]): the `top` visible entries with the largest scores, ids ascending; ties go to the
 * lowest id. */
typedef struct {
    row_count rows;
    const int32_t *position; /* [rows] */
    int ratio, top, max_entries;
    const float *score; /* [rows, max_entries] */
    int32_t *chosen;    /* [rows, top] */
    int32_t *count;     /* [rows] */
} args_index_select;

/* A row at position p sees the window entries max(0, p - window + 1) … p and, with a ratio, compressed entries: those
 * chosen, or (chosen NULL) all visible ones. Keys are values. One learned logit per head joins the denominator.
 *
 *   s_k = scale q.key_k      out[row, h] = sum_k exp(s_k - m) key_k / (sum_k exp(s_k - m) + exp(sink_h - m))
 *
 * m = max of all s_k and sink_h; sums run over the window in ascending position, then over entries in ascending id. */
typedef struct {
    row_count rows;
    const int32_t *position, *slot; /* [rows] */
    const float *q;                 /* [rows, heads, width] */
    int heads, width;
    float scale;
    const float *sink; /* [heads] */
    int window;
    entry_rows ring;
    int ratio; /* 0: window only */
    entry_rows entries;
    const int32_t *chosen, *count; /* of index_select; NULL: every visible entry */
    int top;                       /* row stride of chosen */
    int max_entries;               /* upper bound of compressed entries that a row reads */
    float *out;                    /* [rows, heads, width] */
} args_sparse_attention;

/* Whole entries, copied. KERNEL_ENTRY_STORE: x row to entry position[row] of slot[row]; KERNEL_ENTRY_LOAD: the other way.
 * position NULL: entry 0. */
typedef struct {
    row_count rows;
    const int32_t *position, *slot; /* [rows] */
    entry_rows entries;
    float *x; /* [rows, entries.width]; only read by ENTRY_STORE */
} args_entry_copy;

#endif
