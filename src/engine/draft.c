/* draft.c: a second, smaller model as the drafter. See engine.h; the drafter itself is spec/draft_model.h. */
#include <string.h>

#include "engine/engine.h"
#include "spec/draft_model.h"

/* What a message shows of a token. */
static int shown(size_t bytes)
{
    return bytes < 40 ? (int)bytes : 40;
}

/* Every id that both have must mean the same. */
static int check_tokens(const foray_engine *e, const tokenizer *other, foray_error *err)
{
    const int mine = tokenizer_vocab(e->tokenizer), theirs = tokenizer_vocab(other);
    for (int32_t id = 0; id < (mine < theirs ? mine : theirs); id++) {
        size_t a, b;
        const char *here = tokenizer_spelling(e->tokenizer, id, &a),
                   *there = tokenizer_spelling(other, id, &b);
        if (a != b || memcmp(here, there, a) != 0)
            return fail(
                err, FORAY_EFILE,
                "--draft-model %s: token %d is '%.*s' there and '%.*s' in %s (the two models must share a "
                "vocabulary)",
                e->config.draft_model, id, shown(b), there, shown(a), here, e->config.model);
    }
    return 0;
}

int engine_find_draft(foray_engine *e, foray_error *err)
{
    if (!e->config.draft_model)
        return fail(err, FORAY_EUSAGE, "--spec draft: which model drafts? (--draft-model MODEL)");
    int rc = model_file_open(e->config.draft_model, &e->draft_file, err);
    if (rc != 0)
        return rc;
    if (!engine_has_tokens(e->draft_file) || !e->tokenizer)
        return 0; /* ids only: their numbers are all that can be compared */
    tokenizer *other;
    rc = tokenizer_load(e->draft_file, &other, err);
    if (rc != 0)
        return rc;
    rc = check_tokens(e, other, err);
    tokenizer_free(other);
    return rc;
}

static int load(foray_engine *e, foray_error *err)
{
    const foray_config *c = &e->config;
    model_options o = { .lanes = device_lanes(e->device),
                        .page_rows = ENGINE_PAGE_ROWS,
                        .act_quant = strcmp(c->act_quant, "model") == 0 };
    int rc = model_load(e->draft_file, &o, &e->draft_model, err);
    if (rc != 0)
        return rc;
    const model_info *mine = &e->model->info, *theirs = &e->draft_model->info;
    if (theirs->vocab < mine->vocab)
        return fail(err, FORAY_EFILE,
                    "--draft-model %s: it has %d tokens, %s has %d, which it could not be fed",
                    c->draft_model, theirs->vocab, c->model, mine->vocab);
    if (theirs->context < e->context)
        return fail(err, FORAY_ELIMIT,
                    "--draft-model %s: it was made for %d tokens, the context is %d (-c %d)", c->draft_model,
                    theirs->context, e->context, theirs->context);
    return 0;
}

int engine_open_draft(foray_engine *e, foray_error *err)
{
    int rc = load(e, err);
    if (rc != 0)
        return rc;
    draft_model_config d = { .device = e->device,
                             .model = e->draft_model,
                             .vocab = e->model->info.vocab,
                             .slots = e->slots + 1,
                             .max_requests = e->slots,
                             .max_length = e->context,
                             .max_rows = round_most_rows(e->config.prefill_chunk),
                             .drawing = engine_drawing(e) };
    return draft_model_open(&d, &e->drafter, err);
}
