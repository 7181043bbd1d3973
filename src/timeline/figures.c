/* figures.c: adds the path and the tasks of each step up to the figures of the report.
 *
 * Three numbers of a stage stay apart: the sum of its tasks' durations, the time between its first and its last
 * task on its main stream, and its share of the critical path. Communication off the path is hidden, on it exposed.
 */
#include <string.h>

#include "base/mem.h"
#include "timeline/analysis.h"
#include "timeline/list.h"

/* What is gathered of one stage while a step's tasks pass in order of start. */
typedef struct {
    int64_t first, last, busy_end;
} stage_hull;

/* The stream on which a phase does most of its work, over all steps. */
static int find_main_lanes(const analysis *a, uint32_t main_lane[PHASE_COUNT], foray_error *err)
{
    const task_graph *g = &a->graph;
    size_t lanes = g->t->lanes, bytes = lanes * PHASE_COUNT * sizeof(int64_t);
    int64_t *sum = mem_alloc_zeroed(MEM_RECORDS, bytes);
    if (sum == NULL)
        return fail(err, FORAY_ENOMEM, "out of memory for figures");
    for (size_t i = 0; i < g->count; i++)
        if (event_is_work(g->tasks[i].kind))
            sum[(size_t)g->tasks[i].lane * PHASE_COUNT + g->tasks[i].phase] +=
                g->tasks[i].end - g->tasks[i].start;
    for (int p = 0; p < PHASE_COUNT; p++) {
        main_lane[p] = 0;
        for (size_t l = 0; l < lanes; l++)
            if (sum[l * PHASE_COUNT + (size_t)p] > sum[(size_t)main_lane[p] * PHASE_COUNT + (size_t)p])
                main_lane[p] = (uint32_t)l;
    }
    mem_free(MEM_RECORDS, sum, bytes);
    return FORAY_OK;
}

/* A task may reach beyond its step (the next one's first task starts under its tail): only what lies inside counts. */
static void add_task(step *s, const task *x, stage_hull *hull, bool on_main)
{
    int64_t end = x->end < s->end ? x->end : s->end, start = x->start;
    stage_figures *f = &s->stages[x->phase];
    f->tasks++;
    f->sum_ns += end - start;
    int64_t from = start > hull->busy_end ? start : hull->busy_end;
    f->busy_ns += end > from ? end - from : 0;
    hull->busy_end = end > hull->busy_end ? end : hull->busy_end;
    if (on_main) {
        hull->first = start < hull->first ? start : hull->first;
        hull->last = end > hull->last ? end : hull->last;
    }
}

static void add_path(analysis *a, step *s)
{
    for (size_t i = 0; i < s->segments; i++) {
        const segment *x = path_at(a, s->first_segment + i);
        int64_t ns = x->to - x->from;
        s->phases_ns[x->phase] += ns;
        if (x->phase == PHASE_HOST_GAP)
            s->gap_before_ns[x->owner] += ns;
        if (x->kind == SEGMENT_TASK || x->kind == SEGMENT_DISPATCH || x->kind == SEGMENT_HANDOVER ||
            x->kind == SEGMENT_RESOURCE)
            s->stages[x->owner].path_ns += ns;
        s->peer_ns += x->kind == SEGMENT_PEER_WAIT ? ns : 0;
        s->transfer_ns += x->kind == SEGMENT_COMM ? ns : 0;
        if (x->how == HOW_INFERRED || x->how == HOW_NONE)
            s->inferred_ns += ns;
    }
    s->hidden_comm_ns =
        s->comm_ns > s->transfer_ns + s->peer_ns ? s->comm_ns - s->transfer_ns - s->peer_ns : 0;
}

static void add_replays(analysis *a)
{
    const task_graph *g = &a->graph;
    for (size_t r = 0; r < g->replay_count; r++) {
        const replay *x = &g->replays[r];
        uint32_t number = g->tasks[x->first].step;
        if (number == 0)
            continue;
        step *s = &a->steps[number - 1];
        s->replays++;
        if (x->tasks > s->graph_nodes) {
            s->graph_nodes = x->tasks;
            s->launch_call_ns = x->launch != 0 ? store_event(g->s, x->launch - 1)->dur : 0;
        }
    }
    for (size_t i = 0; i < g->count; i++) {
        const task *x = &g->tasks[i];
        if (x->step != 0 && x->replay == 0 && event_is_work(x->kind))
            a->steps[x->step - 1].eager_launches++;
        const event_detail *d = task_more(g, x);
        if (x->step != 0 && d != NULL && d->rows > a->steps[x->step - 1].rows &&
            x->phase == PHASE_TARGET_VERIFY)
            a->steps[x->step - 1].rows = d->rows;
    }
}

