/* The pools of compressed sparse attention: what a pass writes and a later one reads is there, whatever was rejected in
 * between, whoever had the pages before, after a snapshot and its way into another cache.
 *
 * The oracle is the test's own: every entry has a value that follows from its request's text, its pool and its place,
 * and the ranges that later tokens may read are written down here once more, from the specification.
 */
#include "cache/sparse.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "kernel/cpu/avx2_entry.h"
#include "kernel/impl.h"
#include "kernel/ref/entry_pack.h"
#include "support/stack.h"

#include <cmocka.h> /* last: base/error.h has a fail() too */

enum { SLOTS = 3, LONGEST = 300, WINDOW = 8, GUARD = 6, LAYERS = 7, TARGET = 6, MOST_BYTES = 1 << 18 };

static device *dev;

static int open_device(void **state)
{
    (void)state;
    device_config config = { .threads = 1, .isa = "portable" };
    return device_open(&config, &dev, NULL);
}

static int close_device(void **state)
{
    (void)state;
    assert_int_equal(device_bytes(dev), 0);
    device_close(dev);
    return 0;
}

/* One layer of each kind, as the tiny model of the specification (9.2), and a drafter. */
static sparse_shape tiny(int page_tokens)
{
    return (sparse_shape) { .layers = LAYERS,
                            .drafter_layers = 1,
                            .ratio = { 0, 4, 16, 4, 128, 4, 0 },
                            .window = WINDOW,
                            .head_dim = 3,
                            .index_dim = 2,
                            .stream_width = 5,
                            .page_tokens = page_tokens };
}

/* ---- a plain model of what is where ---- */

typedef enum { OF_WINDOW, OF_STREAMS, OF_ENTRIES, OF_STATE, OF_INDEX, OF_INDEX_STATE, KINDS } kind;

static entry_rows rows_of(const cache *c, const sparse_shape *s, kind k, int layer)
{
    switch (k) {
    case OF_WINDOW:
        return sparse_window(c, s, layer);
    case OF_STREAMS:
        return layer == 0 ? sparse_streams(c, s) : (entry_rows) { 0 };
    case OF_ENTRIES:
        return sparse_entries(c, s, layer);
    case OF_STATE:
        return sparse_state(c, s, layer);
    case OF_INDEX:
        return sparse_index(c, s, layer);
    case OF_INDEX_STATE:
        return sparse_index_state(c, s, layer);
    case KINDS:
        break;
    }
    return (entry_rows) { 0 };
}

static int at_least_0(int x)
{
    return x > 0 ? x : 0;
}

/* Entries [first, end) that tokens from `length` on may read. */
static void visible_of(kind k, int layer, int ratio, int length, int *first, int *end)
{
    *end = length;
    switch (k) {
    case OF_WINDOW:
        *first = at_least_0(layer < TARGET ? length - WINDOW + 1 : length - WINDOW);
        break;
    case OF_STREAMS:
        *first = at_least_0(length - WINDOW);
        break;
    case OF_ENTRIES:
    case OF_INDEX:
        *first = 0;
        *end = length / ratio;
        break;
    case OF_STATE:
    case OF_INDEX_STATE:
        *first = ratio == 4 ? at_least_0(length - length % 4 - 4) : length - length % ratio;
        break;
    case KINDS:
        break;
    }
}

static float value_of(uint32_t text, kind k, int layer, int entry, int channel)
{
    uint32_t h = text * 2654435761u ^ (uint32_t)entry * 40503u ^ (uint32_t)(layer * KINDS + (int)k) * 69069u;
    h = (h ^ h >> 15) * 2246822519u;
    return (float)((h >> 9) + (uint32_t)channel);
}

static void write_entry(const cache *c, const sparse_shape *s, int slot, kind k, int layer, int entry,
                        uint32_t text)
{
    entry_rows e = rows_of(c, s, k, layer);
    float *at = entry_at(&e, slot, entry);
    for (int i = 0; i < e.width; i++)
        at[i] = value_of(text, k, layer, entry, i);
}

