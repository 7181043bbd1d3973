/* timing.c: how long rounds and prompts take, on the scratch slot. See score.h and engine.h.
 *
 * Scratch requests are real ones: same rounds, same graphs, same sampler; only their drafts come from a script and
 * they are put back after every round.
 */
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"
#include "engine/engine.h"
#include "engine/score.h"

/* Time for measuring costs at start, and the context that they are measured at; the least for rounds of rows. */
static const int64_t COST_NS = 400000000;
enum { COST_DEPTH = 256, ROWS_DEPTH = 32 };

/* Every byte of the slot's pages near 0x3e: as f32, f16, e4m3, e2m1 and powers of two alike these are ordinary numbers. All
 * pages of a pool are alike. */
static void fill_slot(foray_engine *e, int slot, int length)
{
    cache *c = e->cache;
    for (int pool = 0; pool < cache_pools(c); pool++) {
        const pool_desc *p = cache_pool(c, pool);
        const int32_t *table = cache_table(c, pool) + (size_t)slot * (size_t)cache_table_stride(c, pool);
        const size_t bytes = pool_page_bytes(p);
        for (int i = 0; i < pool_pages(p, length); i++) {
            uint8_t *page = cache_pages(c, pool) + (size_t)table[i] * bytes;
            const uint8_t *first = cache_pages(c, pool) + (size_t)table[0] * bytes;
            uint32_t *words = (uint32_t *)(void *)page;
            for (size_t k = 0; i == 0 && k < bytes / sizeof *words; k++)
                words[k] =
                    0x3e3e3e3e + (rng_philox((uint32_t)k, (uint32_t)pool, 0, 0, 1, 1).word[0] & 0x01010101);
            if (i > 0)
                memcpy(page, first, bytes);
        }
    }
}

typedef struct {
    request *request[PLAN_MAX_MEMBERS];
    sequence *sequence[PLAN_MAX_MEMBERS]; /* of those */
    int count;
    drafter *script;
    int32_t *prompt; /* [depth] */
    size_t prompt_bytes;
} scratch;

static void scratch_close(foray_engine *e, scratch *s)
{
    round_set_drafter(e->round, e->drafter);
    for (int i = 0; i < s->count; i++) {
        cache_release(e->cache, s->sequence[i]->slot);
        request_free(e->device, s->request[i]);
    }
    if (s->script)
        s->script->destroy(s->script);
    mem_free(MEM_GENERAL, s->prompt, s->prompt_bytes);
}

/* One more request, of another text than the others, on the scratch slot or, before anybody runs, one of the requests'. */
static int scratch_add(foray_engine *e, int depth, scratch *s, foray_error *err)
{
    const request_limits limits = { .device = e->device,
                                    .vocab = e->model->info.vocab,
                                    .context = e->context };
    const foray_request_config c = { .prompt = s->prompt,
                                     .prompt_count = (size_t)depth,
                                     .script = s->prompt,
                                     .script_count = (size_t)depth,
                                     .sampling = { .top_p = 1, .repeat_penalty = 1 },
                                     .logprobs = -1 };
    request *r;
    for (int i = 0; i < depth; i++)
        s->prompt[i] = (i * 7 + s->count * 13) % limits.vocab;
    int rc = request_create(&c, &limits, &r, err);
    if (rc != 0)
        return rc;
    r->sequence->slot = e->slots - s->count;
    s->request[s->count] = r;
    s->sequence[s->count++] = r->sequence;
    return 0;
}

/* Requests of depth prompt tokens, whose drafts are ids that greedy sampling need not agree with. */
static int scratch_open(foray_engine *e, int depth, int requests, scratch *s, foray_error *err)
{
    *s = (scratch) { .prompt_bytes = sizeof(int32_t) * (size_t)depth };
    s->prompt = mem_alloc_zeroed(MEM_GENERAL, s->prompt_bytes);
    if (!s->prompt)
        return fail(err, FORAY_ENOMEM, "no memory for a scratch prompt of %d", depth);
    int rc = drafter_open("script", &s->script, err);
    for (int i = 0; i < requests && rc == 0; i++)
        rc = scratch_add(e, depth, s, err);
    if (rc != 0)
        scratch_close(e, s);
    else
        round_set_drafter(e->round, s->script);
    return rc;
}

/* As if the prompts had been read: what is in the cache changes no cost. */
static int scratch_fill(foray_engine *e, scratch *s, foray_error *err)
{
    int rc = 0;
    for (int i = 0; i < s->count && rc == 0; i++) {
        sequence *q = s->sequence[i];
        rc = cache_reserve_extend(e->cache, q->slot, 0, q->prompt, err);
        if (rc == 0)
            fill_slot(e, q->slot, q->prompt);
        q->computed = q->prompt;
    }
    return rc;
}

