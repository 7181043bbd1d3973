/* Rules of acceptance through the engine: `coupled` and `target` give the plain text, `exact` its distribution.
 *
 * A bias leaves a tiny model three tokens, so that whole texts can be counted over seeds and compared, by chi-square, with what
 * the model's own logits multiply out to in double precision. The rule itself is tested where it is decided
 * (unit/kernel_sample_exact); here, that rounds put the right drafts on trial with what they were drawn from.
 */
#include "support/generate.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/score.h"
#include "spec/chain.h"
#include "spec/round.h"
#include "support/tiny.h"
#include "support/tiny_v4.h"

enum {
    PROMPT = 12,
    VOCAB = 512,
    WORDS = 3,
    COUNTED = 4,
    TEXTS = 81,
    NODES = 40,
    MOST = 6,
    BATCH = 4,
    LENGTH = 40
};

static char target[512], other[512], sparse[512];
static const char *const rules[] = { "coupled", "exact", "target" };

static int write_models(void **state)
{
    (void)state;
    tiny_spec spec = tiny_default();
    spec.no_text = true;
    spec.layers = 1;
    snprintf(target, sizeof target, "%s", tiny_gguf(&spec));
    spec.seed += 9;
    snprintf(other, sizeof other, "%s", tiny_gguf(&spec));
    tiny_v4_spec v4 = tiny_v4_default();
    snprintf(sparse, sizeof sparse, "%s", tiny_v4_model(&v4, TINY_V4_PLAIN));
    return 0;
}

static foray_engine *open_rule(const char *path, const char *spec, const char *rule)
{
    return engine_open_path(path, (foray_config) { .spec = spec,
                                                   .draft_model = strcmp(spec, "draft") == 0 ? other : NULL,
                                                   .accept = rule,
                                                   .spec_tokens = 3,
                                                   .spec_budget = 3,
                                                   .threads = 1,
                                                   .context = 128,
                                                   .max_requests = BATCH });
}

static foray_request_config asking(const int32_t *ids, int n, uint64_t seed, float temperature, int length)
{
    foray_request_config c = request_of(ids, n, length);
    c.sampling.temperature = temperature;
    c.sampling.seed = seed;
    c.ignore_eos = true;
    return c;
}

/* ---- three words ---- */

static const int32_t word[WORDS] = { 7, 300, 511 };
static int32_t banned[VOCAB], prompt[PROMPT];
static float bias[VOCAB];

static foray_request_config three_words(uint64_t seed)
{
    foray_request_config c = asking(prompt, PROMPT, seed, 1.5f, MOST);
    int n = 0;
    for (int i = 0; i < VOCAB; i++)
        if (i != word[0] && i != word[1] && i != word[2]) {
            banned[n] = i;
            bias[n++] = -INFINITY;
        }
    for (int i = 0; i < PROMPT; i++)
        prompt[i] = word[i * i % WORDS];
    c.sampling.bias_ids = banned;
    c.sampling.bias = bias;
    c.sampling.bias_count = (size_t)n;
    return c;
}

/* Probabilities of the words, from the logits of the last position. */
static int weigh(void *user, size_t position, const float *logits)
{
    double *p = user, sum = 0;
    (void)position;
    for (int i = 0; i < WORDS; i++)
        sum += p[i] = exp(((double)logits[word[i]] - (double)logits[word[0]]) / 1.5);
    for (int i = 0; i < WORDS; i++)
        p[i] /= sum;
    return 0;
}

/* chance[t]: of the first COUNTED words, base 3, the first word in the highest place. */
static void multiply_out(double *chance)
{
    static double of_node[NODES + TEXTS]; /* a tree: node n is followed by 3 n + 1 … 3 n + 3 */
    foray_engine *e =
        engine_open_path(target, (foray_config) { .spec = "off", .threads = 1, .context = 128 });
    of_node[0] = 1;
    for (int n = 0; n < NODES; n++) {
        int32_t ids[PROMPT + COUNTED];
        double p[WORDS];
        int depth = 0, at = n;
        foray_error err;
        for (int up = n; up > 0; up = (up - 1) / WORDS)
            depth++;
        memcpy(ids, prompt, sizeof prompt);
        for (int i = depth; i-- > 0; at = (at - 1) / WORDS)
            ids[PROMPT + i] = word[(at - 1) % WORDS];
        const size_t count = (size_t)(PROMPT + depth);
        assert_int_equal(engine_score(e, ids, count, 0, count - 1, weigh, p, NULL, &err), 0);
        for (int i = 0; i < WORDS; i++)
            of_node[WORDS * n + 1 + i] = of_node[n] * p[i];
    }
    memcpy(chance, of_node + NODES, sizeof *chance * TEXTS);
    foray_close(e);
}

