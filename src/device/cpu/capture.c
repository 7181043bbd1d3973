/* capture.c: what streams do while they are captured: launches become nodes, records and waits become edges.
 *
 * Every captured stream has a front: the nodes that its next node comes after, none of which comes before
 * another. A wait merges an event's nodes into the front and drops those that others imply, so a graph gets
 * exactly the edges it needs. Each node carries a clock: per stream, the last position that comes before it;
 * as a stream is a chain, that answers "does a come before b" exactly.
 *
 *   main   0 ── 1 ───────── 4      fork: side waits for an event after 1      front(side) = {1}
 *   side         \── 2 ── 3 ┘      join: main waits for an event after 3      front(main) = {3}, as 3 implies 1
 *
 * A forbidden call breaks the capture: the call and everything after it return the error, and so does the end.
 * Threads: the host's. At most one capture per device.
 */
#include "device/cpu/internal.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- growing arrays ---- */

/* Makes room for one more of `size` bytes in an array. */
static bool grow(void **array, int count, int *capacity, size_t size)
{
    if (count < *capacity)
        return true;
    int more = *capacity ? 2 * *capacity : 16;
    void *p = mem_resize(MEM_GRAPH, *array, (size_t)*capacity * size, (size_t)more * size);
    if (!p)
        return false;
    *array = p;
    *capacity = more;
    return true;
}

void edge_list_free(edge_list *l)
{
    mem_free(MEM_GRAPH, l->edge, (size_t)l->capacity * sizeof *l->edge);
    *l = (edge_list) { 0 };
}

/* ---- order ---- */

static bool comes_before(const capture *c, int earlier, int later)
{
    const capture_node *e = &c->nodes[earlier];
    return c->nodes[later].clock.at[e->stream] >= e->position;
}

/* Adds a node to a front, where nothing in it implies it already. */
static bool front_add(const capture *c, edge_list *l, program_edge e)
{
    int kept = 0;
    for (int i = 0; i < l->count; i++) {
        if (comes_before(c, e.node, l->edge[i].node))
            return true; /* nothing was dropped then: a front's nodes are not ordered */
        if (!comes_before(c, l->edge[i].node, e.node))
            l->edge[kept++] = l->edge[i];
    }
    l->count = kept;
    if (!grow((void **)&l->edge, l->count, &l->capacity, sizeof *l->edge))
        return false;
    l->edge[l->count++] = e;
    return true;
}

/* Copies a front into the capture's edges; returns where it begins, or -1. */
static int keep_edges(capture *c, const edge_list *l)
{
    int first = c->edge_count;
    for (int i = 0; i < l->count; i++) {
        if (!grow((void **)&c->edges, c->edge_count, &c->edge_capacity, sizeof *c->edges))
            return -1;
        c->edges[c->edge_count++] = l->edge[i];
    }
    return first;
}

/* ---- breaking ---- */

/* Breaks the capture (the first break counts) and fails. */
static int __attribute__((format(printf, 4, 5)))
break_capture(capture *c, foray_error *err, int code, const char *format, ...)
{
    char text[sizeof c->broken.text];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (c->broken.code == 0)
        fail(&c->broken, code, "%s", text);
    return fail(err, code, "%s", text);
}

static int still_broken(const capture *c, foray_error *err)
{
    return fail(err, c->broken.code, "%s", c->broken.text);
}

static int no_memory(capture *c, const char *call, const stream *s, foray_error *err)
{
    return break_capture(c, err, FORAY_ENOMEM, "%s: stream %s: no memory for the capture", call, s->name);
}

int capture_refuse(device *d, const char *call, foray_error *err)
{
    capture *c = d->capturing;
    if (!c)
        return 0;
    return break_capture(c, err, FORAY_ESTATE,
                         "%s: not while stream %s is being captured (call it before or after)", call,
                         c->origin->name);
}

/* ---- what a captured stream does ---- */

int capture_launch(stream *s, kernel_id id, const kernel_args *args, foray_error *err)
{
    capture *c = s->capture;
    if (c->broken.code)
        return still_broken(c, err);
    if (!grow((void **)&c->nodes, c->count, &c->capacity, sizeof *c->nodes) ||
        !grow((void **)&s->front.edge, s->front.count, &s->front.capacity, sizeof *s->front.edge))
        return no_memory(c, "stream_launch", s, err);
    int first = keep_edges(c, &s->front);
    if (first < 0)
        return no_memory(c, "stream_launch", s, err);

    capture_node *n = &c->nodes[c->count];
    *n = (capture_node) {
        .id = id, .stream = s->index, .phase = c->d->mark.phase, .first = first, .count = s->front.count
    };
    memcpy(&n->args, args, kernel_args_bytes(id));
    for (int i = 0; i < s->front.count; i++)
        hazard_join(&n->clock, &c->nodes[s->front.edge[i].node].clock);
    n->position = n->clock.at[s->index] = c->positions[s->index] + 1;
    if (c->d->checks) {
        foray_error found;
        int rc = check_node(c->d, &c->shadow, s->index, &n->clock, id, args, &found);
        if (rc)
            return break_capture(c, err, rc, "%s", found.text);
    }
    c->positions[s->index]++;
    s->front.count = 1;
    s->front.edge[0] = (program_edge) { .node = c->count++, .event = -1 };
    return 0;
}

