/* ready.h: the tasks whose edges are done, longest remaining path first, oldest first among equals.
 *
 * A binary heap of borrowed pointers. Never allocates after ready_reserve. Threads: one at a time (the
 * executor's lock).
 */
#ifndef FORAY_DEVICE_CPU_READY_H
#define FORAY_DEVICE_CPU_READY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    void *task;
    int64_t priority;
    uint64_t order; /* of arrival */
} ready_entry;

typedef struct {
    ready_entry *entry;
    int count, capacity;
    uint64_t arrivals;
} ready_heap;

/* Room for capacity tasks at once; false: no memory, unchanged. Never shrinks. */
bool ready_reserve(ready_heap *h, int capacity);
void ready_free(ready_heap *h);

void ready_push(ready_heap *h, void *task, int64_t priority);
/* Takes entry `at` of the heap's array: 0 is the best one. count must be > at. */
void *ready_take(ready_heap *h, int at);

#endif
