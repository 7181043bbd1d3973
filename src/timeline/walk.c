/* walk.c: the critical path of a step, walked backwards from its end.
 *
 *     at a task's start     whatever was done last released it: the task before it on its stream, a task on another stream,
 *                           or the host's launch. Between that moment and the start lies a gap with a name
 *     at a wait's end       the path goes on in the branch whose record released it: a wait's time is charged to
 *                           what that branch was doing
 *     on the host           back to the end of the last call that really waited for a device task, then to that task
 *
 * The cursor only ever moves back to where the next segment ends, and is cut at the step's start: so the
 * segments of a step tile it. O(tasks on the path), since each turn leaves a task for an earlier one.
 */
#include "timeline/walk.h"

#include <sched.h>
#include <string.h>

#include "base/mem.h"
#include "timeline/list.h"
#include "timeline/ranks.h"
#include "timeline/search.h"

static const int64_t BLOCKING_NS = 1000, DISPATCH_NS = 20000, LATENCY_NS = 100000, PAUSE_NS = 5000;

const char *segment_kind_name(segment_kind k)
{
    static const char *const text[SEGMENT_KINDS] = {
        [SEGMENT_TASK] = "task",           [SEGMENT_COMM] = "transfer",
        [SEGMENT_PEER_WAIT] = "peer_wait", [SEGMENT_WAIT] = "unresolved_wait",
        [SEGMENT_HANDOVER] = "handover",   [SEGMENT_DISPATCH] = "dispatch",
        [SEGMENT_RESOURCE] = "resource",   [SEGMENT_LAUNCH] = "launch",
        [SEGMENT_HOST] = "host",           [SEGMENT_RETURN] = "return",
        [SEGMENT_UNKNOWN] = "unknown",
    };
    return text[k];
}

/* ---- segments --------------------------------------------------------------------------------- */

static phase account_of(segment_kind k, uint8_t owner)
{
    switch (k) {
    case SEGMENT_COMM:
    case SEGMENT_PEER_WAIT:
        return PHASE_EXPOSED_COMM;
    case SEGMENT_LAUNCH:
    case SEGMENT_HOST:
    case SEGMENT_RETURN:
        return PHASE_HOST_GAP;
    case SEGMENT_TASK:
    case SEGMENT_HANDOVER:
    case SEGMENT_DISPATCH:
    case SEGMENT_RESOURCE:
        return (phase)owner;
    default:
        return PHASE_UNATTRIBUTED;
    }
}

/* Puts [from, to] in front of the path, cut at the step's start. Returns the new cursor. */
static int64_t put(walker *w, segment_kind kind, int64_t from, int64_t to, uint32_t number, uint8_t owner,
                   evidence how, uint32_t words, uint16_t on)
{
    if (from < w->floor)
        from = w->floor;
    if (from >= to)
        return to;
    segment_list *list = w->out;
    size_t chunk = list->count >> PATH_CHUNK_BITS;
    if (chunk >= list->chunks.count && !chunks_reach(&list->chunks, chunk, PATH_CHUNK * sizeof(segment))) {
        w->failed = true;
        return from;
    }
    *segment_at(list, list->count++) = (segment) { .from = from,
                                                   .to = to,
                                                   .kind = (uint8_t)kind,
                                                   .phase = (uint8_t)account_of(kind, owner),
                                                   .owner = owner,
                                                   .how = (uint8_t)how,
                                                   .task = number,
                                                   .words = words,
                                                   .lane = on };
    return from;
}

/* ---- the host --------------------------------------------------------------------------------- */

