/* executor.c: the bookkeeping of the executor: launches and their edges, what is ready, what is over, and the
 * host's waiting. How tiles are run is worker.c.
 *
 * A completed task walks its edges under the lock; a task without anything to run (a join, an empty graph)
 * completes in the same walk. Records are written by worker.c before a completion becomes visible, so whoever
 * saw a task done finds its record.
 */
#include "device/cpu/executor_internal.h"

#include <assert.h>

#include "base/mem.h"
#include "base/rng.h"

enum { STEP_MIN_NS = 200 * 1000 }; /* shorter waits of the host are joined to one step for the throttle */

/* ---- creation ---- */

static void free_workers(executor *x)
{
    for (int i = 0; x->workers && i < x->threads; i++)
        mem_free(MEM_DEVICE, x->workers[i].scratch, x->scratch_bytes);
    mem_free(MEM_DEVICE, x->workers, (size_t)x->threads * sizeof *x->workers);
    mem_free(MEM_DEVICE, x->slots, (size_t)x->threads * sizeof *x->slots);
    mem_free(MEM_DEVICE, x->store, (size_t)x->store_count * sizeof *x->store);
    ready_free(&x->ready);
    mem_free(MEM_DEVICE, x, sizeof *x);
}

static void stop_workers(executor *x, int started)
{
    atomic_store(&x->stop, 1);
    executor_lock(x);
    executor_rouse(x);
    executor_unlock_wake(x);
    worker_wake_parked(x);
    for (int i = 1; i < started; i++)
        pthread_join(x->workers[i].thread, NULL);
}

int executor_create(int threads, int store, uint64_t shuffle_seed, ring *records, executor **out,
                    foray_error *err)
{
    executor *x = mem_alloc_zeroed(MEM_DEVICE, sizeof *x);
    if (!x)
        return fail(err, FORAY_ENOMEM, "device: no memory for the executor");
    x->threads = threads;
    x->store_count = store;
    x->shuffle_seed = shuffle_seed;
    atomic_init(&x->active, threads);
    atomic_init(&x->records, records);
    throttle_init(&x->throttle, threads);
    x->workers = mem_alloc_zeroed(MEM_DEVICE, (size_t)threads * sizeof *x->workers);
    x->slots = mem_alloc_zeroed(MEM_DEVICE, (size_t)threads * sizeof *x->slots);
    x->store = mem_alloc_zeroed(MEM_DEVICE, (size_t)store * sizeof *x->store);
    if (!x->workers || !x->slots || !x->store || !ready_reserve(&x->ready, store)) {
        free_workers(x);
        return fail(err, FORAY_ENOMEM, "device: no memory for %d workers", threads);
    }
    for (int i = store - 1; i >= 0; i--) {
        x->store[i].free_next = x->free;
        x->free = &x->store[i];
    }
    for (int i = 0; i < threads; i++) {
        x->workers[i].x = x;
        x->workers[i].index = i;
        x->workers[i].part_slot = -1;
        atomic_init(&x->slots[i].shares, 1);
    }
    for (int i = 1; i < threads; i++) {
        if (pthread_create(&x->workers[i].thread, NULL, worker_main, &x->workers[i]) != 0) {
            stop_workers(x, i);
            free_workers(x);
            return fail(err, FORAY_ESYSTEM, "device: the system refused thread %d of %d (use fewer threads)",
                        i, threads);
        }
    }
    worker_warm_stack(); /* the host works too */
    *out = x;
    return 0;
}

void executor_destroy(executor *x)
{
    if (!x)
        return;
    assert(atomic_load(&x->in_flight) == 0);
    stop_workers(x, x->threads);
    free_workers(x);
}

int executor_reserve_nodes(executor *x, int nodes, foray_error *err)
{
    int capacity = x->node_capacity + nodes;
    executor_lock(x);
    bool ok = ready_reserve(&x->ready, x->store_count + capacity);
    executor_unlock(x);
    if (!ok)
        return fail(err, FORAY_ENOMEM, "device: no memory for a queue of %d ready nodes", capacity);
    x->node_capacity = capacity;
    return 0;
}

/* Behind so much of a worker's scratch memory stands from the start: most kernels' first tile on a worker then costs no page
 * fault. Those whose need grows with the text have the rest as they grow. */
enum { WARM_SCRATCH = 256 << 10, SYSTEM_PAGE = 4096 };

