/* round_costs.c: what a round of so many rows costs on this machine, now: measured with real rounds.
 *
 * A scratch request on a slot of its own is run with 0, 1, 2, … drafts in turn (interleaved, so that a
 * disturbance hits all alike) and put back each time. That captures the graphs on the way.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "spec/round.h"

enum { MOST_REPEATS = 24, LEAST_REPEATS = 3, MOST_COUNTS = 8 };

static int keep_wanted(void *user, const plan_member *m)
{
    const int *wanted = user;
    return *wanted < m->draft.count ? *wanted : m->draft.count;
}

/* One round from the end of the prompt; the sequence is as before afterwards. */
static int timed_round(round_loop *r, sequence *s, double *ns, foray_error *err)
{
    round_times t;
    s->count = s->prompt + 1;
    s->computed = s->count - 1;
    s->finished = SEQUENCE_RUNS;
    round_begin(r);
    int rc = round_add(r, s, 1, true, err);
    if (rc == 0)
        rc = round_run(r, &t, err);
    *ns = (double)(t.returned - t.begin);
    return rc;
}

static int compare_double(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Fills ns[count] with medians over interleaved repeats. */
static int measure(round_loop *r, sequence *s, int *wanted, const int *rows, int count, int64_t limit_ns, double *ns,
                   foray_error *err)
{
    double sample[MOST_COUNTS][MOST_REPEATS];
    int64_t start = clock_ns();
    int repeats = 0, rc = 0;
    for (int i = 0; i < count && rc == 0; i++) { /* captures, first touches */
        *wanted = rows[i] - 1;
        rc = timed_round(r, s, &sample[i][0], err);
    }
    while (rc == 0 && repeats < MOST_REPEATS && (repeats < LEAST_REPEATS || clock_ns() - start < limit_ns)) {
        for (int i = 0; i < count && rc == 0; i++) {
            *wanted = rows[i] - 1;
            rc = timed_round(r, s, &sample[i][repeats], err);
        }
        repeats++;
    }
    for (int i = 0; i < count && rc == 0; i++) {
        qsort(sample[i], (size_t)repeats, sizeof(double), compare_double);
        ns[i] = sample[i][repeats / 2];
    }
    return rc;
}

int round_measure_costs(round_loop *r, sequence *scratch, int most_drafts, int64_t limit_ns, foray_error *err)
{
    static const int all[MOST_COUNTS] = { 1, 2, 3, 4, 6, 8, 12, 16 };
    int rows[MOST_COUNTS], count = 0, wanted = 0;
    double ns[MOST_COUNTS];
    for (int i = 0; i < MOST_COUNTS && all[i] <= most_drafts + 1; i++)
        rows[count++] = all[i];

    round_times t;
    round_begin(r); /* the prefix */
    int rc = round_add(r, scratch, sequence_pending(scratch), false, err);
    if (rc == 0)
        rc = round_run(r, &t, err);
    if (rc != 0)
        return rc;
    round_hooks hooks = { .user = &wanted, .keep = keep_wanted };
    round_set_hooks(r, &hooks);
    rc = measure(r, scratch, &wanted, rows, count, limit_ns, ns, err);
    round_set_hooks(r, NULL);
    if (rc == 0)
        round_set_costs(r, rows, ns, count);
    return rc;
}
