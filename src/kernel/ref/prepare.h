/* prepare.h: one activation row in the form that the weights want, as kernel/ref/quant.c defines it.
 *
 * Shared by the quant kernel and by matmuls that prepare their rows privately. Threads: any; no state.
 */
#ifndef FORAY_KERNEL_REF_PREPARE_H
#define FORAY_KERNEL_REF_PREPARE_H

#include "kernel/weight.h"

/* x [cols], after RMSNorm with weight norm [cols] unless that is NULL, into a panel of one row
 * (kernel/panel.h). */
void ref_prepare_row(activation_form form, const float *x, int cols, const float *norm, float eps, void *out);

#endif
