/* Mutated companions of a trace and mutated dumps of its graph, from fixed seeds: read or refused, nothing leaks, and the profile
 * beside them keeps its sums.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "support/mutate.h"
#include "support/trace_make.h"
#include "timeline/report.h"

enum { ROOM = 1 << 13, FEW = 120, MANY = 12000 };

static const char kernels[] =
    "Step Id,Name,Type,Accelerator Core,Start Time(us),Duration(us),Wait Time(us),Block Dim,Input Shapes\n"
    "1,MatMul1,MatMul,AI_CORE,1736412474714258.990\t,10.5,0,24,\"\"\"32,3;224\"\"\"\r\n"
    "1,Cast2,Cast,AI_VECTOR_CORE,1736412474714270.000\t,4,0.51,8,\n"
    "1,hcom,hcom,HCCL,1736412474714275.000\t,900,0,N/A,\n";
static const char step_times[] =
    "Device_id,Step,Computing,Communication(Not Overlapped),Overlapped,Communication,Free,Stage\n"
    "0,13,231290.09999999995,420174.26,0.0,420174.26,158558.0,810022.25\n";
static const char collectives[] = "{\"step5\": {\"collective\": {\"hcom_allReduce__1@7\": {\"Communication "
                                  "Time Info\": {\"Elapse Time(ms)\": 3.5, \"Transit "
                                  "Time(ms)\": 1}, \"Communication Bandwidth Info\": {\"HCCS\": {\"Transit "
                                  "Size(MB)\": 30, \"Transit Time(ms)\": 2.0, \"Size "
                                  "Distribution\": {\"15\": [2, 2.0]}}}}}}}";
static const char links[] =
    "{\"step5\": {\"collective\": {\"allreduce-total@7\": {\"0-1\": {\"Transport Type\": \"HCCS\", "
    "\"Bandwidth(GB/s)\": 17.5}}}}}";
static const char info[] =
    "{\"config\": {\"experimental_config\": {\"_profiler_level\": \"Level1\"}}, \"rank_id\": 11}";

static const char dump[] =
    "[{\"name\":\"MatMul_1\",\"pid\":\"7 "
    "aclGraph\",\"tid\":\"stream1\",\"ts\":0,\"dur\":9.5,\"ph\":\"X\",\"args\":{\"Model "
    "Id\":1,\"Stream Id\":1,\"Task Id\":0}},"
    "{\"name\":\"EVENT_RECORD_77\",\"pid\":\"7 "
    "aclGraph\",\"tid\":\"stream1\",\"ts\":0,\"dur\":9.5,\"ph\":\"X\",\"args\":{\"Model "
    "Id\":1,\"Stream Id\":1,\"Task Id\":1}},"
    "{\"name\":\"STREAM_ACTIVE\",\"pid\":\"7 "
    "aclGraph\",\"tid\":\"stream1\",\"ts\":0,\"dur\":9.5,\"ph\":\"X\",\"args\":{\"Model "
    "Id\":1,\"Stream Id\":1,\"Task Id\":2,\"Active Stream Id\":2}},"
    "{\"name\":\"EVENT_WAIT_77\",\"pid\":\"7 "
    "aclGraph\",\"tid\":\"stream2\",\"ts\":0,\"dur\":9.5,\"ph\":\"X\",\"args\":{\"Model "
    "Id\":1,\"Stream Id\":2,\"Task Id\":0}},"
    "{\"name\":\"Cast_1\",\"pid\":\"7 "
    "aclGraph\",\"tid\":\"stream2\",\"ts\":0,\"dur\":9.5,\"ph\":\"X\",\"args\":{\"Model "
    "Id\":1,\"Stream Id\":2,\"Task Id\":1}}]";

/* Four replays of that graph. */
static void put_run(buf *out)
{
    buf_puts(out,
             "[{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":9,\"args\":{\"name\":\"Ascend Hardware\"}}");
    for (int k = 0; k < 4; k++)
        for (int i = 0; i < 2; i++)
            buf_printf(out,
                       ",{\"name\":\"%s\",\"pid\":9,\"tid\":%d,\"ts\":\"1736412474%06d.000\",\"dur\":20,"
                       "\"ph\":\"X\",\"args\":{"
                       "\"Model Id\":1,\"Task Type\":\"AI_CORE\",\"Physic Stream Id\":%d,\"Task Id\":%d}}",
                       i == 0 ? "aclnnMatMul_MatMul" : "aclnnCast_Cast", i + 1, k * 100 + i * 25, i + 1, i);
    buf_puts(out, "]");
}

