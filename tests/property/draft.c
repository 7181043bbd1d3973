/* P1 with a smaller model as the drafter: whatever it drafts, however much it owes, the text is the plain one. A model that
 * drafts for itself is never wrong, greedy or sampled: it draws with the target's noise. Models that do not fit are refused.
 */
#include "support/generate.h"

#include <stdio.h>
#include <string.h>

#include "base/rng.h"
#include "cache/cache.h"
#include "engine/score.h"
#include "model/deepseek4_config.h"
#include "spec/round.h"
#include "support/tiny.h"
#include "support/tiny_v4.h"

enum { LENGTH = 40, PROMPT = 150, CONTEXT = 256, REQUESTS = 3 };

static char target[512], other[512], sparse[512];

static int write_models(void **state)
{
    (void)state;
    tiny_spec spec = tiny_default();
    snprintf(target, sizeof target, "%s", tiny_gguf(&spec));
    spec.layers = 1;
    spec.seed += 9;
    snprintf(other, sizeof other, "%s", tiny_gguf(&spec));
    tiny_v4_spec v4 = tiny_v4_default();
    snprintf(sparse, sizeof sparse, "%s", tiny_v4_model(&v4, TINY_V4_PLAIN));
    return 0;
}

static foray_engine *open_pair(const char *main_model, const char *small, int most)
{
    return engine_open_path(main_model, (foray_config) { .spec = small ? "draft" : "off",
                                                         .draft_model = small,
                                                         .spec_budget = most,
                                                         .threads = 2,
                                                         .context = CONTEXT,
                                                         .prefill_chunk = 32,
                                                         .max_requests = REQUESTS });
}

static foray_request_config asking(const int32_t *ids, int n, uint64_t seed)
{
    foray_request_config c = request_of(ids, n, LENGTH);
    c.sampling.temperature = seed ? 1 : 0;
    c.sampling.seed = seed;
    c.ignore_eos = true;
    return c;
}

/* Of every budget; all of the drafts stand where the model drafts for itself. */
static void same_text(const char *main_model, const char *small, bool itself)
{
    static text expected, said;
    int32_t ids[PROMPT];
    foray_engine *plain = open_pair(main_model, NULL, 0);
    random_ids(7, PROMPT, foray_engine_info(plain).vocab, ids);
    for (int most = 0; most <= 3; most++) {
        foray_engine *e = open_pair(main_model, small, most);
        for (uint64_t seed = 0; seed < 3; seed++)
            for (int n = 1; n <= PROMPT; n += 149 - 40 * (int)seed) {
                foray_request_config c = asking(ids, n, seed);
                generate(plain, &c, &expected);
                generate(e, &c, &said);
                assert_same_text(&said, &expected);
                if (most > 0)
                    assert_true(said.account.drafted >= LENGTH / 4);
                if (itself)
                    assert_int_equal(said.account.accepted, said.account.drafted);
                else if (most == 3)
                    assert_true(said.account.accepted < said.account.drafted);
            }
        assert_int_equal(cache_pages_in_use(engine_cache(e)), 0);
        foray_close(e);
    }
    foray_close(plain);
}

static void a_model_that_drafts_for_itself_is_never_wrong(void **state)
{
    (void)state;
    same_text(target, target, true);
}

static void another_model_changes_no_token(void **state)
{
    (void)state;
    same_text(target, other, false);
}

static void models_of_two_families_go_together(void **state)
{
    (void)state;
    same_text(sparse, sparse, true);
}

/* Another model drafts: the NextN layer costs neither weights nor cache. */
static void a_drafter_that_is_not_used_is_not_loaded(void **state)
{
    (void)state;
    foray_config c = { .model = sparse, .spec = "off", .threads = 1, .context = CONTEXT };
    uint64_t weights[3], cached[3];
    for (int i = 0; i < 3; i++) {
        foray_engine *e = engine_open_path(sparse, c);
        weights[i] = foray_engine_info(e).weight_bytes;
        cached[i] = foray_engine_info(e).cache_bytes;
        assert_string_equal(foray_engine_info(e).spec, i == 0 ? "off" : i == 1 ? "nextn" : "draft");
        foray_close(e);
        c.spec = "auto";
        c.draft_model = i == 1 ? sparse : NULL;
    }
    assert_true(weights[1] > weights[0] && cached[1] > cached[0]);
    assert_int_equal(weights[2], weights[0]);
    assert_int_equal(cached[2], cached[0]);
}

/* ---- left out of most rounds ---- */

typedef struct {
    uint32_t draws;
    int pauses, owed;
    const drafter *d;
} idler;

/* Prompts are left out, and are longer than what one extend reads; later every other round. */
static bool often(void *user, const round_plan *p)
{
    idler *u = user;
    bool pause = p->phase == PHASE_PREFILL || rng_philox(u->draws++, 5, 0, 0, 1, 2).word[0] % 2;
    u->owed = p->owed > u->owed ? p->owed : u->owed;
    u->pauses += pause;
    return pause;
}

