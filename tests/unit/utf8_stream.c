/* Running text from token bytes: characters arrive whole however they were cut, and no part of a stop string is
 * ever shown. The oracle is a plain search in the whole text.
 */
#include "text/utf8_stream.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "base/utf8.h"

/* Feeds text in pieces whose lengths are the digits of cuts, repeated; returns what was shown. */
static bool feed_cut(const char *text, size_t bytes, const char *cuts, const char *const *stop, size_t stops,
                     buf *out)
{
    utf8_stream s;
    utf8_stream_init(&s, stop, stops);
    bool stopped = false;
    size_t k = 0;
    for (size_t i = 0; i < bytes && !stopped; k = cuts[k + 1] != '\0' ? k + 1 : 0) {
        size_t n = (size_t)(cuts[k] - '0');
        if (n > bytes - i)
            n = bytes - i;
        stopped = utf8_stream_feed(&s, text + i, n, out);
        i += n;
        /* Whatever has been shown so far must be whole characters. */
        for (size_t at = 0; at < out->len;) {
            uint32_t point;
            int used = utf8_read(out->data + at, out->len - at, &point);
            assert_true(used > 0);
            at += (size_t)used;
        }
    }
    utf8_stream_finish(&s, out);
    utf8_stream_free(&s);
    return stopped;
}

static void expect(const char *text, size_t bytes, const char *const *stop, size_t stops, const char *shown,
                   bool stopped)
{
    static const char *const cuts[] = { "1", "2", "3", "4", "9", "12", "31", "113", "5" };
    for (size_t c = 0; c < sizeof cuts / sizeof cuts[0]; c++) {
        buf out = { 0 };
        assert_int_equal(feed_cut(text, bytes, cuts[c], stop, stops, &out), stopped);
        assert_string_equal(out.data != NULL ? out.data : "", shown);
        buf_free(&out);
    }
}

#define TEXT(literal) literal, sizeof(literal) - 1

static void characters_arrive_whole_wherever_they_are_cut(void **state)
{
    (void)state;
    expect(TEXT("aé漢👍z\n"), NULL, 0, "aé漢👍z\n", false);
}

