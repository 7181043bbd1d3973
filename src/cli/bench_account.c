/* bench_account.c: the account of a round. See bench_account.h. */
#include "cli/bench_account.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "cli/bench_requests.h"
#include "engine/score.h"
#include "observe/step_record.h"

_Static_assert((int)FORAY_PHASES == (int)PHASE_COUNT, "the public header counts the phases");

enum { MOST_STEPS = 8192, MOST_PLACES = 256, TOKENS = 64, WARM_TOKENS = 24 };

/* Of one phase, over the timed rounds. */
typedef struct {
    double *ms; /* [MOST_STEPS] of rounds that spent time on it */
    int64_t ns;
    int steps, runs, replays;
} phase_sum;

typedef struct {
    foray_engine *engine;
    bench_account *out;
    bool timed;
    int64_t last; /* forward_ct of the record before */
    double *ms;   /* [1 + PHASE_COUNT][MOST_STEPS] the walls, then the phases */
    phase_sum sum[PHASE_COUNT];
    int64_t wall_ns, plan_ns, update_ns, members, tokens, rows_live, rows_launched;
    struct {
        step_wait sum;
        int steps;
    } place[MOST_PLACES];
    int places;
    int32_t ids[BENCH_MOST_REQUESTS][BENCH_MOST_PROMPT];
} account;

/* ---- rounds ---------------------------------------------------------------------------------- */

static bool same_wait(const step_wait *a, const step_wait *b)
{
    return a->stream == b->stream && a->event == b->event && a->from == b->from;
}

/* A side stream that waits for main has nothing to do meanwhile: that is no delay. */
static void note_waits(account *a, const step_record *s)
{
    a->out->waits_unseen += s->waits_left_out;
    for (int i = 0; i < s->waits; i++) {
        const step_wait *w = &s->wait[i];
        int k = 0;
        if (strcmp(w->from, "main") == 0)
            continue;
        while (k < a->places && !same_wait(&a->place[k].sum, w))
            k++;
        if (k == MOST_PLACES) {
            a->out->waits_unseen++;
            continue;
        }
        if (k == a->places)
            a->place[a->places++].sum = (step_wait) { w->stream, w->event, w->from, 0, 0 };
        a->place[k].sum.waited_ns += w->waited_ns;
        a->place[k].sum.joins += w->joins;
        a->place[k].steps++;
    }
}

static void note_phases(account *a, const step_record *s)
{
    for (int p = 0; p < PHASE_COUNT; p++) {
        phase_sum *m = &a->sum[p];
        m->ns += s->phases_ns[p];
        if (s->phases_ns[p] > 0)
            m->ms[m->steps++] = (double)s->phases_ns[p] / 1e6;
        m->runs += s->route[p][0] != '\0';
        m->replays += strncmp(s->route[p], "graph:", 6) == 0;
    }
}

/* Behind every step: its record. */
static bool note_step(void *user)
{
    account *a = user;
    bench_account *o = a->out;
    const step_record *s = engine_last_step(a->engine);
    const int64_t before = a->last;
    if (s->forward_ct == before)
        return true;
    a->last = s->forward_ct;
    if (!a->timed) {
        o->warm_steps += (int)(s->forward_ct - before);
        return true;
    }
    o->unseen += (int)(s->forward_ct - before - 1);
    if (!s->decode) {
        o->prompt_steps++;
        return true;
    }
    if (o->steps == MOST_STEPS) {
        o->unseen++;
        return true;
    }
    a->ms[o->steps++] = (double)s->wall_ns / 1e6;
    o->exact += step_record_sums(s);
    note_phases(a, s);
    note_waits(a, s);
    a->wall_ns += s->wall_ns;
    a->plan_ns += s->plan_ns;
    a->update_ns += s->update_ns;
    a->rows_live += s->rows_live;
    a->rows_launched += s->rows_launched;
    a->members += s->requests;
    for (int i = 0; i < s->requests; i++)
        a->tokens += s->request[i].commit_len;
    return true;
}

/* The classes in turn, each request a prompt of its own as far as there are so many. */
static const bench_prompt *prompt_of(int i)
{
    const int kinds = 4, each = BENCH_PROMPT_COUNT / kinds;
    return &BENCH_PROMPTS[i % kinds * each + i / kinds % each];
}

