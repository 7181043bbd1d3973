/* kernel_sample_exact.c: rule `exact` where it is decided: drafts with noise of their own, kept distributions, trials.
 *
 * A language of three tokens in which what comes next depends on the token before it is spoken in rounds, as round.c plays
 * them, by the kernel on trial; a drafter speaks another one. Oracle: the language itself, filtered and multiplied out in double
 * precision, by chi-square over whole texts: so first tokens, adjacent ones, and all of them. Cheats that are known to bias must
 * fail the same bound. Seeds are fixed: a test passes always or never.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "kernel/ref/sample.h"
#include "spec/accept.h"
#include "support/kernel_runner.h"

enum { WORDS = 3, LENGTH = 3, TEXTS = 27, DRAFTS = 3, SEEDS = 20000, MAX_VOCAB = 2500 };

typedef double language[WORDS][WORDS]; /* [the token before][the next]: probabilities */

/* The first row is that of vllm #47386, in which shared noise was found; a rejected draft leaves two tokens everywhere, as where
 * it leaves one the noise does not matter. */
static const language target = { { .1, .6, .3 }, { .5, .3, .2 }, { .25, .25, .5 } };
static const language other = { { .6, .25, .15 }, { .2, .1, .7 }, { .1, .8, .1 } };

static const kernel_table *best_table(void)
{
    const kernel_table *t;
    foray_error err;
    assert_int_equal(kernel_table_get(NULL, &t, &err), 0);
    return t;
}

static void logits_of(const language l, int before, float *z)
{
    for (int i = 0; i < WORDS; i++)
        z[i] = (float)log(l[before][i]);
}

/* ---- one round after another ---- */

typedef enum { BUDGET_ALL, BUDGET_LAGGED, BUDGET_PRESENT } budget_kind;

typedef struct {
    sample_params params;
    bool certain;      /* the drafter always says the next token but one in the circle */
    bool coupled;      /* no trials: a draft stands if it is the target's own token */
    rng_use draft_use; /* RNG_DRAFT, unless it cheats */
    bool raw;          /* cheats: reports its distribution before the filters */
    budget_kind
        budget; /* whether to verify: all; by how likely the first draft of the last round was; of this one */
    int drafted, stood; /* first drafts of a round that were verified, and stood */
} game;

static void run_rows(const float *z, int rows, const int32_t *position, const sample_params *p,
                     const sample_history *h, rng_use use, int32_t *token)
{
    float logits[(DRAFTS + 1) * WORDS];
    const sample_params *params[DRAFTS + 1] = { p, p, p, p };
    memcpy(logits, z, sizeof *z * (size_t)(rows * WORDS));
    const kernel_args args = { .sample = { .rows = { NULL, rows },
                                           .logits = logits,
                                           .logits_stride = WORDS,
                                           .vocab = WORDS,
                                           .position = position,
                                           .params = params,
                                           .history = h,
                                           .use = use,
                                           .token = token } };
    runner_run(best_table(), KERNEL_SAMPLE, &args);
}

/* DRAFTS tokens to follow `before` from a position on, and what each was drawn from. */
static void draw_drafts(const game *g, int32_t before, int32_t position, int32_t *draft,
                        float drawn[DRAFTS][WORDS])
{
    for (int k = 0; k < DRAFTS; k++, position++) {
        float z[WORDS];
        const sample_history h = { .distribution = drawn[k] };
        logits_of(other, before, z);
        if (g->certain)
            draft[k] = (before + 2) % WORDS;
        else
            run_rows(z, 1, &position, &g->params, &h, g->draft_use, &draft[k]);
        for (int i = 0; g->raw && i < WORDS; i++)
            drawn[k][i] = (float)other[before][i];
        before = draft[k];
    }
}

