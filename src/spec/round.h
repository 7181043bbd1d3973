/* round.h: one round: draft, pack, verify, accept, publish, commit. The only loop step there is: plain decoding is a
 * round without drafts, reading a prompt is a round with many pending tokens.
 *
 *   plan stream   A: plan ─┐      A: plan_extend ────────────────────────┐
 *   main          ………………… └▶ begin ─▶ draft ─▶ B: pack ─▶ verify ─▶ C: accept ─▶ publish ─▶ commit ─▶ draft-extend
 *   host          plans and launches round n + 1 …………………… reads what round n published
 *
 * The host is one round ahead: it never waits for a value of the device to plan the next round, but works from bounds
 * (ahead.h); who has finished, and how much is drafted, the device decides. The parts are graphs per (phase, slots, rows)
 * tier, or the same launches made eagerly, with the reason said. Every boundary is stamped on one clock, so that the
 * parts of a round sum to its wall time exactly (design.md P4).
 * Threads: the host thread.
 */
#ifndef FORAY_SPEC_ROUND_H
#define FORAY_SPEC_ROUND_H

#include "model/model.h"
#include "spec/accept.h"
#include "spec/budget.h"
#include "spec/plan.h"
#include "spec/route.h"

typedef struct round_loop round_loop;

enum { ROUND_AHEAD = 2 }; /* rounds in flight at most */

/* Tests put decisions of their own in place of the round's. Any member may be NULL. keep runs on the device, and sees of
 * m the sequence, chunk, draft_room and draft. */
typedef struct {
    void *user;
    int (*keep)(void *user, const plan_member *m);  /* drafts to verify, 0 … m->draft.count */
    bool (*eager)(void *user, const round_plan *p); /* true: do not replay */
    bool (*pause)(void *user, const round_plan *p); /* true: a drafter of the device does not extend */
    void (*before_draft)(void *user, const round_plan *p, drafter **d); /* may change the drafter */
} round_hooks;

typedef struct {
    device *device;
    const model *model;
    cache *cache;
    drafter *drafter;             /* NULL: plain decoding. Borrowed */
    int spec_tokens, spec_budget; /* most drafts per request; -1: by measured cost */
    accept_rule accept;           /* what a drafter of the device was opened for */
    int max_requests, prefill_chunk;
    int multi_stream_rows; /* decode and verify passes of so many rows use the model's side streams */
    route_rules rules;     /* which phases replay graphs */
    size_t graph_bytes;    /* bounds all graphs together; 0: no limit */
    bool
        fixed_width; /* --verify static: rounds launch the same rows for every request, whatever is drafted */
    bool unfolded;   /* accept, publish and commit are launched behind the verify graph, not in it */
    bool one_stream; /* part A is planned on the main stream */
} round_config;

/* Rows of the largest pass of rounds with such prompt chunks: what a cache's rings must be able to hold beyond what is
 * read. */
int round_most_rows(int prefill_chunk);

int round_create(const round_config *config, round_loop **out, foray_error *err);
void round_destroy(round_loop *r);
void round_set_hooks(round_loop *r, const round_hooks *hooks);

/* Times rounds of count row counts in turn (interleaved, so that a disturbance hits all alike), `repeats` times:
 * ns[i * repeats + k] is the k-th round of rows[i] rows, on the device's clock. scratch: a request of its own slot, of
 * which the prompt is read first; it needs a script of at least the most rows - 1, and the script drafter in the round
 * meanwhile (round_set_drafter). It is put back after each round. Nothing else may be in flight. */
int round_time_rows(round_loop *r, sequence *scratch, const int *rows, int count, int repeats, double *ns,
                    foray_error *err);
/* The same for a few numbers of rows and of requests, scratch[0 … requests), whose prompts have been read, each of its own slot, in about limit_ns: what
 * they take goes to the budget. */
int round_measure_costs(round_loop *r, sequence *const *scratch, int requests, int most_drafts,
                        int64_t limit_ns, foray_error *err);
/* Times rounds of the drafter of the device that is set, with 1 … most drafts and some numbers of requests in turn, after the
 * rows have been timed: what it takes goes to the budget. scratch as above, but that they need no script. */
int round_measure_chain(round_loop *r, sequence *const *scratch, int requests, int most_drafts,
                        int64_t limit_ns, foray_error *err);
/* The round's budget, for who measures and for tests. Rounds in flight go on with what they were given. */
budget *round_edit_budget(round_loop *r);
/* Whether the budget may probe: not while rounds are compared with each other. */
void round_set_probing(round_loop *r, bool on);
/* That many drafts per request from now on; -1: by cost. Returns what it was. */
int round_set_budget(round_loop *r, int fixed);
/* The drafter from now on (NULL: none). Borrowed. */
void round_set_drafter(round_loop *r, drafter *d);
drafter *round_get_drafter(const round_loop *r);

