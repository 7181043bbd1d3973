/* Ragged packing: rows, spans and head rows of members with pending tokens and drafts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "spec/plan.h"

/* A pass over plain memory: packing writes its inputs only. */
typedef struct {
    pass pass;
    pass_counts count;
    int32_t ids[64], position[64], slot[64], head_row[64];
    row_span spans[8];
} inputs;

static pass *inputs_open(inputs *in)
{
    memset(in, 0, sizeof *in);
    in->pass = (pass) { .max_rows = 64,
                        .max_spans = 8,
                        .max_heads = 64,
                        .count = &in->count,
                        .ids = in->ids,
                        .position = in->position,
                        .slot = in->slot,
                        .spans = in->spans,
                        .head_row = in->head_row };
    return &in->pass;
}

static void members_are_packed_one_behind_the_other(void **state)
{
    (void)state;
    inputs in;
    round_plan p;
    int32_t a[] = { 1, 2, 3 }, b[] = { 4, 5 }, c[] = { 10, 11, 12, 13, 14, 15 };
    sequence sa = { .tokens = a, .count = 3, .computed = 2, .slot = 2 },
             sb = { .tokens = b, .count = 2, .computed = 1 },
             sc = { .tokens = c, .count = 6, .computed = 1, .slot = 5 };
    plan_open(&p, 1);
    p.members = 3;
    p.rows_launched = 16;
    p.slots_launched = 4;
    p.member[0] = (plan_member) {
        .sequence = &sa, .chunk = 1, .keep = 2, .draft = { .count = 3, .tokens = { 7, 8, 9 } }
    };
    p.member[1] = (plan_member) { .sequence = &sb, .chunk = 1 };
    p.member[2] = (plan_member) { .sequence = &sc, .chunk = 5 };
    plan_seal(&p, PLAN_A);
    plan_pack(&p, inputs_open(&in));

    assert_int_equal(in.count.rows, 9);
    assert_int_equal(in.count.spans, 3);
    assert_int_equal(in.count.heads, 5);
    assert_memory_equal(in.ids, ((int32_t[]) { 3, 7, 8, 5, 11, 12, 13, 14, 15 }), 9 * sizeof(int32_t));
    assert_memory_equal(in.position, ((int32_t[]) { 2, 3, 4, 1, 1, 2, 3, 4, 5 }), 9 * sizeof(int32_t));
    assert_memory_equal(in.slot, ((int32_t[]) { 2, 2, 2, 0, 5, 5, 5, 5, 5 }), 9 * sizeof(int32_t));
    assert_memory_equal(in.head_row, ((int32_t[]) { 0, 1, 2, 3, 8 }), 5 * sizeof(int32_t));
    assert_int_equal(p.member[0].first_head, 0);
    assert_int_equal(p.member[1].first_head, 3);
    assert_int_equal(p.member[2].first_head, 4);
    assert_int_equal(in.spans[2].first_row, 4);
    assert_int_equal(in.spans[2].first_position, 1);
    assert_int_equal(p.sum_nq, 9);
    assert_int_equal(p.sum_nkv, 3 + 4 + 5 + 2 + 2 + 3 + 4 + 5 + 6);
}

static void a_prompt_that_goes_on_has_no_head_row(void **state)
{
    (void)state;
    inputs in;
    round_plan p;
    int32_t c[] = { 10, 11, 12, 13, 14, 15 };
    sequence s = { .tokens = c, .count = 6 };
    plan_open(&p, 1);
    p.members = 1;
    p.rows_launched = 8;
    p.slots_launched = 1;
    p.member[0] = (plan_member) { .sequence = &s, .chunk = 5 };
    plan_seal(&p, PLAN_A);
    plan_pack(&p, inputs_open(&in));
    assert_int_equal(in.count.rows, 5);
    assert_int_equal(in.count.heads, 0);
    assert_int_equal(p.member[0].first_head, -1);
}

static void tiers_are_powers_of_two(void **state)
{
    (void)state;
    for (int n = 1; n <= 300; n++) {
        int tier = plan_tier(n);
        assert_true(tier >= n && tier < 2 * n && (tier & (tier - 1)) == 0);
    }
}

/* Each field names who writes it, and a part is one of the three. */
static void every_field_has_a_producer_and_a_consumer(void **state)
{
    (void)state;
    for (int i = 0; i < PLAN_FIELD_COUNT; i++) {
        assert_non_null(PLAN_FIELDS[i].producer);
        assert_non_null(PLAN_FIELDS[i].consumer);
        assert_non_null(strstr("ABC", PLAN_FIELDS[i].part));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_are_packed_one_behind_the_other),
        cmocka_unit_test(a_prompt_that_goes_on_has_no_head_row),
        cmocka_unit_test(tiers_are_powers_of_two),
        cmocka_unit_test(every_field_has_a_producer_and_a_consumer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
