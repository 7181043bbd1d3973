/* score.h: the model without a request: its logits for given ids, and how long it takes. What `score`, `bench`, the
 * goldens and the tests ask for. */
#ifndef FORAY_ENGINE_SCORE_H
#define FORAY_ENGINE_SCORE_H

#include "base/buf.h"
#include "foray.h"

/* Runs ids[0 … n) from an empty cache, `chunk` rows per pass (0: the engine's), and calls row for every position
 * from first on, in order, with the logits [vocab] that follow it (valid during the call). row returns 0 to go
 * on; anything else ends the scoring and is returned. ELIMIT: more ids than the context holds. digest, if not NULL, gets the digest of the cache at the end (cache.h). */
int engine_score(foray_engine *e, const int32_t *ids, size_t n, int chunk, size_t first,
                 int (*row)(void *user, size_t position, const float *logits), void *user, uint64_t *digest,
                 foray_error *err);

/* The digest of what a running request has computed so far; 0: no such request. For tests. */
uint64_t engine_request_digest(foray_engine *e, foray_request request, int *computed);

/* Timing: no request is active.
 * timing.c: rounds of rows[0 … count) rows in turn after `depth` tokens of context, `repeats` times each: ns[i *
 * repeats + k]. The engine must have been opened for so many drafts (spec_tokens >= the most rows - 1). */
int engine_time_rows(foray_engine *e, int depth, const int *rows, int count, int repeats, double *ns,
                     foray_error *err);
/* timing.c: plain rows at the end of contexts of depth[0 … count) tokens in turn, `repeats` times each: ns[i * stride + k].
 * The cache is filled with random entries, not with a prompt that was read. */
int engine_time_depths(foray_engine *e, const int *depth, int count, int repeats, double *ns, int stride,
                       foray_error *err);
/* timing.c: time of reading n prompt tokens after `depth` others, logits of the last one included, and the multiply-adds of
 * that: matrices and attention, without the head. */
int engine_time_prefill(foray_engine *e, int depth, int n, double *ns, double *products, foray_error *err);

/* Tests and benchmarks: decisions of their own in the round's place (spec/round.h). */
struct round_loop *engine_round(foray_engine *e);
struct cache *engine_cache(foray_engine *e);
struct device *engine_device(foray_engine *e);
struct ring *engine_ring(foray_engine *e); /* NULL: opened without record */
/* The record of the newest step that is over, until the next one; forward_ct 0: none yet. */
const struct step_record *engine_last_step(const foray_engine *e);

#endif