static void what_is_owed_is_read_in_parts_and_drafts_stand_again(void **state)
{
    (void)state;
    static text expected[REQUESTS], said[REQUESTS];
    int32_t ids[REQUESTS][PROMPT];
    foray_request_config c[REQUESTS];
    foray_engine *plain = open_pair(target, NULL, 0), *e = open_pair(target, target, 2);
    idler u = { .d = round_get_drafter(engine_round(e)) };
    for (int i = 0; i < REQUESTS; i++) {
        random_ids(20 + i, PROMPT, foray_engine_info(plain).vocab, ids[i]);
        c[i] = asking(ids[i], PROMPT - 10 * i, (uint64_t)i);
        generate(plain, &c[i], &expected[i]);
    }
    round_set_hooks(engine_round(e), &(round_hooks) { .user = &u, .pause = often });
    generate_all(e, c, REQUESTS, 2, said);
    int drafted = 0;
    for (int i = 0; i < REQUESTS; i++) {
        assert_same_text(&said[i], &expected[i]);
        assert_int_equal(said[i].account.accepted, said[i].account.drafted);
        drafted += (int)said[i].account.drafted;
    }
    assert_true(drafted > 0 && u.pauses > 10);
    assert_true(u.owed > u.d->most_extended);
    foray_close(plain);
    foray_close(e);
}

/* ---- models that do not fit ---- */

static void assert_refused(foray_config c, const char *words)
{
    foray_engine *e = NULL;
    foray_error err = { 0 };
    if (foray_open(&c, &e, &err) == 0)
        fail_msg("opened, where '%s' was expected", words);
    if (!strstr(err.text, words))
        fail_msg("not '%s' but: %s", words, err.text);
}

/* The target's file with one letter of one token changed. */
static const char *with_another_token(void)
{
    static char bytes[4 << 20], path[512];
    snprintf(path, sizeof path, "%s", tiny_path(tiny_folder(), "other.gguf"));
    FILE *from = fopen(target, "rb"), *to = fopen(path, "wb");
    assert_non_null(from);
    assert_non_null(to);
    size_t n = fread(bytes, 1, sizeof bytes, from);
    assert_true(n < sizeof bytes);
    char *token = memmem(bytes, n, "~filler400~", 11);
    assert_non_null(token);
    token[6] = 'x';
    assert_int_equal(fwrite(bytes, 1, n, to), n);
    fclose(from);
    assert_int_equal(fclose(to), 0);
    return path;
}

static void count_call(void *user, const char *what, uint64_t done, uint64_t total)
{
    (void)what;
    (void)done;
    (void)total;
    ++*(int *)user;
}

static void models_that_do_not_fit_are_refused_by_what_differs(void **state)
{
    (void)state;
    tiny_spec spec = tiny_default();
    foray_config c = { .model = target, .spec = "draft", .threads = 1, .context = CONTEXT };
    int packed = 0;
    c.progress = count_call;
    c.progress_user = &packed;
    assert_refused(c, "--draft-model");
    c.draft_model = "/nowhere/model.gguf";
    assert_refused(c, "/nowhere/model.gguf");
    c.draft_model = with_another_token();
    assert_refused(c, "'~fillex400~' there and '~filler400~'");
    assert_int_equal(packed, 0); /* before any weights are read */
    spec.context = 128;
    c.draft_model = tiny_gguf(&spec);
    assert_refused(c, "-c 128");
    spec.context = 512;
    spec.vocab = 400;
    c.draft_model = tiny_gguf(&spec);
    assert_refused(c, "it has 400 tokens");
    assert_true(packed > 0);
}

/* Q03: rows of padding, which could win, are never proposed. */
static void a_drafter_with_more_tokens_proposes_none_of_them(void **state)
{
    (void)state;
    static text expected, said;
    tiny_spec spec = tiny_default();
    int32_t ids[PROMPT];
    spec.vocab += 64;
    spec.no_text = true;
    char padded[512];
    snprintf(padded, sizeof padded, "%s", tiny_gguf(&spec));
    foray_engine *plain = open_pair(target, NULL, 0), *e = open_pair(target, padded, 3);
    random_ids(9, PROMPT, foray_engine_info(plain).vocab, ids);
    for (uint64_t seed = 0; seed < 4; seed++) {
        foray_request_config c = asking(ids, 30, seed);
        generate(plain, &c, &expected);
        generate(e, &c, &said);
        assert_same_text(&said, &expected);
        assert_true(said.account.drafted > 0);
    }
    foray_close(plain);
    foray_close(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_model_that_drafts_for_itself_is_never_wrong),
        cmocka_unit_test(another_model_changes_no_token),
        cmocka_unit_test(models_of_two_families_go_together),
        cmocka_unit_test(a_drafter_that_is_not_used_is_not_loaded),
        cmocka_unit_test(what_is_owed_is_read_in_parts_and_drafts_stand_again),
        cmocka_unit_test(models_that_do_not_fit_are_refused_by_what_differs),
        cmocka_unit_test(a_drafter_with_more_tokens_proposes_none_of_them),
    };
    return cmocka_run_group_tests(tests, write_models, NULL);
}
