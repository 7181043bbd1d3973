/* search.h: where a moment lies in a list that is in order of time, for those who ask for one moment after the other.
 *
 * Room-private, expanded where it is used, so that the comparison is. Threads: any.
 */
#ifndef FORAY_TIMELINE_SEARCH_H
#define FORAY_TIMELINE_SEARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Does the place lie before the moment? If so, all places in front of it do. */
typedef bool search_order(const void *user, size_t place, int64_t ns);

/* The first place in [first, last) that does not lie before ns; last where all do. near: any place, such as the last answer:
 * the search takes twice the logarithm of the distance from it. */
static inline size_t search_near(size_t first, size_t last, size_t near, search_order *before,
                                 const void *user, int64_t ns)
{
    size_t low = first, high = last, reach = 1;
    near = near < first ? first : near;
    if (near < last && before(user, near, ns)) {
        for (low = near + 1; reach <= high - low && before(user, low + reach - 1, ns); reach *= 2)
            low += reach;
        high = reach <= high - low ? low + reach - 1 : high;
    } else {
        high = near < last ? near : last;
        for (; reach <= high - low && !before(user, high - reach, ns); reach *= 2)
            high -= reach;
        low = reach <= high - low ? high - reach + 1 : low;
    }
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (before(user, middle, ns))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

#endif
