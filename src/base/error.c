/* error.c: fills a foray_error: one line of printable UTF-8, whatever the arguments held.
 *
 * The line is formatted whole into a scratch buffer first, so that cutting can fall on the end of a
 * character. Threads: any; no globals.
 */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

enum { SCRATCH_BYTES = 2048 };
static const char ELLIPSIS[] = "\xe2\x80\xa6";

/* Copies line, made printable, into text; what does not fit gives way to an ellipsis. */
static void copy_printable(char *text, size_t text_bytes, const char *line, size_t line_bytes, bool cut)
{
    size_t out = 0, last_fit = 0; /* last_fit: the longest whole-character prefix that leaves room */
    for (size_t in = 0; in < line_bytes;) {
        uint32_t point;
        int length = utf8_read(line + in, line_bytes - in, &point);
        size_t step = length > 0 ? (size_t)length : 1;
        bool plain = length > 0 && point >= 0x20 && point != 0x7f;
        size_t need = plain ? step : 1;
        if (out + need > text_bytes - 1) {
            cut = true;
            break;
        }
        if (plain)
            memcpy(text + out, line + in, step);
        else
            text[out] = '?';
        out += need;
        in += step;
        if (out <= text_bytes - sizeof ELLIPSIS)
            last_fit = out;
    }
    if (cut) {
        memcpy(text + last_fit, ELLIPSIS, sizeof ELLIPSIS - 1);
        out = last_fit + sizeof ELLIPSIS - 1;
    }
    text[out] = '\0';
}

int fail(foray_error *err, int code, const char *format, ...)
{
    if (err == NULL)
        return code;
    char line[SCRATCH_BYTES];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (length < 0)
        length = 0;
    bool cut = (size_t)length >= sizeof line;
    err->code = code;
    copy_printable(err->text, sizeof err->text, line, cut ? sizeof line - 1 : (size_t)length, cut);
    return code;
}

const char *foray_code_name(int code)
{
    switch (code) {
    case FORAY_OK:
        return "OK";
    case FORAY_EUSAGE:
        return "EUSAGE";
    case FORAY_EFILE:
        return "EFILE";
    case FORAY_EUNSUPPORTED:
        return "EUNSUPPORTED";
    case FORAY_ENOMEM:
        return "ENOMEM";
    case FORAY_ELIMIT:
        return "ELIMIT";
    case FORAY_ESTATE:
        return "ESTATE";
    case FORAY_ESYSTEM:
        return "ESYSTEM";
    default:
        return "unknown";
    }
}
