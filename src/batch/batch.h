/* batch.h: requests in line: queue, admission, prompts in chunks, one round per step.
 *
 * The next round is launched before the last one's result is read. So a request may turn out to have ended when a round of
 * its is already in flight: that round brings it nothing, and its slot stays taken until then.
 *
 * A request is admitted when a slot is free and the pages of its worst case can be promised, so that a running
 * request never runs out in the middle of a step. A step is one round: a chunk of one prompt, or one token row
 * (and drafts) for every running request; the two alternate while there are both.
 *
 *   submit ─▶ waits ─▶ (slot, promised pages) ─▶ reads its prompt ─▶ decodes ─▶ ended ─▶ release
 *
 * Threads: the host thread.
 */
#ifndef FORAY_BATCH_BATCH_H
#define FORAY_BATCH_BATCH_H

#include "batch/request.h"
#include "observe/step_record.h"

typedef struct {
    device *device;
    cache *cache;
    round_loop *round;
    int slots; /* requests at once */
    int prefill_chunk;
    /* Gets the record of every round that is retired, also of one that nobody waited for any more; may be NULL. What it returns,
     * the step returns, or the next one where a release ended the round. */
    int (*record)(void *user, const step_record *s, foray_error *err);
    void *user;
} batch_config;

typedef struct batch batch;

int batch_create(const batch_config *config, batch **out, foray_error *err);
/* Frees every request that is still held. */
void batch_destroy(batch *b);

/* Takes a request (owned by the batch from now on) and gives it a handle. ELIMIT when it could never run. */
int batch_submit(batch *b, request *r, foray_error *err);
/* Ends and frees a request of this handle; a dead handle is ignored. */
void batch_release(batch *b, foray_request handle);
request *batch_find(const batch *b, foray_request handle); /* NULL: none */

/* One step: launches what can be, and takes the result of the oldest round that somebody waits for. delivered[0 … *count):
 * the requests that got something, valid until the next step. Returns how many requests still wait or run. Where the device
 * refused a round, its requests have ended with that error, which is also in *err; the others go on. */
int batch_step(batch *b, request *const **delivered, int *count, foray_error *err);

/* The record of the last round that somebody waited for; forward_ct 0: none yet. */
const step_record *batch_last_step(const batch *b);
int64_t batch_idle_ns(const batch *b); /* with nothing to do, since creation */

#endif
