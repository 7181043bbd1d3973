/* task_graph.c: tasks, their launches, replays and order; edges between streams are in edges.c.
 *
 * A stream runs in order, yet its tasks may overlap (dependent launch, sub-tasks of one Ascend task): the predecessor
 * of a task is the latest-started one that still runs when it starts, else the one that ended last.
 */
#include "timeline/task_graph.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "timeline/edges.h"
#include "timeline/list.h"

const char *evidence_name(evidence e)
{
    static const char *const text[] = { "none", "inferred", "good", "exact" };
    return text[e];
}

/* ---- calls by link ---------------------------------------------------------------------------- */

static size_t link_hash(uint32_t link)
{
    return link * 0x9e3779b1u >> 7;
}

/* Links mostly count up: calls whose links are near lie near, so that going through them in order stays in the caches. */
static size_t call_place(const task_graph *g, uint32_t link)
{
    const uint32_t near = 64;
    return ((link_hash(link / near) * near) + link % near) & (g->call_slots - 1);
}

uint32_t task_graph_call(const task_graph *g, uint32_t link)
{
    if (g->call_slots == 0 || link == 0)
        return 0;
    for (size_t at = call_place(g, link); g->call_slot[at].call != 0; at = (at + 1) & (g->call_slots - 1))
        if (g->call_slot[at].link == link)
            return g->call_slot[at].call;
    return 0;
}

static bool launches(const event *e)
{
    return e->link != 0 && e->kind >= EVENT_LAUNCH && e->kind <= EVENT_CALL;
}

static int index_calls(task_graph *g, foray_error *err)
{
    size_t n = 0;
    for (size_t l = 0; l < g->t->lanes; l++)
        for (size_t i = g->t->first[l]; g->t->lane_group[l] == g->group && i < g->t->first[l + 1]; i++)
            n += launches(store_event(g->s, g->t->order[i]));
    g->calls = n;
    g->call_slots = 16;
    while (g->call_slots < n * 2)
        g->call_slots *= 2;
    g->call_slot = mem_alloc_zeroed(MEM_RECORDS, g->call_slots * sizeof *g->call_slot);
    g->call_event = mem_alloc(MEM_RECORDS, n * sizeof *g->call_event);
    g->call_next = mem_alloc_zeroed(MEM_RECORDS, n * sizeof *g->call_next);
    if (g->call_slot == NULL || g->call_event == NULL || g->call_next == NULL)
        return fail(err, FORAY_ENOMEM, "out of memory for %zu calls", n);
    n = 0;
    for (size_t l = 0; l < g->t->lanes; l++) {
        for (size_t i = g->t->first[l]; g->t->lane_group[l] == g->group && i < g->t->first[l + 1]; i++) {
            const event *e = store_event(g->s, g->t->order[i]);
            if (!launches(e))
                continue;
            uint32_t found = task_graph_call(g, e->link);
            g->call_event[n] = g->t->order[i];
            if (found != 0) {
                g->call_next[n] = g->call_next[found - 1];
                g->call_next[found - 1] = (uint32_t)n + 1;
            } else {
                size_t at = call_place(g, e->link);
                while (g->call_slot[at].call != 0)
                    at = (at + 1) & (g->call_slots - 1);
                g->call_slot[at] = (call_slot) { e->link, (uint32_t)n + 1 };
            }
            n++;
        }
    }
    return FORAY_OK;
}

/* ---- the operator queue ----------------------------------------------------------------------- */

uint32_t task_graph_entry(const task_graph *g, uint32_t link)
{
    if (g->entry_slots == 0 || link == 0)
        return 0;
    for (size_t at = link_hash(link) & (g->entry_slots - 1); g->entry_slot[at] != 0;
         at = (at + 1) & (g->entry_slots - 1))
        if (store_event(g->s, g->entry_slot[at] - 1)->link == link)
            return g->entry_slot[at];
    return 0;
}

