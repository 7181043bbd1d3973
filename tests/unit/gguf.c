/* Tests of format/gguf: what a good file gives, and what each way of being bad is answered with (cases.md S03, S04). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/mem.h"
#include "format/gguf.h"
#include "support/gguf_write.h"
#include "support/guard.h"

#include <cmocka.h> /* last: base/error.h has a fail() too */

static void write_raw(gguf_writer *w, const char *key, uint32_t type, uint64_t value, size_t bytes)
{
    gguf_key_raw(w, key, type, &value, bytes);
}

static const gguf_value *find(const gguf_file *g, const char *key)
{
    for (size_t i = 0; i < g->value_count; i++)
        if (strcmp(g->values[i].key, key) == 0)
            return &g->values[i];
    fail_msg("no key %s", key);
    return NULL;
}

/* A file with everything in it. */
static void write_good(gguf_writer *w)
{
    static const char *const tokens[] = { "a", "", "ccc" };
    static const int32_t kinds[] = { 1, 3, -1 };
    static const int64_t shape[] = { 3, 64 }, vector[] = { 5 };
    static uint8_t blocks[3 * 40];
    static const float floats[] = { 1, -2, 3, -4, 0.5f };
    for (size_t i = 0; i < sizeof blocks; i++)
        blocks[i] = (uint8_t)i;
    gguf_key_string(w, "general.architecture", "llama");
    write_raw(w, "u8", GW_U8, 200, 1);
    write_raw(w, "i8", GW_I8, 0xff, 1);
    write_raw(w, "u16", GW_U16, 65535, 2);
    write_raw(w, "i16", GW_I16, 0x8000, 2);
    gguf_key_u32(w, "u32", 4000000000u);
    write_raw(w, "i32", GW_I32, (uint32_t)-5, 4);
    write_raw(w, "u64", GW_U64, 1ull << 40, 8);
    write_raw(w, "huge", GW_U64, UINT64_MAX, 8);
    write_raw(w, "i64", GW_I64, (uint64_t)-7, 8);
    gguf_key_f32(w, "f32", 1.5f);
    const double d = 2.25;
    gguf_key_raw(w, "f64", GW_F64, &d, 8);
    gguf_key_bool(w, "yes", true);
    gguf_key_strings(w, "tokenizer.ggml.tokens", tokens, 3);
    gguf_key_i32s(w, "tokenizer.ggml.token_type", kinds, 3);
    gguf_key_i32s(w, "empty", kinds, 0);
    gguf_tensor(w, "matrix", 3, 2, shape, blocks, sizeof blocks);
    gguf_tensor(w, "vector", 0, 1, vector, floats, sizeof floats);
}

static void a_good_file_gives_all_its_values_and_tensors(void **state)
{
    (void)state;
    gguf_writer w = { 0 };
    buf file = { 0 };
    arena a;
    gguf_file g;
    foray_error err;
    int64_t n = 0;
    double x = 0;
    bool b = false;
    const char *text;
    size_t bytes;
    arena_init(&a, MEM_GENERAL, 0);
    write_good(&w);
    gguf_finish(&w, &file);
    assert_int_equal(gguf_parse((const uint8_t *)file.data, file.len, "good", &a, &g, &err), 0);

    static const struct {
        const char *key;
        int64_t value;
    } whole[] = { { "u8", 200 },
                  { "i8", -1 },
                  { "u16", 65535 },
                  { "i16", -32768 },
                  { "u32", 4000000000ll },
                  { "i32", -5 },
                  { "u64", (int64_t)1 << 40 },
                  { "i64", -7 } };
    for (size_t i = 0; i < sizeof whole / sizeof whole[0]; i++) {
        assert_true(gguf_get_int(find(&g, whole[i].key), 0, &n) && n == whole[i].value);
        assert_true(gguf_get_float(find(&g, whole[i].key), 0, &x) && x == (double)whole[i].value);
    }
    assert_false(gguf_get_int(find(&g, "huge"), 0, &n)); /* more than an int64 holds */
    assert_true(gguf_get_float(find(&g, "f32"), 0, &x) && x == 1.5);
    assert_true(gguf_get_float(find(&g, "f64"), 0, &x) && x == 2.25);
    assert_false(gguf_get_int(find(&g, "f32"), 0, &n));
    assert_true(gguf_get_bool(find(&g, "yes"), 0, &b) && b);
    assert_true(gguf_get_string(find(&g, "general.architecture"), 0, &text, &bytes) && bytes == 5);
    assert_memory_equal(text, "llama", 5);

    const gguf_value *tokens = find(&g, "tokenizer.ggml.tokens");
    assert_int_equal(tokens->count, 3);
    assert_true(gguf_get_string(tokens, 2, &text, &bytes) && bytes == 3 && memcmp(text, "ccc", 3) == 0);
    assert_true(gguf_get_string(tokens, 1, &text, &bytes) && bytes == 0);
    assert_false(gguf_get_string(tokens, 3, &text, &bytes));
    assert_true(gguf_get_int(find(&g, "tokenizer.ggml.token_type"), 2, &n) && n == -1);
    assert_false(gguf_get_int(find(&g, "empty"), 0, &n));

    assert_int_equal(g.tensor_count, 2);
    assert_string_equal(g.tensors[0].name, "matrix");
    assert_int_equal(g.tensors[0].type, DTYPE_Q4_1);
    assert_int_equal(g.tensors[0].dims, 2);
    assert_true(g.tensors[0].shape[0] == 3 && g.tensors[0].shape[1] == 64 && g.tensors[0].shape[2] == 1);
    assert_int_equal(g.tensors[0].bytes, 120);
    assert_int_equal(((const uint8_t *)g.tensors[0].data)[7], 7);
    assert_int_equal(g.tensors[1].bytes, 20);
    float last;
    memcpy(&last, (const uint8_t *)g.tensors[1].data + 16, 4);
    assert_true(last == 0.5f);
    arena_free(&a);
    buf_free(&file);
}

