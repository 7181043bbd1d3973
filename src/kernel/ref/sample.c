/* sample.c: logits to tokens, step by step as kernel/ref/sample.h states them: slow, obvious, and the oracle.
 *
 * Also holds what is scalar everywhere: the adjustment of logits, which touches few tokens, and the trial of a draft,
 * which mostly asks for two numbers.
 * One tile per row. Threads: tiles at once.
 */
#include "kernel/ref/sample.h"

#include <string.h>

#include "kernel/cpu/entries.h"
#include "kernel/ref/reduce.h"

/* ---- adjustment ---- */

/* A token's count: whether it was seen at all, and how often it was generated. */
enum { SEEN = 1, GENERATED = 2 };

static bool has_penalty(const sample_params *p)
{
    return p->repeat_penalty != 1.0f || p->presence_penalty != 0.0f || p->frequency_penalty != 0.0f;
}

bool sample_needs_adjust(const sample_params *p, const sample_history *h)
{
    return p->bias_count > 0 || p->banned_count > 0 || (has_penalty(p) && h->count + h->draft_count > 0);
}

static void penalise(float *z, const sample_params *p, const int32_t *tokens, int n, int vocab,
                     int32_t *counts)
{
    for (int i = 0; i < n; i++) {
        const int32_t id = tokens[i];
        if (id < 0 || id >= vocab || counts[id] == 0)
            continue; /* 0: this token has had its turn */
        if (p->repeat_penalty != 1.0f)
            z[id] = z[id] > 0 ? z[id] / p->repeat_penalty : z[id] * p->repeat_penalty;
        if (counts[id] >= GENERATED)
            z[id] = fmaf(-p->frequency_penalty, (float)(counts[id] / GENERATED), z[id]) - p->presence_penalty;
        counts[id] = 0;
    }
}

static void clear_counts(const int32_t *tokens, int n, int vocab, int32_t *counts)
{
    for (int i = 0; i < n; i++)
        if (tokens[i] >= 0 && tokens[i] < vocab)
            counts[tokens[i]] = 0;
}

static void count_tokens(const int32_t *tokens, int n, int vocab, int32_t *counts, int add)
{
    for (int i = 0; i < n; i++)
        if (tokens[i] >= 0 && tokens[i] < vocab)
            counts[tokens[i]] = (counts[tokens[i]] | SEEN) + add;
}

void sample_adjust(float *z, int vocab, const sample_params *p, const sample_history *h, int32_t *counts)
{
    for (int i = 0; i < p->bias_count; i++)
        if (p->bias_ids[i] >= 0 && p->bias_ids[i] < vocab)
            z[p->bias_ids[i]] += p->bias[i];
    if (has_penalty(p)) {
        int prompt = h->prompt < h->count ? h->prompt : h->count;
        clear_counts(h->tokens, h->count, vocab, counts);
        clear_counts(h->draft, h->draft_count, vocab, counts);
        count_tokens(h->tokens, prompt, vocab, counts, 0);
        count_tokens(h->tokens + prompt, h->count - prompt, vocab, counts, GENERATED);
        count_tokens(h->draft, h->draft_count, vocab, counts, GENERATED);
        penalise(z, p, h->tokens, h->count, vocab, counts);
        penalise(z, p, h->draft, h->draft_count, vocab, counts);
    }
    for (int i = 0; i < p->banned_count; i++)
        if (p->banned[i] >= 0 && p->banned[i] < vocab)
            z[p->banned[i]] = -INFINITY;
}

/* ---- a draft on trial ---- */