/* The text that a seed gives, beginning after token 0. */
static void speak(game *g, uint64_t seed, int32_t *text)
{
    int32_t tokens[LENGTH + DRAFTS + 1];
    float lagged = 0;
    g->params.seed = seed;
    for (int n = 0; n < LENGTH;) {
        int32_t draft[DRAFTS], token[DRAFTS + 1], position[DRAFTS + 1], before = n > 0 ? tokens[n - 1] : 0;
        float drawn[DRAFTS][WORDS], z[(DRAFTS + 1) * WORDS];
        sample_history h[DRAFTS + 1] = { { 0 } };
        draw_drafts(g, before, n, draft, drawn);
        const float present = g->certain ? 1 : drawn[0][draft[0]];
        const float seen = g->budget == BUDGET_LAGGED ? lagged : present;
        const int keep = g->budget == BUDGET_ALL || seen > 0.5f ? DRAFTS : 0;
        lagged = present;
        for (int j = 0; j <= keep; j++) {
            position[j] = n + j;
            logits_of(target, j > 0 ? draft[j - 1] : before, z + j * WORDS);
            h[j] = (sample_history) { .draft = draft,
                                      .draft_count = j,
                                      .trial = j < keep && !g->coupled,
                                      .drawn = g->certain || j == keep ? NULL : drawn[j] };
        }
        run_rows(z, keep + 1, position, &g->params, h, RNG_GUMBEL, token);
        const int stood = accept_drafts(draft, token, keep + 1);
        g->drafted += keep > 0;
        g->stood += stood > 0;
        memcpy(tokens + n, token, sizeof *token * (size_t)(stood + 1));
        n += stood + 1;
    }
    memcpy(text, tokens, sizeof *text * LENGTH);
}

/* ---- what should come out ---- */

/* Softmax, temperature and filters of one row, from likelihoods, by counting who is before whom. */
static void filtered(const double *likely, const sample_params *s, double *p)
{
    double sum = 0, kept = 0;
    for (int i = 0; i < WORDS; i++)
        sum += p[i] = pow(likely[i], 1 / (double)s->temperature);
    for (int i = 0; i < WORDS; i++)
        p[i] /= sum;
    double all[WORDS];
    memcpy(all, p, sizeof all);
    for (int i = 0; i < WORDS; i++) {
        int rank = 0;
        double before = 0;
        for (int j = 0; j < WORDS; j++)
            if (all[j] > all[i] || (all[j] == all[i] && j < i)) {
                rank++;
                before += all[j];
            }
        bool stays = (s->top_k == 0 || rank < s->top_k) && (rank == 0 || before < (double)s->top_p);
        p[i] = stays ? all[i] : 0;
        kept += p[i];
    }
    for (int i = 0; i < WORDS; i++)
        p[i] /= kept;
}

/* Sum of (count - expected)^2 / expected over all texts, and the degrees of freedom. */
static double deviation(const int *count, const sample_params *s, int *freedom)
{
    double chi = 0;
    *freedom = -1;
    for (int t = 0; t < TEXTS; t++) {
        double expected = SEEDS, p[WORDS];
        for (int i = 0, rest = t, before = 0; i < LENGTH; i++, rest /= WORDS) {
            filtered(target[before], s, p);
            expected *= p[rest % WORDS];
            before = rest % WORDS;
        }
        if (expected == 0)
            assert_int_equal(count[t], 0);
        else
            chi += pow(count[t] - expected, 2) / expected;
        *freedom += expected > 0;
    }
    return chi;
}

/* How far the texts of all seeds are from the language: above 1 is what chance gives once in ten thousand. */
static double play(game *g)
{
    int count[TEXTS] = { 0 }, freedom;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        int32_t text[LENGTH];
        int at = 0;
        speak(g, seed, text);
        for (int i = LENGTH; i-- > 0;)
            at = at * WORDS + text[i];
        count[at]++;
    }
    const double chi = deviation(count, &g->params, &freedom);
    return chi / (freedom + 4 * sqrt(2.0 * freedom) + 8);
}

static game fair(void)
{
    return (game) { .params = { .temperature = 1, .top_p = 1, .repeat_penalty = 1 }, .draft_use = RNG_DRAFT };
}

static void texts_follow_the_target_whatever_the_drafter_says(void **state)
{
    (void)state;
    for (int kind = 0; kind < 5; kind++) {
        game g = fair();
        g.certain = kind == 1 || kind == 4;
        g.params.top_k = kind == 2 ? 2 : 0;
        g.params.top_p = kind >= 3 ? .65f : 1;
        g.params.temperature = kind == 3 ? 1.5f : 1;
        assert_true(play(&g) < 1);
    }
}

