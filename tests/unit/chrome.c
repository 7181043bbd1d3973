/* The Chrome-trace writer: valid JSON whatever the records hold, exact times, arrows from the task that
 * released another one, and a file of which every whole line survives a killed writer.
 */
#include "observe/chrome.h"

#include <jansson.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/rng.h"
#include "kernel/kernel.h"

static char folder[] = "/tmp/foray-chrome-XXXXXX", path[64], partial[80];
static int64_t blocks_at_start;

static int make_folder(void **state)
{
    (void)state;
    blocks_at_start = mem_get_stats().blocks;
    if (mkdtemp(folder) == NULL)
        return 1;
    snprintf(path, sizeof path, "%s/t.json", folder);
    snprintf(partial, sizeof partial, "%s.partial", path);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(folder) != 0 || mem_get_stats().blocks != blocks_at_start;
}

/* The events of what chrome_write makes of these tasks; the whole file in *file. */
static json_t *written(const char *manifest_line, const task_record *tasks, size_t count, uint64_t lost,
                       const char *const *names, int streams, json_t **file)
{
    foray_error err;
    if (chrome_write(path, manifest_line, tasks, count, lost, names, streams, &err) != FORAY_OK)
        fail_msg("%s", err.text);
    json_error_t error;
    *file = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
    if (*file == NULL)
        fail_msg("line %d: %s", error.line, error.text);
    return json_object_get(*file, "traceEvents");
}

static const char *text(const json_t *event, const char *name)
{
    const char *value = json_string_value(json_object_get(event, name));
    return value != NULL ? value : "";
}

static double number(const json_t *event, const char *name)
{
    json_t *value = json_object_get(event, name);
    assert_true(json_is_number(value));
    return json_number_value(value);
}

static void a_task_is_one_event_with_exact_times(void **state)
{
    (void)state;
    task_record tasks[] = {
        { .name = "matmul",
          .kernel_class = CLASS_COMPUTE,
          .phase = PHASE_TARGET_VERIFY,
          .stream = 1,
          .rank = 2,
          .graph = 7,
          .node = 3,
          .rows = 5,
          .round = 812,
          .ready_ns = 5000000000000,
          .start_ns = 5000000000001,
          .end_ns = 5000000001235,
          .waited_event = -1 },
        { .name = "sample",
          .kernel_class = CLASS_HOST,
          .phase = PHASE_ACCEPT,
          .stream = 0,
          .rank = 2,
          .graph = -1,
          .node = -1,
          .ready_ns = 5000000001300,
          .start_ns = 5000000001301,
          .end_ns = 5000000001302,
          .waited_event = -1 },
    };
    static const char *const names[] = { "main", "plan" };
    json_t *file, *events = written("{\"commit\":\"abc\"}", tasks, 2, 42, names, 2, &file);
    assert_int_equal(json_array_size(events), 5); /* the rank, two streams, two tasks */
    json_t *e = json_array_get(events, 3), *args = json_object_get(e, "args");
    assert_string_equal(text(e, "ph"), "X");
    assert_string_equal(text(e, "name"), "matmul");
    assert_string_equal(text(e, "cat"), "compute");
    assert_true(number(e, "pid") == 2 && number(e, "tid") == 1);
    assert_true(number(e, "ts") == 0 && number(e, "dur") == 1.234);
    assert_true(number(args, "graph") == 7 && number(args, "node") == 3 && number(args, "round") == 812);
    assert_true(number(args, "rows") == 5 && number(args, "ready") == -0.001);
    assert_string_equal(text(args, "phase"), "target_verify");
    e = json_array_get(events, 4);
    assert_string_equal(text(e, "cat"), "host");
    assert_true(number(e, "ts") == 1.3 && number(e, "dur") == 0.001);
    assert_string_equal(text(json_object_get(json_array_get(events, 1), "args"), "name"), "main");
    json_t *metadata = json_object_get(file, "metadata");
    assert_true(number(metadata, "lost_tasks") == 42 && number(metadata, "base_ns") == 5000000000001);
    assert_string_equal(text(json_object_get(metadata, "manifest"), "commit"), "abc");
    json_decref(file);
}

static void an_empty_ring_makes_a_valid_file(void **state)
{
    (void)state;
    json_t *file, *events = written(NULL, NULL, 0, 0, NULL, 0, &file);
    assert_int_equal(json_array_size(events), 0);
    assert_true(json_is_null(json_object_get(json_object_get(file, "metadata"), "manifest")));
    json_decref(file);
}

