/* records.h: step records beside a profile, or in its place.
 *
 * Records carry no time of day: they are laid against a profile's steps by order, at the offset where durations and numbers
 * of requests agree best, and the residual is part of the answer. Alone they make an analysis of their own, without
 * tasks and path. Threads: one at a time.
 */
#ifndef FORAY_TIMELINE_RECORDS_H
#define FORAY_TIMELINE_RECORDS_H

#include "timeline/analysis.h"
#include "timeline/steps_file.h"

/* Finds the offset and fills the commit lengths of a's steps. Says in a->records what it found. ENOMEM only. */
int records_align(analysis *a, const steps_file *f, int rank, foray_error *err);

/* An analysis of the records of one rank alone; s lends its names. */
int records_analyse(store *s, const settled *t, const steps_file *f, int rank, analysis *out,
                    foray_error *err);

#endif
