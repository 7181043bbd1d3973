/* round_internal.h: what a round loop consists of, and what its files offer each other: round.c begins and ends rounds,
 * round_plan.c decides, round_launch.c enqueues, round_kernels.c holds what runs on the device. For those alone.
 */
#ifndef FORAY_SPEC_ROUND_INTERNAL_H
#define FORAY_SPEC_ROUND_INTERNAL_H

#include "device/fork.h"
#include "spec/ahead.h"
#include "spec/round.h"

/* Rounds whose device made no more drafts than so many, one after another, tell the host to launch no more. */
enum { ROUND_WANTED = 8 };

/* What a kernel of the plan stream is given: the host keeps the plan as it is until its round is over. */
typedef struct {
    const round_plan *plan;
    const plan_parts *parts;
} plan_staged;

struct round_loop {
    round_config config;
    round_hooks hooks;
    stream *stream, *planner; /* planner == stream: config.one_stream */
    fork_streams *fork;       /* NULL: the model has no side streams, or is not to use them */
    /* Each says that a part of the plan has been written, or that a round has read it for the last time. */
    event *given_ready, *given_read, *extension_ready, *extension_read;
    event *done[ROUND_AHEAD]; /* by round */
    graphs *graphs;
    pass pass;
    plan_parts parts; /* device memory */
    budget budget;
    int max_rows, max_decode_rows; /* of any round; of a round without a prompt */

    /* By round, two in turn: what is being planned or in flight, and what ended last. */
    round_plan plan[ROUND_AHEAD];
    plan_staged staged[ROUND_AHEAD];
    route route[ROUND_AHEAD];
    round_times times[ROUND_AHEAD];
    int64_t launched, retired; /* rounds so far; the next one's number is launched + 1 */
    int in_flight;             /* wanted */
    ahead *ahead;              /* [slots of the cache] */
    round_counters counters;
    /* Of the round that was retired last; of the one before it, which lies in the last one's wall. */
    int64_t extend_ns, extend_before_ns;
    int wanted
        [ROUND_WANTED]; /* drafts that the last rounds would have made if the host had allowed for them */
    int wanted_at;

    /* Device memory, by head row: what the sampler reads and writes. */
    int32_t *sample_position, *token;
    float *logprob;
    const sample_params **params;
    sample_history *history;
};

static inline round_plan *round_plan_of(round_loop *r, int64_t round)
{
    return &r->plan[round % ROUND_AHEAD];
}

/* A drafter of the device: it says when it makes its drafts how many are worth making, and all of them are verified. */
static inline bool drafts_on_device(const drafter *d)
{
    return d && !d->propose;
}

/* The plan that is being made. */
static inline round_plan *round_planning(round_loop *r)
{
    return round_plan_of(r, r->launched + 1);
}

/* ---- round_plan.c ---- */

/* Bounds of the launches and the route, of the members that have been added. */
int round_plan_bounds(round_loop *r, foray_error *err);
/* Upper bounds of the launches: the tiers, and the longest sequence there can be. */
void round_set_bounds(round_loop *r, int requests, int rows);
/* The route of what is planned. hook: somebody wants the round to run eagerly. */
int round_decide(round_loop *r, bool hook, foray_error *err);
/* Pages, from upper bounds: what turns out not to be needed is given back when the round is over. */
int round_reserve(round_loop *r, foray_error *err);

/* ---- round_launch.c ---- */

/* All of the round that is planned. */
int round_launch_parts(round_loop *r, foray_error *err);
/* A phase of the plan, as a graph holds it or as it runs eagerly; user: the round loop. */
int round_launch_family(void *user, graph_family f, foray_error *err);
/* What tasks launched from now on are recorded as: a phase of the round that is being planned. */
void round_mark(round_loop *r, phase of, int rows);

/* ---- round_kernels.c: launches of the kernels of class host, in the order of a round ---- */

int round_launch_plan(round_loop *r, int64_t round, foray_error *err); /* these two on the plan stream */
int round_launch_plan_extend(round_loop *r, int64_t round, foray_error *err);
int round_launch_begin(round_loop *r, bool proposes,
                       foray_error *err); /* and the drafts of a drafter of the host */
int round_launch_pack(round_loop *r, foray_error *err);
int round_launch_accept(round_loop *r, int rows, foray_error *err); /* accept, publish, commit */

#endif
