/* The log: which lines appear at which level, each written whole with one call. */
#include "base/log.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

static int ends[2], real_stderr;

/* stderr becomes a socket that keeps messages apart: one message is one call of write. */
static int capture(void **state)
{
    (void)state;
    real_stderr = dup(STDERR_FILENO);
    return socketpair(AF_UNIX, SOCK_DGRAM, 0, ends) != 0 || dup2(ends[1], STDERR_FILENO) < 0;
}

static int release(void **state)
{
    (void)state;
    log_set_level(LOG_NORMAL);
    dup2(real_stderr, STDERR_FILENO);
    close(real_stderr);
    close(ends[0]);
    close(ends[1]);
    return 0;
}

static void assert_said(const char *line)
{
    char got[4096];
    ssize_t bytes = recv(ends[0], got, sizeof got - 1, MSG_DONTWAIT);
    got[bytes > 0 ? bytes : 0] = '\0';
    assert_string_equal(got, line);
}

static void each_level_lets_its_lines_through(void **state)
{
    (void)state;
    static const struct {
        log_level level;
        const char *note, *info, *warning;
    } cases[] = {
        { LOG_QUIET, "", "", "foray: warning: w 3\n" },
        { LOG_NORMAL, "", "foray: i 2\n", "foray: warning: w 3\n" },
        { LOG_VERBOSE, "foray: n 1\n", "foray: i 2\n", "foray: warning: w 3\n" },
    };
    for (int i = 0; i < 3; i++) {
        log_set_level(cases[i].level);
        log_note("n %d", 1);
        assert_said(cases[i].note);
        log_info("i %d", 2);
        assert_said(cases[i].info);
        log_warning("w %d", 3);
        assert_said(cases[i].warning);
    }
}

static void a_line_too_long_is_cut_and_still_ends(void **state)
{
    (void)state;
    char text[5000], got[8192];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    log_warning("%s", text);
    ssize_t bytes = recv(ends[0], got, sizeof got, MSG_DONTWAIT);
    assert_in_range(bytes, 1000, 2048);
    assert_int_equal(got[bytes - 1], '\n');
    assert_int_equal(got[bytes - 2], 'x');
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(each_level_lets_its_lines_through, capture, release),
        cmocka_unit_test_setup_teardown(a_line_too_long_is_cut_and_still_ends, capture, release),
    };
    return cmocka_run_group_tests_name("log", tests, NULL, NULL);
}
