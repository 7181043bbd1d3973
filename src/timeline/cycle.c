/* cycle.c: medians of a graph-mode cycle over the kept steps. */
#include "timeline/cycle.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

enum { FIGURES = 6, COMMON = 3 }; /* of a graph; of a step */

/* The values of every figure, one row per kept step that has replays; INT64_MIN: that step has none. */
typedef struct {
    int64_t *value; /* [FIGURES * CYCLE_GRAPHS + COMMON][room] */
    size_t room, rows;
} sheet;

static int64_t *cell(const sheet *s, size_t figure, size_t row)
{
    return &s->value[figure * s->room + row];
}

static int compare_int64(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

/* The median of a figure over the rows that have it; how many have. */
static int64_t median(sheet *s, size_t figure, size_t *have)
{
    int64_t *list = cell(s, figure, 0);
    size_t n = 0;
    for (size_t i = 0; i < s->rows; i++)
        if (list[i] != INT64_MIN)
            list[n++] = list[i];
    *have = n;
    if (n == 0)
        return 0;
    qsort(list, n, sizeof *list, compare_int64);
    return n % 2 != 0 ? list[n / 2] : list[n / 2 - 1] + (list[n / 2] - list[n / 2 - 1]) / 2;
}

static size_t graph_index(graph_cycle *c, uint8_t phase_of, int place)
{
    size_t g = 0;
    while (g < c->graphs && (c->graph[g].phase != phase_of || c->graph[g].place != place))
        g++;
    if (g == c->graphs && g < CYCLE_GRAPHS)
        c->graph[c->graphs++] = (cycle_graph) { .phase = phase_of, .place = place };
    return g;
}

/* Fills the row of one step from its replays, which are first … last-1. */
static void take_step(const analysis *a, const step *s, size_t first, size_t last, graph_cycle *c, sheet *out)
{
    int all[PHASE_COUNT] = { 0 }, seen[PHASE_COUNT] = { 0 };
    int64_t begin[PHASE_COUNT];
    size_t row = out->rows++;
    for (size_t f = 0; f < FIGURES * CYCLE_GRAPHS + COMMON; f++)
        *cell(out, f, row) = INT64_MIN;
    for (size_t r = first; r < last; r++)
        all[a->graph.replays[r].phase]++;
    for (size_t r = first; r < last; r++) {
        const replay *x = &a->graph.replays[r];
        bool piece = all[x->phase] > CYCLE_PIECES;
        size_t g = graph_index(c, x->phase, piece ? -1 : seen[x->phase]);
        if (seen[x->phase]++ == 0 || !piece)
            begin[x->phase] = x->start;
        if (g == CYCLE_GRAPHS)
            continue;
        int64_t call = x->launch != 0 ? store_event(a->graph.s, x->launch - 1)->dur : INT64_MIN;
        const int64_t values[FIGURES] = {
            x->tasks, call, x->end - begin[x->phase], x->busy_ns, x->sum_ns, 1
        };
        for (size_t f = 0; f < FIGURES; f++) {
            int64_t *at = cell(out, COMMON + g * FIGURES + f, row);
            bool sum = piece && *at != INT64_MIN && f != 2 && values[f] != INT64_MIN;
            *at = sum ? *at + values[f] : values[f] != INT64_MIN ? values[f] : *at;
        }
    }
    *cell(out, 0, row) = s->end - s->start;
    *cell(out, 2, row) = s->eager_launches;
}

/* The host's span of every step goes into its row: rows stand in the order of the kept steps with replays. */
static void take_host(const analysis *a, const size_t *row_of_step, sheet *out)
{
    const task_graph *g = &a->graph;
    size_t at = SIZE_MAX;
    int64_t from = 0, to = 0;
    for (size_t i = 0; i <= g->count; i++) {
        size_t now = i < g->count && g->tasks[i].step != 0 ? g->tasks[i].step - 1 : SIZE_MAX;
        if (i < g->count && now == SIZE_MAX)
            continue;
        if (now != at) {
            if (at != SIZE_MAX && row_of_step[at] != SIZE_MAX && to > from)
                *cell(out, 1, row_of_step[at]) = to - from;
            at = now;
            from = INT64_MAX;
            to = INT64_MIN;
        }
        if (i < g->count && g->tasks[i].launch != 0) {
            const event *call = store_event(g->s, g->tasks[i].launch - 1);
            from = call->start < from ? call->start : from;
            to = event_end(call) > to ? event_end(call) : to;
        }
    }
}

int cycle_measure(const analysis *a, graph_cycle *out, foray_error *err)
{
    const task_graph *g = &a->graph;
    graph_cycle c = { 0 };
    sheet all = { .room = a->step_count + 1 };
    size_t bytes = (FIGURES * CYCLE_GRAPHS + COMMON) * all.room * sizeof *all.value;
    size_t *row_of_step = mem_alloc(MEM_RECORDS, all.room * sizeof *row_of_step);
    all.value = mem_alloc(MEM_RECORDS, bytes);
    int rc = all.value == NULL || row_of_step == NULL ? fail(err, FORAY_ENOMEM, "out of memory for the cycle")
                                                      : FORAY_OK;
    for (size_t r = 0; r < g->replay_count; r++) {
        uint32_t in = g->tasks[g->replays[r].first].step;
        c.kept = c.kept || (in != 0 && a->steps[in - 1].reason == STEP_KEPT);
    }
    for (size_t i = 0, next = 0; i < a->step_count && rc == FORAY_OK; i++) {
        while (next < g->replay_count && g->replays[next].start < a->steps[i].start)
            next++;
        size_t first = next;
        while (next < g->replay_count && g->replays[next].start < a->steps[i].end)
            next++;
        bool counts = !c.kept || a->steps[i].reason == STEP_KEPT;
        row_of_step[i] = counts && next > first ? all.rows : SIZE_MAX;
        if (row_of_step[i] != SIZE_MAX)
            take_step(a, &a->steps[i], first, next, &c, &all);
    }
    if (rc == FORAY_OK && all.rows > 0) {
        size_t have;
        take_host(a, row_of_step, &all);
        c.steps = all.rows;
        c.wall_ns = median(&all, 0, &have);
        c.host_ns = median(&all, 1, &have);
        c.eager_launches = median(&all, 2, &have);
        for (size_t i = 0; i < c.graphs; i++) {
            size_t f = COMMON + i * FIGURES;
            c.graph[i].nodes = median(&all, f, &c.graph[i].steps);
            c.graph[i].launch_ns = median(&all, f + 1, &have);
            c.graph[i].span_ns = median(&all, f + 2, &have);
            c.graph[i].busy_ns = median(&all, f + 3, &have);
            c.graph[i].sum_ns = median(&all, f + 4, &have);
            c.graph[i].pieces = median(&all, f + 5, &have);
        }
    }
    mem_free(MEM_RECORDS, all.value, bytes);
    mem_free(MEM_RECORDS, row_of_step, all.room * sizeof *row_of_step);
    if (rc == FORAY_OK)
        *out = c;
    return rc;
}
