/* round_kernels.c: the kernels of class host of a round: they read and write the parts of the plan (plan.h) and the
 * sequences, in stream order, and never what the host plans meanwhile.
 *
 *   plan stream   plan                                plan_extend
 *   main          begin ─▶ draft ─▶ pack ─▶ (verify, sample) ─▶ accept ─▶ publish ─▶ commit ─▶ (draft-extend: the drafter)
 *
 * Threads: run_… on some worker, one at a time per stream; launches on the host thread.
 */
#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "spec/round_internal.h"

static plan_stamps *stamps(round_loop *r)
{
    return &plan_result_of(&r->parts, r->parts.given->round)->at;
}

/* ---- part A ---------------------------------------------------------------------------------- */

/* What each launch of these reads of the host is one of two plans in turn: the one that its round keeps until it is over. */
static void run_plan(void *user)
{
    plan_staged *s = user;
    int64_t start = clock_fast_ns();
    plan_give(s->plan, s->parts->given);
    s->parts->given->took_ns = clock_fast_ns() - start;
}

static void run_plan_extend(void *user)
{
    plan_staged *s = user;
    plan_give_extension(s->plan, s->parts->extension);
}

/* ---- part B ---------------------------------------------------------------------------------- */

/* How many drafts the members of a drafter of the device make; what it would like is for the host to know. */
static void choose_chain(round_loop *r)
{
    const plan_given *given = r->parts.given;
    plan_packed *out = r->parts.packed;
    int wish[PLAN_MAX_MEMBERS], room[PLAN_MAX_MEMBERS], signal[PLAN_MAX_MEMBERS], rows = given->rows_launched;
    bool any = false;
    for (int i = 0; i < given->members; i++) {
        const sequence *s = given->member[i].sequence;
        const int most =
            sequence_draft_room(s) < r->config.spec_tokens ? sequence_draft_room(s) : r->config.spec_tokens;
        signal[i] = out->ready[i] ? given->drafter->signal_now(given->drafter, s) : -1;
        wish[i] = out->ready[i] ? most : 0;
        room[i] = out->room[i] < given->draft_steps ? out->room[i] : given->draft_steps;
        out->draft[i].signal = signal[i];
        any = any || wish[i] > 0;
    }
    if (!any)
        return;
    out->wanted = budget_choose_chain(&given->estimates, wish, signal, given->members, r->max_decode_rows);
    if (given->draft_steps > 0)
        out->drafts = budget_choose_chain(&given->estimates, room, signal, given->members, rows);
    out->probed = out->drafts == 1 && given->estimates.chain_probe;
}

/* Who takes part, and how many drafts there may be: what only the device knows. */
static void run_begin(void *user)
{
    round_loop *r = user;
    const plan_given *given = r->parts.given;
    plan_packed *out = r->parts.packed;
    const bool chain = drafts_on_device(given->drafter);
    plan_stamps *at = stamps(r);
    at->drafting = at->drafted = clock_fast_ns();
    out->drafts = 0;
    out->wanted = -1;
    out->probed = false;
    for (int i = 0; i < given->members; i++) {
        const sequence *s = given->member[i].sequence;
        const int most = given->member[i].draft_room, left = sequence_draft_room(s);
        out->runs[i] = s->finished == SEQUENCE_RUNS;
        out->ready[i] = out->runs[i] && chain && given->drafter->is_ready(given->drafter, s);
        out->room[i] = !out->runs[i] || (chain && !out->ready[i]) ? 0 : most < left ? most : left;
        out->draft[i].count = 0;
        out->draft[i].drawn = NULL;
        out->keep[i] = 0;
    }
    if (!chain)
        return;
    choose_chain(r);
    for (int i = 0; i < given->members; i++)
        out->room[i] = out->room[i] < out->drafts ? out->room[i] : out->drafts;
}

static void run_draft(void *user)
{
    round_loop *r = user;
    const plan_given *given = r->parts.given;
    plan_packed *out = r->parts.packed;
    for (int i = 0; i < given->members; i++)
        if (out->room[i] > 0)
            given->drafter->propose(given->drafter, given->member[i].sequence, out->room[i], &out->draft[i]);
    stamps(r)->drafted = clock_fast_ns();
}

