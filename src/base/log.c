/* log.c: formats a line on the stack and writes it with one call.
 *
 * Does not colour, buffer or time-stamp. A line longer than the scratch is cut. Threads: any.
 */
#include "base/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { LINE_BYTES = 2048 };

static _Atomic int level = LOG_NORMAL;

void log_set_level(log_level wanted)
{
    atomic_store(&level, (int)wanted);
}

static void write_line(const char *prefix, const char *format, va_list args)
{
    char line[LINE_BYTES];
    size_t len = strlen(prefix);
    memcpy(line, prefix, len);
    int wanted = vsnprintf(line + len, sizeof line - len - 1, format, args);
    if (wanted < 0)
        return;
    size_t room = sizeof line - len - 2;
    len += (size_t)wanted < room ? (size_t)wanted : room;
    line[len++] = '\n';
    /* There is nobody left to tell when stderr is gone. */
    ssize_t written = write(STDERR_FILENO, line, len);
    (void)written;
}

void log_note(const char *format, ...)
{
    if (atomic_load(&level) < LOG_VERBOSE)
        return;
    va_list args;
    va_start(args, format);
    write_line("foray: ", format, args);
    va_end(args);
}

void log_info(const char *format, ...)
{
    if (atomic_load(&level) < LOG_NORMAL)
        return;
    va_list args;
    va_start(args, format);
    write_line("foray: ", format, args);
    va_end(args);
}

void log_warning(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    write_line("foray: warning: ", format, args);
    va_end(args);
}