/* Rare texts count as one, so that chi-square holds. */
static void assert_distributed(const int *count, const double *chance, int draws)
{
    double chi = 0, rare = 0;
    int freedom = 0, rare_count = 0;
    for (int t = 0; t < TEXTS; t++) {
        const double expected = chance[t] * draws;
        if (expected < 8) {
            rare += expected;
            rare_count += count[t];
            continue;
        }
        chi += pow(count[t] - expected, 2) / expected;
        freedom++;
    }
    if (rare > 0)
        chi += pow(rare_count - rare, 2) / rare;
    if (!(chi < freedom + 4 * sqrt(2.0 * freedom) + 8))
        fail_msg("chi-square %.0f with %d degrees of freedom", chi, freedom);
    assert_true(freedom > 15);
}

/* Words that a script says, whatever the target does. */
static const int32_t script[MOST] = { 7, 511, 300, 7, 300, 511 };

static void exact_texts_have_the_distribution_of_plain_ones(void **state)
{
    (void)state;
    static const char *const specs[] = { "draft", "script", "ngram" };
    static text t[BATCH];
    double chance[TEXTS];
    three_words(0);
    multiply_out(chance);
    for (int s = 0; s < 3; s++) {
        enum { SEEDS = 2000 };
        int count[TEXTS] = { 0 };
        int64_t drafted = 0, accepted = 0;
        foray_engine *e = open_rule(target, specs[s], "exact");
        for (uint64_t seed = 0; seed < SEEDS; seed += BATCH) {
            foray_request_config c[BATCH];
            for (int i = 0; i < BATCH; i++) {
                c[i] = three_words(seed + (uint64_t)i);
                c[i].script = script;
                c[i].script_count = MOST;
            }
            generate_all(e, c, BATCH, 0, t);
            for (int i = 0; i < BATCH; i++) {
                int at = 0;
                for (int k = 0; k < COUNTED; k++)
                    at = at * WORDS + (t[i].ids[k] == word[1]) + 2 * (t[i].ids[k] == word[2]);
                count[at]++;
                drafted += t[i].account.drafted;
                accepted += t[i].account.accepted;
            }
        }
        assert_distributed(count, chance, SEEDS);
        assert_true(accepted > SEEDS / 2 && accepted < drafted);
        foray_close(e);
    }
}

/* ---- texts ---- */

static void texts_of_rules(const char *path, const char *spec)
{
    static text plain[4], said, again;
    int32_t ids[PROMPT];
    foray_engine *base = open_rule(path, "off", NULL);
    random_ids(3, PROMPT, foray_engine_info(base).vocab, ids);
    for (uint64_t seed = 0; seed < 4; seed++) {
        foray_request_config c = asking(ids, PROMPT, seed, seed ? 1 : 0, LENGTH);
        generate(base, &c, &plain[seed]);
    }
    for (int r = 0; r < 3; r++) {
        foray_engine *e = open_rule(path, spec, rules[r]);
        int others = 0;
        assert_string_equal(foray_engine_info(e).accept, rules[r]);
        for (uint64_t seed = 0; seed < 4; seed++) { /* 0: greedy */
            foray_request_config c = asking(ids, PROMPT, seed, seed ? 1 : 0, LENGTH);
            generate(e, &c, &said);
            generate(e, &c, &again);
            assert_same_text(&said, &again);
            assert_true(said.account.drafted > 0);
            if (seed == 0 || strcmp(rules[r], "exact") != 0)
                assert_same_text(&said, &plain[seed]);
            else
                others += memcmp(said.ids, plain[seed].ids, sizeof *said.ids * LENGTH) != 0;
        }
        assert_true(strcmp(rules[r], "exact") != 0 || strcmp(spec, "ngram") == 0 || others > 0);
        foray_close(e);
    }
    foray_close(base);
}

