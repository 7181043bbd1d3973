/* round_costs.c: what rounds cost on this machine, now: measured with real rounds.
 *
 * Scratch requests on slots of their own are run, so many at once and with so many drafts: a cell. Cells are run in turn
 * (interleaved, so that a disturbance hits all alike), and what is needed most comes first: where time is short, the rest is
 * left out. That captures the graphs on the way.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "spec/round.h"

enum { MOST_REPEATS = 24, MOST_CELLS = 64, LEAST_CELLS = 2, PROMPT_CHUNK = 64, CATCH_UP_ROWS = 24 };

/* A kind of round: n requests, and drafts: of all of them together, or in a chain of each. */
typedef struct {
    int n, drafts;
} cell;

typedef struct {
    round_loop *round;
    sequence *const *scratch;
    int dealt; /* members of this round that were asked how many drafts to keep */
    cell now;
    double catch_up_ns; /* the least that a row took which a chain owed; 0: not seen */
} course;

/* *ns < 0: there was no such round. */
typedef int run_cell(course *c, double *ns, foray_error *err);

/* As long as the device took: in a run, the host works meanwhile. */
static double duration(const round_loop *r)
{
    const round_times *t = round_get_times(r);
    return (double)(t->extended - t->drafting);
}

/* ---- rounds with drafts that somebody wrote down ---------------------------------------------- */

/* Deals the drafts of the cell to its requests. */
static int keep_dealt(void *user, const plan_member *m)
{
    course *c = user;
    const int i = c->dealt++, wanted = c->now.drafts / c->now.n + (i < c->now.drafts % c->now.n);
    return wanted < m->draft.count ? wanted : m->draft.count;
}

