/* Hyper-connections, rotation, compressor, indexer and sparse attention against the values that the reference model code
 * gives for the same inputs: tests/golden/deepseek4/README.md says where they come from.
 *
 * The reference rounds position x frequency to f32, foray keeps it in double, so rotations are compared at positions
 * below 200.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "support/kernel_runner.h"
#include "support/tensor_file.h"

#include <cmocka.h> /* last: its macro fail() hides ours */

static tensor_file units;

static const float *floats(const char *name, size_t count)
{
    return tensor_file_data(&units, name, DTYPE_F32, count);
}

static const int32_t *integers(const char *name, size_t count)
{
    return tensor_file_data(&units, name, DTYPE_I32, count);
}

/* |got - want| <= limit * (1 + |want|), each. */
static void assert_close(const char *what, const float *got, const float *want, size_t n, double limit)
{
    for (size_t i = 0; i < n; i++)
        if (!(fabs((double)got[i] - (double)want[i]) <= limit * (1 + fabs((double)want[i]))))
            fail_msg("%s: element %zu is %.9g, not %.9g", what, i, (double)got[i], (double)want[i]);
}

/* The same where a sum of large numbers may be small: limit * (1 + the row's largest |x|). */
static void assert_rows_close(const char *what, const float *got, const float *want, int rows, int n,
                              const float *x, int x_width, double limit)
{
    for (int r = 0; r < rows; r++) {
        double largest = 0;
        for (int i = 0; i < x_width; i++)
            largest = fmax(largest, fabs((double)x[r * x_width + i]));
        for (int i = r * n; i < (r + 1) * n; i++)
            if (!(fabs((double)got[i] - (double)want[i]) <= limit * (1 + largest)))
                fail_msg("%s: element %d is %.9g, not %.9g", what, i, (double)got[i], (double)want[i]);
    }
}

/* y[rows, n] = x[rows, k] w[n, k], in double. */
static void multiply(const float *x, const float *w, int rows, int n, int k, float *y, size_t y_stride)
{
    for (int r = 0; r < rows; r++)
        for (int j = 0; j < n; j++) {
            double sum = 0;
            for (int i = 0; i < k; i++)
                sum += (double)x[r * k + i] * (double)w[j * k + i];
            y[(size_t)r * y_stride + (size_t)j] = (float)sum;
        }
}

/* ---- hyper-connections ---- */

enum { HC_ROWS = 6, STREAMS = 4, HC_DIM = 32, MIXES = (2 + STREAMS) * STREAMS };

static void streams_mix_as_the_reference_does(void **state)
{
    (void)state;
    const size_t width = STREAMS * HC_DIM;
    const float *x = floats("hc.X", HC_ROWS * width);
    float mix[HC_ROWS * MIXES], y[HC_ROWS * HC_DIM], post[HC_ROWS * STREAMS];
    float comb[HC_ROWS * STREAMS * STREAMS], streams[HC_ROWS * STREAMS * HC_DIM];
    multiply(x, floats("hc.fn", MIXES * width), HC_ROWS, MIXES, (int)width, mix, MIXES);
    const kernel_args pre = { .hyper_pre = { .rows = { .max = HC_ROWS },
                                             .x = x,
                                             .mix = mix,
                                             .scale = floats("hc.scale", 3),
                                             .base = floats("hc.base", MIXES),
                                             .streams = STREAMS,
                                             .dim = HC_DIM,
                                             .iterations = 20,
                                             .norm_eps = 1e-6f,
                                             .eps = 1e-6f,
                                             .y = y,
                                             .post = post,
                                             .comb = comb } };
    runner_run(kernel_table_ref(), KERNEL_HYPER_PRE, &pre);
    assert_rows_close("pre_out", y, floats("hc.pre_out", HC_ROWS * HC_DIM), HC_ROWS, HC_DIM, x, (int)width,
                      3e-7);
    assert_close("post", post, floats("hc.post", HC_ROWS * STREAMS), HC_ROWS * STREAMS, 2e-6);
    assert_close("comb", comb, floats("hc.comb", sizeof comb / sizeof *comb), sizeof comb / sizeof *comb,
                 2e-6);

    memcpy(streams, x, sizeof streams);
    const kernel_args after = { .hyper_post = { .rows = { .max = HC_ROWS },
                                                .x = streams,
                                                .y = floats("hc.sub_y", HC_ROWS * HC_DIM),
                                                .post = post,
                                                .comb = comb,
                                                .streams = STREAMS,
                                                .dim = HC_DIM } };
    runner_run(kernel_table_ref(), KERNEL_HYPER_POST, &after);
    assert_rows_close("post_out", streams, floats("hc.post_out", HC_ROWS * width), HC_ROWS, (int)width, x,
                      (int)width, 5e-7);
}