/* Lays [from, to] of a host thread down as segments by what the thread did; equal neighbours become one. */
static int64_t put_host(walker *w, uint16_t l, int64_t from, int64_t to, uint8_t owner, uint32_t for_task)
{
    if (from < w->floor)
        from = w->floor;
    const task_graph *g = w->g;
    size_t at = host_work_place(&w->work, l, to, w->places[l]);
    for (size_t pieces = 0; to > from && !w->failed; pieces++) {
        uint32_t words = w->work.untraced;
        while (at > g->t->first[l] && store_event(g->s, g->t->order[at - 1])->start >= to)
            at--;
        int64_t since = pieces < 4096 ? host_work_piece(&w->work, l, at, from, to, &words) : from;
        segment *next = w->out->count > 0 ? segment_at(w->out, w->out->count - 1) : NULL;
        if (next != NULL && next->from == to && next->kind == SEGMENT_HOST && next->words == words &&
            next->lane == l && next->owner == owner && pieces > 0)
            next->from = since;
        else
            put(w, SEGMENT_HOST, since, to, for_task, owner, HOW_EXACT, words, l);
        to = since;
    }
    w->places[l] = at;
    return to;
}

/* Since when the thread has been busy without a pause, looking back from `at` no further than `from`. */
static int64_t busy_since(const walker *w, size_t l, int64_t from, int64_t at)
{
    enum { LOOK_BACK = 512 };
    const task_graph *g = w->g;
    int64_t since = at;
    size_t i = host_work_place(&w->work, l, at, w->places[l]), looked = 0;
    while (i-- > g->t->first[l] && looked++ < LOOK_BACK && since > from) {
        const event *e = store_event(g->s, g->t->order[i]);
        if (event_end(e) >= since - PAUSE_NS && e->start < since)
            since = e->start;
    }
    return since > from ? since : from;
}

static uint32_t walk_host(walker *w, uint16_t l, int64_t *at, uint8_t owner, uint32_t for_task, int depth);

/* Goes on with another thread, which was at work at that moment. */
static uint32_t change_thread(walker *w, uint16_t to, int64_t *at, uint8_t owner, uint32_t for_task,
                              int depth)
{
    enum { MOST_CHANGES = 1000 };
    if (*at <= w->floor)
        return 0;
    if (depth < MOST_CHANGES)
        return walk_host(w, to, at, owner, for_task, depth + 1);
    *at = put_host(w, to, w->floor, *at, owner, for_task);
    return 0;
}

static bool is_over(const void *user, size_t place, int64_t ns)
{
    const host_waits *waits = user;
    return waits->list[place].end <= ns;
}

/* Walks back on thread l from `at` until a call waited for a task; returns that task + 1 with the cursor moved to its end,
 * or 0 with the cursor at the step's start. Work that came through a queue leads to the thread that made the entry; a
 * thread that did nothing before (autograd's) was set to work by the program's main thread, which is only inferred. */
static uint32_t walk_host(walker *w, uint16_t l, int64_t *at, uint8_t owner, uint32_t for_task, int depth)
{
    const host_waits *waits = w->waits;
    const host_wait *b = NULL, *found = NULL;
    const event *made = NULL;
    for (size_t i = search_near(waits->first[l], waits->first[l + 1], w->wait_places[l], is_over, waits, *at);
         i-- > waits->first[l] && waits->list[i].end > w->floor && found == NULL;) {
        b = &waits->list[i];
        w->wait_places[l] = i;
        if (b->task != 0) {
            found = w->g->tasks[b->task - 1].end <= *at ? b : NULL;
            continue;
        }
        /* was the thread idle until the entry came? */
        uint32_t entry = host_side_entry(w->work.h, w->g->group, store_event(w->g->s, b->event)->link);
        made = entry != 0 ? store_event(w->g->s, entry - 1) : NULL;
        if (made != NULL && made->lane != l && event_end(made) <= b->end && event_end(made) > b->start)
            found = b;
    }
    int64_t until = found != NULL ? found->end : w->floor;
    if (l != w->main_host) {
        int64_t since = busy_since(w, l, until, *at);
        if (since > until) {
            *at = put_host(w, l, since, *at, owner, for_task);
            return change_thread(w, w->main_host, at, owner, for_task, depth);
        }
    }
    *at = put_host(w, l, until, *at, owner, for_task);
    if (found == NULL)
        return 0;
    if (found->task == 0) {
        *at = put(w, SEGMENT_HOST, event_end(made), *at, for_task, owner, HOW_EXACT, w->work.queue_words, l);
        return change_thread(w, made->lane, at, owner, for_task, depth);
    }
    *at = put(w, SEGMENT_RETURN, w->g->tasks[found->task - 1].end, *at, for_task, owner, HOW_GOOD,
              store_event(w->g->s, found->event)->name, l);
    return found->task;
}

