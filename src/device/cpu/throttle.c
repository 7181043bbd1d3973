/* throttle.c: see throttle.h. Pure arithmetic on a small struct; the executor calls it once per step, from
 * the host thread.
 */
#include "device/cpu/throttle.h"

void throttle_init(throttle *t, int threads)
{
    *t = (throttle) { .threads = threads, .active = threads, .interval = THROTTLE_INTERVAL };
}

/* With one straggler all others wait, so the share of its delay is the sum over the n - 1 that wait. */
static bool step_is_bad(const throttle *t, int64_t wall_ns, int64_t wait_ns)
{
    return t->active > 1 &&
           (double)wait_ns / (t->active - 1) > (double)wall_ns * THROTTLE_SHARE_PERCENT / 100;
}

int throttle_step(throttle *t, int64_t wall_ns, int64_t wait_ns)
{
    if (wall_ns <= 0)
        return t->active;
    t->bad = step_is_bad(t, wall_ns, wait_ns) ? t->bad + 1 : 0;
    if (t->bad >= THROTTLE_STEPS) {
        if (t->trial && t->interval < THROTTLE_INTERVAL_MAX)
            t->interval *= 2;
        t->active--;
        t->bad = t->trial = 0;
        t->until_retry = t->interval;
        return t->active;
    }
    /* Any good step ends the run of bad ones, so a trial is over once it has had its number of steps and
     * the last of them were not all bad. */
    if (t->trial && t->bad == 0 && --t->trial == 0)
        t->interval = THROTTLE_INTERVAL;
    if (t->active < t->threads && --t->until_retry <= 0) {
        t->active++;
        t->bad = 0;
        t->trial = THROTTLE_STEPS;
        t->until_retry = t->interval;
    }
    return t->active;
}
