/* Routes: what stands against a replay, and that ranks of unequal batches, one of them idle, come to the same graphs. The
 * ranks are simulated: each has a plan; what they compare is reduced here, by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/rng.h"
#include "spec/route.h"

#include <cmocka.h>

enum { RANKS = 4 };

static const route_rules every = { .graphs = true, .families = ~0u };

/* Rounds as a rank plans them alone. members 0: idle, as plan_open and set_bounds leave it. */
static void plan_of(round_plan *p, int members, int rows, int drafts, int extended, phase of)
{
    plan_open(p, 1);
    p->members = members;
    p->phase = of;
    p->slots_launched = plan_tier(members);
    p->rows_launched = plan_tier(rows);
    p->draft_steps = drafts;
    p->extend_launched = extended > 0 ? plan_tier(extended) : 0;
}

/* What the collectives will do, element by element. broken[rank]: bits of parts whose capture fails there. */
static void agree(round_plan *p, route *r, int ranks, const unsigned *broken)
{
    int32_t most[ROUTE_SIZES] = { 0 }, can[ROUTE_PARTS] = { 1, 1, 1 };
    for (int i = 0; i < ranks; i++) {
        route_ask(&p[i], &r[i]);
        for (int k = 0; k < ROUTE_SIZES; k++)
            most[k] = r[i].most[k] > most[k] ? r[i].most[k] : most[k];
    }
    for (int i = 0; i < ranks; i++) {
        memcpy(r[i].most, most, sizeof most);
        route_bind(&r[i], &p[i]);
        for (int part = 0; part < ROUTE_PARTS; part++) {
            if (!route_runs(&p[i], part))
                continue;
            const graph_key k = route_key(&p[i], part, NULL);
            r[i].why[part] = route_refuse(&every, &p[i], &k, false);
            if (r[i].why[part] == ROUTE_REPLAY && broken && broken[i] >> part & 1)
                r[i].why[part] = ROUTE_MEMORY;
            r[i].can[part] = r[i].why[part] == ROUTE_REPLAY;
            can[part] = r[i].can[part] < can[part] ? r[i].can[part] : can[part];
        }
    }
    for (int i = 0; i < ranks; i++) {
        memcpy(r[i].can, can, sizeof can);
        route_settle(&r[i]);
    }
}

static void assert_same_graphs(const round_plan *p, const route *r, int ranks)
{
    for (int i = 1; i < ranks; i++)
        for (int part = 0; part < ROUTE_PARTS; part++) {
            const graph_key a = route_key(&p[0], part, NULL), b = route_key(&p[i], part, NULL);
            assert_int_equal(route_runs(&p[0], part), route_runs(&p[i], part));
            assert_int_equal(r[0].why[part] == ROUTE_REPLAY, r[i].why[part] == ROUTE_REPLAY);
            if (route_runs(&p[0], part) && r[0].why[part] == ROUTE_REPLAY)
                assert_true(a.family == b.family && a.slots == b.slots && a.size == b.size);
        }
}

static void unequal_ranks_replay_the_same_tiers(void **state)
{
    (void)state;
    round_plan p[RANKS];
    route r[RANKS];
    plan_of(&p[0], 1, 4, 3, 4, PHASE_TARGET_VERIFY);
    plan_of(&p[1], 5, 5, 0, 0, PHASE_DECODE);
    plan_of(&p[2], 0, 0, 0, 0, PHASE_DECODE); /* idle */
    plan_of(&p[3], 3, 9, 2, 9, PHASE_TARGET_VERIFY);
    agree(p, r, RANKS, NULL);
    assert_same_graphs(p, r, RANKS);
    for (int i = 0; i < RANKS; i++) {
        const graph_key target = route_key(&p[i], ROUTE_TARGET, NULL);
        assert_true(target.family == GRAPH_VERIFY && target.slots == 8 && target.size == 16);
        assert_int_equal(p[i].draft_steps, 3);
        assert_int_equal(p[i].extend_launched, 16);
        for (int part = 0; part < ROUTE_PARTS; part++)
            assert_int_equal(r[i].why[part], ROUTE_REPLAY);
    }
    assert_int_equal(p[2].members, 0);
}

