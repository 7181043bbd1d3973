/* host_side.c: see host_side.h.
 *
 * On Ascend a call comes out of an operator queue, on a thread of the queue's own: what encloses its entry there counts, not
 * what encloses the call.
 */
#include "timeline/host_side.h"

#include <string.h>

#include "base/mem.h"

/* ---- the operator queue ----------------------------------------------------------------------- */

static size_t link_hash(uint32_t link)
{
    return link * 0x9e3779b1u >> 7;
}

uint32_t host_side_entry(const host_side *h, uint32_t of_group, uint32_t link)
{
    const queue_entries *q = &h->entries[of_group];
    if (q->slots == 0 || link == 0)
        return 0;
    for (size_t at = link_hash(link) & (q->slots - 1); q->slot[at] != 0; at = (at + 1) & (q->slots - 1))
        if (store_event(h->s, q->slot[at] - 1)->link == link)
            return q->slot[at];
    return 0;
}

static void enter(const host_side *h, queue_entries *q, uint32_t index)
{
    size_t at = link_hash(store_event(h->s, index)->link) & (q->slots - 1);
    while (q->slot[at] != 0)
        at = (at + 1) & (q->slots - 1);
    q->slot[at] = index + 1;
}

/* Of equal links the first in the file is found, so they are entered in that order. */
static int index_entries(host_side *h, foray_error *err)
{
    size_t all = 0;
    for (size_t i = 0; i < h->t->group_count; i++) {
        size_t n = h->t->groups[i].of_kind[EVENT_ENQUEUE], slots = 16;
        queue_entries *q = &h->entries[i];
        all += n;
        while (slots < n * 2)
            slots *= 2;
        q->slot = n > 0 ? mem_alloc_zeroed(MEM_RECORDS, slots * sizeof *q->slot) : NULL;
        q->slots = q->slot != NULL ? slots : 0;
        if (n > 0 && q->slot == NULL)
            return fail(err, FORAY_ENOMEM, "out of memory for %zu queue entries", n);
    }
    for (size_t i = 0; all > 0 && i < h->s->count; i++) {
        const event *e = store_event(h->s, i);
        if (e->kind == EVENT_ENQUEUE && e->link != 0 && h->t->lane_group[e->lane] != NO_GROUP)
            enter(h, &h->entries[h->t->lane_group[e->lane]], (uint32_t)i);
    }
    return FORAY_OK;
}

/* ---- stages by annotation --------------------------------------------------------------------- */

enum { DEEPEST = 512 };

/* An open range of the host thread that is swept. */
typedef struct {
    int64_t end;
    uint8_t phase;
    uint32_t queue_link; /* of a Dequeue; 0 */
} open_range;

typedef struct {
    host_side *h;
    const rules *r;
    uint8_t *rule_phase; /* [names] phase + 2 of the stage rule that fits; 1: none; 0: not asked */
} sweep;

static uint8_t phase_of_name(sweep *w, uint32_t name)
{
    if (w->rule_phase[name] == 0) {
        const rule *found = rules_find(w->r, RULE_STAGE, names_text(&w->h->s->names, name));
        w->rule_phase[name] = (uint8_t)(found != NULL ? found->phase + 2 : 1);
    }
    return w->rule_phase[name] == 1 ? NO_STAGE : (uint8_t)(w->rule_phase[name] - 2);
}

/* Goes through a thread's events with the ranges that are open. Without a queue the calls get the innermost stage;
 * on the queue's thread they get that of their entry. */
static void sweep_lane(sweep *w, size_t l)
{
    host_side *h = w->h;
    const settled *t = h->t;
    const uint32_t in_group = t->lane_group[l];
    const bool ascend = t->groups[in_group].format == FORMAT_ASCEND;
    const uint32_t kinds = kind_bit(EVENT_ANNOTATION) | kind_bit(EVENT_DEQUEUE) | kind_bit(EVENT_ENQUEUE) |
                           CALL_KINDS | (ascend ? kind_bit(EVENT_OP) : 0);
    open_range stack[DEEPEST];
    size_t depth = 0;
    for (size_t i = t->first[l]; (i = settled_find(t, i, t->first[l + 1], kinds)) < t->first[l + 1]; i++) {
        uint32_t index = t->order[i];
        const event *e = store_event(h->s, index);
        while (depth > 0 && stack[depth - 1].end <= e->start)
            depth--;
        uint8_t inside = depth > 0 ? stack[depth - 1].phase : NO_STAGE;
        uint32_t queue = depth > 0 ? stack[depth - 1].queue_link : 0;
        if (e->kind == EVENT_ANNOTATION || e->kind == EVENT_DEQUEUE || e->kind == EVENT_OP) {
            uint8_t own = e->kind != EVENT_DEQUEUE ? phase_of_name(w, e->name) : NO_STAGE;
            if (depth < DEEPEST && (own != NO_STAGE || e->kind == EVENT_DEQUEUE))
                stack[depth++] = (open_range) { event_end(e), own != NO_STAGE ? own : inside,
                                                e->kind == EVENT_DEQUEUE ? e->link : queue };
        } else {
            uint32_t entry = e->kind != EVENT_ENQUEUE ? host_side_entry(h, in_group, queue) : 0;
            h->phase[index] = entry != 0 ? h->phase[entry - 1] : inside;
            if (entry != 0)
                h->entry[index] = entry;
        }
    }
}

