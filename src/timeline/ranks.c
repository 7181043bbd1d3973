/* ranks.c: matches collectives over ranks by name and occurrence. */
#include "timeline/ranks.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "timeline/list.h"

enum { MIN_PAIRS = 3 };

/* One collective operation of a rank. Times with the file's base, so that ranks with equal clocks compare at once. */
typedef struct {
    int64_t start, end;
    uint32_t name;
    uint32_t occurrence; /* among those of its name */
} collective;

typedef struct {
    collective *list;
    size_t count, cap;
} collectives;

static int by_name_and_time(const void *a, const void *b)
{
    const collective *x = a, *y = b;
    if (x->name != y->name)
        return x->name < y->name ? -1 : 1;
    return x->start < y->start ? -1 : x->start > y->start;
}

static bool add(collectives *c, int64_t start, int64_t end, uint32_t name)
{
    if (!list_reserve(&c->list, &c->cap, c->count + 1, sizeof *c->list))
        return false;
    c->list[c->count++] = (collective) { .start = start, .end = end, .name = name };
    return true;
}

/* HCCL's operators where there are any, else the communication tasks. */
static bool gather(const analysis *a, collectives *out)
{
    const task_graph *g = &a->graph;
    int64_t base = g->t->groups[g->group].base_ns;
    for (size_t l = 0; l < g->t->lanes; l++)
        for (size_t i = g->t->first[l]; g->t->lane_group[l] == g->group &&
                                        g->s->lanes[l].role == LANE_COLLECTIVE && i < g->t->first[l + 1];
             i++) {
            const event *e = store_event(g->s, g->t->order[i]);
            if (!add(out, e->start + base, event_end(e) + base, e->name))
                return false;
        }
    for (size_t i = 0; out->count == 0 && i < g->count; i++)
        if (g->tasks[i].kind == EVENT_COMM)
            for (; i < g->count; i++)
                if (g->tasks[i].kind == EVENT_COMM &&
                    !add(out, g->tasks[i].start + base, g->tasks[i].end + base,
                         task_event(g, &g->tasks[i])->name))
                    return false;
    if (out->count > 0)
        qsort(out->list, out->count, sizeof *out->list, by_name_and_time);
    for (size_t i = 1; i < out->count; i++)
        if (out->list[i].name == out->list[i - 1].name)
            out->list[i].occurrence = out->list[i - 1].occurrence + 1;
    return true;
}

static int compare_int64(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

/* Lays a rank's collectives beside the first rank's. room: [the smaller count] for differences. */
static void align(const collectives *zero, const collectives *mine, analysis *a, int64_t *room)
{
    size_t n = 0;
    for (int pass = 0; pass < 2; pass++) {
        size_t i = 0, j = 0;
        n = 0;
        while (i < zero->count && j < mine->count) {
            const collective *x = &zero->list[i], *y = &mine->list[j];
            if (x->name != y->name ? x->name < y->name : x->occurrence < y->occurrence) {
                i++;
            } else if (x->name != y->name || x->occurrence != y->occurrence) {
                j++;
            } else {
                int64_t off = y->end - x->end;
                room[n++] = pass == 0 ? off : llabs(off - a->clock_offset_ns);
                if (pass == 1) { /* who came first waited for the other */
                    int64_t late = y->start - a->clock_offset_ns - x->start;
                    a->peer_late_ns += late > 0 ? late : 0;
                    a->peer_early_ns += late < 0 ? -late : 0;
                }
                i++;
                j++;
            }
        }
        if (n < MIN_PAIRS)
            break;
        qsort(room, n, sizeof *room, compare_int64);
        if (pass == 0)
            a->clock_offset_ns = room[n / 2];
        else
            a->clock_residual_ns = room[n / 2];
    }
    a->clock_pairs = n;
    a->clock_aligned = n >= MIN_PAIRS;
}

int ranks_align(analysis *list, size_t count, foray_error *err)
{
    collectives zero = { 0 };
    size_t first = SIZE_MAX;
    int rc = FORAY_OK;
    for (size_t r = 0; r < count && rc == FORAY_OK && count > 1; r++) {
        collectives mine = { 0 };
        if (list[r].graph.count == 0 || list[r].boundary == BOUNDARY_RECORDS)
            continue;
        bool fine = gather(&list[r], &mine);
        if (fine && first == SIZE_MAX && mine.count > 0) {
            first = r;
            zero = mine;
            continue;
        }
        int64_t *room =
            fine && first != SIZE_MAX ? mem_alloc(MEM_RECORDS, (zero.count + 1) * sizeof *room) : NULL;
        if (!fine || (first != SIZE_MAX && room == NULL)) {
            rc = fail(err, FORAY_ENOMEM, "out of memory to align ranks");
        } else if (first != SIZE_MAX) {
            list[r].clock_against = (int)list[r].graph.t->groups[first].rank;
            list[r].clock_tried = true;
            align(&zero, &mine, &list[r], room);
        }
        mem_free(MEM_RECORDS, room, (zero.count + 1) * sizeof *room);
        list_free(&mine.list, &mine.cap, sizeof *mine.list);
    }
    list_free(&zero.list, &zero.cap, sizeof *zero.list);
    return rc;
}
