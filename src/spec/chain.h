/* chain.h: drafters that run a body, a layer or a model of their own, row after row: what `nextn` and `draft` share.
 *
 *   extend   after accept: rows for what has become known; the last one gives the first draft of the next round
 *   draft    K - 1 rows, one after another, each fed with the draft of the one before
 *
 *   position            … n-2    n-1    n      n+1          n tokens computed, token n known
 *   lead 0 (nextn)      known    known  d1     d2           a row: the target's features there and the token that follows
 *   lead 1 (draft)      known    known  known  d1           a row: the token there
 *
 * Rows of drafts are overwritten by the next extend. A drafter that was left out of some rounds owes rows: extend goes on
 * where it stopped, or a window back, from where on its attention sees everything again. So drafts after a pause are
 * those without one. What one pass does not hold is made by the next.
 * Threads: launches from the host thread; the rest in kernels of class host in stream order.
 */
#ifndef FORAY_SPEC_CHAIN_H
#define FORAY_SPEC_CHAIN_H

#include "model/model.h"
#include "spec/accept.h"
#include "spec/drafter.h"
#include "spec/plan.h"

enum { CHAIN_DEFAULT_TOKENS = 3 };

/* What makes the rows. */
typedef struct chain_body {
    const char *name;   /* the drafter's */
    const model *model; /* whose buffers its passes need */
    int vocab;          /* ids 0 … vocab - 1 may be drafted */
    int streams;        /* residual streams of a row */
    int lead;           /* rows known beyond what the target has computed: 0 or 1 */
    int window;         /* rows that a row sees, itself not counted; 0: all, and none is lost */
    /* Launches the rows of p and the head over its head rows: p->logits. from_self: each row goes on where the last head
     * row of its slot ended, and is fed with its own features where it has such. head_slot [heads]. */
    int (*launch)(const struct chain_body *b, const pass *p, int rows, int heads, bool from_self,
                  const int32_t *head_slot, stream *s, foray_error *err);
    void (*destroy)(struct chain_body *b);
} chain_body;

/* How drafts are drawn. Under `exact` the distribution of each one is kept until it has been on trial: slots x most x vocabulary
 * floats. */
typedef struct {
    accept_rule accept;
    int most; /* drafts per request and round; 0: CHAIN_DEFAULT_TOKENS */
} chain_drawing;

#define CHAIN_MOST_DRAWN ((size_t)1 << 30)

typedef struct {
    device *device;
    chain_body *body; /* the drafter's from chain_open on, whether or not that succeeds */
    int slots, max_requests, max_length;
    int max_rows; /* of one extend, or more where a window needs it */
    chain_drawing drawing;
} chain_config;

/* *out is owned: (*out)->destroy. ELIMIT: distributions of drafts (rule `exact`) that take more than CHAIN_MOST_DRAWN bytes. */
int chain_open(const chain_config *config, drafter **out, foray_error *err);

#endif