/* Tests decide in place of the budget. */
static void keep_by_hook(round_loop *r, int room)
{
    const plan_given *given = r->parts.given;
    plan_packed *out = r->parts.packed;
    for (int i = 0; i < given->members; i++) {
        if (!out->runs[i])
            continue;
        const plan_member m = { .sequence = given->member[i].sequence,
                                .chunk = given->member[i].chunk,
                                .draft_room = out->room[i],
                                .draft = out->draft[i] };
        int wanted = given->keep(given->keep_user, &m);
        out->keep[i] = wanted < room ? wanted : room;
        room -= out->keep[i];
    }
}

/* How many drafts of each member are worth their rows. */
static void choose_keep(round_loop *r)
{
    const plan_given *given = r->parts.given;
    plan_packed *out = r->parts.packed;
    int keep[PLAN_MAX_MEMBERS], proposed = 0, runs = 0, member[PLAN_MAX_MEMBERS];
    draft drafts[PLAN_MAX_MEMBERS];
    for (int i = 0; i < given->members; i++) {
        proposed += out->draft[i].count;
        if (out->runs[i]) {
            member[runs] = i;
            drafts[runs++] = out->draft[i];
        }
    }
    if (proposed == 0)
        return;
    if (given->keep) {
        keep_by_hook(r, given->rows_launched - runs);
        return;
    }
    if (!drafts_on_device(given->drafter))
        out->probed = budget_choose(&given->estimates, drafts, runs, given->rows_launched, keep);
    for (int i = 0; i < runs; i++)
        out->keep[member[i]] = drafts_on_device(given->drafter) ? drafts[i].count : keep[i];
}

/* What the sampler needs to know about each head row. */
static void describe_heads(round_loop *r)
{
    const plan_given *given = r->parts.given;
    const plan_packed *packed = r->parts.packed;
    for (int i = 0; i < given->members; i++) {
        const sequence *s = given->member[i].sequence;
        const draft *drafts = &packed->draft[i];
        for (int j = 0; packed->first_head[i] >= 0 && j <= packed->keep[i]; j++) {
            int h = packed->first_head[i] + j, position = s->count + j;
            r->sample_position[h] = position;
            r->params[h] = &s->params[position < s->min_count];
            r->history[h] = (sample_history) {
                .tokens = s->tokens,
                .count = s->count,
                .prompt = s->prompt,
                .draft = drafts->tokens,
                .draft_count = j,
                .trial = r->config.accept == ACCEPT_EXACT && j < packed->keep[i],
                .drawn = drafts->drawn ? drafts->drawn + (size_t)j * drafts->drawn_stride : NULL,
            };
        }
    }
}

static void run_pack(void *user)
{
    round_loop *r = user;
    plan_stamps *at = stamps(r);
    if (r->parts.packed->drafts > 0)
        at->drafted = clock_fast_ns();
    choose_keep(r);
    plan_pack(r->parts.given, r->parts.packed, &r->pass);
    describe_heads(r);
    at->packed = clock_fast_ns();
}

/* ---- part C ---------------------------------------------------------------------------------- */

static void run_accept(void *user)
{
    round_loop *r = user;
    const plan_given *given = r->parts.given;
    const plan_packed *packed = r->parts.packed;
    plan_accepted *out = r->parts.accepted;
    stamps(r)->verified = clock_fast_ns();
    for (int i = 0; i < given->members; i++) {
        const int first = packed->first_head[i];
        out->accepted[i] = out->committed[i] = 0;
        out->finished[i] = given->member[i].sequence->finished;
        if (first < 0)
            continue;
        out->accepted[i] = accept_drafts(packed->draft[i].tokens, r->token + first, packed->keep[i] + 1);
        out->committed[i] = sequence_takes(given->member[i].sequence, r->token + first, out->accepted[i] + 1,
                                           &out->finished[i]);
    }
}

/* The round's result becomes visible to the host. */
static void run_publish(void *user)
{
    round_loop *r = user;
    const plan_given *given = r->parts.given;
    const plan_packed *packed = r->parts.packed;
    const plan_accepted *accepted = r->parts.accepted;
    plan_result *out = plan_result_of(&r->parts, given->round);
    out->rows = packed->rows;
    out->drafts = packed->drafts;
    out->wanted = packed->wanted;
    out->probed = packed->probed;
    out->sum_nq = packed->sum_nq;
    out->sum_nkv = packed->sum_nkv;
    out->plan_ns = given->took_ns + (out->at.packed - out->at.drafted);
    out->extended = 0;
    out->experts_distinct = model_distinct_experts(r->config.model, &r->pass);
    for (int i = 0; i < given->members; i++) {
        const sequence *s = given->member[i].sequence;
        const int n = accepted->committed[i], first = packed->first_head[i];
        out->member[i].draft = packed->draft[i];
        out->member[i].keep = packed->keep[i];
        out->member[i].accepted = accepted->accepted[i];
        out->member[i].committed = n;
        out->member[i].finished = accepted->finished[i];
        out->member[i].count = s->count + n;
        out->member[i].computed = n > 0             ? s->count + n - 1
                                  : packed->runs[i] ? s->computed + given->member[i].chunk
                                                    : s->computed;
        if (n > 0) {
            memcpy(out->member[i].tokens, r->token + first, sizeof *r->token * (size_t)n);
            memcpy(out->member[i].logprobs, r->logprob + first, sizeof *r->logprob * (size_t)n);
        }
    }
    out->at.published = clock_fast_ns();
}