static int index_entries(task_graph *g, foray_error *err)
{
    size_t n = 0;
    for (int pass = 0; pass < 2; pass++) {
        if (pass == 1) {
            size_t slots = 16;
            while (slots < n * 2)
                slots *= 2;
            g->entry_slot = n > 0 ? mem_alloc_zeroed(MEM_RECORDS, slots * sizeof *g->entry_slot) : NULL;
            if (n == 0)
                return FORAY_OK;
            if (g->entry_slot == NULL)
                return fail(err, FORAY_ENOMEM, "out of memory for %zu queue entries", n);
            g->entry_slots = slots;
        }
        for (size_t i = 0; i < g->s->count; i++) {
            const event *e = store_event(g->s, i);
            if (e->kind != EVENT_ENQUEUE || e->link == 0 || g->t->lane_group[e->lane] != g->group)
                continue;
            n++;
            size_t at = link_hash(e->link) & (g->entry_slots - 1);
            while (pass == 1 && g->entry_slot[at] != 0)
                at = (at + 1) & (g->entry_slots - 1);
            if (pass == 1)
                g->entry_slot[at] = (uint32_t)i + 1;
        }
    }
    return FORAY_OK;
}

static bool is_launch_kind(unsigned kind)
{
    return kind == EVENT_LAUNCH || kind == EVENT_GRAPH_LAUNCH || kind == EVENT_COPY_CALL;
}

/* Of the calls with the task's link: a launching kind before any other, the latest one that began before the task,
 * else the earliest. *several: more than one launching call has the link. */
static uint32_t find_launch(const task_graph *g, const event *e, bool *several)
{
    uint32_t best = 0;
    int kinds = 0;
    for (uint32_t c = task_graph_call(g, e->link); c != 0; c = g->call_next[c - 1]) {
        uint32_t candidate = g->call_event[c - 1];
        const event *x = store_event(g->s, candidate), *b = best != 0 ? store_event(g->s, best - 1) : NULL;
        kinds += is_launch_kind(x->kind);
        bool better = b == NULL || (is_launch_kind(x->kind) && !is_launch_kind(b->kind));
        if (!better && is_launch_kind(x->kind) == is_launch_kind(b->kind)) {
            bool x_before = x->start <= e->start, b_before = b->start <= e->start;
            better = x_before != b_before ? x_before : x_before ? x->start > b->start : x->start < b->start;
        }
        if (better)
            best = candidate + 1;
    }
    *several = kinds > 1;
    return best;
}

/* ---- tasks ------------------------------------------------------------------------------------ */

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

static int compare_ends(const void *a, const void *b, void *user)
{
    const task *tasks = user;
    uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
    if (tasks[i].end != tasks[j].end)
        return tasks[i].end < tasks[j].end ? -1 : 1;
    return i < j ? -1 : i > j;
}

static void take_tasks(task_graph *g)
{
    size_t n = 0;
    for (size_t l = 0; l < g->t->lanes; l++) {
        for (size_t i = g->t->first[l]; g->t->lane_group[l] == g->group && i < g->t->first[l + 1]; i++) {
            uint32_t index = g->t->order[i];
            const event *e = store_event(g->s, index);
            if (!event_is_task(e->kind) || (e->flags & EVENT_DUPLICATE) != 0)
                continue;
            g->tasks[n++] = (task) {
                .start = e->start, .end = event_end(e), .event = index, .lane = (uint16_t)l, .kind = e->kind
            };
        }
    }
    g->count = n;
}

static int order_tasks(task_graph *g, foray_error *err)
{
    size_t n = g->t->groups[g->group].tasks;
    g->tasks = mem_alloc(MEM_RECORDS, n * sizeof *g->tasks);
    g->by_end = mem_alloc(MEM_RECORDS, n * sizeof *g->by_end);
    g->by_lane = mem_alloc(MEM_RECORDS, n * sizeof *g->by_lane);
    g->lane_first = mem_alloc_zeroed(MEM_RECORDS, (g->t->lanes + 1) * sizeof *g->lane_first);
    if (g->tasks == NULL || g->by_end == NULL || g->by_lane == NULL || g->lane_first == NULL)
        return fail(err, FORAY_ENOMEM, "out of memory for %zu tasks", n);
    take_tasks(g);
    bool sorted = true;
    for (size_t i = 1; i < g->count && sorted; i++)
        sorted = compare_tasks(&g->tasks[i - 1], &g->tasks[i]) <= 0;
    if (!sorted)
        qsort(g->tasks, g->count, sizeof *g->tasks, compare_tasks);
    bool ends_sorted = true;
    for (size_t i = 0; i < g->count; i++) {
        g->by_end[i] = (uint32_t)i;
        g->lane_first[g->tasks[i].lane + 1]++;
        ends_sorted = ends_sorted && (i == 0 || g->tasks[i - 1].end <= g->tasks[i].end);
    }
    if (!ends_sorted)
        qsort_r(g->by_end, g->count, sizeof *g->by_end, compare_ends, g->tasks);
    for (size_t l = 0; l < g->t->lanes; l++)
        g->lane_first[l + 1] += g->lane_first[l];
    size_t *at = mem_alloc(MEM_RECORDS, (g->t->lanes + 1) * sizeof *at);
    if (at == NULL)
        return fail(err, FORAY_ENOMEM, "out of memory");
    memcpy(at, g->lane_first, (g->t->lanes + 1) * sizeof *at);
    for (size_t i = 0; i < g->count; i++)
        g->by_lane[at[g->tasks[i].lane]++] = (uint32_t)i;
    mem_free(MEM_RECORDS, at, (g->t->lanes + 1) * sizeof *at);
    return FORAY_OK;
}

