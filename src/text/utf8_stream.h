/* utf8_stream.h: running text from token bytes: whole characters only, stop strings never shown.
 *
 * Holds back at most 3 bytes of an incomplete character, and the longest suffix that may still become a stop
 * string. Bytes that can no longer become a character turn into U+FFFD. Pure; one thread per object.
 */
#ifndef FORAY_TEXT_UTF8_STREAM_H
#define FORAY_TEXT_UTF8_STREAM_H

#include "base/buf.h"

typedef struct {
    const char *const *stop; /* [stop_count] borrowed */
    size_t stop_count;
    char part[4]; /* [part_bytes] an unfinished character */
    int part_bytes;
    bool stopped;
    buf held; /* finished characters that may begin a stop string */
} utf8_stream;

/* Starts a stream. Empty stop strings never match. */
void utf8_stream_init(utf8_stream *s, const char *const *stop, size_t stop_count);
/* Feeds one token's bytes; appends what may be shown to out (out->failed where memory ran out). Returns true when
 * a stop string was completed: out then ends in front of it, and the stream takes nothing more. The stop that is
 * completed first in the text wins, the longest one where several end together: so the cut depends on the text
 * only, never on how it was divided into tokens. */
bool utf8_stream_feed(utf8_stream *s, const char *bytes, size_t count, buf *out);
/* The text is over (end of text, length): releases what was held, an unfinished character as U+FFFD. */
void utf8_stream_finish(utf8_stream *s, buf *out);
void utf8_stream_free(utf8_stream *s);

#endif
