/* round.c: planning, launching and replaying one round. See round.h. */
#include "spec/round.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "spec/accept.h"
#include "spec/route.h"

struct round_loop {
    round_config config;
    round_hooks hooks;
    stream *stream;
    fork_streams *fork; /* NULL: the model has no side streams, or is not to use them */
    event *done;
    graphs *graphs;
    route route; /* the plan's */
    pass pass;
    round_plan plan;
    round_times times;
    budget budget;
    int max_rows, max_decode_rows; /* of any round; of a round without a prompt */
    int64_t rounds;
    int extended_before; /* rows launched by the extend of the round before; -1: it read a prompt */

    /* Device memory, by head row. */
    int32_t *sample_position, *token;
    float *logprob;
    const sample_params **params;
    sample_history *history;
};

/* ---- kernels of class host ------------------------------------------------------------------- */

static void run_draft(void *user)
{
    round_loop *r = user;
    round_plan *p = &r->plan;
    r->times.drafting = r->times.drafted = clock_fast_ns();
    for (int i = 0; i < p->members && r->config.drafter->propose; i++) {
        plan_member *m = &p->member[i];
        m->draft.count = 0;
        m->draft.drawn = NULL;
        if (m->draft_room > 0)
            r->config.drafter->propose(r->config.drafter, m->sequence, m->draft_room, &m->draft);
    }
    r->times.drafted = clock_fast_ns();
}

/* A drafter of the device says when it makes its drafts how many are worth making: all of them are verified. */
static bool drafts_on_device(const round_loop *r)
{
    return r->config.drafter && !r->config.drafter->propose;
}

/* How many drafts of each member are worth their rows. */
static void choose_keep(round_loop *r)
{
    round_plan *p = &r->plan;
    draft drafts[PLAN_MAX_MEMBERS];
    int keep[PLAN_MAX_MEMBERS], proposed = 0;
    for (int i = 0; i < p->members; i++) {
        drafts[i] = p->member[i].draft;
        proposed += drafts[i].count;
        p->member[i].keep = 0;
    }
    if (proposed == 0)
        return;
    if (r->hooks.keep) {
        for (int i = 0, room = p->rows_launched - p->members; i < p->members; i++) {
            int wanted = r->hooks.keep(r->hooks.user, &p->member[i]);
            p->member[i].keep = wanted < room ? wanted : room;
            room -= p->member[i].keep;
        }
        return;
    }
    if (!drafts_on_device(r))
        budget_choose(&r->budget, drafts, p->members, p->rows_launched, keep);
    for (int i = 0; i < p->members; i++)
        p->member[i].keep = drafts_on_device(r) ? p->member[i].draft.count : keep[i];
}

/* What the sampler needs to know about each head row. */
static void describe_heads(round_loop *r)
{
    for (int i = 0; i < r->plan.members; i++) {
        const plan_member *m = &r->plan.member[i];
        const sequence *s = m->sequence;
        if (m->first_head < 0)
            continue;
        for (int j = 0; j <= m->keep; j++) {
            int h = m->first_head + j, position = s->count + j;
            r->sample_position[h] = position;
            r->params[h] = &s->params[position < s->min_count];
            r->history[h] = (sample_history) {
                .tokens = s->tokens,
                .count = s->count,
                .prompt = s->prompt,
                .draft = m->draft.tokens,
                .draft_count = j,
                .trial = r->config.accept == ACCEPT_EXACT && j < m->keep,
                .drawn = m->draft.drawn ? m->draft.drawn + (size_t)j * m->draft.drawn_stride : NULL,
            };
        }
    }
}

static void run_pack(void *user)
{
    round_loop *r = user;
    if (r->plan.draft_steps > 0)
        r->times.drafted = clock_fast_ns();
    choose_keep(r);
    plan_pack(&r->plan, &r->pass);
    describe_heads(r);
    r->times.packed = clock_fast_ns();
}

static void run_accept(void *user)
{
    round_loop *r = user;
    round_plan *p = &r->plan;
    r->times.verified = clock_fast_ns();
    for (int i = 0; i < p->members; i++) {
        plan_member *m = &p->member[i];
        sequence *s = m->sequence;
        m->accepted = m->committed = 0;
        s->computed += m->chunk;
        if (m->first_head < 0)
            continue;
        const int32_t *target = r->token + m->first_head;
        m->accepted = accept_drafts(m->draft.tokens, target, m->keep + 1);
        m->committed = sequence_append(s, target, m->accepted + 1);
        s->computed = s->count - 1; /* accepted drafts have their entries, the newest token has none */
    }
    plan_seal(p, PLAN_C);
}

