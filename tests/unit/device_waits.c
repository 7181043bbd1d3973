/* device_waits.c: what streams waited for, by round: who, for which event, of whom, how often and how long.
 *
 * Time is a counter that kernels and the host move; ends are known because either one worker runs everything in an order
 * that the longest path decides, or a kernel goes on only when the host, which looks on, has seen what is to come first.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "device/cpu/waits.h"
#include "device/fork.h"

static _Atomic int64_t now_ns;

static int64_t told(void *user)
{
    (void)user;
    return atomic_load(&now_ns);
}

typedef struct {
    device *d;
    stream *main, *side;
    event *fork, *join, *end;
    graph_pool *pool;
} bench;

static bench open_bench(int threads)
{
    bench b = { 0 };
    device_config config = { .threads = threads, .isa = "portable" };
    assert_int_equal(device_open(&config, &b.d, NULL), 0);
    assert_int_equal(stream_create(b.d, "main", &b.main, NULL), 0);
    assert_int_equal(stream_create(b.d, "side", &b.side, NULL), 0);
    assert_int_equal(event_create(b.d, "parted", &b.fork, NULL), 0);
    assert_int_equal(event_create(b.d, "joined", &b.join, NULL), 0);
    assert_int_equal(event_create(b.d, "end", &b.end, NULL), 0);
    assert_int_equal(graph_pool_create(b.d, 0, &b.pool, NULL), 0);
    atomic_store(&now_ns, 1000);
    clock_set(told, NULL);
    return b;
}

static void close_bench(bench *b)
{
    clock_set(NULL, NULL);
    stream_destroy(b->main);
    stream_destroy(b->side);
    event_destroy(b->fork);
    event_destroy(b->join);
    event_destroy(b->end);
    graph_pool_destroy(b->pool);
    device_close(b->d);
}

/* ---- kernels ---- */

static int64_t nothing = 0, ten = 10, fifty = 50, hundred = 100;

static void take_time(void *user)
{
    atomic_fetch_add(&now_ns, *(const int64_t *)user);
}

static void wait_until_told(void *user)
{
    while (!atomic_load((_Atomic int *)user))
        sched_yield();
}

static void launch(stream *s, void (*run)(void *), void *user)
{
    kernel_args a = { .host = { .name = "work", .run = run, .user = user } };
    assert_int_equal(stream_launch(s, KERNEL_HOST, &a, NULL), 0);
}

static void work(stream *s, int64_t *ns)
{
    launch(s, take_time, ns);
}

static void record(event *e, stream *s)
{
    assert_int_equal(event_record(e, s, NULL), 0);
}

static void wait_for(stream *s, event *e)
{
    assert_int_equal(stream_wait(s, e, NULL), 0);
}

static void sync(bench *b)
{
    assert_int_equal(stream_sync(b->main, NULL), 0);
    assert_int_equal(stream_sync(b->side, NULL), 0);
}

static void mark(bench *b, int64_t round)
{
    device_mark(b->d, (task_mark) { .round = round, .phase = PHASE_DECODE });
}

static void assert_wait(const device_wait *w, const char *waiting, const char *awaited, const char *from,
                        int joins, int64_t waited_ns)
{
    assert_string_equal(w->stream, waiting);
    assert_string_equal(w->event, awaited);
    assert_string_equal(w->from, from);
    assert_int_equal(w->joins, joins);
    assert_int_equal(w->waited_ns, waited_ns);
}

static void await_done(event *e)
{
    while (!event_done(e))
        sched_yield();
}

/* ---- launches ---- */

static void a_stream_waits_from_its_own_end_to_the_event(void **state)
{
    (void)state;
    bench b = open_bench(3);
    _Atomic int go = 0;
    device_wait w[4];
    mark(&b, 5);
    launch(b.side, wait_until_told, &go);
    record(b.join, b.side);
    work(b.main, &ten);
    record(b.end, b.main);
    wait_for(b.main, b.join);
    work(b.main, &ten);
    await_done(b.end);
    take_time(&(int64_t) { 5000 });
    atomic_store(&go, 1);
    sync(&b);
    assert_int_equal(device_take_waits(b.d, 5, w, 4), 1);
    assert_wait(&w[0], "main", "joined", "side", 1, 5000);
    assert_int_equal(device_take_waits(b.d, 5, w, 4), 0); /* taken */
    close_bench(&b);
}

