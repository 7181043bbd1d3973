/* list.h: room for arrays that grow: one function, so that every list of this room grows and fails alike.
 *
 * A list is three fields of its owner: data, count, cap. Threads: as its owner.
 */
#ifndef FORAY_TIMELINE_LIST_H
#define FORAY_TIMELINE_LIST_H

#include <stdbool.h>
#include <stddef.h>

/* Makes room for `need` elements of `size` bytes in *data (cap elements now, NULL for 0), at least doubling. False
 * when memory is out: then the list is as it was. Memory under MEM_RECORDS. */
bool list_reserve(void *data, size_t *cap, size_t need, size_t size);
/* Frees what list_reserve gave. *data becomes NULL, *cap 0. */
void list_free(void *data, size_t *cap, size_t size);

#endif
