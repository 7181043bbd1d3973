/* snapshot.c: a request's visible entries as one run of bytes, and back. See cache.h; the layout is in docs/cache.md.
 *
 * A snapshot knows entries and positions, no pages: it fits every cache with the same pools, whatever its page size.
 * Everything is checked before anything is taken or written.
 */
#include <assert.h>
#include <string.h>
#include <xxhash.h>

#include "cache/cache_impl.h"

enum { SNAPSHOT_VERSION = 1 };
static const char snapshot_magic[8] = "forayKV";

typedef struct {
    char magic[8];
    int32_t version, length, pools, unused;
    uint64_t bytes, checksum; /* of all; XXH3 of what follows this head */
} snapshot_head;

typedef struct {
    uint64_t entry_bytes; /* all layers */
    int32_t first, count;
} snapshot_part;

static snapshot_part part_of(const pool_desc *p, int length)
{
    int first = pool_first_visible(p, length);
    return (snapshot_part) { .entry_bytes = pool_entry_bytes(p),
                             .first = first,
                             .count = pool_entries(p, length) - first };
}

size_t cache_snapshot_bytes(const cache *c, int length)
{
    size_t bytes = sizeof(snapshot_head) + (size_t)c->pools * sizeof(snapshot_part);
    for (int i = 0; i < c->pools; i++) {
        snapshot_part part = part_of(&c->pool[i].desc, length);
        bytes += (size_t)part.count * (size_t)part.entry_bytes;
    }
    return bytes;
}

static uint64_t checksum(const uint8_t *snapshot, size_t bytes)
{
    return XXH3_64bits(snapshot + sizeof(snapshot_head), bytes - sizeof(snapshot_head));
}

void cache_snapshot(const cache *c, int slot, int length, void *buffer)
{
    size_t bytes = cache_snapshot_bytes(c, length);
    uint8_t *parts = (uint8_t *)buffer + sizeof(snapshot_head);
    uint8_t *at = parts + (size_t)c->pools * sizeof(snapshot_part);
    for (int i = 0; i < c->pools; i++) {
        const page_pool *p = &c->pool[i];
        snapshot_part part = part_of(&p->desc, length);
        memcpy(parts + (size_t)i * sizeof part, &part, sizeof part);
        for (int e = part.first; e < part.first + part.count; e++, at += part.entry_bytes) {
            int index;
            const uint8_t *page = page_of_entry(p, slot, e, &index);
            pool_save(&p->desc, page, index, at);
        }
    }
    assert(at == (uint8_t *)buffer + bytes);
    snapshot_head head = { .version = SNAPSHOT_VERSION, .length = length, .pools = c->pools, .bytes = bytes };
    memcpy(head.magic, snapshot_magic, sizeof head.magic);
    head.checksum = checksum(buffer, bytes);
    memcpy(buffer, &head, sizeof head);
}

static int check(const cache *c, int length, const uint8_t *snapshot, size_t bytes, foray_error *err)
{
    snapshot_head head;
    if (length < 0 || bytes != cache_snapshot_bytes(c, length))
        return fail(err, FORAY_EUSAGE, "cache: a snapshot of %d tokens has %zu bytes here, not %zu", length,
                    length < 0 ? 0 : cache_snapshot_bytes(c, length), bytes);
    memcpy(&head, snapshot, sizeof head);
    if (memcmp(head.magic, snapshot_magic, sizeof head.magic) != 0 || head.version != SNAPSHOT_VERSION ||
        head.unused != 0)
        return fail(err, FORAY_EUSAGE, "cache: this is no snapshot of version %d", SNAPSHOT_VERSION);
    if (head.length != length || head.pools != c->pools || head.bytes != bytes)
        return fail(err, FORAY_EUSAGE, "cache: a snapshot of %d tokens in %d pools is none of %d in %d",
                    head.length, head.pools, length, c->pools);
    for (int i = 0; i < c->pools; i++) {
        snapshot_part part = part_of(&c->pool[i].desc, length);
        if (memcmp(snapshot + sizeof head + (size_t)i * sizeof part, &part, sizeof part) != 0)
            return fail(err, FORAY_EUSAGE, "cache %s: the snapshot was taken of other entries",
                        c->pool[i].desc.name);
    }
    if (checksum(snapshot, bytes) != head.checksum)
        return fail(err, FORAY_EUSAGE,
                    "cache: the snapshot is damaged: its checksum is not that of its bytes");
    return 0;
}

int cache_restore(cache *c, int slot, int length, const void *buffer, size_t bytes, foray_error *err)
{
    int rc = check(c, length, buffer, bytes, err);
    if (rc == 0)
        rc = cache_reserve_extend(c, slot, 0, length, err);
    if (rc != 0)
        return rc;
    const uint8_t *at =
        (const uint8_t *)buffer + sizeof(snapshot_head) + (size_t)c->pools * sizeof(snapshot_part);
    for (int i = 0; i < c->pools; i++) {
        const page_pool *p = &c->pool[i];
        snapshot_part part = part_of(&p->desc, length);
        for (int e = part.first; e < part.first + part.count; e++, at += part.entry_bytes) {
            int index;
            uint8_t *page = page_of_entry(p, slot, e, &index);
            pool_load(&p->desc, page, index, at);
        }
    }
    return 0;
}
