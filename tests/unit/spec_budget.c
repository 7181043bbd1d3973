/* The budget: what it chooses from given costs and survival, and that it stays honest about losses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "spec/budget.h"

static const double ONE_NS = 1e6;

/* Rounds of `n` requests and n, n + 1, … rows take such multiples of a plain round of one request. */
static void set_costs(budget *b, int n, const double *ratio, int count)
{
    int rows[16];
    double ns[16];
    for (int i = 0; i < count; i++) {
        rows[i] = n + i;
        ns[i] = ONE_NS * ratio[i];
    }
    budget_set_costs(b, n, rows, ns, count);
}

static budget budget_with(const double *ratio, int count)
{
    budget b;
    budget_init(&b, -1);
    set_costs(&b, 1, ratio, count);
    return b;
}

static void teach(budget *b, int signal, int drafts, double stands)
{
    for (int i = 0; i < 300; i++)
        budget_observe_accept(b, signal, drafts, (i * 37 % 100) < stands * 100 ? drafts : 0);
}

static draft draft_of(int count, int signal)
{
    return (draft) { .count = count, .signal = signal };
}

static int choose_one(const budget *b, int count, int signal)
{
    int keep[1];
    budget_choose(b, (draft[]) { draft_of(count, signal) }, 1, BUDGET_MAX_ROWS, keep);
    return keep[0];
}

/* One round of one request as a machine runs it that is as the tables say; returns the drafts that were verified. stand: of
 * those that are verified at most. */
static int live(budget *b, int count, int signal, int stand, double *ns, bool *probe)
{
    int keep[1];
    budget_offer_probe(b);
    const bool probed = budget_choose(b, (draft[]) { draft_of(count, signal) }, 1, BUDGET_MAX_ROWS, keep);
    const double took = budget_round_ns(b, 1, 1 + keep[0]);
    b->probing = probed;
    if (probed)
        budget_take_probe(b, took - budget_round_ns(b, 1, keep[0]));
    if (keep[0] > 0)
        budget_observe_accept(b, signal, keep[0], stand < keep[0] ? stand : keep[0]);
    budget_observe_round(b, 1, 1 + keep[0], 0, took);
    if (ns)
        *ns += took;
    if (probe)
        *probe = probed;
    return keep[0];
}

/* ---- the choice ---- */

static void sure_drafts_on_cheap_rows_are_all_kept(void **state)
{
    (void)state;
    budget b = budget_with((double[]) { 1, 1.05, 1.1, 1.15, 1.2 }, 5);
    teach(&b, 7, 4, 1);
    assert_int_equal(choose_one(&b, 4, 7), 4);
}

static void drafts_that_never_stand_are_left_out(void **state)
{
    (void)state;
    budget b = budget_with((double[]) { 1, 1.2, 1.4, 1.6 }, 4);
    teach(&b, 0, 3, 0);
    assert_int_equal(choose_one(&b, 3, 0), 0);
}

static void rows_that_cost_as_much_as_a_step_are_not_worth_half_a_chance(void **state)
{
    (void)state;
    budget b = budget_with((double[]) { 1, 2, 3, 4 }, 4);
    teach(&b, 3, 3, .5);
    b.credit = 3;
    assert_int_equal(choose_one(&b, 3, 3), 0);
}

/* The choice equals the best over all ways to keep drafts, tried one by one. */
static void the_choice_is_the_best_of_all(void **state)
{
    (void)state;
    budget b = budget_with((double[]) { 1, 1.1, 1.5, 1.6, 2.4, 2.5, 2.6, 2.7, 4 }, 9);
    teach(&b, 1, 3, .6);
    teach(&b, 5, 3, .9);
    b.credit = 9;
    draft d[2] = { draft_of(3, 5), draft_of(3, 1) };
    int keep[2];
    budget_choose(&b, d, 2, 9, keep);
    double best = 0, chosen = 0;
    const double plain = budget_ratio(&b, 2, 2);
    for (int x = 0; x <= 3; x++)
        for (int y = 0; y <= 3; y++) {
            double tokens = 2, chance = 1;
            for (int j = 0; j < x; j++)
                tokens += chance *= budget_survival(&b, 5, j);
            chance = 1;
            for (int j = 0; j < y; j++)
                tokens += chance *= budget_survival(&b, 1, j);
            double value = tokens / (plain + BUDGET_CAUTION * (budget_ratio(&b, 2, 2 + x + y) - plain));
            best = value > best ? value : best;
            if (x == keep[0] && y == keep[1])
                chosen = value;
        }
    assert_true(chosen >= best * .9999);
    assert_true(keep[0] > 0);
}

