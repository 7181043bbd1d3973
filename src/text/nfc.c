/* nfc.c: NFC with utf8proc's tables: decompose, order the marks, compose.
 *
 * The ordering is done here because utf8proc's own is quadratic in a run of combining marks, and a prompt may
 * be a megabyte of them. Threads: any.
 */
#include "text/nfc.h"

#include <string.h>
#include <utf8proc.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "foray.h"

enum { OPTIONS = UTF8PROC_STABLE | UTF8PROC_COMPOSE, SHORT_RUN = 32 };

bool nfc_may_change(const char *text, size_t bytes)
{
    /* Everything below U+0300 is composed and no mark: its lead byte is below 0xCC. */
    for (size_t i = 0; i < bytes; i++)
        if ((unsigned char)text[i] >= 0xcc)
            return true;
    return false;
}

static int mark_class(int32_t point)
{
    return utf8proc_get_property(point)->combining_class;
}

/* Sorts a run of marks by class, equal ones staying in order. spare: room for count. */
static void order_run(int32_t *point, size_t count, int32_t *spare)
{
    if (count <= SHORT_RUN) {
        for (size_t i = 1; i < count; i++) {
            int32_t p = point[i];
            size_t k = i;
            for (; k > 0 && mark_class(point[k - 1]) > mark_class(p); k--)
                point[k] = point[k - 1];
            point[k] = p;
        }
        return;
    }
    size_t place[257] = { 0 };
    for (size_t i = 0; i < count; i++)
        place[mark_class(point[i]) + 1]++;
    for (int c = 0; c < 256; c++)
        place[c + 1] += place[c];
    for (size_t i = 0; i < count; i++)
        spare[place[mark_class(point[i])]++] = point[i];
    memcpy(point, spare, count * sizeof *point);
}

/* Returns the number of points written, or SIZE_MAX where a point has no decomposition table (never). */
static size_t decompose(const char *text, size_t bytes, int32_t *point, size_t cap)
{
    size_t n = 0;
    for (size_t i = 0; i < bytes;) {
        uint32_t p = 0;
        int used = utf8_read(text + i, bytes - i, &p);
        int boundary = 0;
        utf8proc_ssize_t wrote = utf8proc_decompose_char((int32_t)p, point + n, (utf8proc_ssize_t)(cap - n),
                                                         (utf8proc_option_t)OPTIONS, &boundary);
        if (wrote < 0 || (size_t)wrote > cap - n)
            return SIZE_MAX;
        n += (size_t)wrote;
        i += (size_t)(used < 0 ? -used : used);
    }
    return n;
}

int nfc_append(const char *text, size_t bytes, buf *out)
{
    /* A character of one byte stays one point; one of two to four bytes becomes at most four. */
    size_t cap = 2 * bytes + 4, size = 0;
    if (!mem_size_mul(cap, 2 * sizeof(int32_t), &size))
        return FORAY_ENOMEM;
    int32_t *point = mem_alloc(MEM_TEXT, size);
    if (point == NULL)
        return FORAY_ENOMEM;
    size_t n = decompose(text, bytes, point, cap);
    if (n == SIZE_MAX) { /* text that the tables cannot take stays as it is */
        buf_append(out, text, bytes);
        mem_free(MEM_TEXT, point, size);
        return out->failed ? FORAY_ENOMEM : 0;
    }
    for (size_t i = 0; i < n;) {
        size_t end = i;
        while (end < n && mark_class(point[end]) != 0)
            end++;
        order_run(point + i, end - i, point + cap);
        i = end + 1;
    }
    utf8proc_ssize_t composed =
        utf8proc_normalize_utf32(point, (utf8proc_ssize_t)n, (utf8proc_option_t)OPTIONS);
    for (utf8proc_ssize_t i = 0; i < composed; i++) {
        char character[4];
        buf_append(out, character, (size_t)utf8_write((uint32_t)point[i], character));
    }
    mem_free(MEM_TEXT, point, size);
    return out->failed ? FORAY_ENOMEM : 0;
}
