/* mem.h: the one allocator. Every byte of foray comes from here and is counted under a tag.
 *
 * Callers give sizes back when they free, as Lua's do: so the counters are exact and a wrong size is
 * caught in checked builds. Large blocks (>= 2 MiB) are 2 MiB aligned and asked for as huge pages; every
 * block is aligned to 64 bytes. Nothing is zeroed unless the name says so.
 * Threads: any. Not for the decode loop: a step allocates nothing (tests assert it).
 */
#ifndef FORAY_BASE_MEM_H
#define FORAY_BASE_MEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum {
    MEM_GENERAL,
    MEM_WEIGHTS,
    MEM_CACHE,
    MEM_GRAPH,
    MEM_DEVICE,
    MEM_TEXT,
    MEM_RECORDS,
    MEM_TAGS
} mem_tag;

const char *mem_tag_name(mem_tag tag);

/* Returns owned memory, or NULL when there is none (or the n-th allocation was told to fail). bytes may be 0:
 * then the result is a unique pointer that must be freed all the same. */
void *mem_alloc(mem_tag tag, size_t bytes);
void *mem_alloc_zeroed(mem_tag tag, size_t bytes);

/* As realloc, with the old size. On failure returns NULL and the old block stands. p may be NULL (old 0). */
void *mem_resize(mem_tag tag, void *p, size_t old_bytes, size_t new_bytes);

/* Frees what mem_alloc or mem_resize gave; bytes is its current size. p may be NULL. */
void mem_free(mem_tag tag, void *p, size_t bytes);

/* a * b without overflow: false when it does not fit. */
bool mem_size_mul(size_t a, size_t b, size_t *out);

typedef struct {
    int64_t bytes[MEM_TAGS], peak_bytes; /* live now, by tag; highest sum so far */
    int64_t blocks;                      /* live now */
    int64_t calls;                       /* allocations and resizes since start */
} mem_stats;

mem_stats mem_get_stats(void);

/* Tests: the n-th allocation from now (1 is the next) fails, once, and so does every later one when
 * `sticky`; 0 turns it off. */
void mem_fail_nth(int64_t n, bool sticky);

#endif
