/* plan.h: the plan of one round: what runs, on which rows, by which route. One object, three parts by what they
 * read (design.md 4):
 *
 *   A   lengths, slots, upper bounds, route: known before the round, written by the host
 *   B   what needs the drafts: live rows, ragged packing, spans, the rows of the head
 *   C   what needs accept lengths: the rows of draft-extend
 *
 * Each part is sealed once it is filled; PLAN_FIELDS names every field's producer and consumers. Ragged packing:
 *
 *   members     0: pending 1, keep 2        1: pending 1, keep 0        2: a prompt of 5, chunk 5
 *   rows        last d0 d1                  last                        p0 p1 p2 p3 p4
 *   head rows   0    1  2                   3                           8        (5 pending: only the last one)
 *
 * Threads: A by the host while nothing is in flight; B and C by kernels of class host in stream order.
 */
#ifndef FORAY_SPEC_PLAN_H
#define FORAY_SPEC_PLAN_H

#include "model/pass.h"
#include "spec/drafter.h"

enum { PLAN_MAX_MEMBERS = 64, PLAN_ROUTE_BYTES = 32 };

typedef enum { PLAN_A = 1, PLAN_B = 2, PLAN_C = 4 } plan_part;

/* Parts of a round that are replayed or not, each as a whole. */
enum { ROUTE_TARGET, ROUTE_DRAFT, ROUTE_EXTEND, ROUTE_PARTS };

/* One request's share of a round. */
typedef struct {
    /* A */
    sequence *sequence;
    int32_t chunk;      /* pending tokens computed in this round, >= 1 */
    int32_t draft_room; /* most drafts, 0 while a prompt is being read */
    bool speculate;     /* drafts are wanted for this request */
    bool extend;        /* a drafter of the device gets its rows ready behind accept */
    /* after the draft */
    draft draft;
    /* B */
    int32_t keep;       /* drafts that are verified: live */
    int32_t first_row;  /* in the pass */
    int32_t first_head; /* among the head rows; -1: none, the prompt goes on */
    /* C */
    int32_t accepted, committed;
} plan_member;

typedef struct round_plan {
    /* A */
    int64_t round;
    int32_t members, rank;
    phase phase; /* of the forward pass: prefill, decode, target_verify */
    int32_t slots_launched, rows_launched, max_length;
    int32_t draft_steps;     /* most drafts of a member, of a drafter of the device */
    int32_t extend_launched; /* upper bound of the rows that extend computes; 0: no extend */
    char route[ROUTE_PARTS]
              [PLAN_ROUTE_BYTES]; /* "graph:1x4" or "eager:reason"; "" where a part does not run */
    /* B */
    int32_t rows, heads;
    int64_t sum_nq, sum_nkv;
    int32_t sealed; /* plan_part bits */
    plan_member member[PLAN_MAX_MEMBERS];
} round_plan;

/* Who writes a field and who reads it, for the check of docs and of the device's edges. */
typedef struct {
    const char *field, *part, *producer, *consumer;
} plan_field;
extern const plan_field PLAN_FIELDS[];
extern const int PLAN_FIELD_COUNT;

/* Starts a new round: nothing is sealed, no members. */
void plan_open(round_plan *p, int64_t round);
void plan_seal(round_plan *p, plan_part part); /* a part is sealed once */

/* Part B: packs members with their drafts and keep[] into the pass's inputs, and the head rows. A is sealed. */
void plan_pack(round_plan *p, pass *pass);

/* A tier that holds n: the next power of two. Graphs are captured per tier; kernels compute live rows only. */
int plan_tier(int n);
/* Its number: plan_tier(n) == 1 << plan_tier_index(n). */
int plan_tier_index(int n);

#endif