/* One round from the end of the prompts; the sequences are as before afterwards. */
static int run_rows(course *c, double *ns, foray_error *err)
{
    round_loop *r = c->round;
    int rc = 0;
    c->dealt = 0;
    round_begin(r);
    for (int i = 0; i < c->now.n && rc == 0; i++) {
        sequence *s = c->scratch[i];
        s->count = s->prompt + 1;
        s->computed = s->count - 1;
        s->finished = SEQUENCE_RUNS;
        rc = round_add(r, s, 1, c->now.drafts > 0, err);
    }
    if (rc == 0)
        rc = round_run(r, err);
    *ns = rc == 0 ? duration(r) : -1;
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

/* ---- cells in turn --------------------------------------------------------------------------- */

static int compare_double(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The first time round, which captures and touches; as many cells of *count as half the time allows. */
static int run_first(course *c, run_cell *run, const cell *cells, int *count, int64_t limit_ns,
                     foray_error *err)
{
    const int64_t start = clock_ns();
    double ns;
    int rc = 0, i = 0;
    for (; i < *count && rc == 0 && (i < LEAST_CELLS || clock_ns() - start < limit_ns / 2); i++) {
        c->now = cells[i];
        rc = run(c, &ns, err);
    }
    *count = i;
    return rc;
}

/* The lower quartile of each cell's times, for what disturbs a round only ever adds to it; < 0 where there was no such round.
 * About limit_ns in all. *count: cells for which there was time. */
static int run_cells(course *c, run_cell *run, const cell *cells, int *count, int64_t limit_ns,
                     double *quartile, foray_error *err)
{
    double ns[MOST_CELLS][MOST_REPEATS];
    const int64_t start = clock_ns();
    int repeats = 0, rc = run_first(c, run, cells, count, limit_ns, err);
    for (int64_t took = 0; repeats < MOST_REPEATS && rc == 0; repeats++) {
        const int64_t now = clock_ns();
        if (repeats > 0 && now - start + took > limit_ns)
            break;
        for (int i = 0; i < *count && rc == 0; i++) {
            c->now = cells[i];
            rc = run(c, &ns[i][repeats], err);
        }
        took = clock_ns() - now;
    }
    for (int i = 0; i < *count && rc == 0; i++) {
        qsort(ns[i], (size_t)repeats, sizeof(double), compare_double);
        quartile[i] = ns[i][0] < 0 ? -1 : ns[i][repeats / 4];
    }
    return rc;
}

/* Numbers of requests to measure: one, as many as there can be, and powers of two between them from the largest down. */
static int crowds_of(int requests, int *n)
{
    int count = 0;
    n[count++] = 1;
    if (requests > 1)
        n[count++] = requests;
    for (int i = BUDGET_CROWDS - 1; i > 0; i--)
        if (1 << i < requests)
            n[count++] = 1 << i;
    return count;
}

int round_time_rows(round_loop *r, sequence *scratch, const int *rows, int count, int repeats, double *ns,
                    foray_error *err)
{
    course c = { .round = r, .scratch = &scratch };
    const round_hooks hooks = { .user = &c, .keep = keep_dealt };
    const bool fresh = sequence_pending(scratch) > 1;
    double ignored;
    int rc = fresh ? read_prompt(r, scratch, err) : 0;
    round_set_hooks(r, &hooks);
    for (int k = fresh ? -1 : 0; k < repeats; k++) /* the first time: captures, first touches */
        for (int i = 0; i < count && rc == 0; i++) {
            c.now = (cell) { 1, rows[i] - 1 };
            rc = run_rows(&c, k < 0 ? &ignored : &ns[i * repeats + k], err);
        }
    round_set_hooks(r, NULL);
    return rc;
}

int round_measure_costs(round_loop *r, sequence *const *scratch, int requests, int most_drafts,
                        int64_t limit_ns, foray_error *err)
{
    static const int alone[] = { 0, 1, 2, 3, 5, 7, 11, 15 }, together[] = { 0, 1, 2, 4, 8, 16, 32 };
    enum { ALONE = sizeof alone / sizeof *alone, TOGETHER = sizeof together / sizeof *together };
    cell cells[MOST_CELLS];
    double ns[MOST_CELLS];
    int n[BUDGET_CROWDS + 1], count = 0;
    course c = { .round = r, .scratch = scratch };
    const round_hooks hooks = { .user = &c, .keep = keep_dealt };
    for (int i = 0, crowds = crowds_of(requests, n); i < crowds; i++)
        for (int k = 0; k < (n[i] == 1 ? ALONE : TOGETHER); k++) {
            const int drafts = n[i] == 1 ? alone[k] : together[k];
            if (drafts <= n[i] * most_drafts && n[i] + drafts <= BUDGET_MAX_ROWS)
                cells[count++] = (cell) { n[i], drafts };
        }
    round_set_hooks(r, &hooks);
    int rc = run_cells(&c, run_rows, cells, &count, limit_ns, ns, err);
    round_set_hooks(r, NULL);
    for (int i = 0, next; i < count && rc == 0; i = next) {
        int rows[ALONE];
        for (next = i; next < count && cells[next].n == cells[i].n; next++)
            rows[next - i] = cells[next].n + cells[next].drafts;
        budget_set_costs(round_edit_budget(r), cells[i].n, rows, ns + i, next - i);
    }
    return rc;
}

/* ---- rounds of a chain ----------------------------------------------------------------------- */

/* Who has reached the end of its text begins again. */
static void rewind_finished(course *c)
{
    for (int i = 0; i < c->now.n; i++) {
        sequence *s = c->scratch[i];
        if (s->finished == SEQUENCE_RUNS && sequence_draft_room(s) > DRAFT_MAX)
            continue;
        s->count = s->prompt + 1;
        s->computed = s->prompt;
        s->finished = SEQUENCE_RUNS;
        round_open_slot(c->round, s->slot);
    }
}

/* One round with a chain of so many drafts for each request, which goes on where the last one ended; before it, where that
 * is needed, one that gets the drafter ready. */
static int run_chain(course *c, double *ns, foray_error *err)
{
    round_loop *r = c->round;
    *ns = -1;
    rewind_finished(c);
    round_set_budget(r, c->now.drafts);
    for (int k = 0; k < 2 && *ns < 0; k++) {
        int rc = 0;
        round_begin(r);
        for (int i = 0; i < c->now.n && rc == 0; i++)
            rc = round_add(r, c->scratch[i], 1, true, err);
        if (rc == 0)
            rc = round_run(r, err);
        if (rc != 0)
            return rc;
        const round_plan *p = round_get_plan(r);
        const round_times *t = round_get_times(r);
        if (p->extended >= CATCH_UP_ROWS * c->now.n) {
            const double each = (double)(t->extended - t->committed) / p->extended;
            c->catch_up_ns = c->catch_up_ns == 0 || each < c->catch_up_ns ? each : c->catch_up_ns;
        }
        if (p->drafts == c->now.drafts)
            *ns = (double)(t->drafted - t->drafting + t->extended - t->committed);
    }
    return 0;
}

int round_measure_chain(round_loop *r, sequence *const *scratch, int requests, int most_drafts,
                        int64_t limit_ns, foray_error *err)
{
    cell cells[MOST_CELLS];
    double ns[MOST_CELLS];
    int n[BUDGET_CROWDS + 1], count = 0;
    const int fixed = round_set_budget(r, -1);
    course c = { .round = r, .scratch = scratch };
    for (int i = 0; i < requests; i++)
        round_open_slot(r, scratch[i]->slot);
    for (int i = 0, crowds = crowds_of(requests, n); i < crowds; i++)
        for (int k = 1; k <= most_drafts && n[i] * (1 + k) <= BUDGET_MAX_ROWS && count < MOST_CELLS; k++)
            cells[count++] = (cell) { n[i], k };
    int rc = run_cells(&c, run_chain, cells, &count, limit_ns, ns, err);
    round_set_budget(r, fixed);
    for (int i = 0, next; i < count && rc == 0; i = next) {
        int most = 0;
        for (next = i; next < count && cells[next].n == cells[i].n; next++)
            most += most == next - i && ns[next] >= 0;
        if (most > 0)
            budget_set_chain(round_edit_budget(r), cells[i].n, ns + i, most);
    }
    if (rc == 0)
        budget_set_catch_up(round_edit_budget(r), c.catch_up_ns);
    return rc;
}
