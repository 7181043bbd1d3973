/* what_if.h: the tasks of a group run again, unchanged or with one thing imagined away.
 *
 * Threads: rerun_unchanged may go beside whatever leaves the graph and the waits alone; else one at a time.
 */
#ifndef FORAY_TIMELINE_WHAT_IF_H
#define FORAY_TIMELINE_WHAT_IF_H

#include "timeline/analysis.h"
#include "timeline/host_waits.h"

typedef struct rerun rerun;

/* Makes ready; borrows a and w. *out is owned, and NULL where there are no tasks. */
int rerun_open(const analysis *a, const host_waits *w, rerun **out, foray_error *err);
void rerun_close(rerun *r);
/* Runs everything with nothing changed: what comes out differently says how far what-ifs can be trusted. */
void rerun_unchanged(rerun *r);
/* Behind that and the figures: a's what_ifs, and the error of the unchanged run. */
int what_if_try(analysis *a, rerun *r, foray_error *err);

#endif
