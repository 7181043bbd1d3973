/* round.c: a round loop: rounds begin, are launched and end. See round.h; what the host decides is in round_plan.c, what is
 * launched in round_launch.c, what runs on the device in round_kernels.c.
 */
#include "spec/round_internal.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"

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
    round_plan *p = round_planning(r);
    plan_open(p, r->launched + 1);
    p->drafter = r->config.drafter;
    r->times[p->round % ROUND_AHEAD] =
        (round_times) { .begin = clock_fast_ns(), .waited = r->launched == r->retired };
}

int round_add(round_loop *r, sequence *s, int chunk, bool speculate, foray_error *err)
{
    round_plan *p = round_planning(r);
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
    const round_plan *p = round_planning(r);
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
    round_plan *p = round_planning(r);
    if (r->hooks.before_draft) {
        r->hooks.before_draft(r->hooks.user, p, &r->config.drafter);
        p->drafter = r->config.drafter;
    }
    p->keep = r->hooks.keep;
    p->keep_user = r->hooks.user;
    int rc = round_plan_bounds(r, err);
    if (rc == 0)
        rc = round_reserve(r, err);
    if (rc == 0)
        rc = round_launch_parts(r, err);
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
    if (round_plan_of(r, r->retired)->extend_launched == 0)
        t->committed = t->extended;
    t->returned = clock_fast_ns();
    r->extend_before_ns = r->extend_ns;
    r->extend_ns = t->extended - t->committed;
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
    const round_times *t = round_get_times(r);
    budget *b = &r->budget;
    const int64_t draft_ns = p->drafts > 0 ? t->drafted - t->drafting : 0;
    int runs = 0, grown = 0;
    if (p->phase == PHASE_PREFILL)
        return;
    b->probing = p->probed;
    for (int i = 0; i < p->members; i++) {
        const plan_member *m = &p->member[i];
        runs += m->committed > 0;
        grown += m->committed;
        if (m->keep > 0)
            budget_observe_accept(b, m->draft.signal, m->keep, m->accepted);
        if (p->wanted >= 0 && m->draft.signal >= 0)
            budget_observe_signal(b, m->draft.signal);
    }
    if (p->probed && p->drafts == 0)
        budget_take_probe(b, budget_round_ns(b, runs, p->rows) - budget_round_ns(b, runs, p->rows - 1));
    if (p->extended > 0 && p->extended <= grown) /* else it made rows that it owed */
        budget_observe_chain(b, runs, p->drafts, (double)(draft_ns + r->extend_ns));
    budget_observe_round(b, runs, p->rows, p->experts_distinct,
                         (double)(wall_ns - r->extend_before_ns - draft_ns));
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

budget *round_edit_budget(round_loop *r)
{
    return &r->budget;
}

int round_upper_rows(const round_loop *r, int requests)
{
    int rows = requests * (1 + (r->config.drafter ? r->config.spec_tokens : 0));
    return rows < r->max_decode_rows ? rows : r->max_decode_rows;
}

int round_capture(round_loop *r, int requests, int rows, int drafts, int extended, foray_error *err)
{
    round_plan *p = round_planning(r);
    plan_open(p, r->launched + 1); /* a round of nobody, with these bounds */
    p->drafter = r->config.drafter;
    p->phase = rows > requests ? PHASE_TARGET_VERIFY : PHASE_DECODE;
    round_set_bounds(r, requests, rows);
    p->draft_steps = drafts;
    p->extend_launched = extended;
    if (extended > 0 && extended > r->config.drafter->most_extended)
        p->extend_launched = r->config.drafter->most_extended;
    return round_decide(r, false, err);
}

void round_graphs_json(const round_loop *r, buf *out)
{
    graphs_json(r->graphs, out);
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
