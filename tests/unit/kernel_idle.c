/* kernel_idle.c: with no live rows a kernel reads and writes nothing, has no tiles and costs nothing, on every instruction
 * set; with spans of no rows alone attention does not either.
 *
 * Whatever belongs to rows, weights and entries included, lies in memory that may not be touched. One thread.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <cmocka.h>

#include "support/kernel_runner.h"

enum { ROWS = 6, EXPERTS = 5, MAX_TABLES = 1 + RUNNER_MAX_TABLES };

static void *nothing; /* no rights */
static int32_t live;

static int take_nothing(void **state)
{
    (void)state;
    nothing = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(nothing != MAP_FAILED);
    return 0;
}

static int all_tables(const kernel_table *out[MAX_TABLES])
{
    out[0] = kernel_table_ref();
    return 1 + runner_tables(out + 1);
}

/* What a pass of shapes that models have gives each kernel. w: of these lanes. */
static kernel_args args_of(kernel_id id, const packed_weight *w, int32_t *first)
{
    const row_count rows = { .live = &live, .max = ROWS };
    const kv_layer kv = { nothing, 4096, nothing, 4, 16, 1, 32 };
    const entry_rows entries = { .base = nothing,
                                 .page_stride = 4096,
                                 .table = nothing,
                                 .table_stride = 4,
                                 .page_rows = 4,
                                 .width = 64,
                                 .ring = 32,
                                 .stride = 256 };
    kernel_args a;
    memset(&a, 0, sizeof a);
    switch (id) {
    case KERNEL_EMBED:
        a.embed = (args_embed) { rows, nothing, DTYPE_F32, nothing, 99, 64, 2, 4, nothing };
        break;
    case KERNEL_QUANT:
        a.quant = (args_quant) { rows, nothing, 64, 64, nothing, 1e-5f, w->form, { nothing, 4096 } };
        break;
    case KERNEL_MATMUL:
        a.matmul = (args_matmul) { .rows = rows, .w = w, .x = nothing, .x_stride = 64, .norm = nothing };
        a.matmul.bias = a.matmul.out = nothing;
        a.matmul.out_stride = 64;
        break;
    case KERNEL_ROPE_ANGLES:
        a.rope_angles = (args_rope_angles) { rows, nothing, nothing, 16, 1, nothing };
        break;
    case KERNEL_ROPE_STORE:
        a.rope_store = (args_rope_store) { rows,    nothing, 4,       32,      nothing, nothing,
                                           nothing, 1e-5f,   nothing, nothing, kv };
        break;
    case KERNEL_ATTENTION:
        a.attention = (args_attention) { &live, nothing, ROWS, ROWS, 64, nothing, 128, 4, 1, 0, kv, nothing };
        break;
    case KERNEL_NORM_ADD:
        a.norm_add = (args_norm_add) { rows, nothing, nothing, nothing, 1e-5f, 64 };
        break;
    case KERNEL_GATHER:
        a.gather = (args_gather) { rows, nothing, nothing, 64, nothing };
        break;
    case KERNEL_SAMPLE:
        a.sample = (args_sample) { .rows = rows, .logits = nothing, .logits_stride = 99, .vocab = 99 };
        a.sample.position = a.sample.token = nothing;
        a.sample.params = nothing;
        a.sample.history = nothing;
        a.sample.logprob = nothing;
        break;
    case KERNEL_HYPER_PRE:
        a.hyper_pre = (args_hyper_pre) { rows, nothing, nothing, nothing, nothing, 4,      64,
                                         5,    1e-6f,   1e-6f,   nothing, nothing, nothing };
        break;
    case KERNEL_HYPER_POST:
        a.hyper_post = (args_hyper_post) { rows, nothing, nothing, nothing, nothing, 4, 64 };
        break;
    case KERNEL_HEAD_ROPE:
        a.head_rope = (args_head_rope) { rows, nothing, 20, 64, 32, true, 1e-5f, nothing, true, ROUND_F8 };
        break;
    case KERNEL_LATENT_STORE:
        a.latent_store = (args_latent_store) { rows,  nothing, 64,      64,      32,       nothing,
                                               1e-5f, nothing, nothing, nothing, ROUND_F8, entries };
        break;
    case KERNEL_STATE_STORE:
        a.state_store = (args_state_store) { rows, nothing, 64, nothing, 32, 4, nothing, nothing, entries };
        break;
    case KERNEL_COMPRESS:
        a.compress = (args_compress) { rows,    nothing, nothing, 4,        64,      32,     true,
                                       nothing, 1e-5f,   nothing, ROUND_F8, entries, entries };
        break;
    case KERNEL_INDEX_SCORE:
        a.index_score = (args_index_score) { rows, nothing, nothing, nothing, nothing, 1,      4,
                                             64,   4,       8,       entries, 64,      nothing };
        break;
    case KERNEL_INDEX_SELECT:
        a.index_select = (args_index_select) { rows, nothing, 4, 8, 64, nothing, nothing, nothing };
        break;
    case KERNEL_SPARSE_ATTENTION:
        a.sparse_attention = (args_sparse_attention) { .rows = rows, .heads = 20, .width = 64, .window = 8 };
        a.sparse_attention.position = a.sparse_attention.slot = nothing;
        a.sparse_attention.q = a.sparse_attention.sink = a.sparse_attention.out = nothing;
        a.sparse_attention.ring = a.sparse_attention.entries = entries;
        a.sparse_attention.ratio = 4;
        a.sparse_attention.chosen = a.sparse_attention.count = nothing;
        a.sparse_attention.top = a.sparse_attention.max_entries = 8;
        break;
    case KERNEL_ENTRY_STORE:
    case KERNEL_ENTRY_LOAD:
        a.entry_copy = (args_entry_copy) { rows, nothing, nothing, entries, nothing };
        break;
    case KERNEL_ROUTE:
        a.route =
            (args_route) { rows, nothing, nothing, nothing, nothing, 99, EXPERTS, 2, 1, nothing, nothing };
        break;
    case KERNEL_GROUP:
        a.group = (args_group) { rows, nothing, EXPERTS, 2, first, nothing, first + EXPERTS + 1 };
        break;
    case KERNEL_EXPERTS:
        a.experts = (args_experts) { .max_rows = ROWS, .experts = EXPERTS, .chosen = 2, .first = first };
        a.experts.pair = nothing;
        a.experts.w = w;
        a.experts.x = a.experts.norm = a.experts.weight = a.experts.out = nothing;
        break;
    case KERNEL_COMBINE:
        a.combine = (args_combine) { rows, nothing, nothing, 2, 64, nothing };
        break;
    case KERNEL_HOST:
    case KERNEL_COUNT:
        break;
    }
    return a;
}

