/* chunks.h: many elements of one size, in chunks that never move.
 *
 *     | chunk 0 |   | chunk 1 | chunk 2 | … |   | … |     the first one alone: most lists are short. All others in blocks of
 *                                                       2 MiB, which the system backs with huge pages
 *
 * Whoever owns a list knows how many bytes its chunks have and which of them are in use. Threads: one at a time per list.
 */
#ifndef FORAY_TIMELINE_CHUNKS_H
#define FORAY_TIMELINE_CHUNKS_H

#include <stdbool.h>
#include <stddef.h>

typedef struct {
    char **at; /* [count] the chunks that are there */
    size_t count, cap;
} chunks;

/* Makes chunks up to number `wanted`, each of `bytes` bytes, a power of two of at most 2 MiB. False: no memory. */
bool chunks_reach(chunks *c, size_t wanted, size_t bytes);
void chunks_free(chunks *c, size_t bytes);
/* Chunk `number` of `from` is done with, and all before it: where a block ends with it, the block becomes the next one of `to`. */
void chunks_pass_on(chunks *from, size_t number, chunks *to, size_t bytes);

#endif
