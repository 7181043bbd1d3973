/* Rounds of servers, made with the names that they give their ranges: the shipped rules find the steps, each stage's tasks by the
 * server's own word, and passes that verify drafts.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/trace_make.h"
#include "timeline/work.h"

enum { ROUNDS = 6, US = 1000, PERIOD_US = 2000 };

/* A range of the host and the tasks launched inside it. */
typedef struct {
    const char *range; /* NULL: none around it */
    const char *kernel;
    int tasks, us; /* each */
    phase is;
} piece;

static const piece ascend_round[] = {
    { "prepare input", "aclnnCumsum_Cumsum", 3, 4, PHASE_PLAN },
    { "forward", "aclnnMatmul_MatMulV2", 30, 20, PHASE_TARGET_VERIFY },
    { "post process", "aclnnMatmul_LmHead", 1, 50, PHASE_TARGET_VERIFY },
    { "sample_token", "aclnnArgMax_ArgMaxV2", 2, 6, PHASE_ACCEPT },
    { "async_state_update", "aclnnInplaceCopy_TensorMove", 2, 2, PHASE_COMMIT },
    { "draft_token", "aclnnMatmul_Mtp", 6, 15, PHASE_DRAFT },
};

static const piece tensorrt_round[] = {
    { "[Executor] _forward_step 812: 0 ctx reqs, 8 gen reqs", "fmha_gen", 40, 18, PHASE_TARGET_VERIFY },
    { "_sample_async", "argmax_rows", 2, 5, PHASE_ACCEPT },
    { "_update_requests", "scatter_new_tokens", 1, 3, PHASE_COMMIT },
    { "prepare_draft_tokens", "draft_layer", 9, 7, PHASE_DRAFT },
};

static const piece vllm_round[] = {
    { "execute_context_0(0)_generation_8(32)", "flash_fwd", 20, 20, PHASE_TARGET_VERIFY },
    { "gpu_model_runner: sample", "rejection_random_sample_kernel", 1, 9, PHASE_ACCEPT },
    { "gpu_model_runner: bookkeep", "copy_rows", 1, 3, PHASE_COMMIT },
    { "gpu_model_runner: draft", "eagle_layer", 5, 8, PHASE_DRAFT },
};

static const piece plain_round[] = {
    { "[Executor] _forward_step: 0 ctx reqs, 8 gen reqs", "fmha_gen", 40, 18, PHASE_DECODE },
    { "_sample_async", "argmax_rows", 2, 5, PHASE_ACCEPT },
};

/* One form of file; ts in microseconds. */
typedef void (*put_event)(buf *out, const char *name, bool device, int64_t us, int64_t dur, int link);

static void put_kineto(buf *out, const char *name, bool device, int64_t us, int64_t dur, int link)
{
    const char *cat = device ? "kernel" : link != 0 ? "cuda_runtime" : "user_annotation";
    buf_printf(out,
               ",\n{\"ph\":\"X\",\"cat\":\"%s\",\"name\":\"%s\",\"pid\":%d,\"tid\":%d,\"ts\":%lld,\"dur\":%"
               "lld,\"args\":{",
               cat, name, device ? 0 : 99, device ? 7 : 5, (long long)us, (long long)dur);
    buf_printf(out, link != 0 ? "\"correlation\":%d}}" : "}}", link);
}

static void put_ascend(buf *out, const char *name, bool device, int64_t us, int64_t dur, int link)
{
    buf_printf(out,
               ",\n{\"ph\":\"X\",\"name\":\"%s%s\",\"pid\":%d,\"tid\":%d,\"ts\":\"%lld.000\",\"dur\":%lld",
               !device && link != 0 ? "AscendCL@" : "", name,
               device      ? 3
               : link != 0 ? 2
                           : 1,
               device ? 7 : 5, (long long)us, (long long)dur);
    if (device)
        buf_printf(out,
                   ",\"args\":{\"Task Type\":\"AI_CORE\",\"Physic Stream Id\":7,\"Task "
                   "Id\":%d,\"connection_id\":%d}}",
                   link, link);
    else if (link != 0)
        buf_printf(out, ",\"args\":{\"connection_id\":%d}}", link);
    else
        buf_puts(out, ",\"cat\":\"cpu_op\"}");
}

