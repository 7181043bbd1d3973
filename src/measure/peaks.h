/* peaks.h: what this machine can do at most, measured: the denominators of every share that foray prints.
 *
 * Other tenants change a machine from minute to minute, so a peak is only worth comparing with figures of the same
 * run: open once, then call the measurements between the things that are compared with them.
 * Threads: one caller at a time; measurements use the team they are given.
 */
#ifndef FORAY_MEASURE_PEAKS_H
#define FORAY_MEASURE_PEAKS_H

#include <stddef.h>

#include "measure/team.h"

typedef struct peaks peaks;

/* isa: "portable", "avx2" or "avx512", which the machine must have. Allocates and touches `bytes` for reading (0:
 * 512 MiB; below the last-level cache it is no memory bandwidth). *out is owned: peaks_close. */
int peaks_open(const char *isa, size_t bytes, team *t, peaks **out, foray_error *err);
void peaks_close(peaks *p); /* NULL is fine */

/* One pass over all bytes by `threads` threads, each walking four far-apart streams: bytes per second (B2). */
double peaks_read(peaks *p, int threads);

/* The same pass in `pieces` pieces, one after the other: best[i] becomes the smaller of itself and the seconds that
 * piece i took now. Over several rounds their sum is what reading costs while no neighbour interferes, to be
 * compared with figures found in the same way. */
void peaks_read_pieces(peaks *p, int threads, int pieces, double *best);

/* f32 multiply-adds in registers: operations per second, two per multiply-add, all threads together. */
double peaks_fma(peaks *p, int threads);

/* int8 products summed to int32 in registers, with the instructions foray's kernels use (vpdpbusd; maddubs, maddwd
 * and add on AVX2; 0 for portable): operations per second, two per product. */
double peaks_int8(peaks *p, int threads);

/* One barrier of the team, in nanoseconds. */
double peaks_barrier_ns(peaks *p, int threads);

#endif
