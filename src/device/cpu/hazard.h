/* hazard.h: finds missing edges. A thread sanitizer cannot: the executor's lock orders all tasks.
 *
 * Every actor (a stream) counts its operations and carries a vector clock: clock[a] is the last operation of
 * actor a that is known to come before. For every range of memory that operations named, the shadow keeps the
 * last write and each actor's last read; an operation that touches a range must have them in its clock.
 *
 *      range    [ start … end )   write: actor 0, its 7th     reads: actor 2, its 3rd
 *      actor 1 writes it with clock {7, ., 2}: the read by actor 2 is not known to be over: a hazard
 *
 * Used twice: by a device for its launches (actors are its streams), and by each capture for its nodes.
 * Allocates only when a range is seen for the first time. Threads: one at a time.
 */
#ifndef FORAY_DEVICE_CPU_HAZARD_H
#define FORAY_DEVICE_CPU_HAZARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HAZARD_ACTORS = 32 };

typedef struct {
    int32_t at[HAZARD_ACTORS];
} hazard_clock;

/* a = the later of both, actor by actor. */
void hazard_join(hazard_clock *a, const hazard_clock *b);

typedef struct {
    int actor;
    int32_t count;    /* 0: none */
    const char *name; /* of the kernel; static */
} hazard_operation;

typedef struct {
    uintptr_t start, end;
    hazard_operation write;
    int32_t read[HAZARD_ACTORS]; /* 0: none */
    const char *read_name[HAZARD_ACTORS];
} hazard_range;

typedef struct {
    hazard_range **range; /* [count] disjoint, sorted by start */
    int count, capacity;
} hazard_shadow;

void hazard_free(hazard_shadow *h);

/* A range that an operation touches. */
typedef struct {
    const void *start;
    size_t bytes; /* > 0 */
    bool write;
    const char *name; /* of the kernel: static */
} hazard_access;

/* What a check found: `earlier` and the access that met it. */
typedef struct {
    hazard_operation earlier; /* count 0: nothing */
    bool earlier_writes;
    hazard_access later;
} hazard_report;

/* Checks an operation (the clock[actor]-th of its actor) against the shadow, and enters it there if there
 * is no hazard. Its own accesses never meet each other. Returns FORAY_OK with report->earlier.count 0 or with the first
 * hazard found, or FORAY_ENOMEM. */
int hazard_check(hazard_shadow *h, int actor, const hazard_clock *clock, const hazard_access *accesses,
                 int count, hazard_report *report);

/* Forgets a range: its memory was freed. */
void hazard_forget(hazard_shadow *h, const void *start, size_t bytes);

#endif
