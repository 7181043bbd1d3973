/* safetensors_write.h: makes safetensors files. For tests. Knows the format from its description only.
 *
 * Threads: one per writer.
 */
#ifndef FORAY_TESTS_SUPPORT_SAFETENSORS_WRITE_H
#define FORAY_TESTS_SUPPORT_SAFETENSORS_WRITE_H

#include "base/buf.h"

/* Start from {0}. */
typedef struct {
    buf header, data;
} safetensors_writer;

/* type: as the format calls it ("BF16", "F8_E8M0", …). */
void safetensors_add(safetensors_writer *w, const char *name, const char *type, int dims,
                     const int64_t *shape, const void *data, size_t bytes);
/* Writes the file and empties w. */
void safetensors_finish_file(safetensors_writer *w, const char *path);

#endif
