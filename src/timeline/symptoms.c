/* symptoms.c: sorts the segments of the critical path into symptoms; see symptoms.h.
 *
 * What to check next is advice that holds for any server, then for SGLang's workers and for Ascend where the trace is of
 * those. It is data: no figure depends on it.
 */
#include "timeline/symptoms.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/* Sums by (symptom, name). Names beyond PARTS_ROOM are left out of the parts, never of the sums. */
enum { PARTS_ROOM = 8192 };

typedef struct {
    uint32_t name;
    uint16_t slot; /* + 1; 0: free */
    int64_t ns;
} part_sum;

static const int NONE = -1;

/* Where a symptom is summed: gaps by their stage, the others behind them. */
static int slot_of(symptom_kind k, uint8_t stage)
{
    return k == SYMPTOM_GAP ? stage : PHASE_COUNT + (int)k;
}

static bool is_exchange(const char *name)
{
    static const char *const pieces[] = { "ombine",  "ispatch",   "lltoall",
                                          "llToAll", "ll_to_all", "oeLowLatency" };
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++)
        if (strstr(name, pieces[i]) != NULL)
            return true;
    return false;
}

static int slot_of_host(uint8_t owner)
{
    switch (owner) {
    case PHASE_PLAN:
        return slot_of(SYMPTOM_PLAN, 0);
    case PHASE_ACCEPT:
    case PHASE_SYNC:
        return slot_of(SYMPTOM_ACCEPT_WAIT, 0);
    case PHASE_COMMIT:
    case PHASE_EAGER_TAIL:
        return slot_of(SYMPTOM_TAIL, 0);
    default:
        return slot_of(SYMPTOM_GAP, owner);
    }
}

/* The symptom of a segment as its slot; NONE: it is work as it should be. */
static int slot_of_segment(const analysis *a, const segment *x)
{
    bool accepts = x->owner == PHASE_ACCEPT || x->owner == PHASE_SYNC;
    bool eager = x->task != 0 && a->graph.tasks[x->task - 1].replay == 0;
    switch ((segment_kind)x->kind) {
    case SEGMENT_PEER_WAIT:
        return slot_of(accepts ? SYMPTOM_ACCEPT_WAIT : SYMPTOM_PEER, 0);
    case SEGMENT_COMM:
        if (accepts)
            return slot_of(SYMPTOM_ACCEPT_WAIT, 0);
        return slot_of(
            is_exchange(names_text(&a->graph.s->names, x->words)) ? SYMPTOM_COMBINE : SYMPTOM_TRANSFER, 0);
    case SEGMENT_HOST:
    case SEGMENT_LAUNCH:
    case SEGMENT_RETURN:
        return slot_of_host(x->owner);
    case SEGMENT_WAIT:
        return accepts ? slot_of(SYMPTOM_ACCEPT_WAIT, 0) : NONE;
    case SEGMENT_HANDOVER:
    case SEGMENT_DISPATCH:
    case SEGMENT_RESOURCE:
    case SEGMENT_TASK:
        if (x->owner == PHASE_PLAN)
            return slot_of(SYMPTOM_PLAN, 0);
        return eager && (accepts || x->owner == PHASE_COMMIT || x->owner == PHASE_EAGER_TAIL)
                   ? slot_of(SYMPTOM_TAIL, 0)
                   : NONE;
    default:
        return NONE;
    }
}

static void add_part(part_sum *parts, int slot, uint32_t name, int64_t ns)
{
    size_t at = (name * 2654435761u ^ (uint32_t)slot * 40503u) & (PARTS_ROOM - 1);
    for (size_t looked = 0; looked < 64; looked++, at = (at + 1) & (PARTS_ROOM - 1)) {
        part_sum *p = &parts[at];
        if (p->slot != 0 && (p->slot != slot + 1 || p->name != name))
            continue;
        p->slot = (uint16_t)(slot + 1);
        p->name = name;
        p->ns += ns;
        return;
    }
}

