/* Files: mapped, read, and written beside their place; what cannot be is said with path and reason. */
#include "base/file.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <signal.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"

static char folder[] = "/tmp/foray-file-XXXXXX";
static int64_t blocks_at_start;

static int make_folder(void **state)
{
    (void)state;
    blocks_at_start = mem_get_stats().blocks;
    return mkdtemp(folder) == NULL;
}

static int remove_folder(void **state)
{
    (void)state;
    return rmdir(folder) != 0 || mem_get_stats().blocks != blocks_at_start;
}

static const char *path_of(const char *name)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void put(const char *path, const char *bytes, size_t count)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, count, f), count);
    fclose(f);
}

static void a_file_is_mapped_and_read_as_it_is(void **state)
{
    (void)state;
    static const size_t sizes[] = { 0, 1, 4096, 4097, 100000 };
    const char *path = path_of("data");
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char *bytes = test_malloc(sizes[i] + 1);
        for (size_t k = 0; k < sizes[i]; k++)
            bytes[k] = (char)(k * 13);
        put(path, bytes, sizes[i]);
        file_map map;
        foray_error err;
        assert_int_equal(file_map_open(path, &map, &err), FORAY_OK);
        assert_int_equal(map.size, sizes[i]);
        assert_non_null(map.data);
        assert_memory_equal(map.data, bytes, sizes[i]);
        assert_string_equal(map.path, path);
        file_unmap(&map);
        char *data;
        size_t count;
        assert_int_equal(file_read(path, sizes[i], &data, &count, &err), FORAY_OK);
        assert_int_equal(count, sizes[i]);
        assert_memory_equal(data, bytes, count);
        assert_int_equal(data[count], 0);
        mem_free(MEM_GENERAL, data, count + 1);
        if (sizes[i] != 0)
            assert_int_equal(file_read(path, sizes[i] - 1, &data, &count, &err), FORAY_ELIMIT);
        test_free(bytes);
    }
    unlink(path);
}

static void what_cannot_be_opened_is_named(void **state)
{
    (void)state;
    file_map map;
    char *data, wanted[400];
    size_t count;
    foray_error err;
    snprintf(wanted, sizeof wanted, "%s: cannot open: No such file or directory", path_of("none"));
    assert_int_equal(file_map_open(path_of("none"), &map, &err), FORAY_EFILE);
    assert_string_equal(err.text, wanted);
    assert_int_equal(file_read(path_of("none"), 10, &data, &count, &err), FORAY_EFILE);
    snprintf(wanted, sizeof wanted, "%s: is a folder, not a file", folder);
    assert_int_equal(file_map_open(folder, &map, &err), FORAY_EFILE);
    assert_string_equal(err.text, wanted);
    assert_int_equal(file_map_open("/dev/null", &map, &err), FORAY_EFILE);
    assert_true(file_is_folder(folder) && file_exists(folder));
    assert_false(file_is_folder(path_of("none")) || file_exists(path_of("none")));
}

static void a_pipe_can_be_read(void **state)
{
    (void)state;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], "from a pipe", 11), 11);
    close(ends[1]);
    char path[64], *data;
    size_t count;
    snprintf(path, sizeof path, "/proc/self/fd/%d", ends[0]);
    assert_int_equal(file_read(path, 100, &data, &count, NULL), FORAY_OK);
    assert_string_equal(data, "from a pipe");
    mem_free(MEM_GENERAL, data, count + 1);
    close(ends[0]);
}

static void every_failing_allocation_is_an_error_and_no_leak(void **state)
{
    (void)state;
    char path[256];
    snprintf(path, sizeof path, "%s", path_of("data"));
    put(path, "0123456789", 10);
    int64_t blocks = mem_get_stats().blocks;
    for (int n = 1;; n++) {
        file_map map;
        file_writer w;
        char *data;
        size_t count;
        mem_fail_nth(n, true);
        int mapped = file_map_open(path, &map, NULL), read = file_read(path, 10, &data, &count, NULL);
        int created = file_create(path_of("data2"), &w, NULL), written = FORAY_ENOMEM;
        if (created == FORAY_OK) {
            buf_puts(&w.pending, "x");
            written = file_commit(&w, NULL);
            unlink(path_of("data2"));
        }
        mem_fail_nth(0, false);
        if (mapped == FORAY_OK)
            file_unmap(&map);
        if (read == FORAY_OK)
            mem_free(MEM_GENERAL, data, count + 1);
        assert_true(mapped == FORAY_OK || mapped == FORAY_ENOMEM);
        assert_true(read == FORAY_OK || read == FORAY_ENOMEM);
        assert_true(written == FORAY_OK || written == FORAY_ENOMEM);
        assert_int_equal(mem_get_stats().blocks, blocks);
        if (mapped == FORAY_OK && read == FORAY_OK && written == FORAY_OK)
            break;
    }
    unlink(path_of("data"));
}

