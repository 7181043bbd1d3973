/* cache.c: the pool table, its free lists and page tables. See cache.h. */
#include "cache/cache.h"

#include <string.h>

#include "base/mem.h"

typedef struct {
    pool_desc desc;
    uint8_t *pages;     /* [page_count][page_bytes] device memory */
    int32_t *table;     /* [slots][stride] device memory */
    int32_t *free_list; /* [page_count - 1] numbers of free pages, a stack */
    int32_t *held;      /* [slots] pages that a slot holds */
    int page_count, free_count, stride;
    int warm; /* pages below this one have memory behind them; new pages are taken from the lowest number up */
} page_pool;

/* Memory is touched that many pages at a time. */
enum { WARM_STEP = 32, SYSTEM_PAGE = 4096 };

struct cache {
    device *device;
    page_pool pool[CACHE_MAX_POOLS];
    int pools, slots;
};

static int pages_for(const page_pool *p, int length)
{
    int entries = length > 0 ? p->desc.entries(length) : 0;
    return (entries + p->desc.page_rows - 1) / p->desc.page_rows;
}

/* Debug builds: what was never written, or was given back, reads as huge numbers and as no numbers at all. */
static void poison_page(const page_pool *p, int page)
{
#ifdef FORAY_CHECKS
    memset(p->pages + (size_t)page * p->desc.page_bytes, 0x7f, p->desc.page_bytes);
#else
    (void)p;
    (void)page;
#endif
}

static int pool_create(device *d, page_pool *p, int slots, int max_length, int64_t total_length,
                       foray_error *err)
{
    const pool_desc *desc = &p->desc;
    p->stride = pages_for(p, max_length);
    /* Each request may leave its last page partly used: one page more per slot than the tokens need. Page 0 is
     * reserved. */
    int64_t count = (total_length + max_length - 1) / max_length * p->stride + slots + 1;
    size_t bytes;
    if (count > INT32_MAX || !mem_size_mul((size_t)count, desc->page_bytes, &bytes))
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
    p->held = mem_alloc_zeroed(MEM_CACHE, sizeof(int32_t) * (size_t)slots);
    if (!p->free_list || !p->held)
        return fail(err, FORAY_ENOMEM, "cache %s: no memory for its page list", desc->name);
    p->free_count = p->page_count - 1;
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
    mem_free(MEM_CACHE, p->held, sizeof(int32_t) * (size_t)slots);
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
    for (int i = 0; i < count; i++) {
        c->pool[i].desc = pools[i];
        c->pools = i + 1;
        int rc = pool_create(d, &c->pool[i], slots, max_length, total_length, err);
        if (rc != 0) {
            cache_destroy(c);
            return rc;
        }
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
    mem_free(MEM_CACHE, c, sizeof *c);
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

int cache_reserve_extend(cache *c, int slot, int old_length, int new_length, foray_error *err)
{
    for (int i = 0; i < c->pools; i++) {
        const page_pool *p = &c->pool[i];
        int want = pages_for(p, new_length), more = want - p->held[slot];
        if (want > p->stride)
            return fail(err, FORAY_ELIMIT,
                        "cache %s: %d tokens do not fit in one request (its table holds %d)", p->desc.name,
                        new_length, p->stride * p->desc.page_rows);
        if (more > p->free_count)
            return fail(err, FORAY_ENOMEM,
                        "cache %s: no pages to go from %d to %d tokens (%d free, %d wanted)", p->desc.name,
                        old_length, new_length, p->free_count, more);
    }
    for (int i = 0; i < c->pools; i++) {
        page_pool *p = &c->pool[i];
        int32_t *row = p->table + (size_t)slot * (size_t)p->stride;
        for (int want = pages_for(p, new_length); p->held[slot] < want; p->held[slot]++) {
            row[p->held[slot]] = p->free_list[--p->free_count];
            poison_page(p, row[p->held[slot]]);
        }
    }
    return 0;
}

void cache_trim(cache *c, int slot, int length)
{
    for (int i = 0; i < c->pools; i++) {
        page_pool *p = &c->pool[i];
        int32_t *row = p->table + (size_t)slot * (size_t)p->stride;
        for (int want = pages_for(p, length); p->held[slot] > want;) {
            int last = --p->held[slot];
            poison_page(p, row[last]);
            p->free_list[p->free_count++] = row[last];
            row[last] = 0;
        }
    }
}

void cache_release(cache *c, int slot)
{
    cache_trim(c, slot, 0);
}

/* Written, so that memory stands behind it, and as it was. */
static void touch(volatile uint8_t *byte)
{
    *byte = *byte;
}

void cache_warm(cache *c, int ahead)
{
    for (int i = 0; i < c->pools; i++) {
        page_pool *p = &c->pool[i];
        int used = p->page_count - p->free_count; /* the reserved page included */
        if (p->warm >= used + ahead || p->warm == p->page_count)
            continue;
        int until = used + ahead + WARM_STEP < p->page_count ? used + ahead + WARM_STEP : p->page_count;
        for (int page = p->warm > used ? p->warm : used; page < until; page++)
            for (size_t at = 0; at < p->desc.page_bytes; at += SYSTEM_PAGE)
                touch(p->pages + (size_t)page * p->desc.page_bytes + at);
        p->warm = until;
    }
}

int64_t cache_pages_for(const cache *c, int length)
{
    int64_t pages = 0;
    for (int i = 0; i < c->pools; i++)
        pages += pages_for(&c->pool[i], length);
    return pages;
}

int64_t cache_pages_total(const cache *c)
{
    int64_t pages = 0;
    for (int i = 0; i < c->pools; i++)
        pages += c->pool[i].page_count - 1;
    return pages;
}

int64_t cache_pages_in_use(const cache *c)
{
    int64_t used = 0;
    for (int i = 0; i < c->pools; i++)
        used += c->pool[i].page_count - 1 - c->pool[i].free_count;
    return used;
}

uint64_t cache_bytes(const cache *c)
{
    uint64_t bytes = 0;
    for (int i = 0; i < c->pools; i++)
        bytes += (uint64_t)c->pool[i].page_count * c->pool[i].desc.page_bytes;
    return bytes;
}

size_t cache_bytes_per_token(const cache *c)
{
    size_t bytes = 0;
    for (int i = 0; i < c->pools; i++)
        bytes += c->pool[i].desc.page_bytes / (size_t)c->pool[i].desc.page_rows;
    return bytes;
}

uint64_t cache_digest(const cache *c, int slot, int length)
{
    uint64_t hash = (uint64_t)length;
    for (int i = 0; i < c->pools; i++) {
        const page_pool *p = &c->pool[i];
        const int32_t *row = p->table + (size_t)slot * (size_t)p->stride;
        int entries = length > 0 ? p->desc.entries(length) : 0;
        for (int t = 0; t < entries; t++) {
            const uint8_t *page = p->pages + (size_t)row[t / p->desc.page_rows] * p->desc.page_bytes;
            hash = p->desc.digest(p->desc.user, page, t % p->desc.page_rows, hash);
        }
    }
    return hash;
}
