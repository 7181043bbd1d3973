/* P1: whatever is drafted, budgeted, batched, replayed or scheduled, the text is the plain one, and the cache is
 * the one that a fresh prefill leaves. */
#include "support/generate.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"
#include "cache/cache.h"
#include "device/device.h"
#include "engine/score.h"
#include "spec/round.h"

#define MODEL "llama3.gguf"
enum { LENGTH = 60 };

static foray_engine *plain_engine, *script_engine, *ngram_engine;

static int open_engines(void **state)
{
    (void)state;
    plain_engine = engine_open(MODEL, (foray_config) { .spec = "off", .threads = 2 });
    script_engine = engine_open(MODEL, (foray_config) { .spec = "script", .threads = 2, .max_requests = 4 });
    ngram_engine = engine_open(MODEL, (foray_config) { .spec = "ngram", .threads = 2, .max_requests = 4 });
    return 0;
}

static int close_engines(void **state)
{
    (void)state;
    foray_engine *all[] = { plain_engine, script_engine, ngram_engine };
    for (int i = 0; i < 3; i++) {
        assert_int_equal(cache_pages_in_use(engine_cache(all[i])), 0);
        foray_close(all[i]);
    }
    return 0;
}

static foray_request_config request_at(int prompt, float temperature, uint64_t seed, int max_tokens)
{
    int count;
    const int32_t *ids = golden_ids(MODEL, &count);
    foray_request_config c = request_of(ids, prompt, max_tokens);
    c.sampling.temperature = temperature;
    c.sampling.seed = seed;
    c.ignore_eos = true;
    return c;
}

/* Right n times, then wrong, again and again: CUT(n). n < 0: always right; 0: always wrong. */
static void script_of(const text *plain, int cut, int vocab, int32_t *script)
{
    for (int i = 0; i < plain->count; i++) {
        bool wrong = cut >= 0 && i % (cut + 1) == cut;
        script[i] = wrong ? (plain->ids[i] + 1) % vocab : plain->ids[i];
    }
}

static void any_drafts_give_the_plain_text(void **state)
{
    (void)state;
    static text plain, spec;
    int32_t script[TEXT_MOST];
    int vocab = foray_engine_info(plain_engine).vocab;
    for (uint64_t seed = 1; seed <= 4; seed++) {
        foray_request_config c = request_at(4 + (int)seed * 5, seed % 2 ? 1.0f : 0.0f, seed, LENGTH);
        generate(plain_engine, &c, &plain);
        assert_int_equal(plain.count, LENGTH);
        c.script = script;
        c.script_count = (size_t)plain.count;
        for (int cut = -1; cut <= 5; cut++) {
            script_of(&plain, cut, vocab, script);
            generate(script_engine, &c, &spec);
            assert_same_text(&plain, &spec);
            if (cut == 0)
                assert_int_equal(spec.account.accepted, 0);
        }
        generate(ngram_engine, &c, &spec);
        assert_same_text(&plain, &spec);
    }
}

/* With every draft right, K drafts per round and no budget, N tokens take ceil((N - 1) / (K + 1)) rounds. */
static void right_drafts_are_all_accepted(void **state)
{
    (void)state;
    static text plain, spec;
    for (int k = 1; k <= 6; k++) {
        foray_engine *e = engine_open(
            MODEL, (foray_config) { .spec = "script", .threads = 1, .spec_tokens = k, .spec_budget = k });
        foray_request_config c = request_at(9, 0, 1, LENGTH);
        generate(plain_engine, &c, &plain);
        c.script = plain.ids;
        c.script_count = (size_t)plain.count;
        generate(e, &c, &spec);
        assert_same_text(&plain, &spec);
        assert_int_equal(spec.account.steps, (LENGTH - 1 + k) / (k + 1));
        foray_close(e);
    }
}

/* ---- the adversarial controller ---- */

typedef struct {
    uint64_t seed;
    uint32_t draws, kept; /* the host's, and what the device draws beside it */
    foray_engine *engine;
    drafter *drafters[2];
} adversary;

static uint32_t draw(adversary *a, uint32_t below)
{
    return rng_philox(a->draws++, 7, 0, 0, (uint32_t)a->seed, 9).word[0] % below;
}

