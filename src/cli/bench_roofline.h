/* bench_roofline.h: each kernel's time in plain decoding, against what the machine can do. Pure. Threads: any. */
#ifndef FORAY_CLI_BENCH_ROOFLINE_H
#define FORAY_CLI_BENCH_ROOFLINE_H

#include "observe/ring.h"

enum { BENCH_MOST_KERNELS = 24 };

/* One kernel over all rounds. */
typedef struct {
    const char *name; /* static */
    double ns, flops, bytes;
    int calls;
} bench_kernel;

typedef struct {
    bench_kernel kernels[BENCH_MOST_KERNELS]; /* [count] longest first */
    int count, rounds;                        /* rounds 0: nothing was recorded */
    double span_ns;                           /* of those rounds, from the first task to the last */
    double busy_ns;                           /* of that, while at least one kernel ran: branches overlap */
    double peak_bytes, peak_flops;            /* of the machine, a second; 0: not known */
} bench_roofline;

/* Adds up tasks [count], which are sorted by their start; those of decode rounds count. The peaks are left for the caller to
 * set. */
void bench_roofline_add_up(task_record *tasks, size_t count, bench_roofline *out);

/* Time of the rounds that no kernel took. */
double bench_roofline_between_ns(const bench_roofline *r);

#endif
