/* The budget: what it chooses from given costs and survival, and that it stays honest about losses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "spec/budget.h"

static budget budget_with(const double *ratio, int count)
{
    budget b;
    int rows[16];
    double ns[16];
    budget_init(&b, -1);
    for (int i = 0; i < count; i++) {
        rows[i] = i + 1;
        ns[i] = 1e6 * ratio[i];
    }
    budget_set_costs(&b, rows, ns, count);
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

static void sure_drafts_on_cheap_rows_are_all_kept(void **state)
{
    (void)state;
    budget b = budget_with((double[]) { 1, 1.05, 1.1, 1.15, 1.2 }, 5);
    teach(&b, 7, 4, 1);
    int keep[1];
    budget_choose(&b, (draft[]) { draft_of(4, 7) }, 1, 8, keep);
    assert_int_equal(keep[0], 4);
}

static void drafts_that_never_stand_are_left_out(void **state)
{
    (void)state;
    budget b = budget_with((double[]) { 1, 1.2, 1.4, 1.6 }, 4);
    teach(&b, 0, 3, 0);
    int keep[1];
    assert_false(budget_choose(&b, (draft[]) { draft_of(3, 0) }, 1, 8, keep));
    assert_int_equal(keep[0], 0);
}

static void rows_that_cost_as_much_as_a_step_are_not_worth_half_a_chance(void **state)
{
    (void)state;
    budget b = budget_with((double[]) { 1, 2, 3, 4 }, 4);
    teach(&b, 3, 3, .5);
    int keep[1];
    budget_choose(&b, (draft[]) { draft_of(3, 3) }, 1, 8, keep);
    assert_int_equal(keep[0], 0);
}

/* The choice equals the best over all ways to keep drafts, tried one by one. */
static void the_choice_is_the_best_of_all(void **state)
{
    (void)state;
    budget b = budget_with((double[]) { 1, 1.1, 1.5, 1.6, 2.4, 2.5, 2.6, 2.7, 4 }, 9);
    teach(&b, 1, 3, .6);
    teach(&b, 5, 3, .9);
    draft d[2] = { draft_of(3, 5), draft_of(3, 1) };
    int keep[2];
    budget_choose(&b, d, 2, 9, keep);
    double best = 0, chosen = 0;
    for (int x = 0; x <= 3; x++)
        for (int y = 0; y <= 3; y++) {
            double tokens = 2, chance = 1;
            for (int j = 0; j < x; j++)
                tokens += chance *= budget_survival(&b, 5, j);
            chance = 1;
            for (int j = 0; j < y; j++)
                tokens += chance *= budget_survival(&b, 1, j);
            double value = tokens / budget_cost_ns(&b, 2 + x + y);
            best = value > best ? value : best;
            if (x == keep[0] && y == keep[1])
                chosen = value;
        }
    assert_true(chosen >= best * .9999);
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

/* A loser is tried again, ever more rarely, and never for more than 2 % of the time. */
static void probing_a_loser_stays_within_its_share(void **state)
{
    (void)state;
    budget b = budget_with((double[]) { 1, 2, 3, 4 }, 4);
    teach(&b, 0, 3, 0);
    int probes = 0;
    double spent = 0, total = 0;
    for (int i = 0; i < 20000; i++) {
        int keep[1];
        budget_offer_probe(&b);
        bool probe = budget_choose(&b, (draft[]) { draft_of(3, 0) }, 1, 8, keep);
        assert_int_equal(keep[0], probe ? 1 : 0);
        b.probing = probe;
        if (probe) {
            budget_take_probe(&b, budget_cost_ns(&b, 2) - budget_cost_ns(&b, 1));
            budget_observe_accept(&b, 0, 1, 0);
        }
        double wall = probe ? 2e6 : 1e6;
        budget_observe_round(&b, 1 + keep[0], wall);
        spent += probe ? 1e6 : 0;
        total += wall;
        probes += probe;
    }
    assert_true(probes >= 5);
    assert_true(spent <= .021 * total);
}

static void a_loser_that_turns_into_a_winner_is_found_out(void **state)
{
    (void)state;
    budget b = budget_with((double[]) { 1, 1.3, 1.5, 1.7 }, 4);
    teach(&b, 0, 3, 0);
    int kept = 0;
    for (int i = 0; i < 20000; i++) {
        int keep[1];
        budget_offer_probe(&b);
        b.probing = budget_choose(&b, (draft[]) { draft_of(3, 0) }, 1, 8, keep);
        if (b.probing)
            budget_take_probe(&b, budget_cost_ns(&b, 1 + keep[0]) - budget_cost_ns(&b, keep[0]));
        if (keep[0] > 0)
            budget_observe_accept(&b, 0, keep[0], keep[0]);
        budget_observe_round(&b, 1 + keep[0], budget_cost_ns(&b, 1 + keep[0]));
        kept += i >= 19000 && keep[0] == 3;
    }
    assert_true(kept > 900);
}

static void one_disturbed_round_does_not_upset_the_tables(void **state)
{
    (void)state;
    budget b = budget_with((double[]) { 1, 1.2, 1.4 }, 3);
    budget_observe_round(&b, 1, 500e6);
    assert_true(budget_cost_ns(&b, 1) < 1.2e6);
    for (int i = 0; i < 100; i++)
        budget_observe_round(&b, 1, 2e6); /* the machine really is slower now */
    assert_true(budget_cost_ns(&b, 1) > 1.9e6);
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
        cmocka_unit_test(probing_a_loser_stays_within_its_share),
        cmocka_unit_test(a_loser_that_turns_into_a_winner_is_found_out),
        cmocka_unit_test(one_disturbed_round_does_not_upset_the_tables),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
