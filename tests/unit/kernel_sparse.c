/* kernel_sparse.c: the indexer scores and chooses what its definition says, attention is a softmax over window, entries
 * and sink, both have the same bits on every instruction set, and a row's result depends on nothing but what it sees.
 *
 * Every entry that no row may see holds NaN. Shapes: odd widths, 1 … 35 heads, rings that have wrapped, rows around the
 * completion of a group. One thread.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "support/entry_pool.h"
#include "support/kernel_runner.h"

#include <cmocka.h> /* last: its macro fail() hides ours */

enum { SLOTS = 3, MAX_ROWS = 6 };

static uint32_t counter;

static float *random_floats(size_t n, float size)
{
    float *x = mem_alloc(MEM_GENERAL, n * sizeof *x);
    for (size_t i = 0; i < n; i++)
        x[i] = size * runner_float(1, &counter);
    return x;
}

static void free_floats(const float *x, size_t n)
{
    mem_free(MEM_GENERAL, (void *)x, n * sizeof *x);
}

static int larger(int a, int b)
{
    return a > b ? a : b;
}

/* ---- attention ---- */

typedef struct {
    int heads, width, window, ratio;
    int rows, first; /* rows at positions first … of one slot */
    int top;         /* 0: every visible entry */
} shape;

typedef struct {
    args_sparse_attention args;
    entry_pool ring, entries;
    int32_t position[MAX_ROWS], slot[MAX_ROWS], count[MAX_ROWS];
    int32_t *chosen;
    size_t q_count, chosen_bytes;
} attention;

static void choose_at_random(attention *t, int row, int visible, int top)
{
    int32_t *chosen = t->chosen + row * top;
    int left = visible < top ? visible : top;
    t->count[row] = 0;
    for (int j = 0; j < visible && left > 0; j++)
        if (runner_below(3, &counter, visible - j) < left) {
            chosen[t->count[row]++] = j;
            left--;
        }
}

static void attention_make(attention *t, shape s)
{
    const int guard = MAX_ROWS, slot = s.first % SLOTS, last = s.first + s.rows - 1;
    const int most = s.ratio ? (last + 1) / s.ratio : 0;
    *t = (attention) { .q_count = (size_t)(s.rows * s.heads * s.width) };
    entry_pool_init(&t->ring, SLOTS, s.window + guard, 4, s.width, s.window + guard);
    entry_pool_fill(&t->ring, slot, larger(0, s.first - s.window + 1), last, 1, &counter);
    entry_pool_init(&t->entries, SLOTS, larger(1, most), 3, s.width, 0);
    t->chosen_bytes = (size_t)(MAX_ROWS * larger(1, s.top)) * sizeof *t->chosen;
    t->chosen = mem_alloc(MEM_GENERAL, t->chosen_bytes);
    memset(t->chosen, 0x7f, t->chosen_bytes);
    for (int r = 0; r < s.rows; r++) {
        t->position[r] = s.first + r;
        t->slot[r] = slot;
        const int visible = s.ratio ? (s.first + r + 1) / s.ratio : 0;
        if (s.top) {
            choose_at_random(t, r, visible, s.top);
            for (int i = 0; i < t->count[r]; i++)
                entry_pool_fill(&t->entries, slot, t->chosen[r * s.top + i], t->chosen[r * s.top + i], 1,
                                &counter);
        } else {
            entry_pool_fill(&t->entries, slot, 0, visible - 1, 1, &counter);
        }
    }
    t->args = (args_sparse_attention) { .rows = { .max = s.rows },
                                        .position = t->position,
                                        .slot = t->slot,
                                        .q = random_floats(t->q_count, 2),
                                        .heads = s.heads,
                                        .width = s.width,
                                        .scale = 0.4f,
                                        .sink = random_floats((size_t)s.heads, 3),
                                        .window = s.window,
                                        .ring = t->ring.rows,
                                        .ratio = s.ratio,
                                        .entries = t->entries.rows,
                                        .chosen = s.top ? t->chosen : NULL,
                                        .count = s.top ? t->count : NULL,
                                        .top = s.top,
                                        .max_entries = s.top ? s.top : most,
                                        .out = random_floats(t->q_count, 1) };
}

