/* path.h: the critical path of each step of a group. Threads: one per analysis. */
#ifndef FORAY_TIMELINE_PATH_H
#define FORAY_TIMELINE_PATH_H

#include "timeline/analysis.h"
#include "timeline/host_side.h"
#include "timeline/host_waits.h"

/* Lays down the path of a's steps, and checks that the parts of each add up. */
int path_walk(analysis *a, const rules *r, const host_side *h, const host_waits *w, foray_error *err);

#endif