/* What a pass over tokens [from, to) stores in every layer. */
static void run_pass(const cache *c, const sparse_shape *s, int slot, int from, int to, uint32_t text)
{
    for (int layer = 0; layer < s->layers; layer++)
        for (kind k = 0; k < KINDS; k++) {
            if (!rows_of(c, s, k, layer).base)
                continue;
            bool compressed = k == OF_ENTRIES || k == OF_INDEX;
            int ratio = s->ratio[layer];
            for (int p = from; p < to; p++)
                if (!compressed)
                    write_entry(c, s, slot, k, layer, p, text);
                else if ((p + 1) % ratio == 0)
                    write_entry(c, s, slot, k, layer, p / ratio, text);
        }
}

static void assert_holds(const cache *c, const sparse_shape *s, int slot, int length, uint32_t text)
{
    for (int layer = 0; layer < s->layers; layer++)
        for (kind k = 0; k < KINDS; k++) {
            entry_rows e = rows_of(c, s, k, layer);
            int first, end;
            if (!e.base)
                continue;
            visible_of(k, layer, s->ratio[layer], length, &first, &end);
            for (int entry = first; entry < end; entry++)
                for (int i = 0; i < e.width; i++)
                    if (entry_at(&e, slot, entry)[i] != value_of(text, k, layer, entry, i))
                        fail_msg("kind %d, layer %d, entry %d of %d tokens", (int)k, layer, entry, length);
        }
}

/* The digest of a text that was read in one go, in a cache of its own with other pages. */
static uint64_t fresh_digest(int length, uint32_t text)
{
    sparse_shape s = tiny(LONGEST);
    pool_desc pools[CACHE_MAX_POOLS];
    cache *c;
    int count = sparse_pools(&s, LONGEST, pools);
    assert_int_equal(cache_create(dev, pools, count, 1, LONGEST, LONGEST, &c, NULL), 0);
    assert_int_equal(cache_reserve_extend(c, 0, 0, length, NULL), 0);
    run_pass(c, &s, 0, 0, length, text);
    uint64_t digest = cache_digest(c, 0, length);
    cache_release(c, 0);
    cache_destroy(c);
    return digest;
}

static cache *open_cache(const sparse_shape *s, int64_t total)
{
    pool_desc pools[CACHE_MAX_POOLS];
    cache *c;
    foray_error err;
    if (cache_create(dev, pools, sparse_pools(s, GUARD, pools), SLOTS, LONGEST, total, &c, &err) != 0)
        fail_msg("%s", err.text);
    return c;
}

static void close_cache(cache *c)
{
    for (int s = 0; s < SLOTS; s++)
        cache_release(c, s);
    assert_int_equal(cache_pages_in_use(c), 0);
    cache_destroy(c);
}

/* ---- the shape ---- */

/* V4-Flash, of which the specification gives the census (1.2) and the arithmetic (7.3). */
static sparse_shape flash(void)
{
    sparse_shape s = { .layers = 44,
                       .drafter_layers = 1,
                       .window = 128,
                       .head_dim = 512,
                       .index_dim = 128,
                       .stream_width = 4 * 4096,
                       .page_tokens = 256 };
    for (int i = 2; i < 43; i++)
        s.ratio[i] = i % 2 ? 128 : 4;
    return s;
}

