/* ready.c: see ready.h. An ordinary binary heap; taking an entry from the middle (the scripted executor
 * order of tests does) moves the last one into its place and restores the order both ways.
 */
#include "device/cpu/ready.h"

#include <assert.h>

#include "base/mem.h"

bool ready_reserve(ready_heap *h, int capacity)
{
    if (capacity <= h->capacity)
        return true;
    ready_entry *p =
        mem_resize(MEM_DEVICE, h->entry, (size_t)h->capacity * sizeof *p, (size_t)capacity * sizeof *p);
    if (!p)
        return false;
    h->entry = p;
    h->capacity = capacity;
    return true;
}

void ready_free(ready_heap *h)
{
    mem_free(MEM_DEVICE, h->entry, (size_t)h->capacity * sizeof *h->entry);
    *h = (ready_heap) { 0 };
}

static bool before(ready_entry a, ready_entry b)
{
    return a.priority != b.priority ? a.priority > b.priority : a.order < b.order;
}

static int sift_up(ready_heap *h, int i)
{
    ready_entry e = h->entry[i];
    for (; i > 0 && before(e, h->entry[(i - 1) / 2]); i = (i - 1) / 2)
        h->entry[i] = h->entry[(i - 1) / 2];
    h->entry[i] = e;
    return i;
}

static void sift_down(ready_heap *h, int i)
{
    ready_entry e = h->entry[i];
    for (;;) {
        int child = 2 * i + 1;
        if (child + 1 < h->count && before(h->entry[child + 1], h->entry[child]))
            child++;
        if (child >= h->count || !before(h->entry[child], e))
            break;
        h->entry[i] = h->entry[child];
        i = child;
    }
    h->entry[i] = e;
}

void ready_push(ready_heap *h, void *task, int64_t priority)
{
    assert(h->count < h->capacity);
    h->entry[h->count] = (ready_entry) { .task = task, .priority = priority, .order = h->arrivals++ };
    sift_up(h, h->count++);
}

void *ready_take(ready_heap *h, int at)
{
    assert(at >= 0 && at < h->count);
    void *task = h->entry[at].task;
    h->count--;
    if (at < h->count) {
        h->entry[at] = h->entry[h->count];
        sift_down(h, sift_up(h, at));
    }
    return task;
}
