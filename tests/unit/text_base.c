/* The text helpers of base/: UTF-8, growing buffers, error lines. */
#include "base/buf.h"

#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/utf8.h"

static void every_code_point_survives_writing_and_reading(void **state)
{
    (void)state;
    for (uint32_t point = 0; point <= 0x10ffff; point++) {
        char bytes[4];
        uint32_t again = 0;
        int length = utf8_write(point, bytes);
        if (point >= 0xd800 && point <= 0xdfff)
            assert_true(utf8_read(bytes, 4, &again) < 0);
        else if (utf8_read(bytes, (size_t)length, &again) != length || again != point)
            fail_msg("U+%04X came back as U+%04X", point, again);
    }
}

/* Every lead with every second byte: a sequence is right exactly if writing its code point gives it again. */
static void only_the_shortest_form_is_read(void **state)
{
    (void)state;
    for (unsigned lead = 0xc0; lead < 0x100; lead++) {
        for (unsigned second = 0; second < 0x100; second++) {
            char bytes[4] = { (char)lead, (char)second, '\x80', '\xbf' }, again[4] = { 0 };
            int length = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
            uint32_t point = (lead & (0x7fu >> length)) << 6 | (second & 0x3f);
            for (int i = 2; i < length; i++)
                point = point << 6 | ((unsigned char)bytes[i] & 0x3fu);
            bool right = (second & 0xc0) == 0x80 && point <= 0x10ffff &&
                         !(point >= 0xd800 && point <= 0xdfff) && utf8_write(point, again) == length &&
                         memcmp(bytes, again, (size_t)length) == 0;
            uint32_t got = 0;
            int n = utf8_read(bytes, 4, &got);
            if ((n > 0) != right || (right && (n != length || got != point)))
                fail_msg("%02x %02x: %d", lead, second, n);
        }
    }
}

/* The standard's own example of which bytes one U+FFFD stands for (Unicode 15, table 3-8). */
static void broken_sequences_are_replaced_as_the_standard_shows(void **state)
{
    (void)state;
    static const char broken[] = "\x61\xF1\x80\x80\xE1\x80\xC2\x62\x80\x63\x80\xBF\x64";
    buf b = { 0 };
    buf_json_string(&b, broken, sizeof broken - 1);
#define R "\xef\xbf\xbd"
    assert_string_equal(b.data, "\"a" R R R "b" R "c" R R "d\"");
#undef R
    buf_free(&b);
    uint32_t point;
    assert_int_equal(utf8_read("\xed\xa0\x80", 3, &point), -1); /* a surrogate */
    assert_int_equal(utf8_read("\xf4\x90\x80\x80", 4, &point), -1);
    assert_int_equal(utf8_read("\xf0\x9f\x98", 3, &point), -3);
}

/* Any bytes at all, read back by another implementation. */
static void any_bytes_make_valid_json_strings(void **state)
{
    (void)state;
    for (int first = 0; first < 256; first++) {
        char bytes[8] = {
            'x', (char)first, (char)(first * 7 + 3), '"', (char)(255 - first), '\\', '\n', 'y'
        };
        buf b = { 0 };
        buf_puts(&b, "[");
        buf_json_string(&b, bytes, sizeof bytes);
        buf_puts(&b, "]");
        json_error_t error;
        json_t *parsed = json_loadb(b.data, b.len, JSON_ALLOW_NUL, &error);
        if (parsed == NULL)
            fail_msg("byte %02x: %s: %s", first, error.text, b.data);
        if (first >= 1 &&
            first < 9) { /* nothing was replaced: it comes back as it was, but for the byte 255 - first */
            const char *value = json_string_value(json_array_get(parsed, 0));
            assert_memory_equal(value, bytes, 4);
        }
        json_decref(parsed);
        buf_free(&b);
    }
}

static void numbers_read_back_as_the_same_double(void **state)
{
    (void)state;
    static const double values[] = {
        0, -0.0, 0.1, 1.0 / 3, 1e300, 5e-324, 123456789012345680.0, -2.5, 1e21, 0.30000000000000004
    };
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        buf b = { 0 };
        buf_json_double(&b, values[i]);
        json_t *parsed = json_loads(b.data, JSON_DECODE_ANY | JSON_DECODE_INT_AS_REAL, NULL);
        assert_non_null(parsed);
        assert_true(json_real_value(parsed) == values[i]);
        json_decref(parsed);
        buf_free(&b);
    }
    static const double none[] = { NAN, INFINITY, -INFINITY };
    for (int i = 0; i < 3; i++) {
        buf b = { 0 };
        buf_json_double(&b, none[i]);
        assert_string_equal(b.data, "null");
        buf_free(&b);
    }
    buf b = { 0 };
    buf_json_double(&b, 0.1);
    assert_string_equal(b.data, "0.1");
    buf_free(&b);
}

