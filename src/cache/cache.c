/* cache.c: the pool table, its free lists and page tables. See cache.h; snapshots are in snapshot.c. */
#include "cache/cache_impl.h"

#include <assert.h>
#include <string.h>
#include <xxhash.h>

#include "base/mem.h"

/* Memory is touched so many bytes at a time. */
enum { WARM_BYTES = 4 << 20, SYSTEM_PAGE = 4096 };

/* Debug builds: what was never written, or was given back, is nothing that could pass for an entry. */
static void poison_page(const page_pool *p, int page)
{
#ifdef FORAY_CHECKS
    size_t bytes = pool_page_bytes(&p->desc);
    memset(p->pages + (size_t)page * bytes, p->desc.poison, bytes);
#else
    (void)p;
    (void)page;
#endif
}

static bool can_be(const pool_desc *p)
{
    if (p->layers < 1 || p->entry_bytes < 1 || p->page_rows < 1 || p->tokens < 1)
        return false;
    return p->ring == 0 ||
           (p->tokens == 1 && p->group >= 1 && p->reach >= 0 && (int64_t)p->group + p->reach <= p->ring);
}

/* Pages of a pool, the reserved one included. Each request may leave its last page partly used: one page more per slot
 * than the tokens need. A short request fills its rings all the same, so every slot has its own. */
static int64_t count_pages(const page_pool *p, int slots, int max_length, int64_t total_length)
{
    if (p->desc.ring)
        return (int64_t)slots * p->stride + 1;
    return (total_length + max_length - 1) / max_length * p->stride + slots + 1;
}

static int pool_create(device *d, page_pool *p, int slots, int max_length, int64_t total_length,
                       foray_error *err)
{
    const pool_desc *desc = &p->desc;
    if (!can_be(desc))
        return fail(err, FORAY_EUSAGE, "cache %s: such a pool cannot be", desc->name);
    p->stride = pool_pages(desc, max_length);
    p->stride = p->stride ? p->stride : 1; /* a table of nothing would have no address */
    int64_t count = count_pages(p, slots, max_length, total_length);
    size_t bytes;
    if (count > INT32_MAX || !mem_size_mul((size_t)count, pool_page_bytes(desc), &bytes))
        return fail(err, FORAY_ELIMIT, "cache %s: %lld pages are too many (lower the context)", desc->name,
                    (long long)count);
    p->page_count = (int)count;
    int rc = device_alloc(d, desc->name, bytes, (void **)&p->pages, err);
    if (rc == 0)
        rc = device_alloc(d, "page table", sizeof(int32_t) * (size_t)slots * (size_t)p->stride,
                          (void **)&p->table, err);
    if (rc != 0)
        return rc;
    p->free_list = mem_alloc(MEM_CACHE, sizeof(int32_t) * (size_t)(count - 1));
    p->slot = mem_alloc_zeroed(MEM_CACHE, sizeof *p->slot * (size_t)slots);
    if (!p->free_list || !p->slot)
        return fail(err, FORAY_ENOMEM, "cache %s: no memory for its page list", desc->name);
    p->free_count = p->page_count - 1;
    p->warm = 1;
    for (int i = 0; i < p->free_count; i++)
        p->free_list[i] = p->page_count - 1 - i; /* page 1 is taken first */
    return 0;
}

static void pool_destroy(device *d, page_pool *p, int slots)
{
    if (p->pages)
        device_free(d, p->pages);
    if (p->table)
        device_free(d, p->table);
    mem_free(MEM_CACHE, p->free_list, sizeof(int32_t) * (size_t)(p->page_count - 1));
    mem_free(MEM_CACHE, p->slot, sizeof *p->slot * (size_t)slots);
}

/* Tokens that a table's row has room for; those of an entry that is not yet complete need none. */
static int64_t table_length(const page_pool *p)
{
    int64_t entries = (int64_t)p->stride * p->desc.page_rows;
    if (p->desc.ring)
        return entries < p->desc.ring ? entries : INT32_MAX;
    return (entries + 1) * p->desc.tokens - 1;
}

