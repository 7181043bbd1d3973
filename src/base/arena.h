/* arena.h: memory that is freed all at once. The owner of an arena states its lifetime: model (immutable
 * after load), session, step (reset, never freed).
 *
 * Chunks come from mem_alloc under the arena's tag. Threads: one at a time per arena.
 */
#ifndef FORAY_BASE_ARENA_H
#define FORAY_BASE_ARENA_H

#include "base/mem.h"

typedef struct arena_chunk arena_chunk;

typedef struct {
    arena_chunk *head; /* the chunk that is being filled */
    size_t chunk_bytes;
    size_t used_bytes; /* handed out since the last reset */
    mem_tag tag;
} arena;

/* An empty arena; allocates nothing yet. chunk_bytes: 0 for 64 KiB. */
void arena_init(arena *a, mem_tag tag, size_t chunk_bytes);

/* Returns bytes aligned to 64 that live until the arena is reset or freed, or NULL. Zeroed. */
void *arena_alloc(arena *a, size_t bytes);
/* count elements of size bytes each, checked for overflow. */
void *arena_array(arena *a, size_t count, size_t size);
char *arena_strndup(arena *a, const char *text, size_t bytes); /* ends in NUL */

void arena_reset(arena *a); /* keeps the largest chunk */
void arena_free(arena *a);  /* back to empty; may be used again */

#endif
