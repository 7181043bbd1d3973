/* team.c: threads that spin for work, and a barrier by generation counter. See team.h.
 *
 * Between runs a member spins briefly and then sleeps, so that an open team costs nothing; in a barrier it pauses
 * for some tens of microseconds and then yields: a neighbour on the same core makes measurements worse, not endless.
 */
#include "measure/team.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "base/mem.h"
#include "base/thread.h"

enum { MAX_THREADS = 256, PAUSES = 1000, IDLE_YIELDS = 100 };

typedef struct {
    team *t;
    int index;
    pthread_t thread;
} member;

struct team {
    int threads, started; /* started: threads that really run, for close */
    int active;           /* of the current run */
    void (*f)(void *user, int thread);
    void *user;
    _Atomic unsigned run; /* counts runs; the members wait for it to change */
    pthread_mutex_t lock; /* for sleeping until it does */
    pthread_cond_t changed;
    _Atomic int left __attribute__((aligned(64)));
    _Atomic unsigned generation __attribute__((aligned(64)));
    _Atomic int arrived;
    member members[];
};

static size_t team_bytes(int threads)
{
    return sizeof(team) + (size_t)threads * sizeof(member);
}

static void wait_while_equal(_Atomic unsigned *value, unsigned old)
{
    for (int spins = 0; atomic_load_explicit(value, memory_order_acquire) == old; spins++)
        if (spins < PAUSES)
            thread_pause();
        else
            sched_yield();
}

/* As wait_while_equal, but asleep when it takes long. */
static void wait_for_run(team *t, unsigned seen)
{
    for (int spins = 0; spins < PAUSES + IDLE_YIELDS; spins++) {
        if (atomic_load_explicit(&t->run, memory_order_acquire) != seen)
            return;
        if (spins < PAUSES)
            thread_pause();
        else
            sched_yield();
    }
    pthread_mutex_lock(&t->lock);
    while (atomic_load_explicit(&t->run, memory_order_acquire) == seen)
        pthread_cond_wait(&t->changed, &t->lock);
    pthread_mutex_unlock(&t->lock);
}

static void start_run(team *t)
{
    pthread_mutex_lock(&t->lock);
    atomic_fetch_add_explicit(&t->run, 1, memory_order_release);
    pthread_cond_broadcast(&t->changed);
    pthread_mutex_unlock(&t->lock);
}

static void *member_main(void *arg)
{
    member *m = arg;
    team *t = m->t;
    for (unsigned seen = 0;;) {
        wait_for_run(t, seen);
        seen++;
        if (!t->f)
            return NULL;
        if (m->index < t->active)
            t->f(t->user, m->index);
        atomic_fetch_sub_explicit(&t->left, 1, memory_order_release);
    }
}

int team_open(int threads, team **out, foray_error *err)
{
    if (threads < 1 || threads > MAX_THREADS)
        return fail(err, FORAY_EUSAGE, "threads: %d is not between 1 and %d", threads, MAX_THREADS);
    team *t = mem_alloc_zeroed(MEM_GENERAL, team_bytes(threads));
    if (!t)
        return fail(err, FORAY_ENOMEM, "threads: no memory for a team of %d", threads);
    t->threads = threads;
    t->started = 1;
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->changed, NULL);
    for (int i = 1; i < threads; i++) {
        t->members[i] = (member) { .t = t, .index = i };
        if (pthread_create(&t->members[i].thread, NULL, member_main, &t->members[i]) != 0) {
            team_close(t);
            return fail(err, FORAY_ESYSTEM, "threads: the system refused thread %d of %d", i + 1, threads);
        }
        t->started++;
    }
    *out = t;
    return 0;
}

void team_close(team *t)
{
    if (!t)
        return;
    t->f = NULL;
    start_run(t);
    for (int i = 1; i < t->started; i++)
        pthread_join(t->members[i].thread, NULL);
    pthread_cond_destroy(&t->changed);
    pthread_mutex_destroy(&t->lock);
    mem_free(MEM_GENERAL, t, team_bytes(t->threads));
}

int team_threads(const team *t)
{
    return t->threads;
}

void team_run(team *t, int threads, void (*f)(void *user, int thread), void *user)
{
    t->f = f;
    t->user = user;
    t->active = threads < t->threads ? threads : t->threads;
    atomic_store_explicit(&t->left, t->threads - 1, memory_order_relaxed);
    start_run(t);
    f(user, 0);
    for (int spins = 0; atomic_load_explicit(&t->left, memory_order_acquire) > 0; spins++)
        if (spins < PAUSES)
            thread_pause();
        else
            sched_yield();
}

void team_barrier(team *t)
{
    const unsigned generation = atomic_load_explicit(&t->generation, memory_order_relaxed);
    if (atomic_fetch_add_explicit(&t->arrived, 1, memory_order_acq_rel) == t->active - 1) {
        atomic_store_explicit(&t->arrived, 0, memory_order_relaxed);
        atomic_store_explicit(&t->generation, generation + 1, memory_order_release);
        return;
    }
    wait_while_equal(&t->generation, generation);
}
