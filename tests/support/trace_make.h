/* trace_make.h: traces in PyTorch's form, event by event, for tests that know what must come out.
 *
 * Times are given in ns and written as microseconds; `scale` and `shift` change all of them alike. Events are kept as
 * separate lines, so that a test can shuffle them or deal them out to several files.
 */
#ifndef FORAY_TESTS_SUPPORT_TRACE_MAKE_H
#define FORAY_TESTS_SUPPORT_TRACE_MAKE_H

#include "base/buf.h"
#include "timeline/session.h"

typedef struct {
    buf lines;     /* one event a line */
    size_t *start; /* [count] where each begins */
    size_t count, cap;
    int64_t scale, shift;
} trace_make;

/* scale 1 and shift 0: times as they are. */
void trace_make_open(trace_make *m, int64_t scale, int64_t shift);
void trace_make_free(trace_make *m);

/* A host event on a thread; correlation 0: none. */
void trace_make_host(trace_make *m, const char *cat, const char *name, int tid, int64_t start, int64_t dur,
                     int64_t correlation);
/* A device task ("kernel", "gpu_memcpy"). */
void trace_make_task(trace_make *m, const char *cat, const char *name, int stream, int64_t start, int64_t dur,
                     int64_t correlation);
/* CUPTI's note that a stream waits for what another one had recorded. record 0: the record call is not known. */
void trace_make_wait(trace_make *m, int stream, int on, int64_t at, int64_t wait, int64_t record);
/* Any event, as JSON. */
void trace_make_line(trace_make *m, const char *json);

/* The file: events in their order, or shuffled by a seed other than 0; only those with index % parts == which. */
void trace_make_text(const trace_make *m, uint32_t seed, int parts, int which, buf *out);

/* Opens, adds and finishes a session on one text; fails the test on an error. */
void trace_make_session(const char *text, size_t bytes, session *out);
/* The same for what was made so far. */
void trace_make_analysed(const trace_make *m, session *out);

#endif