static void check_report(const session *s, uint32_t number)
{
    for (size_t i = 0; i < s->count; i++)
        if (s->analyses[i].sums_wrong != 0)
            fail_msg("mutation %u: the parts of a step do not add up", number);
    report r = {
        .input = &s->input, .groups = &s->groups, .analyses = s->analyses, .count = s->count, .only_step = -1
    };
    buf out = { 0 };
    report_text(&r, &out);
    assert_false(out.failed);
    buf_free(&out);
}

static void mutated_companions_are_read_or_refused(void **state)
{
    (void)state;
    static const struct {
        side_kind kind;
        const char *text;
    } good[] = { { SIDE_KERNELS, kernels },
                 { SIDE_STEPS, step_times },
                 { SIDE_COLLECTIVES, collectives },
                 { SIDE_LINKS, links },
                 { SIDE_INFO, info } };
    static uint8_t out[2 * ROOM + 64];
    char folder[] = "/tmp/foray-side-XXXXXX", path[64];
    buf run = { 0 };
    put_run(&run);
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/file", folder);
    int64_t before = mem_get_stats().blocks;
    for (size_t g = 0; g < sizeof good / sizeof *good; g++) {
        assert_int_equal(side_kind_of(good[g].text, strlen(good[g].text)), good[g].kind);
        for (uint32_t n = 0; n < mutate_count(FEW, MANY); n++) {
            session s;
            foray_error err;
            char beside[80];
            size_t bytes = mutate(51 + g, n, (const uint8_t *)good[g].text, strlen(good[g].text), 0, out);
            if (n == 0) {
                bytes = strlen(good[g].text);
                memcpy(out, good[g].text, bytes);
            }
            FILE *f = fopen(path, "wb");
            assert_non_null(f);
            assert_int_equal(fwrite(out, 1, bytes, f), bytes);
            fclose(f);
            snprintf(beside, sizeof beside, "%s/trace_view.json", folder);
            assert_int_equal(session_open(NULL, NULL, &s, &err), FORAY_OK);
            int rc = side_read(&s.input.sides, &s.input.events, good[g].kind, path, &err);
            assert_true(rc == FORAY_OK || (rc == FORAY_EFILE && n > 0));
            assert_int_equal(session_add_text(&s, beside, run.data, run.len, &err), FORAY_OK);
            assert_int_equal(session_finish(&s, &err), FORAY_OK);
            check_report(&s, n);
            session_free(&s);
        }
    }
    assert_int_equal(mem_get_stats().blocks, before);
    remove(path);
    rmdir(folder);
    buf_free(&run);
}

static void mutated_dumps_leave_the_profile_whole(void **state)
{
    (void)state;
    static uint8_t out[2 * ROOM + 64];
    buf run = { 0 };
    put_run(&run);
    int64_t before = mem_get_stats().blocks;
    for (uint32_t n = 0; n < mutate_count(FEW * 5, MANY); n++) {
        session s;
        foray_error err;
        size_t bytes = mutate(61, n, (const uint8_t *)dump, strlen(dump), 0, out);
        assert_int_equal(session_open(NULL, NULL, &s, &err), FORAY_OK);
        int rc = session_add_text(&s, "graph.json", (const char *)out, bytes, &err);
        assert_true(rc == FORAY_OK || rc == FORAY_EFILE);
        assert_int_equal(session_add_text(&s, "trace_view.json", run.data, run.len, &err), FORAY_OK);
        assert_int_equal(session_finish(&s, &err), FORAY_OK);
        check_report(&s, n);
        session_free(&s);
    }
    assert_int_equal(mem_get_stats().blocks, before);
    buf_free(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mutated_companions_are_read_or_refused),
        cmocka_unit_test(mutated_dumps_leave_the_profile_whole),
    };
    return cmocka_run_group_tests_name("fuzz_timeline_side", tests, NULL, NULL);
}
