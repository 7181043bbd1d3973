/* kernel_experts.c: rows find their experts as the reference model does, an expert gives what a matmul with its
 * weights gives, and neither the instruction set nor the other rows of a pass change a bit.
 *
 * Oracles: the reference's own values (tests/golden/deepseek4/README.md), KERNEL_MATMUL, and brute force.
 * One thread; tiles are run from both ends as two workers would.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "support/experts_case.h"
#include "support/kernel_runner.h"
#include "support/matmul_case.h"
#include "support/tensor_file.h"

#include <cmocka.h> /* last: its macro fail() hides ours */

#define UNITS "deepseek4/units-experts.safetensors"

/* ref and the instruction sets of this machine. */
enum { MAX_TABLES = 1 + RUNNER_MAX_TABLES };

static int all_tables(const kernel_table *out[MAX_TABLES])
{
    out[0] = kernel_table_ref();
    return 1 + runner_tables(out + 1);
}

/* ---- route ---- */

static void assert_routes(const char *name, int experts, int chosen)
{
    static const char *const parts[] = { "logits", "bias", "ids", "weights64", "scores" };
    enum { ROWS = 10 };
    const size_t pairs = (size_t)(ROWS * chosen), all = (size_t)(ROWS * experts);
    const size_t sizes[] = { all, (size_t)experts, pairs, pairs, all };
    const void *at[5];
    tensor_file f;
    tensor_file_open(UNITS, &f);
    for (int i = 0; i < 5; i++) {
        char key[64];
        snprintf(key, sizeof key, "router.%s.%s", name, parts[i]);
        at[i] = tensor_file_data(&f, key, i == 2 ? DTYPE_I32 : DTYPE_F32, sizes[i]);
    }
    const float *weights = at[3];
    int32_t choice[ROWS * 6];
    float weight[ROWS * 6];
    const kernel_args args = { .route = { .rows = { .max = ROWS },
                                          .logits = at[0],
                                          .bias = at[1],
                                          .experts = experts,
                                          .chosen = chosen,
                                          .scale = 2.5f,
                                          .choice = choice,
                                          .weight = weight } };
    const kernel_table *tables[MAX_TABLES];
    const int count = all_tables(tables);
    for (int t = 0; t < count; t++) {
        memset(choice, 0x7f, sizeof choice);
        runner_run(tables[t], KERNEL_ROUTE, &args);
        assert_memory_equal(choice, at[2], pairs * sizeof choice[0]);
        for (size_t i = 0; i < pairs; i++)
            assert_true(fabsf(weight[i] - weights[i]) <= 4e-7f * weights[i]);
    }
    tensor_file_close(&f);
}

static void routes_are_those_of_the_reference(void **state)
{
    (void)state;
    assert_routes("score", 8, 2);
    assert_routes("score6", 32, 6);
}

/* Routes one row of `experts` logits with every table and asserts that they agree in every bit. */
static void route_row(const float *logits, const float *bias, int experts, int chosen, int32_t *choice,
                      float *weight)
{
    const kernel_table *tables[MAX_TABLES];
    const int count = all_tables(tables);
    for (int t = 0; t < count; t++) {
        int32_t other[EXPERTS_MAX_CHOSEN];
        float share[EXPERTS_MAX_CHOSEN];
        const kernel_args args = { .route = { .rows = { .max = 1 },
                                              .logits = logits,
                                              .bias = bias,
                                              .experts = experts,
                                              .chosen = chosen,
                                              .scale = 1.5f,
                                              .choice = t ? other : choice,
                                              .weight = t ? share : weight } };
        runner_run(tables[t], KERNEL_ROUTE, &args);
        for (int i = 0; t && i < chosen; i++) {
            assert_int_equal(other[i], choice[i]);
            assert_true(memcmp(&share[i], &weight[i], 4) == 0 || (isnan(share[i]) && isnan(weight[i])));
        }
    }
}

static void ties_go_to_the_lowest_id(void **state)
{
    (void)state;
    float logits[40] = { 0 };
    int32_t choice[5];
    float weight[5];
    logits[33] = logits[7] = 1;
    logits[20] = 2;
    route_row(logits, NULL, 40, 5, choice, weight);
    static const int32_t want[5] = { 20, 7, 33, 0, 1 };
    assert_memory_equal(choice, want, sizeof want);
    assert_true(weight[1] == weight[2] && weight[3] == weight[4] && weight[0] > weight[1]);
}