static void streams_collapse_before_the_head_as_the_reference_does(void **state)
{
    (void)state;
    const size_t width = STREAMS * HC_DIM;
    const float *x = floats("hc.X", HC_ROWS * width);
    float mix[HC_ROWS * STREAMS], y[HC_ROWS * HC_DIM];
    multiply(x, floats("hc.head_fn", STREAMS * width), HC_ROWS, STREAMS, (int)width, mix, STREAMS);
    const kernel_args head = { .hyper_pre = { .rows = { .max = HC_ROWS },
                                              .x = x,
                                              .mix = mix,
                                              .scale = floats("hc.head_scale", 1),
                                              .base = floats("hc.head_base", STREAMS),
                                              .streams = STREAMS,
                                              .dim = HC_DIM,
                                              .norm_eps = 1e-6f,
                                              .eps = 1e-6f,
                                              .y = y } };
    runner_run(kernel_table_ref(), KERNEL_HYPER_PRE, &head);
    assert_rows_close("head_out", y, floats("hc.head_out", HC_ROWS * HC_DIM), HC_ROWS, HC_DIM, x, (int)width,
                      5e-7);
}

/* ---- heads ---- */

/* head_rope on rows of one head, in place. */
static void run_heads(float *x, int rows, int width, int rope_dim, const float *cos_sin, bool norm,
                      bool inverse, vector_rounding rounding)
{
    const kernel_args args = { .head_rope = { .rows = { .max = rows },
                                              .x = x,
                                              .heads = 1,
                                              .width = width,
                                              .rope_dim = rope_dim,
                                              .norm = norm,
                                              .eps = 1e-6f,
                                              .cos_sin = cos_sin,
                                              .inverse = inverse,
                                              .rounding = rounding } };
    runner_run(kernel_table_ref(), KERNEL_HEAD_ROPE, &args);
}

static void hadamard_is_that_of_the_reference(void **state)
{
    (void)state;
    static const int widths[] = { 32, 64, 128 };
    for (int i = 0; i < 3; i++) {
        const size_t n = 3 * (size_t)widths[i];
        char name[32];
        float x[3 * 128];
        snprintf(name, sizeof name, "hadamard.%d.x", widths[i]);
        memcpy(x, floats(name, n), n * sizeof *x);
        run_heads(x, 3, widths[i], 0, NULL, false, false, ROUND_HADAMARD);
        snprintf(name, sizeof name, "hadamard.%d.y", widths[i]);
        assert_close(name, x, floats(name, n), n, 1e-6);
    }
}

static void norm_without_weight_is_that_of_the_reference(void **state)
{
    (void)state;
    float x[5 * 128];
    memcpy(x, floats("rmsnorm.x", 5 * 128), sizeof x);
    run_heads(x, 5, 128, 0, NULL, true, false, ROUND_NONE);
    assert_close("rmsnorm.noweight", x, floats("rmsnorm.noweight", 5 * 128), 5 * 128, 1e-6);
}

static void tails_turn_forth_and_back_as_in_the_reference(void **state)
{
    (void)state;
    enum { ROWS = 9, ALL = 13, WIDTH = 128, ROPE = 64 }; /* the first 9 of 13 positions are below 200 */
    float x[ROWS * WIDTH], cos_sin[ROWS * ROPE];
    const int32_t *position = integers("rope.pos", ALL);
    assert_true(position[ROWS - 1] < 200);
    const kernel_args angles = { .rope_angles = { .rows = { .max = ROWS },
                                                  .position = position,
                                                  .frequency = floats("rope.flash.freq", ROPE / 2),
                                                  .half = ROPE / 2,
                                                  .mscale = 1,
                                                  .cos_sin = cos_sin } };
    runner_run(kernel_table_ref(), KERNEL_ROPE_ANGLES, &angles);
    memcpy(x, floats("rope.apply.x", ALL * WIDTH), sizeof x);
    run_heads(x, ROWS, WIDTH, ROPE, cos_sin, false, false, ROUND_NONE);
    assert_close("rope.apply.y", x, floats("rope.apply.y", ALL * WIDTH), ROWS * WIDTH, 2e-5);
    memcpy(x, floats("rope.apply.x", ALL * WIDTH), sizeof x);
    run_heads(x, ROWS, WIDTH, ROPE, cos_sin, false, true, ROUND_NONE);
    assert_close("rope.apply.inverse", x, floats("rope.apply.inverse", ALL * WIDTH), ROWS * WIDTH, 2e-5);
}

/* ---- compressor ---- */

enum { WIDTH = 128, MAX_TOKENS = 33, MAX_STATE = 4 * WIDTH };

