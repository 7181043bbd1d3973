/* json_reader.c: a state machine with one state per place of the grammar; the stack holds only which kind
 * of bracket is open. Errors stick: the first one is kept.
 *
 *     VALUE ──scalar──▶ AFTER ──,──▶ KEY or VALUE        FIRST_KEY / FIRST_VALUE also take the closing bracket
 *       └──{ [──▶ FIRST_KEY, FIRST_VALUE                 depth 0 and AFTER: only white space may follow
 */
#include "base/json_reader.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

enum { VALUE, FIRST_KEY, KEY, FIRST_VALUE, AFTER };
enum { NUMBER_BYTES = 800 }; /* more digits than any double needs */

static const char *const kind_names[] = {
    "an object",       "the end of an object",
    "an array",        "the end of an array",
    "a key",           "a string",
    "a number",        "true",
    "false",           "null",
    "the end of text",
};

static json_kind problem_at(json_reader *r, size_t offset, const char *problem)
{
    if (r->problem[0] == '\0') {
        snprintf(r->problem, sizeof r->problem, "%s", problem);
        r->bad_offset = offset;
    }
    return r->kind = JR_ERROR;
}

bool json_reader_reject(json_reader *r, const char *format, ...)
{
    char problem[sizeof r->problem];
    va_list args;
    va_start(args, format);
    vsnprintf(problem, sizeof problem, format, args);
    va_end(args);
    problem_at(r, r->offset, problem);
    return false;
}

int json_reader_error(const json_reader *r, foray_error *err)
{
    if (r->problem[0] == '\0')
        return FORAY_OK;
    return fail(err, FORAY_EFILE, "%s: byte %zu: %s", r->name, r->bad_offset, r->problem);
}

void json_reader_init(json_reader *r, const char *name, const void *data, size_t size, uint8_t *stack,
                      size_t max_depth)
{
    *r = (json_reader) {
        .name = name, .data = data, .size = size, .stack = stack, .max_depth = max_depth, .state = VALUE
    };
}

static void skip_space(json_reader *r)
{
    while (r->at < r->size) {
        char c = r->data[r->at];
        if (c != ' ' && c != '\n' && c != '\t' && c != '\r')
            return;
        r->at++;
    }
}

static json_kind unexpected(json_reader *r, const char *wanted)
{
    char problem[96];
    if (r->at >= r->size) {
        snprintf(problem, sizeof problem, "text ends where %s should stand (cut short?)", wanted);
    } else {
        unsigned c = (uint8_t)r->data[r->at];
        if (c > 0x20 && c < 0x7f)
            snprintf(problem, sizeof problem, "'%c' where %s should stand", (int)c, wanted);
        else
            snprintf(problem, sizeof problem, "byte 0x%02x where %s should stand", c, wanted);
    }
    return problem_at(r, r->at, problem);
}

/* The value of four hex digits at p, or -1. */
static int hex4(const char *p)
{
    int value = 0;
    for (int i = 0; i < 4; i++) {
        char c = p[i];
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0)
            return -1;
        value = value << 4 | digit;
    }
    return value;
}

/* Length of the escape at data[at] (a backslash), or 0 where it is none. */
static size_t escape_length(const json_reader *r, size_t at)
{
    size_t left = r->size - at;
    if (left < 2)
        return 0;
    if (r->data[at + 1] == 'u')
        return left >= 6 && hex4(r->data + at + 2) >= 0 ? 6 : 0;
    return r->data[at + 1] != '\0' && strchr("\"\\/bfnrt", r->data[at + 1]) != NULL ? 2 : 0;
}

/* Scans the string whose opening quote is at data[at]; checks all of it. */
static bool scan_string(json_reader *r)
{
    size_t at = r->at + 1;
    r->text = r->data + at;
    r->escaped = false;
    while (at < r->size) {
        uint8_t c = (uint8_t)r->data[at];
        size_t length = 1;
        if (c == '"') {
            r->bytes = (size_t)(r->data + at - r->text);
            r->at = at + 1;
            return true;
        }
        if (c == '\\') {
            r->escaped = true;
            length = escape_length(r, at);
            if (length == 0) {
                problem_at(r, at, "not an escape that JSON knows");
                return false;
            }
        } else if (c < 0x20) {
            problem_at(r, at, "a control byte inside a string");
            return false;
        } else if (c >= 0x80) {
            uint32_t point;
            int n = utf8_read(r->data + at, r->size - at, &point);
            if (n < 0) {
                problem_at(r, at, "not UTF-8");
                return false;
            }
            length = (size_t)n;
        }
        at += length;
    }
    problem_at(r, r->at, "a string without its closing quote (cut short?)");
    return false;
}

