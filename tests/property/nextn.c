/* P1 with the drafter that comes with the model, on nano: whatever its NextN layer drafts, however many drafts are
 * verified, whichever rounds it is left out of, the text is the plain one and the cache that of a fresh prefill.
 *
 * 4 prompts in the tests, all 20 under SOAK.
 */
#include "support/generate.h"

#include <stdio.h>
#include <string.h>

#include "base/rng.h"
#include "cache/cache.h"
#include "device/device.h"
#include "engine/score.h"
#include "spec/round.h"
#include "support/mutate.h"
#include "support/nano.h"

#ifdef FORAY_CHECKS
enum { LENGTH = 24, BUDGETS = 2, WILD_SEEDS = 1 };
#else
enum { LENGTH = 48, BUDGETS = 4, WILD_SEEDS = 3 };
#endif
enum { REQUESTS = 4, CONTEXT = 512 };

static foray_engine *plain, *fresh;
static foray_engine *spec[BUDGETS]; /* spec_budget: by its number; 0: auto */

static int open_engines(void **state)
{
    (void)state;
    foray_config c = { .spec = "off", .threads = 2, .context = CONTEXT };
    plain = engine_open_path(nano_folder(), c);
    c.spec = "nextn";
    fresh = engine_open_path(nano_folder(), c);
    c.max_requests = REQUESTS;
    for (int b = 0; b < BUDGETS; b++) {
        c.spec_budget = b;
        spec[b] = engine_open_path(nano_folder(), c);
    }
    return 0;
}

static int close_engines(void **state)
{
    (void)state;
    foray_engine *all[BUDGETS + 2] = { plain, fresh };
    memcpy(all + 2, spec, sizeof spec);
    for (int i = 0; i < BUDGETS + 2; i++) {
        assert_int_equal(cache_pages_in_use(engine_cache(all[i])), 0);
        foray_close(all[i]);
    }
    return 0;
}

/* Greedy or, with a seed, sampled at temperature 1. */
static foray_request_config asking(const int32_t *ids, size_t n, uint64_t seed, int most)
{
    foray_request_config c = request_of(ids, (int)n, most);
    c.sampling.temperature = seed ? 1 : 0;
    c.sampling.seed = seed;
    c.ignore_eos = true;
    return c;
}

static void drafts_give_the_plain_text(void **state)
{
    (void)state;
    static text said, expected;
    int prompts = (int)mutate_count(NANO_SHORT, NANO_PROMPTS), accepted = 0;
    for (int i = 0; i < prompts; i++) {
        size_t count;
        int32_t *ids = nano_prompt_ids(plain, i, &count);
        for (uint64_t seed = 0; seed <= 1; seed++) {
            foray_request_config c = asking(ids, count, seed * (uint64_t)(i + 1), LENGTH);
            generate(plain, &c, &expected);
            for (int b = 0; b < BUDGETS; b++) {
                generate(spec[b], &c, &said);
                assert_same_text(&said, &expected);
                if (b > 0) { /* it has drafted, and some of it was right */
                    assert_true(said.account.drafted >= LENGTH / 4);
                    accepted += (int)said.account.accepted;
                }
            }
        }
        foray_free(ids);
    }
    assert_true(accepted > prompts * LENGTH / 2);
}

/* ---- the adversarial controller ---- */

typedef struct {
    uint64_t seed;
    uint32_t draws, kept, pauses; /* kept: what the device draws, beside the host */
    foray_engine *engine;
} adversary;

static uint32_t draw(adversary *a, uint32_t below)
{
    return rng_philox(a->draws++, 11, 0, 0, (uint32_t)a->seed, 9).word[0] % below;
}

/* Peeks at the drafts: keeps more when their ids are odd. */
static int wild_keep(void *user, const plan_member *m)
{
    adversary *a = user;
    rng_block any = rng_philox(a->kept++, 12, 0, 0, (uint32_t)a->seed, 9);
    if (m->draft.count == 0 || (m->draft.tokens[0] % 2 == 0 && any.word[1] % 2))
        return 0;
    return (int)(any.word[0] % ((uint32_t)m->draft.count + 1));
}

static bool wild_route(void *user, const round_plan *p)
{
    (void)p;
    return draw(user, 2) == 0;
}

static bool wild_pause(void *user, const round_plan *p)
{
    (void)p;
    adversary *a = user;
    bool pause = draw(a, 3) > 0;
    a->pauses += pause;
    return pause;
}

static void wild_machine(void *user, const round_plan *p, drafter **d)
{
    (void)p;
    (void)d;
    adversary *a = user;
    int rows[] = { 1, 2, 4, 8 };
    double ns[4];
    for (int i = 0; i < 4; i++)
        ns[i] = 1 + draw(a, 1000000);
    device_set_threads(engine_device(a->engine), 1 + (int)draw(a, 2));
    budget_set_costs(round_edit_budget(engine_round(a->engine)), 1, rows, ns, 4);
}

