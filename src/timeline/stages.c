/* stages.c: which stage each task belongs to, in order of trust: the file's own word (foray), the annotation around its
 * launch (host_side.c), the graph that it is a node of, its place in the step and its name.
 */
#include <string.h>

#include "base/mem.h"
#include "timeline/analysis.h"
#include "timeline/list.h"

/* Servers that name a pass after the engine's step, not after what it does: where something drafts and nothing is called verify, their
 * decode passes verify the drafts. */
static void name_verify(task_graph *g)
{
    size_t drafts = 0, verifies = 0;
    for (size_t i = 0; i < g->count; i++) {
        drafts += g->tasks[i].phase == PHASE_DRAFT;
        verifies += g->tasks[i].phase == PHASE_TARGET_VERIFY;
    }
    for (size_t i = 0; i < g->count && drafts > 0 && verifies == 0; i++)
        if (g->tasks[i].phase == PHASE_DECODE)
            g->tasks[i].phase = PHASE_TARGET_VERIFY;
}

/* A task whose launch is not in the file was asked for no earlier than the one before it on its stream; where it follows at once, it
 * belongs to the same round. */
static int64_t asked_without_launch(const task_graph *g, const task *x)
{
    enum { AT_ONCE_NS = 20000 };
    const task *before = x->before != 0 ? &g->tasks[x->before - 1] : NULL;
    bool follows = before != NULL && before->asked < before->start && x->start - before->end <= AT_ONCE_NS;
    return follows ? before->asked : x->start;
}

void stages_by_annotation(analysis *a, const host_side *h)
{
    task_graph *g = &a->graph;
    for (size_t i = 0; i < g->count; i++) {
        task *x = &g->tasks[i];
        const event_detail *d = task_more(g, x);
        x->asked = asked_without_launch(g, x);
        x->phase = PHASE_UNATTRIBUTED;
        x->phase_how = HOW_NONE;
        if (x->launch != 0) {
            uint32_t call = x->launch - 1, entry = h->entry != NULL ? h->entry[call] : 0;
            x->asked = store_event(g->s, entry != 0 ? entry - 1 : call)->start;
            if (h->phase[call] != NO_STAGE) {
                x->phase = h->phase[call];
                x->phase_how = HOW_EXACT;
            }
        }
        if (d != NULL && d->phase >= 0) {
            x->phase = (uint8_t)d->phase;
            x->phase_how = HOW_EXACT;
        }
    }
    name_verify(g);
    for (size_t r = 0; r < g->replay_count; r++) {
        g->replays[r].phase = g->tasks[g->replays[r].first].phase;
        g->replays[r].phase_how = g->tasks[g->replays[r].first].phase_how;
    }
}

/* ---- by graph and by order -------------------------------------------------------------------- */

static void set_phase(task *x, phase p, evidence how)
{
    x->phase = (uint8_t)p;
    x->phase_how = (uint8_t)how;
}

/* Of a step's replays the longest is its verify pass, unless the stages are known already. */
static uint32_t find_verify(const task_graph *g, size_t first, size_t last)
{
    uint32_t best = 0;
    for (size_t r = first; r < last; r++) {
        const replay *x = &g->replays[r];
        bool known =
            x->phase_how == HOW_EXACT && (x->phase == PHASE_TARGET_VERIFY || x->phase == PHASE_DECODE);
        if (known)
            return (uint32_t)r + 1;
        if (x->phase_how != HOW_EXACT && (best == 0 || x->sum_ns > g->replays[best - 1].sum_ns))
            best = (uint32_t)r + 1;
    }
    return best;
}

/* Replays without a stage get one by their place: before the verify pass they draft, behind it they extend the draft. */
static void place_replays(analysis *a, const step *s, size_t first, size_t last)
{
    task_graph *g = &a->graph;
    uint32_t verify = find_verify(g, first, last);
    if (verify == 0 || s->prefill || a->boundary == BOUNDARY_WHOLE) /* without steps a place means nothing */
        return;
    replay *v = &g->replays[verify - 1];
    size_t others = last - first - 1;
    if (v->phase_how == HOW_NONE) {
        v->phase = others > 0 && v->sum_ns > 0 ? PHASE_TARGET_VERIFY : PHASE_DECODE;
        v->phase_how = HOW_INFERRED;
    }
    for (size_t r = first; r < last; r++) {
        replay *x = &g->replays[r];
        if (x->phase_how != HOW_NONE)
            continue;
        x->phase_how = HOW_INFERRED;
        if (v->phase == PHASE_DECODE)
            x->phase = PHASE_DECODE; /* pieces of one pass */
        else
            x->phase = x->start < v->start ? PHASE_DRAFT : PHASE_DRAFT_EXTEND;
    }
}

