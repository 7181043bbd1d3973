/* cases.md I, J, P: seeds, penalties and extreme settings through the engine: plain and speculative agree, alone and
 * beside others. That draws follow the distribution is tested where it is decided (unit/kernel_sample). */
#include "support/generate.h"

#include <math.h>
#include <string.h>

#include "engine/score.h"
#include "spec/round.h"
#include "support/chain.h"
#include "support/tiny.h"

enum { LENGTH = 40, PROMPT = 12 };

static const char *tiny_file;
static foray_engine *plain, *script, *ngram;
static int32_t prompt[PROMPT];

static int open_engines(void **state)
{
    (void)state;
    tiny_spec spec = tiny_default();
    spec.no_text = true;
    spec.layers = 2;
    tiny_file = tiny_gguf(&spec);
    for (int i = 0; i < PROMPT; i++)
        prompt[i] = 100 + i % 5 * 61;
    plain = engine_open_path(tiny_file, (foray_config) { .spec = "off", .threads = 1 });
    script = engine_open_path(
        tiny_file, (foray_config) { .spec = "script", .spec_budget = 5, .threads = 1, .max_requests = 8 });
    ngram = engine_open_path(
        tiny_file, (foray_config) { .spec = "ngram", .spec_budget = 7, .threads = 1, .max_requests = 8 });
    return 0;
}

static int close_engines(void **state)
{
    (void)state;
    foray_close(plain);
    foray_close(script);
    foray_close(ngram);
    return 0;
}

static foray_request_config asking(float temperature, uint64_t seed, int most)
{
    foray_request_config c = request_of(prompt, PROMPT, most);
    c.sampling.temperature = temperature;
    c.sampling.seed = seed;
    c.ignore_eos = true;
    return c;
}

/* The text of plain decoding, after checking that n-grams and a script (its own text with every fourth token wrong)
 * give the same. */
static void everywhere(foray_request_config c, text *out)
{
    static text other;
    int32_t drafts[TEXT_MOST];
    generate(plain, &c, out);
    generate(ngram, &c, &other);
    assert_same_text(out, &other);
    for (int i = 0; i < out->count; i++)
        drafts[i] = out->ids[i] ^ (i % 4 == 3);
    c.script = drafts;
    c.script_count = (size_t)out->count;
    generate(script, &c, &other);
    assert_same_text(out, &other);
}

/* I01: a seed gives its text alone, three times, and inside batches of two, five and eight. */
static void a_seed_gives_its_text_in_any_batch(void **state)
{
    (void)state;
    static text alone, together[8];
    static const int batches[] = { 1, 1, 1, 2, 5, 8 };
    foray_request_config c[8];
    for (int i = 0; i < 8; i++)
        c[i] = asking(1.1f, i == 0 ? 7 : (uint64_t)i * 1000, LENGTH);
    generate(plain, &c[0], &alone);
    for (int b = 0; b < 6; b++) {
        int at = b % batches[b]; /* any place in the batch */
        foray_request_config first = c[at];
        c[at] = c[0];
        c[0] = first;
        generate_all(ngram, c, batches[b], b % 2, together);
        assert_same_text(&alone, &together[at]);
        c[0] = c[at];
        c[at] = first;
    }
}

/* I03: after any number of steps of other texts. */
static void a_seed_does_not_care_what_ran_before(void **state)
{
    (void)state;
    static text first, later, between;
    foray_engine *e =
        engine_open_path(tiny_file, (foray_config) { .spec = "ngram", .spec_budget = 7, .threads = 1 });
    foray_request_config c = asking(1, 7, LENGTH);
    generate(e, &c, &first);
    for (int i = 1; i < 5; i++) {
        foray_request_config warm = asking(1.3f, (uint64_t)i, i == 1 ? 1 : 100 * i);
        generate(e, &warm, &between);
        generate(e, &c, &later);
        assert_same_text(&first, &later);
    }
    foray_close(e);
}

