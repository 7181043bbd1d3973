/* job.c: see job.h. */
#include "support/job.h"

#include <stdio.h>
#include <string.h>

#include "support/generate.h"
#include "support/tiny.h"
#include "support/tiny_v4.h"

static char paths[JOB_MODELS][512];
static stack plain[JOB_MODELS];

int jobs_open(void **state)
{
    (void)state;
    tiny_spec spec = tiny_default(), window = tiny_family(MODEL_MISTRAL);
    tiny_v4_spec sparse = tiny_v4_small();
    spec.layers = window.layers = 1;
    spec.dim = window.dim = 32;
    spec.ffn = window.ffn = 64;
    spec.no_text = window.no_text = sparse.no_text = true;
    snprintf(paths[JOB_LLAMA], sizeof paths[0], "%s", tiny_gguf(&spec));
    snprintf(paths[JOB_WINDOWED], sizeof paths[0], "%s", tiny_gguf(&window));
    snprintf(paths[JOB_SPARSE], sizeof paths[0], "%s", tiny_v4_model(&sparse, TINY_V4_PLAIN));
    for (int m = 0; m < JOB_MODELS; m++)
        stack_open(&plain[m], paths[m], (stack_config) { .context = JOB_CONTEXT, .eager = true });
    return 0;
}

int jobs_close(void **state)
{
    (void)state;
    for (int m = 0; m < JOB_MODELS; m++)
        stack_close(&plain[m]);
    return 0;
}

const char *job_model(int which)
{
    return paths[which];
}

const char *job_chain(int which)
{
    return which == JOB_SPARSE ? "nextn" : "draft";
}

void job_expect(job *j, int which)
{
    stack_text(&plain[which], &j->config, j->said);
}

void job_prepare(job *j, int which, int seed, int prompt, int most)
{
    foray_request_config *c = &j->config;
    random_ids(seed, prompt, plain[which].model->info.vocab, j->ids);
    *c = request_of(j->ids, prompt, most);
    c->ignore_eos = true;
    c->sampling.temperature = seed % 2 ? 0 : 8;
    c->sampling.seed = (uint64_t)seed;
    job_expect(j, which);
    for (int i = 0; i < most; i++)
        j->script[i] = j->said[i] ^ (i % 4 == 3);
    c->script = j->script;
    c->script_count = (size_t)most;
}

void job_submit(stack *s, job *j)
{
    j->handle = stack_submit(s, &j->config);
}

void job_assert_said(stack *s, job *j)
{
    int count;
    const int32_t *tokens = stack_tokens(s, j->handle, &count);
    assert_int_equal(count, j->config.max_tokens);
    assert_memory_equal(tokens, j->said, sizeof *tokens * (size_t)count);
    batch_release(s->batch, j->handle);
    j->handle = 0;
}

bool job_decodes(const stack *s, const job *j)
{
    const request *r = batch_find(s->batch, j->handle);
    return r->state == REQUEST_RUNS && r->delivered > 0;
}

static int keep_none(void *user, const plan_member *m)
{
    (void)user;
    (void)m;
    return 0;
}

void jobs_fill(stack *s, job *jobs, int n)
{
    round_hooks hooks = { .keep = keep_none };
    round_set_hooks(s->round, &hooks);
    for (int i = 0; i < n; i++)
        job_submit(s, &jobs[i]);
    for (int i = 0; i < n; i++)
        while (!job_decodes(s, &jobs[i]))
            stack_step(s);
    round_set_hooks(s->round, NULL);
}

int64_t jobs_eager_parts(const stack *s)
{
    int64_t sum = 0;
    for (int f = 0; f < GRAPH_FAMILIES; f++)
        for (int why = 0; why < ROUTE_REASONS; why++)
            sum += why == ROUTE_PREFILL ? 0 : round_graph_counters(s->round, (graph_family)f)->refused[why];
    return sum;
}
