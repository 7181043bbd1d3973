/* budget.c: survival, credit and the choice. See budget.h. */
#include "spec/budget.h"

#include <string.h>

/* What is believed before anything was seen: longer matches stand more often. */
static const double PRIOR[DRAFT_SIGNALS] = { .25, .45, .60, .75, .80, .85, .90, .95 };
/* What a belief is worth, in tries: in the signals as such, in one of them, in a draft behind one that stood. */
static const double CALIBRATION_TRIES = 6, SIGNAL_TRIES = 4, POSITION_TRIES = 2;
static const double MOST_BELIEVED = .97;
static const float SURVIVAL_DECAY = .98F; /* per observation of a class: the last ~50 count */
/* The credit at start and at most, in plain rounds, what each round adds, and the share of all rounds that probes may take. */
static const double FIRST_CREDIT = .8, MOST_CREDIT = 3, GROWTH = .01, PROBE_SHARE = .015;
/* A draft that stands is a surprise where it was believed to less often than this. */
static const double SURPRISING = .4;
/* Rounds without drafts, among others, that show what these are compared with may take such a share of what drafts win. */
static const double PLAIN_SHARE = .003;

void budget_init(budget *b, int fixed)
{
    static const int rows[] = { 1, 2 };
    static const double ns[] = { 1, 1.15 };
    memset(b, 0, sizeof *b);
    budget_set_costs(b, 1, rows, ns, 2);
    b->measured = false;
    b->fixed = fixed;
    b->requests = 1;
    b->credit = FIRST_CREDIT;
    b->probe_interval = BUDGET_PROBE_FIRST;
    for (int s = 0; s < DRAFT_SIGNALS; s++)
        b->offered[s] = 1;
}

/* ---- survival -------------------------------------------------------------------------------- */

/* Of a first draft, before its signal was seen: as far as this drafter's signals can be believed. */
static double believed(const budget *b, int signal)
{
    double p = PRIOR[signal] * (b->came + CALIBRATION_TRIES) / (b->believed + CALIBRATION_TRIES);
    return p < MOST_BELIEVED ? p : MOST_BELIEVED;
}

/* Draft j, when that of draft j - 1 is `before`: it is believed to stand as often as the one before it. */
static double next_survival(const budget *b, int signal, int j, double before)
{
    const double belief = j == 0 ? believed(b, signal) : before,
                 tries = j == 0 ? SIGNAL_TRIES : POSITION_TRIES;
    return ((double)b->stood[signal][j] + tries * belief) / ((double)b->tried[signal][j] + tries);
}

double budget_survival(const budget *b, int signal, int j)
{
    double p = 0;
    for (int i = 0; i <= j; i++)
        p = next_survival(b, signal, i, p);
    return p;
}

void budget_observe_accept(budget *b, int signal, int verified, int accepted)
{
    if (verified < 1)
        return;
    /* A sign that things have changed: look again soon. */
    if (b->probing && accepted == verified && budget_survival(b, signal, verified - 1) < SURPRISING)
        b->probe_interval = BUDGET_PROBE_FIRST;
    b->believed = b->believed * (double)SURVIVAL_DECAY + PRIOR[signal];
    b->came = b->came * (double)SURVIVAL_DECAY + (accepted > 0);
    for (int j = 0; j < verified && j <= accepted; j++) {
        b->tried[signal][j] = b->tried[signal][j] * SURVIVAL_DECAY + 1;
        b->stood[signal][j] = b->stood[signal][j] * SURVIVAL_DECAY + (j < accepted);
    }
    b->won += accepted;
}

/* ---- credit ---------------------------------------------------------------------------------- */

double budget_stake(const budget *b, int n, double ratio)
{
    return ratio / budget_ratio(b, n, n) - 1;
}

void budget_settle(budget *b, int n, double ratio)
{
    b->credit += GROWTH + (double)b->won / n - budget_stake(b, n, ratio + b->chained);
    b->credit = b->credit < MOST_CREDIT ? b->credit : MOST_CREDIT;
    b->rounds++;
    b->requests = n;
    b->won = 0;
    b->chained = 0;
    b->probing = false;
}

bool budget_invest(budget *b, double rounds)
{
    if (rounds > b->credit && b->credit < MOST_CREDIT)
        return false;
    const double least = b->credit < FIRST_CREDIT ? b->credit : FIRST_CREDIT;
    b->credit = b->credit - rounds > least ? b->credit - rounds : least;
    return true;
}

void budget_offer_probe(budget *b)
{
    const bool due = !b->no_probes && ++b->probe_wait >= b->probe_interval;
    const double left = PROBE_SHARE * b->rounds - b->probe_spent;
    b->probe_allowance = due && left > 0 ? left : 0;
}

void budget_take_probe(budget *b, double extra_ns)
{
    b->probe_wait = 0;
    b->probe_interval = b->probe_interval < BUDGET_PROBE_LAST ? b->probe_interval * 2 : BUDGET_PROBE_LAST;
    b->probe_spent += extra_ns / budget_cost_ns(b, b->requests);
}

/* ---- the choice ------------------------------------------------------------------------------ */

bool budget_plain_due(const budget *b, double advantage)
{
    return !b->no_probes && b->plain_wait * PLAIN_SHARE >= advantage;
}

/* Adds drafts in order of their chance to stand and remembers the best stop that the credit covers. */
static void choose_by_cost(const budget *b, const draft *drafts, int n, int max_rows, int *keep)
{
    double survival[BUDGET_MAX_REQUESTS],
        chance[BUDGET_MAX_REQUESTS]; /* of the next draft of a request; with all before */
    int taken[BUDGET_MAX_REQUESTS] = { 0 }, order[BUDGET_MAX_ROWS], steps = 0, best_steps = 0;
    const double plain = budget_ratio(b, n, n);
    double tokens = n, best = n / plain;
    for (int i = 0; i < n; i++)
        chance[i] = survival[i] = drafts[i].count > 0 ? next_survival(b, drafts[i].signal, 0, 0) : 0;
    while (n + steps < max_rows) {
        int pick = -1;
        for (int i = 0; i < n; i++)
            if (taken[i] < drafts[i].count && (pick < 0 || chance[i] > chance[pick]))
                pick = i;
        const double ratio = budget_ratio(b, n, n + steps + 1);
        if (pick < 0 || budget_stake(b, n, ratio) > b->credit)
            break;
        tokens += chance[pick];
        order[steps++] = pick;
        if (++taken[pick] < drafts[pick].count) {
            survival[pick] = next_survival(b, drafts[pick].signal, taken[pick], survival[pick]);
            chance[pick] *= survival[pick];
        }
        const double value = tokens / (plain + BUDGET_CAUTION * (ratio - plain));
        if (value > best) {
            best = value;
            best_steps = steps;
        }
    }
    memset(keep, 0, sizeof *keep * (size_t)n);
    if (best_steps > 0 && budget_plain_due(b, best * plain / n - 1))
        return;
    for (int i = 0; i < best_steps; i++)
        keep[order[i]]++;
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
    if (pick < 0 || rows + 1 > max_rows || b->probe_allowance <= 0 ||
        (budget_ratio(b, n, rows + 1) - budget_ratio(b, n, rows)) / budget_ratio(b, n, n) >
            b->probe_allowance)
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