/* ---- the device ------------------------------------------------------------------------------- */

/* The part of communication that ends at the cursor and lies before the hook: the path runs through it, but nobody waits yet,
 * so it is its stage's work and not exposed. Lays down what is exposed as kind, from no earlier than `from`. */
static int64_t put_exposed(walker *w, segment_kind kind, uint32_t number, int64_t from, int64_t at,
                           evidence how)
{
    const task *x = &w->g->tasks[number - 1];
    const uint32_t name = x->name;
    at = put(w, kind, hook_cut(&w->hook, from, at), at, number, x->phase, how, name, x->lane);
    return put(w, SEGMENT_TASK, from, at, number, x->phase, how, name, x->lane);
}

/* Lays down a wait for a peer; rank -1: which one is not known. */
static int64_t put_peer_wait(walker *w, uint32_t number, int64_t from, int64_t at, int rank, evidence how)
{
    size_t n = w->out->count;
    at = put_exposed(w, SEGMENT_PEER_WAIT, number, from, at, how);
    if (w->out->count > n && segment_at(w->out, n)->kind == SEGMENT_PEER_WAIT && rank >= 0 &&
        rank < UINT16_MAX)
        segment_at(w->out, n)->peer = (uint16_t)(rank + 1);
    return at;
}

/* Lays down the part of a task that ends at the cursor. */
static int64_t put_task(walker *w, uint32_t number, int64_t at)
{
    const task *x = &w->g->tasks[number - 1];
    uint32_t name = x->name;
    const peer_wait *late =
        x->kind == EVENT_COMM || x->kind == EVENT_NOTIFY_WAIT ? ranks_wait_at(w->a, x) : NULL;
    if (x->kind == EVENT_NOTIFY_WAIT) {
        int rank = ranks_notifier(w->a, x);
        return put_peer_wait(w, number, x->start, at, rank >= 0 || late == NULL ? rank : late->rank,
                             rank >= 0 || late == NULL ? HOW_EXACT : HOW_GOOD);
    }
    if (late != NULL) { /* a kernel that waits and transfers: until the last rank came it waited */
        int64_t until = late->until < at ? late->until : at;
        at = put_exposed(w, SEGMENT_COMM, number, until, at, w->by);
        return put_peer_wait(w, number, x->start, at, late->rank, HOW_GOOD);
    }
    if (x->kind == EVENT_COMM)
        return put_exposed(w, SEGMENT_COMM, number, x->start, at, w->by);
    segment_kind k = x->kind == EVENT_WAIT && x->end - x->start > BLOCKING_NS ? SEGMENT_WAIT : SEGMENT_TASK;
    return put(w, k, x->start, at, number, x->phase, w->by, name, x->lane);
}

/* From the return of a launch call to the start of its task, with nothing known in between. A launch takes some microseconds
 * to reach the device; what takes longer waited for something: work before the file began, or another stream. */
static int64_t put_latency(walker *w, uint32_t number, int64_t from, int64_t at, const event *call)
{
    const task *x = &w->g->tasks[number - 1];
    if (at - from <= LATENCY_NS)
        return put(w, SEGMENT_LAUNCH, from, at, number, x->phase, HOW_EXACT, call->name, x->lane);
    return put(w, SEGMENT_WAIT, from, at, number, x->phase, HOW_NONE, x->name, x->lane);
}

