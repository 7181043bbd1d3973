/* device.h: something that computes: memory, streams, events, kernels, graphs, collectives.
 *
 * The host thread launches work in program order; the device runs it as its edges allow. A stream is in order;
 * an event is a point in a stream that others can wait for; a graph is a captured DAG of kernels that is
 * launched as one. Device memory of the CPU device can be read and written by the host, but only when nothing
 * that touches it is in flight.
 *
 * Capture: between stream_capture_begin and _end, launches on that stream, and on streams that joined by
 * waiting for one of its events, become nodes and do not run. Every forked stream must join before the end.
 * Allocation, event_sync and stream_sync during a capture are errors that name the call and the stream; the
 * capture is then broken and its end returns that error.
 *
 * Threads: one host thread per device. Errors leave the device usable.
 */
#ifndef FORAY_DEVICE_DEVICE_H
#define FORAY_DEVICE_DEVICE_H

#include "kernel/kernel.h"
#include "base/buf.h"
#include "observe/ring.h"

typedef struct device device;
typedef struct stream stream;
typedef struct event event;
typedef struct graph graph;
typedef struct graph_pool graph_pool;

typedef struct {
    int threads;     /* workers incl. the host thread; 0: one per core */
    const char *isa; /* NULL: the best */
    ring *records;   /* where tasks are recorded; NULL: not recorded. Borrowed */
    /* Tests: delays each ready task at random, or chooses the ready task by seed; 0: off. */
    uint64_t shuffle_seed;
} device_config;

int device_open(const device_config *config, device **out, foray_error *err);
void device_close(device *d); /* waits for all work; its streams, events, graphs and pools are gone before */
const char *device_isa(const device *d);
int device_lanes(const device *d); /* for weight_pack */
int device_threads(const device *d);
/* Workers in use now: fewer than device_threads while a neighbour takes a core. */
int device_active_threads(const device *d);
void device_set_threads(device *d, int threads);     /* 1 … device_threads; takes effect between tasks */
void device_set_recording(device *d, ring *records); /* NULL: off. Waits for all work */

/* Device memory, 64-aligned, zeroed, owned by the caller until device_free. name is for messages (static).
 * An error inside a capture. */
int device_alloc(device *d, const char *name, size_t bytes, void **out, foray_error *err);
void device_free(device *d, void *p);
uint64_t device_bytes(const device *d); /* live */

/* ---- streams and events ---- */

/* Names are static. */
int stream_create(device *d, const char *name, stream **out, foray_error *err);
/* Names of the streams by their index in records; the number of them. NULL: there is none of that index. */
int device_streams(const device *d, const char *const **names);
void stream_destroy(stream *s); /* waits for its work; a capture it takes part in is broken */
int stream_launch(stream *s, kernel_id id, const kernel_args *args, foray_error *err);
int stream_sync(stream *s, foray_error *err); /* the host waits (and helps) until the stream is empty */
/* Later work of s waits for e's last record; without one there is nothing to wait for (in a capture that is an
 * error). */
int stream_wait(stream *s, event *e, foray_error *err);

int event_create(device *d, const char *name, event **out, foray_error *err);
void event_destroy(event *e);
int event_record(event *e, stream *s, foray_error *err);
int event_sync(event *e, foray_error *err); /* the host waits (and helps); an error if never recorded */
bool event_done(const event *e); /* with one worker in use it also runs a task: polling gets somewhere */
int64_t event_time_ns(const event *e); /* when it completed (clock_fast_ns); -1: not yet */

/* What the records of tasks launched from now on say. Nodes keep the phase they were captured with and take the
 * rest from the launch of their graph. */
typedef struct {
    int64_t round;
    phase phase;
    int rank, rows;
} task_mark;
void device_mark(device *d, task_mark mark);

/* Times the host had to wait since the device was opened, for accounts. */
typedef struct {
    int64_t syncs, wait_ns, launches, graph_launches, node_updates;
} device_counters;
device_counters device_get_counters(const device *d);

enum { DEVICE_WAIT_ROUNDS = 4 };

/* A stream that stood still until an event of another one, at one or more places of a round. */
typedef struct {
    const char *stream, *event, *from; /* who waited, for what, of whom: static names */
    int joins;
    int64_t waited_ns; /* from the end of the stream's own work before each, to the event */
} device_wait;
/* What the work marked with this round waited for, one entry per stream and event: every wait for another stream's event
 * that a task came behind, those that took no time with it. Fills out[0 … most), returns how many there are, and forgets
 * them. Each of several events before one task counts by itself, so their times overlap. The last DEVICE_WAIT_ROUNDS
 * rounds are kept: earlier ones need not be taken. */
int device_take_waits(device *d, int64_t round, device_wait *out, int most);

/* ---- graphs ---- */

/* Static memory that captured graphs share: graphs of one pool are never replayed at the same time. */
/* limit_bytes bounds the graphs and the buffers of the pool together; 0: no limit. */
int graph_pool_create(device *d, size_t limit_bytes, graph_pool **out, foray_error *err);
/* The pool goes with the last of its graphs. */
void graph_pool_destroy(graph_pool *p);
/* A static buffer for the pool's graphs: device memory, as device_alloc, freed with the pool. ENOMEM beyond
 * the pool's limit. */
int graph_pool_alloc(graph_pool *p, const char *name, size_t bytes, void **out, foray_error *err);
uint64_t graph_pool_bytes(const graph_pool *p);

int stream_capture_begin(stream *s, graph_pool *p, foray_error *err);
/* Ends the capture. *out is owned: graph_destroy. */
int stream_capture_end(stream *s, graph **out, foray_error *err);
bool stream_capturing(const stream *s);
int graph_launch(graph *g, stream *s, foray_error *err);
/* Gives a node other arguments (same kernel) for later launches; an error while g is in flight. */
int graph_update_node(graph *g, int node, const kernel_args *args, foray_error *err);
void graph_destroy(graph *g);
int graph_nodes(const graph *g);
/* What records and the JSON call it. Graphs are numbered as they are made; who wants the same number for the same graph in
 * every run gives it one, before its first launch, and sees to it that no two have one. */
int graph_id(const graph *g);
void graph_set_id(graph *g, int id);
uint64_t graph_bytes(const graph *g); /* nodes and edges */
/* JSON: nodes with name, class, stream, predecessors and event handles; deterministic. */
void graph_json(const graph *g, buf *out);

/* ---- collectives ---- */

typedef struct {
    int rank, ranks;
} communicator;

/* In-place over a communicator; with one rank they do nothing, in stream order. */
int collective_all_reduce_max(const communicator *c, stream *s, int32_t *values, int count, foray_error *err);
int collective_all_reduce_min(const communicator *c, stream *s, int32_t *values, int count, foray_error *err);

#endif
