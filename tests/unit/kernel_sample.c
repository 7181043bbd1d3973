/* kernel_sample.c: the sampler chooses what design.md 5 says, with the right distribution, the same on every
 * instruction set.
 *
 * Oracles: hand-made rows, filters recomputed in double precision, chi-square against the softmax. Seeds are
 * fixed, so a test passes always or never. One thread.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/cpu/sample_scan.h"
#include "kernel/ref/sample.h"
#include "support/kernel_runner.h"

enum { MAX_VOCAB = 5000, MAX_ROWS = 64 };

static uint32_t counter;
static const sample_history no_history = { 0 };

/* Everything off: draws from the softmax of the logits. */
static sample_params plain(uint64_t seed)
{
    return (sample_params) { .temperature = 1.0f, .top_p = 1.0f, .repeat_penalty = 1.0f, .seed = seed };
}

typedef struct {
    int32_t token;
    float logprob;
} drawn;

/* One row through one instruction set; z is left alone. */
static drawn draw(const kernel_table *t, const float *z, int vocab, sample_params p, sample_history h,
                  int32_t position)
{
    static float logits[MAX_VOCAB];
    drawn d = { -1, 77 };
    const sample_params *params = &p;
    memcpy(logits, z, (size_t)vocab * sizeof *z);
    const kernel_args args = { .sample = { .rows = { NULL, 1 },
                                           .logits = logits,
                                           .logits_stride = (size_t)vocab,
                                           .vocab = vocab,
                                           .position = &position,
                                           .params = &params,
                                           .history = &h,
                                           .token = &d.token,
                                           .logprob = &d.logprob } };
    runner_run(t, KERNEL_SAMPLE, &args);
    return d;
}

static const kernel_table *best_table(void)
{
    const kernel_table *t;
    foray_error err;
    assert_int_equal(kernel_table_get(NULL, &t, &err), 0);
    return t;
}

/* The same draw by ref and by all others: equal token, equal bits of the log-probability. */
static drawn draw_everywhere(const float *z, int vocab, sample_params p, sample_history h, int32_t position)
{
    const kernel_table *tables[RUNNER_MAX_TABLES];
    const drawn want = draw(kernel_table_ref(), z, vocab, p, h, position);
    for (int i = runner_tables(tables) - 1; i >= 0; i--) {
        const drawn got = draw(tables[i], z, vocab, p, h, position);
        assert_int_equal(got.token, want.token);
        assert_memory_equal(&got.logprob, &want.logprob, sizeof(float));
    }
    assert_in_range(want.token, 0, vocab - 1);
    return want;
}

/* Rows of many tempers. */
static void make_row(float *z, int vocab, int kind)
{
    for (int i = 0; i < vocab; i++) {
        const float u = runner_float(kind + 20, &counter);
        z[i] = kind == 0   ? 6.0f * u * u * u + 2.0f * runner_float(5, &counter) /* a few stand out */
               : kind == 1 ? 1.5f                                                /* all equal */
               : kind == 2 ? -INFINITY                                           /* all but one */
               : kind == 3 ? floorf(4.0f * u)                                    /* many ties */
               : kind == 4 ? 1e4f * u                                            /* far apart */
               : kind == 5 ? (u < 0.2f ? NAN : 3.0f * u)                         /* broken ones among them */
               : kind == 6 ? (u > 0.97f ? INFINITY : u)
               : kind == 7 ? NAN
               : kind == 9 ? 0.3f * u          /* flat, all different */
                           : 0.01f * u + 1e3f; /* flat, far from 0 */
    }
    if (kind == 2)
        z[runner_below(6, &counter, vocab)] = -3.0f;
}

