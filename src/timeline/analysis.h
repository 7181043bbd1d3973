/* analysis.h: what is found out about one group: its steps, the critical path of each, and the figures of the report.
 *
 *     step i   from the first task of its round on the main stream to that of the next round; foray's from publish to publish
 *     path     segments in order of time; within a step each nanosecond lies in exactly one of them
 *
 * Times are the group's. Threads: read-only once made.
 */
#ifndef FORAY_TIMELINE_ANALYSIS_H
#define FORAY_TIMELINE_ANALYSIS_H

#include "observe/phase.h"
#include "timeline/host_side.h"
#include "timeline/steps_file.h"
#include "timeline/task_graph.h"

/* What a stretch of the critical path was. */
typedef enum {
    SEGMENT_TASK,
    SEGMENT_COMM,      /* communication that the path runs through: exposed */
    SEGMENT_PEER_WAIT, /* of it: a peer was not there yet */
    SEGMENT_WAIT,      /* a stream stood still and nothing in the file says for whom */
    SEGMENT_HANDOVER,  /* from a record to the end of the wait that it released */
    SEGMENT_DISPATCH,  /* the device between two tasks that were both ready */
    SEGMENT_RESOURCE,  /* ready, but no worker or engine free */
    SEGMENT_LAUNCH,    /* from the launch call to the task's start */
    SEGMENT_HOST,      /* the host thread was on the way to the launch */
    SEGMENT_RETURN,    /* from a task's end to the return of the call that waited for it */
    SEGMENT_UNKNOWN,   /* nothing in the file explains it */
    SEGMENT_KINDS
} segment_kind;

const char *segment_kind_name(segment_kind k);

typedef struct {
    int64_t from, to;
    uint8_t kind;
    uint8_t phase;  /* the account it falls into */
    uint8_t owner;  /* the stage it belongs to, or whose start it delays; PHASE_UNATTRIBUTED: none */
    uint8_t how;    /* evidence of the edge that leads to it */
    uint32_t task;  /* index + 1; 0: none */
    uint32_t words; /* name: task, or what the host did */
    uint16_t lane;
    uint16_t peer; /* of a wait for a peer: its rank + 1; 0: not known */
} segment;

enum { PATH_CHUNK_BITS = 12, PATH_CHUNK = 1 << PATH_CHUNK_BITS };

/* Segments in chunks that never move. On a cache line of its own: two threads fill one each. */
typedef struct {
    _Alignas(64) chunks chunks;
    size_t count; /* segments */
} segment_list;

static inline segment *segment_at(const segment_list *l, size_t i)
{
    return (segment *)l->chunks.at[i >> PATH_CHUNK_BITS] + (i & (PATH_CHUNK - 1));
}

/* Why a step is not in the figures. */
typedef enum {
    STEP_KEPT,
    STEP_PREFILL,
    STEP_FIRST,   /* its beginning is not in the file */
    STEP_LAST,    /* its end is not */
    STEP_WARM_UP, /* much slower than those after it, at the beginning */
    STEP_CAPTURE, /* a graph was captured in it */
    STEP_LOST,    /* a replay was launched whose tasks are missing */
    STEP_THIN,    /* a replay with fewer nodes than its like */
    STEP_STALL,   /* many times the median: something from outside */
    STEP_NO_TASKS,
    STEP_NO_TIME, /* a record without its duration */
    STEP_REASONS
} step_reason;

const char *step_reason_text(step_reason r);

typedef struct {
    int64_t elapsed_ns; /* between its first and last task on the stage's main stream */
    int64_t sum_ns;     /* of its tasks' durations, all streams */
    int64_t busy_ns;    /* union of them */
    int64_t path_ns;    /* on the critical path, communication and gaps left out */
    uint32_t tasks;
} stage_figures;

typedef struct {
    int64_t start, end;
    uint32_t opener; /* host event + 1; 0: by graph or round */
    uint32_t label;  /* name */
    int64_t round;   /* number of the step as the file states it; -1 */
    bool prefill;
    uint8_t reason;     /* step_reason */
    int requests, rows; /* stated in a label or args, rows summed over requests; -1 */
    int64_t keys;       /* that they attend to, sum; -1 */
    int bucket;         /* index; -1 */
    size_t first_segment, segments;
    int64_t phases_ns[PHASE_COUNT];
    int64_t gap_before_ns[PHASE_COUNT]; /* host gap and launch delay on the path before a stage */
    stage_figures stages[PHASE_COUNT];
    int64_t peer_ns, transfer_ns;    /* exposed communication, by cause */
    int64_t comm_ns, hidden_comm_ns; /* in flight; of it, off the path */
    int64_t inferred_ns;             /* of the path, behind edges that are only inferred */
    int64_t launch_call_ns;          /* host time of the largest replay's launch call */
    uint32_t graph_nodes;            /* of the largest replay */
    uint32_t eager_launches, replays;
    double commit_length; /* tokens per request, mean; 0: unknown */
    bool has_record;      /* a step record was laid against it; its times, -1: not measured */
    int64_t record_step_ns, record_draft_ns, record_verify_ns;
} step;

/* Two branches that ran side by side and met again. */
typedef struct {
    uint32_t join;      /* task */
    uint32_t won, lost; /* the task that released it; the other predecessor */
    int64_t slack_ns;   /* how much earlier the other one was done */
    uint32_t count;     /* of joins of this name pair */
    int64_t slack_sum;
    uint8_t phase, how;
} fork_join;

