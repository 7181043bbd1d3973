/* device_executor.c: the parts under the device: tiles, scratch, the ready heap, the throttle, the shadow of the
 * happens-before check. Kernels here are made up, so that each tile can say what it saw.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/rng.h"
#include "base/thread.h"
#include "device/cpu/executor.h"
#include "device/cpu/hazard.h"
#include "device/cpu/ready.h"
#include "device/cpu/throttle.h"

/* ---- tiles ---- */

enum { MAX_TILES = 1000 };

typedef struct {
    int tiles;
    _Atomic int runs[MAX_TILES], prepares, mistakes;
    int order[MAX_TILES];
    _Atomic int ordered;
} job;

static int job_tiles(const kernel_args *args)
{
    return ((job *)args->host.user)->tiles;
}

static void job_prepare(const kernel_args *args, void *scratch)
{
    job *j = args->host.user;
    atomic_fetch_add(&j->prepares, 1);
    *(job **)scratch = j;
}

static void job_run(const kernel_args *args, int tile, void *scratch)
{
    job *j = args->host.user;
    if (*(job **)scratch != j)
        atomic_fetch_add(&j->mistakes, 1);
    atomic_fetch_add(&j->runs[tile], 1);
    j->order[atomic_fetch_add(&j->ordered, 1)] = tile;
    for (int i = tile * 7 % 5; i > 0; i--)
        thread_pause();
}

static const kernel_impl job_impl = { .tiles = job_tiles, .prepare = job_prepare, .run = job_run };

static executor *open_executor(int threads, uint64_t shuffle)
{
    executor *x;
    assert_int_equal(executor_create(threads, 64, shuffle, NULL, &x, NULL), 0);
    assert_int_equal(executor_reserve_scratch(x, 64, NULL), 0);
    return x;
}

static void submit(executor *x, lane *l, job *j)
{
    queued *q = executor_take(x);
    q->t.impl = &job_impl;
    q->t.id = KERNEL_HOST;
    q->t.args.host = (args_host) { .name = "job", .user = j };
    executor_submit(x, q, l, NULL, 0);
}

static void assert_job(const job *j)
{
    assert_int_equal(j->mistakes, 0);
    assert_int_equal(j->ordered, j->tiles);
    for (int i = 0; i < MAX_TILES; i++)
        assert_int_equal(j->runs[i], i < j->tiles);
    if (j->tiles > 0)
        assert_true(j->prepares >= 1);
}

static void every_tile_runs_once_on_scratch_prepared_for_its_task(void **state)
{
    (void)state;
    static const int tiles[] = { 0, 1, 2, 3, 5, 16, 63, 64, 65, 1000 };
    enum { JOBS = sizeof tiles / sizeof tiles[0] };
    static job jobs[2][JOBS];
    for (int threads = 1; threads <= 4; threads *= 2) {
        for (uint64_t shuffle = 0; shuffle < 6; shuffle++) {
            executor *x = open_executor(threads, shuffle);
            lane l[2] = { { 0 } };
            memset(jobs, 0, sizeof jobs);
            for (int i = 0; i < JOBS; i++) {
                for (int k = 0; k < 2; k++) {
                    jobs[k][i].tiles = tiles[k ? JOBS - 1 - i : i];
                    submit(x, &l[k], &jobs[k][i]); /* two lanes: tasks overlap and share workers */
                }
            }
            executor_wait(x, executor_in_flight(x));
            for (int i = 0; i < JOBS; i++) {
                assert_job(&jobs[0][i]);
                assert_job(&jobs[1][i]);
            }
            executor_destroy(x);
        }
    }
}

static void one_worker_takes_tiles_in_order_and_a_script_in_another(void **state)
{
    (void)state;
    static job j;
    for (uint64_t shuffle = 0; shuffle < 2; shuffle++) {
        executor *x = open_executor(1, shuffle);
        lane l = { 0 };
        memset(&j, 0, sizeof j);
        j.tiles = 100;
        submit(x, &l, &j);
        executor_wait(x, &l.pending);
        int ascending = 0;
        for (int i = 0; i < 100; i++)
            ascending += j.order[i] == i;
        assert_int_equal(j.prepares, 1);
        if (shuffle)
            assert_true(ascending < 50);
        else
            assert_int_equal(ascending, 100);
        executor_destroy(x);
    }
}

