/* executor.h: runs tasks on worker threads as their edges allow. Knows tasks, tiles and edges, not the rules
 * of streams, events and graphs: device.c, stream.c and graph.c build those on it.
 *
 *   queued (a launch)  ──edge──▶  queued        edges are counted: a task whose count reaches 0 is ready
 *   program (a graph)  =  nodes with their own edges, run inside one queued task
 *
 *   ready heap ──▶ open slot: the tiles as one contiguous share per worker ──▶ claimed tile by tile ──▶ done
 *                  share:  [ next … end )   owner takes from the front, thieves from the back
 *
 * One spin lock guards the bookkeeping (edges, heap, slots being taken and freed); its sections are short.
 * Tiles are claimed without it. Worker 0 is the host thread, which works only while it waits
 * (executor_wait). Idle workers watch a word for some microseconds, then yield, then sleep.
 *
 * Threads: executor_* from the host thread only. Nothing here allocates after executor_create, but
 * executor_reserve.
 */
#ifndef FORAY_DEVICE_CPU_EXECUTOR_H
#define FORAY_DEVICE_CPU_EXECUTOR_H

#include "device/device.h"
#include "kernel/impl.h"

enum { EXECUTOR_MAX_THREADS = 64 };

typedef struct executor executor;
typedef struct queued queued;
typedef struct program program;

/* What is common to a launch and a node of a graph. */
typedef struct task {
    const kernel_impl *impl; /* NULL: nothing to run */
    kernel_id id;
    int stream;       /* index, for records */
    int64_t priority; /* ns of the longest path from here to the end; 0 for launches */
    program *graph;   /* of a node: the graph it belongs to; of a launch: the graph to run, or NULL */
    int node;         /* -1: a launch */
    phase phase;      /* of a node: what its capture was marked with */
    int pending;      /* edges not yet done */
    int waited_event; /* of the last edge that was done; -1: stream order */
    bool stamped;     /* of a node: end_ticks is asked for by a node that waits for another stream */
    int64_t ready_ns, start_ns, end_ticks;
    struct task *next; /* in a list of finished tasks */
    kernel_args args;
} task;

typedef struct edge {
    queued *to;
    struct edge *next;  /* among the edges out of one task */
    int event;          /* index of the event that made the edge; -1: stream order */
    int tally;          /* what is waited here is counted there (waits.h); 0: nowhere */
    int64_t done_ticks; /* with a tally */
} edge;

/* A point that completes with a task; an event's core. */
typedef struct signal {
    _Atomic int open;        /* 1 from record to completion */
    _Atomic int64_t time_ns; /* of completion; -1: not yet */
    queued *task;            /* while open */
    struct signal *next, **link;
} signal;

/* The in-order queue of a stream. */
typedef struct {
    queued *tail;        /* the last launch, while it is not done */
    _Atomic int pending; /* launches not done */
} lane;

enum { QUEUED_EDGES = 6 };

/* A launch. Lives in the executor's fixed store from executor_take to its completion. */
struct queued {
    task t;
    uint64_t ticket; /* unique per launch; 0: free */
    lane *lane;
    edge *out;
    signal *signals;
    task_mark mark;
    edge in[QUEUED_EDGES]; /* [edges] */
    int edges, tallies;    /* of the edges, those with a tally */
    int64_t other_ticks;   /* with tallies: when the last edge without one was done, or the launch queued */
    queued *free_next;
};

/* A launch that may be over: over when the ticket differs. */
typedef struct {
    queued *task; /* NULL: over */
    uint64_t ticket;
    int event, tally; /* as an edge's; what is over has been waited for too, for no time */
} dependency;

typedef struct {
    int predecessors;
    int first, count; /* in program.successors */
    int tallies;      /* of the predecessors, those with a tally */
    int own;          /* the node before this one on its stream; -1: none */
    task t;
} program_node;

typedef struct {
    int node, event, tally; /* as an edge's */
} program_edge;

/* The nodes of a graph, in capture order (which is topological). One launch at a time runs it; the edges
 * between launches see to that. Owned by the graph. */
struct program {
    int id;
    program_node *nodes; /* [count] */
    int count;
    program_edge *successors;
    int *first;          /* [count + 1] of each node's predecessors, in edges */
    program_edge *edges; /* predecessors; then what is the graph's */
    int *roots;          /* [root_count] nodes without predecessors */
    int root_count;
    bool stamped;          /* begin_ticks is asked for by a node that waits, the first of its stream */
    int64_t begin_ticks;   /* of the launch that runs */
    int remaining;         /* nodes not done in the launch that runs */
    queued *launch;        /* that launch */
    _Atomic int in_flight; /* launches queued or running */
};

/* threads: workers with the host. store: launches that can be in flight. */
int executor_create(int threads, int store, uint64_t shuffle_seed, ring *records, executor **out,
                    foray_error *err);
void executor_destroy(executor *x); /* nothing may be in flight */

/* Room for `nodes` more (or, negative, fewer) nodes to be ready at once. */
int executor_reserve_nodes(executor *x, int nodes, foray_error *err);
/* Scratch of at least `bytes` per worker. Waits for all work when it has to grow. */
int executor_reserve_scratch(executor *x, size_t bytes, foray_error *err);

/* A launch to fill: t.impl, id, stream, graph, args, mark. Waits (and works) while the store is empty. */
queued *executor_take(executor *x);
/* Queues q at the end of lane behind `count` <= QUEUED_EDGES - 1 dependencies. Returns it as one. */
dependency executor_submit(executor *x, queued *q, lane *l, const dependency *after, int count);

/* The tally of what the work of one stream waits for an event of another. The names are borrowed. */
int executor_tally(executor *x, const char *waiting, const char *awaited, const char *from);
/* As device_take_waits. */
int executor_take_waits(executor *x, int64_t round, device_wait *out, int most);

/* Puts s on the last launch of the lane; it is complete at once when that is done. */
void executor_signal(executor *x, signal *s, lane *l);
/* Takes s off its task. */
void executor_unsignal(executor *x, signal *s);
/* The last launch of a lane (or the task of a signal) as a dependency; .task NULL when it is done. */
dependency executor_lane_tail(executor *x, const lane *l);
dependency executor_signal_task(executor *x, const signal *s);

/* Works until *word is 0. Returns the nanoseconds it took. */
int64_t executor_wait(executor *x, const _Atomic int *word);
/* Works on one ready task if there is any and no other worker to do it. */
void executor_poll(executor *x);
const _Atomic int *executor_in_flight(const executor *x); /* launches not done */

void executor_set_records(executor *x, ring *records);
void executor_set_threads(executor *x, int threads);
int executor_threads(const executor *x);
int executor_active(const executor *x);
/* Tests: workers (without the host) that are in a sleep of the system right now. */
int executor_sleeping(executor *x);

#endif
