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

typedef struct {
    sequence *sequence;
    int chunk;
} member;

/* Part A through the host's plan, as a round has it. */
static void given_to(plan_given *out, const member *members, int count, int rows)
{
    round_plan p;
    plan_open(&p, 1);
    p.phase = PHASE_TARGET_VERIFY;
    p.members = count;
    p.rows_launched = rows;
    for (int i = 0; i < count; i++)
        p.member[i] = (plan_member) { .sequence = members[i].sequence, .chunk = members[i].chunk };
    plan_give(&p, out);
}

/* One of the four has finished since: it has no rows. */
static void members_are_packed_one_behind_the_other(void **state)
{
    (void)state;
    inputs in;
    static plan_given given;
    static plan_packed packed;
    int32_t a[] = { 1, 2, 3 }, b[] = { 4, 5 }, c[] = { 10, 11, 12, 13, 14, 15 };
    sequence sa = { .tokens = a, .count = 3, .computed = 2, .slot = 2 },
             sb = { .tokens = b, .count = 2, .computed = 1 },
             sc = { .tokens = c, .count = 6, .computed = 1, .slot = 5 },
             sd = { .tokens = a, .count = 3, .computed = 2, .slot = 3, .finished = SEQUENCE_END_ID };
    given_to(&given, (member[]) { { &sa, 1 }, { &sd, 1 }, { &sb, 1 }, { &sc, 5 } }, 4, 16);
    packed = (plan_packed) { .runs = { true, false, true, true }, .keep = { 2 } };
    packed.draft[0] = (draft) { .count = 3, .tokens = { 7, 8, 9 } };
    plan_pack(&given, &packed, inputs_open(&in));

    assert_int_equal(in.count.rows, 9);
    assert_int_equal(in.count.spans, 3);
    assert_int_equal(in.count.heads, 5);
    assert_memory_equal(in.ids, ((int32_t[]) { 3, 7, 8, 5, 11, 12, 13, 14, 15 }), 9 * sizeof(int32_t));
    assert_memory_equal(in.position, ((int32_t[]) { 2, 3, 4, 1, 1, 2, 3, 4, 5 }), 9 * sizeof(int32_t));
    assert_memory_equal(in.slot, ((int32_t[]) { 2, 2, 2, 0, 5, 5, 5, 5, 5 }), 9 * sizeof(int32_t));
    assert_memory_equal(in.head_row, ((int32_t[]) { 0, 1, 2, 3, 8 }), 5 * sizeof(int32_t));
    assert_memory_equal(packed.first_head, ((int32_t[]) { 0, -1, 3, 4 }), 4 * sizeof(int32_t));
    assert_int_equal(in.spans[2].first_row, 4);
    assert_int_equal(in.spans[2].first_position, 1);
    assert_int_equal(packed.sum_nq, 9);
    assert_int_equal(packed.sum_nkv, 3 + 4 + 5 + 2 + 2 + 3 + 4 + 5 + 6);
}

static void a_prompt_that_goes_on_has_no_head_row(void **state)
{
    (void)state;
    inputs in;
    static plan_given given;
    static plan_packed packed;
    int32_t c[] = { 10, 11, 12, 13, 14, 15 };
    sequence s = { .tokens = c, .count = 6 };
    given_to(&given, &(member) { &s, 5 }, 1, 8);
    packed = (plan_packed) { .runs = { true } };
    plan_pack(&given, &packed, inputs_open(&in));
    assert_int_equal(in.count.rows, 5);
    assert_int_equal(in.count.heads, 0);
    assert_int_equal(packed.first_head[0], -1);
}

/* cases.md F07: the smallest that holds so many, one that is a tier already stays, and nobody's is that of one. */
static void tiers_are_powers_of_two(void **state)
{
    (void)state;
    assert_int_equal(plan_tier(0), 1);
    for (int n = 1; n <= 300; n++) {
        int tier = plan_tier(n);
        assert_true(tier >= n && tier < 2 * n && (tier & (tier - 1)) == 0);
        assert_int_equal(1 << plan_tier_index(n), tier);
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
