/* A server whose steps have each symptom once, with figures that were chosen: those come out, each with advice, and a healthy
 * server has none.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/trace_make.h"
#include "timeline/report.h"
#include "timeline/symptoms.h"

enum { ROUNDS = 8, US = 1000, NODES = 40 };

static int64_t eager(trace_make *m, const char *name, int64_t call, int64_t start, int64_t dur,
                     int64_t correlation)
{
    trace_make_host(m, "cuda_runtime", "cudaLaunchKernel", 7, call, 3 * US, correlation);
    trace_make_task(m, "kernel", name, 1, start, dur, correlation);
    return start + dur;
}

/* One round: draft graph 80 us; plan 30 us behind it; the thread waits for it, returns 2 us late, takes 48 us, launches verify in
 * 30 us, which starts 5 us later: a gap of 85 us. Verify has a combine of 60 us in its 40 nodes of 20 us. Behind it
 * a broadcast of 25 us, a sampling kernel of 35 us and one more of 45 us, without gaps. */
static int64_t sick_round(trace_make *m, int64_t at, int64_t c)
{
    int64_t host = at - 200 * US;
    trace_make_host(m, "cuda_runtime", "cudaGraphLaunch", 7, host, 20 * US, c);
    for (int i = 0; i < 8; i++)
        trace_make_task(m, "kernel", "nextn", 1, at + i * 10 * US, 10 * US, c);
    int64_t end = eager(m, "assign_extend_cache_locs", host + 30 * US, at + 80 * US, 30 * US, c + 1);
    trace_make_host(m, "cuda_runtime", "cudaStreamSynchronize", 7, host + 40 * US,
                    end + 2 * US - host - 40 * US, 0);
    int64_t call = end + 50 * US, start = call + 35 * US;
    trace_make_host(m, "cuda_runtime", "cudaGraphLaunch", 7, call, 30 * US, c + 2);
    for (int i = 0; i < NODES; i++) {
        bool combine = i == 20;
        trace_make_task(m, "kernel", combine ? "MoeDistributeCombineV2" : "layer", 1, start,
                        (combine ? 60 : 20) * US, c + 2);
        start += (combine ? 60 : 20) * US;
    }
    end = eager(m, "ncclDevKernel_Broadcast", call + 40 * US, start, 25 * US, c + 3);
    end = eager(m, "chain_speculative_sampling", call + 50 * US, end, 35 * US, c + 4);
    return eager(m, "something_eager", call + 60 * US, end, 45 * US, c + 5);
}

static const symptom *find(const symptom *list, size_t n, symptom_kind k)
{
    const symptom *found = NULL;
    for (size_t i = 0; i < n; i++)
        if (list[i].kind == k) {
            assert_null(found);
            found = &list[i];
        }
    assert_non_null(found);
    assert_non_null(found->check[0]);
    return found;
}

static void every_symptom_has_its_figure_and_advice(void **state)
{
    (void)state;
    trace_make m;
    session s;
    symptom list[SYMPTOM_MOST];
    size_t n;
    foray_error err;
    trace_make_open(&m, 1, 0);
    int64_t at = 1000 * US;
    for (int k = 0; k < ROUNDS; k++)
        at = sick_round(&m, at, 100 + k * 10);
    trace_make_analysed(&m, &s);
    assert_int_equal(s.analyses[0].step_count, ROUNDS);
    assert_int_equal(symptoms_find(&s.analyses[0], list, &n, &err), FORAY_OK);
    assert_int_equal(n, 5);
    const symptom *gap = find(list, n, SYMPTOM_GAP);
    assert_int_equal(gap->stage, PHASE_TARGET_VERIFY);
    assert_int_equal(gap->step_ns, 85 * US);
    assert_int_equal(gap->token_ns, 0);
    assert_string_equal(names_text(&s.input.events.names, gap->part[0]), "nothing traced");
    assert_int_equal(gap->part_ns[0], 48 * US);
    assert_string_equal(names_text(&s.input.events.names, gap->part[1]), "launch call");
    assert_int_equal(gap->part_ns[1], 30 * US);
    assert_int_equal(find(list, n, SYMPTOM_COMBINE)->step_ns, 60 * US);
    assert_int_equal(find(list, n, SYMPTOM_PLAN)->step_ns, 30 * US);
    assert_int_equal(find(list, n, SYMPTOM_ACCEPT_WAIT)->step_ns, 25 * US);
    assert_int_equal(find(list, n, SYMPTOM_TAIL)->step_ns, 80 * US);
    assert_ptr_equal(&list[0], gap);
    report r = {
        .input = &s.input, .groups = &s.groups, .analyses = s.analyses, .count = s.count, .only_step = -1
    };
    buf text = { 0 };
    report_text(&r, &text);
    assert_non_null(strstr(text.data, "long gap before target_verify: 0.085 per step"));
    buf_free(&text);
    session_free(&s);
    trace_make_free(&m);
}