static void bytes_per_token_are_those_of_the_specification(void **state)
{
    (void)state;
    sparse_shape s = flash();
    pool_desc p[CACHE_MAX_POOLS];
    int count = sparse_pools(&s, 256, p);
    assert_int_equal(count, 3 + 2 * 2 + 2);
    /* 7.3 with entries of 2048 and 512 bytes in place of 584 and 132. */
    assert_true(pools_bytes_per_token(p, count) == 21 * (2048 / 4. + 512 / 4.) + 20 * (2048 / 128.));
    /* Packed: 712 and 68 (kernel_entry.c). */
    sparse_shape packed = s;
    packed.packed = true;
    packed.rope_dim = 64;
    pool_desc q[CACHE_MAX_POOLS];
    assert_int_equal(sparse_pools(&packed, 256, q), count);
    assert_true(pools_bytes_per_token(q, count) == 21 * (712 / 4. + 68 / 4.) + 20 * (712 / 128.));
    /* 7.1, with the guard: windows, streams; states of 2 x 2 x 512, 2 x 512 and 2 x 2 x 128 floats. */
    uint64_t rings = 44 * (128 + 256) * 2048 + (128 + 256) * 65536 + 21 * (8 + 256) * (8192 + 2048) +
                     20 * (128 + 256) * 4096;
    assert_true(pools_ring_bytes(p, count) == rings);
    assert_true(pools_bytes(p, count, 1 << 20) == 13760ull * (1 << 20) + rings);
    assert_true(pools_bytes(p, count, 0) == 0);
    /* Of three tokens only rings hold something, and an entry per layer each. */
    assert_true(pools_bytes(p, count, 3) == 3 * (44 * 2048 + 65536 + 21 * (8192 + 2048) + 20 * 4096));
    for (int i = 0; i < count; i++)
        assert_true(pool_pages(&p[i], 1 << 20) <= (p[i].ring ? 2 : p[i].tokens == 4 ? 4096 : 8192));
    assert_string_equal(p[0].name, "window");
    assert_int_equal(p[0].page_rows, 192); /* 384 in two pages of equal size */
    assert_string_equal(p[4].name, "state/4");
    assert_string_equal(p[5].name, "entries/128");
    assert_string_equal(p[8].name, "index state");
}

static void pools_that_no_layer_needs_are_left_out(void **state)
{
    (void)state;
    pool_desc p[CACHE_MAX_POOLS];
    sparse_shape s = tiny(8);
    assert_int_equal(sparse_pools(&s, 256, p), 3 + 2 * 3 + 2);
    s.stream_width = 0;
    s.drafter_layers = 0;
    assert_int_equal(sparse_pools(&s, 256, p), 1 + 2 * 3 + 2);
    assert_int_equal(p[0].layers, 7);
    for (int i = 0; i < s.layers; i++)
        s.ratio[i] = i == 1 ? 9 : 0;
    assert_int_equal(sparse_pools(&s, 256, p), 1 + 2);
    assert_int_equal(p[1].layers, 1);
    for (int i = 0; i < s.layers; i++)
        s.ratio[i] = 0;
    assert_int_equal(sparse_pools(&s, 256, p), 1);
    for (int i = 0; i < SPARSE_MAX_RATIOS; i++)
        s.ratio[i] = 4 + i;
    s.stream_width = s.drafter_layers = 1;
    assert_int_equal(sparse_pools(&s, 256, p), 5 + 2 * SPARSE_MAX_RATIOS);
    s.ratio[SPARSE_MAX_RATIOS] = 1000;
    assert_int_equal(sparse_pools(&s, 256, p), 0);
}

static void a_layer_has_the_pools_of_its_ratio(void **state)
{
    (void)state;
    sparse_shape s = tiny(8);
    cache *c = open_cache(&s, LONGEST);
    static const int width[LAYERS][KINDS] = { { 3, 5 },       { 3, 0, 3, 12, 2, 8 },
                                              { 3, 0, 3, 6 }, { 3, 0, 3, 12, 2, 8 },
                                              { 3, 0, 3, 6 }, { 3, 0, 3, 12, 2, 8 },
                                              { 3 } };
    for (int layer = 0; layer < LAYERS; layer++)
        for (kind k = 0; k < KINDS; k++) {
            entry_rows e = rows_of(c, &s, k, layer);
            assert_int_equal(e.width, width[layer][k]);
            assert_true((e.base != NULL) == (e.width > 0));
        }
    assert_int_equal(sparse_state(c, &s, 1).ring, 8 + GUARD);
    assert_int_equal(sparse_state(c, &s, 2).ring, 16 + GUARD);
    assert_int_equal(sparse_state(c, &s, 4).ring, 128 + GUARD);
    assert_int_equal(sparse_window(c, &s, 4).ring, WINDOW + GUARD);
    assert_int_equal(sparse_entries(c, &s, 1).ring, 0);
    close_cache(c);
}

