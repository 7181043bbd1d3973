/* plan.c: filling a round's plan. See plan.h. */
#include "spec/plan.h"

#include <assert.h>
#include <string.h>

const plan_field PLAN_FIELDS[] = {
    { "member.sequence", "A", "host", "main: draft, pack, accept" },
    { "member.chunk", "A", "host", "main: pack, accept" },
    { "member.draft_room", "A", "host", "main: draft" },
    { "member.extend", "A", "host", "main: draft-extend" },
    { "draft_steps", "A", "host", "main: draft (its self-fed rows)" },
    { "extend_launched", "A", "host", "main: draft-extend (upper bound of its rows)" },
    { "phase", "A", "host", "host: route, records" },
    { "route", "A", "host", "host: records" },
    { "rows_launched", "A", "host", "main: verify (upper bound of its launches)" },
    { "slots_launched", "A", "host", "main: verify (upper bound of its spans)" },
    { "max_length", "A", "host", "main: verify (scratch of attention)" },
    { "member.draft", "B", "main: draft", "main: pack, accept" },
    { "member.keep", "B", "main: pack", "main: accept" },
    { "member.first_row", "B", "main: pack", "main: accept" },
    { "member.first_head", "B", "main: pack", "main: sample, accept" },
    { "rows", "B", "main: pack", "main: verify (live rows)" },
    { "heads", "B", "main: pack", "main: verify, sample" },
    { "sum_nq, sum_nkv", "B", "main: pack", "host: records" },
    { "member.accepted", "C", "main: accept", "host: records, budget" },
    { "member.committed", "C", "main: accept", "host: delivery" },
};
const int PLAN_FIELD_COUNT = sizeof PLAN_FIELDS / sizeof *PLAN_FIELDS;

void plan_open(round_plan *p, int64_t round)
{
#ifdef FORAY_CHECKS
    memset(p, 0x7f, sizeof *p); /* what nobody fills in this round must not look right */
#endif
    p->round = round;
    p->members = p->rank = 0;
    p->draft_steps = p->extend_launched = 0;
    for (int part = 0; part < ROUTE_PARTS; part++)
        p->route[part][0] = 0;
    p->sealed = 0;
}

void plan_seal(round_plan *p, plan_part part)
{
    assert(!(p->sealed & part) && "a part of a plan is sealed once");
    p->sealed |= (int32_t)part;
}

/* One member's rows: its pending tokens, then the drafts that are kept. */
static void pack_member(round_plan *p, pass *in, plan_member *m)
{
    const sequence *s = m->sequence;
    int live = m->chunk + m->keep;
    m->first_row = p->rows;
    for (int i = 0; i < live; i++) {
        int row = p->rows + i;
        in->ids[row] = i < m->chunk ? s->tokens[s->computed + i] : m->draft.tokens[i - m->chunk];
        in->position[row] = s->computed + i;
        in->slot[row] = s->slot;
        p->sum_nkv += s->computed + i + 1;
    }
    /* Only the last token of a prompt, and the drafts behind it, are asked for a next token. */
    bool ends = m->chunk == sequence_pending(s);
    m->first_head = ends ? p->heads : -1;
    for (int i = m->chunk - 1; ends && i < live; i++)
        in->head_row[p->heads++] = p->rows + i;
    p->rows += live;
    p->sum_nq += live;
}

void plan_pack(round_plan *p, pass *in)
{
    assert((p->sealed & PLAN_A) && "part B is filled after A is sealed");
    p->rows = p->heads = 0;
    p->sum_nq = p->sum_nkv = 0;
    for (int i = 0; i < p->members; i++) {
        plan_member *m = &p->member[i];
        pack_member(p, in, m);
        in->spans[i] = (row_span) { .first_row = m->first_row,
                                    .rows = m->chunk + m->keep,
                                    .slot = m->sequence->slot,
                                    .first_position = m->sequence->computed };
    }
    assert(p->rows <= p->rows_launched && p->members <= p->slots_launched);
    in->count->rows = p->rows;
    in->count->spans = p->members;
    in->count->heads = p->heads;
    plan_seal(p, PLAN_B);
}

int plan_tier(int n)
{
    int tier = 1;
    while (tier < n)
        tier *= 2;
    return tier;
}

int plan_tier_index(int n)
{
    int i = 0;
    while (1 << i < n)
        i++;
    return i;
}
