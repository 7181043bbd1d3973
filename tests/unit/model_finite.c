/* Tests of model/finite: one value of one tensor that is no number, in any type and family, is said when the model loads, with
 * the tensor's name; not when its text is nonsense.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "format/gguf.h"
#include "format/safetensors.h"
#include "model/model.h"
#include "support/tiny.h"
#include "support/tiny_v4.h"

#include <cmocka.h> /* last: base/error.h has a fail() too */

static int load(const char *of, foray_error *err)
{
    model_file *f;
    model *m;
    model_options o = { .lanes = 8, .page_rows = 16, .act_quant = true, .drafter = true };
    int rc = model_file_open(of, &f, err);
    if (rc != 0)
        return rc;
    rc = model_load(f, &o, &m, err);
    if (rc == 0)
        model_free(m);
    model_file_close(f);
    return rc;
}

/* What makes one value of a type no number: `bytes` at `at` of its block. */
static size_t odd_bytes(dtype type, const char **bytes, size_t *at)
{
    *at = type == DTYPE_Q6_K ? 208 : 0;
    switch ((int)type) {
    case DTYPE_F32:
        *bytes = "\0\0\xc0\x7f";
        return 4;
    case DTYPE_BF16:
        *bytes = "\x80\xff"; /* minus infinity */
        return 2;
    case DTYPE_F16:
    case DTYPE_Q8_0:
    case DTYPE_Q4_1:
    case DTYPE_Q6_K:
        *bytes = "\0\x7e";
        return 2;
    case DTYPE_F8_E4M3:
        *bytes = "\x7f";
        return 1;
    case DTYPE_F8_E8M0:
    case DTYPE_MXFP4:
        *bytes = "\xff";
        return 1;
    default:
        return 0; /* integers */
    }
}

static void write_file(const char *path, const uint8_t *data, size_t bytes)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, bytes, f), bytes);
    assert_int_equal(fclose(f), 0);
}

/* Changes every `step`-th tensor of a file in turn. */
static void check_file(const char *of, const char *path, int step)
{
    foray_error err = { 0 };
    char *text;
    size_t size;
    arena memory;
    gguf_file g = { 0 };
    tensor_view *tensors = NULL;
    size_t count = 0;
    assert_int_equal(load(of, &err), 0);
    assert_int_equal(file_read(path, 1 << 28, &text, &size, &err), 0);
    uint8_t *data = (uint8_t *)text;
    arena_init(&memory, MEM_GENERAL, 0);
    bool gguf = of == path;
    assert_int_equal(gguf ? gguf_parse(data, size, path, &memory, &g, &err)
                          : safetensors_parse(data, size, path, &memory, &tensors, &count, &err),
                     0);
    if (gguf) {
        tensors = g.tensors;
        count = g.tensor_count;
    }
    int changed = 0;
    for (size_t i = 0; i < count; i += (size_t)step) {
        const tensor_view *v = &tensors[i];
        const char *odd;
        uint8_t saved[8];
        size_t offset, n = odd_bytes(v->type, &odd, &offset), block = (size_t)dtype_get(v->type)->bytes;
        if (n == 0)
            continue;
        uint8_t *at = data + ((const uint8_t *)v->data - data) + v->bytes / block / 2 * block + offset;
        memcpy(saved, at, n);
        memcpy(at, odd, n);
        write_file(path, data, size);
        memcpy(at, saved, n);
        int rc = load(of, &err);
        if (rc != FORAY_EFILE || !strstr(err.text, v->name) || !strstr(err.text, "not a number"))
            fail_msg("%s of type %s: %d '%s'", v->name, v->type_name, rc, rc ? err.text : "");
        changed++;
    }
    assert_true(changed > 5);
    arena_free(&memory);
    mem_free(MEM_GENERAL, text, size + 1);
}

static void every_tensor_of_dense_models_is_looked_at(void **state)
{
    (void)state;
    static const dtype types[] = { DTYPE_F32, DTYPE_F16, DTYPE_BF16, DTYPE_Q8_0, DTYPE_Q4_1 };
    for (int i = 0; i < 5; i++)
        for (int untied = 0; untied < 2; untied++) {
            tiny_spec spec = tiny_family(i % 2 ? MODEL_QWEN2 : MODEL_LLAMA);
            spec.no_text = true;
            spec.layers = 1;
            spec.untied = untied;
            spec.type = spec.embd_type = types[i];
            const char *path = tiny_gguf(&spec);
            check_file(path, path, 1);
        }
}

static void every_tensor_of_deepseek4_models_is_looked_at(void **state)
{
    (void)state;
    static const tiny_v4_format formats[] = { TINY_V4_QUANT, TINY_V4_PLAIN,        TINY_V4_GGUF_MXFP4,
                                              TINY_V4_VLLM,  TINY_V4_TRANSFORMERS, TINY_V4_GGUF };
    for (int i = 0; i < 6; i++) {
        tiny_v4_spec spec = tiny_v4_default();
        spec.no_text = true;
        spec.layers = 2;
        spec.experts = 2;
        spec.vocab = 64;
        const char *of = tiny_v4_model(&spec, formats[i]);
        bool gguf = formats[i] == TINY_V4_GGUF_MXFP4 || formats[i] == TINY_V4_GGUF;
        check_file(of, gguf ? of : tiny_path(of, "model.safetensors"), 3);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_tensor_of_dense_models_is_looked_at),
        cmocka_unit_test(every_tensor_of_deepseek4_models_is_looked_at),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
