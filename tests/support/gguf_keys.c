/* gguf_keys.c: the header of GGUF version 3 and its keys, little-endian. Does not write tensors. Threads: one. */
#include "support/gguf_keys.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { TYPE_UINT32 = 4, TYPE_INT32 = 5, TYPE_FLOAT32 = 6, TYPE_BOOL = 7, TYPE_STRING = 8, TYPE_ARRAY = 9 };

static void put_u32(gguf_keys *g, uint32_t value)
{
    buf_append(&g->body, &value, sizeof value);
}

static void put_text(gguf_keys *g, const char *text)
{
    uint64_t bytes = strlen(text);
    buf_append(&g->body, &bytes, sizeof bytes);
    buf_append(&g->body, text, bytes);
}

static void put_key(gguf_keys *g, const char *key, uint32_t type)
{
    put_text(g, key);
    put_u32(g, type);
    g->keys++;
}

static void put_array(gguf_keys *g, const char *key, uint32_t type, uint64_t count)
{
    put_key(g, key, TYPE_ARRAY);
    put_u32(g, type);
    buf_append(&g->body, &count, sizeof count);
}

void gguf_keys_put_string(gguf_keys *g, const char *key, const char *value)
{
    put_key(g, key, TYPE_STRING);
    put_text(g, value);
}

void gguf_keys_put_bool(gguf_keys *g, const char *key, bool value)
{
    put_key(g, key, TYPE_BOOL);
    buf_append(&g->body, value ? "\1" : "\0", 1);
}

void gguf_keys_put_uint32(gguf_keys *g, const char *key, uint32_t value)
{
    put_key(g, key, TYPE_UINT32);
    put_u32(g, value);
}

void gguf_keys_put_strings(gguf_keys *g, const char *key, const char *const *value, size_t count)
{
    put_array(g, key, TYPE_STRING, count);
    for (size_t i = 0; i < count; i++)
        put_text(g, value[i]);
}

void gguf_keys_put_int32s(gguf_keys *g, const char *key, const int32_t *value, size_t count)
{
    put_array(g, key, TYPE_INT32, count);
    buf_append(&g->body, value, count * sizeof *value);
}

void gguf_keys_put_floats(gguf_keys *g, const char *key, const float *value, size_t count)
{
    put_array(g, key, TYPE_FLOAT32, count);
    buf_append(&g->body, value, count * sizeof *value);
}

void gguf_keys_write(gguf_keys *g, const char *path)
{
    static const char magic[8] = { 'G', 'G', 'U', 'F', 3, 0, 0, 0 };
    uint64_t tensors = 0;
    assert_false(g->body.failed);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    fwrite(magic, sizeof magic, 1, f);
    fwrite(&tensors, sizeof tensors, 1, f);
    fwrite(&g->keys, sizeof g->keys, 1, f);
    fwrite(g->body.data, g->body.len, 1, f);
    assert_int_equal(fclose(f), 0);
    buf_free(&g->body);
    g->keys = 0;
}
