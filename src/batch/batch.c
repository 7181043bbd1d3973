/* batch.c: the step loop. See batch.h. */
#include "batch/batch.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"

/* Tokens of each request for which memory is kept ready, so that a steady step takes no page fault. */
enum { WARM_TOKENS = 64 };

struct batch {
    batch_config config;
    request *first, *last;              /* all requests that are held, in order of submission */
    request *running[PLAN_MAX_MEMBERS]; /* by slot; NULL: free */
    /* Of the rounds in flight, two in turn, as their plans' members; and those of one that could not be launched. */
    request *in_round[ROUND_AHEAD][PLAN_MAX_MEMBERS], *refused[PLAN_MAX_MEMBERS];
    int64_t launched, retired; /* rounds */
    int refused_count;
    foray_error refusal;
    request *delivered[PLAN_MAX_MEMBERS];
    bool had_ended[PLAN_MAX_MEMBERS]; /* members of the round retired last, for which it came in vain */
    foray_request next_handle;
    bool last_was_prefill;
    step_record record,
        record_before; /* of the round retired last, and of the one before that somebody waited for */
    int record_rc;     /* what config.record returned, with its error, until a step has returned it */
    foray_error record_error;
    int64_t saved_error_ns; /* how far its net_saved_ns may be off */
    int64_t steps, idle_ns;
    /* The end of the last step: where the next one's wall starts. */
    int64_t published_ns, committed_ns, extended_ns, returned_ns;
};

int batch_create(const batch_config *config, batch **out, foray_error *err)
{
    batch *b = mem_alloc_zeroed(MEM_GENERAL, sizeof *b);
    if (!b)
        return fail(err, FORAY_ENOMEM, "batch: no memory");
    b->config = *config;
    b->next_handle = 1;
    b->published_ns = b->committed_ns = b->extended_ns = b->returned_ns = clock_fast_ns();
    *out = b;
    return 0;
}

static bool any_active(const batch *b)
{
    for (const request *r = b->first; r; r = r->next)
        if (r->state != REQUEST_ENDED)
            return true;
    return false;
}

int batch_submit(batch *b, request *r, foray_error *err)
{
    int rc = cache_check_length(b->config.cache, r->sequence->limit, err);
    if (rc != 0)
        return rc;
    int64_t now = clock_fast_ns();
    if (!any_active(b)) { /* the time since the last step belongs to nobody */
        b->idle_ns += now > b->published_ns ? now - b->published_ns : 0;
        b->published_ns = b->committed_ns = b->extended_ns = b->returned_ns = now;
    }
    r->admitted_ns = now;
    r->handle = b->next_handle++;
    r->next = NULL;
    if (b->last)
        b->last->next = r;
    else
        b->first = r;
    b->last = r;
    return 0;
}

/* Gives back what a request holds of the machine. Its object stays. */
static void leave_slot(batch *b, request *r)
{
    int slot = r->sequence->slot;
    if (slot < 0)
        return;
    cache_release(b->config.cache, slot);
    b->running[slot] = NULL;
    r->sequence->slot = -1;
}

/* Out of the line, and gone. */
static void drop(batch *b, request *r)
{
    request *before = NULL;
    for (request *at = b->first; at != r; at = at->next)
        before = at;
    for (int i = 0; i < b->refused_count; i++)
        if (b->refused[i] == r)
            b->refused[i--] = b->refused[--b->refused_count];
    leave_slot(b, r);
    if (before)
        before->next = r->next;
    else
        b->first = r->next;
    if (b->last == r)
        b->last = before;
    request_free(b->config.device, r);
}

request *batch_find(const batch *b, foray_request handle)
{
    for (request *r = b->first; r; r = r->next)
        if (r->handle == handle && !r->released)
            return r;
    return NULL;
}

/* First come, first served: a request that does not fit yet holds up those behind it. */
static void admit(batch *b)
{
    for (request *r = b->first; r; r = r->next) {
        if (r->state != REQUEST_WAITS)
            continue;
        int slot = 0;
        while (slot < b->config.slots && b->running[slot])
            slot++;
        if (slot == b->config.slots || !cache_promise(b->config.cache, slot, r->sequence->limit))
            return;
        b->running[slot] = r;
        r->sequence->slot = slot;
        r->state = REQUEST_RUNS;
        round_open_slot(b->config.round, slot);
        cache_warm(b->config.cache, r->sequence->count + WARM_TOKENS, WARM_TOKENS);
    }
}

/* Whether its prompt, or what is left of it, is not in flight yet. */
static bool reads_prompt(batch *b, const request *r)
{
    return round_known(b->config.round, r->sequence).least < r->sequence->prompt;
}