int executor_reserve_scratch(executor *x, size_t bytes, foray_error *err)
{
    if (bytes <= x->scratch_bytes)
        return 0;
    if (bytes < 2 * x->scratch_bytes)
        bytes = 2 * x->scratch_bytes; /* so that growing lengths do not make every launch wait */
    executor_wait(x, &x->in_flight);
    uint8_t *fresh[EXECUTOR_MAX_THREADS];
    for (int i = 0; i < x->threads; i++) {
        fresh[i] = mem_alloc(MEM_DEVICE, bytes);
        if (!fresh[i]) {
            while (i-- > 0)
                mem_free(MEM_DEVICE, fresh[i], bytes);
            return fail(err, FORAY_ENOMEM,
                        "device: no memory for %zu bytes of scratch for each of %d workers", bytes,
                        x->threads);
        }
    }
    for (int i = 0; i < x->threads; i++) {
        mem_free(MEM_DEVICE, x->workers[i].scratch, x->scratch_bytes);
        x->workers[i].scratch = fresh[i];
        for (size_t at = 0; at < bytes && at < WARM_SCRATCH; at += SYSTEM_PAGE)
            ((volatile uint8_t *)fresh[i])[at] = 0;
    }
    x->scratch_bytes = bytes;
    return 0;
}

/* ---- readiness and completion ---- */

void executor_rouse(executor *x)
{
    if (x->sleepers == 0)
        return;
    atomic_fetch_add(&x->wake_word, 1);
    x->sleepers = 0;
    x->host_sleeps = false;
    x->wake = true;
}

/* Locked: all edges of t are done. What has nothing to run goes to the list of finished tasks instead. */
static void make_ready(executor *x, task *t, int waited_event, int64_t now, task **done)
{
    t->waited_event = waited_event;
    t->ready_ns = now;
    if (t->impl) {
        ready_push(&x->ready, t, t->priority);
        executor_rouse(x);
        return;
    }
    program *g = t->graph;
    if (!g || g->count == 0) {
        t->next = *done;
        *done = t;
        return;
    }
    assert(!g->launch);
    if (g->stamped)
        g->begin_ticks = clock_ticks();
    g->launch = (queued *)t;
    g->remaining = g->count;
    for (int i = 0; i < g->root_count; i++)
        make_ready(x, &g->nodes[g->roots[i]].t, waited_event, now, done);
}

/* Locked: all predecessors of a node are over: how much later than its own stream's were those of other streams? */
static void count_node_waits(executor *x, const program *g, const program_node *n)
{
    int node = n->t.node;
    int64_t own = n->own >= 0 ? g->nodes[n->own].t.end_ticks : g->begin_ticks;
    for (int i = g->first[node]; i < g->first[node + 1]; i++) {
        const program_edge *e = &g->edges[i];
        if (e->tally)
            waits_add(&x->waits, g->launch->mark.round, e->tally, g->nodes[e->node].t.end_ticks - own);
    }
}

/* The same for a launch, whose stream stands still from when it is queued at the earliest. */
static void count_launch_waits(executor *x, const queued *q)
{
    for (int i = 0; i < q->edges; i++)
        if (q->in[i].tally)
            waits_add(&x->waits, q->mark.round, q->in[i].tally, q->in[i].done_ticks - q->other_ticks);
}

/* Locked: a node is over: its successors, then perhaps the launch of its graph. */
static void complete_node(executor *x, task *t, int64_t now, task **done)
{
    program *g = t->graph;
    const program_node *n = &g->nodes[t->node];
    t->pending = n->predecessors; /* for the next launch */
    for (int i = n->first; i < n->first + n->count; i++) {
        program_node *to = &g->nodes[g->successors[i].node];
        if (--to->t.pending > 0)
            continue;
        if (to->tallies > 0)
            count_node_waits(x, g, to);
        make_ready(x, &to->t, g->successors[i].event, now, done);
    }
    if (--g->remaining == 0) {
        task *launch = &g->launch->t;
        g->launch = NULL;
        launch->next = *done;
        *done = launch;
    }
}

/* Locked: an edge into a launch is done. */
static void complete_edge(executor *x, edge *e, int64_t now, task **done)
{
    queued *to = e->to;
    if (to->tallies > 0)
        *(e->tally ? &e->done_ticks : &to->other_ticks) = clock_ticks();
    if (--to->t.pending > 0)
        return;
    if (to->tallies > 0)
        count_launch_waits(x, to);
    make_ready(x, &to->t, e->event, now, done);
}

/* Locked: a launch is over. The last thing to touch its lane, signals and graph is a store that their
 * owners wait for. */
