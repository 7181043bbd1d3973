/* request.c: checking, holding and delivering one request. See request.h. */
#include "batch/request.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"

enum { MOST_STOPS = 16, LONGEST_STOP = 4096 };

static int check_sampling(const foray_sampling *s, int vocab, foray_error *err)
{
    if (!(s->temperature >= 0) || !isfinite(s->temperature))
        return fail(err, FORAY_EUSAGE, "temperature %g cannot be (0 is greedy, above 0 samples)",
                    (double)s->temperature);
    if (s->top_k < 0)
        return fail(err, FORAY_EUSAGE, "top_k %d cannot be (0 turns it off)", s->top_k);
    if (!(s->top_p >= 0 && s->top_p <= 1))
        return fail(err, FORAY_EUSAGE, "top_p %g is not between 0 and 1", (double)s->top_p);
    if (!(s->min_p >= 0 && s->min_p <= 1))
        return fail(err, FORAY_EUSAGE, "min_p %g is not between 0 and 1", (double)s->min_p);
    if (!(s->repeat_penalty > 0) || !isfinite(s->repeat_penalty))
        return fail(err, FORAY_EUSAGE, "repeat_penalty %g cannot be (1 turns it off)",
                    (double)s->repeat_penalty);
    if (!isfinite(s->presence_penalty) || !isfinite(s->frequency_penalty))
        return fail(err, FORAY_EUSAGE, "presence and frequency penalties must be finite");
    for (size_t i = 0; i < s->bias_count; i++) {
        if (s->bias_ids[i] < 0 || s->bias_ids[i] >= vocab)
            return fail(err, FORAY_EUSAGE, "logit bias for token %d: the vocabulary has %d", s->bias_ids[i],
                        vocab);
        if (isnan(s->bias[i]))
            return fail(err, FORAY_EUSAGE, "logit bias for token %d is not a number", s->bias_ids[i]);
    }
    return 0;
}

static int check_config(const foray_request_config *c, const request_limits *l, foray_error *err)
{
    if (c->prompt_count == 0)
        return fail(err, FORAY_EUSAGE, "the prompt is empty (at least one token is needed)");
    if (c->prompt_count >= (size_t)l->context)
        return fail(err, FORAY_ELIMIT,
                    "the prompt has %zu tokens, the context holds %d (raise -c or shorten it)",
                    c->prompt_count, l->context);
    for (size_t i = 0; i < c->prompt_count; i++)
        if (c->prompt[i] < 0 || c->prompt[i] >= l->vocab)
            return fail(err, FORAY_EUSAGE, "prompt token %zu is %d: the vocabulary has %d", i, c->prompt[i],
                        l->vocab);
    if (c->stop_count > MOST_STOPS)
        return fail(err, FORAY_ELIMIT, "%zu stop strings (at most %d)", c->stop_count, MOST_STOPS);
    for (size_t i = 0; i < c->stop_count; i++)
        if (!c->stop[i] || !c->stop[i][0] || strlen(c->stop[i]) > LONGEST_STOP)
            return fail(err, FORAY_EUSAGE, "stop string %zu is empty or longer than %d bytes", i,
                        LONGEST_STOP);
    if (c->stop_count > 0 && !l->tokenizer)
        return fail(err, FORAY_EUNSUPPORTED,
                    "stop strings need a tokenizer, and this model's files have none");
    if (l->end_count + c->stop_id_count > SEQUENCE_MAX_END_IDS)
        return fail(err, FORAY_ELIMIT, "more than %d end-of-text ids", SEQUENCE_MAX_END_IDS);
    return check_sampling(&c->sampling, l->vocab, err);
}

/* A copy of count elements in the request's memory; NULL when count is 0. */
static void *copied(request *r, const void *from, size_t count, size_t size, bool *failed)
{
    if (count == 0)
        return NULL;
    void *to = arena_array(&r->memory, count, size);
    if (to)
        memcpy(to, from, count * size);
    else
        *failed = true;
    return to;
}

static void fill_sequence(request *r, const foray_request_config *c, const request_limits *l, bool *failed)
{
    sequence *s = r->sequence;
    const foray_sampling *p = &c->sampling;
    memcpy(s->tokens, c->prompt, c->prompt_count * sizeof *c->prompt);
    s->count = s->prompt = (int32_t)c->prompt_count;
    s->computed = 0;
    bool bounded = c->max_tokens > 0 && c->max_tokens < l->context - s->prompt;
    s->limit = bounded ? s->prompt + c->max_tokens : l->context;
    bool reachable = c->min_tokens < s->limit - s->prompt;
    s->min_count = c->min_tokens <= 0 ? 0 : reachable ? s->prompt + c->min_tokens : s->limit;
    s->slot = -1;
    for (size_t i = 0; i < l->end_count && !c->ignore_eos; i++)
        s->end_ids[s->end_count++] = l->end_ids[i];
    for (size_t i = 0; i < c->stop_id_count; i++)
        s->end_ids[s->end_count++] = c->stop_ids[i];
    s->params[0] =
        (sample_params) { .temperature = p->temperature,
                          .top_k = p->top_k,
                          .top_p = p->top_p,
                          .min_p = p->min_p,
                          .repeat_penalty = p->repeat_penalty,
                          .presence_penalty = p->presence_penalty,
                          .frequency_penalty = p->frequency_penalty,
                          .seed = p->seed,
                          .bias_count = (int32_t)p->bias_count,
                          .bias_ids = copied(r, p->bias_ids, p->bias_count, sizeof *p->bias_ids, failed),
                          .bias = copied(r, p->bias, p->bias_count, sizeof *p->bias, failed),
                          .want_logprob = c->logprobs >= 0 };
    s->params[1] = s->params[0];
    s->params[1].banned = s->end_ids;
    s->params[1].banned_count = s->end_count;
    s->script = copied(r, c->script, c->script_count, sizeof *c->script, failed);
    s->script_count = (int32_t)c->script_count;
}

