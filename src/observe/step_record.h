/* step_record.h: one step, in numbers: what ran, for whom, how long, and where the time went.
 *
 * The JSON form has the names, units and null rules of SGLang's DSpark records (dspark.md 6.2), so that
 * existing scripts read it, and foray's own integer `…_ns` fields (design.md 8). Pure. Threads: any.
 */
#ifndef FORAY_OBSERVE_STEP_RECORD_H
#define FORAY_OBSERVE_STEP_RECORD_H

#include "base/buf.h"
#include "observe/phase.h"

enum { STEP_MAX_REQUESTS = 64, STEP_MAX_DRAFT = 16, STEP_ROUTE_BYTES = 48, STEP_MAX_WAITS = 32 };

/* What one request did in the step. */
typedef struct {
    int32_t slot, prefix_len, verify_len, commit_len, correct_drafts, bonus_token;
    int32_t draft_count, draft_tokens[STEP_MAX_DRAFT];
    char rid[24];
} step_request;

/* A stream that stood still until an event of another one, at one or more places of the step (docs/device.md). */
typedef struct {
    const char *stream, *event, *from; /* who waited, for what, of whom: static names */
    int joins;
    int64_t waited_ns;
} step_wait;

typedef struct step_record {
    int64_t forward_ct; /* number of the step, from 1 */
    bool decode;        /* false: prefill */
    int rank;
    int budget;                              /* draft rows asked for; -1: not scheduled */
    int64_t wall_ns, phases_ns[PHASE_COUNT]; /* the parts sum to the wall exactly */
    int64_t plan_ns;   /* planning and launching on the host, parts A and B on the device: hidden or not */
    int64_t update_ns; /* updates of graph nodes: none, where lengths live in device memory */
    int64_t draft_segment_ns, verify_segment_ns, step_segment_ns; /* -1: not measured */
    int64_t net_saved_ns;
    char route[PHASE_COUNT]
              [STEP_ROUTE_BYTES]; /* "graph:1x4", "eager:prefill"; "" where the phase did not run */
    int rows_live, rows_launched, rows_computed, experts_distinct;
    int64_t sum_nq, sum_nkv;   /* query rows, and keys they saw: the step's real work */
    int waits, waits_left_out; /* those that found no place here */
    step_wait wait[STEP_MAX_WAITS];
    int requests;
    step_request request[STEP_MAX_REQUESTS];
} step_record;

/* Appends one line of JSON (without a line end). */
void step_record_json(const step_record *s, buf *out);

/* True when the phases sum to the wall. */
bool step_record_sums(const step_record *s);

#endif
