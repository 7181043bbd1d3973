/* Events written in ways that repeat, as profilers do, with every so often one that departs from its way at any place:
 * each value has to come out of the scanner as it was put in, whichever way the scanner read it.
 *
 * The oracle is the writer, which notes kind, place and length of each value that it writes. The text is longer than the
 * scanner's window, so that windows also end inside events.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "timeline/scan.h"

enum { WAYS = 24, EVENTS = 12000, MOST_TEXT = 6 << 20, MEMBERS = 8, ARGS = 4, VALUES = MEMBERS + ARGS };

static const char *const member_keys[MEMBERS] = { "ph", "cat", "name", "pid", "tid", "ts", "dur", "id" };
static const char *const arg_keys[ARGS] = { "correlation", "stream", "Task Type", "unheard of" };
static const char *const gaps[] = { "", " ", "\n    ", "\t\t\t", "                   " };

/* What was written for one value; kind 0: nothing. */
typedef struct {
    size_t at, bytes;
    char kind;
    bool escaped;
} noted;

static char text[MOST_TEXT];
static noted notes[EVENTS][VALUES];
static size_t length;
static uint32_t seed, draws;

static uint32_t draw(uint32_t below)
{
    return rng_at(seed, draws++, RNG_TEST, 0, 0).word[0] % below;
}

static void put(const char *piece)
{
    size_t bytes = strlen(piece);
    assert_true(length + bytes < MOST_TEXT);
    memcpy(text + length, piece, bytes);
    length += bytes;
}

static void put_gap(uint32_t way, uint32_t place)
{
    put(gaps[(way * 7 + place * 3 + way / 5) % (sizeof gaps / sizeof *gaps)]);
}

/* A value of a kind: 0 and 1 strings, 2 a number, 3 a nested one, 4 a string with escapes, 5 a word. */
static void put_value(uint32_t kind, noted *n)
{
    char number[32];
    snprintf(number, sizeof number, "%u%s", draw(1u << (draw(31) + 1)), draw(2) ? ".125" : "");
    static const char *const nested[] = { "[[2, 3], []]", "{\"a\": \"]\\\"}\"}", "[]" };
    static const char *const bits[] = { "x", "y", ",", ":", "{", "}", " ", "é" };
    static const char *const words[] = { "true", "null", "-1", "1e-3", "/7.5-" };
    switch (kind) {
    case 2:
        *n = (noted) { length, strlen(number), '0', false };
        put(number);
        break;
    case 3:
        *n = (noted) { length, 0, 0, false };
        put(nested[draw(3)]);
        n->kind = text[n->at];
        break;
    case 5:
        *n = (noted) { length, 0, '0', false };
        put(words[draw(5)]);
        n->bytes = length - n->at;
        break;
    default:
        put("\"");
        *n = (noted) { length, 0, '"', kind == 4 };
        for (uint32_t i = draw(40); i > 0; i--)
            put(bits[draw(sizeof bits / sizeof *bits)]);
        put(kind == 4 ? "\\\" \\u0041" : kind == 1 ? number : "");
        n->bytes = length - n->at;
        put("\"");
    }
}

/* Which kind of value a way has at a place: the same each time, but for one in a hundred. */
static uint32_t kind_at(uint32_t way, uint32_t place)
{
    return draw(100) == 0 ? draw(6) : (way * 13 + place * 5 + way / 3) % 4;
}

static void put_event(uint32_t way, noted *out)
{
    bool any = false;
    put("{");
    for (uint32_t k = 0; k < MEMBERS; k++) {
        uint32_t m = (k + way) % MEMBERS;
        if ((way >> m & 1) != 0 || draw(200) == 0)
            continue;
        put(any ? "," : "");
        put_gap(way, k);
        put("\"");
        put(member_keys[m]);
        put("\":");
        put_gap(way, k + 1);
        put_value(kind_at(way, m), &out[m]);
        any = true;
    }
    if (way % 3 != 0) {
        bool inside = false;
        put(any ? ",\"args\": {" : "\"args\":{");
        for (uint32_t k = 0; k < ARGS; k++) {
            if (draw(20) == 0)
                continue;
            put(inside ? ", " : "");
            put_gap(way, k);
            put("\"");
            put(arg_keys[k]);
            put("\":");
            put_value(kind_at(way, k + 9), &out[MEMBERS + k]);
            inside = true;
        }
        put_gap(way, 2);
        put("}");
    }
    put_gap(way, 3);
    put("}");
}

static void expect(const noted *n, const scan_value *v, bool have)
{
    if (n->kind == 0) {
        assert_false(have);
        return;
    }
    assert_true(have);
    assert_int_equal(v->kind, n->kind);
    assert_int_equal(v->bytes, n->bytes);
    assert_int_equal(v->escaped, n->escaped);
    assert_memory_equal(v->text, text + n->at, n->bytes);
}

static void expect_event(const noted *n, const scan_event *e)
{
    const scan_value *members[MEMBERS] = {
        NULL, &e->cat, &e->name, &e->pid, &e->tid, &e->ts, &e->dur, &e->id
    };
    static const scan_arg args[ARGS - 1] = { ARG_CORRELATION, ARG_STREAM, ARG_TASK_TYPE };
    assert_int_equal(e->ph, n[0].kind != '"' ? 0 : n[0].bytes == 1 ? text[n[0].at] : '?');
    for (int m = 1; m < MEMBERS; m++)
        expect(&n[m], members[m], members[m]->kind != 0);
    for (int a = 0; a < ARGS - 1; a++)
        expect(&n[MEMBERS + a], &e->arg[args[a]], (e->have >> args[a] & 1) != 0);
}

static void test_values(void **state)
{
    (void)state;
    source *from;
    scan *s;
    foray_error err;
    for (seed = 1; seed <= 3; seed++) {
        draws = 0;
        length = 0;
        memset(notes, 0, sizeof notes);
        put("[");
        for (int i = 0; i < EVENTS; i++) {
            put(i > 0 ? ",\n" : "");
            put_event(draw(WAYS), notes[i]);
        }
        put("]");
        assert_int_equal(source_memory("made", text, length, &from, &err), FORAY_OK);
        assert_int_equal(scan_open(from, &s, &err), FORAY_OK);
        for (int i = 0; i < EVENTS; i++) {
            assert_int_equal(scan_next(s), SCAN_EVENT);
            expect_event(notes[i], scan_current(s));
        }
        assert_int_equal(scan_next(s), SCAN_END);
        assert_int_equal(scan_done(s)->damaged, 0);
        assert_int_equal(scan_done(s)->bad_escapes, 0);
        assert_false(scan_done(s)->truncated);
        scan_close(s);
        source_close(from);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_values) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
