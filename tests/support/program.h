/* program.h: runs the foray that was built beside the tests, as a user would, and keeps what it said.
 *
 * The program sees a small environment of its own: PATH, and HOME and caches in a folder that does not exist.
 * Threads: one at a time.
 */
#ifndef FORAY_TESTS_PROGRAM_H
#define FORAY_TESTS_PROGRAM_H

#include "base/buf.h"

typedef struct {
    int status; /* exit status; 128 + signal when it was killed */
    buf out, err;
} program_result;

/* Runs foray with arguments, which end in NULL and do not contain the program's name; input is its stdin (NULL:
 * empty), setting one more variable "NAME=value" or NULL. The result is the caller's: program_free. Fails the test
 * when the program cannot be started. */
program_result program_run(const char *const *arguments, const char *input, const char *setting);
/* The same without input; the program gets SIGINT, as by Ctrl-C, as soon as it has written to stdout. */
program_result program_interrupt(const char *const *arguments);
void program_free(program_result *r);

#endif
