/* cases.md G, M, X: requests with and without drafts in one batch, pauses of a drafter, aborts, experts: each by the way in
 * which an engine once went wrong: see the letter and number at each test. Every request says what it says alone.
 */
#include "support/job.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "device/cpu/hooks.h"
#include "model/deepseek4.h"
#include "support/generate.h"
#include "support/mutate.h"

#include <cmocka.h> /* last: its macro fail() hides ours */

enum { MOST = 8, CONTEXT = 128 };

/* Everything is checked there, and slow. */
#ifdef FORAY_CHECKS
enum { FEW = 1 };
#else
enum { FEW = 0 };
#endif

static job jobs[MOST];

/* Who has no drafts: bits of numbers in jobs[], and of slots, which are the same where all come in order. */
static unsigned without;

static int keep_of_some(void *user, const plan_member *m)
{
    (void)user;
    return without >> m->sequence->slot & 1 ? 0 : m->draft.count;
}

static void drop_scripts(void)
{
    for (int i = 0; i < MOST; i++)
        if (without >> i & 1)
            jobs[i].config.script_count = 0;
}

static stack_config drafting(const char *by, int slots, int k)
{
    return (stack_config) {
        .slots = slots, .context = CONTEXT, .drafter = by, .spec_tokens = k, .spec_budget = k
    };
}

static void run_all(stack *s, int n)
{
    stack_run(s);
    for (int i = 0; i < n; i++)
        job_assert_said(s, &jobs[i]);
}

/* ---- G: with and without drafts ---- */

/* G01: eight at once: one that is two tokens from the end of its context, one that nobody drafts for, one that still reads its
 * prompt. */
static void one_that_cannot_draft_stops_nobody(void **state)
{
    (void)state;
    enum { LIMITED = 2, BARE = 5, READER = 7, K = 4 };
    for (int way = 0; way < 4; way++) {
        const int m = way / 2 * JOB_SPARSE;
        int mixed = 0;
        stack s;
        stack_config c = drafting(way % 2 ? "script" : job_chain(m), MOST, K);
        c.prefill_chunk = 16;
        stack_open(&s, job_model(m), c);
        round_hooks hooks = { .keep = keep_of_some };
        round_set_hooks(s.round, &hooks);
        without = 1u << BARE;
        for (int i = 0; i < MOST; i++)
            job_prepare(&jobs[i], m, i,
                        i == LIMITED  ? CONTEXT - 2
                        : i == READER ? 80
                                      : 5 + i,
                        i == LIMITED ? 2 : 40);
        drop_scripts();
        jobs[LIMITED].config.max_tokens = 100; /* it is the context that ends it */
        for (int i = 0; i < MOST; i++)
            job_submit(&s, &jobs[i]);
        while (stack_step(&s) > 0) {
            const round_plan *p = round_get_plan(s.round);
            int kept = 0, bare = 0;
            for (int i = 0; i < p->members; i++) {
                kept += p->member[i].keep > 0;
                bare += p->member[i].committed > 0 && p->member[i].keep == 0;
            }
            mixed += kept > 0 && bare > 0;
        }
        assert_true(mixed > 4);
        jobs[LIMITED].config.max_tokens = 2;
        run_all(&s, MOST);
        stack_close(&s);
    }
}

/* G03: three requests with 3, 0 and 2 drafts, of which the middle one has a strong penalty: it says what it says alone, and not
 * what it would say without; the others do not notice. G08: so with tokens that may not come. */
