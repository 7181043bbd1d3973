/* host_side.h: what the host's threads tell by themselves, before any task is looked at: the stage around each call, the entries
 * of the operator queue, and how far events reach.
 *
 * Of all groups at once. It needs the settled events alone, so it can be found beside the task graphs. Threads: read-only then.
 */
#ifndef FORAY_TIMELINE_HOST_SIDE_H
#define FORAY_TIMELINE_HOST_SIDE_H

#include "timeline/rules.h"
#include "timeline/settle.h"

/* A group's entries into the operator queue by their link: event + 1; 0: free. */
typedef struct {
    uint32_t *slot; /* [slots] hash of link */
    size_t slots;   /* 0: no queue */
} queue_entries;

typedef struct {
    const store *s;
    const settled *t;
    queue_entries *entries; /* [groups] */
    uint8_t
        *phase; /* [events] of calls and queue entries: the stage of the annotation around them; NO_STAGE */
    uint32_t *entry; /* [events] of calls from a queue: the Enqueue event + 1; NULL: no queue in the files */
    /* Of each HOST_REACH places in `order`: the latest end among the events on their lane, before them and in them. */
    int64_t *reach, *inside; /* [events / HOST_REACH + 1] */
} host_side;

enum { NO_STAGE = 0xff, HOST_REACH = 16 };

/* Borrows s and t. On error *out is empty. */
int host_side_find(const store *s, const settled *t, const rules *r, host_side *out, foray_error *err);
void host_side_free(host_side *h);
/* The Enqueue event of a group with a link, + 1; 0: none. */
uint32_t host_side_entry(const host_side *h, uint32_t of_group, uint32_t link);

#endif
