/* dump.h: debug dumps of captured graphs (ACL) beside a profile: which record each wait of a replay waits for.
 *
 * A dump has names, streams and event handles and no times; a profile has times and no handles. Each replay is laid over each
 * dump, by model, stream and task number where the profile keeps them, else by the order of names on each stream. Where it
 * fits, the graph's edges become those of the replay's tasks; where the times contradict them it does not fit.
 * Threads: one at a time.
 */
#ifndef FORAY_TIMELINE_DUMP_H
#define FORAY_TIMELINE_DUMP_H

#include "timeline/task_graph.h"

/* Lays every dump of s over every replay of g, sets the causes of tasks and says in g->dumps what came of it. ENOMEM only. */
int dump_join(const store *s, task_graph *g, foray_error *err);

/* Does a task's name say what a node of a dump is called? Kernels bear their symbol in the one, their operator in the other. */
bool dump_names_alike(const char *node, const char *task_name);

#endif
