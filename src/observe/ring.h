/* ring.h: the last N tasks, as they ran. Writers never wait and never allocate.
 *
 *     ticket = head++;  slot's sequence number made odd;  record written in place;  number made even
 *
 * A reader copies out what is whole and counts what is not there: nothing is dropped silently. A writer that
 * finds its slot taken by another one, a whole lap apart, gives its record up, which counts as lost.
 * Threads: many writers, one reader at a time.
 */
#ifndef FORAY_OBSERVE_RING_H
#define FORAY_OBSERVE_RING_H

#include "base/error.h"
#include "observe/phase.h"

/* One task: a kernel on a stream, eager or as a node of a replayed graph. */
typedef struct {
    const char *name; /* static */
    uint8_t kernel_class, phase;
    int16_t stream, rank;
    int32_t graph, node; /* -1: eager */
    int32_t rows;
    int64_t round;
    int64_t ready_ns, start_ns, end_ns; /* clock_fast_ns: edges done, first tile taken, last tile done */
    double flops, bytes;                /* of its live rows: operations, bytes that must move */
    int32_t waited_event; /* the event whose completion made it ready; -1: its stream predecessor */
} task_record;

typedef struct ring ring;

int ring_create(size_t capacity, ring **out, foray_error *err); /* capacity: rounded up to a power of two */
void ring_free(ring *r);
void ring_write(ring *r, const task_record *t);
/* Copies up to max of the newest records, oldest first, to out; returns how many. *lost counts those written
 * since creation that are no longer there, and those in the middle of being written. */
size_t ring_read(const ring *r, task_record *out, size_t max, uint64_t *lost);
size_t ring_capacity(const ring *r);

#endif