static void run_publish(void *user)
{
    round_loop *r = user;
    r->times.published = clock_fast_ns();
}

static void run_commit(void *user)
{
    round_loop *r = user;
    r->times.committed = clock_fast_ns();
}

/* reads, writes: one address in a device buffer each, or NULL. */
static int launch_host(round_loop *r, const char *name, void (*run)(void *), const void *reads,
                       const void *writes, foray_error *err)
{
    args_host a = { .name = name, .run = run, .user = r, .reads = { reads }, .writes = { writes } };
    return stream_launch(r->stream, KERNEL_HOST, &(kernel_args) { .host = a }, err);
}

/* Part B writes every input of the pass. */
static int launch_pack(round_loop *r, foray_error *err)
{
    args_host a = { .name = "pack",
                    .run = run_pack,
                    .user = r,
                    .writes = { r->pass.count, r->pass.ids, r->pass.position, r->pass.spans } };
    return stream_launch(r->stream, KERNEL_HOST, &(kernel_args) { .host = a }, err);
}

/* ---- one round ------------------------------------------------------------------------------- */

static void mark(round_loop *r, phase of, int rows)
{
    device_mark(r->config.device,
                (task_mark) { .round = r->plan.round, .phase = of, .rank = 0, .rows = rows });
}

/* Trunk to publish: what a graph holds, or what runs eagerly. */
static int launch_verify(round_loop *r, int slots, int rows, int heads, foray_error *err)
{
    const round_config *c = &r->config;
    mark(r, r->plan.phase, rows);
    bool forks = r->plan.phase != PHASE_PREFILL && rows <= c->multi_stream_rows;
    int rc = model_trunk(c->model, &r->pass, c->cache, rows, slots, r->plan.max_length, r->stream,
                         forks ? r->fork : NULL, err);
    if (rc == 0)
        rc = model_head(c->model, &r->pass, heads, r->stream, err);
    mark(r, PHASE_ACCEPT, rows);
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
                                         .reads = c->drafter ? c->drafter->drawn : NULL } },
            err);
    if (rc == 0)
        rc = launch_host(r, "accept", run_accept, r->token, NULL, err);
    if (rc == 0)
        rc = launch_host(r, "publish", run_publish, NULL, NULL, err);
    return rc;
}

/* A phase of the plan, as a graph holds it or as it runs eagerly. Nodes keep the phase that is marked meanwhile. */
static int launch_family(void *user, graph_family f, foray_error *err)
{
    round_loop *r = user;
    round_plan *p = &r->plan;
    drafter *d = r->config.drafter;
    switch (f) {
    case GRAPH_DRAFT:
        mark(r, PHASE_DRAFT, p->slots_launched);
        return d->draft_now(d, p, r->stream, err);
    case GRAPH_EXTEND:
        mark(r, PHASE_DRAFT_EXTEND, p->extend_launched);
        return d->extend_now(d, p, r->stream, err);
    default:
        return launch_verify(r, p->slots_launched, p->rows_launched, p->rows_launched, err);
    }
}

/* hook: somebody wants the round to run eagerly. */
static int decide(round_loop *r, bool hook, foray_error *err)
{
    const route_maker maker = {
        .rules = &r->config.rules,
        .graphs = r->graphs,
        .stream = r->stream,
        .drafter = r->config.drafter,
        .launch = launch_family,
        .user = r,
    };
    return route_decide(&r->route, &maker, &r->plan, hook, err);
}

/* Upper bounds of the launches: the tiers, and the longest sequence there can be. */
static void set_bounds(round_loop *r, int requests, int rows)
{
    round_plan *p = &r->plan;
    int most = p->phase == PHASE_PREFILL ? r->max_rows : r->max_decode_rows;
    p->rows_launched = plan_tier(rows) < most ? plan_tier(rows) : most;
    p->slots_launched = plan_tier(requests);
    p->max_length = cache_max_length(r->config.cache);
}

/* A drafter of the device: who drafts in this round, and how much. */
static void plan_chain(round_loop *r)
{
    round_plan *p = &r->plan;
    const drafter *d = r->config.drafter;
    int room[PLAN_MAX_MEMBERS], signal[PLAN_MAX_MEMBERS];
    for (int i = 0; i < p->members; i++) {
        plan_member *m = &p->member[i];
        room[i] = m->draft_room > 0 && d->is_ready(d, m->sequence) ? m->draft_room : 0;
        signal[i] = d->signal_now(d, m->sequence);
    }
    int drafts = budget_choose_chain(&r->budget, room, signal, p->members, r->max_decode_rows);
    for (int i = 0; i < p->members; i++) {
        plan_member *m = &p->member[i];
        m->draft_room = room[i] < drafts ? room[i] : drafts;
        if (m->draft_room > p->draft_steps)
            p->draft_steps = m->draft_room;
    }
}

