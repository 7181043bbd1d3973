/* kernel_weight.c: packing moves values and never changes them; what cannot be packed is an error that says why.
 *
 * The oracle is format/dtype.h's expansion of the source; packed rows are read back with weight_read_*.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/mem.h"
#include "support/matmul_case.h"

#include <cmocka.h> /* last: its macro fail() hides ours */

static const dtype types[] = { DTYPE_F32,  DTYPE_F16,     DTYPE_BF16,    DTYPE_Q4_0,  DTYPE_Q4_1,
                               DTYPE_Q5_0, DTYPE_Q5_1,    DTYPE_Q8_0,    DTYPE_Q4_K,  DTYPE_Q5_K,
                               DTYPE_Q6_K, DTYPE_F8_E4M3, DTYPE_F4_E2M1, DTYPE_MXFP4, DTYPE_I8 };
enum { TYPES = sizeof types / sizeof types[0], COLS = 512 };

/* Row `row` of a packed matrix as numbers. Sums of a product and a minimum are formed as the formats do. */
static void read_row(const packed_weight *w, int group, int lane, float *out)
{
    if (w->form != ACTIVATION_Q8) {
        weight_read_row(w, group, lane, out);
        return;
    }
    for (int b = 0; b < w->cols / 32; b++) {
        weight_block block;
        weight_read_block(w, group, lane, b, &block);
        for (int k = 0; k < 32; k++)
            out[32 * b + k] = block.scale[k / 16] * (float)block.q[k] + block.min;
    }
}

static void assert_row(const packed_weight *w, int group, int lane, const weight_source *s, int row,
                       const char *what)
{
    float want[COLS], got[COLS];
    matmul_read_source(s, row, want);
    read_row(w, group, lane, got);
    for (int k = 0; k < w->cols; k++)
        if (want[k] != got[k])
            fail_msg("%s %s, %d lanes: group %d lane %d column %d is %a, not %a", dtype_get(w->type)->name,
                     what, w->lanes, group, lane, k, (double)got[k], (double)want[k]);
}

/* A matrix of random weights with what belongs to it. */
typedef struct {
    uint8_t *data, *scale;
    size_t bytes, scale_bytes, stride;
} matrix;

static matrix make_matrix(dtype type, int rows, int cols, uint64_t seed)
{
    matrix m;
    m.data = matmul_random_weights(type, rows, cols, VALUES_ORDINARY, seed, &m.bytes);
    m.scale = matmul_random_scales(type, rows, cols, VALUES_ORDINARY, seed + 100, &m.scale_bytes, &m.stride);
    return m;
}

static weight_source source_of(const matrix *m, dtype type, int rows, int cols)
{
    return (weight_source) { .data = m->data,
                             .type = type,
                             .rows = rows,
                             .cols = cols,
                             .scale = m->scale,
                             .scale_stride = m->stride };
}

static void free_matrix(matrix *m)
{
    mem_free(MEM_GENERAL, m->data, m->bytes);
    mem_free(MEM_GENERAL, m->scale, m->scale_bytes);
}

static packed_weight pack(const weight_source *sources, int count, bool interleave, bool rounded, int lanes)
{
    packed_weight w;
    assert_int_equal(weight_pack(sources, count, interleave, rounded, lanes, &w, NULL), 0);
    assert_int_equal(w.form, weight_form(w.type, rounded));
    assert_int_equal(w.group_bytes % 64, 0);
    return w;
}

/* Two sources one below the other, the second in an order of its own: 13 + 11 rows. I8 is read back as numbers where
 * activations stay f32. */
