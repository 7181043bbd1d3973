/* Random programs on several streams, with known reasons for every start: the analyser has to find exactly the
 * critical path that made them, phase by phase, whatever is done to the file that does not change its meaning.
 *
 * The generator runs a machine: a host thread that launches, works and waits; streams that run in order; events between
 * streams. It keeps for every task what released it, and the oracle walks those reasons, not the file.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "support/mutate.h"
#include "support/trace_make.h"

enum { MOST_TASKS = 30000, MOST_STEPS = 2000, FEW_STEPS = 8, STREAMS = 4, LAUNCH_EXTRA = 2000 };

/* One task as the machine ran it. */
typedef struct {
    int64_t launch, called, start, end; /* launch call's start and end */
    int stream, before, cause;          /* tasks, or -1 */
    phase stage;
    int after_sync; /* the sync before its launch, or -1 */
} made_task;

/* A sync that blocked: the task it waited for, and when it returned. */
typedef struct {
    int task;
    int64_t end;
} made_sync;

typedef struct {
    uint32_t seed, draws;
    made_task task[MOST_TASKS];
    made_sync sync[MOST_STEPS];
    int tasks, syncs, steps;
    int64_t opened[MOST_STEPS]; /* host time of each step's first annotation */
    int64_t host;               /* the host's clock */
    int64_t correlation;
    trace_make *out;
} machine;

static int64_t draw(machine *m, int64_t low, int64_t high)
{
    return low + (int64_t)(rng_at(m->seed, m->draws++, RNG_TEST, 0, 0).word[0] % (uint64_t)(high - low + 1));
}

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int last_on(const machine *m, int stream)
{
    for (int i = m->tasks - 1; i >= 0; i--)
        if (m->task[i].stream == stream)
            return i;
    return -1;
}

/* Makes `stream` wait for the last task of another one: record, wait, and CUPTI's note. Returns that task or -1. */
static int wait_for(machine *m, int stream)
{
    int on = (int)draw(m, 0, STREAMS - 1), by = last_on(m, on);
    if (on == stream || by < 0)
        return -1;
    int64_t record = ++m->correlation, wait = ++m->correlation;
    trace_make_host(m->out, "cuda_runtime", "cudaEventRecord", 7, m->host, 500, record);
    m->host += 700;
    trace_make_host(m->out, "cuda_runtime", "cudaStreamWaitEvent", 7, m->host, 500, wait);
    trace_make_wait(m->out, 10 + stream, 10 + on, m->host, wait, record);
    m->host += 700;
    return by;
}

static void launch_task(machine *m, phase stage)
{
    made_task *t = &m->task[m->tasks];
    int stream = draw(m, 0, 2) == 0 ? (int)draw(m, 1, STREAMS - 1) : 0;
    *t = (made_task) { .stream = stream, .stage = stage, .after_sync = m->syncs - 1 };
    if (draw(m, 0, 4) == 0) { /* the host is busy: perhaps too long for the device */
        int64_t busy = draw(m, 1000, 90000);
        trace_make_host(m->out, "cpu_op", "aten::prepare", 7, m->host, busy, 0);
        m->host += busy;
    }
    t->cause = draw(m, 0, 2) == 0 ? wait_for(m, stream) : -1;
    t->before = last_on(m, stream);
    t->launch = m->host + draw(m, 100, 900);
    t->called = t->launch + draw(m, 1500, 4000);
    m->host = t->called;
    t->start = t->called + LAUNCH_EXTRA;
    if (t->before >= 0)
        t->start = later(t->start, m->task[t->before].end);
    if (t->cause >= 0)
        t->start = later(t->start, m->task[t->cause].end);
    t->end = t->start + draw(m, 3000, 60000);
    int64_t correlation = ++m->correlation;
    char name[32];
    snprintf(name, sizeof name, "kernel_%d", m->tasks % 17);
    trace_make_host(m->out, "cuda_runtime", "cudaLaunchKernel", 7, t->launch, t->called - t->launch,
                    correlation);
    trace_make_task(m->out, "kernel", name, 10 + stream, t->start, t->end - t->start, correlation);
    m->tasks++;
}

