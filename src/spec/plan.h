/* plan.h: the plan of one round: what runs, on which rows, by which route; and what came of it.
 *
 * The host fills a round_plan; kernels see only the parts below, in device memory, one of each, by what they read
 * (design.md 4):
 *
 *   A   plan_given      members, bounds, estimates: known before the round. The plan stream writes it under the tail
 *       plan_extension  of the round before, and the geometry of draft-extend under verify
 *   B   plan_packed     what needs the drafts: who runs, drafts, ragged packing, rows of the head
 *   C   plan_accepted   what stands; plan_result[round & 1]: the same for the host, which reads it a round later
 *
 * PLAN_FIELDS names every field's producer and consumers. Ragged packing:
 *
 *   members     0: pending 1, keep 2        1: finished      2: a prompt of 5, chunk 5
 *   rows        last d0 d1                                   p0 p1 p2 p3 p4
 *   head rows   0    1  2                                    7        (5 pending: only the last one)
 *
 * Threads: round_plan by the host; the parts by kernels of class host, as the round's edges order them.
 */
#ifndef FORAY_SPEC_PLAN_H
#define FORAY_SPEC_PLAN_H

#include "model/pass.h"
#include "spec/budget.h"
#include "spec/drafter.h"

enum { PLAN_MAX_MEMBERS = 64, PLAN_ROUTE_BYTES = 32, PLAN_MAX_TOKENS = DRAFT_MAX + 1 };

/* Parts of a round that are replayed or not, each as a whole. */
enum { ROUTE_TARGET, ROUTE_DRAFT, ROUTE_EXTEND, ROUTE_PARTS };

/* One request's share of a round. */
typedef struct {
    /* What the host plans. Lengths may not be known yet: bounds. */
    sequence *sequence;
    int32_t chunk;       /* pending tokens computed in this round, >= 1 */
    int32_t draft_room;  /* most drafts, 0 while a prompt is being read */
    int32_t least, most; /* tokens by which its computed length grows, unless it turns out to have finished */
    bool speculate;      /* drafts are wanted for this request */
    bool extend;         /* a drafter of the device gets its rows ready behind accept */
    /* What came of it. */
    draft draft;
    int32_t keep; /* drafts that were verified */
    int32_t accepted, committed;
    int32_t tokens[PLAN_MAX_TOKENS]; /* [committed] */
    float logprobs[PLAN_MAX_TOKENS]; /* [committed] under the raw logits */
    int32_t count, computed;         /* of the sequence, behind the round */
    sequence_finish finished;
} plan_member;

typedef struct round_plan {
    /* What the host plans. */
    int64_t round;
    int32_t members, rank;
    phase phase; /* of the forward pass: prefill, decode, target_verify */
    int32_t slots_launched, rows_launched, max_length;
    int32_t draft_steps;     /* most drafts of a member, of a drafter of the device */
    int32_t extend_launched; /* upper bound of the rows that extend computes; 0: no extend */
    int32_t owed;            /* rows of a drafter of the device that are missing before the round, at most */
    drafter *drafter;        /* NULL: nobody drafts */
    budget estimates;        /* as they are when the round is planned */
    int (*keep)(void *user, const plan_member *m); /* round_hooks; NULL: the budget decides */
    void *keep_user;
    char route[ROUTE_PARTS]
              [PLAN_ROUTE_BYTES]; /* "graph:1x4" or "eager:reason"; "" where a part does not run */
    /* What came of it. */
    int32_t rows, drafts, wanted, extended, experts_distinct;
    int64_t sum_nq, sum_nkv, plan_ns;
    bool probed;
    plan_member member[PLAN_MAX_MEMBERS];
} round_plan;

/* ---- device memory ---- */

typedef struct {
    int64_t round, took_ns; /* to write it */
    int32_t members, draft_steps, rows_launched;
    drafter *drafter;
    budget estimates; /* filled where there is a drafter */
    int (*keep)(void *user, const plan_member *m);
    void *keep_user;
    struct {
        sequence *sequence;
        int32_t chunk, draft_room;
    } member[PLAN_MAX_MEMBERS];
} plan_given;

typedef struct {
    int64_t round;
    int32_t members, rows_launched; /* that extend */
    sequence *sequence[PLAN_MAX_MEMBERS];
} plan_extension;

typedef struct {
    bool runs[PLAN_MAX_MEMBERS];    /* false: it had finished before the round, and has no rows */
    bool ready[PLAN_MAX_MEMBERS];   /* a drafter of the device could draft */
    int32_t room[PLAN_MAX_MEMBERS]; /* drafts that could be delivered, of those that the host made room for */
    int32_t drafts,
        wanted; /* of a drafter of the device: most of a member; without the host's bound, -1: nobody ready */
    bool probed;
    draft draft[PLAN_MAX_MEMBERS];
    int32_t keep[PLAN_MAX_MEMBERS];
    int32_t first_head[PLAN_MAX_MEMBERS]; /* -1: none, the prompt goes on */
    int32_t rows;
    int64_t sum_nq, sum_nkv;
} plan_packed;

typedef struct {
    int32_t accepted[PLAN_MAX_MEMBERS], committed[PLAN_MAX_MEMBERS];
    sequence_finish finished[PLAN_MAX_MEMBERS];
} plan_accepted;

/* Moments of a round that kernels stamp: see round_times. */
typedef struct {
    int64_t drafting, drafted, packed, verified, published, committed;
} plan_stamps;

typedef struct {
    plan_stamps at;
    int64_t plan_ns; /* parts A, but for the extension's, and B */
    int32_t rows, drafts, wanted, extended, experts_distinct;
    int64_t sum_nq, sum_nkv;
    bool probed;
    struct {
        draft draft;
        int32_t keep, accepted, committed, count, computed;
        int32_t tokens[PLAN_MAX_TOKENS];
        float logprobs[PLAN_MAX_TOKENS];
        sequence_finish finished;
    } member[PLAN_MAX_MEMBERS];
} plan_result;

typedef struct plan_parts {
    plan_given *given;
    plan_extension *extension;
    plan_packed *packed;
    plan_accepted *accepted;
    plan_result *result; /* [2] */
} plan_parts;

int plan_parts_create(device *d, plan_parts *out, foray_error *err); /* on an error nothing is held */
void plan_parts_destroy(device *d, plan_parts *p);
/* Of a round. */
static inline plan_result *plan_result_of(const plan_parts *p, int64_t round)
{
    return &p->result[round & 1];
}

/* Who writes a field and who reads it: what the edges of round_launch.c are there for. */
typedef struct {
    const char *field, *part, *producer, *consumer;
} plan_field;
extern const plan_field PLAN_FIELDS[];
extern const int PLAN_FIELD_COUNT;

/* Starts a new round: no members. */
void plan_open(round_plan *p, int64_t round);

/* Part A, as kernels see it. */
void plan_give(const round_plan *p, plan_given *given);
void plan_give_extension(const round_plan *p, plan_extension *extension);
/* Part B: packs the members that run with their drafts and keep[] into the pass's inputs, and the head rows. */
void plan_pack(const plan_given *given, plan_packed *packed, pass *pass);
/* The host's view of what came of it. */
void plan_take(const plan_result *result, round_plan *p);

/* A tier that holds n: the next power of two. Graphs are captured per tier; kernels compute live rows only. */
int plan_tier(int n);
/* Its number: plan_tier(n) == 1 << plan_tier_index(n). */
int plan_tier_index(int n);

#endif
