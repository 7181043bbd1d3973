/* P6: whichever allocation fails, through load, prompt and 20 steps: an error, no leak, and the next one works. */
#include "support/stack.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "support/generate.h"
#include "support/tiny.h"
#include "support/tiny_v4.h"

#include <cmocka.h> /* last: its macro fail() hides ours */

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

/* Runs until nothing is active; returns how many rounds verified drafts, and how many of their parts were not replayed. */
static int run(stack *s, int *eager)
{
    int rounds = 0;
    *eager = 0;
    for (int active = 1; active > 0;) {
        active = stack_step(s);
        const round_plan *p = round_get_plan(s->round);
        rounds += p->phase == PHASE_TARGET_VERIFY;
        for (int part = 0; part < ROUTE_PARTS; part++)
            *eager += p->phase == PHASE_TARGET_VERIFY && strncmp(p->route[part], "eager:", 6) == 0;
    }
    return rounds;
}

/* Whichever allocation fails while the graphs for two requests are captured, of the round or of the drafter: their rounds run
 * eagerly with the same text, and those of one request go on being replayed. */
static void a_capture_that_fails_concerns_its_own_key(void **state)
{
    (void)state;
    enum { TEXT = 30 };
    tiny_v4_spec spec = tiny_v4_small();
    spec.no_text = true;
    char path[512];
    int refused = 0, eager, count;
    int32_t ids[5], said[TEXT];
    int64_t captures = 1;
    snprintf(path, sizeof path, "%s", tiny_v4_model(&spec, TINY_V4_PLAIN));
    log_set_level(LOG_QUIET);
    for (int64_t n = 0; n <= captures; n += n < 4 || n > captures - 8 ? 1 : captures / 16) {
        stack s;
        stack_open(&s, path,
                   (stack_config) { .slots = 2, .drafter = "nextn", .spec_budget = 2, .lockstep = true });
        random_ids(1, 5, s.model->info.vocab, ids);
        foray_request_config c = request_of(ids, 5, TEXT);
        c.ignore_eos = true;
        stack_text(&s, &c, said); /* captures what one request needs */
        foray_request r[2] = { stack_submit(&s, &c), stack_submit(&s, &c) };
        for (int i = 0; i < 3; i++) /* two prompts, and a round of one between them */
            stack_step(&s);
        int64_t before = mem_get_stats().calls;
        mem_fail_nth(n, false);
        stack_step(&s);
        mem_fail_nth(0, false);
        if (batch_find(s.batch, r[0])->finish !=
            FORAY_FAILED) /* a round that could not be launched has not been */
            assert_int_equal(round_get_plan(s.round)->members, 2);
        if (n == 0)
            captures = mem_get_stats().calls - before;
        run(&s, &eager);
        assert_true(n > 0 || eager == 0);
        refused += eager > 0;
        for (int i = 0; i < 2; i++) {
            /* In debug builds every launch needs memory for its checks: then it was the round that failed. */
            if (batch_find(s.batch, r[i])->finish != FORAY_FAILED)
                assert_memory_equal(stack_tokens(&s, r[i], &count), said, sizeof said);
            batch_release(s.batch, r[i]);
        }
        r[0] = stack_submit(&s, &c);
        assert_true(run(&s, &eager) > 3);
        assert_int_equal(eager, 0);
        batch_release(s.batch, r[0]);
        stack_close(&s);
    }
    log_set_level(LOG_NORMAL);
    assert_true(captures > 8 && refused > 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_failed_allocation_is_an_error_and_leaves_nothing),
        cmocka_unit_test(a_capture_that_fails_concerns_its_own_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
