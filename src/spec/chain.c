/* chain.c: a chain of drafts out of a body. See chain.h. */
#include "spec/chain.h"

#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "kernel/ref/vmath.h"

typedef struct {
    drafter base; /* first: a drafter is one of these */
    chain_config config;
    pass pass;

    /* Device memory. */
    int32_t *head_slot; /* [max_requests] */
    int32_t *sample_position, *token;
    float *logprob;
    const sample_params **params; /* [max_requests] the request's, or of a first draft: */
    sample_params *first_params;  /* [max_requests] the same, and its probability too */
    sample_history *history;
    float *drawn; /* [slots, most, vocab] what drafts were drawn from, rule `exact`; else NULL */
    int most;

    /* By slot: rows done, the draft that they gave, how sure it was, and the one before it. */
    int32_t *done, *first, *signal, *lagged;
    size_t slot_bytes;

    plan_parts parts; /* the round loop's, once it has launched something */

    /* Of the launch in progress. */
    int step;                     /* drafts that the members have */
    int member[PLAN_MAX_MEMBERS]; /* [head row] */
} chain;

/* ---- what a pass is given ------------------------------------------------------------------------ */

static void open_rows(chain *d)
{
    *d->pass.count = (pass_counts) { 0 };
}

static void add_row(chain *d, int32_t id, int position, int slot)
{
    pass_counts *count = d->pass.count;
    int i = count->rows++;
    d->pass.ids[i] = id;
    d->pass.position[i] = position;
    d->pass.slot[i] = slot;
    count->stream_rows += d->config.body->streams;
    row_span *last = count->spans > 0 ? &d->pass.spans[count->spans - 1] : NULL;
    if (last && last->slot == slot)
        last->rows++;
    else
        d->pass.spans[count->spans++] =
            (row_span) { .first_row = i, .rows = 1, .slot = slot, .first_position = position };
}

/* Of the drafts of a slot. */
static float *drawn_of(const chain *d, int slot)
{
    return d->drawn ? d->drawn + (size_t)slot * (size_t)d->most * (size_t)d->config.body->vocab : NULL;
}

/* How sure the drafter is, as far as the budget may know. A choice that saw this round's draft would prefer some tokens under
 * `exact`; the draft before it is settled (dspark.md 3.3). */
static int told_signal(const chain *d, int slot)
{
    return d->config.drawing.accept == ACCEPT_EXACT ? d->lagged[slot] : d->signal[slot];
}

/* The last row added gives draft number `drafted` of this text, behind those. */
static void add_head(chain *d, const sequence *s, const int32_t *drafts, int drafted)
{
    int h = d->pass.count->heads++, position = s->count + drafted;
    d->pass.head_row[h] = d->pass.count->rows - 1;
    d->head_slot[h] = s->slot;
    d->sample_position[h] = position;
    d->params[h] = &s->params[position < s->min_count];
    if (drafted == 0) { /* whether or not the request asks for it: it is the signal */
        d->first_params[h] = *d->params[h];
        d->first_params[h].want_logprob = 1;
        d->params[h] = &d->first_params[h];
    }
    d->history[h] = (sample_history) {
        .tokens = s->tokens, .count = s->count, .prompt = s->prompt, .draft = drafts, .draft_count = drafted
    };
    assert(drafted < d->most);
    if (d->drawn)
        d->history[h].distribution = drawn_of(d, s->slot) + (size_t)drafted * (size_t)d->config.body->vocab;
}

/* Rows that can be made of what stands. */
static int known(const chain *d, const sequence *s)
{
    return s->computed + d->config.body->lead;
}

/* ---- kernels of class host ----------------------------------------------------------------------- */

/* Classes of how likely the layer thought its draft. */
static int signal_of(float logprob)
{
    float eighth = vmath_exp(logprob) * DRAFT_SIGNALS;
    return !(eighth > 0) ? 0 : eighth >= DRAFT_SIGNALS ? DRAFT_SIGNALS - 1 : (int)eighth;
}

/* Rows for the next draft of every member that still has room. */
static void feed(chain *d)
{
    const plan_given *given = d->parts.given;
    plan_packed *packed = d->parts.packed;
    open_rows(d);
    for (int i = 0; i < given->members; i++) {
        const sequence *s = given->member[i].sequence;
        const draft *made = &packed->draft[i];
        if (made->count == 0 || made->count != d->step || packed->room[i] <= d->step)
            continue;
        add_row(d, made->tokens[d->step - 1], known(d, s) + d->step - 1, s->slot);
        d->member[d->pass.count->heads] = i;
        add_head(d, s, made->tokens, d->step);
    }
}

