/* stack.c: see stack.h. Built in the order of the layers, taken down in the opposite one. */
#include "support/stack.h"

#include <string.h>

#include "model/deepseek4.h"
#include "spec/draft_model.h"
#include "spec/nextn.h"

enum { PAGE_ROWS = 16 };

static void check(int rc, const foray_error *err)
{
    if (rc != 0)
        fail_msg("%s", err->text);
}

static void open_drafter(stack *s)
{
    const stack_config *c = &s->config;
    foray_error err = { 0 };
    nextn_config n = { .device = s->device,
                       .model = s->model,
                       .cache = s->cache,
                       .slots = c->slots,
                       .max_requests = c->slots,
                       .max_rows = round_most_rows(c->prefill_chunk),
                       .drawing = { .most = c->spec_tokens } };
    draft_model_config m = { .device = s->device,
                             .model = s->model,
                             .vocab = s->model->info.vocab,
                             .slots = n.slots,
                             .max_requests = n.max_requests,
                             .max_length = c->context,
                             .max_rows = n.max_rows,
                             .drawing = n.drawing };
    check(strcmp(c->drafter, "nextn") == 0   ? nextn_open(&n, &s->drafter, &err)
          : strcmp(c->drafter, "draft") == 0 ? draft_model_open(&m, &s->drafter, &err)
                                             : drafter_open(c->drafter, &s->drafter, &err),
          &err);
}

void stack_open(stack *s, const char *path, stack_config c)
{
    foray_error err = { 0 };
    c.threads = c.threads ? c.threads : 1;
    c.slots = c.slots ? c.slots : 1;
    c.context = c.context ? c.context : 128;
    c.cache_tokens = c.cache_tokens ? c.cache_tokens : (int64_t)c.context * c.slots;
    c.prefill_chunk = c.prefill_chunk ? c.prefill_chunk : 32;
    c.spec_tokens = c.spec_tokens ? c.spec_tokens : 5;
    *s = (stack) { .config = c };
    device_config dc = { .threads = c.threads, .shuffle_seed = c.shuffle_seed };
    check(model_file_open(path, &s->file, &err), &err);
    check(device_open(&dc, &s->device, &err), &err);
    model_options mo = {
        .lanes = device_lanes(s->device),
        .page_rows = PAGE_ROWS,
        .act_quant = !c.act_quant_off,
        .drafter = true,
    };
    check(model_load(s->file, &mo, &s->model, &err), &err);
    if (c.page_tokens)
        s->model->deepseek4->shape.page_tokens = c.page_tokens;
    pool_desc pools[CACHE_MAX_POOLS];
    int pool_count = model_pools(s->model, round_most_rows(c.prefill_chunk), pools);
    check(cache_create(s->device, pools, pool_count, c.slots, c.context, c.cache_tokens, &s->cache, &err),
          &err);
    size_t bytes;
    if (model_file_array(s->file, "tokenizer.ggml.tokens", &bytes))
        check(tokenizer_load(s->file, &s->tokenizer, &err), &err);
    if (c.drafter)
        open_drafter(s);
    round_config rc = { .device = s->device,
                        .model = s->model,
                        .cache = s->cache,
                        .drafter = s->drafter,
                        .spec_tokens = c.spec_tokens,
                        .spec_budget = c.spec_budget ? c.spec_budget : -1,
                        .max_requests = c.slots,
                        .prefill_chunk = c.prefill_chunk,
                        .multi_stream_rows = c.serial ? 0 : 64,
                        .rules = { .graphs = !c.eager, .families = ~c.no_graphs },
                        .graph_bytes = c.graph_bytes,
                        .fixed_width = c.fixed_width,
                        .unfolded = c.unfolded,
                        .one_stream = c.one_stream };
    check(round_create(&rc, &s->round, &err), &err);
    if (c.lockstep)
        round_set_ahead(s->round, 1);
    batch_config bc = { .device = s->device,
                        .cache = s->cache,
                        .round = s->round,
                        .slots = c.slots,
                        .prefill_chunk = c.prefill_chunk };
    check(batch_create(&bc, &s->batch, &err), &err);
    s->limits = (request_limits) {
        .device = s->device, .tokenizer = s->tokenizer, .vocab = s->model->info.vocab, .context = c.context
    };
}

void stack_close(stack *s)
{
    batch_destroy(s->batch);
    assert_int_equal(cache_pages_in_use(s->cache), 0);
    round_destroy(s->round);
    if (s->drafter)
        s->drafter->destroy(s->drafter);
    cache_destroy(s->cache);
    tokenizer_free(s->tokenizer);
    model_free(s->model);
    assert_int_equal(device_bytes(s->device), 0);
    device_close(s->device);
    model_file_close(s->file);
}

