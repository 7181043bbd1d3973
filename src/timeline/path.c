/* path.c: the critical path of each step, walked backwards from its end.
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
#include <string.h>

#include "base/mem.h"
#include "timeline/analysis.h"
#include "timeline/hook.h"
#include "timeline/list.h"
#include "timeline/ranks.h"

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

enum { REACH = 16 };

/* A moment at which a host thread may have waited: the end of a call that waits for the device, or the start of work that
 * came through a queue from another thread. */
typedef struct {
    int64_t start, end; /* of the wait: a queue's work has free_since and its own start */
    uint32_t event;
} block;

typedef struct {
    analysis *a;
    task_graph *g;
    const rules *r;
    block *blocks;       /* by lane, in order of their end */
    size_t *block_first; /* [lanes + 1] */
    size_t block_count;
    /* Of each REACH places in `order`: the latest end among the events on their lane, before them and in them. */
    int64_t *reach, *inside;        /* [events / REACH + 1] */
    uint16_t *words_of;             /* [names] index of the host rule + 2; 1: none; 0: not asked */
    uint32_t *word_name;            /* [rules] number of a host rule's words */
    uint32_t untraced, queue_words; /* numbers of the words for nothing known, and for waiting in a queue */
    uint16_t main_host;             /* the thread with most events */
    int64_t floor;                  /* start of the step being walked */
    evidence by;                    /* of the edge that led to the task which is entered next */
    hook hook;                      /* from where on communication is exposed */
    bool failed;
} walker;

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
    analysis *a = w->a;
    size_t chunk = a->path_count >> PATH_CHUNK_BITS, before = a->path_chunk_cap;
    if (list_reserve(&a->path_chunks, &a->path_chunk_cap, chunk + 1, sizeof *a->path_chunks)) {
        memset(a->path_chunks + before, 0, (a->path_chunk_cap - before) * sizeof *a->path_chunks);
        if (a->path_chunks[chunk] == NULL)
            a->path_chunks[chunk] = mem_alloc(MEM_RECORDS, PATH_CHUNK * sizeof(segment));
    }
    if (chunk >= a->path_chunk_cap || a->path_chunks[chunk] == NULL) {
        w->failed = true;
        return from;
    }
    *path_at(a, a->path_count++) = (segment) { .from = from,
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

static uint32_t words_for(walker *w, uint32_t name)
{
    if (w->words_of[name] == 0) {
        w->words_of[name] = 1;
        for (size_t i = 0; i < w->r->count && w->words_of[name] == 1; i++)
            if (w->r->rules[i].kind == RULE_HOST &&
                names_match(w->r->rules[i].pattern, names_text(&w->g->s->names, name)))
                w->words_of[name] = (uint16_t)(i + 2);
    }
    return w->words_of[name] == 1 ? 0 : w->word_name[w->words_of[name] - 2];
}

static size_t events_from(const task_graph *g, size_t l, int64_t ns)
{
    size_t low = g->t->first[l], high = g->t->first[l + 1];
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (store_event(g->s, g->t->order[middle])->start < ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The words for what a thread does at the instant before `to`, and since when (at least `from`): those of the innermost
 * event for which a rule has some, else the innermost event's name. at: how many events in `order` begin before `to`. */
static int64_t host_piece(walker *w, size_t l, size_t at, int64_t from, int64_t to, uint32_t *words)
{
    enum { LOOK_BACK = 160 };
    const task_graph *g = w->g;
    size_t first = g->t->first[l], least = at - first > LOOK_BACK ? at - LOOK_BACK : first;
    int64_t since = from, plain_since = from;
    uint32_t plain = 0;
    *words = 0;
    for (size_t i = at; i > least && *words == 0;) {
        if (i % REACH == 0) {
            int64_t before = i < g->t->first[l + 1] ? w->reach[i / REACH] : INT64_MAX;
            if (before < to) { /* nothing from before this place reaches up to here */
                since = before > since ? before : since;
                break;
            }
            int64_t inside = w->inside[i / REACH - 1];
            if (i >= least + REACH && inside < to) {
                since = inside > since ? inside : since;
                i -= REACH;
                continue;
            }
        }
        const event *e = store_event(g->s, g->t->order[--i]);
        if (e->kind == EVENT_OTHER)
            continue;
        int64_t end = event_end(e);
        if (end < to) { /* over before: what comes behind it began there at the earliest */
            since = end > since ? end : since;
            continue;
        }
        uint32_t found = words_for(w, e->name);
        if (found != 0) {
            *words = found;
            if (e->start > since)
                since = e->start;
        } else if (plain == 0) {
            plain = e->name;
            plain_since = e->start;
        }
    }
    if (*words == 0 && plain != 0) {
        *words = plain;
        since = plain_since > since ? plain_since : since;
    } else if (*words == 0) {
        *words = w->untraced;
    }
    return since < to ? since : from;
}

/* Lays [from, to] of a host thread down as segments by what the thread did; equal neighbours become one. */
static int64_t put_host(walker *w, uint16_t l, int64_t from, int64_t to, uint8_t owner, uint32_t for_task)
{
    if (from < w->floor)
        from = w->floor;
    const task_graph *g = w->g;
    size_t at = events_from(g, l, to);
    for (size_t pieces = 0; to > from && !w->failed; pieces++) {
        uint32_t words = w->untraced;
        while (at > g->t->first[l] && store_event(g->s, g->t->order[at - 1])->start >= to)
            at--;
        int64_t since = pieces < 4096 ? host_piece(w, l, at, from, to, &words) : from;
        segment *next = w->a->path_count > 0 ? path_at(w->a, w->a->path_count - 1) : NULL;
        if (next != NULL && next->from == to && next->kind == SEGMENT_HOST && next->words == words &&
            next->lane == l && next->owner == owner && pieces > 0)
            next->from = since;
        else
            put(w, SEGMENT_HOST, since, to, for_task, owner, HOW_EXACT, words, l);
        to = since;
    }
    return to;
}

/* The task for which a call waited: the copy's own; else the one that ended last before the call returned, if it was
 * still running when the call began. SIZE_MAX: it did not wait. */
static size_t waited_for(const walker *w, const block *b)
{
    const task_graph *g = w->g;
    const event *call = store_event(g->s, b->event);
    for (size_t e = task_graph_ended_by(g, b->end), looked = 0; e-- > 0 && looked < 4096; looked++) {
        const task *x = &g->tasks[g->by_end[e]];
        if (x->end <= b->start)
            break;
        if (call->kind == EVENT_COPY_CALL ? x->launch == b->event + 1
                                          : event_is_work(x->kind) && x->asked <= b->start)
            return g->by_end[e];
    }
    return SIZE_MAX;
}

/* Since when the thread has been busy without a pause, looking back from `at` no further than `from`. */
static int64_t busy_since(const walker *w, size_t l, int64_t from, int64_t at)
{
    enum { LOOK_BACK = 512 };
    const task_graph *g = w->g;
    int64_t since = at;
    size_t i = events_from(g, l, at), looked = 0;
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

/* Walks back on thread l from `at` until a call waited for a task; returns that task + 1 with the cursor moved to its end,
 * or 0 with the cursor at the step's start. Work that came through a queue leads to the thread that made the entry; a
 * thread that did nothing before (autograd's) was set to work by the program's main thread, which is only inferred. */
static uint32_t walk_host(walker *w, uint16_t l, int64_t *at, uint8_t owner, uint32_t for_task, int depth)
{
    size_t low = w->block_first[l], high = w->block_first[l + 1], x = SIZE_MAX;
    const event *made = NULL;
    const block *b = NULL;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (w->blocks[middle].end <= *at)
            low = middle + 1;
        else
            high = middle;
    }
    for (size_t i = low;
         i-- > w->block_first[l] && w->blocks[i].end > w->floor && x == SIZE_MAX && made == NULL;) {
        b = &w->blocks[i];
        const event *e = store_event(w->g->s, b->event);
        if (e->kind == EVENT_DEQUEUE) { /* was the thread idle until the entry came? */
            uint32_t entry = task_graph_entry(w->g, e->link);
            made = entry != 0 ? store_event(w->g->s, entry - 1) : NULL;
            if (made != NULL && (made->lane == l || event_end(made) > b->end || event_end(made) <= b->start))
                made = NULL;
        } else {
            x = waited_for(w, b);
            if (x != SIZE_MAX && w->g->tasks[x].end > *at)
                x = SIZE_MAX;
        }
    }
    int64_t until = x != SIZE_MAX || made != NULL ? b->end : w->floor;
    if (l != w->main_host) {
        int64_t since = busy_since(w, l, until, *at);
        if (since > until) {
            *at = put_host(w, l, since, *at, owner, for_task);
            return change_thread(w, w->main_host, at, owner, for_task, depth);
        }
    }
    *at = put_host(w, l, until, *at, owner, for_task);
    if (made != NULL) {
        *at = put(w, SEGMENT_HOST, event_end(made), *at, for_task, owner, HOW_EXACT, w->queue_words, l);
        return change_thread(w, made->lane, at, owner, for_task, depth);
    }
    if (x == SIZE_MAX)
        return 0;
    *at = put(w, SEGMENT_RETURN, w->g->tasks[x].end, *at, for_task, owner, HOW_GOOD,
              store_event(w->g->s, b->event)->name, l);
    return (uint32_t)x + 1;
}

/* ---- the device ------------------------------------------------------------------------------- */

/* The part of communication that ends at the cursor and lies before the hook: the path runs through it, but nobody waits yet,
 * so it is its stage's work and not exposed. Lays down what is exposed as kind, from no earlier than `from`. */
static int64_t put_exposed(walker *w, segment_kind kind, uint32_t number, int64_t from, int64_t at,
                           evidence how)
{
    const task *x = &w->g->tasks[number - 1];
    const uint32_t name = task_event(w->g, x)->name;
    at = put(w, kind, hook_cut(&w->hook, from, at), at, number, x->phase, how, name, x->lane);
    return put(w, SEGMENT_TASK, from, at, number, x->phase, how, name, x->lane);
}

/* Lays down a wait for a peer; rank -1: which one is not known. */
static int64_t put_peer_wait(walker *w, uint32_t number, int64_t from, int64_t at, int rank, evidence how)
{
    size_t n = w->a->path_count;
    at = put_exposed(w, SEGMENT_PEER_WAIT, number, from, at, how);
    if (w->a->path_count > n && path_at(w->a, n)->kind == SEGMENT_PEER_WAIT && rank >= 0 && rank < UINT16_MAX)
        path_at(w->a, n)->peer = (uint16_t)(rank + 1);
    return at;
}

/* Lays down the part of a task that ends at the cursor. */
static int64_t put_task(walker *w, uint32_t number, int64_t at)
{
    const task *x = &w->g->tasks[number - 1];
    uint32_t name = task_event(w->g, x)->name;
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
    return put(w, SEGMENT_WAIT, from, at, number, x->phase, HOW_NONE, task_event(w->g, x)->name, x->lane);
}

/* The gap between the release of x and its start. */
static int64_t put_gap(walker *w, uint32_t number, const task *by, evidence how, int64_t release, int64_t at)
{
    const task *x = &w->g->tasks[number - 1];
    const event *call = x->launch != 0 ? store_event(w->g->s, x->launch - 1) : NULL;
    uint32_t name = task_event(w->g, x)->name;
    if (release >= at)
        return at;
    const event_detail *d = store_more(w->g->s, task_event(w->g, x));
    if (d != NULL &&
        d->ready != INT64_MIN) { /* foray: handed over by the host at `ready`, or released by its edges */
        int64_t ready = d->ready < release ? release : d->ready < at ? d->ready : at;
        at = put(w, SEGMENT_RESOURCE, ready, at, number, x->phase, how, name, x->lane);
        return put(w, SEGMENT_HOST, release, at, number, x->phase, how, w->untraced, x->lane);
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
    task_graph *g = w->g;
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
                      task_event(w->g, x)->name, x->lane);
            w->by = (evidence)x->cause_how;
            return x->cause;
        }
    }
    hook_enter(&w->hook, number);
    *at = put_task(w, number, *at);
    w->by = HOW_EXACT;
    return *at > w->floor ? leave_task(w, number, at) : 0;
}

static void reverse(const analysis *a, size_t first, size_t n)
{
    for (size_t i = 0; i < n / 2; i++) {
        segment *x = path_at(a, first + i), *y = path_at(a, first + n - 1 - i), other = *x;
        *x = *y;
        *y = other;
    }
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

static void walk_step(walker *w, size_t i)
{
    analysis *a = w->a;
    step *x = &a->steps[i];
    const step *next = i + 1 < a->step_count ? &a->steps[i + 1] : NULL;
    int64_t at = x->end;
    bool at_start;
    x->first_segment = a->path_count;
    w->floor = x->start;
    w->by = HOW_EXACT;
    hook_reset(&w->hook);
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
    size_t turns = 0, most = w->g->count * 2 + 1000;
    while (number != 0 && at > x->start && !w->failed && turns++ < most)
        number = pass_task(w, number, &at);
    if (at > x->start && x->opener != 0)
        at = put_host(w, store_event(w->g->s, x->opener - 1)->lane, x->start, at, PHASE_UNATTRIBUTED, 0);
    if (at > x->start)
        put(w, SEGMENT_UNKNOWN, x->start, at, 0, PHASE_UNATTRIBUTED, HOW_NONE, 0, 0);
    x->segments = a->path_count - x->first_segment;
    reverse(a, x->first_segment, x->segments);
}

/* ---- preparation ------------------------------------------------------------------------------ */

static bool may_block(const event *e)
{
    return ((e->kind == EVENT_SYNC_CALL || e->kind == EVENT_COPY_CALL) && e->dur > 0) ||
           e->kind == EVENT_DEQUEUE;
}

static int list_blocks(walker *w, foray_error *err)
{
    const task_graph *g = w->g;
    size_t n = 0;
    for (int pass = 0; pass < 2; pass++) {
        if (pass == 1) {
            w->blocks = mem_alloc(MEM_RECORDS, n * sizeof *w->blocks);
            w->block_first = mem_alloc_zeroed(MEM_RECORDS, (g->t->lanes + 1) * sizeof *w->block_first);
            if (w->blocks == NULL || w->block_first == NULL) {
                mem_free(MEM_RECORDS, w->blocks, n * sizeof *w->blocks);
                w->blocks = NULL;
                return fail(err, FORAY_ENOMEM, "out of memory for %zu calls", n);
            }
            w->block_count = n;
            n = 0;
        }
        for (size_t l = 0; l < g->t->lanes; l++) {
            int64_t free_since = INT64_MIN;
            for (size_t i = g->t->first[l]; g->t->lane_group[l] == g->group && i < g->t->first[l + 1]; i++) {
                const event *e = store_event(g->s, g->t->order[i]);
                if (!may_block(e))
                    continue;
                size_t place = n++;
                if (pass == 0)
                    continue;
                block b = { e->start, event_end(e), g->t->order[i] };
                if (e->kind == EVENT_DEQUEUE) {
                    b = (block) { free_since, e->start, g->t->order[i] };
                    free_since = event_end(e);
                }
                /* nested calls end in another order than they start */
                while (place > w->block_first[l] && w->blocks[place - 1].end > b.end) {
                    w->blocks[place] = w->blocks[place - 1];
                    place--;
                }
                w->blocks[place] = b;
            }
            if (pass == 1)
                w->block_first[l + 1] = n;
        }
    }
    return FORAY_OK;
}

/* Where most of the first step passes before its first task, in a wait for something that the file does not hold (the
 * end of the step before), the step begins behind that wait. */
static void trim_first(walker *w)
{
    analysis *a = w->a;
    step *x = &a->steps[0];
    int64_t wall = x->end - x->start, first = x->end;
    for (size_t i = a->graph.count; i-- > 0;)
        if (a->graph.tasks[i].step == 1 && event_is_work(a->graph.tasks[i].kind))
            first = a->graph.tasks[i].start;
    for (size_t i = 0; i < x->segments; i++) {
        const segment *s = path_at(a, x->first_segment + i);
        if (s->to > first)
            return;
        if ((s->kind == SEGMENT_WAIT || s->kind == SEGMENT_UNKNOWN) && s->to - s->from > wall / 10 &&
            s->to < x->end) {
            a->trimmed_ns = s->to - x->start;
            x->start = s->to;
            a->path_count = x->first_segment;
            walk_step(w, 0);
            return;
        }
    }
}

/* Notes how far events reach, so that a look back can stop where nothing earlier matters. */
static int note_reach(walker *w, foray_error *err)
{
    const settled *t = w->g->t;
    w->reach = mem_alloc(MEM_RECORDS, (t->events / REACH + 1) * sizeof *w->reach);
    w->inside = mem_alloc(MEM_RECORDS, (t->events / REACH + 1) * sizeof *w->inside);
    if (w->reach == NULL || w->inside == NULL)
        return fail(err, FORAY_ENOMEM, "out of memory for the path");
    for (size_t l = 0; l < t->lanes; l++) {
        int64_t before = INT64_MIN, inside = INT64_MIN;
        for (size_t i = t->first[l]; i < t->first[l + 1]; i++) {
            if (i % REACH == 0) {
                w->reach[i / REACH] = before;
                inside = INT64_MIN;
            }
            const event *e = store_event(w->g->s, t->order[i]);
            int64_t end = e->kind != EVENT_OTHER ? event_end(e) : INT64_MIN;
            before = end > before ? end : before;
            inside = end > inside ? end : inside;
            w->inside[i / REACH] = inside;
        }
    }
    return FORAY_OK;
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

int path_walk(analysis *a, const rules *r, foray_error *err)
{
    walker w = { .a = a, .g = &a->graph, .r = r };
    store *s = (store *)a->graph.s;
    size_t name_room = 0;
    int rc = list_blocks(&w, err);
    if (rc == FORAY_OK)
        rc = note_reach(&w, err);
    if (rc == FORAY_OK)
        rc = hook_open(&a->graph, &w.hook, err);
    w.word_name = mem_alloc_zeroed(MEM_RECORDS, (r->count + 1) * sizeof *w.word_name);
    for (size_t i = 0; w.word_name != NULL && i < r->count; i++)
        if (r->rules[i].kind == RULE_HOST)
            w.word_name[i] = names_add(&s->names, r->rules[i].words, strlen(r->rules[i].words));
    for (size_t l = 0; l < a->graph.t->lanes; l++)
        if (a->graph.t->lane_group[l] == a->graph.group && s->lanes[l].role == LANE_HOST &&
            (s->lanes[w.main_host].role != LANE_HOST ||
             a->graph.t->lane_group[w.main_host] != a->graph.group ||
             s->lanes[l].events > s->lanes[w.main_host].events))
            w.main_host = (uint16_t)l;
    static const char UNTRACED[] = "nothing traced";
    w.untraced = names_add(&s->names, UNTRACED, sizeof UNTRACED - 1);
    static const char QUEUE[] = "operator queue";
    w.queue_words = names_add(&s->names, QUEUE, sizeof QUEUE - 1);
    name_room = s->names.count;
    w.words_of = mem_alloc_zeroed(MEM_RECORDS, name_room * sizeof *w.words_of);
    if (rc == FORAY_OK && (w.word_name == NULL || w.words_of == NULL))
        rc = fail(err, FORAY_ENOMEM, "out of memory for the path");
    for (size_t i = 0; i < a->step_count && rc == FORAY_OK; i++) {
        walk_step(&w, i);
        if (i == 0 && a->boundary != BOUNDARY_ROUND)
            trim_first(&w);
        a->sums_checked++;
        a->sums_wrong += !check_sum(a, &a->steps[i]);
        if (w.failed)
            rc = fail(err, FORAY_ENOMEM, "out of memory for the path");
    }
    hook_close(&w.hook);
    mem_free(MEM_RECORDS, w.blocks, w.block_count * sizeof *w.blocks);
    mem_free(MEM_RECORDS, w.reach, (a->graph.t->events / REACH + 1) * sizeof *w.reach);
    mem_free(MEM_RECORDS, w.inside, (a->graph.t->events / REACH + 1) * sizeof *w.inside);
    mem_free(MEM_RECORDS, w.block_first, (a->graph.t->lanes + 1) * sizeof *w.block_first);
    mem_free(MEM_RECORDS, w.word_name, (r->count + 1) * sizeof *w.word_name);
    mem_free(MEM_RECORDS, w.words_of, name_room * sizeof *w.words_of);
    return rc;
}
