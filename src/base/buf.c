/* buf.c: text that grows by doubling; JSON strings and numbers as RFC 8259 wants them.
 *
 * Does not format numbers by locale: foray never leaves the "C" one for numbers. Threads: one at a time.
 */
#include "base/buf.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"

#ifdef FORAY_TORTURE
enum { FIRST_CAP = 2 }; /* so that growing is common */
#else
enum { FIRST_CAP = 256 };
#endif

/* Room for count more bytes and the closing NUL. */
static bool reserve(buf *b, size_t count)
{
    if (b->failed)
        return false;
    if (count < b->cap - b->len)
        return true;
    size_t cap = b->cap != 0 ? b->cap : FIRST_CAP;
    while (cap - b->len <= count && cap <= SIZE_MAX / 2)
        cap *= 2;
    char *data = cap - b->len > count ? mem_resize(MEM_GENERAL, b->data, b->cap, cap) : NULL;
    if (data == NULL) {
        b->failed = true;
        return false;
    }
    b->data = data;
    b->cap = cap;
    b->data[b->len] = '\0';
    return true;
}

void buf_append(buf *b, const void *bytes, size_t count)
{
    if (!reserve(b, count))
        return;
    if (count != 0)
        memcpy(b->data + b->len, bytes, count);
    b->len += count;
    b->data[b->len] = '\0';
}

void buf_puts(buf *b, const char *text)
{
    buf_append(b, text, strlen(text));
}

void buf_printf(buf *b, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    va_list again;
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, format, args);
    if (length < 0)
        b->failed = true;
    else if (reserve(b, (size_t)length))
        b->len += (size_t)vsnprintf(b->data + b->len, (size_t)length + 1, format, again);
    va_end(again);
    va_end(args);
}

/* The two-character escape of a byte, or 0. */
static char short_escape(uint32_t point)
{
    switch (point) {
    case '"':
        return '"';
    case '\\':
        return '\\';
    case '\n':
        return 'n';
    case '\r':
        return 'r';
    case '\t':
        return 't';
    default:
        return 0;
    }
}

void buf_json_string(buf *b, const char *text, size_t bytes)
{
    buf_append(b, "\"", 1);
    size_t start = 0, i = 0; /* start: of the run that needs no escape */
    while (i < bytes) {
        uint32_t point = 0;
        int length = utf8_read(text + i, bytes - i, &point);
        size_t step = (size_t)(length > 0 ? length : -length);
        bool plain = length > 0 && point >= 0x20 && point != 0x7f && point != '"' && point != '\\';
        if (!plain) {
            buf_append(b, text + start, i - start);
            if (length < 0)
                buf_puts(b, "\xef\xbf\xbd");
            else if (short_escape(point) != 0)
                buf_append(b, (char[]) { '\\', short_escape(point) }, 2);
            else
                buf_printf(b, "\\u%04x", point);
            start = i + step;
        }
        i += step;
    }
    buf_append(b, text + start, bytes - start);
    buf_append(b, "\"", 1);
}

void buf_json_double(buf *b, double value)
{
    if (!isfinite(value)) {
        buf_puts(b, "null");
        return;
    }
    char text[32];
    for (int digits = 15; digits <= 17; digits++) { /* the fewest that read back as the same number */
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    buf_puts(b, text);
}

void buf_clear(buf *b)
{
    b->len = 0;
    b->failed = false;
    if (b->data != NULL)
        b->data[0] = '\0';
}

void buf_free(buf *b)
{
    mem_free(MEM_GENERAL, b->data, b->cap);
    *b = (buf) { 0 };
}