/* The bias says who is chosen, the scores alone what they weigh. */
static void the_bias_selects_and_does_not_weigh(void **state)
{
    (void)state;
    const float logits[4] = { 3, 1, 1, 2 }, bias[4] = { -100, 5, 0, 1 };
    int32_t choice[2];
    float weight[2];
    route_row(logits, bias, 4, 2, choice, weight);
    assert_int_equal(choice[0], 1);
    assert_int_equal(choice[1], 3);
    const double a = sqrt(log1p(exp(1))), b = sqrt(log1p(exp(2)));
    assert_true(fabs((double)weight[0] - 1.5 * a / (a + b)) < 3e-7);
    assert_true(fabs((double)weight[1] - 1.5 * b / (a + b)) < 3e-7);
}

static void very_negative_logits_have_finite_weights(void **state)
{
    (void)state;
    for (float base = 10; base > -1e6f; base -= base > -300 ? 3.7f : 1e5f) {
        float logits[19], weight[3];
        int32_t choice[3];
        for (int e = 0; e < 19; e++)
            logits[e] = base - (float)(e * 5 % 19);
        route_row(logits, NULL, 19, 3, choice, weight);
        assert_int_equal(choice[0], 0);
        assert_true(fabsf(weight[0] + weight[1] + weight[2] - 1.5f) < 1e-6f);
        if (base < -20 && base > -150) { /* s is exp(l / 2): neighbours differ by a factor of sqrt e */
            assert_true(fabs((double)(weight[0] / weight[1]) - sqrt(exp(1))) < 1e-5);
            assert_true(fabs((double)(weight[1] / weight[2]) - sqrt(exp(1))) < 1e-5);
        }
    }
}

static void any_logits_choose_distinct_experts(void **state)
{
    (void)state;
    static const float odd[] = { NAN, INFINITY, -INFINITY, 0, -NAN, 1e30f, -1e30f, 1 };
    for (uint32_t seed = 0; seed < 200; seed++) {
        uint32_t draws = 0;
        float logits[24], bias[24], weight[7];
        int32_t choice[7];
        for (int e = 0; e < 24; e++) {
            logits[e] = odd[runner_below(seed, &draws, seed % 3 ? 8 : 1)];
            bias[e] = odd[runner_below(seed, &draws, 8)];
        }
        route_row(logits, seed % 2 ? bias : NULL, 24, 7, choice, weight);
        for (int i = 0; i < 7; i++) {
            assert_in_range(choice[i], 0, 23);
            for (int j = 0; j < i; j++)
                assert_int_not_equal(choice[i], choice[j]);
        }
    }
}

static void hash_layers_follow_the_table(void **state)
{
    (void)state;
    static const int32_t table[4 * 2] = { 3, 1, 0, 300, 2, 2, 299, 4 }, ids[6] = { 1, 3, 2, 4, -1, 0 };
    static const int32_t want[12] = { 0, 300, 299, 4, 2, 2, 3, 1, 3, 1, 3, 1 };
    float logits[6 * 301], weight[12];
    int32_t choice[12];
    for (int i = 0; i < 6 * 301; i++)
        logits[i] = (float)(i % 301 % 7);
    const kernel_args args = { .route = { .rows = { .max = 6 },
                                          .logits = logits,
                                          .ids = ids,
                                          .table = table,
                                          .vocab = 4,
                                          .experts = 301,
                                          .chosen = 2,
                                          .scale = 1,
                                          .choice = choice,
                                          .weight = weight } };
    const kernel_table *tables[MAX_TABLES];
    const int count = all_tables(tables);
    for (int t = 0; t < count; t++) {
        runner_run(tables[t], KERNEL_ROUTE, &args);
        assert_memory_equal(choice, want, sizeof want);
        assert_true(weight[4] == 0.5f && weight[5] == 0.5f);
        const double a = sqrt(log1p(exp(0))), b = sqrt(log1p(exp(300 % 7)));
        assert_true(fabs((double)weight[0] - a / (a + b)) < 3e-7);
    }
}

/* ---- group ---- */

