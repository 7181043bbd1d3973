/* tensor_file.h: the tensors of a safetensors file under tests/golden, by name. Fails the test where one is missing.
 * Threads: one.
 */
#ifndef FORAY_TESTS_SUPPORT_TENSOR_FILE_H
#define FORAY_TESTS_SUPPORT_TENSOR_FILE_H

#include "base/arena.h"
#include "base/file.h"
#include "format/model_file.h"

typedef struct {
    file_map map;
    arena views;
    tensor_view *tensors;
    size_t count;
} tensor_file;

/* Opens tests/golden/NAME. End with tensor_file_close. */
void tensor_file_open(const char *name, tensor_file *out);
void tensor_file_close(tensor_file *f);

const tensor_view *tensor_file_view(const tensor_file *f, const char *name);

/* A tensor's data, aligned; lives as long as the file. Fails unless it has that type and number of elements. */
const void *tensor_file_data(tensor_file *f, const char *name, dtype type, size_t elements);

#endif
