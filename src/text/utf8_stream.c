/* utf8_stream.c: characters put together from token bytes, and stop strings watched character by character.
 *
 * Held text is always a suffix of the text that is a proper prefix of some stop string, so it is shorter than the
 * longest stop. Without stop strings nothing is held but an unfinished character. Threads: one per object.
 */
#include "text/utf8_stream.h"

#include <string.h>

#include "base/utf8.h"

static const char REPLACEMENT[] = "\xef\xbf\xbd"; /* U+FFFD */

void utf8_stream_init(utf8_stream *s, const char *const *stop, size_t stop_count)
{
    *s = (utf8_stream) { .stop = stop, .stop_count = stop_count };
}

void utf8_stream_free(utf8_stream *s)
{
    buf_free(&s->held);
}

/* May these bytes (no complete character) still become one? The first continuation byte has a range of its own
 * after some leads; trying both ends and the middle of the full range covers every lead. */
static bool is_unfinished(const char *part, int bytes)
{
    static const char tries[] = { '\x80', '\x90', '\xa0' };
    for (int t = 0; t < 3; t++) {
        char whole[4];
        uint32_t point;
        for (int i = 0; i < 4; i++)
            whole[i] = i < bytes ? part[i] : i == bytes ? tries[t] : '\x80';
        int used = utf8_read(whole, 4, &point);
        if (used > bytes)
            return true;
    }
    return false;
}

/* Bytes of the longest stop string that held ends with; 0: none. */
static size_t completed_stop(const utf8_stream *s)
{
    size_t longest = 0;
    for (size_t i = 0; i < s->stop_count; i++) {
        size_t n = strlen(s->stop[i]);
        if (n > longest && n <= s->held.len && memcmp(s->held.data + s->held.len - n, s->stop[i], n) == 0)
            longest = n;
    }
    return longest;
}

/* Where the longest suffix of held starts that may still grow into a stop string. */
static size_t first_to_hold(const utf8_stream *s)
{
    for (size_t at = 0; at < s->held.len; at++) {
        size_t n = s->held.len - at;
        for (size_t i = 0; i < s->stop_count; i++)
            if (strlen(s->stop[i]) > n && memcmp(s->stop[i], s->held.data + at, n) == 0)
                return at;
    }
    return s->held.len;
}

/* Takes one finished character. */
static void take(utf8_stream *s, const char *character, size_t bytes, buf *out)
{
    if (s->stop_count == 0) {
        buf_append(out, character, bytes);
        return;
    }
    buf *held = &s->held;
    buf_append(held, character, bytes);
    if (held->failed) {
        out->failed = true;
        return;
    }
    size_t stop = completed_stop(s);
    s->stopped = stop != 0;
    size_t shown = s->stopped ? held->len - stop : first_to_hold(s);
    buf_append(out, held->data, shown);
    memmove(held->data, held->data + shown, held->len - shown);
    held->len -= shown;
}

bool utf8_stream_feed(utf8_stream *s, const char *bytes, size_t count, buf *out)
{
    for (size_t i = 0; i < count && !s->stopped; i++) {
        s->part[s->part_bytes++] = bytes[i];
        while (s->part_bytes != 0 && !s->stopped) {
            uint32_t point;
            int used = utf8_read(s->part, (size_t)s->part_bytes, &point);
            if (used < 0 && is_unfinished(s->part, s->part_bytes))
                break;
            if (used > 0)
                take(s, s->part, (size_t)used, out);
            else
                take(s, REPLACEMENT, 3, out);
            used = used > 0 ? used : -used;
            s->part_bytes -= used;
            memmove(s->part, s->part + used, (size_t)s->part_bytes);
        }
    }
    return s->stopped;
}

void utf8_stream_finish(utf8_stream *s, buf *out)
{
    if (s->stopped)
        return;
    if (s->part_bytes != 0)
        take(s, REPLACEMENT, 3, out);
    s->part_bytes = 0;
    if (s->stopped)
        return;
    buf_append(out, s->held.data, s->held.len);
    buf_clear(&s->held);
}
