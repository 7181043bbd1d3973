/* cycle.h: one steady cycle of a graph-mode trace in a few lines, as an engineer would tabulate it by hand: the cycle, the
 * host's span, launches outside graphs, and for each graph its nodes, launch call, span, busy time and sum.
 */
#ifndef FORAY_TIMELINE_CYCLE_H
#define FORAY_TIMELINE_CYCLE_H

#include "timeline/analysis.h"

/* More replays of a phase in a step than CYCLE_PIECES are the pieces of one pass: they make one line. */
enum { CYCLE_GRAPHS = 12, CYCLE_PIECES = 6 };

/* Medians over the kept steps that have replays; where none has, over all that have. */
typedef struct {
    uint8_t phase;
    int place; /* which replay of this phase within a step, from 0; -1: all of them, as pieces of one pass */
    size_t steps;
    int64_t pieces; /* replays in it */
    int64_t nodes, launch_ns, span_ns, busy_ns, sum_ns;
} cycle_graph;

typedef struct {
    size_t steps; /* that were measured; 0: no graph-mode trace */
    bool kept;    /* they are in the medians of the report; else each was left out for some reason */
    int64_t wall_ns;
    int64_t host_ns; /* from the first launch call of a step to the end of its last */
    int64_t eager_launches;
    cycle_graph graph[CYCLE_GRAPHS]; /* in the order in which they first run in a step */
    size_t graphs;
} graph_cycle;

/* ENOMEM only. */
int cycle_measure(const analysis *a, graph_cycle *out, foray_error *err);

#endif