typedef struct {
    uint32_t key;   /* name: "decode bs=32" */
    uint32_t steps; /* kept ones */
    int requests, rows;
    int64_t wall_median, wall_low, wall_high; /* quartiles */
    int64_t phases_ns[PHASE_COUNT];           /* medians */
    int64_t gap_before_ns[PHASE_COUNT];
    stage_figures stages[PHASE_COUNT];
    int64_t peer_ns, transfer_ns, comm_ns, hidden_comm_ns;
    double commit_length; /* mean; 0: unknown */
    int64_t tpot_ns;      /* wall / commit length; 0: unknown */
} bucket;

/* A collective that stood still until the last rank came to it. */
typedef struct {
    int64_t from, until; /* the group's times */
    uint32_t task;       /* + 1: the collective is one task; 0: an operator over several */
    int rank;            /* that came last */
} peer_wait;

/* What waiting for one rank cost, and what that rank did meanwhile (where its file is there and the clocks are aligned). */
typedef struct {
    int rank;
    bool exact;      /* the waits say for whom they are; else by the order of arrival */
    bool given;      /* what follows is known */
    int64_t path_ns; /* on the path of the kept steps, sum */
    int64_t all_ns;  /* of all waits, on the path or beside it */
    int64_t phases_ns[PHASE_COUNT],
        stage_ns[PHASE_COUNT]; /* its path in those waits, by account and by stage */
    int64_t longest_ns;        /* and its longest stretch */
    uint32_t longest_words;
} peer_charge;

typedef enum {
    WHAT_NO_GAP,      /* the host is never late before a stage */
    WHAT_NO_PEER,     /* peers are always there */
    WHAT_NO_COMM,     /* communication takes no time */
    WHAT_NO_STAGE,    /* a stage's tasks take no time */
    WHAT_NO_RESOURCE, /* a worker is always free */
} what_kind;

/* What one change would save, by running the steps again with the same edges. */
typedef struct {
    what_kind kind;
    uint8_t phase;    /* of NO_GAP and NO_STAGE */
    int64_t saved_ns; /* per kept step, mean */
    int64_t token_ns; /* per token; 0: commit length unknown */
} what_if;

typedef enum {
    BOUNDARY_WHOLE,
    BOUNDARY_ANNOTATION,
    BOUNDARY_GRAPH,
    BOUNDARY_ROUND,
    BOUNDARY_RECORDS
} step_boundary;

/* How step records were laid against a profile. */
typedef struct {
    bool tried, aligned;
    int64_t offset;      /* record of the first step */
    int64_t residual_ns; /* mean difference of durations there; -1: too few pairs */
    int64_t second_ns;   /* at the next best offset; -1: none */
    size_t pairs;
} record_fit;

typedef struct {
    task_graph graph;
    step *steps;
    size_t step_count, step_cap;
    segment_list path[2]; /* one behind the other: read them with path_at */
    fork_join *forks;
    size_t fork_count, fork_cap;
    bucket *buckets;
    size_t bucket_count, bucket_cap;
    what_if *what_ifs; /* the largest saving first */
    size_t what_if_count, what_if_cap;
    int64_t replay_error_ns; /* of the unchanged steps run again: 0 but for a fault */
    step_boundary boundary;
    const char *boundary_set; /* the rules that found the steps; NULL */
    size_t phases_annotated, phases_by_graph, phases_by_order,
        phases_none;    /* tasks by how their stage is known */
    int64_t trimmed_ns; /* cut from the front of the first step: it waited for what is not in the file */
    size_t sums_checked, sums_wrong; /* steps whose path was added up */
    record_fit records;
    bool clock_tried, clock_aligned; /* ranks.c: against another rank, and found */
    int clock_against;               /* that rank */
    int64_t clock_offset_ns;         /* how far its clock is ahead */
    int64_t clock_residual_ns;       /* median deviation of the collectives' ends */
    size_t clock_pairs;
    peer_wait *waits; /* in order of `from` */
    size_t wait_count, wait_cap;
    peer_charge *peers; /* the heaviest first */
    size_t peer_count, peer_cap;
    int64_t peer_late_ns,
        peer_early_ns; /* sum over collectives: how much later, and earlier, it came than the other */
} analysis;

static inline segment *path_at(const analysis *a, size_t i)
{
    size_t first = a->path[0].count;
    return i < first ? segment_at(&a->path[0], i) : segment_at(&a->path[1], i - first);
}

static inline size_t path_count(const analysis *a)
{
    return a->path[0].count + a->path[1].count;
}

/* The stages and steps of a's graph, which is built. The analysis stays the caller's, on an error as well. */
int analyse_steps(analysis *a, const rules *r, const host_side *h, foray_error *err);
/* Then the path and all figures, with the step records that were read (perhaps none). */
int analyse_path(analysis *a, const rules *r, const host_side *h, const steps_file *records,
                 foray_error *err);
void analysis_free(analysis *a);
/* Mean commit length of the kept steps that have one; 0: none has. */
double analysis_mean_commit(const analysis *a);

/* Parts of it, in this order. Each is one file. */
void stages_by_annotation(analysis *a, const host_side *h);
int steps_find(analysis *a, const rules *r, foray_error *err);
int stages_by_order(analysis *a, const rules *r, foray_error *err);
int figures_make(analysis *a, foray_error *err);
int windows_choose(analysis *a, foray_error *err);

#endif
