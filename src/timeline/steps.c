/* steps.c: where one step ends and the next begins.
 *
 * In order of trust: foray's round numbers; annotations that a rule says open a step; graph replays in a repeating order;
 * else the whole file is one step, and the report says so. A boundary is the start of the first task, on the
 * stream with most work, that was asked for after the opener: the steps tile the time on the device. The first step begins with
 * its opener on the host, the last ends with its last task.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "timeline/analysis.h"
#include "timeline/list.h"
#include "timeline/work.h"

/* Something that opens a step. */
typedef struct {
    int64_t asked;   /* host time from which tasks belong to it */
    uint32_t event;  /* host event + 1, or 0 */
    uint32_t replay; /* or a replay + 1 */
    uint32_t label;
    int64_t round;
    bool prefill;
} opener;

typedef struct {
    analysis *a;
    const rules *r;
    opener *list;
    size_t count, cap;
    int16_t *rule_of;     /* [names] index of the step rule + 2; 1: none; 0: not asked */
    uint32_t *candidates; /* places in `order` of host events that a step rule of any set fits */
    size_t candidate_count, candidate_cap;
} finder;

static bool add_opener(finder *f, opener o)
{
    if (!list_reserve(&f->list, &f->cap, f->count + 1, sizeof *f->list))
        return false;
    f->list[f->count++] = o;
    return true;
}

static int compare_openers(const void *a, const void *b)
{
    const opener *x = a, *y = b;
    if (x->asked != y->asked)
        return x->asked < y->asked ? -1 : 1;
    return x->event < y->event ? -1 : x->event > y->event;
}

/* ---- by annotation ---------------------------------------------------------------------------- */

/* The first step rule of a set that fits a name; -1: none. */
static int step_rule(const finder *f, int set, uint32_t name)
{
    const char *text = names_text(&f->a->graph.s->names, name);
    for (size_t i = 0; i < f->r->count; i++)
        if (f->r->rules[i].kind == RULE_STEP && f->r->rules[i].set == set &&
            names_match(f->r->rules[i].pattern, text))
            return (int)i;
    return -1;
}

/* Looks through all host threads once, whatever the number of sets. */
static int list_candidates(finder *f, foray_error *err)
{
    const task_graph *g = &f->a->graph;
    bool ascend = g->t->groups[g->group].format == FORMAT_ASCEND;
    for (size_t l = 0; l < g->t->lanes; l++) {
        if (g->t->lane_group[l] != g->group || g->s->lanes[l].role != LANE_HOST)
            continue;
        const uint32_t kinds = kind_bit(EVENT_ANNOTATION) | (ascend ? kind_bit(EVENT_OP) : 0);
        size_t end = g->t->first[l + 1];
        for (size_t i = g->t->first[l]; (i = settled_find(g->t, i, end, kinds)) < end; i++) {
            const event *e = store_event(g->s, g->t->order[i]);
            if (f->rule_of[e->name] == 0)
                f->rule_of[e->name] = rules_find(f->r, RULE_STEP, store_name(g->s, e)) != NULL ? 2 : 1;
            if (f->rule_of[e->name] == 1)
                continue;
            if (!list_reserve(&f->candidates, &f->candidate_cap, f->candidate_count + 1,
                              sizeof *f->candidates))
                return fail(err, FORAY_ENOMEM, "out of memory for steps");
            f->candidates[f->candidate_count++] = (uint32_t)i;
        }
    }
    return FORAY_OK;
}

/* Collects a set's openers from a thread; nested ones are left out. */
static int collect_from_lane(finder *f, int set, size_t l, bool keep, size_t *rounds)
{
    const task_graph *g = &f->a->graph;
    int64_t until = INT64_MIN;
    size_t found = 0, low = 0, high = f->candidate_count;
    *rounds = 0;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (f->candidates[middle] < g->t->first[l])
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < f->candidate_count && f->candidates[low] < g->t->first[l + 1]; low++) {
        uint32_t index = g->t->order[f->candidates[low]];
        const event *e = store_event(g->s, index);
        if (f->rule_of[e->name] == 0)
            f->rule_of[e->name] = (int16_t)(step_rule(f, set, e->name) + 2);
        int which = f->rule_of[e->name] - 2;
        if (which < 0 || e->start < until)
            continue;
        until = event_end(e);
        found++;
        *rounds += !f->r->rules[which].prefill;
        if (keep && !add_opener(f, (opener) { .asked = e->start,
                                              .event = index + 1,
                                              .label = e->name,
                                              .round = -1,
                                              .prefill = f->r->rules[which].prefill }))
            return -1;
    }
    return (int)found;
}

