/* latent.h: what is done to a latent, a head or a compressed entry before it is used or stored: norm, rotation of its
 * last channels, rounding. These functions define the bits (design.md P2).
 *
 *   norm       x[i] = x[i] * s (* weight[i])                        s of kernel/ref/reduce.h over all channels
 *   rotation   pairs (a, b) = (x[2i], x[2i + 1]) of the last rope_dim channels:
 *              a' = fma(a, cos, -(b sin))    b' = fma(b, cos, a sin)    back: with -sin
 *   Hadamard   for half = 1, 2, 4, … < width: pairs (x[i], x[i + half]) become (sum, difference);
 *              then x[i] * (1 / sqrt(width)). Natural order, its own inverse
 *   e4m3       groups of 64 of the channels that are not rotated, the last one may be shorter (round.h)
 *   e2m1       groups of 32 of all channels, likewise
 *
 * Pure. Threads: any, on different vectors.
 */
#ifndef FORAY_KERNEL_REF_LATENT_H
#define FORAY_KERNEL_REF_LATENT_H

#include "kernel/args_sparse.h"

enum { LATENT_F8_GROUP = 64, LATENT_FP4_GROUP = 32 };

/* y may be x. weight NULL: none. */
void latent_norm(const float *x, int width, const float *weight, float eps, float *y);

/* x [width], in place. cos_sin: cos [rope_dim / 2] | sin [rope_dim / 2]. */
void latent_rotate(float *x, int width, int rope_dim, const float *cos_sin, bool inverse);

/* x [width], in place. The Hadamard wants a power of two. */
void latent_round(float *x, int width, int rope_dim, vector_rounding rounding);

#endif
