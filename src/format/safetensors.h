/* safetensors.h: reads a safetensors file that stands in memory.
 *
 * Pure: bytes in, views in the caller's arena out. Strict, as the format's reference is: the data section is
 * covered by the tensors without overlap, gap or rest, and each has exactly the bytes of its type and shape.
 * Threads: any.
 */
#ifndef FORAY_FORMAT_SAFETENSORS_H
#define FORAY_FORMAT_SAFETENSORS_H

#include "base/arena.h"
#include "base/error.h"
#include "format/model_file.h"

enum { SAFETENSORS_MAX_HEADER = 100 * 1000 * 1000 };

/* Parses size bytes into *tensors[*count], in the order of the header. path is borrowed, for messages and views.
 * EFILE names what is damaged and where; a type that foray does not know is listed as DTYPE_UNKNOWN. */
int safetensors_parse(const uint8_t *bytes, size_t size, const char *path, arena *a, tensor_view **tensors,
                      size_t *count, foray_error *err);

#endif
