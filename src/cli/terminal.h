/* terminal.h: what is different when a person watches: colours, progress, Ctrl-C.
 *
 * Everything here goes to stderr and vanishes (colours, progress) when that is not a terminal; NO_COLOR in the
 * environment turns colours off. Threads: the main thread; the interrupt flag may be read from any.
 */
#ifndef FORAY_CLI_TERMINAL_H
#define FORAY_CLI_TERMINAL_H

#include <stdbool.h>
#include <stdint.h>

/* Escape sequences for stderr, or "" where colours are not wanted. */
const char *terminal_dim(void);
const char *terminal_bold(void);
const char *terminal_plain(void);

/* Shows "what 42 %" on one line that is written over, and wipes it when done reaches total. Has the form of
 * foray_config's progress; user is not used. Prints nothing where stderr is not a terminal. */
void terminal_progress(void *user, const char *what, uint64_t done, uint64_t total);

/* From arm to disarm, Ctrl-C sets a flag; a second Ctrl-C ends the program as usual. Arming clears the flag. */
void terminal_interrupt_arm(void);
void terminal_interrupt_disarm(void);
bool terminal_interrupted(void);

#endif