static void every_set_chooses_as_ref(void **state)
{
    (void)state;
    static float z[MAX_VOCAB];
    static const int vocabs[] = { 1, 2, 5, 16, 31, 63, 64, 65, 129, 1000, 2500 };
    static const float temperature[] = { 1.0f,  0.7f,  0.0f, 1e-8f,  1e-6f, 1e-5f,
                                         1e-4f, 1e-3f, 5.0f, 100.0f, 3e38f, INFINITY };
    static const float top_p[] = { 1.0f, 0.95f, 0.0f, 1e-9f, 0.5f, 0.999f, 1.0f };
    static const float min_p[] = { 0.0f, 0.05f, 0.9f, 1.0f, 0.0f };
    for (int c = 0; c < 1800; c++) {
        const int vocab = vocabs[c % 11], kind = c % 9;
        const int top_k[] = { 0, 1, 40, 3, vocab - 1, vocab, vocab + 1, 0 };
        const int32_t ids[4] = { 0, runner_below(1, &counter, vocab), vocab, -1 };
        const float bias[4] = { 0.5f, -2.0f, 1.0f, 1.0f };
        make_row(z, vocab, kind);
        sample_params p = plain((uint64_t)c * 0x9e3779b97f4a7c15u);
        p.temperature = temperature[runner_below(8, &counter, 12)];
        p.top_p = top_p[runner_below(9, &counter, 7)];
        p.min_p = min_p[runner_below(10, &counter, 5)];
        p.top_k = top_k[runner_below(11, &counter, 8)];
        p.want_logprob = c % 2;
        sample_history h = no_history;
        if (c % 5 == 0) {
            p.repeat_penalty = 1.3f;
            p.frequency_penalty = 0.25f;
            p.presence_penalty = -0.5f;
            p.bias_ids = ids;
            p.bias = bias;
            p.bias_count = 4;
            p.banned = ids + 1;
            p.banned_count = c % 3;
            h = (sample_history) { .tokens = ids, .count = 4, .draft = ids + 1, .draft_count = 2 };
        }
        draw_everywhere(z, vocab, p, h, c);
    }
}

static void greedy_takes_the_largest_and_the_lowest_id_of_equals(void **state)
{
    (void)state;
    static float z[MAX_VOCAB];
    const float few[] = { -1.0f, 0.0f, 4.0f, -0.0f, 4.0f };
    sample_params p = plain(1);
    for (int i = 0; i < 3; i++) {
        p.temperature = i == 0 ? 0.0f : i == 1 ? 1e-8f : NAN;
        assert_int_equal(draw_everywhere(few, 5, p, no_history, 3).token, 2);
    }
    for (int at = 0; at < 700; at += 13) {
        for (int i = 0; i < 700; i++)
            z[i] = i < at ? -2.0f : -1.0f;
        assert_int_equal(draw_everywhere(z, 700, p, no_history, 0).token, at);
    }
    const float zeros[] = { -1.0f, -0.0f, 0.0f };
    assert_int_equal(draw_everywhere(zeros, 3, p, no_history, 0).token, 1);
}

static void broken_logits_are_never_chosen_while_another_is_left(void **state)
{
    (void)state;
    for (int seed = 0; seed < 50; seed++) {
        const float z[] = { NAN, -1e30f, NAN, -INFINITY, 2.0f };
        assert_int_equal(draw_everywhere(z, 5, plain((uint64_t)seed), no_history, 7).token, 4);
        const float only[] = { NAN, -INFINITY, NAN, -3e38f };
        assert_int_equal(draw_everywhere(only, 4, plain((uint64_t)seed), no_history, 7).token, 3);
        const float none[] = { NAN, -INFINITY, NAN };
        assert_int_equal(draw_everywhere(none, 3, plain((uint64_t)seed), no_history, 7).token, 0);
        const float infinite[] = { 1.0f, INFINITY, 3e38f };
        assert_int_equal(draw_everywhere(infinite, 3, plain((uint64_t)seed), no_history, 7).token, 1);
    }
}

static void extreme_settings_have_their_limits(void **state)
{
    (void)state;
    static float z[MAX_VOCAB];
    for (int c = 0; c < 60; c++) {
        make_row(z, 300, 0);
        sample_params p = plain((uint64_t)c);
        p.temperature = 0;
        const int32_t top = draw_everywhere(z, 300, p, no_history, c).token;
        p.temperature = 1;
        p.top_k = 1;
        assert_int_equal(draw_everywhere(z, 300, p, no_history, c).token, top);
        p.top_k = 0;
        p.top_p = c % 2 ? 0.0f : 1e-9f;
        assert_int_equal(draw_everywhere(z, 300, p, no_history, c).token, top);
        p.top_p = 1;
        p.min_p = 1;
        assert_int_equal(draw_everywhere(z, 300, p, no_history, c).token, top);
        p.min_p = 0;
        p.temperature = 1e-4f;
        assert_int_equal(draw_everywhere(z, 300, p, no_history, c).token, top);
        p.temperature = 1;
        const int32_t free_choice = draw_everywhere(z, 300, p, no_history, c).token;
        p.top_k = 301; /* as if it were off */
        p.top_p = NAN;
        p.min_p = NAN;
        assert_int_equal(draw_everywhere(z, 300, p, no_history, c).token, free_choice);
    }
}