size_t task_graph_ended_by(const task_graph *g, int64_t ns)
{
    size_t low = 0, high = g->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (g->tasks[g->by_end[middle]].end <= ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* ---- order on a stream ------------------------------------------------------------------------ */

enum { MOST_RUNNING = 256 };

static void order_stream(store *s, task_graph *g, const uint32_t *list, size_t n)
{
    uint32_t running[MOST_RUNNING], ended = 0; /* index + 1 of the one that ended last */
    size_t runs = 0;
    for (size_t i = 0; i < n; i++) {
        task *x = &g->tasks[list[i]];
        size_t kept = 0;
        for (size_t r = 0; r < runs; r++) {
            const task *y = &g->tasks[running[r] - 1];
            if (y->end > x->start)
                running[kept++] = running[r];
            else if (ended == 0 || y->end >= g->tasks[ended - 1].end)
                ended = running[r];
        }
        runs = kept;
        x->before = runs > 0 ? running[runs - 1] : ended;
        if (runs > 0) {
            const lane *l = &s->lanes[x->lane];
            s->parts[l->part].faults[FAULT_OVERLAP]++;
        }
        if (runs == MOST_RUNNING)
            memmove(running, running + 1, --runs * sizeof *running);
        running[runs++] = list[i] + 1;
    }
}

static void find_main_lane(task_graph *g)
{
    int64_t most = -1;
    for (size_t l = 0; l < g->t->lanes; l++) {
        int64_t sum = 0;
        for (size_t i = g->lane_first[l]; i < g->lane_first[l + 1]; i++) {
            const task *x = &g->tasks[g->by_lane[i]];
            sum += event_is_work(x->kind) ? x->end - x->start : 0;
        }
        if (sum > most && g->lane_first[l + 1] > g->lane_first[l]) {
            most = sum;
            g->main_lane = (uint32_t)l;
        }
    }
}

static void link_tasks(store *s, task_graph *g)
{
    for (size_t i = 0; i < g->count; i++) {
        task *x = &g->tasks[i];
        const event *e = task_event(g, x);
        part *p = &s->parts[s->lanes[e->lane].part];
        bool several;
        x->launch = find_launch(g, e, &several);
        if (x->launch == 0) {
            if (event_is_work(e->kind) && g->t->groups[g->group].calls > 0)
                p->faults[FAULT_NO_LINK]++;
            continue;
        }
        p->faults[FAULT_SAME_LINK] += several;
        p->faults[FAULT_EARLY_TASK] += e->start < store_event(s, x->launch - 1)->start;
    }
}

/* ---- replays ---------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t x)
{
    x ^= x >> 31;
    x *= 0x7fb5d329728ea185u;
    x ^= x >> 27;
    x *= 0x81dadef4bc2dd44du;
    return x ^ x >> 33;
}

static uint32_t add_replay(task_graph *g, uint32_t launch, int64_t graph, uint32_t first)
{
    if (!list_reserve(&g->replays, &g->replay_cap, g->replay_count + 1, sizeof *g->replays))
        return 0;
    g->replays[g->replay_count] = (replay) { .launch = launch,
                                             .graph = graph,
                                             .first = first,
                                             .start = INT64_MAX,
                                             .end = INT64_MIN,
                                             .busy_end = INT64_MIN };
    return (uint32_t)++g->replay_count;
}

static void enter_replay(task_graph *g, uint32_t number, uint32_t index)
{
    replay *r = &g->replays[number - 1];
    task *x = &g->tasks[index];
    x->replay = number;
    r->tasks++;
    r->start = x->start < r->start ? x->start : r->start;
    r->end = x->end > r->end ? x->end : r->end;
    if (event_is_work(x->kind)) { /* tasks come in order of start: the union grows at its end */
        int64_t from = x->start > r->busy_end ? x->start : r->busy_end;
        r->busy_ns += x->end > from ? x->end - from : 0;
        r->busy_end = x->end > r->busy_end ? x->end : r->busy_end;
        r->sum_ns += x->end - x->start;
    }
    r->signature += mix(task_event(g, x)->name + 1);
}

