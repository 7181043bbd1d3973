/* stack.h: the rooms below the engine, put together by hand: device, model, cache, round, batch. For tests that need
 * what an engine does not offer: a small cache, a device that shuffles its tasks, rounds and slots to look at.
 *
 * Asserts (cmocka) on errors. Threads: one.
 */
#ifndef FORAY_TESTS_STACK_H
#define FORAY_TESTS_STACK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "batch/batch.h"

#include <cmocka.h> /* last: base/error.h has a fail() too */

typedef struct {
    int threads;           /* 0: 1 */
    uint64_t shuffle_seed; /* device.h */
    int slots;             /* 0: 1 */
    int context;           /* 0: 128 */
    int64_t cache_tokens;  /* pages for so many tokens in all; 0: context * slots */
    int prefill_chunk;     /* 0: 32 */
    int spec_tokens;       /* 0: 5 */
    int spec_budget;       /* 0: by cost */
    const char *drafter;   /* NULL: none; draft: the model drafts for itself */
    bool eager;
    unsigned no_graphs; /* bits 1 << graph_family: not these */
    size_t graph_bytes; /* 0: no limit */
    int page_tokens;    /* tokens of a page of growing entries (DeepSeek-V4 type models); 0: as usual */
    bool serial;        /* no side streams */
    bool lockstep;      /* no round is launched before the one before has been read */
    bool unfolded, one_stream, fixed_width; /* round_config's */
    bool act_quant_off;                     /* activations are not rounded, whatever the model file says */
} stack_config;

typedef struct {
    stack_config config; /* resolved */
    model_file *file;
    tokenizer *tokenizer; /* NULL: the file has none */
    device *device;
    model *model;
    cache *cache;
    drafter *drafter;
    round_loop *round;
    batch *batch;
    request_limits limits;
} stack;

void stack_open(stack *s, const char *path, stack_config config);
/* Releases what is held; asserts that every page has come back. */
void stack_close(stack *s);

/* Queues a request that can be. */
foray_request stack_submit(stack *s, const foray_request_config *config);
/* One step; returns how many requests are active. */
int stack_step(stack *s);
/* Steps until nothing waits or runs. Returns the number of steps. */
int stack_run(stack *s);
/* All max_tokens tokens of a request: submitted, run and released. out: [max_tokens] */
void stack_text(stack *s, const foray_request_config *config, int32_t *out);

/* Rows [from, from + n) of ids, as one span of a slot, through a model by hand, whatever the slot's entries before `from`
 * are: pages are reserved, the pass's activations stay as the last row left them. `m` is s->model or a shortened copy of
 * it. logits: [n, vocab], or NULL. Nothing may be in flight. */
void stack_rows(stack *s, const model *m, int slot, const int32_t *ids, int from, int n, float *logits);

/* The drafts that are made right behind a prompt of the first n tokens of a text. Nothing else runs. */
void stack_first_drafts(stack *s, const int32_t *tokens, int n, draft *out);

/* What is visible of a running request is what a fresh prefill of its tokens leaves in the slot `other`, which is free. */
void stack_assert_fresh(stack *s, foray_request r, int other);

/* Fills every page with its pool's poison: what nobody has written is no number that could pass for one. */
void poison_pages(const cache *c);

/* Completion tokens of a request so far: [*count], the request's. */
const int32_t *stack_tokens(const stack *s, foray_request r, int *count);

#endif