static int open_by_annotation(finder *f, bool prefill_alone, foray_error *err)
{
    const task_graph *g = &f->a->graph;
    for (size_t set = 0; set < f->r->set_count; set++) {
        size_t best = SIZE_MAX, most = 0;
        memset(f->rule_of, 0, g->s->names.count * sizeof *f->rule_of);
        for (size_t l = 0; l < g->t->lanes; l++) {
            size_t rounds;
            if (g->t->lane_group[l] != g->group || g->s->lanes[l].role != LANE_HOST)
                continue;
            int found = collect_from_lane(f, (int)set, l, false, &rounds);
            if (found > 0 && (rounds > 0 || prefill_alone) && (size_t)found > most) {
                best = l;
                most = (size_t)found;
            }
        }
        if (best == SIZE_MAX)
            continue;
        size_t rounds;
        f->a->boundary = BOUNDARY_ANNOTATION;
        f->a->boundary_set = f->r->sets[set];
        return collect_from_lane(f, (int)set, best, true, &rounds) < 0
                   ? fail(err, FORAY_ENOMEM, "out of memory for steps")
                   : FORAY_OK;
    }
    return FORAY_OK;
}

/* ---- by graph --------------------------------------------------------------------------------- */

/* What replays with one signature have in common. */
typedef struct {
    uint64_t signature;
    int64_t graph;
    size_t count;
    int64_t sum_ns;
    bool big;
} replay_kind;

static size_t kind_of(const replay_kind *kinds, size_t count, const replay *r)
{
    size_t k = 0;
    while (k < count && (r->graph >= 0 ? kinds[k].graph != r->graph
                                       : kinds[k].signature != r->signature || kinds[k].graph >= 0))
        k++;
    return k;
}

enum { MOST_KINDS = 64 };

/* Sorts the replays into kinds; a kind is big when a mean replay does at least a third of the biggest one's work. */
static size_t sort_kinds(const task_graph *g, replay_kind *kinds)
{
    size_t n = 0;
    int64_t most = 0;
    for (size_t i = 0; i < g->replay_count; i++) {
        const replay *r = &g->replays[i];
        size_t k = kind_of(kinds, n, r);
        if (k == n) {
            if (n == MOST_KINDS)
                continue;
            kinds[n++] = (replay_kind) { .signature = r->signature, .graph = r->graph };
        }
        kinds[k].count++;
        kinds[k].sum_ns += r->sum_ns;
    }
    for (size_t k = 0; k < n; k++)
        most = kinds[k].sum_ns / (int64_t)kinds[k].count > most ? kinds[k].sum_ns / (int64_t)kinds[k].count
                                                                : most;
    for (size_t k = 0; k < n; k++)
        kinds[k].big = kinds[k].sum_ns / (int64_t)kinds[k].count >= most / 3;
    return n;
}

/* Work of the eager tasks between two moments. */
static int64_t eager_work(const task_graph *g, int64_t from, int64_t to)
{
    int64_t sum = 0;
    size_t low = 0, high = g->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (g->tasks[middle].start < from)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < g->count && g->tasks[low].start < to; low++)
        sum += g->tasks[low].replay == 0 && event_is_work(g->tasks[low].kind)
                   ? g->tasks[low].end - g->tasks[low].start
                   : 0;
    return sum;
}

static opener opener_of(const task_graph *g, size_t r)
{
    const replay *x = &g->replays[r];
    return (opener) { .asked = g->tasks[x->first].asked, .replay = (uint32_t)r + 1, .label = 0, .round = -1 };
}

