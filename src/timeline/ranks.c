/* ranks.c: matches collectives over ranks by name, group and sequence (or occurrence); see ranks.h.
 *
 *     arrival   a rank comes to a collective when its operator, or its kernel, starts
 *     wait      all ranks that came earlier wait for the last one: from their own start to its start, on their clock
 *
 * Where a notify wait says itself for which rank it waits (Ascend), that counts: it names ranks whose files are not there.
 */
#include "timeline/ranks.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "timeline/list.h"

enum { MIN_PAIRS = 3 };

/* A difference below this is not told apart from the clocks' own. */
static const int64_t LEAST_WAIT_NS = 1000;

/* One collective operation of a rank. Times with the file's base, so that ranks with equal clocks compare at once. */
typedef struct {
    int64_t start, end;
    int64_t occurrence; /* as stated, else among those of its name */
    uint32_t name, group;
    uint32_t rank; /* index of the analysis */
    uint32_t task; /* + 1; 0: an operator over several tasks */
} collective;

typedef struct {
    collective *list;
    size_t count, cap;
} collectives;

static int by_key_and_time(const void *a, const void *b)
{
    const collective *x = a, *y = b;
    if (x->name != y->name)
        return x->name < y->name ? -1 : 1;
    if (x->group != y->group)
        return x->group < y->group ? -1 : 1;
    if (x->occurrence != y->occurrence)
        return x->occurrence < y->occurrence ? -1 : 1;
    return x->start < y->start ? -1 : x->start > y->start;
}

static int compare_keys(const collective *x, const collective *y)
{
    if (x->name != y->name)
        return x->name < y->name ? -1 : 1;
    if (x->group != y->group)
        return x->group < y->group ? -1 : 1;
    return x->occurrence < y->occurrence ? -1 : x->occurrence > y->occurrence;
}

static bool add(collectives *c, collective one)
{
    if (!list_reserve(&c->list, &c->cap, c->count + 1, sizeof *c->list))
        return false;
    c->list[c->count++] = one;
    return true;
}

static collective of_task(const task_graph *g, size_t i, int64_t base)
{
    const event *e = task_event(g, &g->tasks[i]);
    const event_detail *d = store_more(g->s, e);
    bool stated = d != NULL && d->sequence >= 0;
    return (collective) { .start = g->tasks[i].start + base,
                          .end = g->tasks[i].end + base,
                          .occurrence = stated ? d->sequence : -1,
                          .name = stated && d->collective != 0 ? d->collective : e->name,
                          .group = d != NULL ? d->group : 0,
                          .task = (uint32_t)i + 1 };
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
            if (!add(out, (collective) { .start = e->start + base,
                                         .end = event_end(e) + base,
                                         .occurrence = -1,
                                         .name = e->name }))
                return false;
        }
    bool operators = out->count > 0;
    for (size_t i = 0; !operators && i < g->count; i++)
        if (g->tasks[i].kind == EVENT_COMM && !add(out, of_task(g, i, base)))
            return false;
    if (out->count > 0)
        qsort(out->list, out->count, sizeof *out->list, by_key_and_time);
    int64_t seen = 0;
    for (size_t i = 0; i < out->count; i++) {
        collective *x = &out->list[i];
        bool again = i > 0 && x->name == x[-1].name && x->group == x[-1].group;
        seen = again ? seen + 1 : 0;
        if (x->occurrence < 0)
            x->occurrence = seen;
    }
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
            int order = compare_keys(x, y);
            if (order != 0) {
                i += order < 0;
                j += order > 0;
                continue;
            }
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

/* ---- who came last ---------------------------------------------------------------------------- */

static int by_from(const void *a, const void *b)
{
    const peer_wait *x = a, *y = b;
    return x->from < y->from ? -1 : x->from > y->from;
}

/* What is to be added to a time of a's group to stand on the common clock. */
static int64_t to_common(const analysis *a)
{
    return a->graph.t->groups[a->graph.group].base_ns - a->clock_offset_ns;
}

/* One collective on all the ranks that are there: n of them in order of their start. */
static bool take_arrivals(analysis *list, const collective *c, size_t n)
{
    const collective *last = &c[n - 1];
    for (size_t i = 0; i + 1 < n; i++) {
        analysis *a = &list[c[i].rank];
        const analysis *late = &list[last->rank];
        int64_t own = to_common(a), end = c[i].end, least = LEAST_WAIT_NS;
        if (a->clock_residual_ns + late->clock_residual_ns > least)
            least = a->clock_residual_ns + late->clock_residual_ns;
        int64_t until = last->start < end ? last->start : end;
        if (until - c[i].start <= least || c[i].rank == last->rank)
            continue;
        if (!list_reserve(&a->waits, &a->wait_cap, a->wait_count + 1, sizeof *a->waits))
            return false;
        a->waits[a->wait_count++] = (peer_wait) { .from = c[i].start - own,
                                                  .until = until - own,
                                                  .task = c[i].task,
                                                  .rank = late->graph.t->groups[late->graph.group].rank };
    }
    return true;
}