static void penalties_bias_and_bans_are_as_documented(void **state)
{
    (void)state;
    const float z[] = { 2.0f, -1.0f, 1.9f, 1.0f, 0.5f };
    const int32_t tokens[] = { 0, 0, 4 }, draft[] = { 0, 2, 99 };
    const sample_history h = { .tokens = tokens, .count = 3, .draft = draft, .draft_count = 3 };
    float out[5];
    int32_t counts[5] = { 7, 7, 7, 7, 7 };
    sample_params p = plain(0);
    p.temperature = 0;

    memcpy(out, z, sizeof z); /* seen: 0 three times, 2 and 4 once */
    p.repeat_penalty = 2.0f;
    sample_adjust(out, 5, &p, &h, counts);
    const float repeated[] = { 1.0f, -1.0f, 0.95f, 1.0f, 0.25f };
    assert_memory_equal(out, repeated, sizeof out);
    assert_int_equal(draw_everywhere(z, 5, p, h, 0).token, 0);

    memcpy(out, z, sizeof z);
    p.repeat_penalty = 1.0f;
    p.frequency_penalty = 0.5f;
    p.presence_penalty = 0.25f;
    sample_adjust(out, 5, &p, &h, counts);
    const float counted[] = { 0.25f, -1.0f, 1.9f - 0.5f - 0.25f, 1.0f, -0.25f };
    for (int i = 0; i < 5; i++)
        assert_true(fabsf(out[i] - counted[i]) < 1e-6f);

    /* With the zeros and the 4 as a prompt, 0 and 2 were generated once each, and 4 only repeats. */
    sample_history prompted = h;
    prompted.prompt = 3;
    p.repeat_penalty = 2.0f;
    memcpy(out, z, sizeof z);
    sample_adjust(out, 5, &p, &prompted, counts);
    const float generated[] = { 0.25f, -1.0f, 0.95f - 0.75f, 1.0f, 0.25f };
    for (int i = 0; i < 5; i++)
        assert_true(fabsf(out[i] - generated[i]) < 1e-6f);

    const int32_t bias_ids[] = { 1, 3, 7 }, banned[] = { 1, 5, -1 };
    const float bias[] = { 100.0f, 10.0f, 1e9f };
    p = plain(0);
    p.temperature = 0;
    p.bias_ids = bias_ids;
    p.bias = bias;
    p.bias_count = 3;
    assert_int_equal(draw_everywhere(z, 5, p, h, 0).token, 1);
    p.banned = banned;
    p.banned_count = 3;
    assert_int_equal(draw_everywhere(z, 5, p, h, 0).token, 3);
    p.repeat_penalty = 0.5f; /* below zero: multiplied, so a repeated bad token gets less bad */
    memcpy(out, (const float[]) { -4.0f, 1, 1, 1, 1 }, sizeof out);
    sample_adjust(out, 5, &p, &h, counts);
    assert_true(out[0] == -2.0f && out[2] == 2.0f && out[1] == -INFINITY && out[3] == 11.0f);
}

static void log_probabilities_are_of_the_raw_logits(void **state)
{
    (void)state;
    static float z[MAX_VOCAB];
    const int32_t banned[] = { 3 };
    for (int c = 0; c < 40; c++) {
        const int vocab = 4 + 37 * c;
        make_row(z, vocab, c % 2 ? 0 : 3);
        sample_params p = plain((uint64_t)c);
        p.temperature = 0.3f * (float)(c % 4);
        p.top_k = 7;
        p.want_logprob = 1;
        p.banned = banned;
        p.banned_count = 1;
        const drawn d = draw_everywhere(z, vocab, p, no_history, c);
        double sum = 0;
        for (int i = 0; i < vocab; i++)
            sum += exp((double)z[i] - (double)z[d.token]);
        assert_true(fabs((double)d.logprob + log(sum)) < 1e-5);
        p.want_logprob = 0;
        assert_true(draw_everywhere(z, vocab, p, no_history, c).logprob ==
                    77); /* not asked for: not written */
    }
}

