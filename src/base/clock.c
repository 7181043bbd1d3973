/* clock.c: the monotonic clock and its fast twin.
 *
 * The twin follows a line through an anchor, (tick, ns, slope), that is renewed from the system's clock
 * whenever the last one is more than a millisecond old; so its error is that of one millisecond at a
 * slope measured over a longer stretch (tens of ns). It never goes back:
 *
 *      ns │          new line starts where the old one ended, and is steeper or flatter for a
 *         │      ╱╱  millisecond until it meets the system's clock again
 *         │   ╱╱
 *         └──┴──────┴──▶ ticks          old anchor · old + 1 ms: nobody reads the old line beyond it
 *
 * The anchor is guarded by a sequence number: odd while it is being renewed. Threads: any.
 */
#include "base/clock.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <time.h>

#include "base/thread.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <x86intrin.h>
#endif

enum {
    SPINS_PER_YIELD = 64,
    ANCHOR_NS = 1000000,     /* how long an anchor serves */
    FIRST_NS = 200000,       /* the first measurement of the slope */
    BASELINE_NS = 1000000000 /* how far back later ones look */
};

/* Tests: workers may be reading the clock while it is replaced. */
typedef int64_t (*clock_function)(void *user);
static _Atomic(clock_function) fake_now;
static _Atomic(void *) fake_user;

static int64_t system_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int64_t clock_ns(void)
{
    clock_function fake = atomic_load_explicit(&fake_now, memory_order_acquire);
    return fake != NULL ? fake(fake_user) : system_ns();
}

void clock_set(int64_t (*now)(void *user), void *user)
{
    if (now != NULL)
        fake_user = user;
    atomic_store_explicit(&fake_now, now, memory_order_release);
}

#if defined(__x86_64__)

/* One tick and the time at which it was read. */
typedef struct {
    uint64_t tick;
    int64_t ns;
} instant;

static _Atomic uint64_t sequence;                  /* odd: being renewed; 0: no anchor yet */
static _Atomic uint64_t anchor_tick, anchor_slope; /* slope: ns per tick, 32.32 fixed point */
static _Atomic uint64_t anchor_ticks;              /* ticks that the anchor serves */
static _Atomic int64_t anchor_ns;
static instant baseline, recent;         /* only whoever renews touches them */
static _Atomic int counter_is_invariant; /* 0: not asked yet; 1: yes; -1: no */

/* Fenced, so that the tick is not read before a load that precedes it in the program. */
static uint64_t read_tick(void)
{
    _mm_lfence();
    return __rdtsc();
}

static bool has_invariant_counter(void)
{
    int known = atomic_load_explicit(&counter_is_invariant, memory_order_relaxed);
    if (known == 0) {
        unsigned a, b, c, d;
        known = __get_cpuid(0x80000007u, &a, &b, &c, &d) && (d & 1u << 8) != 0 ? 1 : -1;
        atomic_store(&counter_is_invariant, known);
    }
    return known > 0;
}

/* Reads both clocks as close together as a few tries allow: a thread may lose its core in between. */
static instant read_both(void)
{
    instant best = { 0, 0 };
    uint64_t best_gap = UINT64_MAX;
    for (int i = 0; i < 4; i++) {
        uint64_t before = read_tick();
        int64_t ns = system_ns();
        uint64_t gap = read_tick() - before;
        if (gap < best_gap) {
            best_gap = gap;
            best = (instant) { before + gap / 2, ns };
        }
    }
    return best;
}

static double slope_between(instant a, instant b)
{
    return (double)(b.ns - a.ns) / (double)(b.tick - a.tick);
}

static int64_t along_line(uint64_t ticks)
{
    return anchor_ns + (int64_t)(ticks * anchor_slope >> 32);
}

static void renew_anchor(void)
{
    instant now;
    int64_t start;
    double slope;
    if (baseline.tick == 0) {
        baseline = read_both();
        do
            now = read_both();
        while (now.ns - baseline.ns < FIRST_NS);
        recent = now;
        start = now.ns;
        slope = slope_between(baseline, now);
    } else {
        now = read_both();
        uint64_t ticks = now.tick - anchor_tick;
        int64_t last = along_line(ticks < anchor_ticks ? ticks : anchor_ticks);
        start = last > now.ns ? last : now.ns;
        slope = slope_between(baseline, now);
        if (now.ns - recent.ns > BASELINE_NS / 2) { /* follows a system clock that is being slewed */
            baseline = recent;
            recent = now;
        }
    }
    /* Being ahead is made good over the life of this anchor. */
    double correction = 1.0 - (double)(start - now.ns) / ANCHOR_NS;
    atomic_store_explicit(&anchor_tick, now.tick, memory_order_release);
    atomic_store_explicit(&anchor_ns, start, memory_order_release);
    atomic_store_explicit(&anchor_ticks, (uint64_t)(ANCHOR_NS / slope), memory_order_release);
    atomic_store_explicit(&anchor_slope, (uint64_t)(slope * (correction > 0 ? correction : 0) * 4294967296.0),
                          memory_order_release);
}

int64_t clock_fast_ns(void)
{
    clock_function fake = atomic_load_explicit(&fake_now, memory_order_acquire);
    if (fake != NULL)
        return fake(fake_user);
    if (!has_invariant_counter())
        return system_ns();
    for (int spins = 1;; spins++) {
        uint64_t seq = atomic_load_explicit(&sequence, memory_order_acquire);
        if (seq & 1) { /* whoever sets the anchor anew may be waiting for this very core */
            if (spins % SPINS_PER_YIELD == 0)
                sched_yield();
            else
                thread_pause();
            continue;
        }
        uint64_t from = atomic_load_explicit(&anchor_tick, memory_order_acquire);
        uint64_t slope = atomic_load_explicit(&anchor_slope, memory_order_acquire);
        uint64_t serves = atomic_load_explicit(&anchor_ticks, memory_order_acquire);
        int64_t ns = atomic_load_explicit(&anchor_ns, memory_order_acquire);
        uint64_t ticks = read_tick() - from;
        if ((int64_t)ticks < 0)
            ticks = 0; /* read on another core, a hair before the anchor */
        if (seq != 0 && ticks <= serves) {
            if (atomic_load_explicit(&sequence, memory_order_relaxed) == seq)
                return ns + (int64_t)(ticks * slope >> 32);
        } else if (atomic_compare_exchange_strong(&sequence, &seq, seq + 1)) {
            renew_anchor();
            atomic_store_explicit(&sequence, seq + 2, memory_order_release);
        }
    }
}

int64_t clock_ticks(void)
{
    clock_function fake = atomic_load_explicit(&fake_now, memory_order_acquire);
    if (fake != NULL)
        return fake(fake_user);
    return has_invariant_counter() ? (int64_t)__rdtsc() : system_ns();
}

int64_t clock_ticks_to_ns(int64_t ticks)
{
    if (atomic_load_explicit(&fake_now, memory_order_acquire) != NULL || !has_invariant_counter())
        return ticks;
    if (atomic_load_explicit(&anchor_slope, memory_order_acquire) == 0)
        (void)clock_fast_ns(); /* sets the first anchor */
    uint64_t slope = atomic_load_explicit(&anchor_slope, memory_order_acquire);
    return (int64_t)((double)ticks * (double)slope / 4294967296.0);
}

#else

int64_t clock_fast_ns(void)
{
    return clock_ns();
}

int64_t clock_ticks(void)
{
    return clock_ns();
}

int64_t clock_ticks_to_ns(int64_t ticks)
{
    return ticks;
}

#endif