static void what_was_done_before_costs_no_time_but_is_a_join(void **state)
{
    (void)state;
    bench b = open_bench(3);
    _Atomic int go = 0;
    device_wait w[4];
    launch(b.main, wait_until_told, &go); /* the other branch ends inside of this */
    work(b.side, &ten);
    record(b.join, b.side);
    wait_for(b.main, b.join);
    work(b.main, &ten);
    await_done(b.join);
    take_time(&(int64_t) { 5000 });
    atomic_store(&go, 1);
    sync(&b);
    wait_for(b.main, b.join); /* long over */
    work(b.main, &ten);
    sync(&b);
    assert_int_equal(device_take_waits(b.d, 0, w, 4), 1);
    assert_wait(&w[0], "main", "joined", "side", 2, 0);
    close_bench(&b);
}

static void before_it_was_given_any_work_a_stream_does_not_wait(void **state)
{
    (void)state;
    bench b = open_bench(3);
    _Atomic int go = 0;
    device_wait w[4];
    launch(b.side, wait_until_told, &go);
    record(b.join, b.side);
    take_time(&(int64_t) { 7000 });
    wait_for(b.main, b.join);
    work(b.main, &ten);
    take_time(&(int64_t) { 300 });
    atomic_store(&go, 1);
    sync(&b);
    assert_int_equal(device_take_waits(b.d, 0, w, 4), 1);
    assert_wait(&w[0], "main", "joined", "side", 1, 300);
    close_bench(&b);
}

static void a_streams_own_event_is_nothing_to_wait_for(void **state)
{
    (void)state;
    bench b = open_bench(1);
    device_wait w[4];
    work(b.main, &ten);
    record(b.join, b.main);
    wait_for(b.main, b.join);
    work(b.main, &ten);
    sync(&b);
    assert_int_equal(device_take_waits(b.d, 0, w, 4), 0);
    close_bench(&b);
}

/* More than one launch can hold: empty ones stand in. */
static void every_event_that_is_waited_for_counts(void **state)
{
    (void)state;
    enum { EVENTS = 7 };
    static const char *const names[EVENTS] = { "e0", "e1", "e2", "e3", "e4", "e5", "e6" };
    bench b = open_bench(1);
    event *e[EVENTS];
    device_wait w[EVENTS];
    for (int i = 0; i < EVENTS; i++)
        assert_int_equal(event_create(b.d, names[i], &e[i], NULL), 0);
    work(b.main, &ten);
    for (int i = 0; i < EVENTS; i++) {
        work(b.side, &ten);
        record(e[i], b.side);
        wait_for(b.main, e[i]);
    }
    record(b.end, b.main); /* nothing is launched behind them */
    sync(&b);
    assert_int_equal(device_take_waits(b.d, 0, NULL, 0), EVENTS);
    for (int i = 0; i < EVENTS; i++)
        wait_for(b.main, e[i]);
    work(b.main, &ten);
    sync(&b);
    assert_int_equal(device_take_waits(b.d, 0, w, EVENTS), EVENTS);
    for (int i = 0; i < EVENTS; i++)
        assert_wait(&w[i], "main", names[i], "side", 1, 0);
    for (int i = 0; i < EVENTS; i++)
        event_destroy(e[i]);
    close_bench(&b);
}

/* ---- graphs: one worker, the longest path first, the oldest among equals ---- */

/* begin (100), then two tasks of 50 on `longer` beside one of 10 on the other, then a join. */
static void emit(bench *b, stream *longer)
{
    work(b->main, &hundred);
    record(b->fork, b->main);
    wait_for(b->side, b->fork);
    for (int i = 0; i < 2; i++) {
        stream *s = i ? b->side : b->main;
        work(s, s == longer ? &fifty : &ten);
        if (s == longer)
            work(s, &fifty);
    }
    record(b->join, b->side);
    wait_for(b->main, b->join);
    work(b->main, &nothing);
}

static graph *capture(bench *b, stream *longer, int layers)
{
    graph *g;
    assert_int_equal(stream_capture_begin(b->main, b->pool, NULL), 0);
    for (int i = 0; i < layers; i++)
        emit(b, longer);
    assert_int_equal(stream_capture_end(b->main, &g, NULL), 0);
    assert_int_equal(graph_nodes(g), 5 * layers);
    return g;
}

