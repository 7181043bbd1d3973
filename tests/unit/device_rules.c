/* device_rules.c: the rules of streams, events, captures and graphs, and what an error says. With one thread
 * nothing runs until the host waits, so "still queued" is certain and needs no sleeping.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "device/cpu/hooks.h"

#include "base/mem.h"
#include "device/fork.h"

typedef struct {
    device *d;
    stream *main, *side;
    event *fork, *join;
    graph_pool *pool;
    foray_error err;
} bench;

static bench open_bench(int threads)
{
    bench b = { 0 };
    device_config config = { .threads = threads, .isa = "portable" };
    assert_int_equal(device_open(&config, &b.d, &b.err), 0);
    assert_int_equal(stream_create(b.d, "main", &b.main, &b.err), 0);
    assert_int_equal(stream_create(b.d, "side", &b.side, &b.err), 0);
    assert_int_equal(event_create(b.d, "fork", &b.fork, &b.err), 0);
    assert_int_equal(event_create(b.d, "join", &b.join, &b.err), 0);
    assert_int_equal(graph_pool_create(b.d, 0, &b.pool, &b.err), 0);
    return b;
}

static void close_bench(bench *b)
{
    stream_destroy(b->main);
    stream_destroy(b->side);
    event_destroy(b->fork);
    event_destroy(b->join);
    graph_pool_destroy(b->pool);
    device_close(b->d);
}

static void add_one(void *user)
{
    ++*(int *)user;
}

static void times_ten(void *user)
{
    *(int *)user *= 10;
}

static kernel_args call(void (*run)(void *), int *value)
{
    return (kernel_args) { .host = { .name = run == add_one ? "add_one" : "times_ten",
                                     .run = run,
                                     .user = value,
                                     .writes = { value } } };
}

static void launch(stream *s, void (*run)(void *), int *value)
{
    kernel_args args = call(run, value);
    assert_int_equal(stream_launch(s, KERNEL_HOST, &args, NULL), 0);
}

static void assert_says(const foray_error *err, const char *first, const char *second)
{
    if (!strstr(err->text, first) || !strstr(err->text, second))
        print_error("\"%s\" says nothing of \"%s\" and \"%s\"\n", err->text, first, second);
    assert_non_null(strstr(err->text, first));
    assert_non_null(strstr(err->text, second));
}

/* ---- opening ---- */

static void settings_that_cannot_be_are_refused_by_name(void **state)
{
    (void)state;
    device *d = NULL;
    foray_error err;
    device_config config = { .threads = 1, .isa = "sse9" };
    assert_int_equal(device_open(&config, &d, &err), FORAY_EUSAGE);
    assert_says(&err, "sse9", "portable");
    config = (device_config) { .threads = 1000, .isa = "portable" };
    assert_int_equal(device_open(&config, &d, &err), FORAY_EUSAGE);
    assert_says(&err, "threads", "1000");
    assert_null(d);
}

static void an_instruction_set_that_was_handed_out_runs_here(void **state)
{
    (void)state;
    static const char *const names[] = { "portable", "avx2", "avx512", NULL };
    for (int i = 0; i < 4; i++) {
        device *d;
        foray_error err;
        device_config config = { .threads = 1, .isa = names[i] };
        int rc = device_open(&config, &d, &err);
        if (rc) {
            assert_int_equal(rc, FORAY_EUNSUPPORTED);
            assert_says(&err, names[i], "lacks");
            continue;
        }
        if (names[i])
            assert_string_equal(device_isa(d), names[i]);
        assert_true(device_lanes(d) == 8 || device_lanes(d) == 16);
        device_close(d);
    }
}

