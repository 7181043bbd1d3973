/* what_if.c: what a change would be worth: the tasks are run again, in order, with the same edges and lags, but for the one
 * thing that is imagined away.
 *
 *     start' = the latest of its releases' + the lag it had behind the latest release
 *     end'   = start' + duration; of a resolved wait: as long behind its record as it was
 *     host   a thread keeps its own pace between the calls at which it really waited for a task; such a call returns as long
 *            after that task's new end as it did before
 *
 * With nothing changed every time comes out as it was; the analysis keeps the largest deviation to prove it.
 */
#include "timeline/what_if.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "timeline/list.h"
#include "timeline/ranks.h"
#include "timeline/runs.h"
#include "timeline/search.h"

struct rerun {
    const analysis *a;
    const task_graph *g;
    const host_waits *w;
    int64_t *start, *end; /* [tasks] of the run being made */
    int64_t
        *shift; /* [waits] how much later (or earlier) the thread goes on behind it in the run being made */
    uint32_t *by_end; /* [waits] over all lanes */
    /* The last wait that was over, + 1: when the host launched a task, and when a wait began. A thread's moments move by it. */
    uint32_t *of_task, *of_wait;
    size_t waits;
    uint32_t *room; /* [waits] while the order of their ends is found */
    size_t *near;   /* [lanes] zeros: the wait that was looked for last */
    int64_t error_ns;
};

/* The change of a run; NULL: none. */
typedef struct {
    what_kind kind;
    uint8_t phase;
} change;

static bool is_over(const void *user, size_t place, int64_t ns)
{
    const host_waits *w = user;
    return w->list[place].end <= ns;
}

static bool ends_before(const void *user, uint32_t a, uint32_t b)
{
    const host_waits *w = user;
    return w->list[a].end != w->list[b].end ? w->list[a].end < w->list[b].end : a < b;
}

/* Finds by which wait each moment of a thread moves, and the order in which waits end. */
static void find_moves(rerun *r)
{
    const task_graph *g = r->g;
    const host_waits *w = r->w;
    runs all = { .list = r->by_end, .room = r->room };
    runs_waiting waiting = { 0 };
    for (size_t l = 0; l < w->lanes; l++) {
        for (size_t i = w->first[l], place = i; i < w->first[l + 1]; i++) {
            r->by_end[i] = (uint32_t)i;
            place = search_near(w->first[l], w->first[l + 1], place, is_over, w, w->list[i].start);
            r->of_wait[i] = place > w->first[l] ? (uint32_t)place : 0;
        }
        if (w->first[l + 1] > w->first[l])
            runs_add(&all, &waiting, w->first[l], w->first[l + 1], r->waits, ends_before, w);
    }
    for (size_t i = 0; i < g->count; i++) {
        const event *call = g->tasks[i].launch != 0 ? store_event(g->s, g->tasks[i].launch - 1) : NULL;
        r->of_task[i] = 0;
        if (call == NULL)
            continue;
        size_t first = w->first[call->lane], *place = &r->near[call->lane];
        *place = search_near(first, w->first[call->lane + 1], *place, is_over, w, call->start);
        r->of_task[i] = *place > first ? (uint32_t)*place : 0;
    }
}

static int64_t shift_of(const rerun *r, uint32_t number)
{
    return number != 0 ? r->shift[number - 1] : 0;
}

static void run_wait(rerun *r, uint32_t i)
{
    const host_wait *x = &r->w->list[i];
    if (x->task == 0) { /* work out of a queue: the thread goes on as before */
        const event *e = store_event(r->g->s, x->event);
        r->shift[i] = i > r->w->first[e->lane] ? r->shift[i - 1] : 0;
        return;
    }
    int64_t begun = x->start + shift_of(r, r->of_wait[i]), done = r->end[x->task - 1];
    r->shift[i] = (begun > done ? begun : done) + (x->end - r->g->tasks[x->task - 1].end) - x->end;
}

/* Of a kernel that waits for its peers and transfers, how long it waits. */
static int64_t waits_in(const analysis *a, const task *x)
{
    const peer_wait *late = x->kind == EVENT_COMM ? ranks_wait_at(a, x) : NULL;
    return late == NULL ? 0 : late->until < x->end ? late->until - x->start : x->end - x->start;
}