static void a_file_appears_only_when_it_is_whole(void **state)
{
    (void)state;
    char path[256], partial[300];
    snprintf(path, sizeof path, "%s", path_of("out"));
    snprintf(partial, sizeof partial, "%s.partial", path);
    put(path, "before", 6);
    for (int commit = 0; commit < 2; commit++) {
        file_writer w;
        assert_int_equal(file_create(path, &w, NULL), FORAY_OK);
        for (int i = 0; i < 30000; i++) {
            buf_printf(&w.pending, "%05d\n", i);
            assert_int_equal(file_flush(&w, false, NULL), FORAY_OK);
        }
        assert_true(file_exists(partial));
        char *data;
        size_t count;
        assert_int_equal(file_read(path, 10, &data, &count, NULL), FORAY_OK);
        assert_string_equal(data, "before");
        mem_free(MEM_GENERAL, data, count + 1);
        if (commit)
            assert_int_equal(file_commit(&w, NULL), FORAY_OK);
        else
            file_abandon(&w);
        assert_false(file_exists(partial));
    }
    char *data;
    size_t count;
    assert_int_equal(file_read(path, 1 << 20, &data, &count, NULL), FORAY_OK);
    assert_int_equal(count, 180000);
    assert_memory_equal(data + 179994, "29999\n", 6);
    mem_free(MEM_GENERAL, data, count + 1);
    unlink(path);
}

/* A limit on the size of files stands for a disk that fills up. */
static void a_full_disk_is_said_and_nothing_stays(void **state)
{
    (void)state;
    struct rlimit before, small;
    getrlimit(RLIMIT_FSIZE, &before);
    small = before;
    small.rlim_cur = 1000;
    signal(SIGXFSZ, SIG_IGN);
    file_writer w;
    foray_error err;
    assert_int_equal(file_create(path_of("out"), &w, NULL), FORAY_OK);
    for (int i = 0; i < 1000; i++)
        buf_puts(&w.pending, "xx");
    setrlimit(RLIMIT_FSIZE, &small);
    int code = file_commit(&w, &err);
    setrlimit(RLIMIT_FSIZE, &before);
    assert_int_equal(code, FORAY_EFILE);
    assert_non_null(strstr(err.text, "out: cannot write: File too large"));
    assert_false(file_exists(path_of("out")) || file_exists(path_of("out.partial")));
    assert_int_equal(file_create("/nowhere/at/all", &w, &err), FORAY_EFILE);
    assert_string_equal(err.text, "/nowhere/at/all: cannot write: No such file or directory");
}

static void a_device_is_written_directly(void **state)
{
    (void)state;
    file_writer w;
    assert_int_equal(file_create("/dev/null", &w, NULL), FORAY_OK);
    buf_puts(&w.pending, "gone");
    assert_int_equal(file_commit(&w, NULL), FORAY_OK);
    struct stat info;
    assert_true(stat("/dev/null", &info) == 0 && S_ISCHR(info.st_mode));
    assert_int_equal(file_create("/dev/full", &w, NULL), FORAY_OK);
    buf_puts(&w.pending, "gone");
    foray_error err;
    assert_int_equal(file_commit(&w, &err), FORAY_EFILE);
    assert_string_equal(err.text, "/dev/full: cannot write: No space left on device");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_is_mapped_and_read_as_it_is),
        cmocka_unit_test(what_cannot_be_opened_is_named),
        cmocka_unit_test(a_pipe_can_be_read),
        cmocka_unit_test(every_failing_allocation_is_an_error_and_no_leak),
        cmocka_unit_test(a_file_appears_only_when_it_is_whole),
        cmocka_unit_test(a_full_disk_is_said_and_nothing_stays),
        cmocka_unit_test(a_device_is_written_directly),
    };
    return cmocka_run_group_tests_name("file", tests, make_folder, remove_folder);
}
