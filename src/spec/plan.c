/* plan.c: filling a round's plan, part by part. See plan.h. */
#include "spec/plan.h"

#include <assert.h>
#include <string.h>

const plan_field PLAN_FIELDS[] = {
    { "given.round", "A", "plan: plan", "main: begin … commit (which result)" },
    { "given.took_ns", "A", "plan: plan", "main: publish" },
    { "given.member", "A", "plan: plan", "main: begin, draft, pack, accept, publish, commit" },
    { "given.draft_steps", "A", "plan: plan", "main: begin (most drafts of a chain)" },
    { "given.rows_launched", "A", "plan: plan", "main: begin, pack (bound of all rows)" },
    { "given.drafter", "A", "plan: plan", "main: begin, draft, pack" },
    { "given.estimates", "A", "plan: plan", "main: begin, pack (how many drafts)" },
    { "given.keep", "A", "plan: plan", "main: pack (in place of estimates)" },
    { "extension.round", "A", "plan: plan_extend", "main: draft-extend (which result)" },
    { "extension.sequence", "A", "plan: plan_extend", "main: draft-extend" },
    { "extension.rows_launched", "A", "plan: plan_extend", "main: draft-extend (bound of its rows)" },
    { "packed.runs", "B", "main: begin", "main: pack, publish, commit" },
    { "packed.ready", "B", "main: begin", "main: begin" },
    { "packed.room", "B", "main: begin", "main: draft, pack" },
    { "packed.drafts", "B", "main: begin", "main: pack, publish" },
    { "packed.wanted", "B", "main: begin", "main: publish" },
    { "packed.probed", "B", "main: begin, pack", "main: publish" },
    { "packed.draft", "B", "main: begin, draft", "main: draft, pack, sample, accept, publish" },
    { "packed.keep", "B", "main: pack", "main: accept, publish" },
    { "packed.first_head", "B", "main: pack", "main: accept, publish, commit" },
    { "packed.rows, packed.sum", "B", "main: pack", "main: publish" },
    { "accepted.accepted", "C", "main: accept", "main: publish" },
    { "accepted.committed", "C", "main: accept", "main: publish, commit" },
    { "accepted.finished", "C", "main: accept", "main: publish, commit" },
    { "result", "C", "main: begin … draft-extend", "host: delivery, records, budget" },
};
const int PLAN_FIELD_COUNT = sizeof PLAN_FIELDS / sizeof *PLAN_FIELDS;

int plan_parts_create(device *d, plan_parts *out, foray_error *err)
{
    *out = (plan_parts) { 0 };
    int rc = device_alloc(d, "plan: given", sizeof *out->given, (void **)&out->given, err);
    if (rc == 0)
        rc = device_alloc(d, "plan: extension", sizeof *out->extension, (void **)&out->extension, err);
    if (rc == 0)
        rc = device_alloc(d, "plan: packed", sizeof *out->packed, (void **)&out->packed, err);
    if (rc == 0)
        rc = device_alloc(d, "plan: accepted", sizeof *out->accepted, (void **)&out->accepted, err);
    if (rc == 0)
        rc = device_alloc(d, "plan: results", 2 * sizeof *out->result, (void **)&out->result, err);
    if (rc != 0)
        plan_parts_destroy(d, out);
    return rc;
}

void plan_parts_destroy(device *d, plan_parts *p)
{
    void *parts[] = { p->given, p->extension, p->packed, p->accepted, p->result };
    pass_free_buffers(d, parts, sizeof parts / sizeof *parts);
    *p = (plan_parts) { 0 };
}

void plan_open(round_plan *p, int64_t round)
{
#ifdef FORAY_CHECKS
    memset(p, 0x7f, sizeof *p); /* what nobody fills in this round must not look right */
#endif
    p->round = round;
    p->members = p->rank = 0;
    p->draft_steps = p->extend_launched = p->owed = 0;
    p->drafter = NULL;
    p->keep = NULL;
    for (int part = 0; part < ROUTE_PARTS; part++)
        p->route[part][0] = 0;
}

void plan_give(const round_plan *p, plan_given *given)
{
    given->round = p->round;
    given->members = p->members;
    given->draft_steps = p->draft_steps;
    given->rows_launched = p->rows_launched;
    given->drafter = p->drafter;
    if (p->drafter)
        given->estimates = p->estimates;
    given->keep = p->keep;
    given->keep_user = p->keep_user;
    for (int i = 0; i < p->members; i++) {
        const plan_member *m = &p->member[i];
        given->member[i].sequence = m->sequence;
        given->member[i].chunk = m->chunk;
        given->member[i].draft_room = m->draft_room;
    }
}

void plan_give_extension(const round_plan *p, plan_extension *extension)
{
    extension->round = p->round;
    extension->rows_launched = p->extend_launched;
    extension->members = 0;
    for (int i = 0; i < p->members; i++)
        if (p->member[i].extend)
            extension->sequence[extension->members++] = p->member[i].sequence;
}

/* One member's rows: its pending tokens, then the drafts that are kept. */
static void pack_member(const plan_given *given, plan_packed *out, pass *in, int i)
{
    const sequence *s = given->member[i].sequence;
    const int chunk = given->member[i].chunk, live = chunk + out->keep[i], first = out->rows;
    for (int j = 0; j < live; j++) {
        int row = first + j;
        in->ids[row] = j < chunk ? s->tokens[s->computed + j] : out->draft[i].tokens[j - chunk];
        in->position[row] = s->computed + j;
        in->slot[row] = s->slot;
        out->sum_nkv += s->computed + j + 1;
    }
    in->spans[in->count->spans++] =
        (row_span) { .first_row = first, .rows = live, .slot = s->slot, .first_position = s->computed };
    /* Only the last token of a prompt, and the drafts behind it, are asked for a next token. */
    bool ends = chunk == sequence_pending(s);
    out->first_head[i] = ends ? in->count->heads : -1;
    for (int j = chunk - 1; ends && j < live; j++)
        in->head_row[in->count->heads++] = first + j;
    out->rows += live;
    out->sum_nq += live;
}

void plan_pack(const plan_given *given, plan_packed *packed, pass *in)
{
    packed->rows = 0;
    packed->sum_nq = packed->sum_nkv = 0;
    in->count->spans = in->count->heads = 0;
    for (int i = 0; i < given->members; i++) {
        packed->first_head[i] = -1;
        if (packed->runs[i])
            pack_member(given, packed, in, i);
    }
    assert(packed->rows <= given->rows_launched);
    in->count->rows = packed->rows;
}

void plan_take(const plan_result *result, round_plan *p)
{
    p->rows = result->rows;
    p->drafts = result->drafts;
    p->wanted = result->wanted;
    p->extended = result->extended;
    p->experts_distinct = result->experts_distinct;
    p->sum_nq = result->sum_nq;
    p->sum_nkv = result->sum_nkv;
    p->plan_ns = result->plan_ns;
    p->probed = result->probed;
    for (int i = 0; i < p->members; i++) {
        plan_member *m = &p->member[i];
        m->draft = result->member[i].draft;
        m->keep = result->member[i].keep;
        m->accepted = result->member[i].accepted;
        m->committed = result->member[i].committed;
        m->count = result->member[i].count;
        m->computed = result->member[i].computed;
        m->finished = result->member[i].finished;
        memcpy(m->tokens, result->member[i].tokens, sizeof m->tokens);
        memcpy(m->logprobs, result->member[i].logprobs, sizeof m->logprobs);
    }
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
