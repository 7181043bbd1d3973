/* budget.c: the tables and the choice. See budget.h. */
#include "spec/budget.h"

#include <string.h>

/* What is believed before anything was seen: longer matches stand more often. Worth this many tries. */
static const double PRIOR[DRAFT_SIGNALS] = { .30, .45, .55, .65, .75, .80, .85, .90 };
static const double PRIOR_TRIES = 4;
static const double SURVIVAL_DECAY = .98; /* per observation of a class: the last ~50 count */
static const double LEVEL_RATE = .10, RATIO_RATE = .03;
static const double PROBE_SHARE = .02;

void budget_init(budget *b, int fixed)
{
    memset(b, 0, sizeof *b);
    b->fixed = fixed;
    b->probe_interval = BUDGET_PROBE_FIRST;
    b->one_row_ns = 1;
    for (int r = 0; r <= BUDGET_MAX_ROWS; r++)
        b->ratio[r] = r < 1 ? 0 : 1 + .15 * (r - 1);
    for (int s = 0; s < DRAFT_SIGNALS; s++) {
        b->offered[s] = 1;
        for (int j = 0; j < DRAFT_MAX; j++) {
            b->tried[s][j] = PRIOR_TRIES;
            b->stood[s][j] = PRIOR_TRIES * PRIOR[s];
        }
    }
}

void budget_set_costs(budget *b, const int *rows, const double *ns, int count)
{
    b->one_row_ns = ns[0];
    b->measured = true;
    for (int r = 1, i = 0; r <= BUDGET_MAX_ROWS; r++) {
        while (i + 1 < count && rows[i + 1] <= r)
            i++;
        double cost = ns[i];
        if (rows[i] < r && i + 1 < count)
            cost += (ns[i + 1] - ns[i]) * (r - rows[i]) / (rows[i + 1] - rows[i]);
        else if (rows[i] < r)
            cost *= (double)r / rows[i];
        b->ratio[r] = cost / ns[0];
        if (b->ratio[r] < b->ratio[r - 1]) /* more rows are never cheaper: that was noise */
            b->ratio[r] = b->ratio[r - 1];
    }
}

double budget_cost_ns(const budget *b, int rows)
{
    return b->one_row_ns * b->ratio[rows < BUDGET_MAX_ROWS ? rows : BUDGET_MAX_ROWS];
}

double budget_survival(const budget *b, int signal, int j)
{
    return b->stood[signal][j] / b->tried[signal][j];
}

/* Adds drafts in order of their chance to stand and remembers the best stop. */
static void choose_by_cost(const budget *b, const draft *drafts, int n, int max_rows, int *keep)
{
    double chance[BUDGET_MAX_REQUESTS]; /* that the next draft of a request stands, with all before it */
    int taken[BUDGET_MAX_REQUESTS] = { 0 }, order[BUDGET_MAX_ROWS], steps = 0, best_steps = 0;
    double tokens = n, best = n / b->ratio[n] * BUDGET_MARGIN;
    for (int i = 0; i < n; i++)
        chance[i] = drafts[i].count > 0 ? budget_survival(b, drafts[i].signal, 0) : 0;
    while (n + steps < max_rows) {
        int pick = -1;
        for (int i = 0; i < n; i++)
            if (taken[i] < drafts[i].count && (pick < 0 || chance[i] > chance[pick]))
                pick = i;
        if (pick < 0)
            break;
        tokens += chance[pick];
        order[steps++] = pick;
        if (++taken[pick] < drafts[pick].count)
            chance[pick] *= budget_survival(b, drafts[pick].signal, taken[pick]);
        double value = tokens / b->ratio[n + steps];
        if (value > best) {
            best = value;
            best_steps = steps;
        }
    }
    memset(keep, 0, sizeof *keep * (size_t)n);
    for (int i = 0; i < best_steps; i++)
        keep[order[i]]++;
}

