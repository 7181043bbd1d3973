/* tiny_v4_widen.c: from FP8 and FP4 to BF16, by the plainest reading of both formats. Settings are copied as they stand:
 * what they say of quantisation is then not true of the tensors any more, which decide.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/arena.h"
#include "format/model_file.h"
#include "support/quantise.h"
#include "support/safetensors_write.h"
#include "support/tiny.h"
#include "support/tiny_v4.h"

static float e4m3(uint8_t code)
{
    int exponent = code >> 3 & 15, mantissa = code & 7;
    float size = exponent == 0 ? ldexpf((float)mantissa, -9) : ldexpf((float)(8 + mantissa), exponent - 10);
    return code & 0x80 ? -size : size;
}

static float e2m1(int code)
{
    static const float size[8] = { 0, 0.5f, 1, 1.5f, 2, 3, 4, 6 };
    return code & 8 ? -size[code & 7] : size[code & 7];
}

static const tensor_view *scale_of(const model_file *f, const tensor_view *v)
{
    char name[256];
    snprintf(name, sizeof name, "%.*s.scale", (int)(strlen(v->name) - strlen(".weight")), v->name);
    return model_file_tensor(f, name);
}

static void widen(safetensors_writer *w, const tensor_view *v, const tensor_view *scale)
{
    bool fp8 = strcmp(v->type_name, "F8_E4M3") == 0;
    const uint8_t *code = v->data, *exponent = scale->data;
    int64_t rows = v->shape[0], cols = fp8 ? v->shape[1] : 2 * v->shape[1], shape[2] = { rows, cols };
    size_t n = (size_t)(rows * cols);
    arena a;
    arena_init(&a, MEM_GENERAL, 0);
    uint16_t *out = arena_array(&a, n, sizeof *out);
    assert_non_null(out);
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t c = 0; c < cols; c++) {
            int64_t i = r * cols + c;
            int64_t at = fp8 ? r / 128 * scale->shape[1] + c / 128 : r * scale->shape[1] + c / 32;
            float x = fp8 ? e4m3(code[i]) : e2m1(code[i / 2] >> (i % 2 * 4) & 15);
            x = ldexpf(x, exponent[at] - 127);
            quantise(DTYPE_BF16, &x, 1, &out[i]);
        }
    }
    safetensors_add(w, v->name, "BF16", 2, shape, out, n * sizeof *out);
    arena_free(&a);
}

static void copy_file(const char *from, const char *to)
{
    char bytes[4096];
    FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
    assert_true(in && out);
    for (size_t n; (n = fread(bytes, 1, sizeof bytes, in)) > 0;)
        assert_int_equal(fwrite(bytes, 1, n, out), n);
    fclose(in);
    assert_int_equal(fclose(out), 0);
}

void tiny_v4_widen(const char *quantised, const char *folder)
{
    model_file *f;
    foray_error err;
    safetensors_writer w = { 0 };
    if (model_file_open(quantised, &f, &err) != 0)
        fail_msg("%s", err.text);
    mkdir(folder, 0700);
    for (size_t i = 0; i < model_file_tensor_count(f); i++) {
        const tensor_view *v = model_file_tensor_at(f, i), *scale = scale_of(f, v);
        if (strcmp(v->type_name, "F8_E8M0") == 0)
            continue;
        if (scale)
            widen(&w, v, scale);
        else
            safetensors_add(&w, v->name, v->type_name, v->dims, v->shape, v->data, (size_t)v->bytes);
    }
    copy_file(tiny_path(quantised, "config.json"), tiny_path(folder, "config.json"));
    safetensors_finish_file(&w, tiny_path(folder, "model.safetensors"));
    model_file_close(f);
}