/* A drafter of the device: whose rows are made ready behind accept, as far as one pass of it holds them. */
static void plan_extend(round_loop *r)
{
    round_plan *p = &r->plan;
    drafter *d = r->config.drafter;
    int rows = 0, owed = 0;
    if (!drafts_on_device(r) || r->config.spec_budget == 0)
        return;
    for (int i = 0; i < p->members; i++)
        owed += d->owed(d, p->member[i].sequence);
    bool wanted = budget_wants_chain(&r->budget, p->members, owed, p->phase != PHASE_PREFILL);
    if (wanted && r->hooks.pause)
        wanted = !r->hooks.pause(r->hooks.user, p);
    for (int i = 0; i < p->members; i++) {
        plan_member *m = &p->member[i];
        int most = wanted && m->speculate ? d->owed(d, m->sequence) + m->chunk + m->draft_room : 0;
        m->extend = most > 0 && rows < d->most_extended; /* what one pass does not hold is owed to the next */
        rows += m->extend ? most : 0;
        rows = rows < d->most_extended ? rows : d->most_extended;
    }
    p->extend_launched = plan_tier(rows) < d->most_extended ? plan_tier(rows) : d->most_extended;
    if (rows == 0)
        p->extend_launched = 0;
}

/* Seals part A: bounds of the launches and the route. */
static int seal_bounds(round_loop *r, foray_error *err)
{
    round_plan *p = &r->plan;
    int rows = 0;
    p->phase = PHASE_DECODE;
    for (int i = 0; i < p->members; i++)
        if (p->member[i].sequence->count == p->member[i].sequence->prompt)
            p->phase = PHASE_PREFILL;
    for (int i = 0; i < p->members && p->phase == PHASE_PREFILL; i++)
        p->member[i].draft_room = 0;
    if (drafts_on_device(r) && p->phase != PHASE_PREFILL)
        plan_chain(r);
    for (int i = 0; i < p->members; i++)
        rows += p->member[i].chunk + p->member[i].draft_room;
    for (int i = 0; i < p->members; i++)
        if (p->member[i].draft_room > 0)
            p->phase = PHASE_TARGET_VERIFY;
    set_bounds(r, p->members, rows);
    plan_extend(r);
    int rc = decide(r, r->config.rules.graphs && r->hooks.eager && r->hooks.eager(r->hooks.user, p), err);
    plan_seal(p, PLAN_A);
    return rc;
}

/* Replayed or launched, as the route has it. */
static int run_part(round_loop *r, int part, int rows, foray_error *err)
{
    const graph_key k = route_key(&r->plan, part, NULL);
    if (!r->route.replay[part])
        return launch_family(r, k.family, err);
    mark(r, graph_family_phase(k.family), rows);
    return graph_launch(r->route.replay[part], r->stream, err);
}

static int launch_round(round_loop *r, foray_error *err)
{
    round_plan *p = &r->plan;
    int rc = 0;
    mark(r, PHASE_DRAFT, p->members);
    if (p->phase == PHASE_TARGET_VERIFY)
        rc = launch_host(r, "draft", run_draft, NULL, NULL, err);
    if (rc == 0 && p->draft_steps > 0)
        rc = run_part(r, ROUTE_DRAFT, p->members, err);
    mark(r, PHASE_PLAN, p->members);
    if (rc == 0)
        rc = launch_pack(r, err);
    if (rc == 0)
        rc = p->phase == PHASE_PREFILL
                 ? launch_verify(r, p->slots_launched, p->rows_launched, r->pass.max_heads, err)
                 : run_part(r, ROUTE_TARGET, p->rows_launched, err);
    mark(r, PHASE_DRAFT_EXTEND, p->extend_launched);
    if (rc == 0 && p->extend_launched > 0)
        rc = launch_host(r, "commit", run_commit, NULL, NULL, err);
    if (rc == 0 && p->extend_launched > 0)
        rc = run_part(r, ROUTE_EXTEND, p->extend_launched, err);
    return rc;
}

static int reserve_round(round_loop *r, foray_error *err)
{
    round_plan *p = &r->plan;
    for (int i = 0; i < p->members; i++) {
        const plan_member *m = &p->member[i];
        const sequence *s = m->sequence;
        int rc = cache_reserve_extend(r->config.cache, s->slot, s->computed,
                                      s->computed + m->chunk + m->draft_room, err);
        if (rc != 0)
            return rc;
    }
    return 0;
}