foray_request stack_submit(stack *s, const foray_request_config *config)
{
    foray_error err = { 0 };
    request *r;
    check(request_create(config, &s->limits, &r, &err), &err);
    check(batch_submit(s->batch, r, &err), &err);
    return r->handle;
}

int stack_step(stack *s)
{
    request *const *delivered;
    int count;
    foray_error err = { 0 };
    int active = batch_step(s->batch, &delivered, &count, &err);
    if (active < 0)
        fail_msg("%s", err.text);
    return active;
}

int stack_run(stack *s)
{
    int steps = 1;
    while (stack_step(s) > 0)
        steps++;
    return steps;
}

void stack_text(stack *s, const foray_request_config *config, int32_t *out)
{
    int count;
    foray_request r = stack_submit(s, config);
    stack_run(s);
    const int32_t *tokens = stack_tokens(s, r, &count);
    assert_int_equal(count, config->max_tokens);
    memcpy(out, tokens, sizeof *out * (size_t)count);
    batch_release(s->batch, r);
}

void stack_rows(stack *s, const model *m, int slot, const int32_t *ids, int from, int n, float *logits)
{
    foray_error err = { 0 };
    pass *p = round_pass(s->round);
    stream *main = round_stream(s->round);
    int max_length = cache_max_length(s->cache);
    size_t vocab = (size_t)m->info.vocab;
    check(cache_reserve_extend(s->cache, slot, from, from + n, &err), &err);
    *p->count = (pass_counts) { .rows = n, .spans = 1 };
    for (int i = 0; i < n; i++) {
        p->ids[i] = ids[from + i];
        p->position[i] = from + i;
        p->slot[i] = slot;
    }
    p->spans[0] = (row_span) { .rows = n, .slot = slot, .first_position = from };
    check(model_trunk(m, p, s->cache, n, 1, max_length, main, NULL, &err), &err);
    check(stream_sync(main, &err), &err);
    for (int row = 0, heads; logits && row < n; row += heads) {
        heads = n - row < p->max_heads ? n - row : p->max_heads;
        for (int i = 0; i < heads; i++)
            p->head_row[i] = row + i;
        p->count->heads = heads;
        check(model_head(m, p, heads, main, &err), &err);
        check(stream_sync(main, &err), &err);
        memcpy(logits + (size_t)row * vocab, p->logits, sizeof(float) * vocab * (size_t)heads);
    }
}

void stack_first_drafts(stack *s, const int32_t *tokens, int n, draft *out)
{
    foray_request_config c = { .prompt = tokens,
                               .prompt_count = (size_t)n,
                               .max_tokens = DRAFT_MAX + 2,
                               .ignore_eos = true,
                               .sampling = { .top_p = 1, .repeat_penalty = 1 },
                               .logprobs = -1 };
    foray_request r = stack_submit(s, &c);
    while (stack_step(s) > 0 && round_get_plan(s->round)->phase == PHASE_PREFILL)
        ;
    const round_plan *p = round_get_plan(s->round);
    assert_int_equal(p->phase, PHASE_TARGET_VERIFY);
    *out = p->member[0].draft;
    batch_release(s->batch, r);
}

void stack_assert_fresh(stack *s, foray_request r, int other)
{
    const sequence *q = batch_find(s->batch, r)->sequence;
    round_settle(s->round);
    if (q->slot < 0 || q->computed == 0)
        return;
    for (int at = 0, n; at < q->computed; at += n) {
        n = q->computed - at < s->config.prefill_chunk ? q->computed - at : s->config.prefill_chunk;
        stack_rows(s, s->model, other, q->tokens, at, n, NULL);
    }
    if (cache_digest(s->cache, q->slot, q->computed) != cache_digest(s->cache, other, q->computed))
        fail_msg("%d tokens: another cache than a fresh prefill", q->computed);
    cache_release(s->cache, other);
}

void poison_pages(const cache *c)
{
    for (int p = 0; p < cache_pools(c); p++)
        memset(cache_pages(c, p), cache_pool(c, p)->poison, cache_pool_bytes(c, p));
}

const int32_t *stack_tokens(const stack *s, foray_request handle, int *count)
{
    const request *r = batch_find(s->batch, handle);
    assert_non_null(r);
    *count = r->delivered;
    return r->sequence->tokens + r->sequence->prompt;
}