/* Whether its last token may still have to be made: an end id may have come, but nobody knows. */
static bool may_go_on(batch *b, const request *r)
{
    const sequence *s = r->sequence;
    return r->state == REQUEST_RUNS && round_known(b->config.round, s).least < s->limit - 1;
}

/* Which requests take part in the next round: one that reads its prompt, or all that decode. Returns how many. */
static int choose_members(batch *b, request **in_round)
{
    request *reader = NULL;
    int decoders = 0;
    for (int i = 0; i < b->config.slots; i++) {
        request *r = b->running[i];
        if (!r || !may_go_on(b, r))
            continue;
        if (!reads_prompt(b, r))
            in_round[decoders++] = r;
        else if (!reader || r->handle < reader->handle)
            reader = r;
    }
    if (reader && !(decoders > 0 && b->last_was_prefill)) {
        in_round[0] = reader;
        b->last_was_prefill = true;
        return 1;
    }
    b->last_was_prefill = false;
    return decoders;
}

/* The interval [from, to) of the step's wall belongs to phase p: for the step and for every active request. */
static void charge(batch *b, phase p, int64_t *from, int64_t to)
{
    if (to <= *from) /* moments of different threads may be a few ns out of order */
        return;
    b->record.phases_ns[p] += to - *from;
    b->record.wall_ns += to - *from;
    for (request *r = b->first; r; r = r->next)
        if (r->state != REQUEST_ENDED)
            request_account(r, p, *from, to);
    *from = to;
}

static void charge_all(batch *b, const round_times *t, phase forward)
{
    int64_t at = b->published_ns;
    charge(b, PHASE_COMMIT, &at, b->committed_ns);
    charge(b, PHASE_DRAFT_EXTEND, &at, b->extended_ns);
    if (t->waited)
        charge(b, PHASE_SYNC, &at, b->returned_ns);
    charge(b, PHASE_HOST_GAP, &at, t->begin);
    charge(b, PHASE_PLAN, &at, t->planned);
    charge(b, PHASE_HOST_GAP, &at, t->drafting);
    charge(b, PHASE_DRAFT, &at, t->drafted);
    charge(b, PHASE_PLAN, &at, t->packed);
    charge(b, forward, &at, t->verified);
    charge(b, PHASE_ACCEPT, &at, t->published);
    b->published_ns = at;
    b->committed_ns = t->committed;
    b->extended_ns = t->extended;
    b->returned_ns = t->returned;
}

/* The requests of the round that was retired last, as its plan's members. */
static request *const *members_of(const batch *b)
{
    return b->in_round[b->retired % ROUND_AHEAD];
}

/* Tokens that the step's requests got: those behind a stop string do not count. */
static int delivered_tokens(const batch *b, const round_plan *p)
{
    int delivered = 0;
    for (int i = 0; i < p->members; i++)
        delivered += b->had_ended[i] ? 0 : members_of(b)[i]->out_count;
    return delivered;
}

static int kept_drafts(const round_plan *p)
{
    int kept = 0;
    for (int i = 0; i < p->members; i++)
        kept += p->member[i].keep;
    return kept;
}

/* What plain decoding would have taken for the same tokens, less what this step took, and how far that may be off. A step that
 * looked for drafts and verified none lost just the looking: the rest of it is the plain step, and its noise is no gain.
 * Nothing is claimed before a plain step's cost is known, and nothing of a step that nobody waited for: plain decoding has
 * those too. */
static int64_t net_saved(const batch *b, const round_plan *p, const round_times *t, int64_t *error)
{
    const budget *known = round_get_budget(b->config.round);
    const int requests = b->record.requests;
    *error = 0;
    if (p->phase != PHASE_TARGET_VERIFY || requests == 0 || !known->measured)
        return 0;
    if (kept_drafts(p) == 0)
        return -(t->drafted - t->drafting);
    double plain = budget_cost_ns(known, requests) * delivered_tokens(b, p) / requests;
    *error = (int64_t)(plain * known->spread);
    return (int64_t)plain - b->record.wall_ns;
}

static void record_request(const plan_member *m, const request *r, step_request *out)
{
    const sequence *s = m->sequence;
    int accepted = m->accepted < r->out_count ? m->accepted : r->out_count;
    *out = (step_request) { .slot = s->slot,
                            .prefix_len = m->count - m->committed,
                            .verify_len = m->keep + 1,
                            .commit_len = r->out_count,
                            .correct_drafts = accepted,
                            .bonus_token = r->out_count > 0 ? r->out_tokens[r->out_count - 1] : -1,
                            .draft_count = m->keep };
    memcpy(out->draft_tokens, m->draft.tokens, sizeof *out->draft_tokens * (size_t)m->keep);
    snprintf(out->rid, sizeof out->rid, "%d", r->handle);
}