static bool without_time(const change *c, const task *x)
{
    if (c == NULL)
        return false;
    switch (c->kind) {
    case WHAT_NO_PEER:
        return x->kind == EVENT_NOTIFY_WAIT;
    case WHAT_NO_COMM:
        return x->kind == EVENT_NOTIFY_WAIT || x->kind == EVENT_COMM;
    case WHAT_NO_STAGE:
        return x->phase == c->phase && event_is_work(x->kind);
    default:
        return false;
    }
}

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static void start_task(rerun *r, size_t i, const change *c)
{
    const task_graph *g = r->g;
    const task *x = &g->tasks[i];
    const event_detail *d = task_more(g, x);
    int64_t was = INT64_MIN, is = INT64_MIN; /* the latest release, as it was and in this run */
    bool no_gap = c != NULL && c->kind == WHAT_NO_GAP && c->phase == x->phase;
    if (x->before != 0) {
        const task *b = &g->tasks[x->before - 1];
        bool overlaps = b->end > x->start; /* it may start at the same distance behind the other's start */
        was = overlaps ? b->start : b->end;
        is = overlaps ? r->start[x->before - 1] : r->end[x->before - 1];
    }
    if (x->cause != 0 && x->kind != EVENT_WAIT && g->tasks[x->cause - 1].end <= x->start) {
        was = later(was, g->tasks[x->cause - 1].end);
        is = later(is, r->end[x->cause - 1]);
    }
    int64_t device = was;
    if (x->launch != 0) {
        const event *call = store_event(g->s, x->launch - 1);
        int64_t asked = call->start < x->start ? call->start : x->start;
        was = later(was, asked);
        if (!no_gap)
            is = later(is, asked + shift_of(r, r->of_task[i]));
    }
    if (was == INT64_MIN) { /* nothing known: it keeps its time */
        r->start[i] = x->start;
    } else {
        int64_t lag = x->start - was;
        if (no_gap && device != INT64_MIN &&
            (was > device || (x->launch != 0 && event_end(store_event(g->s, x->launch - 1)) > device)))
            lag = 0; /* the lag was the launch's own */
        if (d != NULL && d->ready != INT64_MIN) {
            int64_t host = d->ready > was ? (d->ready < x->start ? d->ready : x->start) - was : 0;
            lag -= no_gap ? host : 0;
            if (c != NULL && c->kind == WHAT_NO_RESOURCE)
                lag = lag < host ? lag : host;
        }
        r->start[i] = (is == INT64_MIN ? x->start : is) + lag;
    }
}

static void end_task(rerun *r, size_t i, const change *c)
{
    const task *x = &r->g->tasks[i];
    int64_t waits = c != NULL && c->kind == WHAT_NO_PEER ? waits_in(r->a, x) : 0;
    r->end[i] = r->start[i] + (without_time(c, x) ? 0 : x->end - x->start - waits);
    if (x->kind == EVENT_WAIT && x->cause != 0) {
        int64_t behind = r->end[x->cause - 1] + (x->end - r->g->tasks[x->cause - 1].end);
        r->end[i] = later(r->start[i], behind);
    }
}

/* Runs everything once, in the order of the old times: a start needs ends before it, an end its own start (and a wait's the
 * end of its record), a call the end of its task. */
static void run_all(rerun *r, const change *c)
{
    const task_graph *g = r->g;
    size_t wait = 0, ended = 0;
    memset(r->shift, 0, r->waits * sizeof *r->shift);
    for (size_t i = 0; i <= g->count; i++) {
        int64_t now = i < g->count ? g->tasks[i].start : INT64_MAX;
        for (;;) {
            bool has_end = ended < g->count && g->by_end[ended] < i && g->tasks[g->by_end[ended]].end <= now;
            bool has_wait = wait < r->waits && r->w->list[r->by_end[wait]].end <= now;
            if (has_end && !(has_wait && r->w->list[r->by_end[wait]].end < g->tasks[g->by_end[ended]].end))
                end_task(r, g->by_end[ended++], c);
            else if (has_wait)
                run_wait(r, r->by_end[wait++]);
            else
                break;
        }
        if (i < g->count)
            start_task(r, i, c);
    }
}

/* ---- from runs to savings --------------------------------------------------------------------- */

