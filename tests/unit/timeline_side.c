/* Companions of an Ascend trace in its folder: tables as spreadsheets write them, sums that were chosen, a kernel that the timeline
 * lacks, the rank of a folder that does not name it; alone they are refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "support/trace_make.h"
#include "timeline/csv.h"
#include "timeline/report.h"

static char folder[512];

static const char TIMELINE[] =
    "[{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":3,\"args\":{\"name\":\"Ascend Hardware\"}},"
    "{\"ph\":\"X\",\"name\":\"MatMul1\",\"pid\":3,\"tid\":7,\"ts\":\"1736412474714258.990\",\"dur\":10.5,"
    "\"args\":{\"Task Type\":\"AI_CORE\"}},"
    "{\"ph\":\"X\",\"name\":\"Cast2\",\"pid\":3,\"tid\":7,\"ts\":\"1736412474714270.000\",\"dur\":4,"
    "\"args\":{\"Task Type\":\"AI_VECTOR_CORE\"}}]";

/* Three kernels, the last one not in the timeline, and a collective. */
static const char KERNELS[] =
    "\xef\xbb\xbfStep Id,Name,Type,Accelerator Core,Start Time(us),Duration(us),Wait Time(us),Block "
    "Dim,Input Shapes\r\n"
    "1,MatMul1,MatMul,AI_CORE,1736412474714258.990\t,10.5,0,24,\"\"\"32,3\r\n224\"\"\"\r\n"
    "1,Cast2,Cast,AI_VECTOR_CORE,1736412474714270.000\t,4,0.51,8,\r\n"
    "1,hcom_allReduce,hcom_allReduce,HCCL,1736412474714275.000\t,900,0,N/A,\r\n"
    "1,Lost3,Cast,AI_VECTOR_CORE,1736412474714280.000\t,2,0.51,8,\r\n"
    "1,NoTime,Cast,AI_VECTOR_CORE,N/A,2,0.51,8,\r\n";

static const char INFO[] =
    "{\"config\": {\"experimental_config\": {\"_profiler_level\": \"Level1\"}}, \"rank_id\": 11}";

static const char COLLECTIVES[] = "{\"step5\": {\"p2p\": {}, \"collective\": {"
                                  "\"hcom_allReduce__1@7\": {\"Communication Time Info\": {\"Elapse "
                                  "Time(ms)\": 3.5, \"Transit Time(ms)\": 1, \"Wait Time(ms)\": "
                                  "0.25, \"Idle Time(ms)\": 2.25}, \"Communication Bandwidth Info\": "
                                  "{\"HCCS\": {\"Transit Size(MB)\": 30, \"Transit Time(ms)\": "
                                  "2.0, \"Size Distribution\": {\"15\": [2, 2.0]}}, \"RDMA\": {\"Transit "
                                  "Size(MB)\": 0, \"Transit Time(ms)\": 0}}},"
                                  "\"hcom_allReduce__2@7\": {\"Communication Time Info\": {\"Elapse "
                                  "Time(ms)\": 0.5, \"Transit Time(ms)\": 0.5, \"Wait Time(ms)\": "
                                  "0, \"Idle Time(ms)\": 0}, \"Communication Bandwidth Info\": {\"HCCS\": "
                                  "{\"Transit Size(MB)\": 10, \"Transit Time(ms)\": 2.0}}},"
                                  "\"Total Op Info\": {\"Communication Time Info\": {\"Elapse Time(ms)\": 4, "
                                  "\"Transit Time(ms)\": 1.5}}}}}";

static const char LINKS[] =
    "{\"step5\": {\"collective\": {\"allreduce-total@7\": {"
    "\"0-0\": {\"Transport Type\": \"LOCAL\", \"Bandwidth(GB/s)\": 499.0},"
    "\"0-1\": {\"Transport Type\": \"HCCS\", \"Bandwidth(GB/s)\": 17.5},"
    "\"0-2\": {\"Transport Type\": \"HCCS\", \"Bandwidth(GB/s)\": 3.25}},"
    "\"allreduce-top1@7\": {\"0-3\": {\"Transport Type\": \"HCCS\", \"Bandwidth(GB/s)\": 1.0}}}}}";

static void put_file(const char *name, const char *text)
{
    char path[600];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, strlen(text), f), strlen(text));
    assert_int_equal(fclose(f), 0);
}