void round_open_slot(round_loop *r, int slot)
{
    if (drafts_on_device(r))
        r->config.drafter->open_slot(r->config.drafter, slot);
}

void round_begin(round_loop *r)
{
    r->times = (round_times) { .begin = clock_fast_ns() };
    plan_open(&r->plan, ++r->rounds);
}

int round_add(round_loop *r, sequence *s, int chunk, bool speculate, foray_error *err)
{
    round_plan *p = &r->plan;
    if (p->members >= r->config.max_requests)
        return fail(err, FORAY_ESTATE, "round: more than %d requests in one round", r->config.max_requests);
    plan_member *m = &p->member[p->members++];
    *m = (plan_member) { .sequence = s, .chunk = chunk, .first_head = -1, .speculate = speculate };
    if (speculate && r->config.drafter && r->config.spec_budget != 0) {
        int room = sequence_draft_room(s);
        m->draft_room = room < r->config.spec_tokens ? room : r->config.spec_tokens;
    }
    return 0;
}

int round_run(round_loop *r, round_times *times, foray_error *err)
{
    round_plan *p = &r->plan;
    if (r->hooks.before_draft)
        r->hooks.before_draft(r->hooks.user, p, &r->config.drafter);
    int rc = seal_bounds(r, err);
    if (rc == 0)
        rc = reserve_round(r, err);
    r->times.planned = clock_fast_ns();
    r->times.drafting = r->times.drafted = r->times.planned;
    if (rc == 0)
        rc = launch_round(r, err);
    if (rc == 0)
        rc = event_record(r->done, r->stream, err);
    if (rc == 0)
        rc = event_sync(r->done, err);
    if (rc != 0) {
        stream_sync(r->stream, NULL); /* whatever was launched must not outlive its inputs */
        fork_drain(r->fork);
        return rc;
    }
    r->times.returned = clock_fast_ns();
    r->times.extended = event_time_ns(r->done);
    route_count(&r->route, r->graphs, p, r->config.drafter);
    if (p->extend_launched == 0)
        r->times.committed = r->times.extended;
    for (int i = 0; i < p->members; i++) {
        const plan_member *m = &p->member[i];
        cache_trim(r->config.cache, m->sequence->slot, m->sequence->computed);
    }
    *times = r->times;
    return 0;
}

void round_observe(round_loop *r, int64_t wall_ns)
{
    const round_plan *p = &r->plan;
    int before = r->extended_before; /* its extend lies in this wall */
    r->extended_before = p->phase == PHASE_PREFILL ? -1 : p->extend_launched;
    for (int i = 0; i < p->members; i++) {
        const plan_member *m = &p->member[i];
        if (m->keep > 0)
            budget_observe_accept(&r->budget, m->draft.signal, m->keep, m->accepted);
    }
    if (p->phase == PHASE_PREFILL)
        return;
    if (p->draft_steps > 0 && before > 0)
        budget_observe_chain(&r->budget, p->draft_steps, p->members, p->rows, (double)wall_ns);
    else if (p->draft_steps == 0 && before == 0)
        budget_observe_round(&r->budget, p->rows, (double)wall_ns);
    else
        budget_observe_other(&r->budget, (double)wall_ns);
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
    int rc = stream_create(config->device, "main", &r->stream, err);
    if (rc == 0)
        rc = event_create(config->device, "round done", &r->done, err);
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
    graphs_destroy(r->graphs);
    fork_destroy(r->fork);
    if (r->done)
        event_destroy(r->done);
    if (r->stream)
        stream_destroy(r->stream);
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
    return &r->plan;
}

const round_times *round_get_times(const round_loop *r)
{
    return &r->times;
}

const route *round_get_route(const round_loop *r)
{
    return &r->route;
}

float round_logprob(const round_loop *r, const plan_member *m, int i)
{
    return r->logprob[m->first_head + i];
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
    round_plan *p = &r->plan;
    plan_open(p, r->rounds); /* a round of nobody, with these bounds */
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
    if (rc == 0 && !r->route.replay[ROUTE_TARGET])
        return fail(err, FORAY_EUSAGE, "no graph of %d requests and %d rows: %s", requests, rows,
                    route_reason_name(r->route.why[ROUTE_TARGET]));
    if (rc == 0)
        graph_json(r->route.replay[ROUTE_TARGET], out);
    return rc;
}

int round_distinct_experts(const round_loop *r)
{
    return model_distinct_experts(r->config.model, &r->pass);
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
    round_counters out = { 0 };
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
