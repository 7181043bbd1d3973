/* Pages: taken by all pools or by none, given back, never twice, never page 0; digests that paging cannot change. */
#include "cache/cache.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/rng.h"
#include "cache/kv.h"

#include <cmocka.h> /* last: base/error.h has a fail() too */

enum { SLOTS = 3, LONGEST = 40 };

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

/* Entries of one byte, one for so many tokens. */
static pool_desc fake(const char *name, int page_rows, int tokens)
{
    pool_desc p = { .layers = 1, .entry_bytes = 1, .page_rows = page_rows, .tokens = tokens };
    snprintf(p.name, sizeof p.name, "%.20s", name);
    return p;
}

/* The last six tokens have a place, the last three may still be read. */
static pool_desc fake_ring(const char *name, int page_rows)
{
    pool_desc p = fake(name, page_rows, 1);
    p.ring = 6;
    p.group = 1;
    p.reach = 3;
    return p;
}

static cache *two_pools(int64_t total)
{
    pool_desc pools[] = { fake("tokens", 4, 1), fake("quarters", 2, 4) };
    cache *c;
    foray_error err;
    if (cache_create(dev, pools, 2, SLOTS, LONGEST, total, &c, &err) != 0)
        fail_msg("%s", err.text);
    return c;
}

/* No page is in two places, and page 0 in none; what the tables hold is what is counted as in use. */
static void assert_sound(const cache *c, int pools, const int *length)
{
    int64_t used = 0;
    for (int p = 0; p < pools; p++) {
        bool seen[256] = { false };
        const int32_t *table = cache_table(c, p);
        int stride = cache_table_stride(c, p);
        for (int i = 0; i < SLOTS * stride; i++) {
            assert_true(table[i] >= 0 && table[i] < 256);
            if (table[i] == 0)
                continue;
            assert_false(seen[table[i]]);
            seen[table[i]] = true;
            used++;
        }
    }
    int64_t needed = 0;
    for (int s = 0; s < SLOTS; s++)
        for (int p = 0; p < pools; p++)
            needed += pool_pages(cache_pool(c, p), length[s]);
    assert_int_equal(used, needed);
    assert_int_equal(cache_pages_in_use(c), needed);
}

static void lengths_take_the_pages_they_need_and_give_them_back(void **state)
{
    (void)state;
    cache *c = two_pools(SLOTS * LONGEST);
    int length[SLOTS] = { 0 };
    for (uint32_t i = 0; i < 3000; i++) {
        rng_block draw = rng_philox(i, 0, 0, 0, 11, 0);
        int slot = (int)(draw.word[0] % SLOTS), next = (int)(draw.word[1] % (LONGEST + 1));
        if (draw.word[2] % 8 == 0) {
            cache_release(c, slot);
            length[slot] = 0;
        } else if (next >= length[slot]) {
            assert_int_equal(cache_reserve_extend(c, slot, length[slot], next, NULL), 0);
            length[slot] = next;
        } else {
            cache_trim(c, slot, next);
            length[slot] = next;
        }
        assert_sound(c, 2, length);
    }
    for (int s = 0; s < SLOTS; s++)
        cache_release(c, s);
    assert_int_equal(cache_pages_in_use(c), 0);
    cache_destroy(c);
}

/* One pool runs out before the other: then neither gives anything, the message says which, and everything still fits
 * that did. */
static void when_one_pool_has_run_out_none_gives(void **state)
{
    (void)state;
    /* Pages for one request of 40 tokens, and one per slot on top: tokens 10 + 3, quarters 5 + 3. */
    cache *c = two_pools(LONGEST);
    foray_error err = { 0 };
    int length[SLOTS] = { 40, 0, 0 };
    assert_int_equal(cache_bytes(c), (1 + 13) * 4 + (1 + 8) * 2);
    assert_int_equal(cache_reserve_extend(c, 0, 0, 40, &err), 0);
    int most = 0;
    while (cache_reserve_extend(c, 1, most, most + 1, &err) == 0) {
        length[1] = ++most;
        assert_sound(c, 2, length);
    }
    assert_int_equal(most, 12); /* three pages of four tokens; the quarters would have gone on */
    assert_non_null(strstr(err.text, "cache tokens"));
    assert_int_equal(err.code, FORAY_ENOMEM);
    assert_sound(c, 2, length);
    assert_int_equal(cache_reserve_extend(c, 2, 0, 40, &err), FORAY_ENOMEM);
    assert_sound(c, 2, length);
    cache_trim(c, 0, 36);
    assert_int_equal(cache_reserve_extend(c, 1, 12, 16, &err), 0);
    cache_release(c, 0);
    cache_release(c, 1);
    cache_destroy(c);
}

