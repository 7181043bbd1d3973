/* draft_model.c: a whole model as the body of a chain. See draft_model.h. */
#include "spec/draft_model.h"

#include "base/mem.h"
#include "cache/cache.h"

typedef struct {
    chain_body base; /* first: a body is one of these */
    cache *cache;
} draft_model;

static int launch(const chain_body *base, const pass *p, int rows, int heads, bool from_self,
                  const int32_t *head_slot, stream *s, foray_error *err)
{
    const draft_model *b = (const draft_model *)base;
    (void)from_self; /* tokens are all it is fed with */
    (void)head_slot;
    int rc = model_trunk(base->model, p, b->cache, rows, heads, cache_max_length(b->cache), s, NULL, err);
    return rc == 0 ? model_head(base->model, p, heads, s, err) : rc;
}

static void destroy(chain_body *base)
{
    draft_model *b = (draft_model *)base;
    if (b->cache)
        cache_destroy(b->cache);
    mem_free(MEM_GENERAL, b, sizeof *b);
}

static int create_cache(draft_model *b, const draft_model_config *c, foray_error *err)
{
    pool_desc pools[CACHE_MAX_POOLS];
    int count = model_pools(c->model, c->max_rows, pools);
    int rc = cache_create(c->device, pools, count, c->slots, c->max_length, (int64_t)c->max_length * c->slots,
                          &b->cache, err);
    for (int i = 0; i < c->slots && rc == 0; i++)
        rc = cache_reserve_extend(b->cache, i, 0, c->max_length, err);
    return rc;
}

int draft_model_open(const draft_model_config *config, drafter **out, foray_error *err)
{
    draft_model *b = mem_alloc_zeroed(MEM_GENERAL, sizeof *b);
    if (!b)
        return fail(err, FORAY_ENOMEM, "drafter draft: no memory");
    b->base = (chain_body) { .name = "draft",
                             .model = config->model,
                             .vocab = config->vocab,
                             .streams = 1,
                             .lead = 1,
                             .launch = launch,
                             .destroy = destroy };
    int rc = create_cache(b, config, err);
    if (rc != 0) {
        destroy(&b->base);
        return rc;
    }
    chain_config c = { .device = config->device,
                       .body = &b->base,
                       .slots = config->slots,
                       .max_requests = config->max_requests,
                       .max_length = config->max_length,
                       .max_rows = config->max_rows,
                       .drawing = config->drawing };
    return chain_open(&c, out, err);
}
