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

static const dtype types[] = { DTYPE_F32,  DTYPE_F16,  DTYPE_BF16, DTYPE_Q4_0, DTYPE_Q4_1, DTYPE_Q5_0,
                               DTYPE_Q5_1, DTYPE_Q8_0, DTYPE_Q4_K, DTYPE_Q5_K, DTYPE_Q6_K };
enum { TYPES = sizeof types / sizeof types[0], COLS = 512 };

/* Row `row` of a packed matrix as numbers. Sums of a product and a minimum are formed as the formats do. */
static void read_row(const packed_weight *w, int group, int lane, float *out)
{
    if (w->form == ACTIVATION_F32) {
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

static void assert_row(const packed_weight *w, int group, int lane, const uint8_t *data, int row,
                       const char *what)
{
    uint64_t row_bytes;
    float want[COLS], got[COLS];
    dtype_bytes(w->type, (uint64_t)w->cols, &row_bytes);
    dtype_to_f32(w->type, data + (size_t)row * row_bytes, (size_t)w->cols, want);
    read_row(w, group, lane, got);
    for (int k = 0; k < w->cols; k++)
        if (want[k] != got[k])
            fail_msg("%s %s, %d lanes: group %d lane %d column %d is %a, not %a", dtype_get(w->type)->name,
                     what, w->lanes, group, lane, k, (double)got[k], (double)want[k]);
}

/* Two sources one below the other, the second in an order of its own: 13 + 11 rows. */
static void rows_follow_one_another_in_the_order_asked_for(void **state)
{
    (void)state;
    static const int32_t order[11] = { 10, 0, 9, 1, 8, 2, 7, 3, 6, 4, 5 };
    for (int t = 0; t < TYPES; t++)
        for (int lanes = 8; lanes <= 16; lanes += 8) {
            size_t bytes[2];
            uint8_t *a = matmul_random_weights(types[t], 13, COLS, VALUES_ORDINARY, 5, &bytes[0]);
            uint8_t *b = matmul_random_weights(types[t], 11, COLS, VALUES_ORDINARY, 6, &bytes[1]);
            const weight_source sources[2] = {
                { .data = a, .type = types[t], .rows = 13, .cols = COLS },
                { .data = b, .type = types[t], .rows = 11, .cols = COLS, .order = order }
            };
            packed_weight w;
            assert_int_equal(weight_pack(sources, 2, false, true, lanes, &w, NULL), 0);
            assert_int_equal(w.rows, 24);
            assert_int_equal(w.groups, (24 + lanes - 1) / lanes);
            assert_int_equal(w.file_bytes, bytes[0] + bytes[1]);
            assert_int_equal(w.group_bytes % 64, 0);
            for (int i = 0; i < 24; i++)
                assert_row(&w, i / lanes, i % lanes, i < 13 ? a : b, i < 13 ? i : order[i - 13], "stacked");
            weight_free(&w);
            mem_free(MEM_GENERAL, a, bytes[0]);
            mem_free(MEM_GENERAL, b, bytes[1]);
        }
}

/* Gate and up: groups in turn, each padded on its own, padding all zeros. */
static void gates_and_ups_take_groups_in_turn(void **state)
{
    (void)state;
    for (int t = 0; t < TYPES; t++)
        for (int lanes = 8; lanes <= 16; lanes += 8) {
            size_t bytes;
            uint8_t *data = matmul_random_weights(types[t], 42, COLS, VALUES_ORDINARY, 8, &bytes);
            const weight_source sources[2] = {
                { .data = data, .type = types[t], .rows = 21, .cols = COLS },
                { .data = data + bytes / 2, .type = types[t], .rows = 21, .cols = COLS }
            };
            packed_weight w;
            assert_int_equal(weight_pack(sources, 2, true, true, lanes, &w, NULL), 0);
            assert_int_equal(w.rows, 42);
            assert_int_equal(w.groups, 2 * ((21 + lanes - 1) / lanes));
            for (int i = 0; i < 21; i++) {
                assert_row(&w, 2 * (i / lanes), i % lanes, data, i, "gate");
                assert_row(&w, 2 * (i / lanes) + 1, i % lanes, data, 21 + i, "up");
            }
            float padding[COLS];
            read_row(&w, w.groups - 1, lanes - 1, padding);
            for (int k = 0; k < COLS; k++)
                assert_true(padding[k] == 0);
            weight_free(&w);
            mem_free(MEM_GENERAL, data, bytes);
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
        cmocka_unit_test(what_cannot_be_packed_says_why),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