static int build(request *r, const foray_request_config *c, const request_limits *l, foray_error *err)
{
    device *d = l->device;
    bool failed = false;
    int rc = device_alloc(d, "sequence", sizeof *r->sequence, (void **)&r->sequence, err);
    if (rc == 0)
        rc = device_alloc(d, "tokens", sizeof(int32_t) * (size_t)l->context, (void **)&r->sequence->tokens,
                          err);
    if (rc != 0)
        return rc;
    fill_sequence(r, c, l, &failed);
    const char **stops = arena_array(&r->memory, c->stop_count + 1, sizeof *stops);
    for (size_t i = 0; stops && i < c->stop_count; i++)
        failed = !(stops[i] = arena_strndup(&r->memory, c->stop[i], strlen(c->stop[i]))) || failed;
    r->out_tokens = arena_array(&r->memory, DRAFT_MAX + 1, sizeof *r->out_tokens);
    r->out_logprobs = arena_array(&r->memory, DRAFT_MAX + 1, sizeof *r->out_logprobs);
    if (failed || !stops || !r->out_tokens || !r->out_logprobs)
        return fail(err, FORAY_ENOMEM, "no memory for a request of %zu prompt tokens", c->prompt_count);
    utf8_stream_init(&r->text, stops, c->stop_count);
    return 0;
}

int request_create(const foray_request_config *config, const request_limits *limits, request **out,
                   foray_error *err)
{
    int rc = check_config(config, limits, err);
    if (rc != 0)
        return rc;
    request *r = mem_alloc_zeroed(MEM_GENERAL, sizeof *r);
    if (!r)
        return fail(err, FORAY_ENOMEM, "no memory for a request");
    arena_init(&r->memory, MEM_GENERAL, 1024);
    r->tokenizer = limits->tokenizer;
    r->want_logprobs = config->logprobs >= 0;
    r->account.prompt_tokens = (int)config->prompt_count;
    r->account.seed = config->sampling.seed;
    rc = build(r, config, limits, err);
    if (rc != 0) {
        request_free(limits->device, r);
        return rc;
    }
    *out = r;
    return 0;
}

void request_free(device *d, request *r)
{
    if (!r)
        return;
    if (r->sequence && r->sequence->tokens)
        device_free(d, r->sequence->tokens);
    if (r->sequence)
        device_free(d, r->sequence);
    utf8_stream_free(&r->text);
    buf_free(&r->out_text);
    arena_free(&r->memory);
    mem_free(MEM_GENERAL, r, sizeof *r);
}

/* Adds one token's text. True: a stop string is complete. */
static bool deliver_text(request *r, int32_t id, bool ends)
{
    if (!r->tokenizer || ends) /* an end id has no text */
        return false;
    size_t bytes;
    const char *text = tokenizer_bytes(r->tokenizer, id, &bytes);
    return utf8_stream_feed(&r->text, text, bytes, &r->out_text);
}

void request_deliver(request *r, const plan_member *m)
{
    r->out_count = 0;
    buf_clear(&r->out_text);
    for (int i = 0; i < m->committed && r->finish == FORAY_RUNNING; i++) {
        bool last = i == m->committed - 1, ends = last && m->finished == SEQUENCE_END_ID;
        r->out_tokens[r->out_count] = m->tokens[i];
        r->out_logprobs[r->out_count++] = m->logprobs[i];
        if (deliver_text(r, m->tokens[i], ends)) {
            r->finish = FORAY_STOP;
            continue;
        }
        if (ends || (last && m->finished == SEQUENCE_LENGTH)) {
            r->finish = ends ? FORAY_STOP : FORAY_LENGTH;
            utf8_stream_finish(&r->text, &r->out_text);
        }
    }
    r->delivered += r->out_count;
    r->account.completion_tokens = r->delivered;
    if (r->finish != FORAY_RUNNING)
        r->state = REQUEST_ENDED;
    if (r->out_text.failed) { /* ids without their text would be worse than an end */
        r->finish = FORAY_FAILED;
        r->state = REQUEST_ENDED;
        fail(&r->error, FORAY_ENOMEM, "no memory for the text of request %d", r->handle);
    }
}

void request_fail(request *r, const foray_error *error)
{
    r->out_count = 0;
    buf_clear(&r->out_text);
    utf8_stream_finish(&r->text, &r->out_text);
    r->finish = FORAY_FAILED;
    r->error = *error;
    r->state = REQUEST_ENDED;
}

void request_account(request *r, phase p, int64_t from, int64_t to)
{
    from = from < r->admitted_ns ? r->admitted_ns : from;
    if (to <= from)
        return;
    r->account.wall_ns += to - from;
    *(r->delivered == 0 ? &r->account.prefill_ns : &r->account.decode_ns) += to - from;
    r->account.phases_ns[p] += to - from;
}