static void attention_free(attention *t)
{
    free_floats(t->args.q, t->q_count);
    free_floats(t->args.out, t->q_count);
    free_floats(t->args.sink, (size_t)t->args.heads);
    mem_free(MEM_GENERAL, t->chosen, t->chosen_bytes);
    entry_pool_free(&t->ring);
    entry_pool_free(&t->entries);
}

static void attention_run(const attention *t, const kernel_table *table)
{
    const kernel_args args = { .sparse_attention = t->args };
    memset(t->args.out, 0xff, t->q_count * sizeof(float));
    runner_run(table, KERNEL_SPARSE_ATTENTION, &args);
}

/* One key into a softmax that is not shifted: scores are small. */
static double add_key(const args_sparse_attention *a, const float *q, const float *key, double *sums)
{
    double s = 0;
    for (int i = 0; i < a->width; i++)
        s += (double)q[i] * (double)key[i];
    const double e = exp(s * (double)a->scale);
    for (int i = 0; i < a->width; i++)
        sums[i] += e * (double)key[i];
    return e;
}

static void check_attention_in_double(const args_sparse_attention *a)
{
    for (int r = 0; r < a->rows.max; r++)
        for (int h = 0; h < a->heads; h++) {
            const int p = a->position[r], visible = a->ratio ? (p + 1) / a->ratio : 0;
            const float *q = a->q + (r * a->heads + h) * a->width,
                        *out = a->out + (r * a->heads + h) * a->width;
            double sums[600] = { 0 }, total = exp((double)a->sink[h]);
            for (int t = larger(0, p - a->window + 1); t <= p; t++)
                total += add_key(a, q, entry_at(&a->ring, a->slot[r], t), sums);
            for (int i = 0; i < (a->chosen ? a->count[r] : visible); i++) {
                const int j = a->chosen ? a->chosen[r * a->top + i] : i;
                total += add_key(a, q, entry_at(&a->entries, a->slot[r], j), sums);
            }
            for (int i = 0; i < a->width; i++)
                assert_true(fabs((double)out[i] - sums[i] / total) < 1e-5);
        }
}

/* Every set together, then row by row. */
static void check_attention(shape s)
{
    attention t;
    attention_make(&t, s);
    attention_run(&t, kernel_table_ref());
    check_attention_in_double(&t.args);

    const kernel_table *tables[RUNNER_MAX_TABLES + 1] = { kernel_table_ref() };
    const int n = 1 + runner_tables(tables + 1), width = s.heads * s.width;
    float *want = random_floats(t.q_count, 1);
    memcpy(want, t.args.out, t.q_count * sizeof *want);
    for (int i = 1; i < n; i++) {
        attention_run(&t, tables[i]);
        assert_memory_equal(t.args.out, want, t.q_count * sizeof *want);
    }
    for (int i = 0; i < n; i++)
        for (int r = 0; r < s.rows; r++) {
            args_sparse_attention one = t.args;
            one.rows.max = 1;
            one.position += r;
            one.slot += r;
            one.q += r * width;
            one.out += r * width;
            one.chosen = one.chosen ? one.chosen + r * s.top : NULL;
            one.count = one.count ? one.count + r : NULL;
            memset(one.out, 0xff, (size_t)width * sizeof(float));
            const kernel_args args = { .sparse_attention = one };
            runner_run(tables[i], KERNEL_SPARSE_ATTENTION, &args);
            assert_memory_equal(one.out, want + r * width, (size_t)width * sizeof(float));
        }
    free_floats(want, t.q_count);
    attention_free(&t);
}

