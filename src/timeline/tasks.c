/* tasks.c: see tasks.h. Lanes are in order of time already: merging them gives the tasks in theirs. */
#include "timeline/tasks.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "timeline/runs.h"

/* A lane being merged: its next task. */
typedef struct {
    int64_t start;
    size_t at, end; /* in `order` */
    uint16_t lane;
} cursor;

static bool comes_first(const cursor *a, const cursor *b)
{
    return a->start != b->start ? a->start < b->start : a->lane < b->lane;
}

/* Lets the first of a heap sink to its place. */
static void sink(cursor *heap, size_t count)
{
    cursor moved = heap[0];
    size_t at = 0;
    for (size_t child; (child = 2 * at + 1) < count; at = child) {
        child += child + 1 < count && comes_first(&heap[child + 1], &heap[child]);
        if (comes_first(&moved, &heap[child]))
            break;
        heap[at] = heap[child];
    }
    heap[at] = moved;
}

/* Moves to the lane's next task from `at` on; false: it has none. */
static bool advance(const task_graph *g, cursor *c)
{
    const settled *t = g->t;
    for (;; c->at++) {
        c->at = settled_find(t, c->at, c->end, TASK_KINDS);
        if (c->at >= c->end)
            return false;
        const event *e = store_event(g->s, t->order[c->at]);
        c->start = e->start;
        if ((e->flags & EVENT_DUPLICATE) == 0)
            return true;
    }
}

static int compare_tasks(const void *a, const void *b)
{
    const task *x = a, *y = b;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    if (x->end != y->end)
        return x->end < y->end ? -1 : 1;
    if (x->lane != y->lane)
        return x->lane < y->lane ? -1 : 1;
    return x->event < y->event ? -1 : x->event > y->event;
}

/* Tasks that start at once stand in order of their end. */
static void order_equal_starts(task_graph *g)
{
    for (size_t i = 0, end; i < g->count; i = end) {
        for (end = i + 1; end < g->count && g->tasks[end].start == g->tasks[i].start;)
            end++;
        if (end - i > 1)
            qsort(&g->tasks[i], end - i, sizeof *g->tasks, compare_tasks);
    }
}

static int take_tasks(task_graph *g, foray_error *err)
{
    const settled *t = g->t;
    cursor *heap = mem_alloc(MEM_RECORDS, (t->lanes + 1) * sizeof *heap);
    size_t count = 0;
    if (heap == NULL)
        return fail(err, FORAY_ENOMEM, "out of memory for %zu lanes", t->lanes);
    for (size_t l = 0; l < t->lanes; l++) {
        cursor c = { .at = t->first[l], .end = t->first[l + 1], .lane = (uint16_t)l };
        if (t->lane_group[l] != g->group || !advance(g, &c))
            continue;
        size_t at = count++;
        for (; at > 0 && comes_first(&c, &heap[(at - 1) / 2]); at = (at - 1) / 2)
            heap[at] = heap[(at - 1) / 2];
        heap[at] = c;
    }
    while (count > 0) {
        cursor *c = &heap[0];
        uint32_t index = t->order[c->at++];
        const event *e = store_event(g->s, index);
        g->tasks[g->count++] = (task) { .start = e->start,
                                        .end = event_end(e),
                                        .event = index,
                                        .name = e->name,
                                        .more = e->more,
                                        .launch = e->link,
                                        .lane = c->lane,
                                        .kind = e->kind };
        if (!advance(g, c))
            heap[0] = heap[--count];
        if (count > 0)
            sink(heap, count);
    }
    mem_free(MEM_RECORDS, heap, (t->lanes + 1) * sizeof *heap);
    order_equal_starts(g);
    return FORAY_OK;
}

static void want_calls(task_graph *g)
{
    for (size_t i = 0; i < g->count; i++) {
        if (i + CALLS_AHEAD < g->count)
            calls_expect(&g->calls, g->tasks[i + CALLS_AHEAD].launch);
        calls_want(&g->calls, g->tasks[i].launch);
    }
}

static bool ends_before(const void *user, uint32_t a, uint32_t b)
{
    const task *tasks = user;
    return tasks[a].end != tasks[b].end ? tasks[a].end < tasks[b].end : a < b;
}

