/* kernel_attention.c: attention is a softmax, has the same bits on every instruction set, and a row's result
 * depends on nothing but the entries it sees.
 *
 * Every entry that no row may see holds NaN or infinity. Shapes: 1 … 9 rows, spans of several requests,
 * lengths around the edges of pages and key tiles, windows, heads per K/V head from 1 to 14, head sizes that
 * fill vectors and that do not. One thread.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "kernel/ref/attention.h"
#include "support/kernel_runner.h"

enum { MAX_SPANS = 4, SLOTS = 6 };

typedef struct {
    int heads, kv_heads, head_dim, page_rows, window;
} shape;

/* A layer's cache with SLOTS requests of `length` entries each, q and out for `rows` rows. */
typedef struct {
    args_attention args;
    row_span spans[MAX_SPANS * 16];
    int32_t span_count;
    size_t page_bytes, pages, out_bytes, q_bytes;
    int32_t *table;
    size_t table_bytes;
} layer;

static uint32_t counter;

static void layer_make(layer *l, shape s, int length, const row_span *spans, int count)
{
    int rows = 0;
    for (int i = 0; i < count; i++)
        rows += spans[i].rows;
    const int per_slot = (length + s.page_rows - 1) / s.page_rows;
    memset(l, 0, sizeof *l);
    memcpy(l->spans, spans, (size_t)count * sizeof *spans);
    l->span_count = count;
    l->pages = (size_t)(SLOTS * per_slot);
    l->page_bytes = (size_t)(2 * s.kv_heads * s.page_rows * s.head_dim) * sizeof(uint16_t) + 64;
    l->table_bytes = l->pages * sizeof(int32_t);
    l->table = mem_alloc(MEM_GENERAL, l->table_bytes);
    for (size_t i = 0; i < l->pages; i++)
        l->table[i] = (int32_t)(l->pages - 1 - i);
    const size_t width = (size_t)(s.heads * s.head_dim);
    l->q_bytes = (size_t)rows * (width + 5) * sizeof(float);
    l->out_bytes = (size_t)rows * width * sizeof(float);
    float *q = mem_alloc(MEM_GENERAL, l->q_bytes);
    for (size_t i = 0; i < l->q_bytes / sizeof(float); i++)
        q[i] = 2.0f * runner_float(1, &counter);
    l->args = (args_attention) {
        .span_count = &l->span_count,
        .spans = l->spans,
        .max_spans = count,
        .max_rows = rows,
        .max_length = length,
        .q = q,
        .q_stride = width + 5,
        .heads = s.heads,
        .scale = 0.35f,
        .window = s.window,
        .kv = { .base = mem_alloc(MEM_GENERAL, l->pages * l->page_bytes),
                .page_stride = l->page_bytes,
                .table = l->table,
                .table_stride = per_slot,
                .page_rows = s.page_rows,
                .kv_heads = s.kv_heads,
                .head_dim = s.head_dim },
        .out = mem_alloc(MEM_GENERAL, l->out_bytes),
    };
    uint16_t *all = (uint16_t *)(void *)l->args.kv.base;
    for (size_t i = 0; i < l->pages * l->page_bytes / 2; i++)
        all[i] = i % 3 ? 0x7e01 : 0xfc00;
}

static void layer_free(layer *l)
{
    mem_free(MEM_GENERAL, (void *)l->args.q, l->q_bytes);
    mem_free(MEM_GENERAL, l->args.out, l->out_bytes);
    mem_free(MEM_GENERAL, l->args.kv.base, l->pages * l->page_bytes);
    mem_free(MEM_GENERAL, l->table, l->table_bytes);
}

/* Writes real values into entries first … last of a slot. */
static void layer_fill(layer *l, int slot, int first, int last)
{
    const kv_layer *kv = &l->args.kv;
    for (int h = 0; h < kv->kv_heads; h++)
        for (int t = first; t <= last; t++) {
            uint16_t *k = attention_keys(kv, slot, h, t / 16), *v = k + attention_values(kv);
            for (int d = 0; d < kv->head_dim; d++) {
                k[d * 16 + t % 16] = dtype_f32_to_f16(runner_float(2, &counter));
                v[(t % 16) * kv->head_dim + d] = dtype_f32_to_f16(runner_float(3, &counter));
            }
        }
}

