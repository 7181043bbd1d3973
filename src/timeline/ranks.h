/* ranks.h: several ranks of one job: how their clocks stand to each other, and who waited for whom.
 *
 * A collective ends on all its ranks at nearly the same moment, so the ends of equal ones give the offset of the
 * clocks: their median, with the median deviation as its uncertainty. Without at least MIN_PAIRS of them nothing is aligned and
 * the report says so. Threads: one at a time.
 */
#ifndef FORAY_TIMELINE_RANKS_H
#define FORAY_TIMELINE_RANKS_H

#include "timeline/analysis.h"

/* Fills the clock fields of every analysis, against the first one that has collectives. ENOMEM only. */
int ranks_align(analysis *list, size_t count, foray_error *err);

#endif