/* The gap between the release of x and its start. */
static int64_t put_gap(walker *w, uint32_t number, const task *by, evidence how, int64_t release, int64_t at)
{
    const task *x = &w->g->tasks[number - 1];
    const event *call = x->launch != 0 ? store_event(w->g->s, x->launch - 1) : NULL;
    uint32_t name = x->name;
    if (release >= at)
        return at;
    const event_detail *d = task_more(w->g, x);
    if (d != NULL &&
        d->ready != INT64_MIN) { /* foray: handed over by the host at `ready`, or released by its edges */
        int64_t ready = d->ready < release ? release : d->ready < at ? d->ready : at;
        at = put(w, SEGMENT_RESOURCE, ready, at, number, x->phase, how, name, x->lane);
        return put(w, SEGMENT_HOST, release, at, number, x->phase, how, w->work.untraced, x->lane);
    }
    if (call != NULL && event_end(call) > release && call->start < at &&
        (by == NULL || by->replay != x->replay || x->replay == 0)) {
        int64_t returned = event_end(call) < at
                               ? event_end(call)
                               : at; /* the call still ran when the device had nothing to do */
        at = put_latency(w, number, returned, at, call);
        int64_t from = release > call->start ? release : call->start;
        at = put_host(w, call->lane, from, at, x->phase, number);
        return put(w, SEGMENT_LAUNCH, release, at, number, x->phase, how, call->name, x->lane);
    }
    if (by == NULL && call != NULL)
        return put_latency(w, number, release, at, call);
    bool dispatch =
        by != NULL && (at - release <= DISPATCH_NS || (x->replay != 0 && by->replay == x->replay));
    return put(w, dispatch ? SEGMENT_DISPATCH : SEGMENT_UNKNOWN, release, at, number, x->phase, how, name,
               x->lane);
}

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* What a step of the walk finds: the next task to enter (+ 1), with the cursor at the moment when it is entered. */
static uint32_t leave_task(walker *w, uint32_t number, int64_t *at)
{
    const task_graph *g = w->g;
    const task *x = &g->tasks[number - 1];
    const task *before = x->before != 0 ? &g->tasks[x->before - 1] : NULL;
    const task *cause = x->cause != 0 && x->kind != EVENT_WAIT ? &g->tasks[x->cause - 1] : NULL;
    const event *call = x->launch != 0 ? store_event(g->s, x->launch - 1) : NULL;
    int64_t by_before = before != NULL ? min64(before->end, x->start) : INT64_MIN;
    int64_t by_cause = cause != NULL && cause->start <= x->start ? min64(cause->end, x->start) : INT64_MIN;
    int64_t by_call = call != NULL ? min64(call->start, x->start) : INT64_MIN;
    if (by_call > by_before && by_call > by_cause) {
        *at = put_gap(w, number, NULL, (evidence)HOW_EXACT, by_call, *at);
        if (*at <= w->floor)
            return 0;
        return walk_host(w, call->lane, at, x->phase, number, 0);
    }
    if (by_cause == INT64_MIN &&
        by_before == INT64_MIN) { /* nothing known: the task that ended last before it */
        size_t e = task_graph_ended_by(g, x->start);
        while (e > 0 && (!event_is_work(g->tasks[g->by_end[e - 1]].kind) || g->by_end[e - 1] == number - 1))
            e--;
        *at = put_gap(w, number, NULL, HOW_NONE, e == 0 ? w->floor : g->tasks[g->by_end[e - 1]].end, *at);
        if (e == 0)
            return 0;
        w->by = HOW_NONE;
        return g->by_end[e - 1] + 1;
    }
    bool other = by_cause >= by_before;
    w->by = other ? (evidence)x->cause_how : HOW_EXACT;
    *at = put_gap(w, number, other ? cause : before, other ? (evidence)x->cause_how : HOW_EXACT,
                  other ? by_cause : by_before, *at);
    return other ? x->cause : x->before;
}

/* Enters a task at the cursor, which lies at or before its end, and leaves it at its start. A wait that is resolved is
 * not gone through: the path goes on where its record stands. */
