/* delayed_run.h: runs that are slower in one place by a known amount, and their timelines, for tests of whoever explains them.
 *
 * delayed_engine: the engine's one stream, on a clock that moves only when it is read and when the delayed kernel says so: two runs
 * differ by the delay alone. delayed_fork: two streams on two workers in real time, where flags force the order of their ends.
 * Asserts (cmocka) on errors. Threads: one at a time.
 */
#ifndef FORAY_TESTS_SUPPORT_DELAYED_RUN_H
#define FORAY_TESTS_SUPPORT_DELAYED_RUN_H

#include <stdint.h>

enum {
    DELAY_NS = 200000,
    FORK_ROUNDS = 12 /* fewer than the device watches before it takes a worker away */
};

/* What takes DELAY_NS longer, each time it runs. */
typedef enum { DELAY_NOTHING, DELAY_SAMPLE, DELAY_ATTENTION } delayed_kernel;

/* Forty tokens of a model with n-gram drafts. Returns the path of the timeline, in a folder that goes with the process. */
const char *delayed_engine(const char *model_path, delayed_kernel which);

/* Which ends first in a round: main's task, or side's, which is delayed. */
typedef enum {
    MAIN_ENDS_FIRST,  /* the delay begins behind the main task: all of it is exposed */
    MAIN_ENDS_INSIDE, /* the main task ends in the middle of the delay */
    MAIN_ENDS_LAST    /* the delay is over before: hidden */
} fork_order;

/* Rounds of begin (draft), then main (target_verify) and side (plan) side by side, then publish (accept).
 * delayed[FORK_ROUNDS]: what the delay took by the clock, which may be more than was asked for. */
const char *delayed_fork(fork_order order, int64_t *delayed);

#endif