/* Where rounds are a verify pass with small replays around it: the last small one before the pass drafts for it and
 * opens the round; one right behind a pass extends the draft. A single small one between two passes drafts
 * where eager work (the tail of accept and commit) stands before it, and else extends. */
static int open_by_graph(finder *f, foray_error *err)
{
    task_graph *g = &f->a->graph;
    replay_kind kinds[MOST_KINDS];
    size_t n = sort_kinds(g, kinds), big = 0, small = 0;
    if (g->replay_count < 3)
        return FORAY_OK;
    for (size_t i = 0; i < g->replay_count; i++) {
        size_t k = kind_of(kinds, n, &g->replays[i]);
        if (k < n && kinds[k].big)
            big++;
        else
            small++;
    }
    for (size_t i = 0, last = SIZE_MAX; i < g->replay_count; i++) {
        replay *x = &g->replays[i];
        size_t k = kind_of(kinds, n, x);
        if (k == n || !kinds[k].big || x->phase_how == HOW_EXACT)
            continue;
        size_t between = last == SIZE_MAX ? i : i - last - 1, opens = i;
        bool speculative = small * 2 >= big;
        if (speculative && between > 0) {
            size_t first = last == SIZE_MAX ? 0 : last + 1;
            bool extend = last != SIZE_MAX &&
                          (between >= 2 || eager_work(g, g->replays[last].end, g->replays[first].start) <
                                               g->replays[first].sum_ns / 5);
            opens = first + extend < i ? first + extend : i;
            for (size_t j = first; j < i; j++) {
                g->replays[j].phase = j < opens ? PHASE_DRAFT_EXTEND : PHASE_DRAFT;
                g->replays[j].phase_how = HOW_INFERRED;
            }
        }
        x->phase = speculative ? PHASE_TARGET_VERIFY : PHASE_DECODE;
        x->phase_how = HOW_INFERRED;
        if (!add_opener(f, opener_of(g, opens)))
            return fail(err, FORAY_ENOMEM, "out of memory for steps");
        last = i;
    }
    for (size_t i = g->replay_count;
         i-- > 0 && g->replays[i].phase_how == HOW_NONE;) { /* behind the last pass */
        g->replays[i].phase =
            i > 0 && g->replays[i - 1].phase_how != HOW_NONE ? PHASE_DRAFT_EXTEND : PHASE_DRAFT;
        g->replays[i].phase_how = HOW_INFERRED;
    }
    f->a->boundary = BOUNDARY_GRAPH;
    return FORAY_OK;
}

/* ---- by round --------------------------------------------------------------------------------- */

/* foray's own timelines: a step ends where its result is published. */
static int steps_by_round(analysis *a, foray_error *err)
{
    task_graph *g = &a->graph;
    int64_t from = g->count > 0 ? g->tasks[0].start : 0, open_round = -1;
    bool prefill = true;
    a->boundary = BOUNDARY_ROUND;
    for (size_t i = 0; i <= g->count; i++) {
        const task *x = i < g->count ? &g->tasks[g->by_end[i]] : NULL;
        const event_detail *d = x != NULL ? task_more(g, x) : NULL;
        if (d != NULL && d->round >= 0 && open_round < 0)
            open_round = d->round;
        if (d != NULL && d->phase >= 0 && d->phase != PHASE_PREFILL && d->round == open_round)
            prefill = false;
        bool published = x != NULL && strcmp(task_name(g, x), "publish") == 0;
        if ((!published && x != NULL) ||
            (x == NULL && (open_round < 0 || g->tasks[g->by_end[g->count - 1]].end <= from)))
            continue;
        if (!list_reserve(&a->steps, &a->step_cap, a->step_count + 1, sizeof *a->steps))
            return fail(err, FORAY_ENOMEM, "out of memory for steps");
        int64_t to = x != NULL ? x->end : g->tasks[g->by_end[g->count - 1]].end;
        if (to <= from)
            continue;
        a->steps[a->step_count++] = (step) { .start = from,
                                             .end = to,
                                             .round = d != NULL ? d->round : open_round,
                                             .prefill = prefill,
                                             .requests = -1,
                                             .rows = d != NULL ? d->rows : -1,
                                             .keys = -1,
                                             .bucket = -1,
                                             .reason = x == NULL ? STEP_LAST : STEP_KEPT };
        from = to;
        open_round = -1;
        prefill = true;
    }
    return FORAY_OK;
}