/* What the round's streams waited for each other, all of which is over. */
static void record_waits(batch *b, const round_plan *p)
{
    step_record *s = &b->record;
    device_wait wait[STEP_MAX_WAITS];
    int found = device_take_waits(b->config.device, p->round, wait, STEP_MAX_WAITS);
    s->waits = found < STEP_MAX_WAITS ? found : STEP_MAX_WAITS;
    s->waits_left_out = found - s->waits;
    for (int i = 0; i < s->waits; i++)
        s->wait[i] = (step_wait) { .stream = wait[i].stream,
                                   .event = wait[i].event,
                                   .from = wait[i].from,
                                   .joins = wait[i].joins,
                                   .waited_ns = wait[i].waited_ns };
}

static void record_step(batch *b, const round_plan *p, const round_times *t)
{
    step_record *s = &b->record;
    bool verify = p->phase == PHASE_TARGET_VERIFY;
    s->forward_ct = ++b->steps;
    s->decode = p->phase != PHASE_PREFILL;
    s->rank = p->rank;
    s->budget = verify ? kept_drafts(p) : -1;
    s->rows_live = s->rows_computed = p->rows;
    s->rows_launched = p->rows_launched;
    s->sum_nq = p->sum_nq;
    s->sum_nkv = p->sum_nkv;
    s->plan_ns = t->planned - t->begin + p->plan_ns;
    s->draft_segment_ns = verify ? t->drafted - t->drafting : -1;
    s->verify_segment_ns = verify ? t->verified - t->packed : -1;
    s->step_segment_ns = t->extended - t->drafting;
    const phase part[ROUTE_PARTS] = { p->phase, PHASE_DRAFT, PHASE_DRAFT_EXTEND };
    for (int i = 0; i < ROUTE_PARTS; i++)
        memcpy(s->route[part[i]], p->route[i], sizeof p->route[i]);
    s->experts_distinct = p->experts_distinct;
    record_waits(b, p);
    for (int i = 0; i < p->members; i++)
        if (!b->had_ended[i])
            record_request(&p->member[i], members_of(b)[i], &s->request[s->requests++]);
    s->net_saved_ns = net_saved(b, p, t, &b->saved_error_ns);
}

/* Splits the step's counters over its requests. */
static void account_members(batch *b, const round_plan *p)
{
    int delivered = delivered_tokens(b, p);
    const step_request *q = b->record.request;
    for (int i = 0; i < p->members && p->phase != PHASE_PREFILL; i++) {
        if (b->had_ended[i])
            continue;
        foray_account *a = &members_of(b)[i]->account;
        a->steps++;
        a->drafted += q->draft_count;
        a->accepted += q->correct_drafts;
        if (delivered > 0) {
            a->net_saved_ns += b->record.net_saved_ns * q->commit_len / delivered;
            a->net_saved_error_ns += b->saved_error_ns * q->commit_len / delivered;
        }
        a->plain_step_ns = (int64_t)budget_cost_ns(round_get_budget(b->config.round), 1);
        q++;
    }
}

/* Hands out what the round committed; returns how many requests got something. */
static int deliver(batch *b, const round_plan *p)
{
    int count = 0;
    for (int i = 0; i < p->members; i++) {
        request *r = members_of(b)[i];
        if (b->had_ended[i]) /* what it got last may not have been looked at yet */
            continue;
        request_deliver(r, &p->member[i]);
        if (r->out_count > 0 || r->state == REQUEST_ENDED)
            b->delivered[count++] = r;
    }
    return count;
}

/* Plans the next round while the ones before may still run. False: there is nobody, or it was refused. */
static bool launch_next(batch *b)
{
    round_loop *r = b->config.round;
    request **in_round = b->in_round[(b->launched + 1) % ROUND_AHEAD];
    const int members = b->refused_count == 0 ? choose_members(b, in_round) : 0;
    int rc = 0;
    if (members == 0)
        return false;
    round_begin(r);
    for (int i = 0; i < members && rc == 0; i++) {
        sequence *s = in_round[i]->sequence;
        int pending = s->prompt - round_known(r, s).least, chunk = b->config.prefill_chunk;
        rc = round_add(r, s, pending < 1 ? 1 : pending < chunk ? pending : chunk, true, &b->refusal);
    }
    if (rc == 0)
        rc = round_launch(r, &b->refusal);
    if (rc != 0) {
        memcpy(b->refused, in_round, sizeof *in_round * (size_t)members);
        b->refused_count = members;
        return false;
    }
    b->launched++;
    for (int i = 0; i < members; i++)
        in_round[i]->in_flight++;
    return true;
}

