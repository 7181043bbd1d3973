/* matmul_case.h: random weights, activations and matmuls for tests and benchmarks of the kernels.
 *
 * Weights are random bytes of a file's layout whose scales are finite, so every bit pattern of a quant occurs.
 * A case owns its memory. Threads: one.
 */
#ifndef FORAY_TESTS_SUPPORT_MATMUL_CASE_H
#define FORAY_TESTS_SUPPORT_MATMUL_CASE_H

#include "kernel/impl.h"

typedef enum {
    VALUES_ORDINARY,
    VALUES_EXTREME, /* zero blocks, denormals, huge and tiny scales, quants at their ends */
    VALUES_BROKEN,  /* infinities and NaN among the activations */
} matmul_values;

/* rows x cols of a type as a file holds them; size from dtype_bytes. Owned: mem_free(MEM_GENERAL, …, *bytes). */
uint8_t *matmul_random_weights(dtype type, int rows, int cols, matmul_values values, uint64_t seed,
                               size_t *bytes);

/* Their scales, where the type has them in a tensor of their own (else NULL): *stride is weight_source's. Owned the same
 * way. Ordinary: 2^-12 … 2^0. */
uint8_t *matmul_random_scales(dtype type, int rows, int cols, matmul_values values, uint64_t seed,
                              size_t *bytes, size_t *stride);

/* The values [cols] of packed row `row` of a source, read from the source itself. */
void matmul_read_source(const weight_source *s, int row, float *out);

/* n activations, stride ignored. Owned, n floats. */
float *matmul_random_floats(size_t n, matmul_values values, uint64_t seed);

/* Runs a kernel's tiles as two workers would that take them from both ends, each with its own scratch. */
void matmul_run_kernel(const kernel_impl *k, const kernel_args *args);

#endif
