/* Mutated traces, rules, step records and databases, from fixed seeds: every reader comes back with an answer, the parts of every
 * step still add up, and nothing leaks.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sqlite3.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/mem.h"
#include "support/mutate.h"
#include "support/trace_make.h"
#include "timeline/report.h"

enum { ROOM = 1 << 15, FEW = 400, MANY = 30000 };

/* Analyses a text that may be anything; the sums hold whatever it says. */
static void try_text(const char *text, size_t bytes, uint32_t number)
{
    session s;
    foray_error err;
    assert_int_equal(session_open(NULL, NULL, &s, &err), FORAY_OK);
    if (session_add_text(&s, "fuzz.json", text, bytes, &err) == FORAY_OK) {
        if (session_finish(&s, &err) != FORAY_OK)
            fail_msg("mutation %u: %s", number, err.text);
        for (size_t i = 0; i < s.count; i++)
            if (s.analyses[i].sums_wrong != 0)
                fail_msg("mutation %u: the parts of a step do not add up", number);
        report what = {
            .input = &s.input, .groups = &s.groups, .analyses = s.analyses, .count = s.count, .only_step = -1
        };
        buf out = { 0 };
        (number % 3 == 0 ? report_text : number % 3 == 1 ? report_json : report_csv)(&what, &out);
        assert_false(out.failed);
        buf_free(&out);
    } else {
        assert_int_equal(err.code, FORAY_EFILE);
    }
    session_free(&s);
}