/* ---- openers to steps ------------------------------------------------------------------------- */

static size_t opener_before(const finder *f, int64_t asked)
{
    size_t low = 0, high = f->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (f->list[middle].asked <= asked)
            low = middle + 1;
        else
            high = middle;
    }
    return low; /* opener + 1; 0: before the first */
}

static void take_work(step *x, step_work w)
{
    x->requests = w.requests;
    x->rows = w.rows;
    x->keys = w.keys;
}

/* Steps whose opener does not say how much there is to do learn it from a label inside them: that of the verify pass first. step_of:
 * [openers] step + 1. */
static void take_work_inside(finder *f, const size_t *step_of)
{
    analysis *a = f->a;
    for (size_t c = 0; c < f->candidate_count; c++) {
        const event *e = store_event(a->graph.s, a->graph.t->order[f->candidates[c]]);
        size_t o = opener_before(f, e->start);
        step *x = o != 0 && step_of[o - 1] != 0 ? &a->steps[step_of[o - 1] - 1] : NULL;
        const char *label = store_name(a->graph.s, e);
        if (x == NULL || e->name == x->label)
            continue;
        step_work w = work_of_label(label);
        if (w.requests >= 0 && (x->requests < 0 || strstr(label, "TARGET_VERIFY") != NULL))
            take_work(x, w);
    }
}

static int make_steps(finder *f, foray_error *err)
{
    analysis *a = f->a;
    task_graph *g = &a->graph;
    int64_t *first =
        mem_alloc(MEM_RECORDS, (f->count + 1) * sizeof *first); /* start of an opener's first task */
    size_t *step_of = mem_alloc_zeroed(MEM_RECORDS, (f->count + 1) * sizeof *step_of);
    if (first == NULL || step_of == NULL) {
        mem_free(MEM_RECORDS, first, (f->count + 1) * sizeof *first);
        mem_free(MEM_RECORDS, step_of, (f->count + 1) * sizeof *step_of);
        return fail(err, FORAY_ENOMEM, "out of memory for steps");
    }
    for (size_t o = 0; o < f->count; o++)
        first[o] = INT64_MAX;
    int64_t last_end = INT64_MIN;
    for (size_t i = 0; i < g->count; i++) {
        const task *x = &g->tasks[i];
        size_t o = opener_before(f, x->asked);
        last_end = x->end > last_end && event_is_work(x->kind) ? x->end : last_end;
        if (o != 0 && x->lane == g->main_lane && event_is_work(x->kind) && x->start < first[o - 1])
            first[o - 1] = x->start;
    }
    int rc = FORAY_OK;
    for (size_t o = 0; o < f->count && rc == FORAY_OK; o++) {
        const opener *from = &f->list[o];
        const event *e = from->event != 0 ? store_event(g->s, from->event - 1) : NULL;
        step x = { .start = first[o],
                   .opener = from->event,
                   .label = from->label,
                   .round = from->round,
                   .prefill = from->prefill,
                   .requests = -1,
                   .rows = -1,
                   .keys = -1,
                   .bucket = -1 };
        if (x.start == INT64_MAX)
            x.reason = STEP_NO_TASKS;
        if (x.start == INT64_MAX || (o == 0 && e != NULL && e->start < x.start))
            x.start = from->asked;
        if (a->step_count > 0 && x.start <= a->steps[a->step_count - 1].start)
            continue; /* its work lies inside the step before */
        if (!list_reserve(&a->steps, &a->step_cap, a->step_count + 1, sizeof *a->steps)) {
            rc = fail(err, FORAY_ENOMEM, "out of memory for steps");
            break;
        }
        if (a->step_count > 0)
            a->steps[a->step_count - 1].end = x.start;
        if (e != NULL && event_end(e) > last_end)
            last_end = event_end(e);
        take_work(&x, work_of_label(names_text(&g->s->names, x.label)));
        a->steps[a->step_count++] = x;
        step_of[o] = a->step_count;
    }
    take_work_inside(f, step_of);
    if (a->step_count > 0) {
        step *z = &a->steps[a->step_count - 1];
        z->end = last_end > z->start ? last_end : z->start;
        if (a->step_count > 1) {
            z->reason = z->reason == STEP_KEPT ? STEP_LAST : z->reason;
            a->steps[0].reason =
                a->steps[0].reason == STEP_KEPT && f->list[0].event == 0 ? STEP_FIRST : a->steps[0].reason;
        }
    }
    mem_free(MEM_RECORDS, first, (f->count + 1) * sizeof *first);
    mem_free(MEM_RECORDS, step_of, (f->count + 1) * sizeof *step_of);
    return rc;
}

