/* store.h: all events of one analysis in memory: 32 bytes each, in chunks that never move.
 *
 *     part    one file: its path, format, rank, clock, and what was wrong with it
 *     lane    one row of a timeline: a host thread, a device stream, or a derived row that is not work itself
 *     event   an interval on a lane, with its kind, its name's number and its link (correlation)
 *     detail  what few events have: graph, stream, round, phase, …
 *
 * Times are int64 nanoseconds on the clock of the part (base_ns apart). Readers fill it, store_settle closes it.
 * Threads: one at a time while it is filled; afterwards any may read.
 */
#ifndef FORAY_TIMELINE_STORE_H
#define FORAY_TIMELINE_STORE_H

#include "base/error.h"
#include "timeline/chunks.h"
#include "timeline/names.h"

/* Readers take no time beyond this, either way: times are subtracted without a look. */
#define STORE_MOST_NS (INT64_MAX / 5 * 2)

/* What an event is. Host kinds first, then device tasks, then rows derived from them. */
typedef enum {
    EVENT_OTHER,
    EVENT_OP,         /* framework operator or any function of the host */
    EVENT_PYTHON,     /* interpreter frame */
    EVENT_ANNOTATION, /* a range that the program named */
    EVENT_LAUNCH,
    EVENT_GRAPH_LAUNCH,
    EVENT_COPY_CALL,
    EVENT_SYNC_CALL, /* waits for the device */
    EVENT_RECORD_CALL,
    EVENT_WAIT_CALL,    /* makes a stream wait; returns at once */
    EVENT_CAPTURE_CALL, /* graph capture or instantiation */
    EVENT_ALLOC_CALL,
    EVENT_CALL, /* any other call of the device's library */
    EVENT_ENQUEUE,
    EVENT_DEQUEUE,
    EVENT_KERNEL, /* first device task */
    EVENT_COPY,
    EVENT_SET,
    EVENT_COMM,
    EVENT_NOTIFY_WAIT, /* waits for a peer */
    EVENT_WAIT,        /* waits for an event of this device */
    EVENT_RECORD,
    EVENT_MARK,      /* a task without work of its own */
    EVENT_HOST_TASK, /* runs on the host, in stream order */
    EVENT_SPAN,      /* hull over tasks: device annotations, collectives of HCCL */
    EVENT_SYNC_NOTE, /* CUPTI's record of a synchronisation */
    EVENT_KINDS
} event_kind;

const char *event_kind_name(event_kind k);

static inline bool event_is_task(unsigned kind)
{
    return kind >= EVENT_KERNEL && kind <= EVENT_HOST_TASK;
}

/* Does a device do work in it, as opposed to waiting or marking? */
static inline bool event_is_work(unsigned kind)
{
    return (kind >= EVENT_KERNEL && kind <= EVENT_COMM) || kind == EVENT_HOST_TASK;
}

enum { EVENT_UNFINISHED = 1, EVENT_ABSURD = 2, EVENT_DUPLICATE = 4, EVENT_ASYNC = 8 };

typedef struct {
    int64_t start, dur; /* ns */
    uint32_t name;
    uint16_t lane;
    uint8_t kind, flags;
    uint32_t link; /* store_link; 0: none */
    uint32_t more; /* index of its detail + 1; 0: none */
} event;

_Static_assert(sizeof(event) == 32, "events are many");

/* -1 or 0 where a field is unknown, as said. */
typedef struct {
    int64_t graph, node;        /* graph or model identity and node; -1 */
    int64_t stream, task;       /* as the file numbers them; -1 */
    int64_t round;              /* foray's step; -1 */
    int64_t ready;              /* foray: when its edges were done; INT64_MIN */
    int64_t sequence;           /* of a collective in its group; -1 */
    uint32_t record_link;       /* of a wait: the call that recorded its event; 0 */
    uint32_t task_type;         /* name; 0 */
    uint32_t collective, group; /* names; 0 */
    int32_t rows, waited_event; /* -1 */
    int32_t src_rank, dst_rank; /* -1 */
    int32_t wait_stream;        /* stream that waits, or on which a dump's node goes on; -1 */
    int8_t phase;               /* observe/phase.h; -1 */
} event_detail;

typedef enum { LANE_UNKNOWN, LANE_HOST, LANE_STREAM, LANE_COLLECTIVE, LANE_PLANE, LANE_DERIVED } lane_role;

typedef struct {
    uint32_t part, pid, tid;  /* pid and tid: their text's names */
    uint32_t process, thread; /* display names; 0: none */
    int32_t process_lane;     /* the lane that carries the process' name */
    lane_role role;
    int64_t device, stream; /* of a stream; -1 */
    uint32_t events;
} lane;

typedef enum {
    FORMAT_UNKNOWN,
    FORMAT_KINETO,
    FORMAT_ASCEND,
    FORMAT_FORAY,
    FORMAT_NSYS,
    FORMAT_DUMP,
    FORMAT_STEPS
} trace_format;

const char *trace_format_name(trace_format f);