static void layer_run(layer *l, const kernel_table *t)
{
    const kernel_args args = { .attention = l->args };
    memset(l->args.out, 0xff, l->out_bytes);
    runner_run(t, KERNEL_ATTENTION, &args);
}

/* Softmax attention in double precision. */
static void attend_in_double(const args_attention *a, const row_span *span, int row, int head, double *out)
{
    const kv_layer *kv = &a->kv;
    const int last = span->first_position + row, kv_head = head * kv->kv_heads / a->heads;
    const float *q = a->q + (size_t)(span->first_row + row) * a->q_stride + head * kv->head_dim;
    double sum = 0;
    memset(out, 0, (size_t)kv->head_dim * sizeof *out);
    for (int t = a->window && last >= a->window ? last - a->window + 1 : 0; t <= last; t++) {
        const uint16_t *k = attention_keys(kv, span->slot, kv_head, t / 16), *v = k + attention_values(kv);
        double s = 0;
        for (int d = 0; d < kv->head_dim; d++)
            s += (double)q[d] * (double)dtype_f16_to_f32(k[d * 16 + t % 16]);
        const double e = exp(s * (double)a->scale);
        sum += e;
        for (int d = 0; d < kv->head_dim; d++)
            out[d] += e * (double)dtype_f16_to_f32(v[(t % 16) * kv->head_dim + d]);
    }
    for (int d = 0; d < kv->head_dim; d++)
        out[d] /= sum;
}

static void check_against_double(const layer *l)
{
    const args_attention *a = &l->args;
    double want[256];
    for (int s = 0; s < l->span_count; s++)
        for (int r = 0; r < l->spans[s].rows; r++)
            for (int h = 0; h < a->heads; h++) {
                attend_in_double(a, &l->spans[s], r, h, want);
                for (int d = 0; d < a->kv.head_dim; d++) {
                    const size_t at =
                        (size_t)((l->spans[s].first_row + r) * a->heads + h) * a->kv.head_dim + d;
                    assert_true(fabs((double)a->out[at] - want[d]) < 2e-5);
                }
            }
}

/* Fills what the spans may see, then compares ref with double, every set with ref, and rows alone with rows
 * together. */
static void check_shape(shape s, int length, const row_span *spans, int count)
{
    layer l;
    layer_make(&l, s, length, spans, count);
    for (int i = 0; i < count; i++) {
        const int last = spans[i].first_position + spans[i].rows - 1;
        layer_fill(&l, spans[i].slot, attention_first(&l.args, spans[i].first_position), last);
    }
    layer_run(&l, kernel_table_ref());
    check_against_double(&l);

    float *want = mem_alloc(MEM_GENERAL, l.out_bytes);
    memcpy(want, l.args.out, l.out_bytes);
    const kernel_table *tables[RUNNER_MAX_TABLES];
    const int n = runner_tables(tables);
    for (int i = 0; i < n; i++) {
        layer_run(&l, tables[i]);
        assert_memory_equal(l.args.out, want, l.out_bytes);
    }
    int singles = 0;
    for (int i = 0; i < count; i++)
        for (int r = 0; r < spans[i].rows; r++)
            l.spans[singles++] =
                (row_span) { spans[i].first_row + r, 1, spans[i].slot, spans[i].first_position + r };
    l.args.max_spans = l.span_count = singles;
    for (int i = 0; i < n; i++) {
        layer_run(&l, tables[i]);
        assert_memory_equal(l.args.out, want, l.out_bytes);
    }
    mem_free(MEM_GENERAL, want, l.out_bytes);
    layer_free(&l);
}

static void every_length_around_tiles_and_pages(void **state)
{
    (void)state;
    const shape s = { .heads = 3, .kv_heads = 1, .head_dim = 16, .page_rows = 32 };
    for (int p = 0; p < 70; p++)
        check_shape(s, 72, (row_span[]) { { 0, 1 + p % 3, p % SLOTS, p } }, 1);
}

static void every_number_of_rows_and_heads(void **state)
{
    (void)state;
    const int group[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 14 };
    for (int g = 0; g < 13; g++)
        for (int rows = 1; rows <= 9; rows++) {
            const shape s = { .heads = 2 * group[g], .kv_heads = 2, .head_dim = 16, .page_rows = 16 };
            check_shape(s, 64, (row_span[]) { { 0, rows, 1, 13 + rows } }, 1);
        }
    const shape one = { .heads = 13, .kv_heads = 13, .head_dim = 8, .page_rows = 16 };
    check_shape(one, 64, (row_span[]) { { 0, 40, 1, 11 } }, 1);
}

