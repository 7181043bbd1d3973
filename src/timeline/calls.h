/* calls.h: host calls by their correlation, for whoever makes a task graph: tasks look for what launched them, notes of waits
 * for the calls they speak of. Only links that somebody asks for are kept: most of a program's calls launch nothing.
 *
 * Threads: one at a time until all are entered, then any may look.
 */
#ifndef FORAY_TIMELINE_CALLS_H
#define FORAY_TIMELINE_CALLS_H

#include "timeline/settle.h"

/* A link that somebody asks for (0: free), and the first of its calls. */
typedef struct {
    uint32_t link, call;
} call_slot;

typedef struct {
    call_slot *slot; /* hash of link */
    size_t slots;
    uint64_t *wanted;       /* a few bits per slot: set where the link may be in it */
    uint32_t *event, *next; /* [room] of a call: its event, and the next call of its link + 1 */
    size_t room;
} call_index;

/* How many links ahead of the one that is asked for are worth expecting. */
enum { CALLS_AHEAD = 16 };

/* For up to `wanted` links among `most` calls. On error *out is empty. */
int calls_open(size_t wanted, size_t most, call_index *out, foray_error *err);
void calls_close(call_index *c);
/* A link will be wanted, or asked for, a little later: its slot may come from memory until then. */
void calls_expect(const call_index *c, uint32_t link);
/* Somebody will ask for a link. */
void calls_want(call_index *c, uint32_t link);
/* Enters a group's calls, lane by lane, in order of their start. */
void calls_enter(call_index *c, const store *s, const settled *t, uint32_t of_group);
/* The first call with a link, + 1, as an index into event and next; 0: none, or nobody wanted it. */
uint32_t calls_with(const call_index *c, uint32_t link);

#endif
