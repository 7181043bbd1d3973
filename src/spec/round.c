/* round.c: planning, launching and ending rounds. See round.h; what runs in between is in round_kernels.c. */
#include "spec/round_internal.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"

/* ---- launches -------------------------------------------------------------------------------- */

static round_plan *planning(round_loop *r)
{
    return round_plan_of(r, r->launched + 1);
}

void round_mark(round_loop *r, phase of, int rows)
{
    const round_plan *p = planning(r);
    device_mark(r->config.device,
                (task_mark) { .round = p->round, .phase = of, .rank = p->rank, .rows = rows });
}

/* Trunk to sample, and what follows if it is folded into the same graph. */
static int launch_verify(round_loop *r, int slots, int rows, int heads, bool fold, foray_error *err)
{
    const round_config *c = &r->config;
    const round_plan *p = planning(r);
    round_mark(r, p->phase, rows);
    bool forks = p->phase != PHASE_PREFILL && rows <= c->multi_stream_rows;
    int rc = model_trunk(c->model, &r->pass, c->cache, rows, slots, p->max_length, r->stream,
                         forks ? r->fork : NULL, err);
    if (rc == 0)
        rc = model_head(c->model, &r->pass, heads, r->stream, err);
    round_mark(r, PHASE_ACCEPT, rows);
    if (rc == 0)
        rc = stream_launch(
            r->stream, KERNEL_SAMPLE,
            &(kernel_args) { .sample = { .rows = { .live = &r->pass.count->heads, .max = heads },
                                         .logits = r->pass.logits,
                                         .logits_stride = (size_t)c->model->info.vocab,
                                         .vocab = c->model->info.vocab,
                                         .position = r->sample_position,
                                         .params = r->params,
                                         .history = r->history,
                                         .token = r->token,
                                         .logprob = r->logprob,
                                         .reads = p->drafter ? p->drafter->drawn : NULL } },
            err);
    return rc == 0 && fold ? round_launch_accept(r, rows, err) : rc;
}

/* A phase of the plan, as a graph holds it or as it runs eagerly. Nodes keep the phase that is marked meanwhile. */
static int launch_family(void *user, graph_family f, foray_error *err)
{
    round_loop *r = user;
    const round_plan *p = planning(r);
    drafter *d = p->drafter;
    switch (f) {
    case GRAPH_DRAFT:
        round_mark(r, PHASE_DRAFT, p->slots_launched);
        return d->draft_now(d, p, &r->parts, r->stream, err);
    case GRAPH_EXTEND:
        round_mark(r, PHASE_DRAFT_EXTEND, p->extend_launched);
        return d->extend_now(d, p, &r->parts, r->stream, err);
    default:
        return launch_verify(r, p->slots_launched, p->rows_launched, p->rows_launched, !r->config.unfolded,
                             err);
    }
}

/* Replayed or launched, as the route has it. */
static int run_part(round_loop *r, int part, int rows, foray_error *err)
{
    const round_plan *p = planning(r);
    const route *way = &r->route[p->round % ROUND_AHEAD];
    const graph_key k = route_key(p, part, NULL);
    if (!way->replay[part])
        return launch_family(r, k.family, err);
    round_mark(r, graph_family_phase(k.family), rows);
    return graph_launch(way->replay[part], r->stream, err);
}

/* `to` goes on when `e` is recorded on `from` and has come. */
static int hand_over(stream *from, event *e, stream *to, foray_error *err)
{
    int rc = event_record(e, from, err);
    return rc == 0 ? stream_wait(to, e, err) : rc;
}

/* Part A: on the plan stream, as soon as the round before has read its own. */
static int launch_plans(round_loop *r, foray_error *err)
{
    const round_plan *p = planning(r);
    round_mark(r, PHASE_PLAN, p->members);
    int rc = stream_wait(r->planner, r->given_read, err);
    if (rc == 0)
        rc = round_launch_plan(r, p->round, err);
    if (rc == 0)
        rc = hand_over(r->planner, r->given_ready, r->stream, err);
    if (rc != 0 || p->extend_launched == 0)
        return rc;
    rc = stream_wait(r->planner, r->extension_read, err);
    if (rc == 0)
        rc = round_launch_plan_extend(r, p->round, err);
    return rc == 0 ? event_record(r->extension_ready, r->planner, err) : rc;
}

