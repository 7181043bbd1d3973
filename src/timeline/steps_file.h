/* steps_file.h: step records from files: foray's --steps, and saved answers of SGLang's /server_info.
 *
 * A record has no time of day; it has an order, sizes and durations (dspark.md 6.2). Fields that a writer left out
 * because they had their default come back as that default. A record with a value that no step can have (negative, longer
 * than a day, phases beyond the wall time) is left out and counted, for a sum with it would be no figure.
 * Threads: one at a time.
 */
#ifndef FORAY_TIMELINE_STEPS_FILE_H
#define FORAY_TIMELINE_STEPS_FILE_H

#include "base/buf.h"
#include "base/error.h"
#include "observe/phase.h"

/* One step as it was recorded. Times in ns; -1: not recorded. */
typedef struct {
    uint32_t file; /* index of its file */
    int64_t forward_ct;
    int rank, requests, verify_tokens;
    bool decode;
    int64_t wall_ns, step_ns, draft_ns, verify_ns; /* wall: foray's wall_ns, else step_cpu_ms */
    bool has_phases;
    int64_t phases_ns[PHASE_COUNT];
    int64_t commit_sum; /* acc_len over its requests; -1: none recorded */
    int committed_requests;
} step_entry;

typedef struct {
    char *path;     /* owned */
    char *manifest; /* owned; the first line or the envelope without records; "" */
    size_t manifest_bytes;
    bool foray, truncated;
    bool answer;                   /* a server's answer: what follows counts records, else lines; from 1 */
    uint64_t broken, first_broken; /* no JSON */
    uint64_t unfit, first_unfit;   /* values that no step can have: left out */
    size_t first, count;           /* its steps */
} steps_source;

typedef struct {
    step_entry *entries;
    size_t count, cap;
    steps_source *files;
    size_t file_count, file_cap;
} steps_file;

void steps_file_free(steps_file *f);

/* Does this beginning of a file (its first bytes) look like step records? */
bool steps_file_looks_like(const char *start, size_t bytes);
/* Reads all of a file's text. A last line that was cut is told, not refused; EFILE where no record can be read, or where
 * they are those of an earlier file. */
int steps_file_read(steps_file *f, const char *path, const char *text, size_t bytes, foray_error *err);

#endif
