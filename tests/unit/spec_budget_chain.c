/* The budget of a drafter that costs time of its own: what it chooses from tables that a test wrote. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "spec/budget.h"

enum { MOST = 3 };

/* Rounds of r rows take 1000 + 100 (r - 1), a chain of k drafts `chain` k more. */
static budget measured(double chain)
{
    budget b;
    int rows[] = { 1, 64 };
    double ns[] = { 1000, 7300 }, extra[MOST + 1] = { 0, chain, 2 * chain, 3 * chain };
    budget_init(&b, -1);
    budget_set_costs(&b, rows, ns, 2);
    budget_set_chain(&b, extra, MOST);
    return b;
}

/* Rounds of one request whose drafts have this signal and never, or always, stand. */
/* A round's choice as the round makes it: what the budget got ready for, and the signals that came. */
static int choose(budget *b, int room, int signal)
{
    budget copy = *b;
    copy.chain_probe = budget_chain_probe(b);
    budget_observe_signal(b, signal);
    return budget_choose_chain(&copy, &room, &signal, 1, 64);
}

static void live(budget *b, int rounds, int signal, bool stand)
{
    int room = MOST;
    for (int i = 0; i < rounds; i++) {
        bool ready = budget_wants_chain(b, 1, 0, true);
        int k = ready ? choose(b, room, signal) : 0;
        if (k > 0) {
            budget_observe_accept(b, signal, k, stand ? k : 0);
            budget_observe_chain(b, k, 1, 1 + k, budget_cost_ns(b, 1 + k) + b->chain_ns[k]);
        } else {
            budget_observe_round(b, 1, 1000);
        }
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

static void a_drafter_that_is_always_wrong_is_left_out(void **state)
{
    (void)state;
    budget b = measured(50);
    live(&b, 400, 0, false);
    int wanted = 0, room = MOST, signal = 0, drafts = 0;
    for (int i = 0; i < 400; i++) {
        bool ready = budget_wants_chain(&b, 1, 0, true);
        wanted += ready;
        int k = ready ? choose(&b, room, signal) : 0;
        drafts += k;
        if (k > 0)
            budget_observe_accept(&b, 0, k, 0);
        budget_observe_round(&b, 1, 1000);
    }
    assert_in_range(wanted, 0, most_probes(400));
    assert_in_range(drafts, 0, wanted); /* one in each, at most */
    assert_true(b.probe_spent_ns <= .02 * b.total_ns);
}

static void a_drafter_that_is_always_right_stays_in(void **state)
{
    (void)state;
    budget b = measured(50);
    live(&b, 200, 5, true);
    int room = MOST, signal = 5;
    assert_true(budget_wants_chain(&b, 1, 0, true));
    assert_int_equal(budget_choose_chain(&b, &room, &signal, 1, 64), MOST);
}

static void a_drafter_that_costs_more_than_it_saves_is_left_out(void **state)
{
    (void)state;
    budget b = measured(3000);
    assert_false(budget_wants_chain(&b, 1, 0, true));
}

/* A probe is one round with one draft; it does not go on by itself. */
static void a_probe_ends(void **state)
{
    (void)state;
    budget b = measured(3000);
    int room = MOST, signal = 0, probes = 0, in_a_row = 0;
    bool ready = false;
    for (int i = 0; i < 20000; i++) {
        int none = 0;
        int k = budget_choose_chain(&b, ready ? &room : &none, &signal, 1, 64);
        ready = budget_wants_chain(&b, 1, 128, true);
        in_a_row = k > 0 ? in_a_row + 1 : 0;
        probes += k > 0;
        assert_in_range(k, 0, 1);
        assert_in_range(in_a_row, 0, 1);
        if (k > 0)
            budget_observe_accept(&b, 0, 1, 1); /* it stands, and still does not pay */
        budget_observe_round(&b, 1, 1000);
    }
    assert_in_range(probes, 1, 200);
    assert_true(b.probe_spent_ns <= .02 * b.total_ns);
}

/* Rows that do not fit are never chosen, not even to probe. */
static void no_choice_exceeds_the_rows(void **state)
{
    (void)state;
    int room[64], signal[64];
    for (int n = 1; n <= 64; n++)
        for (int ready = 1; ready <= n; ready++)
            for (int probe = 0; probe < 2; probe++) {
                budget b = measured(probe ? 3000 : 1);
                b.chain_probe = probe;
                for (int i = 0; i < n; i++) {
                    room[i] = i < ready ? MOST : 0;
                    signal[i] = DRAFT_SIGNALS - 1;
                }
                int k = budget_choose_chain(&b, room, signal, n, 64);
                assert_in_range(n + k * ready, 1, 64);
            }
}

static void a_fixed_budget_is_kept(void **state)
{
    (void)state;
    budget b;
    int room[2] = { 5, 1 }, signal[2] = { 0, 0 };
    budget_init(&b, 2);
    assert_true(budget_wants_chain(&b, 2, 0, false));
    assert_int_equal(budget_choose_chain(&b, room, signal, 2, 64), 2);
    budget_init(&b, 0);
    assert_false(budget_wants_chain(&b, 2, 0, true));
    assert_int_equal(budget_choose_chain(&b, room, signal, 2, 64), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_drafter_that_is_always_wrong_is_left_out),
        cmocka_unit_test(a_drafter_that_is_always_right_stays_in),
        cmocka_unit_test(a_drafter_that_costs_more_than_it_saves_is_left_out),
        cmocka_unit_test(a_probe_ends),
        cmocka_unit_test(no_choice_exceeds_the_rows),
        cmocka_unit_test(a_fixed_budget_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