static void the_second_pool_can_be_the_one_that_runs_out(void **state)
{
    (void)state;
    pool_desc pools[] = { fake_ring("ring", 2), fake("tokens", 4, 1) };
    cache *c;
    foray_error err = { 0 };
    assert_int_equal(cache_create(dev, pools, 2, SLOTS, LONGEST, LONGEST, &c, NULL), 0);
    assert_int_equal(cache_table_stride(c, 0), 3); /* a ring does not grow */
    assert_int_equal(cache_reserve_extend(c, 0, 0, 40, NULL), 0);
    int64_t used = cache_pages_in_use(c);
    assert_int_equal(cache_reserve_extend(c, 1, 0, 20, &err), FORAY_ENOMEM);
    assert_non_null(strstr(err.text, "cache tokens"));
    assert_int_equal(cache_pages_in_use(c), used);
    for (int i = 0; i < 3; i++)
        assert_int_equal(cache_table(c, 0)[3 + i], 0); /* the ring of slot 1 took nothing */
    cache_release(c, 0);
    cache_destroy(c);
}

/* Four pools of different kinds, of which one counts every token and has the fewest pages to spare: whichever it is, it
 * runs out first, and nobody else has given anything. */
static void whichever_pool_runs_out_first_none_has_given_anything(void **state)
{
    (void)state;
    enum { POOLS = 4 };
    for (int k = 0; k < POOLS; k++) {
        pool_desc pools[POOLS];
        char name[32];
        cache *c;
        for (int i = 0; i < POOLS; i++) {
            snprintf(name, sizeof name, "pool %d", i);
            pools[i] = i == k                 ? fake(name, 1, 1)
                       : i == (k + 1) % POOLS ? fake_ring(name, 2)
                                              : fake(name, 3, 2 + i);
        }
        assert_int_equal(cache_create(dev, pools, POOLS, SLOTS, LONGEST, LONGEST, &c, NULL), 0);
        int length[SLOTS] = { LONGEST, 0, 0 };
        assert_int_equal(cache_reserve_extend(c, 0, 0, LONGEST, NULL), 0);
        foray_error err = { 0 };
        for (int next = SLOTS + 1; next <= 18;
             next++) { /* SLOTS pages are to spare: of the others, for 18 tokens */
            assert_int_equal(cache_reserve_extend(c, 1, 0, next, &err), FORAY_ENOMEM);
            snprintf(name, sizeof name, "cache pool %d:", k);
            assert_non_null(strstr(err.text, name));
            assert_sound(c, POOLS, length);
        }
        length[1] = SLOTS;
        assert_int_equal(cache_reserve_extend(c, 1, 0, SLOTS, &err), 0);
        assert_sound(c, POOLS, length);
        assert_int_equal(cache_reserve_extend(c, 1, SLOTS, SLOTS + 1, &err), FORAY_ENOMEM);
        assert_sound(c, POOLS, length);
        cache_release(c, 0);
        cache_release(c, 1);
        assert_int_equal(cache_pages_in_use(c), 0);
        cache_destroy(c);
    }
}

/* Rings: every slot has its own, however many requests share the growing pools. */
static void short_requests_always_get_their_rings(void **state)
{
    (void)state;
    pool_desc pools[] = { fake("sixteens", 1, 16), fake_ring("ring", 1) };
    cache *c;
    assert_int_equal(cache_create(dev, pools, 2, SLOTS, LONGEST, LONGEST, &c, NULL), 0);
    for (int s = 0; s < SLOTS; s++)
        assert_int_equal(cache_reserve_extend(c, s, 0, 12, NULL), 0);
    for (int s = 0; s < SLOTS; s++)
        cache_release(c, s);
    cache_destroy(c);
}