static void pairs_stand_in_order_by_expert(void **state)
{
    (void)state;
    enum { EXPERTS = 11, CHOSEN = 3, MAX = 20 };
    for (int live = 0; live <= MAX; live += live < 3 ? 1 : 17) {
        uint32_t draws = 0;
        int32_t choice[MAX * CHOSEN], first[EXPERTS + 1], pair[MAX * CHOSEN], distinct = -1, rows = live;
        for (int i = 0; i < MAX * CHOSEN; i++)
            choice[i] = 2 * runner_below(4, &draws, 6) % EXPERTS; /* odd ones never but 1 */
        memset(pair, 0x7f, sizeof pair);
        const kernel_args args = { .group = { .rows = { .live = &rows, .max = MAX },
                                              .choice = choice,
                                              .experts = EXPERTS,
                                              .chosen = CHOSEN,
                                              .first = first,
                                              .pair = pair,
                                              .distinct = &distinct } };
        runner_run(kernel_table_ref(), KERNEL_GROUP, &args);
        int at = 0, seen = 0;
        for (int e = 0; e < EXPERTS; e++) {
            assert_int_equal(first[e], at);
            for (int p = 0; p < live * CHOSEN; p++)
                if (choice[p] == e)
                    assert_int_equal(pair[at++], p);
            seen += first[e] < at;
        }
        assert_int_equal(first[EXPERTS], live * CHOSEN);
        assert_int_equal(distinct, seen);
        for (; at < MAX * CHOSEN; at++)
            assert_int_equal(pair[at], 0x7f7f7f7f);
    }
}

/* ---- experts ---- */

/* A gate-up matrix of unit rows hands gate and up of the reference's vectors through. */
static void the_gate_is_cut_as_the_reference_does(void **state)
{
    (void)state;
    enum { ROWS = 4, WIDTH = 32 };
    tensor_file f;
    tensor_file_open(UNITS, &f);
    const float *gate = tensor_file_data(&f, "swiglu.gate", DTYPE_F32, ROWS * WIDTH);
    const float *up = tensor_file_data(&f, "swiglu.up", DTYPE_F32, ROWS * WIDTH);
    float unit[2 * WIDTH][2 * WIDTH] = { 0 }, x[ROWS][2 * WIDTH], out[ROWS * WIDTH];
    for (int i = 0; i < 2 * WIDTH; i++)
        unit[i][i] = 1;
    for (int r = 0; r < ROWS; r++) {
        memcpy(x[r], gate + r * WIDTH, WIDTH * sizeof(float));
        memcpy(x[r] + WIDTH, up + r * WIDTH, WIDTH * sizeof(float));
    }
    const weight_source sources[2] = {
        { .data = unit[0], .type = DTYPE_F32, .rows = WIDTH, .cols = 2 * WIDTH },
        { .data = unit[WIDTH], .type = DTYPE_F32, .rows = WIDTH, .cols = 2 * WIDTH },
    };
    static const int32_t first[2] = { 0, ROWS }, pair[ROWS] = { 0, 1, 2, 3 };
    static const float weight[ROWS] = { 1, 1, 1, 1 };
    const kernel_table *tables[MAX_TABLES];
    const int count = all_tables(tables);
    for (int t = 0; t < count; t++)
        for (int limit = 0; limit <= 10; limit += limit ? 9 : 1) {
            char key[32];
            snprintf(key, sizeof key, "swiglu.%d.y", limit);
            const float *want = tensor_file_data(&f, key, DTYPE_F32, ROWS * WIDTH);
            packed_weight w;
            assert_int_equal(weight_pack(sources, 2, true, true, tables[t]->lanes, &w, NULL), 0);
            const kernel_args args = { .experts = { .max_rows = ROWS,
                                                    .experts = 1,
                                                    .chosen = 1,
                                                    .first = first,
                                                    .pair = pair,
                                                    .w = &w,
                                                    .x = x[0],
                                                    .weight = weight,
                                                    .limit = (float)limit,
                                                    .out = out } };
            runner_run(tables[t], KERNEL_EXPERTS, &args);
            for (int i = 0; i < ROWS * WIDTH; i++)
                assert_true(fabsf(out[i] - want[i]) <= 4e-7f * fabsf(want[i]));
            weight_free(&w);
        }
    tensor_file_close(&f);
}

static expert_block pack(const experts_weights *w, int lanes)
{
    expert_block b;
    assert_int_equal(experts_pack(w->sources, w->shape.experts, true, lanes, &b, NULL), 0);
    return b;
}

static const dtype types[] = { DTYPE_F32,     DTYPE_F16,     DTYPE_BF16,  DTYPE_Q8_0, DTYPE_Q4_1,
                               DTYPE_F8_E4M3, DTYPE_F4_E2M1, DTYPE_MXFP4, DTYPE_I8 };
