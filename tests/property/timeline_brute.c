/* The critical path against brute force: on small random programs over a few streams every path is walked, and the longest is what
 * the analyser must have charged, phase by phase, with communication on it exposed and the rest of it hidden.
 *
 *     step    gate ─▶ tasks on three streams and one of communication, joined at random ─▶ the next step's gate
 *
 * The host is a step ahead, so the reasons for every start are streams and events alone; a device starts a task as soon as it may. Some
 * programs come as graph replays, with clocks that differ, without some launches, or without some tasks: where the evidence
 * is exact the answer stays exact, else it is marked.
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

enum {
    STEPS = 4,
    MOST_IN_STEP = 10,
    MOST_TASKS = STEPS * MOST_IN_STEP,
    STREAMS = 4,
    COMM_STREAM = 3,
    MOST_TIES = 32
};

typedef struct {
    int64_t start, end;
    int stream, of_step, before[STREAMS], befores; /* what it waits for: the one before on its stream first */
    phase stage;
    bool waited[STREAMS]; /* by event for the last task of that stream */
} made;

/* What is done to a program on its way into the file. */
typedef enum {
    AS_IT_IS,
    ONE_STREAM_REPLAYED,
    ALL_REPLAYED,
    CLOCKS_DIFFER,
    LAUNCHES_LOST,
    A_TASK_LOST,
    VARIANTS
} variant;

typedef struct {
    uint32_t seed, draws;
    made task[MOST_TASKS];
    int tasks, gate[STEPS + 1]; /* gate[STEPS]: none, the end */
    int lost;                   /* a task that is not written; -1 */
    int guessed_wrong;          /* steps, with the guess marked */
} program;

static int64_t draw(program *p, int64_t low, int64_t high)
{
    return low + (int64_t)(rng_at(p->seed, p->draws++, RNG_TEST, 0, 0).word[0] % (uint64_t)(high - low + 1));
}

static int last_on(const program *p, int stream)
{
    for (int i = p->tasks - 1; i >= 0; i--)
        if (p->task[i].stream == stream)
            return i;
    return -1;
}

static void add_before(made *t, int before, int stream)
{
    if (before < 0)
        return;
    t->before[t->befores++] = before;
    t->waited[stream] = stream != t->stream;
}

static void add_task(program *p, int of_step, int stream, phase stage, int64_t length)
{
    made *t = &p->task[p->tasks];
    bool gate = p->tasks == p->gate[of_step], first = true;
    *t = (made) { .stream = stream, .of_step = of_step, .stage = stage };
    add_before(t, last_on(p, stream), stream);
    for (int i = p->gate[of_step]; i < p->tasks; i++)
        first &= p->task[i].stream != stream;
    for (int s = 0; s < STREAMS;
         s++) /* a gate waits for all; the first of a stream for its step's gate; others at random */
        if (s != stream && (gate || (first && s == 0) || draw(p, 0, 4) == 0))
            add_before(t, last_on(p, s), s);
    t->start = 1000000;
    for (int i = 0; i < t->befores; i++)
        t->start = p->task[t->before[i]].end > t->start ? p->task[t->before[i]].end : t->start;
    t->end = t->start + length;
    p->tasks++;
}

static void make_program(program *p, uint32_t seed, variant as)
{
    static const phase stages[] = { PHASE_DRAFT, PHASE_TARGET_VERIFY, PHASE_DRAFT_EXTEND };
    *p = (program) { .seed = seed, .lost = -1 };
    for (int k = 0; k < STEPS; k++) {
        int more = (int)draw(p, 2, MOST_IN_STEP - 1), from = p->tasks;
        p->gate[k] = from;
        add_task(p, k, 0, PHASE_DRAFT, 400000 + draw(p, 0, 1000));
        for (int i = 0; i < more; i++) /* all of a replay is of the stage that launches it */
            add_task(p, k, (int)draw(p, 0, STREAMS - 1),
                     as == ALL_REPLAYED ? PHASE_TARGET_VERIFY : stages[i * 3 / more], draw(p, 5000, 60000));
    }
    p->gate[STEPS] = -1;
}

/* ---- the file --------------------------------------------------------------------------------- */

typedef struct {
    program *p;
    trace_make *out;
    variant as;
    int64_t host, skew, correlation, replay; /* replay: correlation of the graph launch of this stage; 0 */
} writer;

