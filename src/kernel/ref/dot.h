/* dot.h: one output of a product, as kernel/ref/matmul.c defines it, for the kernels that multiply.
 *
 * Threads: any; no state.
 */
#ifndef FORAY_KERNEL_REF_DOT_H
#define FORAY_KERNEL_REF_DOT_H

#include "kernel/weight.h"

/* Bytes of a packed row taken apart, and the row itself, of the form that ref_dot reads; 64-aligned. */
size_t ref_weight_row_bytes(const packed_weight *w);
void ref_read_weights(const packed_weight *w, int group, int lane, void *out);

/* weights: of ref_read_weights. x: a row of ref_prepare_row in w->form. */
float ref_dot(const packed_weight *w, const void *weights, const void *x);

#endif