static int launch_target(round_loop *r, foray_error *err)
{
    const round_plan *p = planning(r);
    const bool prompt = p->phase == PHASE_PREFILL;
    int rc = prompt ? launch_verify(r, p->slots_launched, p->rows_launched, r->pass.max_heads, true, err)
                    : run_part(r, ROUTE_TARGET, p->rows_launched, err);
    if (rc == 0 && !prompt && r->config.unfolded)
        rc = round_launch_accept(r, p->rows_launched, err);
    return rc == 0 ? event_record(r->given_read, r->stream, err) : rc;
}

static int launch_extend(round_loop *r, foray_error *err)
{
    const round_plan *p = planning(r);
    round_mark(r, PHASE_DRAFT_EXTEND, p->extend_launched);
    int rc = stream_wait(r->stream, r->extension_ready, err);
    if (rc == 0)
        rc = run_part(r, ROUTE_EXTEND, p->extend_launched, err);
    return rc == 0 ? event_record(r->extension_read, r->stream, err) : rc;
}

static int launch_round(round_loop *r, foray_error *err)
{
    const round_plan *p = planning(r);
    int rc = launch_plans(r, err);
    round_mark(r, PHASE_DRAFT, p->members);
    if (rc == 0)
        rc = round_launch_begin(r, p->phase == PHASE_TARGET_VERIFY && !drafts_on_device(p->drafter), err);
    if (rc == 0 && p->draft_steps > 0)
        rc = run_part(r, ROUTE_DRAFT, p->members, err);
    round_mark(r, PHASE_PLAN, p->members);
    if (rc == 0)
        rc = round_launch_pack(r, err);
    if (rc == 0)
        rc = launch_target(r, err);
    if (rc == 0 && p->extend_launched > 0)
        rc = launch_extend(r, err);
    return rc == 0 ? event_record(r->done[p->round % ROUND_AHEAD], r->stream, err) : rc;
}

/* ---- part A, as the host decides it ---------------------------------------------------------- */

/* hook: somebody wants the round to run eagerly. */
static int decide(round_loop *r, bool hook, foray_error *err)
{
    round_plan *p = planning(r);
    const route_maker maker = {
        .rules = &r->config.rules,
        .graphs = r->graphs,
        .stream = r->stream,
        .drafter = p->drafter,
        .launch = launch_family,
        .user = r,
    };
    return route_decide(&r->route[p->round % ROUND_AHEAD], &maker, p, hook, err);
}

