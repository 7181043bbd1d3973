/* clock.h: time. One monotonic clock in integer nanoseconds, and its fast twin: the processor's
 * time-stamp counter, calibrated against it (where the counter is not invariant the twin is the clock).
 *
 * Tests may put a clock of their own in its place. Threads: any; set before threads start.
 */
#ifndef FORAY_BASE_CLOCK_H
#define FORAY_BASE_CLOCK_H

#include <stdint.h>

/* Nanoseconds since some fixed point; never goes back. */
int64_t clock_ns(void);

/* The same clock, read in a few nanoseconds. Off by less than 1 us against clock_ns. */
int64_t clock_fast_ns(void);

/* What the fast clock counts by: read in half its time, for differences, which clock_ticks_to_ns turns into nanoseconds.
 * Loads and stores around it may move past it. */
int64_t clock_ticks(void);
int64_t clock_ticks_to_ns(int64_t ticks);

/* Replaces all of them by now(user), or restores the real ones with NULL. */
void clock_set(int64_t (*now)(void *user), void *user);

#endif