static void penalties_stay_with_their_own_request(void **state)
{
    (void)state;
    enum { REQUESTS = 3, TOKENS = 40, BANNED = 8 };
    for (int way = 0; way < 8; way++) {
        const int m = way / 4 * JOB_SPARSE;
        int32_t banned[BANNED], before[TOKENS];
        float bias[BANNED];
        int64_t accepted = 0;
        stack s;
        stack_open(&s, job_model(m), drafting(way % 2 ? "script" : job_chain(m), REQUESTS, 3));
        without = way % 2 ? 2 : 0; /* once it has drafts, too: then of rows that the penalties count */
        for (int i = 0; i < REQUESTS; i++) /* greedy ones go in circles, which a penalty ends */
            job_prepare(&jobs[i], m, 10 + 2 * i + (m == JOB_LLAMA), 6, TOKENS);
        foray_sampling *p = &jobs[1].config.sampling;
        memcpy(before, jobs[1].said, sizeof before);
        for (int i = 0; i < BANNED; i++) {
            banned[i] = before[i];
            bias[i] = -INFINITY;
        }
        if (way / 2 % 2) {
            p->bias_ids = banned;
            p->bias = bias;
            p->bias_count = BANNED;
        } else {
            p->frequency_penalty = 1.9f;
            p->temperature = p->temperature > 0 ? 0.4f : 0;
        }
        job_expect(&jobs[1], m);
        assert_memory_not_equal(jobs[1].said, before, sizeof before);
        drop_scripts();
        for (int i = 0; i < REQUESTS; i++)
            job_submit(&s, &jobs[i]);
        stack_run(&s);
        for (int i = 0; i < REQUESTS; i += 2)
            accepted += batch_find(s.batch, jobs[i].handle)->account.accepted;
        assert_true(accepted > TOKENS / 4);
        for (int k = 0; k < TOKENS && p->bias_count > 0; k++)
            for (int i = 0; i < BANNED; i++)
                assert_int_not_equal(jobs[1].said[k], banned[i]);
        run_all(&s, REQUESTS);
        stack_close(&s);
    }
}

/* G07: of three requests any have no drafts, to the last round. */
static void any_of_three_may_have_no_drafts(void **state)
{
    (void)state;
    enum { REQUESTS = 3 };
    for (int way = 0; way < 4; way++)
        for (without = 0; without < 1u << REQUESTS; without += 1 + 2 * FEW) {
            const int m = way / 2 * JOB_SPARSE;
            stack s;
            stack_open(&s, job_model(m), drafting(way % 2 ? "script" : job_chain(m), REQUESTS, 3));
            round_hooks hooks = { .keep = keep_of_some };
            for (int i = 0; i < REQUESTS; i++)
                job_prepare(&jobs[i], m, 20 + 2 * i, 4, 20 + i % 2);
            drop_scripts();
            jobs_fill(&s, jobs, REQUESTS);
            round_set_hooks(s.round, &hooks);
            stack_run(&s);
            for (int i = 0; i < REQUESTS; i++) {
                const foray_account *a = &batch_find(s.batch, jobs[i].handle)->account;
                assert_true(!(without >> i & 1) || a->accepted == 0);
                assert_true(without >> i & 1 || a->drafted > 0);
            }
            run_all(&s, REQUESTS);
            stack_close(&s);
        }
}

/* G04: three times nobody drafts for a while, and then again: at every place of the text the drafts, and what stands of them, are
 * those of a drafter that was never left out; and it is back within some rounds. */
static void a_drafter_that_paused_drafts_as_if_it_had_not(void **state)
{
    (void)state;
    enum { K = 3, TOKENS = 150, PAUSE = 20, LEARN = 12, BACK = 4 };
    static draft at[JOB_CONTEXT];
    for (int m = JOB_LLAMA; m <= JOB_SPARSE; m += JOB_SPARSE)
        for (int noise = 0; noise < 2; noise++) {
            stack s;
            stack_config c = drafting(job_chain(m), 1, K);
            c.context = JOB_CONTEXT;
            stack_open(&s, job_model(m), c);
            job_prepare(&jobs[0], m, 31 - noise, 8, TOKENS);
            jobs_fill(&s, jobs, 1);
            without = 1; /* unbroken: at each place of the text, drafts are made and none is tried */
            round_hooks hooks = { .keep = keep_of_some };
            round_set_hooks(s.round, &hooks);
            memset(at, 0, sizeof at);
            while (stack_step(&s) > 0) {
                const plan_member *q = round_get_plan(s.round)->member;
                at[q->count - q->committed] = q->draft;
            }
            job_assert_said(&s, &jobs[0]);
            round_set_hooks(s.round, NULL);
            job_submit(&s, &jobs[0]);
            int pauses = 0, idle = 0, compared = 0, rounds = 0;
            for (int active = 1, since = 0; active > 0;) {
                const bool off = since < 0;
                active = stack_step(&s);
                const round_plan *p = round_get_plan(s.round);
                const plan_member *q = p->member;
                if (p->phase == PHASE_PREFILL)
                    continue;
                const draft *want = &at[q->count - q->committed];
                int right = 0;
                idle = q->draft.count > 0 ? 0 : idle + 1;
                while (right < q->draft.count &&
                       want->tokens[right] == jobs[0].said[q->count - q->committed - 8 + right])
                    right++;
                if (q->draft.count > 0 && want->count == K) {
                    assert_memory_equal(q->draft.tokens, want->tokens,
                                        sizeof *want->tokens * (size_t)q->draft.count);
                    assert_int_equal(q->draft.signal, want->signal);
                    assert_int_equal(q->accepted, right);
                    compared++;
                }
                rounds++;
                since += q->committed;
                if (!off && q->draft.count > 0 && since > LEARN && pauses < 3) {
                    round_set_budget(s.round, 0);
                    since = -PAUSE;
                    pauses++;
                } else if (off && since >= 0) {
                    round_set_budget(s.round, K);
                } else if (!off && active) {
                    assert_in_range(idle, 0, PAUSE + BACK);
                }
            }
            assert_int_equal(pauses, 3);
            assert_true(compared > 8 && compared < rounds - 2 * PAUSE);
            job_assert_said(&s, &jobs[0]);
            stack_close(&s);
        }
}