static int no_row(void *user, size_t position, const float *logits)
{
    (void)user;
    (void)position;
    (void)logits;
    return 0;
}

/* What is visible of a running request is what a fresh prefill leaves. */
static void check_digest(foray_engine *e, foray_request r, const int32_t *ids)
{
    foray_error err;
    int computed = 0;
    uint64_t want, now = engine_request_digest(e, r, &computed);
    if (computed == 0)
        return;
    assert_int_equal(
        engine_score(fresh, ids, (size_t)computed, 0, (size_t)computed, no_row, NULL, &want, &err), 0);
    if (now != want)
        fail_msg("request %d: %d tokens: another cache than a fresh prefill", r, computed);
}

/* A request and what it must say. */
typedef struct {
    foray_request handle; /* 0: not yet, or not any more */
    int32_t ids[CONTEXT];
    size_t prompt;
    int got, abort_at; /* tokens so far; after so many it is released */
    text expected;
} job;

static void take(job *j, const foray_event *v)
{
    assert_true(j->got + (int)v->count <= j->expected.count);
    assert_memory_equal(v->tokens, j->expected.ids + j->got, v->count * sizeof *v->tokens);
    j->got += (int)v->count;
    if (v->finish == FORAY_FAILED)
        fail_msg("request %d: %s", v->request, v->error.text);
}

static void open_jobs(adversary *a, job *jobs)
{
    for (int i = 0; i < REQUESTS; i++) {
        job *j = &jobs[i];
        int32_t *ids = nano_prompt_ids(plain, (int)draw(a, NANO_PROMPTS), &j->prompt);
        memcpy(j->ids, ids, sizeof *ids * j->prompt);
        foray_free(ids);
        foray_request_config c = asking(j->ids, j->prompt, i % 2 ? a->seed : 0, LENGTH - i * 5);
        generate(plain, &c, &j->expected);
        memcpy(j->ids + j->prompt, j->expected.ids, sizeof *j->ids * (size_t)j->expected.count);
        j->abort_at = draw(a, 3) == 0 ? 1 + (int)draw(a, LENGTH / 2) : LENGTH;
    }
}

static void submit_job(adversary *a, job *j, int i)
{
    foray_error err;
    foray_request_config c = asking(j->ids, j->prompt, i % 2 ? a->seed : 0, LENGTH - i * 5);
    if (foray_submit(a->engine, &c, &j->handle, &err) != 0)
        fail_msg("%s", err.text);
}

static void live(adversary *a, job *jobs)
{
    const foray_event *events;
    size_t count;
    foray_error err;
    for (int step = 0, submitted = 0, active = 1; active > 0 || submitted < REQUESTS; step++) {
        if (submitted < REQUESTS && step >= submitted * 4) {
            submit_job(a, &jobs[submitted], submitted);
            submitted++;
        }
        active = foray_step(a->engine, &events, &count, &err);
        for (size_t n = 0; n < count; n++)
            for (int i = 0; i < submitted; i++)
                if (jobs[i].handle == events[n].request)
                    take(&jobs[i], &events[n]);
        for (int i = 0; i < submitted; i++) {
            if (jobs[i].handle && draw(a, 4) == 0)
                check_digest(a->engine, jobs[i].handle, jobs[i].ids);
            if (jobs[i].handle && jobs[i].got >= jobs[i].abort_at) {
                foray_release(a->engine, jobs[i].handle);
                jobs[i].handle = 0;
            }
        }
    }
}

static void an_adversary_cannot_change_the_text(void **state)
{
    (void)state;
    static job jobs[REQUESTS];
    adversary a = { 0 };
    round_hooks hooks = {
        .user = &a, .keep = wild_keep, .eager = wild_route, .pause = wild_pause, .before_draft = wild_machine
    };
    int seeds = (int)mutate_count(WILD_SEEDS, 40);
    for (a.seed = 1; a.seed <= (uint64_t)seeds; a.seed++) {
        a.engine = spec[a.seed % 2 ? BUDGETS - 1 : 0]; /* by number, or by costs out of thin air */
        memset(jobs, 0, sizeof jobs);
        open_jobs(&a, jobs);
        round_set_hooks(engine_round(a.engine), &hooks);
        live(&a, jobs);
        round_set_hooks(engine_round(a.engine), NULL);
        for (int i = 0; i < REQUESTS; i++) {
            assert_true(jobs[i].got >= jobs[i].abort_at || jobs[i].got == jobs[i].expected.count);
            if (jobs[i].handle)
                foray_release(a.engine, jobs[i].handle);
        }
        assert_int_equal(cache_pages_in_use(engine_cache(a.engine)), 0);
        device_set_threads(engine_device(a.engine), 2);
    }
    assert_true(a.pauses > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(drafts_give_the_plain_text),
        cmocka_unit_test(an_adversary_cannot_change_the_text),
    };
    return cmocka_run_group_tests(tests, open_engines, close_engines);
}