/* Two launches six years apart: a product of such times with 50 would not fit. */
static void a_gap_of_years_is_reported(void **state)
{
    (void)state;
    static const char text_of_years[] =
        "{\"schemaVersion\":1,\"traceEvents\":["
        "{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"cudaLaunchKernel\",\"pid\":2,\"tid\":2,\"ts\":10,"
        "\"dur\":3,\"args\":{\"correlation\":1}},"
        "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k\",\"pid\":0,\"tid\":7,\"ts\":14,\"dur\":5,"
        "\"args\":{\"stream\":7,\"correlation\":1}},"
        "{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"cudaLaunchKernel\",\"pid\":2,\"tid\":2,"
        "\"ts\":200000000000000,\"dur\":3,\"args\":{\"correlation\":2}},"
        "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k\",\"pid\":0,\"tid\":7,\"ts\":200000000000004,\"dur\":"
        "5,"
        "\"args\":{\"stream\":7,\"correlation\":2}}]}";
    session s;
    buf text = { 0 };
    trace_make_session(text_of_years, sizeof text_of_years - 1, &s);
    report r = {
        .input = &s.input, .groups = &s.groups, .analyses = s.analyses, .count = s.count, .only_step = -1
    };
    report_text(&r, &text);
    assert_non_null(strstr(text.data, "host gap of step 0: 199999999999.994 ms"));
    buf_free(&text);
    session_free(&s);
}

/* Its records say 1.140 ms a step, 0.080 of them draft and 0.840 verify: the rest is what was put between them. Two tokens a
 * step halve the cost of one. */
static void what_records_leave_open_is_found_in_the_profile(void **state)
{
    (void)state;
    trace_make m;
    session s;
    foray_error err;
    buf text = { 0 }, answer = { 0 };
    trace_make_open(&m, 1, 0);
    int64_t at = 1000 * US;
    buf_puts(&answer, "{\"internal_states\":[{\"dspark_info_record\":{\"mode\":\"eagle\",\"records\":[");
    for (int k = 0; k < ROUNDS; k++) {
        at = sick_round(&m, at, 100 + k * 10);
        buf_printf(&answer,
                   "%s{\"forward_ct\":%d,\"bs\":1,\"step_cpu_ms\":1.14,\"step_gpu_ms\":1.14,\"draft_gpu_ms\":"
                   "0.08,\"target_verify_"
                   "gpu_ms\":0.84,"
                   "\"reqs\":[{\"acc_len\":2}]}",
                   k != 0 ? "," : "", 500 + k);
    }
    buf_puts(&answer, "]}}]}");
    trace_make_text(&m, 0, 1, 0, &text);
    assert_int_equal(session_open(NULL, NULL, &s, &err), FORAY_OK);
    assert_int_equal(session_add_text(&s, "made.json", text.data, text.len, &err), FORAY_OK);
    assert_int_equal(steps_file_read(&s.input.steps, "answer.json", answer.data, answer.len, &err), FORAY_OK);
    assert_int_equal(session_finish(&s, &err), FORAY_OK);
    assert_true(s.analyses[0].records.aligned);
    assert_int_equal(s.analyses[0].records.offset,
                     0); /* steps all alike fit anywhere: where most of them do */
    report r = {
        .input = &s.input, .groups = &s.groups, .analyses = s.analyses, .count = s.count, .only_step = -1
    };
    quality_line lines[QUALITY_MOST];
    size_t n = report_quality(&r, 0, lines), found = 0;
    for (size_t i = 0; i < n; i++)
        if (strcmp(lines[i].name, "records_remainder") == 0) {
            found++;
            assert_int_equal(lines[i].count, 220 * US);
            assert_string_equal(
                lines[i].text,
                "0.220 of 1.140 ms per step lie outside of the recorded draft and verify; the path has "
                "there: host_gap 0.085, eager_tail 0.045, accept 0.035, plan 0.030, exposed_comm 0.025");
        }
    assert_int_equal(found, 1);
    symptom list[SYMPTOM_MOST];
    assert_int_equal(symptoms_find(&s.analyses[0], list, &n, &err), FORAY_OK);
    assert_int_equal(list[0].step_ns, 85 * US);
    assert_int_equal(list[0].token_ns, 85 * US / 2);
    session_free(&s);
    trace_make_free(&m);
    buf_free(&text);
    buf_free(&answer);
}

static void a_server_whose_device_never_waits_has_none(void **state)
{
    (void)state;
    trace_make m;
    session s;
    symptom list[SYMPTOM_MOST];
    size_t n = 99;
    foray_error err;
    trace_make_open(&m, 1, 0);
    for (int k = 0; k < ROUNDS; k++) {
        int64_t at = (1000 + k * 800) * US;
        trace_make_host(&m, "cuda_runtime", "cudaGraphLaunch", 7, at - 500 * US, 20 * US, 100 + k);
        for (int i = 0; i < NODES; i++)
            trace_make_task(&m, "kernel", "layer", 1, at + i * 20 * US, 20 * US, 100 + k);
    }
    trace_make_analysed(&m, &s);
    assert_int_equal(s.analyses[0].step_count, ROUNDS);
    assert_int_equal(symptoms_find(&s.analyses[0], list, &n, &err), FORAY_OK);
    assert_int_equal(n, 0);
    session_free(&s);
    trace_make_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_symptom_has_its_figure_and_advice),
        cmocka_unit_test(a_gap_of_years_is_reported),
        cmocka_unit_test(what_records_leave_open_is_found_in_the_profile),
        cmocka_unit_test(a_server_whose_device_never_waits_has_none),
    };
    return cmocka_run_group_tests_name("unit_timeline_symptoms", tests, NULL, NULL);
}
