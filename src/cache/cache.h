/* cache.h: what requests remember between steps, in pages, under one table of pool descriptors.
 *
 * A pool is one kind of entry (full attention K/V; later: window rings, compressed rows, states). Every pool
 * has its pages; a request slot has one row of page numbers per pool, in device memory, for the kernels. One
 * loop over the descriptors serves each of reserve, release, digest and the memory plan; nothing else takes or
 * gives a page.
 *
 *   pool 0   pages   [0][1][2][3] … [pages-1]          page 0 is the reserved one: padding rows write there
 *   table    slot 0: 7 3 9 -      slot 1: 1 - - -      entry t of slot s: page table[s][t / page_rows]
 *
 * Rejected rows are overwritten, never rolled back: an entry is visible by position only (design.md 4).
 * Threads: the host thread, while nothing that uses the touched slots is in flight.
 */
#ifndef FORAY_CACHE_CACHE_H
#define FORAY_CACHE_CACHE_H

#include "device/device.h"

/* One kind of entries. Pure functions say how many entries a request of some length needs, and which entries
 * a digest must see. */
typedef struct {
    const char *name;
    int page_rows;              /* entries per page */
    size_t page_bytes;          /* of all layers */
    int (*entries)(int length); /* entries that a request of `length` tokens occupies */
    /* Feeds entry `index` of a page into a running hash, in an order that paging cannot change. */
    uint64_t (*digest)(const void *user, const uint8_t *page, int index, uint64_t hash);
    const void *user; /* of digest; borrowed */
} pool_desc;

enum { CACHE_MAX_POOLS = 8 };

typedef struct cache cache;

/* Room for `slots` requests of up to `max_length` tokens, backed by pages for `total_length` tokens altogether
 * (at least max_length). Memory is device memory; the page tables start full of the reserved page. */
int cache_create(device *d, const pool_desc *pools, int count, int slots, int max_length,
                 int64_t total_length, cache **out, foray_error *err);
void cache_destroy(cache *c);

/* For the kernels: a pool's first page and its page table [slots, cache_table_stride]. */
uint8_t *cache_pages(const cache *c, int pool);
const int32_t *cache_table(const cache *c, int pool);
int cache_table_stride(const cache *c, int pool);

/* Makes slot hold pages for new_length tokens: in every pool, or, when one has run out, in none (ENOMEM).
 * old_length is what the caller believes the slot holds; it serves the message. */
int cache_reserve_extend(cache *c, int slot, int old_length, int new_length, foray_error *err);

/* Gives back the pages beyond those that `length` tokens need: the surplus of a reservation from upper bounds. */
void cache_trim(cache *c, int slot, int length);
void cache_release(cache *c, int slot);

/* Sees to it that `ahead` more pages per pool than are in use are backed by memory (in larger steps), so that taking
 * them costs no page fault later. Changes no byte. */
void cache_warm(cache *c, int ahead);

/* Pages that a request of `length` tokens needs, and pages that there are, over all pools. */
int64_t cache_pages_for(const cache *c, int length);
int64_t cache_pages_total(const cache *c);
/* Pages in use, over all pools: zero when every slot has been released (the leak counter). */
int64_t cache_pages_in_use(const cache *c);
uint64_t cache_bytes(const cache *c);
size_t cache_bytes_per_token(const cache *c);

/* A hash of everything that is visible at `length` tokens, by position: equal for equal texts, however they
 * came about (fresh prefill, chunks, speculation with rejections). */
uint64_t cache_digest(const cache *c, int slot, int length);

#endif