static void memory_is_zeroed_aligned_counted_and_freed(void **state)
{
    (void)state;
    bench b = open_bench(1);
    int64_t blocks = mem_get_stats().blocks;
    unsigned char *p[20];
    for (size_t i = 0; i < 20; i++) {
        assert_int_equal(device_alloc(b.d, "buffer", 100 + i, (void **)&p[i], NULL), 0);
        assert_int_equal((uintptr_t)p[i] % 64, 0);
        for (size_t k = 0; k < 100 + i; k++)
            assert_int_equal(p[i][k], 0);
    }
    assert_int_equal(device_bytes(b.d), 20 * 100 + 190);
    for (int i = 19; i >= 0; i--)
        device_free(b.d, p[i]);
    assert_int_equal(device_bytes(b.d), 0);
    assert_true(mem_get_stats().blocks <= blocks + 1); /* the table of buffers */
    close_bench(&b);
}

/* ---- streams and events ---- */

static void a_stream_is_in_order_and_longer_than_the_store(void **state)
{
    (void)state;
    for (int threads = 1; threads <= 4; threads *= 2) {
        bench b = open_bench(threads);
        int value = 0;
        for (int round = 0; round < 1000; round++) {
            launch(b.main, add_one,
                   &value); /* ((v + 1) * 10 + 1) * 10 … from a small v: any other order shows */
            launch(b.main, times_ten, &value);
            launch(b.main, add_one, &value);
            launch(b.main, times_ten, &value);
            assert_int_equal(stream_sync(b.main, NULL), 0);
            assert_int_equal(value, 110);
            value = 0;
        }
        for (int i = 0; i < 5000; i++)
            launch(b.main, add_one, &value);
        assert_int_equal(stream_sync(b.main, NULL), 0);
        assert_int_equal(value, 5000);
        close_bench(&b);
    }
}

static void a_stream_takes_any_number_of_waits(void **state)
{
    (void)state;
    bench b = open_bench(2);
    enum { MANY = 20 };
    stream *s[MANY];
    event *e[MANY];
    int value[MANY] = { 0 }, seen = 0;
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(stream_create(b.d, "many", &s[i], NULL), 0);
        assert_int_equal(event_create(b.d, "many", &e[i], NULL), 0);
    }
    for (int round = 1; round <= 50; round++) {
        for (int i = 0; i < MANY; i++) {
            assert_int_equal(stream_wait(s[i], b.join, NULL), 0);
            launch(s[i], add_one, &value[i]);
            assert_int_equal(event_record(e[i], s[i], NULL), 0);
            assert_int_equal(stream_wait(b.main, e[i], NULL), 0);
        }
        launch(b.main, add_one, &seen);
        assert_int_equal(event_record(b.join, b.main, NULL), 0);
        assert_int_equal(event_sync(b.join, NULL), 0);
        for (int i = 0; i < MANY; i++)
            assert_int_equal(value[i], round);
    }
    assert_int_equal(seen, 50);
    for (int i = 0; i < MANY; i++) {
        stream_destroy(s[i]);
        event_destroy(e[i]);
    }
    close_bench(&b);
}

static void an_event_stands_for_its_last_record(void **state)
{
    (void)state;
    bench b = open_bench(1);
    int value = 0;
    assert_false(event_done(b.fork));
    assert_int_equal(event_time_ns(b.fork), -1);
    assert_int_equal(event_sync(b.fork, &b.err), FORAY_ESTATE);
    assert_says(&b.err, "event_sync", "fork");
    assert_int_equal(stream_wait(b.side, b.fork, NULL), 0); /* nothing to wait for */

    launch(b.main, add_one, &value);
    assert_int_equal(event_record(b.fork, b.main, NULL), 0);
    assert_int_equal(event_time_ns(b.fork), -1);
    launch(b.main, add_one, &value);
    assert_int_equal(event_record(b.join, b.main, NULL), 0);
    assert_int_equal(event_sync(b.fork, NULL), 0);
    assert_int_equal(value, 1); /* not further than asked for */
    int64_t first = event_time_ns(b.fork);
    assert_true(first >= 0);
    assert_int_equal(event_record(b.fork, b.main, NULL), 0); /* now behind the second launch */
    assert_int_equal(event_time_ns(b.fork), -1);
    assert_int_equal(event_sync(b.fork, NULL), 0);
    assert_int_equal(value, 2);
    assert_true(event_time_ns(b.fork) >= first);
    assert_true(event_done(b.join));
    close_bench(&b);
}