/* ---- filters, against sorting in double precision ---- */

static const float *sorted_row;

static int by_rank(const void *a, const void *b)
{
    const int i = *(const int *)a, j = *(const int *)b;
    return sorted_row[i] > sorted_row[j] ? -1 : sorted_row[i] < sorted_row[j] ? 1 : i - j;
}

/* kept[i]: 0 if the filters must not keep token i, 1 if they must and `draws` draws will show it, else 2. */
static void filter_in_double(const float *z, int vocab, const sample_params *p, int draws, int *kept)
{
    static int order[MAX_VOCAB];
    double mass[MAX_VOCAB], total = 0, before = 0;
    for (int i = 0; i < vocab; i++)
        order[i] = i;
    sorted_row = z;
    qsort(order, (size_t)vocab, sizeof *order, by_rank);
    const int k = p->top_k > 0 && p->top_k < vocab ? p->top_k : vocab;
    for (int i = 0; i < k; i++)
        total += mass[i] = exp(((double)z[order[i]] - (double)z[order[0]]) / (double)p->temperature);
    for (int i = 0; i < vocab; i++) {
        kept[order[i]] = i < k;
        if (i >= k)
            continue;
        const double share = before / total, slack = 1e-5;
        if (p->top_p < 1 && i > 0)
            kept[order[i]] = share < (double)p->top_p - slack ? 1 : share > (double)p->top_p + slack ? 0 : 2;
        if (mass[i] < (double)p->min_p * (1 - slack))
            kept[order[i]] = 0;
        else if (mass[i] < (double)p->min_p * (1 + slack) && mass[i] < 1 && kept[order[i]])
            kept[order[i]] = 2;
        if (draws * mass[i] / total < 20 && kept[order[i]])
            kept[order[i]] = 2;
        before += mass[i];
    }
}

static void filters_keep_what_they_promise(void **state)
{
    (void)state;
    static float z[MAX_VOCAB];
    static int kept[MAX_VOCAB], seen[MAX_VOCAB];
    enum { FILTER_DRAWS = 4000 };
    const kernel_table *best = best_table();
    for (int c = 0; c < 24; c++) {
        const int vocab = c % 3 ? 40 : 700;
        make_row(z, vocab, c % 2 ? 3 : 0);
        sample_params p = plain(0);
        p.temperature = c % 4 == 3 ? 0.8f : 2.0f;
        p.top_k = c & 1 ? 0 : 11;
        p.top_p = c & 2 ? 1.0f : 0.7f;
        p.min_p = c % 5 ? 0.0f : 0.15f;
        filter_in_double(z, vocab, &p, FILTER_DRAWS, kept);
        memset(seen, 0, sizeof seen);
        for (int seed = 0; seed < FILTER_DRAWS; seed++) {
            p.seed = (uint64_t)seed;
            seen[draw(best, z, vocab, p, no_history, c).token]++;
        }
        for (int i = 0; i < vocab; i++) {
            if (kept[i] == 0)
                assert_int_equal(seen[i], 0);
            if (kept[i] == 1)
                assert_true(seen[i] > 0);
        }
    }
}

/* ---- distributions ---- */

/* tokens[s] for seeds 0 … n - 1, with everything else the same. */
static void draw_many(const float *z, int vocab, sample_params p, int32_t position, int n, int32_t *tokens)
{
    static float logits[MAX_ROWS * 16];
    static sample_params params[MAX_ROWS];
    const sample_params *of_row[MAX_ROWS];
    sample_history history[MAX_ROWS] = { { 0 } };
    int32_t positions[MAX_ROWS];
    const kernel_table *best = best_table();
    for (int from = 0; from < n; from += MAX_ROWS) {
        for (int i = 0; i < MAX_ROWS; i++) {
            params[i] = p;
            params[i].seed = p.seed + (uint64_t)(from + i);
            of_row[i] = &params[i];
            positions[i] = position;
            memcpy(logits + i * 16, z, (size_t)vocab * sizeof *z);
        }
        const kernel_args args = { .sample = { .rows = { NULL, MAX_ROWS },
                                               .logits = logits,
                                               .logits_stride = 16,
                                               .vocab = vocab,
                                               .position = positions,
                                               .params = of_row,
                                               .history = history,
                                               .token = tokens + from } };
        runner_run(best, KERNEL_SAMPLE, &args);
    }
}