static uint32_t pass_task(walker *w, uint32_t number, int64_t *at)
{
    const task *x = &w->g->tasks[number - 1];
    if (x->kind == EVENT_WAIT && x->cause != 0 && *at == x->end) {
        const task *record = &w->g->tasks[x->cause - 1];
        if (record->end <= *at && record->end > x->start) {
            *at = put(w, SEGMENT_HANDOVER, record->end, *at, number, x->phase, (evidence)x->cause_how,
                      x->name, x->lane);
            w->by = (evidence)x->cause_how;
            return x->cause;
        }
    }
    hook_enter(&w->hook, number);
    *at = put_task(w, number, *at);
    w->by = HOW_EXACT;
    return *at > w->floor ? leave_task(w, number, at) : 0;
}

/* The task at which a step's walk begins: the next step's first task, from its start; for the last step (and where
 * the next one has no task there) the task that ended last. */
static uint32_t last_task(walker *w, const step *x, const step *next, bool *at_start)
{
    const task_graph *g = w->g;
    *at_start = false;
    if (next != NULL && w->a->boundary != BOUNDARY_ROUND) {
        for (size_t i = g->lane_first[g->main_lane], high = g->lane_first[g->main_lane + 1]; i < high;) {
            size_t middle = i + (high - i) / 2;
            if (g->tasks[g->by_lane[middle]].start < next->start)
                i = middle + 1;
            else
                high = middle;
            if (i == high) {
                const task *t = i < g->lane_first[g->main_lane + 1] ? &g->tasks[g->by_lane[i]] : NULL;
                while (t != NULL && t->start == next->start && !event_is_work(t->kind) &&
                       ++i < g->lane_first[g->main_lane + 1])
                    t = &g->tasks[g->by_lane[i]];
                *at_start = t != NULL && t->start == next->start;
                if (*at_start)
                    return g->by_lane[i] + 1;
                break;
            }
        }
    }
    size_t e = task_graph_ended_by(g, x->end);
    while (e > 0 && !event_is_work(g->tasks[g->by_end[e - 1]].kind))
        e--;
    return e > 0 && g->tasks[g->by_end[e - 1]].end > x->start ? g->by_end[e - 1] + 1 : 0;
}

/* Is another walk known to have stood here? */
static bool meets(const walker *w, walk_marks *m, uint32_t number, int64_t at)
{
    if (at > m->from)
        return false;
    while (!atomic_load_explicit(&m->ready, memory_order_acquire))
        sched_yield();
    while (m->next < m->count && m->list[m->next].at > at)
        m->next++;
    for (size_t i = m->next; i < m->count && m->list[i].at == at; i++) {
        const standing *x = &m->list[i];
        if (x->number == number && x->by == w->by && x->hook_at == w->hook.at)
            m->met = x;
    }
    return m->met != NULL;
}

static void leave_mark(const walker *w, walk_marks *m, uint32_t number, int64_t at)
{
    if (m->count == MOST_MARKS)
        return;
    m->list[m->count++] = (standing) { at, w->hook.at, number, w->by, w->out->count };
    if (m->count == MOST_MARKS)
        atomic_store_explicit(&m->ready, true, memory_order_release);
}

/* From task to task, and back to the step's start. */
static void walk_on(walker *w, const step *x, uint32_t number, int64_t at, walk_marks *meet,
                    walk_marks *leave)
{
    size_t turns = 0, most = w->g->count * 2 + 1000;
    while (number != 0 && at > x->start && !w->failed && turns++ < most) {
        if (meet != NULL && meets(w, meet, number, at))
            return;
        if (leave != NULL)
            leave_mark(w, leave, number, at);
        if (atomic_load_explicit(&w->stop, memory_order_relaxed))
            return;
        number = pass_task(w, number, &at);
    }
    if (at > x->start && x->opener != 0)
        at = put_host(w, store_event(w->g->s, x->opener - 1)->lane, x->start, at, PHASE_UNATTRIBUTED, 0);
    if (at > x->start)
        put(w, SEGMENT_UNKNOWN, x->start, at, 0, PHASE_UNATTRIBUTED, HOW_NONE, 0, 0);
}