/* I04: seeds matter, all 64 bits of them. */
static void fifty_seeds_give_fifty_texts(void **state)
{
    (void)state;
    static text t[54];
    static const uint64_t odd[] = { 0, UINT64_C(1) << 31, (UINT64_C(1) << 63) - 1, UINT64_MAX };
    for (int i = 0; i < 54; i++) {
        foray_request_config c = asking(1.5f, i < 50 ? (uint64_t)i + 1 : odd[i - 50], 20);
        everywhere(c, &t[i]);
        for (int j = 0; j < i; j++)
            assert_memory_not_equal(t[i].ids, t[j].ids, 20 * sizeof(int32_t));
    }
}

/* J01: a penalty of either sign does something, and the same with drafts as without. */
static void penalties_are_heeded_on_every_path(void **state)
{
    (void)state;
    static text t[5];
    static const float frequency[] = { -2, 0, 2, 0, 0 }, presence[] = { 0, 0, 0, 2, 0 },
                       repeat[] = { 1, 1, 1, 1, 1.5f };
    int repeats[5] = { 0 };
    for (int i = 0; i < 5; i++) {
        foray_request_config c = asking(0, 1, 100);
        c.sampling.frequency_penalty = frequency[i];
        c.sampling.presence_penalty = presence[i];
        c.sampling.repeat_penalty = repeat[i];
        everywhere(c, &t[i]);
        for (int a = 0; a < 100; a++)
            for (int b = 0; b < a; b++)
                repeats[i] += t[i].ids[a] == t[i].ids[b];
    }
    assert_memory_not_equal(t[0].ids, t[2].ids, 100 * sizeof(int32_t));
    assert_true(repeats[0] > repeats[1]); /* a reward repeats more, penalties less */
    assert_true(repeats[2] < repeats[1] && repeats[3] < repeats[1] && repeats[4] < repeats[1]);
}

/* J05: drafts that were rejected leave nothing in the history that penalties see. */
static void rejected_drafts_are_not_in_the_history(void **state)
{
    (void)state;
    static text base, spec;
    int32_t wrong[100];
    for (int k = 0; k < 2; k++) {
        foray_request_config c = asking(k ? 0.8f : 0, 3, 100);
        c.sampling.presence_penalty = 1.5f;
        c.sampling.frequency_penalty = 0.3f;
        generate(plain, &c, &base);
        for (int i = 0; i < 100; i++) /* the token that would come next but one: likely to be wanted later */
            wrong[i] =
                i + 1 < 100 && base.ids[i + 1] != base.ids[i] ? base.ids[i + 1] : (base.ids[i] + 1) % 512;
        c.script = wrong;
        c.script_count = 100;
        generate(script, &c, &spec);
        assert_same_text(&base, &spec);
        assert_int_equal(spec.account.accepted, 0);
        assert_true(spec.account.drafted > 300);
    }
}

/* P05: extreme settings, beside a normal request, which they must not touch. */
static void extreme_settings_disturb_nobody(void **state)
{
    (void)state;
    static text base, normal, greedy, both[2];
    static const float temperatures[] = { 0, 1e-30f, 1e-8f, 1e-6f, 1e-5f, 1e-4f, 1e-3f, 1, 100, 3e38f };
    static const float top_ps[] = { 0, 1e-9f, 1 };
    static const int top_ks[] = { 0, 1, 513, INT32_MAX };
    foray_request_config c[2] = { asking(0.9f, 11, 12) };
    generate(plain, &c[0], &normal);
    foray_request_config plain_greedy = asking(0, 5, 12);
    generate(plain, &plain_greedy, &greedy);
    for (size_t t = 0; t < sizeof temperatures / sizeof *temperatures; t++)
        for (int p = 0; p < 3; p++)
            for (int k = 0; k < 4; k++) {
                c[1] = asking(temperatures[t], 5, 12);
                c[1].sampling.top_p = top_ps[p];
                c[1].sampling.top_k = top_ks[k];
                generate(plain, &c[1], &base);
                generate_all((p + k) % 2 ? ngram : script, c, 2, 0, both);
                assert_same_text(&normal, &both[0]);
                assert_same_text(&base, &both[1]);
                for (int i = 0; i < base.count; i++)
                    assert_true(isfinite(base.logprobs[i]) && base.ids[i] >= 0 && base.ids[i] < 512);
                if (temperatures[t] <= 1e-5f || top_ps[p] < 1 ||
                    top_ks[k] == 1) /* one candidate: as greedy */
                    assert_memory_equal(base.ids, greedy.ids, 12 * sizeof(int32_t));
            }
}

