/* hazard.c: see hazard.h. The shadow is a sorted array of disjoint ranges; a new range cuts those it overlaps
 * in part, so each piece has one history. Programs name the same ranges again and again, so after the first
 * round nothing is cut or allocated.
 */
#include "device/cpu/hazard.h"

#include <string.h>

#include "base/error.h"
#include "base/mem.h"

void hazard_join(hazard_clock *a, const hazard_clock *b)
{
    for (int i = 0; i < HAZARD_ACTORS; i++)
        a->at[i] = a->at[i] > b->at[i] ? a->at[i] : b->at[i];
}

static void drop(hazard_shadow *h, int i)
{
    mem_free(MEM_DEVICE, h->range[i], sizeof *h->range[i]);
    memmove(&h->range[i], &h->range[i + 1], (size_t)(h->count - i - 1) * sizeof h->range[0]);
    h->count--;
}

void hazard_free(hazard_shadow *h)
{
    while (h->count > 0)
        drop(h, h->count - 1);
    mem_free(MEM_DEVICE, h->range, (size_t)h->capacity * sizeof h->range[0]);
    *h = (hazard_shadow) { 0 };
}

/* The first range that ends behind p. */
static int find(const hazard_shadow *h, uintptr_t p)
{
    int low = 0, high = h->count;
    while (low < high) {
        int mid = (low + high) / 2;
        if (h->range[mid]->end > p)
            high = mid;
        else
            low = mid + 1;
    }
    return low;
}

/* Puts a range before place i: a copy of `like`, or one without a history. */
static bool insert(hazard_shadow *h, int i, uintptr_t start, uintptr_t end, const hazard_range *like)
{
    if (h->count == h->capacity) {
        int capacity = h->capacity ? 2 * h->capacity : 64;
        hazard_range **p =
            mem_resize(MEM_DEVICE, h->range, (size_t)h->capacity * sizeof *p, (size_t)capacity * sizeof *p);
        if (!p)
            return false;
        h->range = p;
        h->capacity = capacity;
    }
    hazard_range *r = mem_alloc_zeroed(MEM_DEVICE, sizeof *r);
    if (!r)
        return false;
    if (like)
        *r = *like;
    r->start = start;
    r->end = end;
    memmove(&h->range[i + 1], &h->range[i], (size_t)(h->count - i) * sizeof h->range[0]);
    h->range[i] = r;
    h->count++;
    return true;
}

/* Cuts range i at p, so that it ends there and its other half follows. */
static bool cut(hazard_shadow *h, int i, uintptr_t p)
{
    hazard_range *r = h->range[i];
    if (!insert(h, i + 1, p, r->end, r))
        return false;
    r->end = p;
    return true;
}

/* Makes [start, end) consist of whole ranges. Returns the first of them, or -1 without memory. */
static int cover(hazard_shadow *h, uintptr_t start, uintptr_t end)
{
    int first = find(h, start);
    if (first < h->count && h->range[first]->start < start) {
        if (!cut(h, first, start))
            return -1;
        first++;
    }
    int i = first;
    for (uintptr_t p = start; p < end; i++) {
        uintptr_t next = i < h->count ? h->range[i]->start : end;
        if (next > p) {
            if (!insert(h, i, p, next < end ? next : end, NULL))
                return -1;
        } else if (h->range[i]->end > end && !cut(h, i, end)) {
            return -1;
        }
        p = h->range[i]->end;
    }
    return first;
}

/* The operation in r's history that the clock does not know of; count 0: none. */
static hazard_operation conflict(const hazard_range *r, const hazard_clock *clock, bool write, bool *writes)
{
    *writes = true;
    if (r->write.count > clock->at[r->write.actor])
        return r->write;
    *writes = false;
    for (int a = 0; write && a < HAZARD_ACTORS; a++) {
        if (r->read[a] > clock->at[a])
            return (hazard_operation) { .actor = a, .count = r->read[a], .name = r->read_name[a] };
    }
    return (hazard_operation) { 0 };
}

static void enter(hazard_range *r, int actor, int32_t count, const char *name, bool write)
{
    if (!write) {
        r->read[actor] = count;
        r->read_name[actor] = name;
        return;
    }
    memset(r->read, 0, sizeof r->read);
    r->write = (hazard_operation) { .actor = actor, .count = count, .name = name };
}

int hazard_check(hazard_shadow *h, int actor, const hazard_clock *clock, const hazard_access *accesses,
                 int count, hazard_report *report)
{
    *report = (hazard_report) { 0 };
    /* First all checks, then all entries: an operation that is refused leaves no trace. */
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < count; i++) {
            uintptr_t start = (uintptr_t)accesses[i].start, end = start + accesses[i].bytes;
            int at = cover(h, start, end);
            if (at < 0)
                return FORAY_ENOMEM;
            for (; at < h->count && h->range[at]->start < end; at++) {
                if (pass == 1) {
                    enter(h->range[at], actor, clock->at[actor], accesses[i].name, accesses[i].write);
                    continue;
                }
                report->earlier = conflict(h->range[at], clock, accesses[i].write, &report->earlier_writes);
                if (report->earlier.count) {
                    report->later = accesses[i];
                    return FORAY_OK;
                }
            }
        }
    }
    return FORAY_OK;
}

void hazard_forget(hazard_shadow *h, const void *start, size_t bytes)
{
    uintptr_t from = (uintptr_t)start, to = from + bytes;
    for (int i = find(h, from); i < h->count && h->range[i]->start < to;) {
        if (h->range[i]->start >= from && h->range[i]->end <= to)
            drop(h, i);
        else
            i++;
    }
}