/* ---- forks and joins -------------------------------------------------------------------------- */

/* A task with two predecessors on different streams joins branches; the one that was done last won. Joins whose three
 * names agree are one entry, with the sum of their slacks. */
static int find_joins(analysis *a, foray_error *err)
{
    const task_graph *g = &a->graph;
    for (size_t i = 0; i < g->count; i++) {
        const task *x = &g->tasks[i];
        if (x->cause == 0 || x->before == 0 || x->step == 0)
            continue;
        uint32_t by = x->cause, own = x->before;
        while (g->tasks[by - 1].kind == EVENT_RECORD &&
               g->tasks[by - 1].before != 0) /* the work before the record */
            by = g->tasks[by - 1].before;
        int64_t ahead = g->tasks[by - 1].end - g->tasks[own - 1].end;
        uint32_t won = ahead >= 0 ? by : own, lost = ahead >= 0 ? own : by;
        int64_t slack = ahead >= 0 ? ahead : -ahead;
        size_t f = 0;
        while (f < a->fork_count && (g->tasks[a->forks[f].join].name != x->name ||
                                     g->tasks[a->forks[f].won].name != g->tasks[won - 1].name ||
                                     g->tasks[a->forks[f].lost].name != g->tasks[lost - 1].name))
            f++;
        if (f == a->fork_count) {
            if (a->fork_count >= 512)
                continue;
            if (!list_reserve(&a->forks, &a->fork_cap, a->fork_count + 1, sizeof *a->forks))
                return fail(err, FORAY_ENOMEM, "out of memory for forks");
            a->forks[a->fork_count++] = (fork_join) { .join = (uint32_t)i,
                                                      .won = won - 1,
                                                      .lost = lost - 1,
                                                      .slack_ns = slack,
                                                      .phase = x->phase,
                                                      .how = x->cause_how };
        }
        a->forks[f].count++;
        a->forks[f].slack_sum += slack;
    }
    return FORAY_OK;
}

int figures_make(analysis *a, foray_error *err)
{
    const task_graph *g = &a->graph;
    uint32_t main_lane[PHASE_COUNT];
    int rc = find_main_lanes(a, main_lane, err);
    if (rc != FORAY_OK)
        return rc;
    size_t next = 0;
    for (size_t i = 0; i < a->step_count; i++) {
        step *s = &a->steps[i];
        stage_hull hull[PHASE_COUNT];
        for (int p = 0; p < PHASE_COUNT; p++)
            hull[p] = (stage_hull) { INT64_MAX, INT64_MIN, INT64_MIN };
        while (next < g->count && g->tasks[next].step < i + 1 && g->tasks[next].start < s->start)
            next++;
        int64_t comm_end = INT64_MIN; /* in flight: the union of transfers and of waits for peers */
        for (; next < g->count && g->tasks[next].start < s->end; next++) {
            const task *x = &g->tasks[next];
            if (x->step == i + 1 && (x->kind == EVENT_COMM || x->kind == EVENT_NOTIFY_WAIT)) {
                int64_t end = x->end < s->end ? x->end : s->end,
                        from = x->start > comm_end ? x->start : comm_end;
                s->comm_ns += end > from ? end - from : 0;
                comm_end = end > comm_end ? end : comm_end;
            }
            if (g->tasks[next].step == i + 1 && event_is_work(g->tasks[next].kind))
                add_task(s, &g->tasks[next], &hull[g->tasks[next].phase],
                         g->tasks[next].lane == main_lane[g->tasks[next].phase]);
        }
        for (int p = 0; p < PHASE_COUNT; p++)
            s->stages[p].elapsed_ns = hull[p].last > hull[p].first ? hull[p].last - hull[p].first : 0;
        add_path(a, s);
    }
    add_replays(a);
    return find_joins(a, err);
}