/* P05: only one token left, and none: finite, and the same everywhere. */
static void bans_of_all_but_one_and_of_all_are_survived(void **state)
{
    (void)state;
    static text t;
    static int32_t ids[512];
    static float bias[512];
    for (int i = 0; i < 512; i++) {
        ids[i] = i;
        bias[i] = i == 77 ? 0 : -INFINITY;
    }
    for (int all = 0; all < 2; all++)
        for (int k = 0; k < 2; k++) {
            foray_request_config c = asking(k ? 1.0f : 0, 5, 10);
            c.sampling.bias_ids = ids;
            c.sampling.bias = bias;
            c.sampling.bias_count = 512;
            bias[77] = all ? -INFINITY : 0;
            everywhere(c, &t);
            assert_int_equal(t.count, 10);
            for (int i = 0; i < 10; i++) {
                assert_true(isfinite(t.logprobs[i])); /* of the raw logits */
                assert_true(all || t.ids[i] == 77);
            }
        }
}

/* P04: the first and the last id of the vocabulary are ids like others, drafted or not, at every number of drafts. */
static void id_zero_and_the_last_id_are_ids_like_others(void **state)
{
    (void)state;
    static text base, spec;
    const int32_t says[] = { 0, 511, 9, 1, 510, 300 };
    int32_t drafts[48];
    const char *path = chain_gguf(says, 6);
    foray_engine *b = engine_open_path(path, (foray_config) { .spec = "off", .threads = 1 });
    foray_request_config c = request_of(&says[5], 1, 24);
    c.ignore_eos = true;
    generate(b, &c, &base);
    for (int i = 0; i < 24; i++)
        assert_int_equal(base.ids[i], says[i % 6]);
    for (int k = 1; k <= 3; k++) {
        foray_engine *e = engine_open_path(
            path, (foray_config) { .spec = "script", .spec_tokens = k, .spec_budget = k, .threads = 1 });
        for (int wrong = -1; wrong <= k; wrong++) {
            for (int i = 0; i < 24; i++) /* zeros where something else belongs, too */
                drafts[i] = wrong >= 0 && i % (k + 1) == wrong ? 0 : base.ids[i];
            c.script = drafts;
            for (size_t n = 0; n <= 24; n += 6) { /* drafts that end early */
                c.script_count = n;
                generate(e, &c, &spec);
                assert_same_text(&base, &spec);
            }
        }
        foray_close(e);
    }
    foray_close(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_seed_gives_its_text_in_any_batch),
        cmocka_unit_test(a_seed_does_not_care_what_ran_before),
        cmocka_unit_test(fifty_seeds_give_fifty_texts),
        cmocka_unit_test(penalties_are_heeded_on_every_path),
        cmocka_unit_test(rejected_drafts_are_not_in_the_history),
        cmocka_unit_test(extreme_settings_disturb_nobody),
        cmocka_unit_test(bans_of_all_but_one_and_of_all_are_survived),
        cmocka_unit_test(id_zero_and_the_last_id_are_ids_like_others),
    };
    return cmocka_run_group_tests(tests, open_engines, close_engines);
}
