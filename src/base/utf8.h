/* utf8.h: one character of UTF-8, read or written. Pure. Threads: any. */
#ifndef FORAY_BASE_UTF8_H
#define FORAY_BASE_UTF8_H

#include <stddef.h>
#include <stdint.h>

/* Reads the character that starts at bytes[0]; count >= 1. Returns its length (1 … 4) and sets *point. On an
 * invalid start returns -n, 1 <= n <= 3: the bytes that Unicode's practice replaces by one U+FFFD. Overlong
 * forms, surrogates and points above U+10FFFF are invalid. */
int utf8_read(const char *bytes, size_t count, uint32_t *point);

/* Writes point (<= U+10FFFF) and returns its length. */
int utf8_write(uint32_t point, char out[4]);

#endif