static int sweep_lanes(host_side *h, const rules *r, foray_error *err)
{
    const settled *t = h->t;
    sweep w = { .h = h, .r = r };
    size_t count = h->s->names.count;
    w.rule_phase = mem_alloc_zeroed(MEM_RECORDS, count);
    if (w.rule_phase == NULL)
        return fail(err, FORAY_ENOMEM, "out of memory for stages");
    for (int queue = 0; queue < 2;
         queue++) /* the queue's own threads come second: they look their entries up */
        for (size_t l = 0; l < t->lanes; l++) {
            if (t->lane_group[l] == NO_GROUP || h->s->lanes[l].role != LANE_HOST)
                continue;
            bool from_queue =
                h->entries[t->lane_group[l]].slots > 0 &&
                settled_find(t, t->first[l], t->first[l + 1], kind_bit(EVENT_DEQUEUE)) < t->first[l + 1];
            if (from_queue == (queue == 1))
                sweep_lane(&w, l);
        }
    mem_free(MEM_RECORDS, w.rule_phase, count);
    return FORAY_OK;
}

/* ---- how far events reach --------------------------------------------------------------------- */

static void note_reach(host_side *h)
{
    const settled *t = h->t;
    for (size_t l = 0; l < t->lanes; l++) {
        int64_t before = INT64_MIN, inside = INT64_MIN;
        for (size_t i = t->first[l]; i < t->first[l + 1]; i++) {
            if (i % HOST_REACH == 0) {
                h->reach[i / HOST_REACH] = before;
                inside = INT64_MIN;
            }
            int64_t end = t->kind[i] != EVENT_OTHER ? event_end(store_event(h->s, t->order[i])) : INT64_MIN;
            before = end > before ? end : before;
            inside = end > inside ? end : inside;
            h->inside[i / HOST_REACH] = inside;
        }
    }
}

/* ---- all of it -------------------------------------------------------------------------------- */

static size_t blocks_of(const settled *t)
{
    return t->events / HOST_REACH + 1;
}

int host_side_find(const store *s, const settled *t, const rules *r, host_side *out, foray_error *err)
{
    host_side h = { .s = s, .t = t };
    bool queue = false;
    h.entries = mem_alloc_zeroed(MEM_RECORDS, t->group_count * sizeof *h.entries);
    for (size_t i = 0; i < t->group_count; i++)
        queue = queue || t->groups[i].of_kind[EVENT_ENQUEUE] > 0;
    if (queue)
        h.entry = mem_alloc_zeroed(MEM_RECORDS, t->events * sizeof *h.entry);
    h.phase = mem_alloc(MEM_RECORDS, t->events);
    h.reach = mem_alloc(MEM_RECORDS, blocks_of(t) * sizeof *h.reach);
    h.inside = mem_alloc(MEM_RECORDS, blocks_of(t) * sizeof *h.inside);
    int rc = FORAY_OK;
    if (h.entries == NULL || (queue && h.entry == NULL) || h.phase == NULL || h.reach == NULL ||
        h.inside == NULL)
        rc = fail(err, FORAY_ENOMEM, "out of memory for the host's threads");
    if (rc == FORAY_OK)
        rc = index_entries(&h, err);
    if (rc == FORAY_OK) {
        memset(h.phase, NO_STAGE, t->events);
        rc = sweep_lanes(&h, r, err);
    }
    *out = h;
    if (rc == FORAY_OK)
        note_reach(&h);
    else
        host_side_free(out);
    return rc;
}

void host_side_free(host_side *h)
{
    if (h->t == NULL)
        return;
    for (size_t i = 0; h->entries != NULL && i < h->t->group_count; i++)
        mem_free(MEM_RECORDS, h->entries[i].slot, h->entries[i].slots * sizeof *h->entries[i].slot);
    mem_free(MEM_RECORDS, h->entries, h->t->group_count * sizeof *h->entries);
    mem_free(MEM_RECORDS, h->phase, h->t->events);
    mem_free(MEM_RECORDS, h->entry, h->t->events * sizeof *h->entry);
    mem_free(MEM_RECORDS, h->reach, blocks_of(h->t) * sizeof *h->reach);
    mem_free(MEM_RECORDS, h->inside, blocks_of(h->t) * sizeof *h->inside);
    *h = (host_side) { 0 };
}
