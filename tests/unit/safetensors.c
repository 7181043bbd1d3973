/* Tests of format/safetensors: strict about every offset, size and name (cases.md S02). */
#include "format/safetensors.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "support/guard.h"

#include <cmocka.h> /* last: base/error.h has a fail() too */

/* length, header, and data_bytes zeros counting up. */
static buf make_file(uint64_t length, const char *header, size_t data_bytes)
{
    buf b = { 0 };
    for (int i = 0; i < 8; i++)
        buf_append(&b, &(uint8_t) { (uint8_t)(length >> 8 * i) }, 1);
    buf_puts(&b, header);
    for (size_t i = 0; i < data_bytes; i++)
        buf_append(&b, &(uint8_t) { (uint8_t)i }, 1);
    return b;
}

static const char good[] =
    "{\"__metadata__\":{\"format\":\"pt\"},\"b\":{\"dtype\":\"F16\",\"shape\":[2,3],\"data_offsets\":"
    "[8,20]},\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},\"none\":{\"dtype\":\"BF16\","
    "\"shape\":[0,7],\"data_offsets\":[8,8]},\"scalar\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":"
    "[20,28]},\"eight\":{\"dtype\":\"F8_E4M3\",\"shape\":[3],\"data_offsets\":[28,31]},\"odd\":{\"dtype\":"
    "\"F4_X\",\"shape\":[2],\"data_offsets\":[31,32]}}  ";

static void a_good_file_gives_views_in_the_headers_order(void **state)
{
    (void)state;
    buf file = make_file(sizeof good - 1, good, 32);
    arena a;
    tensor_view *v = NULL;
    size_t count = 0;
    foray_error err = { 0 };
    arena_init(&a, MEM_GENERAL, 0);
    if (safetensors_parse((const uint8_t *)file.data, file.len, "x", &a, &v, &count, &err) != 0)
        fail_msg("%s", err.text);
    const uint8_t *data = (const uint8_t *)file.data + 8 + sizeof good - 1;
    assert_int_equal(count, 6);
    assert_string_equal(v[0].name, "b");
    assert_int_equal(v[0].type, DTYPE_F16);
    assert_true(v[0].dims == 2 && v[0].shape[0] == 2 && v[0].shape[1] == 3 && v[0].shape[2] == 1);
    assert_true(v[0].data == data + 8 && v[0].bytes == 12);
    assert_string_equal(v[1].name, "a");
    assert_true(v[1].data == data && v[1].bytes == 8 && v[1].type == DTYPE_F32);
    assert_int_equal(v[2].bytes, 0);
    assert_true(v[3].dims == 0 && v[3].bytes == 8 && v[3].type == DTYPE_I64);
    assert_int_equal(v[4].type, DTYPE_F8_E4M3);
    assert_string_equal(v[4].type_name, "F8_E4M3");
    assert_int_equal(v[5].type, DTYPE_UNKNOWN);
    assert_string_equal(v[5].type_name, "F4_X");
    arena_free(&a);
    buf_free(&file);
}

static void a_file_cut_anywhere_is_refused(void **state)
{
    (void)state;
    buf file = make_file(sizeof good - 1, good, 32);
    guard g;
    guard_init(&g, file.len);
    for (size_t n = 0; n < file.len; n++) {
        arena a;
        tensor_view *v;
        size_t count;
        foray_error err;
        arena_init(&a, MEM_GENERAL, 0);
        assert_true(safetensors_parse(guard_copy(&g, file.data, n), n, "cut", &a, &v, &count, &err) < 0);
        assert_non_null(strstr(err.text, "cut"));
        arena_free(&a);
    }
    guard_free(&g);
    buf_free(&file);
}

static void expect(uint64_t length, const char *header, size_t data_bytes, int code, const char *word)
{
    buf file = make_file(length, header, data_bytes);
    arena a;
    tensor_view *v;
    size_t count;
    foray_error err = { 0 };
    arena_init(&a, MEM_GENERAL, 0);
    int64_t before = mem_get_stats().bytes[MEM_GENERAL];
    int rc = safetensors_parse((const uint8_t *)file.data, file.len, "bad", &a, &v, &count, &err);
    assert_true(mem_get_stats().bytes[MEM_GENERAL] - before < 256 << 10);
    if (rc != code || (word && !strstr(err.text, word)))
        fail_msg("%s: got %d (%s), expected %d with '%s'", header, rc, err.text, code, word ? word : "");
    arena_free(&a);
    buf_free(&file);
}

static void expect_entry(const char *fields, size_t data_bytes, const char *word)
{
    char header[512];
    snprintf(header, sizeof header, "{\"some.weight\":{%s}}", fields);
    expect(strlen(header), header, data_bytes, FORAY_EFILE, word);
    expect(strlen(header), header, data_bytes, FORAY_EFILE, "some.weight");
}