static void attention_over_windows_that_begin_fill_and_wrap(void **state)
{
    (void)state;
    for (int p = 0; p < 40; p++)
        check_attention(
            (shape) { .heads = 3, .width = 16, .window = 6, .rows = 1 + p % MAX_ROWS, .first = p });
    for (int window = 1; window < 40; window += 4)
        check_attention((shape) { .heads = 2, .width = 20, .window = window, .rows = 3, .first = 30 });
    check_attention((shape) { .heads = 2, .width = 32, .window = 128, .rows = 2, .first = 1000003 });
}

static void attention_over_all_or_chosen_entries(void **state)
{
    (void)state;
    for (int p = 0; p < 40; p++) {
        check_attention((shape) { 3, 16, 6, 4, 1 + p % MAX_ROWS, p, 0 });
        check_attention((shape) { 3, 16, 6, 4, 1 + p % MAX_ROWS, p, 1 + p % 5 });
        check_attention((shape) { 2, 24, 8, 16, 2, 3 * p, 0 });
    }
    check_attention((shape) { 4, 32, 20, 4, 2, 500, 60 });
}

static void attention_with_every_number_of_heads(void **state)
{
    (void)state;
    for (int heads = 1; heads <= 35; heads++)
        check_attention((shape) { heads, 16, 5, 4, 2, 30 + heads, heads % 2 ? 3 : 0 });
    check_attention((shape) { 64, 16, 5, 4, 1, 37, 3 });
}

static void attention_with_every_width(void **state)
{
    (void)state;
    for (int width = 1; width <= 176; width += 1 + width / 12)
        check_attention((shape) { 5, width, 7, 4, 2, 40, 5 });
    check_attention((shape) { 6, 80, 6, 8, 3, 70, 0 });
    check_attention((shape) { 18, 512, 9, 4, 2, 60, 8 });
}

/* A row sees entry j from position ratio j + ratio - 1 on and not before. */
static void an_entry_is_seen_from_the_token_that_completes_it(void **state)
{
    (void)state;
    const kernel_table *tables[RUNNER_MAX_TABLES + 1] = { kernel_table_ref() };
    const int n = 1 + runner_tables(tables + 1);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < 6; j++)
            for (int before = 0; before < 2; before++) {
                attention t;
                attention_make(&t, (shape) { 1, 16, 3, 4, 1, 4 * j + 3 - before, 0 });
                if (before) { /* entry j is there, and NaN: nobody may look */
                    attention_run(&t, tables[i]);
                    assert_false(isnan(t.args.out[0]));
                } else {
                    entry_at(&t.args.entries, t.slot[0], j)[0] = NAN;
                    attention_run(&t, tables[i]);
                    assert_true(isnan(t.args.out[0]));
                }
                attention_free(&t);
            }
}

static void a_sink_takes_weight_without_value(void **state)
{
    (void)state;
    attention t;
    attention_make(&t, (shape) { 3, 16, 4, 0, 1, 0, 0 });
    float *sink = (float *)t.args.sink;
    sink[0] = -INFINITY; /* one key: all weight is its own */
    sink[1] = 1e30f;     /* all weight is the sink's */
    sink[2] = 0;
    const float *key = entry_at(&t.args.ring, t.slot[0], 0);
    attention_run(&t, kernel_table_ref());
    assert_memory_equal(t.args.out, key, 16 * sizeof *key);
    for (int i = 0; i < 16; i++)
        assert_true(t.args.out[16 + i] == 0);
    assert_true(fabsf(t.args.out[32]) < fabsf(key[0]));
    attention_free(&t);
}

/* ---- indexer ---- */

typedef struct {
    args_index_score args;
    entry_pool keys;
    int32_t position[MAX_ROWS], slot[MAX_ROWS];
    size_t q_count, weights, scores;
} scoring;