static void begin_at(walker *w, const step *x)
{
    w->floor = x->start;
    w->by = HOW_EXACT;
    hook_reset(&w->hook);
}

void walk_step(walker *w, size_t i, walk_marks *meet)
{
    const analysis *a = w->a;
    const step *x = &a->steps[i], *next = i + 1 < a->step_count ? &a->steps[i + 1] : NULL;
    int64_t at = x->end;
    bool at_start;
    begin_at(w, x);
    uint32_t number = last_task(w, x, next, &at_start);
    if (number != 0 && !at_start &&
        w->g->tasks[number - 1].end < at) { /* behind the last task only the host goes on */
        const event *e = x->opener != 0 ? store_event(w->g->s, x->opener - 1) : NULL;
        int64_t end = w->g->tasks[number - 1].end;
        if (e != NULL)
            at = put_host(w, e->lane, end, at, PHASE_UNATTRIBUTED, 0);
        else
            at = put(w, SEGMENT_UNKNOWN, end, at, 0, PHASE_UNATTRIBUTED, HOW_NONE, 0, 0);
    }
    if (number != 0 && at_start)
        number = leave_task(w, number, &at);
    walk_on(w, x, number, at, meet, NULL);
}

void walk_from(walker *w, size_t i, uint32_t number, walk_marks *leave)
{
    begin_at(w, &w->a->steps[i]);
    walk_on(w, &w->a->steps[i], number, leave->from, NULL, leave);
    atomic_store_explicit(&leave->ready, true, memory_order_release);
}

/* ---- preparation ------------------------------------------------------------------------------ */

static uint16_t find_main_host(const task_graph *g)
{
    const lane *lanes = g->s->lanes;
    uint16_t best = 0;
    for (size_t l = 0; l < g->t->lanes; l++)
        if (g->t->lane_group[l] == g->group && lanes[l].role == LANE_HOST &&
            (lanes[best].role != LANE_HOST || g->t->lane_group[best] != g->group ||
             lanes[l].events > lanes[best].events))
            best = (uint16_t)l;
    return best;
}

static int open_places(walker *w, foray_error *err)
{
    w->places = mem_alloc_zeroed(MEM_RECORDS, w->g->t->lanes * sizeof *w->places);
    w->wait_places = mem_alloc_zeroed(MEM_RECORDS, w->g->t->lanes * sizeof *w->wait_places);
    return w->places != NULL && w->wait_places != NULL
               ? FORAY_OK
               : fail(err, FORAY_ENOMEM, "out of memory for the path");
}

int walker_open(walker *w, const analysis *a, const rules *r, const host_side *h, const host_waits *waits,
                segment_list *out, foray_error *err)
{
    const task_graph *g = &a->graph;
    *w = (walker) { .a = a, .g = g, .waits = waits, .out = out, .main_host = find_main_host(g) };
    int rc = open_places(w, err);
    if (rc == FORAY_OK)
        rc = host_work_open((store *)g->s, g, r, h, &w->work, err);
    return rc == FORAY_OK ? hook_open(g, &w->hook, err) : rc;
}

int walker_twin(const walker *of, segment_list *out, walker *twin, foray_error *err)
{
    *twin = (walker) { .a = of->a,
                       .g = of->g,
                       .waits = of->waits,
                       .out = out,
                       .main_host = of->main_host,
                       .hook = of->hook,
                       .is_twin = true };
    int rc = open_places(twin, err);
    return rc == FORAY_OK ? host_work_twin(&of->work, &twin->work, err) : rc;
}

void walker_close(walker *w)
{
    if (!w->is_twin)
        hook_close(&w->hook);
    host_work_close(&w->work);
    mem_free(MEM_RECORDS, w->places, w->g->t->lanes * sizeof *w->places);
    mem_free(MEM_RECORDS, w->wait_places, w->g->t->lanes * sizeof *w->wait_places);
}