static void no_more_rows_than_there_is_room_for(void **state)
{
    (void)state;
    budget b = budget_with((double[]) { 1, 1, 1, 1, 1, 1, 1, 1 }, 8);
    teach(&b, 7, 7, 1);
    draft d[3] = { draft_of(7, 7), draft_of(7, 7), draft_of(7, 7) };
    for (int fixed = -1; fixed <= 7; fixed++)
        for (int room = 3; room <= 24; room++) {
            int keep[3];
            b.fixed = fixed;
            budget_choose(&b, d, 3, room, keep);
            assert_true(3 + keep[0] + keep[1] + keep[2] <= room);
        }
}

static void a_fixed_budget_is_kept_to(void **state)
{
    (void)state;
    budget b = budget_with((double[]) { 1, 9, 9, 9 }, 4);
    b.fixed = 2;
    int keep[2];
    budget_choose(&b, (draft[]) { draft_of(7, 0), draft_of(1, 0) }, 2, 16, keep);
    assert_int_equal(keep[0], 2);
    assert_int_equal(keep[1], 1);
}

/* Rows that are dear for one request and cheap for four, or the other way round. */
static void rounds_of_many_requests_have_costs_of_their_own(void **state)
{
    (void)state;
    draft d[4] = { draft_of(1, 7), draft_of(1, 7), draft_of(1, 7), draft_of(1, 7) };
    for (int dear = 0; dear < 2; dear++) {
        const double rise = dear ? 1 : .02, alone = dear ? .02 : 1;
        budget b = budget_with((double[]) { 1, 1 + alone, 1 + 2 * alone, 1 + 3 * alone }, 4);
        set_costs(&b, 4, (double[]) { 2, 2 + rise, 2 + 2 * rise, 2 + 3 * rise, 2 + 4 * rise }, 5);
        teach(&b, 7, 1, .9);
        b.credit = 3;
        int keep[4];
        budget_choose(&b, d, 4, BUDGET_MAX_ROWS, keep);
        assert_int_equal(keep[0] + keep[1] + keep[2] + keep[3], dear ? 0 : 4);
        budget_choose(&b, d, 1, BUDGET_MAX_ROWS, keep);
        assert_int_equal(keep[0], dear ? 1 : 0);
    }
}

/* ---- survival ---- */

/* Three drafts that always stand say something of the fourth; one that never stands says it of all behind it. */
static void a_draft_is_believed_to_stand_as_often_as_the_one_before_it(void **state)
{
    (void)state;
    budget b = budget_with((double[]) { 1, 1.01, 1.02, 1.03, 1.04, 1.05, 1.06, 1.07 }, 8);
    teach(&b, 2, 3, 1);
    for (int j = 3; j < DRAFT_MAX; j++)
        assert_true(budget_survival(&b, 2, j) > .9);
    assert_int_equal(choose_one(&b, 7, 2), 7);
    teach(&b, 3, 3, 0);
    assert_true(budget_survival(&b, 3, 5) < .2);
}

/* What came of one signal changes what is believed of those that were not seen. */
static void signals_are_believed_as_far_as_they_were_right(void **state)
{
    (void)state;
    budget good = budget_with((double[]) { 1, 1.1 }, 2), bad = good, fresh = good;
    teach(&good, 2, 1, 1);
    teach(&bad, 2, 1, 0);
    assert_true(budget_survival(&good, 5, 0) > budget_survival(&fresh, 5, 0));
    assert_true(budget_survival(&bad, 5, 0) < .5 * budget_survival(&fresh, 5, 0));
}

/* ---- losses ---- */