static void take_parts(symptom *s, const part_sum *parts, int slot, int64_t steps)
{
    for (size_t i = 0; i < PARTS_ROOM; i++) {
        const part_sum *p = &parts[i];
        if (p->slot != slot + 1)
            continue;
        size_t at = s->parts < SYMPTOM_PARTS ? s->parts++ : SYMPTOM_PARTS;
        while (at > 0 && s->part_ns[at - 1] < p->ns / steps) {
            if (at < SYMPTOM_PARTS) {
                s->part[at] = s->part[at - 1];
                s->part_ns[at] = s->part_ns[at - 1];
            }
            at--;
        }
        if (at < SYMPTOM_PARTS) {
            s->part[at] = p->name;
            s->part_ns[at] = p->ns / steps;
        }
    }
}

/* ---- what to check next ----------------------------------------------------------------------- */

typedef struct {
    const char *any, *sglang, *ascend;
} advice;

static const advice advice_of_kind[SYMPTOM_KINDS] = {
    [SYMPTOM_GAP] = { "what the thread does there: can it be done while the device still works, or be "
                      "captured?",
                      NULL, NULL },
    [SYMPTOM_COMBINE] = { "is there work beside it that does not need its result (shared expert, next "
                          "micro-batch) on "
                          "another stream, and does the consumer wait only where it reads?",
                          "DeepEP mode, single-batch overlap and shared-expert overlap",
                          "dispatch and combine are fused kernels on the current stream and their hook does "
                          "nothing: "
                          "only a second stream hides them" },
    [SYMPTOM_TRANSFER] = { "message sizes and links: fewer and larger collectives, another algorithm, or "
                           "work beside "
                           "them on another stream",
                           NULL, NULL },
    [SYMPTOM_PEER] = { "the rank that comes late rather than this one: its host gap, its share of experts or "
                       "rows; "
                       "with the files of all ranks the report says which one",
                       NULL, NULL },
    [SYMPTOM_TAIL] = { "how many launches lie between verify and the next graph: fold sampling, acceptance "
                       "and commit into "
                       "the graph, or into one kernel",
                       "the folded verify epilogue is there on CUDA only; greedy acceptance needs no "
                       "sampling kernels",
                       "this tail is always eager here: launches and their arguments are what can be saved" },
    [SYMPTOM_PLAN] = { "what of it needs the draft's tokens: cache places, lengths and metadata do not, and "
                       "can start "
                       "with the draft",
                       "SGLANG_ENABLE_OVERLAP_PLAN_STREAM: where the plan stream waits for the draft it "
                       "hides the "
                       "host's part only",
                       NULL },
    [SYMPTOM_ACCEPT_WAIT] = { "who needs the accepted lengths at once: a blocking copy or sync of them, or "
                              "the exchange that "
                              "keeps ranks equal",
                              "SGLANG_SPEC_TP_SYNC: the broadcast is needed behind sampling only",
                              "seq_lens.cpu() blocks the host until verify has ended" },
};

static const advice gap_before_verify = {
    "the launch call grows with the graph's nodes (about 1 us each); buffer refresh, metadata and bucket "
    "choice can go "
    "ahead while the draft runs",
    "is the overlap schedule on? with the plan stream planning is submitted without blocking",
    "graph.update before a replay (DeepSeek-V4 needs none), and lengths that the host has to know"
};
static const advice gap_before_draft = {
    "the next round's preparation starts when the lengths are known, and only draft-extend hides it: "
    "reserve, build and "
    "exchange earlier, or process results behind the launch",
    "resolve_seq_lens_cpu, get_next_batch, the DP group's all-gather",
    "lengths come by a plain blocking copy, so preparation cannot start before verify ends"
};
static const advice gap_before_extend = { "is draft-extend a graph at all, and planned beside verify's tail?",
                                          "SGLANG_DISABLE_DRAFT_EXTEND_CUDA_GRAPH", NULL };

static void advise(const analysis *a, symptom *s)
{
    const advice *from = &advice_of_kind[s->kind];
    if (s->kind == SYMPTOM_GAP)
        from = s->stage == PHASE_TARGET_VERIFY || s->stage == PHASE_DECODE ? &gap_before_verify
               : s->stage == PHASE_DRAFT                                   ? &gap_before_draft
               : s->stage == PHASE_DRAFT_EXTEND                            ? &gap_before_extend
                                                                           : from;
    size_t n = 0;
    const group *g = &a->graph.t->groups[a->graph.group];
    s->check[n++] = from->any;
    if (from->sglang != NULL && a->boundary_set != NULL && strncmp(a->boundary_set, "sglang", 6) == 0)
        s->check[n++] = from->sglang;
    if (from->ascend != NULL && g->format == FORMAT_ASCEND)
        s->check[n++] = from->ascend;
}