static void every_head_size(void **state)
{
    (void)state;
    for (int d = 8; d <= 136; d += 8) {
        check_shape((shape) { 9, 3, d, 16, 0 }, 64, (row_span[]) { { 0, 4, 0, 30 } }, 1);
        check_shape((shape) { 4, 4, d, 48, 0 }, 64, (row_span[]) { { 0, 1, 5, 50 } }, 1);
        check_shape((shape) { 8, 4, d, 48, 0 }, 64, (row_span[]) { { 0, 7, 5, 0 } }, 1);
    }
    check_shape((shape) { 8, 1, 256, 16, 0 }, 64, (row_span[]) { { 0, 3, 0, 40 } }, 1);
}

static void several_requests_at_once(void **state)
{
    (void)state;
    const row_span spans[] = { { 0, 1, 3, 61 }, { 1, 5, 0, 14 }, { 6, 9, 5, 0 }, { 15, 2, 1, 31 } };
    check_shape((shape) { 9, 3, 64, 16, 0 }, 64, spans, 4);
    check_shape((shape) { 9, 3, 64, 16, 8 }, 64, spans, 4);
    check_shape((shape) { 14, 2, 64, 16, 0 }, 64, spans, 4);
    check_shape((shape) { 4, 4, 24, 64, 20 }, 64, spans, 4);
}

static void windows_cut_at_every_place(void **state)
{
    (void)state;
    for (int window = 1; window <= 40; window += 1 + window / 9)
        for (int p = 0; p < 64; p += 5)
            check_shape((shape) { 6, 3, 16, 16, window }, 80, (row_span[]) { { 0, 1 + p % 9, 2, p } }, 1);
}

static void a_long_prompt_in_one_span(void **state)
{
    (void)state;
    check_shape((shape) { 3, 1, 32, 16, 0 }, 300, (row_span[]) { { 0, 60, 2, 203 } }, 1);
    check_shape((shape) { 3, 1, 32, 16, 50 }, 300, (row_span[]) { { 0, 60, 2, 203 } }, 1);
}

/* Requests without rows in a pass, in every place among others: what else their spans hold is of no consequence. */
static void spans_of_no_rows_change_nothing(void **state)
{
    (void)state;
    static const row_span full[] = { { 0, 3, 2, 30 }, { 3, 1, 0, 7 }, { 4, 14, 5, 2 } };
    layer l;
    layer_make(&l, (shape) { 6, 2, 32, 16, 0 }, 40, full, 3);
    for (int i = 0; i < 3; i++)
        layer_fill(&l, full[i].slot, 0, full[i].first_position + full[i].rows - 1);
    layer_run(&l, kernel_table_ref());
    float *want = mem_alloc(MEM_GENERAL, l.out_bytes);
    memcpy(want, l.args.out, l.out_bytes);
    const kernel_table *tables[1 + RUNNER_MAX_TABLES] = { kernel_table_ref() };
    const int n = 1 + runner_tables(tables + 1);
    for (int places = 1; places < 16; places++) { /* bit i: in front of span i; bit 3: behind the last */
        memset(l.spans, 0x7f, sizeof l.spans);
        l.span_count = 0;
        for (int i = 0; i <= 3; i++) {
            if (places >> i & 1)
                l.spans[l.span_count++].rows = 0;
            if (i < 3)
                l.spans[l.span_count++] = full[i];
        }
        l.args.max_spans = l.span_count;
        for (int t = 0; t < n; t++) {
            layer_run(&l, tables[t]);
            assert_memory_equal(l.args.out, want, l.out_bytes);
        }
    }
    mem_free(MEM_GENERAL, want, l.out_bytes);
    layer_free(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_length_around_tiles_and_pages),
        cmocka_unit_test(every_number_of_rows_and_heads),
        cmocka_unit_test(every_head_size),
        cmocka_unit_test(several_requests_at_once),
        cmocka_unit_test(windows_cut_at_every_place),
        cmocka_unit_test(a_long_prompt_in_one_span),
        cmocka_unit_test(spans_of_no_rows_change_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
