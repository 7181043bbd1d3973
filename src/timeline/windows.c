/* windows.c: which steps count, and which of them are alike.
 *
 * Left out, with the reason: what is not whole (first, last, lost or thin replays), what is not steady (warm-up, capture,
 * stalls) and what is other work (prefill). The rest falls into buckets by what is stated of the work: the label with its
 * numbers of requests, or the nodes of the largest graph. Figures of a bucket are medians.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "timeline/analysis.h"
#include "timeline/list.h"

const char *step_reason_text(step_reason r)
{
    static const char *const text[STEP_REASONS] = {
        [STEP_KEPT] = "kept",
        [STEP_PREFILL] = "prefill in it",
        [STEP_FIRST] = "its beginning is not in the file",
        [STEP_LAST] = "its end is not in the file",
        [STEP_WARM_UP] = "warm-up",
        [STEP_CAPTURE] = "a graph was captured in it",
        [STEP_LOST] = "a replay's tasks are missing",
        [STEP_THIN] = "a replay with fewer nodes than its like",
        [STEP_STALL] = "many times the median: a stall from outside",
        [STEP_NO_TASKS] = "no device tasks",
        [STEP_NO_TIME] = "its duration was not recorded",
    };
    return text[r];
}

static int compare_int64(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

static int64_t median_of(int64_t *list, size_t n)
{
    if (n == 0)
        return 0;
    qsort(list, n, sizeof *list, compare_int64);
    return n % 2 != 0 ? list[n / 2] : list[n / 2 - 1] + (list[n / 2] - list[n / 2 - 1]) / 2;
}

/* ---- reasons ---------------------------------------------------------------------------------- */