/* An eager task that nothing assigns: by its name, else by where it stands. */
static void place_task(const replay *verify, int64_t draft_start, uint8_t named, task *x)
{
    if (named != NO_STAGE) {
        set_phase(x, (phase)named, HOW_GOOD);
        return;
    }
    if (verify == NULL)
        return;
    if (verify->phase == PHASE_DECODE)
        set_phase(x, x->start < verify->end ? PHASE_PLAN : PHASE_EAGER_TAIL, HOW_INFERRED);
    else if (x->start >= verify->end)
        set_phase(x, x->kind == EVENT_COMM ? PHASE_SYNC : PHASE_EAGER_TAIL, HOW_INFERRED);
    else
        set_phase(x, x->start < draft_start ? PHASE_DRAFT : PHASE_PLAN, HOW_INFERRED);
}

/* The phase that a kernel's name says, asked once per name; NO_STAGE. */
static uint8_t phase_of_kernel(const task_graph *g, const rules *r, uint8_t *known, const task *x)
{
    uint32_t name = x->name;
    if (known[name] == 0) {
        const rule *found = rules_find(r, RULE_KERNEL, names_text(&g->s->names, name));
        known[name] = (uint8_t)(found != NULL ? found->phase + 2 : 1);
    }
    return known[name] == 1 ? NO_STAGE : (uint8_t)(known[name] - 2);
}

int stages_by_order(analysis *a, const rules *r, foray_error *err)
{
    task_graph *g = &a->graph;
    uint32_t *verify_of = mem_alloc_zeroed(MEM_RECORDS, (a->step_count + 1) * sizeof *verify_of);
    uint8_t *known = mem_alloc_zeroed(MEM_RECORDS, g->s->names.count);
    if (verify_of == NULL || known == NULL) {
        mem_free(MEM_RECORDS, verify_of, (a->step_count + 1) * sizeof *verify_of);
        mem_free(MEM_RECORDS, known, g->s->names.count);
        return fail(err, FORAY_ENOMEM, "out of memory for stages");
    }
    size_t next = 0;
    for (size_t i = 0; i < a->step_count; i++) { /* replays stand in order of their first task, as steps do */
        while (next < g->replay_count && g->replays[next].start < a->steps[i].start)
            next++;
        size_t first = next;
        while (next < g->replay_count && g->replays[next].start < a->steps[i].end)
            next++;
        if (next > first) {
            place_replays(a, &a->steps[i], first, next);
            verify_of[i] = a->boundary != BOUNDARY_WHOLE ? find_verify(g, first, next) : 0;
        }
    }
    for (size_t i = 0; i < g->count; i++) {
        task *x = &g->tasks[i];
        if (x->phase_how == HOW_NONE && x->replay != 0 && g->replays[x->replay - 1].phase_how != HOW_NONE)
            set_phase(x, (phase)g->replays[x->replay - 1].phase,
                      (evidence)g->replays[x->replay - 1].phase_how);
        else if (x->phase_how == HOW_NONE && x->step != 0) {
            uint32_t v = verify_of[x->step - 1];
            int64_t draft = a->steps[x->step - 1].start;
            for (uint32_t k = v; k > 1 && g->replays[k - 2].start >= a->steps[x->step - 1].start; k--)
                if (g->replays[k - 2].phase == PHASE_DRAFT)
                    draft = g->replays[k - 2].start;
            place_task(v != 0 ? &g->replays[v - 1] : NULL, draft, phase_of_kernel(g, r, known, x), x);
        }
        a->phases_annotated += x->phase_how == HOW_EXACT;
        a->phases_by_graph += x->phase_how == HOW_INFERRED && x->replay != 0;
        a->phases_by_order += (x->phase_how == HOW_INFERRED || x->phase_how == HOW_GOOD) && x->replay == 0;
        a->phases_none += x->phase_how == HOW_NONE;
    }
    mem_free(MEM_RECORDS, verify_of, (a->step_count + 1) * sizeof *verify_of);
    mem_free(MEM_RECORDS, known, g->s->names.count);
    return FORAY_OK;
}
