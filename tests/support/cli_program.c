/* cli_program.c: spawns foray with pipes for its three streams. Input is small enough for a pipe's buffer. */
#include "support/cli_program.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ARGUMENTS = 64 };

static void make_pipe(int ends[2])
{
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
}

/* Reads both pipes to their ends, whichever speaks. interrupted: the process that gets SIGINT at the first
 * output; 0: none. */
static void collect(int out, int err, pid_t interrupted, cli_result *r)
{
    struct pollfd ends[2] = { { .fd = out, .events = POLLIN }, { .fd = err, .events = POLLIN } };
    buf *into[2] = { &r->out, &r->err };
    while (ends[0].fd >= 0 || ends[1].fd >= 0) {
        assert_true(poll(ends, 2, -1) > 0);
        for (int i = 0; i < 2; i++) {
            char block[4096];
            if (ends[i].fd < 0 || !ends[i].revents)
                continue;
            ssize_t n = read(ends[i].fd, block, sizeof block);
            if (n > 0)
                buf_append(into[i], block, (size_t)n);
            else
                ends[i].fd = -1;
            if (i == 0 && n > 0 && interrupted) {
                kill(interrupted, SIGINT);
                interrupted = 0;
            }
        }
    }
}

static cli_result run(const char *const *arguments, const char *input, const char *setting, bool interrupt)
{
    cli_result r = { 0 };
    char *argv[ARGUMENTS] = { (char *)FORAY_BUILD "/foray" }, path[4096];
    char *environment[] = { path, (char *)"HOME=/nonexistent", (char *)"LANG=C.UTF-8", (char *)setting,
                            NULL };
    int n = 1, in[2], out[2], err[2], status;
    while (arguments[n - 1]) {
        assert_true(n < ARGUMENTS - 1);
        argv[n] = (char *)arguments[n - 1];
        n++;
    }
    snprintf(path, sizeof path, "PATH=%s", getenv("PATH") ? getenv("PATH") : "/usr/bin:/bin");
    make_pipe(in);
    make_pipe(out);
    make_pipe(err);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, err[1], STDERR_FILENO);
    pid_t child;
    assert_int_equal(posix_spawn(&child, argv[0], &actions, NULL, argv, environment), 0);
    posix_spawn_file_actions_destroy(&actions);
    close(in[0]);
    close(out[1]);
    close(err[1]);
    if (input)
        assert_int_equal(write(in[1], input, strlen(input)), (ssize_t)strlen(input));
    close(in[1]);
    collect(out[0], err[0], interrupt ? child : 0, &r);
    close(out[0]);
    close(err[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    r.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return r;
}

cli_result cli_run(const char *const *arguments, const char *input, const char *setting)
{
    return run(arguments, input, setting, false);
}

cli_result cli_interrupt(const char *const *arguments)
{
    return run(arguments, NULL, NULL, true);
}

void cli_free(cli_result *r)
{
    buf_free(&r->out);
    buf_free(&r->err);
}

void cli_assert_says(const cli_result *r, int status, const char *text)
{
    if (!r->err.data || !strstr(r->err.data, text))
        fail_msg("stderr does not say '%s' but: %s", text, r->err.data ? r->err.data : "");
    assert_int_equal(r->status, status);
}