/* The replay that tasks with a stated graph continue. On each stream it began with some task; where that one comes again, the next
 * replay has begun, on whichever stream that shows first. */
enum { MOST_OPEN = 64, MOST_STREAMS = 32 };

typedef struct {
    int64_t graph, round, first_node;
    uint32_t number;
    struct {
        int64_t node;
        uint32_t name;
        uint16_t lane;
    } first[MOST_STREAMS]; /* [streams] */
    size_t streams;
} open_replay;

static bool continues(const task_graph *g, open_replay *o, const task *x, const event_detail *d)
{
    if (o->graph != d->graph)
        return false;
    if (d->round >= 0)
        return o->round == d->round && !(d->node >= 0 && d->node == o->first_node);
    size_t t = 0;
    while (t < o->streams && o->first[t].lane != x->lane)
        t++;
    if (t < o->streams)
        return o->first[t].name != task_event(g, x)->name || (d->task >= 0 && d->task != o->first[t].node);
    if (t < MOST_STREAMS) {
        o->first[t].lane = x->lane;
        o->first[t].name = task_event(g, x)->name;
        o->first[t].node = d->task;
        o->streams++;
    }
    return true;
}

/* Tasks that state their graph but share no launch: Ascend's model ids, foray's graphs. */
static int group_by_graph(task_graph *g, foray_error *err)
{
    open_replay *open = mem_alloc(MEM_RECORDS, MOST_OPEN * sizeof *open);
    size_t opens = 0;
    int rc = open == NULL ? fail(err, FORAY_ENOMEM, "out of memory for graph replays") : FORAY_OK;
    for (size_t i = 0; i < g->count && rc == FORAY_OK; i++) {
        task *x = &g->tasks[i];
        const event_detail *d = store_more(g->s, task_event(g, x));
        if (x->replay != 0 || d == NULL || d->graph < 0)
            continue;
        size_t o = 0;
        while (o < opens && open[o].graph != d->graph)
            o++;
        if (o == opens || !continues(g, &open[o], x, d)) {
            if (o == MOST_OPEN)
                o = 0;
            opens = o == opens ? opens + 1 : opens;
            uint32_t number = add_replay(g, x->launch, d->graph, (uint32_t)i);
            if (number == 0) {
                rc = fail(err, FORAY_ENOMEM, "out of memory for graph replays");
                break;
            }
            open[o] = (open_replay) { .graph = d->graph,
                                      .round = d->round,
                                      .first_node = d->round >= 0 ? d->node : d->task,
                                      .number = number };
            continues(g, &open[o], x, d); /* notes the first task of its stream */
        }
        enter_replay(g, open[o].number, (uint32_t)i);
    }
    mem_free(MEM_RECORDS, open, MOST_OPEN * sizeof *open);
    return rc;
}

