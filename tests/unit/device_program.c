/* device_program.c: random programs on the CPU device: eager and replayed give what one operation after another
 * gives, run as early and as late as their edges allow, and cannot lose an edge unnoticed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "device/cpu/hooks.h"
#include "support/device_program.h"
#include "support/mutate.h"

enum { ROUNDS = 3 };

static void __attribute__((format(printf, 1, 2))) give_up(const char *format, ...)
{
    char text[600];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    print_error("%s\n", text);
    assert_true(false);
}

static device *open_device(int threads, uint64_t shuffle)
{
    device *d;
    foray_error err = { 0 };
    device_config config = { .threads = threads, .isa = "portable", .shuffle_seed = shuffle };
    if (device_open(&config, &d, &err))
        give_up("%s", err.text);
    return d;
}

static void start_values(int64_t *v)
{
    for (int i = 0; i < PROGRAM_BUFFERS; i++)
        v[i] = 1000 + i;
}

static void assert_buffers(const random_program *p, const int64_t *got, const int64_t *want, uint64_t seed,
                           const char *how)
{
    for (int i = 0; i < p->buffers; i++) {
        if (got[i] != want[i])
            give_up("program %llu, %s: buffer %d differs", (unsigned long long)seed, how, i);
    }
}

/* Runs a program ROUNDS times each way without waiting in between, and compares. */
static void compare(device *d, uint64_t seed)
{
    random_program p;
    program_bench b;
    int64_t start[PROGRAM_BUFFERS], want[PROGRAM_BUFFERS], got[PROGRAM_BUFFERS];
    foray_error err = { 0 };
    program_make(&p, seed, 8 + (int)(seed % (PROGRAM_OPS - 7)));
    start_values(start);
    memcpy(want, start, sizeof want);
    for (int i = 0; i < ROUNDS; i++)
        random_program_run(&p, want);

    bench_open(&b, &p, d);
    bench_set(&b, start);
    for (int i = 0; i < ROUNDS; i++) {
        if (bench_emit(&b, -1, &err))
            give_up("program %llu: %s", (unsigned long long)seed, err.text);
    }
    assert_int_equal(stream_sync(b.stream[0], NULL), 0);
    bench_get(&b, got);
    assert_buffers(&p, got, want, seed, "eager");

    graph *g;
    if (bench_capture(&b, -1, &g, &err))
        give_up("program %llu: %s", (unsigned long long)seed, err.text);
    bench_set(&b, start);
    for (int i = 0; i < ROUNDS; i++)
        assert_int_equal(graph_launch(g, b.stream[0], NULL), 0);
    assert_int_equal(stream_sync(b.stream[0], NULL), 0);
    bench_get(&b, got);
    assert_buffers(&p, got, want, seed, "replayed");
    graph_destroy(g);
    bench_close(&b);
}

static void random_programs_give_the_serial_result_eager_and_replayed(void **state)
{
    (void)state;
    uint64_t last = mutate_count(200, 10000);
    for (uint64_t seed = 1; seed <= last; seed++) {
        static const int threads[] = { 1, 2, 4 };
        device *d = open_device(threads[seed % 3], seed % 2 ? seed : 0);
        device_set_checks(d, seed % 5 == 0);
        compare(d, seed);
        device_close(d);
    }
}

static void changing_the_number_of_threads_between_programs_changes_nothing(void **state)
{
    (void)state;
    device *d = open_device(4, 0);
    uint64_t last = 300 + mutate_count(40, 1000);
    for (uint64_t seed = 300; seed < last; seed++) {
        device_set_threads(d, 1 + (int)(seed % 4));
        assert_int_equal(device_active_threads(d), 1 + (int)(seed % 4));
        compare(d, seed);
    }
    device_close(d);
}

/* Over many scripted orders on one worker: every pair that no edge orders is seen both ways, every other
 * pair one way only. */