/* Sum of min(p, q), the best that a rule can do; and of p q without the trial, where nothing is shared. */
static void drafts_stand_as_often_as_the_formula_says(void **state)
{
    (void)state;
    for (int coupled = 0; coupled < 2; coupled++) {
        double agree = 0;
        game g = fair();
        g.coupled = coupled;
        for (uint64_t seed = 0; seed < SEEDS; seed++) { /* the first round: what follows token 0 */
            int32_t draft[DRAFTS], token, position = 0;
            float drawn[DRAFTS][WORDS], z[WORDS];
            g.params.seed = seed;
            draw_drafts(&g, 0, 0, draft, drawn);
            logits_of(target, 0, z);
            const sample_history h = { .draft = draft, .trial = !coupled, .drawn = drawn[0] };
            run_rows(z, 1, &position, &g.params, &h, RNG_GUMBEL, &token);
            g.stood += token == draft[0];
        }
        for (int i = 0; i < WORDS; i++)
            agree += coupled ? target[0][i] * other[0][i] : fmin(target[0][i], other[0][i]);
        assert_true(fabs(g.stood - SEEDS * agree) < 4 * sqrt(SEEDS * agree * (1 - agree)));
        game whole = fair();
        whole.coupled = coupled;
        assert_true(play(&whole) < 1);
    }
}

/* Each known to bias (cases.md P06, P07; dspark.md 3.2): the bound of the tests above is narrow enough to see it. */
static void cheats_are_seen(void **state)
{
    (void)state;
    game shared = fair(), raw = fair(), present = fair(), lagged = fair();
    shared.draft_use = RNG_RECOVER;
    assert_true(play(&shared) > 1);
    shared.draft_use = RNG_ACCEPT;
    assert_true(play(&shared) > 1);
    raw.raw = true;
    raw.params.top_k = 2;
    assert_true(play(&raw) > 1);
    present.budget = BUDGET_PRESENT;
    assert_true(play(&present) > 1);
    lagged.budget = BUDGET_LAGGED;
    assert_true(play(&lagged) < 1);
    assert_true(lagged.drafted > SEEDS / 10 && lagged.stood < lagged.drafted);
}

/* ---- bits ---- */

typedef struct {
    int32_t token;
    float logprob, distribution[MAX_VOCAB];
} drawn_row;

static void draw_row(const kernel_table *t, const float *z, int vocab, const sample_params *p,
                     sample_history h, int32_t position, drawn_row *out)
{
    static float logits[MAX_VOCAB];
    memcpy(logits, z, sizeof *z * (size_t)vocab);
    memset(out, 0x5a, sizeof *out);
    h.distribution = out->distribution;
    const kernel_args args = { .sample = { .rows = { NULL, 1 },
                                           .logits = logits,
                                           .logits_stride = (size_t)vocab,
                                           .vocab = vocab,
                                           .position = &position,
                                           .params = &p,
                                           .history = &h,
                                           .use = RNG_DRAFT,
                                           .token = &out->token,
                                           .logprob = &out->logprob } };
    runner_run(t, KERNEL_SAMPLE, &args);
}

/* Row c: of many tempers, now and then without any token that could come. */
static void make_row(float *z, int vocab, int c, uint32_t *counter)
{
    for (int i = 0; i < vocab; i++) {
        const float u = runner_float(1, counter);
        z[i] = c % 5 == 0   ? 8.0f * u * u * u
               : c % 5 == 1 ? floorf(4.0f * u)
               : c % 5 == 2 ? 0.3f * u
               : c % 5 == 3 ? (u < 0 ? (u < -0.5f ? NAN : -INFINITY) : 5.0f * u)
                            : (u > 0.97f ? INFINITY : u);
        if (c % 35 == 3)
            z[i] = NAN;
    }
}

