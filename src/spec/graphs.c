/* graphs.c: a table of keys, filled on demand. See graphs.h. */
#include "spec/graphs.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "spec/plan.h"

enum { SLOT_TIERS = 7, SIZES = 32 }; /* 1 … 64 slots; tiers of rows, or drafts */
_Static_assert((int)SIZES > (int)DRAFT_MAX, "every number of drafts has a place");
_Static_assert(1 << (SLOT_TIERS - 1) == PLAN_MAX_MEMBERS, "every number of requests has a tier");

typedef struct {
    graph *graph;
    int slots, size; /* of its key */
    const void *owner;
    route_reason refused; /* ROUTE_REPLAY: not refused */
} entry;

struct graphs {
    graph_pool *pool;
    size_t limit;
    bool told_of_limit;
    entry at[GRAPH_FAMILIES][SLOT_TIERS][SIZES];
    graph_counters counters[GRAPH_FAMILIES];
};

phase graph_family_phase(graph_family f)
{
    static const phase phases[] = { [GRAPH_DECODE] = PHASE_DECODE,
                                    [GRAPH_VERIFY] = PHASE_TARGET_VERIFY,
                                    [GRAPH_DRAFT] = PHASE_DRAFT,
                                    [GRAPH_EXTEND] = PHASE_DRAFT_EXTEND };
    return phases[f];
}

const char *route_reason_name(route_reason r)
{
    static const char *const names[] = {
        [ROUTE_REPLAY] = "replay",   [ROUTE_OFF] = "off",         [ROUTE_PHASES] = "phases",
        [ROUTE_PREFILL] = "prefill", [ROUTE_HOOK] = "hook",       [ROUTE_TIER] = "tier",
        [ROUTE_MEMORY] = "memory",   [ROUTE_CAPTURE] = "capture", [ROUTE_RANKS] = "ranks",
    };
    return names[r];
}

int graphs_create(device *d, size_t limit_bytes, graphs **out, foray_error *err)
{
    graphs *g = mem_alloc_zeroed(MEM_GRAPH, sizeof *g);
    if (!g)
        return fail(err, FORAY_ENOMEM, "no memory for the table of graphs");
    g->limit = limit_bytes;
    int rc = graph_pool_create(d, limit_bytes, &g->pool, err);
    if (rc != 0) {
        mem_free(MEM_GRAPH, g, sizeof *g);
        return rc;
    }
    *out = g;
    return 0;
}

void graphs_destroy(graphs *g)
{
    if (!g)
        return;
    for (int i = 0; i < GRAPH_FAMILIES * SLOT_TIERS * SIZES; i++)
        graph_destroy((&g->at[0][0][0])[i].graph);
    graph_pool_destroy(g->pool);
    mem_free(MEM_GRAPH, g, sizeof *g);
}

/* The place of a size in the table. */
static int place(const graph_key *k)
{
    return k->family == GRAPH_DRAFT ? k->size : plan_tier_index(k->size);
}

bool graphs_has_tier(const graph_key *k)
{
    return plan_tier_index(k->slots) < SLOT_TIERS && place(k) < SIZES;
}

static void forget(graphs *g, entry *e, graph_family f)
{
    if (e->graph) {
        g->counters[f].graphs--;
        g->counters[f].bytes -= graph_bytes(e->graph);
        graph_destroy(e->graph);
    }
    g->counters[f].keys_refused -= e->refused != ROUTE_REPLAY;
    *e = (entry) { 0 };
}

/* Said once for the limit, which many keys may meet, and once for every other key that fails. */
static void say_refused(graphs *g, const graph_key *k, route_reason why, const foray_error *problem)
{
    const char *name = phase_name(graph_family_phase(k->family));
    if (why != ROUTE_MEMORY)
        log_warning("%s of %d requests, size %d, runs eagerly: %s", name, k->slots, k->size, problem->text);
    else if (!g->told_of_limit)
        log_warning(
            "graphs: %.2f of %.2f MB are in use; what does not fit runs eagerly, first %s of %d requests, "
            "size %d (--graph-memory)",
            (double)graph_pool_bytes(g->pool) / 1e6, (double)g->limit / 1e6, name, k->slots, k->size);
    g->told_of_limit = g->told_of_limit || why == ROUTE_MEMORY;
}

static int capture(graphs *g, const graph_key *k, stream *s,
                   int (*launch)(void *user, graph_family f, foray_error *err), void *user, graph **out,
                   foray_error *err)
{
    int rc = stream_capture_begin(s, g->pool, err);
    if (rc != 0)
        return rc;
    rc = launch(user, k->family, err);
    int ended = stream_capture_end(s, out, rc == 0 ? err : NULL);
    return rc != 0 ? rc : ended;
}

graph *graphs_get(graphs *g, const graph_key *k, stream *s,
                  int (*launch)(void *user, graph_family f, foray_error *err), void *user, route_reason *why)
{
    entry *e = &g->at[k->family][plan_tier_index(k->slots)][place(k)];
    graph_counters *c = &g->counters[k->family];
    foray_error problem = { 0 };
    if (e->owner != k->owner)
        forget(g, e, k->family);
    e->owner = k->owner;
    e->slots = k->slots;
    e->size = k->size;
    if (!e->graph && e->refused == ROUTE_REPLAY) {
        int64_t start = clock_fast_ns();
        int rc = capture(g, k, s, launch, user, &e->graph, &problem);
        c->capture_ns += clock_fast_ns() - start;
        if (rc != 0) {
            e->graph = NULL;
            e->refused = rc == FORAY_ENOMEM ? ROUTE_MEMORY : ROUTE_CAPTURE;
            c->key_reason = c->keys_refused++ == 0 ? e->refused : c->key_reason;
            say_refused(g, k, e->refused, &problem);
        } else {
            c->captures++;
            c->graphs++;
            c->bytes += graph_bytes(e->graph);
            graph_set_id(e->graph, 1 + (int)(e - &g->at[0][0][0]));
        }
    }
    *why = e->refused;
    return e->graph;
}

void graphs_count(graphs *g, graph_family f, route_reason why, int live, int launched)
{
    graph_counters *c = &g->counters[f];
    c->replays += why == ROUTE_REPLAY;
    c->refused[why] += why != ROUTE_REPLAY;
    c->rows_live += live;
    c->rows_launched += launched;
}

const graph_counters *graphs_counters(const graphs *g, graph_family f)
{
    return &g->counters[f];
}

void graphs_json(const graphs *g, buf *out)
{
    const char *between = "[";
    for (int f = 0; f < GRAPH_FAMILIES; f++) {
        for (int i = 0; i < SLOT_TIERS * SIZES; i++) {
            const entry *e = &g->at[f][i / SIZES][i % SIZES];
            if (!e->graph)
                continue;
            buf_printf(out, "%s{\"phase\":\"%s\",\"requests\":%d,\"%s\":%d,\"graph\":", between,
                       phase_name(graph_family_phase((graph_family)f)), e->slots,
                       f == GRAPH_DRAFT ? "drafts" : "rows", e->size);
            graph_json(e->graph, out);
            buf_puts(out, "}");
            between = ",\n";
        }
    }
    buf_puts(out, *between == '[' ? "[]" : "]");
}

uint64_t graphs_bytes(const graphs *g)
{
    return graph_pool_bytes(g->pool);
}