/* A stage: an annotation around some launches, the first of which is on the main stream where it opens a step. */
static void run_stage(machine *m, const char *label, phase stage, int tasks)
{
    int64_t from = m->host;
    m->host += 300;
    for (int i = 0; i < tasks && m->tasks < MOST_TASKS; i++)
        launch_task(m, stage);
    m->host += 200;
    trace_make_host(m->out, "user_annotation", label, 7, from, m->host - from, 0);
    m->host += draw(m, 100, 2000);
}

/* The host waits until everything that was launched is done. */
static void synchronise(machine *m)
{
    int last = 0;
    for (int i = 0; i < m->tasks; i++)
        if (m->task[i].end > m->task[last].end)
            last = i;
    int64_t from = m->host + 300, until = later(m->task[last].end, from) + 3500;
    trace_make_host(m->out, "cuda_runtime", "cudaDeviceSynchronize", 7, from, until - from, ++m->correlation);
    if (m->task[last].end > from)
        m->sync[m->syncs++] = (made_sync) { last, until };
    m->host = until + draw(m, 200, 30000);
}

static void start_machine(machine *m, uint32_t seed, trace_make *out)
{
    m->seed = seed;
    m->draws = 0;
    m->tasks = m->syncs = m->steps = 0;
    m->out = out;
    m->host = 1000000;
    m->correlation = 100;
}

static void run_machine(machine *m, uint32_t seed, int steps, trace_make *out)
{
    start_machine(m, seed, out);
    if (steps == 0)
        steps = (int)draw(m, 3, FEW_STEPS - 1);
    for (int s = 0; s < steps; s++) {
        m->opened[s] = m->host;
        m->steps = s + 1;
        run_stage(m, "draft", PHASE_DRAFT, (int)draw(m, 3, 8));
        run_stage(m, "step[TARGET_VERIFY bs=4]", PHASE_TARGET_VERIFY, (int)draw(m, 3, 20));
        run_stage(m, "draft_extend", PHASE_DRAFT_EXTEND, (int)draw(m, 1, 6));
        if (draw(m, 0, 1) == 0)
            synchronise(m);
    }
}

/* ---- the oracle ------------------------------------------------------------------------------- */

static int main_stream(const machine *m)
{
    int64_t sum[STREAMS] = { 0 };
    int best = 0;
    for (int i = 0; i < m->tasks; i++)
        sum[m->task[i].stream] += m->task[i].end - m->task[i].start;
    for (int s = 1; s < STREAMS; s++)
        if (sum[s] > sum[best])
            best = s;
    return best;
}

/* The first task on the main stream that was launched in step s or later, before the next one; -1. */
static int first_task(const machine *m, int s)
{
    const int main = main_stream(m);
    for (int i = 0; i < m->tasks; i++)
        if (m->task[i].stream == main && m->task[i].launch >= m->opened[s] &&
            (s + 1 == m->steps || m->task[i].launch < m->opened[s + 1]))
            return i;
    return -1;
}

/* Adds [from, to], cut at floor, to an account. Returns from. */
static int64_t charge(int64_t *account, int64_t floor, int64_t from, int64_t to)
{
    from = later(from, floor);
    if (to > from)
        *account += to - from;
    return from;
}

