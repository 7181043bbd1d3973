/* route.c: sizes, refusals and agreement. See route.h. */
#include "spec/route.h"

#include <stdio.h>

void route_ask(const round_plan *p, route *out)
{
    *out = (route) { .can = { 1, 1, 1 } };
    if (p->members == 0 || p->phase == PHASE_PREFILL)
        return;
    out->most[ROUTE_VERIFIES] = p->phase == PHASE_TARGET_VERIFY;
    out->most[ROUTE_SLOTS] = p->slots_launched;
    out->most[ROUTE_ROWS] = p->rows_launched;
    out->most[ROUTE_DRAFTS] = p->draft_steps;
    out->most[ROUTE_EXTENDED] = p->extend_launched;
}

int route_agree_sizes(const communicator *c, stream *s, route *r, foray_error *err)
{
    return collective_all_reduce_max(c, s, r->most, ROUTE_SIZES, err);
}

static void lift(int32_t *own, int32_t agreed)
{
    *own = *own > agreed ? *own : agreed;
}

void route_bind(const route *r, round_plan *p)
{
    if (r->most[ROUTE_VERIFIES] && p->phase == PHASE_DECODE)
        p->phase = PHASE_TARGET_VERIFY;
    lift(&p->slots_launched, r->most[ROUTE_SLOTS]);
    lift(&p->rows_launched, r->most[ROUTE_ROWS]);
    lift(&p->draft_steps, r->most[ROUTE_DRAFTS]);
    lift(&p->extend_launched, r->most[ROUTE_EXTENDED]);
}

bool route_runs(const round_plan *p, int part)
{
    return part == ROUTE_TARGET || (part == ROUTE_DRAFT ? p->draft_steps > 0 : p->extend_launched > 0);
}

graph_key route_key(const round_plan *p, int part, const void *owner)
{
    if (part == ROUTE_TARGET)
        return (graph_key) { p->phase == PHASE_TARGET_VERIFY ? GRAPH_VERIFY : GRAPH_DECODE, p->slots_launched,
                             p->rows_launched, NULL };
    return part == ROUTE_DRAFT ? (graph_key) { GRAPH_DRAFT, p->slots_launched, p->draft_steps, owner }
                               : (graph_key) { GRAPH_EXTEND, p->slots_launched, p->extend_launched, owner };
}

route_reason route_refuse(const route_rules *rules, const round_plan *p, const graph_key *k, bool hook)
{
    if (!rules->graphs)
        return ROUTE_OFF;
    if (p->phase == PHASE_PREFILL)
        return ROUTE_PREFILL;
    if (!(rules->families >> k->family & 1))
        return ROUTE_PHASES;
    if (!graphs_has_tier(k))
        return ROUTE_TIER;
    return hook ? ROUTE_HOOK : ROUTE_REPLAY;
}

int route_agree(const communicator *c, stream *s, route *r, foray_error *err)
{
    int rc = collective_all_reduce_min(c, s, r->can, ROUTE_PARTS, err);
    route_settle(r);
    return rc;
}

void route_settle(route *r)
{
    for (int part = 0; part < ROUTE_PARTS; part++)
        if (!r->can[part] && r->why[part] == ROUTE_REPLAY)
            r->why[part] = ROUTE_RANKS;
}

void route_text(const round_plan *p, int part, route_reason why, char *text)
{
    const graph_key k = route_key(p, part, NULL);
    if (!route_runs(p, part))
        text[0] = 0;
    else if (why == ROUTE_REPLAY)
        snprintf(text, PLAN_ROUTE_BYTES, "graph:%dx%d", k.slots, k.size);
    else
        snprintf(text, PLAN_ROUTE_BYTES, "eager:%s", route_reason_name(why));
}

int route_decide(route *r, const route_maker *m, round_plan *p, bool hook, foray_error *err)
{
    const communicator ranks = { .rank = p->rank, .ranks = 1 };
    route_ask(p, r);
    int rc = route_agree_sizes(&ranks, m->stream, r, err);
    route_bind(r, p);
    for (int part = 0; part < ROUTE_PARTS && rc == 0; part++) {
        if (!route_runs(p, part))
            continue;
        const graph_key k = route_key(p, part, m->drafter);
        r->why[part] = route_refuse(m->rules, p, &k, hook);
        if (r->why[part] == ROUTE_REPLAY)
            r->replay[part] = graphs_get(m->graphs, &k, m->stream, m->launch, m->user, &r->why[part]);
        r->can[part] = r->replay[part] != NULL;
    }
    if (rc == 0)
        rc = route_agree(&ranks, m->stream, r, err);
    for (int part = 0; part < ROUTE_PARTS; part++) {
        if (r->why[part] != ROUTE_REPLAY)
            r->replay[part] = NULL;
        route_text(p, part, r->why[part], p->route[part]);
    }
    return rc;
}

void route_count(route *r, graphs *g, const round_plan *p)
{
    int drafted = 0;
    for (int i = 0; i < p->members; i++) {
        int made = p->draft_steps > 0 ? p->member[i].draft.count : 0;
        drafted += made > 1 ? made - 1 : 0; /* the first was there */
    }
    r->live[ROUTE_TARGET] = p->rows;
    r->live[ROUTE_DRAFT] = drafted;
    r->live[ROUTE_EXTEND] = p->extended;
    const int launched[ROUTE_PARTS] = { p->rows_launched, p->slots_launched * (p->draft_steps - 1),
                                        p->extend_launched };
    for (int part = 0; part < ROUTE_PARTS; part++)
        if (route_runs(p, part) && (part != ROUTE_TARGET || p->phase != PHASE_PREFILL))
            graphs_count(g, route_key(p, part, NULL).family, r->why[part], r->live[part], launched[part]);
}
