/* task_graph.h: the tasks of one group and what each of them waited for.
 *
 *     stream order     the task before it on its stream                          exact
 *     launch           the host call with its correlation                        exact
 *     cause            the task on another stream that released it: an event
 *                      record that the file names (exact), Ascend's rule of ends
 *                      (good), or an end that fits inside a graph replay (inferred)
 *
 * Tasks stand in order of their start. References are index + 1, 0 is none. Threads: read-only once built.
 */
#ifndef FORAY_TIMELINE_TASK_GRAPH_H
#define FORAY_TIMELINE_TASK_GRAPH_H

#include "timeline/calls.h"

typedef enum { HOW_NONE, HOW_INFERRED, HOW_GOOD, HOW_EXACT } evidence;

const char *evidence_name(evidence e);

typedef struct {
    int64_t start, end;
    int64_t asked; /* when the host asked for it: its launch, or the entry in the operator queue (stages.c) */
    uint32_t event;      /* in the store */
    uint32_t name, more; /* as the event's */
    uint32_t before, cause;
    uint32_t launch; /* host event that launched it */
    uint32_t replay;
    uint32_t step; /* filled by steps.c */
    uint16_t lane;
    uint8_t kind, cause_how;
    uint8_t phase, phase_how; /* filled by stages.c */
    bool edges_known;         /* a graph dump says all that it waits for: nothing is to be inferred */
} task;

/* One launch of a captured graph. */
typedef struct {
    uint32_t launch; /* host event + 1; 0: not in the file */
    uint32_t first;  /* its first task */
    uint32_t tasks, streams;
    int64_t start, end, sum_ns, busy_ns, busy_end; /* hull; sum of work, and its union */
    int64_t graph;                                 /* identity as the file states it; -1 */
    uint64_t signature;                            /* of the names of its tasks, in any order */
    uint8_t phase, phase_how;                      /* stages.c */
    bool dumped;                                   /* a graph dump was laid over it */
} replay;

/* What came of a graph dump (dump.h). */
typedef struct {
    uint32_t part;
    int64_t model;
    uint32_t nodes, streams, waits, waits_named; /* named: their record is in the dump */
    uint32_t replays, by_number,
        contradicted;    /* over which it was laid; contradicted: whose times deny its edges */
    uint32_t paired, of; /* tasks that are nodes, of the last one or the best */
    uint64_t edges;
    uint8_t how;
} dump_fit;

typedef struct {
    const store *s;
    const settled *t;
    uint32_t group;
    task *tasks;
    size_t count;
    uint32_t *by_end;   /* [count] tasks by their end */
    uint32_t *by_lane;  /* [count] tasks by lane, then start */
    size_t *lane_first; /* [lanes + 1] into by_lane */
    replay *replays;
    size_t replay_count, replay_cap;
    /* while the graph is made: */
    call_index calls; /* those that tasks and notes ask for */
    uint32_t *notes;  /* [wait_notes] events that say for what a stream waits */
    size_t notes_room;
    dump_fit *dumps;
    size_t dump_count, dump_cap;
    uint32_t main_lane; /* stream with most work */
    size_t waits, waits_resolved,
        waits_blocking;            /* stream waits; those with a cause; those longer than 1 us */
    size_t wait_calls, wait_notes; /* host calls that make a stream wait; notes that say for what */
} task_graph;

/* Builds the graph of a group; counts faults in the parts of s. On error *out is empty. */
int task_graph_build(store *s, const settled *t, uint32_t of_group, task_graph *out, foray_error *err);
void task_graph_free(task_graph *g);

/* How many of the tasks in by_end end at or before ns. */
size_t task_graph_ended_by(const task_graph *g, int64_t ns);
/* The same, for many moments one after the other. near: the answer for the last one. */
size_t task_graph_ended_near(const task_graph *g, int64_t ns, size_t near);

static inline const event *task_event(const task_graph *g, const task *t)
{
    return store_event(g->s, t->event);
}

static inline const event_detail *task_more(const task_graph *g, const task *t)
{
    return t->more != 0 ? &g->s->details[t->more - 1] : NULL;
}

static inline const char *task_name(const task_graph *g, const task *t)
{
    return names_text(&g->s->names, t->name);
}

#endif
