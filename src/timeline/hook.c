/* hook.c: see hook.h. */
#include "timeline/hook.h"

#include "base/mem.h"

static bool communicates(const task *x)
{
    return x->kind == EVENT_COMM || x->kind == EVENT_NOTIFY_WAIT;
}

static bool computes(const hook *h, const task *x)
{
    return !communicates(x) && h->surplus[x->lane] > 0;
}

/* When x's own stream had nothing more to do but x: a wait begins at once, a kernel when the one before it is over. */
static int64_t ran_dry(const hook *h, const task *x)
{
    if (x->kind == EVENT_WAIT)
        return x->start;
    if (x->before == 0)
        return INT64_MIN;
    const int64_t end = h->g->tasks[x->before - 1].end;
    return end < x->start ? end : x->start;
}

int hook_open(const task_graph *g, hook *out, foray_error *err)
{
    const size_t lanes = g->t->lanes;
    *out = (hook) { .g = g, .at = INT64_MIN };
    out->surplus = mem_alloc_zeroed(MEM_RECORDS, (lanes + 1) * sizeof *out->surplus);
    out->dry = mem_alloc(MEM_RECORDS, (g->count + 1) * sizeof *out->dry);
    if (out->surplus == NULL || out->dry == NULL)
        return fail(err, FORAY_ENOMEM, "out of memory for %zu tasks", g->count);
    for (size_t i = 0; i < g->count; i++) {
        const task *x = &g->tasks[i];
        if (communicates(x))
            out->surplus[x->lane] -= x->end - x->start;
        else if (event_is_work(x->kind))
            out->surplus[x->lane] += x->end - x->start;
    }
    for (size_t i = 0; i < g->count; i++)
        out->dry[i] = INT64_MAX;
    for (size_t i = 0; i < g->count; i++) {
        const task *x = &g->tasks[i];
        if (x->cause == 0 || !computes(out, x))
            continue;
        int64_t *first = &out->dry[x->cause - 1], dry = ran_dry(out, x);
        *first = dry < *first ? dry : *first;
    }
    return FORAY_OK;
}

void hook_close(hook *h)
{
    if (h->g == NULL)
        return;
    mem_free(MEM_RECORDS, h->surplus, (h->g->t->lanes + 1) * sizeof *h->surplus);
    mem_free(MEM_RECORDS, h->dry, (h->g->count + 1) * sizeof *h->dry);
    *h = (hook) { 0 };
}

void hook_reset(hook *h)
{
    h->at = INT64_MIN;
}

void hook_enter(hook *h, uint32_t number)
{
    const task *x = &h->g->tasks[number - 1];
    if (event_is_work(x->kind) && computes(h, x))
        h->at = INT64_MIN;
    else if (h->dry[number - 1] != INT64_MAX)
        h->at = h->dry[number - 1];
}

int64_t hook_cut(const hook *h, int64_t from, int64_t to)
{
    return h->at <= from ? from : h->at < to ? h->at : to;
}