/* As the profiler lays it out: the timeline and most companions one folder down. */
static int make_folder(void **state)
{
    (void)state;
    char inner[600];
    const char *root = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/foray-side-XXXXXX", root != NULL ? root : "/tmp");
    if (mkdtemp(folder) == NULL)
        return 1;
    snprintf(inner, sizeof inner, "%s/ASCEND_PROFILER_OUTPUT", folder);
    if (mkdir(inner, 0700) != 0)
        return 1;
    put_file("profiler_info_11.json", INFO);
    put_file("ASCEND_PROFILER_OUTPUT/trace_view.json", TIMELINE);
    put_file("ASCEND_PROFILER_OUTPUT/kernel_details.csv", KERNELS);
    put_file("ASCEND_PROFILER_OUTPUT/communication.json", COLLECTIVES);
    put_file("ASCEND_PROFILER_OUTPUT/communication_matrix.json", LINKS);
    put_file("ASCEND_PROFILER_OUTPUT/api_statistic.csv", "Level,API Name,Time(us),Count\nacl,x,1,2\n");
    put_file("ASCEND_PROFILER_OUTPUT/notes.csv", "a,b\n1,2\n");
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    static const char *const list[] = { "ASCEND_PROFILER_OUTPUT/trace_view.json",
                                        "ASCEND_PROFILER_OUTPUT/kernel_details.csv",
                                        "ASCEND_PROFILER_OUTPUT/communication.json",
                                        "ASCEND_PROFILER_OUTPUT/communication_matrix.json",
                                        "ASCEND_PROFILER_OUTPUT/api_statistic.csv",
                                        "ASCEND_PROFILER_OUTPUT/notes.csv",
                                        "ASCEND_PROFILER_OUTPUT",
                                        "profiler_info_11.json",
                                        "" };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        char path[600];
        snprintf(path, sizeof path, "%s/%s", folder, list[i]);
        remove(path);
    }
    return 0;
}

static void says(const quality_line *lines, size_t n, bool warning, const char *text)
{
    for (size_t i = 0; i < n; i++)
        if (strstr(lines[i].text, text) != NULL) {
            assert_int_equal(lines[i].warning, warning);
            return;
        }
    fail_msg("no line says: %s", text);
}

static void companions_of_a_folder_say_what_they_know(void **state)
{
    (void)state;
    session s;
    foray_error err;
    quality_line lines[QUALITY_MOST];
    assert_int_equal(session_open(NULL, NULL, &s, &err), FORAY_OK);
    if (session_add(&s, folder, FORMAT_UNKNOWN, &err) != FORAY_OK || session_finish(&s, &err) != FORAY_OK)
        fail_msg("%s", err.text);
    assert_int_equal(s.count, 1);
    assert_int_equal(s.groups.groups[0].rank, 11);
    assert_false(s.groups.groups[0].rank_guessed);
    assert_int_equal(s.input.sides.count, 4);
    report r = {
        .input = &s.input, .groups = &s.groups, .analyses = s.analyses, .count = s.count, .only_step = -1
    };
    size_t n = report_quality(&r, 0, lines);
    says(lines, n, false, "profiler_info_11.json: rank 11, profiler level Level1");
    says(lines, n, true,
         "kernel_details.csv: 2 of its 3 kernels are in the timeline, which has lost the others");
    says(lines, n, true,
         "half of their 0.017 ms run in kernels of at most 24 blocks; 1 rows of it are unreadable");
    says(lines, n, false,
         "communication.json: 2 collectives, 4.000 ms: 1.500 in transit, 0.250 in waits, 2.250 without a "
         "task of theirs; HCCS "
         "40.0 MB at 10.0 GB/s");
    says(lines, n, false, "2 links between ranks: the slowest 0-2 at 3.2 GB/s, the fastest 0-1 at 17.5 GB/s");
    for (size_t i = 0; i < s.input.sides.count; i++)
        assert_int_equal(s.input.sides.files[i].bad_rows, s.input.sides.files[i].kind == SIDE_KERNELS);
    assert_non_null(strstr(s.input.notes.data, "api_statistic.csv: a companion"));
    assert_non_null(strstr(s.input.notes.data, "notes.csv"));
    session_free(&s);
}