/* The task whose start (or, in foray's rounds, whose end) is the boundary; SIZE_MAX. */
static size_t boundary_task(const rerun *r, int64_t ns)
{
    const task_graph *g = r->g;
    if (r->a->boundary == BOUNDARY_ROUND) {
        for (size_t e = task_graph_ended_by(g, ns); e-- > 0 && g->tasks[g->by_end[e]].end == ns;)
            return g->by_end[e];
        return SIZE_MAX;
    }
    size_t low = g->lane_first[g->main_lane], high = g->lane_first[g->main_lane + 1];
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (g->tasks[g->by_lane[middle]].start < ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low < g->lane_first[g->main_lane + 1] && g->tasks[g->by_lane[low]].start == ns ? g->by_lane[low]
                                                                                          : SIZE_MAX;
}

/* How much earlier the moment of a boundary comes. The beginning of the first step and the end of the last are no task's
 * start: the one stays, the other is that of the task that ended last. */
static int64_t gain_at(const rerun *r, int64_t ns, bool is_last)
{
    size_t x = is_last ? SIZE_MAX : boundary_task(r, ns);
    if (x != SIZE_MAX)
        return r->a->boundary == BOUNDARY_ROUND ? ns - r->end[x] : ns - r->start[x];
    if (!is_last)
        return 0;
    int64_t latest = INT64_MIN;
    size_t n = task_graph_ended_by(r->g, ns);
    for (size_t e = n; e-- > 0 && e + 4096 > n;)
        latest = later(latest, event_is_work(r->g->tasks[r->g->by_end[e]].kind) ? r->end[r->g->by_end[e]]
                                                                                : INT64_MIN);
    return latest == INT64_MIN || n == 0 ? 0 : r->g->tasks[r->g->by_end[n - 1]].end - latest;
}

/* Mean saving over the kept steps. */
static int64_t saving(const rerun *r)
{
    const analysis *a = r->a;
    int64_t sum = 0, steps = 0;
    for (size_t i = 0; i < a->step_count; i++) {
        const step *s = &a->steps[i];
        if (s->reason != STEP_KEPT)
            continue;
        sum += gain_at(r, s->end, i + 1 == a->step_count && a->boundary != BOUNDARY_ROUND) -
               gain_at(r, s->start, false);
        steps++;
    }
    return steps > 0 ? sum / steps : 0;
}

static int try_change(rerun *r, analysis *a, what_kind kind, phase p, foray_error *err)
{
    change c = { kind, (uint8_t)p };
    run_all(r, &c);
    int64_t saved = saving(r);
    if (saved <= 0)
        return FORAY_OK;
    if (!list_reserve(&a->what_ifs, &a->what_if_cap, a->what_if_count + 1, sizeof *a->what_ifs))
        return fail(err, FORAY_ENOMEM, "out of memory for what-ifs");
    double length = analysis_mean_commit(a);
    a->what_ifs[a->what_if_count++] =
        (what_if) { .kind = kind,
                    .phase = (uint8_t)p,
                    .saved_ns = saved,
                    .token_ns = length > 0 ? (int64_t)((double)saved / length) : 0 };
    return FORAY_OK;
}

static int compare_savings(const void *a, const void *b)
{
    const what_if *x = a, *y = b;
    return x->saved_ns < y->saved_ns ? 1 : x->saved_ns > y->saved_ns ? -1 : 0;
}

/* Tries what the kept steps have at all: each account decides which change is worth a run. */
static int try_changes(rerun *r, analysis *a, foray_error *err)
{
    int64_t gap[PHASE_COUNT] = { 0 }, own[PHASE_COUNT] = { 0 }, peer = 0, comm = 0, resource = 0;
    int rc = FORAY_OK;
    for (size_t i = 0; i < a->step_count; i++) {
        const step *s = &a->steps[i];
        if (s->reason != STEP_KEPT)
            continue;
        for (int p = 0; p < PHASE_COUNT; p++) {
            gap[p] += s->gap_before_ns[p];
            own[p] += s->stages[p].path_ns;
        }
        peer += s->peer_ns;
        comm += s->peer_ns + s->transfer_ns;
        for (size_t k = 0; k < s->segments; k++)
            if (path_at(a, s->first_segment + k)->kind == SEGMENT_RESOURCE)
                resource += path_at(a, s->first_segment + k)->to - path_at(a, s->first_segment + k)->from;
    }
    for (int p = 0; p < PHASE_COUNT && rc == FORAY_OK; p++)
        if (gap[p] > 0)
            rc = try_change(r, a, WHAT_NO_GAP, (phase)p, err);
    if (rc == FORAY_OK && peer > 0)
        rc = try_change(r, a, WHAT_NO_PEER, PHASE_EXPOSED_COMM, err);
    if (rc == FORAY_OK && comm > peer)
        rc = try_change(r, a, WHAT_NO_COMM, PHASE_EXPOSED_COMM, err);
    if (rc == FORAY_OK && resource > 0)
        rc = try_change(r, a, WHAT_NO_RESOURCE, PHASE_HOST_GAP, err);
    static const phase stages[] = { PHASE_DRAFT,  PHASE_PLAN,         PHASE_ACCEPT,    PHASE_SYNC,
                                    PHASE_COMMIT, PHASE_DRAFT_EXTEND, PHASE_EAGER_TAIL };
    for (size_t k = 0; k < sizeof stages / sizeof *stages && rc == FORAY_OK; k++)
        if (own[stages[k]] > 0)
            rc = try_change(r, a, WHAT_NO_STAGE, stages[k], err);
    if (a->what_if_count > 0)
        qsort(a->what_ifs, a->what_if_count, sizeof *a->what_ifs, compare_savings);
    return rc;
}

int rerun_open(const analysis *a, const host_waits *w, rerun **out, foray_error *err)
{
    const task_graph *g = &a->graph;
    *out = NULL;
    if (g->count == 0)
        return FORAY_OK;
    rerun *r = mem_alloc_zeroed(MEM_RECORDS, sizeof *r);
    if (r == NULL)
        return fail(err, FORAY_ENOMEM, "out of memory for what-ifs");
    *r = (rerun) { .a = a, .g = g, .w = w, .waits = w->first[w->lanes] };
    r->start = mem_alloc(MEM_RECORDS, g->count * sizeof *r->start);
    r->end = mem_alloc(MEM_RECORDS, g->count * sizeof *r->end);
    r->of_task = mem_alloc(MEM_RECORDS, g->count * sizeof *r->of_task);
    r->of_wait = mem_alloc(MEM_RECORDS, r->waits * sizeof *r->of_wait);
    r->by_end = mem_alloc(MEM_RECORDS, r->waits * sizeof *r->by_end);
    r->shift = mem_alloc(MEM_RECORDS, r->waits * sizeof *r->shift);
    r->room = mem_alloc(MEM_RECORDS, r->waits * sizeof *r->room);
    r->near = mem_alloc_zeroed(MEM_RECORDS, w->lanes * sizeof *r->near);
    bool made = r->start != NULL && r->end != NULL && r->of_task != NULL && r->of_wait != NULL &&
                r->by_end != NULL && r->shift != NULL && r->room != NULL && r->near != NULL;
    if (!made) {
        rerun_close(r);
        return fail(err, FORAY_ENOMEM, "out of memory for what-ifs");
    }
    *out = r;
    return FORAY_OK;
}

void rerun_close(rerun *r)
{
    if (r == NULL)
        return;
    mem_free(MEM_RECORDS, r->start, r->g->count * sizeof *r->start);
    mem_free(MEM_RECORDS, r->end, r->g->count * sizeof *r->end);
    mem_free(MEM_RECORDS, r->of_task, r->g->count * sizeof *r->of_task);
    mem_free(MEM_RECORDS, r->of_wait, r->waits * sizeof *r->of_wait);
    mem_free(MEM_RECORDS, r->by_end, r->waits * sizeof *r->by_end);
    mem_free(MEM_RECORDS, r->shift, r->waits * sizeof *r->shift);
    mem_free(MEM_RECORDS, r->room, r->waits * sizeof *r->room);
    mem_free(MEM_RECORDS, r->near, r->w->lanes * sizeof *r->near);
    mem_free(MEM_RECORDS, r, sizeof *r);
}

void rerun_unchanged(rerun *r)
{
    find_moves(r);
    run_all(r, NULL);
    for (size_t i = 0; i < r->g->count; i++) {
        const task *x = &r->g->tasks[i];
        r->error_ns = later(r->error_ns, later(llabs(r->start[i] - x->start), llabs(r->end[i] - x->end)));
    }
}

int what_if_try(analysis *a, rerun *r, foray_error *err)
{
    a->replay_error_ns = r->error_ns;
    return try_changes(r, a, err);
}