/* all: the collectives of every rank that stands on the common clock, on that clock. */
static bool find_waits(analysis *list, size_t count, collectives *all)
{
    bool fine = true;
    if (all->count > 0)
        qsort(all->list, all->count, sizeof *all->list, by_key_and_time);
    for (size_t i = 0, n; i < all->count && fine; i += n) {
        for (n = 1; i + n < all->count && compare_keys(&all->list[i], &all->list[i + n]) == 0;)
            n++;
        fine = take_arrivals(list, &all->list[i], n);
    }
    for (size_t r = 0; r < count; r++)
        if (list[r].wait_count > 0)
            qsort(list[r].waits, list[r].wait_count, sizeof *list[r].waits, by_from);
    return fine;
}

static bool add_common(collectives *all, const collectives *mine, const analysis *a, size_t r)
{
    for (size_t i = 0; i < mine->count; i++) {
        collective c = mine->list[i];
        c.start -= a->clock_offset_ns;
        c.end -= a->clock_offset_ns;
        c.rank = (uint32_t)r;
        if (!add(all, c))
            return false;
    }
    return true;
}

int ranks_align(analysis *list, size_t count, foray_error *err)
{
    collectives zero = { 0 }, all = { 0 };
    size_t first = SIZE_MAX;
    bool fine = true;
    for (size_t r = 0; r < count && fine && count > 1; r++) {
        collectives mine = { 0 };
        if (list[r].graph.count == 0)
            continue;
        fine = gather(&list[r], &mine);
        if (fine && first == SIZE_MAX && mine.count > 0) {
            first = r;
            zero = mine;
            fine = add_common(&all, &zero, &list[r], r);
            continue;
        }
        if (fine && first != SIZE_MAX) {
            int64_t *room = mem_alloc(MEM_RECORDS, (zero.count + 1) * sizeof *room);
            fine = room != NULL;
            if (fine) {
                list[r].clock_against = (int)list[r].graph.t->groups[first].rank;
                list[r].clock_tried = true;
                align(&zero, &mine, &list[r], room);
                fine = !list[r].clock_aligned || add_common(&all, &mine, &list[r], r);
            }
            mem_free(MEM_RECORDS, room, (zero.count + 1) * sizeof *room);
        }
        list_free(&mine.list, &mine.cap, sizeof *mine.list);
    }
    fine = fine && find_waits(list, count, &all);
    list_free(&zero.list, &zero.cap, sizeof *zero.list);
    list_free(&all.list, &all.cap, sizeof *all.list);
    return fine ? FORAY_OK : fail(err, FORAY_ENOMEM, "out of memory to align ranks");
}

const peer_wait *ranks_wait_at(const analysis *a, const task *x)
{
    size_t low = 0, high = a->wait_count;
    uint32_t number = (uint32_t)(x - a->graph.tasks) + 1;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (a->waits[middle].from <= x->start)
            low = middle + 1;
        else
            high = middle;
    }
    for (size_t i = low; i-- > 0 && i + 8 >= low;) {
        const peer_wait *w = &a->waits[i];
        if (w->task != 0 ? w->task == number : x->kind == EVENT_NOTIFY_WAIT && x->start < w->until)
            return w;
    }
    return NULL;
}

int ranks_notifier(const analysis *a, const task *x)
{
    const event_detail *d = task_more(&a->graph, x);
    int own = a->graph.t->groups[a->graph.group].rank;
    if (d == NULL)
        return -1;
    return d->dst_rank >= 0 && d->dst_rank != own   ? d->dst_rank
           : d->src_rank >= 0 && d->src_rank != own ? d->src_rank
                                                    : -1;
}

/* ---- what the late rank did ------------------------------------------------------------------- */

static peer_charge *charge_for(analysis *a, int rank)
{
    for (size_t i = 0; i < a->peer_count; i++)
        if (a->peers[i].rank == rank)
            return &a->peers[i];
    if (!list_reserve(&a->peers, &a->peer_cap, a->peer_count + 1, sizeof *a->peers))
        return NULL;
    a->peers[a->peer_count] = (peer_charge) { .rank = rank };
    return &a->peers[a->peer_count++];
}

