/* delayed_run.c: see delayed_run.h. */
#include "support/delayed_run.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "base/clock.h"
#include "device/cpu/hooks.h"
#include "engine/engine.h"
#include "engine/score.h"
#include "observe/chrome.h"
#include "support/tiny.h"

#include <cmocka.h> /* last: base/error.h has a fail() too */

enum {
    TICK_NS = 100,
    MATMUL_NS = 3000 /* so that the passes are most of a step, as they are with a real model */
};

static void check(int rc, const foray_error *err)
{
    if (rc < 0)
        fail_msg("%s", err->text);
}

/* ---- the engine ------------------------------------------------------------------------------- */

static int64_t told_ns;
static kernel_table delayed_table;
static void (*undelayed)(const kernel_args *args, int tile, void *scratch);
static void (*own_matmul)(const kernel_args *args, int tile, void *scratch);

static int64_t told_clock(void *user)
{
    (void)user;
    return told_ns += TICK_NS;
}

static void run_delayed(const kernel_args *args, int tile, void *scratch)
{
    undelayed(args, tile, scratch);
    if (tile == 0)
        told_ns += DELAY_NS;
}

static void run_matmul(const kernel_args *args, int tile, void *scratch)
{
    own_matmul(args, tile, scratch);
    if (tile == 0)
        told_ns += MATMUL_NS;
}

static void set_kernels(device *d, delayed_kernel which)
{
    const kernel_id ids[] = { [DELAY_SAMPLE] = KERNEL_SAMPLE, [DELAY_ATTENTION] = KERNEL_ATTENTION };
    const kernel_table *own;
    foray_error err;
    check(kernel_table_get(device_isa(d), &own, &err), &err);
    delayed_table = *own;
    own_matmul = own->kernel[KERNEL_MATMUL].run;
    delayed_table.kernel[KERNEL_MATMUL].run = run_matmul;
    if (which != DELAY_NOTHING) {
        undelayed = own->kernel[ids[which]].run;
        delayed_table.kernel[ids[which]].run = run_delayed;
    }
    device_set_kernels(d, &delayed_table);
}

const char *delayed_engine(const char *model_path, delayed_kernel which)
{
    static const char prompt[] = "the cat and the dog and the cat and the";
    const char *path = tiny_path(tiny_folder(), "delayed.json");
    foray_engine *e;
    foray_error err;
    foray_config config = { .model = model_path,
                            .threads = 1,
                            .spec = "ngram",
                            .spec_tokens = 3,
                            .spec_budget = 3,
                            .graph = "off",
                            .record = true };
    told_ns = 1000000000;
    clock_set(told_clock, NULL);
    check(foray_open(&config, &e, &err), &err);
    set_kernels(engine_device(e), which);
    int32_t *ids;
    size_t count;
    check(foray_encode(e, prompt, strlen(prompt), false, true, &ids, &count, &err), &err);
    foray_request_config c = { .prompt = ids,
                               .prompt_count = count,
                               .max_tokens = 40,
                               .ignore_eos = true,
                               .logprobs = -1,
                               .sampling = { .top_p = 1, .repeat_penalty = 1 } };
    foray_request r;
    check(foray_submit(e, &c, &r, &err), &err);
    const foray_event *events;
    int left;
    while ((left = foray_step(e, &events, &count, &err)) > 0)
        continue;
    check(left, &err);
    check(foray_timeline_write(e, path, &err), &err);
    foray_free(ids);
    foray_close(e);
    clock_set(NULL, NULL);
    return path;
}

/* ---- two streams ------------------------------------------------------------------------------ */

static struct {
    fork_order order;
    _Atomic int side_half, side_done, main_done; /* rounds so far */
    int round;
    int64_t delayed[FORK_ROUNDS]; /* what the delay took by the clock, which may be more than was asked for */
    _Atomic bool stuck;
} fork_state;

