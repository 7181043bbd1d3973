/* error.h: how a function of foray says that it failed.
 *
 * The error struct and the codes are public (foray.h). fail() fills it where the failure happens and
 * returns the code, so that `return fail(err, …)` is the only idiom. Threads: any; no globals.
 */
#ifndef FORAY_BASE_ERROR_H
#define FORAY_BASE_ERROR_H

#include "foray.h"

/* Fills *err (which may be NULL) with code and the formatted line, and returns code. Text that does not
 * fit is cut at the end of a character and marked with an ellipsis. Control bytes become '?'.
 * (In parentheses, so that cmocka's macro of that name leaves the declaration alone.) */
int(fail)(foray_error *err, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
