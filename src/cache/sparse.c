/* sparse.c: descriptors and layers of the pools of compressed sparse attention. See sparse.h.
 *
 * The order of the pools follows from the shape alone, so both halves of this file find a pool by counting.
 */
#include "cache/sparse.h"

#include <stdio.h>

/* The ratio that overlaps: a group is pooled from its own tokens and the four before; and has an indexer. */
enum { OVERLAPPED = 4 };

/* Numbers of the pools; -1: there is none. */
typedef struct {
    int window, draft_window, streams, index, index_state;
    int ratio[SPARSE_MAX_RATIOS], ratios;
    int first_ratio; /* entries of ratio[i]: first_ratio + 2 i, their state: one more */
    int pools;
} pool_order;

static int find_ratio(const pool_order *o, int ratio)
{
    for (int i = 0; i < o->ratios; i++)
        if (o->ratio[i] == ratio)
            return i;
    return -1;
}

/* False: too many ratios. */
static bool order_pools(const sparse_shape *s, pool_order *o)
{
    *o = (pool_order) { .draft_window = -1, .streams = -1, .index = -1, .index_state = -1 };
    int next = 1;
    if (s->drafter_layers > 0)
        o->draft_window = next++;
    if (s->stream_width > 0)
        o->streams = next++;
    o->first_ratio = next;
    for (int layer = 0; layer < s->layers; layer++) {
        int ratio = s->ratio[layer];
        if (ratio == 0 || find_ratio(o, ratio) >= 0)
            continue;
        if (o->ratios == SPARSE_MAX_RATIOS)
            return false;
        o->ratio[o->ratios++] = ratio;
    }
    next += 2 * o->ratios;
    if (find_ratio(o, OVERLAPPED) >= 0) {
        o->index = next++;
        o->index_state = next++;
    }
    o->pools = next;
    return true;
}

/* Layers before `layer` that have its ratio. */
static int count_before(const sparse_shape *s, int layer, int ratio)
{
    int count = 0;
    for (int i = 0; i < layer; i++)
        count += s->ratio[i] == ratio;
    return count;
}

static entry_packing latent_packing(const sparse_shape *s)
{
    return s->packed ? ENTRY_F8 : ENTRY_F32;
}

static entry_packing key_packing(const sparse_shape *s)
{
    return s->packed ? ENTRY_FP4 : ENTRY_F32;
}

/* As f32 huge; e4m3 and its scales: NaN; e2m1: 6 and -4, times 2^104, since scores that are no number count as none. */
static uint8_t poison_of(entry_packing packing)
{
    return packing == ENTRY_F8 ? 0xff : packing == ENTRY_FP4 ? 0xe7 : 0x7f;
}

/* A ring of so many entries, in pages of equal size. */
static pool_desc ring_of(const sparse_shape *s, int layers, int width, int entries, int group, int reach)
{
    int pages = (entries + s->page_tokens - 1) / s->page_tokens;
    return (pool_desc) { .layers = layers,
                         .entry_bytes = sizeof(float) * (size_t)width,
                         .page_rows = (entries + pages - 1) / pages,
                         .tokens = 1,
                         .ring = entries,
                         .group = group,
                         .reach = reach,
                         .poison = poison_of(ENTRY_F32) };
}

static pool_desc growing_of(const sparse_shape *s, int layers, entry_packing packing, int width, int ratio)
{
    return (pool_desc) { .layers = layers,
                         .entry_bytes = entry_packed_bytes(packing, width, s->rope_dim),
                         .page_rows = s->page_tokens > ratio ? s->page_tokens / ratio : 1,
                         .tokens = ratio,
                         .poison = poison_of(packing) };
}

/* The compressor's state: [kv | score], each `width` floats or, overlapped, twice that. */
static pool_desc state_of(const sparse_shape *s, int guard, int layers, int width, int ratio)
{
    if (ratio == OVERLAPPED)
        return ring_of(s, layers, 4 * width, 2 * OVERLAPPED + guard, OVERLAPPED, OVERLAPPED);
    return ring_of(s, layers, 2 * width, ratio + guard, ratio, 0);
}

static void put(pool_desc out[], int pool, pool_desc desc, const char *kind, int ratio)
{
    out[pool] = desc;
    if (ratio)
        snprintf(out[pool].name, sizeof out[pool].name, "%s/%d", kind, ratio);
    else
        snprintf(out[pool].name, sizeof out[pool].name, "%s", kind);
}