static void complete_launch(executor *x, queued *q, int64_t now, task **done)
{
    lane *l = q->lane;
    for (edge *e = q->out; e; e = e->next)
        complete_edge(x, e, now, done);
    if (q->signals && now == 0)
        now = clock_fast_ns();
    while (q->signals) {
        signal *s = q->signals;
        q->signals = s->next;
        s->task = NULL;
        s->next = NULL;
        s->link = NULL;
        atomic_store_explicit(&s->time_ns, now, memory_order_relaxed);
        atomic_store_explicit(&s->open, 0, memory_order_release);
    }
    if (l->tail == q)
        l->tail = NULL;
    if (q->t.graph)
        atomic_fetch_sub_explicit(&q->t.graph->in_flight, 1, memory_order_release);
    q->ticket = 0;
    q->free_next = x->freed;
    x->freed = q;
    atomic_store_explicit(&x->store_empty, 0, memory_order_relaxed);
    atomic_fetch_sub_explicit(&l->pending, 1, memory_order_release);
    atomic_fetch_sub_explicit(&x->in_flight, 1, memory_order_release);
    if (x->host_sleeps)
        executor_rouse(x);
}

static void complete_all(executor *x, task *list, int64_t now)
{
    while (list) {
        task *t = list;
        list = t->next;
        if (t->node >= 0)
            complete_node(x, t, now, &list);
        else
            complete_launch(x, (queued *)t, now, &list);
    }
}

void executor_complete(executor *x, task *t, int64_t now)
{
    t->next = NULL;
    complete_all(x, t, now);
}

/* ---- launches ---- */

queued *executor_take(executor *x)
{
    while (!x->free) {
        executor_lock(x);
        x->free = x->freed;
        x->freed = NULL;
        if (!x->free)
            atomic_store_explicit(&x->store_empty, 1, memory_order_relaxed);
        executor_unlock(x);
        if (!x->free)
            executor_wait(x, &x->store_empty);
    }
    queued *q = x->free;
    x->free = q->free_next;
    q->t.impl = NULL;
    q->t.graph = NULL;
    q->t.node = -1;
    q->t.stamped = false;
    q->t.priority = 0;
    q->t.pending = 0;
    q->edges = q->tallies = 0;
    q->out = NULL;
    q->signals = NULL;
    return q;
}

dependency executor_submit(executor *x, queued *q, lane *l, const dependency *after, int count)
{
    assert(count < QUEUED_EDGES);
    if (atomic_load_explicit(&x->in_flight, memory_order_relaxed) == 0)
        x->step_start_ns = clock_fast_ns();
    int64_t now = atomic_load_explicit(&x->records, memory_order_relaxed) ? clock_fast_ns() : 0;
    q->lane = l;
    q->other_ticks = count > 0 ? clock_ticks() : 0;
    executor_lock(x);
    q->ticket = ++x->tickets;
    dependency tail = { .task = l->tail, .ticket = l->tail ? l->tail->ticket : 0, .event = -1 };
    for (int i = -1; i < count; i++) {
        const dependency *d = i < 0 ? &tail : &after[i];
        bool over = !d->task || d->task->ticket != d->ticket;
        if (over && d->tally)
            waits_add(&x->waits, q->mark.round, d->tally, 0);
        if (over)
            continue;
        edge *e = &q->in[q->edges++];
        *e = (edge) { .to = q, .next = d->task->out, .event = d->event, .tally = d->tally };
        d->task->out = e;
        q->tallies += d->tally != 0;
    }
    q->t.pending = q->edges;
    l->tail = q;
    atomic_fetch_add_explicit(&l->pending, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&x->in_flight, 1, memory_order_relaxed);
    if (q->t.graph)
        atomic_fetch_add_explicit(&q->t.graph->in_flight, 1, memory_order_relaxed);
    dependency self = { .task = q, .ticket = q->ticket, .event = -1 };
    if (q->t.pending == 0) {
        task *done = NULL;
        make_ready(x, &q->t, -1, now, &done);
        complete_all(x, done, now);
    }
    executor_unlock_wake(x);
    return self;
}

/* Locked. */
static void unlink_signal(signal *s)
{
    if (s->task) {
        *s->link = s->next;
        if (s->next)
            s->next->link = s->link;
    }
    s->task = NULL;
    s->next = NULL;
    s->link = NULL;
}