/* Sum of (count - expected)^2 / expected stays below a bound that chance exceeds once in ten thousand. */
static void assert_distributed(const int *count, const double *p, int n, int draws)
{
    double chi = 0;
    int freedom = -1;
    for (int i = 0; i < n; i++) {
        if (p[i] == 0) {
            assert_int_equal(count[i], 0);
            continue;
        }
        chi += pow(count[i] - draws * p[i], 2) / (draws * p[i]);
        freedom++;
    }
    assert_true(chi < freedom + 4 * sqrt(2.0 * freedom) + 8);
}

enum { DRAWS = 1 << 17 };
static int32_t first[DRAWS], second[DRAWS];

static void softmax(const float *z, int n, double temperature, double *p)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += p[i] = exp((double)z[i] / temperature);
    for (int i = 0; i < n; i++)
        p[i] /= sum;
}

static void draws_follow_the_softmax(void **state)
{
    (void)state;
    for (int vocab = 3; vocab <= 8; vocab++) {
        float z[8];
        double p[8];
        int count[8] = { 0 };
        for (int i = 0; i < vocab; i++)
            z[i] = 2.5f * runner_float(31, &counter);
        sample_params s = plain((uint64_t)vocab << 40);
        s.temperature = vocab == 5 ? 0.6f : 1.0f;
        draw_many(z, vocab, s, 1000 + vocab, DRAWS, first);
        for (int i = 0; i < DRAWS; i++)
            count[first[i]]++;
        softmax(z, vocab, (double)s.temperature, p);
        assert_distributed(count, p, vocab, DRAWS);
    }
}

static void filtered_draws_follow_the_renormalised_softmax(void **state)
{
    (void)state;
    const float z[8] = { 0.3f, 1.2f, -0.4f, 1.9f, 0.9f, -2.0f, 1.2f, 0.0f };
    for (int kind = 0; kind < 3; kind++) {
        double p[8], sum = 0;
        int count[8] = { 0 };
        sample_params s = plain((uint64_t)kind << 50);
        softmax(z, 8, 1, p);
        if (kind == 0) { /* 3, 1, 6: the tie at 1.2 is within */
            s.top_k = 3;
            p[0] = p[2] = p[4] = p[5] = p[7] = 0;
        } else if (kind == 1) { /* .372 + .185 reach half: of the tie the lower id */
            s.top_p = 0.5f;
            p[0] = p[2] = p[4] = p[5] = p[6] = p[7] = 0;
        } else { /* above a fifth of the best: down to 0.3 */
            s.min_p = 0.2f;
            p[2] = p[5] = p[7] = 0;
        }
        for (int i = 0; i < 8; i++)
            sum += p[i];
        for (int i = 0; i < 8; i++)
            p[i] /= sum;
        draw_many(z, 8, s, 3, DRAWS, first);
        for (int i = 0; i < DRAWS; i++)
            count[first[i]]++;
        assert_distributed(count, p, 8, DRAWS);
    }
}

static void adjacent_positions_and_seeds_are_independent(void **state)
{
    (void)state;
    const float z[4] = { 0.5f, 0.0f, 1.0f, -0.7f };
    for (int kind = 0; kind < 2; kind++) {
        double p[4], pair[16];
        int count[16] = { 0 };
        draw_many(z, 4, plain(99), 41, DRAWS, first);
        draw_many(z, 4, plain(kind ? 100 : 99), kind ? 41 : 42, DRAWS, second);
        softmax(z, 4, 1, p);
        for (int i = 0; i < DRAWS; i++)
            count[4 * first[i] + second[i]]++;
        for (int i = 0; i < 16; i++)
            pair[i] = p[i / 4] * p[i % 4];
        assert_distributed(count, pair, 16, DRAWS);
    }
}

