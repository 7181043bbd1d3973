/* read.h: files of every kind into the store; the kind is found by content.
 *
 * A reader recovers what it can and counts what was wrong in the part's faults; it refuses (EFILE, naming the byte)
 * only what is no trace at all. Threads: one at a time per store.
 */
#ifndef FORAY_TIMELINE_READ_H
#define FORAY_TIMELINE_READ_H

#include "timeline/side.h"
#include "timeline/source.h"
#include "timeline/steps_file.h"
#include "timeline/store.h"

/* Everything that was read: tasks and calls, and step records beside them. */
typedef struct {
    store events;
    steps_file steps;
    side_files sides; /* companions of Ascend's traces */
    buf notes;        /* files that were looked at and passed over, one a line */
} trace_input;

void trace_input_init(trace_input *in);
void trace_input_free(trace_input *in);

/* Reads a file, or all files of a folder and its folders, in the order of their names. wanted: FORMAT_UNKNOWN for any; with
 * another one a file of a different kind is refused. Within a folder files that are no trace are noted and passed over;
 * EFILE where nothing was found. */
int trace_input_read(trace_input *in, const char *path, trace_format wanted, foray_error *err);

/* Readers by kind; path names the part. The source stays the caller's. */
int read_chrome(store *s, source *from, const char *path, foray_error *err);
int read_database(store *s, const char *path, foray_error *err);

#endif