static void write_waits(writer *w, const made *t)
{
    for (int s = 0; s < STREAMS; s++) {
        if (!t->waited[s])
            continue;
        int64_t record = ++w->correlation, wait = ++w->correlation;
        trace_make_host(w->out, "cuda_runtime", "cudaEventRecord", 7, w->host, 500, record);
        trace_make_host(w->out, "cuda_runtime", "cudaStreamWaitEvent", 7, w->host + 600, 500, wait);
        trace_make_wait(w->out, 10 + t->stream, 10 + s, w->host + 600, wait, record);
        w->host += 1200;
    }
}

/* Is the stream before it all that it waits for? */
static bool is_plain(const program *p, const made *t)
{
    return t->befores == 0 || (t->befores == 1 && p->task[t->before[0]].stream == t->stream);
}

/* Does another stream wait for it? What a record call recorded is known by the launches before it. */
static bool is_recorded(const program *p, int i)
{
    for (int j = i + 1; j < p->tasks; j++)
        for (int b = 0; b < p->task[j].befores; b++)
            if (p->task[j].before[b] == i && p->task[j].stream != p->task[i].stream)
                return true;
    return false;
}

static bool loses_launch(const program *p, int i, variant as)
{
    const made *t = &p->task[i];
    return as == LAUNCHES_LOST && i % 2 == 0 && i != p->gate[t->of_step] && is_plain(p, t) &&
           !is_recorded(p, i);
}

static bool in_replay(const writer *w, int i)
{
    const made *t = &w->p->task[i];
    return i != w->p->gate[t->of_step] &&
           (w->as == ALL_REPLAYED || (w->as == ONE_STREAM_REPLAYED && t->stream == 0 && is_plain(w->p, t)));
}

/* A task, its launch (its own, or that of the graph) and the waits before it. */
static void write_one(writer *w, int i)
{
    const made *t = &w->p->task[i];
    char name[32];
    int64_t launch = 0;
    snprintf(name, sizeof name, t->stream == COMM_STREAM ? "ncclDevKernel_AllReduce" : "kernel_%d", i % 5);
    if (in_replay(w, i)) {
        if (w->replay == 0) {
            w->replay = ++w->correlation;
            trace_make_host(w->out, "cuda_runtime", "cudaGraphLaunch", 7, w->host, 2000, w->replay);
            w->host += 2100;
        }
        launch = w->replay;
    } else {
        w->replay = 0;
        write_waits(w, t);
        launch = ++w->correlation;
        if (!loses_launch(w->p, i, w->as))
            trace_make_host(w->out, "cuda_runtime", "cudaLaunchKernel", 7, w->host, 1500, launch);
        w->host += 1600;
    }
    if (i != w->p->lost)
        trace_make_task(w->out, "kernel", name, 10 + t->stream, t->start + w->skew, t->end - t->start,
                        launch);
}

static int64_t skew_of(const program *p, variant as)
{
    return as != CLOCKS_DIFFER ? 0 : p->seed % 2 != 0 ? -3000000 : 3000000;
}

static void write_program(program *p, variant as, trace_make *out)
{
    static const struct {
        phase stage;
        const char *label;
    } stages[] = { { PHASE_DRAFT, "draft" },
                   { PHASE_TARGET_VERIFY, "step[TARGET_VERIFY bs=4]" },
                   { PHASE_DRAFT_EXTEND, "draft_extend" } };
    writer w = { .p = p, .out = out, .as = as, .correlation = 100, .skew = skew_of(p, as) };
    for (int k = 0; k < STEPS; k++) {
        w.host = (k == 0 ? 600000 : p->task[p->gate[k - 1]].start + 1000);
        for (size_t s = 0; s < sizeof stages / sizeof *stages; s++) {
            int64_t from = w.host;
            w.host += 100;
            w.replay = 0;
            for (int i = 0; i < p->tasks; i++)
                if (p->task[i].of_step == k && p->task[i].stage == stages[s].stage)
                    write_one(&w, i);
            if (w.host > from + 100)
                trace_make_host(out, "user_annotation", stages[s].label, 7, from, w.host - from, 0);
            w.host += 100;
        }
    }
}

/* ---- the oracle ------------------------------------------------------------------------------- */

typedef struct {
    int64_t length, phases[PHASE_COUNT];
    uint64_t tasks; /* bits */
} one_path;

typedef struct {
    one_path best[MOST_TIES];
    int ties;
    uint64_t walked;
} all_paths;

/* Adds a task to a path, or, sign -1, takes it away. Communication is exposed from the hook on, when the stream that waits for
 * it has run dry; before that it is its stage's work. Nothing says the stage of a task whose launch is lost. */
