/* session.h: files in, analyses out: what `foray trace` does, as one object.
 *
 * Open it, add files (or bytes), then finish: ranks are found and each is analysed. A finished session stays where
 * it is: its analyses point into it. Threads: one at a time.
 */
#ifndef FORAY_TIMELINE_SESSION_H
#define FORAY_TIMELINE_SESSION_H

#include "timeline/analysis.h"
#include "timeline/read.h"

typedef struct {
    trace_input input;
    rules rules;
    settled groups;
    analysis *analyses; /* [count] one per group */
    size_t count, made;
} session;

/* rules_text: the user's rules, or NULL; rules_name for messages. On error *out is empty. */
int session_open(const char *rules_name, const char *rules_text, session *out, foray_error *err);
/* A file or a folder. */
int session_add(session *s, const char *path, trace_format wanted, foray_error *err);
/* Chrome-style JSON in memory, under a name. */
int session_add_text(session *s, const char *name, const char *text, size_t bytes, foray_error *err);
/* Analyses everything that was added. Once. */
int session_finish(session *s, foray_error *err);
void session_free(session *s);

#endif
