/* Step records and manifests, read back by another JSON implementation. */
#include "observe/step_record.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "observe/manifest.h"

static json_t *parse(const buf *b)
{
    assert_false(b->failed);
    assert_null(strchr(b->data, '\n'));
    json_error_t error;
    json_t *parsed = json_loadb(b->data, b->len, JSON_REJECT_DUPLICATES, &error);
    if (parsed == NULL)
        fail_msg("%s at %d: %s", error.text, error.position, b->data);
    return parsed;
}

static json_t *record_as_json(const step_record *s)
{
    buf b = { 0 };
    step_record_json(s, &b);
    json_t *parsed = parse(&b);
    buf_free(&b);
    return parsed;
}

static int64_t whole(const json_t *object, const char *name)
{
    json_t *value = json_object_get(object, name);
    if (!json_is_integer(value))
        fail_msg("%s is missing or no integer", name);
    return json_integer_value(value);
}

static step_record verify_step(void)
{
    step_record s = {
        .forward_ct = 812,
        .decode = true,
        .budget = 5,
        .wall_ns = 9401234,
        .plan_ns = 120,
        .update_ns = 30,
        .draft_segment_ns = 1000000,
        .verify_segment_ns = 7123456,
        .step_segment_ns = 1000000001,
        .net_saved_ns = -77,
        .rows_live = 7,
        .rows_launched = 8,
        .rows_computed = 7,
        .sum_nq = 7,
        .sum_nkv = 1500,
        .waits = 2,
        .waits_left_out = 3,
        .wait = { { "main", "kv", "kv", 31, 5300 }, { "ma\"in", "\xff", "", 1, 0 } },
        .requests = 2,
        .request = { { .slot = 3,
                       .prefix_len = 211,
                       .verify_len = 5,
                       .commit_len = 4,
                       .correct_drafts = 3,
                       .bonus_token = 318,
                       .draft_count = 4,
                       .draft_tokens = { 11, 7, 92, 5 },
                       .rid = "a\\\"\x01" },
                     { .slot = 1, .verify_len = 1, .commit_len = 1, .bonus_token = 2, .rid = "b" } },
    };
    s.phases_ns[PHASE_TARGET_VERIFY] = 9000000;
    s.phases_ns[PHASE_UNATTRIBUTED] = 401234;
    strcpy(s.route[PHASE_TARGET_VERIFY], "graph:2x8");
    strcpy(s.route[PHASE_ACCEPT], "eager:logits processor");
    return s;
}

static void a_verify_step_has_the_fields_that_scripts_expect(void **state)
{
    (void)state;
    step_record s = verify_step();
    json_t *j = record_as_json(&s);
    assert_int_equal(whole(j, "forward_ct"), 812);
    assert_int_equal(whole(j, "bs"), 2);
    assert_string_equal(json_string_value(json_object_get(j, "mode")), "compact");
    assert_int_equal(whole(j, "budget"), 5);
    assert_int_equal(whole(j, "num_running_reqs"), 2);
    assert_int_equal(whole(j, "num_verify_tokens"), 8);
    assert_int_equal(whole(j, "verify_tokens_local"), 7);
    assert_int_equal(whole(j, "verify_tokens_graph_key"), 8);
    assert_true(json_real_value(json_object_get(j, "step_cpu_ms")) == 9.4012);
    assert_true(json_real_value(json_object_get(j, "draft_gpu_ms")) == 1.0);
    assert_true(json_real_value(json_object_get(j, "target_verify_gpu_ms")) == 7.1235);
    assert_null(json_object_get(j, "step_gpu_ms")); /* above a second */
    json_t *r = json_array_get(json_object_get(j, "reqs"), 0);
    assert_int_equal(json_array_size(json_object_get(j, "reqs")), 2);
    assert_int_equal(whole(r, "req_pool_index"), 3);
    assert_int_equal(whole(r, "prefix_len"), 211);
    assert_int_equal(whole(r, "verify_len"), 5);
    assert_int_equal(whole(r, "acc_len"), 4);
    assert_int_equal(whole(r, "correct_drafts"), 3);
    assert_int_equal(whole(r, "cap_trim"), 0);
    assert_int_equal(whole(r, "bonus_token"), 318);
    assert_int_equal(json_array_size(json_object_get(r, "draft_tokens")), 4);
    assert_int_equal(json_integer_value(json_array_get(json_object_get(r, "draft_tokens"), 2)), 92);
    assert_string_equal(json_string_value(json_object_get(r, "rid")), "a\\\"\x01");
    json_decref(j);
}

static void forays_own_fields_are_always_there_and_integer(void **state)
{
    (void)state;
    step_record steps[2] = { verify_step(),
                             { .forward_ct = 1,
                               .budget = -1,
                               .draft_segment_ns = -1,
                               .verify_segment_ns = -1,
                               .step_segment_ns = -1 } };
    for (int i = 0; i < 2; i++) {
        json_t *j = record_as_json(&steps[i]), *phases = json_object_get(j, "phases_ns");
        static const char *const fields[] = { "rank",          "wall_ns",          "plan_ns",
                                              "update_ns",     "rows_live",        "rows_launched",
                                              "rows_computed", "experts_distinct", "sum_nq",
                                              "sum_nkv",       "net_saved_ns",     "waits_left_out" };
        for (size_t f = 0; f < sizeof fields / sizeof *fields; f++)
            whole(j, fields[f]);
        int64_t sum = 0;
        for (int p = 0; p < PHASE_COUNT; p++)
            sum += whole(phases, phase_name((phase)p));
        assert_int_equal(sum, whole(j, "wall_ns"));
        assert_true(json_is_array(json_object_get(j, "waits")));
        assert_true(json_is_object(json_object_get(j, "route")));
        assert_string_equal(json_string_value(json_object_get(j, "kind")), i == 0 ? "decode" : "prefill");
        json_decref(j);
    }
}

