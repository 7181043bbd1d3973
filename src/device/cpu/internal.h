/* internal.h: what the files of the CPU device share: device.c (memory, settings), stream.c (streams, events),
 * capture.c (what a stream does while it is captured), graph.c (what came of it), check.c (missing edges).
 *
 * Everything here belongs to the host thread; workers see the executor's parts only (lane, signal, program).
 */
#ifndef FORAY_DEVICE_CPU_INTERNAL_H
#define FORAY_DEVICE_CPU_INTERNAL_H

#include <stdatomic.h>

#include "base/mem.h"
#include "device/cpu/executor.h"
#include "device/cpu/hazard.h"
#include "device/cpu/hooks.h"

enum {
    DEVICE_STREAMS = HAZARD_ACTORS, /* live at once */
    STREAM_WAITS =
        QUEUED_EDGES - 2, /* event waits that the next launch takes up; one edge is the stream's own,
                                        one may be the graph pool's */
};

typedef struct capture capture;

typedef struct {
    uintptr_t start;
    size_t bytes;
    const char *name;
} device_buffer;

struct device {
    executor *x;
    const kernel_table *table;
    device_buffer *buffers; /* [buffer_count] sorted by start */
    int buffer_count, buffer_capacity;
    uint64_t bytes;
    task_mark mark;
    device_counters counters;
    capture *capturing; /* at most one at a time */
    uint64_t captures;
    int events, graphs; /* made so far: their indices and ids */
    stream *stream[DEVICE_STREAMS];
    int objects; /* streams, events, graphs, pools that live */

    bool checks;
    int leave_out; /* a wait, by its number; 0: none */
    device_left_out left_out;
    hazard_shadow shadow;
    hazard_clock host; /* what the host has seen done */
    int32_t operations[DEVICE_STREAMS];
    const char *stream_name[DEVICE_STREAMS]; /* of the last stream with that index */
};

/* Nodes of which none comes before another. */
typedef struct {
    program_edge *edge;
    int count, capacity;
} edge_list;

struct stream {
    device *d;
    const char *name;
    int index;
    lane lane;
    dependency wait[STREAM_WAITS]; /* of the next launch */
    int waits;
    hazard_clock clock;
    capture *capture; /* NULL: launches run */
    edge_list front;  /* in a capture: what the next node comes after */
};

struct event {
    device *d;
    const char *name;
    int index;
    bool recorded;
    int from; /* the stream of its last record: its index and name */
    const char *from_name;
    signal signal;
    hazard_clock clock;
    uint64_t capture; /* its last record was in this capture; 0: in none */
    edge_list at;     /* the nodes it stands for there */
};

struct graph_pool {
    device *d;
    uint64_t limit, bytes;
    int users;       /* its creator and its graphs */
    dependency last; /* the last launch of one of its graphs */
    void **buffers;  /* [buffer_count] of graph_pool_alloc */
    int buffer_count, buffer_capacity;
};

/* ---- device.c ---- */

/* Scratch for a kernel, before it is launched. */
int device_reserve_scratch(device *d, kernel_id id, const kernel_args *args, foray_error *err);
/* The buffer that p lies in, or NULL. */
const device_buffer *device_find_buffer(const device *d, const void *p);

/* ---- check.c ---- */

/* Checks and enters a launch on s (or a replay of count nodes). FORAY_ESTATE names the missing edge. */
int check_launch(stream *s, kernel_id id, const kernel_args *args, foray_error *err);
int check_replay(stream *s, const program *p, foray_error *err);
/* The same for a node of a capture, whose clock includes itself. */
int check_node(device *d, hazard_shadow *shadow, int actor, const hazard_clock *clock, kernel_id id,
               const kernel_args *args, foray_error *err);

/* Whether a test wants to see what happens without this wait: hooks.h. */
bool check_leaves_out(stream *s, const event *e);

/* The host has seen that all before this clock is done. */
static inline void check_seen(device *d, const hazard_clock *clock)
{
    if (d->checks)
        hazard_join(&d->host, clock);
}

/* ---- stream.c ---- */

/* What is counted where work of s waits for e's last record; 0: it is of s itself. */
int stream_tally(stream *s, const event *e);
/* Launches a graph's program on s, after the last launch of its pool. */
int stream_replay(stream *s, program *p, graph_pool *pool, foray_error *err);

/* ---- capture.c ---- */

int capture_launch(stream *s, kernel_id id, const kernel_args *args, foray_error *err);
int capture_record(event *e, stream *s, foray_error *err);
int capture_wait(stream *s, event *e, foray_error *err);
/* A call that a capture does not allow: breaks the capture that is going on, if any, and returns its error. */
int capture_refuse(device *d, const char *call, foray_error *err);
/* s is being destroyed: breaks its capture. */
void capture_drop_stream(stream *s);
void edge_list_free(edge_list *l);

/* ---- what a finished capture hands to graph.c ---- */

typedef struct {
    kernel_id id;
    int stream;         /* index */
    phase phase;        /* of the mark */
    int position;       /* in its stream, from 1 */
    int first, count;   /* predecessors, in capture.edges */
    hazard_clock clock; /* by stream: the last position that comes before, or is, this node */
    kernel_args args;
} capture_node;

typedef struct {
    int event;
    const char *name;
    int stream;
    int first, count; /* the nodes it stands for, in capture.edges */
} capture_mark;

struct capture {
    device *d;
    uint64_t id;
    stream *origin;
    graph_pool *pool;
    capture_node *nodes;
    int count, capacity;
    program_edge *edges;
    int edge_count, edge_capacity;
    capture_mark *marks;
    int mark_count, mark_capacity;
    int positions[DEVICE_STREAMS]; /* nodes per stream */
    bool joined[DEVICE_STREAMS];   /* streams that take part */
    foray_error broken;            /* code 0: whole */
    hazard_shadow shadow;
};

/* Makes a graph of a whole capture, within its pool's limit. */
int graph_build(const capture *c, graph **out, foray_error *err);

#endif
