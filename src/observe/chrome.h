/* chrome.h: writes task records as a Chrome/Perfetto trace.
 *
 * pid = rank, tid = stream; one complete event per task with graph, node, round, phase and rows in args; a
 * flow arrow for each event wait. Times are microseconds with three decimals, so nanoseconds survive.
 * The file is readable up to its last whole line after a crash (cases.md V08). Threads: one per writer.
 */
#ifndef FORAY_OBSERVE_CHROME_H
#define FORAY_OBSERVE_CHROME_H

#include "base/error.h"
#include "observe/ring.h"

/* Writes [count] records, with the manifest's JSON as metadata and `lost` stated. stream_names may be NULL. */
int chrome_write(const char *path, const char *manifest_line, const task_record *tasks, size_t count,
                 uint64_t lost, const char *const *stream_names, int streams, foray_error *err);

#endif
