/* edges.h: which task of another stream released a task, and how sure that is. Part of task_graph.c's work. */
#ifndef FORAY_TIMELINE_EDGES_H
#define FORAY_TIMELINE_EDGES_H

#include "timeline/task_graph.h"

/* Fills cause and cause_how of the tasks, and the counts of waits. */
int edges_find(store *s, task_graph *g, foray_error *err);

#endif
