/* device_graph.c: graphs in long use: a thousand replays, changed nodes, records that join to the JSON, no
 * allocation, workers that sleep when there is nothing to do.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/mem.h"
#include "device/cpu/hooks.h"

typedef struct {
    device *d;
    stream *main, *side;
    event *fork, *join;
    graph_pool *pool;
    int64_t *a, *b, *c;
} bench;

static bench open_bench(int threads, ring *records)
{
    bench b = { 0 };
    device_config config = { .threads = threads, .isa = "portable", .records = records };
    assert_int_equal(device_open(&config, &b.d, NULL), 0);
    assert_int_equal(stream_create(b.d, "main", &b.main, NULL), 0);
    assert_int_equal(stream_create(b.d, "side", &b.side, NULL), 0);
    assert_int_equal(event_create(b.d, "fork", &b.fork, NULL), 0);
    assert_int_equal(event_create(b.d, "join", &b.join, NULL), 0);
    assert_int_equal(graph_pool_create(b.d, 0, &b.pool, NULL), 0);
    assert_int_equal(graph_pool_alloc(b.pool, "a", sizeof *b.a, (void **)&b.a, NULL), 0);
    assert_int_equal(graph_pool_alloc(b.pool, "b", sizeof *b.b, (void **)&b.b, NULL), 0);
    assert_int_equal(graph_pool_alloc(b.pool, "c", sizeof *b.c, (void **)&b.c, NULL), 0);
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

static void step_a(void *user)
{
    bench *b = user;
    *b->a = *b->a * 3 + 1;
}

static void step_b(void *user)
{
    bench *b = user;
    *b->b += *b->a;
}

static void step_c(void *user)
{
    bench *b = user;
    *b->c ^= *b->a * 2;
}

static void step_sum(void *user)
{
    bench *b = user;
    *b->a = (*b->b + *b->c) % 1000003;
}

static void step_less(void *user)
{
    bench *b = user;
    *b->a = (*b->b - *b->c) % 1000003;
}

static void serial_round(int64_t *a, int64_t *b, int64_t *c, int sign)
{
    *a = *a * 3 + 1;
    *b += *a;
    *c ^= *a * 2;
    *a = (*b + sign * *c) % 1000003;
}

static kernel_args host(bench *b, const char *name, void (*run)(void *), const void *r0, const void *r1,
                        const void *w)
{
    return (kernel_args) { .host = {
                               .name = name, .run = run, .user = b, .reads = { r0, r1 }, .writes = { w } } };
}

static void launch(stream *s, const kernel_args *args)
{
    assert_int_equal(stream_launch(s, KERNEL_HOST, args, NULL), 0);
}

/* a, then b on main beside c on side, then sum: a diamond of four nodes. */
static void emit(bench *b)
{
    kernel_args a = host(b, "step_a", step_a, NULL, NULL, b->a);
    kernel_args bb = host(b, "step_b", step_b, b->a, NULL, b->b);
    kernel_args c = host(b, "step_c", step_c, b->a, NULL, b->c);
    kernel_args sum = host(b, "step_sum", step_sum, b->b, b->c, b->a);
    launch(b->main, &a);
    assert_int_equal(event_record(b->fork, b->main, NULL), 0);
    assert_int_equal(stream_wait(b->side, b->fork, NULL), 0);
    launch(b->side, &c);
    assert_int_equal(event_record(b->join, b->side, NULL), 0);
    launch(b->main, &bb);
    assert_int_equal(stream_wait(b->main, b->join, NULL), 0);
    launch(b->main, &sum);
}

static graph *capture(bench *b)
{
    graph *g;
    foray_error err = { 0 };
    assert_int_equal(stream_capture_begin(b->main, b->pool, NULL), 0);
    emit(b);
    if (stream_capture_end(b->main, &g, &err))
        print_error("%s\n", err.text);
    assert_int_equal(err.code, 0);
    assert_int_equal(graph_nodes(g), 4);
    return g;
}