/* ---- M: aborts, ids ---- */

/* M01: short requests, aborted at each of the first twenty steps or not at all, in pages of 4 and of 64 tokens: afterwards no page
 * is in use, no slot is taken, and memory is what it was. */
static void aborts_at_any_step_leave_nothing_behind(void **state)
{
    (void)state;
    enum { REQUESTS = 300, STEPS = 20, K = 5 };
    for (int way = 0; way < 4; way++) {
        const int m = way / 2 * JOB_SPARSE;
        mem_stats before = { 0 };
        uint64_t device_before = 0;
        stack s;
        stack_config c = drafting(way % 2 ? "script" : job_chain(m), 2, K);
        c.page_tokens = m == JOB_LLAMA ? 0 : way % 2 ? 64 : 4;
        stack_open(&s, job_model(m), c);
        job_prepare(&jobs[0], m, 40, 20, 9);
        job_prepare(&jobs[1], m, 42, 5, 14);
        for (int i = 0; i < REQUESTS / 4; i++) {
            const int at = i % (STEPS + 2);
            job_submit(&s, &jobs[0]);
            job_submit(&s, &jobs[1]);
            for (int step = 0, active = 1; active > 0; step++) {
                if (step == at)
                    batch_release(s.batch, jobs[0].handle);
                active = stack_step(&s);
            }
            if (batch_find(s.batch, jobs[0].handle))
                job_assert_said(&s, &jobs[0]);
            job_assert_said(&s, &jobs[1]);
            assert_int_equal(cache_pages_in_use(s.cache), 0);
            assert_int_equal(round_in_flight(s.round), 0);
            if (i == 2 * (STEPS + 2)) { /* every graph that will be is there */
                before = mem_get_stats();
                device_before = device_bytes(s.device);
            }
            if (i <= 2 * (STEPS + 2))
                continue;
            const mem_stats now = mem_get_stats();
            assert_int_equal(now.blocks, before.blocks);
            assert_memory_equal(now.bytes, before.bytes, sizeof now.bytes);
            assert_int_equal(device_bytes(s.device), device_before);
        }
        stack_close(&s);
    }
}

/* What embeds looks at every id that it is given. */
static const kernel_table *own;
static int vocabulary;
static int64_t embedded;

static int tiles_of_embed(const kernel_args *args)
{
    const args_embed *a = &args->embed;
    for (int i = 0; i < rows_live(a->rows); i++)
        if (a->ids[i] < 0 || a->ids[i] >= vocabulary)
            fail_msg("id %d is embedded", a->ids[i]);
    embedded += rows_live(a->rows);
    return own->kernel[KERNEL_EMBED].tiles(args);
}

/* M04: whatever comes, is aborted and comes again while a round is in flight: no id that is none reaches the embedding, of the
 * target or of a drafter. */
