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
#include "timeline/search.h"
#include "timeline/tasks.h"

const char *evidence_name(evidence e)
{
    static const char *const text[] = { "none", "inferred", "good", "exact" };
    return text[e];
}

/* ---- launches ---------------------------------------------------------------------------------- */

static bool is_launch_kind(unsigned kind)
{
    return kind == EVENT_LAUNCH || kind == EVENT_GRAPH_LAUNCH || kind == EVENT_COPY_CALL;
}

/* Of the calls with the task's link: a launching kind before any other, the latest one that began before the task,
 * else the earliest. *several: more than one launching call has the link. */
static uint32_t find_launch(const task_graph *g, uint32_t link, int64_t start, bool *several)
{
    uint32_t best = 0;
    int kinds = 0;
    for (uint32_t c = calls_with(&g->calls, link); c != 0; c = g->calls.next[c - 1]) {
        uint32_t candidate = g->calls.event[c - 1];
        const event *x = store_event(g->s, candidate), *b = best != 0 ? store_event(g->s, best - 1) : NULL;
        kinds += is_launch_kind(x->kind);
        bool better = b == NULL || (is_launch_kind(x->kind) && !is_launch_kind(b->kind));
        if (!better && is_launch_kind(x->kind) == is_launch_kind(b->kind)) {
            bool x_before = x->start <= start, b_before = b->start <= start;
            better = x_before != b_before ? x_before : x_before ? x->start > b->start : x->start < b->start;
        }
        if (better)
            best = candidate + 1;
    }
    *several = kinds > 1;
    return best;
}

static bool has_ended(const void *user, size_t place, int64_t ns)
{
    const task_graph *g = user;
    return g->tasks[g->by_end[place]].end <= ns;
}

size_t task_graph_ended_near(const task_graph *g, int64_t ns, size_t near)
{
    return search_near(0, g->count, near, has_ended, g, ns);
}

size_t task_graph_ended_by(const task_graph *g, int64_t ns)
{
    return task_graph_ended_near(g, ns, g->count / 2);
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
        part *p = &s->parts[s->lanes[x->lane].part];
        bool several;
        if (i + CALLS_AHEAD < g->count)
            calls_expect(&g->calls, g->tasks[i + CALLS_AHEAD].launch);
        x->launch = find_launch(g, x->launch, x->start, &several);
        if (x->launch == 0) {
            if (event_is_work(x->kind) && g->t->groups[g->group].calls > 0)
                p->faults[FAULT_NO_LINK]++;
            continue;
        }
        x->asked = store_event(s, x->launch - 1)->start;
        p->faults[FAULT_SAME_LINK] += several;
        p->faults[FAULT_EARLY_TASK] += x->start < x->asked;
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
    r->signature += mix(x->name + 1);
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

static bool continues(open_replay *o, const task *x, const event_detail *d)
{
    if (o->graph != d->graph)
        return false;
    if (d->round >= 0)
        return o->round == d->round && !(d->node >= 0 && d->node == o->first_node);
    size_t t = 0;
    while (t < o->streams && o->first[t].lane != x->lane)
        t++;
    if (t < o->streams)
        return o->first[t].name != x->name || (d->task >= 0 && d->task != o->first[t].node);
    if (t < MOST_STREAMS) {
        o->first[t].lane = x->lane;
        o->first[t].name = x->name;
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
        const event_detail *d = task_more(g, x);
        if (x->replay != 0 || d == NULL || d->graph < 0)
            continue;
        size_t o = 0;
        while (o < opens && open[o].graph != d->graph)
            o++;
        if (o == opens || !continues(&open[o], x, d)) {
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
            continues(&open[o], x, d); /* notes the first task of its stream */
        }
        enter_replay(g, open[o].number, (uint32_t)i);
    }
    mem_free(MEM_RECORDS, open, MOST_OPEN * sizeof *open);
    return rc;
}

/* Counts the launches of which no task is in the file. has_tasks: a bit for each event. */
static void count_lost(store *s, const task_graph *g, const uint64_t *has_tasks)
{
    const settled *t = g->t;
    const uint32_t kinds = kind_bit(EVENT_LAUNCH) | kind_bit(EVENT_GRAPH_LAUNCH);
    for (size_t l = 0; l < t->lanes; l++) {
        uint64_t *faults = s->parts[s->lanes[l].part].faults;
        size_t end = t->lane_group[l] == g->group ? t->first[l + 1] : 0;
        for (size_t i = t->first[l]; (i = settled_find(t, i, end, kinds)) < end; i++) {
            uint32_t index = t->order[i];
            if ((has_tasks[index / 64] >> index % 64 & 1) == 0 && store_event(s, index)->link != 0)
                faults[t->kind[i] == EVENT_LAUNCH ? FAULT_LOST_LAUNCH : FAULT_LOST_REPLAY]++;
        }
    }
}

/* Tasks that share the call that launched their graph. */
static int group_by_launch(store *s, task_graph *g, foray_error *err)
{
    size_t words = g->s->count / 64 + 1;
    uint64_t *has_tasks = mem_alloc_zeroed(MEM_RECORDS, words * sizeof *has_tasks);
    uint32_t *of_call =
        mem_alloc_zeroed(MEM_RECORDS, g->s->count * sizeof *of_call); /* replay of a graph's launch */
    int rc = has_tasks == NULL || of_call == NULL ? fail(err, FORAY_ENOMEM, "out of memory for graph replays")
                                                  : FORAY_OK;
    for (size_t i = 0; i < g->count && rc == FORAY_OK; i++) {
        const task *x = &g->tasks[i];
        if (x->launch == 0)
            continue;
        has_tasks[(x->launch - 1) / 64] |= (uint64_t)1 << (x->launch - 1) % 64;
        if (store_event(s, x->launch - 1)->kind != EVENT_GRAPH_LAUNCH)
            continue;
        uint32_t *number = &of_call[x->launch - 1];
        const event_detail *d = task_more(g, x);
        if (*number == 0)
            *number = add_replay(g, x->launch, d != NULL ? d->graph : -1, (uint32_t)i);
        if (*number == 0)
            rc = fail(err, FORAY_ENOMEM, "out of memory for graph replays");
        else
            enter_replay(g, *number, (uint32_t)i);
    }
    if (rc == FORAY_OK)
        count_lost(s, g, has_tasks);
    mem_free(MEM_RECORDS, has_tasks, words * sizeof *has_tasks);
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

int task_graph_build(store *s, const settled *t, uint32_t of_group, task_graph *out, foray_error *err)
{
    task_graph g = { .s = s, .t = t, .group = of_group };
    int rc = tasks_list(&g, err);
    if (rc == FORAY_OK) {
        calls_enter(&g.calls, s, t, of_group);
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
    calls_close(&g.calls);
    mem_free(MEM_RECORDS, g.notes, g.notes_room * sizeof *g.notes);
    g.notes = NULL;
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
    list_free(&g->replays, &g->replay_cap, sizeof *g->replays);
    list_free(&g->dumps, &g->dump_cap, sizeof *g->dumps);
    *g = (task_graph) { 0 };
}