static void rows_follow_one_another_in_the_order_asked_for(void **state)
{
    (void)state;
    static const int32_t order[11] = { 10, 0, 9, 1, 8, 2, 7, 3, 6, 4, 5 };
    for (int t = 0; t < TYPES; t++)
        for (int lanes = 8; lanes <= 16; lanes += 8) {
            matrix a = make_matrix(types[t], 13, COLS, 5), b = make_matrix(types[t], 11, COLS, 6);
            weight_source sources[2] = { source_of(&a, types[t], 13, COLS),
                                         source_of(&b, types[t], 11, COLS) };
            sources[1].order = order;
            packed_weight w = pack(sources, 2, false, types[t] != DTYPE_I8, lanes);
            assert_int_equal(w.rows, 24);
            assert_int_equal(w.groups, (24 + lanes - 1) / lanes);
            assert_int_equal(w.file_bytes, a.bytes + b.bytes + a.scale_bytes + b.scale_bytes);
            for (int i = 0; i < 24; i++)
                assert_row(&w, i / lanes, i % lanes, &sources[i >= 13], i < 13 ? i : i - 13, "stacked");
            weight_free(&w);
            free_matrix(&a);
            free_matrix(&b);
        }
}

/* Gate and up: groups in turn, each padded on its own, padding all zeros. */
static void gates_and_ups_take_groups_in_turn(void **state)
{
    (void)state;
    for (int t = 0; t < TYPES; t++)
        for (int lanes = 8; lanes <= 16; lanes += 8) {
            matrix a = make_matrix(types[t], 21, COLS, 8), b = make_matrix(types[t], 21, COLS, 9);
            const weight_source sources[2] = { source_of(&a, types[t], 21, COLS),
                                               source_of(&b, types[t], 21, COLS) };
            packed_weight w = pack(sources, 2, true, false, lanes);
            assert_int_equal(w.rows, 42);
            assert_int_equal(w.groups, 2 * ((21 + lanes - 1) / lanes));
            for (int i = 0; i < 21; i++) {
                assert_row(&w, 2 * (i / lanes), i % lanes, &sources[0], i, "gate");
                assert_row(&w, 2 * (i / lanes) + 1, i % lanes, &sources[1], i, "up");
            }
            float padding[COLS];
            read_row(&w, w.groups - 1, lanes - 1, padding);
            for (int k = 0; k < COLS; k++)
                assert_true(padding[k] == 0);
            weight_free(&w);
            free_matrix(&a);
            free_matrix(&b);
        }
}

/* A part of a matrix begins inside a tile of 128 rows; its scales are those of the whole. Columns end inside a block. */
static void a_part_of_a_matrix_takes_the_scales_of_its_rows(void **state)
{
    (void)state;
    static const dtype scaled[] = { DTYPE_F8_E4M3, DTYPE_F4_E2M1, DTYPE_I8 };
    for (int t = 0; t < 3; t++)
        for (int cols = 2; cols <= 500; cols += 166)
            for (int lanes = 8; lanes <= 16; lanes += 8) {
                matrix m = make_matrix(scaled[t], 300, cols, 11);
                weight_source s = source_of(&m, scaled[t], 70, cols);
                uint64_t row_bytes;
                dtype_bytes(scaled[t], (uint64_t)cols, &row_bytes);
                s.first_row = 100;
                s.data = m.data + 100 * row_bytes;
                packed_weight w = pack(&s, 1, false, false, lanes);
                for (int i = 0; i < 70; i++)
                    assert_row(&w, i / lanes, i % lanes, &s, i, "part");
                weight_free(&w);
                free_matrix(&m);
            }
}

/* What stays in memory is what the file has: FP8 and FP4 are never expanded. */
static void packed_matrices_are_as_small_as_in_the_file(void **state)
{
    (void)state;
    static const dtype scaled[] = { DTYPE_F8_E4M3, DTYPE_F4_E2M1, DTYPE_MXFP4, DTYPE_I8 };
    for (int t = 0; t < 4; t++)
        for (int lanes = 8; lanes <= 16; lanes += 8) {
            matrix m = make_matrix(scaled[t], 256, 1024, 12);
            weight_source s = source_of(&m, scaled[t], 256, 1024);
            packed_weight w = pack(&s, 1, false, true, lanes);
            assert_true((double)w.bytes <= 1.05 * (double)w.file_bytes);
            weight_free(&w);
            free_matrix(&m);
        }
}