/* Promises are kept per pool: the pages of one cannot stand in for those of another. */
static void a_promise_needs_every_pool(void **state)
{
    (void)state;
    pool_desc pools[] = { fake("tokens", 1, 1), fake("quarters", 2, 4) };
    cache *c;
    assert_int_equal(cache_create(dev, pools, 2, SLOTS, LONGEST, LONGEST, &c, NULL), 0);
    /* 43 pages of tokens, 8 of quarters. */
    assert_true(cache_promise(c, 0, 30));
    assert_false(cache_promise(c, 1, 14)); /* 44 of tokens, though 50 of 51 in all */
    assert_true(cache_promise(c, 1, 13));
    assert_false(cache_promise(c, 2, 1));
    assert_true(cache_promise(c, 1, 12)); /* in place of 13 */
    assert_true(cache_promise(c, 2, 1));
    assert_false(cache_promise(c, 0, 31));
    assert_int_equal(cache_pages_in_use(c), 0); /* promises are numbers */
    cache_release(c, 0);
    assert_true(cache_promise(c, 2, 31));
    assert_false(cache_promise(c, 0, 1));
    for (int s = 0; s < SLOTS; s++)
        cache_release(c, s);
    assert_true(cache_promise(c, 0, 40));
    cache_destroy(c);
}

static void a_length_that_could_never_be_is_refused_by_its_pool(void **state)
{
    (void)state;
    pool_desc pools[] = { fake_ring("ring", 2), fake("quarters", 2, 4), fake("tokens", 4, 1) };
    cache *c;
    foray_error err = { 0 };
    assert_int_equal(cache_create(dev, pools, 3, 1, LONGEST, LONGEST, &c, NULL), 0);
    assert_int_equal(cache_check_length(c, LONGEST, &err), 0);
    assert_int_equal(cache_check_length(c, LONGEST + 1, &err), FORAY_ELIMIT);
    assert_non_null(strstr(err.text, "needs 11 pages of cache tokens, it may have 10"));
    assert_int_equal(cache_max_length(c), LONGEST);
    cache_destroy(c);
    /* The tables have room for what fills their pages, and for the tokens of an entry that is not complete. */
    assert_int_equal(cache_create(dev, pools, 2, 1, 9, 9, &c, NULL), 0);
    assert_int_equal(cache_max_length(c), 11); /* two quarters */
    assert_int_equal(cache_reserve_extend(c, 0, 0, 11, &err), 0);
    assert_int_equal(cache_reserve_extend(c, 0, 0, 12, &err), FORAY_ELIMIT);
    cache_release(c, 0);
    cache_destroy(c);
    assert_int_equal(cache_create(dev, pools, 2, 1, 3, 3, &c, NULL), 0);
    assert_int_equal(cache_max_length(c), 4); /* two pages of the ring, which is longer */
    cache_destroy(c);
}

static void warm_pages_are_as_they_were(void **state)
{
    (void)state;
    pool_desc pools[] = { fake_ring("ring", 2), fake("tokens", 4, 1) };
    cache *c;
    assert_int_equal(cache_create(dev, pools, 2, SLOTS, LONGEST, SLOTS * LONGEST, &c, NULL), 0);
    assert_int_equal(cache_reserve_extend(c, 1, 0, 17, NULL), 0);
    uint8_t before[2][256];
    size_t bytes[2] = { (size_t)(SLOTS * 3 + 1) * 2, (size_t)(SLOTS * 10 + SLOTS + 1) * 4 };
    assert_int_equal(cache_bytes(c), bytes[0] + bytes[1]);
    for (int p = 0; p < 2; p++)
        for (size_t i = 0; i < bytes[p]; i++)
            before[p][i] = cache_pages(c, p)[i] = (uint8_t)(i * 31 + 7);
    for (int fresh = 0; fresh <= LONGEST; fresh += 8)
        cache_warm(c, fresh, 1 + fresh * 3);
    for (int p = 0; p < 2; p++)
        assert_memory_equal(before[p], cache_pages(c, p), bytes[p]);
    cache_release(c, 1);
    cache_destroy(c);
}

