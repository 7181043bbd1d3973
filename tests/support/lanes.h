/* lanes.h: the vector functions of kernel/cpu (avx2_vmath.h, avx512_vmath.h) behind plain calls, for tests,
 * which are not themselves compiled for an instruction set.
 *
 * A lanes_<isa> may only be called on a machine that has the instruction set: ask lanes_present first.
 * Threads: any.
 */
#ifndef FORAY_TESTS_SUPPORT_LANES_H
#define FORAY_TESTS_SUPPORT_LANES_H

#include <stdbool.h>
#include <stddef.h>

typedef enum { LANES_EXP, LANES_LOG, LANES_LOG1P, LANES_SILU, LANES_GELU, LANES_FUNCTIONS } lanes_function;
typedef enum { LANES_AVX2, LANES_AVX512, LANES_SETS } lanes_set;

/* Whether this machine can run the set's functions. */
bool lanes_present(lanes_set set);

/* y[i] = f(x[i]) for i < n, n a multiple of 16. */
void lanes_avx2(lanes_function f, const float *x, float *y, size_t n);
void lanes_avx512(lanes_function f, const float *x, float *y, size_t n);

/* The same by name of the set, and by kernel/ref/vmath.h. */
void lanes_map(lanes_set set, lanes_function f, const float *x, float *y, size_t n);
float lanes_scalar(lanes_function f, float x);

#endif