static void a_graph_is_replayed_a_thousand_times(void **state)
{
    (void)state;
    for (int threads = 1; threads <= 4; threads *= 2) {
        bench b = open_bench(threads, NULL);
        int64_t x = 0, y = 0, z = 0;
        graph *g = capture(&b);
        for (int i = 1; i <= 1000; i++) {
            assert_int_equal(graph_launch(g, b.main, NULL), 0);
            serial_round(&x, &y, &z, 1);
            if (i % 100 == 0) { /* a hundred launches are in flight at once */
                assert_int_equal(stream_sync(b.main, NULL), 0);
                assert_int_equal(*b.a, x);
                assert_int_equal(*b.b, y);
                assert_int_equal(*b.c, z);
            }
        }
        assert_int_equal(device_get_counters(b.d).graph_launches, 1000);
        assert_int_equal(device_get_counters(b.d).launches, 0);
        graph_destroy(g);
        close_bench(&b);
    }
}

static void graphs_of_one_pool_take_turns_even_without_an_edge(void **state)
{
    (void)state;
    bench b = open_bench(4, NULL);
    device_set_checks(b.d, false); /* it would, rightly, ask for the edge */
    int64_t x = 0, y = 0, z = 0;
    graph *g = capture(&b), *h = capture(&b);
    for (int i = 0; i < 200; i++) {
        assert_int_equal(graph_launch(g, b.main, NULL), 0);
        assert_int_equal(graph_launch(h, b.side, NULL), 0);
        assert_int_equal(graph_launch(h, b.main, NULL), 0);
        for (int k = 0; k < 3; k++)
            serial_round(&x, &y, &z, 1);
    }
    assert_int_equal(stream_sync(b.main, NULL), 0);
    assert_int_equal(stream_sync(b.side, NULL), 0);
    assert_int_equal(*b.a, x);
    device_set_checks(b.d, true);
    foray_error err = { 0 };
    assert_int_equal(graph_launch(g, b.main, &err), 0);
    assert_int_equal(graph_launch(h, b.side, &err), FORAY_ESTATE);
    assert_non_null(strstr(err.text, "main"));
    assert_non_null(strstr(err.text, "side"));
    assert_int_equal(stream_sync(b.main, NULL), 0); /* seen done by the host: now it may */
    assert_int_equal(graph_launch(h, b.side, &err), 0);
    graph_destroy(g);
    graph_destroy(h);
    close_bench(&b);
}

static void a_node_takes_other_arguments_when_nothing_is_in_flight(void **state)
{
    (void)state;
    bench b = open_bench(1, NULL);
    foray_error err = { 0 };
    int64_t x = 0, y = 0, z = 0;
    graph *g = capture(&b);
    kernel_args less = host(&b, "step_less", step_less, b.b, b.c, b.a);
    assert_int_equal(graph_launch(g, b.main, NULL), 0);
    assert_int_equal(graph_update_node(g, 3, &less, &err), FORAY_ESTATE);
    assert_non_null(strstr(err.text, "in flight"));
    assert_int_equal(stream_sync(b.main, NULL), 0);
    serial_round(&x, &y, &z, 1);
    assert_int_equal(*b.a, x);
    assert_int_equal(graph_update_node(g, 4, &less, &err), FORAY_EUSAGE);
    assert_int_equal(graph_update_node(g, -1, &less, &err), FORAY_EUSAGE);
    assert_int_equal(graph_update_node(g, 3, &less, &err), 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(graph_launch(g, b.main, NULL), 0);
        serial_round(&x, &y, &z, -1);
    }
    assert_int_equal(stream_sync(b.main, NULL), 0);
    assert_int_equal(*b.a, x);
    assert_int_equal(device_get_counters(b.d).node_updates, 1);
    graph_destroy(g);
    close_bench(&b);
}

/* ---- records ---- */