static packed_weight weight_of(const kernel_table *t, dtype type)
{
    return (packed_weight) { .type = type,
                             .rows = 64,
                             .cols = 64,
                             .lanes = t->lanes,
                             .groups = 64 / t->lanes,
                             .group_bytes = 1024,
                             .data = nothing,
                             .bytes = 64 / (size_t)t->lanes * 1024,
                             .form = weight_form(type, true),
                             .ordinary = true };
}

static void nothing_is_touched_without_live_rows(void **state)
{
    (void)state;
    static const dtype types[] = { DTYPE_F32, DTYPE_Q4_K, DTYPE_F8_E4M3, DTYPE_I8 };
    const kernel_table *tables[MAX_TABLES];
    for (int t = all_tables(tables) - 1; t >= 0; t--)
        for (int k = 0; k < 2 * 4 * KERNEL_HOST; k++) {
            const kernel_id id = (kernel_id)(k % KERNEL_HOST);
            const packed_weight w = weight_of(tables[t], types[k / KERNEL_HOST % 4]);
            int32_t first[EXPERTS + 2] = { 0 };
            const kernel_args args = args_of(id, &w, first);
            live = k < 4 * KERNEL_HOST ? 0 : -1;
            assert_int_equal(tables[t]->kernel[id].tiles(&args), id == KERNEL_GROUP);
            runner_run(tables[t], id, &args);
            const kernel_cost cost = kernel_get_live_cost(id, &args);
            assert_true(cost.flops == 0);
            assert_true(id == KERNEL_GROUP || cost.bytes == 0);
        }
}

/* Experts find no pairs where `group` had no rows, whatever it had in the pass before. */
static void group_says_that_there_are_no_pairs(void **state)
{
    (void)state;
    static const int32_t none[EXPERTS + 2];
    const kernel_table *tables[MAX_TABLES];
    live = 0;
    for (int t = all_tables(tables) - 1; t >= 0; t--) {
        int32_t first[EXPERTS + 2] = { 0, 3, 3, 7, 9, 12, 3 };
        const kernel_args args = args_of(KERNEL_GROUP, NULL, first);
        runner_run(tables[t], KERNEL_GROUP, &args);
        assert_memory_equal(first, none, sizeof none);
    }
}

static void spans_of_no_rows_touch_nothing(void **state)
{
    (void)state;
    row_span spans[ROWS];
    memset(spans, 0x7f, sizeof spans);
    for (int i = 0; i < ROWS; i++)
        spans[i].rows = 0;
    kernel_args args = args_of(KERNEL_ATTENTION, NULL, NULL);
    args.attention.spans = spans;
    live = ROWS;
    const kernel_table *tables[MAX_TABLES];
    for (int t = all_tables(tables) - 1; t >= 0; t--) {
        assert_int_equal(tables[t]->kernel[KERNEL_ATTENTION].tiles(&args), 0);
        runner_run(tables[t], KERNEL_ATTENTION, &args);
    }
    const kernel_cost cost = kernel_get_live_cost(KERNEL_ATTENTION, &args);
    assert_true(cost.flops == 0 && cost.bytes == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_touched_without_live_rows),
        cmocka_unit_test(group_says_that_there_are_no_pairs),
        cmocka_unit_test(spans_of_no_rows_touch_nothing),
    };
    return cmocka_run_group_tests(tests, take_nothing, NULL);
}