static void bytes_that_cannot_become_a_character_turn_into_replacements(void **state)
{
    (void)state;
    expect(TEXT("\xe2zz"), NULL, 0, "\xef\xbf\xbdzz", false);
    expect(TEXT("\x80\x81\x82\x83\x84\x85\x86\x87\x88\x89"), NULL, 0,
           "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"
           "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd",
           false);
    expect(TEXT("a\xf0\x9f\x91"), NULL, 0, "a\xef\xbf\xbd", false); /* the text ends inside a character */
    expect(TEXT("\xed\xa0\x80"), NULL, 0, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd", false); /* a surrogate */
    expect(TEXT("\xf0\x9f\xc3\xa9"), NULL, 0, "\xef\xbf\xbdé", false);
}

static void a_replacement_is_shown_as_soon_as_it_is_certain(void **state)
{
    (void)state;
    utf8_stream s;
    buf out = { 0 };
    utf8_stream_init(&s, NULL, 0);
    (void)utf8_stream_feed(&s, "\xf0\x9f\x91", 3, &out);
    assert_int_equal(out.len, 0); /* may still become a character */
    (void)utf8_stream_feed(&s, "\xf0", 1, &out);
    assert_int_equal(out.len, 3); /* no more */
    (void)utf8_stream_feed(&s, "\xff", 1, &out);
    assert_int_equal(out.len, 9);
    buf_free(&out);
    utf8_stream_free(&s);
}

static void a_nul_byte_is_a_character_like_others(void **state)
{
    (void)state;
    static const char *const stop[] = { "ab" };
    utf8_stream s;
    buf out = { 0 };
    utf8_stream_init(&s, stop, 1);
    (void)utf8_stream_feed(&s, "a\0b", 3, &out);
    assert_int_equal(out.len, 3);
    buf_free(&out);
    utf8_stream_free(&s);
}

static void the_stop_that_is_completed_first_cuts_the_text(void **state)
{
    (void)state;
    static const char *const one[] = { "END\n" }, *const two[] = { "yes", "no" },
                             *const tie[] = { "c", "abc", "bc" };
    expect(TEXT("so it EEND\nmore"), one, 1, "so it E", true);
    expect(TEXT("say no or yes"), two, 2, "say ", true);
    expect(TEXT("xxabcd"), tie, 3, "xx", true); /* the longest of those that end together */
    static const char *const wide[] = { "漢字" };
    expect(TEXT("a漢漢字z"), wide, 1, "a漢", true);
    static const char *const dots[] = { ".." };
    expect(TEXT("well...so"), dots, 1, "well", true);
}

static void text_that_turns_out_to_be_no_stop_is_released(void **state)
{
    (void)state;
    static const char *const stop[] = { "END\n", "aaab" };
    expect(TEXT("END of EN"), stop, 2, "END of EN", false);
    expect(TEXT("aaaaaac"), stop, 2, "aaaaaac", false);
}

static void an_empty_stop_never_matches(void **state)
{
    (void)state;
    static const char *const stop[] = { "", "z" };
    expect(TEXT("abc"), stop, 2, "abc", false);
    expect(TEXT("abzc"), stop, 2, "ab", true);
}

/* Where the stop that is completed first cuts text, or its length. */
static size_t cut_of(const char *text, const char *const *stop, size_t stops, bool *found)
{
    size_t length = strlen(text);
    for (size_t end = 1; end <= length; end++) {
        size_t longest = 0;
        for (size_t i = 0; i < stops; i++) {
            size_t n = strlen(stop[i]);
            if (n <= end && n > longest && memcmp(text + end - n, stop[i], n) == 0)
                longest = n;
        }
        if (longest != 0) {
            *found = true;
            return end - longest;
        }
    }
    *found = false;
    return length;
}

static void the_cut_does_not_depend_on_the_tokens(void **state)
{
    (void)state;
    static const char *const stop[] = { "abab", "bb", "aab", "cabc" };
    for (uint32_t round = 0; round < 2000; round++) {
        char text[41];
        for (uint32_t i = 0; i < 40; i++)
            text[i] = "abcc"[rng_at(1, round, RNG_TEST, i, 0).word[0] & 3];
        text[40] = '\0';
        size_t stops = round % 5;
        bool found;
        size_t cut = cut_of(text, stop, stops, &found);
        char shown[41];
        memcpy(shown, text, cut);
        shown[cut] = '\0';
        expect(text, 40, stop, stops, shown, found);
    }
}

/* The shown text never runs into a stop, at no moment: not only at the end. */
static void no_part_of_a_stop_is_ever_shown(void **state)
{
    (void)state;
    static const char *const stop[] = { "<end>" };
    static const char text[] = "1 < 2 <en <<end>";
    utf8_stream s;
    buf out = { 0 };
    utf8_stream_init(&s, stop, 1);
    for (size_t i = 0; i + 1 < sizeof text; i++) {
        (void)utf8_stream_feed(&s, text + i, 1, &out);
        assert_true(out.len <= strlen("1 < 2 <en <"));
    }
    assert_string_equal(out.data, "1 < 2 <en <");
    assert_true(utf8_stream_feed(&s, "more", 4, &out)); /* takes nothing more */
    utf8_stream_finish(&s, &out);
    assert_string_equal(out.data, "1 < 2 <en <");
    buf_free(&out);
    utf8_stream_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(characters_arrive_whole_wherever_they_are_cut),
        cmocka_unit_test(bytes_that_cannot_become_a_character_turn_into_replacements),
        cmocka_unit_test(a_replacement_is_shown_as_soon_as_it_is_certain),
        cmocka_unit_test(a_nul_byte_is_a_character_like_others),
        cmocka_unit_test(the_stop_that_is_completed_first_cuts_the_text),
        cmocka_unit_test(text_that_turns_out_to_be_no_stop_is_released),
        cmocka_unit_test(an_empty_stop_never_matches),
        cmocka_unit_test(the_cut_does_not_depend_on_the_tokens),
        cmocka_unit_test(no_part_of_a_stop_is_ever_shown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
