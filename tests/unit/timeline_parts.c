/* What a build can leave out (gzip, zstd, SQLite): read where it is there, else refused with one line; plain files always work. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/trace_make.h"
#include "support/tiny.h"

#ifdef FORAY_ZLIB
enum { HAS_ZLIB = 1 };
#else
enum { HAS_ZLIB = 0 };
#endif
#ifdef FORAY_ZSTD
enum { HAS_ZSTD = 1 };
#else
enum { HAS_ZSTD = 0 };
#endif
#ifdef FORAY_SQLITE
enum { HAS_SQLITE = 1 };
#else
enum { HAS_SQLITE = 0 };
#endif

/* Adds a file of these bytes; where its kind is left out the refusal says so. */
static void add_file(const char *name, const void *bytes, size_t count, bool has, const char *says)
{
    session s;
    foray_error err = { 0 };
    const char *path = tiny_path(tiny_folder(), name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, count, f), count);
    fclose(f);
    assert_int_equal(session_open(NULL, NULL, &s, &err), FORAY_OK);
    int rc = session_add(&s, path, FORMAT_UNKNOWN, &err);
    if (!has) {
        assert_int_equal(rc, FORAY_EUNSUPPORTED);
        assert_non_null(strstr(err.text, "which this build leaves out"));
        assert_non_null(strstr(err.text, name));
    } else {
        assert_int_not_equal(rc, FORAY_EUNSUPPORTED);
        if (says == NULL)
            assert_int_equal(rc, FORAY_OK);
        else
            assert_non_null(strstr(err.text, says));
    }
    session_free(&s);
}

static void each_part_reads_or_refuses(void **state)
{
    (void)state;
    static const char plain[] = "[]\n";
    static const unsigned char gz[] = { 0x1f, 0x8b, 8,    0,    0,    0,    0, 0, 0, 3, /* "[]\n" */
                                        0x8b, 0x8e, 0xe5, 0x02, 0x00, 0xfd, 0, 0, 0, 3, 0, 0, 0 };
    static const unsigned char zst[] = { 0x28, 0xb5, 0x2f, 0xfd, 0x20, 3, 0x19, 0, 0, '[', ']', '\n' };
    add_file("plain.json", plain, sizeof plain - 1, true, NULL);
    add_file("packed.gz", gz, sizeof gz, HAS_ZLIB, NULL);
    add_file("packed.zst", zst, sizeof zst, HAS_ZSTD, NULL);
    add_file("cut.db", "SQLite format 3", 16, HAS_SQLITE, "cut.db");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_part_reads_or_refuses),
    };
    return cmocka_run_group_tests_name("unit_timeline_parts", tests, NULL, NULL);
}