/* Whatever a pool's poison is read as, by any instruction set, it is no number or a huge one: never an entry's. */
static void poison_reads_as_no_entry(void **state)
{
    (void)state;
    enum { WIDTH = 128, ROPE = 64 };
    const kernel_table *table;
    bool has_avx2 = kernel_table_get("avx2", &table, NULL) == 0;
    for (int packed = 0; packed < 2; packed++) {
        sparse_shape s = tiny(64);
        s.packed = packed;
        s.head_dim = s.index_dim = WIDTH;
        s.rope_dim = ROPE;
        cache *c = open_cache(&s, LONGEST);
        assert_int_equal(cache_reserve_extend(c, 0, 0, LONGEST, NULL), 0);
        poison_pages(c);
        for (kind k = 0; k < KINDS; k++)
            for (int layer = 0; layer < LAYERS; layer++) {
                entry_rows e = rows_of(c, &s, k, layer);
                float plain[4 * WIDTH], vector[4 * WIDTH];
                if (!e.base)
                    continue;
                const float *slow = entry_load(&e, 0, 0, plain);
                const float *fast = has_avx2 ? avx2_entry_load(&e, 0, 0, vector) : slow;
                for (int i = 0; i < e.width; i++)
                    assert_false(fabsf(slow[i]) < 1e30f || fabsf(fast[i]) < 1e30f);
            }
        cache_release(c, 0);
        close_cache(c);
    }
}

/* ---- passes, rejections, snapshots ---- */

typedef struct {
    sparse_shape shape;
    cache *cache;
    struct {
        int length;
        uint32_t text;
    } slot[SLOTS];
    uint8_t *snapshot; /* [MOST_BYTES] */
    int saved;         /* its length; 0: none */
    uint32_t saved_text;
    uint64_t saved_digest;
} machine;

/* Rows [L, L + rows) of which `accepted` stand: the others leave garbage where nobody may look. */
static void verify(machine *m, int slot, int rows, int accepted)
{
    int length = m->slot[slot].length;
    uint32_t text = m->slot[slot].text;
    assert_int_equal(cache_reserve_extend(m->cache, slot, length, length + rows, NULL), 0);
    run_pass(m->cache, &m->shape, slot, length, length + accepted, text);
    run_pass(m->cache, &m->shape, slot, length + accepted, length + rows, ~text);
    assert_holds(m->cache, &m->shape, slot, length,
                 text); /* the pass itself could still read all that it needs */
    m->slot[slot].length = length + accepted;
    cache_trim(m->cache, slot, length + accepted);
    assert_holds(m->cache, &m->shape, slot, length + accepted, text);
}

static void save(machine *m, int slot)
{
    int length = m->slot[slot].length;
    assert_true(cache_snapshot_bytes(m->cache, length) <= MOST_BYTES);
    cache_snapshot(m->cache, slot, length, m->snapshot);
    m->saved = length;
    m->saved_text = m->slot[slot].text;
    m->saved_digest = cache_digest(m->cache, slot, length);
}

static void restore(machine *m, int slot)
{
    size_t bytes = cache_snapshot_bytes(m->cache, m->saved);
    assert_int_equal(cache_restore(m->cache, slot, m->saved, m->snapshot, bytes, NULL), 0);
    cache_trim(m->cache, slot, m->saved);
    m->slot[slot].length = m->saved;
    m->slot[slot].text = m->saved_text;
    assert_true(cache_digest(m->cache, slot, m->saved) == m->saved_digest);
    assert_holds(m->cache, &m->shape, slot, m->saved, m->saved_text);
}

static void random_action(machine *m, uint32_t i, uint32_t seed)
{
    rng_block draw = rng_philox(i, 0, 0, 0, seed, 0);
    int slot = (int)(draw.word[0] % SLOTS), rows = 1 + (int)(draw.word[1] % GUARD);
    uint32_t what = draw.word[2] % 64;
    if (what == 0 || m->slot[slot].length + rows > LONGEST) {
        cache_release(m->cache, slot);
        m->slot[slot].length = 0;
        m->slot[slot].text = draw.word[3];
    } else if (what == 1) {
        save(m, slot);
    } else if (what == 2 && m->saved) {
        restore(m, slot);
    } else {
        verify(m, slot, rows, (int)(draw.word[3] % (uint32_t)(rows + 1)));
    }
}