/* Names that break writers which paste them between quotes, and numbers at both ends of their types. */
static void any_name_and_any_number_gives_valid_json(void **state)
{
    (void)state;
    static const char *const names[] = { "a\\b\"c",  "\x01\x1f",         "two\nlines\r\t",
                                         "\xff\xc3", "\xf0\x9f\x98\x80", "",
                                         NULL };
    static const char *const shown[] = {
        "a\\b\"c", "\x01\x1f", "two\nlines\r\t", "\xef\xbf\xbd\xef\xbf\xbd", "\xf0\x9f\x98\x80", "", "unnamed"
    };
    enum { COUNT = sizeof names / sizeof *names };
    static const int64_t ends[] = { INT64_MIN / 4, INT64_MAX / 4, 0, -1 };
    task_record tasks[COUNT * 4];
    for (int i = 0; i < COUNT * 4; i++) {
        int64_t n = ends[i % 4];
        memset(&tasks[i], i % 4 == 0 ? 0xff : 0x7f, sizeof tasks[i]);
        tasks[i].name = names[i / 4];
        tasks[i].start_ns = n;
        tasks[i].end_ns = n / 2;
        tasks[i].ready_ns = -n;
    }
    json_t *file, *events = written("{}", tasks, COUNT * 4, UINT64_MAX / 2, names, COUNT, &file);
    size_t index, found = 0;
    json_t *e;
    json_array_foreach(events, index, e)
    {
        if (strcmp(text(e, "ph"), "X") != 0)
            continue;
        assert_string_equal(text(e, "name"), shown[found / 4]);
        found++;
    }
    assert_int_equal(found, COUNT * 4);
    json_decref(file);
}

static void classes_are_named_as_the_kernels_number_them(void **state)
{
    (void)state;
    static const struct {
        kernel_class class;
        const char *name;
    } known[] = { { CLASS_COMPUTE, "compute" },
                  { CLASS_ATTENTION, "attention" },
                  { CLASS_COPY, "copy" },
                  { CLASS_COMM, "communication" },
                  { CLASS_HOST, "host" } };
    for (int i = 0; i < 5; i++) {
        task_record t = { .name = "t", .kernel_class = (uint8_t)known[i].class, .waited_event = -1 };
        json_t *file, *events = written(NULL, &t, 1, 0, NULL, 0, &file);
        assert_string_equal(text(json_array_get(events, 1), "cat"), known[i].name);
        json_decref(file);
    }
}

/* Rank 0: stream 0 runs a [0,100) and b [100,300); stream 1 runs c [20,90) and d [105,200), which waited for a.
 * Rank 1 has a task that ends at 104, closer to d, which cannot have released it. */
static void an_arrow_comes_from_the_task_that_released_the_waiter(void **state)
{
    (void)state;
    task_record tasks[] = {
        { .name = "a", .start_ns = 0, .end_ns = 100, .waited_event = -1 },
        { .name = "b", .ready_ns = 100, .start_ns = 100, .end_ns = 300, .waited_event = -1 },
        { .name = "c", .stream = 1, .start_ns = 20, .end_ns = 101, .waited_event = -1 },
        { .name = "d", .stream = 1, .ready_ns = 104, .start_ns = 105, .end_ns = 200, .waited_event = 9 },
        { .name = "e", .stream = 2, .rank = 1, .start_ns = 30, .end_ns = 104, .waited_event = -1 },
        { .name = "first",
          .rank = 1,
          .stream = 2,
          .start_ns = 5,
          .end_ns = 600,
          .waited_event = 8 }, /* nothing came before */
    };
    json_t *file, *events = written(NULL, tasks, sizeof tasks / sizeof *tasks, 0, NULL, 0, &file), *e;
    size_t index;
    int starts = 0, finishes = 0;
    json_array_foreach(events, index, e)
    {
        if (strcmp(text(e, "ph"), "s") == 0) {
            starts++;
            assert_string_equal(text(e, "name"), "event 9");
            assert_true(number(e, "pid") == 0 && number(e, "tid") == 0 && number(e, "ts") == 0.1);
            assert_true(number(e, "id") == 3);
        } else if (strcmp(text(e, "ph"), "f") == 0) {
            finishes++;
            assert_true(number(e, "tid") == 1 && number(e, "ts") == 0.105 && number(e, "id") == 3);
            assert_string_equal(text(e, "bp"), "e");
        }
    }
    assert_int_equal(starts, 1);
    assert_int_equal(finishes, 1);
    json_decref(file);
}

/* Every whole line but the first is one event, with a comma behind it except at the end. Returns how many. */
static size_t whole_events(const char *bytes, size_t count)
{
    size_t found = 0;
    const char *line = memchr(bytes, '\n', count), *end = bytes + count;
    while (line != NULL) {
        line++;
        const char *stop = memchr(line, '\n', (size_t)(end - line));
        if (stop == NULL || line[0] == ']')
            break;
        size_t length = (size_t)(stop - line) - (stop[-1] == ',');
        json_t *event = json_loadb(line, length, 0, NULL);
        if (event == NULL)
            fail_msg("not an event: %.*s", (int)length, line);
        json_decref(event);
        found++;
        line = stop;
    }
    return found;
}

