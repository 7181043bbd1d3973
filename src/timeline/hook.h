/* hook.h: from which moment on communication is exposed: where the stream that waits for it has nothing else to do.
 *
 *     compute   ████████████░░░░░░░░████        the hook: here the consumer's stream runs dry
 *     transfer      ▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓            the path runs through all of it, but only what lies behind the hook is exposed
 *                           ▲ hook
 *
 * Of several that an operation releases, the hook is that of the one whose stream ran dry first; one that releases nobody has
 * the hook of the next one on its stream. Goes along while a path is walked backwards. A consumer is a stream that computes more than it communicates: streams on which a
 * collective's own pieces wait for each other are none. Threads: one per path.
 */
#ifndef FORAY_TIMELINE_HOOK_H
#define FORAY_TIMELINE_HOOK_H

#include "timeline/task_graph.h"

typedef struct {
    const task_graph *g;
    int64_t at;       /* communication before this is behind other work; INT64_MIN: all is exposed */
    int64_t *surplus; /* [lanes] ns of computing less ns of communication */
    int64_t *
        dry; /* [tasks] when the first of the consumers that it releases ran dry; INT64_MAX: it releases none */
} hook;

int hook_open(const task_graph *g, hook *out, foray_error *err);
void hook_close(hook *h); /* also one whose opening failed */

/* A new path begins. */
void hook_reset(hook *h);
/* The path enters task `number`. */
void hook_enter(hook *h, uint32_t number);
/* Where what is exposed of [from, to] begins: from … to. */
int64_t hook_cut(const hook *h, int64_t from, int64_t to);

#endif
