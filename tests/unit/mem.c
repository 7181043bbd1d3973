/* The allocator's counters, its alignment, the failing n-th allocation, and the arena on top of it. */
#include "base/mem.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/arena.h"

static void counters_return_to_where_they_were(void **state)
{
    (void)state;
    mem_stats before = mem_get_stats();
    void *a = mem_alloc(MEM_TEXT, 1000), *b = mem_alloc_zeroed(MEM_CACHE, 3 << 20),
         *c = mem_alloc(MEM_TEXT, 0);
    assert_true(a != NULL && b != NULL && c != NULL);
    mem_stats during = mem_get_stats();
    assert_int_equal(during.bytes[MEM_TEXT] - before.bytes[MEM_TEXT], 1000);
    assert_int_equal(during.bytes[MEM_CACHE] - before.bytes[MEM_CACHE], 3 << 20);
    assert_int_equal(during.blocks - before.blocks, 3);
    assert_int_equal(during.calls - before.calls, 3);
    a = mem_resize(MEM_TEXT, a, 1000, 5000);
    assert_int_equal(mem_get_stats().bytes[MEM_TEXT] - before.bytes[MEM_TEXT], 5000);
    mem_free(MEM_TEXT, a, 5000);
    mem_free(MEM_CACHE, b, 3 << 20);
    mem_free(MEM_TEXT, c, 0);
    mem_free(MEM_TEXT, NULL, 77);
    mem_stats after = mem_get_stats();
    assert_memory_equal(after.bytes, before.bytes, sizeof after.bytes);
    assert_int_equal(after.blocks, before.blocks);
    assert_true(after.peak_bytes >= (3 << 20) + 5000);
}

static void blocks_are_aligned_and_keep_their_bytes(void **state)
{
    (void)state;
    static const size_t sizes[] = { 0, 1, 64, 65, 4096, (2 << 20) - 1, 2 << 20 };
    enum { COUNT = sizeof sizes / sizeof *sizes };
    for (int from = 0; from < COUNT; from++) {
        for (int to = 0; to < COUNT; to++) {
            unsigned char *p = mem_alloc(MEM_GENERAL, sizes[from]);
            size_t align = sizes[from] >= 2 << 20 ? 2 << 20 : 64;
            assert_int_equal((uintptr_t)p % align, 0);
            for (size_t i = 0; i < sizes[from]; i += 61)
                p[i] = (unsigned char)(i * 7);
            p = mem_resize(MEM_GENERAL, p, sizes[from], sizes[to]);
            align = sizes[to] >= 2 << 20 ? 2 << 20 : 64;
            assert_int_equal((uintptr_t)p % align, 0);
            for (size_t i = 0; i < sizes[from] && i < sizes[to]; i += 61)
                assert_int_equal(p[i], (unsigned char)(i * 7));
            mem_free(MEM_GENERAL, p, sizes[to]);
        }
    }
    unsigned char *z = mem_alloc_zeroed(MEM_GENERAL, 100000);
    for (size_t i = 0; i < 100000; i++)
        assert_int_equal(z[i], 0);
    mem_free(MEM_GENERAL, z, 100000);
    assert_null(mem_alloc(MEM_GENERAL, SIZE_MAX - 10));
}

static void the_nth_allocation_fails_once_or_from_there_on(void **state)
{
    (void)state;
    mem_stats before = mem_get_stats();
    mem_fail_nth(3, false);
    void *p[5];
    for (int i = 0; i < 5; i++) {
        p[i] = mem_alloc(MEM_GENERAL, 10);
        assert_true((p[i] == NULL) == (i == 2));
    }
    mem_fail_nth(2, true);
    void *empty = mem_resize(MEM_GENERAL, NULL, 0, 0);
    assert_non_null(empty);
    assert_null(mem_alloc(MEM_GENERAL, 1));
    assert_null(mem_alloc(MEM_GENERAL, 1));
    assert_null(mem_resize(MEM_GENERAL, p[0], 10, 20)); /* and the old block stands */
    mem_fail_nth(0, false);
    for (int i = 0; i < 5; i++)
        mem_free(MEM_GENERAL, p[i], 10);
    mem_free(MEM_GENERAL, empty, 0);
    assert_int_equal(mem_get_stats().blocks, before.blocks);
}

static void sizes_multiply_without_overflow(void **state)
{
    (void)state;
    size_t out;
    assert_true(mem_size_mul(1 << 20, 1 << 20, &out) && out == (size_t)1 << 40);
    assert_true(mem_size_mul(0, SIZE_MAX, &out) && out == 0);
    assert_false(mem_size_mul(SIZE_MAX / 2 + 1, 2, &out));
}