static void charge(const program *p, int x, variant as, int64_t hook, int sign, one_path *path)
{
    const made *t = &p->task[x];
    int64_t from = t->stream != COMM_STREAM || hook > t->end ? t->end : hook > t->start ? hook : t->start;
    path->phases[loses_launch(p, x, as) ? PHASE_UNATTRIBUTED : t->stage] += sign * (from - t->start);
    path->phases[PHASE_EXPOSED_COMM] += sign * (t->end - from);
    path->length += sign * (t->end - t->start);
}

/* The moment from which x, or the next gate, had nothing to do on its own stream but to wait. */
static int64_t ran_dry(const program *p, const made *x)
{
    for (int i = 0; i < x->befores; i++)
        if (p->task[x->before[i]].stream == x->stream)
            return x->before[i] == p->lost ? ran_dry(p, &p->task[p->lost]) /* the file does not have it */
                                           : p->task[x->before[i]].end;
    return INT64_MIN;
}

/* Of all that x waits for on other streams, does b come last? */
static bool releases(const program *p, int b, const made *x)
{
    bool waits = false;
    for (int i = 0; i < x->befores; i++) {
        const made *other = &p->task[x->before[i]];
        waits |= x->before[i] == b && other->stream != x->stream;
        if (other->stream != x->stream && other->end > p->task[b].end)
            return false;
    }
    return waits;
}

/* The hook of task b: of all that it releases and that compute, the first that ran dry; none: `next`, that of the task behind it. */
static int64_t hook_of(const program *p, int b, int64_t next)
{
    int64_t first = INT64_MAX;
    for (int j = b + 1; j < p->tasks; j++)
        if (p->task[j].stream != COMM_STREAM && releases(p, b, &p->task[j]))
            first = ran_dry(p, &p->task[j]) < first ? ran_dry(p, &p->task[j]) : first;
    return first < INT64_MAX ? first : next;
}

/* Walks every path from x, which is still to come, back to the gate of the step. hook: of the task behind it. */
static void walk_all(const program *p, int x, int gate, variant as, int64_t hook, one_path *so_far,
                     all_paths *out)
{
    const made *t = &p->task[x];
    so_far->tasks |= (uint64_t)1 << x;
    charge(p, x, as, hook, 1, so_far);
    if (x == gate) {
        out->walked++;
        if (out->ties > 0 && so_far->length > out->best[0].length)
            out->ties = 0;
        if ((out->ties == 0 || so_far->length == out->best[0].length) && out->ties < MOST_TIES)
            out->best[out->ties++] = *so_far;
    }
    for (int i = 0; x != gate && i < t->befores; i++)
        if (t->before[i] >= gate)
            walk_all(p, t->before[i], gate, as, hook_of(p, t->before[i], hook), so_far, out);
    charge(p, x, as, hook, -1, so_far);
    so_far->tasks &= ~((uint64_t)1 << x);
}

/* All longest paths of a step: to whatever the next gate waits for, or to the task that ends last. */
static void longest(const program *p, int k, variant as, all_paths *out)
{
    one_path none = { 0 };
    *out = (all_paths) { 0 };
    if (k + 1 < STEPS) {
        const made *next = &p->task[p->gate[k + 1]];
        for (int i = 0; i < next->befores; i++)
            if (next->before[i] >= p->gate[k])
                walk_all(p, next->before[i], p->gate[k], as, hook_of(p, next->before[i], INT64_MIN), &none,
                         out);
        return;
    }
    int last = p->gate[k];
    for (int i = p->gate[k]; i < p->tasks; i++)
        last = p->task[i].end > p->task[last].end ? i : last;
    walk_all(p, last, p->gate[k], as, INT64_MIN, &none, out);
}

/* Chooses a task that will not be in the file, of a step that is looked at: one that nobody waits for by event. */
static void lose_task(program *p)
{
    int i = p->gate[1] + (int)draw(p, 0, p->gate[STEPS - 1] - p->gate[1] - 1);
    bool possible = i != p->gate[p->task[i].of_step] && is_plain(p, &p->task[i]) && !is_recorded(p, i);
    p->lost = possible ? i : -1;
}

static bool agrees(const step *x, const one_path *o)
{
    for (int q = 0; q < PHASE_COUNT; q++)
        if (x->phases_ns[q] != o->phases[q])
            return false;
    return true;
}