/* Rounds in even time, the host 3 ms ahead of the device. */
static void check_server(const piece *round, size_t pieces, put_event put, const char *set)
{
    buf text = { 0 };
    session s;
    buf_puts(
        &text,
        put == put_ascend
            ? "[{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":1,\"args\":{\"name\":\"Python\"}},"
              "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":2,\"args\":{\"name\":\"CANN\"}},"
              "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":3,\"args\":{\"name\":\"Ascend Hardware\"}}"
            : "{\"schemaVersion\":1,\"traceEvents\":[{}");
    int link = 1;
    for (int k = 0; k < ROUNDS; k++) {
        int64_t host = 1000 + PERIOD_US * k, device = host + 3000;
        for (size_t p = 0; p < pieces; p++) {
            put(&text, round[p].range, false, host, 6 * round[p].tasks + 2, 0);
            for (int i = 0; i < round[p].tasks; i++, link++) {
                put(&text, put == put_ascend ? "aclnnLaunch" : "cudaLaunchKernel", false, host + 1 + 6 * i, 4,
                    link);
                put(&text, round[p].kernel, true, device, round[p].us, link);
                device += round[p].us;
            }
            host += 6 * round[p].tasks + 4;
        }
    }
    buf_puts(&text, put == put_ascend ? "]" : "]}");
    trace_make_session(text.data, text.len, &s);
    const analysis *a = &s.analyses[0];
    assert_int_equal(a->boundary, BOUNDARY_ANNOTATION);
    assert_string_equal(a->boundary_set, set);
    assert_int_equal(a->step_count, ROUNDS);
    assert_int_equal(a->phases_none + a->phases_by_order + a->phases_by_graph, 0);
    const step *x = &a->steps[2];
    assert_int_equal(x->end - x->start, PERIOD_US * US);
    int64_t sum[PHASE_COUNT] = { 0 };
    for (size_t p = 0; p < pieces; p++)
        sum[round[p].is] += (int64_t)round[p].tasks * round[p].us * US;
    for (int p = 0; p < PHASE_COUNT; p++) {
        if (x->stages[p].sum_ns != sum[p])
            fail_msg("%s: %lld ns in %s, not %lld", set, (long long)x->stages[p].sum_ns, phase_name((phase)p),
                     (long long)sum[p]);
    }
    session_free(&s);
    buf_free(&text);
}

#define COUNT(list) (sizeof(list) / sizeof *(list))

static void vllm_ascend_rounds(void **state)
{
    (void)state;
    check_server(ascend_round, COUNT(ascend_round), put_ascend, "vllm-ascend");
}

static void tensorrt_llm_rounds(void **state)
{
    (void)state;
    check_server(tensorrt_round, COUNT(tensorrt_round), put_kineto, "tensorrt-llm");
}

static void tensorrt_llm_steps_without_drafts_are_decode(void **state)
{
    (void)state;
    check_server(plain_round, COUNT(plain_round), put_kineto, "tensorrt-llm");
}

static void vllm_rounds(void **state)
{
    (void)state;
    check_server(vllm_round, COUNT(vllm_round), put_kineto, "vllm");
}

