/* edges.c: edges between streams, from what each kind of profile knows of them.
 *
 *     foray     arrows from the releasing to the released task                        exact
 *     CUDA      "Stream Wait Event" notes: the last task launched on the recorded stream before the record call
 *               releases the first one launched on the waiting stream after the wait call: exact; without the
 *               record call: the last one before the wait call: good
 *     dumps     of captured graphs, laid over their replays: dump.c                  exact or good
 *     Ascend    a wait that blocked ends at most 0.6 us after the record that released it: good
 *     graphs    a node that starts within 3 us of the end of a node on another stream, while its own stream had been
 *               free for longer: inferred; the same for eager tasks behind a wait call of their thread
 */
#include "timeline/edges.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "timeline/dump.h"

static const int64_t BLOCKING_NS = 1000, RECORD_REACH_NS = 600, JOIN_REACH_NS = 3000, FREE_NS = 1500;

/* Takes `by` as the cause of x unless a later or a surer one is known. */
static void set_cause(task_graph *g, task *x, uint32_t by, evidence how)
{
    const task *old = x->cause != 0 ? &g->tasks[x->cause - 1] : NULL;
    if (old != NULL && (x->cause_how > how || (x->cause_how == how && old->end >= g->tasks[by].end)))
        return;
    x->cause = by + 1;
    x->cause_how = (uint8_t)how;
}

static const event *launch_of(const task_graph *g, const task *x)
{
    return x->launch != 0 ? store_event(g->s, x->launch - 1) : NULL;
}

/* ---- Ascend: waits that are tasks ------------------------------------------------------------- */

/* Of two records that fit, the one whose call came last before the wait's call on the same thread; else the later end. */
static bool fits_better(const task_graph *g, const task *wait, const task *a, const task *b)
{
    const event *call = launch_of(g, wait), *x = launch_of(g, a), *y = launch_of(g, b);
    bool xs = call != NULL && x != NULL && x->lane == call->lane && x->start <= call->start;
    bool ys = call != NULL && y != NULL && y->lane == call->lane && y->start <= call->start;
    if (xs != ys)
        return xs;
    if (xs && x->start != y->start)
        return x->start > y->start;
    return a->end > b->end;
}

static void resolve_waits(store *s, task_graph *g)
{
    for (size_t i = 0; i < g->count; i++) {
        task *x = &g->tasks[i];
        if (x->kind != EVENT_WAIT)
            continue;
        g->waits++;
        if (x->end - x->start <= BLOCKING_NS)
            continue;
        g->waits_blocking++;
        if (x->cause != 0 && x->cause_how == HOW_EXACT) { /* a dump has named its record */
            g->waits_resolved++;
            continue;
        }
        size_t best = SIZE_MAX;
        for (size_t e = task_graph_ended_by(g, x->end);
             e-- > 0 && g->tasks[g->by_end[e]].end >= x->end - RECORD_REACH_NS;) {
            size_t c = g->by_end[e];
            const task *y = &g->tasks[c];
            if (y->kind == EVENT_RECORD && y->lane != x->lane &&
                (best == SIZE_MAX || fits_better(g, x, y, &g->tasks[best])))
                best = c;
        }
        if (best != SIZE_MAX) {
            set_cause(g, x, (uint32_t)best, HOW_GOOD);
            g->waits_resolved++;
        } else {
            s->parts[s->lanes[x->lane].part].faults[FAULT_UNRESOLVED]++;
        }
    }
}

/* ---- CUDA: notes of waits --------------------------------------------------------------------- */

enum { LOOK_BACK = 64 /* tasks without a launch that are passed over */ };

/* The lane of a stream of the same device. SIZE_MAX: no task ran on it. */
static size_t lane_of_stream(const task_graph *g, const lane *like, int64_t stream)
{
    for (size_t l = 0; l < g->t->lanes; l++) {
        const lane *c = &g->s->lanes[l];
        if (g->t->lane_group[l] == g->group && c->role == LANE_STREAM && c->pid == like->pid &&
            c->stream == stream)
            return l;
    }
    return SIZE_MAX;
}

/* When the task at each place of by_lane was launched; where its launch is not in the file, when the nearest one before it was.
 * NULL: no memory. */
