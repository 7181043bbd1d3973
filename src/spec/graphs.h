/* graphs.h: the captured graphs of rounds: which there are, what they take, how often they ran and why they did not.
 *
 * Four families, named like the phases that they replay. A key is (family, request slots, size): rows, or drafts for a
 * draft, which holds the whole chain of a round. A key is captured once: alternating widths find what is there. One whose
 * capture fails is not tried again. All families share one pool, whose limit bounds them together.
 *
 *   decode 4x4 · target_verify 4x16 · draft 4x3 · draft_extend 4x16        slots x size, tiers but for drafts
 *
 * A key has the same graph_id in every run, so what was recorded of a graph joins to its JSON from another one.
 *
 * A drafter's graphs hold its buffers: they are those of the drafter they were captured with.
 * Threads: the host thread.
 */
#ifndef FORAY_SPEC_GRAPHS_H
#define FORAY_SPEC_GRAPHS_H

#include "device/device.h"

typedef enum { GRAPH_DECODE, GRAPH_VERIFY, GRAPH_DRAFT, GRAPH_EXTEND, GRAPH_FAMILIES } graph_family;
phase graph_family_phase(graph_family f);

/* Why a phase did not replay; ROUTE_REPLAY: it did. */
typedef enum {
    ROUTE_REPLAY,
    ROUTE_OFF,     /* no graphs are wanted */
    ROUTE_PHASES,  /* not of this family */
    ROUTE_PREFILL, /* a prompt is read: lengths of prompts are no tiers */
    ROUTE_HOOK,    /* somebody who measures or tests asked for it */
    ROUTE_TIER,    /* larger than any graph */
    ROUTE_MEMORY,  /* the pool's limit */
    ROUTE_CAPTURE, /* the capture failed */
    ROUTE_RANKS,   /* another rank cannot */
    ROUTE_REASONS
} route_reason;
const char *route_reason_name(route_reason r); /* as in records: "prefill" */

typedef struct {
    graph_family family;
    int slots, size;
    const void *owner; /* the drafter of a draft or draft-extend; else NULL */
} graph_key;

typedef struct {
    int graphs;     /* now */
    uint64_t bytes; /* of those */
    int64_t captures, capture_ns;
    int keys_refused;        /* their captures failed */
    route_reason key_reason; /* the first of these */
    int64_t replays, refused[ROUTE_REASONS];
    int64_t rows_live, rows_launched; /* of all runs, eager ones too */
} graph_counters;

typedef struct graphs graphs;

/* limit_bytes bounds all graphs together; 0: no limit. */
int graphs_create(device *d, size_t limit_bytes, graphs **out, foray_error *err);
void graphs_destroy(graphs *g); /* may be NULL */

/* Whether there can be a graph of such a size at all. */
bool graphs_has_tier(const graph_key *k);
/* The graph of a key, captured through `launch` on s if there is none yet; NULL, with the reason in *why, where there
 * is to be none. launch enqueues what the graph is to hold. A capture waits for nothing: what
 * is in flight goes on. */
graph *graphs_get(graphs *g, const graph_key *k, stream *s,
                  int (*launch)(void *user, graph_family f, foray_error *err), void *user, route_reason *why);

/* A phase has run: with `why`, on so many live rows of so many launched. */
void graphs_count(graphs *g, graph_family f, route_reason why, int live, int launched);
const graph_counters *graphs_counters(const graphs *g, graph_family f);
uint64_t graphs_bytes(const graphs *g);
/* All graphs there are, as a JSON array, by family, slots and size:
 * [{"phase":"decode","requests":4,"rows":4,"graph":{…}}, …]      of a draft: "drafts"; graph: graph_json */
void graphs_json(const graphs *g, buf *out);

#endif