int sample_try(const float *mass, float total, int vocab, const sample_params *p, const sample_history *h,
               int32_t position)
{
    const int draft = h->draft[h->draft_count];
    const float q = h->drawn ? h->drawn[draft] : 1.0f;
    if (sample_uniform(p, position) * q < mass[draft] / total)
        return draft;
    int best = draft, group = -1;
    float best_score = -INFINITY;
    rng_block words = { { 0 } };
    for (int i = 0; i < vocab; i++) {
        const float left = mass[i] / total - (h->drawn ? h->drawn[i] : i == draft ? 1.0f : 0.0f);
        if (!(left > 0))
            continue;
        if (i / 4 != group) {
            group = i / 4;
            words = rng_at(p->seed, (uint32_t)position, RNG_RECOVER, 0, (uint32_t)group);
        }
        const float score = vmath_log(left) + sample_gumbel(words.word[i % 4]);
        if (score > best_score) {
            best = i;
            best_score = score;
        }
    }
    return best;
}

void sample_keep(const float *mass, float total, int vocab, int token, float *distribution)
{
    for (int i = 0; i < vocab; i++)
        distribution[i] = mass ? mass[i] / total : i == token ? 1.0f : 0.0f;
}

/* ---- one row ---- */

typedef struct {
    const float *z; /* [vocab] not clean */
    int vocab;
    float max, scale;
    uint64_t *order; /* [vocab] keys, ascending */
} sample_row;

static float row_y(const sample_row *r, int id)
{
    return (sample_clean(r->z[id]) - r->max) * r->scale;
}

/* The lowest id among the largest. */
static int row_argmax(const float *z, int vocab)
{
    int best = 0;
    for (int i = 1; i < vocab; i++)
        if (sample_clean(z[i]) > sample_clean(z[best]))
            best = i;
    return best;
}

/* Mass of the tokens whose key is at most `last`. */
static float row_mass(const sample_row *r, uint64_t last)
{
    float lane[REDUCE_LANES] = { 0 };
    for (int i = 0; i < r->vocab; i++)
        if (sample_key(sample_clean(r->z[i]), i) <= last)
            lane[i % REDUCE_LANES] += vmath_exp(row_y(r, i));
    return reduce_tree(lane);
}

static void sift_down(uint64_t *a, int root, int n)
{
    for (int child; (child = 2 * root + 1) < n; root = child) {
        if (child + 1 < n && a[child + 1] > a[child])
            child++;
        if (a[root] >= a[child])
            return;
        const uint64_t t = a[root];
        a[root] = a[child];
        a[child] = t;
    }
}

static void sort_keys(uint64_t *a, int n)
{
    for (int i = n / 2 - 1; i >= 0; i--)
        sift_down(a, i, n);
    for (int i = n - 1; i > 0; i--) {
        const uint64_t t = a[0];
        a[0] = a[i];
        a[i] = t;
        sift_down(a, 0, i);
    }
}

/* Steps 6 of sample.h: how many tokens of the order stay. */
static int row_filter(sample_row *r, const sample_params *p)
{
    int keep = r->vocab;
    for (int i = 0; i < r->vocab; i++)
        r->order[i] = sample_key(sample_clean(r->z[i]), i);
    sort_keys(r->order, r->vocab);
    if (sample_has_top_k(p, r->vocab))
        keep = p->top_k;
    if (sample_has_top_p(p)) {
        const float target = p->top_p * row_mass(r, r->order[keep - 1]);
        int low = 1, high = keep; /* the shortest beginning has low … high tokens: mass only grows with it */
        while (low < high) {
            const int middle = low + (high - low) / 2;
            if (row_mass(r, r->order[middle - 1]) >= target)
                high = middle;
            else
                low = middle + 1;
        }
        keep = low;
    }
    while (keep > 1 && row_y(r, sample_key_id(r->order[keep - 1])) < sample_min_p_cut(p))
        keep--;
    return keep;
}

/* The last key that step 6 leaves. */
static uint64_t row_last(sample_row *r, const sample_params *p)
{
    const bool filtered = sample_has_top_k(p, r->vocab) || sample_has_top_p(p) || sample_has_min_p(p);
    return filtered ? r->order[row_filter(r, p) - 1] : UINT64_MAX;
}