static void what_was_not_measured_is_left_out(void **state)
{
    (void)state;
    step_record s = {
        .forward_ct = 1, .budget = -1, .draft_segment_ns = -1, .verify_segment_ns = -1, .step_segment_ns = -1
    };
    json_t *j = record_as_json(&s);
    static const char *const absent[] = {
        "mode",        "budget",      "num_verify_tokens", "verify_tokens_dp_synced",
        "step_cpu_ms", "step_gpu_ms", "draft_gpu_ms",      "target_verify_gpu_ms",
        "reqs"
    };
    for (size_t i = 0; i < sizeof absent / sizeof *absent; i++)
        assert_null(json_object_get(j, absent[i]));
    json_decref(j);
    s = verify_step();
    j = record_as_json(&s);
    json_t *route = json_object_get(j, "route"), *wait = json_array_get(json_object_get(j, "waits"), 0);
    assert_int_equal(json_object_size(route), 2);
    assert_string_equal(json_string_value(json_object_get(route, "target_verify")), "graph:2x8");
    assert_string_equal(json_string_value(json_object_get(route, "accept")), "eager:logits processor");
    assert_int_equal(json_array_size(json_object_get(j, "waits")), 2);
    assert_int_equal(whole(j, "waits_left_out"), 3);
    assert_string_equal(json_string_value(json_object_get(wait, "stream")), "main");
    assert_string_equal(json_string_value(json_object_get(wait, "event")), "kv");
    assert_string_equal(json_string_value(json_object_get(wait, "from")), "kv");
    assert_int_equal(whole(wait, "joins"), 31);
    assert_int_equal(whole(wait, "waited_ns"), 5300);
    json_decref(j);
}

static void a_full_record_is_valid(void **state)
{
    (void)state;
    static step_record s;
    memset(&s, 0x7f, sizeof s);
    s.decode = true;
    s.waits = STEP_MAX_WAITS;
    for (int i = 0; i < STEP_MAX_WAITS; i++)
        s.wait[i].stream = s.wait[i].event = s.wait[i].from = "a";
    s.requests = STEP_MAX_REQUESTS;
    for (int i = 0; i < STEP_MAX_REQUESTS; i++) {
        s.request[i].draft_count = STEP_MAX_DRAFT;
        memset(s.request[i].rid, i % 2 == 0 ? 0xff : 'r', sizeof s.request[i].rid); /* no NUL anywhere */
    }
    json_t *j = record_as_json(&s);
    assert_int_equal(json_array_size(json_object_get(j, "reqs")), STEP_MAX_REQUESTS);
    json_decref(j);
}

static void the_parts_sum_to_the_wall_to_the_nanosecond(void **state)
{
    (void)state;
    step_record s = verify_step();
    assert_true(step_record_sums(&s));
    s.phases_ns[PHASE_IDLE]++;
    assert_false(step_record_sums(&s));
    s.wall_ns++;
    assert_true(step_record_sums(&s));
}

static void a_manifest_states_the_conditions(void **state)
{
    (void)state;
    static const char *const names[] = { "threads", "spec" }, *const values[] = { "2", "a\"b" };
    manifest m = { .model = "x\xff.gguf",
                   .model_checksum = 0xfedcba9876543210,
                   .isa = "avx2",
                   .drafter = "ngram",
                   .graph_state = "auto",
                   .threads = 2,
                   .concurrency = 3,
                   .prompt_tokens = 40,
                   .max_tokens = 50,
                   .spec_tokens = 5,
                   .option_names = names,
                   .option_values = values,
                   .options = 2 };
    buf b = { 0 };
    manifest_json(&m, &b);
    json_t *j = parse(&b);
    buf_free(&b);
    assert_int_equal(whole(j, "gamma"), 5);
    assert_int_equal(whole(j, "verify_num_draft_tokens"), 6);
    assert_true(json_is_null(json_object_get(j, "simulate_acc_len")));
    const char *last = "";
    json_t *components = json_object_get(j, "components");
    for (size_t i = 0; i < json_array_size(components); i++) {
        const char *name = json_string_value(json_array_get(components, i));
        assert_true(strcmp(last, name) < 0); /* sorted */
        last = name;
    }
    assert_string_equal(json_string_value(json_object_get(j, "model_checksum")), "fedcba9876543210");
    assert_string_equal(json_string_value(json_object_get(j, "model")), "x\xef\xbf\xbd.gguf");
    assert_true(json_is_null(json_object_get(j, "recorded")));
    assert_string_equal(json_string_value(json_object_get(j, "machine")), manifest_machine());
    assert_string_equal(json_string_value(json_object_get(j, "commit")), manifest_commit());
    assert_true(strlen(manifest_machine()) > 4 && strlen(manifest_commit()) >= 7);
    assert_string_equal(json_string_value(json_object_get(json_object_get(j, "options"), "spec")), "a\"b");
    assert_int_equal(whole(j, "threads"), 2);
    assert_int_equal(whole(j, "concurrency"), 3);
    assert_int_equal(whole(j, "prompt_tokens"), 40);
    assert_int_equal(whole(j, "max_tokens"), 50);
    json_decref(j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_verify_step_has_the_fields_that_scripts_expect),
        cmocka_unit_test(forays_own_fields_are_always_there_and_integer),
        cmocka_unit_test(what_was_not_measured_is_left_out),
        cmocka_unit_test(a_full_record_is_valid),
        cmocka_unit_test(the_parts_sum_to_the_wall_to_the_nanosecond),
        cmocka_unit_test(a_manifest_states_the_conditions),
    };
    return cmocka_run_group_tests_name("records", tests, NULL, NULL);
}
