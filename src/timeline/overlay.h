/* overlay.h: a timeline of what was analysed, with the critical path marked, for Perfetto or chrome://tracing. */
#ifndef FORAY_TIMELINE_OVERLAY_H
#define FORAY_TIMELINE_OVERLAY_H

#include "timeline/report.h"

/* Writes path: per rank a process with its steps and the critical path on top, and its streams below. Times count from the
 * earliest event, in microseconds with three decimals, so that no viewer loses a digit. */
int overlay_write(const report *r, const char *path, foray_error *err);

#endif
