/* walk.h: one walk backwards along the critical path, by path.c alone: from the end of a step to its start, or from a task in
 * the middle of it.
 *
 * Where a walk goes on depends on a few words only, its standing: two walks that stand alike go the same way from there.
 * Threads: one per walker; twins share what they only read.
 */
#ifndef FORAY_TIMELINE_WALK_H
#define FORAY_TIMELINE_WALK_H

#include <stdatomic.h>

#include "timeline/analysis.h"
#include "timeline/hook.h"
#include "timeline/host_waits.h"
#include "timeline/host_work.h"

/* Before a task is entered. */
typedef struct {
    int64_t at, hook_at;
    uint32_t number;
    evidence by;
    size_t segments; /* laid down before it */
} standing;

#ifdef FORAY_TORTURE
enum { MOST_MARKS = 2 };
#else
enum { MOST_MARKS = 4096 };
#endif

/* Where a walk stood while it was near its beginning, for another one that comes from behind and may meet it there. */
typedef struct {
    int64_t from;              /* where it begins */
    standing list[MOST_MARKS]; /* at moves back from one to the next, or stays */
    size_t count;
    _Atomic bool ready; /* all are noted: the other one may look */
    size_t next;        /* the other one has passed those before it */
    const standing *met;
} walk_marks;

typedef struct {
    const analysis *a;
    const task_graph *g;
    segment_list *out; /* the last segment first */
    host_work work;
    const host_waits *waits;
    size_t *places, *wait_places; /* [lanes] in `order` and in `waits`: those that were looked for last */
    uint16_t main_host;           /* the thread with most events */
    int64_t floor;                /* start of the step being walked */
    evidence by;                  /* of the edge that led to the task which is entered next */
    hook hook;                    /* from where on communication is exposed */
    bool is_twin, failed;
    _Atomic bool stop; /* what it finds is not wanted any more */
} walker;

/* Lays its path into out. What was made on an error is closed with it. */
int walker_open(walker *w, const analysis *a, const rules *r, const host_side *h, const host_waits *waits,
                segment_list *out, foray_error *err);
/* Another walker beside it, which must be closed first. */
int walker_twin(const walker *of, segment_list *out, walker *twin, foray_error *err);
void walker_close(walker *w);

/* Walks step i from its end. Where it comes to stand as the walk did that leaves `meet` (NULL: none), it notes so and ends; it
 * waits there until the other one has left its marks. */
void walk_step(walker *w, size_t i, walk_marks *meet);
/* Walks step i from the end of a task in it, leave->from, and leaves marks. */
void walk_from(walker *w, size_t i, uint32_t number, walk_marks *leave);

#endif