static void scratch_grows_between_tasks_only_when_it_must(void **state)
{
    (void)state;
    static job jobs[20];
    executor *x = open_executor(2, 0);
    lane l = { 0 };
    memset(jobs, 0, sizeof jobs);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(executor_reserve_scratch(x, 64 + 100 * (size_t)i, NULL), 0);
        jobs[i].tiles = 50;
        submit(x, &l, &jobs[i]);
    }
    executor_wait(x, executor_in_flight(x));
    for (int i = 0; i < 20; i++)
        assert_job(&jobs[i]);
    int64_t calls = mem_get_stats().calls;
    assert_int_equal(executor_reserve_scratch(x, 1000, NULL), 0);
    assert_int_equal(mem_get_stats().calls, calls);
    executor_destroy(x);
}

/* ---- ready heap ---- */

static void the_heap_gives_the_longest_path_first_and_the_oldest_among_equals(void **state)
{
    (void)state;
    static int item[400];
    static int64_t priority[400];
    ready_heap h = { 0 };
    assert_true(ready_reserve(&h, 400));
    for (int i = 0; i < 400; i++) {
        priority[i] = rng_at(1, (uint32_t)i, RNG_TEST, 0, 0).word[0] % 20;
        ready_push(&h, &item[i], priority[i]);
    }
    for (int i = 0; i < 100; i++) { /* from the middle too, as the scripted order does */
        int *t = ready_take(&h, (int)(rng_at(2, (uint32_t)i, RNG_TEST, 0, 0).word[0] % (uint32_t)h.count));
        priority[t - item] = -1;
    }
    int last = -1;
    for (int i = 0; i < 300; i++) {
        int at = (int)((int *)ready_take(&h, 0) - item);
        assert_true(priority[at] >= 0);
        if (last >= 0)
            assert_true(priority[last] > priority[at] || (priority[last] == priority[at] && last < at));
        last = at;
    }
    assert_int_equal(h.count, 0);
    ready_free(&h);
}

/* ---- throttle ---- */

static int feed(throttle *t, int steps, int wait_percent)
{
    for (int i = 0; i < steps; i++)
        throttle_step(t, 1000, 10 * wait_percent);
    return t->active;
}

static void twenty_bad_steps_running_take_a_thread_and_nineteen_do_not(void **state)
{
    (void)state;
    throttle t;
    throttle_init(&t, 2);
    assert_int_equal(feed(&t, 19, 60), 2);
    assert_int_equal(feed(&t, 1, 10), 2);
    assert_int_equal(feed(&t, 19, 60), 2);
    assert_int_equal(feed(&t, 1, 60), 1);
    throttle_init(&t, 2);
    assert_int_equal(feed(&t, 1000, 30), 2); /* at the limit, not above it */
    throttle_init(&t, 1);
    assert_int_equal(feed(&t, 1000, 90), 1);
}

static void a_thread_comes_back_and_failed_trials_grow_rare(void **state)
{
    (void)state;
    throttle t;
    throttle_init(&t, 2);
    feed(&t, 20, 60);
    int last = 0;
    for (int trial = 0; trial < 10; trial++) {
        int steps = 0;
        while (t.active == 1) {
            throttle_step(&t, 1000, 0);
            steps++;
        }
        assert_true(trial == 0 ? steps == THROTTLE_INTERVAL
                               : steps == last * 2 || steps == THROTTLE_INTERVAL_MAX);
        last = steps;
        assert_int_equal(feed(&t, 20, 60), 1);
    }
    while (t.active == 1)
        throttle_step(&t, 1000, 0);
    assert_int_equal(feed(&t, 500, 5), 2); /* the neighbour has gone */
    feed(&t, 20, 60);
    int steps = 0;
    while (t.active == 1) {
        throttle_step(&t, 1000, 0);
        steps++;
    }
    assert_int_equal(steps, THROTTLE_INTERVAL); /* a good trial is not held against the next */
}

static void many_threads_go_and_come_one_by_one(void **state)
{
    (void)state;
    throttle t;
    throttle_init(&t, 8);
    /* One straggler of eight makes seven wait: 7 * 60 % of the step in sum. */
    for (int active = 8; active > 1; active--) {
        assert_int_equal(t.active, active);
        assert_int_equal(feed(&t, 20, 60 * (active - 1)), active - 1);
    }
    int before = t.active;
    for (int i = 0; i < 8 * THROTTLE_INTERVAL; i++) {
        int active = throttle_step(&t, 1000, 0);
        assert_true(active == before || active == before + 1);
        before = active;
    }
    assert_int_equal(before, 8);
}

/* ---- the shadow of the happens-before check ---- */

