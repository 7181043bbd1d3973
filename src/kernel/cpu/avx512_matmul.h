/* avx512_matmul.h: the pieces of the AVX-512 (VNNI) matmul, put together in avx512_matmul.c.
 *
 * Each dot continues chains of fma as kernel/cpu/matmul.h says, for groups of 16 weight rows and panels of up to
 * 8 activation rows. Only to be called on a machine with AVX-512 F, BW, VL, DQ and VNNI. Threads: any; no state.
 */
#ifndef FORAY_KERNEL_CPU_AVX512_MATMUL_H
#define FORAY_KERNEL_CPU_AVX512_MATMUL_H

#include "kernel/cpu/matmul.h"

void avx512_dot_f32(const matmul_dot *job);
void avx512_dot_f16(const matmul_dot *job);
void avx512_dot_bf16(const matmul_dot *job);
void avx512_dot_q4_0(const matmul_dot *job);
void avx512_dot_q4_1(const matmul_dot *job);
void avx512_dot_q5_0(const matmul_dot *job);
void avx512_dot_q5_1(const matmul_dot *job);
void avx512_dot_q8_0(const matmul_dot *job);
void avx512_dot_q4_k(const matmul_dot *job);
void avx512_dot_q5_k(const matmul_dot *job);
void avx512_dot_q6_k(const matmul_dot *job);
void avx512_dot_f8(const matmul_dot *job);
void avx512_dot_fp4(const matmul_dot *job);
void avx512_dot_i8(const matmul_dot *job);

/* matmul_ops.widen and .prepare; of types of kernel/scaled.h, for the first. */
void avx512_widen(dtype type, const uint8_t *group, int first, int last, float *out);
void avx512_widen_scaled(dtype type, const uint8_t *group, int first, int last, float *out);
void avx512_prepare_panel(activation_form form, const float *x, size_t stride, int rows, int cols,
                          const float *norm, float eps, void *panel);

extern const matmul_ops avx512_matmul_ops;

#endif
