/* gguf_write.h: makes GGUF files in memory, well-formed ones and, by raw values, broken ones. For tests.
 *
 * Knows the format from its description only, not through src/format. Not for many threads.
 */
#ifndef FORAY_TESTS_SUPPORT_GGUF_WRITE_H
#define FORAY_TESTS_SUPPORT_GGUF_WRITE_H

#include "base/buf.h"

/* Numbers of the value types. */
enum {
    GW_U8,
    GW_I8,
    GW_U16,
    GW_I16,
    GW_U32,
    GW_I32,
    GW_F32,
    GW_BOOL,
    GW_STRING,
    GW_ARRAY,
    GW_U64,
    GW_I64,
    GW_F64
};

/* Start from {0}. */
typedef struct {
    buf keys, tensors, data;
    uint64_t key_count, tensor_count;
    uint64_t alignment; /* 0: 32. Not written as a key by itself. */
} gguf_writer;

void gguf_put(buf *b, uint64_t value, size_t bytes); /* little-endian */
void gguf_put_string(buf *b, const char *text, size_t bytes);

/* A key of any type with its value's raw bytes. */
void gguf_key_raw(gguf_writer *w, const char *key, uint32_t type, const void *value, size_t bytes);
void gguf_key_u32(gguf_writer *w, const char *key, uint32_t value);
void gguf_key_f32(gguf_writer *w, const char *key, float value);
void gguf_key_bool(gguf_writer *w, const char *key, bool value);
void gguf_key_string(gguf_writer *w, const char *key, const char *value);
void gguf_key_strings(gguf_writer *w, const char *key, const char *const *values, size_t count);
void gguf_key_i32s(gguf_writer *w, const char *key, const int32_t *values, size_t count);
void gguf_key_f32s(gguf_writer *w, const char *key, const float *values, size_t count);

/* A tensor by its type's number in the format; shape row-major. data is padded to the alignment. */
void gguf_tensor(gguf_writer *w, const char *name, uint32_t type, int dims, const int64_t *shape,
                 const void *data, size_t bytes);
/* The same entry with an offset of one's own, adding no data. */
void gguf_tensor_at(gguf_writer *w, const char *name, uint32_t type, int dims, const int64_t *shape,
                    uint64_t offset);

/* The whole file. w is emptied. */
void gguf_finish(gguf_writer *w, buf *out);
/* Writes it to path; asserts that it worked. w is emptied. */
void gguf_finish_file(gguf_writer *w, const char *path);

#endif