/* Rounds in flight write to pages that slots hold: not even the same byte may be written there meanwhile. */
static void warming_comes_to_no_page_that_somebody_holds(void **state)
{
    (void)state;
    enum { ENTRY = 4096, PAGE_ROWS = 4, HELD = LONGEST / PAGE_ROWS };
    pool_desc pool = fake("large", PAGE_ROWS, 1);
    pool.entry_bytes = ENTRY;
    cache *c;
    assert_int_equal(cache_create(dev, &pool, 1, SLOTS, LONGEST, SLOTS * LONGEST, &c, NULL), 0);
    assert_int_equal(cache_reserve_extend(c, 1, 0, LONGEST, NULL), 0);
    assert_int_equal(cache_reserve_extend(c, 0, 0, LONGEST, NULL), 0);
    cache_release(c, 1); /* so that there are fewer pages in use than the numbers of slot 0's */
    const size_t page = ENTRY * PAGE_ROWS, system = (size_t)sysconf(_SC_PAGESIZE);
    uintptr_t from = (uintptr_t)cache_pages(c, 0) + (size_t)cache_table(c, 0)[0] * page,
              to = from + HELD * page;
    from = (from + system - 1) / system * system;
    to = to / system * system;
    assert_int_equal(mprotect((void *)from, to - from, PROT_READ), 0);
    cache_warm(c, LONGEST, LONGEST);
    assert_int_equal(mprotect((void *)from, to - from, PROT_READ | PROT_WRITE), 0);
    cache_release(c, 0);
    cache_destroy(c);
}

static void no_request_outgrows_its_table(void **state)
{
    (void)state;
    cache *c = two_pools(SLOTS * LONGEST);
    foray_error err = { 0 };
    assert_int_equal(cache_reserve_extend(c, 1, 0, LONGEST, &err), 0);
    assert_int_equal(cache_reserve_extend(c, 1, LONGEST, LONGEST + 1, &err), FORAY_ELIMIT);
    assert_int_equal(cache_pages_in_use(c), 10 + 5);
    cache_release(c, 1);
    cache_destroy(c);
}

/* Every slot may be filled at once where the total says so, though each leaves its last page partly used. */
static void the_total_is_really_there(void **state)
{
    (void)state;
    for (int length = 1; length <= LONGEST; length++) {
        pool_desc pools[] = { fake("tokens", 4, 1), fake("quarters", 2, 4) };
        cache *c;
        assert_int_equal(cache_create(dev, pools, 2, SLOTS, length, (int64_t)SLOTS * length, &c, NULL), 0);
        for (int s = 0; s < SLOTS; s++)
            assert_int_equal(cache_reserve_extend(c, s, 0, length, NULL), 0);
        for (int s = 0; s < SLOTS; s++)
            cache_release(c, s);
        cache_destroy(c);
    }
}

/* ---- digests ---- */

static void write_entry(const cache *c, int pool, int slot, int t, int page_rows, uint8_t value)
{
    int32_t page = cache_table(c, pool)[slot * cache_table_stride(c, pool) + t / page_rows];
    assert_true(page > 0);
    cache_pages(c, pool)[page * page_rows + t % page_rows] = value;
}

static void fill(const cache *c, int slot, int length)
{
    for (int t = 0; t < length; t++)
        write_entry(c, 0, slot, t, 4, (uint8_t)(t * 7 + 1));
    for (int t = 0; t < length / 4; t++)
        write_entry(c, 1, slot, t, 2, (uint8_t)(t * 5 + 3));
}

/* The same entries in other pages, in another slot, behind other history: the same digest; one entry changed: another. */
static void a_digest_sees_entries_and_no_paging(void **state)
{
    (void)state;
    cache *c = two_pools(SLOTS * LONGEST);
    assert_int_equal(cache_reserve_extend(c, 0, 0, 17, NULL), 0);
    fill(c, 0, 17);
    uint64_t first = cache_digest(c, 0, 17);
    for (int step = 1; step <= 17; step += 3) { /* pages of slots 1 and 2 alternate */
        assert_int_equal(cache_reserve_extend(c, 1, 0, step, NULL), 0);
        assert_int_equal(cache_reserve_extend(c, 2, 0, step, NULL), 0);
    }
    assert_int_equal(cache_reserve_extend(c, 2, 0, 30, NULL), 0);
    fill(c, 2, 30);
    assert_true(cache_digest(c, 2, 17) == first);
    assert_true(cache_digest(c, 2, 16) != first);
    write_entry(c, 0, 2, 17, 4, 99); /* behind the length: not visible */
    assert_true(cache_digest(c, 2, 17) == first);
    for (int t = 0; t < 17; t++) {
        write_entry(c, 0, 2, t, 4, (uint8_t)(t * 7 + 2));
        assert_true(cache_digest(c, 2, 17) != first);
        fill(c, 2, 30);
    }
    write_entry(c, 1, 2, 3, 2, 77);
    assert_true(cache_digest(c, 2, 17) != first);
    for (int s = 0; s < SLOTS; s++)
        cache_release(c, s);
    cache_destroy(c);
}

