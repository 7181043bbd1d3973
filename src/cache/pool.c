/* pool.c: arithmetic on pool descriptors. See pool.h. */
#include "cache/pool.h"

#include <string.h>

static int least(int a, int b)
{
    return a < b ? a : b;
}

int pool_entries(const pool_desc *p, int length)
{
    return length > 0 ? length / p->tokens : 0;
}

int pool_first_visible(const pool_desc *p, int length)
{
    if (!p->ring)
        return 0;
    int first = length - length % p->group - p->reach;
    return first > 0 ? first : 0;
}

/* Entries that have a place at the same time. */
static int places(const pool_desc *p, int length)
{
    int entries = pool_entries(p, length);
    return p->ring ? least(entries, p->ring) : entries;
}

int pool_pages(const pool_desc *p, int length)
{
    int held = places(p, length);
    return held / p->page_rows + (held % p->page_rows != 0);
}

size_t pool_entry_bytes(const pool_desc *p)
{
    return (size_t)p->layers * p->entry_bytes;
}

size_t pool_page_bytes(const pool_desc *p)
{
    return (size_t)p->page_rows * pool_entry_bytes(p);
}

static void copy_rows(const pool_desc *p, uint8_t *page, int index, uint8_t *entry, bool save)
{
    for (int layer = 0; layer < p->layers; layer++) {
        uint8_t *in_page = page + ((size_t)layer * (size_t)p->page_rows + (size_t)index) * p->entry_bytes;
        uint8_t *in_entry = entry + (size_t)layer * p->entry_bytes;
        memcpy(save ? in_entry : in_page, save ? in_page : in_entry, p->entry_bytes);
    }
}

void pool_save(const pool_desc *p, const uint8_t *page, int index, uint8_t *entry)
{
    (p->copy ? p->copy : copy_rows)(p, (uint8_t *)page, index, entry, true);
}

void pool_load(const pool_desc *p, uint8_t *page, int index, const uint8_t *entry)
{
    (p->copy ? p->copy : copy_rows)(p, page, index, (uint8_t *)entry, false);
}

double pools_bytes_per_token(const pool_desc *pools, int count)
{
    double bytes = 0;
    for (int i = 0; i < count; i++)
        if (!pools[i].ring)
            bytes += (double)pool_entry_bytes(&pools[i]) / pools[i].tokens;
    return bytes;
}

uint64_t pools_ring_bytes(const pool_desc *pools, int count)
{
    uint64_t bytes = 0;
    for (int i = 0; i < count; i++)
        bytes += (uint64_t)pools[i].ring * pool_entry_bytes(&pools[i]);
    return bytes;
}

uint64_t pools_bytes(const pool_desc *pools, int count, int length)
{
    uint64_t bytes = 0;
    for (int i = 0; i < count; i++)
        bytes += (uint64_t)places(&pools[i], length) * pool_entry_bytes(&pools[i]);
    return bytes;
}