static int sort_ends(task_graph *g, foray_error *err)
{
    uint32_t *room = mem_alloc(MEM_RECORDS, g->count * sizeof *room);
    if (room == NULL)
        return fail(err, FORAY_ENOMEM, "out of memory for %zu tasks", g->count);
    for (size_t i = 0; i < g->count; i++)
        g->by_end[i] = (uint32_t)i;
    runs r = { .list = g->by_end, .room = room };
    runs_waiting waiting = { 0 };
    for (size_t at = 0, end; at < g->count; at = end) {
        for (end = at + 1; end < g->count && g->tasks[end - 1].end <= g->tasks[end].end;)
            end++;
        runs_add(&r, &waiting, at, end, g->count, ends_before, g->tasks);
    }
    mem_free(MEM_RECORDS, room, g->count * sizeof *room);
    return FORAY_OK;
}

static int sort_by_lane(task_graph *g, foray_error *err)
{
    size_t lanes = g->t->lanes, *at = mem_alloc(MEM_RECORDS, (lanes + 1) * sizeof *at);
    if (at == NULL)
        return fail(err, FORAY_ENOMEM, "out of memory for %zu lanes", lanes);
    for (size_t i = 0; i < g->count; i++)
        g->lane_first[g->tasks[i].lane + 1]++;
    for (size_t l = 0; l < lanes; l++)
        g->lane_first[l + 1] += g->lane_first[l];
    memcpy(at, g->lane_first, (lanes + 1) * sizeof *at);
    for (size_t i = 0; i < g->count; i++)
        g->by_lane[at[g->tasks[i].lane]++] = (uint32_t)i;
    mem_free(MEM_RECORDS, at, (lanes + 1) * sizeof *at);
    return FORAY_OK;
}

/* The notes that say for which stream's work another stream waits. */
static void take_notes(task_graph *g)
{
    const settled *t = g->t;
    for (size_t l = 0; l < t->lanes; l++) {
        size_t end = t->lane_group[l] == g->group ? t->first[l + 1] : 0;
        for (size_t i = t->first[l]; (i = settled_find(t, i, end, kind_bit(EVENT_SYNC_NOTE))) < end; i++) {
            const event *e = store_event(g->s, t->order[i]);
            const event_detail *d = store_more(g->s, e);
            if (d == NULL || d->wait_stream < 0 || d->stream < 0)
                continue;
            g->notes[g->wait_notes++] = t->order[i];
        }
    }
}

int tasks_list(task_graph *g, foray_error *err)
{
    const group *of = &g->t->groups[g->group];
    size_t n = of->tasks;
    g->notes_room = of->of_kind[EVENT_SYNC_NOTE];
    g->tasks = mem_alloc(MEM_RECORDS, n * sizeof *g->tasks);
    g->by_end = mem_alloc(MEM_RECORDS, n * sizeof *g->by_end);
    g->by_lane = mem_alloc(MEM_RECORDS, n * sizeof *g->by_lane);
    g->lane_first = mem_alloc_zeroed(MEM_RECORDS, (g->t->lanes + 1) * sizeof *g->lane_first);
    g->notes = mem_alloc(MEM_RECORDS, g->notes_room * sizeof *g->notes);
    if (g->tasks == NULL || g->by_end == NULL || g->by_lane == NULL || g->lane_first == NULL ||
        g->notes == NULL)
        return fail(err, FORAY_ENOMEM, "out of memory for %zu tasks", n);
    take_notes(g);
    int rc = calls_open(n + 2 * g->wait_notes, of->calls, &g->calls, err);
    for (size_t i = 0; i < g->wait_notes && rc == FORAY_OK; i++) {
        const event *e = store_event(g->s, g->notes[i]);
        calls_want(&g->calls, e->link);
        calls_want(&g->calls, store_more(g->s, e)->record_link);
    }
    if (rc == FORAY_OK)
        rc = take_tasks(g, err);
    if (rc == FORAY_OK) {
        want_calls(g);
        rc = sort_ends(g, err);
    }
    return rc == FORAY_OK ? sort_by_lane(g, err) : rc;
}
