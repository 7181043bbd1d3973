/* Ends inside an accepted block: end ids, stop strings, max_tokens, the context limit, at every position: tokens,
 * text, log-probabilities and usage agree, and are those of plain decoding (cases.md B, C, E). */
#include "support/generate.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cache/cache.h"
#include "engine/score.h"
#include "support/tiny.h"

enum { LENGTH = 24, K = 5 };

static const char *model_path;
static foray_engine *plain_engine, *spec_engine;
static text base; /* LENGTH tokens of plain decoding */
static int32_t prompt[] = { 70, 80, 90, 100, 71, 81 };

static foray_request_config request_here(int max_tokens)
{
    foray_request_config c = request_of(prompt, 6, max_tokens);
    c.sampling.temperature = 0.7f;
    c.sampling.seed = 4;
    c.script = base.ids; /* every draft is right */
    c.script_count = LENGTH;
    return c;
}

static int open_engines(void **state)
{
    (void)state;
    tiny_spec spec = tiny_default();
    model_path = tiny_gguf(&spec);
    plain_engine = engine_open_path(model_path, (foray_config) { .spec = "off", .threads = 1 });
    spec_engine = engine_open_path(
        model_path, (foray_config) { .spec = "script", .spec_tokens = K, .spec_budget = K, .threads = 1 });
    foray_request_config c = request_here(LENGTH);
    c.ignore_eos = true;
    generate(plain_engine, &c, &base);
    assert_int_equal(base.count, LENGTH);
    return 0;
}

static int close_engines(void **state)
{
    (void)state;
    assert_int_equal(cache_pages_in_use(engine_cache(spec_engine)), 0);
    foray_close(plain_engine);
    foray_close(spec_engine);
    return 0;
}

/* Runs a request both ways and checks that they agree; returns the speculative text. */
static const text *both(const foray_request_config *c)
{
    static text plain, spec;
    generate(plain_engine, c, &plain);
    generate(spec_engine, c, &spec);
    assert_same_text(&plain, &spec);
    assert_int_equal(spec.account.completion_tokens, spec.count);
    return &spec;
}

static int first_position_of(int32_t id)
{
    int i = 0;
    while (base.ids[i] != id)
        i++;
    return i;
}

static void an_end_id_ends_at_its_first_place(void **state)
{
    (void)state;
    for (int at = 0; at < LENGTH; at++) {
        foray_request_config c = request_here(LENGTH);
        c.ignore_eos = true;
        c.stop_ids = &base.ids[at];
        c.stop_id_count = 1;
        const text *t = both(&c);
        assert_int_equal(t->count, first_position_of(base.ids[at]) + 1);
        assert_int_equal(t->finish, FORAY_STOP);
    }
}

static void max_tokens_are_exactly_delivered(void **state)
{
    (void)state;
    for (int most = 1; most <= LENGTH; most++) {
        foray_request_config c = request_here(most);
        c.ignore_eos = true;
        const text *t = both(&c);
        assert_int_equal(t->count, most);
        assert_int_equal(t->finish, FORAY_LENGTH);
        assert_memory_equal(t->ids, base.ids, sizeof(int32_t) * (size_t)most);
    }
}

/* No part of a stop string is ever shown, wherever it begins and ends. */
static void a_stop_string_cuts_the_text_in_front_of_it(void **state)
{
    (void)state;
    size_t bytes = strlen(base.bytes);
    assert_true(bytes > 4);
    for (size_t from = 0; from + 3 <= bytes; from++)
        for (size_t length = 1; length <= 3; length += 2) {
            char stop[8] = { 0 };
            memcpy(stop, base.bytes + from, length);
            if ((unsigned char)stop[0] >= 0x80 || (unsigned char)stop[length - 1] >= 0x80)
                continue; /* not whole characters */
            const char *stops[] = { stop };
            foray_request_config c = request_here(LENGTH);
            c.ignore_eos = true;
            c.stop = stops;
            c.stop_count = 1;
            const text *t = both(&c);
            size_t expected = (size_t)(strstr(base.bytes, stop) - base.bytes);
            assert_int_equal(strlen(t->bytes), expected);
            assert_memory_equal(t->bytes, base.bytes, expected);
            assert_int_equal(t->finish, FORAY_STOP);
        }
}

