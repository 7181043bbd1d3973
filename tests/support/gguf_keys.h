/* gguf_keys.h: GGUF files of keys alone, written by tests that need a tokenizer and no tensors. Values are put
 * down as given, wrong ones too. Threads: one per object.
 */
#ifndef TESTS_SUPPORT_GGUF_KEYS_H
#define TESTS_SUPPORT_GGUF_KEYS_H

#include "base/buf.h"

typedef struct {
    buf body;
    uint64_t keys;
} gguf_keys;

void gguf_keys_put_string(gguf_keys *g, const char *key, const char *value);
void gguf_keys_put_bool(gguf_keys *g, const char *key, bool value);
void gguf_keys_put_uint32(gguf_keys *g, const char *key, uint32_t value);
void gguf_keys_put_strings(gguf_keys *g, const char *key, const char *const *value, size_t count);
void gguf_keys_put_int32s(gguf_keys *g, const char *key, const int32_t *value, size_t count);
void gguf_keys_put_floats(gguf_keys *g, const char *key, const float *value, size_t count);
/* Writes the file and empties g; the test fails where the disk does. */
void gguf_keys_write(gguf_keys *g, const char *path);

#endif