/* Ends, from the begin of a layer:
 *     side longer    begin 100, side 150, main 160, side 210, join 210      main waits for 50
 *     main longer    begin 100, main 150, side 160, main 210, join 210      main does not wait
 * The side waits for the fork: for 100 from the launch in the first layer, then for the join and 100 from its own end. */
static void a_join_inside_a_graph_says_how_long_the_longer_branch_was_waited_for(void **state)
{
    (void)state;
    bench b = open_bench(1);
    device_wait w[4];
    graph *side = capture(&b, b.side, 1), *main = capture(&b, b.main, 2);
    mark(&b, 1);
    for (int i = 0; i < 3; i++)
        assert_int_equal(graph_launch(side, b.main, NULL), 0);
    mark(&b, 2);
    assert_int_equal(graph_launch(main, b.main, NULL), 0);
    sync(&b);
    assert_int_equal(device_take_waits(b.d, 1, w, 4), 2);
    assert_wait(&w[0], "side", "parted", "main", 3, 3 * 100);
    assert_wait(&w[1], "main", "joined", "side", 3, 3 * 50);
    assert_int_equal(device_take_waits(b.d, 2, w, 4), 2);
    assert_wait(&w[0], "side", "parted", "main", 2, 100 + 50 + 100);
    assert_wait(&w[1], "main", "joined", "side", 2, 0);
    graph_destroy(side);
    graph_destroy(main);
    close_bench(&b);
}

/* The node that waits has nothing of its own stream to wait for: what it follows is behind the fork already. */
static void a_stream_that_hands_its_work_over_waits_for_all_of_it(void **state)
{
    (void)state;
    static const char *const names[] = { "kv", "index" };
    bench b = open_bench(1);
    device_wait w[5];
    graph *g;
    fork_streams *f;
    stream *s;
    assert_int_equal(fork_create(b.d, names, 2, &f, NULL), 0);
    assert_int_equal(stream_capture_begin(b.main, b.pool, NULL), 0);
    work(b.main, &hundred);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(fork_begin(f, i, b.main, &s, NULL), 0);
        work(s, i ? &fifty : &ten);
    }
    for (int i = 0; i < 2; i++)
        assert_int_equal(fork_join(f, i, b.main, NULL), 0);
    work(b.main, &ten);
    assert_int_equal(stream_capture_end(b.main, &g, NULL), 0);
    for (int replayed = 0; replayed < 2; replayed++) {
        if (replayed) {
            assert_int_equal(graph_launch(g, b.main, NULL), 0);
            sync(&b);
        }
        assert_int_equal(device_take_waits(b.d, 0, w, 5), replayed ? 4 : 0); /* a capture runs nothing */
    }
    assert_wait(&w[0], "kv", "kv", "main", 1, 100);
    assert_wait(&w[1], "index", "index", "main", 1, 100);
    assert_wait(&w[2], "main", "kv", "kv", 1, 10); /* the oldest runs first */
    assert_wait(&w[3], "main", "index", "index", 1, 60);
    graph_destroy(g);
    fork_destroy(f);
    close_bench(&b);
}

static void a_graph_launched_behind_an_event_waits_for_it(void **state)
{
    (void)state;
    bench b = open_bench(3);
    _Atomic int go = 0;
    device_wait w[4];
    graph *g = capture(&b, b.side, 1);
    launch(b.side, wait_until_told, &go);
    record(b.end, b.side);
    wait_for(b.main, b.end);
    assert_int_equal(graph_launch(g, b.main, NULL), 0);
    take_time(&(int64_t) { 400 });
    atomic_store(&go, 1);
    sync(&b);
    int count = device_take_waits(b.d, 0, w, 4);
    assert_int_equal(count, 3);
    assert_wait(&w[2], "main", "end", "side", 1, 400);
    assert_int_equal(w[0].waited_ns, 100); /* the fork inside counts from the graph's begin */
    graph_destroy(g);
    close_bench(&b);
}

/* ---- rounds ---- */