/* Two models that share the noise agree as design.md 5 says: the sum over x of 1 / sum over y of
 * max(p_y / p_x, q_y / q_x). */
static void shared_noise_agrees_with_the_stated_probability(void **state)
{
    (void)state;
    for (int vocab = 3; vocab <= 7; vocab += 2) {
        float a[8], b[8];
        double p[8], q[8], agree = 0;
        for (int i = 0; i < vocab; i++) {
            a[i] = 2.0f * runner_float(51, &counter);
            b[i] = a[i] + runner_float(52, &counter);
        }
        softmax(a, vocab, 1, p);
        softmax(b, vocab, 1, q);
        for (int x = 0; x < vocab; x++) {
            double sum = 0;
            for (int y = 0; y < vocab; y++)
                sum += fmax(p[y] / p[x], q[y] / q[x]);
            agree += 1 / sum;
        }
        draw_many(a, vocab, plain(7), 5, DRAWS, first);
        draw_many(b, vocab, plain(7), 5, DRAWS, second);
        int same = 0;
        for (int i = 0; i < DRAWS; i++)
            same += first[i] == second[i];
        assert_true(fabs(same - DRAWS * agree) < 4 * sqrt(DRAWS * agree * (1 - agree)));
    }
}

/* ---- the noise itself ---- */

static void noise_is_gumbel_and_below_its_bound(void **state)
{
    (void)state;
    double sum = 0, squares = 0;
    int n = 0;
    float last = INFINITY;
    for (uint64_t w = 0; w < 0x100000000u; w += w < 4096 ? 1 : w / 1024, n++) {
        const double v = ((double)(w >> 1) + 0.5) * 0x1p-31, want = -log(-log1p(-v));
        const float g = sample_gumbel((uint32_t)w);
        assert_true(fabs((double)g - want) < 4e-6 + 0x1p-24 / (1 - v)); /* v itself is rounded */
        assert_true((double)g <= -log(v) + 1e-5 && (double)g < 22.19 && g > -2.9f);
        assert_true(g <= last + 1e-6f);
        last = g;
    }
    enum { N = 1 << 16 };
    const sample_params p = plain(3);
    for (int i = 0; i < N; i++) {
        const double g = (double)sample_noise(&p, 17, RNG_GUMBEL, i);
        sum += g;
        squares += g * g;
    }
    const double mean = sum / N, variance = squares / N - mean * mean; /* Euler's constant, pi^2 / 6 */
    assert_true(fabs(mean - 0.5772157) < 0.02 && fabs(variance - 1.6449341) < 0.04);
}

/* The scan's shortcut must let every token through that would beat or equal the best score. */
static void no_possible_winner_is_passed_over(void **state)
{
    (void)state;
    static const float scales[] = { 1.0f, 1.25f, 1e-4f, 3e5f };
    for (int c = 0; c < 40000; c++) {
        const sample_scan scan = { .max = 30.0f * runner_float(61, &counter), .scale = scales[c % 4] };
        const float z = scan.max - (12.0f + 12.0f * runner_float(62, &counter)) / scan.scale;
        const float best = 9.0f + 11.5f * runner_float(63, &counter), y = (z - scan.max) * scan.scale;
        const sample_bound bound = sample_bound_at(&scan, best);
        uint32_t low = 0, high = 0x7fffffff; /* the largest k, hence least noise, that still reaches best */
        while (low < high) {
            const uint32_t k = low + (high - low + 1) / 2;
            if (y + sample_gumbel(k << 1) >= best)
                low = k;
            else
                high = k - 1;
        }
        if (y + sample_gumbel(low << 1) < best)
            continue;
        const int32_t bits = (int32_t)rintf(fmaf(z - scan.max, bound.slope, bound.offset));
        assert_true((float)(int32_t)low < vmath_float((uint32_t)bits));
        assert_true(y + SAMPLE_NOISE_MAX >= best);
    }
}

