/* pool.h: one kind of cache entries, described by numbers: how many tokens make an entry, how long it stays, where it
 * lies in a page. Everything that reserves, counts, hashes, copies or prints caches works from these numbers alone.
 *
 *   growing   entry e stands for tokens e * tokens … and stays as long as its request
 *   ring      one entry per token, entry e at e % ring: it stays until entry e + ring is written over it
 *
 *   page      [layer 0: page_rows entries][layer 1: page_rows entries] …
 *
 * A ring is longer than what may still be read by the most rows of one pass (its guard): rows that turn out rejected,
 * or a whole chunk of a prompt, never overwrite an entry that is still needed. Pure. Threads: any.
 */
#ifndef FORAY_CACHE_POOL_H
#define FORAY_CACHE_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct pool_desc pool_desc;
struct pool_desc {
    char name[24];
    int layers;
    size_t entry_bytes; /* of one layer */
    int page_rows;      /* entries per page */
    int tokens;         /* per entry, >= 1: entry e is there once (e + 1) * tokens tokens are; a ring: 1 */
    int ring;           /* 0: growing */
    /* A ring, with n tokens there: later tokens may still read the entries from n - n % group - reach on. */
    int group, reach;
    uint8_t
        poison; /* debug builds fill pages that nobody has written with it: read as entries, it is huge, or no number */
    bool unhashed; /* the digest leaves it out: a drafter's own rows depend on which rounds it took part in */
    /* Copies entry `index` of a page to (save) or from `entry` [layers][entry_bytes]. NULL: entries of a layer lie one
     * after another in its share of the page. */
    void (*copy)(const pool_desc *p, uint8_t *page, int index, uint8_t *entry, bool save);
    const void *user; /* of copy; borrowed */
};

/* Entries that there are with `length` tokens, of which those from pool_first_visible on may still be read. Both
 * count from the first token, for a ring too. */
int pool_entries(const pool_desc *p, int length);
int pool_first_visible(const pool_desc *p, int length);
/* Pages that hold what `length` tokens write: a ring's stop growing once it is full. */
int pool_pages(const pool_desc *p, int length);

size_t pool_page_bytes(const pool_desc *p);
/* Of one entry, all layers. */
size_t pool_entry_bytes(const pool_desc *p);

/* Copies one entry out of a page, or into it, in an order that paging cannot change: [layers][entry_bytes]. */
void pool_save(const pool_desc *p, const uint8_t *page, int index, uint8_t *entry);
void pool_load(const pool_desc *p, uint8_t *page, int index, const uint8_t *entry);

/* Bytes of entries, without what is unused of pages: what one more token of context adds to growing pools, on average
 * over many; of the rings of one request, full; of all entries of one request of `length` tokens. */
double pools_bytes_per_token(const pool_desc *pools, int count);
uint64_t pools_ring_bytes(const pool_desc *pools, int count);
uint64_t pools_bytes(const pool_desc *pools, int count, int length);

#endif
