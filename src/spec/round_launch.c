/* round_launch.c: what a planned round enqueues, part by part, replayed or eagerly, and the edges between its two streams.
 *
 *   plan stream   wait given read ─▶ plan ─▶ given ready   wait extension read ─▶ plan_extend ─▶ extension ready
 *   main          wait given ready ─▶ begin ─▶ draft ─▶ pack ─▶ verify … commit ─▶ given read
 *                 wait extension ready ─▶ draft-extend ─▶ extension read ─▶ round done
 *
 * No edge implies another: each one, left out, is found by the happens-before check. Waits for nothing itself.
 * Threads: the host thread.
 */
#include "spec/round_internal.h"

void round_mark(round_loop *r, phase of, int rows)
{
    const round_plan *p = round_planning(r);
    device_mark(r->config.device,
                (task_mark) { .round = p->round, .phase = of, .rank = p->rank, .rows = rows });
}

/* Trunk to sample, and what follows if it is folded into the same graph. */
static int launch_verify(round_loop *r, int slots, int rows, int heads, bool fold, foray_error *err)
{
    const round_config *c = &r->config;
    const round_plan *p = round_planning(r);
    round_mark(r, p->phase, rows);
    bool forks = p->phase != PHASE_PREFILL && rows <= c->multi_stream_rows;
    int rc = model_trunk(c->model, &r->pass, c->cache, rows, slots, p->max_length, r->stream,
                         forks ? r->fork : NULL, err);
    if (rc == 0)
        rc = model_head(c->model, &r->pass, heads, r->stream, err);
    round_mark(r, PHASE_ACCEPT, rows);
    if (rc == 0)
        rc = stream_launch(
            r->stream, KERNEL_SAMPLE,
            &(kernel_args) { .sample = { .rows = { .live = &r->pass.count->heads, .max = heads },
                                         .logits = r->pass.logits,
                                         .logits_stride = (size_t)c->model->info.vocab,
                                         .vocab = c->model->info.vocab,
                                         .position = r->sample_position,
                                         .params = r->params,
                                         .history = r->history,
                                         .token = r->token,
                                         .logprob = r->logprob,
                                         .reads = p->drafter ? p->drafter->drawn : NULL } },
            err);
    return rc == 0 && fold ? round_launch_accept(r, rows, err) : rc;
}

/* A phase of the plan, as a graph holds it or as it runs eagerly. Nodes keep the phase that is marked meanwhile. */
int round_launch_family(void *user, graph_family f, foray_error *err)
{
    round_loop *r = user;
    const round_plan *p = round_planning(r);
    drafter *d = p->drafter;
    switch (f) {
    case GRAPH_DRAFT:
        round_mark(r, PHASE_DRAFT, p->slots_launched);
        return d->draft_now(d, p, &r->parts, r->stream, err);
    case GRAPH_EXTEND:
        round_mark(r, PHASE_DRAFT_EXTEND, p->extend_launched);
        return d->extend_now(d, p, &r->parts, r->stream, err);
    default:
        return launch_verify(r, p->slots_launched, p->rows_launched, p->rows_launched, !r->config.unfolded,
                             err);
    }
}

/* Replayed or launched, as the route has it. */
static int run_part(round_loop *r, int part, int rows, foray_error *err)
{
    const round_plan *p = round_planning(r);
    const route *way = &r->route[p->round % ROUND_AHEAD];
    const graph_key k = route_key(p, part, NULL);
    if (!way->replay[part])
        return round_launch_family(r, k.family, err);
    round_mark(r, graph_family_phase(k.family), rows);
    return graph_launch(way->replay[part], r->stream, err);
}

/* `to` goes on when `e` is recorded on `from` and has come. */
static int hand_over(stream *from, event *e, stream *to, foray_error *err)
{
    int rc = event_record(e, from, err);
    return rc == 0 ? stream_wait(to, e, err) : rc;
}

/* Part A: on the plan stream, as soon as the round before has read its own. */
static int launch_plans(round_loop *r, foray_error *err)
{
    const round_plan *p = round_planning(r);
    round_mark(r, PHASE_PLAN, p->members);
    int rc = stream_wait(r->planner, r->given_read, err);
    if (rc == 0)
        rc = round_launch_plan(r, p->round, err);
    if (rc == 0)
        rc = hand_over(r->planner, r->given_ready, r->stream, err);
    if (rc != 0 || p->extend_launched == 0)
        return rc;
    rc = stream_wait(r->planner, r->extension_read, err);
    if (rc == 0)
        rc = round_launch_plan_extend(r, p->round, err);
    return rc == 0 ? event_record(r->extension_ready, r->planner, err) : rc;
}

static int launch_target(round_loop *r, foray_error *err)
{
    const round_plan *p = round_planning(r);
    const bool prompt = p->phase == PHASE_PREFILL;
    int rc = prompt ? launch_verify(r, p->slots_launched, p->rows_launched, r->pass.max_heads, true, err)
                    : run_part(r, ROUTE_TARGET, p->rows_launched, err);
    if (rc == 0 && !prompt && r->config.unfolded)
        rc = round_launch_accept(r, p->rows_launched, err);
    return rc == 0 ? event_record(r->given_read, r->stream, err) : rc;
}

static int launch_extend(round_loop *r, foray_error *err)
{
    const round_plan *p = round_planning(r);
    round_mark(r, PHASE_DRAFT_EXTEND, p->extend_launched);
    int rc = stream_wait(r->stream, r->extension_ready, err);
    if (rc == 0)
        rc = run_part(r, ROUTE_EXTEND, p->extend_launched, err);
    return rc == 0 ? event_record(r->extension_read, r->stream, err) : rc;
}

int round_launch_parts(round_loop *r, foray_error *err)
{
    const round_plan *p = round_planning(r);
    int rc = launch_plans(r, err);
    round_mark(r, PHASE_DRAFT, p->members);
    if (rc == 0)
        rc = round_launch_begin(r, p->phase == PHASE_TARGET_VERIFY && !drafts_on_device(p->drafter), err);
    if (rc == 0 && p->draft_steps > 0)
        rc = run_part(r, ROUTE_DRAFT, p->members, err);
    round_mark(r, PHASE_PLAN, p->members);
    if (rc == 0)
        rc = round_launch_pack(r, err);
    if (rc == 0)
        rc = launch_target(r, err);
    if (rc == 0 && p->extend_launched > 0)
        rc = launch_extend(r, err);
    return rc == 0 ? event_record(r->done[p->round % ROUND_AHEAD], r->stream, err) : rc;
}