static void polling_an_event_makes_progress_on_one_thread(void **state)
{
    (void)state;
    bench b = open_bench(1);
    int value = 0, polls = 0;
    for (int i = 0; i < 5; i++)
        launch(b.main, add_one, &value);
    assert_int_equal(event_record(b.join, b.main, NULL), 0);
    while (!event_done(b.join))
        polls++;
    assert_int_equal(value, 5);
    assert_true(polls <= 5);
    close_bench(&b);
}

static void what_is_destroyed_while_queued_still_runs(void **state)
{
    (void)state;
    for (int threads = 1; threads <= 2; threads++) {
        bench b = open_bench(threads);
        int value = 0;
        graph *g;
        assert_int_equal(stream_capture_begin(b.main, b.pool, NULL), 0);
        launch(b.main, add_one, &value);
        assert_int_equal(stream_capture_end(b.main, &g, NULL), 0);
        launch(b.side, add_one, &value);
        assert_int_equal(event_record(b.fork, b.side, NULL), 0);
        assert_int_equal(stream_wait(b.main, b.fork, NULL), 0);
        event_destroy(b.fork);
        b.fork = NULL;
        assert_int_equal(graph_launch(g, b.main, NULL), 0);
        stream_destroy(b.side);
        b.side = NULL;
        assert_true(value >= 1);
        graph_destroy(g);
        assert_int_equal(value, 2);
        close_bench(&b);
    }
}

static void work_that_was_never_waited_for_is_done_at_close(void **state)
{
    (void)state;
    bench b = open_bench(1);
    int value = 0;
    for (int i = 0; i < 100; i++)
        launch(b.main, add_one, &value);
    close_bench(&b);
    assert_int_equal(value, 100);
}

/* ---- capture rules ---- */

static int forbidden_alloc(bench *b)
{
    void *p;
    return device_alloc(b->d, "late", 64, &p, &b->err);
}

static int forbidden_stream_sync(bench *b)
{
    return stream_sync(b->main, &b->err);
}

static int forbidden_sync_elsewhere(bench *b)
{
    return stream_sync(b->side, &b->err);
}

static int forbidden_event_sync(bench *b)
{
    return event_sync(b->join, &b->err);
}

static int forbidden_pool_alloc(bench *b)
{
    void *p;
    return graph_pool_alloc(b->pool, "late", 64, &p, &b->err);
}

static int forbidden_outside_event(bench *b)
{
    return stream_wait(b->main, b->join, &b->err);
}