/* K/V: every half of every layer and head counts, the other entries of its page do not. */
static void the_digest_of_kv_sees_each_half_of_its_entries(void **state)
{
    (void)state;
    static const kv_shape shape = { .layers = 2, .kv_heads = 2, .head_dim = 4, .page_rows = 16 };
    pool_desc pool = kv_pool(&shape);
    cache *c;
    assert_int_equal(pool_page_bytes(&pool), (size_t)2 * 2 * 2 * 16 * 4 * 2);
    assert_int_equal(cache_create(dev, &pool, 1, 1, 32, 32, &c, NULL), 0);
    assert_int_equal(cache_reserve_extend(c, 0, 0, 20, NULL), 0);
    uint16_t *page =
        (uint16_t *)(void *)(cache_pages(c, 0) + (size_t)cache_table(c, 0)[1] * pool_page_bytes(&pool));
    size_t halves = pool_page_bytes(&pool) / 2, seen = 0;
    uint64_t whole = cache_digest(c, 0, 20), part = cache_digest(c, 0, 18);
    for (size_t i = 0; i < halves; i++) {
        page[i] ^= 0x1001;
        bool in_whole = cache_digest(c, 0, 20) != whole, in_part = cache_digest(c, 0, 18) != part;
        page[i] ^= 0x1001;
        seen += in_whole;
        assert_true(in_whole || !in_part);
    }
    assert_int_equal(seen, 4 * 2 * 2 * 2 * 4); /* entries 16 … 19: K and V, layers, heads, dimensions */
    cache_release(c, 0);
    cache_destroy(c);
}

/* Where dimension i of head h of a token's K (or V) lies, by the picture in docs/cache.md. */
static uint16_t *kv_half(const cache *c, const kv_shape *s, int slot, int t, int layer, int h, int i,
                         bool value)
{
    int rows = s->page_rows, d = s->head_dim,
        page = cache_table(c, 0)[slot * cache_table_stride(c, 0) + t / rows];
    size_t heads = (size_t)(rows * d * s->kv_heads);
    uint16_t *k = (uint16_t *)(void *)cache_pages(c, 0) + (size_t)(page * s->layers + layer) * 2 * heads;
    int in = t % rows;
    return value ? k + heads + (h * rows + in) * d + i
                 : k + ((h * (rows / 16) + in / 16) * d + i) * 16 + in % 16;
}

/* Into a cache whose pages are twice as long, and tiles lie elsewhere: each half has its place. */
static void a_snapshot_of_kv_fits_pages_of_another_length(void **state)
{
    (void)state;
    static const kv_shape shape[2] = { { .layers = 2, .kv_heads = 2, .head_dim = 3, .page_rows = 16 },
                                       { .layers = 2, .kv_heads = 2, .head_dim = 3, .page_rows = 48 } };
    enum { LENGTH = 61 };
    cache *c[2];
    for (int n = 0; n < 2; n++) {
        pool_desc pool = kv_pool(&shape[n]);
        assert_int_equal(cache_create(dev, &pool, 1, 2, LENGTH, 2 * LENGTH, &c[n], NULL), 0);
        assert_int_equal(cache_reserve_extend(c[n], 0, 0, 20, NULL), 0);
    }
    assert_int_equal(cache_reserve_extend(c[0], 1, 0, LENGTH, NULL), 0);
    uint8_t bytes[40 + 16 + LENGTH * 2 * 2 * 3 * 2 * 2];
    for (int write = 1; write >= 0; write--) {
        for (int t = 0; t < LENGTH; t++)
            for (int at = 0; at < 2 * 2 * 3 * 2; at++) {
                uint16_t *half =
                    kv_half(c[!write], &shape[!write], 1, t, at / 12, at / 6 % 2, at / 2 % 3, at % 2);
                if (write)
                    *half = (uint16_t)(t * 24 + at + 1);
                else
                    assert_int_equal(*half, t * 24 + at + 1);
            }
        assert_int_equal(cache_snapshot_bytes(c[0], LENGTH), sizeof bytes);
        cache_snapshot(c[0], 1, LENGTH, bytes);
        assert_int_equal(cache_restore(c[1], 1, LENGTH, bytes, sizeof bytes, NULL), 0);
    }
    assert_true(cache_digest(c[0], 1, LENGTH) == cache_digest(c[1], 1, LENGTH));
    for (int n = 0; n < 2; n++) {
        cache_release(c[n], 0);
        cache_release(c[n], 1);
        cache_destroy(c[n]);
    }
}

