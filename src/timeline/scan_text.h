/* scan_text.h: pieces of JSON text, read out of a window that ends in zeros.
 *
 * The 64 zeros behind the window's end let every loop look ahead without asking where the end is; whoever
 * calls checks afterwards whether it went past it. Room-private: scan.c and shapes.c alone. Threads: any.
 */
#ifndef FORAY_TIMELINE_SCAN_TEXT_H
#define FORAY_TIMELINE_SCAN_TEXT_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

enum { SCAN_PADDING = 64 };

typedef enum { TOOK, SHORT, BROKEN } outcome; /* of reading something out of the window */

/* Pretty-printed files are a third blanks: most runs are none or one, the others are long. Stops at the zeros. */
static inline const char *skip_space(const char *p)
{
    if ((unsigned char)*p > ' ')
        return p;
#ifdef __SSE2__
    for (;; p += 16) {
        __m128i x = _mm_loadu_si128((const __m128i *)p);
        __m128i more = _mm_cmpeq_epi8(_mm_max_epu8(x, _mm_set1_epi8(' ' + 1)), x);
        int stop = _mm_movemask_epi8(_mm_or_si128(more, _mm_cmpeq_epi8(x, _mm_setzero_si128())));
        if (stop != 0)
            return p + __builtin_ctz((unsigned)stop);
    }
#else
    while (*p != '\0' && (unsigned char)*p <= ' ')
        p++;
    return p;
#endif
}

/* The quote that ends the string whose inside starts at p; NULL where the window ends before it. */
static inline const char *string_end(const char *p, const char *end, bool *escaped, uint64_t *bad_escapes)
{
    for (;;) {
#ifdef __SSE2__
        __m128i x = _mm_loadu_si128((const __m128i *)p);
        int hits = _mm_movemask_epi8(
            _mm_or_si128(_mm_cmpeq_epi8(x, _mm_set1_epi8('"')), _mm_cmpeq_epi8(x, _mm_set1_epi8('\\'))));
        if (hits == 0) {
            p += 16;
            if (p >= end)
                return NULL;
            continue;
        }
        p += __builtin_ctz((unsigned)hits);
#else
        while (p < end && *p != '"' && *p != '\\')
            p++;
#endif
        if (p >= end)
            return NULL;
        if (*p == '"')
            return p;
        *escaped = true;
        if (p + 1 < end && memchr("\"\\/bfnrtu", p[1], 9) == NULL)
            ++*bad_escapes;
        p += 2;
        if (p >= end)
            return NULL;
    }
}

/* Is a number or a word like true over at this byte? */
static inline bool ends_literal(char c)
{
    /* a bit for each byte: blanks and control bytes, then , : " and brackets */
    static const uint64_t low = 0xffffffffull | 1ull << 32 | 1ull << '"' | 1ull << ',' | 1ull << ':';
    static const uint64_t high =
        1ull << ('[' - 64) | 1ull << (']' - 64) | 1ull << ('{' - 64) | 1ull << ('}' - 64);
    unsigned char u = (unsigned char)c;
    return u < 128 && ((u < 64 ? low : high) >> (u & 63) & 1) != 0;
}

/* The end of the number or word at p. */
static inline const char *literal_end(const char *p)
{
#ifdef __SSE2__
    for (;; p += 16) { /* over the bytes of plain numbers: - . / 0…9 */
        __m128i from_minus = _mm_sub_epi8(_mm_loadu_si128((const __m128i *)p), _mm_set1_epi8('-'));
        int digits =
            _mm_movemask_epi8(_mm_cmpeq_epi8(_mm_min_epu8(from_minus, _mm_set1_epi8('9' - '-')), from_minus));
        if (digits != 0xffff) {
            p += __builtin_ctz(~(unsigned)digits);
            break;
        }
    }
#endif
    while (!ends_literal(*p))
        p++;
    return p;
}

/* Passes over the object or array that starts at *at. */
static inline outcome skip_nested(const char **at, const char *end, uint64_t *bad_escapes)
{
    const char *p = *at;
    for (int depth = 0;; p++) {
        bool escaped = false;
        switch (*p) {
        case '"':
            p = string_end(p + 1, end, &escaped, bad_escapes);
            if (p == NULL)
                return SHORT;
            break;
        case '{':
        case '[':
            depth++;
            break;
        case '}':
        case ']':
            if (--depth == 0) {
                *at = p + 1;
                return TOOK;
            }
            break;
        case '\0':
            if (p >= end)
                return SHORT;
            break;
        default:
            break;
        }
    }
}

#endif
