/* The closed loop: a run of the engine is delayed in one named kernel, and the analysis of its timeline has to say so: charged in
 * full to the kernel's stage where the kernel is on the path, and beyond its slack where it is not; and what the removal is said
 * to be worth is what the run without the delay gains.
 *
 * On the path: the engine's one stream, on a clock that moves only when it is read and when the delayed kernel says so, so that two runs
 * differ by the delay alone. Beside it: two streams on two workers in real time, where the order is forced by flags and what must come
 * out follows from the tasks' own times.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/delayed_run.h"
#include "support/tiny.h"
#include "timeline/session.h"

static void check(int rc, const foray_error *err)
{
    if (rc < 0)
        fail_msg("%s", err->text);
}

static void open_timeline(session *s, const char *path)
{
    foray_error err;
    check(session_open(NULL, NULL, s, &err), &err);
    check(session_add(s, path, FORMAT_FORAY, &err), &err);
    check(session_finish(s, &err), &err);
    assert_int_equal(s->count, 1);
    assert_int_equal(s->analyses[0].sums_wrong, 0);
}

static const what_if *find_removal(const analysis *a, phase of)
{
    for (size_t i = 0; i < a->what_if_count; i++)
        if (a->what_ifs[i].kind == WHAT_NO_STAGE && a->what_ifs[i].phase == of)
            return &a->what_ifs[i];
    return NULL;
}

/* Tasks of a name in a step. */
static int hits_in(const analysis *a, size_t number, const char *name)
{
    int n = 0;
    for (size_t i = 0; i < a->graph.count; i++)
        n += a->graph.tasks[i].step == number + 1 &&
             strcmp(task_name(&a->graph, &a->graph.tasks[i]), name) == 0;
    return n;
}

/* Mean wall time of the steps that b keeps, in a. */
static double mean_wall(const analysis *a, const analysis *b)
{
    double sum = 0;
    int n = 0;
    for (size_t k = 0; k < b->step_count; k++)
        if (b->steps[k].reason == STEP_KEPT) {
            sum += (double)(a->steps[k].end - a->steps[k].start);
            n++;
        }
    assert_true(n > 2);
    return sum / n;
}

static void compare_runs(const analysis *a, const analysis *b, const char *kernel, phase only)
{
    int charged = 0;
    assert_int_equal(a->step_count, b->step_count);
    for (size_t k = 0; k < a->step_count; k++) {
        const step *x = &a->steps[k], *y = &b->steps[k];
        int hits = hits_in(b, k, kernel);
        assert_int_equal(x->rows, y->rows);
        assert_int_equal(hits, hits_in(a, k, kernel));
        assert_int_equal((y->end - y->start) - (x->end - x->start), (int64_t)hits * DELAY_NS);
        for (int p = 0; p < PHASE_COUNT; p++) {
            int64_t more = y->phases_ns[p] - x->phases_ns[p];
            bool of_kernel = only != PHASE_COUNT ? p == (int)only : x->stages[p].tasks > 0 && more != 0;
            if (more != (of_kernel ? (int64_t)hits * DELAY_NS : 0))
                fail_msg("step %zu: %d delays of %s change %s by %lld ns", k, hits, kernel,
                         phase_name((phase)p), (long long)more);
        }
        charged += hits;
    }
    assert_true(charged > 2); /* a torture build records the last few steps only */
}

static void a_delay_on_the_path_is_charged_in_full_and_its_removal_foretold(void **state)
{
    (void)state;
    tiny_spec spec = tiny_default();
    char path[512];
    session plain, slow;
    snprintf(path, sizeof path, "%s", tiny_gguf(&spec));
    open_timeline(&plain, delayed_engine(path, DELAY_NOTHING));
    const analysis *a = &plain.analyses[0];

    open_timeline(&slow, delayed_engine(path, DELAY_SAMPLE));
    const analysis *b = &slow.analyses[0];
    compare_runs(a, b, "sample", PHASE_ACCEPT);
    const what_if *w = find_removal(b, PHASE_ACCEPT);
    assert_non_null(w);
    double foretold = mean_wall(b, b) - (double)w->saved_ns, without = mean_wall(a, b);
    if (foretold > without * 1.05 || foretold < without * 0.95)
        fail_msg("without it a step takes %.0f ns and not %.0f", without, foretold);
    session_free(&slow);

    /* A kernel of every layer: prefill, plain decoding and verifying are charged, each in its steps. */
    open_timeline(&slow, delayed_engine(path, DELAY_ATTENTION));
    compare_runs(a, &slow.analyses[0], "attention", PHASE_COUNT);
    session_free(&slow);
    session_free(&plain);
}

