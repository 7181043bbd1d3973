/* avx2_matmul.h: the pieces of the AVX2 matmul, put together in avx2_matmul.c.
 *
 * Each dot continues chains of fma as kernel/cpu/matmul.h says, for groups of 8 weight rows and panels of up to
 * 4 activation rows. Only to be called on a machine with AVX2, FMA and F16C. Threads: any; no state.
 */
#ifndef FORAY_KERNEL_CPU_AVX2_MATMUL_H
#define FORAY_KERNEL_CPU_AVX2_MATMUL_H

#include "kernel/cpu/matmul.h"

void avx2_dot_f32(const matmul_dot *job);
void avx2_dot_f16(const matmul_dot *job);
void avx2_dot_bf16(const matmul_dot *job);
void avx2_dot_q4_0(const matmul_dot *job);
void avx2_dot_q4_1(const matmul_dot *job);
void avx2_dot_q5_0(const matmul_dot *job);
void avx2_dot_q5_1(const matmul_dot *job);
void avx2_dot_q8_0(const matmul_dot *job);
void avx2_dot_q4_k(const matmul_dot *job);
void avx2_dot_q5_k(const matmul_dot *job);
void avx2_dot_q6_k(const matmul_dot *job);
void avx2_dot_f8(const matmul_dot *job);
void avx2_dot_fp4(const matmul_dot *job);
void avx2_dot_i8(const matmul_dot *job);

/* matmul_ops.widen and .prepare; of types of kernel/scaled.h, for the first. */
void avx2_widen(dtype type, const uint8_t *group, int first, int last, float *out);
void avx2_widen_scaled(dtype type, const uint8_t *group, int first, int last, float *out);
void avx2_prepare_panel(activation_form form, const float *x, size_t stride, int rows, int cols,
                        const float *norm, float eps, void *panel);

extern const matmul_ops avx2_matmul_ops;

#endif