static void the_json_of_a_graph_is_deterministic_and_complete(void **state)
{
    (void)state;
    buf first = { 0 };
    for (int run = 0; run < 2; run++) {
        bench b = open_bench(2, NULL);
        graph *g = capture(&b);
        buf text = { 0 };
        graph_json(g, &text);
        if (run == 0) {
            first = text;
            json_t *j = json_loads(text.data, JSON_REJECT_DUPLICATES, NULL);
            assert_non_null(j);
            assert_int_equal(json_integer_value(json_object_get(j, "graph")), graph_id(g));
            assert_int_equal(json_array_size(json_object_get(j, "streams")), 2);
            assert_int_equal(json_array_size(json_object_get(j, "events")), 2);
            json_t *sum = json_array_get(json_object_get(j, "nodes"), 3);
            assert_string_equal(json_string_value(json_object_get(sum, "name")), "step_sum");
            assert_string_equal(json_string_value(json_object_get(sum, "class")), "host");
            assert_int_equal(json_array_size(json_object_get(sum, "after")), 2);
            json_decref(j);
        } else {
            assert_string_equal(first.data, text.data);
            buf_free(&text);
        }
        graph_destroy(g);
        close_bench(&b);
    }
    buf_free(&first);
}

/* Finds the node of a record in the JSON and compares. */
static void assert_joins(json_t *nodes, const task_record *r)
{
    json_t *n = json_array_get(nodes, (size_t)r->node);
    assert_non_null(n);
    assert_int_equal(json_integer_value(json_object_get(n, "node")), r->node);
    assert_string_equal(json_string_value(json_object_get(n, "name")), r->name);
    assert_int_equal(json_integer_value(json_object_get(n, "stream")), r->stream);
    bool found = r->waited_event < 0;
    size_t i;
    json_t *edge;
    json_array_foreach(json_object_get(n, "after"), i, edge) found |=
        json_integer_value(json_object_get(edge, "event")) == r->waited_event;
    assert_true(found);
}

static void every_task_of_a_replay_leaves_a_record_that_joins_to_the_json(void **state)
{
    (void)state;
    ring *r;
    assert_int_equal(ring_create(256, &r, NULL), 0);
    for (int threads = 1; threads <= 2; threads++) {
        bench b = open_bench(threads, NULL);
        device_mark(b.d, (task_mark) { .phase = PHASE_DECODE });
        graph *g = capture(&b);
        buf text = { 0 };
        task_record got[256];
        uint64_t lost;
        assert_int_equal(graph_launch(g, b.main, NULL), 0); /* not recorded */
        size_t before = ring_read(r, got, 256, &lost);
        device_set_recording(b.d, r);
        for (int round = 10; round < 15; round++) {
            device_mark(b.d,
                        (task_mark) { .round = round, .phase = PHASE_DRAFT, .rank = 0, .rows = round * 2 });
            assert_int_equal(graph_launch(g, b.main, NULL), 0);
        }
        device_mark(b.d, (task_mark) { .round = 99, .phase = PHASE_PLAN });
        kernel_args eager = host(&b, "eager", step_a, NULL, NULL, b.a);
        launch(b.main, &eager);
        assert_int_equal(stream_sync(b.main, NULL), 0);
        size_t count = ring_read(r, got, 256, &lost);
        assert_int_equal(count - before, 5 * 4 + 1);
        graph_json(g, &text);
        json_t *j = json_loads(text.data, 0, NULL);
        for (size_t i = before; i < count - 1; i++) {
            int round = 10 + (int)(i - before) / 4;
            assert_int_equal(got[i].graph, graph_id(g));
            assert_int_equal(got[i].round, round);
            assert_int_equal(got[i].rows, round * 2);
            assert_int_equal(got[i].phase, PHASE_DECODE); /* of the capture */
            assert_int_equal(got[i].kernel_class, CLASS_HOST);
            assert_true(got[i].ready_ns <= got[i].start_ns && got[i].start_ns <= got[i].end_ns);
            assert_joins(json_object_get(j, "nodes"), &got[i]);
        }
        assert_string_equal(got[count - 1].name, "eager");
        assert_int_equal(got[count - 1].graph, -1);
        assert_int_equal(got[count - 1].node, -1);
        assert_int_equal(got[count - 1].round, 99);
        assert_int_equal(got[count - 1].phase, PHASE_PLAN);
        device_set_recording(b.d, NULL);
        launch(b.main, &eager);
        assert_int_equal(stream_sync(b.main, NULL), 0);
        assert_int_equal(ring_read(r, got, 256, &lost), count);
        json_decref(j);
        buf_free(&text);
        graph_destroy(g);
        close_bench(&b);
    }
    ring_free(r);
}