static void count_orders(const random_program *p, bool replayed, bool seen[PROGRAM_OPS][PROGRAM_OPS])
{
    for (uint64_t shuffle = 1; shuffle <= 200; shuffle++) {
        program_bench b;
        graph *g = NULL;
        device *d = open_device(1, shuffle);
        bench_open(&b, p, d);
        if (replayed) {
            assert_int_equal(bench_capture(&b, -1, &g, NULL), 0);
            assert_int_equal(graph_launch(g, b.stream[0], NULL), 0);
        } else {
            assert_int_equal(bench_emit(&b, -1, NULL), 0);
        }
        assert_int_equal(stream_sync(b.stream[0], NULL), 0);
        assert_int_equal(b.logged, p->count);
        for (int i = 0; i < p->count; i++) {
            for (int j = i + 1; j < p->count; j++)
                seen[b.log[i]][b.log[j]] = true;
        }
        graph_destroy(g);
        bench_close(&b);
        device_close(d);
    }
}

static void tasks_run_as_early_and_as_late_as_their_edges_allow(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        random_program p;
        program_order order;
        program_make(&p, seed + 900, 7);
        program_close(&p, -1, &order);
        for (int replayed = 0; replayed < 2; replayed++) {
            bool seen[PROGRAM_OPS][PROGRAM_OPS] = { { false } };
            count_orders(&p, replayed, seen);
            for (int i = 0; i < p.count; i++) {
                for (int j = i + 1; j < p.count; j++) {
                    assert_true(seen[i][j]);
                    assert_int_equal(seen[j][i], !order.before[i][j]);
                }
            }
        }
    }
}

/* Whether the conflict behind wait w is ordered without it. */
static bool implied(const random_program *p, int w)
{
    program_order order;
    program_close(p, w, &order);
    return order.before[p->wait[w].from][p->wait[w].to];
}

static void every_edge_that_no_other_implies_is_missed_when_it_is_left_out(void **state)
{
    (void)state;
    int needed = 0, spare = 0;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        random_program p;
        program_make(&p, seed + 2000, 12);
        for (int w = 0; w < p.waits; w++) {
            bool spared = implied(&p, w);
            spared ? spare++ : needed++;
            for (int captured = 0; captured < 2; captured++) {
                program_bench b;
                graph *g = NULL;
                foray_error err = { 0 };
                device *d = open_device(1, 0);
                device_set_checks(d, true);
                bench_open(&b, &p, d);
                int rc = captured ? bench_capture(&b, w, &g, &err) : bench_emit(&b, w, &err);
                assert_int_equal(rc, spared ? 0 : FORAY_ESTATE);
                if (!spared) {
                    assert_non_null(strstr(err.text, "kernel mix on stream "));
                    assert_non_null(strstr(err.text, "buffer "));
                }
                graph_destroy(g);
                bench_close(&b);
                device_close(d);
            }
        }
    }
    assert_true(needed > 20);
    assert_true(spare > 20);
}

/* The nodes of a graph keep no edge that others imply, and lose none: by the closure that the test computes. */
static void a_graph_keeps_exactly_the_edges_it_needs(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 30; seed++) {
        random_program p;
        program_bench b;
        program_order order;
        graph *g;
        buf json = { 0 };
        device *d = open_device(1, 0);
        program_make(&p, seed + 4000, PROGRAM_OPS);
        program_close(&p, -1, &order);
        bench_open(&b, &p, d);
        assert_int_equal(bench_capture(&b, -1, &g, NULL), 0);
        assert_int_equal(graph_nodes(g), p.count);
        graph_json(g, &json);
        for (int j = 0; j < p.count; j++) {
            char head[64];
            snprintf(head, sizeof head, "{\"node\":%d,\"name\"", j);
            const char *node = strstr(json.data, head);
            assert_non_null(node);
            node = strstr(node, "\"after\":[");
            for (int i = 0; i < j; i++) {
                bool direct = order.before[i][j];
                for (int k = i + 1; k < j; k++)
                    direct = direct && !(order.before[i][k] && order.before[k][j]);
                char edge[64];
                snprintf(edge, sizeof edge, "{\"node\":%d,\"event\"", i);
                const char *at = strstr(node, edge);
                assert_int_equal(at && at < strchr(node, ']'), direct);
            }
        }
        buf_free(&json);
        graph_destroy(g);
        bench_close(&b);
        device_close(d);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_programs_give_the_serial_result_eager_and_replayed),
        cmocka_unit_test(changing_the_number_of_threads_between_programs_changes_nothing),
        cmocka_unit_test(tasks_run_as_early_and_as_late_as_their_edges_allow),
        cmocka_unit_test(every_edge_that_no_other_implies_is_missed_when_it_is_left_out),
        cmocka_unit_test(a_graph_keeps_exactly_the_edges_it_needs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
