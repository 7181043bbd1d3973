/* settle.h: what can be said only once all files are read: which lanes are threads and which are streams, what kind
 * each event is, which ranks there are, which events are doubtful; and every lane's events in order of time.
 *
 *     group    one rank (or one program): its threads and streams stand on one clock
 *
 * Threads: one at a time.
 */
#ifndef FORAY_TIMELINE_SETTLE_H
#define FORAY_TIMELINE_SETTLE_H

#include "timeline/rules.h"
#include "timeline/store.h"

typedef struct {
    int rank;            /* as stated, or by the order of files */
    bool rank_guessed;   /* the file does not state it */
    uint32_t first_part; /* the part whose clock and format it has */
    trace_format format;
    int64_t base_ns;
    size_t of_kind[EVENT_KINDS]; /* its events; without tasks that are listed twice, and of others none */
    size_t tasks, calls;         /* sums of it */
    int64_t first_ns, last_ns;   /* hull of what it holds */
} group;

/* Group of lanes that belong to no rank: those of a graph dump beside a profile. */
static const uint32_t NO_GROUP = UINT32_MAX;

typedef struct {
    group *groups;
    size_t group_count, group_cap;
    uint32_t *lane_group; /* [lanes] index of the group */
    uint32_t *order;      /* [events] by lane, then start; longer ones first, then as in the file */
    uint8_t *kind;        /* [events] event_kind of the event at each place of `order` */
    size_t *first;        /* [lanes + 1] where a lane's events begin in `order` */
    size_t lanes, events; /* their sizes, for freeing */
} settled;

/* Sets of kinds, a bit each. */
static inline uint32_t kind_bit(event_kind k)
{
    return (uint32_t)1 << k;
}

/* Calls that can have launched something. */
static const uint32_t CALL_KINDS = ((uint32_t)2 << EVENT_CALL) - ((uint32_t)1 << EVENT_LAUNCH);
static const uint32_t TASK_KINDS = ((uint32_t)2 << EVENT_HOST_TASK) - ((uint32_t)1 << EVENT_KERNEL);

/* The first place of `order` from i on whose event is of one of these kinds; `end` where none before it is. Most passes ask
 * for few kinds: this spares them the events. */
static inline size_t settled_find(const settled *t, size_t i, size_t end, uint32_t kinds)
{
    while (i < end && (kinds >> t->kind[i] & 1) == 0)
        i++;
    return i;
}

/* Rewrites kinds, flags and lanes in s. On error *out is empty. */
int settle(store *s, const rules *r, settled *out, foray_error *err);
/* A group without events, for step records that stand alone. */
int settle_add_group(settled *t, int rank, foray_error *err);
void settle_free(settled *t);

#endif
