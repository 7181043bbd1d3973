/* chain.c: tiny models, edited in their files. See chain.h. */
#include "support/chain.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "format/gguf.h"
#include "support/tiny.h"
#include "support/tiny_text.h"

#include <cmocka.h> /* last: base/error.h has a fail() too */

/* A file in memory and the tensors that lie in it. */
typedef struct {
    uint8_t *bytes;
    size_t size;
    arena memory;
    gguf_file g;
} edited_file;

static void edit_open(edited_file *f, const char *path)
{
    foray_error err;
    FILE *in = fopen(path, "rb");
    assert_non_null(in);
    assert_int_equal(fseek(in, 0, SEEK_END), 0);
    f->size = (size_t)ftell(in);
    rewind(in);
    f->bytes = mem_alloc(MEM_GENERAL, f->size);
    assert_non_null(f->bytes);
    assert_int_equal(fread(f->bytes, 1, f->size, in), f->size);
    fclose(in);
    arena_init(&f->memory, MEM_GENERAL, 0);
    assert_int_equal(gguf_parse(f->bytes, f->size, path, &f->memory, &f->g, &err), 0);
}

static void edit_close(edited_file *f, const char *path)
{
    FILE *out = fopen(path, "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(f->bytes, 1, f->size, out), f->size);
    assert_int_equal(fclose(out), 0);
    arena_free(&f->memory);
    mem_free(MEM_GENERAL, f->bytes, f->size);
}

/* The F32 data of a tensor, to be changed. */
static float *edit_data(const edited_file *f, const char *name, size_t *bytes)
{
    for (size_t i = 0; i < f->g.tensor_count; i++)
        if (strcmp(f->g.tensors[i].name, name) == 0) {
            assert_int_equal(f->g.tensors[i].type, DTYPE_F32);
            *bytes = (size_t)f->g.tensors[i].bytes;
            return (float *)(void *)(f->bytes + ((const uint8_t *)f->g.tensors[i].data - f->bytes));
        }
    fail_msg("no tensor %s", name);
    return NULL;
}

const char *chain_gguf(const int32_t *ids, int n)
{
    static const char *const adding[] = { "blk.0.attn_output.weight", "blk.0.ffn_down.weight" };
    tiny_spec spec = tiny_default();
    edited_file f;
    size_t bytes = 0, row = (size_t)spec.dim;
    spec.layers = 1;
    spec.untied = true;
    const char *path = tiny_gguf(&spec);
    edit_open(&f, path);
    for (int i = 0; i < 2; i++) {
        float *data = edit_data(&f, adding[i], &bytes);
        memset(data, 0, bytes);
    }
    const float *embedding = edit_data(&f, "token_embd.weight", &bytes);
    float *output = edit_data(&f, "output.weight", &bytes);
    memset(output, 0, bytes); /* whatever is in no chain is never said */
    for (int i = 0; i < n; i++)
        memcpy(output + (size_t)ids[(i + 1) % n] * row, embedding + (size_t)ids[i] * row,
               row * sizeof *output);
    edit_close(&f, path);
    return path;
}

int chain_bytes(const char *text, int32_t *ids)
{
    int n = 0;
    for (; text[n]; n++)
        ids[n] = TINY_FIRST_BYTE + (uint8_t)text[n];
    return n;
}

const char *twins_gguf(void)
{
    tiny_spec spec = tiny_default();
    edited_file f;
    size_t bytes = 0, row = (size_t)spec.dim;
    spec.untied = true;
    spec.no_text = true;
    const char *path = tiny_gguf(&spec);
    edit_open(&f, path);
    float *output = edit_data(&f, "output.weight", &bytes);
    for (size_t id = 0; id < (size_t)spec.vocab; id += 2)
        memcpy(output + (id + 1) * row, output + id * row, row * sizeof *output);
    edit_close(&f, path);
    return path;
}