/* Whatever the drafter says, and however sure the budget was of it. */
static void a_hopeless_drafter_costs_about_a_round_and_a_few_per_cent(void **state)
{
    (void)state;
    static const double rise[] = { .01, .07, .3, 1 };
    for (int i = 0; i < 4; i++)
        for (int signals = 1; signals <= DRAFT_SIGNALS; signals++) {
            double ratio[8], ns = 0;
            for (int r = 0; r < 8; r++)
                ratio[r] = 1 + rise[i] * r;
            budget b = budget_with(ratio, 8);
            int rounds = 0;
            for (; rounds < 4000; rounds++) {
                live(&b, 7, DRAFT_SIGNALS - 1 - rounds % signals, 0, &ns, NULL);
                const double most = 1 + (1 + .026 * (rounds + 1)); /* in plain rounds, beyond those */
                assert_true(ns / ONE_NS - (rounds + 1) <= most);
            }
        }
}

/* A choice never stakes more than there is. */
static void the_credit_covers_every_choice(void **state)
{
    (void)state;
    budget b = budget_with((double[]) { 1, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7 }, 8);
    teach(&b, 7, 7, 1);
    for (int i = -5; i < 20; i++) {
        b.credit = .05 * i + .001;
        const int keep = choose_one(&b, 7, 7);
        assert_true(keep == 0 || budget_stake(&b, 1, budget_ratio(&b, 1, 1 + keep)) <= b.credit);
        assert_int_equal(keep, i < 2 ? 0 : i >= 14 ? 7 : i / 2);
    }
}

/* How many probes are due in so many rounds, if the first is still to come. */
static int most_probes(int rounds)
{
    int n = 0;
    for (int wait = BUDGET_PROBE_FIRST; rounds >= wait; n++) {
        rounds -= wait;
        wait = wait < BUDGET_PROBE_LAST ? 2 * wait : BUDGET_PROBE_LAST;
    }
    return n;
}

/* A loser is tried again, ever more rarely, and never for more than its share of the time. */
static void probing_a_loser_stays_within_its_share(void **state)
{
    (void)state;
    budget b = budget_with((double[]) { 1, 2, 3, 4 }, 4);
    teach(&b, 0, 3, 0);
    int probes = 0, early = 0;
    for (int i = 0; i < 20000; i++) {
        bool probe;
        const int kept = live(&b, 3, 0, 0, NULL, &probe);
        assert_int_equal(kept, probe ? 1 : 0);
        probes += probe;
        early += probe && i < 2000;
        assert_true(probes <= .015 * (i + 1));
    }
    assert_in_range(probes, 5, most_probes(20000));
    assert_true(early >= 3);
}

static void a_loser_that_turns_into_a_winner_is_found_out(void **state)
{
    (void)state;
    budget b = budget_with((double[]) { 1, 1.3, 1.5, 1.7 }, 4);
    teach(&b, 0, 3, 0);
    int kept = 0;
    for (int i = 0; i < 20000; i++)
        kept += live(&b, 3, 0, 3, NULL, NULL) == 3 && i >= 19000;
    assert_true(kept > 900);
}

static void no_probe_where_something_else_is_measured(void **state)
{
    (void)state;
    budget b = budget_with((double[]) { 1, 2, 3, 4 }, 4);
    teach(&b, 0, 3, 0);
    b.no_probes = true;
    for (int i = 0; i < 5000; i++)
        assert_int_equal(live(&b, 3, 0, 0, NULL, NULL), 0);
}

/* What drafts are compared with must be seen, too: often where they promise little, rarely where they promise much. */
static void among_rounds_with_drafts_a_plain_one_comes_now_and_then(void **state)
{
    (void)state;
    for (int much = 0; much < 2; much++) {
        budget b = budget_with((double[]) { 1, 1.8, 1.9, 2 }, 4);
        b.credit = 3;
        teach(&b, 7, 3, 1);
        int plain = 0;
        for (int i = 0; i < 10000; i++) {
            b.credit = 3;
            plain += live(&b, much ? 3 : 1, 7, 3, NULL, NULL) == 0;
        }
        assert_in_range(plain, much ? 10 : 200, much ? 60 : 500);
    }
}

/* ---- costs ---- */

