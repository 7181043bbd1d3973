/* round_costs.c: what a round of so many rows costs on this machine, now: measured with real rounds.
 *
 * A scratch request on a slot of its own is run with 0, 1, 2, … drafts in turn (interleaved, so that a
 * disturbance hits all alike) and put back each time. That captures the graphs on the way.
 */
#include <stdlib.h>

#include "spec/round.h"

enum { MOST_REPEATS = 24, LEAST_REPEATS = 3, MOST_COUNTS = 8, PROMPT_CHUNK = 64 };

static int keep_wanted(void *user, const plan_member *m)
{
    const int *wanted = user;
    return *wanted < m->draft.count ? *wanted : m->draft.count;
}

/* As long as the device took: in a run, the host works meanwhile. */
static double duration(const round_loop *r)
{
    const round_times *t = round_get_times(r);
    return (double)(t->extended - t->drafting);
}

/* One round from the end of the prompt, plain or with the drafts that are wanted; the sequence is as before afterwards. */
static int timed_round(round_loop *r, sequence *s, bool speculate, double *ns, foray_error *err)
{
    s->count = s->prompt + 1;
    s->computed = s->count - 1;
    s->finished = SEQUENCE_RUNS;
    round_begin(r);
    int rc = round_add(r, s, 1, speculate, err);
    if (rc == 0)
        rc = round_run(r, err);
    if (rc == 0)
        *ns = duration(r);
    return rc;
}

static int read_prompt(round_loop *r, sequence *s, foray_error *err)
{
    int rc = 0, most = round_pass(r)->max_rows < PROMPT_CHUNK ? round_pass(r)->max_rows : PROMPT_CHUNK;
    for (int chunk; s->computed < s->prompt - 1 && rc == 0;) {
        chunk = sequence_pending(s) < most ? sequence_pending(s) : most;
        round_begin(r);
        rc = round_add(r, s, chunk, false, err);
        if (rc == 0)
            rc = round_run(r, err);
    }
    return rc;
}

static int compare_double(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int round_time_rows(round_loop *r, sequence *scratch, const int *rows, int count, int repeats, double *ns,
                    foray_error *err)
{
    int wanted = 0, rc = 0;
    round_hooks hooks = { .user = &wanted, .keep = keep_wanted };
    if (sequence_pending(scratch) > 1) { /* its prompt, once */
        double ignored;
        rc = read_prompt(r, scratch, err);
        for (int i = 0; i < count && rc == 0; i++) { /* captures, first touches */
            round_set_hooks(r, &hooks);
            wanted = rows[i] - 1;
            rc = timed_round(r, scratch, rows[i] > 1, &ignored, err);
        }
    }
    round_set_hooks(r, &hooks);
    for (int k = 0; k < repeats && rc == 0; k++)
        for (int i = 0; i < count && rc == 0; i++) {
            wanted = rows[i] - 1;
            rc = timed_round(r, scratch, rows[i] > 1, &ns[i * repeats + k], err);
        }
    round_set_hooks(r, NULL);
    return rc;
}

int round_measure_costs(round_loop *r, sequence *scratch, int most_drafts, int64_t limit_ns, foray_error *err)
{
    static const int all[MOST_COUNTS] = { 1, 2, 3, 4, 6, 8, 12, 16 };
    int rows[MOST_COUNTS], count = 0;
    double first[MOST_COUNTS], ns[MOST_COUNTS * MOST_REPEATS], median[MOST_COUNTS], once = 0;
    for (int i = 0; i < MOST_COUNTS && all[i] <= most_drafts + 1; i++)
        rows[count++] = all[i];

    int rc = round_time_rows(r, scratch, rows, count, 1, first, err);
    for (int i = 0; i < count && rc == 0; i++)
        once += first[i];
    int repeats =
        rc == 0 && once * MOST_REPEATS > (double)limit_ns ? (int)((double)limit_ns / once) : MOST_REPEATS;
    repeats = repeats < LEAST_REPEATS ? LEAST_REPEATS : repeats;
    if (rc == 0)
        rc = round_time_rows(r, scratch, rows, count, repeats, ns, err);
    for (int i = 0; i < count && rc == 0; i++) {
        qsort(ns + i * repeats, (size_t)repeats, sizeof(double), compare_double);
        median[i] = ns[i * repeats + repeats / 2];
    }
    if (rc == 0)
        round_set_costs(r, rows, median, count);
    return rc;
}

/* One round with `drafts` drafts of the round's own drafter, which goes on where the last one ended; before it, where that
 * is needed, one that gets the drafter ready. *ns < 0: it would not draft so many. */
static int chain_round(round_loop *r, sequence *s, int drafts, double *ns, foray_error *err)
{
    *ns = -1;
    if (s->finished != SEQUENCE_RUNS || sequence_draft_room(s) <= DRAFT_MAX) {
        s->count = s->prompt + 1;
        s->computed = s->prompt;
        s->finished = SEQUENCE_RUNS;
        round_open_slot(r, s->slot);
    }
    round_set_budget(r, drafts);
    for (int i = 0; i < 2 && *ns < 0; i++) {
        round_begin(r);
        int rc = round_add(r, s, 1, true, err);
        if (rc == 0)
            rc = round_run(r, err);
        if (rc != 0)
            return rc;
        if (round_get_plan(r)->draft_steps == drafts)
            *ns = duration(r);
    }
    return 0;
}

int round_measure_chain(round_loop *r, sequence *scratch, int most_drafts, int64_t limit_ns, foray_error *err)
{
    double ns[DRAFT_MAX + 1][MOST_REPEATS], extra[DRAFT_MAX + 1], once = 0, first;
    int rc = 0, repeats = MOST_REPEATS, fixed = round_set_budget(r, -1);
    round_open_slot(r, scratch->slot);
    for (int i = 0; i < 2; i++) /* captures and first touches; then how long it takes */
        for (int k = 1; k <= most_drafts && rc == 0; k++) {
            rc = chain_round(r, scratch, k, &first, err);
            if (rc == 0 && first < 0)
                most_drafts = k - 1;
            else
                once += i * first;
        }
    if (rc == 0 && once * repeats > (double)limit_ns)
        repeats = (int)((double)limit_ns / once);
    repeats = repeats < LEAST_REPEATS ? LEAST_REPEATS : repeats;
    for (int i = 0; i < repeats; i++)
        for (int k = 1; k <= most_drafts && rc == 0; k++) {
            rc = chain_round(r, scratch, k, &ns[k][i], err);
            if (rc == 0 && ns[k][i] < 0)
                most_drafts = k - 1;
        }
    for (int k = 1; k <= most_drafts && rc == 0; k++) {
        qsort(ns[k], (size_t)repeats, sizeof(double), compare_double);
        extra[k] = ns[k][repeats / 2] - budget_cost_ns(round_get_budget(r), k + 1);
    }
    round_set_budget(r, fixed);
    if (rc == 0)
        round_set_chain(r, extra, most_drafts);
    return rc;
}
