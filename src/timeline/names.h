/* names.h: every distinct text of a trace once, under a small number.
 *
 * Traces repeat a few thousand names millions of times. Number 0 is the empty text. Texts keep their bytes as the
 * file had them after unescaping; faults in them (control bytes, invalid UTF-8) are counted when a text is new.
 * Threads: one at a time.
 */
#ifndef FORAY_TIMELINE_NAMES_H
#define FORAY_TIMELINE_NAMES_H

#include <stdint.h>

#include "base/arena.h"

typedef struct {
    const char **text; /* [count] NUL-terminated, in `memory` */
    uint32_t *bytes;   /* [count] */
    size_t count, text_cap, bytes_cap;
    uint32_t *slot; /* [slots] number + 1; 0: free */
    uint64_t *hash; /* [count] */
    size_t slots, slot_cap, hash_cap;
    uint32_t faulty; /* texts with control bytes or invalid UTF-8 */
    bool failed;     /* memory ran out; numbers given since are 0 */
    arena memory;
} names;

void names_init(names *n);
void names_free(names *n);

/* The number of a text of `bytes` bytes; a new one where it has not been seen. */
uint32_t names_add(names *n, const char *text, size_t bytes);
/* The same for the inside of a JSON string with backslashes. Escapes that JSON does not know stay as they are. */
uint32_t names_add_escaped(names *n, const char *text, size_t bytes);

static inline const char *names_text(const names *n, uint32_t number)
{
    return n->text[number];
}

/* Does a text match a pattern in which * stands for any stretch and ? for any byte? Case counts. */
bool names_match(const char *pattern, const char *text);

#endif