static void what_one_rank_cannot_replay_none_does(void **state)
{
    (void)state;
    round_plan p[2];
    route r[2];
    const unsigned broken[2] = { 0, 1u << ROUTE_EXTEND };
    plan_of(&p[0], 2, 6, 2, 6, PHASE_TARGET_VERIFY);
    plan_of(&p[1], 0, 0, 0, 0, PHASE_DECODE);
    agree(p, r, 2, broken);
    assert_int_equal(r[0].why[ROUTE_EXTEND], ROUTE_RANKS);
    assert_int_equal(r[1].why[ROUTE_EXTEND], ROUTE_MEMORY);
    assert_int_equal(r[0].why[ROUTE_TARGET], ROUTE_REPLAY);
    assert_int_equal(r[1].why[ROUTE_TARGET], ROUTE_REPLAY);

    /* A prompt that is read elsewhere is no tier of anybody's, and no reason to grow. */
    plan_of(&p[0], 2, 6, 0, 0, PHASE_TARGET_VERIFY);
    plan_of(&p[1], 1, 200, 0, 0, PHASE_PREFILL);
    agree(p, r, 2, NULL);
    assert_int_equal(p[0].rows_launched, 8);
    assert_int_equal(r[0].why[ROUTE_TARGET], ROUTE_RANKS);
    assert_int_equal(r[1].why[ROUTE_TARGET], ROUTE_PREFILL);
}

/* cases.md G05: some without drafts, at their limits, reading prompts, idle: all call the same, or none does. */
static void any_ranks_agree(void **state)
{
    (void)state;
    for (uint32_t seed = 0; seed < 2000; seed++) {
        round_plan p[RANKS];
        route r[RANKS];
        unsigned broken[RANKS];
        for (uint32_t i = 0; i < RANKS; i++) {
            const uint32_t *w = rng_philox(seed, i, 0, 0, 5, 17).word;
            int members = (int)(w[0] % 9), drafts = members > 0 ? (int)(w[1] % 4) : 0;
            bool reads = members > 0 && w[2] % 16 == 0;
            plan_of(&p[i], members, members * (1 + drafts), reads ? 0 : drafts,
                    drafts > 0 ? members * (1 + drafts) : 0,
                    reads        ? PHASE_PREFILL
                    : drafts > 0 ? PHASE_TARGET_VERIFY
                                 : PHASE_DECODE);
            broken[i] = w[3] % 8 == 0 ? 1u << w[3] / 8 % ROUTE_PARTS : 0;
        }
        agree(p, r, RANKS, broken);
        for (int part = 0; part < ROUTE_PARTS; part++) { /* the prompt's rank runs no draft */
            int replay = 0, runs = 0;
            for (int i = 0; i < RANKS; i++) {
                runs += route_runs(&p[i], part);
                replay += route_runs(&p[i], part) && r[i].why[part] == ROUTE_REPLAY;
            }
            assert_true(replay == 0 || replay == runs);
        }
        if (r[0].why[ROUTE_TARGET] == ROUTE_REPLAY)
            assert_same_graphs(p, r, RANKS);
    }
}

static void each_refusal_has_its_reason(void **state)
{
    (void)state;
    round_plan p;
    plan_of(&p, 2, 6, 2, 6, PHASE_TARGET_VERIFY);
    const route_rules off = { .families = ~0u },
                      no_extend = { .graphs = true, .families = ~(1u << GRAPH_EXTEND) };
    const graph_key target = route_key(&p, ROUTE_TARGET, NULL), extension = route_key(&p, ROUTE_EXTEND, NULL),
                    chain = route_key(&p, ROUTE_DRAFT, NULL);
    assert_int_equal(route_refuse(&off, &p, &target, true), ROUTE_OFF);
    assert_int_equal(route_refuse(&every, &p, &target, true), ROUTE_HOOK);
    assert_int_equal(route_refuse(&every, &p, &target, false), ROUTE_REPLAY);
    assert_int_equal(route_refuse(&no_extend, &p, &target, false), ROUTE_REPLAY);
    assert_int_equal(route_refuse(&no_extend, &p, &chain, false), ROUTE_REPLAY);
    assert_int_equal(route_refuse(&no_extend, &p, &extension, false), ROUTE_PHASES);
    assert_int_equal(chain.family, GRAPH_DRAFT);
    assert_int_equal(chain.size, 2); /* drafts, not a tier of rows */
    const graph_key wide = { GRAPH_VERIFY, 2 * PLAN_MAX_MEMBERS, 256, NULL };
    assert_int_equal(route_refuse(&every, &p, &wide, false), ROUTE_TIER);
    p.phase = PHASE_PREFILL;
    assert_int_equal(route_refuse(&every, &p, &target, false), ROUTE_PREFILL);

    char text[PLAN_ROUTE_BYTES];
    plan_of(&p, 2, 6, 2, 0, PHASE_TARGET_VERIFY);
    route_text(&p, ROUTE_TARGET, ROUTE_REPLAY, text);
    assert_string_equal(text, "graph:2x8");
    route_text(&p, ROUTE_DRAFT, ROUTE_MEMORY, text);
    assert_string_equal(text, "eager:memory");
    route_text(&p, ROUTE_EXTEND, ROUTE_REPLAY, text);
    assert_string_equal(text, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unequal_ranks_replay_the_same_tiers),
        cmocka_unit_test(what_one_rank_cannot_replay_none_does),
        cmocka_unit_test(any_ranks_agree),
        cmocka_unit_test(each_refusal_has_its_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
