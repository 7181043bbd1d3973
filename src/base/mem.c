/* mem.c: the allocator, its counters, and the hook that makes an allocation fail.
 *
 * Counters are relaxed atomics: each is exact on its own, a reader may see two of them at slightly
 * different moments. Checked builds (FORAY_CHECKS) put a header in front of every block, which remembers
 * size and tag, and fill fresh memory with 0x7f so that nobody relies on zeros. Threads: any.
 *
 *     checked build:  [ room, its last 64 bytes a block_header ][ the block: aligned as the room ]
 */
#include "base/mem.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { SMALL_ALIGN = 64, HUGE_PAGE = 2 << 20, PAGE = 4096 };

static _Atomic int64_t live_bytes[MEM_TAGS], live_total, peak_total, live_blocks, call_count;
static _Atomic int64_t fail_in; /* > 0: counts down; -1: every allocation fails; 0: off */
static _Atomic bool fail_sticky;

const char *mem_tag_name(mem_tag tag)
{
    static const char *const names[MEM_TAGS] = {
        "general", "weights", "cache", "graph", "device", "text", "records",
    };
    return (unsigned)tag < MEM_TAGS ? names[tag] : "unknown";
}

void mem_fail_nth(int64_t n, bool sticky)
{
    atomic_store(&fail_sticky, sticky);
    atomic_store(&fail_in, n > 0 ? n : 0);
}

static bool told_to_fail(void)
{
    int64_t n = atomic_load_explicit(&fail_in, memory_order_relaxed);
    while (n > 0) {
        int64_t next = n > 1 ? n - 1 : atomic_load(&fail_sticky) ? -1 : 0;
        if (atomic_compare_exchange_weak(&fail_in, &n, next))
            return n == 1;
    }
    return n < 0;
}

static void count(mem_tag tag, int64_t bytes, int64_t blocks)
{
    atomic_fetch_add_explicit(&live_bytes[tag], bytes, memory_order_relaxed);
    atomic_fetch_add_explicit(&live_blocks, blocks, memory_order_relaxed);
    int64_t total = atomic_fetch_add_explicit(&live_total, bytes, memory_order_relaxed) + bytes;
    int64_t peak = atomic_load_explicit(&peak_total, memory_order_relaxed);
    while (total > peak && !atomic_compare_exchange_weak_explicit(&peak_total, &peak, total,
                                                                  memory_order_relaxed, memory_order_relaxed))
        ;
}

static size_t alignment_of(size_t bytes)
{
    return bytes >= HUGE_PAGE ? HUGE_PAGE : SMALL_ALIGN;
}

#ifdef FORAY_CHECKS

typedef struct {
    uint64_t magic;
    size_t bytes;
    mem_tag tag;
} block_header;

static const uint64_t LIVE = 0x666f7261796c6976, FREED = 0x666f726179646561;

static block_header *header_of(void *p)
{
    return (block_header *)((char *)p - SMALL_ALIGN);
}

static void check_block(mem_tag tag, void *p, size_t bytes, const char *caller)
{
    const block_header *h = header_of(p);
    if (h->magic == LIVE && h->bytes == bytes && h->tag == tag)
        return;
    if (h->magic == LIVE)
        fprintf(stderr, "foray: bug: %s(%s, %p, %zu), but the block is %zu bytes of %s\n", caller,
                mem_tag_name(tag), p, bytes, h->bytes, mem_tag_name(h->tag));
    else
        fprintf(stderr, "foray: bug: %s(%s, %p, %zu), but this is %s\n", caller, mem_tag_name(tag), p, bytes,
                h->magic == FREED ? "freed already" : "no live block (or its front was overwritten)");
    abort();
}

static void *take(mem_tag tag, size_t bytes)
{
    size_t room = alignment_of(bytes);
    char *start = NULL;
    if (bytes > SIZE_MAX - room || posix_memalign((void **)&start, room, room + bytes) != 0)
        return NULL;
    void *p = start + room;
    *header_of(p) = (block_header) { LIVE, bytes, tag };
    memset(p, 0x7f, bytes);
    return p;
}

static void give(void *p, size_t bytes)
{
    header_of(p)->magic = FREED;
    free((char *)p - alignment_of(bytes));
}

static bool comes_zeroed(size_t bytes)
{
    (void)bytes;
    return false;
}

#else

static void check_block(mem_tag tag, void *p, size_t bytes, const char *caller)
{
    (void)tag, (void)p, (void)bytes, (void)caller;
}

static size_t whole_pages(size_t bytes)
{
    return (bytes + PAGE - 1) & ~(size_t)(PAGE - 1);
}

/* A large block straight from the system: aligned for huge pages, zero, and not touched. */
static void *map_block(size_t bytes)
{
    size_t size = whole_pages(bytes);
    char *start = mmap(NULL, size + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED)
        return NULL;
    size_t before = -(uintptr_t)start & (HUGE_PAGE - 1);
    if (before > 0)
        munmap(start, before);
    if (before < HUGE_PAGE)
        munmap(start + before + size, HUGE_PAGE - before);
    /* A refusal costs speed only: the block stands on small pages. */
    (void)madvise(start + before, size, MADV_HUGEPAGE);
    return start + before;
}

static void *take(mem_tag tag, size_t bytes)
{
    (void)tag;
    void *p = NULL;
    if (bytes >= HUGE_PAGE)
        return map_block(bytes);
    return posix_memalign(&p, alignment_of(bytes), bytes != 0 ? bytes : 1) == 0 ? p : NULL;
}

static void give(void *p, size_t bytes)
{
    if (bytes >= HUGE_PAGE)
        munmap(p, whole_pages(bytes));
    else
        free(p);
}

static bool comes_zeroed(size_t bytes)
{
    return bytes >= HUGE_PAGE;
}

#endif

void *mem_alloc(mem_tag tag, size_t bytes)
{
    assert((unsigned)tag < MEM_TAGS);
    atomic_fetch_add_explicit(&call_count, 1, memory_order_relaxed);
    if (bytes > PTRDIFF_MAX || told_to_fail())
        return NULL;
    void *p = take(tag, bytes);
    if (p != NULL)
        count(tag, (int64_t)bytes, 1);
    return p;
}

void *mem_alloc_zeroed(mem_tag tag, size_t bytes)
{
    void *p = mem_alloc(tag, bytes);
    if (p != NULL && !comes_zeroed(bytes))
        memset(p, 0, bytes);
    return p;
}

void *mem_resize(mem_tag tag, void *p, size_t old_bytes, size_t new_bytes)
{
    if (p != NULL)
        check_block(tag, p, old_bytes, "mem_resize");
    void *fresh = mem_alloc(tag, new_bytes);
    if (fresh == NULL || p == NULL)
        return fresh;
    memcpy(fresh, p, old_bytes < new_bytes ? old_bytes : new_bytes);
    mem_free(tag, p, old_bytes);
    return fresh;
}

void mem_free(mem_tag tag, void *p, size_t bytes)
{
    if (p == NULL)
        return;
    assert((unsigned)tag < MEM_TAGS);
    check_block(tag, p, bytes, "mem_free");
    give(p, bytes);
    count(tag, -(int64_t)bytes, -1);
}

bool mem_size_mul(size_t a, size_t b, size_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}

mem_stats mem_get_stats(void)
{
    mem_stats s = { .peak_bytes = atomic_load(&peak_total),
                    .blocks = atomic_load(&live_blocks),
                    .calls = atomic_load(&call_count) };
    for (int tag = 0; tag < MEM_TAGS; tag++)
        s.bytes[tag] = atomic_load(&live_bytes[tag]);
    return s;
}