static void run_draft_begin(void *user)
{
    chain *d = user;
    const plan_given *given = d->parts.given;
    plan_packed *packed = d->parts.packed;
    for (int i = 0; i < given->members; i++) {
        const int slot = given->member[i].sequence->slot;
        draft *made = &packed->draft[i];
        if (packed->room[i] == 0)
            continue;
        made->signal = told_signal(d, slot);
        made->drawn = drawn_of(d, slot);
        made->drawn_stride = (size_t)d->config.body->vocab;
        made->tokens[made->count++] = d->first[slot];
    }
    d->step = 1;
    feed(d);
}

static void run_draft_next(void *user)
{
    chain *d = user;
    for (int h = 0; h < d->pass.count->heads; h++) {
        draft *made = &d->parts.packed->draft[d->member[h]];
        made->tokens[made->count++] = d->token[h];
    }
    d->step++;
    feed(d);
}

static void run_extend_begin(void *user)
{
    chain *d = user;
    plan_extension *extension = d->parts.extension;
    open_rows(d);
    for (int i = 0; i < extension->members; i++) {
        const sequence *s = extension->sequence[i];
        if (s->finished != SEQUENCE_RUNS)
            continue;
        int at = drafter_rows_from(&d->base, s->prompt, s->computed, d->done[s->slot]);
        for (; at < known(d, s) && d->pass.count->rows < extension->rows_launched; at++)
            add_row(d, s->tokens[at + 1 - d->config.body->lead], at, s->slot);
        d->done[s->slot] = at;
        if (sequence_pending(s) == 1 && at == known(d, s))
            add_head(d, s, NULL, 0);
    }
    plan_result_of(&d->parts, extension->round)->extended = d->pass.count->rows;
#ifdef FORAY_CHECKS
    memset(extension, 0x7f, sizeof *extension); /* nobody reads it any more */
#endif
}

static void run_extend_end(void *user)
{
    chain *d = user;
    for (int h = 0; h < d->pass.count->heads; h++) {
        int slot = d->head_slot[h];
        d->first[slot] = d->token[h];
        d->lagged[slot] = d->signal[slot];
        d->signal[slot] = signal_of(d->logprob[h]);
    }
}

/* ---- launches ------------------------------------------------------------------------------------ */

static int launch_host(chain *d, stream *s, const char *name, void (*run)(void *), const void *reads,
                       const void *writes, foray_error *err)
{
    args_host a = { .name = name,
                    .run = run,
                    .user = d,
                    .reads = { d->token, reads },
                    .writes = { d->pass.count, d->pass.ids, d->pass.position, d->head_slot, writes } };
    return stream_launch(s, KERNEL_HOST, &(kernel_args) { .host = a }, err);
}

/* The body over the pass, and a token for each head row. */
static int launch_body(chain *d, stream *s, int rows, int heads, bool from_self, foray_error *err)
{
    const chain_body *b = d->config.body;
    int rc = b->launch(b, &d->pass, rows, heads, from_self, d->head_slot, s, err);
    if (rc == 0)
        rc = stream_launch(
            s, KERNEL_SAMPLE,
            &(kernel_args) {
                .sample = { .rows = { .live = &d->pass.count->heads, .max = heads },
                            .logits = d->pass.logits,
                            .logits_stride = (size_t)b->model->info.vocab,
                            .vocab = b->vocab,
                            .position = d->sample_position,
                            .params = d->params,
                            .history = d->history,
                            .use = d->config.drawing.accept == ACCEPT_COUPLED ? RNG_GUMBEL : RNG_DRAFT,
                            .writes = d->drawn,
                            .token = d->token,
                            .logprob = d->logprob } },
            err);
    return rc;
}

/* Kernels in flight may be reading d->parts: they are the same in every round. */
static void note_parts(chain *d, const plan_parts *p)
{
    if (d->parts.given != p->given)
        d->parts = *p;
}

/* K - 1 forwards: the first draft came from the extend before. */
static int draft_now(drafter *base, const round_plan *p, const plan_parts *parts, stream *s, foray_error *err)
{
    chain *d = (chain *)base;
    note_parts(d, parts);
    int rc = launch_host(d, s, "draft_begin", run_draft_begin, parts->given, parts->packed, err);
    for (int k = 1; k < p->draft_steps && rc == 0; k++) {
        rc = launch_body(d, s, p->slots_launched, p->slots_launched, true, err);
        if (rc == 0)
            rc = launch_host(d, s, "draft_next", run_draft_next, parts->given, parts->packed, err);
    }
    return rc;
}

static int extend_now(drafter *base, const round_plan *p, const plan_parts *parts, stream *s,
                      foray_error *err)
{
    chain *d = (chain *)base;
    note_parts(d, parts);
    int rc = launch_host(d, s, "extend_begin", run_extend_begin, parts->extension, parts->result, err);
    if (rc == 0)
        rc = launch_body(d, s, p->extend_launched, p->slots_launched, false, err);
    return rc == 0 ? launch_host(d, s, "extend_end", run_extend_end, NULL, NULL, err) : rc;
}