#ifdef FORAY_CHECKS
/* Runs f in a child; true: it aborted. */
static bool aborts(void (*f)(void))
{
    pid_t child = fork();
    if (child == 0) {
        close(STDERR_FILENO);
        f();
        _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

static void free_with_another_size(void)
{
    mem_free(MEM_GENERAL, mem_alloc(MEM_GENERAL, 10), 11);
}

static void free_under_another_tag(void)
{
    mem_free(MEM_TEXT, mem_alloc(MEM_GENERAL, 10), 10);
}

static void resize_with_another_size(void)
{
    mem_resize(MEM_GENERAL, mem_alloc(MEM_GENERAL, 10), 9, 20);
}

static void free_properly(void)
{
    mem_free(MEM_GENERAL, mem_alloc(MEM_GENERAL, 10), 10);
}

static void a_wrong_size_or_tag_stops_a_checked_build(void **state)
{
    (void)state;
    assert_true(aborts(free_with_another_size));
    assert_true(aborts(free_under_another_tag));
    assert_true(aborts(resize_with_another_size));
    assert_false(aborts(free_properly));
}

static void fresh_memory_is_not_zero_in_a_checked_build(void **state)
{
    (void)state;
    unsigned char *p = mem_alloc(MEM_GENERAL, 100);
    for (int i = 0; i < 100; i++)
        assert_int_equal(p[i], 0x7f);
    mem_free(MEM_GENERAL, p, 100);
}
#endif

static void *allocate_and_free(void *seed)
{
    for (size_t i = 0; i < 2000; i++) {
        size_t bytes = (i * 37 + (size_t)seed) % 500;
        void *p = mem_alloc(MEM_RECORDS, bytes);
        p = mem_resize(MEM_RECORDS, p, bytes, bytes + 8);
        mem_free(MEM_RECORDS, p, bytes + 8);
    }
    return NULL;
}

static void threads_do_not_upset_the_counters(void **state)
{
    (void)state;
    mem_stats before = mem_get_stats();
    pthread_t threads[4];
    for (size_t i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, allocate_and_free, (void *)i);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    mem_stats after = mem_get_stats();
    assert_int_equal(after.bytes[MEM_RECORDS], before.bytes[MEM_RECORDS]);
    assert_int_equal(after.blocks, before.blocks);
    assert_int_equal(after.calls - before.calls, 4 * 2000 * 2);
}

static void an_arena_hands_out_zeroed_aligned_apart_blocks(void **state)
{
    (void)state;
    mem_stats before = mem_get_stats();
    arena a;
    arena_init(&a, MEM_TEXT, 1000);
    unsigned char *blocks[200];
    for (int lap = 0; lap < 3; lap++) {
        for (int i = 0; i < 200; i++) {
            size_t bytes = (size_t)(i * 31 % 700) + (i == 50 ? 20000 : 0);
            blocks[i] = arena_alloc(&a, bytes);
            assert_int_equal((uintptr_t)blocks[i] % 64, 0);
            for (size_t k = 0; k < bytes; k++)
                assert_int_equal(blocks[i][k], 0);
            memset(blocks[i], i + 1, bytes);
        }
        for (int i = 0; i < 200; i++) {
            size_t bytes = (size_t)(i * 31 % 700) + (i == 50 ? 20000 : 0);
            for (size_t k = 0; k < bytes; k++)
                assert_int_equal(blocks[i][k], (unsigned char)(i + 1));
        }
        arena_reset(&a);
        assert_int_equal(a.used_bytes, 0);
        assert_int_equal(mem_get_stats().blocks, before.blocks + 1);
    }
    assert_null(arena_array(&a, SIZE_MAX / 4, 8));
    assert_null(arena_alloc(&a, SIZE_MAX - 3));
    assert_null(arena_strndup(&a, "", SIZE_MAX));
    assert_string_equal(arena_strndup(&a, "hello", 4), "hell");
    arena_free(&a);
    assert_int_equal(mem_get_stats().bytes[MEM_TEXT], before.bytes[MEM_TEXT]);
    assert_non_null(arena_alloc(&a, 8)); /* usable again */
    arena_free(&a);
}

static void an_arena_without_memory_says_so(void **state)
{
    (void)state;
    arena a;
    arena_init(&a, MEM_TEXT, 0);
    mem_fail_nth(1, false);
    assert_null(arena_alloc(&a, 1));
    assert_non_null(arena_alloc(&a, 1));
    arena_free(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counters_return_to_where_they_were),
        cmocka_unit_test(blocks_are_aligned_and_keep_their_bytes),
        cmocka_unit_test(the_nth_allocation_fails_once_or_from_there_on),
        cmocka_unit_test(sizes_multiply_without_overflow),
#ifdef FORAY_CHECKS
        cmocka_unit_test(a_wrong_size_or_tag_stops_a_checked_build),
        cmocka_unit_test(fresh_memory_is_not_zero_in_a_checked_build),
#endif
        cmocka_unit_test(threads_do_not_upset_the_counters),
        cmocka_unit_test(an_arena_hands_out_zeroed_aligned_apart_blocks),
        cmocka_unit_test(an_arena_without_memory_says_so),
    };
    return cmocka_run_group_tests_name("mem", tests, NULL, NULL);
}
