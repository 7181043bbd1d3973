/* The streaming JSON reader: what it gives back, what it refuses and where, and that it never looks outside
 * the bytes it was lent.
 */
#include "base/json_reader.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

enum { DEPTH = 8 };

static uint8_t stack[DEPTH];

static json_reader reader(const char *text)
{
    json_reader r;
    json_reader_init(&r, "t.json", text, strlen(text), stack, DEPTH);
    return r;
}

static void tokens_come_in_the_order_of_the_text(void **state)
{
    (void)state;
    json_reader r = reader(" {\"a\" : [1, -2.5e1,\"x\", true,false , null, {}, [ ]],\n\"b\":\"\"}\t\r\n");
    static const json_kind expected[] = {
        JR_OBJECT, JR_KEY,    JR_ARRAY,      JR_NUMBER,     JR_NUMBER, JR_STRING,    JR_TRUE,
        JR_FALSE,  JR_NULL,   JR_OBJECT,     JR_OBJECT_END, JR_ARRAY,  JR_ARRAY_END, JR_ARRAY_END,
        JR_KEY,    JR_STRING, JR_OBJECT_END, JR_END,        JR_END,
    };
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
        assert_int_equal(json_reader_next(&r), expected[i]);
    assert_int_equal(json_reader_error(&r, NULL), FORAY_OK);
}

static void numbers_are_exact(void **state)
{
    (void)state;
    json_reader r = reader("[9223372036854775807,-9223372036854775808,9223372036854775808,0.1,-0,1E+2,5e-324,"
                           "18446744073709551615, 123456789012345678]");
    assert_true(json_reader_expect(&r, JR_ARRAY));
    assert_true(json_reader_expect(&r, JR_NUMBER) && r.whole);
    assert_true(r.integer == INT64_MAX);
    assert_true(json_reader_expect(&r, JR_NUMBER) && r.whole);
    assert_true(r.integer == INT64_MIN);
    assert_true(json_reader_expect(&r, JR_NUMBER) && !r.whole);
    assert_true(r.number == 0x1p63);
    assert_true(json_reader_expect(&r, JR_NUMBER) && !r.whole);
    assert_true(r.number == 0.1);
    assert_true(json_reader_expect(&r, JR_NUMBER) && r.whole);
    assert_true(r.integer == 0 && signbit(r.number));
    assert_true(json_reader_expect(&r, JR_NUMBER) && !r.whole);
    assert_true(r.number == 100);
    assert_true(json_reader_expect(&r, JR_NUMBER) && r.number == 0x1p-1074);
    assert_true(json_reader_expect(&r, JR_NUMBER) && !r.whole);
    assert_true(r.number == 0x1p64);
    assert_true(json_reader_expect(&r, JR_NUMBER) && r.whole);
    assert_true(r.integer == 123456789012345678);
    assert_true(json_reader_expect(&r, JR_ARRAY_END));
    assert_true(json_reader_expect(&r, JR_END));
}

static void strings_unescape_to_their_value(void **state)
{
    (void)state;
    static const struct {
        const char *json, *value;
    } cases[] = {
        { "\"plain \xc3\xa9\"", "plain \xc3\xa9" },
        { "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\/\b\f\n\r\t" },
        { "\"\\u0041\\u00e9\\u20AC\"", "A\xc3\xa9\xe2\x82\xac" },
        { "\"\\ud83d\\ude00\"", "\xf0\x9f\x98\x80" },
        { "\"\\ud83d\"", "\xef\xbf\xbd" },                      /* alone at the end */
        { "\"\\ud83dx\\ude00\"", "\xef\xbf\xbdx\xef\xbf\xbd" }, /* parted */
        { "\"\\ud83d\\u0041\"", "\xef\xbf\xbd"
                                "A" },                                  /* high, then no low */
        { "\"\\ud83d\\ud83d\\ude00\"", "\xef\xbf\xbd\xf0\x9f\x98\x80" } /* high, then a pair */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_reader r = reader(cases[i].json);
        assert_true(json_reader_expect(&r, JR_STRING));
        char value[64];
        assert_true(r.bytes <= sizeof value);
        size_t length = json_reader_unescape(&r, value);
        assert_true(length <= r.bytes);
        assert_int_equal(length, strlen(cases[i].value));
        assert_memory_equal(value, cases[i].value, length);
        assert_true(json_reader_is(&r, cases[i].value));
        assert_false(json_reader_is(&r, ""));
        assert_false(json_reader_is(&r, "A longer text than any of them has"));
    }
    json_reader r = reader("\"a\\u0000b\"");
    assert_true(json_reader_expect(&r, JR_STRING));
    char value[16];
    assert_int_equal(json_reader_unescape(&r, value), 3);
    assert_memory_equal(value, "a\0b", 3);
    assert_false(json_reader_is(&r, "a"));
}