int engine_measure_costs(foray_engine *e, foray_error *err)
{
    scratch s;
    int depth = e->context - e->config.spec_tokens - 4;
    if (!e->drafter || depth < 1) /* nothing to decide, or no room to try: the first rounds will tell */
        return 0;
    int rc = scratch_open(e, depth < COST_DEPTH ? depth : COST_DEPTH, e->slots, &s, err);
    if (rc != 0)
        return rc;
    rc = scratch_fill(e, &s, err);
    if (rc == 0)
        rc = round_measure_costs(e->round, s.sequence, e->slots, e->config.spec_tokens, COST_NS, err);
    if (rc == 0 && !e->drafter->propose && depth > DRAFT_MAX) {
        round_set_drafter(e->round, e->drafter);
        rc = round_measure_chain(e->round, s.sequence, e->slots, e->config.spec_tokens, COST_NS, err);
    }
    scratch_close(e, &s);
    return rc;
}

int engine_time_rows(foray_engine *e, int depth, const int *rows, int count, int repeats, double *ns,
                     foray_error *err)
{
    scratch s;
    depth = depth < ROWS_DEPTH ? ROWS_DEPTH : depth;
    for (int i = 0; i < count; i++)
        if (rows[i] < 1 || rows[i] > e->config.spec_tokens + 1 || depth + rows[i] >= e->context)
            return fail(err, FORAY_ELIMIT,
                        "%d rows after %d tokens: the context of %d or %d drafts do not allow it", rows[i],
                        depth, e->context, e->config.spec_tokens);
    int rc = scratch_open(e, depth, 1, &s, err);
    if (rc != 0)
        return rc;
    rc = round_time_rows(e->round, s.sequence[0], rows, count, repeats, ns, err);
    scratch_close(e, &s);
    return rc;
}

/* Reads ids[0 … depth + n) in chunks; the clock starts at depth. */
static int time_prefill(foray_engine *e, const int32_t *ids, int depth, int n, double *ns, foray_error *err)
{
    pass *p = round_pass(e->round);
    stream *s = round_stream(e->round);
    int most = e->config.prefill_chunk, length = depth + n, rc = 0;
    int64_t start = 0;
    for (int from = 0, rows; from < length && rc == 0; from += rows) {
        if (from == depth)
            start = clock_ns();
        rows = from < depth ? depth - from : length - from;
        rows = rows < most ? rows : most;
        engine_plan_rows(e, ids, from, rows);
        p->count->heads = 1;
        p->head_row[0] = rows - 1;
        rc = model_trunk(e->model, p, e->cache, rows, 1, e->context, s, NULL, err);
        if (rc == 0 && from + rows == length)
            rc = model_head(e->model, p, 1, s, err);
        if (rc == 0)
            rc = stream_sync(s, err);
    }
    *ns = (double)(clock_ns() - start);
    return rc;
}

int engine_time_prefill(foray_engine *e, int depth, int n, double *ns, double *products, foray_error *err)
{
    if (depth < 0 || n < 1 || depth > e->context - n)
        return fail(err, FORAY_ELIMIT, "a prompt of %d tokens after %d others: the context holds %d", n,
                    depth, e->context);
    size_t bytes = sizeof(int32_t) * (size_t)(depth + n);
    int32_t *ids = mem_alloc(MEM_GENERAL, bytes);
    if (!ids)
        return fail(err, FORAY_ENOMEM, "no memory for %d ids", depth + n);
    for (int i = 0; i < depth + n; i++)
        ids[i] = i * 7 % e->model->info.vocab;
    int rc = cache_reserve_extend(e->cache, e->slots, 0, depth + n, err);
    if (rc == 0)
        rc = time_prefill(e, ids, depth, n, ns, err);
    *products = e->model->info.products * n + model_attention_products(e->model, depth, n);
    cache_release(e->cache, e->slots);
    mem_free(MEM_GENERAL, ids, bytes);
    return rc;
}

static int time_row(foray_engine *e, int position, double *ns, foray_error *err)
{
    pass *p = round_pass(e->round);
    stream *s = round_stream(e->round);
    p->ids[0] = 1;
    p->position[0] = position;
    p->slot[0] = e->slots;
    p->spans[0] = (row_span) { .rows = 1, .slot = e->slots, .first_position = position };
    *p->count = (pass_counts) { .rows = 1, .spans = 1, .heads = 1 };
    p->head_row[0] = 0;
    int64_t start = clock_ns();
    int rc = model_trunk(e->model, p, e->cache, 1, 1, e->context, s, NULL, err);
    if (rc == 0)
        rc = model_head(e->model, p, 1, s, err);
    if (rc == 0)
        rc = stream_sync(s, err);
    *ns = (double)(clock_ns() - start);
    return rc;
}

int engine_time_depths(foray_engine *e, const int *depth, int count, int repeats, double *ns, int stride,
                       foray_error *err)
{
    int most = 0;
    for (int i = 0; i < count; i++) {
        if (depth[i] < 1 || depth[i] > e->context)
            return fail(err, FORAY_ELIMIT, "a step after %d tokens: the context holds %d", depth[i],
                        e->context);
        most = depth[i] > most ? depth[i] : most;
    }
    int rc = cache_reserve_extend(e->cache, e->slots, 0, most, err);
    if (rc == 0)
        fill_slot(e, e->slots, most);
    for (int k = -1; k < repeats; k++) /* the first time does not count */
        for (int i = 0; i < count && rc == 0; i++) {
            double once;
            rc = time_row(e, depth[i] - 1, &once, err);
            if (k >= 0)
                ns[i * stride + k] = once;
        }
    cache_release(e->cache, e->slots);
    return rc;
}