static int create_pools(cache *c, const pool_desc *pools, int count, int max_length, int64_t total_length,
                        foray_error *err)
{
    for (int i = 0; i < count; i++) {
        c->pool[i].desc = pools[i];
        c->pools = i + 1;
        int rc = pool_create(c->device, &c->pool[i], c->slots, max_length, total_length, err);
        if (rc != 0)
            return rc;
        if (pool_entry_bytes(&pools[i]) > c->entry_bytes)
            c->entry_bytes = pool_entry_bytes(&pools[i]);
    }
    c->max_length = max_length;
    int64_t longest = INT32_MAX;
    for (int i = 0; i < count; i++)
        longest = table_length(&c->pool[i]) < longest ? table_length(&c->pool[i]) : longest;
    if (longest < INT32_MAX)
        c->max_length = (int)longest;
    c->entry = mem_alloc(MEM_CACHE, c->entry_bytes);
    return c->entry ? 0 : fail(err, FORAY_ENOMEM, "cache: no memory for an entry");
}

int cache_create(device *d, const pool_desc *pools, int count, int slots, int max_length,
                 int64_t total_length, cache **out, foray_error *err)
{
    if (count < 1 || count > CACHE_MAX_POOLS || slots < 1 || max_length < 1 || total_length < max_length)
        return fail(err, FORAY_EUSAGE, "cache: %d pools, %d slots of %d tokens, %lld in all cannot be", count,
                    slots, max_length, (long long)total_length);
    cache *c = mem_alloc_zeroed(MEM_CACHE, sizeof *c);
    if (!c)
        return fail(err, FORAY_ENOMEM, "cache: no memory");
    c->device = d;
    c->slots = slots;
    int rc = create_pools(c, pools, count, max_length, total_length, err);
    if (rc != 0) {
        cache_destroy(c);
        return rc;
    }
    *out = c;
    return 0;
}

void cache_destroy(cache *c)
{
    if (!c)
        return;
    for (int i = 0; i < c->pools; i++)
        pool_destroy(c->device, &c->pool[i], c->slots);
    mem_free(MEM_CACHE, c->entry, c->entry_bytes);
    mem_free(MEM_CACHE, c, sizeof *c);
}

int cache_max_length(const cache *c)
{
    return c->max_length;
}

int cache_slots(const cache *c)
{
    return c->slots;
}

int cache_pools(const cache *c)
{
    return c->pools;
}

const pool_desc *cache_pool(const cache *c, int pool)
{
    return &c->pool[pool].desc;
}

uint8_t *cache_pages(const cache *c, int pool)
{
    return c->pool[pool].pages;
}

const int32_t *cache_table(const cache *c, int pool)
{
    return c->pool[pool].table;
}

int cache_table_stride(const cache *c, int pool)
{
    return c->pool[pool].stride;
}

int cache_check_length(const cache *c, int length, foray_error *err)
{
    for (int i = 0; i < c->pools; i++) {
        const page_pool *p = &c->pool[i];
        int want = pool_pages(&p->desc, length), most = p->page_count - 1;
        most = most < p->stride ? most : p->stride;
        if (want > most)
            return fail(err, FORAY_ELIMIT,
                        "a request of up to %d tokens needs %d pages of cache %s, it may have %d", length,
                        want, p->desc.name, most);
    }
    return 0;
}

bool cache_promise(cache *c, int slot, int length)
{
    for (int i = 0; i < c->pools; i++) {
        const page_pool *p = &c->pool[i];
        int others = p->promised - p->slot[slot].promised;
        if (pool_pages(&p->desc, length) > p->page_count - 1 - others)
            return false;
    }
    for (int i = 0; i < c->pools; i++) {
        page_pool *p = &c->pool[i];
        int want = pool_pages(&p->desc, length);
        p->promised += want - p->slot[slot].promised;
        p->slot[slot].promised = want;
    }
    return true;
}

int cache_reserve_extend(cache *c, int slot, int old_length, int new_length, foray_error *err)
{
    if (new_length > c->max_length)
        return fail(err, FORAY_ELIMIT, "cache: %d tokens do not fit in one request (its tables hold %d)",
                    new_length, c->max_length);
    for (int i = 0; i < c->pools; i++) {
        const page_pool *p = &c->pool[i];
        int want = pool_pages(&p->desc, new_length), more = want - p->slot[slot].held;
        if (more > p->free_count)
            return fail(err, FORAY_ENOMEM,
                        "cache %s: no pages to go from %d to %d tokens (%d free, %d wanted)", p->desc.name,
                        old_length, new_length, p->free_count, more);
    }
    for (int i = 0; i < c->pools; i++) {
        page_pool *p = &c->pool[i];
        int32_t *row = p->table + (size_t)slot * (size_t)p->stride;
        int want = pool_pages(&p->desc, new_length);
        for (int *held = &p->slot[slot].held; *held < want; (*held)++) {
            row[*held] = p->free_list[--p->free_count];
            p->warm = row[*held] < p->warm ? p->warm : row[*held] + 1;
            poison_page(p, row[*held]);
        }
    }
    return 0;
}