/* Whether a vector kernel may scale sums instead of weights. */
static void extraordinary_scales_and_codes_are_noticed(void **state)
{
    (void)state;
    uint8_t codes[256] = { 0 }, scale[4] = { 105, 129, 120, 127 };
    weight_source s = { .data = codes, .rows = 1, .cols = 128, .scale = scale, .scale_stride = 4 };
    for (int type = DTYPE_F8_E4M3; type <= DTYPE_F4_E2M1; type += DTYPE_F4_E2M1 - DTYPE_F8_E4M3) {
        s.type = (dtype)type;
        for (int change = 0; change < 4; change++) {
            scale[0] = change == 1 ? 104 : change == 2 ? 130 : change == 3 ? 0 : 105;
            packed_weight w = pack(&s, 1, false, true, 16);
            assert_int_equal(w.ordinary, change == 0);
            weight_free(&w);
        }
        scale[0] = 105;
    }
    s.type = DTYPE_F8_E4M3;
    for (int nan = 0x7f; nan <= 0xff; nan += 0x80) {
        codes[77] = (uint8_t)nan;
        packed_weight w = pack(&s, 1, false, true, 16);
        assert_false(w.ordinary);
        weight_free(&w);
    }
}

static void what_cannot_be_packed_says_why(void **state)
{
    (void)state;
    static const float zeros[64];
    packed_weight w;
    foray_error err;
    weight_source s = { .data = zeros, .type = DTYPE_I32, .rows = 1, .cols = 8 };
    assert_false(weight_type_supported(DTYPE_I32));
    assert_int_equal(weight_pack(&s, 1, false, true, 8, &w, &err), FORAY_EUNSUPPORTED);
    assert_non_null(strstr(err.text, "I32"));
    s = (weight_source) { .data = zeros, .type = DTYPE_F8_E4M3, .rows = 1, .cols = 8 };
    assert_false(weight_type_supported(DTYPE_F8_E4M3));
    assert_int_equal(weight_pack(&s, 1, false, true, 8, &w, &err), FORAY_EUNSUPPORTED);
    assert_non_null(strstr(err.text, "F8_E4M3 without its scales"));
    s = (weight_source) { .data = zeros, .type = DTYPE_I8, .rows = 1, .cols = 132001, .scale = zeros };
    assert_int_equal(weight_pack(&s, 1, false, true, 8, &w, &err), FORAY_EUNSUPPORTED);
    assert_non_null(strstr(err.text, "132001 columns"));
    s = (weight_source) { .data = zeros, .type = DTYPE_Q4_K, .rows = 1, .cols = 32 };
    assert_int_equal(weight_pack(&s, 1, false, true, 8, &w, &err), FORAY_EUNSUPPORTED);
    assert_non_null(strstr(err.text, "Q4_K"));
    assert_non_null(strstr(err.text, "32 columns"));

    s = (weight_source) { .data = zeros, .type = DTYPE_F32, .rows = 2, .cols = 32 };
    const int64_t blocks = mem_get_stats().blocks;
    mem_fail_nth(1, false);
    assert_int_equal(weight_pack(&s, 1, false, true, 8, &w, &err), FORAY_ENOMEM);
    mem_fail_nth(0, false);
    assert_int_equal(mem_get_stats().blocks, blocks);
    assert_int_equal(weight_pack(&s, 1, false, true, 8, &w, &err), 0);
    weight_free(&w);
    assert_int_equal(mem_get_stats().blocks, blocks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_follow_one_another_in_the_order_asked_for),
        cmocka_unit_test(gates_and_ups_take_groups_in_turn),
        cmocka_unit_test(a_part_of_a_matrix_takes_the_scales_of_its_rows),
        cmocka_unit_test(packed_matrices_are_as_small_as_in_the_file),
        cmocka_unit_test(extraordinary_scales_and_codes_are_noticed),
        cmocka_unit_test(what_cannot_be_packed_says_why),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