/* Walks the machine's own reasons back from the start of task `at` (or its end, where it is the last) to floor. */
static void known_path(const machine *m, int x, bool from_end, int64_t floor, int64_t ns[PHASE_COUNT])
{
    const made_task *t = &m->task[x];
    if (from_end)
        charge(&ns[t->stage], floor, t->start, t->end);
    while (t->start > floor) {
        int64_t own = t->before >= 0 ? m->task[t->before].end : INT64_MIN;
        int64_t other = t->cause >= 0 ? m->task[t->cause].end : INT64_MIN;
        if (t->launch > own && t->launch > other) { /* the host came last */
            int64_t host_until = t->after_sync >= 0 ? m->sync[t->after_sync].end : INT64_MIN;
            charge(&ns[PHASE_HOST_GAP], floor, later(host_until, floor), t->start);
            if (t->after_sync < 0 || host_until <= floor)
                return;
            const made_sync *s = &m->sync[t->after_sync];
            charge(&ns[PHASE_HOST_GAP], floor, m->task[s->task].end, s->end);
            t = &m->task[s->task];
            charge(&ns[t->stage], floor, t->start, t->end);
            continue;
        }
        int64_t release = later(own, other);
        /* While the launch call still ran, the host is to blame for the rest; else the device took its time. */
        charge(t->called > release ? &ns[PHASE_HOST_GAP] : &ns[t->stage], floor, release, t->start);
        t = &m->task[other >= own ? t->cause : t->before];
        charge(&ns[t->stage], floor, t->start, t->end);
    }
}

static void check(const machine *m, const session *s, int64_t scale, uint32_t seed)
{
    assert_int_equal(s->count, 1);
    const analysis *a = &s->analyses[0];
    assert_int_equal(a->sums_wrong, 0);
    assert_int_equal(a->graph.count, m->tasks);
    size_t number = 0;
    for (int k = 0; k < m->steps; k++) {
        int first = first_task(m, k);
        if (first < 0)
            return; /* a step without work on the main stream: other boundaries, another test */
    }
    if (a->step_count != (size_t)m->steps)
        fail_msg("seed %u: %zu steps instead of %d", seed, a->step_count, m->steps);
    for (int k = 0; k < m->steps; k++, number++) {
        const step *x = &a->steps[number];
        int last = 0;
        for (int i = 0; i < m->tasks; i++)
            if (m->task[i].end > m->task[last].end)
                last = i;
        int64_t start = k == 0 ? m->opened[0] : m->task[first_task(m, k)].start;
        int64_t end = k + 1 < m->steps ? m->task[first_task(m, k + 1)].start : m->task[last].end;
        int64_t expected[PHASE_COUNT] = { 0 };
        known_path(m, k + 1 < m->steps ? first_task(m, k + 1) : last, k + 1 == m->steps, start, expected);
        if (x->end - x->start != (end - start) * scale)
            fail_msg("seed %u step %d: wall %lld instead of %lld", seed, k, (long long)(x->end - x->start),
                     (long long)((end - start) * scale));
        for (int p = 0; p < PHASE_COUNT; p++)
            if (x->phases_ns[p] != expected[p] * scale)
                fail_msg("seed %u step %d: %s is %lld instead of %lld", seed, k, phase_name((phase)p),
                         (long long)x->phases_ns[p], (long long)(expected[p] * scale));
    }
}

static void the_path_is_the_one_that_made_the_times(void **state)
{
    (void)state;
    static machine m;
    uint32_t runs = mutate_count(300, 10000);
    for (uint32_t seed = 1; seed <= runs; seed++) {
        trace_make made;
        trace_make_open(&made, 1, 0);
        run_machine(&m, seed, 0, &made);
        session s;
        trace_make_analysed(&made, &s);
        check(&m, &s, 1, seed);
        session_free(&s);
        trace_make_free(&made);
    }
}

/* So many tasks that two threads share the work. */
static void a_long_program_has_its_path_too(void **state)
{
    (void)state;
    static machine m;
    for (uint32_t seed = 1; seed <= 2; seed++) {
        trace_make made;
        trace_make_open(&made, 1, 0);
        run_machine(&m, seed, 1000, &made);
        assert_true(m.tasks > 20000);
        session s;
        trace_make_analysed(&made, &s);
        check(&m, &s, 1, seed);
        session_free(&s);
        trace_make_free(&made);
    }
}