/* The sequences grow. Nobody reads parts A, B and C of this round any more. */
static void run_commit(void *user)
{
    round_loop *r = user;
    const plan_given *given = r->parts.given;
    const plan_packed *packed = r->parts.packed;
    const plan_accepted *accepted = r->parts.accepted;
    plan_stamps *at = stamps(r);
    for (int i = 0; i < given->members; i++) {
        sequence *s = given->member[i].sequence;
        if (accepted->committed[i] > 0)
            sequence_grow(s, r->token + packed->first_head[i], accepted->committed[i], accepted->finished[i]);
        else if (packed->runs[i])
            s->computed += given->member[i].chunk;
    }
#ifdef FORAY_CHECKS
    memset(r->parts.given, 0x7f, sizeof *r->parts.given);
    memset(r->parts.packed, 0x7f, sizeof *r->parts.packed);
    memset(r->parts.accepted, 0x7f, sizeof *r->parts.accepted);
#endif
    at->committed = clock_fast_ns();
}

/* ---- launches -------------------------------------------------------------------------------- */

typedef struct {
    const void *at[6];
} touched; /* one address in a device buffer each, or NULL */

static int launch(stream *s, const char *name, void (*run)(void *), void *user, touched reads, touched writes,
                  foray_error *err)
{
    args_host a = { .name = name, .run = run, .user = user };
    memcpy(a.reads, reads.at, sizeof a.reads);
    memcpy(a.writes, writes.at, sizeof a.writes);
    return stream_launch(s, KERNEL_HOST, &(kernel_args) { .host = a }, err);
}

int round_launch_plan(round_loop *r, int64_t round, foray_error *err)
{
    return launch(r->planner, "plan", run_plan, &r->staged[round % ROUND_AHEAD], (touched) { { NULL } },
                  (touched) { { r->parts.given } }, err);
}

int round_launch_plan_extend(round_loop *r, int64_t round, foray_error *err)
{
    return launch(r->planner, "plan_extend", run_plan_extend, &r->staged[round % ROUND_AHEAD],
                  (touched) { { NULL } }, (touched) { { r->parts.extension } }, err);
}

int round_launch_begin(round_loop *r, bool proposes, foray_error *err)
{
    const plan_parts *p = &r->parts;
    int rc = launch(r->stream, "begin", run_begin, r, (touched) { { p->given } },
                    (touched) { { p->packed, p->result } }, err);
    return rc == 0 && proposes ? launch(r->stream, "draft", run_draft, r, (touched) { { p->given } },
                                        (touched) { { p->packed, p->result } }, err)
                               : rc;
}

int round_launch_pack(round_loop *r, foray_error *err)
{
    const pass *in = &r->pass;
    return launch(r->stream, "pack", run_pack, r, (touched) { { r->parts.given } },
                  (touched) { { r->parts.packed, in->count, in->ids, in->position, in->spans, r->history } },
                  err);
}

int round_launch_accept(round_loop *r, int rows, foray_error *err)
{
    const plan_parts *p = &r->parts;
    round_mark(r, PHASE_ACCEPT, rows);
    int rc = launch(r->stream, "accept", run_accept, r, (touched) { { p->given, p->packed, r->token } },
                    (touched) { { p->accepted } }, err);
    if (rc == 0)
        rc = launch(r->stream, "publish", run_publish, r,
                    (touched) { { p->given, p->packed, p->accepted, r->token, r->logprob } },
                    (touched) { { p->result } }, err);
    round_mark(r, PHASE_COMMIT, rows);
    if (rc == 0)
        rc = launch(r->stream, "commit", run_commit, r,
                    (touched) { { p->given, p->packed, p->accepted, r->token } }, (touched) { { p->result } },
                    err);
    return rc;
}
