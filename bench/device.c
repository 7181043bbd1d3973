/* device.c: what the executor costs on top of the work: nanoseconds per empty kernel in a chain of 200, launched
 * one by one or replayed as a graph, with 1 … N threads, beside a bare spin barrier of the same threads.
 *
 *   bench_device [rounds]
 *
 * Tiles are empty, so a chain is nothing but launches, edges and waiting: "1 tile" is a task that one worker runs,
 * "n tiles" one per worker (of which one worker may run several: they are that short). "busy" tiles take some
 * microseconds, the same for every number of threads: what they cost above "work alone" is fork and join. The cases
 * of a table run in turn; figures are medians and quartiles.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <pthread.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/thread.h"
#include "device/cpu/executor.h"
#include "measure/compare.h"

enum { CHAIN = 200, REPEATS = 20, CASES = 9, WORK = 6000, MAX_ROUNDS = 1000 };

typedef struct {
    executor *x;
    lane lane;
    int tiles, work; /* turns of an empty loop per tile */
    program program;
} chain;

static int tiles_of(const kernel_args *args)
{
    return ((const chain *)args->host.user)->tiles;
}

static void spend(int turns)
{
    for (int i = 0; i < turns; i++)
        __asm__ volatile("" ::"r"(i));
}

static void run_tile(const kernel_args *args, int tile, void *scratch)
{
    (void)tile;
    (void)scratch;
    spend(((const chain *)args->host.user)->work);
}

static const kernel_impl empty_impl = { .tiles = tiles_of, .run = run_tile };

static void *must(void *p)
{
    if (!p) {
        fprintf(stderr, "bench_device: no memory\n");
        exit(1);
    }
    return p;
}

/* ---- chains ---- */

static void open_chain(chain *c, executor *x, int tiles, int work)
{
    *c = (chain) { .x = x, .tiles = tiles, .work = work };
    program *p = &c->program;
    p->id = 1;
    p->count = CHAIN;
    p->root_count = 1;
    p->nodes = must(mem_alloc_zeroed(MEM_GENERAL, CHAIN * sizeof *p->nodes));
    p->successors = must(mem_alloc_zeroed(MEM_GENERAL, CHAIN * sizeof *p->successors));
    p->roots = must(mem_alloc_zeroed(MEM_GENERAL, sizeof *p->roots));
    for (int i = 0; i < CHAIN; i++) {
        program_node *n = &p->nodes[i];
        n->predecessors = n->t.pending = i > 0;
        n->first = i;
        n->count = i < CHAIN - 1;
        n->t.impl = &empty_impl;
        n->t.id = KERNEL_HOST;
        n->t.graph = p;
        n->t.node = i;
        n->t.args.host.user = c;
        p->successors[i] = (program_edge) { .node = i + 1, .event = -1 };
    }
    executor_reserve_nodes(x, CHAIN, NULL);
}

static void close_chain(chain *c)
{
    mem_free(MEM_GENERAL, c->program.nodes, CHAIN * sizeof *c->program.nodes);
    mem_free(MEM_GENERAL, c->program.successors, CHAIN * sizeof *c->program.successors);
    mem_free(MEM_GENERAL, c->program.roots, sizeof *c->program.roots);
}

static void launch_all(chain *c)
{
    for (int i = 0; i < CHAIN; i++) {
        queued *q = executor_take(c->x);
        q->t.impl = &empty_impl;
        q->t.id = KERNEL_HOST;
        q->t.args.host = (args_host) { .user = c };
        executor_submit(c->x, q, &c->lane, NULL, 0);
    }
}

static double per_kernel(int64_t start)
{
    return (double)(clock_ns() - start) / (REPEATS * CHAIN);
}

static double run_eager(void *user)
{
    chain *c = user;
    int64_t start = clock_ns();
    for (int i = 0; i < REPEATS; i++) {
        launch_all(c);
        executor_wait(c->x, &c->lane.pending);
    }
    return per_kernel(start);
}

static double run_launches(void *user)
{
    chain *c = user;
    int64_t spent = 0;
    for (int i = 0; i < REPEATS; i++) {
        int64_t start = clock_ns();
        launch_all(c);
        spent += clock_ns() - start;
        executor_wait(c->x, &c->lane.pending);
    }
    return (double)spent / (REPEATS * CHAIN);
}

