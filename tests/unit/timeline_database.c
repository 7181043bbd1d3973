/* SQLite exports of profilers, made table by table: a column that a version lacks is named and costs what stood in it, no more;
 * a table that is missing is empty; what is no export is refused.
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

#include "support/trace_make.h"

static char folder[64], path[96];

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/foray-database-XXXXXX");
    if (mkdtemp(folder) == NULL)
        return 1;
    snprintf(path, sizeof path, "%s/a.db", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(folder);
}

static void make_database(const char *sql)
{
    sqlite3 *db;
    unlink(path);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    char *problem = NULL;
    sqlite3_exec(db, "PRAGMA synchronous=OFF; PRAGMA journal_mode=OFF;", NULL, NULL, NULL);
    if (sqlite3_exec(db, sql, NULL, NULL, &problem) != SQLITE_OK)
        fail_msg("%s", problem);
    sqlite3_close(db);
}

static void analysed(session *s, const char *sql)
{
    foray_error err;
    make_database(sql);
    assert_int_equal(session_open(NULL, NULL, s, &err), FORAY_OK);
    if (session_add(s, path, FORMAT_UNKNOWN, &err) != FORAY_OK || session_finish(s, &err) != FORAY_OK)
        fail_msg("%s", err.text);
}

static const part *only_part(const session *s)
{
    return &s->input.events.parts[0];
}

#define NSYS                                                                                                 \
    "CREATE TABLE StringIds(id INTEGER PRIMARY KEY, value TEXT);"                                            \
    "INSERT INTO StringIds VALUES(1,'cudaLaunchKernel'),(2,'k');"                                            \
    "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME(start, end, globalTid, correlationId, nameId);"                \
    "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES(10,20,17,5,1);"

static void a_whole_export_lacks_nothing(void **state)
{
    (void)state;
    session s;
    analysed(&s,
             NSYS "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL(start, end, deviceId, streamId, correlationId, "
                  "globalPid, shortName);"
                  "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES(30,50,0,7,5,0,2);");
    assert_int_equal(only_part(&s)->faults[FAULT_NO_COLUMN], 0);
    assert_int_equal(s.analyses[0].graph.count, 1);
    assert_int_not_equal(s.analyses[0].graph.tasks[0].launch, 0);
    session_free(&s);
}

static void a_column_that_is_missing_is_named(void **state)
{
    (void)state;
    session s;
    analysed(&s, NSYS "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL(start, end, deviceId, streamId, globalPid, "
                      "shortName);"
                      "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES(30,50,0,7,0,2);"
                      "CREATE TABLE CUPTI_ACTIVITY_KIND_CUDA_EVENT(eventId, eventSyncId, streamId);"
                      "CREATE TABLE CUPTI_ACTIVITY_KIND_SYNCHRONIZATION(start, end, deviceId, streamId, "
                      "correlationId, globalPid, eventId, eventSyncId, syncType);");
    assert_int_equal(only_part(&s)->faults[FAULT_NO_COLUMN], 2);
    assert_string_equal(only_part(&s)->lacking, "CUPTI_ACTIVITY_KIND_KERNEL.correlationId, "
                                                "CUPTI_ACTIVITY_KIND_CUDA_EVENT.correlationId");
    assert_int_equal(s.analyses[0].graph.count, 1); /* the task is there, its launch is unknown */
    assert_int_equal(s.analyses[0].graph.tasks[0].launch, 0);
    session_free(&s);
}

static void tasks_of_an_ascend_export_survive_a_missing_column(void **state)
{
    (void)state;
    session s;
    analysed(
        &s,
        "CREATE TABLE STRING_IDS(id, value); INSERT INTO STRING_IDS VALUES(1,'KERNEL_AICORE'),(2,'MatMul');"
        "CREATE TABLE TASK(startNs, endNs, deviceId, globalTaskId, streamId, taskId, taskType);"
        "INSERT INTO TASK VALUES(100,200,0,1,3,4,1);"
        "CREATE TABLE COMPUTE_TASK_INFO(globalTaskId, name); INSERT INTO COMPUTE_TASK_INFO VALUES(1,2);"
        "CREATE TABLE COMMUNICATION_TASK_INFO(name);");
    assert_string_equal(only_part(&s)->lacking, "TASK.connectionId, TASK.modelId, "
                                                "COMMUNICATION_TASK_INFO.globalTaskId or name");
    const task_graph *g = &s.analyses[0].graph;
    assert_int_equal(g->count, 1);
    assert_string_equal(task_name(g, &g->tasks[0]), "MatMul");
    assert_int_equal(g->tasks[0].end - g->tasks[0].start, 100);
    session_free(&s);
}

static void a_long_list_of_missing_columns_ends_in_words(void **state)
{
    (void)state;
    session s;
    analysed(&s, "CREATE TABLE STRING_IDS(id, value); CREATE TABLE TASK(startNs, endNs);"
                 "INSERT INTO TASK VALUES(100,200);");
    assert_int_equal(only_part(&s)->faults[FAULT_NO_COLUMN], 6);
    assert_non_null(strstr(only_part(&s)->lacking, "TASK.deviceId"));
    assert_non_null(strstr(only_part(&s)->lacking, "and more"));
    session_free(&s);
}

static void what_is_no_export_is_refused(void **state)
{
    (void)state;
    session s;
    foray_error err;
    make_database("CREATE TABLE notes(text);");
    assert_int_equal(session_open(NULL, NULL, &s, &err), FORAY_OK);
    assert_int_equal(session_add(&s, path, FORMAT_UNKNOWN, &err), FORAY_EFILE);
    assert_non_null(strstr(err.text, "neither"));
    session_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_whole_export_lacks_nothing),
        cmocka_unit_test(a_column_that_is_missing_is_named),
        cmocka_unit_test(tasks_of_an_ascend_export_survive_a_missing_column),
        cmocka_unit_test(a_long_list_of_missing_columns_ends_in_words),
        cmocka_unit_test(what_is_no_export_is_refused),
    };
    return cmocka_run_group_tests_name("unit_timeline_database", tests, make_folder, remove_folder);
}
