/* quantise.h: f32 to every weight type, plainly and not too badly. For tests that need weights of a type. */
#ifndef FORAY_TESTS_SUPPORT_QUANTISE_H
#define FORAY_TESTS_SUPPORT_QUANTISE_H

#include "format/dtype.h"

/* Writes n values (a multiple of the type's block) to out, which holds dtype_bytes(type, n). */
void quantise(dtype type, const float *x, size_t n, void *out);

/* The type's number in GGUF files. */
uint32_t quantise_gguf_number(dtype type);

#endif