void cache_trim(cache *c, int slot, int length)
{
    for (int i = 0; i < c->pools; i++) {
        page_pool *p = &c->pool[i];
        int32_t *row = p->table + (size_t)slot * (size_t)p->stride;
        for (int want = pool_pages(&p->desc, length); p->slot[slot].held > want;) {
            int last = --p->slot[slot].held;
            poison_page(p, row[last]);
            p->free_list[p->free_count++] = row[last];
            row[last] = 0;
        }
    }
}

void cache_release(cache *c, int slot)
{
    cache_trim(c, slot, 0);
    for (int i = 0; i < c->pools; i++) {
        page_pool *p = &c->pool[i];
        p->promised -= p->slot[slot].promised;
        p->slot[slot].promised = 0;
    }
}

/* Written, so that memory stands behind it, and as it was. */
static void touch(volatile uint8_t *byte)
{
    *byte = *byte;
}

/* Pages that a new request of `fresh` tokens and `ahead` more tokens of every other one will take of a pool. */
static int64_t pages_ahead(const cache *c, const page_pool *p, int fresh, int ahead)
{
    int64_t pages = pool_pages(&p->desc, fresh);
    int more = pool_pages(&p->desc, ahead);
    more = more ? more : 1; /* the next token may be the one that completes an entry */
    for (int slot = 0; slot < c->slots; slot++) {
        int held = p->slot[slot].held;
        if (held > 0)
            pages += held + more < p->stride ? more : p->stride - held;
    }
    return pages;
}

void cache_warm(cache *c, int fresh, int ahead)
{
    for (int i = 0; i < c->pools; i++) {
        page_pool *p = &c->pool[i];
        size_t bytes = pool_page_bytes(&p->desc);
        int used = p->page_count - p->free_count; /* the reserved page included */
        int64_t until = used + pages_ahead(c, p, fresh, ahead);
        if (p->warm >= until || p->warm == p->page_count)
            continue;
        until += (int64_t)(WARM_BYTES / bytes);
        until = until < p->page_count ? until : p->page_count;
        for (int64_t page = p->warm; page < until; page++)
            for (size_t at = 0; at < bytes; at += SYSTEM_PAGE)
                touch(p->pages + (size_t)page * bytes + at);
        p->warm = (int)until;
    }
}

int64_t cache_pages_in_use(const cache *c)
{
    int64_t used = 0;
    for (int i = 0; i < c->pools; i++)
        used += c->pool[i].page_count - 1 - c->pool[i].free_count;
    return used;
}

size_t cache_pool_bytes(const cache *c, int pool)
{
    return (size_t)c->pool[pool].page_count * pool_page_bytes(&c->pool[pool].desc);
}

uint64_t cache_bytes(const cache *c)
{
    uint64_t bytes = 0;
    for (int i = 0; i < c->pools; i++)
        bytes += cache_pool_bytes(c, i);
    return bytes;
}

uint64_t cache_bytes_for(const cache *c, int length)
{
    uint64_t bytes = 0;
    for (int i = 0; i < c->pools; i++)
        bytes += (uint64_t)pool_pages(&c->pool[i].desc, length) * pool_page_bytes(&c->pool[i].desc);
    return bytes;
}

uint8_t *page_of_entry(const page_pool *p, int slot, int entry, int *index)
{
    int at = p->desc.ring ? entry % p->desc.ring : entry;
    assert(at / p->desc.page_rows < p->slot[slot].held);
    int32_t page = p->table[(size_t)slot * (size_t)p->stride + (size_t)(at / p->desc.page_rows)];
    *index = at % p->desc.page_rows;
    return p->pages + (size_t)page * pool_page_bytes(&p->desc);
}

uint64_t cache_digest(const cache *c, int slot, int length)
{
    uint64_t hash = (uint64_t)length;
    for (int i = 0; i < c->pools; i++) {
        const page_pool *p = &c->pool[i];
        int end = p->desc.unhashed ? 0 : pool_entries(&p->desc, length);
        for (int e = pool_first_visible(&p->desc, length); e < end; e++) {
            int index;
            const uint8_t *page = page_of_entry(p, slot, e, &index);
            pool_save(&p->desc, page, index, c->entry);
            hash = XXH3_64bits_withSeed(c->entry, pool_entry_bytes(&p->desc), hash);
        }
    }
    return hash;
}