static void rounds_in_flight_stay_apart(void **state)
{
    (void)state;
    bench b = open_bench(1);
    device_wait w[4];
    graph *g = capture(&b, b.side, 1);
    for (int64_t round = 10; round < 10 + DEVICE_WAIT_ROUNDS; round++) {
        mark(&b, round);
        for (int64_t i = 10; i <= round; i++)
            assert_int_equal(graph_launch(g, b.main, NULL), 0);
    }
    sync(&b);
    for (int64_t round = 10 + DEVICE_WAIT_ROUNDS - 1; round >= 10; round--) {
        int n = (int)round - 9;
        assert_int_equal(device_take_waits(b.d, round, w, 1), 2); /* says what had no room */
        assert_wait(&w[0], "side", "parted", "main", n, n * 100);
        assert_int_equal(device_take_waits(b.d, round, w, 4), 0);
    }
    for (int64_t round = 20; round <= 20 + DEVICE_WAIT_ROUNDS; round++) {
        mark(&b, round);
        assert_int_equal(graph_launch(g, b.main, NULL), 0);
    }
    sync(&b);
    assert_int_equal(device_take_waits(b.d, 20, w, 4), 0); /* too late */
    assert_int_equal(device_take_waits(b.d, 21, w, 4), 2);
    assert_int_equal(device_take_waits(b.d, -1, w, 4), 0);
    graph_destroy(g);
    close_bench(&b);
}

/* Real time, three workers: the next round runs while one is taken. */
static void a_round_is_taken_while_the_next_one_runs(void **state)
{
    (void)state;
    enum { ROUNDS = 300 };
    bench b = open_bench(3);
    clock_set(NULL, NULL);
    device_wait w[4];
    event *done[2] = { b.end, NULL };
    assert_int_equal(event_create(b.d, "other end", &done[1], NULL), 0);
    graph *g = capture(&b, b.side, 3);
    for (int round = 1; round <= ROUNDS; round++) {
        mark(&b, round);
        assert_int_equal(graph_launch(g, b.main, NULL), 0);
        emit(&b, b.main);
        record(done[round % 2], b.main);
        if (round == 1)
            continue;
        assert_int_equal(event_sync(done[(round - 1) % 2], NULL), 0);
        assert_int_equal(device_take_waits(b.d, round - 1, w, 4), 2);
        for (int i = 0; i < 2; i++) {
            assert_int_equal(w[i].joins, 4);
            assert_true(w[i].waited_ns >= 0);
        }
    }
    sync(&b);
    graph_destroy(g);
    event_destroy(done[1]);
    close_bench(&b);
}

/* ---- tallies ---- */

static void names_beyond_the_table_are_counted_together(void **state)
{
    (void)state;
    enum { NAMES = WAIT_TALLIES + 10, OWN = WAIT_TALLIES - 1, TEXT = 16 };
    static wait_sums sums;
    static char name[NAMES][TEXT];
    device_wait out[WAIT_TALLIES];
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < NAMES; i++) {
            char copy[TEXT]; /* equal text, another address */
            snprintf(pass ? copy : name[i], TEXT, "e%d", i);
            int tally = waits_tally(&sums, "main", pass ? copy : name[i], "side");
            assert_int_equal(tally, i < OWN ? i + 1 : WAIT_TALLIES);
            waits_add(&sums, 3, tally, i % 2 ? -5 : i);
        }
    }
    assert_int_equal(waits_take(&sums, 7, out, WAIT_TALLIES), 0); /* of the same place */
    assert_int_equal(waits_take(&sums, 3, out, WAIT_TALLIES), WAIT_TALLIES);
    int64_t rest = 0;
    for (int i = 0; i < NAMES; i++) {
        if (i < OWN)
            assert_wait(&out[i], "main", name[i], "side", 2, i % 2 ? 0 : 2 * i);
        else
            rest += i % 2 ? 0 : 2 * i;
    }
    assert_wait(&out[OWN], "others", "others", "others", 2 * (NAMES - OWN), rest);
    assert_int_equal(waits_tally(&sums, "side", "e0", "main"), WAIT_TALLIES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stream_waits_from_its_own_end_to_the_event),
        cmocka_unit_test(what_was_done_before_costs_no_time_but_is_a_join),
        cmocka_unit_test(before_it_was_given_any_work_a_stream_does_not_wait),
        cmocka_unit_test(a_streams_own_event_is_nothing_to_wait_for),
        cmocka_unit_test(every_event_that_is_waited_for_counts),
        cmocka_unit_test(a_join_inside_a_graph_says_how_long_the_longer_branch_was_waited_for),
        cmocka_unit_test(a_stream_that_hands_its_work_over_waits_for_all_of_it),
        cmocka_unit_test(a_graph_launched_behind_an_event_waits_for_it),
        cmocka_unit_test(rounds_in_flight_stay_apart),
        cmocka_unit_test(a_round_is_taken_while_the_next_one_runs),
        cmocka_unit_test(names_beyond_the_table_are_counted_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
