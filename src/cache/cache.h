/* cache.h: what requests remember between steps, in pages, under one table of pool descriptors (pool.h).
 *
 * Every pool has its pages; a request slot has one row of page numbers per pool, in device memory, for the kernels. One
 * loop over the descriptors serves each of promise, reserve, release, digest, snapshot and the memory plan; nothing
 * else takes or gives a page.
 *
 *   pool 0   pages   [0][1][2][3] … [pages-1]          page 0 is the reserved one: places without a page
 *   table    slot 0: 7 3 9 -      slot 1: 1 - - -      entry t of slot s: page table[s][t / page_rows]
 *                                                      (a ring: t % ring in place of t)
 *
 * Rejected rows are overwritten, never rolled back: an entry is visible by position only (design.md 4). So a page need
 * not be cleared for its next owner either.
 * Threads: the host thread. Rounds that use a slot may be in flight while it is extended beyond what they can reach, or
 * trimmed to that; for all else none is.
 */
#ifndef FORAY_CACHE_CACHE_H
#define FORAY_CACHE_CACHE_H

#include "cache/pool.h"
#include "device/device.h"

enum { CACHE_MAX_POOLS = 16 };

typedef struct cache cache;

/* Room for `slots` requests of up to `max_length` tokens, backed by pages for `total_length` tokens altogether
 * (at least max_length); rings for every slot. Memory is device memory; the page tables start full of the reserved
 * page. EUSAGE: descriptors or sizes that cannot be. */
int cache_create(device *d, const pool_desc *pools, int count, int slots, int max_length,
                 int64_t total_length, cache **out, foray_error *err);
void cache_destroy(cache *c);

/* The longest request that its tables have room for: at least the max_length of creation. */
int cache_max_length(const cache *c);
int cache_slots(const cache *c);
int cache_pools(const cache *c);
const pool_desc *cache_pool(const cache *c, int pool);

/* For the kernels: a pool's first page and its page table [slots, cache_table_stride]. */
uint8_t *cache_pages(const cache *c, int pool);
const int32_t *cache_table(const cache *c, int pool);
int cache_table_stride(const cache *c, int pool);

/* Admission. Whether a request of `length` tokens could run with the cache to itself; ELIMIT names the pool in which
 * it could not. */
int cache_check_length(const cache *c, int length, foray_error *err);
/* Promises the pages of `length` tokens to a slot, in place of what it had been promised, unless some pool has not so
 * many that are not promised to others: then false, and nothing has changed. Takes no page. Release ends a promise. */
bool cache_promise(cache *c, int slot, int length);

/* Makes slot hold pages for new_length tokens: in every pool, or, when one has run out, in none (ENOMEM).
 * old_length is what the caller believes the slot holds; it serves the message. */
int cache_reserve_extend(cache *c, int slot, int old_length, int new_length, foray_error *err);

/* Gives back the pages beyond those that `length` tokens need: the surplus of a reservation from upper bounds. */
void cache_trim(cache *c, int slot, int length);
/* Gives back every page and the promise. */
void cache_release(cache *c, int slot);

/* Sees to it that memory stands behind the pages which a new request of `fresh` tokens (0: none) and `ahead` more
 * tokens of every slot that holds some will take (in larger steps), so that taking them costs no page fault. Changes
 * no byte, and comes to no page that a slot holds: rounds in flight may be writing there. */
void cache_warm(cache *c, int fresh, int ahead);

/* Pages in use, over all pools: zero when every slot has been released (the leak counter). */
int64_t cache_pages_in_use(const cache *c);
/* Bytes of the pages of a pool, of all pools, and of those that a request of `length` tokens holds. */
size_t cache_pool_bytes(const cache *c, int pool);
uint64_t cache_bytes(const cache *c);
uint64_t cache_bytes_for(const cache *c, int length);

/* A hash of everything that is visible at `length` tokens, by position: equal for equal texts, however they
 * came about (fresh prefill, chunks, speculation with rejections). Leaves out pools that are unhashed. */
uint64_t cache_digest(const cache *c, int slot, int length);

/* Everything that is visible at `length` tokens in every pool, compressor states and drafters' rows included, for
 * preemption, reuse of a prefix, transfer (layout: docs/cache.md). buffer: cache_snapshot_bytes, of any alignment. */
size_t cache_snapshot_bytes(const cache *c, int length);
void cache_snapshot(const cache *c, int slot, int length, void *buffer);
/* Makes slot, of this or of another cache with the same pools, hold what a snapshot of `length` tokens saw, whatever
 * it held before. EUSAGE: not such a snapshot, or damaged; ENOMEM, ELIMIT as reserve_extend: then nothing has changed. */
int cache_restore(cache *c, int slot, int length, const void *buffer, size_t bytes, foray_error *err);

#endif
