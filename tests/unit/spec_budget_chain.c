/* The budget of a drafter that costs time of its own: what it chooses from tables that a test wrote. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>

#include "spec/budget.h"

enum { MOST = 3 };

/* Rounds of r rows take 1000 + 100 (r - 1), a chain of k drafts `chain` k more, a row that it owes 1. */
static budget measured(double chain)
{
    budget b;
    int rows[] = { 1, 64 };
    double ns[] = { 1000, 7300 }, own[MOST] = { chain, 2 * chain, 3 * chain };
    budget_init(&b, -1);
    budget_set_costs(&b, 1, rows, ns, 2);
    budget_set_chain(&b, 1, own, MOST);
    budget_set_catch_up(&b, 1);
    return b;
}

/* A drafter on such a machine, and the rounds of some requests with it. */
typedef struct {
    budget b;
    double chain, ns, plain_ns; /* all rounds, and as many plain ones as their tokens would have taken */
    int n, owed;                /* requests, rows owed by each */
    int wanted, probes;
} machine;

static machine start(double chain, int n)
{
    return (machine) { .b = measured(chain), .chain = chain, .n = n, .owed = 128 };
}

static double verify_ns(int rows)
{
    return 1000 + 100.0 * (rows - 1);
}

/* One round: the choice as the round makes it, then what it got ready. stand: of the drafts at most. Returns the drafts. */
static int live(machine *m, int signal, int stand)
{
    budget *b = &m->b;
    int room[BUDGET_MAX_REQUESTS], signals[BUDGET_MAX_REQUESTS], owed = m->owed;
    for (int i = 0; i < m->n; i++) {
        room[i] = owed == 0 ? MOST : 0;
        signals[i] = signal;
        if (room[i] > 0)
            budget_observe_signal(b, signal);
    }
    const int k = budget_choose_chain(b, room, signals, m->n, BUDGET_MAX_ROWS);
    const bool probe = budget_chain_probe(b) && k > 0;
    const bool ready = budget_wants_chain(b, m->n, owed * m->n, true);
    const int accepted = stand < k ? stand : k, rows = m->n * (1 + k);
    const double own = (ready ? m->chain : 0) + (k > 1 ? (k - 1) * m->chain : 0);
    b->probing = probe;
    for (int i = 0; i < m->n && k > 0; i++)
        budget_observe_accept(b, signal, k, accepted);
    if (ready && owed == 0)
        budget_observe_chain(b, m->n, k, own);
    budget_observe_round(b, m->n, rows, 0, verify_ns(rows));
    m->ns += verify_ns(rows) + own + (ready ? owed * m->n : 0);
    m->plain_ns += verify_ns(m->n) * (1 + accepted);
    m->owed = ready ? 0 : owed + 1 + accepted < 128 ? owed + 1 + accepted : 128;
    m->wanted += ready;
    m->probes += probe;
    return k;
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
    machine m = start(50, 1);
    for (int i = 0; i < 400; i++)
        live(&m, 0, 0);
    m.wanted = 0;
    int drafts = 0;
    for (int i = 0; i < 400; i++)
        drafts += live(&m, 0, 0);
    assert_in_range(m.wanted, 0, most_probes(400));
    assert_in_range(drafts, 0, m.wanted); /* one in each, at most */
}

/* Whatever it costs and however sure it says it is, for one request and for many. */
static void a_hopeless_drafter_costs_a_few_per_cent(void **state)
{
    (void)state;
    static const double chain[] = { 1, 50, 400, 3000 };
    for (int i = 0; i < 4; i++)
        for (int n = 1; n <= 8; n *= 2)
            for (int signal = 0; signal < DRAFT_SIGNALS; signal++) {
                machine m = start(chain[i], n);
                for (int r = 0; r < 3000; r++) {
                    live(&m, signal, 0);
                    assert_true(m.ns <= m.plain_ns + verify_ns(n) * (2.5 + .026 * (r + 1)));
                }
            }
}

