/* score.c: teacher-forced passes on the scratch slot. See score.h. */
#include "engine/score.h"

#include "engine/engine.h"

void engine_plan_rows(foray_engine *e, const int32_t *ids, int from, int n)
{
    pass *p = round_pass(e->round);
    for (int i = 0; i < n; i++) {
        p->ids[i] = ids[from + i];
        p->position[i] = from + i;
        p->slot[i] = e->slots;
    }
    p->spans[0] = (row_span) { .first_row = 0, .rows = n, .slot = e->slots, .first_position = from };
    p->count->rows = n;
    p->count->spans = 1;
}

/* Runs the head over the rows of the pass that are asked for, a few at a time, and hands them out. */
static int score_rows(foray_engine *e, int from, int n, size_t first,
                      int (*row)(void *, size_t, const float *), void *user, foray_error *err)
{
    pass *p = round_pass(e->round);
    stream *s = round_stream(e->round);
    size_t vocab = (size_t)e->model->info.vocab;
    int start = (size_t)from < first ? (int)(first - (size_t)from) : 0;
    for (int i = start, heads; i < n; i += heads) {
        heads = n - i < p->max_heads ? n - i : p->max_heads;
        for (int j = 0; j < heads; j++)
            p->head_row[j] = i + j;
        p->count->heads = heads;
        int rc = model_head(e->model, p, heads, s, err);
        if (rc == 0)
            rc = stream_sync(s, err);
        for (int j = 0; j < heads && rc == 0; j++)
            rc = row(user, (size_t)(from + i + j), p->logits + (size_t)j * vocab);
        if (rc != 0)
            return rc;
    }
    return 0;
}

int engine_score(foray_engine *e, const int32_t *ids, size_t n, int chunk, size_t first,
                 int (*row)(void *user, size_t position, const float *logits), void *user, uint64_t *digest,
                 foray_error *err)
{
    pass *p = round_pass(e->round);
    stream *s = round_stream(e->round);
    int length = (int)n, most = chunk > 0 && chunk < p->max_rows ? chunk : p->max_rows;
    if (n > (size_t)e->context)
        return fail(err, FORAY_ELIMIT, "%zu ids to score, the context holds %d (raise -c or use windows)", n,
                    e->context);
    for (size_t i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= e->model->info.vocab)
            return fail(err, FORAY_EUSAGE, "id %zu is %d: the vocabulary has %d", i, ids[i],
                        e->model->info.vocab);
    round_settle(e->round); /* requests that run have rounds in flight, on this pass */
    int rc = cache_reserve_extend(e->cache, e->slots, 0, length, err);
    for (int from = 0, rows; from < length && rc == 0; from += rows) {
        rows = length - from < most ? length - from : most;
        engine_plan_rows(e, ids, from, rows);
        rc = model_trunk(e->model, p, e->cache, rows, 1, e->context, s, NULL, err);
        if (rc == 0)
            rc = stream_sync(s, err);
        if (rc == 0 && row)
            rc = score_rows(e, from, rows, first, row, user, err);
    }
    if (digest)
        *digest = rc == 0 ? cache_digest(e->cache, e->slots, length) : 0;
    cache_release(e->cache, e->slots);
    return rc;
}

uint64_t engine_request_digest(foray_engine *e, foray_request handle, int *computed)
{
    const request *r = batch_find(e->batch, handle);
    if (!r || r->sequence->slot < 0)
        return 0;
    round_settle(e->round);
    *computed = r->sequence->computed;
    return cache_digest(e->cache, r->sequence->slot, r->sequence->computed);
}

struct round_loop *engine_round(foray_engine *e)
{
    return e->round;
}

struct cache *engine_cache(foray_engine *e)
{
    return e->cache;
}

struct device *engine_device(foray_engine *e)
{
    return e->device;
}

struct ring *engine_ring(foray_engine *e)
{
    return e->ring;
}

const struct step_record *engine_last_step(const foray_engine *e)
{
    return batch_last_step(e->batch);
}
