/* cli_program.h: runs the foray that was built beside the tests, as a user would, and keeps what it said.
 *
 * The program sees a small environment of its own: PATH, and HOME and caches in a folder that does not exist.
 * Threads: one at a time.
 */
#ifndef FORAY_TESTS_CLI_PROGRAM_H
#define FORAY_TESTS_CLI_PROGRAM_H

#include "base/buf.h"

typedef struct {
    int status; /* exit status; 128 + signal when it was killed */
    buf out, err;
} cli_result;

/* Runs foray with arguments, which end in NULL and do not contain the program's name; input is its stdin (NULL:
 * empty), setting one more variable "NAME=value" or NULL. The result is the caller's: cli_free. Fails the test
 * when the program cannot be started. */
cli_result cli_run(const char *const *arguments, const char *input, const char *setting);
/* The same without input; the program gets SIGINT, as by Ctrl-C, as soon as it has written to stdout. */
cli_result cli_interrupt(const char *const *arguments);
void cli_free(cli_result *r);
/* Fails the test unless the program ended with this status and its stderr has this text in it. */
void cli_assert_says(const cli_result *r, int status, const char *text);

#endif
