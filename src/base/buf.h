/* buf.h: a growing run of bytes, for text that is put together. Always ends in a NUL that len does not
 * count. Once memory has run out the buffer is `failed`, keeps what it had, and ignores further writes, so
 * that a writer checks once at the end. Threads: one at a time per buffer.
 */
#ifndef FORAY_BASE_BUF_H
#define FORAY_BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    char *data; /* never NULL after the first write */
    size_t len, cap;
    bool failed;
} buf;

void buf_append(buf *b, const void *bytes, size_t count);
void buf_puts(buf *b, const char *text);
void buf_printf(buf *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Appends text as a JSON string with its quotes; invalid UTF-8 becomes U+FFFD. */
void buf_json_string(buf *b, const char *text, size_t bytes);
/* Appends a JSON number, or null where value is not finite. */
void buf_json_double(buf *b, double value);
void buf_clear(buf *b); /* len 0, memory kept */
void buf_free(buf *b);  /* back to {0} */

#endif
