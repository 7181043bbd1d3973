/* device_program.h: random programs of host kernels over a few buffers and streams, for the tests of the device.
 *
 * An operation mixes two buffers into a third: dst = f(dst, a, b, number), so any exchange of two operations
 * that touch the same buffer gives other numbers. Streams are drawn; the event waits are exactly the
 * conflicts (write after read, read after write, write after write) between operations of different streams.
 * random_program_run is the oracle: the operations one after another.
 *
 * Emitted, a program forks its streams from stream 0 and joins them there, so it can be captured and repeated.
 * Threads: one. Asserts with cmocka.
 */
#ifndef FORAY_TESTS_SUPPORT_DEVICE_PROGRAM_H
#define FORAY_TESTS_SUPPORT_DEVICE_PROGRAM_H

#include "device/device.h"

enum {
    PROGRAM_OPS = 24,
    PROGRAM_BUFFERS = 6,
    PROGRAM_STREAMS = 4,
    PROGRAM_WAITS = PROGRAM_OPS * PROGRAM_OPS
};

typedef struct {
    int stream, dst, a, b, number;
} program_op;

typedef struct {
    int from, to; /* operations: `to` waits for an event recorded right after `from` */
} program_wait;

typedef struct {
    int count, streams, buffers;
    program_op op[PROGRAM_OPS];
    program_wait wait[PROGRAM_WAITS]; /* between different streams only */
    int waits;
} random_program;

/* The seed's program: count operations, 1 … PROGRAM_STREAMS streams. */
void program_make(random_program *p, uint64_t seed, int count);

/* before[i][j]: operation i comes before j by streams and waits (`without` left out; -1: none). */
typedef struct {
    bool before[PROGRAM_OPS][PROGRAM_OPS];
} program_order;
void program_close(const random_program *p, int without, program_order *out);

/* The operations in program order on buffer[PROGRAM_BUFFERS]. */
void random_program_run(const random_program *p, int64_t *buffer);

/* A program's buffers, streams and events on a device. */
typedef struct program_device {
    const random_program *p;
    device *d;
    int64_t *buffer[PROGRAM_BUFFERS];
    stream *stream[PROGRAM_STREAMS];
    event *event[PROGRAM_OPS], *fork, *join[PROGRAM_STREAMS];
    graph_pool *pool;
    struct program_step {
        struct program_device *bench;
        int op;
    } step[PROGRAM_OPS];
    int log[PROGRAM_OPS * 4]; /* operations in the order they ran; the first ones */
    _Atomic int logged;
} program_bench;

void bench_open(program_bench *b, const random_program *p, device *d);
void bench_close(program_bench *b);
void bench_set(program_bench *b, const int64_t *buffer);
void bench_get(const program_bench *b, int64_t *buffer);
/* Launches it all on the streams, leaving out one wait (-1: none). Returns the first error. */
int bench_emit(program_bench *b, int without, foray_error *err);
/* The same as a capture on stream 0. */
int bench_capture(program_bench *b, int without, graph **out, foray_error *err);

#endif