static void a_file_cut_anywhere_is_refused(void **state)
{
    (void)state;
    gguf_writer w = { 0 };
    buf file = { 0 };
    guard g;
    write_good(&w);
    gguf_finish(&w, &file);
    guard_init(&g, file.len);
    for (size_t n = 0; n < file.len; n++) {
        arena a;
        gguf_file out;
        foray_error err;
        arena_init(&a, MEM_GENERAL, 0);
        assert_true(gguf_parse(guard_copy(&g, file.data, n), n, "cut", &a, &out, &err) < 0);
        assert_non_null(strstr(err.text, "cut"));
        arena_free(&a);
    }
    guard_free(&g);
    buf_free(&file);
}

/* Finishes w, parses, and expects code and a message with every one of the words. Peak memory stays below the
 * file's size and a little. */
static void expect_refusal(gguf_writer *w, int code, const char *const *words)
{
    buf file = { 0 };
    arena a;
    gguf_file g;
    foray_error err;
    gguf_finish(w, &file);
    arena_init(&a, MEM_GENERAL, 0);
    int64_t before = mem_get_stats().bytes[MEM_GENERAL];
    int rc = gguf_parse((const uint8_t *)file.data, file.len, "bad.gguf", &a, &g, &err);
    assert_true(mem_get_stats().bytes[MEM_GENERAL] - before < (int64_t)file.len + (512 << 10));
    if (rc != code)
        fail_msg("%s: got %d, expected %d (%s)", words[0], rc, code, rc < 0 ? err.text : "no error");
    for (; *words; words++)
        if (!strstr(err.text, *words))
            fail_msg("'%s' is not in: %s", *words, err.text);
    arena_free(&a);
    buf_free(&file);
}

#define WORDS(...) ((const char *const[]) { __VA_ARGS__, NULL })

static void dimensions_that_overflow_are_refused(void **state)
{
    (void)state;
    static const struct {
        uint32_t type;
        int dims;
        int64_t shape[4];
        const char *word;
    } bad[] = {
        { 0, 2, { ((int64_t)1 << 42) + 1, 1 << 22 }, "overflow" }, /* past 2^63 */
        { 0, 1, { INT64_MAX }, "overflow" },                       /* bytes past 2^64 */
        { 0, 2, { (int64_t)1 << 62, 4 }, "overflow" },             /* product 2^64, which is 0 */
        { 8, 2, { ((int64_t)1 << 59) - 1, 32 }, "overflow" },      /* product 2^64 - 32 */
        { 0, 1, { 0 }, "dimension" },
        { 0, 1, { -1 }, "dimension" },
        { 3, 1, { 33 }, "blocks" },
        { 0, 2, { 1 << 20, 1 << 20 }, "needs" }, /* just too large for the file */
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        gguf_writer w = { 0 };
        gguf_tensor_at(&w, "some.weight", bad[i].type, bad[i].dims, bad[i].shape, 0);
        expect_refusal(&w, FORAY_EFILE, WORDS("bad.gguf", "some.weight", bad[i].word));
    }
    for (int dims = 0; dims <= 5; dims += 5) {
        static const int64_t ones[5] = { 1, 1, 1, 1, 1 };
        gguf_writer w = { 0 };
        gguf_tensor_at(&w, "some.weight", 0, dims, ones, 0);
        expect_refusal(&w, FORAY_EFILE, WORDS("some.weight", "dimensions"));
    }
}