/* Upper bounds of the launches: the tiers, and the longest sequence there can be. */
static void set_bounds(round_loop *r, int requests, int rows)
{
    round_plan *p = planning(r);
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
    round_plan *p = planning(r);
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
    round_plan *p = planning(r);
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

/* Bounds of the launches and the route. */
static int plan_bounds(round_loop *r, foray_error *err)
{
    round_plan *p = planning(r);
    int rows = 0;
    p->phase = PHASE_DECODE;
    for (int i = 0; i < p->members; i++)
        if (reads_prompt(r, &p->member[i]))
            p->phase = PHASE_PREFILL;
    for (int i = 0; i < p->members && p->phase == PHASE_PREFILL; i++)
        p->member[i].draft_room = 0;
    if (p->drafter) {
        if (!drafts_on_device(p->drafter) && p->phase != PHASE_PREFILL)
            budget_offer_probe(&r->budget);
        p->estimates = r->budget;
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
    set_bounds(r, p->members, rows);
    plan_extend(r);
    return decide(r, r->config.rules.graphs && r->hooks.eager && r->hooks.eager(r->hooks.user, p), err);
}

/* From upper bounds: what turns out not to be needed is given back when the round is over. */
static int reserve_round(round_loop *r, foray_error *err)
{
    const round_plan *p = planning(r);
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

/* ---- one round ------------------------------------------------------------------------------- */

void round_open_slot(round_loop *r, int slot)
{
    ahead_open(&r->ahead[slot]);
    if (drafts_on_device(r->config.drafter))
        r->config.drafter->open_slot(r->config.drafter, slot);
}

void round_begin(round_loop *r)
{
    assert(round_in_flight(r) < ROUND_AHEAD);
    round_plan *p = planning(r);
    plan_open(p, r->launched + 1);
    p->drafter = r->config.drafter;
    r->times[p->round % ROUND_AHEAD] =
        (round_times) { .begin = clock_fast_ns(), .waited = r->launched == r->retired };
}

int round_add(round_loop *r, sequence *s, int chunk, bool speculate, foray_error *err)
{
    round_plan *p = planning(r);
    if (p->members >= r->config.max_requests)
        return fail(err, FORAY_ESTATE, "round: more than %d requests in one round", r->config.max_requests);
    plan_member *m = &p->member[p->members++];
    *m = (plan_member) { .sequence = s, .chunk = chunk, .speculate = speculate };
    ahead_look(&r->ahead[s->slot], s);
    if (speculate && p->drafter && r->config.spec_budget != 0) {
        int room = ahead_draft_room(&r->ahead[s->slot], s);
        m->draft_room = room < r->config.spec_tokens ? room : r->config.spec_tokens;
    }
    return 0;
}

/* The host's view of what it has launched. */
static void note_launched(round_loop *r)
{
    const round_plan *p = planning(r);
    const drafter *d = drafts_on_device(p->drafter) ? p->drafter : NULL;
    int room = d ? d->most_extended : 0;
    for (int i = 0; i < p->members; i++) {
        const plan_member *m = &p->member[i];
        ahead *a = &r->ahead[m->sequence->slot];
        int rows = m->extend ? ahead_extends(a, d, m) : 0;
        ahead_launch(a, d, m, m->extend ? room : 0);
        room -= rows < room ? rows : room;
    }
    r->counters.rounds++;
    r->counters.waited += r->times[p->round % ROUND_AHEAD].waited;
    r->launched++;
}

int round_launch(round_loop *r, foray_error *err)
{
    round_plan *p = planning(r);
    if (r->hooks.before_draft) {
        r->hooks.before_draft(r->hooks.user, p, &r->config.drafter);
        p->drafter = r->config.drafter;
    }
    p->keep = r->hooks.keep;
    p->keep_user = r->hooks.user;
    int rc = plan_bounds(r, err);
    if (rc == 0)
        rc = reserve_round(r, err);
    if (rc == 0)
        rc = launch_round(r, err);
    if (rc != 0) {
        round_settle(r); /* whatever was launched must not outlive its inputs */
        return rc;
    }
    r->times[p->round % ROUND_AHEAD].planned = clock_fast_ns();
    note_launched(r);
    return 0;
}

int round_in_flight(const round_loop *r)
{
    return (int)(r->launched - r->retired);
}

int round_ahead(const round_loop *r)
{
    return r->in_flight;
}

void round_set_ahead(round_loop *r, int rounds)
{
    r->in_flight = rounds < 1 ? 1 : rounds < ROUND_AHEAD ? rounds : ROUND_AHEAD;
}

/* m's request in the round that is still in flight; NULL: it has none. */
static const plan_member *later_of(round_loop *r, const plan_member *m)
{
    const round_plan *p = round_plan_of(r, r->launched);
    for (int i = 0; r->launched > r->retired && i < p->members; i++)
        if (p->member[i].sequence == m->sequence)
            return &p->member[i];
    return NULL;
}

static void note_times(round_loop *r, const plan_result *result)
{
    round_times *t = &r->times[r->retired % ROUND_AHEAD];
    t->drafting = result->at.drafting;
    t->drafted = result->at.drafted;
    t->packed = result->at.packed;
    t->verified = result->at.verified;
    t->published = result->at.published;
    t->committed = result->at.committed;
    t->extended = event_time_ns(r->done[r->retired % ROUND_AHEAD]);
    t->returned = clock_fast_ns();
}

int round_retire(round_loop *r, foray_error *err)
{
    assert(round_in_flight(r) > 0);
    int rc = event_sync(r->done[(r->retired + 1) % ROUND_AHEAD], err);
    if (rc != 0)
        return rc;
    round_plan *p = round_plan_of(r, ++r->retired);
    const plan_result *result = plan_result_of(&r->parts, p->round);
    plan_take(result, p);
    note_times(r, result);
    route_count(&r->route[p->round % ROUND_AHEAD], r->graphs, p);
    for (int i = 0; i < p->members; i++) {
        const plan_member *m = &p->member[i];
        ahead *a = &r->ahead[m->sequence->slot];
        ahead_retire(a, m, later_of(r, m));
        cache_trim(r->config.cache, m->sequence->slot, a->most);
    }
    if (p->wanted >= 0)
        r->wanted[r->wanted_at++ % ROUND_WANTED] = p->wanted;
    return 0;
}

int round_run(round_loop *r, foray_error *err)
{
    assert(round_in_flight(r) == 0);
    int rc = round_launch(r, err);
    return rc == 0 ? round_retire(r, err) : rc;
}

void round_settle(round_loop *r)
{
    stream_sync(r->planner, NULL);
    stream_sync(r->stream, NULL);
    fork_drain(r->fork);
}

round_bounds round_known(round_loop *r, const sequence *s)
{
    ahead *a = &r->ahead[s->slot];
    ahead_look(a, s);
    return (round_bounds) { a->least, a->most };
}

void round_observe(round_loop *r, int64_t wall_ns)
{
    const round_plan *p = round_get_plan(r);
    budget *b = &r->budget;
    int before = r->extended_before; /* its extend lies in this wall */
    r->extended_before = p->phase == PHASE_PREFILL ? -1 : p->extend_launched;
    b->probing = p->probed;
    if (p->probed && p->drafts == 0)
        budget_take_probe(b, budget_cost_ns(b, p->rows) - budget_cost_ns(b, p->rows - 1));
    for (int i = 0; i < p->members; i++) {
        const plan_member *m = &p->member[i];
        if (m->keep > 0)
            budget_observe_accept(b, m->draft.signal, m->keep, m->accepted);
        if (p->wanted >= 0 && m->draft.signal >= 0)
            budget_observe_signal(b, m->draft.signal);
    }
    if (p->phase == PHASE_PREFILL)
        return;
    if (p->drafts > 0 && before > 0)
        budget_observe_chain(b, p->drafts, p->members, p->rows, (double)wall_ns);
    else if (p->drafts == 0 && before == 0)
        budget_observe_round(b, p->rows, (double)wall_ns);
    else
        budget_observe_other(b, (double)wall_ns);
}

/* ---- creation, costs, accessors -------------------------------------------------------------- */

static int create_buffers(round_loop *r, foray_error *err)
{
    device *d = r->config.device;
    size_t heads = (size_t)r->pass.max_heads;
    int rc = device_alloc(d, "sample position", heads * sizeof *r->sample_position,
                          (void **)&r->sample_position, err);
    if (rc == 0)
        rc = device_alloc(d, "token", heads * sizeof *r->token, (void **)&r->token, err);
    if (rc == 0)
        rc = device_alloc(d, "logprob", heads * sizeof *r->logprob, (void **)&r->logprob, err);
    if (rc == 0)
        rc = device_alloc(d, "sample params", heads * sizeof *r->params, (void **)&r->params, err);
    if (rc == 0)
        rc = device_alloc(d, "sample history", heads * sizeof *r->history, (void **)&r->history, err);
    return rc;
}

static int create_events(round_loop *r, foray_error *err)
{
    device *d = r->config.device;
    int rc = event_create(d, "given ready", &r->given_ready, err);
    if (rc == 0)
        rc = event_create(d, "given read", &r->given_read, err);
    if (rc == 0)
        rc = event_create(d, "extension ready", &r->extension_ready, err);
    if (rc == 0)
        rc = event_create(d, "extension read", &r->extension_read, err);
    for (int i = 0; i < ROUND_AHEAD && rc == 0; i++)
        rc = event_create(d, "round done", &r->done[i], err);
    return rc;
}

static void expect_all_drafts(round_loop *r)
{
    for (int i = 0; i < ROUND_WANTED; i++)
        r->wanted[i] = r->config.spec_tokens;
}

static int create_sides(round_loop *r, foray_error *err)
{
    const char *const *names;
    int sides = model_sides(r->config.model, &names);
    return sides > 0 && r->config.multi_stream_rows > 0
               ? fork_create(r->config.device, names, sides, &r->fork, err)
               : 0;
}

int round_most_rows(int prefill_chunk)
{
    return plan_tier(prefill_chunk > BUDGET_MAX_ROWS ? prefill_chunk : BUDGET_MAX_ROWS);
}

int round_create(const round_config *config, round_loop **out, foray_error *err)
{
    if (config->max_requests < 1 || config->max_requests > PLAN_MAX_MEMBERS)
        return fail(err, FORAY_EUSAGE, "%d requests at once cannot be (1 to %d)", config->max_requests,
                    PLAN_MAX_MEMBERS);
    round_loop *r = mem_alloc_zeroed(MEM_GENERAL, sizeof *r);
    if (!r)
        return fail(err, FORAY_ENOMEM, "round: no memory");
    r->config = *config;
    r->max_decode_rows = BUDGET_MAX_ROWS;
    r->max_decode_rows = plan_tier(round_upper_rows(r, config->max_requests));
    r->max_rows = round_most_rows(config->prefill_chunk);
    budget_init(&r->budget, config->spec_budget);
    r->in_flight = ROUND_AHEAD;
    expect_all_drafts(r);
    for (int i = 0; i < ROUND_AHEAD; i++)
        r->staged[i] = (plan_staged) { .plan = &r->plan[i], .parts = &r->parts };
    int rc = stream_create(config->device, "main", &r->stream, err);
    r->planner = r->stream;
    if (rc == 0 && !config->one_stream)
        rc = stream_create(config->device, "plan", &r->planner, err);
    if (rc == 0)
        rc = create_events(r, err);
    if (rc == 0)
        rc = plan_parts_create(config->device, &r->parts, err);
    if (rc == 0 &&
        !(r->ahead = mem_alloc_zeroed(MEM_GENERAL, sizeof *r->ahead * (size_t)cache_slots(config->cache))))
        rc = fail(err, FORAY_ENOMEM, "round: no memory");
    if (rc == 0)
        rc = graphs_create(config->device, config->graph_bytes, &r->graphs, err);
    if (rc == 0)
        rc = model_pass_create(config->model, config->device, r->max_rows, plan_tier(config->max_requests),
                               r->max_decode_rows, cache_max_length(config->cache), &r->pass, err);
    if (rc == 0)
        rc = create_buffers(r, err);
    if (rc == 0)
        rc = create_sides(r, err);
    if (rc != 0) {
        round_destroy(r);
        return rc;
    }
    *out = r;
    return 0;
}

void round_destroy(round_loop *r)
{
    if (!r)
        return;
    device *d = r->config.device;
    if (r->stream && r->planner)
        round_settle(r);
    graphs_destroy(r->graphs);
    fork_destroy(r->fork);
    event *events[] = { r->given_ready,    r->given_read, r->extension_ready,
                        r->extension_read, r->done[0],    r->done[1] };
    for (size_t i = 0; i < sizeof events / sizeof *events; i++)
        event_destroy(events[i]);
    if (r->planner != r->stream)
        stream_destroy(r->planner);
    stream_destroy(r->stream);
    plan_parts_destroy(d, &r->parts);
    if (r->ahead)
        mem_free(MEM_GENERAL, r->ahead, sizeof *r->ahead * (size_t)cache_slots(r->config.cache));
    model_pass_destroy(r->config.model, d, &r->pass);
    void *buffers[] = { r->sample_position, r->token, r->logprob, r->params, r->history };
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
        if (buffers[i])
            device_free(d, buffers[i]);
    mem_free(MEM_GENERAL, r, sizeof *r);
}

void round_set_hooks(round_loop *r, const round_hooks *hooks)
{
    r->hooks = hooks ? *hooks : (round_hooks) { 0 };
}

void round_set_drafter(round_loop *r, drafter *d)
{
    r->config.drafter = d;
    expect_all_drafts(r);
}

drafter *round_get_drafter(const round_loop *r)
{
    return r->config.drafter;
}

void round_set_chain(round_loop *r, const double *extra_ns, int most)
{
    budget_set_chain(&r->budget, extra_ns, most);
}

void round_set_probing(round_loop *r, bool on)
{
    r->budget.no_probes = !on;
}

int round_set_budget(round_loop *r, int fixed)
{
    int was = r->budget.fixed;
    r->budget.fixed = fixed;
    return was;
}

void round_set_costs(round_loop *r, const int *rows, const double *ns, int count)
{
    budget_set_costs(&r->budget, rows, ns, count);
}

const round_plan *round_get_plan(const round_loop *r)
{
    return &r->plan[r->retired % ROUND_AHEAD];
}

const round_times *round_get_times(const round_loop *r)
{
    return &r->times[r->retired % ROUND_AHEAD];
}

const route *round_get_route(const round_loop *r)
{
    return &r->route[r->retired % ROUND_AHEAD];
}

const budget *round_get_budget(const round_loop *r)
{
    return &r->budget;
}

void round_put_budget(round_loop *r, const budget *b)
{
    r->budget = *b;
}

int round_upper_rows(const round_loop *r, int requests)
{
    int rows = requests * (1 + (r->config.drafter ? r->config.spec_tokens : 0));
    return rows < r->max_decode_rows ? rows : r->max_decode_rows;
}

int round_capture(round_loop *r, int requests, int rows, int drafts, int extended, foray_error *err)
{
    round_plan *p = planning(r);
    plan_open(p, r->launched + 1); /* a round of nobody, with these bounds */
    p->drafter = r->config.drafter;
    p->phase = rows > requests ? PHASE_TARGET_VERIFY : PHASE_DECODE;
    set_bounds(r, requests, rows);
    p->draft_steps = drafts;
    p->extend_launched = extended;
    if (extended > 0 && extended > r->config.drafter->most_extended)
        p->extend_launched = r->config.drafter->most_extended;
    return decide(r, false, err);
}

int round_graph_json(round_loop *r, int requests, int rows, buf *out, foray_error *err)
{
    int rc = round_capture(r, requests, rows, 0, 0, err);
    const route *way = &r->route[(r->launched + 1) % ROUND_AHEAD];
    if (rc == 0 && !way->replay[ROUTE_TARGET])
        return fail(err, FORAY_EUSAGE, "no graph of %d requests and %d rows: %s", requests, rows,
                    route_reason_name(way->why[ROUTE_TARGET]));
    if (rc == 0)
        graph_json(way->replay[ROUTE_TARGET], out);
    return rc;
}

uint64_t round_graph_bytes(const round_loop *r)
{
    return graphs_bytes(r->graphs);
}

pass *round_pass(round_loop *r)
{
    return &r->pass;
}

stream *round_stream(round_loop *r)
{
    return r->stream;
}

const graph_counters *round_graph_counters(const round_loop *r, graph_family f)
{
    return graphs_counters(r->graphs, f);
}

round_counters round_get_counters(const round_loop *r)
{
    round_counters out = r->counters;
    for (int f = 0; f < GRAPH_FAMILIES; f++) {
        const graph_counters *c = graphs_counters(r->graphs, (graph_family)f);
        bool target = f == GRAPH_DECODE || f == GRAPH_VERIFY;
        out.captures += c->captures;
        out.replays += target ? c->replays : 0;
        for (int why = 0; why < ROUTE_REASONS; why++)
            out.eager += target ? c->refused[why] : 0;
    }
    return out;
}