/* Waits for another task of the round; the other worker runs it. */
static void await(_Atomic int *rounds)
{
    int64_t from = clock_ns();
    while (atomic_load(rounds) <= fork_state.round && !atomic_load(&fork_state.stuck)) {
        sched_yield();
        if (clock_ns() - from > (int64_t)60 * 1000000000)
            atomic_store(&fork_state.stuck, true);
    }
}

static void pass_time(int64_t ns)
{
    int64_t from = clock_fast_ns();
    while (clock_fast_ns() - from < ns)
        continue;
}

static void run_nothing(void *user)
{
    (void)user;
}

static void run_side(void *user)
{
    (void)user;
    if (fork_state.order == MAIN_ENDS_FIRST)
        await(&fork_state.main_done);
    int64_t from = clock_fast_ns();
    pass_time(DELAY_NS / 2);
    atomic_fetch_add(&fork_state.side_half, 1);
    if (fork_state.order == MAIN_ENDS_INSIDE)
        await(&fork_state.main_done);
    pass_time(DELAY_NS / 2);
    fork_state.delayed[fork_state.round] = clock_fast_ns() - from;
    atomic_fetch_add(&fork_state.side_done, 1);
}

static void run_main(void *user)
{
    (void)user;
    if (fork_state.order == MAIN_ENDS_INSIDE)
        await(&fork_state.side_half);
    if (fork_state.order == MAIN_ENDS_LAST) {
        await(&fork_state.side_done);
        pass_time(DELAY_NS / 2); /* until the side's task is over, and not only its function */
    }
    atomic_fetch_add(&fork_state.main_done, 1);
}

static void launch(stream *s, phase of, const char *name, void (*run)(void *), device *d)
{
    foray_error err;
    device_mark(d, (task_mark) { .round = fork_state.round, .phase = of, .rows = 1 });
    check(stream_launch(s, KERNEL_HOST, &(kernel_args) { .host = { .name = name, .run = run } }, &err), &err);
}

const char *delayed_fork(fork_order order, int64_t *delayed)
{
    static const char *const streams[] = { "main", "side" };
    static task_record tasks[FORK_ROUNDS * 4];
    const char *path = tiny_path(tiny_folder(), "forks.json");
    foray_error err;
    ring *records;
    device *d;
    stream *main, *side;
    event *fork, *join;
    memset(&fork_state, 0, sizeof fork_state);
    fork_state.order = order;
    check(ring_create(FORK_ROUNDS * 4, &records, &err), &err);
    check(device_open(&(device_config) { .threads = 2, .records = records }, &d, &err), &err);
    check(stream_create(d, "main", &main, &err), &err);
    check(stream_create(d, "side", &side, &err), &err);
    check(event_create(d, "fork", &fork, &err), &err);
    check(event_create(d, "join", &join, &err), &err);
    for (fork_state.round = 0; fork_state.round < FORK_ROUNDS; fork_state.round++) {
        launch(main, PHASE_DRAFT, "begin", run_nothing, d);
        check(event_record(fork, main, &err), &err);
        check(stream_wait(side, fork, &err), &err);
        launch(side, PHASE_PLAN, "side", run_side, d);
        check(event_record(join, side, &err), &err);
        launch(main, PHASE_TARGET_VERIFY, "main", run_main, d);
        check(stream_wait(main, join, &err), &err);
        launch(main, PHASE_ACCEPT, "publish", run_nothing, d);
        check(stream_sync(main, &err), &err);
    }
    assert_false(atomic_load(&fork_state.stuck));
    event_destroy(fork);
    event_destroy(join);
    stream_destroy(main);
    stream_destroy(side);
    device_close(d);
    uint64_t lost;
    size_t count = ring_read(records, tasks, FORK_ROUNDS * 4, &lost);
    assert_int_equal(count, FORK_ROUNDS * 4);
    check(chrome_write(path, NULL, tasks, count, lost, streams, 2, &err), &err);
    ring_free(records);
    memcpy(delayed, fork_state.delayed, sizeof fork_state.delayed);
    return path;
}