/* Whatever was rejected, restored, released: every slot holds its text, and its digest is that of the text read in one
 * go. Pages are counted as the lengths say. */
static void passes_find_their_text_whatever_was_rejected(void **state)
{
    (void)state;
    static const int page_tokens[] = { 1, 3, 8, 64, 1000 };
    int compared = 0;
    for (size_t t = 0; t < sizeof page_tokens / sizeof *page_tokens; t++) {
        machine m = { .shape = tiny(page_tokens[t]), .snapshot = malloc(MOST_BYTES) };
        m.cache = open_cache(&m.shape, SLOTS * LONGEST);
        for (uint32_t i = 0; i < 700; i++) {
            random_action(&m, i, 100 + (uint32_t)t);
            int64_t pages = 0;
            for (int s = 0; s < SLOTS; s++)
                for (int p = 0; p < cache_pools(m.cache); p++)
                    pages += pool_pages(cache_pool(m.cache, p), m.slot[s].length);
            assert_int_equal(cache_pages_in_use(m.cache), pages);
            if (i % 16 == 0) {
                int s = (int)(i / 16 % SLOTS), length = m.slot[s].length;
                assert_true(cache_digest(m.cache, s, length) == fresh_digest(length, m.slot[s].text));
                compared += length > 128;
            }
        }
        free(m.snapshot);
        close_cache(m.cache);
    }
    assert_true(compared > 20); /* behind the first group of every ratio */
}

/* The hardest places: a verify block of six across every boundary of groups and rings, each count of
 * rows accepted, then on. */
static void rejections_across_every_boundary_leave_no_trace(void **state)
{
    (void)state;
    static const int boundaries[] = { 4, 8, 14, 16, 22, 28, 128, 134, 256 };
    for (size_t b = 0; b < sizeof boundaries / sizeof *boundaries; b++)
        for (int accepted = 0; accepted < 6; accepted++) {
            machine m = { .shape = tiny(8) };
            m.cache = open_cache(&m.shape, SLOTS * LONGEST);
            m.slot[0].text = 5;
            for (int to = at_least_0(boundaries[b] - 3); m.slot[0].length < to;)
                verify(&m, 0, to - m.slot[0].length < GUARD ? to - m.slot[0].length : GUARD, 1);
            verify(&m, 0, 6, accepted);
            int length = m.slot[0].length;
            assert_true(cache_digest(m.cache, 0, length) == fresh_digest(length, 5));
            verify(&m, 0, 6, 6);
            assert_true(cache_digest(m.cache, 0, length + 6) == fresh_digest(length + 6, 5));
            close_cache(m.cache);
        }
}

/* ---- what the digest sees ---- */

/* The kind, layer and entry whose float at `at` is, among entries [0, length) of a slot; false: none of the visible. */
static bool find_visible(const cache *c, const sparse_shape *s, int slot, int length, const float *at,
                         int *layer)
{
    for (*layer = 0; *layer < s->layers; ++*layer)
        for (kind k = 0; k < KINDS; k++) {
            entry_rows e = rows_of(c, s, k, *layer);
            int first, end;
            if (!e.base)
                continue;
            visible_of(k, *layer, s->ratio[*layer], length, &first, &end);
            for (int entry = first; entry < end; entry++) {
                const float *start = entry_at(&e, slot, entry);
                if (at >= start && at < start + e.width)
                    return true;
            }
        }
    return false;
}

/* Changes every float of every page, one after another: the digest changes where a visible entry of the target lies,
 * and nowhere else: not in the drafter's window, dead entries of rings, what lies behind the length, page 0, other
 * slots. */