static size_t skip_digits(const json_reader *r, size_t at)
{
    while (at < r->size && r->data[at] >= '0' && r->data[at] <= '9')
        at++;
    return at;
}

/* End of the number that starts at data[at], by the grammar of JSON; 0: not a number. *simple: integer. */
static size_t number_end(const json_reader *r, bool *simple)
{
    size_t at = r->at;
    if (r->data[at] == '-')
        at++;
    size_t digits = at;
    at = skip_digits(r, at);
    if (at == digits || (at > digits + 1 && r->data[digits] == '0'))
        return 0;
    *simple = true;
    if (at < r->size && r->data[at] == '.') {
        *simple = false;
        digits = at + 1;
        at = skip_digits(r, digits);
        if (at == digits)
            return 0;
    }
    if (at < r->size && (r->data[at] == 'e' || r->data[at] == 'E')) {
        *simple = false;
        digits = at + 1;
        if (digits < r->size && (r->data[digits] == '+' || r->data[digits] == '-'))
            digits++;
        at = skip_digits(r, digits);
        if (at == digits)
            return 0;
    }
    return at;
}

static bool fits_int64(const char *text, size_t bytes, int64_t *out)
{
    bool negative = text[0] == '-';
    int64_t value = 0;
    for (size_t i = negative; i < bytes; i++) { /* counted downwards: the lowest int64 has no positive twin */
        if (__builtin_mul_overflow(value, 10, &value) || __builtin_sub_overflow(value, text[i] - '0', &value))
            return false;
    }
    return negative ? (*out = value, true) : !__builtin_sub_overflow(0, value, out);
}

static json_kind scan_number(json_reader *r)
{
    bool simple = false;
    size_t end = number_end(r, &simple);
    if (end == 0)
        return problem_at(r, r->at, "not a number as JSON writes them");
    r->text = r->data + r->at;
    r->bytes = end - r->at;
    if (r->bytes >= NUMBER_BYTES)
        return problem_at(r, r->at, "a number of too many digits");
    r->whole = simple && fits_int64(r->text, r->bytes, &r->integer);
    if (r->whole) {
        r->number = r->integer == 0 && r->text[0] == '-' ? -0.0 : (double)r->integer;
    } else {
        char copy[NUMBER_BYTES]; /* strtod wants a NUL, which the bytes need not have */
        memcpy(copy, r->text, r->bytes);
        copy[r->bytes] = '\0';
        r->number = strtod(copy, NULL);
        if (isinf(r->number))
            return problem_at(r, r->at, "a number beyond the range of a double");
    }
    r->at = end;
    return r->kind = JR_NUMBER;
}

static json_kind scan_word(json_reader *r, const char *word, json_kind kind)
{
    size_t length = strlen(word);
    if (r->size - r->at < length || memcmp(r->data + r->at, word, length) != 0)
        return unexpected(r, "a value");
    r->at += length;
    return r->kind = kind;
}

static json_kind open_level(json_reader *r, char bracket)
{
    if (r->depth == r->max_depth)
        return problem_at(r, r->at, "nested too deeply");
    r->stack[r->depth++] = (uint8_t)bracket;
    r->at++;
    r->state = bracket == '{' ? FIRST_KEY : FIRST_VALUE;
    return r->kind = bracket == '{' ? JR_OBJECT : JR_ARRAY;
}

static json_kind close_level(json_reader *r)
{
    r->at++;
    r->state = AFTER;
    return r->kind = r->stack[--r->depth] == '{' ? JR_OBJECT_END : JR_ARRAY_END;
}

static json_kind read_value(json_reader *r)
{
    char c = r->at < r->size ? r->data[r->at] : '\0';
    if (c == '{' || c == '[')
        return open_level(r, c);
    r->state = AFTER;
    if (c == '"')
        return scan_string(r) ? (r->kind = JR_STRING) : JR_ERROR;
    if (c == '-' || (c >= '0' && c <= '9'))
        return scan_number(r);
    if (c == 't')
        return scan_word(r, "true", JR_TRUE);
    if (c == 'f')
        return scan_word(r, "false", JR_FALSE);
    if (c == 'n')
        return scan_word(r, "null", JR_NULL);
    return unexpected(r, "a value");
}

