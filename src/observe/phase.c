/* phase.c: the names of the phases, for records, reports and the public header. */
#include "observe/phase.h"

#include <string.h>

#include "foray.h"

_Static_assert((int)PHASE_COUNT == (int)FORAY_PHASES, "the public header counts the same phases");

static const char *const names[PHASE_COUNT] = {
    [PHASE_PREFILL] = "prefill",
    [PHASE_DECODE] = "decode",
    [PHASE_DRAFT] = "draft",
    [PHASE_PLAN] = "plan",
    [PHASE_TARGET_VERIFY] = "target_verify",
    [PHASE_ACCEPT] = "accept",
    [PHASE_SYNC] = "sync",
    [PHASE_COMMIT] = "commit",
    [PHASE_DRAFT_EXTEND] = "draft_extend",
    [PHASE_EAGER_TAIL] = "eager_tail",
    [PHASE_HOST_GAP] = "host_gap",
    [PHASE_EXPOSED_COMM] = "exposed_comm",
    [PHASE_IDLE] = "idle",
    [PHASE_UNATTRIBUTED] = "unattributed",
};

const char *phase_name(phase p)
{
    return (unsigned)p < PHASE_COUNT ? names[p] : "unknown";
}

const char *foray_phase_name(int p)
{
    return phase_name((phase)p);
}

static bool same_name(const char *name, const char *with_underscores)
{
    for (; *name != '\0'; name++, with_underscores++)
        if (*name != *with_underscores && !(*name == '-' && *with_underscores == '_'))
            return false;
    return *with_underscores == '\0';
}

int phase_parse(const char *name)
{
    for (int p = 0; p < PHASE_COUNT; p++)
        if (same_name(name, names[p]))
            return p;
    return -1;
}