static void every_set_tries_and_keeps_as_ref(void **state)
{
    (void)state;
    static float z[MAX_VOCAB], q[MAX_VOCAB];
    static drawn_row want, got;
    static const int vocabs[] = { 1, 2, 5, 16, 31, 63, 64, 65, 129, 1000, MAX_VOCAB };
    const kernel_table *tables[RUNNER_MAX_TABLES];
    const int sets = runner_tables(tables);
    uint32_t counter = 0;
    for (int c = 0; c < 1100; c++) {
        const int vocab = vocabs[c % 11];
        const int32_t draft[2] = { runner_below(2, &counter, vocab), runner_below(2, &counter, vocab) };
        double sum = 0;
        float most = 0;
        make_row(z, vocab, c, &counter);
        for (int i = 0; i < vocab; i++)
            q[i] = c % 3 ? (1 + runner_float(3, &counter)) / (float)vocab : 0;
        q[draft[1]] += 0.2f;
        const sample_params p = { .temperature = c % 7 ? 0.8f : 3e-5f,
                                  .top_k = c % 2 ? 0 : 1 + runner_below(4, &counter, 2000),
                                  .top_p = c % 4 ? 1.0f : 0.9f,
                                  .min_p = c % 6 ? 0.0f : 0.03f,
                                  .repeat_penalty = c % 8 ? 1.0f : 1.3f,
                                  .seed = (uint64_t)c,
                                  .want_logprob = c % 2 };
        const sample_history h = {
            .draft = draft, .draft_count = 1, .trial = c % 9 > 2, .drawn = c % 9 > 5 ? q : NULL
        };
        draw_row(kernel_table_ref(), z, vocab, &p, h, c, &want);
        assert_in_range(want.token, 0, vocab - 1);
        for (int i = 0; i < sets; i++) {
            draw_row(tables[i], z, vocab, &p, h, c, &got);
            assert_memory_equal(&got, &want, sizeof got);
        }
        for (int i = 0; i < vocab; i++) {
            sum += (double)want.distribution[i];
            most = fmaxf(most, want.distribution[i]);
        }
        assert_true(fabs(sum - 1) < 1e-4 && most > 0);
        if (!h.trial)
            assert_true(want.distribution[want.token] > 0);
    }
}

/* A draft is never replaced by itself, and never by what the row could not give; greedy rows have no trials. */
static void edges_of_a_trial(void **state)
{
    (void)state;
    static drawn_row d;
    const float z[4] = { 0, 1, -INFINITY, 0.5f }, same[4] = { 0.2f, 0.5f, 0, 0.3f },
                none[2] = { NAN, -INFINITY };
    sample_params p = { .temperature = 1, .top_p = 1, .repeat_penalty = 1 };
    int replaced = 0;
    for (int c = 0; c < 4000; c++) {
        const int32_t draft = c % 4;
        p.seed = (uint64_t)c;
        p.top_k = c % 8 < 4 ? 0 : 1;
        draw_row(best_table(), z, 4, &p, (sample_history) { .draft = &draft, .trial = true }, c, &d);
        assert_true(d.token != 2 && (p.top_k == 0 || d.token == 1));
        replaced += d.token != draft;
        /* q = p in all but rounding: the draft stands */
        if (p.top_k == 0 && draft != 2) {
            float q[4];
            memcpy(q, d.distribution, sizeof q);
            draw_row(best_table(), z, 4, &p, (sample_history) { .draft = &draft, .trial = true, .drawn = q },
                     c, &d);
            assert_int_equal(d.token, draft);
        }
        p.temperature = 0;
        draw_row(best_table(), z, 4, &p, (sample_history) { .draft = &draft, .trial = true, .drawn = same },
                 c, &d);
        assert_int_equal(d.token, 1);
        p.temperature = 1;
        draw_row(best_table(), none, 2, &p, (sample_history) { .draft = (int32_t[]) { 1 }, .trial = true }, c,
                 &d);
        assert_int_equal(d.token, 0);
        assert_true(d.distribution[0] == 1 && d.distribution[1] == 0);
    }
    assert_true(replaced > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_follow_the_target_whatever_the_drafter_says),
        cmocka_unit_test(drafts_stand_as_often_as_the_formula_says),
        cmocka_unit_test(cheats_are_seen),
        cmocka_unit_test(every_set_tries_and_keeps_as_ref),
        cmocka_unit_test(edges_of_a_trial),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
