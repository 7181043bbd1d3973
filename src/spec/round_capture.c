/* round_capture.c: the graphs of the usual rounds, captured before the first of them.
 *
 * Usual: any number of requests, each with as many drafts as the drafter makes or the budget allows. The largest come first:
 * where memory runs out, it is the small tiers that run eagerly, not the ones whose launches are hidden best. What is left
 * for later: rounds near the end of texts, and a drafter's after a pause. With a fixed width there are as many graphs of
 * verify as there are tiers of requests.
 */
#include "spec/round.h"

enum { MOST_SHAPES = 512 };

/* Bounds of a round, as tiers. */
typedef struct {
    int requests, rows, drafts, extended;
} shape;

/* Adds a shape that is not there yet; returns the count. */
static int add(shape *all, int count, shape s)
{
    for (int i = 0; i < count; i++)
        if (all[i].requests == s.requests && all[i].rows == s.rows && all[i].drafts == s.drafts &&
            all[i].extended == s.extended)
            return count;
    if (count < MOST_SHAPES)
        all[count++] = s;
    return count;
}

/* With so many drafts for each of so many requests. */
static shape shape_of(const round_loop *r, int requests, int drafts)
{
    const drafter *d = round_get_drafter(r);
    const bool chain = d && !d->propose && drafts > 0;
    const int rows = requests * (1 + drafts), most = round_upper_rows(r, PLAN_MAX_MEMBERS);
    return (shape) { .requests = plan_tier(requests),
                     .rows = plan_tier(rows < most ? rows : most),
                     .drafts = chain ? drafts : 0,
                     .extended = chain ? plan_tier(rows) : 0 };
}

int round_capture_usual(round_loop *r, int requests, int drafts,
                        void (*progress)(void *user, const char *what, uint64_t done, uint64_t total),
                        void *user, foray_error *err)
{
    shape all[MOST_SHAPES];
    const drafter *d = round_get_drafter(r);
    const int fixed = round_get_budget(r)->fixed;
    const bool chain = d && !d->propose;
    int count = 0, rc = 0;
    drafts = !d ? 0 : chain && fixed >= 0 && fixed < drafts ? fixed : drafts;
    for (int n = requests; n > 0; n--)
        for (int k = drafts; k >= 0; k -= k > 0 && (!chain || fixed >= 0) ? k : 1)
            count = add(all, count, shape_of(r, n, k));
    for (int i = 0; i < count && rc == 0; i++) {
        rc = round_capture(r, all[i].requests, all[i].rows, all[i].drafts, all[i].extended, err);
        if (progress)
            progress(user, "capturing graphs", (uint64_t)i + 1, (uint64_t)count);
    }
    return rc;
}

int round_capture_all(round_loop *r, int requests, foray_error *err)
{
    const drafter *d = round_get_drafter(r);
    const bool chain = d && !d->propose;
    const int most = round_upper_rows(r, requests), rows = plan_tier(requests);
    int rc = 0;
    for (int n = rows; n <= plan_tier(most) && rc == 0; n *= 2)
        rc = round_capture(r, requests, n, 0, 0, err);
    for (int k = 1; chain && k < most / requests && rc == 0; k++)
        rc = round_capture(r, requests, requests * (1 + k), k, 0, err);
    for (int n = 1; chain && n <= plan_tier(d->most_extended) && rc == 0; n *= 2)
        rc = round_capture(r, requests, rows, 0, n, err);
    return rc;
}
