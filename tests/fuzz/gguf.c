/* Fuzzes the GGUF reader: whatever the bytes, it answers with an error or with views that lie inside them. The bytes end
 * at an unmapped page. The same mutations in every run. */
#include "format/gguf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "support/gguf_write.h"
#include "support/guard.h"
#include "support/mutate.h"

#include <cmocka.h> /* last: base/error.h has a fail() too */

/* Small, with a bit of everything: what is mutated most is lengths, counts and types. */
static buf small_file(void)
{
    static const char *const tokens[] = { "a", "", "cc" };
    static const int32_t kinds[] = { 1, 3, -1 };
    static const int64_t shape[] = { 3, 32 }, vector[] = { 5 };
    static const uint8_t data[96];
    gguf_writer w = { 0 };
    buf file = { 0 };
    gguf_key_string(&w, "general.architecture", "llama");
    gguf_key_u32(&w, "general.alignment", 32);
    gguf_key_bool(&w, "b", true);
    gguf_key_f32(&w, "f", 1);
    gguf_key_strings(&w, "tokenizer.ggml.tokens", tokens, 3);
    gguf_key_i32s(&w, "tokenizer.ggml.token_type", kinds, 3);
    gguf_tensor(&w, "m", 3, 2, shape, data, 60);
    gguf_tensor(&w, "v", 0, 1, vector, data, 20);
    gguf_finish(&w, &file);
    return file;
}

/* Reads everything that was promised to lie inside. */
static uint64_t touch(const gguf_file *g, const uint8_t *bytes, size_t count)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < g->value_count; i++) {
        const gguf_value *v = &g->values[i];
        sum += strlen(v->key);
        for (uint64_t e = 0; e < v->count; e++) {
            const char *text;
            size_t length;
            int64_t n = 0;
            double x = 0;
            if (gguf_get_string(v, e, &text, &length)) {
                assert_true((const uint8_t *)text >= bytes &&
                            length <= count - (size_t)((const uint8_t *)text - bytes));
                for (size_t k = 0; k < length; k++)
                    sum += (uint8_t)text[k];
            } else if (gguf_get_int(v, e, &n) || gguf_get_float(v, e, &x)) {
                sum += (uint64_t)n;
            }
        }
    }
    for (size_t i = 0; i < g->tensor_count; i++) {
        const tensor_view *v = &g->tensors[i];
        const uint8_t *data = v->data;
        sum += strlen(v->name) + strlen(v->type_name);
        assert_true(data >= bytes && v->bytes <= count - (size_t)(data - bytes));
        for (uint64_t k = 0; k < v->bytes; k++)
            sum += data[k];
        uint64_t elements = 1, bytes_of = 0;
        for (int d = 0; d < 4; d++)
            elements *= (uint64_t)v->shape[d];
        assert_true(v->type == DTYPE_UNKNOWN ||
                    (dtype_bytes(v->type, elements, &bytes_of) && bytes_of == v->bytes));
    }
    return sum;
}

static void any_bytes_give_an_error_or_views_inside_them(void **state)
{
    (void)state;
    buf file = small_file();
    const uint8_t *good = (const uint8_t *)file.data;
    uint8_t *bad = malloc(2 * file.len + 64);
    guard g;
    uint32_t accepted = 0, tries = mutate_count(20000, 5000000);
    assert_non_null(bad);
    guard_init(&g, 2 * file.len + 64);
    int64_t blocks = mem_get_stats().blocks;
    for (uint32_t i = 0; i < tries; i++) {
        size_t n = mutate(1, i, good, file.len, file.len - 96, bad);
        const uint8_t *bytes = guard_copy(&g, bad, n);
        arena a;
        gguf_file out;
        foray_error err = { 0 };
        arena_init(&a, MEM_GENERAL, 4096);
        if (gguf_parse(bytes, n, "fuzz", &a, &out, &err) == 0) {
            accepted++;
            touch(&out, bytes, n);
        } else {
            assert_true(err.code < 0 && err.text[0]);
        }
        assert_true(a.used_bytes < 64 << 10); /* nothing large for a file of 700 bytes */
        arena_free(&a);
    }
    assert_int_equal(mem_get_stats().blocks, blocks);
    assert_true(accepted > tries / 100 &&
                accepted < tries / 2); /* the mutations are neither blunt nor harmless */
    guard_free(&g);
    free(bad);
    buf_free(&file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_bytes_give_an_error_or_views_inside_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