enum { TYPES = sizeof types / sizeof types[0] };

/* Every pair of a pass by KERNEL_MATMUL of its expert's weights, one row at a time. */
static void an_expert_gives_what_its_matmul_gives(void **state)
{
    (void)state;
    const kernel_table *ref = kernel_table_ref();
    for (int t = 0; t < TYPES; t++) {
        const experts_shape s = { .type = types[t],
                                  .dim = 64,
                                  .width = 32,
                                  .experts = 5,
                                  .chosen = 3,
                                  .max_rows = 6,
                                  .limit = 0.4f,
                                  .norm = true };
        experts_weights weights = experts_case_weights(&s, 3);
        experts_pass p = experts_case_pass(&s, 6, 4);
        expert_block b = pack(&weights, 16);
        experts_case_run(ref, &p, &b, true);
        for (int pair = 0; pair < 18; pair++) {
            const int row = pair / 3, e = p.choice[pair];
            float inner[32], y[64];
            kernel_args up = { .matmul = { .rows = { .max = 1 },
                                           .w = &b.gate_up[e],
                                           .x = p.x + row * s.dim,
                                           .norm = p.norm,
                                           .eps = 1e-6f,
                                           .epilogue = EPILOGUE_SWIGLU,
                                           .limit = s.limit,
                                           .out = inner } };
            matmul_run_kernel(&ref->kernel[KERNEL_MATMUL], &up);
            for (int i = 0; i < s.width; i++)
                assert_true(inner[i] * p.weight[pair] == p.inner[pair * s.width + i]);
            kernel_args down = {
                .matmul = { .rows = { .max = 1 }, .w = &b.down[e], .x = p.inner + pair * s.width, .out = y }
            };
            matmul_run_kernel(&ref->kernel[KERNEL_MATMUL], &down);
            assert_memory_equal(y, p.y + pair * s.dim, sizeof y);
        }
        for (int i = 0; i < 6 * s.dim; i++) {
            const float *y = p.y + i / s.dim * 3 * s.dim + i % s.dim;
            assert_true(p.out[i] == ((y[0] + y[s.dim]) + y[2 * s.dim]) + p.add[i]);
        }
        experts_free(&b);
        experts_case_free_pass(&p);
        experts_case_free_weights(&weights);
    }
}

/* How rows choose their experts. */
typedef enum { BY_LOGITS, ALL_TO_ONE, ONE_EACH, HOW_MANY } choosing;

static void choose(experts_pass *p, choosing how)
{
    const experts_shape *s = &p->shape;
    for (int i = 0; i < s->max_rows * s->chosen; i++) {
        const int row = i / s->chosen, nth = i % s->chosen;
        p->choice[i] =
            how == ALL_TO_ONE ? (nth + s->experts - s->chosen) : (row * s->chosen + nth) % s->experts;
        p->weight[i] = 0.25f + (float)(i % 7);
    }
}

static void assert_same(const char *isa, const experts_shape *s, int live, choosing how,
                        const experts_pass *want, const experts_pass *got)
{
    for (size_t i = 0; i < want->bytes; i += 4)
        if (memcmp((char *)want->memory + i, (char *)got->memory + i, 4) != 0)
            fail_msg("%s %s: dim %d width %d, %d of %d experts, %d of %d rows, choosing %d: inner %d y %d, "
                     "byte %zu",
                     isa, dtype_get(s->type)->name, s->dim, s->width, s->chosen, s->experts, live,
                     s->max_rows, (int)how, (int)((char *)want->inner - (char *)want->memory),
                     (int)((char *)want->y - (char *)want->memory), i);
}

/* The pass on ref and on every other instruction set: all memory afterwards, and so what was left alone, is equal. */
static void check(const experts_shape *s, int live, choosing how)
{
    const kernel_table *tables[MAX_TABLES];
    const int count = all_tables(tables);
    experts_weights weights = experts_case_weights(s, 11);
    experts_pass want = { 0 };
    for (int t = 0; t < count; t++) {
        experts_pass p = experts_case_pass(s, live, 12);
        expert_block b = pack(&weights, tables[t]->lanes);
        if (how != BY_LOGITS)
            choose(&p, how);
        experts_case_run(tables[t], &p, &b, how == BY_LOGITS);
        experts_free(&b);
        if (t == 0) {
            want = p;
            continue;
        }
        assert_same(tables[t]->name, s, live, how, &want, &p);
        experts_case_free_pass(&p);
    }
    experts_case_free_pass(&want);
    experts_case_free_weights(&weights);
}

