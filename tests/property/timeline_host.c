/* What host threads do at a moment, and where they waited, against a look at every event there is.
 *
 * Random threads with ranges nested in each other, some of them calls that wait for the device, beside random tasks. The oracle
 * goes through the whole list of what was written for every question.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "support/mutate.h"
#include "support/trace_make.h"
#include "timeline/host_waits.h"
#include "timeline/host_work.h"

enum { MOST = 2500, THREADS = 3, TASKS = 300, QUESTIONS = 2000, NAMES = 40 };

typedef struct {
    int64_t start, end;
    int thread, name;
    bool syncs;
} made_range;

typedef struct {
    uint32_t seed, draws;
    made_range range[MOST];
    int count;
    int64_t until; /* when the last range ends */
} made_host;

static int64_t draw(made_host *h, int64_t low, int64_t high)
{
    return low + (int64_t)(rng_at(h->seed, h->draws++, RNG_TEST, 0, 0).word[0] % (uint64_t)(high - low + 1));
}

/* Ranges inside [from, to] of a thread, one behind the other, and others in them. */
static void fill(made_host *h, int thread, int64_t from, int64_t to, int depth)
{
    while (from + 20 < to && h->count < MOST / THREADS * (thread + 1)) {
        int64_t start = from + draw(h, 1, 9),
                end = start + draw(h, 1, depth == 0 ? 4000 : (to - from) / 2 + 1);
        if (end >= to)
            return;
        h->range[h->count++] = (made_range) { .start = start,
                                              .end = end,
                                              .thread = thread,
                                              .name = (int)draw(h, 0, NAMES - 1),
                                              .syncs = draw(h, 0, 7) == 0 };
        if (depth < 4 && draw(h, 0, 2) > 0)
            fill(h, thread, start, end, depth + 1);
        from = end + draw(h, 0, 30);
        h->until = from > h->until ? from : h->until;
    }
}

static void make_host(made_host *h, uint32_t seed, session *out)
{
    *h = (made_host) { .seed = seed };
    trace_make made;
    trace_make_open(&made, 1, 0);
    for (int thread = 0; thread < THREADS; thread++)
        fill(h, thread, 1000000, 1000000 + draw(h, 5000, 200000), 0); /* room for one */
    for (int i = 0; i < h->count; i++) {
        const made_range *x = &h->range[i];
        char name[16];
        snprintf(name, sizeof name, "range_%d", x->name);
        trace_make_host(&made, x->syncs ? "cuda_runtime" : "cpu_op",
                        x->syncs ? "cudaStreamSynchronize" : name, x->thread, x->start, x->end - x->start, 0);
    }
    for (int i = 0; i < TASKS; i++)
        trace_make_task(&made, "kernel", "k", 100 + i % 2, draw(h, 1000000, h->until), draw(h, 1, 3000), 0);
    buf text = { 0 };
    trace_make_text(&made, seed, 1, 0, &text);
    trace_make_session(text.data, text.len, out);
    buf_free(&text);
    trace_make_free(&made);
}

/* The lane of a thread. */
static size_t lane_of(const session *s, int thread)
{
    char name[16];
    snprintf(name, sizeof name, "%d", thread);
    for (size_t l = 0; l < s->input.events.lane_count; l++)
        if (strcmp(store_lane_name(&s->input.events, l), name) == 0 &&
            s->input.events.lanes[l].role == LANE_HOST)
            return l;
    fail_msg("thread %d has no lane", thread);
    return 0;
}

/* The range that says what the thread does at the instant before `to`: of those around it a call before any other, then the one
 * that began last, and of equal ones the shortest; NULL: none. */
static const made_range *range_at(const made_host *h, int thread, int64_t to)
{
    const made_range *best = NULL;
    for (int i = 0; i < h->count; i++) {
        const made_range *x = &h->range[i];
        if (x->thread != thread || x->start >= to || x->end < to ||
            (best != NULL && best->syncs && !x->syncs))
            continue;
        if (best == NULL || (x->syncs && !best->syncs) || x->start > best->start ||
            (x->start == best->start && x->end < best->end))
            best = x;
    }
    return best;
}

static void expect_words(const made_host *h, const session *s, int thread, int64_t at, uint32_t words)
{
    const made_range *x = range_at(h, thread, at);
    const char *found = names_text(&s->input.events.names, words);
    char name[32];
    if (x == NULL)
        snprintf(name, sizeof name, "nothing traced");
    else
        snprintf(name, sizeof name, "range_%d", x->name);
    if (x != NULL && x->syncs) /* a rule has words of its own for these */
        assert_true(strncmp(found, "range_", 6) != 0 && strcmp(found, "nothing traced") != 0);
    else
        assert_string_equal(found, name);
}