/* ---- creation ---- */

static void what_cannot_be_is_refused_and_nothing_is_kept(void **state)
{
    (void)state;
    pool_desc pools[] = { fake("tokens", 4, 1), fake("quarters", 2, 4) };
    cache *c;
    foray_error err = { 0 };
    int64_t blocks = mem_get_stats().blocks;
    assert_int_equal(cache_create(dev, pools, 0, 1, 8, 8, &c, &err), FORAY_EUSAGE);
    assert_int_equal(cache_create(dev, pools, CACHE_MAX_POOLS + 1, 1, 8, 8, &c, &err), FORAY_EUSAGE);
    assert_int_equal(cache_create(dev, pools, 2, 0, 8, 8, &c, &err), FORAY_EUSAGE);
    assert_int_equal(cache_create(dev, pools, 2, 1, 0, 8, &c, &err), FORAY_EUSAGE);
    assert_int_equal(cache_create(dev, pools, 2, 1, 8, 7, &c, &err), FORAY_EUSAGE);
    pool_desc faulty[] = { fake_ring("one", 2), fake_ring("two", 2), fake_ring("three", 2),
                           fake("four", 0, 1),  fake("five", 1, 0),  fake("six", 1, 1),
                           fake("seven", 1, 1) };
    faulty[0].reach = 6; /* would need a seventh entry */
    faulty[1].tokens = 2;
    faulty[2].group = 0;
    faulty[5].layers = 0;
    faulty[6].entry_bytes = 0;
    for (size_t i = 0; i < sizeof faulty / sizeof *faulty; i++) {
        assert_int_equal(cache_create(dev, &faulty[i], 1, 1, 8, 8, &c, &err), FORAY_EUSAGE);
        assert_non_null(strstr(err.text, faulty[i].name));
    }
    assert_int_equal(cache_create(dev, pools, 2, 1, 8, INT64_C(1) << 40, &c, &err), FORAY_ELIMIT);
    assert_non_null(strstr(err.text, "cache tokens"));
    for (int n = 1;; n++) {
        mem_fail_nth(n, false);
        int rc = cache_create(dev, pools, 2, SLOTS, LONGEST, LONGEST, &c, &err);
        mem_fail_nth(0, false);
        if (rc == 0) {
            assert_true(n > 9); /* its object and entry, and pages, table and lists of two pools */
            cache_destroy(c);
            break;
        }
        assert_int_equal(rc, FORAY_ENOMEM);
        assert_int_equal(device_bytes(dev), 0);
    }
    assert_true(mem_get_stats().blocks - blocks <= 1); /* the device's own table of buffers may have grown */
}

static void bytes_are_those_of_its_pages(void **state)
{
    (void)state;
    cache *c = two_pools(LONGEST);
    assert_int_equal(cache_bytes(c), (13 + 1) * 4 + (8 + 1) * 2);
    assert_int_equal(cache_bytes_for(c, 0), 0);
    assert_int_equal(cache_bytes_for(c, 5), 2 * 4 + 1 * 2);
    cache_destroy(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lengths_take_the_pages_they_need_and_give_them_back),
        cmocka_unit_test(when_one_pool_has_run_out_none_gives),
        cmocka_unit_test(the_second_pool_can_be_the_one_that_runs_out),
        cmocka_unit_test(whichever_pool_runs_out_first_none_has_given_anything),
        cmocka_unit_test(short_requests_always_get_their_rings),
        cmocka_unit_test(a_promise_needs_every_pool),
        cmocka_unit_test(a_length_that_could_never_be_is_refused_by_its_pool),
        cmocka_unit_test(warm_pages_are_as_they_were),
        cmocka_unit_test(warming_comes_to_no_page_that_somebody_holds),
        cmocka_unit_test(no_request_outgrows_its_table),
        cmocka_unit_test(the_total_is_really_there),
        cmocka_unit_test(a_digest_sees_entries_and_no_paging),
        cmocka_unit_test(the_digest_of_kv_sees_each_half_of_its_entries),
        cmocka_unit_test(a_snapshot_of_kv_fits_pages_of_another_length),
        cmocka_unit_test(what_cannot_be_is_refused_and_nothing_is_kept),
        cmocka_unit_test(bytes_are_those_of_its_pages),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