/* ---- all of them ------------------------------------------------------------------------------ */

static int compare_symptoms(const void *a, const void *b)
{
    const symptom *x = a, *y = b;
    return x->step_ns < y->step_ns ? 1 : x->step_ns > y->step_ns ? -1 : 0;
}

int symptoms_find(const analysis *a, symptom out[SYMPTOM_MOST], size_t *count, foray_error *err)
{
    int64_t sums[SYMPTOM_MOST] = { 0 }, wall = 0, steps = 0, plan_busy = 0, plan_path = 0;
    *count = 0;
    part_sum *parts = mem_alloc_zeroed(MEM_RECORDS, PARTS_ROOM * sizeof *parts);
    if (parts == NULL)
        return fail(err, FORAY_ENOMEM, "out of memory for symptoms");
    for (size_t i = 0; i < a->step_count; i++) {
        const step *s = &a->steps[i];
        if (s->reason != STEP_KEPT)
            continue;
        steps++;
        wall += s->end - s->start;
        plan_busy += s->stages[PHASE_PLAN].busy_ns;
        plan_path += s->stages[PHASE_PLAN].path_ns;
        for (size_t k = 0; k < s->segments; k++) {
            const segment *x = path_at(a, s->first_segment + k);
            int slot = slot_of_segment(a, x);
            if (slot == NONE)
                continue;
            sums[slot] += x->to - x->from;
            add_part(parts, slot, x->words, x->to - x->from);
        }
    }
    double length = analysis_mean_commit(a);
    for (int slot = 0; slot < SYMPTOM_MOST && steps > 0; slot++) {
        int64_t each = sums[slot] / steps;
        if (each < SYMPTOM_LEAST_NS || (double)sums[slot] / (double)wall < SYMPTOM_LEAST_PERCENT / 100.0)
            continue;
        symptom *s = &out[(*count)++];
        *s = (symptom) { .kind = slot < PHASE_COUNT ? SYMPTOM_GAP : (symptom_kind)(slot - PHASE_COUNT),
                         .stage = slot < PHASE_COUNT ? (phase)slot : PHASE_UNATTRIBUTED,
                         .step_ns = each,
                         .token_ns = length > 0 ? (int64_t)((double)each / length) : 0,
                         .share = (double)sums[slot] / (double)wall };
        if (s->kind == SYMPTOM_PLAN && plan_busy > plan_path)
            s->hidden_ns = (plan_busy - plan_path) / steps;
        take_parts(s, parts, slot, steps);
        advise(a, s);
    }
    if (*count > 0)
        qsort(out, *count, sizeof *out, compare_symptoms);
    mem_free(MEM_RECORDS, parts, PARTS_ROOM * sizeof *parts);
    return FORAY_OK;
}

const char *symptom_name(symptom_kind k)
{
    static const char *const text[SYMPTOM_KINDS] = {
        [SYMPTOM_GAP] = "gap_before",
        [SYMPTOM_COMBINE] = "exposed_combine",
        [SYMPTOM_TRANSFER] = "exposed_transfer",
        [SYMPTOM_PEER] = "peer_wait",
        [SYMPTOM_TAIL] = "eager_tail",
        [SYMPTOM_PLAN] = "plan_on_path",
        [SYMPTOM_ACCEPT_WAIT] = "accept_wait",
    };
    return text[k];
}

void symptom_title(const symptom *s, char *out, size_t room)
{
    static const char *const text[SYMPTOM_KINDS] = {
        [SYMPTOM_GAP] = "long gap before",           [SYMPTOM_COMBINE] = "exposed combine and dispatch",
        [SYMPTOM_TRANSFER] = "exposed transfer",     [SYMPTOM_PEER] = "waiting for peers",
        [SYMPTOM_TAIL] = "eager tail behind verify", [SYMPTOM_PLAN] = "verify planning on the path",
        [SYMPTOM_ACCEPT_WAIT] = "acceptance waits",
    };
    if (s->kind != SYMPTOM_GAP)
        snprintf(out, room, "%s", text[s->kind]);
    else
        snprintf(out, room, "%s %s", text[s->kind],
                 s->stage == PHASE_UNATTRIBUTED ? "tasks without a stage" : phase_name(s->stage));
}