/* Peeks at the drafts: keeps more when their ids are odd. */
static int wild_keep(void *user, const plan_member *m)
{
    adversary *a = user;
    rng_block any = rng_philox(a->kept++, 8, 0, 0, (uint32_t)a->seed, 9);
    if (m->draft.count == 0 || (m->draft.tokens[0] % 2 == 0 && any.word[1] % 2))
        return 0;
    return (int)(any.word[0] % ((uint32_t)m->draft.count + 1));
}

static bool wild_route(void *user, const round_plan *p)
{
    (void)p;
    return draw(user, 2) == 0;
}

static void wild_drafter(void *user, const round_plan *p, drafter **d)
{
    (void)p;
    adversary *a = user;
    *d = a->drafters[draw(a, 2)];
    device_set_threads(engine_device(a->engine), 1 + (int)draw(a, 2));
    /* A cost table out of thin air; every other round the budget decides by it. */
    int rows[] = { 1, 2, 4, 8 };
    double ns[4];
    for (int i = 0; i < 4; i++)
        ns[i] = 1 + draw(a, 1000000);
    budget_set_costs(round_edit_budget(engine_round(a->engine)), 1, rows, ns, 4);
    round_hooks hooks = { .user = a, .eager = wild_route, .before_draft = wild_drafter };
    hooks.keep = draw(a, 2) ? wild_keep : NULL;
    round_set_hooks(engine_round(a->engine), &hooks);
}

/* A clock that runs forward in small steps and leaps. */
static int64_t lying_clock(void *user)
{
    static _Atomic int64_t now = 1000;
    (void)user;
    int64_t leap = atomic_load(&now) % 11 == 0 ? 97700 : 3;
    return atomic_fetch_add(&now, leap) + leap;
}

static void an_adversary_cannot_change_the_text(void **state)
{
    (void)state;
    static text plain[4], wild[4];
    foray_error err;
    foray_engine *e = script_engine;
    adversary a = { .engine = e };
    drafter *own = round_get_drafter(engine_round(e));
    assert_int_equal(drafter_open("ngram", &a.drafters[0], &err), 0);
    assert_int_equal(drafter_open("script", &a.drafters[1], &err), 0);
    for (a.seed = 1; a.seed <= 6; a.seed++) {
        foray_request_config c[4];
        int32_t script[4][TEXT_MOST];
        for (int i = 0; i < 4; i++) {
            c[i] = request_at(3 + i * 9, i % 2 ? 0.9f : 0.0f, a.seed * 31 + (uint64_t)i, LENGTH - i * 7);
            generate(plain_engine, &c[i], &plain[i]);
            script_of(&plain[i], (int)(a.seed % 5) - 1, foray_engine_info(e).vocab, script[i]);
            c[i].script = script[i];
            c[i].script_count = (size_t)plain[i].count;
        }
        round_hooks hooks = {
            .user = &a, .keep = wild_keep, .eager = wild_route, .before_draft = wild_drafter
        };
        round_set_hooks(engine_round(e), &hooks);
        clock_set(lying_clock, NULL);
        generate_all(e, c, 4, (int)a.seed, wild);
        clock_set(NULL, NULL);
        round_set_hooks(engine_round(e), NULL);
        for (int i = 0; i < 4; i++)
            assert_same_text(&plain[i], &wild[i]);
    }
    device_set_threads(engine_device(e), 2);
    round_set_drafter(engine_round(e), own);
    for (int i = 0; i < 2; i++)
        a.drafters[i]->destroy(a.drafters[i]);
}

static int no_row(void *user, size_t position, const float *logits)
{
    (void)user;
    (void)position;
    (void)logits;
    return 0;
}

/* After every step of a run full of rejections, what is visible in the cache is what a fresh prefill leaves. */
static void rejected_rows_leave_no_trace(void **state)
{
    (void)state;
    static text plain;
    int32_t script[TEXT_MOST], ids[TEXT_MOST];
    foray_error err;
    foray_engine *e = script_engine;
    for (int cut = 0; cut <= 3; cut++) {
        foray_request_config c = request_at(13, 0.8f, 5, LENGTH);
        generate(plain_engine, &c, &plain);
        script_of(&plain, cut, foray_engine_info(e).vocab, script);
        c.script = script;
        c.script_count = (size_t)plain.count;
        memcpy(ids, c.prompt, c.prompt_count * sizeof *ids);
        memcpy(ids + c.prompt_count, plain.ids, sizeof *ids * (size_t)plain.count);
        foray_request r;
        assert_int_equal(foray_submit(e, &c, &r, &err), 0);
        const foray_event *events;
        size_t count;
        while (foray_step(e, &events, &count, &err) > 0) {
            int computed = 0;
            uint64_t fresh, now = engine_request_digest(e, r, &computed);
            assert_int_equal(engine_score(plain_engine, ids, (size_t)computed, 7, (size_t)computed, no_row,
                                          NULL, &fresh, &err),
                             0);
            assert_true(now == fresh);
        }
        foray_release(e, r);
    }
}

