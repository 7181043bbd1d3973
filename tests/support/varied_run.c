/* varied_run.c: see varied_run.h. */
#include "support/varied_run.h"

#include <string.h>

#include "support/generate.h"

enum { PROMPT = 6 };

static int keeps, rounds; /* of this run */

/* What is launched is packed, or of fixed width. */
static void check_rows(const stack *s, const round_plan *p)
{
    int rows = 0;
    for (int i = 0; i < p->members; i++)
        rows += p->member[i].chunk + p->member[i].draft_room;
    if (s->config.fixed_width)
        rows = p->slots_launched * (1 + s->config.spec_tokens);
    assert_int_equal(p->rows_launched, plan_tier(rows));
}

int varied_step(stack *s)
{
    int active = stack_step(s);
    const round_plan *p = round_get_plan(s->round);
    if (p->phase == PHASE_TARGET_VERIFY)
        check_rows(s, p);
    const bool chain = !round_get_drafter(s->round)->propose;
    for (int i = 0; chain && i < p->members && p->phase == PHASE_TARGET_VERIFY; i++) {
        const plan_member *m = &p->member[i];
        int left = m->sequence->limit - (m->count - m->committed) - 1; /* that could be delivered */
        if (m->committed > 0)                                          /* it had not finished before */
            assert_int_equal(m->draft.count, m->draft_room < left ? m->draft_room : left);
    }
    return active;
}

static int keep_in_turn(void *user, const plan_member *m)
{
    (void)user;
    return m->draft.count > 0 ? keeps++ % (m->draft.count + 1) : 0;
}

/* So that there are rounds without drafts. */
static bool pause_at_times(void *user, const round_plan *p)
{
    (void)user;
    (void)p;
    return rounds++ / 5 % 3 == 0;
}

static foray_request submit(stack *s, int i)
{
    int32_t ids[PROMPT];
    random_ids(i + 1, PROMPT, s->model->info.vocab, ids);
    foray_request_config c = request_of(ids, PROMPT, VARIED_TOKENS);
    c.ignore_eos = true;
    c.logprobs = 1;
    c.sampling.temperature = (float)(i % 2);
    c.sampling.seed = (uint64_t)i;
    return stack_submit(s, &c);
}

/* The log-probabilities of what the last step brought. */
static void note(const stack *s, const foray_request *r, int requests, varied_text *out)
{
    for (int i = 0; i < requests; i++) {
        const request *q = r[i] ? batch_find(s->batch, r[i]) : NULL;
        for (int k = 0; q && k < q->out_count; k++)
            out->logprobs[i][q->delivered - q->out_count + k] = q->out_logprobs[k];
    }
}

void varied_run(stack *s, int requests, bool backwards, varied_text *out)
{
    round_hooks hooks = { .keep = keep_in_turn, .pause = pause_at_times };
    foray_request r[VARIED_MOST] = { 0 };
    keeps = rounds = 0;
    round_set_hooks(s->round, &hooks);
    for (int k = 0; k < requests; k++) {
        const int i = backwards ? requests - 1 - k : k;
        r[i] = submit(s, i);
        varied_step(s);
        note(s, r, requests, out);
    }
    for (int n = 0, active = 1; active > 0; n++) {
        round_set_budget(s->round, 1 + n % VARIED_DRAFTS);
        active = varied_step(s);
        note(s, r, requests, out);
    }
    for (int i = 0, count; i < requests; i++) {
        const int32_t *tokens = stack_tokens(s, r[i], &count);
        assert_int_equal(count, VARIED_TOKENS);
        memcpy(out->ids[i], tokens, sizeof out->ids[i]);
        batch_release(s->batch, r[i]);
    }
    round_set_hooks(s->round, NULL);
}
