/* executor_internal.h: what executor.c (edges, readiness, completion) and worker.c (threads, slots, tiles,
 * sleep) share. Nobody else includes it.
 *
 * Locked: everything marked so is read and written under `lock` only. A slot belongs to the worker that took
 * it until its shares are published, then to all until the last tile is counted, then to the worker that
 * counted it.
 */
#ifndef FORAY_DEVICE_CPU_EXECUTOR_INTERNAL_H
#define FORAY_DEVICE_CPU_EXECUTOR_INTERNAL_H

#include "device/cpu/executor.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "base/thread.h"
#include "device/cpu/ready.h"
#include "device/cpu/throttle.h"
#include "device/cpu/waits.h"

/* A task whose tiles are being run. Every worker is inside at most one, so there are as many as workers. */
typedef struct {
    _Alignas(64) task *task;
    int tiles;
    int step, shift;         /* tests: tile i stands for (step i + shift) mod tiles */
    _Atomic int opening;     /* taken, shares not yet published */
    _Atomic int shares;      /* >= 1 */
    _Atomic uint64_t serial; /* of the opening: what a worker's scratch was prepared for */
    _Atomic int done;        /* tiles run and counted */
    /* Low half: next tile; high half: end. Empty when next >= end, as after every task. */
    _Alignas(64) _Atomic uint64_t share[EXECUTOR_MAX_THREADS];
} slot;

typedef struct {
    _Alignas(64) executor *x;
    int index;
    pthread_t thread;
    uint8_t *scratch;
    uint64_t prepared;        /* serial that scratch was prepared for */
    const _Atomic int *until; /* the host: takes no new task once this is 0; NULL for the others */
    int spins, yields;        /* since it last had work */
    int64_t idle_since;
    /* Time spent waiting for others at the end of a task in which it ran tiles. */
    int part_slot; /* -1: none */
    uint64_t part_serial;
    int64_t wait_since; /* 0: not waiting */
    _Atomic int64_t wait_ns;
} worker;

struct executor {
    /* What idle workers watch: written only when there is something for them, since every write takes the line from
     * those who watch. */
    _Alignas(64) _Atomic uint64_t open; /* bit per slot whose tiles are shared out */
    _Atomic int ready_count;            /* of the heap, as of the last unlock */

    _Alignas(64) _Atomic int lock;
    ready_heap ready; /* locked */
    uint64_t taken;   /* locked: bit per slot that is in use */
    queued *freed;    /* locked: launches that are over */
    uint64_t tickets; /* locked */
    uint64_t serials; /* locked */
    uint64_t draws;   /* locked: of the scripted order */
    int sleepers;     /* locked: workers in, or on their way into, a sleep */
    bool host_sleeps; /* locked: so a completion has to wake it */
    bool wake;        /* locked: somebody is to be woken after the unlock */

    _Alignas(64) _Atomic int in_flight; /* launches not done */
    _Atomic int store_empty;            /* 1: the host waits for a launch to be over */
    _Atomic int active;
    _Atomic int stop;
    _Atomic int wake_word, park_word; /* futexes */
    _Atomic int parked;               /* workers that wait to be active again */
    _Atomic(ring *) records;

    int threads;
    uint64_t shuffle_seed;
    worker *workers; /* [threads] */
    slot *slots;     /* [threads] */
    queued *store;   /* [store_count] */
    int store_count;
    int node_capacity;
    size_t scratch_bytes; /* per worker */

    /* The host's. */
    queued *free;
    throttle throttle;
    int64_t step_start_ns, step_wait_ns;

    _Alignas(64) wait_sums waits; /* locked: its rounds; the tallies are the host's */
};

static inline void executor_lock(executor *x)
{
    int spins = 0;
    while (atomic_exchange_explicit(&x->lock, 1, memory_order_acquire)) {
        while (atomic_load_explicit(&x->lock, memory_order_relaxed)) {
            thread_pause();
            if (++spins % 256 == 0)
                sched_yield(); /* the holder may have lost its core */
        }
    }
}

static inline void executor_unlock(executor *x)
{
    atomic_store_explicit(&x->lock, 0, memory_order_release);
}

/* Locked: t's work is over. Frees what waited for it; launches that are over go to `freed`. */
void executor_complete(executor *x, task *t, int64_t now);
/* Locked: takes note that sleepers must be woken; unlock with executor_unlock_wake then. */
void executor_rouse(executor *x);
/* Tells how many tasks are ready, unlocks, then wakes those who sleep if somebody asked for it. */
void executor_unlock_wake(executor *x);

/* The next number of the scripted order. Locked. */
uint32_t executor_draw(executor *x);

/* worker.c: the body of a worker thread, one turn of the host, and what the host does when there is none. */
void *worker_main(void *arg);
/* Sees to it that memory stands behind the caller's stack as deep as kernels go: the first one of a kind that a thread happens
 * to run, in the middle of a text, then costs no page fault. */
void worker_warm_stack(void);
bool worker_turn(worker *w);
void worker_idle(worker *w);
void worker_resume(worker *w);
void worker_wake_parked(executor *x);

#endif
