/* round_plan.c: part A of a round, as the host decides it while the round before still runs: who may draft and how much,
 * whose rows a drafter of the device makes behind accept, bounds of the launches, the route, pages. From bounds of lengths
 * and from estimates that are a round old; what only the device knows it decides itself (round_kernels.c).
 * Threads: the host thread.
 */
#include "spec/round_internal.h"

int round_decide(round_loop *r, bool hook, foray_error *err)
{
    round_plan *p = round_planning(r);
    const route_maker maker = {
        .rules = &r->config.rules,
        .graphs = r->graphs,
        .stream = r->stream,
        .drafter = p->drafter,
        .launch = round_launch_family,
        .user = r,
    };
    return route_decide(&r->route[p->round % ROUND_AHEAD], &maker, p, hook, err);
}

void round_set_bounds(round_loop *r, int requests, int rows)
{
    round_plan *p = round_planning(r);
    int most = p->phase == PHASE_PREFILL ? r->max_rows : r->max_decode_rows;
    p->slots_launched = plan_tier(requests);
    if (r->config.fixed_width && p->phase == PHASE_TARGET_VERIFY)
        rows = p->slots_launched * (1 + r->config.spec_tokens);
    p->rows_launched = plan_tier(rows) < most ? plan_tier(rows) : most;
    p->max_length = cache_max_length(r->config.cache);
}

/* Drafts of a chain that are worth launching: what the device would have made in one of the last rounds. */
static int worth_launching(round_loop *r, bool probe)
{
    int most = probe ? 1 : 0;
    for (int i = 0; i < ROUND_WANTED; i++)
        most = r->wanted[i] > most ? r->wanted[i] : most;
    return r->budget.fixed >= 0 ? r->budget.fixed : most;
}

/* A drafter of the device: who may draft in this round, and how much at most. */
static void plan_chain(round_loop *r)
{
    round_plan *p = round_planning(r);
    int ready = 0;
    p->estimates.chain_probe = budget_chain_probe(&r->budget);
    int drafts = worth_launching(r, p->estimates.chain_probe);
    for (int i = 0; i < p->members; i++) {
        plan_member *m = &p->member[i];
        if (!r->ahead[m->sequence->slot].ready)
            m->draft_room = 0;
        ready += m->draft_room > 0;
    }
    while (drafts > 0 && p->members + ready * drafts > r->max_decode_rows)
        drafts--;
    for (int i = 0; i < p->members; i++) {
        plan_member *m = &p->member[i];
        m->draft_room = m->draft_room < drafts ? m->draft_room : drafts;
        if (m->draft_room > p->draft_steps)
            p->draft_steps = m->draft_room;
    }
}

/* A drafter of the device: whose rows are made ready behind accept, as far as one pass of it holds them. */
static void plan_extend(round_loop *r)
{
    round_plan *p = round_planning(r);
    const drafter *d = p->drafter;
    int rows = 0;
    if (!drafts_on_device(d) || r->config.spec_budget == 0)
        return;
    for (int i = 0; i < p->members; i++)
        p->owed += ahead_owed(&r->ahead[p->member[i].sequence->slot], d, p->member[i].sequence);
    bool wanted = budget_wants_chain(&r->budget, p->members, p->owed, p->phase != PHASE_PREFILL);
    if (wanted && r->hooks.pause)
        wanted = !r->hooks.pause(r->hooks.user, p);
    for (int i = 0; i < p->members; i++) {
        plan_member *m = &p->member[i];
        int most = wanted && m->speculate ? ahead_extends(&r->ahead[m->sequence->slot], d, m) : 0;
        m->extend = most > 0 && rows < d->most_extended; /* what one pass does not hold is owed to the next */
        rows += m->extend ? most : 0;
        rows = rows < d->most_extended ? rows : d->most_extended;
    }
    p->extend_launched = plan_tier(rows) < d->most_extended ? plan_tier(rows) : d->most_extended;
    if (rows == 0)
        p->extend_launched = 0;
}

static bool reads_prompt(const round_loop *r, const plan_member *m)
{
    return r->ahead[m->sequence->slot].least < m->sequence->prompt;
}

/* As long as the texts are at least. */
static int mean_length(const round_loop *r, const round_plan *p)
{
    int64_t tokens = 0;
    for (int i = 0; i < p->members; i++)
        tokens += r->ahead[p->member[i].sequence->slot].least;
    return p->members > 0 ? (int)(tokens / p->members) : 0;
}

/* Whether the round in flight may be a probe, which nobody has been told of yet: one is enough. */
static bool probe_in_flight(round_loop *r)
{
    const round_plan *before = round_plan_of(r, r->launched);
    return round_in_flight(r) > 0 && before->drafter && before->estimates.probe_allowance > 0;
}

int round_plan_bounds(round_loop *r, foray_error *err)
{
    round_plan *p = round_planning(r);
    int rows = 0;
    p->phase = PHASE_DECODE;
    for (int i = 0; i < p->members; i++)
        if (reads_prompt(r, &p->member[i]))
            p->phase = PHASE_PREFILL;
    for (int i = 0; i < p->members && p->phase == PHASE_PREFILL; i++)
        p->member[i].draft_room = 0;
    if (p->drafter) {
        budget_set_context(&r->budget, mean_length(r, p));
        if (!drafts_on_device(p->drafter) && p->phase != PHASE_PREFILL)
            budget_offer_probe(&r->budget);
        p->estimates = r->budget;
        if (probe_in_flight(r))
            p->estimates.probe_allowance = 0;
        if (drafts_on_device(p->drafter) && p->phase != PHASE_PREFILL)
            plan_chain(r);
    }
    for (int i = 0; i < p->members; i++) {
        plan_member *m = &p->member[i];
        rows += m->chunk + m->draft_room;
        ahead_growth(&r->ahead[m->sequence->slot], m);
        if (m->draft_room > 0)
            p->phase = PHASE_TARGET_VERIFY;
    }
    round_set_bounds(r, p->members, rows);
    plan_extend(r);
    return round_decide(r, r->config.rules.graphs && r->hooks.eager && r->hooks.eager(r->hooks.user, p), err);
}

int round_reserve(round_loop *r, foray_error *err)
{
    const round_plan *p = round_planning(r);
    for (int i = 0; i < p->members; i++) {
        const plan_member *m = &p->member[i];
        const sequence *s = m->sequence;
        const ahead *a = &r->ahead[s->slot];
        int most = a->most + m->chunk + m->draft_room;
        int rc =
            cache_reserve_extend(r->config.cache, s->slot, a->most, most < s->limit ? most : s->limit, err);
        if (rc != 0)
            return rc;
    }
    return 0;
}