static const char kineto[] =
    "{\"schemaVersion\":1,\"distributedInfo\":{\"rank\":0},\"baseTimeNanoseconds\":1775078550000000000,"
    "\"traceEvents\":[\n"
    "{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"step[DECODE "
    "bs=32]\",\"pid\":251,\"tid\":251,\"ts\":10.5,\"dur\":90.25,\"args\":{\"External id\":1}},\n"
    "{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"cudaGraphLaunch\",\"pid\":251,\"tid\":251,\"ts\":12,"
    "\"dur\":3,\"args\":{\"correlation\":77}},\n"
    "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"void "
    "k<int>(int*)\",\"pid\":0,\"tid\":7,\"ts\":14,\"dur\":5.125,\"args\":{\"stream\":7,\"correlation\":77,"
    "\"graph id\":3,\"graph node id\":9}},\n"
    "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"ncclDevKernel_AllReduce\",\"pid\":0,\"tid\":8,\"ts\":19.2,"
    "\"dur\":4,\"args\":{\"stream\":8,\"correlation\":77}},\n"
    "{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"cudaStreamSynchronize\",\"pid\":251,\"tid\":251,"
    "\"ts\":16,\"dur\":9,\"args\":{\"correlation\":78}},\n"
    "{\"ph\":\"X\",\"cat\":\"cuda_sync\",\"name\":\"Stream Wait "
    "Event\",\"pid\":0,\"tid\":7,\"ts\":17,\"dur\":0,\"args\":{\"stream\":7,\"wait_on_stream\":8,"
    "\"correlation\":79,\"wait_on_cuda_event_record_corr_id\":77}},\n"
    "{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"step[DECODE "
    "bs=32]\",\"pid\":251,\"tid\":251,\"ts\":110.5,\"dur\":9,\"args\":{}},\n"
    "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"tail\",\"pid\":0,\"tid\":7,\"ts\":112,\"dur\":1,\"args\":{"
    "\"stream\":7,\"correlation\":80}}\n],\"traceName\":\"t\"}\n";

static const char ascend[] =
    "[{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":1,\"args\":{\"name\":\"Ascend "
    "Hardware\"}},{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":2,\"args\":{\"name\":\"CANN\"}},"
    "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":3,\"args\":{\"name\":\"HCCL\"}},{\"ph\":\"M\",\"name\":"
    "\"thread_name\",\"pid\":3,\"tid\":1,\"args\":{\"name\":\"Plane 0\"}},"
    "{\"name\":\"AscendCL@aclrtLaunchKernel\",\"pid\":2,\"tid\":5,\"ts\":\"1736408883694795.840\",\"dur\":31."
    "84,\"args\":{\"connection_id\":936},\"ph\":\"X\"},"
    "{\"name\":\"MatMul\",\"pid\":1,\"tid\":2,\"ts\":\"1736408883700059.821\",\"dur\":840.07675,\"args\":{"
    "\"Model Id\":4294967295,\"Task Type\":\"AI_CORE\",\"Physic Stream Id\":2,\"Task "
    "Id\":7,\"connection_id\":936},\"ph\":\"X\"},"
    "{\"name\":\"EVENT_RECORD\",\"pid\":1,\"tid\":2,\"ts\":\"1736408883700900.000\",\"dur\":0.02,\"args\":{"
    "\"Task Type\":\"EVENT_RECORD_SQE\",\"Task Id\":8},\"ph\":\"X\"},"
    "{\"name\":\"EVENT_WAIT\",\"pid\":1,\"tid\":4,\"ts\":\"1736408883700100.000\",\"dur\":800.4,\"args\":{"
    "\"Task Type\":\"EVENT_WAIT_SQE\",\"Task Id\":9},\"ph\":\"X\"},"
    "{\"name\":\"Notify_Wait\",\"pid\":3,\"tid\":1,\"ts\":\"1736408883700901.000\",\"dur\":5,\"args\":{"
    "\"stream id\":4,\"task id\":10},\"ph\":\"X\"},"
    "{\"name\":\"Notify_Wait\",\"pid\":1,\"tid\":4,\"ts\":\"1736408883700901.000\",\"dur\":5,\"args\":{"
    "\"Task Type\":\"Notify Wait\",\"Physic Stream Id\":4,\"Task Id\":10},\"ph\":\"X\"}]";

static const char own[] =
    "{\"displayTimeUnit\":\"ns\",\"metadata\":{\"manifest\":null,\"base_ns\":5,\"tasks\":2,\"lost_tasks\":1},"
    "\"traceEvents\":[\n"
    "{\"ph\":\"X\",\"name\":\"matmul\",\"cat\":\"compute\",\"pid\":0,\"tid\":0,\"ts\":1.000,\"dur\":2.000,"
    "\"args\":{\"graph\":1,\"node\":2,\"round\":1,\"phase\":\"target_verify\",\"rows\":4,\"ready\":0.500,"
    "\"waited_event\":3}},\n"
    "{\"ph\":\"s\",\"id\":1,\"name\":\"event "
    "3\",\"cat\":\"event\",\"pid\":0,\"tid\":1,\"ts\":0.500},\n{\"ph\":\"f\",\"bp\":\"e\",\"id\":1,\"name\":"
    "\"event 3\",\"cat\":\"event\",\"pid\":0,\"tid\":0,\"ts\":1.000},\n"
    "{\"ph\":\"X\",\"name\":\"publish\",\"cat\":\"host\",\"pid\":0,\"tid\":0,\"ts\":3.000,\"dur\":0.500,"
    "\"args\":{\"graph\":-1,\"node\":-1,\"round\":1,\"phase\":\"accept\",\"rows\":4,\"ready\":3.000,\"waited_"
    "event\":-1}}\n]}\n";

static void mutated_traces_are_analysed_or_refused(void **state)
{
    (void)state;
    static const char *const good[] = { kineto, ascend, own };
    static char out[2 * ROOM + 64];
    int64_t before = mem_get_stats().blocks;
    uint32_t rounds = mutate_count(FEW, MANY);
    for (size_t g = 0; g < 3; g++)
        for (uint32_t n = 0; n < rounds; n++)
            try_text(out, mutate(11 + g, n, (const uint8_t *)good[g], strlen(good[g]), 0, (uint8_t *)out), n);
    assert_int_equal(mem_get_stats().blocks, before);
}

static const char records[] =
    "{\"mode\":\"compact\",\"gamma\":7,\"verify_num_draft_tokens\":8,\"components\":[\"core\"],\"program\":"
    "\"foray\"}\n"
    "{\"forward_ct\":1,\"bs\":2,\"num_verify_tokens\":8,\"step_cpu_ms\":9.4012,\"step_gpu_ms\":9.1,\"draft_"
    "gpu_ms\":1.5,\"target_verify_gpu_ms\":6.25,\"reqs\":[{\"acc_len\":4},{\"acc_len\":2}]}\n"
    "{\"forward_ct\":2,\"bs\":2,\"kind\":\"decode\",\"wall_ns\":1000,\"phases_ns\":{\"draft\":10,\"target_"
    "verify\":900},\"reqs\":[{\"acc_len\":1}]}\n";
static const char answer[] =
    "{\"internal_states\":[{\"dspark_info_record\":{\"mode\":\"compact\",\"records\":[{\"forward_ct\":812,"
    "\"bs\":2,\"step_cpu_ms\":9.4012,\"reqs\":[{\"acc_len\":4}]},"
    "{\"forward_ct\":813,\"bs\":2,\"step_cpu_ms\":null}]}}],\"x\":[1,{\"y\":2}]}";

static void mutated_step_records_are_read_or_refused(void **state)
{
    (void)state;
    static const char *const good[] = { records, answer };
    static char out[2 * ROOM + 64];
    int64_t before = mem_get_stats().blocks;
    uint32_t rounds = mutate_count(FEW, MANY);
    for (size_t g = 0; g < 2; g++) {
        for (uint32_t n = 0; n < rounds; n++) {
            steps_file f = { 0 };
            foray_error err;
            size_t bytes = mutate(21 + g, n, (const uint8_t *)good[g], strlen(good[g]), 0, (uint8_t *)out);
            int rc = steps_file_read(&f, "fuzz.jsonl", out, bytes, &err);
            assert_true(rc == FORAY_OK || rc == FORAY_EFILE);
            if (n == 0 && rc == FORAY_OK)
                assert_true(f.count > 0);
            steps_file_free(&f);
        }
    }
    assert_int_equal(mem_get_stats().blocks, before);
}

static void mutated_rules_are_taken_or_refused(void **state)
{
    (void)state;
    static char out[4 * ROOM + 64];
    const char *good = rules_builtin();
    int64_t before = mem_get_stats().blocks;
    for (uint32_t n = 0; n < mutate_count(FEW / 4, MANY); n++) {
        rules r;
        foray_error err;
        size_t bytes = mutate(31, n, (const uint8_t *)good, strlen(good), 0, (uint8_t *)out);
        out[bytes] = '\0';
        if (rules_open("fuzz.rules", out, &r, &err) == FORAY_OK)
            rules_free(&r);
        else
            assert_int_equal(err.code, FORAY_EUSAGE);
    }
    assert_int_equal(mem_get_stats().blocks, before);
}

/* Exports of both profilers, as small as they come. */
static const char nsys_tables[] =
    "CREATE TABLE StringIds(id INTEGER PRIMARY KEY, value TEXT); INSERT INTO "
    "StringIds VALUES(1,'cudaLaunchKernel'),(2,'k');"
    "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME(start, end, globalTid, correlationId, nameId); INSERT INTO "
    "CUPTI_ACTIVITY_KIND_RUNTIME VALUES(10,20,17,5,1);"
    "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL(start, end, deviceId, streamId, correlationId, globalPid, "
    "shortName); INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES(30,50,0,7,5,0,2),(60,'70',0,7,NULL,0,9);";
static const char ascend_tables[] =
    "CREATE TABLE STRING_IDS(id, value); INSERT INTO STRING_IDS VALUES(1,'KERNEL_AICORE'),(2,'MatMul'),"
    "(3,'EVENT_WAIT'),(4,'aclrtLaunchKernel'),(5,'hcom_allReduce__1_0_1');"
    "CREATE TABLE TASK(startNs, endNs, deviceId, connectionId, globalTaskId, taskType, contextId, streamId, "
    "taskId, modelId); INSERT INTO TASK VALUES(100,200,0,7,1,1,4294967295,3,4,4294967295),"
    "(150,260,0,8,2,3,4294967295,5,1,9);"
    "CREATE TABLE COMPUTE_TASK_INFO(name, globalTaskId); INSERT INTO COMPUTE_TASK_INFO VALUES(2,1);"
    "CREATE TABLE CANN_API(startNs, endNs, globalTid, connectionId, name); INSERT INTO CANN_API "
    "VALUES(50,60,'4294967297',7,4);"
    "CREATE TABLE COMMUNICATION_OP(startNs, endNs, connectionId, opName, groupName); INSERT INTO "
    "COMMUNICATION_OP VALUES(150,260,8,5,1);"
    "CREATE TABLE CONNECTION_IDS(id, connectionId); INSERT INTO CONNECTION_IDS VALUES(1,7);"
    "CREATE TABLE PYTORCH_API(startNs TEXT, endNs TEXT, globalTid, connectionId, name, type); INSERT INTO "
    "PYTORCH_API VALUES('40','70',17,1,4,50001);";

static void mutate_database(const char *tables, uint64_t seed)
{
    char folder[] = "/tmp/foray-trace-XXXXXX", path[64];
    static uint8_t out[1 << 17];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/a.sqlite", folder);
    sqlite3 *db;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "PRAGMA page_size=512; PRAGMA synchronous=OFF;", NULL, NULL, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, tables, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
    char *good;
    size_t bytes;
    foray_error err;
    assert_int_equal(file_read(path, sizeof out / 4, &good, &bytes, &err), FORAY_OK);
    int64_t before = mem_get_stats().blocks;
    for (uint32_t n = 0; n < mutate_count(FEW / 4, MANY / 10); n++) {
        session s;
        if (n > 0) {
            size_t length = mutate(seed, n, (const uint8_t *)good, bytes, 0, out);
            FILE *f = fopen(path, "wb");
            assert_non_null(f);
            fwrite(out, 1, length, f);
            fclose(f);
        }
        assert_int_equal(session_open(NULL, NULL, &s, &err), FORAY_OK);
        int rc = session_add(&s, path, FORMAT_UNKNOWN, &err);
        if (rc == FORAY_OK)
            rc = session_finish(&s, &err);
        if (n == 0)
            assert_int_equal(s.analyses[0].graph.count, 2);
        assert_true(rc == FORAY_OK || rc == FORAY_EFILE);
        session_free(&s);
    }
    assert_int_equal(mem_get_stats().blocks, before);
    mem_free(MEM_GENERAL, good, bytes + 1);
    unlink(path);
    rmdir(folder);
}

static void mutated_databases_are_read_or_refused(void **state)
{
    (void)state;
    mutate_database(nsys_tables, 41);
    mutate_database(ascend_tables, 42);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mutated_traces_are_analysed_or_refused),
        cmocka_unit_test(mutated_step_records_are_read_or_refused),
        cmocka_unit_test(mutated_rules_are_taken_or_refused),
        cmocka_unit_test(mutated_databases_are_read_or_refused),
    };
    return cmocka_run_group_tests_name("fuzz_timeline", tests, NULL, NULL);
}