/* *fits: whether all of them have room for `tokens` more. */
static int run_pass(account *a, int pass, int tokens, bool *fits, foray_error *err)
{
    const int requests = a->out->requests, context = foray_engine_info(a->engine).context;
    foray_request_config c[BENCH_MOST_REQUESTS];
    int count, rc = 0;
    *fits = true;
    for (int i = 0; i < requests && rc == 0; i++) {
        rc = bench_encode(a->engine, prompt_of(pass * requests + i), a->ids[i], &count, err);
        c[i] = bench_plain_request(a->ids[i], count, tokens);
        *fits = *fits && count + tokens <= context;
    }
    return rc == 0 && *fits ? bench_run_batch(a->engine, c, requests, NULL, 0, note_step, a, err) : rc;
}

/* ---- what came of it ------------------------------------------------------------------------- */

static void sum_up_waits(account *a)
{
    bench_account *o = a->out;
    for (; o->waits < BENCH_MOST_WAITS; o->waits++) {
        int most = -1;
        for (int i = 0; i < a->places; i++)
            if (a->place[i].sum.waited_ns > 0 &&
                (most < 0 || a->place[i].sum.waited_ns > a->place[most].sum.waited_ns))
                most = i;
        if (most < 0)
            return;
        step_wait *w = &a->place[most].sum;
        o->wait[o->waits] = (bench_wait) { .stream = w->stream,
                                           .event = w->event,
                                           .from = w->from,
                                           .steps = a->place[most].steps,
                                           .joins = w->joins,
                                           .us = (double)w->waited_ns / 1e3 / o->steps };
        w->waited_ns = 0;
    }
}

static void sum_up(account *a)
{
    bench_account *o = a->out;
    const double steps = o->steps, wall = (double)a->wall_ns;
    for (int p = 0; p < PHASE_COUNT; p++) {
        const phase_sum *m = &a->sum[p];
        if (m->steps == 0 && m->runs == 0)
            continue;
        o->phase[o->phases++] = (bench_phase) { .name = phase_name((phase)p),
                                                .steps = m->steps,
                                                .ms = bench_spread_sort(m->ms, m->steps),
                                                .mean_ms = (double)m->ns / 1e6 / steps,
                                                .share = (double)m->ns / wall,
                                                .runs = m->runs,
                                                .replays = m->replays };
    }
    o->ms = bench_spread_sort(a->ms, o->steps);
    o->members = (double)a->members / steps;
    o->rows_live = (double)a->rows_live / steps;
    o->rows_launched = (double)a->rows_launched / steps;
    o->accepted_length = (double)a->tokens / (double)a->members;
    o->tokens_per_second = (double)a->tokens / (wall / 1e9);
    o->plan_us = (double)a->plan_ns / 1e3 / steps;
    o->update_us = (double)a->update_ns / 1e3 / steps;
    sum_up_waits(a);
}

int bench_account_measure(foray_engine *e, int requests, int passes, bench_account *out, foray_error *err)
{
    const size_t bytes = sizeof(double) * (1 + PHASE_COUNT) * MOST_STEPS;
    bool fits = true;
    account *a = mem_alloc_zeroed(MEM_GENERAL, sizeof *a);
    double *ms = mem_alloc(MEM_GENERAL, bytes);
    *out = (bench_account) { .requests = requests };
    snprintf(out->spec, sizeof out->spec, "%s", foray_engine_info(e).spec);
    int rc = a && ms ? 0 : fail(err, FORAY_ENOMEM, "bench: no memory for the account of a round");
    if (rc == 0) {
        *a = (account) { .engine = e, .out = out, .ms = ms, .last = engine_last_step(e)->forward_ct };
        for (int p = 0; p < PHASE_COUNT; p++)
            a->sum[p].ms = ms + (size_t)(1 + p) * MOST_STEPS;
        rc = run_pass(a, 0, WARM_TOKENS, &fits, err);
        a->timed = true;
    }
    for (int k = 0; k < passes && rc == 0 && fits; k++)
        rc = run_pass(a, k, TOKENS, &fits, err);
    if (rc == 0 && out->steps > 0)
        sum_up(a);
    mem_free(MEM_GENERAL, ms, bytes);
    mem_free(MEM_GENERAL, a, sizeof *a);
    return rc;
}
