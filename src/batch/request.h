/* request.h: one request from submission to its last token: its sequence, its text, its account.
 *
 * Owns copies of everything that the caller gave. The sequence lives in device memory; the text stream turns
 * committed tokens into whole characters with stop strings held back.
 * Threads: the host thread.
 */
#ifndef FORAY_BATCH_REQUEST_H
#define FORAY_BATCH_REQUEST_H

#include "base/arena.h"
#include "spec/round.h"
#include "text/tokenizer.h"
#include "text/utf8_stream.h"

typedef enum { REQUEST_WAITS, REQUEST_RUNS, REQUEST_ENDED } request_state;

typedef struct request {
    foray_request handle;
    request_state state;
    sequence *sequence; /* device memory */
    arena memory;       /* copies of the configuration; lives as long as the request */
    utf8_stream text;
    const tokenizer *tokenizer; /* borrowed; NULL: ids only */
    bool want_logprobs;
    int delivered;     /* completion tokens handed out */
    int32_t in_flight; /* rounds that it is a member of */
    bool released;     /* nobody asks for it any more: it goes with its last round */
    int64_t admitted_ns;
    foray_account account;
    foray_finish finish;
    foray_error error; /* with FORAY_FAILED */

    /* What the current step delivered. */
    int32_t *out_tokens; /* [DRAFT_MAX + 1] */
    float *out_logprobs;
    int out_count;
    buf out_text;
    struct request *next;
} request;

/* What the engine knows and a request needs: limits and ids. */
typedef struct {
    device *device;
    const tokenizer *tokenizer; /* or NULL */
    int vocab, context;
    const int32_t *end_ids; /* [end_count] the model's */
    size_t end_count;
} request_limits;

/* Checks a configuration and builds a request that waits. EUSAGE names the setting that cannot be, ELIMIT the
 * limit. *out is owned: request_free. */
int request_create(const foray_request_config *config, const request_limits *limits, request **out,
                   foray_error *err);
void request_free(device *d, request *r);

/* Takes what a round committed: fills out_*, and ends the request at a stop string, an end id or the limit. Nothing where it
 * has ended already: rounds that were launched before that was known are in vain. */
void request_deliver(request *r, const plan_member *m);

/* Ends a request with an error: what it has delivered stands. */
void request_fail(request *r, const foray_error *error);

/* Adds the part of [from, to) that lies after admission to one phase of the account. */
void request_account(request *r, phase p, int64_t from, int64_t to);

#endif
