/* finite.c: see finite.h. The name of a matrix is found by where it lies, when there is something to say of it. */
#include "model/finite.h"

#include <inttypes.h>

/* The tensor that `at` lies in. */
static const tensor_view *tensor_at(const model_file *f, const void *at)
{
    for (size_t i = 0; i < model_file_tensor_count(f); i++) {
        const tensor_view *v = model_file_tensor_at(f, i);
        uintptr_t start = (uintptr_t)v->data;
        if ((uintptr_t)at >= start && (uintptr_t)at - start < v->bytes)
            return v;
    }
    return NULL;
}

static int refuse(const model_file *f, const void *at, const char *what, size_t place, foray_error *err)
{
    const tensor_view *v = tensor_at(f, at);
    return fail(err, FORAY_EFILE, "%s: %s: %s %zu is infinite or not a number (is the download damaged?)",
                v ? v->file : model_file_path(f), v ? v->name : "a matrix", what, place);
}

/* The scale tensor's part that belongs to the matrix. */
static int check_scales(const model_file *f, const weight_source *s, foray_error *err)
{
    bool tiles = s->type == DTYPE_F8_E4M3, rows = s->type == DTYPE_I8;
    int side = tiles ? 128 : 1, first = s->first_row / side, end = (s->first_row + s->rows - 1) / side + 1;
    dtype type = rows ? DTYPE_F32 : DTYPE_F8_E8M0;
    size_t columns = rows ? 1 : (size_t)(s->cols + (tiles ? 127 : 31)) / (tiles ? 128 : 32);
    size_t stride = rows ? sizeof(float) : s->scale_stride;
    for (int row = first; row < end; row++) {
        const char *at = (const char *)s->scale + (size_t)row * stride;
        size_t odd = dtype_find_odd(type, at, columns);
        if (odd < columns)
            return refuse(f, at, "the scale of row", (size_t)row * (size_t)side, err);
    }
    return 0;
}

int finite_check_matrix(const model_file *f, const weight_source *s, foray_error *err)
{
    const dtype_info *info = dtype_get(s->type);
    size_t cols = (size_t)s->cols, packed = cols / (size_t)info->block * (size_t)info->bytes;
    /* Rows that follow one another are looked at as one. */
    bool whole = s->row_bytes == 0 || s->row_bytes == packed;
    size_t rows = whole ? 1 : (size_t)s->rows, n = whole ? cols * (size_t)s->rows : cols;
    for (size_t row = 0; row < rows; row++) {
        const char *at = (const char *)s->data + row * s->row_bytes;
        size_t odd = dtype_find_odd(s->type, at, n);
        if (odd < n)
            return refuse(f, s->data, "a value in row", whole ? odd / cols : row, err);
    }
    return s->scale ? check_scales(f, s, err) : 0;
}

int finite_check_floats(const model_file *f, const char *name, const float *x, size_t n, foray_error *err)
{
    size_t odd = dtype_find_odd(DTYPE_F32, x, n);
    return odd == n ? 0
                    : fail(err, FORAY_EFILE,
                           "%s: %s: value %zu is infinite or not a number (is the download damaged?)",
                           model_file_path(f), name, odd);
}
