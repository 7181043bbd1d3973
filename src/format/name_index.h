/* name_index.h: names to numbers, found by halving; and duplicates found once.
 *
 * Borrows the names. Immutable once built. Threads: any.
 */
#ifndef FORAY_FORMAT_NAME_INDEX_H
#define FORAY_FORMAT_NAME_INDEX_H

#include "base/arena.h"

typedef struct {
    const char *name;
    size_t number; /* position in insertion order */
} name_entry;

typedef struct {
    name_entry *entries; /* [count] */
    size_t count;
} name_index;

/* Makes room for capacity names. false: no memory. */
bool name_index_init(name_index *index, arena *a, size_t capacity);
/* Adds the next name; at most capacity times. */
void name_index_add(name_index *index, const char *name);
/* Sorts. Returns a name that was added twice, or NULL. Only then name_index_find may be called. */
const char *name_index_finish(name_index *index);
/* The name's number, or -1. */
int64_t name_index_find(const name_index *index, const char *name);

#endif
