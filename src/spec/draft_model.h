/* draft_model.h: the drafter `draft`: a smaller model that speaks the same vocabulary, with a cache of its own.
 *
 * Every slot of its cache holds pages for the longest text from the start: it can never run out in a round. It is fed with
 * tokens only, so after a pause it reads what it missed. With the same noise as the target it agrees with it as often as
 * the two distributions allow.
 * Threads: as chain.h.
 */
#ifndef FORAY_SPEC_DRAFT_MODEL_H
#define FORAY_SPEC_DRAFT_MODEL_H

#include "spec/chain.h"

typedef struct {
    device *device;
    const model *model; /* borrowed */
    int vocab;          /* ids that both models have */
    int slots, max_requests, max_length;
    int max_rows;
    chain_drawing drawing;
} draft_model_config;

/* *out is owned: (*out)->destroy. */
int draft_model_open(const draft_model_config *config, drafter **out, foray_error *err);

#endif