/* Tasks that share the call that launched their graph. */
static int group_by_launch(store *s, task_graph *g, foray_error *err)
{
    uint32_t *of_call = mem_alloc_zeroed(MEM_RECORDS, g->s->count * sizeof *of_call);
    if (of_call == NULL)
        return fail(err, FORAY_ENOMEM, "out of memory for graph replays");
    int rc = FORAY_OK;
    for (size_t i = 0; i < g->count; i++) /* how many tasks each call made */
        if (g->tasks[i].launch != 0)
            of_call[g->tasks[i].launch - 1]++;
    for (size_t c = 0; c < g->calls; c++) { /* launches of which no task is in the file */
        const event *e = store_event(s, g->call_event[c]);
        if ((e->kind == EVENT_GRAPH_LAUNCH || e->kind == EVENT_LAUNCH) && of_call[g->call_event[c]] == 0)
            s->parts[s->lanes[e->lane].part]
                .faults[e->kind == EVENT_LAUNCH ? FAULT_LOST_LAUNCH : FAULT_LOST_REPLAY]++;
    }
    for (size_t i = 0; i < g->count && rc == FORAY_OK; i++) {
        task *x = &g->tasks[i];
        if (x->launch == 0)
            continue;
        uint32_t *n = &of_call[x->launch - 1];
        const uint32_t made = 0x80000000u; /* marks a number of a replay, as opposed to a count */
        const event_detail *d = store_more(g->s, task_event(g, x));
        if (*n < made) {
            if (store_event(g->s, x->launch - 1)->kind != EVENT_GRAPH_LAUNCH)
                continue;
            uint32_t number = add_replay(g, x->launch, d != NULL ? d->graph : -1, (uint32_t)i);
            if (number == 0)
                rc = fail(err, FORAY_ENOMEM, "out of memory for graph replays");
            *n = made | number;
        }
        enter_replay(g, *n & ~made, (uint32_t)i);
    }
    mem_free(MEM_RECORDS, of_call, g->s->count * sizeof *of_call);
    return rc;
}

static void finish_replays(task_graph *g)
{
    for (size_t r = 0; r < g->replay_count; r++) {
        replay *x = &g->replays[r];
        x->signature = mix(x->signature + x->tasks);
    }
}

/* Calls are looked up by their links only while the graph is made. */
static void forget_calls(task_graph *g)
{
    mem_free(MEM_RECORDS, g->call_slot, g->call_slots * sizeof *g->call_slot);
    mem_free(MEM_RECORDS, g->call_event, g->calls * sizeof *g->call_event);
    mem_free(MEM_RECORDS, g->call_next, g->calls * sizeof *g->call_next);
    g->call_slot = NULL;
    g->call_event = g->call_next = NULL;
    g->call_slots = g->calls = 0;
}

int task_graph_build(store *s, const settled *t, uint32_t of_group, task_graph *out, foray_error *err)
{
    task_graph g = { .s = s, .t = t, .group = of_group };
    int rc = index_calls(&g, err);
    if (rc == FORAY_OK)
        rc = index_entries(&g, err);
    if (rc == FORAY_OK)
        rc = order_tasks(&g, err);
    if (rc == FORAY_OK) {
        link_tasks(s, &g);
        for (size_t l = 0; l < t->lanes; l++)
            order_stream(s, &g, g.by_lane + g.lane_first[l], g.lane_first[l + 1] - g.lane_first[l]);
        find_main_lane(&g);
        rc = group_by_launch(s, &g, err);
    }
    if (rc == FORAY_OK)
        rc = group_by_graph(&g, err);
    if (rc == FORAY_OK) {
        finish_replays(&g);
        rc = edges_find(s, &g, err);
    }
    forget_calls(&g);
    if (rc != FORAY_OK)
        task_graph_free(&g);
    else
        *out = g;
    return rc;
}

void task_graph_free(task_graph *g)
{
    if (g->lane_first == NULL && g->tasks == NULL) { /* never built */
        *g = (task_graph) { 0 };
        return;
    }
    size_t n = g->t != NULL ? g->t->groups[g->group].tasks : 0, lanes = g->t != NULL ? g->t->lanes : 0;
    mem_free(MEM_RECORDS, g->tasks, n * sizeof *g->tasks);
    mem_free(MEM_RECORDS, g->by_end, n * sizeof *g->by_end);
    mem_free(MEM_RECORDS, g->by_lane, n * sizeof *g->by_lane);
    mem_free(MEM_RECORDS, g->lane_first, (lanes + 1) * sizeof *g->lane_first);
    mem_free(MEM_RECORDS, g->entry_slot, g->entry_slots * sizeof *g->entry_slot);
    list_free(&g->replays, &g->replay_cap, sizeof *g->replays);
    list_free(&g->dumps, &g->dump_cap, sizeof *g->dumps);
    *g = (task_graph) { 0 };
}