static void equal_scores_go_to_the_lowest_id(void **state)
{
    (void)state;
    /* Found by search: with these seeds -1 + noise of token 0 is exactly the noise of token 1. */
    static const uint64_t seeds[] = { 68321887, 82649755, 84003018 };
    const float z[2] = { -1.0f, 0.0f };
    for (int i = 0; i < 3; i++) {
        const sample_params p = plain(seeds[i]);
        assert_true(-1.0f + sample_noise(&p, 0, RNG_GUMBEL, 0) == sample_noise(&p, 0, RNG_GUMBEL, 1));
        assert_int_equal(draw_everywhere(z, 2, p, no_history, 0).token, 0);
    }
}

static void rows_do_not_mind_their_neighbours(void **state)
{
    (void)state;
    enum { ROWS = 7, VOCAB = 130, STRIDE = 144 };
    static float logits[ROWS * STRIDE], copy[ROWS * STRIDE];
    sample_params params[ROWS];
    const sample_params *of_row[ROWS];
    sample_history history[ROWS] = { { 0 } };
    int32_t position[ROWS], token[ROWS], seen[3] = { 5, 6, 5 };
    float logprob[ROWS];
    for (int r = 0; r < ROWS; r++) {
        make_row(logits + r * STRIDE, VOCAB, r % 4);
        params[r] = plain((uint64_t)r);
        params[r].top_k = r == 2 ? 9 : 0;
        params[r].top_p = r == 3 ? 0.9f : 1.0f;
        params[r].temperature = r == 4 ? 0.0f : 1.0f;
        params[r].repeat_penalty = r == 5 ? 1.5f : 1.0f;
        params[r].want_logprob = 1;
        history[r] = (sample_history) { .tokens = seen, .count = 3 };
        of_row[r] = &params[r];
        position[r] = 10 + r;
    }
    memcpy(copy, logits, sizeof copy);
    const kernel_args args = { .sample = { .rows = { NULL, ROWS },
                                           .logits = logits,
                                           .logits_stride = STRIDE,
                                           .vocab = VOCAB,
                                           .position = position,
                                           .params = of_row,
                                           .history = history,
                                           .token = token,
                                           .logprob = logprob } };
    runner_run(best_table(), KERNEL_SAMPLE, &args);
    for (int r = 0; r < ROWS; r++) {
        const drawn d = draw_everywhere(copy + r * STRIDE, VOCAB, params[r], history[r], position[r]);
        assert_int_equal(d.token, token[r]);
        assert_memory_equal(&d.logprob, &logprob[r], sizeof(float));
    }
}

static void large_vocabularies_are_scanned_without_a_miss(void **state)
{
    (void)state;
    static float z[MAX_VOCAB];
    for (int c = 0; c < 60; c++) {
        const int vocab = MAX_VOCAB - c;
        make_row(z, vocab, c % 3 ? 0 : 8 + c % 2);
        sample_params p = plain((uint64_t)c);
        p.temperature = c % 4 ? 1.0f : 0.5f;
        p.top_k = c % 5 == 1 ? (c % 4 ? 1500 : 100) : 0;
        p.top_p = c % 10 == 2 ? 0.95f : 1.0f;
        p.min_p = c % 5 == 3 ? 0.02f : 0.0f;
        draw_everywhere(z, vocab, p, no_history, 3 * c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_set_chooses_as_ref),
        cmocka_unit_test(greedy_takes_the_largest_and_the_lowest_id_of_equals),
        cmocka_unit_test(broken_logits_are_never_chosen_while_another_is_left),
        cmocka_unit_test(extreme_settings_have_their_limits),
        cmocka_unit_test(penalties_bias_and_bans_are_as_documented),
        cmocka_unit_test(log_probabilities_are_of_the_raw_logits),
        cmocka_unit_test(filters_keep_what_they_promise),
        cmocka_unit_test(draws_follow_the_softmax),
        cmocka_unit_test(filtered_draws_follow_the_renormalised_softmax),
        cmocka_unit_test(adjacent_positions_and_seeds_are_independent),
        cmocka_unit_test(shared_noise_agrees_with_the_stated_probability),
        cmocka_unit_test(noise_is_gumbel_and_below_its_bound),
        cmocka_unit_test(no_possible_winner_is_passed_over),
        cmocka_unit_test(equal_scores_go_to_the_lowest_id),
        cmocka_unit_test(rows_do_not_mind_their_neighbours),
        cmocka_unit_test(large_vocabularies_are_scanned_without_a_miss),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