static void companions_alone_are_refused(void **state)
{
    (void)state;
    static const char *const list[] = { "kernel_details.csv", "communication.json",
                                        "communication_matrix.json", "api_statistic.csv" };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        session s;
        foray_error err;
        char path[700];
        snprintf(path, sizeof path, "%s/ASCEND_PROFILER_OUTPUT/%s", folder, list[i]);
        assert_int_equal(session_open(NULL, NULL, &s, &err), FORAY_OK);
        int rc = session_add(&s, path, FORMAT_UNKNOWN, &err);
        if (rc == FORAY_OK)
            rc = session_finish(&s, &err);
        assert_int_equal(rc, FORAY_EFILE);
        assert_non_null(strstr(err.text, list[i]));
        assert_non_null(strstr(err.text, "companion"));
        session_free(&s);
    }
}

static void a_table_without_a_row_is_refused(void **state)
{
    (void)state;
    static const side_kind kinds[] = { SIDE_KERNELS, SIDE_STEPS };
    char path[600];
    snprintf(path, sizeof path, "%s/empty.csv", folder);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        session s;
        foray_error err;
        put_file("empty.csv", "\n");
        assert_int_equal(session_open(NULL, NULL, &s, &err), FORAY_OK);
        assert_int_equal(side_read(&s.input.sides, &s.input.events, kinds[i], path, &err), FORAY_EFILE);
        assert_non_null(strstr(err.text, "empty.csv: a table without a row"));
        session_free(&s);
    }
    remove(path);
}

/* Two kernels that last together longer than a clock counts, and one that ends before it starts. */
static void hostile_kernels_leave_their_sums_in_range(void **state)
{
    (void)state;
    static const char name[] = "ASCEND_PROFILER_OUTPUT/long.csv";
    char path[600];
    session s;
    foray_error err;
    quality_line lines[QUALITY_MOST];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    put_file(name, "Name,Accelerator Core,Start Time(us),Duration(us),Block Dim\n"
                   "MatMul1,AI_CORE,1736412474714258.990,9e15,3\nCast2,AI_CORE,1736412474714270,9e15,5\n"
                   "Cast2,AI_CORE,1736412474714270,-1,1\n");
    assert_int_equal(session_open(NULL, NULL, &s, &err), FORAY_OK);
    assert_int_equal(side_read(&s.input.sides, &s.input.events, SIDE_KERNELS, path, &err), FORAY_OK);
    remove(path);
    snprintf(path, sizeof path, "%s/ASCEND_PROFILER_OUTPUT/trace_view.json", folder);
    assert_int_equal(session_add(&s, path, FORMAT_UNKNOWN, &err), FORAY_OK);
    assert_int_equal(session_finish(&s, &err), FORAY_OK);
    report r = {
        .input = &s.input, .groups = &s.groups, .analyses = s.analyses, .count = s.count, .only_step = -1
    };
    says(lines, report_quality(&r, 0, lines), false,
         "long.csv: 2 of its 2 kernels are in the timeline; half of their 9223372036854.775 ms run in "
         "kernels of "
         "at most 3 blocks; 1 rows of it are unreadable");
    session_free(&s);
}

static void rows_come_out_as_spreadsheets_mean_them(void **state)
{
    (void)state;
    static const char text[] = "\xef\xbb\xbf"
                               "a, b ,c\r\n\n\"x\"\"y,z\",,\"two\r\nlines\"\t\r\nlast";
    static const char *const want[3][3] = { { "a", "b", "c" },
                                            { "x\"y,z", "", "two\r\nlines" },
                                            { "last", "", "" } };
    source *from;
    csv c;
    foray_error err;
    assert_int_equal(source_memory("t.csv", text, sizeof text - 1, &from, &err), FORAY_OK);
    assert_int_equal(csv_open(from, &c, &err), FORAY_OK);
    for (int row = 0; row < 3; row++) {
        assert_true(csv_next(&c));
        if (row == 0)
            assert_int_equal(csv_column(&c, "b"), 1);
        for (int i = 0; i < 3; i++)
            assert_string_equal(csv_field(&c, i), want[row][i]);
        assert_string_equal(csv_field(&c, -1), "");
    }
    assert_false(csv_next(&c));
    csv_close(&c);
    source_close(from);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(companions_of_a_folder_say_what_they_know),
        cmocka_unit_test(companions_alone_are_refused),
        cmocka_unit_test(a_table_without_a_row_is_refused),
        cmocka_unit_test(hostile_kernels_leave_their_sums_in_range),
        cmocka_unit_test(rows_come_out_as_spreadsheets_mean_them),
    };
    return cmocka_run_group_tests_name("unit_timeline_side", tests, make_folder, remove_folder);
}
