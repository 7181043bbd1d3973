/* graph.c: captured graphs and the pools that bound their memory: building, launching, changing a node, JSON.
 *
 * A graph is one block: the nodes that the executor runs, their edges both ways, and the names of streams and
 * events for people. Nothing of it is allocated or changed by a launch, so a replay costs no more than walking
 * the edges. Priorities are the time of the longest path to the end, from the kernels' costs.
 * Threads: the host's; the executor reads the program while it is in flight.
 */
#include "device/cpu/internal.h"

#include <assert.h>
#include <stdatomic.h>
#include <string.h>

struct graph {
    device *d;
    graph_pool *pool;
    size_t bytes;
    program program;
    int edge_count;
    capture_mark *marks; /* [mark_count] first is in program.edges, behind the predecessors */
    int mark_count;
    const char *stream_name[DEVICE_STREAMS]; /* NULL: takes no part */
};

/* ---- pools ---- */

int graph_pool_create(device *d, size_t limit_bytes, graph_pool **out, foray_error *err)
{
    graph_pool *p = mem_alloc_zeroed(MEM_GRAPH, sizeof *p);
    if (!p)
        return fail(err, FORAY_ENOMEM, "graph_pool_create: no memory");
    p->d = d;
    p->limit = limit_bytes;
    p->users = 1;
    d->objects++;
    *out = p;
    return 0;
}

static int pool_admit(const graph_pool *p, const char *call, const char *what, size_t bytes, foray_error *err)
{
    if (p->limit == 0 || bytes <= p->limit - p->bytes)
        return 0;
    return fail(err, FORAY_ENOMEM,
                "%s: %s needs %zu bytes, but its graph pool has %zu of %zu left (allow it more, or capture "
                "fewer graphs)",
                call, what, bytes, (size_t)(p->limit - p->bytes), (size_t)p->limit);
}

int graph_pool_alloc(graph_pool *p, const char *name, size_t bytes, void **out, foray_error *err)
{
    int rc = pool_admit(p, "graph_pool_alloc", name, bytes, err);
    if (rc)
        return rc;
    if (p->buffer_count == p->buffer_capacity) {
        int capacity = p->buffer_capacity ? 2 * p->buffer_capacity : 16;
        void **more = mem_resize(MEM_GRAPH, p->buffers, (size_t)p->buffer_capacity * sizeof *more,
                                 (size_t)capacity * sizeof *more);
        if (!more)
            return fail(err, FORAY_ENOMEM, "graph_pool_alloc: %s: no memory", name);
        p->buffers = more;
        p->buffer_capacity = capacity;
    }
    rc = device_alloc(p->d, name, bytes, out, err);
    if (rc)
        return rc;
    p->buffers[p->buffer_count++] = *out;
    p->bytes += bytes;
    return 0;
}

static void pool_release(graph_pool *p)
{
    if (--p->users > 0)
        return;
    for (int i = 0; i < p->buffer_count; i++)
        device_free(p->d, p->buffers[i]);
    mem_free(MEM_GRAPH, p->buffers, (size_t)p->buffer_capacity * sizeof *p->buffers);
    p->d->objects--;
    mem_free(MEM_GRAPH, p, sizeof *p);
}

void graph_pool_destroy(graph_pool *p)
{
    if (p)
        pool_release(p);
}

uint64_t graph_pool_bytes(const graph_pool *p)
{
    return p->bytes;
}

/* ---- building ---- */

/* The next `bytes` of a block, 64-aligned; without a block only the space is counted. */
static void *carve(uint8_t *block, size_t *used, size_t bytes)
{
    void *p = block ? block + *used : NULL;
    *used += (bytes + 63) / 64 * 64;
    return p;
}

/* Lays a graph out in a block, which may be NULL; returns its bytes. */
static size_t lay_out(const capture *c, uint8_t *block, graph **out)
{
    size_t used = 0, n = (size_t)c->count, edges = (size_t)c->edge_count;
    graph *g = carve(block, &used, sizeof *g);
    program_node *nodes = carve(block, &used, n * sizeof *nodes);
    program_edge *successors = carve(block, &used, edges * sizeof *successors);
    int *roots = carve(block, &used, n * sizeof *roots);
    int *first = carve(block, &used, (n + 1) * sizeof *first);
    program_edge *kept = carve(block, &used, edges * sizeof *kept);
    capture_mark *marks = carve(block, &used, (size_t)c->mark_count * sizeof *marks);
    if (block) {
        g->bytes = used;
        g->program.nodes = nodes;
        g->program.successors = successors;
        g->program.roots = roots;
        g->program.first = first;
        g->program.edges = kept;
        g->marks = marks;
        *out = g;
    }
    return used;
}

