/* host_waits.h: the moments at which a host thread waited: calls that returned when a task had ended, and work that came to the
 * thread through a queue.
 *
 * Threads: read-only once found.
 */
#ifndef FORAY_TIMELINE_HOST_WAITS_H
#define FORAY_TIMELINE_HOST_WAITS_H

#include "timeline/task_graph.h"

typedef struct {
    int64_t start, end; /* of the wait: a queue's work has the end of the work before it and its own start */
    uint32_t event;     /* the call, or the Dequeue */
    uint32_t task;      /* that the call waited for, + 1; 0: a Dequeue */
} host_wait;

typedef struct {
    host_wait *list; /* by lane, in order of their end */
    size_t *first;   /* [lanes + 1] where a lane's begin */
    size_t room, lanes;
} host_waits;

/* Needs to know when tasks were asked for. On error *out is empty. */
int host_waits_find(const task_graph *g, host_waits *out, foray_error *err);
void host_waits_free(host_waits *w);

#endif