static void the_digest_sees_what_is_visible_and_nothing_else(void **state)
{
    (void)state;
    static const int lengths[] = { 3, 16, 21, 37, 131 };
    for (size_t n = 0; n < sizeof lengths / sizeof *lengths; n++) {
        int length = lengths[n], seen = 0, unseen = 0;
        machine m = { .shape = tiny(16) };
        m.cache = open_cache(&m.shape, LONGEST);
        m.slot[0].text = 1;
        m.slot[1].text = 2;
        for (int i = 0; i < length; i++) { /* the pages of two slots alternate, rejected rows lie about */
            verify(&m, 0, GUARD, 1);
            if (i < 20)
                verify(&m, 1, GUARD, 1);
        }
        uint64_t digest = cache_digest(m.cache, 0, length);
        for (int p = 0; p < cache_pools(m.cache); p++) {
            float *pages = (float *)(void *)cache_pages(m.cache, p);
            const pool_desc *d = cache_pool(m.cache, p);
            int stride = cache_table_stride(m.cache, p), most = 0;
            for (int i = 0; i < SLOTS * stride; i++)
                most = cache_table(m.cache, p)[i] > most ? cache_table(m.cache, p)[i] : most;
            size_t floats = (size_t)(most + 1) * pool_page_bytes(d) / sizeof(float);
            /* All floats of short requests, every 7th of long ones. */
            for (size_t i = 0; i<floats; i += length> 30 ? 7 : 1) {
                int layer;
                bool visible =
                    find_visible(m.cache, &m.shape, 0, length, pages + i, &layer) && layer < TARGET;
                float before = pages[i];
                pages[i] += 1e9f;
                bool differs = cache_digest(m.cache, 0, length) != digest;
                pages[i] = before;
                assert_int_equal(differs, visible);
                seen += visible;
                unseen += !visible;
            }
        }
        assert_true(seen > 40 && unseen > 40);
        close_cache(m.cache);
    }
}

/* ---- snapshots ---- */

/* Another cache, other pages, another slot that held something else: the text is there, and goes on. */
static void a_snapshot_goes_on_in_another_cache(void **state)
{
    (void)state;
    uint8_t *bytes = malloc(MOST_BYTES);
    for (int length = 0; length <= 280; length += length < 36 ? 1 : 23) {
        machine from = { .shape = tiny(16) }, to = { .shape = tiny(5) };
        from.cache = open_cache(&from.shape, LONGEST);
        to.cache = open_cache(&to.shape, 2 * LONGEST);
        from.slot[1].text = 9;
        while (from.slot[1].length < length)
            verify(&from, 1, GUARD, 1);
        size_t size = cache_snapshot_bytes(from.cache, length);
        assert_int_equal(size, cache_snapshot_bytes(to.cache, length));
        bytes[size + 1] = 0x5a;
        cache_snapshot(from.cache, 1, length, bytes + 1); /* any alignment */
        assert_int_equal(bytes[size + 1], 0x5a);
        verify(&to, 0, 6, 6);
        verify(&to, 2, 6, 6);
        assert_int_equal(cache_restore(to.cache, 2, length, bytes + 1, size, NULL), 0);
        to.slot[2].length = length;
        to.slot[2].text = 9;
        assert_true(cache_digest(to.cache, 2, length) == cache_digest(from.cache, 1, length));
        assert_holds(to.cache, &to.shape, 2, length, 9);
        assert_holds(to.cache, &to.shape, 0, 6, 0);
        verify(&to, 2, 6, 2);
        verify(&to, 2, 6, 6);
        assert_true(cache_digest(to.cache, 2, length + 8) == fresh_digest(length + 8, 9));
        close_cache(from.cache);
        close_cache(to.cache);
    }
    free(bytes);
}

