/* ranks.h: several ranks of one job: how their clocks stand to each other, who came late to a collective, and in what stage.
 *
 * A collective ends on all its ranks at nearly the same moment, so the ends of equal ones give the offset of the
 * clocks: their median, with the median deviation as its uncertainty. Without at least MIN_PAIRS of them nothing is aligned and
 * the report says so. Threads: one at a time.
 */
#ifndef FORAY_TIMELINE_RANKS_H
#define FORAY_TIMELINE_RANKS_H

#include "timeline/analysis.h"

/* Once all have their tasks: fills the clock fields of every analysis, against the first one that has collectives, and the waits
 * of each collective for the rank that came last. ENOMEM only. */
int ranks_align(analysis *list, size_t count, foray_error *err);

/* Once all have their paths: who was waited for, and what that rank's own path did meanwhile. ENOMEM only. */
int ranks_charge(analysis *list, size_t count, foray_error *err);

/* In which account and which stage the late rank was most of that time (phases). */
void ranks_late_in(const peer_charge *c, int *account, int *stage);

/* The wait for a late peer in which a communication task, or a notify wait inside of one, begins; NULL: none is known. */
const peer_wait *ranks_wait_at(const analysis *a, const task *x);

/* The rank whose notify a wait is for, as the file says it; -1: it does not. */
int ranks_notifier(const analysis *a, const task *x);

#endif
