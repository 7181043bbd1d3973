/* order.c: see order.h. One pass puts each event behind the others of its lane and sums up; lanes that a file did not write in
 * order of time are merged from the stretches that are.
 */
#include "timeline/order.h"

#include <string.h>

#include "base/mem.h"
#include "timeline/runs.h"

/* In order of start, longer ones first, then as in the file. */
static inline bool comes_before(const void *user, uint32_t a, uint32_t b)
{
    const store *s = user;
    const event *x = store_event(s, a), *y = store_event(s, b);
    if (x->start != y->start)
        return x->start < y->start;
    if (x->dur != y->dur)
        return x->dur > y->dur;
    return a <= b;
}

static void add_to_group(const store *s, settled *t, const event *e)
{
    if (t->lane_group[e->lane] == NO_GROUP || e->kind == EVENT_OTHER || (e->flags & EVENT_DUPLICATE) != 0)
        return;
    group *g = &t->groups[t->lane_group[e->lane]];
    g->of_kind[e->kind]++;
    g->first_ns = e->start < g->first_ns ? e->start : g->first_ns;
    g->last_ns = event_end(e) > g->last_ns ? event_end(e) : g->last_ns;
    s->parts[s->lanes[e->lane].part].tasks += event_is_task(e->kind);
}

/* Set in `kind` where an event comes before the one in front of it. */
enum { BREAK = 0x80 };

/* Puts all events on their lanes, as they stand in the store. mixed: [lanes] is set where that is not their order of time. */
static void place_events(const store *s, settled *t, size_t *at, bool *mixed)
{
    for (size_t i = 0; i < s->count; i++) {
        const event *e = store_event(s, i);
        size_t place = at[e->lane]++;
        t->order[place] = (uint32_t)i;
        t->kind[place] = e->kind;
        if (place > t->first[e->lane] && !comes_before(s, t->order[place - 1], (uint32_t)i)) {
            t->kind[place] |= BREAK;
            mixed[e->lane] = true;
        }
        add_to_group(s, t, e);
    }
}

static void sort_lane(const store *s, const runs *r, size_t n)
{
    runs_waiting waiting = { 0 };
    for (size_t at = 0, end; at < n; at = end) {
        for (end = at + 1; end < n && (r->tag[end] & BREAK) == 0;)
            end++;
        if (end < n)
            r->tag[end] &= (uint8_t)~BREAK;
        runs_add(r, &waiting, at, end, n, comes_before, s);
    }
}

static void sum_up(settled *t)
{
    for (size_t g = 0; g < t->group_count; g++)
        for (int k = 0; k < EVENT_KINDS; k++) {
            t->groups[g].tasks += (TASK_KINDS >> k & 1) != 0 ? t->groups[g].of_kind[k] : 0;
            t->groups[g].calls += (CALL_KINDS >> k & 1) != 0 ? t->groups[g].of_kind[k] : 0;
        }
}

int order_events(const store *s, settled *t, foray_error *err)
{
    size_t longest = 0;
    memset(t->first, 0, (t->lanes + 1) * sizeof *t->first);
    for (size_t l = 0; l < t->lanes; l++) {
        longest = s->lanes[l].events > longest ? s->lanes[l].events : longest;
        t->first[l + 1] = t->first[l] + s->lanes[l].events;
    }
    size_t *at = mem_alloc(MEM_RECORDS, (t->lanes + 1) * sizeof *at);
    bool *mixed = mem_alloc_zeroed(MEM_RECORDS, t->lanes * sizeof *mixed);
    uint32_t *room = mem_alloc(MEM_RECORDS, longest * sizeof *room);
    uint8_t *tag_room = mem_alloc(MEM_RECORDS, longest);
    int rc = FORAY_OK;
    if (at == NULL || mixed == NULL || room == NULL || tag_room == NULL) {
        rc = fail(err, FORAY_ENOMEM, "out of memory to order %zu events", s->count);
    } else {
        memcpy(at, t->first, (t->lanes + 1) * sizeof *at);
        place_events(s, t, at, mixed);
        sum_up(t);
        for (size_t l = 0; l < t->lanes; l++)
            if (mixed[l])
                sort_lane(s, &(runs) { t->order + t->first[l], room, t->kind + t->first[l], tag_room },
                          t->first[l + 1] - t->first[l]);
    }
    mem_free(MEM_RECORDS, at, (t->lanes + 1) * sizeof *at);
    mem_free(MEM_RECORDS, mixed, t->lanes * sizeof *mixed);
    mem_free(MEM_RECORDS, room, longest * sizeof *room);
    mem_free(MEM_RECORDS, tag_room, longest);
    return rc;
}