static void offsets_outside_overlapping_or_unaligned_are_refused(void **state)
{
    (void)state;
    static const int64_t shape[] = { 8 };
    static const float data[16];
    static const struct {
        uint64_t first, second;
        const char *word;
    } bad[] = {
        { 0, 0, "inside" },
        { 32, 0, "before" },
        { 0, 1, "alignment" },
        { 0, 64, "needs" },
        { 0, UINT64_MAX - 31, "overflow" },
        { 0, 1ull << 62, "needs" },
        { 0, 1ull << 63, "needs" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        gguf_writer w = { 0 };
        gguf_tensor_at(&w, "one", 0, 1, shape, bad[i].first);
        gguf_tensor_at(&w, "two", 0, 1, shape, bad[i].second);
        buf_append(&w.data, data, sizeof data);
        expect_refusal(&w, FORAY_EFILE, WORDS("two", bad[i].word));
    }
}

static void an_alignment_that_cannot_be_is_refused(void **state)
{
    (void)state;
    static const uint64_t bad[] = { 0, 3, 4, 48, 1u << 31, 1u << 17 };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        gguf_writer w = { 0 };
        write_raw(&w, "general.alignment", GW_U32, bad[i], 4);
        expect_refusal(&w, FORAY_EFILE, WORDS("general.alignment", "power of two"));
    }
    gguf_writer w = { 0 };
    gguf_key_string(&w, "general.alignment", "32");
    expect_refusal(&w, FORAY_EFILE, WORDS("general.alignment", "string", "uint32"));
    static const int64_t shape[] = { 4 };
    static const float data[4] = { 1, 2, 3, 4 };
    w.alignment = 128;
    gguf_key_u32(&w, "general.alignment", 128);
    gguf_tensor(&w, "one", 0, 1, shape, data, sizeof data);
    buf file = { 0 };
    arena a;
    gguf_file g;
    arena_init(&a, MEM_GENERAL, 0);
    gguf_finish(&w, &file);
    assert_int_equal(gguf_parse((const uint8_t *)file.data, file.len, "", &a, &g, NULL), 0);
    assert_memory_equal(g.tensors[0].data, data, sizeof data);
    arena_free(&a);
    buf_free(&file);
}

/* key: array of `count` elements of `type`, with nothing behind it. */
static void write_array_header(gguf_writer *w, const char *key, uint32_t type, uint64_t count)
{
    uint8_t raw[12];
    memcpy(raw, &type, 4);
    memcpy(raw + 4, &count, 8);
    gguf_key_raw(w, key, GW_ARRAY, raw, sizeof raw);
}

