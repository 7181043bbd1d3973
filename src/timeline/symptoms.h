/* symptoms.h: what is wrong with a run's steps in an engineer's words, each with its figure and what to look at next.
 *
 * A symptom is a sum over the critical path of the kept steps; a segment counts in one symptom at most. Only those are told
 * that are worth it: from SYMPTOM_LEAST_NS and SYMPTOM_LEAST_PERCENT of a step on. Threads: any, on a finished analysis.
 */
#ifndef FORAY_TIMELINE_SYMPTOMS_H
#define FORAY_TIMELINE_SYMPTOMS_H

#include "timeline/analysis.h"

typedef enum {
    SYMPTOM_GAP,         /* the device waits for the host before a stage */
    SYMPTOM_COMBINE,     /* exchange of experts' rows that nothing hides */
    SYMPTOM_TRANSFER,    /* any other communication that nothing hides */
    SYMPTOM_PEER,        /* a peer comes late */
    SYMPTOM_TAIL,        /* tasks outside of graphs behind verify, and the host before them */
    SYMPTOM_PLAN,        /* verify planning on the path */
    SYMPTOM_ACCEPT_WAIT, /* standing still for, or in, acceptance and its exchange between ranks */
    SYMPTOM_KINDS
} symptom_kind;

enum {
    SYMPTOM_LEAST_NS = 10000,
    SYMPTOM_LEAST_PERCENT = 2,
    SYMPTOM_PARTS = 3,
    SYMPTOM_CHECKS = 3,
    SYMPTOM_MOST = PHASE_COUNT + SYMPTOM_KINDS
};

typedef struct {
    symptom_kind kind;
    phase stage;                  /* of a gap: before what */
    int64_t step_ns;              /* per kept step, mean */
    int64_t token_ns;             /* per token; 0: commit length unknown */
    double share;                 /* of the kept steps' time */
    uint32_t part[SYMPTOM_PARTS]; /* names: what it is made of, the largest first */
    int64_t part_ns[SYMPTOM_PARTS];
    size_t parts;
    int64_t hidden_ns;                 /* of planning: off the path, per kept step */
    const char *check[SYMPTOM_CHECKS]; /* what to look at next; NULL behind the last */
} symptom;

/* Fills out, the heaviest first, and returns how many. ENOMEM only. */
int symptoms_find(const analysis *a, symptom out[SYMPTOM_MOST], size_t *count, foray_error *err);

/* "gap_before", for programs. */
const char *symptom_name(symptom_kind k);
/* "long gap before target_verify", for people. */
void symptom_title(const symptom *s, char *out, size_t room);

#endif