static void wrong_entries_are_refused_by_name(void **state)
{
    (void)state;
#define F32 "\"dtype\":\"F32\","
    expect_entry(F32 "\"shape\":[2],\"data_offsets\":[8,0]", 8, "backwards");
    expect_entry(F32 "\"shape\":[2],\"data_offsets\":[-8,0]", 8, "backwards");
    expect_entry(F32 "\"shape\":[2],\"data_offsets\":[0,16]", 8, "truncated");
    expect_entry(F32 "\"shape\":[2],\"data_offsets\":[0,4]", 4, "fill");
    expect_entry(F32 "\"shape\":[1024,1024],\"data_offsets\":[0,4]", 4, "fill");
    expect_entry(F32 "\"shape\":[2],\"data_offsets\":[8]", 8, "pair");
    expect_entry(F32 "\"shape\":[2],\"data_offsets\":[0,8,16]", 16, "pair");
    expect_entry(F32 "\"shape\":[2],\"data_offsets\":[\"0\",\"8\"]", 8, "pair");
    expect_entry(F32 "\"shape\":[2],\"data_offsets\":[0.0,8.0]", 8, "pair");
    expect_entry(F32 "\"shape\":[2],\"data_offsets\":\"0,8\"", 8, "pair");
    expect_entry(F32 "\"shape\":[2]", 8, "no data_offsets");
    expect_entry(F32 "\"data_offsets\":[0,8]", 8, "no shape");
    expect_entry(F32 F32 "\"shape\":[2],\"data_offsets\":[0,8]", 8, "dtype is there twice");
    expect_entry(F32 "\"shape\":[2],\"shape\":[2],\"data_offsets\":[0,8]", 8, "shape is there twice");
    expect_entry(F32 "\"shape\":[-2],\"data_offsets\":[0,8]", 8, "dimension 0");
    expect_entry(F32 "\"shape\":[2.0],\"data_offsets\":[0,8]", 8, "dimension 0");
    expect_entry(F32 "\"shape\":{\"0\":2},\"data_offsets\":[0,8]", 8, "shape");
    expect_entry(F32 "\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]", 0, "overflow");
    expect_entry(F32 "\"shape\":[4611686018427387904],\"data_offsets\":[0,0]", 0, "fill");
    expect_entry("\"shape\":[2],\"data_offsets\":[0,8]", 8, "dtype");
    expect_entry("\"dtype\":3,\"shape\":[2],\"data_offsets\":[0,8]", 8, "dtype");
    expect_entry(F32 "\"shape\":[1],\"data_offsets\":[4,8]", 8, "gap");
    expect(7, "{\"w\":3}", 0, FORAY_EFILE, "not an object");
    static const char deep[] = "{\"w\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1],\"data_offsets\":[0,4]}}";
    expect(sizeof deep - 1, deep, 4, FORAY_EUNSUPPORTED, "dimensions");
}

static void tensors_that_overlap_or_leave_gaps_are_refused(void **state)
{
    (void)state;
    static const struct {
        int begin[3], end[3];
        size_t data;
        const char *word; /* NULL: fine */
    } cases[] = {
        { { 0, 8, 16 }, { 8, 16, 24 }, 24, NULL },       { { 16, 0, 8 }, { 24, 8, 16 }, 24, NULL },
        { { 0, 4, 8 }, { 8, 8, 12 }, 12, "overlap" },    { { 0, 0, 0 }, { 8, 8, 8 }, 8, "overlap" },
        { { 0, 8, 20 }, { 8, 16, 24 }, 24, "gap" },      { { 4, 8, 12 }, { 8, 12, 16 }, 16, "gap" },
        { { 0, 8, 16 }, { 8, 16, 24 }, 25, "the file" }, { { 0, 0, 8 }, { 16, 8, 16 }, 16, "overlap" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char header[512];
        int n = snprintf(header, sizeof header, "{");
        for (int t = 0; t < 3; t++)
            n +=
                snprintf(header + n, sizeof header - (size_t)n,
                         "%s\"t%d\":{\"dtype\":\"U8\",\"shape\":[%d],\"data_offsets\":[%d,%d]}", t ? "," : "",
                         t, cases[i].end[t] - cases[i].begin[t], cases[i].begin[t], cases[i].end[t]);
        snprintf(header + n, sizeof header - (size_t)n, "}");
        expect(strlen(header), header, cases[i].data, cases[i].word ? FORAY_EFILE : 0, cases[i].word);
    }
}

static void odd_headers_are_refused(void **state)
{
    (void)state;
    expect(0, "", 0, FORAY_EFILE, "bad");
    expect(2, "{}", 0, 0, NULL); /* no tensors at all is a file */
    expect(2, "[]", 0, FORAY_EFILE, "object");
    expect(3, "nul", 0, FORAY_EFILE, "byte 8");
    expect(5, "{} {}", 0, FORAY_EFILE, "byte 11");
    expect(1ull << 63, "{}", 0, FORAY_EFILE, "limit");
    expect(UINT64_MAX, "{}", 0, FORAY_EFILE, "limit");
    expect(100 * 1000 * 1000, "{}", 0, FORAY_EFILE, "truncated");
    expect(3, "{}", 0, FORAY_EFILE, "truncated");
    static const char twice[] = "{\"w\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
                                "\"w\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}";
    expect(sizeof twice - 1, twice, 2, FORAY_EFILE, "w: is there twice");
    static const char zero[] = "{\"a\\u0000b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}";
    expect(sizeof zero - 1, zero, 1, FORAY_EFILE, "zero byte");
    char nested[5000];
    memset(nested, '[', sizeof nested);
    nested[sizeof nested - 1] = 0;
    expect(sizeof nested - 1, nested, 0, FORAY_EFILE, "object");
    memcpy(nested, "{\"__metadata__\":", 16);
    expect(sizeof nested - 1, nested, 0, FORAY_EFILE, "byte");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_good_file_gives_views_in_the_headers_order),
        cmocka_unit_test(a_file_cut_anywhere_is_refused),
        cmocka_unit_test(wrong_entries_are_refused_by_name),
        cmocka_unit_test(tensors_that_overlap_or_leave_gaps_are_refused),
        cmocka_unit_test(odd_headers_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