static size_t step_at(const analysis *a, int64_t ns)
{
    size_t low = 0, high = a->step_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (a->steps[middle].start <= ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low; /* step + 1; 0: before the first */
}

static void leave_out(step *s, step_reason why)
{
    if (s->reason == STEP_KEPT)
        s->reason = (uint8_t)why;
}

/* Captures, and launches of graphs whose tasks are not there. */
static void look_at_calls(analysis *a)
{
    const task_graph *g = &a->graph;
    uint32_t *has_tasks = mem_alloc_zeroed(MEM_RECORDS, (g->s->count / 32 + 1) * sizeof *has_tasks);
    if (has_tasks == NULL)
        return; /* a check that cannot be made */
    for (size_t i = 0; i < g->count; i++)
        if (g->tasks[i].launch != 0)
            has_tasks[(g->tasks[i].launch - 1) / 32] |= 1u << (g->tasks[i].launch - 1) % 32;
    for (size_t l = 0; l < g->t->lanes; l++) {
        const uint32_t kinds = kind_bit(EVENT_GRAPH_LAUNCH) | kind_bit(EVENT_CAPTURE_CALL);
        size_t end = g->t->lane_group[l] == g->group ? g->t->first[l + 1] : 0;
        for (size_t i = g->t->first[l]; (i = settled_find(g->t, i, end, kinds)) < end; i++) {
            uint32_t index = g->t->order[i];
            const event *e = store_event(g->s, index);
            bool lost = e->kind == EVENT_GRAPH_LAUNCH && (has_tasks[index / 32] >> index % 32 & 1) == 0 &&
                        g->replay_count > 0 && g->t->groups[g->group].format != FORMAT_ASCEND;
            if (e->kind != EVENT_CAPTURE_CALL && !lost)
                continue;
            size_t at = step_at(a, e->start);
            if (e->kind == EVENT_CAPTURE_CALL)
                ((store *)g->s)->parts[g->s->lanes[l].part].faults[FAULT_CAPTURE]++;
            if (at != 0)
                leave_out(&a->steps[at - 1], lost ? STEP_LOST : STEP_CAPTURE);
        }
    }
    mem_free(MEM_RECORDS, has_tasks, (g->s->count / 32 + 1) * sizeof *has_tasks);
}

/* A replay with less than 70 % of the nodes that replays of its phase mostly have has lost some. Replays of one phase
 * may belong to several buckets, with equal numbers of nodes. */
static void look_at_replays(analysis *a)
{
    const task_graph *g = &a->graph;
    for (int p = 0; p < PHASE_COUNT; p++) {
        int64_t *nodes = mem_alloc(MEM_RECORDS, g->replay_count * sizeof *nodes);
        size_t n = 0;
        if (nodes == NULL)
            return;
        for (size_t r = 0; r < g->replay_count; r++)
            if (g->replays[r].phase == p)
                nodes[n++] = g->replays[r].tasks;
        int64_t middle = median_of(nodes, n);
        mem_free(MEM_RECORDS, nodes, g->replay_count * sizeof *nodes);
        if (n < 5 || n > a->step_count * 3 / 2) /* several in a step are pieces of one pass, of any size */
            continue;
        for (size_t r = 0; r < g->replay_count; r++) {
            const replay *x = &g->replays[r];
            if (x->phase != p || (int64_t)x->tasks * 10 >= middle * 7)
                continue;
            const task *first = &g->tasks[x->first];
            ((store *)g->s)->parts[g->s->lanes[first->lane].part].faults[FAULT_THIN_REPLAY]++;
            if (first->step != 0)
                leave_out(&a->steps[first->step - 1], STEP_THIN);
        }
    }
}

/* Warm-up: steps at the beginning that take more than half again as long as the median of the later half. A stall: more
 * than eight medians anywhere. */
static int look_at_walls(analysis *a, foray_error *err)
{
    size_t n = 0, kept = 0;
    for (size_t i = 0; i < a->step_count; i++)
        kept += a->steps[i].reason == STEP_KEPT && !a->steps[i].prefill;
    if (kept < 4)
        return FORAY_OK;
    int64_t *walls = mem_alloc(MEM_RECORDS, kept * sizeof *walls);
    if (walls == NULL)
        return fail(err, FORAY_ENOMEM, "out of memory for windows");
    size_t seen = 0;
    for (size_t i = 0; i < a->step_count; i++)
        if (a->steps[i].reason == STEP_KEPT && !a->steps[i].prefill && seen++ >= kept / 2)
            walls[n++] = a->steps[i].end - a->steps[i].start;
    int64_t middle = median_of(walls, n);
    mem_free(MEM_RECORDS, walls, kept * sizeof *walls);
    bool beginning = true;
    for (size_t i = 0; i < a->step_count; i++) {
        step *s = &a->steps[i];
        if (s->reason != STEP_KEPT || s->prefill)
            continue;
        int64_t wall = s->end - s->start;
        if (beginning && wall > middle + middle / 2)
            s->reason = STEP_WARM_UP;
        else
            beginning = false;
        if (wall / 8 > middle)
            leave_out(s, STEP_STALL);
    }
    return FORAY_OK;
}

/* ---- buckets ---------------------------------------------------------------------------------- */

/* The work of a step in words: requests, rows where they are more, and the keys that they attend to up to a power of two:
 * keys grow with every token, and a bucket's may differ by twice at most. */
static void work_text(const step *s, char *out, size_t room)
{
    int n = snprintf(out, room, "bs=%d", s->requests);
    if (s->rows >= 0 && s->rows != s->requests)
        n += snprintf(out + n, room - (size_t)n, " q=%d", s->rows);
    if (s->keys < 0)
        return;
    int64_t above = 1024;
    while (above <= s->keys && above < INT64_MAX / 2)
        above *= 2;
    snprintf(out + n, room - (size_t)n, " kv<%" PRId64 "k", above / 1024);
}

/* What a step has to share with the others of its bucket. */
static uint32_t bucket_key(analysis *a, const step *s)
{
    store *st = (store *)a->graph.s;
    char text[160];
    const char *label = names_text(&st->names, s->label);
    if (a->boundary == BOUNDARY_ANNOTATION && s->requests >= 0)
        work_text(s, text, sizeof text);
    else if (a->boundary == BOUNDARY_ANNOTATION && strncmp(label, "ProfilerStep#", 13) == 0)
        snprintf(text, sizeof text, "ProfilerStep");
    else if (a->boundary == BOUNDARY_ROUND)
        snprintf(text, sizeof text, "rows=%d", s->rows);
    else if (a->boundary == BOUNDARY_RECORDS)
        snprintf(text, sizeof text, "bs=%d rows=%d", s->requests, s->rows);
    else if (s->graph_nodes > 0)
        snprintf(text, sizeof text, "graph of %u nodes", s->graph_nodes);
    else if (a->boundary == BOUNDARY_WHOLE)
        snprintf(text, sizeof text, "whole file");
    else
        snprintf(text, sizeof text, "%.120s", label);
    return names_add(&st->names, text, strlen(text));
}

static int fill_buckets(analysis *a, foray_error *err)
{
    for (size_t i = 0; i < a->step_count; i++) {
        step *s = &a->steps[i];
        if (s->reason != STEP_KEPT)
            continue;
        uint32_t key = bucket_key(a, s);
        size_t b = 0;
        while (b < a->bucket_count && a->buckets[b].key != key)
            b++;
        if (b == a->bucket_count) {
            if (!list_reserve(&a->buckets, &a->bucket_cap, b + 1, sizeof *a->buckets))
                return fail(err, FORAY_ENOMEM, "out of memory for buckets");
            a->buckets[a->bucket_count++] = (bucket) { .key = key, .requests = s->requests, .rows = s->rows };
        }
        a->buckets[b].steps++;
        s->bucket = (int)b;
    }
    return FORAY_OK;
}

/* Reads one figure of a step. */
typedef int64_t (*figure)(const step *s, int which);

static int64_t wall(const step *s, int which)
{
    (void)which;
    return s->end - s->start;
}
static int64_t in_phase(const step *s, int which)
{
    return s->phases_ns[which];
}
static int64_t gap_before(const step *s, int which)
{
    return s->gap_before_ns[which];
}
static int64_t elapsed(const step *s, int which)
{
    return s->stages[which].elapsed_ns;
}
static int64_t kernel_sum(const step *s, int which)
{
    return s->stages[which].sum_ns;
}
static int64_t busy(const step *s, int which)
{
    return s->stages[which].busy_ns;
}
static int64_t on_path(const step *s, int which)
{
    return s->stages[which].path_ns;
}
static int64_t task_count(const step *s, int which)
{
    return s->stages[which].tasks;
}
static int64_t communication(const step *s, int which)
{
    return which == 0   ? s->peer_ns
           : which == 1 ? s->transfer_ns
           : which == 2 ? s->comm_ns
                        : s->hidden_comm_ns;
}

/* The values of a figure over a bucket's steps, sorted, into list; returns how many. */
static size_t gather(const analysis *a, size_t b, figure f, int which, int64_t *list)
{
    size_t n = 0;
    for (size_t i = 0; i < a->step_count; i++)
        if (a->steps[i].bucket == (int)b)
            list[n++] = f(&a->steps[i], which);
    qsort(list, n, sizeof *list, compare_int64);
    return n;
}

static int64_t middle(const analysis *a, size_t b, figure f, int which, int64_t *list)
{
    return median_of(list, gather(a, b, f, which, list));
}

static int average_buckets(analysis *a, foray_error *err)
{
    int64_t *list = mem_alloc(MEM_RECORDS, (a->step_count + 1) * sizeof *list);
    if (list == NULL)
        return fail(err, FORAY_ENOMEM, "out of memory for buckets");
    for (size_t b = 0; b < a->bucket_count; b++) {
        bucket *k = &a->buckets[b];
        size_t n = gather(a, b, wall, 0, list);
        k->wall_low = list[n / 4];
        k->wall_high = list[n - 1 - n / 4];
        k->wall_median = median_of(list, n);
        for (int p = 0; p < PHASE_COUNT; p++) {
            k->phases_ns[p] = middle(a, b, in_phase, p, list);
            k->gap_before_ns[p] = middle(a, b, gap_before, p, list);
            k->stages[p] =
                (stage_figures) { middle(a, b, elapsed, p, list), middle(a, b, kernel_sum, p, list),
                                  middle(a, b, busy, p, list), middle(a, b, on_path, p, list),
                                  (uint32_t)middle(a, b, task_count, p, list) };
        }
        double sum = 0;
        size_t known = 0;
        for (size_t i = 0; i < a->step_count; i++)
            if (a->steps[i].bucket == (int)b && a->steps[i].commit_length > 0) {
                sum += a->steps[i].commit_length;
                known++;
            }
        if (known > 0) {
            k->commit_length = sum / (double)known;
            k->tpot_ns = (int64_t)((double)k->wall_median / k->commit_length);
        }
        k->peer_ns = middle(a, b, communication, 0, list);
        k->transfer_ns = middle(a, b, communication, 1, list);
        k->comm_ns = middle(a, b, communication, 2, list);
        k->hidden_comm_ns = middle(a, b, communication, 3, list);
    }
    mem_free(MEM_RECORDS, list, (a->step_count + 1) * sizeof *list);
    return FORAY_OK;
}

int windows_choose(analysis *a, foray_error *err)
{
    for (size_t i = 0; i < a->step_count; i++)
        if (a->steps[i].prefill)
            leave_out(&a->steps[i], STEP_PREFILL);
    if (a->boundary != BOUNDARY_RECORDS) {
        look_at_calls(a);
        look_at_replays(a);
    }
    int rc = look_at_walls(a, err);
    if (rc == FORAY_OK)
        rc = fill_buckets(a, err);
    if (rc == FORAY_OK)
        rc = average_buckets(a, err);
    return rc;
}