/* The last step's tasks only: what was asked for after it, by a program that does something else by then, is cut off by its
 * label's own end where it has one and every task inside is done. */
static int one_step(analysis *a, foray_error *err)
{
    const task_graph *g = &a->graph;
    const group *of = &g->t->groups[g->group];
    if (g->count == 0 || of->last_ns <= of->first_ns)
        return FORAY_OK;
    if (!list_reserve(&a->steps, &a->step_cap, 1, sizeof *a->steps))
        return fail(err, FORAY_ENOMEM, "out of memory for steps");
    int64_t from = g->tasks[0].start, to = g->tasks[g->by_end[g->count - 1]].end;
    for (size_t i = 0; i < g->count; i++) /* from the first launch: before it nothing was asked for */
        from = g->tasks[i].asked < from ? g->tasks[i].asked : from;
    a->boundary = BOUNDARY_WHOLE;
    a->steps[a->step_count++] = (step) {
        .start = from, .end = to, .round = -1, .requests = -1, .rows = -1, .keys = -1, .bucket = -1
    };
    return FORAY_OK;
}

static void give_steps(analysis *a)
{
    task_graph *g = &a->graph;
    size_t s = 0;
    for (size_t i = 0; i < g->count; i++) { /* both stand in order of time */
        while (s < a->step_count && a->steps[s].end <= g->tasks[i].start)
            s++;
        g->tasks[i].step = s < a->step_count && a->steps[s].start <= g->tasks[i].start ? (uint32_t)s + 1 : 0;
    }
}

int steps_find(analysis *a, const rules *r, foray_error *err)
{
    task_graph *g = &a->graph;
    finder f = { .a = a, .r = r };
    f.rule_of = mem_alloc_zeroed(MEM_RECORDS, g->s->names.count * sizeof *f.rule_of);
    int rc = f.rule_of == NULL ? fail(err, FORAY_ENOMEM, "out of memory for steps") : FORAY_OK;
    if (rc == FORAY_OK && g->t->groups[g->group].format == FORMAT_FORAY) {
        rc = steps_by_round(a, err);
    } else if (rc == FORAY_OK) {
        rc = list_candidates(&f, err);
        if (rc == FORAY_OK)
            rc = open_by_annotation(&f, false, err);
        if (rc == FORAY_OK && f.count == 0)
            rc = open_by_graph(&f, err);
        if (rc == FORAY_OK && f.count == 0)
            rc = open_by_annotation(&f, true, err);
        if (rc == FORAY_OK && f.count > 0) {
            qsort(f.list, f.count, sizeof *f.list, compare_openers);
            rc = make_steps(&f, err);
        }
    }
    if (rc == FORAY_OK && a->step_count == 0)
        rc = one_step(a, err);
    if (rc == FORAY_OK)
        give_steps(a);
    mem_free(MEM_RECORDS, f.rule_of, g->s->names.count * sizeof *f.rule_of);
    list_free(&f.list, &f.cap, sizeof *f.list);
    list_free(&f.candidates, &f.candidate_cap, sizeof *f.candidates);
    return rc;
}