static double run_replay(void *user)
{
    chain *c = user;
    int64_t start = clock_ns();
    for (int i = 0; i < REPEATS; i++) {
        queued *q = executor_take(c->x);
        q->t.graph = &c->program;
        executor_submit(c->x, q, &c->lane, NULL, 0);
        executor_wait(c->x, &c->lane.pending);
    }
    return per_kernel(start);
}

static double run_work(void *user)
{
    const chain *c = user;
    int64_t start = clock_ns();
    for (int i = 0; i < REPEATS * CHAIN; i++)
        spend(c->work);
    return per_kernel(start);
}

/* ---- a bare barrier ---- */

typedef struct {
    _Alignas(64) _Atomic int arrived;
    _Alignas(64) _Atomic int turn;
    int threads;
} barrier;

static void pass(barrier *b)
{
    int turn = atomic_load(&b->turn);
    if (atomic_fetch_add(&b->arrived, 1) == b->threads - 1) {
        atomic_store(&b->arrived, 0);
        atomic_store(&b->turn, turn + 1);
        return;
    }
    for (int spins = 0; atomic_load(&b->turn) == turn;) {
        thread_pause();
        if (++spins % 1000 == 0)
            sched_yield();
    }
}

static void *pass_all(void *user)
{
    for (int i = 0; i < REPEATS * CHAIN; i++)
        pass(user);
    return NULL;
}

static double run_barrier(void *user)
{
    barrier *b = user;
    pthread_t others[EXECUTOR_MAX_THREADS];
    atomic_store(&b->arrived, 0);
    for (int i = 1; i < b->threads; i++)
        pthread_create(&others[i], NULL, pass_all, b);
    pass(b); /* all have started */
    int64_t start = clock_ns();
    for (int i = 1; i < REPEATS * CHAIN; i++)
        pass(b);
    double ns = per_kernel(start);
    for (int i = 1; i < b->threads; i++)
        pthread_join(others[i], NULL);
    return ns;
}

/* ---- the table ---- */

static void bench_threads(int threads, int rounds, double *samples)
{
    executor *x;
    foray_error err;
    chain one, all, busy;
    barrier b = { .threads = threads };
    if (executor_create(threads, 2048, 0, NULL, &x, &err)) {
        fprintf(stderr, "bench_device: %s\n", err.text);
        exit(1);
    }
    open_chain(&one, x, 1, 0);
    open_chain(&all, x, threads, 0);
    open_chain(&busy, x, threads, WORK);
    const compare_case cases[CASES] = {
        { "launch alone", run_launches, &one },  { "eager, 1 tile", run_eager, &one },
        { "replay, 1 tile", run_replay, &one },  { "eager, n tiles", run_eager, &all },
        { "replay, n tiles", run_replay, &all }, { "spin barrier", run_barrier, &b },
        { "work alone", run_work, &busy },       { "busy eager", run_eager, &busy },
        { "busy replay", run_replay, &busy },
    };
    compare_interleaved(cases, CASES, 2, rounds, samples);
    for (int i = 0; i < CASES; i++) {
        compare_summary s = compare_summarise(&samples[(size_t)i * (size_t)rounds], rounds);
        printf("%2d threads  %-16s %7.0f ns   (%.0f … %.0f, best %.0f)\n", threads, cases[i].name, s.median,
               s.low, s.high, s.best);
    }
    executor_destroy(x);
    close_chain(&one);
    close_chain(&all);
    close_chain(&busy);
}

int main(int argc, char **argv)
{
    static double samples[CASES * MAX_ROUNDS];
    int rounds = argc > 1 ? atoi(argv[1]) : 30, cores = thread_cores();
    if (rounds < 1 || rounds > MAX_ROUNDS) {
        fprintf(stderr, "usage: bench_device [rounds, 1 to %d]\n", MAX_ROUNDS);
        return 2;
    }
    printf("per empty kernel, chains of %d, %d rounds in turn, %d cores\n", CHAIN, rounds, cores);
    for (int threads = 1; threads <= cores && threads <= EXECUTOR_MAX_THREADS; threads *= 2)
        bench_threads(threads, rounds, samples);
    return 0;
}
