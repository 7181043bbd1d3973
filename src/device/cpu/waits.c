/* waits.c: see waits.h. */
#include "device/cpu/waits.h"

#include <assert.h>
#include <string.h>

static bool same(const char *a, const char *b)
{
    return a == b || strcmp(a, b) == 0;
}

int waits_tally(wait_sums *w, const char *waiting, const char *awaited, const char *from)
{
    for (int i = 0; i < w->count; i++) {
        const device_wait *t = &w->tally[i];
        if (same(t->stream, waiting) && same(t->event, awaited) && same(t->from, from))
            return i + 1;
    }
    if (w->count == WAIT_TALLIES)
        return WAIT_TALLIES;
    bool last = w->count == WAIT_TALLIES - 1;
    w->tally[w->count] = last ? (device_wait) { .stream = "others", .event = "others", .from = "others" }
                              : (device_wait) { .stream = waiting, .event = awaited, .from = from };
    return ++w->count;
}

static wait_round *place(wait_sums *w, int64_t round)
{
    return &w->round[(uint64_t)round % DEVICE_WAIT_ROUNDS];
}

void waits_add(wait_sums *w, int64_t round, int tally, int64_t ticks)
{
    assert(tally >= 1 && tally <= WAIT_TALLIES);
    wait_round *r = place(w, round);
    if (r->round != round)
        *r = (wait_round) { .round = round };
    r->joins[tally - 1]++;
    r->ticks[tally - 1] += ticks > 0 ? ticks : 0;
}

int waits_take(wait_sums *w, int64_t round, device_wait *out, int most)
{
    wait_round *r = place(w, round);
    int found = 0;
    if (r->round != round)
        return 0;
    for (int i = 0; i < w->count; i++) {
        if (r->joins[i] == 0)
            continue;
        if (found < most) {
            out[found] = w->tally[i];
            out[found].joins = r->joins[i];
            out[found].waited_ns = r->ticks[i];
        }
        found++;
    }
    *r = (wait_round) { .round = round };
    return found;
}
