/* panel.h: how prepared activations lie in memory, between the quant and the matmul kernels of one instruction set.
 *
 * Rows are kept in panels of up to `width` rows (ref 1, AVX2 4, AVX-512 8), so that a kernel which computes all
 * rows of a panel walks one pointer with constant offsets. The last panel is as wide as the rows that are left.
 *
 *   Q8    panel: [cols / 32][rows of the panel] q8_block
 *   F32   panel: [cols][rows of the panel] float; a panel of one row is therefore the plain row
 *   F8    the same
 *   I8    panel: [rows of the panel] i8_head, then [cols / 4][rows of the panel] words of four columns, zeros beyond cols
 *
 * Panels of a form follow one another without gaps. Threads: any; no state.
 */
#ifndef FORAY_KERNEL_PANEL_H
#define FORAY_KERNEL_PANEL_H

#include "kernel/weight.h"

/* 32 values of one row. */
typedef struct {
    int8_t q[32];      /* |q| <= 127 */
    float scale;       /* max|x| / 127 */
    float sum;         /* scale times the sum of q, which is an exact integer */
    int32_t offset[2]; /* -128 times the sum of q: of the block, of its first half. For unsigned weights */
} q8_block;

/* A row of int8 with one scale. */
typedef struct {
    float scale;    /* max|x| / 127 */
    int32_t offset; /* -128 times the sum of the row, for unsigned weights */
} i8_head;

/* Rows of floats, rounded or not. */
static inline bool panel_is_float(activation_form form)
{
    return form == ACTIVATION_F32 || form == ACTIVATION_F8;
}

static inline size_t panel_row_bytes(activation_form form, int cols)
{
    const size_t n = (size_t)cols;
    return form == ACTIVATION_Q8   ? n / 32 * sizeof(q8_block)
           : form == ACTIVATION_I8 ? sizeof(i8_head) + (n + 3) / 4 * 4
                                   : n * sizeof(float);
}

/* The first byte of the panel that starts at `row`. */
static inline void *panel_at(activation_form form, int cols, void *data, int row)
{
    return (char *)data + (size_t)row * panel_row_bytes(form, cols);
}

#endif
