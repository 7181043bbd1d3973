/* Mutated JSON, from fixed seeds: the reader must agree with another implementation on what is valid, give
 * the same strings and numbers, and never look outside its bytes (each text ends where memory ends).
 */
#include "base/json_reader.h"

#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/rng.h"
#include "support/mutate.h"

enum { ROUNDS = 6000, ROOM = 512, DEPTH = 32 };

static const char *const seeds[] = {
    "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"\\u0120the\":0,\"a\\n\":1},\"merges\":[\"a "
    "b\",[\"c\",\"d\"]]}}",
    "[1,-2.5e+10,0.125,9223372036854775807,-9223372036854775808,1e-7,true,false,null]",
    "{\"__metadata__\":{\"format\":\"pt\"},\"w\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]}"
    "}",
    "[\"\xf0\x9f\x98\x80\",\"\\ud83d\\ude00\",\"\\\"\\\\\\/\\b\\f\\n\\r\\t\",\"\xc3\xa9\",{\"\":[[],{}]}]",
};

static uint32_t draw(uint32_t seed, uint32_t at, uint32_t below)
{
    return rng_at(seed, at, RNG_TEST, 0, 0).word[0] % below;
}

/* Changes text by one to four edits; returns its new length. */
static size_t mutate_text(char *text, size_t length, uint32_t seed)
{
    static const char pieces[] = "{}[],:\"\\u0123456789abcdefDtrue.-+eE null\x80\xc3\xed\xf0\x01\n";
    uint32_t at = 1, edits = 1 + draw(seed, 0, 4);
    for (uint32_t e = 0; e < edits; e++, at += 4) {
        size_t place = draw(seed, at, (uint32_t)length + 1), other = draw(seed, at + 1, (uint32_t)length + 1);
        char piece = pieces[draw(seed, at + 2, sizeof pieces - 1)];
        size_t span = 1 + draw(seed, at + 3, 12);
        switch (draw(seed, at + 2, 5)) {
        case 0: /* replace */
            if (place < length)
                text[place] = piece;
            break;
        case 1: /* insert */
            if (length + 1 < ROOM) {
                memmove(text + place + 1, text + place, length - place);
                text[place] = piece;
                length++;
            }
            break;
        case 2: /* delete */
            span = span < length - place ? span : length - place;
            memmove(text + place, text + place + span, length - place - span);
            length -= span;
            break;
        case 3: /* repeat a stretch elsewhere */
            span = span < length - other ? span : length - other;
            if (length + span < ROOM) {
                char copy[16];
                memcpy(copy, text + other, span);
                memmove(text + place + span, text + place, length - place);
                memcpy(text + place, copy, span);
                length += span;
            }
            break;
        default: /* cut */
            if (draw(seed, at + 3, 8) == 0)
                length = place;
            break;
        }
    }
    return length;
}

static char *pages;
static size_t page;

/* Builds the tree that the reader describes, by jansson's constructors; NULL: the reader refused the text. */
static json_t *build(json_reader *r)
{
    char value[ROOM];
    size_t bytes;
    json_t *tree;
    switch (r->kind) {
    case JR_OBJECT:
        tree = json_object();
        while (json_reader_next(r) == JR_KEY) {
            bytes = json_reader_unescape(r, value);
            assert_true(bytes <= r->bytes);
            value[bytes] = '\0';
            json_reader_next(r);
            json_t *member = build(r);
            if (member == NULL || json_object_set_new_nocheck(tree, value, member) != 0)
                break;
        }
        break;
    case JR_ARRAY:
        tree = json_array();
        for (json_reader_next(r); r->kind != JR_ARRAY_END;) {
            json_t *element = build(r);
            if (element == NULL || json_array_append_new(tree, element) != 0)
                break;
            json_reader_next(r);
        }
        break;
    case JR_STRING:
        bytes = json_reader_unescape(r, value);
        return json_stringn_nocheck(value, bytes);
    case JR_NUMBER:
        return r->whole ? json_integer(r->integer) : json_real(r->number);
    case JR_TRUE:
        return json_true();
    case JR_FALSE:
        return json_false();
    case JR_NULL:
        return json_null();
    default:
        return NULL;
    }
    if (r->kind == JR_OBJECT_END || r->kind == JR_ARRAY_END)
        return tree;
    json_decref(tree);
    return NULL;
}

/* Where the two differ on purpose, the text is no test: jansson refuses lone surrogates, \u0000 in keys and
 * integers beyond int64, and wants no deeper nesting than 2048. */
static bool differs_on_purpose(const json_error_t *error)
{
    enum json_error_code code = json_error_code(error);
    return code == json_error_null_byte_in_key || code == json_error_numeric_overflow ||
           strstr(error->text, "surrogate") != NULL || strstr(error->text, "Unicode") != NULL ||
           strstr(error->text, "integer") != NULL;
}

static void mutated_text_is_read_as_another_reader_does(void **state)
{
    (void)state;
    page = (size_t)sysconf(_SC_PAGESIZE);
    pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(pages != MAP_FAILED);
    assert_int_equal(mprotect(pages + page, page, PROT_NONE), 0);
    uint32_t valid = 0, refused = 0, rounds = mutate_count(ROUNDS, 100 * ROUNDS);
    for (uint32_t seed = 0; seed < rounds; seed++) {
        char text[ROOM];
        const char *start = seeds[seed % (sizeof seeds / sizeof *seeds)];
        size_t length = strlen(start);
        memcpy(text, start, length);
        length = mutate_text(text, length, seed);
        char *place = pages + page - length;
        memcpy(place, text, length);
        uint8_t stack[DEPTH];
        json_reader r;
        json_reader_init(&r, "fuzz", place, length, stack, DEPTH);
        json_reader_next(&r);
        json_t *ours = build(&r);
        bool accepted = ours != NULL && json_reader_next(&r) == JR_END;
        json_error_t error;
        json_t *theirs = json_loadb(text, length, JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);
        if (theirs == NULL && accepted && !differs_on_purpose(&error))
            fail_msg("seed %u: taken, but %s: %.*s", seed, error.text, (int)length, text);
        if (theirs != NULL && !accepted)
            fail_msg("seed %u: refused (%s at %zu): %.*s", seed, r.problem, r.bad_offset, (int)length, text);
        if (theirs != NULL && !json_equal(ours, theirs))
            fail_msg("seed %u: read as something else: %.*s", seed, (int)length, text);
        if (!accepted)
            assert_in_range(r.bad_offset, 0, length);
        valid += accepted;
        refused += !accepted;
        json_decref(ours);
        json_decref(theirs);
    }
    munmap(pages, 2 * page);
    assert_true(valid > rounds / 20 &&
                refused > rounds / 20); /* the mutations are neither too wild nor too tame */
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(mutated_text_is_read_as_another_reader_does) };
    return cmocka_run_group_tests_name("fuzz_json_reader", tests, NULL, NULL);
}
