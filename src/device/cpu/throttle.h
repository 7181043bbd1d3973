/* throttle.h: how many workers are worth using while somebody else wants the processor.
 *
 * A kernel ends when its slowest worker does, so one worker that lost its core makes all of them wait: with a
 * busy neighbour on two cores, one thread beats two. The policy is fed with numbers and keeps no clock:
 *
 *   all threads ── wait share > 30 % in 20 steps running ──▶ one fewer
 *        ▲                                                      │ after `interval` steps
 *        └── fewer than 20 bad steps in a row: interval is reset ◀── one more, on trial
 *                          a trial that ends badly: interval doubles (to a ceiling)
 *
 * Pure: no threads, no clock, no allocation.
 */
#ifndef FORAY_DEVICE_CPU_THROTTLE_H
#define FORAY_DEVICE_CPU_THROTTLE_H

#include <stdbool.h>
#include <stdint.h>

enum {
    THROTTLE_SHARE_PERCENT = 30, /* a step is bad above this share of waiting */
    THROTTLE_STEPS = 20,         /* so many bad steps running take a thread away; so many make a trial */
    THROTTLE_INTERVAL = 200,     /* steps until a thread taken away is tried again */
    THROTTLE_INTERVAL_MAX = 6400
};

typedef struct {
    int threads; /* the most */
    int active;  /* 1 … threads */
    int bad;     /* bad steps running */
    int trial;   /* steps left of a trial; 0: none */
    int interval, until_retry;
} throttle;

void throttle_init(throttle *t, int threads);

/* One step took wall_ns, of which workers waited wait_ns for others to finish tiles (summed over the
 * workers). Returns the number of workers to use from now on. A step without time says nothing. */
int throttle_step(throttle *t, int64_t wall_ns, int64_t wait_ns);

#endif