void executor_signal(executor *x, signal *s, lane *l)
{
    executor_lock(x);
    unlink_signal(s);
    queued *q = l->tail;
    atomic_store_explicit(&s->open, q != NULL, memory_order_relaxed);
    atomic_store_explicit(&s->time_ns, q ? -1 : clock_fast_ns(), memory_order_relaxed);
    if (q) {
        s->task = q;
        s->next = q->signals;
        s->link = &q->signals;
        if (s->next)
            s->next->link = &s->next;
        q->signals = s;
    }
    executor_unlock(x);
}

void executor_unsignal(executor *x, signal *s)
{
    executor_lock(x);
    unlink_signal(s);
    atomic_store_explicit(&s->open, 0, memory_order_relaxed);
    executor_unlock(x);
}

dependency executor_lane_tail(executor *x, const lane *l)
{
    executor_lock(x);
    dependency d = { .task = l->tail, .ticket = l->tail ? l->tail->ticket : 0, .event = -1 };
    executor_unlock(x);
    return d;
}

dependency executor_signal_task(executor *x, const signal *s)
{
    executor_lock(x);
    dependency d = { .task = s->task, .ticket = s->task ? s->task->ticket : 0, .event = -1 };
    executor_unlock(x);
    return d;
}

int executor_tally(executor *x, const char *waiting, const char *awaited, const char *from)
{
    return waits_tally(&x->waits, waiting, awaited, from);
}

int executor_take_waits(executor *x, int64_t round, device_wait *out, int most)
{
    executor_lock(x);
    int found = waits_take(&x->waits, round, out, most);
    executor_unlock(x);
    for (int i = 0; i < found && i < most; i++)
        out[i].waited_ns = clock_ticks_to_ns(out[i].waited_ns);
    return found;
}

/* ---- the host's waiting ---- */

/* Sleepers are woken too: those who are not to work must not be woken by it later. */
static void set_active(executor *x, int threads)
{
    atomic_store(&x->active, threads);
    executor_lock(x);
    executor_rouse(x);
    executor_unlock_wake(x);
    worker_wake_parked(x);
}

/* One step for the throttle: from the first launch after a quiet device, or the last step's end, to here. */
static void end_step(executor *x, int64_t now)
{
    if (x->step_start_ns == 0 || now - x->step_start_ns < STEP_MIN_NS)
        return;
    int64_t wait = 0;
    for (int i = 0; i < x->threads; i++)
        wait += atomic_load_explicit(&x->workers[i].wait_ns, memory_order_relaxed);
    int active = throttle_step(&x->throttle, now - x->step_start_ns, wait - x->step_wait_ns);
    x->step_start_ns = now;
    x->step_wait_ns = wait;
    if (active != atomic_load_explicit(&x->active, memory_order_relaxed))
        set_active(x, active);
}

int64_t executor_wait(executor *x, const _Atomic int *word)
{
    worker *w = &x->workers[0];
    int64_t start = clock_fast_ns();
    w->until = word;
    while (atomic_load_explicit(word, memory_order_acquire) != 0) {
        if (!worker_turn(w))
            worker_idle(w);
    }
    /* Who stored the 0 may still be in its section: after this, what the word belongs to can be freed. */
    executor_lock(x);
    executor_unlock(x);
    worker_resume(w);
    w->until = NULL;
    int64_t now = clock_fast_ns();
    end_step(x, now);
    return now - start;
}

void executor_poll(executor *x)
{
    static const _Atomic int stop_after_one = 0;
    if (atomic_load_explicit(&x->active, memory_order_relaxed) > 1)
        return;
    x->workers[0].until = &stop_after_one;
    worker_turn(&x->workers[0]);
    x->workers[0].until = NULL;
}

const _Atomic int *executor_in_flight(const executor *x)
{
    return &x->in_flight;
}

/* ---- settings ---- */

void executor_set_records(executor *x, ring *records)
{
    atomic_store(&x->records, records);
}

void executor_set_threads(executor *x, int threads)
{
    assert(threads >= 1 && threads <= x->threads);
    throttle_init(&x->throttle, threads);
    set_active(x, threads);
}

int executor_threads(const executor *x)
{
    return x->threads;
}

int executor_active(const executor *x)
{
    return atomic_load_explicit(&x->active, memory_order_relaxed);
}

uint32_t executor_draw(executor *x)
{
    uint64_t n = x->draws++;
    return rng_at(x->shuffle_seed, (uint32_t)n, RNG_TEST, 0, (uint32_t)(n >> 32)).word[0];
}