static int64_t *list_launches(const task_graph *g)
{
    int64_t *launched = mem_alloc(MEM_RECORDS, g->count * sizeof *launched);
    for (size_t l = 0; launched != NULL && l < g->t->lanes; l++) {
        size_t last = SIZE_MAX; /* the latest place with a launch */
        for (size_t i = g->lane_first[l]; i < g->lane_first[l + 1]; i++) {
            const task *x = &g->tasks[g->by_lane[i]];
            last = x->launch != 0 ? i : last;
            launched[i] = x->launch != 0                             ? x->asked
                          : last != SIZE_MAX && i - last < LOOK_BACK ? launched[last]
                                                                     : x->start;
        }
    }
    return launched;
}

/* Among the tasks of a lane, which are in order of launch: how many were launched before ns. */
static size_t launched_before(const task_graph *g, const int64_t *launched, size_t l, int64_t ns)
{
    size_t low = g->lane_first[l], high = g->lane_first[l + 1];
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (launched[middle] < ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static int64_t call_time(const task_graph *g, uint32_t link, int64_t otherwise)
{
    uint32_t c = calls_with(&g->calls, link);
    return c != 0 ? store_event(g->s, g->calls.event[c - 1])->start : otherwise;
}

static void follow_note(task_graph *g, const int64_t *launched, const event *note)
{
    const event_detail *d = store_more(g->s, note);
    const lane *on = &g->s->lanes[note->lane];
    size_t from = lane_of_stream(g, on, d->wait_stream), to = lane_of_stream(g, on, d->stream);
    if (from == SIZE_MAX || to == SIZE_MAX || from == to)
        return;
    int64_t wait_ns = call_time(g, note->link, note->start);
    bool exact = calls_with(&g->calls, d->record_link) != 0;
    int64_t record_ns = exact ? call_time(g, d->record_link, wait_ns) : wait_ns;
    size_t last = launched_before(g, launched, from, record_ns),
           next = launched_before(g, launched, to, wait_ns);
    if (last == g->lane_first[from] || next == g->lane_first[to + 1])
        return;
    /* A task without a launch may have come behind the record: the last one that is known to have been there counts. */
    for (int turns = 0;
         turns < LOOK_BACK && last - 1 > g->lane_first[from] && g->tasks[g->by_lane[last - 1]].launch == 0;
         turns++)
        last--;
    uint32_t by = g->by_lane[last - 1];
    task *x = &g->tasks[g->by_lane[next]];
    if (g->tasks[by].start < x->start)
        set_cause(g, x, by, exact ? HOW_EXACT : HOW_GOOD);
}

static int follow_notes(task_graph *g, foray_error *err)
{
    g->wait_calls = g->t->groups[g->group].of_kind[EVENT_WAIT_CALL];
    if (g->wait_notes == 0)
        return FORAY_OK;
    int64_t *launched = list_launches(g);
    if (launched == NULL)
        return fail(err, FORAY_ENOMEM, "out of memory for %zu tasks", g->count);
    for (size_t i = 0; i < g->wait_notes; i++)
        follow_note(g, launched, store_event(g->s, g->notes[i]));
    mem_free(MEM_RECORDS, launched, g->count * sizeof *launched);
    return FORAY_OK;
}

/* ---- foray and Ascend: arrows ----------------------------------------------------------------- */

static int compare_flows(const void *a, const void *b)
{
    const flow *x = *(const flow *const *)a, *y = *(const flow *const *)b;
    if (x->what != y->what)
        return x->what < y->what ? -1 : 1;
    if (x->id != y->id)
        return x->id < y->id ? -1 : 1;
    return x->finish - y->finish;
}

/* The task of a lane that starts at ns, or, `ends`, that ends there; SIZE_MAX. */
static size_t task_at(const task_graph *g, size_t l, int64_t ns, bool ends)
{
    if (ends) {
        for (size_t e = task_graph_ended_by(g, ns); e-- > 0 && g->tasks[g->by_end[e]].end == ns;)
            if (g->tasks[g->by_end[e]].lane == l)
                return g->by_end[e];
        return SIZE_MAX;
    }
    size_t low = g->lane_first[l], high = g->lane_first[l + 1];
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (g->tasks[g->by_lane[middle]].start < ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low < g->lane_first[l + 1] && g->tasks[g->by_lane[low]].start == ns ? g->by_lane[low] : SIZE_MAX;
}

/* The innermost host event of a lane that contains ns; 0: none. */
static uint32_t host_event_at(const task_graph *g, size_t l, int64_t ns)
{
    size_t low = g->t->first[l], high = g->t->first[l + 1];
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (store_event(g->s, g->t->order[middle])->start <= ns)
            low = middle + 1;
        else
            high = middle;
    }
    for (size_t i = low, looked = 0; i-- > g->t->first[l] && looked < 64; looked++)
        if (event_end(store_event(g->s, g->t->order[i])) >= ns)
            return g->t->order[i] + 1;
    return 0;
}

static void follow_arrow(task_graph *g, const flow *from, const flow *to)
{
    size_t x = task_at(g, to->lane, to->ts, false);
    if (x == SIZE_MAX)
        return;
    if (to->what == FLOW_LAUNCH) {
        if (g->tasks[x].launch == 0)
            g->tasks[x].launch = host_event_at(g, from->lane, from->ts);
        return;
    }
    size_t by = task_at(g, from->lane, from->ts, true);
    if (by != SIZE_MAX && by != x)
        set_cause(g, &g->tasks[x], (uint32_t)by, HOW_EXACT);
}

static int follow_arrows(task_graph *g, foray_error *err)
{
    size_t n = g->s->flow_count;
    if (n == 0)
        return FORAY_OK;
    const flow **list = mem_alloc(MEM_RECORDS, n * sizeof *list);
    if (list == NULL)
        return fail(err, FORAY_ENOMEM, "out of memory for %zu arrows", n);
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if (g->t->lane_group[g->s->flows[i].lane] == g->group)
            list[kept++] = &g->s->flows[i];
    qsort(list, kept, sizeof *list, compare_flows);
    for (size_t i = 0;
         i < kept;) { /* starts of an id come before its ends; all ends belong to the first start */
        size_t j = i;
        while (j < kept && list[j]->what == list[i]->what && list[j]->id == list[i]->id)
            j++;
        for (size_t k = i + 1; k < j; k++)
            if (!list[i]->finish && list[k]->finish)
                follow_arrow(g, list[i], list[k]);
        i = j;
    }
    mem_free(MEM_RECORDS, list, n * sizeof *list);
    return FORAY_OK;
}

/* ---- joins that no record names --------------------------------------------------------------- */

/* Did the thread make a stream wait between the launches of x and of the task before it? */
static bool waited_between(const task_graph *g, const task *before, const task *x)
{
    const event *a = launch_of(g, before), *b = launch_of(g, x);
    if (a == NULL || b == NULL || a->lane != b->lane)
        return false;
    size_t l = a->lane, low = g->t->first[l], high = g->t->first[l + 1];
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (store_event(g->s, g->t->order[middle])->start <= a->start)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < g->t->first[l + 1]; low++) {
        const event *e = store_event(g->s, g->t->order[low]);
        if (e->start >= b->start)
            return false;
        if (e->kind == EVENT_WAIT_CALL)
            return true;
    }
    return false;
}

static void infer_joins(task_graph *g)
{
    for (size_t i = 0; i < g->count; i++) {
        task *x = &g->tasks[i];
        const event *call = launch_of(g, x);
        if (x->cause != 0 || x->kind == EVENT_WAIT || x->edges_known ||
            (x->replay == 0 && (g->wait_calls == 0 || g->wait_notes > 0)))
            continue;
        const task *before = x->before != 0 ? &g->tasks[x->before - 1] : NULL;
        /* A replay's first node of a stream waits for whatever came before the launch. */
        bool opens = x->replay != 0 && (before == NULL || before->replay != x->replay);
        int64_t own = before != NULL ? before->end : INT64_MIN;
        own = call != NULL && call->start > own ? call->start : own;
        if (own == INT64_MIN || x->start - own <= FREE_NS)
            continue;
        for (size_t e = task_graph_ended_by(g, x->start); e-- > 0;) {
            const task *y = &g->tasks[g->by_end[e]];
            if (y->end < x->start - JOIN_REACH_NS || y->end <= own)
                break;
            if (y->lane == x->lane || !event_is_work(y->kind))
                continue;
            if (x->replay != 0 ? y->replay != x->replay && !opens
                               : before == NULL || !waited_between(g, before, x))
                continue;
            set_cause(g, x, g->by_end[e], HOW_INFERRED);
            break;
        }
    }
}

int edges_find(store *s, task_graph *g, foray_error *err)
{
    int rc = dump_join(s, g, err);
    if (rc != FORAY_OK)
        return rc;
    resolve_waits(s, g);
    rc = follow_notes(g, err);
    if (rc == FORAY_OK)
        rc = follow_arrows(g, err);
    if (rc == FORAY_OK)
        infer_joins(g);
    return rc;
}