static void every_instruction_set_has_the_bits_of_ref(void **state)
{
    (void)state;
    static const int rows[][2] = { { 1, 1 }, { 2, 2 }, { 3, 0 }, { 8, 5 }, { 9, 9 }, { 24, 19 } };
    for (int t = 0; t < TYPES; t++)
        for (int r = 0; r < 6; r++) {
            const choosing how = (choosing)((t + r) % HOW_MANY);
            check(&(experts_shape) { .type = types[t],
                                     .dim = r % 2 ? 96 : 64,
                                     .width = how ? 32 : 160,
                                     .experts = 7,
                                     .chosen = 2,
                                     .max_rows = rows[r][0],
                                     .limit = r % 2 ? 0.7f : 0,
                                     .norm = r % 3 == 0 },
                  rows[r][1], how);
        }
}

/* Blocks of rows, and outputs that do not fill their last group. cases.md X05: all pairs with the last expert. */
static void large_and_odd_shapes_have_the_bits_of_ref(void **state)
{
    (void)state;
    for (int t = 0; t < TYPES; t++) {
        check(
            &(experts_shape) {
                .type = types[t], .dim = 32, .width = 32, .experts = 3, .chosen = 1, .max_rows = 150 },
            149, ALL_TO_ONE);
        check(
            &(experts_shape) {
                .type = types[t], .dim = 288, .width = 96, .experts = 2, .chosen = 1, .max_rows = 3 },
            3, BY_LOGITS);
    }
    for (int t = 0; t < 3; t++) /* plain types have no blocks */
        check(
            &(experts_shape) {
                .type = types[t], .dim = 37, .width = 19, .experts = 4, .chosen = 3, .max_rows = 21 },
            21, BY_LOGITS);
}

static void a_row_alone_and_among_others_has_the_same_bits(void **state)
{
    (void)state;
    const kernel_table *best;
    assert_int_equal(kernel_table_get(NULL, &best, NULL), 0);
    for (int t = 0; t < TYPES; t++) {
        const experts_shape s = { .type = types[t],
                                  .dim = 64,
                                  .width = 64,
                                  .experts = 4,
                                  .chosen = 2,
                                  .max_rows = 150,
                                  .limit = 1,
                                  .norm = true };
        experts_weights weights = experts_case_weights(&s, 21);
        expert_block b = pack(&weights, best->lanes);
        experts_pass all = experts_case_pass(&s, 150, 22);
        experts_case_run(best, &all, &b, true);
        for (int r = 0; r < 150; r += 29) {
            experts_pass one = experts_case_pass(&s, 1, 22);
            memcpy(one.x, all.x + r * s.dim, (size_t)s.dim * sizeof(float));
            memcpy(one.add, all.add + r * s.dim, (size_t)s.dim * sizeof(float));
            memcpy(one.logits, all.logits + r * s.experts, (size_t)s.experts * sizeof(float));
            experts_case_run(best, &one, &b, true);
            assert_memory_equal(one.out, all.out + r * s.dim, (size_t)s.dim * sizeof(float));
            experts_case_free_pass(&one);
        }
        experts_case_free_pass(&all);
        experts_free(&b);
        experts_case_free_weights(&weights);
    }
}

/* ---- the block, and what a pass costs ---- */

