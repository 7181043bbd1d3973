/* A big file is read by two threads at once: what comes out has to be what one thread reads, whatever stands in its second half.
 *
 * The oracle is the same text read from memory, which is never read ahead. Everything in the two stores is compared: events,
 * details, arrows, lanes, names in their order, and what was counted.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/rng.h"
#include "timeline/read.h"

#ifdef FORAY_TORTURE
enum { TEXT_BYTES = 64 << 10 };
#else
enum { TEXT_BYTES = 34 << 20 };
#endif

static uint32_t seed, draws;

static uint32_t draw(uint32_t below)
{
    return rng_at(seed, draws++, RNG_TEST, 0, 0).word[0] % below;
}

/* What may stand between ordinary events, and from which part of the file on (in hundredths). */
typedef struct {
    const char *odd;
    uint32_t from, one_in; /* one event in so many */
    const char *tail;
} twist;

#define FOUR(text) text text text text
#define SIXTEEN(text) FOUR(FOUR(text))

static const twist twists[] = {
    { "", 0, 1, "]" },
    /* a string that looks like events */
    { "{\"ph\": \"X\", \"name\": \"}, {\\\"ph\\\": \\\"X\\\"\", \"x\": \"},{\"ph\": 1}, \"ts\": 5, \"dur\": "
      "1}",
      0, 3, "]" },
    /* so many values that look like events that the middle of the file lies among them */
    { "{\"ph\": \"X\", \"x\": [" SIXTEEN(SIXTEEN("{\"ph\": 1}, ")) "{}], \"ts\": 5, \"dur\": 1}", 0, 1, "]" },
    { "{\"ph\": \"B\", \"name\": \"open\", \"pid\": 1, \"tid\": 2, \"ts\": 1}", 40, 900, "]" },
    { "{\"ph\": \"E\", \"pid\": 1, \"tid\": 2, \"ts\": 9}", 55, 900, "]" },
    { "{\"ph\": \"X\", \"name\": \"broken\" 7, \"ts\": 5}", 70, 5000, "]" },
    { "{\"ph\": \"X\", \"name\": \"bad \\q escape\", \"ts\": 5, \"dur\": 2}", 0, 4, "" },
    { "{\"ph\": \"M\", \"name\": \"process_name\", \"pid\": 3, \"args\": {\"name\": \"Ascend Hardware\"}}",
      80, 700, "]" },
};

static size_t make_text(const twist *t, char *text)
{
    static const char *const kinds[] = { "cpu_op", "kernel", "cuda_runtime", "HostToDevice" };
    size_t n = (size_t)sprintf(text, "[");
    for (uint32_t i = 0; n < TEXT_BYTES - 4096; i++) {
        uint32_t kind = draw(4), before = draw(8) == 0 ? draw(100000) : draw(50);
        n += (size_t)sprintf(
            text + n, "%s{\"ph\": \"%c\", \"cat\": \"%s\", \"name\": \"n%u\", \"pid\": %u, \"tid\": %u, ",
            i > 0 ? ",\n" : "", kind == 3 ? (draw(2) ? 's' : 'f') : 'X', kinds[kind], before, draw(3),
            draw(5));
        n += (size_t)sprintf(text + n, "\"ts\": %u.%03u, \"dur\": %u, \"id\": \"%u\", ", i * 3, draw(1000),
                             draw(90), draw(999));
        n += (size_t)sprintf(text + n, "\"args\": {\"correlation\": %llu%s, \"note\": \"%*s\"}}",
                             (unsigned long long)draw(1u << 30) << draw(4),
                             draw(9) == 0 ? ", \"Task Type\": \"AI_CORE\", \"Task Id\": 4" : "",
                             (int)draw(200), "");
        if (n > (size_t)TEXT_BYTES / 100 * t->from && t->odd[0] != '\0' && draw(t->one_in) == 0)
            n += (size_t)sprintf(text + n, ",%s", t->odd);
    }
    return n + (size_t)sprintf(text + n, "%s", t->tail);
}

static void expect_equal(const store *a, const store *b)
{
    const part *p = &a->parts[0], *q = &b->parts[0];
    assert_int_equal(a->count, b->count);
    for (size_t i = 0; i < a->count; i++)
        if (memcmp(store_event(a, i), store_event(b, i), sizeof(event)) != 0)
            fail_msg("event %zu differs", i);
    assert_int_equal(a->detail_count, b->detail_count);
    for (size_t i = 0; i < a->detail_count; i++) {
        assert_int_equal(a->details[i].task, b->details[i].task);
        assert_int_equal(a->details[i].task_type, b->details[i].task_type);
    }
    assert_int_equal(a->flow_count, b->flow_count);
    for (size_t i = 0; i < a->flow_count; i++) {
        assert_int_equal(a->flows[i].ts, b->flows[i].ts);
        assert_int_equal(a->flows[i].id, b->flows[i].id);
        assert_int_equal(a->flows[i].lane, b->flows[i].lane);
    }
    assert_int_equal(a->names.count, b->names.count);
    for (uint32_t i = 0; i < a->names.count; i++)
        assert_string_equal(names_text(&a->names, i), names_text(&b->names, i));
    assert_int_equal(a->lane_count, b->lane_count);
    for (size_t i = 0; i < a->lane_count; i++) {
        assert_int_equal(a->lanes[i].pid, b->lanes[i].pid);
        assert_int_equal(a->lanes[i].tid, b->lanes[i].tid);
        assert_int_equal(a->lanes[i].process, b->lanes[i].process);
        assert_int_equal(a->lanes[i].events, b->lanes[i].events);
    }
    assert_int_equal(p->bytes, q->bytes);
    assert_int_equal(p->events, q->events);
    assert_int_equal(p->format, q->format);
    assert_memory_equal(p->faults, q->faults, sizeof p->faults);
    assert_memory_equal(p->fault_at, q->fault_at, sizeof p->fault_at);
}

static void read_from(source *from, store *s)
{
    foray_error err;
    store_init(s);
    assert_int_equal(read_chrome(s, from, "made", &err), FORAY_OK);
    source_close(from);
}

static void test_equal(void **state)
{
    (void)state;
    char *text = malloc(TEXT_BYTES + 4096), path[] = "/tmp/foray-ahead-XXXXXX";
    int fd = mkstemp(path);
    assert_true(text != NULL && fd >= 0);
    close(fd);
    for (size_t t = 0; t < sizeof twists / sizeof *twists; t++) {
        seed = (uint32_t)t + 1;
        draws = 0;
        size_t bytes = make_text(&twists[t], text);
        FILE *out = fopen(path, "wb");
        assert_non_null(out);
        assert_int_equal(fwrite(text, 1, bytes, out), bytes);
        assert_int_equal(fclose(out), 0);
        source *from;
        foray_error err;
        store alone, both;
        assert_int_equal(source_memory("made", text, bytes, &from, &err), FORAY_OK);
        read_from(from, &alone);
        assert_int_equal(source_open(path, &from, &err), FORAY_OK);
        read_from(from, &both);
        expect_equal(&alone, &both);
        store_free(&alone);
        store_free(&both);
    }
    unlink(path);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_equal) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
