/* host_waits.c: see host_waits.h. */
#include "timeline/host_waits.h"

#include "base/mem.h"

/* The task for which a call waited, + 1: the copy's own; else the one that ended last before the call returned, if it was
 * still running when the call began. 0: it did not wait. *ended: how many tasks had ended by then; before, by a near time. */
static uint32_t waited_for(const task_graph *g, const event *call, uint32_t number, size_t *ended)
{
    enum { MOST = 4096 };
    *ended = task_graph_ended_near(g, event_end(call), *ended);
    for (size_t e = *ended, looked = 0; e-- > 0 && looked < MOST; looked++) {
        const task *x = &g->tasks[g->by_end[e]];
        if (x->end <= call->start)
            break;
        if (call->kind == EVENT_COPY_CALL ? x->launch == number
                                          : event_is_work(x->kind) && x->asked <= call->start)
            return g->by_end[e] + 1;
    }
    return 0;
}

/* Appends a wait to those of its lane; nested calls end in another order than they start. Returns how many there are then. */
static size_t enter(host_wait *list, size_t first, size_t n, host_wait x)
{
    size_t place = n;
    for (; place > first && list[place - 1].end > x.end; place--)
        list[place] = list[place - 1];
    list[place] = x;
    return n + 1;
}

static size_t find_on_lane(const task_graph *g, size_t l, host_wait *list, size_t first)
{
    const uint32_t kinds = kind_bit(EVENT_SYNC_CALL) | kind_bit(EVENT_COPY_CALL) | kind_bit(EVENT_DEQUEUE);
    const settled *t = g->t;
    int64_t free_since = INT64_MIN;
    size_t n = first, ended = 0;
    for (size_t i = t->first[l]; (i = settled_find(t, i, t->first[l + 1], kinds)) < t->first[l + 1]; i++) {
        const event *e = store_event(g->s, t->order[i]);
        if (e->kind == EVENT_DEQUEUE) {
            n = enter(list, first, n, (host_wait) { free_since, e->start, t->order[i], 0 });
            free_since = event_end(e);
            continue;
        }
        uint32_t number = waited_for(g, e, t->order[i] + 1, &ended);
        if (number != 0)
            n = enter(list, first, n, (host_wait) { e->start, event_end(e), t->order[i], number });
    }
    return n;
}

int host_waits_find(const task_graph *g, host_waits *out, foray_error *err)
{
    const size_t *of_kind = g->t->groups[g->group].of_kind;
    host_waits w = { .lanes = g->t->lanes };
    w.room = of_kind[EVENT_SYNC_CALL] + of_kind[EVENT_COPY_CALL] + of_kind[EVENT_DEQUEUE];
    w.list = mem_alloc(MEM_RECORDS, w.room * sizeof *w.list);
    w.first = mem_alloc_zeroed(MEM_RECORDS, (w.lanes + 1) * sizeof *w.first);
    *out = w;
    if (w.list == NULL || w.first == NULL) {
        host_waits_free(out);
        return fail(err, FORAY_ENOMEM, "out of memory for %zu calls", w.room);
    }
    for (size_t l = 0; l < w.lanes; l++)
        w.first[l + 1] =
            g->t->lane_group[l] == g->group ? find_on_lane(g, l, w.list, w.first[l]) : w.first[l];
    return FORAY_OK;
}

void host_waits_free(host_waits *w)
{
    mem_free(MEM_RECORDS, w->list, w->room * sizeof *w->list);
    mem_free(MEM_RECORDS, w->first, (w->lanes + 1) * sizeof *w->first);
    *w = (host_waits) { 0 };
}