static const task *task_in(const analysis *a, size_t number, phase of)
{
    for (size_t i = 0; i < a->graph.count; i++)
        if (a->graph.tasks[i].step == number + 1 && a->graph.tasks[i].phase == of)
            return &a->graph.tasks[i];
    fail_msg("step %zu has no task of %s", number, phase_name(of));
    return NULL;
}

/* Since when nothing but a free worker was missing. */
static int64_t side_ready(const analysis *a, const task *side)
{
    const event_detail *d = store_more(a->graph.s, task_event(&a->graph, side));
    return d->ready;
}

static int64_t beyond(int64_t delay, int64_t slack)
{
    return slack <= 0 ? delay : delay > slack ? delay - slack : 0;
}

/* Checks every round by its own times; returns how many were in the order that was meant. */
static int check_forks(fork_order order)
{
    session s;
    int64_t delayed[FORK_ROUNDS];
    open_timeline(&s, delayed_fork(order, delayed));
    const analysis *a = &s.analyses[0];
    int meant = 0, kept = 0;
    int64_t sum = 0;
    assert_int_equal(a->step_count, FORK_ROUNDS);
    assert_int_equal(a->replay_error_ns, 0);
    for (size_t k = 0; k < a->step_count; k++) {
        const task *side = task_in(a, k, PHASE_PLAN), *main = task_in(a, k, PHASE_TARGET_VERIFY);
        int64_t delay = delayed[k], slack = main->end - (side->end - delay);
        int64_t exposed = beyond(delay, slack);
        bool on_path = side->end > main->end;
        const step *x = &a->steps[k];
        if (x->stages[PHASE_PLAN].path_ns < (on_path ? side->end - side->start : 0) ||
            x->phases_ns[PHASE_PLAN] != (on_path ? side->end - side_ready(a, side) : 0))
            fail_msg("round %zu: the side ends %lld ns behind main and is charged %lld", k,
                     (long long)(side->end - main->end), (long long)x->phases_ns[PHASE_PLAN]);
        meant += order == MAIN_ENDS_FIRST    ? slack < DELAY_NS / 10
                 : order == MAIN_ENDS_INSIDE ? exposed > DELAY_NS / 10 && slack > DELAY_NS / 10
                                             : exposed == 0;
        if (a->steps[k].reason == STEP_KEPT) {
            sum += exposed;
            kept++;
        }
    }
    assert_true(kept > 0);
    /* What its removal is worth: the part beyond the slack, and nothing where it was hidden. */
    const what_if *w = find_removal(a, PHASE_PLAN);
    int64_t saved = w != NULL ? w->saved_ns : 0, expected = sum / kept;
    if (llabs(saved - expected) > expected / 20 + 1)
        fail_msg("removing it is said to save %lld ns a round, and the tasks' times say %lld",
                 (long long)saved, (long long)expected);
    session_free(&s);
    return meant;
}

static void a_delay_beside_the_path_is_worth_what_goes_beyond_its_slack(void **state)
{
    (void)state;
    assert_true(check_forks(MAIN_ENDS_FIRST) > 0);
    assert_true(check_forks(MAIN_ENDS_INSIDE) > 0);
    assert_true(check_forks(MAIN_ENDS_LAST) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_delay_on_the_path_is_charged_in_full_and_its_removal_foretold),
        cmocka_unit_test(a_delay_beside_the_path_is_worth_what_goes_beyond_its_slack),
    };
    return cmocka_run_group_tests_name("property_timeline_loop", tests, NULL, NULL);
}