static void the_context_is_filled_and_not_overrun(void **state)
{
    (void)state;
    foray_engine *plain =
        engine_open_path(model_path, (foray_config) { .spec = "off", .context = 32, .threads = 1 });
    foray_engine *spec =
        engine_open_path(model_path, (foray_config) { .spec = "ngram", .context = 32, .threads = 1 });
    static text a, b;
    int32_t ids[32];
    for (int n = 1; n <= 31; n++) {
        for (int i = 0; i < n; i++)
            ids[i] = 60 + i % 3;
        foray_request_config c = request_of(ids, n, 1000);
        c.ignore_eos = true;
        generate(plain, &c, &a);
        generate(spec, &c, &b);
        assert_same_text(&a, &b);
        assert_int_equal(n + a.count, 32);
        assert_int_equal(a.finish, FORAY_LENGTH);
    }
    foray_request_config c = request_of(ids, 32, 1);
    foray_request r;
    foray_error err;
    assert_int_equal(foray_submit(spec, &c, &r, &err), FORAY_ELIMIT);
    foray_close(plain);
    foray_close(spec);
}

/* min_tokens: no end id before that many real tokens, one may come right after. */
static void no_end_before_min_tokens(void **state)
{
    (void)state;
    for (int at = 0; at < 6; at++)
        for (int least = 0; least <= 8; least++) {
            foray_request_config c = request_here(LENGTH);
            c.ignore_eos = true;
            c.stop_ids = &base.ids[at];
            c.stop_id_count = 1;
            c.min_tokens = least;
            const text *t = both(&c);
            for (int i = 0; i < t->count; i++)
                if (t->ids[i] == base.ids[at])
                    assert_true(i >= least && i == t->count - 1);
        }
}

/* Penalties see the drafts in front of a row: with a penalty that forbids repetition nothing repeats (J04). */
static void penalties_see_the_drafts_before_them(void **state)
{
    (void)state;
    int32_t same[LENGTH];
    for (int i = 0; i < LENGTH; i++)
        same[i] = base.ids[0];
    foray_request_config c = request_here(LENGTH);
    c.ignore_eos = true;
    c.script = same;
    c.sampling.frequency_penalty = 1000;
    const text *t = both(&c);
    for (int i = 0; i < t->count; i++)
        for (int j = 0; j < i; j++)
            assert_int_not_equal(t->ids[i], t->ids[j]);
    c.script = base.ids;
    c.sampling.presence_penalty = 1.5f;
    c.sampling.frequency_penalty = -0.5f;
    c.sampling.repeat_penalty = 1.3f;
    both(&c);
}

/* A banned id never comes, a favoured one always, at every index of a block (J03). */
static void bias_holds_on_every_row(void **state)
{
    (void)state;
    int32_t ids[2] = { base.ids[1], 99 };
    float bias[2] = { -INFINITY, 0 };
    foray_request_config c = request_here(LENGTH);
    c.ignore_eos = true;
    c.sampling.bias_ids = ids;
    c.sampling.bias = bias;
    c.sampling.bias_count = 1;
    const text *t = both(&c);
    for (int i = 0; i < t->count; i++)
        assert_int_not_equal(t->ids[i], ids[0]);
    c.sampling.bias_count = 2;
    bias[1] = 1000;
    t = both(&c);
    for (int i = 0; i < t->count; i++)
        assert_int_equal(t->ids[i], 99);
}

static void settings_that_cannot_be_are_refused(void **state)
{
    (void)state;
    foray_request r;
    foray_error err;
    const char *empty[] = { "" };
    foray_request_config good = request_here(4), bad[9];
    for (int i = 0; i < 9; i++)
        bad[i] = good;
    int32_t outside = 1 << 20;
    bad[0].prompt_count = 0;
    bad[1].sampling.temperature = -1;
    bad[2].sampling.top_p = 1.5f;
    bad[3].sampling.min_p = NAN;
    bad[4].stop = empty;
    bad[4].stop_count = 1;
    bad[5].prompt = &outside;
    bad[5].prompt_count = 1;
    bad[6].sampling.top_k = -4;
    bad[7].sampling.repeat_penalty = 0;
    bad[8].sampling.temperature = INFINITY;
    for (int i = 0; i < 9; i++) {
        assert_int_equal(foray_submit(spec_engine, &bad[i], &r, &err), FORAY_EUSAGE);
        assert_true(strlen(err.text) > 10);
    }
    both(&good);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_end_id_ends_at_its_first_place),
        cmocka_unit_test(max_tokens_are_exactly_delivered),
        cmocka_unit_test(a_stop_string_cuts_the_text_in_front_of_it),
        cmocka_unit_test(the_context_is_filled_and_not_overrun),
        cmocka_unit_test(no_end_before_min_tokens),
        cmocka_unit_test(penalties_see_the_drafts_before_them),
        cmocka_unit_test(bias_holds_on_every_row),
        cmocka_unit_test(settings_that_cannot_be_are_refused),
    };
    return cmocka_run_group_tests(tests, open_engines, close_engines);
}