static void a_layer_of_experts_is_one_block(void **state)
{
    (void)state;
    const experts_shape s = {
        .type = DTYPE_F16, .dim = 48, .width = 20, .experts = 3, .chosen = 1, .max_rows = 1
    };
    experts_weights w = experts_case_weights(&s, 31);
    expert_block b = pack(&w, 8);
    const uint8_t *at = b.data;
    for (int e = 0; e < 3; e++) {
        assert_ptr_equal(b.gate_up[e].data, at);
        at += b.gate_up[e].bytes;
        assert_ptr_equal(b.down[e].data, at);
        at += b.down[e].bytes;
        assert_int_equal(b.gate_up[e].rows, 40);
        assert_int_equal(b.gate_up[e].groups, 6);
        float got[48], want[48];
        weight_read_row(&b.gate_up[e], 1, 3, got); /* the first group of ups */
        dtype_to_f32(DTYPE_F16, (const uint16_t *)w.sources[e].up.data + 3 * 48, 48, want);
        assert_memory_equal(got, want, sizeof got);
        weight_read_row(&b.down[e], 5, 7, got);
        dtype_to_f32(DTYPE_F16, (const uint16_t *)w.sources[e].down.data + 47 * 20, 20, want);
        assert_memory_equal(got, want, 20 * sizeof got[0]);
    }
    assert_int_equal(at - b.data, b.bytes);
    assert_int_equal(b.file_bytes, w.bytes[0] + w.bytes[1]);
    experts_free(&b);

    foray_error err;
    const int64_t blocks = mem_get_stats().blocks;
    for (int nth = 1; nth <= 2; nth++) {
        mem_fail_nth(nth, false);
        assert_int_equal(experts_pack(w.sources, 3, true, 8, &b, &err), FORAY_ENOMEM);
    }
    mem_fail_nth(0, false);
    w.sources[2].up.rows = 19;
    assert_int_equal(experts_pack(w.sources, 3, true, 8, &b, &err), FORAY_EUNSUPPORTED);
    assert_non_null(strstr(err.text, "expert 2"));
    w.sources[2].up.rows = 20;
    for (int e = 0; e < 3; e++)
        w.sources[e].down.rows = 47;
    assert_int_equal(experts_pack(w.sources, 3, true, 8, &b, &err), FORAY_EUNSUPPORTED);
    assert_int_equal(mem_get_stats().blocks, blocks);
    experts_case_free_weights(&w);
}

static void a_pass_costs_the_experts_that_it_chose(void **state)
{
    (void)state;
    const experts_shape s = {
        .type = DTYPE_F32, .dim = 32, .width = 32, .experts = 6, .chosen = 2, .max_rows = 8
    };
    experts_weights w = experts_case_weights(&s, 41);
    expert_block b = pack(&w, 8);
    experts_pass p = experts_case_pass(&s, 3, 42);
    choose(&p, ALL_TO_ONE);
    experts_case_run(kernel_table_ref(), &p, &b, false);
    assert_int_equal(*p.distinct, 2);
    const kernel_args args = experts_case_gate_up(&p, &b);
    const kernel_cost most = kernel_get_cost(KERNEL_EXPERTS, &args);
    const kernel_cost live = kernel_get_live_cost(KERNEL_EXPERTS, &args);
    assert_true(most.flops == 2.0 * 16 * 64 * 32 && live.flops == 2.0 * 6 * 64 * 32);
    assert_true(most.bytes == 6 * 64 * 32 * 4.0 + 16 * (32 + 32) * 4.0);
    assert_true(live.bytes == 2 * 64 * 32 * 4.0 + 6 * (32 + 32) * 4.0);

    kernel_access accesses[KERNEL_MAX_ACCESSES];
    const int count = kernel_accesses(KERNEL_EXPERTS, &args, accesses);
    bool reads_first = false, writes_inner = false;
    for (int i = 0; i < count; i++) {
        reads_first |= accesses[i].start == p.first && !accesses[i].write && accesses[i].bytes == 7 * 4;
        writes_inner |= accesses[i].start == p.inner && accesses[i].write && accesses[i].bytes == 16 * 32 * 4;
    }
    assert_true(reads_first && writes_inner);
    experts_case_free_pass(&p);
    experts_free(&b);
    experts_case_free_weights(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(routes_are_those_of_the_reference),
        cmocka_unit_test(ties_go_to_the_lowest_id),
        cmocka_unit_test(the_bias_selects_and_does_not_weigh),
        cmocka_unit_test(very_negative_logits_have_finite_weights),
        cmocka_unit_test(any_logits_choose_distinct_experts),
        cmocka_unit_test(hash_layers_follow_the_table),
        cmocka_unit_test(pairs_stand_in_order_by_expert),
        cmocka_unit_test(the_gate_is_cut_as_the_reference_does),
        cmocka_unit_test(an_expert_gives_what_its_matmul_gives),
        cmocka_unit_test(every_instruction_set_has_the_bits_of_ref),
        cmocka_unit_test(large_and_odd_shapes_have_the_bits_of_ref),
        cmocka_unit_test(a_row_alone_and_among_others_has_the_same_bits),
        cmocka_unit_test(a_layer_of_experts_is_one_block),
        cmocka_unit_test(a_pass_costs_the_experts_that_it_chose),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