static void one_disturbed_round_does_not_upset_the_tables(void **state)
{
    (void)state;
    budget b = budget_with((double[]) { 1, 1.2, 1.4 }, 3);
    budget_observe_round(&b, 1, 1, 0, 500e6);
    assert_true(budget_cost_ns(&b, 1) < 1.2e6);
    for (int i = 0; i < 100; i++)
        budget_observe_round(&b, 1, 1, 0, 2e6); /* the machine really is slower now */
    assert_true(budget_cost_ns(&b, 1) > 1.9e6);
}

static double cost(const budget *b, int n, int rows)
{
    return budget_round_ns(b, n, rows) / ONE_NS;
}

/* Between measured row counts a straight line; crowds that were not measured lie between those that were. */
static void costs_that_were_not_measured_follow_from_those_that_were(void **state)
{
    (void)state;
    budget b;
    budget_init(&b, -1);
    budget_set_costs(&b, 1, (int[]) { 1, 4, 8 }, (double[]) { 1e6, 1.3e6, 2.1e6 }, 3);
    assert_true(fabs(cost(&b, 1, 6) - 1.7) < 1e-6);
    assert_true(fabs(cost(&b, 1, 13) - 3.1) < 1e-6);
    budget_set_costs(&b, 8, (int[]) { 8, 16 }, (double[]) { 2.8e6, 4.4e6 }, 2);
    assert_true(fabs(cost(&b, 8, 12) - 3.6) < 1e-6);
    assert_true(fabs(cost(&b, 4, 4) - (1.3 + 3 * .1)) < 1e-6); /* each request beyond the first adds .1 */
    for (int n = 1; n <= BUDGET_MAX_REQUESTS; n++)
        for (int rows = n + 1; rows <= BUDGET_MAX_ROWS; rows++)
            assert_true(budget_ratio(&b, n, rows) >= budget_ratio(&b, n, rows - 1));
}

/* Rounds on a noisy machine that is now and then half as fast for a while, a plain one among every eight: that is the
 * machine, and kinds cost what they cost. */
static void a_machine_that_slows_down_changes_no_ratio(void **state)
{
    (void)state;
    budget b = budget_with((double[]) { 1, 1.2, 1.4, 1.6 }, 4);
    for (uint32_t i = 0; i < 20000; i++) {
        const double noise = .9 + .2 * (rng_philox(i, 0, 0, 0, 5, 6).word[0] % 1000) / 1000;
        const int rows = i % 8 ? 3 : 1;
        const double slow = i / 300 % 3 == 2 ? 2 : 1;
        budget_observe_round(&b, 1, rows, 0, ONE_NS * slow * (rows == 1 ? 1 : 1.4) * noise);
        assert_true(fabs(budget_ratio(&b, 1, 3) - 1.4) < .3); /* until a plain round tells */
    }
    assert_true(fabs(budget_ratio(&b, 1, 3) - 1.4) < .1);
}

/* Rounds of 8 to 12 distinct experts, `share` of whose time goes with them. Returns how far the plain round's cost strays. */
static double strays(double share, bool told, double *spread)
{
    budget b = budget_with((double[]) { 1, 1.2, 1.4, 1.6 }, 4);
    double most = 0;
    for (uint32_t i = 0; i < 2000; i++) {
        const int experts = i / 4 % 2 ? 12 : 8;
        budget_observe_round(&b, 1, 1, told ? experts : 0, ONE_NS * (1 + share * (experts / 10.0 - 1)));
        const double off = fabs(budget_cost_ns(&b, 1) / ONE_NS - 1);
        most = i > 1000 && off > most ? off : most;
    }
    *spread = b.spread;
    return most;
}

/* A text whose tokens go to more experts for a while is no slower machine. Where time does not go with experts, they change
 * nothing. */
static void experts_are_no_news_of_the_machine(void **state)
{
    (void)state;
    double told, untold;
    assert_true(strays(.8, true, &told) < .02);
    assert_true(strays(.8, false, &untold) > .05);
    assert_true(told < untold / 2);
    assert_true(strays(0, true, &told) < .01);
}

/* Kinds that were measured wrong, or have come to cost something else, are learned, and with them those of about as many rows;
 * the plain round keeps its own. */
