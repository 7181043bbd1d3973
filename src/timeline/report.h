/* report.h: what was found, for people and for programs. Each form is one file; none prints, all append to a buffer.
 *
 * Threads: any, on a finished analysis.
 */
#ifndef FORAY_TIMELINE_REPORT_H
#define FORAY_TIMELINE_REPORT_H

#include "base/buf.h"
#include "timeline/analysis.h"
#include "timeline/read.h"

/* One run of the command: what was read, and an analysis per group. */
typedef struct {
    const trace_input *input;
    const settled *groups;
    const analysis *analyses; /* [count] */
    size_t count;
    int only_step; /* number of the step to show, from 0; -1: all */
} report;

void report_text(const report *r, buf *out);
void report_json(const report *r, buf *out);
void report_csv(const report *r, buf *out);
void report_html(const report *r, buf *out);

/* Shared by the forms: the lines of the quality head, each `name: text`, the worst first. ok: nothing to mistrust. */
typedef struct {
    const char *name; /* stable, for JSON */
    uint64_t count;
    bool warning; /* attribution may be wrong because of it */
    char text[240];
} quality_line;

enum { QUALITY_MOST = 64 };

/* Fills out with at most QUALITY_MOST lines for one group and returns how many. */
size_t report_quality(const report *r, size_t which, quality_line *out);

/* The group that the screens show first: the one with most device work in steps. SIZE_MAX: none has a task. */
size_t report_first_group(const report *r);

/* The step whose path is shown: the one asked for, else a typical one of the largest bucket; SIZE_MAX: there is none. */
size_t report_shown_step(const report *r, const analysis *a);

/* A what-if in words: "no host gap before target_verify". */
void report_what_if(const what_if *w, char *out, size_t room);

/* A kernel's name without templates and arguments, at most `room` - 1 bytes. */
void report_short_name(const char *name, char *out, size_t room);

#endif