int sparse_pools(const sparse_shape *s, int guard, pool_desc out[CACHE_MAX_POOLS])
{
    pool_order o;
    if (!order_pools(s, &o))
        return 0;
    int last = s->window + guard;
    /* A token sees itself and the window - 1 before it. A drafter may be one token behind the target. */
    put(out, o.window, ring_of(s, s->layers - s->drafter_layers, s->head_dim, last, 1, s->window - 1),
        "window", 0);
    if (o.draft_window >= 0) {
        put(out, o.draft_window, ring_of(s, s->drafter_layers, s->head_dim, last, 1, s->window),
            "draft window", 0);
        out[o.draft_window].unhashed = true;
    }
    if (o.streams >= 0)
        put(out, o.streams, ring_of(s, 1, s->stream_width, last, 1, s->window), "streams", 0);
    for (int i = 0; i < o.ratios; i++) {
        int ratio = o.ratio[i], layers = count_before(s, s->layers, ratio), pool = o.first_ratio + 2 * i;
        put(out, pool, growing_of(s, layers, latent_packing(s), s->head_dim, ratio), "entries", ratio);
        put(out, pool + 1, state_of(s, guard, layers, s->head_dim, ratio), "state", ratio);
    }
    if (o.index >= 0) {
        int layers = count_before(s, s->layers, OVERLAPPED);
        put(out, o.index, growing_of(s, layers, key_packing(s), s->index_dim, OVERLAPPED), "index", 0);
        put(out, o.index_state, state_of(s, guard, layers, s->index_dim, OVERLAPPED), "index state", 0);
    }
    return o.pools;
}

/* The share of the layer that is number `rank` in its pool. */
static entry_rows share(const cache *c, int pool, int rank)
{
    if (pool < 0)
        return (entry_rows) { 0 };
    const pool_desc *p = cache_pool(c, pool);
    return (entry_rows) { .base = cache_pages(c, pool) + (size_t)rank * (size_t)p->page_rows * p->entry_bytes,
                          .page_stride = pool_page_bytes(p),
                          .table = cache_table(c, pool),
                          .table_stride = cache_table_stride(c, pool),
                          .page_rows = p->page_rows,
                          .width = (int)(p->entry_bytes / sizeof(float)),
                          .ring = p->ring,
                          .stride = p->entry_bytes };
}

static entry_rows packed_as(entry_rows e, const sparse_shape *s, entry_packing packing, int width)
{
    if (!e.base)
        return e;
    e.packing = packing;
    e.width = width;
    e.plain = packing == ENTRY_F8 ? s->rope_dim : 0;
    return e;
}

entry_rows sparse_window(const cache *c, const sparse_shape *s, int layer)
{
    pool_order o;
    order_pools(s, &o);
    int target = s->layers - s->drafter_layers;
    return layer < target ? share(c, o.window, layer) : share(c, o.draft_window, layer - target);
}

entry_rows sparse_streams(const cache *c, const sparse_shape *s)
{
    pool_order o;
    order_pools(s, &o);
    return share(c, o.streams, 0);
}

/* The pool `beside` pool of the layer's compressed entries: 0 these, 1 their state. */
static entry_rows ratio_share(const cache *c, const sparse_shape *s, int layer, int beside)
{
    pool_order o;
    order_pools(s, &o);
    int ratio = s->ratio[layer], i = find_ratio(&o, ratio);
    return share(c, i < 0 ? -1 : o.first_ratio + 2 * i + beside, count_before(s, layer, ratio));
}

entry_rows sparse_entries(const cache *c, const sparse_shape *s, int layer)
{
    return packed_as(ratio_share(c, s, layer, 0), s, latent_packing(s), s->head_dim);
}

entry_rows sparse_state(const cache *c, const sparse_shape *s, int layer)
{
    return ratio_share(c, s, layer, 1);
}

static entry_rows index_share(const cache *c, const sparse_shape *s, int layer, bool state)
{
    pool_order o;
    order_pools(s, &o);
    bool indexed = s->ratio[layer] == OVERLAPPED;
    int pool = state ? o.index_state : o.index;
    return share(c, indexed ? pool : -1, count_before(s, layer, OVERLAPPED));
}

entry_rows sparse_index(const cache *c, const sparse_shape *s, int layer)
{
    return packed_as(index_share(c, s, layer, false), s, key_packing(s), s->index_dim);
}

entry_rows sparse_index_state(const cache *c, const sparse_shape *s, int layer)
{
    return index_share(c, s, layer, true);
}