static bool clean(hazard_shadow *h, int actor, const hazard_clock *c, const char *memory, size_t from,
                  size_t to, bool write)
{
    hazard_access a = { .start = memory + from, .bytes = to - from, .write = write, .name = "kernel" };
    hazard_report report;
    assert_int_equal(hazard_check(h, actor, c, &a, 1, &report), 0);
    return report.earlier.count == 0;
}

static void ranges_that_overlap_in_part_are_told_apart(void **state)
{
    (void)state;
    static char m[100];
    hazard_shadow h = { 0 };
    hazard_clock one = { .at = { [1] = 1 } }, two = { .at = { [2] = 1 } },
                 both = { .at = { [1] = 1, [2] = 2 } };
    assert_true(clean(&h, 1, &one, m, 10, 20, true));
    assert_true(clean(&h, 2, &two, m, 0, 10, true));
    assert_true(clean(&h, 2, &two, m, 20, 30, true));
    assert_false(clean(&h, 2, &two, m, 0, 11, false));
    assert_false(clean(&h, 2, &two, m, 19, 40, true));
    assert_true(clean(&h, 2, &both, m, 5, 25, false));
    assert_false(clean(&h, 1, &one, m, 15, 16, true)); /* read by 2 meanwhile */
    assert_true(clean(&h, 1, &one, m, 30, 100, true));
    assert_false(clean(&h, 1, &one, m, 4, 6, true));
    hazard_forget(&h, m, 100);
    assert_int_equal(h.count, 0);
    assert_true(clean(&h, 1, &one, m, 0, 100, true));
    hazard_free(&h);
}

enum { BYTES = 24, ACTORS = 3, OPERATIONS = 60 };

/* Some operations against a shadow that keeps every byte on its own; returns how many hazards there were. */
static int compare_shadows(uint32_t run)
{
    static char m[BYTES];
    hazard_shadow h = { 0 };
    hazard_clock clock[ACTORS] = { { { 0 } } };
    int32_t count[ACTORS] = { 0 }, writer[BYTES] = { 0 }, written[BYTES] = { 0 },
            read[BYTES][ACTORS] = { { 0 } };
    int found = 0;
    for (uint32_t i = 0; i < OPERATIONS; i++) {
        rng_block r = rng_at(run, i, RNG_TEST, 0, 0);
        int actor = (int)(r.word[0] % ACTORS), from = (int)(r.word[1] % BYTES);
        int to = from + 1 + (int)(r.word[2] % (uint32_t)(BYTES - from));
        bool write = r.word[3] % 3 == 0;
        if (r.word[3] / 3 % 2)
            hazard_join(&clock[actor], &clock[r.word[3] / 6 % ACTORS]);
        clock[actor].at[actor] = ++count[actor];
        bool bad = false;
        for (int b = from; b < to; b++) {
            bad |= written[b] > clock[actor].at[writer[b]];
            for (int a = 0; write && a < ACTORS; a++)
                bad |= read[b][a] > clock[actor].at[a];
        }
        assert_int_equal(clean(&h, actor, &clock[actor], m, (size_t)from, (size_t)to, write), !bad);
        found += bad;
        for (int b = from; !bad && b < to; b++) {
            if (write) {
                writer[b] = actor;
                written[b] = count[actor];
                memset(read[b], 0, sizeof read[b]);
            } else {
                read[b][actor] = count[actor];
            }
        }
    }
    hazard_free(&h);
    return found;
}

static void the_shadow_agrees_with_one_byte_at_a_time(void **state)
{
    (void)state;
    int found = 0;
    for (uint32_t run = 1; run <= 500; run++)
        found += compare_shadows(run);
    assert_true(found > 1000 && found < 500 * OPERATIONS - 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_tile_runs_once_on_scratch_prepared_for_its_task),
        cmocka_unit_test(one_worker_takes_tiles_in_order_and_a_script_in_another),
        cmocka_unit_test(scratch_grows_between_tasks_only_when_it_must),
        cmocka_unit_test(the_heap_gives_the_longest_path_first_and_the_oldest_among_equals),
        cmocka_unit_test(twenty_bad_steps_running_take_a_thread_and_nineteen_do_not),
        cmocka_unit_test(a_thread_comes_back_and_failed_trials_grow_rare),
        cmocka_unit_test(many_threads_go_and_come_one_by_one),
        cmocka_unit_test(ranges_that_overlap_in_part_are_told_apart),
        cmocka_unit_test(the_shadow_agrees_with_one_byte_at_a_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