/* Where the time of a round went, on one clock. Each moment ends the phase that stands beside it. */
typedef struct {
    int64_t begin;     /* the host starts on the round */
    int64_t planned;   /* plan: the host has launched it */
    int64_t drafting;  /* host_gap: the device begins it */
    int64_t drafted;   /* draft */
    int64_t packed;    /* plan: B */
    int64_t verified;  /* the forward phase: prefill, decode or target_verify */
    int64_t published; /* accept */
    int64_t committed; /* commit: the sequences have grown */
    int64_t extended;  /* draft_extend: the device is done with the round */
    int64_t returned;  /* the host knows */
    bool waited;       /* begin lies behind the end of the round before: the host had to know it */
} round_times;

/* A slot is handed out: what the drafter keeps of its last text does not hold for the next. Before its first round, and
 * whenever a sequence is put back. None of its rounds is in flight. */
void round_open_slot(round_loop *r, int slot);

/* Starts a round's plan; the caller adds members with round_add, then launches it. Fewer than ROUND_AHEAD are in flight. */
void round_begin(round_loop *r);
/* chunk: pending tokens to compute; speculate: whether drafts are wanted. */
int round_add(round_loop *r, sequence *s, int chunk, bool speculate, foray_error *err);
/* Plans part A, reserves the cache from upper bounds and launches everything; waits for nothing. On an error the round
 * has not been, those in flight have run, and the sequences of its members are lost. */
int round_launch(round_loop *r, foray_error *err);
int round_in_flight(const round_loop *r);
/* Rounds that should be in flight while there is work: ROUND_AHEAD, or 1 for who looks at the device between rounds. */
int round_ahead(const round_loop *r);
void round_set_ahead(round_loop *r, int rounds);
/* Waits for the oldest round in flight: its plan says what came of it, and the surplus of its reservation is given
 * back. */
int round_retire(round_loop *r, foray_error *err);
/* Both, where nothing else is in flight. */
int round_run(round_loop *r, foray_error *err);
/* Waits until the device is idle. Rounds in flight are still to be retired. */
void round_settle(round_loop *r);

/* What is known of a text with rounds in flight: tokens computed behind them, unless it has finished. */
typedef struct {
    int32_t least, most;
} round_bounds;
round_bounds round_known(round_loop *r, const sequence *s);

/* Of the round that was retired last, until ROUND_AHEAD more are begun. */
const round_plan *round_get_plan(const round_loop *r);
const round_times *round_get_times(const round_loop *r);
const route *round_get_route(const round_loop *r);
const budget *round_get_budget(const round_loop *r);
/* It has taken so long, from the publish before to its own: refreshes the budget's tables. Of real rounds that somebody waited
 * for, not of measuring ones. */
void round_observe(round_loop *r, int64_t wall_ns);

/* The most rows that rounds of so many requests have when nobody reads a prompt. */
int round_upper_rows(const round_loop *r, int requests);
/* Captures what a round with these bounds replays: tiers of requests and rows; with a drafter of the device, drafts (0:
 * none) and the tier of extended rows. What is refused is said, and is no error. Nothing may be in flight. */
int round_capture(round_loop *r, int requests, int rows, int drafts, int extended, foray_error *err);
/* The same for the usual rounds of up to so many requests and drafts of each, from the largest down: round_capture.c.
 * progress may be NULL. */
int round_capture_usual(round_loop *r, int requests, int drafts,
                        void (*progress)(void *user, const char *what, uint64_t done, uint64_t total),
                        void *user, foray_error *err);
/* The same for every round of so many requests that reads no prompt, the unusual ones too. */
int round_capture_all(round_loop *r, int requests, foray_error *err);
/* The graphs captured so far, as JSON (spec/graphs.h). */
void round_graphs_json(const round_loop *r, buf *out);
uint64_t round_graph_bytes(const round_loop *r);
pass *round_pass(round_loop *r);
stream *round_stream(round_loop *r);
/* What became of a family of graphs so far. */
const graph_counters *round_graph_counters(const round_loop *r, graph_family f);
/* So far: replayed and eager runs of the target without a prompt, captures of any family; rounds, and those that were planned
 * when none was in flight, so that the host knew all about the round before. */
typedef struct {
    int64_t replays, captures, eager, rounds, waited;
} round_counters;
round_counters round_get_counters(const round_loop *r);

#endif