static void a_drafter_that_is_always_right_stays_in(void **state)
{
    (void)state;
    for (int n = 1; n <= 8; n *= 8) {
        machine m = start(50, n);
        for (int i = 0; i < 200; i++)
            live(&m, 5, MOST);
        m.wanted = 0;
        int all = 0;
        for (int i = 0; i < 200; i++)
            all += live(&m, 5, MOST) == MOST;
        assert_in_range(all, 196, 200); /* now and then a plain round, to compare with */
        assert_int_equal(m.wanted, 200);
        assert_true(m.ns < m.plain_ns);
    }
}

/* A text that was hard to guess becomes easy. */
static void a_drafter_that_becomes_right_comes_back(void **state)
{
    (void)state;
    for (int n = 1; n <= 8; n *= 8) {
        machine m = start(50, n);
        for (int i = 0; i < 2000; i++)
            live(&m, 3, 0);
        for (int i = 0; i < 4000; i++)
            live(&m, 3, MOST);
        assert_true(live(&m, 3, MOST) + live(&m, 3, MOST) >=
                    MOST); /* one of them may be plain, to compare with */
    }
}

static void a_drafter_that_costs_more_than_it_saves_is_left_out(void **state)
{
    (void)state;
    budget b = measured(3000);
    assert_false(budget_wants_chain(&b, 1, 0, true));
}

/* What a chain takes for several requests is its own figure, and follows from one request's where it was not measured. */
static void a_chain_for_many_requests_has_costs_of_its_own(void **state)
{
    (void)state;
    for (int dear = 0; dear < 2; dear++) {
        budget b = measured(10);
        double own[MOST] = { 5000, 6000, 7000 };
        if (dear)
            budget_set_chain(&b, 8, own, MOST);
        for (int i = 0; i < 100; i++)
            budget_observe_accept(&b, 7, MOST, MOST);
        budget_observe_round(&b, 8, 8, 0, verify_ns(8));
        assert_true(budget_wants_chain(&b, 8, 0, true) == !dear);
        assert_true(budget_wants_chain(&b, 1, 0, true));
    }
}

/* A probe is one round with one draft; it does not go on by itself. */
static void a_probe_ends(void **state)
{
    (void)state;
    machine m = start(3000, 1);
    int in_a_row = 0;
    for (int i = 0; i < 20000; i++) {
        const int k = live(&m, 0, 1); /* it stands, and still does not pay */
        in_a_row = k > 0 ? in_a_row + 1 : 0;
        assert_in_range(k, 0, 1);
        assert_in_range(in_a_row, 0, 1);
    }
    assert_in_range(m.probes, 1, most_probes(20000));
    assert_true(m.b.probe_spent <= .015 * m.b.rounds);
}

/* A prompt that is read among requests that decode will decode among them. */
static void a_prompt_is_read_for_the_crowd_that_it_joins(void **state)
{
    (void)state;
    budget b = measured(10);
    double own[MOST] = { 90000, 90000, 90000 };
    budget_set_chain(&b, 8, own, MOST);
    assert_true(budget_wants_chain(&b, 1, 0, false));
    budget_observe_round(&b, 8, 8, 0, verify_ns(8));
    assert_false(budget_wants_chain(&b, 1, 0, false));
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
                b.credit = 64;
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
        cmocka_unit_test(a_hopeless_drafter_costs_a_few_per_cent),
        cmocka_unit_test(a_drafter_that_is_always_right_stays_in),
        cmocka_unit_test(a_drafter_that_becomes_right_comes_back),
        cmocka_unit_test(a_drafter_that_costs_more_than_it_saves_is_left_out),
        cmocka_unit_test(a_chain_for_many_requests_has_costs_of_its_own),
        cmocka_unit_test(a_probe_ends),
        cmocka_unit_test(a_prompt_is_read_for_the_crowd_that_it_joins),
        cmocka_unit_test(no_choice_exceeds_the_rows),
        cmocka_unit_test(a_fixed_budget_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
