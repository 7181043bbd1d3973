/* arena.c: a list of chunks; the head is the one being filled. A request that would waste the head's rest
 * gets a chunk of its own behind it. Everything handed out is zeroed at that moment, so a reset is free.
 *
 *     head ─▶ [ header 64 B | used … | free ] ─▶ [ header | full ] ─▶ NULL
 *
 * Threads: one at a time per arena.
 */
#include "base/arena.h"

#include <string.h>

#ifdef FORAY_TORTURE
enum { DEFAULT_CHUNK = 64 }; /* so that a full chunk is common */
#else
enum { DEFAULT_CHUNK = 64 << 10 };
#endif
enum { ALIGN = 64 };

struct arena_chunk {
    arena_chunk *next;
    size_t bytes, used; /* of the payload, which starts ALIGN bytes after the header */
};

_Static_assert(sizeof(arena_chunk) <= ALIGN, "the header must fit in front of the payload");

static size_t chunk_size(const arena_chunk *c)
{
    return ALIGN + c->bytes;
}

void arena_init(arena *a, mem_tag tag, size_t chunk_bytes)
{
    *a = (arena) { .chunk_bytes = chunk_bytes != 0 ? chunk_bytes : DEFAULT_CHUNK, .tag = tag };
}

/* A chunk with room for bytes, linked in: as the head unless the present head has more room left. */
static arena_chunk *add_chunk(arena *a, size_t bytes)
{
    size_t payload = bytes > a->chunk_bytes ? bytes : a->chunk_bytes;
    if (payload > SIZE_MAX - ALIGN)
        return NULL;
    arena_chunk *c = mem_alloc(a->tag, ALIGN + payload);
    if (c == NULL)
        return NULL;
    *c = (arena_chunk) { .bytes = payload };
    arena_chunk *head = a->head;
    if (head != NULL && head->bytes - head->used > payload - bytes) {
        c->next = head->next;
        head->next = c;
    } else {
        c->next = head;
        a->head = c;
    }
    return c;
}

void *arena_alloc(arena *a, size_t bytes)
{
    if (bytes > SIZE_MAX - (ALIGN - 1))
        return NULL;
    size_t rounded = (bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    if (rounded == 0)
        rounded = ALIGN;
    arena_chunk *c = a->head;
    if (c == NULL || c->bytes - c->used < rounded)
        c = add_chunk(a, rounded);
    if (c == NULL)
        return NULL;
    void *p = (char *)c + ALIGN + c->used;
    c->used += rounded;
    a->used_bytes += rounded;
    return memset(p, 0, rounded);
}

void *arena_array(arena *a, size_t count, size_t size)
{
    size_t bytes;
    return mem_size_mul(count, size, &bytes) ? arena_alloc(a, bytes) : NULL;
}

char *arena_strndup(arena *a, const char *text, size_t bytes)
{
    char *copy = bytes < SIZE_MAX ? arena_alloc(a, bytes + 1) : NULL;
    if (copy != NULL && bytes != 0)
        memcpy(copy, text, bytes);
    return copy;
}

void arena_reset(arena *a)
{
    arena_chunk *largest = a->head;
    for (arena_chunk *c = a->head; c != NULL; c = c->next)
        if (c->bytes > largest->bytes)
            largest = c;
    for (arena_chunk *c = a->head, *next; c != NULL; c = next) {
        next = c->next;
        if (c != largest)
            mem_free(a->tag, c, chunk_size(c));
    }
    if (largest != NULL) {
        largest->next = NULL;
        largest->used = 0;
    }
    a->head = largest;
    a->used_bytes = 0;
}

void arena_free(arena *a)
{
    arena_reset(a);
    if (a->head != NULL)
        mem_free(a->tag, a->head, chunk_size(a->head));
    a->head = NULL;
}
