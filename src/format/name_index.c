/* name_index.c: an array of names sorted by strcmp. A heap sort, since qsort may allocate behind our back and
 * must not be quadratic for a hostile order of names.
 * Threads: any, once built.
 */
#include "format/name_index.h"

#include <string.h>

bool name_index_init(name_index *index, arena *a, size_t capacity)
{
    index->count = 0;
    index->entries = arena_array(a, capacity, sizeof *index->entries);
    return index->entries != NULL;
}

void name_index_add(name_index *index, const char *name)
{
    index->entries[index->count] = (name_entry) { name, index->count };
    index->count++;
}

/* Lets entry i sink until both children are smaller. */
static void sink(name_entry *e, size_t i, size_t count)
{
    name_entry moving = e[i];
    for (size_t child; (child = 2 * i + 1) < count; i = child) {
        if (child + 1 < count && strcmp(e[child].name, e[child + 1].name) < 0)
            child++;
        if (strcmp(moving.name, e[child].name) >= 0)
            break;
        e[i] = e[child];
    }
    e[i] = moving;
}

const char *name_index_finish(name_index *index)
{
    name_entry *e = index->entries;
    for (size_t i = index->count / 2; i-- > 0;)
        sink(e, i, index->count);
    for (size_t end = index->count; end > 1;) {
        end--;
        name_entry last = e[0];
        e[0] = e[end];
        e[end] = last;
        sink(e, 0, end);
    }
    for (size_t i = 1; i < index->count; i++)
        if (strcmp(e[i - 1].name, e[i].name) == 0)
            return e[i].name;
    return NULL;
}

int64_t name_index_find(const name_index *index, const char *name)
{
    size_t low = 0, high = index->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(name, index->entries[middle].name);
        if (order == 0)
            return (int64_t)index->entries[middle].number;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return -1;
}
