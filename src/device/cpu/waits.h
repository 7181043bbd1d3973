/* waits.h: how long streams stood still for events of other streams, round by round.
 *
 * A tally adds up what one stream waited for one event of another: its joins, and their time. Every round has its own
 * sums, in the place of the round DEVICE_WAIT_ROUNDS before it:
 *
 *      round    … 8 │ 9 │ 10 │ 11        tally   1: main for kv of kv      31 joins, 5300 ns
 *      place      0   1    2    3                2: kv for kv of main      31 joins, …
 *
 * Fixed memory, no clock: times have the unit they come in. Threads: the host opens tallies and names them; sums are added
 * and taken one at a time (the executor's lock).
 */
#ifndef FORAY_DEVICE_CPU_WAITS_H
#define FORAY_DEVICE_CPU_WAITS_H

#include "device/device.h"

enum { WAIT_TALLIES = 64 }; /* the last one adds up all that found no other */

typedef struct {
    int64_t round;
    int joins[WAIT_TALLIES];
    int64_t ticks[WAIT_TALLIES];
} wait_round;

typedef struct {
    device_wait tally[WAIT_TALLIES]; /* their names; [0 … count) are open */
    int count;
    wait_round round[DEVICE_WAIT_ROUNDS];
} wait_sums;

/* The number, from 1, of the tally of these names (of a stream, an event and its stream), which are borrowed; opens it where
 * there is none yet. */
int waits_tally(wait_sums *w, const char *waiting, const char *awaited, const char *from);

/* Adds a join to a tally of waits_tally. Less than none, what came too early, is no wait. */
void waits_add(wait_sums *w, int64_t round, int tally, int64_t ticks);

/* As device_take_waits, in the unit of waits_add. */
int waits_take(wait_sums *w, int64_t round, device_wait *out, int most);

#endif