static void a_buffer_grows_and_always_ends_in_nul(void **state)
{
    (void)state;
    buf b = { 0 };
    for (int i = 0; i < 5000; i++) {
        buf_printf(&b, "%d,", i % 10);
        assert_int_equal(b.data[b.len], 0);
    }
    assert_int_equal(b.len, 10000);
    for (size_t i = 0; i < 10000; i += 2)
        assert_int_equal(b.data[i], '0' + (int)(i / 2 % 10));
    buf_clear(&b);
    assert_string_equal(b.data, "");
    buf_free(&b);
}

static void a_buffer_out_of_memory_keeps_what_it_had(void **state)
{
    (void)state;
    int64_t blocks = mem_get_stats().blocks;
    buf b = { 0 };
    buf_puts(&b, "kept");
    mem_fail_nth(1, false);
    for (int i = 0; i < 1000; i++)
        buf_puts(&b, "more");
    assert_true(b.failed);
    assert_true(b.len >= 4);
    assert_memory_equal(b.data, "keptmore", b.len < 8 ? b.len : 8);
    assert_int_equal(b.data[b.len], 0);
    size_t len = b.len;
    buf_puts(&b, "ignored");
    assert_int_equal(b.len, len);
    buf_free(&b);
    assert_int_equal(mem_get_stats().blocks, blocks);
}

static void an_error_is_one_printable_line(void **state)
{
    (void)state;
    foray_error err;
    assert_int_equal((fail)(&err, FORAY_EFILE, "%s: \x01\n\xff %d", "a\xc3\xa9", 7), FORAY_EFILE);
    assert_int_equal(err.code, FORAY_EFILE);
    assert_string_equal(err.text, "a\xc3\xa9: ??? 7");
    assert_int_equal((fail)(NULL, FORAY_ENOMEM, "x"), FORAY_ENOMEM);
}

/* At every offset of a two-byte character against the end of the room. */
static void a_long_error_is_cut_at_a_character(void **state)
{
    (void)state;
    for (int pad = 0; pad < 8; pad++) {
        char text[2 * sizeof((foray_error *)0)->text];
        memset(text, 'x', (size_t)pad);
        for (size_t i = (size_t)pad; i + 2 < sizeof text; i += 2)
            memcpy(text + i, "\xc3\xa9", 3);
        foray_error err;
        (fail)(&err, FORAY_EFILE, "%s", text);
        size_t length = strlen(err.text);
        assert_in_range(length, sizeof err.text - 4, sizeof err.text - 1);
        assert_string_equal(err.text + length - 3, "\xe2\x80\xa6");
        for (size_t i = 0; i < length;) {
            uint32_t point;
            int n = utf8_read(err.text + i, length - i, &point);
            assert_true(n > 0);
            i += (size_t)n;
        }
    }
    /* What just fits is not cut. */
    char exact[sizeof((foray_error *)0)->text];
    memset(exact, 'x', sizeof exact - 1);
    exact[sizeof exact - 1] = '\0';
    foray_error err;
    (fail)(&err, FORAY_EFILE, "%s", exact);
    assert_string_equal(err.text, exact);
}

static void every_code_has_a_name(void **state)
{
    (void)state;
    assert_string_equal(foray_code_name(FORAY_OK), "OK");
    assert_string_equal(foray_code_name(FORAY_ESYSTEM), "ESYSTEM");
    for (int code = FORAY_ESYSTEM; code < 0; code++)
        assert_true(foray_code_name(code)[0] == 'E');
    assert_string_equal(foray_code_name(-99), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_point_survives_writing_and_reading),
        cmocka_unit_test(only_the_shortest_form_is_read),
        cmocka_unit_test(broken_sequences_are_replaced_as_the_standard_shows),
        cmocka_unit_test(any_bytes_make_valid_json_strings),
        cmocka_unit_test(numbers_read_back_as_the_same_double),
        cmocka_unit_test(a_buffer_grows_and_always_ends_in_nul),
        cmocka_unit_test(a_buffer_out_of_memory_keeps_what_it_had),
        cmocka_unit_test(an_error_is_one_printable_line),
        cmocka_unit_test(a_long_error_is_cut_at_a_character),
        cmocka_unit_test(every_code_has_a_name),
    };
    return cmocka_run_group_tests_name("text_base", tests, NULL, NULL);
}
