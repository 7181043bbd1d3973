/* gguf_write.c: the parts of a GGUF file grow in three buffers and are put together at the end. */
#include "support/gguf_write.h"

#include <stdarg.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

void gguf_put(buf *b, uint64_t value, size_t bytes)
{
    uint8_t raw[8];
    for (size_t i = 0; i < bytes; i++)
        raw[i] = (uint8_t)(value >> 8 * i);
    buf_append(b, raw, bytes);
}

void gguf_put_string(buf *b, const char *text, size_t bytes)
{
    gguf_put(b, bytes, 8);
    buf_append(b, text, bytes);
}

static void begin_key(gguf_writer *w, const char *key, uint32_t type)
{
    gguf_put_string(&w->keys, key, strlen(key));
    gguf_put(&w->keys, type, 4);
    w->key_count++;
}

static void begin_array(gguf_writer *w, const char *key, uint32_t element, size_t count)
{
    begin_key(w, key, GW_ARRAY);
    gguf_put(&w->keys, element, 4);
    gguf_put(&w->keys, count, 8);
}

void gguf_key_raw(gguf_writer *w, const char *key, uint32_t type, const void *value, size_t bytes)
{
    begin_key(w, key, type);
    buf_append(&w->keys, value, bytes);
}

void gguf_key_u32(gguf_writer *w, const char *key, uint32_t value)
{
    begin_key(w, key, GW_U32);
    gguf_put(&w->keys, value, 4);
}

void gguf_key_f32(gguf_writer *w, const char *key, float value)
{
    gguf_key_raw(w, key, GW_F32, &value, 4);
}

void gguf_key_bool(gguf_writer *w, const char *key, bool value)
{
    begin_key(w, key, GW_BOOL);
    gguf_put(&w->keys, value, 1);
}

void gguf_key_string(gguf_writer *w, const char *key, const char *value)
{
    begin_key(w, key, GW_STRING);
    gguf_put_string(&w->keys, value, strlen(value));
}

void gguf_key_strings(gguf_writer *w, const char *key, const char *const *values, size_t count)
{
    begin_array(w, key, GW_STRING, count);
    for (size_t i = 0; i < count; i++)
        gguf_put_string(&w->keys, values[i], strlen(values[i]));
}

void gguf_key_i32s(gguf_writer *w, const char *key, const int32_t *values, size_t count)
{
    begin_array(w, key, GW_I32, count);
    buf_append(&w->keys, values, 4 * count);
}

void gguf_key_f32s(gguf_writer *w, const char *key, const float *values, size_t count)
{
    begin_array(w, key, GW_F32, count);
    buf_append(&w->keys, values, 4 * count);
}

void gguf_tensor_at(gguf_writer *w, const char *name, uint32_t type, int dims, const int64_t *shape,
                    uint64_t offset)
{
    gguf_put_string(&w->tensors, name, strlen(name));
    gguf_put(&w->tensors, (uint64_t)dims, 4);
    for (int d = dims - 1; d >= 0; d--)
        gguf_put(&w->tensors, (uint64_t)shape[d], 8);
    gguf_put(&w->tensors, type, 4);
    gguf_put(&w->tensors, offset, 8);
    w->tensor_count++;
}

static void pad(buf *b, uint64_t alignment)
{
    while (b->len % alignment != 0)
        gguf_put(b, 0, 1);
}

void gguf_tensor(gguf_writer *w, const char *name, uint32_t type, int dims, const int64_t *shape,
                 const void *data, size_t bytes)
{
    pad(&w->data, w->alignment ? w->alignment : 32);
    gguf_tensor_at(w, name, type, dims, shape, w->data.len);
    buf_append(&w->data, data, bytes);
}

void gguf_finish(gguf_writer *w, buf *out)
{
    buf_puts(out, "GGUF");
    gguf_put(out, 3, 4);
    gguf_put(out, w->tensor_count, 8);
    gguf_put(out, w->key_count, 8);
    buf_append(out, w->keys.data, w->keys.len);
    buf_append(out, w->tensors.data, w->tensors.len);
    pad(out, w->alignment ? w->alignment : 32);
    buf_append(out, w->data.data, w->data.len);
    assert_false(w->keys.failed || w->tensors.failed || w->data.failed || out->failed);
    buf_free(&w->keys);
    buf_free(&w->tensors);
    buf_free(&w->data);
    *w = (gguf_writer) { .alignment = w->alignment };
}

void gguf_finish_file(gguf_writer *w, const char *path)
{
    buf out = { 0 };
    gguf_finish(w, &out);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(out.data, 1, out.len, f), out.len);
    assert_int_equal(fclose(f), 0);
    buf_free(&out);
}
