/* worker.c: how a worker finds tiles, runs them, and passes its time when there are none.
 *
 *   turn:  tiles of an open slot?  → run them          (own share from the front, others' from the back)
 *          a ready task?           → open a slot: count its tiles, share them out, run
 *          whoever counts the last tile completes the task and goes on with the best one that became ready
 *   idle:  ~1000 pauses, watching two words → sched_yield for 2 ms → sleep until a task becomes ready
 *
 * Claiming a tile is one compare-and-swap on a share and is always a claim on the slot's present task: an
 * opener writes everything else before it publishes the shares, and a slot is freed only after all tiles are
 * counted. Threads: each worker on its own struct.
 */
#include "device/cpu/executor_internal.h"

#include <assert.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    SPINS = 1000,             /* pauses before the first yield */
    SPINS_PER_LOOK = 64,      /* pauses between two looks at the clock while others are waited for */
    YIELDS = 20000,           /* yields before a sleep where the clock stands still */
    SLEEP_AFTER_NS = 2000000, /* of yielding */
    DELAY_PAUSES = 256        /* tests: longest random delay */
};

static void futex_wait(_Atomic int *word, int value)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void futex_wake_all(_Atomic int *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

void executor_unlock_wake(executor *x)
{
    bool wake = x->wake;
    x->wake = false;
    if (atomic_load_explicit(&x->ready_count, memory_order_relaxed) != x->ready.count)
        atomic_store_explicit(&x->ready_count, x->ready.count, memory_order_relaxed);
    executor_unlock(x);
    if (wake)
        futex_wake_all(&x->wake_word);
}

void worker_wake_parked(executor *x)
{
    atomic_fetch_add(&x->park_word, 1);
    futex_wake_all(&x->park_word);
}

/* ---- slots and tiles ---- */

/* Locked: takes the best ready task into a free slot. Returns the slot, or -1 when nothing is ready. */
static int take_slot(executor *x)
{
    if (x->ready.count == 0)
        return -1;
    int at = x->shuffle_seed ? (int)(executor_draw(x) % (uint32_t)x->ready.count) : 0;
    task *t = ready_take(&x->ready, at);
    int i = __builtin_ctzll(~x->taken);
    assert(i < x->threads);
    slot *s = &x->slots[i];
    s->task = t;
    atomic_store_explicit(&s->opening, 1, memory_order_relaxed);
    atomic_store_explicit(&s->serial, ++x->serials, memory_order_relaxed);
    x->taken |= 1ull << i;
    return i;
}

static bool claim(_Atomic uint64_t *share, bool front, int *tile)
{
    uint64_t w = atomic_load_explicit(share, memory_order_relaxed);
    for (;;) {
        uint32_t next = (uint32_t)w, end = (uint32_t)(w >> 32);
        if (next >= end)
            return false;
        uint64_t left = front ? w + 1 : w - (1ull << 32);
        if (atomic_compare_exchange_weak_explicit(share, &w, left, memory_order_acquire,
                                                  memory_order_relaxed)) {
            *tile = (int)(front ? next : end - 1);
            return true;
        }
    }
}

/* Before a worker's first tile of a task; again when its scratch has served another task in between. */
static void enter_task(worker *w, const slot *s, const task *t)
{
    uint64_t serial = atomic_load_explicit(&s->serial, memory_order_relaxed);
    if (w->prepared == serial)
        return;
    w->prepared = serial;
    if (t->impl->prepare)
        t->impl->prepare(&t->args, w->scratch);
}

/* Tests: a random delay, and an order of tiles: i → step i + shift with step coprime to their number. */
static void scramble(executor *x, slot *s)
{
    executor_lock(x);
    uint32_t pauses = executor_draw(x), step = executor_draw(x), shift = executor_draw(x);
    executor_unlock(x);
    for (uint32_t i = pauses % 4 ? 0 : pauses / 4 % DELAY_PAUSES; i > 0; i--)
        thread_pause();
    if (s->tiles <= 1)
        return;
    s->step = (int)(step % (uint32_t)s->tiles);
    s->shift = (int)(shift % (uint32_t)s->tiles);
    for (;; s->step = s->step % s->tiles + 1) {
        int a = s->step, b = s->tiles;
        while (a) {
            int r = b % a;
            b = a;
            a = r;
        }
        if (b == 1)
            return;
    }
}

/* Shares out the tiles of a slot that w took. false: nothing is left to do, the task is over. */
static bool open_slot(worker *w, int i)
{
    executor *x = w->x;
    slot *s = &x->slots[i];
    task *t = s->task;
    s->tiles = t->impl->tiles(&t->args);
    if (x->shuffle_seed)
        scramble(x, s);
    t->start_ns = atomic_load_explicit(&x->records, memory_order_relaxed) ? clock_fast_ns() : 0;
    if (s->tiles <= 1) {
        atomic_store_explicit(&s->opening, 0,
                              memory_order_release); /* the shares are empty: nothing for others */
        if (s->tiles == 1) {
            enter_task(w, s, t);
            t->impl->run(&t->args, 0, w->scratch);
        }
        return false;
    }
    int shares = atomic_load_explicit(&x->active, memory_order_relaxed);
    atomic_store_explicit(&s->done, 0, memory_order_relaxed);
    atomic_store_explicit(&s->shares, shares, memory_order_relaxed);
    /* Before the shares: whoever claims the last tile clears it again. */
    atomic_fetch_or_explicit(&x->open, 1ull << i, memory_order_relaxed);
    for (int j = 0; j < shares; j++) {
        uint64_t next = (uint64_t)s->tiles * j / shares, end = (uint64_t)s->tiles * (j + 1) / shares;
        atomic_store_explicit(&s->share[j], end << 32 | next, memory_order_release);
    }
    atomic_store_explicit(&s->opening, 0, memory_order_release);
    return true;
}

typedef enum { WORKED_NONE, WORKED_SOME, WORKED_LAST } worked;

/* Runs tiles of a slot until all are claimed. WORKED_LAST: w counted the last one and must complete the task. */
static worked work_slot(worker *w, int i)
{
    executor *x = w->x;
    slot *s = &x->slots[i];
    int shares = atomic_load_explicit(&s->shares, memory_order_relaxed);
    int own = w->index % shares, count = 0, tile;
    task *t = NULL;
    for (int j = 0; j < shares; j++) {
        int from = own + j < shares ? own + j : own + j - shares;
        while (claim(&s->share[from], j == 0, &tile)) {
            if (count++ == 0) {
                worker_resume(w);
                t = s->task;
                enter_task(w, s, t);
            }
            if (x->shuffle_seed)
                tile = (int)(((int64_t)s->step * tile + s->shift) % s->tiles);
            t->impl->run(&t->args, tile, w->scratch);
        }
    }
    if (count == 0)
        return WORKED_NONE;
    int tiles = s->tiles;
    w->part_slot = i;
    w->part_serial = atomic_load_explicit(&s->serial, memory_order_relaxed);
    if (atomic_fetch_add_explicit(&s->done, count, memory_order_acq_rel) + count < tiles)
        return WORKED_SOME;
    return WORKED_LAST;
}

static void write_record(ring *r, const task *t, int64_t end_ns)
{
    if (t->start_ns == 0)
        return; /* recording began in the middle */
    const task_mark *m = t->node >= 0 ? &t->graph->launch->mark : &((const queued *)t)->mark;
    kernel_cost cost = kernel_get_live_cost(t->id, &t->args);
    task_record record = {
        .name = kernel_name(t->id, &t->args),
        .flops = cost.flops,
        .bytes = cost.bytes,
        .kernel_class = (uint8_t)kernel_get_class(t->id),
        .phase = (uint8_t)(t->node >= 0 ? t->phase : m->phase),
        .stream = (int16_t)t->stream,
        .rank = (int16_t)m->rank,
        .graph = t->node >= 0 ? t->graph->id : -1,
        .node = t->node,
        .rows = m->rows,
        .round = m->round,
        .ready_ns = t->ready_ns ? t->ready_ns : t->start_ns,
        .start_ns = t->start_ns,
        .end_ns = end_ns,
        .waited_event = t->waited_event,
    };
    ring_write(r, &record);
}

/* The host goes on until what it waits for is done, the others while they are among the active ones. */
static bool may_take(const worker *w)
{
    if (w->until)
        return atomic_load_explicit(w->until, memory_order_relaxed) != 0;
    return w->index < atomic_load_explicit(&w->x->active, memory_order_relaxed);
}

/* Completes the task of slot i. Returns the slot of the next task, which w has taken, or -1. */
static int finish_slot(worker *w, int i)
{
    executor *x = w->x;
    slot *s = &x->slots[i];
    task *t = s->task;
    ring *r = atomic_load_explicit(&x->records, memory_order_relaxed);
    int64_t now = r ? clock_fast_ns() : 0;
    if (t->stamped)
        t->end_ticks = clock_ticks();
    if (r)
        write_record(r, t, now);
    executor_lock(x);
    s->task = NULL;
    x->taken &= ~(1ull << i);
    if (s->tiles > 1)
        atomic_fetch_and_explicit(&x->open, ~(1ull << i), memory_order_relaxed);
    executor_complete(x, t, now);
    int next = may_take(w) ? take_slot(x) : -1;
    executor_unlock_wake(x);
    return next;
}

/* Runs the task of a slot that w took, and then whatever it takes on finishing. */
static void run_slots(worker *w, int i)
{
    while (i >= 0) {
        bool over = !open_slot(w, i) || work_slot(w, i) == WORKED_LAST;
        i = over ? finish_slot(w, i) : -1;
    }
}

/* One turn: false when there was nothing to do. */
bool worker_turn(worker *w)
{
    executor *x = w->x;
    for (uint64_t open = atomic_load_explicit(&x->open, memory_order_relaxed); open; open &= open - 1) {
        int i = __builtin_ctzll(open);
        worked done = work_slot(w, i);
        if (done == WORKED_NONE)
            continue;
        if (done == WORKED_LAST)
            run_slots(w, finish_slot(w, i));
        return true;
    }
    if (atomic_load_explicit(&x->ready_count, memory_order_relaxed) == 0)
        return false;
    executor_lock(x);
    int i = take_slot(x);
    executor_unlock_wake(x);
    if (i < 0)
        return false;
    worker_resume(w);
    run_slots(w, i);
    return true;
}

/* ---- idle ---- */

static void add_wait(worker *w, int64_t until_ns)
{
    int64_t waited = until_ns - w->wait_since;
    if (w->wait_since && waited > 0)
        atomic_fetch_add_explicit(&w->wait_ns, waited, memory_order_relaxed);
    w->wait_since = 0;
}

/* Counts time as waiting while the last task that w had a part in is not over. */
static void note_wait(worker *w)
{
    if (w->part_slot < 0)
        return;
    executor *x = w->x;
    uint64_t open = atomic_load_explicit(&x->open, memory_order_relaxed);
    bool same = (open >> w->part_slot & 1) &&
                atomic_load_explicit(&x->slots[w->part_slot].serial, memory_order_relaxed) == w->part_serial;
    int64_t now = clock_fast_ns();
    if (same && w->wait_since)
        return;
    if (same) {
        w->wait_since = now;
        return;
    }
    add_wait(w, now);
    w->part_slot = -1;
}

void worker_resume(worker *w)
{
    w->spins = w->yields = 0;
    w->idle_since = 0;
    w->part_slot = -1;
    if (w->wait_since)
        add_wait(w, clock_fast_ns());
}

/* Locked: is there a tile to claim, or will there be in a moment? */
static bool tiles_left(executor *x)
{
    for (uint64_t taken = x->taken; taken; taken &= taken - 1) {
        slot *s = &x->slots[__builtin_ctzll(taken)];
        /* Published before `opening` is cleared, and so seen by the loop below. */
        if (atomic_load_explicit(&s->opening, memory_order_acquire))
            return true;
        int shares = atomic_load_explicit(&s->shares, memory_order_relaxed);
        for (int j = 0; j < shares; j++) {
            uint64_t w = atomic_load_explicit(&s->share[j], memory_order_relaxed);
            if ((uint32_t)w < (uint32_t)(w >> 32))
                return true;
        }
    }
    return false;
}

static void worker_sleep(worker *w)
{
    executor *x = w->x;
    executor_lock(x);
    bool awake = x->ready.count > 0 || tiles_left(x) || atomic_load(&x->stop) || !may_take(w);
    int word = atomic_load(&x->wake_word);
    if (!awake) {
        x->sleepers++;
        x->host_sleeps |= w->index == 0;
    }
    executor_unlock(x);
    if (!awake) {
        futex_wait(&x->wake_word, word);
        executor_lock(x);
        if (atomic_load(&x->wake_word) == word)
            x->sleepers--; /* woken by a signal of the system, not by us */
        executor_unlock(x);
    }
    w->spins = w->yields = 0;
    w->idle_since = 0;
}

void worker_idle(worker *w)
{
    if (w->spins < SPINS) {
        thread_pause();
        if (++w->spins % SPINS_PER_LOOK == 0)
            note_wait(w);
        return;
    }
    note_wait(w);
    int64_t now = clock_fast_ns();
    if (w->idle_since == 0)
        w->idle_since = now;
    if (now - w->idle_since < SLEEP_AFTER_NS && w->yields++ < YIELDS)
        sched_yield();
    else
        worker_sleep(w);
}

static void park(worker *w)
{
    executor *x = w->x;
    int word = atomic_load(&x->park_word);
    if (w->index < atomic_load(&x->active) || atomic_load(&x->stop))
        return;
    atomic_fetch_add(&x->parked, 1);
    futex_wait(&x->park_word, word);
    atomic_fetch_sub(&x->parked, 1);
}

void worker_warm_stack(void)
{
    enum { DEEPEST = 128 << 10, SYSTEM_PAGE = 4096 };
    volatile char stack[DEEPEST];
    for (int at = 0; at < DEEPEST; at += SYSTEM_PAGE)
        stack[at] = 0;
    (void)stack[0];
}

void *worker_main(void *arg)
{
    worker_warm_stack();
    worker *w = arg;
    executor *x = w->x;
    while (!atomic_load_explicit(&x->stop, memory_order_relaxed)) {
        if (w->index >= atomic_load_explicit(&x->active, memory_order_relaxed))
            park(w);
        else if (!worker_turn(w))
            worker_idle(w);
    }
    return NULL;
}

int executor_sleeping(executor *x)
{
    executor_lock(x);
    int n = x->sleepers + atomic_load(&x->parked);
    executor_unlock(x);
    return n;
}