int capture_record(event *e, stream *s, foray_error *err)
{
    capture *c = s->capture;
    if (c->broken.code)
        return still_broken(c, err);
    if (!grow((void **)&c->marks, c->mark_count, &c->mark_capacity, sizeof *c->marks))
        return no_memory(c, "event_record", s, err);
    int first = keep_edges(c, &s->front);
    edge_list at = { 0 };
    for (int i = 0; first >= 0 && i < s->front.count; i++) {
        program_edge point = { .node = s->front.edge[i].node, .event = e->index };
        if (!front_add(c, &at, point))
            first = -1;
    }
    if (first < 0) {
        edge_list_free(&at);
        return no_memory(c, "event_record", s, err);
    }
    c->marks[c->mark_count++] = (capture_mark) {
        .event = e->index, .name = e->name, .stream = s->index, .first = first, .count = s->front.count
    };
    executor_unsignal(c->d->x, &e->signal);
    edge_list_free(&e->at);
    e->at = at;
    e->recorded = true;
    e->from = s->index;
    e->from_name = s->name;
    e->capture = c->id;
    return 0;
}

int capture_wait(stream *s, event *e, foray_error *err)
{
    capture *c = s->d->capturing;
    if (c->broken.code)
        return still_broken(c, err);
    if (!e->recorded || e->capture != c->id)
        return break_capture(
            c, err, FORAY_ESTATE,
            "stream_wait: stream %s is being captured, but event %s was %s (record it on a captured "
            "stream, or wait before the capture begins)",
            s->name, e->name, e->recorded ? "recorded outside of this capture" : "never recorded");
    s->capture = c;
    c->joined[s->index] = true;
    int tally = stream_tally(s, e);
    const int edges = check_leaves_out(s, e) ? 0 : e->at.count;
    for (int i = 0; i < edges; i++) {
        program_edge after = e->at.edge[i];
        after.tally = tally;
        if (!front_add(c, &s->front, after))
            return no_memory(c, "stream_wait", s, err);
    }
    return 0;
}

/* ---- beginning and end ---- */

int stream_capture_begin(stream *s, graph_pool *p, foray_error *err)
{
    device *d = s->d;
    assert(p && p->d == d);
    if (d->capturing)
        return fail(err, FORAY_ESTATE, "stream_capture_begin: stream %s: stream %s is being captured already",
                    s->name, d->capturing->origin->name);
    capture *c = mem_alloc_zeroed(MEM_GRAPH, sizeof *c);
    if (!c)
        return fail(err, FORAY_ENOMEM, "stream_capture_begin: stream %s: no memory", s->name);
    c->d = d;
    c->id = ++d->captures;
    c->origin = s;
    c->pool = p;
    c->joined[s->index] = true;
    s->capture = d->capturing = c;
    return 0;
}

/* Gives the streams back their ordinary life and frees the capture. */
static void end_capture(capture *c)
{
    device *d = c->d;
    for (int i = 0; i < DEVICE_STREAMS; i++) {
        if (!c->joined[i])
            continue;
        d->stream[i]->capture = NULL;
        edge_list_free(&d->stream[i]->front);
    }
    d->capturing = NULL;
    hazard_free(&c->shadow);
    mem_free(MEM_GRAPH, c->nodes, (size_t)c->capacity * sizeof *c->nodes);
    mem_free(MEM_GRAPH, c->edges, (size_t)c->edge_capacity * sizeof *c->edges);
    mem_free(MEM_GRAPH, c->marks, (size_t)c->mark_capacity * sizeof *c->marks);
    mem_free(MEM_GRAPH, c, sizeof *c);
}

/* Everything that a forked stream did must come before the end of the origin. */
static int check_joins(capture *c, foray_error *err)
{
    for (int i = 0; i < DEVICE_STREAMS; i++) {
        const stream *s = c->joined[i] ? c->d->stream[i] : NULL;
        for (int k = 0; s && k < s->front.count; k++) {
            bool covered = false;
            for (int j = 0; j < c->origin->front.count; j++)
                covered |= comes_before(c, s->front.edge[k].node, c->origin->front.edge[j].node);
            if (!covered)
                return break_capture(
                    c, err, FORAY_ESTATE,
                    "stream_capture_end: stream %s was forked and never joined (record an event on it "
                    "and let stream %s wait for it)",
                    s->name, c->origin->name);
        }
    }
    return 0;
}

int stream_capture_end(stream *s, graph **out, foray_error *err)
{
    capture *c = s->capture;
    if (!c)
        return fail(err, FORAY_ESTATE, "stream_capture_end: stream %s is not being captured", s->name);
    if (c->origin != s)
        return break_capture(
            c, err, FORAY_ESTATE,
            "stream_capture_end: stream %s: the capture began on stream %s and must end there", s->name,
            c->origin->name);
    int rc = c->broken.code ? still_broken(c, err) : check_joins(c, err);
    if (rc == 0)
        rc = graph_build(c, out, err);
    end_capture(c);
    return rc;
}

bool stream_capturing(const stream *s)
{
    return s->capture != NULL;
}

void capture_drop_stream(stream *s)
{
    capture *c = s->capture;
    (void)capture_refuse(s->d, "stream_destroy", NULL);
    if (c->origin == s) {
        end_capture(c);
        return;
    }
    c->joined[s->index] = false;
    s->capture = NULL;
}
