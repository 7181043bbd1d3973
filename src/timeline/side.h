/* side.h: what a profiler of Ascend leaves beside its timeline, as far as it tells something that the timeline does not.
 *
 *     profiler_info_N.json       the rank, the profiler's level
 *     kernel_details.csv         which kernels ran (a check on lost tasks), in how many blocks
 *     step_trace_time.csv        the vendor's own account of a step, to compare
 *     communication.json         collectives: bytes and time in transit by kind of link, time without any task
 *     communication_matrix.json  the slowest and the fastest link
 *
 * A companion belongs to the traces in its folder or in folders of that one. None is a trace: alone it is refused. Times in ns.
 * Threads: one at a time.
 */
#ifndef FORAY_TIMELINE_SIDE_H
#define FORAY_TIMELINE_SIDE_H

#include "timeline/source.h"
#include "timeline/store.h"
#include "timeline/task_graph.h"

typedef enum {
    SIDE_NONE,
    SIDE_INFO,
    SIDE_KERNELS,
    SIDE_STEPS,
    SIDE_COLLECTIVES,
    SIDE_LINKS,
    SIDE_UNUSED /* known, and nothing here uses it */
} side_kind;

/* A kernel's row. */
typedef struct {
    int64_t start, dur;
    uint32_t name, blocks;
    bool comm;
} side_kernel;

enum { SIDE_LINK_KINDS = 6 };

/* What moved over one kind of link. */
typedef struct {
    char kind[12];
    double megabytes;
    int64_t ns;
} side_traffic;

typedef struct {
    side_kind kind;
    char *path; /* owned */
    int rank;
    char level[24];
    side_kernel *kernels; /* by their blocks */
    size_t kernel_count, kernel_cap;
    size_t bad_rows, steps, collectives, links;
    char step[24];
    int64_t computing, exposed, overlapped, idle;    /* of the first step */
    int64_t elapsed, transit, waiting, without_task; /* of all collectives */
    side_traffic traffic[SIDE_LINK_KINDS];
    size_t traffic_kinds;
    char slow[24], fast[24], transport[12]; /* "3-1": from rank, to rank */
    double slow_rate, fast_rate;            /* GB/s */
} side_file;

typedef struct {
    side_file *files;
    size_t count, cap;
} side_files;

/* The kind of a file by its first bytes. */
side_kind side_kind_of(const char *start, size_t bytes);
/* Reads a file of that kind; names go to s. EFILE where it is damaged. */
int side_read(side_files *f, store *s, side_kind kind, const char *path, foray_error *err);
void side_free(side_files *f);

/* Gives parts that state no rank that of the companion beside them. */
void side_apply(const side_files *f, store *s);
bool side_belongs(const side_file *f, const part *p);
/* One line about what f says of g; *warning: it contradicts the timeline. */
void side_describe(const side_file *f, const task_graph *g, char *out, size_t room, bool *warning);

#endif
