/* steps.c: requests come, are run and are accounted for. See foray.h. */
#include <string.h>

#include "base/mem.h"
#include "engine/engine.h"

foray_sampling foray_sampling_default(const foray_engine *e)
{
    foray_sampling s = { .temperature = 0, .top_k = 0, .top_p = 1, .min_p = 0, .repeat_penalty = 1 };
    double number;
    int64_t integer;
    bool sample;
    if (model_file_bool(e->file, "generation.do_sample", &sample) && sample) {
        s.temperature = model_file_float(e->file, "generation.temperature", &number) ? (float)number : 1;
        if (model_file_int(e->file, "generation.top_k", &integer) && integer > 0 && integer <= INT32_MAX)
            s.top_k = (int)integer;
        if (model_file_float(e->file, "generation.top_p", &number) && number > 0 && number <= 1)
            s.top_p = (float)number;
    }
    if (model_file_float(e->file, "generation.repetition_penalty", &number) && number > 0)
        s.repeat_penalty = (float)number;
    return s;
}

/* The ids that end a text: what the tokenizer knows and what the model's files say. */
static void end_ids(const foray_engine *e, int32_t *ids, size_t *count)
{
    size_t known = 0;
    const int32_t *from = e->tokenizer ? tokenizer_end_ids(e->tokenizer, &known) : NULL;
    const model_info *m = &e->model->info;
    *count = 0;
    for (size_t i = 0; i < known + (size_t)m->end_count && *count < SEQUENCE_MAX_END_IDS; i++) {
        int32_t id = i < known ? from[i] : m->end_ids[i - known];
        bool twice = false;
        for (size_t j = 0; j < *count; j++)
            twice = twice || ids[j] == id;
        if (!twice)
            ids[(*count)++] = id;
    }
}

int foray_submit(foray_engine *e, const foray_request_config *config, foray_request *out, foray_error *err)
{
    int32_t ends[SEQUENCE_MAX_END_IDS];
    request_limits limits = { .device = e->device,
                              .tokenizer = e->tokenizer,
                              .vocab = e->model->info.vocab,
                              .context = e->context,
                              .end_ids = ends };
    end_ids(e, ends, &limits.end_count);
    request *r;
    int rc = request_create(config, &limits, &r, err);
    if (rc != 0)
        return rc;
    rc = batch_submit(e->batch, r, err);
    if (rc != 0) {
        request_free(e->device, r);
        return rc;
    }
    *out = r->handle;
    return 0;
}

void foray_release(foray_engine *e, foray_request handle)
{
    batch_release(e->batch, handle);
}

int foray_step(foray_engine *e, const foray_event **events, size_t *count, foray_error *err)
{
    request *const *delivered;
    int n;
    int active = batch_step(e->batch, &delivered, &n, err);
    for (int i = 0; i < n; i++) {
        const request *r = delivered[i];
        e->events[i] = (foray_event) { .request = r->handle,
                                       .tokens = r->out_tokens,
                                       .logprobs = r->want_logprobs ? r->out_logprobs : NULL,
                                       .count = (size_t)r->out_count,
                                       .text = r->out_text.len > 0 ? r->out_text.data : "",
                                       .text_bytes = r->out_text.len,
                                       .finish = r->finish,
                                       .error = r->error };
    }
    *events = e->events;
    *count = (size_t)n;
    return active;
}

int foray_request_account(const foray_engine *e, foray_request handle, foray_account *out, foray_error *err)
{
    const request *r = batch_find(e->batch, handle);
    if (!r)
        return fail(err, FORAY_ESTATE, "request %d: there is none of that handle", handle);
    *out = r->account;
    return 0;
}