static const analysis *of_rank(const analysis *list, size_t count, int rank)
{
    for (size_t r = 0; r < count; r++)
        if (list[r].graph.count > 0 && list[r].graph.t->groups[list[r].graph.group].rank == rank)
            return &list[r];
    return NULL;
}

/* The first segment of s that ends behind ns. */
static size_t segment_behind(const analysis *p, const step *s, int64_t ns)
{
    size_t low = 0, high = s->segments;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (path_at(p, s->first_segment + middle)->to <= ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* What the path of p did in [from, to] of its own clock, into c. */
static void look_at_path(const analysis *p, int64_t from, int64_t to, peer_charge *c)
{
    size_t low = 0, high = p->step_count;
    while (low < high) { /* the first step that ends behind `from` */
        size_t middle = low + (high - low) / 2;
        if (p->steps[middle].end <= from)
            low = middle + 1;
        else
            high = middle;
    }
    for (size_t i = low; i < p->step_count && p->steps[i].start < to; i++) {
        const step *s = &p->steps[i];
        for (size_t k = segment_behind(p, s, from); k < s->segments; k++) {
            const segment *x = path_at(p, s->first_segment + k);
            int64_t since = x->from > from ? x->from : from, until = x->to < to ? x->to : to;
            if (since >= until)
                break;
            c->phases_ns[x->phase] += until - since;
            c->stage_ns[x->owner] += until - since;
            if (until - since > c->longest_ns) {
                c->longest_ns = until - since;
                c->longest_words = x->words;
            }
        }
    }
}

static void look_at_peer(const analysis *a, const analysis *p, int64_t from, int64_t to, peer_charge *c)
{
    if (p == NULL || (a->clock_tried && !a->clock_aligned) || (p->clock_tried && !p->clock_aligned))
        return;
    c->given = true;
    int64_t shift = to_common(a) - to_common(p);
    look_at_path(p, from + shift, to + shift, c);
}

void ranks_late_in(const peer_charge *c, int *account, int *stage)
{
    *account = *stage = PHASE_UNATTRIBUTED;
    for (int p = 0; p < PHASE_COUNT; p++) {
        *account = c->phases_ns[p] > c->phases_ns[*account] ? p : *account;
        *stage = c->stage_ns[p] > c->stage_ns[*stage] ? p : *stage;
    }
}

static bool charge_waits(analysis *a, const analysis *list, size_t count)
{
    const task_graph *g = &a->graph;
    for (size_t i = 0; i < g->count; i++) { /* all waits that say for whom, on the path or beside it */
        const task *x = &g->tasks[i];
        int rank =
            x->kind == EVENT_NOTIFY_WAIT && x->end - x->start > LEAST_WAIT_NS ? ranks_notifier(a, x) : -1;
        if (rank < 0)
            continue;
        peer_charge *c = charge_for(a, rank);
        if (c == NULL)
            return false;
        c->exact = true;
        c->all_ns += x->end - x->start;
        look_at_peer(a, of_rank(list, count, rank), x->start, x->end, c);
    }
    for (size_t i = 0; i < a->wait_count; i++) {
        const peer_wait *w = &a->waits[i];
        peer_charge *c = charge_for(a, w->rank);
        if (c == NULL)
            return false;
        if (c->exact)
            continue; /* the same waits once more, by clocks */
        c->all_ns += w->until - w->from;
        look_at_peer(a, of_rank(list, count, w->rank), w->from, w->until, c);
    }
    for (size_t i = 0; i < a->step_count; i++)
        for (size_t k = 0;
             a->steps[i].peer_ns > 0 && a->steps[i].reason == STEP_KEPT && k < a->steps[i].segments; k++) {
            const segment *x = path_at(a, a->steps[i].first_segment + k);
            peer_charge *c = x->kind == SEGMENT_PEER_WAIT && x->peer != 0 ? charge_for(a, x->peer - 1) : NULL;
            if (c != NULL)
                c->path_ns += x->to - x->from;
        }
    return true;
}

static int by_path(const void *a, const void *b)
{
    const peer_charge *x = a, *y = b;
    if (x->path_ns != y->path_ns)
        return x->path_ns > y->path_ns ? -1 : 1;
    return x->all_ns > y->all_ns ? -1 : x->all_ns < y->all_ns;
}

int ranks_charge(analysis *list, size_t count, foray_error *err)
{
    for (size_t r = 0; r < count; r++) {
        if (list[r].graph.count == 0)
            continue;
        if (!charge_waits(&list[r], list, count))
            return fail(err, FORAY_ENOMEM, "out of memory for peers");
        if (list[r].peer_count > 0)
            qsort(list[r].peers, list[r].peer_count, sizeof *list[r].peers, by_path);
    }
    return FORAY_OK;
}