/* A rough time for ordering: one core's share of a small machine. Only differences of scale matter. */
static int64_t guess_ns(kernel_id id, const kernel_args *args)
{
    kernel_cost cost = kernel_get_cost(id, args);
    double by_flops = cost.flops / 50, by_bytes = cost.bytes / 10;
    return 200 + (int64_t)(by_flops > by_bytes ? by_flops : by_bytes);
}

/* Turns predecessors into successors, and the longest path from each node into its priority. */
static void link_nodes(graph *g)
{
    program *p = &g->program;
    for (int i = 0; i < p->count; i++) {
        for (int k = p->first[i]; k < p->first[i + 1]; k++)
            p->nodes[p->edges[k].node].count++;
    }
    int at = 0;
    for (int i = 0; i < p->count; i++) {
        program_node *n = &p->nodes[i];
        n->first = at;
        at += n->count;
        n->count = 0;
        if (n->predecessors == 0)
            p->roots[p->root_count++] = i;
    }
    for (int i = 0; i < p->count; i++) {
        for (int k = p->first[i]; k < p->first[i + 1]; k++) {
            program_node *n = &p->nodes[p->edges[k].node];
            p->successors[n->first + n->count++] = (program_edge) { .node = i, .event = p->edges[k].event };
        }
    }
    for (int i = p->count - 1; i >= 0; i--) {
        program_node *n = &p->nodes[i];
        int64_t longest = 0;
        for (int k = n->first; k < n->first + n->count; k++) {
            int64_t path = p->nodes[p->successors[k].node].t.priority;
            longest = path > longest ? path : longest;
        }
        n->t.priority = longest + guess_ns(n->t.id, &n->t.args);
    }
}

/* Node i waits for other streams: whose ends does that ask for? last: the node before it on its stream, or -1. */
static void stamp(program *p, int i, int last)
{
    program_node *n = &p->nodes[i];
    for (int k = p->first[i]; k < p->first[i] + n->predecessors; k++) {
        if (!p->edges[k].tally)
            continue;
        n->tallies++;
        p->nodes[p->edges[k].node].t.stamped = true;
    }
    n->own = last;
    if (n->tallies > 0 && last >= 0)
        p->nodes[last].t.stamped = true;
    p->stamped |= n->tallies > 0 && last < 0;
}

static void take_edges(graph *g, const capture *c, int first, int count)
{
    for (int i = first; i < first + count; i++)
        g->program.edges[g->edge_count++] = c->edges[i];
}

static void fill(graph *g, const capture *c)
{
    program *p = &g->program;
    int last[DEVICE_STREAMS];
    memset(last, -1, sizeof last);
    p->count = c->count;
    for (int i = 0; i < c->count; i++) {
        const capture_node *from = &c->nodes[i];
        program_node *n = &p->nodes[i];
        n->predecessors = from->count;
        n->t = (task) { .impl = &c->d->table->kernel[from->id],
                        .id = from->id,
                        .stream = from->stream,
                        .phase = from->phase,
                        .graph = p,
                        .node = i,
                        .pending = from->count,
                        .args = from->args };
        p->first[i] = g->edge_count;
        take_edges(g, c, from->first, from->count);
        stamp(p, i, last[from->stream]);
        last[from->stream] = i;
    }
    p->first[c->count] = g->edge_count;
    for (; g->mark_count < c->mark_count; g->mark_count++) {
        capture_mark *m = &g->marks[g->mark_count];
        *m = c->marks[g->mark_count];
        int first = g->edge_count;
        take_edges(g, c, m->first, m->count);
        m->first = first;
    }
    for (int i = 0; i < DEVICE_STREAMS; i++)
        g->stream_name[i] = c->joined[i] ? c->d->stream[i]->name : NULL;
    link_nodes(g);
}

int graph_build(const capture *c, graph **out, foray_error *err)
{
    device *d = c->d;
    graph_pool *pool = c->pool;
    graph *g = NULL;
    size_t bytes = lay_out(c, NULL, &g);
    int rc = pool_admit(pool, "stream_capture_end", "the graph", bytes, err);
    for (int i = 0; rc == 0 && i < c->count; i++)
        rc = device_reserve_scratch(d, c->nodes[i].id, &c->nodes[i].args, err);
    if (rc)
        return rc;
    uint8_t *block = mem_alloc_zeroed(MEM_GRAPH, bytes);
    if (!block)
        return fail(err, FORAY_ENOMEM, "stream_capture_end: no memory for a graph of %zu bytes", bytes);
    rc = executor_reserve_nodes(d->x, c->count, err);
    if (rc) {
        mem_free(MEM_GRAPH, block, bytes);
        return rc;
    }
    lay_out(c, block, &g);
    g->d = d;
    g->pool = pool;
    g->program.id = ++d->graphs;
    fill(g, c);
    pool->bytes += bytes;
    pool->users++;
    d->objects++;
    *out = g;
    return 0;
}

