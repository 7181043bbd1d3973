/* path.c: the critical path of every step, walked by two threads where there is enough of it.
 *
 *     several steps     one walker takes the earlier ones, the other those from the middle of the file on
 *     a single step     one walks from its end, the other from a task in the middle that the path is likely to pass. Where the
 *                       first comes to stand as the second did, the second has gone the rest of the way; if it never does,
 *                       it goes all of it, and what the second found is forgotten
 *
 * Either way the path is that of one walker.
 */
#include "timeline/path.h"

#include "base/mem.h"
#include "timeline/beside.h"
#include "timeline/walk.h"

static void reverse(const segment_list *list, size_t first)
{
    for (size_t i = first, j = list->count; i + 1 < j; i++) {
        segment *x = segment_at(list, i), *y = segment_at(list, --j), other = *x;
        *x = *y;
        *y = other;
    }
}

/* A step that lies in one list. */
static void take_step(analysis *a, walker *w, size_t i)
{
    size_t first = w->out->count;
    walk_step(w, i, NULL);
    reverse(w->out, first);
    a->steps[i].first_segment = first;
    a->steps[i].segments = w->out->count - first;
}

/* Where most of the first step passes before its first task, in a wait for something that the file does not hold (the
 * end of the step before), the step begins behind that wait. */
static void trim_first(analysis *a, walker *w)
{
    step *x = &a->steps[0];
    int64_t wall = x->end - x->start, first = x->end;
    size_t i = 0;
    while (i < a->graph.count && !(a->graph.tasks[i].step == 1 && event_is_work(a->graph.tasks[i].kind)))
        i++;
    first = i < a->graph.count ? a->graph.tasks[i].start : first;
    for (i = 0; i < x->segments; i++) {
        const segment *s = path_at(a, x->first_segment + i);
        if (s->to > first)
            return;
        if ((s->kind == SEGMENT_WAIT || s->kind == SEGMENT_UNKNOWN) && s->to - s->from > wall / 10 &&
            s->to < x->end) {
            a->trimmed_ns = s->to - x->start;
            x->start = s->to;
            if (a->step_count == 1) /* both halves of it; else the other one holds later steps */
                a->path[0].count = a->path[1].count = 0;
            w->out->count = 0;
            take_step(a, w, 0);
            return;
        }
    }
}

static bool check_sum(const analysis *a, const step *x)
{
    int64_t at = x->start;
    for (size_t i = 0; i < x->segments; i++) {
        const segment *s = path_at(a, x->first_segment + i);
        if (s->from != at || s->to <= s->from)
            return false;
        at = s->to;
    }
    return at == x->end;
}

static void take_steps(analysis *a, walker *w, size_t from, size_t to)
{
    for (size_t i = from; i < to && !w->failed; i++) {
        take_step(a, w, i);
        if (i == 0 && a->boundary != BOUNDARY_ROUND)
            trim_first(a, w);
    }
}

/* What the second walker does. */
typedef struct {
    analysis *a;
    walker w;
    size_t from;     /* step */
    uint32_t number; /* the task at which it begins; 0: it takes whole steps */
    walk_marks *marks;
} helper;

static void walk_beside(void *user)
{
    helper *h = user;
    if (h->number == 0) {
        take_steps(h->a, &h->w, h->from, h->a->step_count);
        return;
    }
    walk_from(&h->w, 0, h->number, h->marks);
    reverse(h->w.out, 0);
}

/* The first step that begins in the later half of the tasks. */
static size_t middle_step(const analysis *a)
{
    size_t i = 0;
    while (i < a->step_count && a->steps[i].start < a->graph.tasks[a->graph.count / 2].start)
        i++;
    return i;
}

/* A task on the stream with most work, in the middle of it; 0: none. */
static uint32_t middle_task(const task_graph *g)
{
    size_t first = g->lane_first[g->main_lane], end = g->lane_first[g->main_lane + 1];
    for (size_t i = first + (end - first) / 2; i < end; i++)
        if (event_is_work(g->tasks[g->by_lane[i]].kind))
            return g->by_lane[i] + 1;
    return 0;
}

/* Walks steps from the end of the file and from the middle at once. */
static void walk_both(analysis *a, walker *w, helper *h)
{
    beside second;
    beside_start(&second, true, walk_beside, h);
    if (h->number == 0) {
        take_steps(a, w, 0, h->from);
        beside_wait(&second);
        for (size_t i = h->from; i < a->step_count; i++)
            a->steps[i].first_segment += a->path[0].count;
        return;
    }
    walk_step(w, 0, h->marks);
    reverse(w->out, 0);
    if (h->marks->met == NULL)
        atomic_store(&h->w.stop, true);
    beside_wait(&second);
    if (h->marks->met != NULL)
        h->w.out->count -= h->marks->met->segments;
    else
        h->w.out->count = 0;
    w->failed = w->failed || (h->marks->met != NULL && h->w.failed);
    a->steps[0].first_segment = 0;
    a->steps[0].segments = path_count(a);
    if (a->boundary != BOUNDARY_ROUND)
        trim_first(a, w);
}

static int walk_in_halves(analysis *a, walker *w, foray_error *err)
{
    helper h = { .a = a, .from = middle_step(a) };
    bool single = a->step_count == 1;
    int rc = FORAY_OK;
    if (single) {
        h.number = middle_task(&a->graph);
        h.marks = mem_alloc_zeroed(MEM_RECORDS, sizeof *h.marks);
        if (h.marks == NULL)
            rc = fail(err, FORAY_ENOMEM, "out of memory for the path");
        else
            h.marks->from = a->graph.tasks[h.number - 1].end;
    }
    w->out = &a->path[single]; /* the later half of a single step, or the earlier steps */
    if (rc == FORAY_OK)
        rc = walker_twin(w, &a->path[!single], &h.w, err);
    if (rc == FORAY_OK)
        walk_both(a, w, &h);
    w->failed = w->failed || (!single && h.w.failed);
    if (h.w.g != NULL)
        walker_close(&h.w);
    mem_free(MEM_RECORDS, h.marks, sizeof *h.marks);
    return rc;
}

int path_walk(analysis *a, const rules *r, const host_side *h, const host_waits *waits, foray_error *err)
{
    walker w;
    int rc = walker_open(&w, a, r, h, waits, &a->path[0], err);
    bool halves = beside_worth(a->graph.count) && a->step_count > 0 &&
                  (a->step_count == 1 ? middle_task(&a->graph) != 0 : middle_step(a) < a->step_count);
    if (rc == FORAY_OK && halves)
        rc = walk_in_halves(a, &w, err);
    else if (rc == FORAY_OK)
        take_steps(a, &w, 0, a->step_count);
    for (size_t i = 0; i < a->step_count && rc == FORAY_OK; i++) {
        a->sums_checked++;
        a->sums_wrong += !check_sum(a, &a->steps[i]);
    }
    if (rc == FORAY_OK && w.failed)
        rc = fail(err, FORAY_ENOMEM, "out of memory for the path");
    walker_close(&w);
    return rc;
}