static void scoring_make(scoring *t, int heads, int width, int rows, int first, int top)
{
    const int most = (first + rows) / 4, slot = first % SLOTS;
    *t = (scoring) { .q_count = (size_t)(rows * heads * width),
                     .weights = (size_t)(rows * heads),
                     .scores = (size_t)(rows * larger(1, most)) };
    entry_pool_init(&t->keys, SLOTS, larger(1, most), 8, width, 0);
    entry_pool_fill(&t->keys, slot, 0, most - 1, 1, &counter);
    for (int r = 0; r < rows; r++) {
        t->position[r] = first + r;
        t->slot[r] = slot;
    }
    t->args = (args_index_score) { .rows = { .max = rows },
                                   .position = t->position,
                                   .slot = t->slot,
                                   .q = random_floats(t->q_count, 1),
                                   .weight = random_floats(t->weights, 1),
                                   .scale = 0.7f,
                                   .heads = heads,
                                   .width = width,
                                   .ratio = 4,
                                   .top = top,
                                   .keys = t->keys.rows,
                                   .max_entries = larger(1, most),
                                   .score = random_floats(t->scores, 1) };
}

static void scoring_free(scoring *t)
{
    free_floats(t->args.q, t->q_count);
    free_floats(t->args.weight, t->weights);
    free_floats(t->args.score, t->scores);
    entry_pool_free(&t->keys);
}

static void scoring_run(const scoring *t, const kernel_table *table)
{
    const kernel_args args = { .index_score = t->args };
    memset(t->args.score, 0xff, t->scores * sizeof(float));
    runner_run(table, KERNEL_INDEX_SCORE, &args);
}

static double score_in_double(const args_index_score *a, int row, int entry)
{
    const float *key = entry_at(&a->keys, a->slot[row], entry);
    double sum = 0;
    for (int h = 0; h < a->heads; h++) {
        double dot = 0;
        for (int i = 0; i < a->width; i++)
            dot += (double)a->q[(row * a->heads + h) * a->width + i] * (double)key[i];
        sum += (double)a->weight[row * a->heads + h] * (dot > 0 ? dot : 0);
    }
    return sum * (double)a->scale;
}

static void check_scoring(int heads, int width, int rows, int first, int top)
{
    scoring t;
    scoring_make(&t, heads, width, rows, first, top);
    const args_index_score *a = &t.args;
    scoring_run(&t, kernel_table_ref());
    for (int r = 0; r < rows; r++)
        for (int j = 0; j < a->max_entries; j++) {
            const int visible = (first + r + 1) / 4;
            const float got = a->score[r * a->max_entries + j];
            if (j < visible && visible > top)
                assert_true(fabs((double)got - score_in_double(a, r, j)) < 1e-5);
            else
                assert_true(isnan(got)); /* not written */
        }
    float *want = random_floats(t.scores, 1);
    memcpy(want, a->score, t.scores * sizeof *want);
    const kernel_table *tables[RUNNER_MAX_TABLES];
    for (int i = runner_tables(tables) - 1; i >= 0; i--) {
        scoring_run(&t, tables[i]);
        assert_memory_equal(a->score, want, t.scores * sizeof *want);
        memset(a->score, 0xff, t.scores * sizeof *want);
        for (int r = rows - 1; r >= 0; r--) {
            kernel_args one = { .index_score = *a };
            one.index_score.rows.max = 1;
            one.index_score.position += r;
            one.index_score.slot += r;
            one.index_score.q += r * heads * width;
            one.index_score.weight += r * heads;
            one.index_score.score += r * a->max_entries;
            runner_run(tables[i], KERNEL_INDEX_SCORE, &one);
        }
        assert_memory_equal(a->score, want, t.scores * sizeof *want);
    }
    free_floats(want, t.scores);
    scoring_free(&t);
}

static void scores_of_every_shape(void **state)
{
    (void)state;
    for (int p = 0; p < 50; p++)
        check_scoring(2, 32, 1 + p % MAX_ROWS, p, 2);
    for (int heads = 1; heads <= 19; heads++)
        check_scoring(heads, 16, 2, 61 + heads, 2);
    for (int width = 1; width <= 136; width += 1 + width / 10)
        check_scoring(5, width, 2, 70, 3);
    check_scoring(2, 16, 3, 2100, 0);
    check_scoring(64, 128, 2, 90, 4);
}