void graph_destroy(graph *g)
{
    if (!g)
        return;
    device *d = g->d;
    executor_wait(d->x, &g->program.in_flight);
    (void)executor_reserve_nodes(d->x, -g->program.count, NULL); /* fewer: cannot fail */
    g->pool->bytes -= g->bytes;
    pool_release(g->pool);
    d->objects--;
    mem_free(MEM_GRAPH, g, g->bytes);
}

/* ---- use ---- */

int graph_launch(graph *g, stream *s, foray_error *err)
{
    assert(g->d == s->d);
    return stream_replay(s, &g->program, g->pool, err);
}

int graph_update_node(graph *g, int node, const kernel_args *args, foray_error *err)
{
    program *p = &g->program;
    if (node < 0 || node >= p->count)
        return fail(err, FORAY_EUSAGE, "graph_update_node: graph %d has no node %d (it has %d)", p->id, node,
                    p->count);
    if (atomic_load_explicit(&p->in_flight, memory_order_acquire))
        return fail(err, FORAY_ESTATE,
                    "graph_update_node: graph %d is in flight (wait for an event after its launch first)",
                    p->id);
    task *t = &p->nodes[node].t;
    int rc = device_reserve_scratch(g->d, t->id, args, err);
    if (rc)
        return rc;
    memcpy(&t->args, args, kernel_args_bytes(t->id));
    g->d->counters.node_updates++;
    return 0;
}

int graph_nodes(const graph *g)
{
    return g->program.count;
}

int graph_id(const graph *g)
{
    return g->program.id;
}

void graph_set_id(graph *g, int id)
{
    assert(atomic_load(&g->program.in_flight) == 0);
    g->program.id = id;
}

uint64_t graph_bytes(const graph *g)
{
    return g->bytes;
}

/* ---- JSON ---- */

static const char *class_name(kernel_class class)
{
    static const char *const names[] = {
        [CLASS_COMPUTE] = "compute",    [CLASS_ATTENTION] = "attention", [CLASS_COPY] = "copy",
        [CLASS_COMM] = "communication", [CLASS_HOST] = "host",
    };
    return names[class];
}

static void put_name(buf *out, const char *name)
{
    buf_json_string(out, name, strlen(name));
}

/* {"graph":1,"bytes":…,"streams":[{"stream":0,"name":"main"}],
 *  "nodes":[{"node":0,"name":"matmul","class":"compute","stream":0,"path_ns":…,"after":[{"node":…,"event":…}]}],
 *  "events":[{"event":0,"name":"fork","stream":0,"after":[…]}]}       event -1: stream order */
void graph_json(const graph *g, buf *out)
{
    const program *p = &g->program;
    buf_printf(out, "{\"graph\":%d,\"bytes\":%zu,\"streams\":[", p->id, g->bytes);
    const char *comma = "";
    for (int i = 0; i < DEVICE_STREAMS; i++) {
        if (!g->stream_name[i])
            continue;
        buf_printf(out, "%s{\"stream\":%d,\"name\":", comma, i);
        put_name(out, g->stream_name[i]);
        buf_puts(out, "}");
        comma = ",";
    }
    buf_puts(out, "],\"nodes\":[");
    for (int i = 0; i < p->count; i++) {
        const task *t = &p->nodes[i].t;
        buf_printf(out, "%s{\"node\":%d,\"name\":", i ? "," : "", i);
        put_name(out, kernel_name(t->id, &t->args));
        buf_printf(out, ",\"class\":\"%s\",\"stream\":%d,\"path_ns\":%lld,\"after\":[",
                   class_name(kernel_get_class(t->id)), t->stream, (long long)t->priority);
        for (int k = p->first[i]; k < p->first[i + 1]; k++)
            buf_printf(out, "%s{\"node\":%d,\"event\":%d}", k > p->first[i] ? "," : "", p->edges[k].node,
                       p->edges[k].event);
        buf_puts(out, "]}");
    }
    buf_puts(out, "],\"events\":[");
    for (int i = 0; i < g->mark_count; i++) {
        const capture_mark *m = &g->marks[i];
        buf_printf(out, "%s{\"event\":%d,\"name\":", i ? "," : "", m->event);
        put_name(out, m->name);
        buf_printf(out, ",\"stream\":%d,\"after\":[", m->stream);
        for (int k = m->first; k < m->first + m->count; k++)
            buf_printf(out, "%s%d", k > m->first ? "," : "", p->edges[k].node);
        buf_puts(out, "]}");
    }
    buf_puts(out, "]}");
}