typedef struct {
    const char *name;
    int ratio, tokens;
    bool overlap;
    vector_rounding plain, rounded;
} compressor;

static const float *part(const compressor *c, const char *what, size_t count)
{
    char name[64];
    snprintf(name, sizeof name, "compressor.%s.%s", c->name, what);
    return floats(name, count);
}

static const int32_t one_page[] = { 0 };

static entry_rows make_entries(float *base, int width, int entries)
{
    return (entry_rows) { .base = (uint8_t *)base,
                          .table = one_page,
                          .page_rows = entries,
                          .width = width,
                          .stride = sizeof(float) * (size_t)width };
}

static void check_entries(const compressor *c, const args_compress *args, vector_rounding rounding,
                          const char *want)
{
    kernel_args k = { .compress = *args };
    float out[4 * WIDTH];
    k.compress.rounding = rounding;
    k.compress.out = make_entries(out, WIDTH, 4);
    runner_run(kernel_table_ref(), KERNEL_COMPRESS, &k);
    assert_close(want, out, part(c, want, 4 * WIDTH), 4 * WIDTH, 5e-6);
}

/* State after `prefill` tokens: of ratio 4 the group before, then the one that has begun; else the one that has
 * begun. Slots past the last token are dead. */
static void check_state(const compressor *c, const entry_rows *ring, int width, int prefill)
{
    const size_t n = (size_t)(c->overlap ? 8 : c->ratio) * (size_t)width;
    const float *kv = part(c, "kv_state_prefill", n), *score = part(c, "score_state_prefill", n);
    const int begun = prefill - prefill % c->ratio;
    for (int t = c->overlap ? begun - c->ratio : begun; t < prefill; t++) {
        const int slot = c->overlap ? t - begun + 4 : t - begun;
        const float *entry = entry_at(ring, 0, t);
        assert_close("kv_state", entry, kv + slot * width, (size_t)width, 2e-6);
        assert_close("score_state", entry + width, score + slot * width, (size_t)width, 2e-6);
    }
}

static void check_compressor(const compressor *c)
{
    enum { INPUTS = 16 };
    static float x[MAX_TOKENS * MAX_STATE], state[MAX_TOKENS * MAX_STATE];
    int32_t position[MAX_TOKENS], slot[MAX_TOKENS] = { 0 }, prefill;
    const int width = c->overlap ? 2 * WIDTH : WIDTH;
    const float *inputs = part(c, "x", (size_t)(c->tokens * INPUTS));
    for (int t = 0; t < c->tokens; t++)
        position[t] = t;
    multiply(inputs, part(c, "wkv", (size_t)(width * INPUTS)), c->tokens, width, INPUTS, x,
             2 * (size_t)width);
    multiply(inputs, part(c, "wgate", (size_t)(width * INPUTS)), c->tokens, width, INPUTS, x + width,
             2 * (size_t)width);
    const entry_rows ring = make_entries(state, 2 * width, c->tokens);
    const kernel_args store = { .state_store = { .rows = { .max = c->tokens },
                                                 .x = x,
                                                 .x_stride = 2 * (size_t)width,
                                                 .ape = part(c, "ape", (size_t)(c->ratio * width)),
                                                 .width = width,
                                                 .ratio = c->ratio,
                                                 .position = position,
                                                 .slot = slot,
                                                 .state = ring } };
    runner_run(kernel_table_ref(), KERNEL_STATE_STORE, &store);
    char name[64];
    snprintf(name, sizeof name, "compressor.%s.prefill", c->name);
    prefill = *integers(name, 1);
    check_state(c, &ring, width, prefill);

    const args_compress args = { .rows = { .max = c->tokens },
                                 .position = position,
                                 .slot = slot,
                                 .ratio = c->ratio,
                                 .width = WIDTH,
                                 .rope_dim = 64,
                                 .overlap = c->overlap,
                                 .norm = part(c, "norm", WIDTH),
                                 .eps = 1e-6f,
                                 .frequency = floats("rope.t0.freq", 32),
                                 .state = ring };
    check_entries(c, &args, c->plain, "plain.entries");
    check_entries(c, &args, c->rounded, "quant.entries");
}