static void arrays_that_promise_too_much_are_refused_without_memory(void **state)
{
    (void)state;
    static const struct {
        uint32_t type;
        uint64_t count;
        const char *word;
    } bad[] = {
        { GW_STRING, 1ull << 60, "strings" },
        { GW_U8, UINT64_MAX, "uint8" },
        { GW_U64, 1ull << 61, "uint64" },
        { GW_F32, 1ull << 62, "float32" },
        { GW_ARRAY, 1, "arrays" },
        { 13, 1, "type 13" },
        { 0xffffffff, 1, "type 4294967295" },
        { GW_STRING, 3, "strings" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        gguf_writer w = { 0 };
        write_array_header(&w, "some.list", bad[i].type, bad[i].count);
        expect_refusal(&w, FORAY_EFILE, WORDS("some.list", bad[i].word));
    }
}

/* cases.md S04. */
static void tokenizer_arrays_of_a_wrong_type_or_length_are_refused(void **state)
{
    (void)state;
    static const char *const tokens[] = { "a", "b" };
    static const int32_t numbers[3];
    static const char *const keys[] = { "tokenizer.ggml.tokens", "tokenizer.ggml.merges",
                                        "tokenizer.ggml.scores" };
    for (int i = 0; i < 3; i++) {
        gguf_writer w = { 0 };
        gguf_key_i32s(&w, keys[i], numbers, 2);
        expect_refusal(&w, FORAY_EFILE, WORDS(keys[i], "int32", i < 2 ? "string" : "float32"));
    }
    gguf_writer w = { 0 };
    gguf_key_strings(&w, "tokenizer.ggml.token_type", tokens, 2);
    expect_refusal(&w, FORAY_EFILE, WORDS("tokenizer.ggml.token_type", "string", "int32"));
    gguf_key_string(&w, "tokenizer.ggml.tokens", "a");
    expect_refusal(&w, FORAY_EFILE, WORDS("tokenizer.ggml.tokens", "string"));
    gguf_key_strings(&w, "tokenizer.ggml.tokens", tokens, 2);
    gguf_key_i32s(&w, "tokenizer.ggml.token_type", numbers, 3);
    expect_refusal(&w, FORAY_EFILE, WORDS("tokenizer.ggml.token_type", "3", "2"));
}

static void odd_headers_keys_and_values_are_refused(void **state)
{
    (void)state;
    gguf_writer w = { 0 };
    write_raw(&w, "flag", GW_BOOL, 2, 1);
    expect_refusal(&w, FORAY_EFILE, WORDS("flag", "bool"));
    write_raw(&w, "far", GW_STRING, UINT64_MAX - 7, 8); /* ends 8 bytes before it begins */
    expect_refusal(&w, FORAY_EFILE, WORDS("far", "truncated"));
    write_raw(&w, "odd", 77, 0, 4);
    expect_refusal(&w, FORAY_EFILE, WORDS("odd", "type 77"));
    gguf_key_u32(&w, "", 1);
    expect_refusal(&w, FORAY_EFILE, WORDS("bad.gguf", "key of 0 bytes"));
    gguf_put_string(&w.keys, "a\0b", 3);
    w.key_count = 1;
    expect_refusal(&w, FORAY_EFILE, WORDS("zero byte"));
    w.key_count = 1ull << 60;
    expect_refusal(&w, FORAY_ELIMIT, WORDS("bad.gguf", "keys"));
    w.tensor_count = UINT64_MAX;
    expect_refusal(&w, FORAY_ELIMIT, WORDS("bad.gguf", "tensors"));

    static const struct {
        char bytes[9];
        int code;
        const char *word;
    } headers[] = {
        { "GGUF\1\0\0\0", FORAY_EUNSUPPORTED, "version 1" },
        { "GGUF\4\0\0\0", FORAY_EUNSUPPORTED, "version 4" },
        { "GGUF\0\0\0\3", FORAY_EUNSUPPORTED, "big-endian" },
        { "GGML\3\0\0\0", FORAY_EFILE, "GGUF" },
    };
    for (size_t i = 0; i < sizeof headers / sizeof headers[0]; i++) {
        arena a;
        gguf_file g;
        foray_error err;
        arena_init(&a, MEM_GENERAL, 0);
        assert_int_equal(gguf_parse((const uint8_t *)headers[i].bytes, 8, "x", &a, &g, &err),
                         headers[i].code);
        assert_non_null(strstr(err.text, headers[i].word));
        arena_free(&a);
    }
}

static void a_tensor_of_an_unknown_type_is_listed_by_name(void **state)
{
    (void)state;
    static const int64_t shape[] = { 2, 256 };
    static const uint8_t data[2 * 66];
    gguf_writer w = { 0 };
    buf file = { 0 };
    arena a;
    gguf_file g;
    arena_init(&a, MEM_GENERAL, 0);
    gguf_tensor(&w, "one", 16, 2, shape, data, sizeof data);
    gguf_tensor(&w, "two", 1234567, 2, shape, data, 7);
    gguf_finish(&w, &file);
    assert_int_equal(gguf_parse((const uint8_t *)file.data, file.len, "", &a, &g, NULL), 0);
    assert_int_equal(g.tensors[0].type, DTYPE_UNKNOWN);
    assert_string_equal(g.tensors[0].type_name, "IQ2_XXS");
    assert_int_equal(g.tensors[0].bytes, 132);
    assert_int_equal(g.tensors[1].type, DTYPE_UNKNOWN);
    assert_string_equal(g.tensors[1].type_name, "type 1234567");
    assert_int_equal(g.tensors[1].bytes, 0);
    arena_free(&a);
    buf_free(&file);
}

static void running_out_of_memory_is_an_error_and_leaks_nothing(void **state)
{
    (void)state;
    gguf_writer w = { 0 };
    buf file = { 0 };
    write_good(&w);
    gguf_finish(&w, &file);
    int64_t before = mem_get_stats().blocks;
    for (int n = 1;; n++) {
        arena a;
        gguf_file g;
        foray_error err;
        arena_init(&a, MEM_GENERAL, 64);
        mem_fail_nth(n, false);
        int rc = gguf_parse((const uint8_t *)file.data, file.len, "x", &a, &g, &err);
        mem_fail_nth(0, false);
        arena_free(&a);
        assert_int_equal(mem_get_stats().blocks, before);
        if (rc == 0) {
            assert_true(n > 1);
            break;
        }
        assert_int_equal(rc, FORAY_ENOMEM);
    }
    buf_free(&file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_good_file_gives_all_its_values_and_tensors),
        cmocka_unit_test(a_file_cut_anywhere_is_refused),
        cmocka_unit_test(dimensions_that_overflow_are_refused),
        cmocka_unit_test(offsets_outside_overlapping_or_unaligned_are_refused),
        cmocka_unit_test(an_alignment_that_cannot_be_is_refused),
        cmocka_unit_test(arrays_that_promise_too_much_are_refused_without_memory),
        cmocka_unit_test(tokenizer_arrays_of_a_wrong_type_or_length_are_refused),
        cmocka_unit_test(odd_headers_keys_and_values_are_refused),
        cmocka_unit_test(a_tensor_of_an_unknown_type_is_listed_by_name),
        cmocka_unit_test(running_out_of_memory_is_an_error_and_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