/* Alone, among others, in any order of arrival: the same texts. */
static void other_requests_do_not_matter(void **state)
{
    (void)state;
    static text alone[4], together[4];
    foray_request_config c[4];
    for (int i = 0; i < 4; i++) {
        c[i] = request_at(2 + 11 * i, i == 2 ? 0.0f : 1.2f, 77, 20 + 10 * i);
        generate(plain_engine, &c[i], &alone[i]);
    }
    for (int every = 0; every <= 9; every += 3) {
        generate_all(ngram_engine, c, 4, every, together);
        for (int i = 0; i < 4; i++)
            assert_same_text(&alone[i], &together[i]);
    }
}

static void seeds_differ_and_repeat(void **state)
{
    (void)state;
    static text a, b;
    int distinct = 0;
    foray_request_config c = request_at(8, 1.5f, 0, 20);
    generate(plain_engine, &c, &a);
    for (uint64_t seed = 1; seed <= 20; seed++) {
        c.sampling.seed = seed == 20 ? UINT64_MAX : seed;
        generate(plain_engine, &c, &b);
        distinct += memcmp(a.ids, b.ids, sizeof(int32_t) * 20) != 0;
    }
    assert_int_equal(distinct, 20);
    c.sampling.seed = 0;
    generate(ngram_engine, &c, &b);
    assert_same_text(&a, &b);
}

static long page_faults(void)
{
#ifdef FORAY_CHECKS
    return 0; /* checked and sanitized builds touch memory of their own */
#else
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return u.ru_minflt + u.ru_majflt;
#endif
}

/* A steady round takes no memory: no allocation, no page fault. */
static void a_steady_step_takes_no_memory(void **state)
{
    (void)state;
    foray_error err;
    const foray_event *events;
    size_t count;
    foray_engine *both[] = { plain_engine, ngram_engine };
    for (int e = 0; e < 2; e++) {
        foray_request_config c = request_at(8, 1, 1, 200);
        foray_request r;
        int active = 0;
        assert_int_equal(foray_submit(both[e], &c, &r, &err), 0);
        for (int i = 0; i < 10; i++)
            foray_step(both[e], &events, &count, &err);
        int64_t calls = mem_get_stats().calls;
        long faults = page_faults();
        for (int i = 0; i < 15; i++)
            active = foray_step(both[e], &events, &count, &err);
        faults = page_faults() - faults;
        assert_int_equal(active, 1); /* it was really running */
        assert_int_equal(mem_get_stats().calls - calls, 0);
        assert_int_equal(faults, 0);
        foray_release(both[e], r);
    }
}

/* Wall and phases agree to the nanosecond, and phases of prefill and decode sum to the request's wall. */
static void the_parts_sum_to_the_whole(void **state)
{
    (void)state;
    static text t[3];
    foray_request_config c[3];
    for (int i = 0; i < 3; i++)
        c[i] = request_at(5 + i, 0, 1, 20 + i);
    generate_all(ngram_engine, c, 3, 2, t);
    for (int i = 0; i < 3; i++) {
        int64_t sum = 0;
        for (int p = 0; p < FORAY_PHASES; p++)
            sum += t[i].account.phases_ns[p];
        assert_true(t[i].account.wall_ns > 0);
        assert_true(sum == t[i].account.wall_ns);
        assert_true(t[i].account.prefill_ns + t[i].account.decode_ns == t[i].account.wall_ns);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_drafts_give_the_plain_text),
        cmocka_unit_test(right_drafts_are_all_accepted),
        cmocka_unit_test(an_adversary_cannot_change_the_text),
        cmocka_unit_test(rejected_rows_leave_no_trace),
        cmocka_unit_test(other_requests_do_not_matter),
        cmocka_unit_test(seeds_differ_and_repeat),
        cmocka_unit_test(a_steady_step_takes_no_memory),
        cmocka_unit_test(the_parts_sum_to_the_whole),
    };
    return cmocka_run_group_tests(tests, open_engines, close_engines);
}