/* Nothing says where a step begins: the path is one, from the last task to the first launch. */
static void a_long_program_without_steps_has_one_path(void **state)
{
    (void)state;
    static machine m;
    for (uint32_t seed = 1; seed <= 3; seed++) {
        trace_make made;
        trace_make_open(&made, 1, 0);
        start_machine(&m, seed, &made);
        while (m.tasks < 25000) {
            launch_task(&m, PHASE_UNATTRIBUTED);
            if (m.syncs + 1 < MOST_STEPS && draw(&m, 0, 40) == 0)
                synchronise(&m);
        }
        session s;
        trace_make_analysed(&made, &s);
        const analysis *a = &s.analyses[0];
        int last = 0;
        for (int i = 0; i < m.tasks; i++)
            last = m.task[i].end > m.task[last].end ? i : last;
        int64_t expected[PHASE_COUNT] = { 0 };
        known_path(&m, last, true, m.task[0].launch, expected);
        assert_int_equal(a->step_count, 1);
        assert_int_equal(a->sums_wrong, 0);
        assert_int_equal(a->steps[0].end - a->steps[0].start, m.task[last].end - m.task[0].launch);
        for (int p = 0; p < PHASE_COUNT; p++)
            if (a->steps[0].phases_ns[p] != expected[p])
                fail_msg("seed %u: %s is %lld instead of %lld", seed, phase_name((phase)p),
                         (long long)a->steps[0].phases_ns[p], (long long)expected[p]);
        session_free(&s);
        trace_make_free(&made);
    }
}

static void order_epoch_scale_and_files_do_not_matter(void **state)
{
    (void)state;
    static machine m;
    foray_error err;
    uint32_t runs = mutate_count(40, 1000);
    for (uint32_t seed = 1; seed <= runs; seed++) {
        int64_t scale = seed % 2 + 1, shift = seed % 3 == 0   ? 1736408883674584732
                                              : seed % 3 == 1 ? -5000000
                                                              : 0;
        trace_make made;
        trace_make_open(&made, scale, shift);
        run_machine(&m, seed, 0, &made);
        trace_make_task(&made, "kernel", "unrelated", 99, 1500000, 30,
                        999999); /* on a stream that nobody waits for */
        m.task[m.tasks++] = (made_task) { .start = 1500000,
                                          .end = 1500030,
                                          .launch = 1500000,
                                          .called = 1500000,
                                          .stream = 3,
                                          .before = -1,
                                          .cause = -1,
                                          .stage = PHASE_UNATTRIBUTED,
                                          .after_sync = -1 };
        session s;
        assert_int_equal(session_open(NULL, NULL, &s, &err), FORAY_OK);
        int parts = seed % 4 == 0 ? 3 : 1;
        for (int p = 0; p < parts; p++) {
            buf text = { 0 };
            trace_make_text(&made, seed, parts, p, &text);
            assert_int_equal(session_add_text(&s, "piece.json", text.data, text.len, &err), FORAY_OK);
            buf_free(&text);
        }
        assert_int_equal(session_finish(&s, &err), FORAY_OK);
        m.tasks--;
        const analysis *a = &s.analyses[0];
        assert_int_equal(s.count, 1);
        assert_int_equal(a->graph.count, m.tasks + 1);
        ((analysis *)a)->graph.count--; /* check() counts the machine's own */
        check(&m, &s, scale, seed);
        ((analysis *)a)->graph.count++;
        session_free(&s);
        trace_make_free(&made);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_path_is_the_one_that_made_the_times),
        cmocka_unit_test(a_long_program_has_its_path_too),
        cmocka_unit_test(a_long_program_without_steps_has_one_path),
        cmocka_unit_test(order_epoch_scale_and_files_do_not_matter),
    };
    return cmocka_run_group_tests_name("property_timeline_paths", tests, NULL, NULL);
}