static json_kind read_key(json_reader *r)
{
    if (r->at >= r->size || r->data[r->at] != '"')
        return unexpected(r, "a key");
    if (!scan_string(r))
        return JR_ERROR;
    skip_space(r);
    if (r->at >= r->size || r->data[r->at] != ':')
        return unexpected(r, "':'");
    r->at++;
    r->state = VALUE;
    return r->kind = JR_KEY;
}

json_kind json_reader_next(json_reader *r)
{
    if (r->problem[0] != '\0')
        return r->kind = JR_ERROR;
    skip_space(r);
    r->offset = r->at;
    bool in_object = r->depth > 0 && r->stack[r->depth - 1] == '{';
    char c = r->at < r->size ? r->data[r->at] : '\0';
    if (r->state == AFTER && r->depth == 0)
        return r->at == r->size ? (r->kind = JR_END) : unexpected(r, "the end of the text");
    if (r->state == FIRST_KEY || r->state == FIRST_VALUE || r->state == AFTER) {
        if (c == (in_object ? '}' : ']'))
            return close_level(r);
        if (r->state == AFTER) {
            if (c != ',')
                return unexpected(r, in_object ? "',' or '}'" : "',' or ']'");
            r->at++;
            skip_space(r);
            r->offset = r->at;
        }
        r->state = in_object ? KEY : VALUE;
    }
    return r->state == KEY ? read_key(r) : read_value(r);
}

bool json_reader_expect(json_reader *r, json_kind wanted)
{
    json_kind kind = json_reader_next(r);
    if (kind == wanted)
        return true;
    return kind == JR_ERROR
               ? false
               : json_reader_reject(r, "%s where %s is expected", kind_names[kind], kind_names[wanted]);
}

bool json_reader_skip(json_reader *r)
{
    json_kind kind = r->kind == JR_KEY ? json_reader_next(r) : r->kind;
    if (kind == JR_OBJECT || kind == JR_ARRAY) {
        size_t outside = r->depth - 1;
        do
            kind = json_reader_next(r);
        while (kind != JR_ERROR && r->depth > outside);
    }
    return kind != JR_ERROR;
}

/* Decodes what stands at text[i] of the last token into out; returns the bytes of text that it took. */
static size_t decode(const json_reader *r, size_t i, char out[4], int *written)
{
    const char *p = r->text + i;
    *written = 1;
    out[0] = p[0];
    if (p[0] != '\\')
        return 1;
    if (p[1] != 'u') {
        static const char plain[] = "\"\\/bfnrt", value[] = "\"\\/\b\f\n\r\t";
        out[0] = value[strchr(plain, p[1]) - plain];
        return 2;
    }
    uint32_t point = (uint32_t)hex4(p + 2);
    size_t taken = 6;
    if (point >= 0xd800 && point <= 0xdfff) {
        /* scan_string has checked every escape, and a quote stands behind the text: this reads nothing else. */
        bool pair = point < 0xdc00 && p[6] == '\\' && p[7] == 'u';
        int low = pair ? hex4(p + 8) : -1;
        if (low >= 0xdc00 && low <= 0xdfff) {
            point = 0x10000 + ((point - 0xd800) << 10) + ((uint32_t)low - 0xdc00);
            taken = 12;
        } else {
            point = 0xfffd;
        }
    }
    *written = utf8_write(point, out);
    return taken;
}

size_t json_reader_unescape(const json_reader *r, char *out)
{
    if (!r->escaped) {
        if (r->bytes != 0)
            memcpy(out, r->text, r->bytes);
        return r->bytes;
    }
    size_t length = 0;
    for (size_t i = 0; i < r->bytes;) {
        char piece[4];
        int written;
        i += decode(r, i, piece, &written);
        memcpy(out + length, piece, (size_t)written);
        length += (size_t)written;
    }
    return length;
}

bool json_reader_is(const json_reader *r, const char *text)
{
    size_t length = strlen(text);
    if (r->kind != JR_KEY && r->kind != JR_STRING)
        return false;
    if (!r->escaped)
        return length == r->bytes && memcmp(text, r->text, length) == 0;
    size_t at = 0;
    for (size_t i = 0; i < r->bytes;) {
        char piece[4];
        int written;
        i += decode(r, i, piece, &written);
        if (length - at < (size_t)written || memcmp(text + at, piece, (size_t)written) != 0)
            return false;
        at += (size_t)written;
    }
    return at == length;
}
