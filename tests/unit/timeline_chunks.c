/* Chunks that never move: each is its own memory, also those that were passed on from another list, and all of it is given back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "timeline/chunks.h"

static void write_all(chunks *c, size_t from, size_t bytes, int first)
{
    for (size_t i = from; i < c->count; i++)
        memset(c->at[i], first + (int)i, bytes);
}

static void expect_all(const chunks *c, size_t from, size_t bytes, int first)
{
    for (size_t i = from; i < c->count; i++)
        for (size_t k = 0; k < bytes; k += 511)
            assert_int_equal((uint8_t)c->at[i][k], (uint8_t)(first + (int)i));
}

static void a_list_has_at_least_what_was_asked_for(void **state)
{
    (void)state;
    static const size_t sizes[] = { 2 << 20, 1 << 20, 128 << 10 };
    int64_t before = mem_get_stats().blocks;
    for (size_t b = 0; b < sizeof sizes / sizeof *sizes; b++) {
        chunks c = { 0 };
        for (size_t wanted = 0; wanted < 40; wanted += 1 + wanted / 3) {
            size_t had = c.count;
            assert_true(chunks_reach(&c, wanted, sizes[b]));
            assert_true(c.count > wanted);
            write_all(&c, had, sizes[b], 1);
            expect_all(&c, 0, sizes[b], 1);
        }
        chunks_free(&c, sizes[b]);
        assert_int_equal(c.count, 0);
    }
    assert_int_equal(mem_get_stats().blocks, before);
}

static void what_is_done_with_is_passed_on_whole(void **state)
{
    (void)state;
    enum { BYTES = 1 << 20 };
    int64_t before = mem_get_stats().blocks;
    for (size_t has = 0; has < 4; has++) {
        chunks from = { 0 }, to = { 0 };
        assert_true(chunks_reach(&from, 7, BYTES));
        if (has > 0)
            assert_true(chunks_reach(&to, has - 1, BYTES));
        write_all(&to, 0, BYTES, 100);
        size_t own = to.count, blocks = (size_t)(mem_get_stats().blocks - before);
        for (size_t i = 0; i < 7; i++) /* not the last one: its block goes on */
            chunks_pass_on(&from, i, &to, BYTES);
        assert_int_equal(to.count, own + (own > 0 ? 6 : 0));
        assert_true((size_t)(mem_get_stats().blocks - before) <= blocks);
        write_all(&to, own, BYTES, 100);
        for (size_t i = 7; i < from.count; i++)
            memset(from.at[i], 7, BYTES);
        expect_all(&to, 0, BYTES, 100);
        chunks_free(&from, BYTES);
        expect_all(&to, 0, BYTES, 100);
        chunks_free(&to, BYTES);
    }
    assert_int_equal(mem_get_stats().blocks, before);
}

static void without_memory_a_list_keeps_what_it_has(void **state)
{
    (void)state;
    enum { BYTES = 1 << 20 };
    int64_t before = mem_get_stats().blocks;
    chunks c = { 0 };
    assert_true(chunks_reach(&c, 2, BYTES));
    write_all(&c, 0, BYTES, 3);
    mem_fail_nth(1, true);
    assert_false(chunks_reach(&c, 40, BYTES));
    mem_fail_nth(0, false);
    expect_all(&c, 0, BYTES, 3);
    chunks_free(&c, BYTES);
    assert_int_equal(mem_get_stats().blocks, before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_list_has_at_least_what_was_asked_for),
        cmocka_unit_test(what_is_done_with_is_passed_on_whole),
        cmocka_unit_test(without_memory_a_list_keeps_what_it_has),
    };
    return cmocka_run_group_tests_name("unit_timeline_chunks", tests, NULL, NULL);
}