static void groups_pool_as_in_the_reference(void **state)
{
    (void)state;
    static const compressor all[] = {
        { "r4", 4, 17, true, ROUND_NONE, ROUND_F8 },
        { "r4idx", 4, 17, true, ROUND_HADAMARD, ROUND_HADAMARD_FP4 },
        { "r8", 8, 33, false, ROUND_NONE, ROUND_F8 },
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        check_compressor(&all[i]);
}

/* ---- indexer, attention ---- */

static void scores_and_choice_are_those_of_the_reference(void **state)
{
    (void)state;
    enum { ROWS = 9, HEADS = 4, KEYS = 5, N = 32, TOP = 3 };
    float keys[KEYS * N], score[ROWS * KEYS];
    int32_t slot[ROWS] = { 0 }, chosen[ROWS * TOP], count[ROWS];
    const int32_t *position = integers("index.pos", ROWS), *top = integers("index.top3", ROWS * TOP);
    const float *want = floats("index.score", ROWS * KEYS);
    memcpy(keys, floats("index.k", KEYS * N), sizeof keys);
    const kernel_args scores = { .index_score = { .rows = { .max = ROWS },
                                                  .position = position,
                                                  .slot = slot,
                                                  .q = floats("index.q", ROWS * HEADS * N),
                                                  .weight = floats("index.w", ROWS * HEADS),
                                                  .scale = 1,
                                                  .heads = HEADS,
                                                  .width = N,
                                                  .ratio = 4,
                                                  .keys = make_entries(keys, N, KEYS),
                                                  .max_entries = KEYS,
                                                  .score = score } };
    runner_run(kernel_table_ref(), KERNEL_INDEX_SCORE, &scores);
    for (int r = 0; r < ROWS; r++)
        assert_close("score", score + r * KEYS, want + r * KEYS, (size_t)((position[r] + 1) / 4), 2e-6);
    const kernel_args select = { .index_select = { .rows = { .max = ROWS },
                                                   .position = position,
                                                   .ratio = 4,
                                                   .top = TOP,
                                                   .max_entries = KEYS,
                                                   .score = score,
                                                   .chosen = chosen,
                                                   .count = count } };
    runner_run(kernel_table_ref(), KERNEL_INDEX_SELECT, &select);
    for (int r = 0; r < ROWS; r++)
        assert_int_equal(count[r], TOP);
    assert_memory_equal(chosen, top, sizeof chosen);
}

/* The reference's sets know no window: the last key of a set stands in a window of one, the others are chosen. */
static void attention_is_that_of_the_reference(void **state)
{
    (void)state;
    enum { ROWS = 6, HEADS = 4, N = 32, KEYS = 150, SET = 100 };
    static float ring[ROWS * N], entries[KEYS * N], out[ROWS * HEADS * N];
    static int32_t chosen[ROWS * SET];
    int32_t position[ROWS], slot[ROWS] = { 0 }, count[ROWS] = { 0 };
    const int32_t *set = integers("attn.idx", ROWS * SET);
    memcpy(entries, floats("attn.kv", KEYS * N), sizeof entries);
    for (int r = 0; r < ROWS; r++) {
        position[r] = r;
        for (int i = 0; i < SET; i++)
            if (set[r * SET + i] >= 0)
                chosen[r * SET + count[r]++] = set[r * SET + i];
        memcpy(ring + r * N, entries + chosen[r * SET + --count[r]] * N, N * sizeof *ring);
    }
    const kernel_args args = { .sparse_attention = { .rows = { .max = ROWS },
                                                     .position = position,
                                                     .slot = slot,
                                                     .q = floats("attn.q", ROWS * HEADS * N),
                                                     .heads = HEADS,
                                                     .width = N,
                                                     .scale = 0.17677669529663687f,
                                                     .sink = floats("attn.sink", HEADS),
                                                     .window = 1,
                                                     .ring = make_entries(ring, N, ROWS),
                                                     .ratio = 4,
                                                     .entries = make_entries(entries, N, KEYS),
                                                     .chosen = chosen,
                                                     .count = count,
                                                     .top = SET,
                                                     .max_entries = SET,
                                                     .out = out } };
    runner_run(kernel_table_ref(), KERNEL_SPARSE_ATTENTION, &args);
    assert_close("attn.o", out, floats("attn.o", ROWS * HEADS * N), ROWS * HEADS * N, 2e-6);
}

static int open_units(void **state)
{
    (void)state;
    tensor_file_open("deepseek4/units-attn.safetensors", &units);
    return 0;
}

static int close_units(void **state)
{
    (void)state;
    tensor_file_close(&units);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(streams_mix_as_the_reference_does),
        cmocka_unit_test(streams_collapse_before_the_head_as_the_reference_does),
        cmocka_unit_test(hadamard_is_that_of_the_reference),
        cmocka_unit_test(norm_without_weight_is_that_of_the_reference),
        cmocka_unit_test(tails_turn_forth_and_back_as_in_the_reference),
        cmocka_unit_test(groups_pool_as_in_the_reference),
        cmocka_unit_test(scores_and_choice_are_those_of_the_reference),
        cmocka_unit_test(attention_is_that_of_the_reference),
    };
    return cmocka_run_group_tests(tests, open_units, close_units);
}