void budget_offer_probe(budget *b)
{
    bool due = !b->no_probes && ++b->probe_wait >= b->probe_interval;
    double left = PROBE_SHARE * b->total_ns - b->probe_spent_ns;
    b->probe_allowance_ns = due && left > 0 ? left : 0;
}

void budget_take_probe(budget *b, double extra_ns)
{
    b->probe_wait = 0;
    b->probe_interval = b->probe_interval < BUDGET_PROBE_LAST ? b->probe_interval * 2 : BUDGET_PROBE_LAST;
    b->probe_spent_ns += extra_ns;
}

bool budget_probe_due(budget *b, double extra_ns)
{
    budget_offer_probe(b);
    bool due = b->probe_allowance_ns > 0 && extra_ns <= b->probe_allowance_ns;
    b->probe_allowance_ns = 0;
    if (due)
        budget_take_probe(b, extra_ns);
    return due;
}

/* Verifies one draft more than the choice, of one request, if that is due and affordable: or a class would never
 * be known beyond where it once looked like a loss. */
static bool probe(const budget *b, const draft *drafts, int n, int max_rows, int *keep)
{
    int rows = n, pick = -1;
    for (int i = 0; i < n; i++) {
        rows += keep[i];
        if (pick < 0 && keep[i] < drafts[i].count)
            pick = i;
    }
    if (pick < 0 || rows + 1 > max_rows || b->probe_allowance_ns <= 0 ||
        budget_cost_ns(b, rows + 1) - budget_cost_ns(b, rows) > b->probe_allowance_ns)
        return false;
    keep[pick]++;
    return true;
}

/* The same number for every request, as long as there is room; the last rows are dealt one by one. */
static void choose_fixed(const draft *drafts, int n, int fixed, int room, int *keep)
{
    memset(keep, 0, sizeof *keep * (size_t)n);
    for (int most = 1; most <= fixed; most++)
        for (int i = 0; i < n && room > 0; i++)
            if (keep[i] == most - 1 && drafts[i].count >= most) {
                keep[i]++;
                room--;
            }
}

bool budget_choose(const budget *b, const draft *drafts, int n, int max_rows, int *keep)
{
    max_rows = max_rows < BUDGET_MAX_ROWS ? max_rows : BUDGET_MAX_ROWS;
    if (b->fixed >= 0) {
        choose_fixed(drafts, n, b->fixed, max_rows - n, keep);
        return false;
    }
    choose_by_cost(b, drafts, n, max_rows, keep);
    return probe(b, drafts, n, max_rows, keep);
}

void budget_observe_round(budget *b, int rows, double wall_ns)
{
    if (rows < 1 || rows > BUDGET_MAX_ROWS || wall_ns <= 0)
        return;
    b->total_ns += wall_ns;
    if (!b->measured) {
        b->one_row_ns = wall_ns / b->ratio[rows];
        b->measured = true;
    }
    /* One disturbed round must not upset the tables. */
    double expected = budget_cost_ns(b, rows);
    double seen = wall_ns < expected / 2 ? expected / 2 : wall_ns > expected * 2 ? expected * 2 : wall_ns;
    b->one_row_ns += LEVEL_RATE * (seen / b->ratio[rows] - b->one_row_ns);
    if (rows > 1)
        b->ratio[rows] += RATIO_RATE * (seen / b->one_row_ns - b->ratio[rows]);
    if (b->ratio[rows] < 1)
        b->ratio[rows] = 1;
}

void budget_observe_accept(budget *b, int signal, int verified, int accepted)
{
    for (int j = 0; j < verified && j <= accepted; j++) {
        b->tried[signal][j] = b->tried[signal][j] * SURVIVAL_DECAY + 1;
        b->stood[signal][j] = b->stood[signal][j] * SURVIVAL_DECAY + (j < accepted);
    }
    if (b->probing && accepted == verified) /* a sign that things have changed: look again soon */
        b->probe_interval = BUDGET_PROBE_FIRST;
}