static void what_is_not_json_is_refused_at_its_place(void **state)
{
    (void)state;
    static const struct {
        const char *json;
        size_t offset;
    } cases[] = {
        { "", 0 },
        { "  ", 2 },
        { "{", 1 },
        { "[1,]", 3 },
        { "[1 2]", 3 },
        { "{\"a\"}", 4 },
        { "{\"a\":}", 5 },
        { "{\"a\":1,}", 7 },
        { "{a:1}", 1 },
        { "[1]]", 3 },
        { "[}", 1 },
        { "{]", 1 },
        { "01", 0 },
        { "-", 0 },
        { "1.", 0 },
        { "1e", 0 },
        { "+1", 0 },
        { ".5", 0 },
        { "1e999", 0 },
        { "nul", 0 },
        { "NaN", 0 },
        { "-Infinity", 0 },
        { "\"a", 0 },
        { "\"\\x\"", 1 },
        { "\"\\u12g4\"", 1 },
        { "\"a\nb\"", 2 },
        { "\"\\", 1 },
        { "\"\xff\"", 1 },
        { "\"\xc3\"", 1 },
        { "\"\xed\xa0\x80\"", 1 },
        { "\"\xc0\xaf\"", 1 },
        { "1 x", 2 },
        { "{\"a\":1 \"b\":2}", 7 },
        { "//c\n1", 0 },
        { "[[[[[[[[[", 8 },
        { "\xef\xbb\xbf"
          "1",
          0 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_reader r = reader(cases[i].json);
        json_kind kind;
        do
            kind = json_reader_next(&r);
        while (kind != JR_ERROR && kind != JR_END);
        if (kind != JR_ERROR || r.bad_offset != cases[i].offset)
            fail_msg("case %zu: kind %d at byte %zu, not an error at %zu", i, kind, r.bad_offset,
                     cases[i].offset);
        foray_error err;
        assert_int_equal(json_reader_error(&r, &err), FORAY_EFILE);
        char place[32];
        snprintf(place, sizeof place, "t.json: byte %zu: ", cases[i].offset);
        assert_memory_equal(err.text, place, strlen(place));
        assert_int_equal(json_reader_next(&r), JR_ERROR);
    }
}

static void depth_up_to_the_limit_is_allowed(void **state)
{
    (void)state;
    json_reader r = reader("[[[[[[[[]]]]]]]]");
    for (int i = 0; i < DEPTH; i++)
        assert_true(json_reader_expect(&r, JR_ARRAY));
    for (int i = 0; i < DEPTH; i++)
        assert_true(json_reader_expect(&r, JR_ARRAY_END));
    assert_true(json_reader_expect(&r, JR_END));
}

static void skipping_passes_exactly_one_value(void **state)
{
    (void)state;
    static const char *const values[] = { "1",        "\"]}\"", "null",
                                          "{}",       "[]",     "{\"x\":{\"y\":[1,{}]},\"z\":2}",
                                          "[[],[[]]]" };
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        char text[128];
        snprintf(text, sizeof text, "{\"skipped\":%s,\"kept\":7}", values[i]);
        json_reader r = reader(text);
        assert_true(json_reader_expect(&r, JR_OBJECT));
        assert_true(json_reader_expect(&r, JR_KEY) && json_reader_is(&r, "skipped"));
        assert_true(json_reader_skip(&r));
        assert_true(json_reader_expect(&r, JR_KEY) && json_reader_is(&r, "kept"));
        assert_true(json_reader_expect(&r, JR_NUMBER) && r.integer == 7);
        assert_true(json_reader_skip(&r));
        assert_true(json_reader_expect(&r, JR_OBJECT_END));
    }
    json_reader r = reader("[[1,2],[3");
    assert_true(json_reader_expect(&r, JR_ARRAY));
    assert_true(json_reader_expect(&r, JR_ARRAY));
    assert_true(json_reader_skip(&r));
    assert_int_equal(r.kind, JR_ARRAY_END);
    assert_true(json_reader_expect(&r, JR_ARRAY));
    assert_false(json_reader_skip(&r));
}

static void a_wrong_kind_is_named_with_its_place(void **state)
{
    (void)state;
    json_reader r = reader("{\"a\": 12}");
    assert_true(json_reader_expect(&r, JR_OBJECT));
    assert_true(json_reader_expect(&r, JR_KEY));
    assert_false(json_reader_expect(&r, JR_STRING));
    foray_error err;
    assert_int_equal(json_reader_error(&r, &err), FORAY_EFILE);
    assert_string_equal(err.text, "t.json: byte 6: a number where a string is expected");
}

/* Every prefix of a text that uses the whole grammar, placed so that the byte after it is not mapped. */
static void nothing_after_the_bytes_is_read(void **state)
{
    (void)state;
    static const char text[] =
        "{\"k\\u00e9y\\n\":[-12.5e+3,0,\"\xf0\x9f\x98\x80\\ud83d\\ude00\",true,false,null,{\"\":[]}]}";
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(pages != MAP_FAILED);
    assert_int_equal(mprotect(pages + page, page, PROT_NONE), 0);
    for (size_t size = 0; size < sizeof text; size++) {
        char *end = pages + page;
        memcpy(end - size, text, size);
        json_reader r;
        json_reader_init(&r, "t.json", end - size, size, stack, DEPTH);
        char value[sizeof text];
        json_kind kind;
        do {
            kind = json_reader_next(&r);
            if (kind == JR_KEY || kind == JR_STRING) {
                json_reader_unescape(&r, value);
                json_reader_is(&r, "k\xc3\xa9y\n\n");
            }
        } while (kind != JR_ERROR && kind != JR_END);
        assert_int_equal(kind, size == sizeof text - 1 ? JR_END : JR_ERROR);
    }
    munmap(pages, 2 * page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_come_in_the_order_of_the_text),
        cmocka_unit_test(numbers_are_exact),
        cmocka_unit_test(strings_unescape_to_their_value),
        cmocka_unit_test(what_is_not_json_is_refused_at_its_place),
        cmocka_unit_test(depth_up_to_the_limit_is_allowed),
        cmocka_unit_test(skipping_passes_exactly_one_value),
        cmocka_unit_test(a_wrong_kind_is_named_with_its_place),
        cmocka_unit_test(nothing_after_the_bytes_is_read),
    };
    return cmocka_run_group_tests_name("json_reader", tests, NULL, NULL);
}