/* ---- the drafter --------------------------------------------------------------------------------- */

static bool is_ready(const drafter *base, const sequence *s)
{
    const chain *d = (const chain *)base;
    return sequence_pending(s) == 1 && d->done[s->slot] == known(d, s);
}

static int signal_now(const drafter *base, const sequence *s)
{
    return told_signal((const chain *)base, s->slot);
}

/* Whatever rows there are, they are another text's. */
static void open_slot(drafter *base, int slot)
{
    chain *d = (chain *)base;
    d->done[slot] = d->signal[slot] = d->lagged[slot] = 0;
}

static void destroy(drafter *base)
{
    chain *d = (chain *)base;
    device *v = d->config.device;
    model_pass_destroy(d->config.body->model, v, &d->pass);
    void *buffers[] = { d->head_slot, d->sample_position, d->token,   d->logprob,
                        d->params,    d->first_params,    d->history, d->drawn };
    pass_free_buffers(v, buffers, sizeof buffers / sizeof *buffers);
    mem_free(MEM_GENERAL, d->done, d->slot_bytes);
    d->config.body->destroy(d->config.body);
    mem_free(MEM_GENERAL, d, sizeof *d);
}

static int create_buffers(chain *d, foray_error *err)
{
    const chain_config *c = &d->config;
    size_t heads = (size_t)plan_tier(c->max_requests); /* launches come in tiers */
    int rc = model_pass_create(c->body->model, c->device, d->base.most_extended, (int)heads, (int)heads,
                               c->max_length, &d->pass, err);
#define BUFFER(name, count)                                                                                  \
    pass_buffer(c->device, "chain " #name, count, 1, sizeof *d->name, &d->name, &rc, err)
    BUFFER(head_slot, heads);
    BUFFER(sample_position, heads);
    BUFFER(token, heads);
    BUFFER(logprob, heads);
    BUFFER(params, heads);
    BUFFER(first_params, heads);
    BUFFER(history, heads);
    if (c->drawing.accept == ACCEPT_EXACT)
        pass_buffer(c->device, "chain drawn", (size_t)c->slots * (size_t)d->most, (size_t)c->body->vocab,
                    sizeof *d->drawn, &d->drawn, &rc, err);
    d->base.drawn = d->drawn;
#undef BUFFER
    return rc;
}

/* Before anything is allocated. */
static int check_drawn(const chain_config *c, int most, foray_error *err)
{
    size_t bytes = sizeof(float) * (size_t)c->slots * (size_t)most * (size_t)c->body->vocab;
    if (c->drawing.accept == ACCEPT_EXACT && bytes > CHAIN_MOST_DRAWN)
        return fail(
            err, FORAY_ELIMIT,
            "--accept exact: %s would keep %.1f GB of probabilities, of %d drafts of %d requests over %d "
            "tokens (fewer --spec-tokens or requests, or --accept target)",
            c->body->name, (double)bytes / 1e9, most, c->slots, c->body->vocab);
    return 0;
}

int chain_open(const chain_config *config, drafter **out, foray_error *err)
{
    chain_body *body = config->body;
    int most = config->drawing.most ? config->drawing.most : CHAIN_DEFAULT_TOKENS;
    int refused = check_drawn(config, most, err);
    if (refused != 0) {
        body->destroy(body);
        return refused;
    }
    chain *d = mem_alloc_zeroed(MEM_GENERAL, sizeof *d);
    if (!d) {
        body->destroy(body);
        return fail(err, FORAY_ENOMEM, "drafter %s: no memory", body->name);
    }
    *d = (chain) { .base = { .name = body->name,
                             .default_tokens = CHAIN_DEFAULT_TOKENS,
                             .draft_now = draft_now,
                             .extend_now = extend_now,
                             .is_ready = is_ready,
                             .signal_now = signal_now,
                             .lead = body->lead,
                             .window = body->window,
                             .open_slot = open_slot,
                             .destroy = destroy },
                   .config = *config,
                   .most = most,
                   .slot_bytes = 4 * sizeof(int32_t) * (size_t)config->slots };
    /* What one request can owe after a pause must fit where there is a window: its rows are made from its start on. */
    int least = plan_tier(body->window + DRAFT_MAX + 2);
    d->base.most_extended = config->max_rows > least ? config->max_rows : least;
    d->done = mem_alloc_zeroed(MEM_GENERAL, d->slot_bytes);
    int rc = d->done ? create_buffers(d, err) : fail(err, FORAY_ENOMEM, "drafter %s: no memory", body->name);
    if (rc != 0) {
        destroy(&d->base);
        return rc;
    }
    d->first = d->done + config->slots;
    d->signal = d->first + config->slots;
    d->lagged = d->signal + config->slots;
    *out = &d->base;
    return 0;
}
