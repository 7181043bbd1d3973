/* P6: whichever allocation fails, through load, prompt and 20 steps: an error, no leak, and the next one works. */
#include "support/generate.h"

#include "base/mem.h"
#include "support/tiny.h"

/* Opens, generates, closes; false when some call said that memory had run out. */
static bool live_once(const char *path)
{
    static const int32_t prompt[] = { 70, 80, 90, 100 };
    foray_engine *e = NULL;
    foray_error err = { 0 };
    foray_config config = { .model = path, .spec = "ngram", .threads = 2, .record = true };
    int rc = foray_open(&config, &e, &err);
    if (rc != 0) {
        assert_int_equal(rc, FORAY_ENOMEM);
        assert_true(err.text[0] != 0);
        return false;
    }
    foray_request r;
    foray_request_config c = request_of(prompt, 4, 20);
    rc = foray_submit(e, &c, &r, &err);
    bool failed = rc != 0;
    const foray_event *events;
    size_t count;
    for (int active = rc == 0; active > 0;) {
        active = foray_step(e, &events, &count, &err);
        for (size_t i = 0; i < count; i++)
            failed = failed || events[i].finish == FORAY_FAILED;
    }
    /* The engine is still of use. */
    static text after;
    mem_fail_nth(0, false);
    generate(e, &c, &after);
    assert_int_equal(after.count, 20);
    foray_close(e);
    return !failed;
}

static void any_failed_allocation_is_an_error_and_leaves_nothing(void **state)
{
    (void)state;
    tiny_spec spec = tiny_default();
    spec.layers = 1;
    const char *path = tiny_gguf(&spec);
    assert_true(live_once(path));
    mem_stats start = mem_get_stats();
    int64_t total = 0;
    assert_true(live_once(path));
    total = mem_get_stats().calls - start.calls;
    assert_true(total > 50);
    int failures = 0;
    for (int64_t n = 1; n <= total; n += n < 60 ? 1 : 1 + total / 120) {
        mem_fail_nth(n, false);
        failures += !live_once(path);
        mem_fail_nth(0, false);
        mem_stats now = mem_get_stats();
        if (now.blocks != start.blocks)
            fail_msg("allocation %lld of %lld: %lld blocks are left", (long long)n, (long long)total,
                     (long long)(now.blocks - start.blocks));
    }
    assert_true(failures > 30);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_failed_allocation_is_an_error_and_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