static void a_record_names_the_event_that_made_its_task_ready(void **state)
{
    (void)state;
    ring *r;
    task_record got[8];
    uint64_t lost;
    assert_int_equal(ring_create(8, &r, NULL), 0);
    bench b = open_bench(1, r);
    kernel_args a = host(&b, "step_a", step_a, NULL, NULL, b.a);
    launch(b.side, &a);
    assert_int_equal(event_record(b.join, b.side, NULL), 0);
    assert_int_equal(stream_wait(b.main, b.join, NULL), 0);
    launch(b.main, &a);
    launch(b.main, &a);
    assert_int_equal(stream_sync(b.main, NULL), 0);
    assert_int_equal(ring_read(r, got, 8, &lost), 3);
    assert_int_equal(got[0].waited_event, -1);
    assert_int_equal(got[1].waited_event, 1); /* the second event of the device */
    assert_int_equal(got[2].waited_event, -1);
    close_bench(&b);
    ring_free(r);
}

/* ---- steady state ---- */

static void a_steady_round_allocates_nothing(void **state)
{
    (void)state;
    for (int checks = 0; checks < 2; checks++) {
        ring *r;
        assert_int_equal(ring_create(64, &r, NULL), 0);
        bench b = open_bench(2, r);
        device_set_checks(b.d, checks);
        graph *g = capture(&b);
        int64_t calls = 0;
        for (int i = 0; i < 300; i++) {
            if (i == 2)
                calls = mem_get_stats().calls;
            emit(&b);
            assert_int_equal(graph_launch(g, b.main, NULL), 0);
            assert_int_equal(event_record(b.join, b.main, NULL), 0);
            if (i % 3 == 0)
                assert_int_equal(event_sync(b.join, NULL), 0);
        }
        assert_int_equal(stream_sync(b.main, NULL), 0);
        assert_int_equal(mem_get_stats().calls, calls);
        graph_destroy(g);
        close_bench(&b);
        ring_free(r);
    }
}

static void idle_workers_sleep_and_wake_for_work(void **state)
{
    (void)state;
    bench b = open_bench(3, NULL);
    graph *g = capture(&b);
    int64_t x = 0, y = 0, z = 0;
    for (int i = 0; i < 3; i++) {
        while (device_sleeping(b.d) < 2)
            sched_yield();
        assert_int_equal(graph_launch(g, b.main, NULL), 0);
        assert_int_equal(event_record(b.join, b.main, NULL), 0);
        while (!event_done(b.join)) /* the host does not help here: those who slept do it all */
            sched_yield();
        serial_round(&x, &y, &z, 1);
        assert_int_equal(*b.a, x);
    }
    device_set_threads(b.d, 1);
    while (device_sleeping(b.d) < 2)
        sched_yield();
    assert_int_equal(graph_launch(g, b.main, NULL), 0);
    while (device_sleeping(b.d) < 2) /* they may still be on their way from one place of sleep to the other */
        sched_yield();
    assert_int_equal(*b.a, x); /* nobody but the host may run it */
    assert_int_equal(stream_sync(b.main, NULL), 0);
    serial_round(&x, &y, &z, 1);
    assert_int_equal(*b.a, x);
    device_set_threads(b.d, 3);
    graph_destroy(g);
    close_bench(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_graph_is_replayed_a_thousand_times),
        cmocka_unit_test(graphs_of_one_pool_take_turns_even_without_an_edge),
        cmocka_unit_test(a_node_takes_other_arguments_when_nothing_is_in_flight),
        cmocka_unit_test(the_json_of_a_graph_is_deterministic_and_complete),
        cmocka_unit_test(every_task_of_a_replay_leaves_a_record_that_joins_to_the_json),
        cmocka_unit_test(a_record_names_the_event_that_made_its_task_ready),
        cmocka_unit_test(a_steady_round_allocates_nothing),
        cmocka_unit_test(idle_workers_sleep_and_wake_for_work),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
