/* What an engine measures when it opens: rounds of one request and of many, a drafter of its own. Time here passes by being
 * asked for: no test looks at how long anything took, and no machine is too slow to measure all. */
#include "support/generate.h"

#include <stdatomic.h>

#include "base/clock.h"
#include "cache/cache.h"
#include "engine/score.h"
#include "spec/round.h"
#include "support/nano.h"
#include "support/tiny.h"

static const int32_t prompt[] = { 70, 80, 90, 100, 71, 81 };

static int64_t asked(void *user)
{
    static atomic_llong times;
    (void)user;
    return 40000 * (int64_t)atomic_fetch_add(&times, 1);
}

static int set_clock(void **state)
{
    (void)state;
    clock_set(asked, NULL);
    return 0;
}

static int restore_clock(void **state)
{
    (void)state;
    clock_set(NULL, NULL);
    return 0;
}

static void check_table(const budget *b, int requests)
{
    assert_true(b->measured);
    for (int n = 1; n <= requests; n++) {
        assert_true(budget_cost_ns(b, n) > 0);
        for (int rows = n + 1; rows <= BUDGET_MAX_ROWS; rows++)
            assert_true(budget_ratio(b, n, rows) >= budget_ratio(b, n, rows - 1));
    }
}

/* One request, as many as there can be, and powers of two between them; the requests' slots are as before. */
static void rounds_of_many_requests_are_measured(void **state)
{
    (void)state;
    static text expected, t;
    static const struct {
        int requests;
        unsigned crowds;
    } rows[] = { { 1, 1 }, { 2, 3 }, { 6, 15 } };
    tiny_spec spec = tiny_default();
    const char *path = tiny_gguf(&spec);
    foray_request_config c = request_of(prompt, 6, 12);
    foray_engine *plain = engine_open_path(path, (foray_config) { .spec = "off", .threads = 1 });
    generate(plain, &c, &expected);
    foray_close(plain);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        foray_engine *e = engine_open_path(
            path, (foray_config) { .spec = "ngram", .max_requests = rows[i].requests, .threads = 1 });
        const budget *b = round_get_budget(engine_round(e));
        assert_int_equal(b->crowds_set, rows[i].crowds);
        assert_int_equal(b->chain_most, 0);
        check_table(b, rows[i].requests);
        assert_int_equal(cache_pages_in_use(engine_cache(e)), 0);
        generate(e, &c, &t);
        assert_same_text(&t, &expected);
        foray_close(e);
    }
}

static void a_drafter_of_the_device_is_measured_for_many_requests(void **state)
{
    (void)state;
    foray_engine *e = engine_open_path(
        nano_folder(),
        (foray_config) {
            .spec = "nextn", .spec_tokens = 2, .max_requests = 4, .context = 128, .threads = 1 });
    const budget *b = round_get_budget(engine_round(e));
    assert_int_equal(b->chain_most, 2);
    assert_int_equal(b->chains_set, 7);
    assert_true(b->catch_up > 0);
    for (int crowd = 0; crowd < 3; crowd++)
        assert_true(b->chain[crowd][1] > 0 && b->chain[crowd][2] >= b->chain[crowd][1]);
    check_table(b, 4);
    assert_int_equal(b->fixed, -1);
    assert_int_equal(cache_pages_in_use(engine_cache(e)), 0);
    foray_close(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rounds_of_many_requests_are_measured),
        cmocka_unit_test(a_drafter_of_the_device_is_measured_for_many_requests),
    };
    return cmocka_run_group_tests(tests, set_clock, restore_clock);
}
