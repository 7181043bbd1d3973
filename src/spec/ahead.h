/* ahead.h: what the host knows of a slot's text while rounds of it may still run: bounds.
 *
 *      launched   ……… round 6 │ round 7   round 8        computed, behind round 8:  least … most
 *      known      ────────────┘                          exact again when nothing is in flight
 *
 * A round adds at least one token and at most one more than its drafts; a prompt grows by what the host said. Whether a
 * request has finished the host need not know: its bounds then lie beyond what will be. The same for the rows of a drafter
 * of the device. Pure. Threads: the host thread.
 */
#ifndef FORAY_SPEC_AHEAD_H
#define FORAY_SPEC_AHEAD_H

#include "spec/plan.h"

typedef struct {
    int32_t in_flight;   /* rounds */
    int32_t least, most; /* tokens computed behind them, unless the sequence has finished */
    int32_t done_least;  /* rows of the drafter, at least */
    bool ready;          /* it has all rows that it can have, and drafts for the newest token */
} ahead;

/* The slot begins a new text, or an earlier place of one. */
void ahead_open(ahead *a);
/* Before s is planned for: exact where nothing is in flight. */
void ahead_look(ahead *a, const sequence *s);

/* How much a round grows the text by: fills m->least and m->most from its chunk and draft_room. */
void ahead_growth(const ahead *a, plan_member *m);
/* Most drafts that could be delivered. */
int ahead_draft_room(const ahead *a, const sequence *s);
/* The drafter's rows that are owed before m's round, and those that an extend behind it makes; at most. */
int ahead_owed(const ahead *a, const drafter *d, const sequence *s);
int ahead_extends(const ahead *a, const drafter *d, const plan_member *m);

/* m's round is launched. extend_room: rows that its extend has for it (0: it does not extend). */
void ahead_launch(ahead *a, const drafter *d, const plan_member *m, int extend_room);
/* m's round is over. later: the member of the one round that is still in flight, or NULL. */
void ahead_retire(ahead *a, const plan_member *m, const plan_member *later);

#endif