/* The device refused a round, and none is in flight: its requests end, others go on. */
static int fail_refused(batch *b, foray_error *err)
{
    int count = 0;
    for (int i = 0; i < b->refused_count; i++) {
        request *r = b->refused[i];
        if (r->state == REQUEST_ENDED) /* by what the round before brought */
            continue;
        request_fail(r, &b->refusal);
        leave_slot(b, r);
        b->delivered[count++] = r;
    }
    b->refused_count = 0;
    if (err)
        *err = b->refusal;
    return count;
}

/* Requests that have ended give back what they hold as soon as no round of theirs is in flight. */
static void let_go(batch *b, const round_plan *p)
{
    for (int i = 0; i < p->members; i++) {
        request *r = members_of(b)[i];
        if (--r->in_flight > 0 || r->state != REQUEST_ENDED)
            continue;
        if (r->released)
            drop(b, r);
        else
            leave_slot(b, r);
    }
}

/* Whose requests had ended when it was not known yet; whether somebody still waits for what the round brings. */
static bool note_ended(batch *b, const round_plan *p)
{
    bool wanted = false;
    for (int i = 0; i < p->members; i++) {
        b->had_ended[i] = members_of(b)[i]->state == REQUEST_ENDED;
        wanted = wanted || !b->had_ended[i];
    }
    return wanted;
}

/* Ends the oldest round; returns how many requests got something. *wanted: somebody waited for it. */
static int retire_oldest(batch *b, bool *wanted, foray_error *err)
{
    int rc = round_retire(b->config.round, err);
    if (rc != 0)
        return rc;
    b->retired++;
    const round_plan *p = round_get_plan(b->config.round);
    const round_times *t = round_get_times(b->config.round);
    *wanted = note_ended(b, p);
    if (!*wanted)
        b->record_before = b->record;
    memset(&b->record, 0, sizeof b->record);
    charge_all(b, t, p->phase);
    int count = deliver(b, p);
    record_step(b, p, t);
    account_members(b, p);
    if (*wanted)
        round_observe(b->config.round, b->record.wall_ns);
    let_go(b, p);
    cache_warm(b->config.cache, 0, WARM_TOKENS);
    if (b->config.record && b->record_rc == 0)
        b->record_rc = b->config.record(b->config.user, &b->record, &b->record_error);
    if (!*wanted)
        b->record = b->record_before;
    return count;
}

static int count_active(const batch *b)
{
    int active = 0;
    for (const request *r = b->first; r; r = r->next)
        active += r->state != REQUEST_ENDED;
    return active;
}

/* With nobody left, what was launched in vain still holds pages, and is over in no time. */
static int drain(batch *b, foray_error *err)
{
    int rc = 0;
    for (bool none; rc >= 0 && count_active(b) == 0 && round_in_flight(b->config.round) > 0;)
        rc = retire_oldest(b, &none, err);
    return rc;
}

void batch_release(batch *b, foray_request handle)
{
    request *r = batch_find(b, handle);
    if (!r)
        return;
    r->released = true;
    r->state = REQUEST_ENDED;
    if (r->in_flight == 0)
        drop(b, r);
    drain(b, NULL);
}

/* What config.record returned: said once. */
static int report_record(batch *b, foray_error *err)
{
    const int rc = b->record_rc;
    if (err)
        *err = b->record_error;
    b->record_rc = 0;
    return rc;
}

void batch_destroy(batch *b)
{
    if (!b)
        return;
    bool none;
    while (round_in_flight(b->config.round) > 0 && retire_oldest(b, &none, NULL) >= 0)
        ;
    while (b->first)
        drop(b, b->first);
    if (b->record_rc != 0) /* no step came to say it */
        log_warning("%s", b->record_error.text);
    mem_free(MEM_GENERAL, b, sizeof *b);
}

int batch_step(batch *b, request *const **delivered, int *count, foray_error *err)
{
    bool wanted = false;
    int rc = 0;
    *delivered = b->delivered;
    *count = 0;
    while (!wanted && rc >= 0) {
        admit(b);
        while (round_in_flight(b->config.round) < round_ahead(b->config.round) && launch_next(b))
            ;
        if (round_in_flight(b->config.round) == 0)
            break;
        rc = *count = retire_oldest(b, &wanted, err);
    }
    if (!wanted && b->refused_count > 0)
        *count = fail_refused(b, err);
    if (rc >= 0)
        rc = drain(b, err);
    *count = *count > 0 ? *count : 0;
    return rc < 0 ? rc : b->record_rc != 0 ? report_record(b, err) : count_active(b);
}

const step_record *batch_last_step(const batch *b)
{
    return &b->record;
}

int64_t batch_idle_ns(const batch *b)
{
    return b->idle_ns;
}