static void the_innermost_range_tells_what_a_thread_does(void **state)
{
    (void)state;
    static made_host h;
    foray_error err;
    for (uint32_t seed = 1; seed <= mutate_count(6, 200); seed++) {
        session s;
        host_side side;
        host_work work;
        make_host(&h, seed, &s);
        const task_graph *g = &s.analyses[0].graph;
        assert_int_equal(host_side_find(&s.input.events, &s.groups, &s.rules, &side, &err), FORAY_OK);
        assert_int_equal(host_work_open(&s.input.events, g, &s.rules, &side, &work, &err), FORAY_OK);
        size_t place[THREADS] = { 0 };
        for (int q = 0; q < QUESTIONS; q++) {
            int thread = (int)draw(&h, 0, THREADS - 1);
            size_t l = lane_of(&s, thread);
            int64_t to = draw(&h, 1000000, h.until), from = to - draw(&h, 1, 500);
            place[thread] = host_work_place(&work, l, to, place[thread]);
            uint32_t words;
            int64_t since = host_work_piece(&work, l, place[thread], from, to, &words);
            assert_true(since >= from && since < to);
            expect_words(&h, &s, thread, to, words);
            expect_words(&h, &s, thread, since + 1, words);
        }
        host_work_close(&work);
        host_side_free(&side);
        session_free(&s);
    }
}

/* The task that a sync waited for, by looking at all: of those that ran when it began and ended before it returned the last one. */
static uint32_t task_of(const task_graph *g, const event *call)
{
    uint32_t best = 0;
    for (size_t i = 0; i < g->count; i++) {
        const task *x = &g->tasks[i];
        if (x->end <= event_end(call) && x->end > call->start && x->asked <= call->start &&
            (best == 0 || x->end >= g->tasks[best - 1].end))
            best = (uint32_t)i + 1;
    }
    return best;
}

static void waits_are_those_that_a_task_ended(void **state)
{
    (void)state;
    static made_host h;
    foray_error err;
    size_t all = 0;
    for (uint32_t seed = 1; seed <= mutate_count(6, 200); seed++) {
        session s;
        host_waits waits;
        make_host(&h, seed, &s);
        const task_graph *g = &s.analyses[0].graph;
        assert_int_equal(host_waits_find(g, &waits, &err), FORAY_OK);
        size_t listed = 0, expected = 0;
        for (size_t i = 0; i < s.input.events.count; i++) {
            const event *e = store_event(&s.input.events, i);
            expected += e->kind == EVENT_SYNC_CALL && task_of(g, e) != 0;
        }
        for (size_t l = 0; l < waits.lanes; l++)
            for (size_t i = waits.first[l]; i < waits.first[l + 1]; i++, listed++) {
                const host_wait *x = &waits.list[i];
                const event *e = store_event(&s.input.events, x->event);
                assert_int_equal(e->lane, l);
                assert_int_equal(x->start, e->start);
                assert_int_equal(x->end, event_end(e));
                assert_int_equal(x->task, task_of(g, e));
                assert_true(i == waits.first[l] || waits.list[i - 1].end <= x->end);
            }
        assert_int_equal(listed, expected);
        all += listed;
        host_waits_free(&waits);
        session_free(&s);
    }
    assert_true(all > 0);
}

/* A stage of one kernel for which the host waits, and then works a while. */
static int64_t run_stage(trace_make *made, const char *label, int64_t host, int64_t kernel,
                         int64_t correlation)
{
    trace_make_host(made, "user_annotation", label, 7, host, 4500, 0);
    trace_make_host(made, "cuda_runtime", "cudaLaunchKernel", 7, host + 100, 4000, correlation);
    trace_make_task(made, "kernel", label, 10, host + 6000, kernel, correlation);
    trace_make_host(made, "cuda_runtime", "cudaStreamSynchronize", 7, host + 5000, kernel + 4000,
                    correlation + 1);
    trace_make_host(made, "cpu_op", "aten::prepare", 7, host + 10000 + kernel, 20000, 0);
    return host + kernel + 31000;
}

/* A host that waits for every kernel launches all that follow so much earlier as one of them takes less time. */
static void what_a_wait_gains_goes_on_to_all_that_follows(void **state)
{
    (void)state;
    enum { ROUNDS = 9, DRAFT = 30000, VERIFY = 50000 };
    trace_make made;
    session s;
    int64_t host = 1000000;
    trace_make_open(&made, 1, 0);
    for (int i = 0; i < ROUNDS; i++) {
        host = run_stage(&made, "draft", host, DRAFT, 100 * i + 1);
        host = run_stage(&made, "step[TARGET_VERIFY bs=4]", host, VERIFY, 100 * i + 51);
    }
    trace_make_analysed(&made, &s);
    const analysis *a = &s.analyses[0];
    assert_int_equal(a->step_count, ROUNDS);
    assert_int_equal(a->replay_error_ns, 0);
    const what_if *found = NULL;
    for (size_t i = 0; i < a->what_if_count; i++)
        if (a->what_ifs[i].kind == WHAT_NO_STAGE && a->what_ifs[i].phase == PHASE_DRAFT)
            found = &a->what_ifs[i];
    assert_non_null(found);
    assert_int_equal(found->saved_ns, DRAFT);
    session_free(&s);
    trace_make_free(&made);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_innermost_range_tells_what_a_thread_does),
        cmocka_unit_test(waits_are_those_that_a_task_ended),
        cmocka_unit_test(what_a_wait_gains_goes_on_to_all_that_follows),
    };
    return cmocka_run_group_tests_name("property_timeline_host", tests, NULL, NULL);
}
