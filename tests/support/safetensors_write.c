/* safetensors_write.c: header and data grow beside each other and are put together at the end. */
#include "support/safetensors_write.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

void safetensors_add(safetensors_writer *w, const char *name, const char *type, int dims,
                     const int64_t *shape, const void *data, size_t bytes)
{
    buf_puts(&w->header, w->header.len == 0 ? "{" : ",");
    buf_json_string(&w->header, name, strlen(name));
    buf_printf(&w->header, ":{\"dtype\":\"%s\",\"shape\":[", type);
    for (int d = 0; d < dims; d++)
        buf_printf(&w->header, "%s%lld", d ? "," : "", (long long)shape[d]);
    buf_printf(&w->header, "],\"data_offsets\":[%zu,%zu]}", w->data.len, w->data.len + bytes);
    buf_append(&w->data, data, bytes);
}

void safetensors_finish_file(safetensors_writer *w, const char *path)
{
    buf_puts(&w->header, w->header.len == 0 ? "{}" : "}");
    while (w->header.len % 8 != 0)
        buf_puts(&w->header, " ");
    uint64_t bytes = w->header.len;
    assert_false(w->header.failed || w->data.failed);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(&bytes, 1, 8, f), 8);
    assert_int_equal(fwrite(w->header.data, 1, w->header.len, f), w->header.len);
    if (w->data.len > 0)
        assert_int_equal(fwrite(w->data.data, 1, w->data.len, f), w->data.len);
    assert_int_equal(fclose(f), 0);
    buf_free(&w->header);
    buf_free(&w->data);
}
