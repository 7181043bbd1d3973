/* Time and chance: the fast clock against the slow one, the clock of tests, Philox against its published
 * vectors, and the layout of keys and counters.
 */
#include "base/clock.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "base/thread.h"

/* Bracketed by two readings of the slow clock, over several renewals of the fast one's anchor. */
static void the_fast_clock_is_the_clock(void **state)
{
    (void)state;
    int64_t start = clock_ns(), now = start, last = 0;
    while (now - start < 20000000) {
        int64_t before = clock_ns(), fast = clock_fast_ns(), after = clock_ns();
        assert_true(fast >= last);
        if (fast < before - 1000 || fast > after + 1000)
            fail_msg("fast clock off by %ld ns", (long)(fast < before ? fast - before : fast - after));
        last = fast;
        now = after;
    }
}

static _Atomic int64_t latest;
static _Atomic int failures;

static void *watch(void *unused)
{
    for (int i = 0; i < 20000; i++) {
        int64_t seen = latest, now = clock_fast_ns();
        if (now < seen)
            failures++;
        while (seen < now && !__atomic_compare_exchange_n((int64_t *)&latest, &seen, now, 1, __ATOMIC_SEQ_CST,
                                                          __ATOMIC_SEQ_CST))
            ;
    }
    return unused;
}

static void the_fast_clock_never_goes_back_between_threads(void **state)
{
    (void)state;
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, watch, NULL);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(failures, 0);
}

/* Bracketed from inside and from outside. */
static void ticks_measure_differences_of_the_clock(void **state)
{
    (void)state;
    int64_t before = clock_ns(), first = clock_ticks(), begin = clock_ns(), end = begin;
    while (end - begin < 5000000)
        end = clock_ns();
    int64_t last = clock_ticks(), after = clock_ns(), ns = clock_ticks_to_ns(last - first);
    assert_true(ns >= (end - begin) / 100 * 99 && ns <= (after - before) / 100 * 101 + 1000);
}

static int64_t told(void *user)
{
    return (*(int64_t *)user)++;
}

static void a_test_can_replace_the_clock(void **state)
{
    (void)state;
    int64_t now = 100;
    clock_set(told, &now);
    assert_int_equal(clock_ns(), 100);
    assert_int_equal(clock_fast_ns(), 101);
    assert_int_equal(clock_ticks(), 102);
    assert_int_equal(clock_ticks_to_ns(5), 5);
    clock_set(NULL, NULL);
    assert_true(clock_ns() > 1000);
}

/* The vectors that Random123 publishes (kat_vectors, philox4x32 10). */
static void philox_gives_its_known_answers(void **state)
{
    (void)state;
    static const struct {
        uint32_t counter[4], key[2], answer[4];
    } known[] = {
        { { 0, 0, 0, 0 }, { 0, 0 }, { 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 } },
        { { 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff },
          { 0xffffffff, 0xffffffff },
          { 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd } },
        { { 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344 },
          { 0xa4093822, 0x299f31d0 },
          { 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1 } },
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const uint32_t *c = known[i].counter, *k = known[i].key;
        rng_block b = rng_philox(c[0], c[1], c[2], c[3], k[0], k[1]);
        assert_memory_equal(b.word, known[i].answer, sizeof b.word);
    }
}

static void a_draw_depends_on_each_of_its_coordinates(void **state)
{
    (void)state;
    rng_block at[7] = {
        rng_at(1, 2, RNG_GUMBEL, 3, 4), rng_at(1 + (1ull << 32), 2, RNG_GUMBEL, 3, 4),
        rng_at(2, 2, RNG_GUMBEL, 3, 4), rng_at(1, 3, RNG_GUMBEL, 3, 4),
        rng_at(1, 2, RNG_ACCEPT, 3, 4), rng_at(1, 2, RNG_GUMBEL, 4, 4),
        rng_at(1, 2, RNG_GUMBEL, 3, 5),
    };
    for (int i = 0; i < 7; i++)
        for (int k = 0; k < i; k++)
            assert_memory_not_equal(at[i].word, at[k].word, sizeof at[i].word);
    /* The layout is a promise: texts are reproduced from it. */
    rng_block b = rng_philox(0x243f6a88, RNG_ACCEPT, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0);
    rng_block same = rng_at(0x299f31d0a4093822, 0x243f6a88, RNG_ACCEPT, 0x13198a2e, 0x03707344);
    assert_memory_equal(b.word, same.word, sizeof b.word);
}

static void fresh_seeds_differ(void **state)
{
    (void)state;
    assert_true(rng_fresh_seed() != rng_fresh_seed());
}

static void there_is_at_least_one_core(void **state)
{
    (void)state;
    assert_in_range(thread_cores(), 1, 1 << 16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_fast_clock_is_the_clock),
        cmocka_unit_test(the_fast_clock_never_goes_back_between_threads),
        cmocka_unit_test(ticks_measure_differences_of_the_clock),
        cmocka_unit_test(a_test_can_replace_the_clock),
        cmocka_unit_test(philox_gives_its_known_answers),
        cmocka_unit_test(a_draw_depends_on_each_of_its_coordinates),
        cmocka_unit_test(fresh_seeds_differ),
        cmocka_unit_test(there_is_at_least_one_core),
    };
    return cmocka_run_group_tests_name("clock_rng", tests, NULL, NULL);
}