enum { MANY = 3000 };
static task_record many[MANY];

static void make_many(void)
{
    for (int i = 0; i < MANY; i++)
        many[i] = (task_record) { .name = "k\"\n",
                                  .stream = (int16_t)(i % 3),
                                  .ready_ns = i * 10,
                                  .start_ns = i * 10 + 1,
                                  .end_ns = i * 10 + 9,
                                  .round = i,
                                  .waited_event = i % 7 == 0 ? i : -1 };
}

static void a_file_cut_anywhere_keeps_its_whole_lines(void **state)
{
    (void)state;
    make_many();
    assert_int_equal(chrome_write(path, "{}", many, 50, 0, NULL, 0, NULL), FORAY_OK);
    char *data;
    size_t bytes;
    assert_int_equal(file_read(path, 1 << 20, &data, &bytes, NULL), FORAY_OK);
    size_t lines = 0;
    for (size_t i = 0; i < bytes; i++)
        lines += data[i] == '\n';
    for (uint32_t i = 0; i < 200; i++) {
        size_t cut = rng_at(8, i, RNG_TEST, 0, 0).word[0] % (bytes + 1), before = 0;
        for (size_t k = 0; k < cut; k++)
            before += data[k] == '\n';
        /* the head is no event; a cut behind the closing brackets has one line more */
        assert_int_equal(whole_events(data, cut), before == 0 ? 0 : before - 1 - (cut == bytes));
    }
    assert_int_equal(whole_events(data, bytes), lines - 2);
    mem_free(MEM_GENERAL, data, bytes + 1);
}

/* The kernel kills the writer in the middle of a write: its limit on the size of files is fatal by default. */
static void a_killed_writer_leaves_its_whole_lines(void **state)
{
    (void)state;
    make_many();
    unlink(path);
    pid_t child = fork();
    if (child == 0) {
        struct rlimit limit = { 100000, 100000 }, no_core = { 0, 0 };
        setrlimit(RLIMIT_FSIZE, &limit);
        setrlimit(RLIMIT_CORE, &no_core);
        signal(SIGXFSZ, SIG_DFL);
        chrome_write(path, "{}", many, MANY, 0, NULL, 0, NULL);
        _exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGXFSZ);
    assert_false(file_exists(path)); /* nothing that looks whole */
    char *data;
    size_t bytes;
    assert_int_equal(file_read(partial, 1 << 20, &data, &bytes, NULL), FORAY_OK);
    assert_int_equal(bytes, 100000);
    assert_in_range(whole_events(data, bytes), 400, MANY);
    mem_free(MEM_GENERAL, data, bytes + 1);
    unlink(partial);
}

static void every_failing_allocation_is_an_error_and_leaves_no_file(void **state)
{
    (void)state;
    make_many();
    int code = FORAY_ENOMEM;
    for (int n = 1; code != FORAY_OK; n++) {
        int64_t blocks = mem_get_stats().blocks;
        unlink(path);
        mem_fail_nth(n, true);
        code = chrome_write(path, "{}", many, MANY, 0, NULL, 0, NULL);
        mem_fail_nth(0, false);
        assert_true(code == FORAY_OK || code == FORAY_ENOMEM);
        assert_true(file_exists(path) == (code == FORAY_OK));
        assert_false(file_exists(partial));
        assert_int_equal(mem_get_stats().blocks, blocks);
    }
}

static void a_full_disk_is_an_error(void **state)
{
    (void)state;
    foray_error err;
    assert_int_equal(chrome_write("/dev/full", "{}", many, MANY, 0, NULL, 0, &err), FORAY_EFILE);
    assert_string_equal(err.text, "/dev/full: cannot write: No space left on device");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_task_is_one_event_with_exact_times),
        cmocka_unit_test(an_empty_ring_makes_a_valid_file),
        cmocka_unit_test(any_name_and_any_number_gives_valid_json),
        cmocka_unit_test(classes_are_named_as_the_kernels_number_them),
        cmocka_unit_test(an_arrow_comes_from_the_task_that_released_the_waiter),
        cmocka_unit_test(a_file_cut_anywhere_keeps_its_whole_lines),
        cmocka_unit_test(a_killed_writer_leaves_its_whole_lines),
        cmocka_unit_test(every_failing_allocation_is_an_error_and_leaves_no_file),
        cmocka_unit_test(a_full_disk_is_an_error),
    };
    return cmocka_run_group_tests_name("chrome", tests, make_folder, remove_folder);
}
