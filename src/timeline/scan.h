/* scan.h: pulls the events out of a Chrome-style trace, one after the other, in constant memory.
 *
 *     [ {event}, {event}, … ]                             Ascend, plain arrays
 *     { "key": value, …, "traceEvents": [ {event}, … ], … }   PyTorch/Kineto, foray
 *
 * One pass over the bytes; only values of known keys are kept, as places in the text. Takes what viewers take: an array
 * that is never closed, commas too many, empty objects. After damage inside an event it goes on at the next
 * place that looks like the start of one, and counts. Knows no meaning of any event.
 * Threads: one per scan. Values live until the next call of scan_next.
 */
#ifndef FORAY_TIMELINE_SCAN_H
#define FORAY_TIMELINE_SCAN_H

#include "timeline/source.h"

/* Keys inside "args" that some reader needs. */
typedef enum {
    ARG_NAME,
    ARG_LABELS,
    ARG_CORRELATION,
    ARG_CORRELATION_ID,
    ARG_CONNECTION_ID,
    ARG_DEVICE,
    ARG_STREAM,
    ARG_GRAPH_ID,
    ARG_GRAPH_NODE_ID,
    ARG_MODEL_ID,
    ARG_MODEL_ID_LOWER,
    ARG_TASK_TYPE,
    ARG_PHYSIC_STREAM,
    ARG_STREAM_ID,
    ARG_STREAM_ID_LOWER,
    ARG_TASK_ID,
    ARG_TASK_ID_LOWER,
    ARG_ACTIVE_STREAM,
    ARG_WAIT_STREAM,
    ARG_WAIT_RECORD,
    ARG_COLLECTIVE,
    ARG_GROUP,
    ARG_SEQUENCE,
    ARG_SRC_RANK,
    ARG_DST_RANK,
    ARG_FORAY_GRAPH,
    ARG_FORAY_NODE,
    ARG_FORAY_ROUND,
    ARG_FORAY_PHASE,
    ARG_FORAY_ROWS,
    ARG_FORAY_READY,
    ARG_FORAY_EVENT,
    ARG_COUNT
} scan_arg;

/* A value as it stands in the file. kind: 0 absent, '"' string (text is what stands between the quotes), '0' a number
 * or a literal such as true, '{' and '[' (text is empty). */
typedef struct {
    const char *text;
    uint32_t bytes;
    char kind;
    bool escaped;
} scan_value;

typedef struct {
    uint64_t offset; /* of its brace, in the unpacked file */
    char ph;         /* 0: none */
    scan_value cat, name, pid, tid, ts, dur, id;
    scan_value letter, other;  /* the text behind ph; the last value that nobody asks for */
    uint64_t have;             /* bit a: arg[a] is set */
    scan_value arg[ARG_COUNT]; /* only where `have` says so */
} scan_event;

typedef enum { SCAN_EVENT, SCAN_META, SCAN_END } scan_result;

typedef struct scan scan;

/* Begins on a source, which stays the caller's and must outlive the scan. *out is owned. */
int scan_open(source *s, scan **out, foray_error *err);
/* Begins inside the list of events of a trace of which `main` scans the beginning, on a source that stands at `offset`: at
 * the first place there that looks like the start of an event. Whether it is one shows when the other scan comes there. */
int scan_open_inside(source *s, uint64_t offset, const scan *main, scan **out, foray_error *err);
/* Takes what another scan has read from the current event on as read, up to offset; counts its events and escapes. False: the
 * source cannot go there, and nothing has changed. */
bool scan_skip_to(scan *s, uint64_t offset, uint64_t events, uint64_t bad_escapes);
/* Behind the current event. */
uint64_t scan_offset(const scan *s);
void scan_close(scan *s);

/* The next event, or the next key of the outermost object that is not traceEvents. */
scan_result scan_next(scan *s);
const scan_event *scan_current(const scan *s);
/* After SCAN_META: the key, and the value's whole text (NULL where it was longer than 1 MiB and was passed over). */
void scan_meta(const scan *s, scan_value *key, const char **value, size_t *bytes);

/* What is known once SCAN_END came. */
typedef struct {
    uint64_t bytes;          /* unpacked */
    uint64_t events;         /* delivered */
    uint64_t damaged;        /* places where an event could not be read */
    uint64_t first_damage;   /* byte offset, where damaged > 0 */
    uint64_t bad_escapes;    /* backslashes before a character that JSON does not know */
    bool truncated, no_json; /* ended inside; not even a beginning of a trace */
    uint64_t truncated_at;   /* where the unfinished event or value starts */
    bool has_list;           /* an array of events was seen */
} scan_outcome;

const scan_outcome *scan_done(const scan *s);

#endif
