/* host_work.h: what a host thread is doing at a moment: the words of the rule that fits the innermost of its events, else that
 * event's name.
 *
 * Threads: one at a time; twins share what they only read.
 */
#ifndef FORAY_TIMELINE_HOST_WORK_H
#define FORAY_TIMELINE_HOST_WORK_H

#include "timeline/host_side.h"
#include "timeline/task_graph.h"

typedef struct {
    const task_graph *g;
    const rules *r;
    const host_side *h;
    uint16_t *words_of; /* [names] index of the host rule + 2; 1: none; 0: not asked */
    size_t names;
    uint32_t *word_name; /* [rules] number of a host rule's words */
    bool is_twin;
    uint32_t untraced, queue_words; /* numbers of the words for nothing known, and for waiting in a queue */
} host_work;

/* Enters the rules' words among the names of s, which is g's store. On error *out is empty. */
int host_work_open(store *s, const task_graph *g, const rules *r, const host_side *h, host_work *out,
                   foray_error *err);
/* Another one beside it, for another thread. It must be closed first. */
int host_work_twin(const host_work *of, host_work *twin, foray_error *err);
void host_work_close(host_work *w);

/* Behind the last place in `order` whose event on lane l begins before ns. near: the answer for a moment not far from it. */
size_t host_work_place(const host_work *w, size_t l, int64_t ns, size_t near);
/* What lane l does at the instant before `to`, and since when (at least `from`). at: the place for `to`. */
int64_t host_work_piece(host_work *w, size_t l, size_t at, int64_t from, int64_t to, uint32_t *words);

#endif
