/* The small pure parts of speculation: which drafts stand, what is appended, where an n-gram search looks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/rng.h"
#include "spec/accept.h"
#include "spec/drafter.h"

static void drafts_stand_up_to_the_first_difference(void **state)
{
    (void)state;
    const int32_t target[] = { 5, 6, 0, 8 };
    assert_int_equal(accept_drafts((int32_t[]) { 5, 6, 0 }, target, 4), 3);
    assert_int_equal(accept_drafts((int32_t[]) { 5, 6, 1 }, target, 4), 2);
    assert_int_equal(accept_drafts((int32_t[]) { 5, 9, 0 }, target, 4), 1);
    assert_int_equal(accept_drafts((int32_t[]) { 4, 6, 0 }, target, 4), 0);
    assert_int_equal(accept_drafts(NULL, target, 1), 0);
}

/* Id 0 past the last draft must not count as a draft that stood (cases.md P04). */
static void nothing_is_compared_past_the_last_draft(void **state)
{
    (void)state;
    assert_int_equal(accept_drafts((int32_t[]) { 7, 0, 0 }, (int32_t[]) { 7, 0, 0, 0 }, 2), 1);
}

static sequence sequence_of(int32_t *tokens, int count, int limit)
{
    return (sequence) { .tokens = tokens,
                        .count = count,
                        .computed = count - 1,
                        .prompt = count,
                        .limit = limit,
                        .end_count = 2,
                        .end_ids = { 90, 91 } };
}

static int append(sequence *s, const int32_t *tokens, int count)
{
    sequence_finish finish;
    int taken = sequence_takes(s, tokens, count, &finish);
    assert_int_equal(s->finished, SEQUENCE_RUNS); /* nothing has changed yet */
    sequence_grow(s, tokens, taken, finish);
    assert_int_equal(sequence_pending(s), 1);
    return taken;
}

static void an_end_id_cuts_at_every_index_of_a_block(void **state)
{
    (void)state;
    for (int at = 0; at < 6; at++) {
        int32_t tokens[32] = { 1, 2, 3 }, block[6] = { 10, 11, 12, 13, 14, 15 };
        block[at] = at % 2 ? 90 : 91;
        sequence s = sequence_of(tokens, 3, 32);
        assert_int_equal(append(&s, block, 6), at + 1);
        assert_int_equal(s.count, 3 + at + 1);
        assert_int_equal(s.finished, SEQUENCE_END_ID);
    }
}

static void the_limit_cuts_at_every_index_of_a_block(void **state)
{
    (void)state;
    for (int room = 1; room <= 7; room++) {
        int32_t tokens[32] = { 1, 2, 3 }, block[6] = { 10, 11, 12, 13, 14, 15 };
        sequence s = sequence_of(tokens, 3, 3 + room);
        assert_int_equal(sequence_draft_room(&s), room - 1);
        assert_int_equal(append(&s, block, 6), room < 6 ? room : 6);
        assert_int_equal(s.finished, room <= 6 ? SEQUENCE_LENGTH : SEQUENCE_RUNS);
    }
}

/* An end id that is also the last one allowed is an end, not a cut. */
static void an_end_id_at_the_limit_is_an_end(void **state)
{
    (void)state;
    int32_t tokens[8] = { 1 };
    sequence s = sequence_of(tokens, 1, 3);
    assert_int_equal(append(&s, (int32_t[]) { 4, 90, 5 }, 3), 2);
    assert_int_equal(s.finished, SEQUENCE_END_ID);
}

/* The longest match by trying every pair of ends. */
static int slow_search(const int32_t *t, int n, int longest, int *next)
{
    int best = 0;
    for (int i = 0; i < n - 1; i++) {
        int m = 0;
        while (m < longest && i - m >= 0 && t[i - m] == t[n - 1 - m])
            m++;
        if (m > 0 && m >= best) {
            best = m;
            *next = i + 1;
        }
    }
    return best;
}

static void the_search_finds_the_longest_and_latest_match(void **state)
{
    (void)state;
    int32_t t[200];
    for (uint32_t trial = 0; trial < 400; trial++) {
        int n = 1 + (int)(rng_philox(trial, 1, 0, 0, 1, 2).word[0] % 200);
        for (int i = 0; i < n; i++)
            t[i] = (int32_t)(rng_philox(trial, 2, (uint32_t)i, 0, 1, 2).word[0] % 3);
        int a = -1, b = -1, longest = 1 + (int)(trial % 9);
        int fast = ngram_search(t, n, longest, &a), slow = slow_search(t, n, longest, &b);
        assert_int_equal(fast, slow);
        if (fast > 0)
            assert_int_equal(a, b);
    }
}

static void a_loop_is_drafted_beyond_the_end_of_the_text(void **state)
{
    (void)state;
    drafter *d;
    foray_error err;
    assert_int_equal(drafter_open("ngram", &d, &err), 0);
    int32_t tokens[16] = { 9, 1, 2, 3, 1, 2, 3 };
    sequence s = sequence_of(tokens, 7, 16);
    draft out;
    d->propose(d, &s, 7, &out);
    assert_int_equal(out.count, 7);
    for (int i = 0; i < 7; i++)
        assert_int_equal(out.tokens[i], i % 3 + 1);
    d->destroy(d);
}

static void an_unknown_drafter_is_refused_with_the_choices(void **state)
{
    (void)state;
    drafter *d;
    foray_error err;
    assert_int_equal(drafter_open("eagle", &d, &err), FORAY_EUSAGE);
    assert_non_null(__builtin_strstr(err.text, "ngram"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(drafts_stand_up_to_the_first_difference),
        cmocka_unit_test(nothing_is_compared_past_the_last_draft),
        cmocka_unit_test(an_end_id_cuts_at_every_index_of_a_block),
        cmocka_unit_test(the_limit_cuts_at_every_index_of_a_block),
        cmocka_unit_test(an_end_id_at_the_limit_is_an_end),
        cmocka_unit_test(the_search_finds_the_longest_and_latest_match),
        cmocka_unit_test(a_loop_is_drafted_beyond_the_end_of_the_text),
        cmocka_unit_test(an_unknown_drafter_is_refused_with_the_choices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