/* What was wrong with a file, counted; each has a fixed line in the report. */
typedef enum {
    FAULT_TRUNCATED,   /* the text ends inside */
    FAULT_PACKING,     /* the compressed data is damaged or cut */
    FAULT_DAMAGED,     /* events that could not be read */
    FAULT_BAD_ESCAPES, /* \x and the like in strings */
    FAULT_BAD_TIME,    /* events whose time is no number, or on no clock */
    FAULT_UNFINISHED,  /* no or a negative duration */
    FAULT_ABSURD,      /* longer than everything else together */
    FAULT_UNPAIRED,    /* begin without end, or end without begin */
    FAULT_NO_LINK,     /* tasks without a call that launched them */
    FAULT_LOST_LAUNCH, /* launches whose tasks are not there */
    FAULT_LOST_REPLAY, /* graph launches without any node */
    FAULT_THIN_REPLAY, /* replays with fewer nodes than their like */
    FAULT_SAME_LINK,   /* one correlation on several launches */
    FAULT_EARLY_TASK,  /* task that starts before its launch does */
    FAULT_OVERLAP,     /* overlapping tasks on one stream */
    FAULT_DUPLICATE,   /* tasks listed twice in the file */
    FAULT_UNRESOLVED,  /* blocking waits whose record was not found */
    FAULT_LOST_TASKS,  /* the recorder itself says that it lost some */
    FAULT_CAPTURE,     /* the file shows graph capture */
    FAULT_ASYNC,       /* async ranges that no rule knows */
    FAULT_COUNTERS,    /* samples of counters */
    FAULT_INSTANTS,    /* events without duration */
    FAULT_NO_COLUMN,   /* columns that a table of a database lacks */
    FAULT_COUNT
} fault;

typedef struct {
    char *path; /* owned */
    trace_format format;
    int rank;         /* -1: not stated */
    int64_t base_ns;  /* to be added to every time for the time of day, within STORE_MOST_NS; 0: unknown */
    int64_t shift_ns; /* added to its times to stand on the clock of the first part */
    bool truncated_list;
    uint64_t bytes, packed_bytes, events, tasks;
    size_t first, kept; /* its events in the store: they stand together */
    uint64_t faults[FAULT_COUNT],
        fault_at[FAULT_COUNT]; /* how often; byte offset of the first, where it has one */
    char problem[160];
    char lacking[160]; /* TABLE.column, … of FAULT_NO_COLUMN */
    char *manifest;    /* owned: foray's, as JSON; NULL: none */
    size_t manifest_bytes;
} part;

/* One end of an arrow between two places of a timeline. */
typedef struct {
    int64_t ts;
    uint32_t id; /* the text of its id */
    uint16_t lane;
    bool finish; /* where it ends, as opposed to where it starts */
    uint8_t what;
} flow;

enum { FLOW_EVENT = 1, FLOW_LAUNCH = 2 }; /* foray's event edges; Ascend's call to task */

/* tid of the lane that carries a process' name and no events. */
static const uint32_t STORE_PROCESS_TID = UINT32_MAX;

#ifdef FORAY_TORTURE
enum { STORE_CHUNK_BITS = 3 }; /* so that lists cross chunks */
#else
enum { STORE_CHUNK_BITS = 15 };
#endif
enum { STORE_CHUNK = 1 << STORE_CHUNK_BITS, STORE_MOST_LANES = 65000 };

typedef struct {
    names names;
    part *parts;
    size_t part_count, part_cap;
    lane *lanes;
    size_t lane_count, lane_cap;
    chunks chunks;
    size_t count; /* events */
    flow *flows;
    size_t flow_count, flow_cap;
    event_detail *details;
    size_t detail_count, detail_cap;
    uint32_t *lane_slot; /* hash of (part, pid, tid) -> lane + 1 */
    size_t lane_slots, lane_slot_cap;
    bool failed; /* memory ran out */
} store;

void store_init(store *s);
void store_free(store *s);

/* A new part; its path is copied. NULL: no memory. Valid until the next store_add_part. */
part *store_add_part(store *s, const char *path, trace_format format);
/* Takes the newest part back; it must have no events. */
void store_drop_part(store *s);
/* The lane of (part, pid, tid), made where it is new; -1: no memory or too many. */
int store_lane(store *s, uint32_t of_part, uint32_t pid, uint32_t tid);
/* Appends; NULL without memory. The event is zeroed but for its fields given here. */
event *store_add(store *s, uint16_t on, event_kind kind, uint32_t name, int64_t start, int64_t dur);
/* Moves everything that `later` read of a part behind what s has of it, its newest: as if s had read on. Empties later. */
void store_append(store *s, store *later);
/* A detail for e, all fields unknown; NULL without memory. Valid until the next one is made. */
event_detail *store_detail(store *s, event *e);
/* A correlation as 32 bits: itself where it fits 31, else a number of its own; 0 for 0. */
uint32_t store_link(store *s, uint64_t correlation);

/* Behind a part's last event. */
static inline size_t store_part_end(const store *s, size_t number)
{
    return number + 1 < s->part_count ? s->parts[number + 1].first : s->count;
}

static inline event *store_event(const store *s, size_t i)
{
    return (event *)s->chunks.at[i >> STORE_CHUNK_BITS] + (i & (STORE_CHUNK - 1));
}

static inline const event_detail *store_more(const store *s, const event *e)
{
    return e->more != 0 ? &s->details[e->more - 1] : NULL;
}

static inline const char *store_name(const store *s, const event *e)
{
    return names_text(&s->names, e->name);
}

/* What to call a lane: its name, else its number; "" for none. */
const char *store_lane_name(const store *s, size_t number);

static inline int64_t event_end(const event *e)
{
    return e->start + e->dur;
}

#endif