static void labels_say_how_much_there_is_to_do(void **state)
{
    (void)state;
    static const struct {
        const char *label;
        int requests, rows;
        int64_t keys;
    } cases[] = {
        { "step[DECODE bs=32]", 32, -1, -1 },
        { "step[DECODE bs=64 g_sq=128 g_sqsq=256 g_sqsk=262144 g_sk=131072]", 64, 128, 131072 },
        { "step[TARGET_VERIFY bs=8 g_sq=32 g_sqsq=128 g_sqsk=5128 g_sk=1282]", 8, 32, 1282 },
        { "step[MIXED bs=2 c=1 g=1 c_sq=5 c_sk=8 c_sqsq=25 c_sqsk=40 g_sq=1 g_sk=12 g_sqsq=1 g_sqsk=12]", 2,
          6, 20 },
        { "step[EXTEND bs=2 toks=14721]", 2, 14721, -1 },
        { "execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk32785sqsq32sqsk32785)", 32, 32, 32785 },
        { "execute_8192_context_9(sq8155sk8430sqsq7475785sqsk7671310)_generation_37("
          "sq37sk34489sqsq37sqsk34489)",
          37, 8192, 42919 },
        { "execute_context_1(888)_generation_4(4)", 4, 892, -1 },
        { "draft", -1, -1, -1 },
        { "step[DECODE bs=x]", -1, -1, -1 },
        { "step[DECODE bs=99999999999999999999]", -1, -1, -1 },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        step_work w = work_of_label(cases[i].label);
        if (w.requests != cases[i].requests || w.rows != cases[i].rows || w.keys != cases[i].keys)
            fail_msg("%s: %d, %d, %lld", cases[i].label, w.requests, w.rows, (long long)w.keys);
    }
}

/* Steps of unlike work never share a bucket: rows differ, or keys by more than twice; of a speculative server's steps the
 * verify pass inside says it. */
static void steps_of_unlike_work_are_not_mixed(void **state)
{
    (void)state;
    static const char *const verify[] = {
        "step[TARGET_VERIFY bs=8 g_sq=32 g_sk=9000]", "step[TARGET_VERIFY bs=8 g_sq=32 g_sk=9032]",
        "step[TARGET_VERIFY bs=8 g_sq=24 g_sk=9064]", "step[TARGET_VERIFY bs=8 g_sq=32 g_sk=40000]",
        "step[TARGET_VERIFY bs=8 g_sq=32 g_sk=9096]", "step[TARGET_VERIFY bs=8 g_sq=32 g_sk=9128]"
    };
    static const char *const want[] = { "bs=8 q=32 kv<16k", "bs=8 q=32 kv<16k", "bs=8 q=24 kv<16k",
                                        "bs=8 q=32 kv<64k", "bs=8 q=32 kv<16k" };
    buf text = { 0 };
    session s;
    buf_puts(&text, "{\"schemaVersion\":1,\"traceEvents\":[{}");
    for (int k = 0; k < 6; k++) {
        int64_t host = 1000 + PERIOD_US * k;
        put_kineto(&text, "draft", false, host, 50, 0);
        put_kineto(&text, "cudaLaunchKernel", false, host + 10, 5, k * 2 + 1);
        put_kineto(&text, "nextn", true, host + 400, 100, k * 2 + 1);
        put_kineto(&text, verify[k], false, host + 60, 50, 0);
        put_kineto(&text, "cudaLaunchKernel", false, host + 70, 5, k * 2 + 2);
        put_kineto(&text, "layer", true, host + 500, 800, k * 2 + 2);
    }
    buf_puts(&text, "]}");
    trace_make_session(text.data, text.len, &s);
    const analysis *a = &s.analyses[0];
    assert_int_equal(a->step_count, 6);
    assert_int_equal(a->bucket_count, 3);
    for (size_t i = 0; i < COUNT(want); i++)
        assert_string_equal(names_text(&s.input.events.names, a->buckets[a->steps[i].bucket].key), want[i]);
    session_free(&s);
    buf_free(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vllm_ascend_rounds),
        cmocka_unit_test(tensorrt_llm_rounds),
        cmocka_unit_test(tensorrt_llm_steps_without_drafts_are_decode),
        cmocka_unit_test(vllm_rounds),
        cmocka_unit_test(labels_say_how_much_there_is_to_do),
        cmocka_unit_test(steps_of_unlike_work_are_not_mixed),
    };
    return cmocka_run_group_tests_name("unit_timeline_servers", tests, NULL, NULL);
}