static void row_masses(const sample_row *r, uint64_t last, float *mass)
{
    for (int i = 0; i < r->vocab; i++)
        mass[i] = sample_key(sample_clean(r->z[i]), i) <= last ? vmath_exp(row_y(r, i)) : 0.0f;
}

static int row_choose(const sample_row *r, const sample_params *p, int32_t position, rng_use use,
                      uint64_t last)
{
    int best = 0;
    float best_score = -INFINITY;
    for (int i = 0; i < r->vocab; i++) {
        if (row_y(r, i) == -INFINITY || sample_key(sample_clean(r->z[i]), i) > last)
            continue;
        const float score = row_y(r, i) + sample_noise(p, position, use, i);
        if (score > best_score) {
            best = i;
            best_score = score;
        }
    }
    return best;
}

/* log sum exp(z - max) and max of a raw row. */
static float row_log_mass(const float *z, int vocab, float *max)
{
    float lane[REDUCE_LANES] = { 0 };
    *max = sample_clean(z[row_argmax(z, vocab)]);
    for (int i = 0; i < vocab; i++)
        lane[i % REDUCE_LANES] += vmath_exp(sample_clean(z[i]) - *max);
    return vmath_log(reduce_tree(lane));
}

static int sample_tiles(const kernel_args *args)
{
    return rows_live(args->sample.rows);
}

/* order | counts | raw | masses */
static size_t sample_scratch(const kernel_args *args)
{
    return (size_t)args->sample.vocab * (sizeof(uint64_t) + sizeof(int32_t) + 2 * sizeof(float));
}

/* Steps 5 to 8 of a row that is neither greedy nor without a logit above -inf. */
static int row_draw(sample_row *r, const args_sample *a, int row, float *mass)
{
    const sample_params *p = a->params[row];
    const sample_history *h = &a->history[row];
    r->scale = sample_scale(p);
    const uint64_t last = row_last(r, p);
    const float total = row_mass(r, last);
    row_masses(r, last, mass);
    const int token = h->trial ? sample_try(mass, total, r->vocab, p, h, a->position[row])
                               : row_choose(r, p, a->position[row], a->use, last);
    if (h->distribution)
        sample_keep(mass, total, r->vocab, token, h->distribution);
    return token;
}

static void sample_run(const kernel_args *args, int tile, void *scratch)
{
    const args_sample *a = &args->sample;
    const sample_params *p = a->params[tile];
    float *z = a->logits + (size_t)tile * a->logits_stride, *raw = z;
    sample_row r = { .z = z, .vocab = a->vocab, .order = scratch };
    int32_t *counts = (int32_t *)(void *)(r.order + a->vocab);
    float *copy = (float *)(void *)(counts + a->vocab), *mass = copy + a->vocab;
    const bool want_logprob = a->logprob && p->want_logprob;

    if (sample_needs_adjust(p, &a->history[tile])) {
        if (want_logprob)
            raw = memcpy(copy, z, (size_t)a->vocab * sizeof(float));
        sample_adjust(z, a->vocab, p, &a->history[tile], counts);
    }
    int token = row_argmax(z, a->vocab);
    r.max = sample_clean(z[token]);
    if (!sample_is_greedy(p) && r.max > -INFINITY)
        token = row_draw(&r, a, tile, mass);
    else if (!sample_is_greedy(p) && a->history[tile].distribution)
        sample_keep(NULL, 0, a->vocab, token, a->history[tile].distribution);
    a->token[tile] = token;
    if (want_logprob) {
        float max;
        const float log_mass = row_log_mass(raw, a->vocab, &max);
        a->logprob[tile] = max > -INFINITY ? sample_clean(raw[token]) - max - log_mass : -INFINITY;
    }
}

const kernel_impl ref_sample = { .tiles = sample_tiles, .scratch = sample_scratch, .run = sample_run };