static void check_step(program *p, const analysis *a, int k, variant as)
{
    all_paths paths;
    longest(p, k, as, &paths);
    const step *x = &a->steps[k];
    bool found = false;
    int64_t comm = 0;
    for (int i = 0; i < p->tasks; i++)
        if (p->task[i].of_step == k && p->task[i].stream == COMM_STREAM)
            comm += p->task[i].end - p->task[i].start;
    for (int i = 0; i < paths.ties && !found; i++)
        found = agrees(x, &paths.best[i]);
    if (p->lost >= 0 && p->task[p->lost].of_step == k) {
        bool on_path = false;
        for (int i = 0; i < paths.ties; i++)
            on_path |= paths.best[i].tasks >> p->lost & 1;
        if (on_path) { /* another branch may stand in for it, or nothing: the step stays as long as it was */
            assert_int_equal(x->end - x->start, paths.best[0].length);
            return;
        }
        comm -= p->task[p->lost].stream == COMM_STREAM ? p->task[p->lost].end - p->task[p->lost].start : 0;
    }
    if (as == ALL_REPLAYED && !found &&
        x->inferred_ns > 0) { /* two nodes ended together: which one it was is a guess */
        p->guessed_wrong++;
        return;
    }
    if (x->end - x->start != paths.best[0].length || !found) {
        const one_path *o = &paths.best[0];
        for (int q = 0; q < PHASE_COUNT; q++)
            if (x->phases_ns[q] != o->phases[q])
                print_message("%s: %lld instead of %lld\n", phase_name((phase)q), (long long)x->phases_ns[q],
                              (long long)o->phases[q]);
        fail_msg("seed %u as %d, step %d: the longest of %d paths is %lld ns, the step %lld", p->seed,
                 (int)as, k, (int)paths.walked, (long long)o->length, (long long)(x->end - x->start));
    }
    assert_int_equal(x->transfer_ns + x->peer_ns, x->phases_ns[PHASE_EXPOSED_COMM]);
    assert_int_equal(x->comm_ns, comm);
    assert_int_equal(x->hidden_comm_ns, comm - x->phases_ns[PHASE_EXPOSED_COMM]);
    if (as != ALL_REPLAYED)
        assert_int_equal(x->inferred_ns, 0);
}

/* What is wrong with the file is counted, and nothing else. */
static void check_faults(const program *p, const session *s, variant as)
{
    const part *x = &s->input.events.parts[0];
    uint64_t launches_lost = 0;
    for (int i = 0; i < p->tasks; i++)
        launches_lost += loses_launch(p, i, as);
    assert_int_equal(x->faults[FAULT_NO_LINK], launches_lost);
    assert_int_equal(x->faults[FAULT_LOST_LAUNCH], p->lost >= 0);
    assert_int_equal(x->faults[FAULT_EARLY_TASK] > 0, skew_of(p, as) < 0);
}

static void the_longest_of_all_paths_is_charged(void **state)
{
    (void)state;
    static program p;
    uint32_t runs = mutate_count(300, 10000);
    int64_t inferred = 0;
    uint32_t guessed_wrong = 0;
    for (uint32_t seed = 1; seed <= runs; seed++) {
        variant as = (variant)(seed % VARIANTS);
        trace_make out;
        session s;
        make_program(&p, seed, as);
        if (as == A_TASK_LOST)
            lose_task(&p);
        trace_make_open(&out, 1, 0);
        write_program(&p, as, &out);
        trace_make_analysed(&out, &s);
        const analysis *a = &s.analyses[0];
        assert_int_equal(a->sums_wrong, 0);
        assert_int_equal(a->graph.count, p.tasks - (p.lost >= 0));
        if (a->step_count != STEPS)
            fail_msg("seed %u as %d: %zu steps", seed, (int)as, a->step_count);
        /* The first step begins with the host, and the last ends with it where its clock is ahead. */
        for (int k = 1; k < STEPS - (skew_of(&p, as) < 0); k++)
            check_step(&p, a, k, as);
        guessed_wrong += (uint32_t)p.guessed_wrong;
        for (size_t k = 0; k < a->step_count; k++)
            inferred += a->steps[k].inferred_ns;
        check_faults(&p, &s, as);
        session_free(&s);
        trace_make_free(&out);
    }
    assert_true(guessed_wrong * 500 <= runs);
    assert_true(inferred > 0); /* joins inside a replay are right, and said to be guesses */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_longest_of_all_paths_is_charged),
    };
    return cmocka_run_group_tests_name("property_timeline_brute", tests, NULL, NULL);
}
