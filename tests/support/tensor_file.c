/* tensor_file.c: see tensor_file.h. */
#include "support/tensor_file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "format/safetensors.h"

#include <cmocka.h> /* last: its macro fail() hides ours */

void tensor_file_open(const char *name, tensor_file *out)
{
    char path[512];
    foray_error err = { 0 };
    snprintf(path, sizeof path, "%s/golden/%s", FORAY_TESTS, name);
    *out = (tensor_file) { 0 };
    arena_init(&out->views, MEM_GENERAL, 0);
    if (file_map_open(path, &out->map, &err) != 0 ||
        safetensors_parse(out->map.data, out->map.size, out->map.path, &out->views, &out->tensors,
                          &out->count, &err) != 0)
        fail_msg("%s", err.text);
}

void tensor_file_close(tensor_file *f)
{
    arena_free(&f->views);
    file_unmap(&f->map);
}

const tensor_view *tensor_file_view(const tensor_file *f, const char *name)
{
    for (size_t i = 0; i < f->count; i++)
        if (strcmp(f->tensors[i].name, name) == 0)
            return &f->tensors[i];
    fail_msg("%s has no tensor %s", f->map.path, name);
    return NULL;
}

const void *tensor_file_data(tensor_file *f, const char *name, dtype type, size_t elements)
{
    const tensor_view *t = tensor_file_view(f, name);
    uint64_t bytes = 0;
    if (t->type != type || !dtype_bytes(type, elements, &bytes) || t->bytes != bytes)
        fail_msg("%s: %s is %s of %zu bytes", f->map.path, name, t->type_name, (size_t)t->bytes);
    void *copy = arena_alloc(&f->views, (size_t)bytes);
    assert_non_null(copy);
    return memcpy(copy, t->data, (size_t)bytes);
}