static void coupled_and_target_texts_are_plain_and_greedy_ones_always(void **state)
{
    (void)state;
    texts_of_rules(target, "draft");
    texts_of_rules(target, "ngram");
    texts_of_rules(sparse, "nextn");
}

/* What stands when a model drafts for itself: everything where the noise is shared or p = q, not where noises differ. */
static void a_model_that_drafts_for_itself_tells_the_rules_apart(void **state)
{
    (void)state;
    static text said;
    int32_t ids[PROMPT];
    random_ids(3, PROMPT, VOCAB, ids);
    for (int r = 0; r < 3; r++) {
        foray_engine *e = engine_open_path(target, (foray_config) { .spec = "draft",
                                                                    .draft_model = target,
                                                                    .accept = rules[r],
                                                                    .spec_budget = 3,
                                                                    .threads = 1,
                                                                    .context = 128 });
        foray_request_config c = asking(ids, PROMPT, 5, 0.9f, LENGTH);
        c.sampling.top_p = 0.9f;
        generate(e, &c, &said);
        assert_true(said.account.drafted > 0);
        assert_true((said.account.accepted == said.account.drafted) == (strcmp(rules[r], "target") != 0));
        foray_close(e);
    }
}

/* ---- what the budget is told ---- */

typedef struct {
    float last;             /* probability of the first draft of the round before; 0: there was none */
    int rounds, unlike_now; /* rounds; those in which the present draft would have said something else */
} listener;

static int class_of(float probability)
{
    return probability * DRAFT_SIGNALS >= DRAFT_SIGNALS ? DRAFT_SIGNALS - 1
                                                        : (int)(probability * DRAFT_SIGNALS);
}

static int listen_in(void *user, const plan_member *m)
{
    listener *l = user;
    const float present = m->draft.drawn[m->draft.tokens[0]];
    assert_in_range(m->draft.signal, class_of(l->last - 1e-4f), class_of(l->last + 1e-4f));
    l->unlike_now += m->draft.signal != class_of(present);
    l->rounds++;
    l->last = present;
    return m->draft.count;
}

/* dspark.md 3.2: a choice that sees the draft it decides about prefers some tokens. */
static void under_exact_the_budget_knows_of_settled_drafts_only(void **state)
{
    (void)state;
    static text said;
    int32_t ids[PROMPT];
    foray_engine *e = open_rule(target, "draft", "exact");
    random_ids(4, PROMPT, VOCAB, ids);
    listener l = { 0 };
    round_set_hooks(engine_round(e), &(round_hooks) { .user = &l, .keep = listen_in });
    foray_request_config c = asking(ids, PROMPT, 1, 1, 100);
    generate(e, &c, &said);
    assert_true(l.rounds > 25 && l.unlike_now > 5);
    foray_close(e);
}

static void destroy_nothing(chain_body *b)
{
    (void)b;
}

static void distributions_that_memory_should_not_be_spent_on_are_refused(void **state)
{
    (void)state;
    drafter *d;
    foray_error err = { 0 };
    chain_body huge = { .name = "huge", .vocab = 1 << 20, .destroy = destroy_nothing };
    chain_config c = { .body = &huge, .slots = 65, .drawing = { ACCEPT_EXACT, 15 } };
    assert_int_equal(chain_open(&c, &d, &err), FORAY_ELIMIT);
    assert_non_null(strstr(err.text, "4.1 GB"));
    assert_non_null(strstr(err.text, "--spec-tokens"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exact_texts_have_the_distribution_of_plain_ones),
        cmocka_unit_test(coupled_and_target_texts_are_plain_and_greedy_ones_always),
        cmocka_unit_test(a_model_that_drafts_for_itself_tells_the_rules_apart),
        cmocka_unit_test(under_exact_the_budget_knows_of_settled_drafts_only),
        cmocka_unit_test(distributions_that_memory_should_not_be_spent_on_are_refused),
    };
    return cmocka_run_group_tests(tests, write_models, NULL);
}
