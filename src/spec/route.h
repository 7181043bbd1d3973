/* route.h: can the round replay? One decision per round, for its phases and all ranks, with a reason for every no.
 *
 *   each rank   sizes ─▶ MAX over ranks ─▶ the same keys ─▶ its graphs: found or captured ─▶ can ─▶ MIN over ranks
 *
 * Ranks meet in collectives inside their graphs, so one that ran eagerly would call them in another order: all of them
 * replay a part of the round, or none does. One that has less to do replays the tier of the one that has most; one that has
 * nothing replays it empty, and stands against nothing. Who reads a prompt has sizes that are no tiers: it brings none,
 * and refuses. Today there is one rank.
 * Threads: the host thread.
 */
#ifndef FORAY_SPEC_ROUTE_H
#define FORAY_SPEC_ROUTE_H

#include "spec/graphs.h"
#include "spec/plan.h"

/* What ranks compare by MAX. */
enum { ROUTE_VERIFIES, ROUTE_SLOTS, ROUTE_ROWS, ROUTE_DRAFTS, ROUTE_EXTENDED, ROUTE_SIZES };

typedef struct {
    bool graphs;       /* any at all */
    unsigned families; /* bits 1 << graph_family: those that are wanted */
} route_rules;

typedef struct {
    int32_t most[ROUTE_SIZES];
    int32_t can[ROUTE_PARTS]; /* 1: this rank would replay; after route_agree: all do */
    route_reason why[ROUTE_PARTS];
    graph *replay[ROUTE_PARTS]; /* NULL: eager */
    int live[ROUTE_PARTS];      /* rows that it ran on: route_count */
} route;

/* What decides and captures; borrowed. */
typedef struct {
    const route_rules *rules;
    graphs *graphs;
    stream *stream;
    const drafter *drafter;
    int (*launch)(void *user, graph_family f, foray_error *err); /* enqueues that phase of the plan */
    void *user;
} route_maker;

/* Can it replay? Fills the route and the plan's: each part's graph, captured where it is the first of its key, or why
 * there is none. The plan's sizes become those of all ranks. hook: somebody asked for eager. */
int route_decide(route *r, const route_maker *m, round_plan *p, bool hook, foray_error *err);
/* After the round: counts its parts, by family. A round that reads a prompt is of no family. */
void route_count(route *r, graphs *g, const round_plan *p);

/* ---- the steps of route_decide ---- */

/* Starts a route: the sizes of this rank's plan. */
void route_ask(const round_plan *p, route *out);
/* MAX over ranks. */
int route_agree_sizes(const communicator *c, stream *s, route *r, foray_error *err);
/* The plan takes the sizes that were agreed on. */
void route_bind(const route *r, round_plan *p);

/* Does this part run in the plan's round? */
bool route_runs(const round_plan *p, int part);
/* The key of a part of the plan. owner: the drafter. */
graph_key route_key(const round_plan *p, int part, const void *owner);
/* What stands against replaying a part, whatever graphs there are. hook: somebody asked for eager. */
route_reason route_refuse(const route_rules *rules, const round_plan *p, const graph_key *k, bool hook);

/* MIN over ranks of can[]; what only others refuse gets the reason ROUTE_RANKS. */
int route_agree(const communicator *c, stream *s, route *r, foray_error *err);
void route_settle(route *r); /* route_agree's second half: can[] is agreed on, the reasons follow */

/* "graph:4x16" or "eager:memory"; "" where the part does not run. text: [PLAN_ROUTE_BYTES] */
void route_text(const round_plan *p, int part, route_reason why, char *text);

#endif
