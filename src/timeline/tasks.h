/* tasks.h: the first part of a task graph: the tasks of a group in order of their start, by their end, and by their stream.
 * Threads: one at a time.
 */
#ifndef FORAY_TIMELINE_TASKS_H
#define FORAY_TIMELINE_TASKS_H

#include "timeline/task_graph.h"

/* Fills g's tasks, by_end, by_lane, lane_first and notes; a task's launch is the link of its call for now. Opens g's calls, and
 * says which links will be asked for. What was made on an error is freed with g. */
int tasks_list(task_graph *g, foray_error *err);

#endif