static void every_id_that_is_embedded_is_one(void **state)
{
    (void)state;
    const int schedules = (int)mutate_count(FEW ? 4 : 24, 500);
    uint32_t drawn = 0;
    for (int n = 0; n < schedules; n++) {
        const int m = n % 2 * JOB_SPARSE;
        foray_error err;
        kernel_table watching;
        stack s;
        stack_open(&s, job_model(m), drafting(n % 3 ? job_chain(m) : "ngram", 1 + n % 4, 1 + n % 5));
        assert_int_equal(kernel_table_get(device_isa(s.device), &own, &err), 0);
        watching = *own;
        watching.kernel[KERNEL_EMBED].tiles = tiles_of_embed;
        device_set_kernels(s.device, &watching);
        vocabulary = s.model->info.vocab;
        for (int i = 0; i < MOST; i++) {
            const uint32_t *w = rng_philox(drawn++, 0, 0x6d3034, 0, 1, 0).word;
            job_prepare(&jobs[i], m, (int)(w[0] % 1000), 1 + (int)(w[1] % 40), 1 + (int)(w[2] % 20));
        }
        for (int step = 0; step < 60; step++) {
            const uint32_t *w = rng_philox(drawn++, 0, 0x6d3034, 0, 2, 0).word;
            job *j = &jobs[w[0] % MOST];
            const request *r = j->handle ? batch_find(s.batch, j->handle) : NULL;
            if (r && (r->state == REQUEST_ENDED || w[1] % 6 == 0)) {
                if (r->state == REQUEST_ENDED)
                    job_assert_said(&s, j);
                else
                    batch_release(s.batch, j->handle);
                j->handle = 0;
            } else if (!r) {
                job_submit(&s, j);
            }
            stack_step(&s);
        }
        for (int i = 0; i < MOST; i++)
            jobs[i].handle = 0;
        stack_close(&s);
    }
    assert_true(embedded > schedules * 60);
}

/* ---- X: experts ---- */

/* Every token to the last experts of every layer, those that route by token id too. destroy: the weights of the others are no
 * numbers any more. */
static void send_to_the_last(model *m, bool destroy)
{
    deepseek4 *d = m->deepseek4;
    const int experts = d->config.experts, chosen = d->config.chosen;
    for (int l = 0; l <= d->config.layers; l++) {
        v4_layer *w = &d->layer[l];
        for (int e = 0; e < experts && w->gate_bias; e++)
            w->gate_bias[e] = e < experts - chosen ? -1e4f : 1e4f;
        for (int i = 0; w->hash && i < d->config.vocab * chosen; i++)
            w->hash[i] = experts - chosen + i % chosen;
        for (int e = 0; destroy && e < experts - chosen; e++) {
            memset((void *)(uintptr_t)w->experts.gate_up[e].data, 0xff, w->experts.gate_up[e].bytes);
            memset((void *)(uintptr_t)w->experts.down[e].data, 0xff, w->experts.down[e].bytes);
        }
    }
}

/* X04, X05: experts that get no token, and two that get all of a long prompt's: the same text, in chunks of any length, alone and
 * in a batch, drafted and not; and nothing of the other experts is read. */
static void all_tokens_may_go_to_the_same_experts(void **state)
{
    (void)state;
    enum { REQUESTS = 3, PROMPT = 100, TOKENS = 20 };
    static const int chunks[] = { 1, 7, 128 };
    int32_t said[REQUESTS][TOKENS];
    stack s;
    for (int i = 0; i < REQUESTS; i++) {
        job_prepare(&jobs[i], JOB_SPARSE, 50 + i, PROMPT - 30 * i, TOKENS);
        memcpy(said[i], jobs[i].said, sizeof said[i]);
    }
    for (int way = 0; way < 7; way++) {
        stack_config c = drafting(way % 2 ? "nextn" : NULL, REQUESTS, 3);
        c.prefill_chunk = chunks[way % 3];
        c.slots = way == 0 ? 1 : REQUESTS;
        c.eager = way % 3 == 1;
        c.threads = 1 + way % 2;
        stack_open(&s, job_model(JOB_SPARSE), c);
        send_to_the_last(s.model, way > 0);
        const int chosen = s.model->deepseek4->config.chosen;
        for (int i = 0; i < REQUESTS; i++) {
            if (way == 0) {
                stack_text(&s, &jobs[i].config, jobs[i].said);
                assert_memory_not_equal(jobs[i].said, said[i], sizeof said[i]);
            } else {
                job_submit(&s, &jobs[i]);
            }
        }
        while (way > 0 && stack_step(&s) > 0) /* of that many experts per layer */
            assert_int_equal(round_get_plan(s.round)->experts_distinct,
                             chosen * s.model->deepseek4->config.layers);
        if (way > 0)
            run_all(&s, REQUESTS);
        stack_close(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_that_cannot_draft_stops_nobody),
        cmocka_unit_test(penalties_stay_with_their_own_request),
        cmocka_unit_test(any_of_three_may_have_no_drafts),
        cmocka_unit_test(a_drafter_that_paused_drafts_as_if_it_had_not),
        cmocka_unit_test(aborts_at_any_step_leave_nothing_behind),
        cmocka_unit_test(every_id_that_is_embedded_is_one),
        cmocka_unit_test(all_tokens_may_go_to_the_same_experts),
    };
    return cmocka_run_group_tests(tests, jobs_open, jobs_close);
}