typedef struct {
    double score;
    int id;
} scored;

static int compare_scored(const void *a, const void *b)
{
    const scored *x = a, *y = b;
    return x->score > y->score ? -1 : x->score < y->score ? 1 : x->id - y->id;
}

static int compare_ids(const void *a, const void *b)
{
    return *(const int32_t *)a - *(const int32_t *)b;
}

enum { MAX_VISIBLE = 700 };

static void check_selection(const float *score, int visible, int top)
{
    scored order[MAX_VISIBLE];
    int32_t want[MAX_VISIBLE], chosen[MAX_VISIBLE], count;
    for (int i = 0; i < visible; i++)
        order[i] = (scored) { isnan(score[i]) ? -INFINITY : (double)score[i], i };
    qsort(order, (size_t)visible, sizeof *order, compare_scored);
    const int n = visible < top ? visible : top;
    for (int i = 0; i < n; i++)
        want[i] = order[i].id;
    qsort(want, (size_t)n, sizeof *want, compare_ids);

    const int32_t position = 4 * visible + 2; /* the last token before one more is seen */
    const kernel_args args = { .index_select = { .rows = { .max = 1 },
                                                 .position = &position,
                                                 .ratio = 4,
                                                 .top = top,
                                                 .max_entries = MAX_VISIBLE,
                                                 .score = score,
                                                 .chosen = chosen,
                                                 .count = &count } };
    const kernel_table *tables[RUNNER_MAX_TABLES + 1] = { kernel_table_ref() };
    for (int i = runner_tables(tables + 1); i >= 0; i--) {
        memset(chosen, 0xff, sizeof chosen);
        runner_run(tables[i], KERNEL_INDEX_SELECT, &args);
        assert_int_equal(count, n);
        assert_memory_equal(chosen, want, (size_t)n * sizeof *want);
    }
}

static void the_best_are_chosen_and_ties_go_to_the_lowest_id(void **state)
{
    (void)state;
    static float score[MAX_VISIBLE];
    for (int round = 0; round < 60; round++) {
        const int levels = round % 3 == 0 ? 1 << 20 : round % 3 == 1 ? 5 : 1;
        for (int i = 0; i < MAX_VISIBLE; i++)
            score[i] = (float)(runner_below(5, &counter, levels) - levels / 2) * 0.37f;
        for (int i = 0; i < MAX_VISIBLE; i += 1 + round)
            score[i] = i % 2 ? 0.0f : -0.0f;
        const int visible = 1 + runner_below(5, &counter, MAX_VISIBLE - 1);
        for (int top = 1; top < MAX_VISIBLE; top += 1 + top / 2)
            check_selection(score, visible, top);
        check_selection(score, visible, visible);
        if (visible > 1)
            check_selection(score, visible, visible - 1);
    }
}

static void infinities_are_ordered_too(void **state)
{
    (void)state;
    const float few[] = { -INFINITY, 1, INFINITY, 0, -INFINITY, 3 };
    float score[MAX_VISIBLE] = { 0 };
    memcpy(score, few, sizeof few);
    for (int top = 1; top <= 6; top++)
        check_selection(score, 6, top);
    const float lost[] = { NAN, 2, -NAN, 1, 4 };
    memcpy(score, lost, sizeof lost);
    check_selection(score, 5, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attention_over_windows_that_begin_fill_and_wrap),
        cmocka_unit_test(attention_over_all_or_chosen_entries),
        cmocka_unit_test(attention_with_every_number_of_heads),
        cmocka_unit_test(attention_with_every_width),
        cmocka_unit_test(an_entry_is_seen_from_the_token_that_completes_it),
        cmocka_unit_test(a_sink_takes_weight_without_value),
        cmocka_unit_test(scores_of_every_shape),
        cmocka_unit_test(the_best_are_chosen_and_ties_go_to_the_lowest_id),
        cmocka_unit_test(infinities_are_ordered_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
