/* log.h: lines for the person at the terminal, on stderr. Quiet, normal or verbose; a line is written with
 * one call so that threads do not mix. Library code warns only about what it turned off, cut or ignored. */
#ifndef FORAY_BASE_LOG_H
#define FORAY_BASE_LOG_H

typedef enum { LOG_QUIET, LOG_NORMAL, LOG_VERBOSE } log_level;

void log_set_level(log_level level);
void log_note(const char *format, ...) __attribute__((format(printf, 1, 2))); /* verbose only */
void log_info(const char *format, ...) __attribute__((format(printf, 1, 2))); /* normal and up */
void log_warning(const char *format, ...)
    __attribute__((format(printf, 1, 2))); /* always; "foray: warning: …" */

#endif
