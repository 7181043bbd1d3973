/* diff.h: two runs, stage by stage: what differs, by how much and how surely, and what does not.
 *
 * Steps are compared within buckets of equal key; where both runs know commit lengths, per token as well. A difference is
 * that of medians with a 95 % interval from resampling both runs (fixed seed). The conditions that differ between the manifests are
 * listed; where it is more than one, no cause is named.
 */
#ifndef FORAY_TIMELINE_DIFF_H
#define FORAY_TIMELINE_DIFF_H

#include "timeline/report.h"

typedef struct {
    const char *what;        /* "wall", or a phase's name; static */
    int64_t a_ns, b_ns;      /* medians */
    int64_t low_ns, high_ns; /* of b - a */
    bool shown;              /* the interval does not contain 0 */
} diff_line;

enum { DIFF_LINES = PHASE_COUNT + 1 };

typedef struct {
    uint32_t a_bucket, b_bucket; /* indices */
    uint32_t a_steps, b_steps;
    double a_length, b_length;  /* commit lengths; 0: unknown */
    diff_line line[DIFF_LINES]; /* wall first */
    size_t lines;               /* phases that are 0 in both are left out */
} diff_bucket;

/* Appends the comparison as text, or as one JSON object. EUSAGE where no bucket occurs in both; ENOMEM. */
int diff_text(const report *a, const report *b, buf *out, foray_error *err);
int diff_json(const report *a, const report *b, buf *out, foray_error *err);

#endif