static void forbidden_calls_name_themselves_and_break_the_capture(void **state)
{
    (void)state;
    static const struct {
        int (*call)(bench *b);
        const char *name, *place;
    } cases[] = {
        { forbidden_alloc, "device_alloc", "main" },
        { forbidden_stream_sync, "stream_sync", "main" },
        { forbidden_sync_elsewhere, "stream_sync", "main" },
        { forbidden_event_sync, "event_sync", "main" },
        { forbidden_pool_alloc, "device_alloc", "main" },
        { forbidden_outside_event, "stream_wait", "join" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bench b = open_bench(1);
        int value = 0;
        graph *g = NULL;
        assert_int_equal(event_record(b.join, b.main, NULL), 0);
        assert_int_equal(stream_capture_begin(b.main, b.pool, NULL), 0);
        assert_true(stream_capturing(b.main));
        launch(b.main, add_one, &value);
        assert_int_equal(cases[i].call(&b), FORAY_ESTATE);
        assert_says(&b.err, cases[i].name, cases[i].place);
        kernel_args args = call(add_one, &value);
        assert_int_equal(stream_launch(b.main, KERNEL_HOST, &args, &b.err), FORAY_ESTATE);
        memset(&b.err, 0, sizeof b.err);
        assert_int_equal(stream_capture_end(b.main, &g, &b.err), FORAY_ESTATE);
        assert_says(&b.err, cases[i].name, cases[i].place);
        assert_null(g);
        assert_false(stream_capturing(b.main));
        assert_int_equal(graph_pool_bytes(b.pool), 0);

        launch(b.main, add_one, &value); /* the device is as it was */
        assert_int_equal(stream_sync(b.main, NULL), 0);
        assert_int_equal(value, 1);
        close_bench(&b);
    }
}

static void a_fork_must_join(void **state)
{
    (void)state;
    bench b = open_bench(1);
    int value = 0, other = 0;
    graph *g = NULL;
    assert_int_equal(stream_capture_begin(b.main, b.pool, NULL), 0);
    launch(b.main, add_one, &value);
    assert_int_equal(event_record(b.fork, b.main, NULL), 0);
    assert_int_equal(stream_wait(b.side, b.fork, NULL), 0);
    assert_true(stream_capturing(b.side));
    launch(b.side, add_one, &other);
    launch(b.main, add_one, &value);
    assert_int_equal(stream_capture_end(b.main, &g, &b.err), FORAY_ESTATE);
    assert_says(&b.err, "stream_capture_end", "side");
    assert_false(stream_capturing(b.side));

    assert_int_equal(stream_capture_begin(b.main, b.pool, NULL), 0);
    launch(b.main, add_one, &value);
    assert_int_equal(event_record(b.fork, b.main, NULL), 0);
    assert_int_equal(stream_wait(b.side, b.fork, NULL), 0); /* a fork without work has nothing to join */
    launch(b.main, add_one, &value);
    assert_int_equal(stream_capture_end(b.main, &g, &b.err), 0);
    graph_destroy(g);
    assert_int_equal(value, 0);
    close_bench(&b);
}

/* What follows a failure between fork_begin and fork_join: main is empty, the side is not. */
static void a_drain_waits_for_sides_that_never_joined(void **state)
{
    (void)state;
    static const char *const names[] = { "left", "right" };
    bench b = open_bench(1);
    fork_streams *f;
    stream *side;
    int value[2] = { 0 };
    assert_int_equal(fork_create(b.d, names, 2, &f, &b.err), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(fork_begin(f, i, b.main, &side, &b.err), 0);
        launch(side, add_one, &value[i]);
        launch(side, add_one, &value[i]);
    }
    assert_int_equal(stream_sync(b.main, NULL), 0);
    assert_true(value[0] < 2 || value[1] < 2);
    fork_drain(f);
    assert_int_equal(value[0], 2);
    assert_int_equal(value[1], 2);
    fork_drain(NULL);
    fork_destroy(f);
    close_bench(&b);
}

static void a_capture_begins_and_ends_once_on_one_stream(void **state)
{
    (void)state;
    bench b = open_bench(1);
    graph *g = NULL;
    assert_int_equal(stream_capture_end(b.main, &g, &b.err), FORAY_ESTATE);
    assert_says(&b.err, "stream_capture_end", "main");
    assert_int_equal(stream_capture_begin(b.main, b.pool, NULL), 0);
    assert_int_equal(stream_capture_begin(b.main, b.pool, &b.err), FORAY_ESTATE);
    assert_int_equal(stream_capture_begin(b.side, b.pool, &b.err), FORAY_ESTATE);
    assert_says(&b.err, "side", "main");
    assert_int_equal(event_record(b.fork, b.main, NULL), 0);
    assert_int_equal(stream_wait(b.side, b.fork, NULL), 0);
    assert_int_equal(stream_capture_end(b.side, &g, &b.err), FORAY_ESTATE);
    assert_says(&b.err, "side", "main");
    assert_int_equal(stream_capture_end(b.main, &g, &b.err), FORAY_ESTATE);
    close_bench(&b);
}

static void other_streams_work_while_one_is_captured(void **state)
{
    (void)state;
    bench b = open_bench(2);
    int value = 0, other = 0;
    graph *g, *inner;
    assert_int_equal(stream_capture_begin(b.main, b.pool, NULL), 0);
    launch(b.main, add_one, &value);
    assert_int_equal(stream_capture_end(b.main, &inner, NULL), 0);

    assert_int_equal(stream_capture_begin(b.main, b.pool, NULL), 0);
    launch(b.main, times_ten, &value);
    launch(b.side, add_one, &other);
    assert_int_equal(graph_launch(inner, b.side, NULL), 0);
    assert_int_equal(stream_capture_end(b.main, &g, NULL), 0);
    assert_int_equal(stream_sync(b.side, NULL), 0);
    assert_int_equal(other, 1);
    assert_int_equal(value, 1);
    assert_int_equal(graph_nodes(g), 1);

    assert_int_equal(stream_capture_begin(b.main, b.pool, NULL), 0);
    assert_int_equal(graph_launch(inner, b.main, &b.err), FORAY_ESTATE);
    assert_says(&b.err, "graph_launch", "main");
    graph *none = NULL;
    assert_int_equal(stream_capture_end(b.main, &none, NULL), FORAY_ESTATE);
    graph_destroy(g);
    graph_destroy(inner);
    close_bench(&b);
}

static void an_event_of_a_capture_stands_for_no_time(void **state)
{
    (void)state;
    bench b = open_bench(1);
    int value = 0;
    graph *g;
    assert_int_equal(stream_capture_begin(b.main, b.pool, NULL), 0);
    launch(b.main, add_one, &value);
    assert_int_equal(event_record(b.fork, b.main, NULL), 0);
    assert_int_equal(stream_capture_end(b.main, &g, NULL), 0);
    assert_false(event_done(b.fork));
    assert_int_equal(event_sync(b.fork, &b.err), FORAY_ESTATE);
    assert_int_equal(stream_wait(b.side, b.fork, &b.err), FORAY_ESTATE);
    assert_says(&b.err, "side", "fork");
    assert_int_equal(event_record(b.fork, b.main, NULL), 0);
    assert_int_equal(event_sync(b.fork, NULL), 0);
    graph_destroy(g);
    close_bench(&b);
}

static void destroying_what_is_captured_breaks_the_capture(void **state)
{
    (void)state;
    bench b = open_bench(1);
    int value = 0;
    graph *g = NULL;
    void *p;
    assert_int_equal(device_alloc(b.d, "early", 64, &p, NULL), 0);
    assert_int_equal(stream_capture_begin(b.main, b.pool, NULL), 0);
    device_free(b.d, p);
    assert_int_equal(stream_capture_end(b.main, &g, &b.err), FORAY_ESTATE);
    assert_says(&b.err, "device_free", "main");

    assert_int_equal(stream_capture_begin(b.main, b.pool, NULL), 0);
    assert_int_equal(event_record(b.fork, b.main, NULL), 0);
    assert_int_equal(stream_wait(b.side, b.fork, NULL), 0);
    launch(b.side, add_one, &value);
    stream_destroy(b.side);
    b.side = NULL;
    assert_int_equal(stream_capture_end(b.main, &g, &b.err), FORAY_ESTATE);
    assert_says(&b.err, "stream_destroy", "main");

    assert_int_equal(stream_capture_begin(b.main, b.pool, NULL), 0);
    stream_destroy(b.main);
    assert_int_equal(stream_create(b.d, "main", &b.main, NULL), 0);
    launch(b.main, add_one, &value);
    assert_int_equal(stream_sync(b.main, NULL), 0);
    assert_int_equal(value, 1);
    close_bench(&b);
}

/* ---- pools, collectives ---- */

static void a_pool_reports_and_bounds_its_bytes(void **state)
{
    (void)state;
    bench b = open_bench(1);
    int value = 0;
    graph *g = NULL, *second = NULL;
    graph_pool *small;
    void *p;
    assert_int_equal(stream_capture_begin(b.main, b.pool, NULL), 0);
    launch(b.main, add_one, &value);
    assert_int_equal(stream_capture_end(b.main, &g, NULL), 0);
    uint64_t bytes = graph_bytes(g);
    assert_true(bytes > 0);
    assert_int_equal(graph_pool_bytes(b.pool), bytes);

    assert_int_equal(graph_pool_create(b.d, bytes + 100, &small, NULL), 0);
    assert_int_equal(graph_pool_alloc(small, "static", 100, &p, NULL), 0);
    assert_int_equal(graph_pool_bytes(small), 100);
    assert_int_equal(graph_pool_alloc(small, "too much", bytes + 1, &p, &b.err), FORAY_ENOMEM);
    assert_says(&b.err, "graph_pool_alloc", "too much");
    assert_int_equal(stream_capture_begin(b.main, small, NULL), 0);
    launch(b.main, add_one, &value);
    assert_int_equal(stream_capture_end(b.main, &second, NULL), 0);
    assert_int_equal(graph_pool_bytes(small), bytes + 100);
    graph *third = NULL;
    assert_int_equal(stream_capture_begin(b.main, small, NULL), 0);
    launch(b.main, add_one, &value);
    assert_int_equal(stream_capture_end(b.main, &third, &b.err), FORAY_ENOMEM);
    assert_says(&b.err, "stream_capture_end", "pool");
    assert_null(third);

    graph_pool_destroy(small); /* its graph lives on */
    assert_int_equal(graph_launch(second, b.main, NULL), 0);
    assert_int_equal(stream_sync(b.main, NULL), 0);
    assert_int_equal(value, 1);
    graph_destroy(second);
    assert_int_equal(device_bytes(b.d), 0);
    graph_destroy(g);
    assert_int_equal(graph_pool_bytes(b.pool), 0);
    close_bench(&b);
}

static void one_rank_reduces_to_itself_and_more_are_refused(void **state)
{
    (void)state;
    bench b = open_bench(1);
    int32_t values[3] = { 5, -7, 9 };
    communicator one = { .rank = 0, .ranks = 1 }, two = { .rank = 1, .ranks = 2 };
    assert_int_equal(collective_all_reduce_max(&one, b.main, values, 3, NULL), 0);
    assert_int_equal(collective_all_reduce_min(&one, b.main, values, 3, NULL), 0);
    assert_int_equal(stream_sync(b.main, NULL), 0);
    assert_int_equal(values[1], -7);
    assert_int_equal(collective_all_reduce_max(&two, b.main, values, 3, &b.err), FORAY_EUNSUPPORTED);
    assert_says(&b.err, "collective_all_reduce_max", "rank");
    assert_int_equal(collective_all_reduce_min(&two, b.main, values, 3, &b.err), FORAY_EUNSUPPORTED);
    close_bench(&b);
}

static void there_are_only_so_many_streams(void **state)
{
    (void)state;
    bench b = open_bench(1);
    stream *s[64];
    int count = 0;
    while (stream_create(b.d, "more", &s[count], &b.err) == 0)
        count++;
    assert_int_equal(b.err.code, FORAY_ELIMIT);
    assert_says(&b.err, "stream_create", "more");
    assert_true(count >= 8);
    while (count > 0)
        stream_destroy(s[--count]);
    assert_int_equal(stream_create(b.d, "more", &s[0], NULL), 0);
    stream_destroy(s[0]);
    close_bench(&b);
}

/* ---- memory ---- */

/* Opens a device, forks and joins in a capture, launches; whatever fails, the error is ENOMEM. */
static int live_once(foray_error *err)
{
    device *d = NULL;
    stream *main = NULL, *side = NULL;
    event *fork = NULL, *join = NULL;
    graph_pool *pool = NULL;
    graph *g = NULL;
    int value = 0;
    void *p = NULL;
    kernel_args args = call(add_one, &value);
    device_config config = { .threads = 2, .isa = "portable" };
    int rc = device_open(&config, &d, err);
    if (rc)
        return rc;
    device_set_checks(d, true);
    if ((rc = stream_create(d, "main", &main, err)) || (rc = stream_create(d, "side", &side, err)) ||
        (rc = event_create(d, "fork", &fork, err)) || (rc = event_create(d, "join", &join, err)) ||
        (rc = graph_pool_create(d, 0, &pool, err)) || (rc = graph_pool_alloc(pool, "static", 64, &p, err)) ||
        (rc = stream_capture_begin(main, pool, err)))
        goto done;
    (void)(stream_launch(main, KERNEL_HOST, &args, NULL) || event_record(fork, main, NULL) ||
           stream_wait(side, fork, NULL) || stream_launch(side, KERNEL_HOST, &args, NULL) ||
           event_record(join, side, NULL) || stream_wait(main, join, NULL));
    if ((rc = stream_capture_end(main, &g, err)) || (rc = graph_launch(g, main, err)))
        goto done;
    rc = stream_sync(main, err);
    assert_int_equal(value, 2);
done:
    graph_destroy(g);
    stream_destroy(main);
    stream_destroy(side);
    event_destroy(fork);
    event_destroy(join);
    graph_pool_destroy(pool);
    device_close(d);
    return rc;
}

static void whichever_allocation_fails_there_is_an_error_and_no_leak(void **state)
{
    (void)state;
    int64_t blocks = mem_get_stats().blocks;
    int n = 0, rc;
    do {
        foray_error err = { 0 };
        mem_fail_nth(++n, false);
        rc = live_once(&err);
        mem_fail_nth(0, false);
        if (rc)
            assert_int_equal(rc, FORAY_ENOMEM);
        assert_int_equal(mem_get_stats().blocks, blocks);
    } while (rc && n < 1000);
    assert_int_equal(rc, 0);
    assert_true(n > 15);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(settings_that_cannot_be_are_refused_by_name),
        cmocka_unit_test(an_instruction_set_that_was_handed_out_runs_here),
        cmocka_unit_test(memory_is_zeroed_aligned_counted_and_freed),
        cmocka_unit_test(a_stream_is_in_order_and_longer_than_the_store),
        cmocka_unit_test(a_stream_takes_any_number_of_waits),
        cmocka_unit_test(an_event_stands_for_its_last_record),
        cmocka_unit_test(polling_an_event_makes_progress_on_one_thread),
        cmocka_unit_test(what_is_destroyed_while_queued_still_runs),
        cmocka_unit_test(work_that_was_never_waited_for_is_done_at_close),
        cmocka_unit_test(forbidden_calls_name_themselves_and_break_the_capture),
        cmocka_unit_test(a_fork_must_join),
        cmocka_unit_test(a_drain_waits_for_sides_that_never_joined),
        cmocka_unit_test(a_capture_begins_and_ends_once_on_one_stream),
        cmocka_unit_test(other_streams_work_while_one_is_captured),
        cmocka_unit_test(an_event_of_a_capture_stands_for_no_time),
        cmocka_unit_test(destroying_what_is_captured_breaks_the_capture),
        cmocka_unit_test(a_pool_reports_and_bounds_its_bytes),
        cmocka_unit_test(one_rank_reduces_to_itself_and_more_are_refused),
        cmocka_unit_test(there_are_only_so_many_streams),
        cmocka_unit_test(whichever_allocation_fails_there_is_an_error_and_no_leak),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