static void ratios_are_refreshed_by_rounds(void **state)
{
    (void)state;
    budget b;
    budget_init(&b, -1);
    budget_set_costs(&b, 8, (int[]) { 8, 16, 32 }, (double[]) { 1e6, 1.3e6, 1.9e6 }, 3);
    for (int i = 0; i < 200; i++) {
        budget_observe_round(&b, 8, i % 2 ? 14 : 18, 0, 1.7 * ONE_NS);
        if (i % 10 == 0)
            budget_observe_round(&b, 8, 8, 0, ONE_NS);
    }
    assert_true(fabs(budget_ratio(&b, 8, 14) - 1.7) < .1);
    assert_true(fabs(budget_ratio(&b, 8, 16) - 1.7) < .1);
    assert_true(fabs(budget_cost_ns(&b, 8) / ONE_NS - 1) < .1);
}

/* So many rounds without a plain one among them: it is not the plain round that has become dearer. */
static void what_only_rounds_with_drafts_show_is_theirs_at_first(void **state)
{
    (void)state;
    budget b = budget_with((double[]) { 1, 1.2, 1.4, 1.6 }, 4);
    for (int i = 0; i < 12; i++)
        budget_observe_round(&b, 1, 3, 0, 2 * ONE_NS);
    assert_true(budget_ratio(&b, 1, 3) > 1.7);
    assert_true(budget_cost_ns(&b, 1) < 1.15 * ONE_NS);
}

/* Longer texts have ratios of their own, which begin as those of shorter ones. */
static void texts_of_another_length_have_costs_of_their_own(void **state)
{
    (void)state;
    budget b = budget_with((double[]) { 1, 1.2, 1.4, 1.6 }, 4);
    budget_set_context(&b, 100);
    budget_set_context(&b, 5000);
    assert_true(fabs(budget_ratio(&b, 1, 3) - 1.4) < 1e-6);
    for (int i = 0; i < 400; i++) {
        budget_observe_round(&b, 1, 1, 0, 3 * ONE_NS);
        budget_observe_round(&b, 1, 3, 0, 9 * ONE_NS);
    }
    assert_true(budget_ratio(&b, 1, 3) > 2.5);
    budget_set_context(&b, 200);
    assert_true(fabs(budget_ratio(&b, 1, 3) - 1.4) < 1e-6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sure_drafts_on_cheap_rows_are_all_kept),
        cmocka_unit_test(drafts_that_never_stand_are_left_out),
        cmocka_unit_test(rows_that_cost_as_much_as_a_step_are_not_worth_half_a_chance),
        cmocka_unit_test(the_choice_is_the_best_of_all),
        cmocka_unit_test(no_more_rows_than_there_is_room_for),
        cmocka_unit_test(a_fixed_budget_is_kept_to),
        cmocka_unit_test(rounds_of_many_requests_have_costs_of_their_own),
        cmocka_unit_test(a_draft_is_believed_to_stand_as_often_as_the_one_before_it),
        cmocka_unit_test(signals_are_believed_as_far_as_they_were_right),
        cmocka_unit_test(a_hopeless_drafter_costs_about_a_round_and_a_few_per_cent),
        cmocka_unit_test(the_credit_covers_every_choice),
        cmocka_unit_test(probing_a_loser_stays_within_its_share),
        cmocka_unit_test(a_loser_that_turns_into_a_winner_is_found_out),
        cmocka_unit_test(no_probe_where_something_else_is_measured),
        cmocka_unit_test(among_rounds_with_drafts_a_plain_one_comes_now_and_then),
        cmocka_unit_test(one_disturbed_round_does_not_upset_the_tables),
        cmocka_unit_test(costs_that_were_not_measured_follow_from_those_that_were),
        cmocka_unit_test(a_machine_that_slows_down_changes_no_ratio),
        cmocka_unit_test(experts_are_no_news_of_the_machine),
        cmocka_unit_test(ratios_are_refreshed_by_rounds),
        cmocka_unit_test(what_only_rounds_with_drafts_show_is_theirs_at_first),
        cmocka_unit_test(texts_of_another_length_have_costs_of_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
