/* commands.h: the commands of the program: parse, call, print; one file each (cmd_NAME.c).
 *
 * A command gets its parsed options, prints what was asked for to stdout and everything else to stderr, and
 * returns the program's exit status. It frees what it made; the options stay the caller's.
 * Threads: the main thread only.
 */
#ifndef FORAY_CLI_COMMANDS_H
#define FORAY_CLI_COMMANDS_H

#include "base/options.h"

enum { STATUS_OK = 0, STATUS_FAILED = 1, STATUS_USAGE = 2 };

int cmd_run(const options *o);
int cmd_score(const options *o);
int cmd_bench(const options *o);
int cmd_trace(const options *o);
int cmd_inspect(const options *o);
int cmd_model(const options *o);

/* Prints an error as one line on stderr and returns the exit status that fits it: STATUS_USAGE for EUSAGE,
 * STATUS_FAILED for the rest. */
int commands_fail(const foray_error *err);

/* Writes text to stdout, whole; a failure (a closed pipe, a full disk) is filled into err. */
int commands_print(const buf *text, foray_error *err);

#endif
