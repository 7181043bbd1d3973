/* phase.h: the phases of a run: one list, used by every account, record, report and graph family. */
#ifndef FORAY_OBSERVE_PHASE_H
#define FORAY_OBSERVE_PHASE_H

typedef enum {
    PHASE_PREFILL,
    PHASE_DECODE,
    PHASE_DRAFT,
    PHASE_PLAN,
    PHASE_TARGET_VERIFY,
    PHASE_ACCEPT,
    PHASE_SYNC,
    PHASE_COMMIT,
    PHASE_DRAFT_EXTEND,
    PHASE_EAGER_TAIL,
    PHASE_HOST_GAP,
    PHASE_EXPOSED_COMM,
    PHASE_IDLE,
    PHASE_UNATTRIBUTED,
    PHASE_COUNT
} phase;

/* "target_verify", as in JSON. Never NULL. */
const char *phase_name(phase p);
/* The phase of a name, with underscores or hyphens; -1: none. */
int phase_parse(const char *name);

#endif