/* N04: any byte changed, any part missing, entries of another model. */
static void a_faulty_snapshot_changes_nothing(void **state)
{
    (void)state;
    enum { LENGTH = 19 };
    uint8_t *bytes = malloc(MOST_BYTES);
    foray_error err;
    machine m = { .shape = tiny(8) };
    m.cache = open_cache(&m.shape, SLOTS * LONGEST);
    m.slot[0].text = 3;
    while (m.slot[0].length < LENGTH)
        verify(&m, 0, 6, 1);
    size_t size = cache_snapshot_bytes(m.cache, LENGTH);
    cache_snapshot(m.cache, 0, LENGTH, bytes);
    verify(&m, 1, 4, 4);
    int64_t used = cache_pages_in_use(m.cache);
    for (size_t i = 0; i < size; i++) {
        bytes[i] ^= 0x10;
        assert_int_equal(cache_restore(m.cache, 1, LENGTH, bytes, size, &err), FORAY_EUSAGE);
        bytes[i] ^= 0x10;
    }
    for (size_t cut = 0; cut < size; cut++)
        assert_int_equal(cache_restore(m.cache, 1, LENGTH, bytes, cut, &err), FORAY_EUSAGE);
    assert_int_equal(cache_restore(m.cache, 1, LENGTH + 1, bytes, size, &err), FORAY_EUSAGE);
    assert_int_equal(cache_restore(m.cache, 1, -1, bytes, size, &err), FORAY_EUSAGE);
    assert_int_equal(cache_pages_in_use(m.cache), used);
    assert_holds(m.cache, &m.shape, 1, 4, 0);
    assert_int_equal(cache_restore(m.cache, 1, LENGTH, bytes, size, &err), 0);
    close_cache(m.cache);
    for (int other = 0; other < 3; other++) { /* wider entries, another window, another ratio */
        sparse_shape s = tiny(8);
        s.head_dim += other == 0;
        s.window += other == 1;
        s.ratio[2] = other == 2 ? 8 : s.ratio[2];
        m.cache = open_cache(&s, SLOTS * LONGEST);
        assert_int_equal(cache_restore(m.cache, 1, LENGTH, bytes, size, &err), FORAY_EUSAGE);
        assert_int_equal(cache_pages_in_use(m.cache), 0);
        close_cache(m.cache);
    }
    free(bytes);
}

/* Whichever pool has no pages for it: a restore takes none of any pool and writes nothing. */
static void a_restore_without_pages_changes_nothing(void **state)
{
    (void)state;
    enum { LENGTH = 150 };
    sparse_shape s = tiny(64);
    pool_desc pools[CACHE_MAX_POOLS];
    int count = sparse_pools(&s, GUARD, pools);
    uint8_t *bytes = malloc(MOST_BYTES);
    for (int k = 0; k < count; k++) {
        machine m = { .shape = s };
        foray_error err;
        sparse_pools(&s, GUARD, pools);
        pools[k].ring = 0; /* counts every token, in pages of one: runs out first */
        pools[k].tokens = pools[k].page_rows = 1;
        assert_int_equal(cache_create(dev, pools, count, SLOTS, LENGTH, LENGTH, &m.cache, NULL), 0);
        assert_int_equal(cache_reserve_extend(m.cache, 0, 0, LENGTH, NULL), 0);
        cache_snapshot(m.cache, 0, LENGTH, bytes);
        int64_t used = cache_pages_in_use(m.cache);
        int rc = cache_restore(m.cache, 1, LENGTH, bytes, cache_snapshot_bytes(m.cache, LENGTH), &err);
        assert_int_equal(rc, FORAY_ENOMEM);
        assert_non_null(strstr(err.text, pools[k].name));
        assert_int_equal(cache_pages_in_use(m.cache), used);
        for (int p = 0; p < count; p++)
            for (int i = 0; i < cache_table_stride(m.cache, p); i++)
                assert_int_equal(cache_table(m.cache, p)[cache_table_stride(m.cache, p) + i], 0);
        close_cache(m.cache);
    }
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_per_token_are_those_of_the_specification),
        cmocka_unit_test(pools_that_no_layer_needs_are_left_out),
        cmocka_unit_test(a_layer_has_the_pools_of_its_ratio),
        cmocka_unit_test(poison_reads_as_no_entry),
        cmocka_unit_test(passes_find_their_text_whatever_was_rejected),
        cmocka_unit_test(rejections_across_every_boundary_leave_no_trace),
        cmocka_unit_test(the_digest_sees_what_is_visible_and_nothing_else),
        cmocka_unit_test(a_snapshot_goes_on_in_another_cache),
        cmocka_unit_test(a_faulty_snapshot_changes_nothing),
        cmocka_unit_test(a_restore_without_pages_changes_nothing),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
