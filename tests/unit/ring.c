/* The ring of task records: the newest records are there, whole, and every other one is counted as lost;
 * with writers that lap each other and a reader in between.
 */
#include "observe/ring.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "observe/phase.h"

enum { WRITERS = 4, RECORDS = 100000 };

/* A record in which every field follows from writer and number. */
static task_record record_of(int writer, int64_t number)
{
    return (task_record) { .name = "task",
                           .kernel_class = (uint8_t)(number % 5),
                           .phase = (uint8_t)(number % PHASE_COUNT),
                           .stream = (int16_t)writer,
                           .rank = (int16_t)(number % 7),
                           .graph = (int32_t)(number * 3),
                           .node = (int32_t)(number * 5),
                           .rows = (int32_t)(number * 7),
                           .round = number,
                           .ready_ns = number * 11,
                           .start_ns = number * 13,
                           .end_ns = number * 17 + writer,
                           .waited_event = (int32_t)(number * 19) };
}

static bool is_whole(const task_record *t)
{
    task_record want = record_of(t->stream, t->round);
    return t->name == want.name && t->kernel_class == want.kernel_class && t->phase == want.phase &&
           t->rank == want.rank && t->graph == want.graph && t->node == want.node && t->rows == want.rows &&
           t->ready_ns == want.ready_ns && t->start_ns == want.start_ns && t->end_ns == want.end_ns &&
           t->waited_event == want.waited_event;
}

static void the_newest_records_come_oldest_first(void **state)
{
    (void)state;
    ring *r;
    assert_int_equal(ring_create(5, &r, NULL), FORAY_OK);
    assert_int_equal(ring_capacity(r), 8);
    task_record out[8];
    uint64_t lost;
    for (int64_t written = 0; written <= 30; written++) {
        for (size_t max = 0; max <= 8; max++) {
            size_t there = written < 8 ? (size_t)written : 8, want = there < max ? there : max;
            assert_int_equal(ring_read(r, out, max, &lost), want);
            assert_int_equal(lost, (uint64_t)written - there);
            for (size_t i = 0; i < want; i++) {
                assert_int_equal(out[i].round, written - (int64_t)want + (int64_t)i);
                assert_true(is_whole(&out[i]));
            }
        }
        task_record t = record_of(0, written);
        ring_write(r, &t);
    }
    ring_free(r);
}

typedef struct {
    ring *ring;
    int number;
} writer;

static _Atomic int running;

static void *write_records(void *argument)
{
    const writer *w = argument;
    for (int64_t i = 0; i < RECORDS; i++) {
        task_record t = record_of(w->number, i);
        ring_write(w->ring, &t);
    }
    running--;
    return NULL;
}

static void no_record_is_torn_and_none_is_uncounted(void **state)
{
    (void)state;
    static const size_t capacities[] = { 1, 2, 1024 };
    static task_record out[1024];
    for (int c = 0; c < 3; c++) {
        ring *r;
        assert_int_equal(ring_create(capacities[c], &r, NULL), FORAY_OK);
        pthread_t threads[WRITERS];
        writer writers[WRITERS];
        uint64_t lost;
        running = WRITERS;
        for (int i = 0; i < WRITERS; i++) {
            writers[i] = (writer) { r, i };
            pthread_create(&threads[i], NULL, write_records, &writers[i]);
        }
        size_t torn = 0, unordered = 0;
        for (bool last = false; !last;) {
            last = running == 0; /* one more look once all have stopped */
            size_t count = ring_read(r, out, 1024, &lost);
            int64_t newest[WRITERS] = { -1, -1, -1, -1 };
            for (size_t i = 0; i < count; i++) {
                torn += !is_whole(&out[i]);
                unordered += out[i].round <= newest[out[i].stream];
                newest[out[i].stream] = out[i].round;
            }
            if (last) {
                assert_int_equal(count + lost, WRITERS * RECORDS);
                assert_true(count <= capacities[c]);
            }
        }
        for (int i = 0; i < WRITERS; i++)
            pthread_join(threads[i], NULL);
        assert_int_equal(torn, 0);
        assert_int_equal(unordered, 0);
        ring_free(r);
    }
}

static void a_ring_that_cannot_be_is_refused(void **state)
{
    (void)state;
    ring *r = NULL;
    foray_error err;
    int64_t blocks = mem_get_stats().blocks;
    assert_int_equal(ring_create(SIZE_MAX, &r, &err), FORAY_ELIMIT);
    for (int n = 1; n <= 2; n++) {
        mem_fail_nth(n, false);
        assert_int_equal(ring_create(16, &r, &err), FORAY_ENOMEM);
        mem_fail_nth(0, false);
    }
    assert_int_equal(mem_get_stats().blocks, blocks);
    ring_free(NULL);
}

static void a_write_allocates_nothing(void **state)
{
    (void)state;
    ring *r;
    assert_int_equal(ring_create(16, &r, NULL), FORAY_OK);
    int64_t calls = mem_get_stats().calls;
    task_record t = record_of(0, 1);
    for (int i = 0; i < 100; i++)
        ring_write(r, &t);
    assert_int_equal(mem_get_stats().calls, calls);
    ring_free(r);
}

static void every_phase_has_a_name_that_parses_back(void **state)
{
    (void)state;
    for (int p = 0; p < PHASE_COUNT; p++) {
        char hyphens[32];
        strcpy(hyphens, phase_name((phase)p));
        assert_int_equal(phase_parse(hyphens), p);
        for (char *c = hyphens; *c != '\0'; c++)
            if (*c == '_')
                *c = '-';
        assert_int_equal(phase_parse(hyphens), p);
        assert_string_equal(foray_phase_name(p), phase_name((phase)p));
    }
    assert_string_equal(phase_name(PHASE_TARGET_VERIFY), "target_verify");
    assert_int_equal(phase_parse("draft_"), -1);
    assert_int_equal(phase_parse("draf"), -1);
    assert_int_equal(phase_parse(""), -1);
    assert_string_equal(foray_phase_name(-1), "unknown");
    assert_string_equal(foray_phase_name(PHASE_COUNT), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_newest_records_come_oldest_first),
        cmocka_unit_test(no_record_is_torn_and_none_is_uncounted),
        cmocka_unit_test(a_ring_that_cannot_be_is_refused),
        cmocka_unit_test(a_write_allocates_nothing),
        cmocka_unit_test(every_phase_has_a_name_that_parses_back),
    };
    return cmocka_run_group_tests_name("ring", tests, NULL, NULL);
}
