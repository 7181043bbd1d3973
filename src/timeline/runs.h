/* runs.h: sorts a list that is nearly in order, by merging the runs that are.
 *
 *     | run | run | run | …     each is in order; two of one rank become one of the next, like carries of a binary counter
 *
 * A merge touches only the stretch in which its two runs overlap: a list with few places out of order costs little more than
 * finding them. Room-private, expanded where it is used, so that the comparison is. Threads: any.
 */
#ifndef FORAY_TIMELINE_RUNS_H
#define FORAY_TIMELINE_RUNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* May a stand in front of b? A total order of what the numbers mean: true for one of the two ways at least. */
typedef bool runs_order(const void *user, uint32_t a, uint32_t b);

/* What is sorted: numbers, and a byte beside each that moves with it (NULL: none). room holds as many of both. */
typedef struct {
    uint32_t *list, *room;
    uint8_t *tag, *tag_room;
} runs;

/* Merges [0, middle) and [middle, n), each in order. */
static inline void runs_merge(const runs *r, size_t from, size_t middle, size_t n, runs_order *before,
                              const void *user)
{
    uint32_t *list = r->list + from;
    uint8_t *tag = r->tag != NULL ? r->tag + from : NULL;
    size_t low = 0, high = middle;
    while (low < high) { /* what comes before all of the second run stays */
        size_t half = low + (high - low) / 2;
        if (before(user, list[half], list[middle]))
            low = half + 1;
        else
            high = half;
    }
    size_t kept = middle - low, i = 0, j = middle, k = low;
    memcpy(r->room, list + low, kept * sizeof *list);
    if (tag != NULL)
        memcpy(r->tag_room, tag + low, kept);
    for (; i < kept && j < n; k++) {
        bool first = before(user, r->room[i], list[j]);
        if (tag != NULL)
            tag[k] = first ? r->tag_room[i] : tag[j];
        list[k] = first ? r->room[i++] : list[j++];
    }
    memcpy(list + k, r->room + i, (kept - i) * sizeof *list);
    if (tag != NULL)
        memcpy(tag + k, r->tag_room + i, kept - i);
}

/* Runs that wait for one of their rank. Zeroed: none. */
typedef struct {
    size_t start[40];
    int rank[40], count;
} runs_waiting;

/* The next run, [at, end), of a list of n. */
static inline void runs_add(const runs *r, runs_waiting *w, size_t at, size_t end, size_t n,
                            runs_order *before, const void *user)
{
    w->start[w->count] = at;
    w->rank[w->count++] = 0;
    for (; w->count > 1 && (w->rank[w->count - 2] == w->rank[w->count - 1] || end == n); w->count--) {
        size_t from = w->start[w->count - 2];
        runs_merge(r, from, w->start[w->count - 1] - from, end - from, before, user);
        w->rank[w->count - 2]++;
    }
}

#endif
