/* budget_chain.c: the choice for a drafter that costs time of its own. See budget.h. */
#include <string.h>

#include "spec/budget.h"

static const double CHAIN_RATE = .10;
static const double SIGNAL_DECAY = .99; /* the last hundred count */

void budget_set_chain(budget *b, const double *extra_ns, int most)
{
    b->chain_most = most;
    for (int k = 1; k <= most; k++) {
        b->chain_ns[k] = extra_ns[k] > 0 ? extra_ns[k] : 0;
        if (b->chain_ns[k] < b->chain_ns[k - 1]) /* more drafts are never cheaper: that was noise */
            b->chain_ns[k] = b->chain_ns[k - 1];
    }
}

/* The chance that draft j stands if those before it did, whichever signal comes: as often as they come. */
static double mean_survival(const budget *b, int j)
{
    double offered = 0, stood = 0;
    for (int s = 0; s < DRAFT_SIGNALS; s++) {
        offered += b->offered[s];
        stood += b->offered[s] * budget_survival(b, s, j);
    }
    return stood / offered;
}

/* A round of n requests with k drafts each: rows of requests cost alike, so a chain's own rows do too. */
static double round_ns(const budget *b, int n, int drafts, int k)
{
    return budget_cost_ns(b, n + drafts) + (k > 0 ? b->chain_ns[k] * b->ratio[n] : 0);
}

/* Tokens per time of k drafts each, at the mean survival. */
static double mean_value(const budget *b, int n, int k)
{
    double tokens = 1, chance = 1;
    for (int j = 0; j < k; j++)
        tokens += chance *= mean_survival(b, j);
    return n * tokens / round_ns(b, n, n * k, k);
}

static bool pays(const budget *b, int n)
{
    double plain = n / budget_cost_ns(b, n) * BUDGET_MARGIN;
    for (int k = 1; k <= b->chain_most && n <= BUDGET_MAX_ROWS / (1 + k); k++)
        if (mean_value(b, n, k) > plain)
            return true;
    return false;
}

bool budget_wants_chain(budget *b, int n, int owed, bool may_probe)
{
    if (b->fixed >= 0)
        return b->fixed > 0;
    if (b->chain_most == 0 || pays(b, n))
        return true;
    if (!may_probe)
        return false;
    /* Getting ready, a round with one draft, getting ready again; rows that are owed cost like those of a round. */
    double extra = 2 * b->chain_ns[1] * b->ratio[n] + budget_cost_ns(b, 2 * n) - budget_cost_ns(b, n);
    extra += budget_cost_ns(b, 1) * owed / BUDGET_MAX_ROWS * b->ratio[BUDGET_MAX_ROWS];
    b->chain_probe = budget_probe_due(b, extra);
    return b->chain_probe;
}

void budget_observe_signal(budget *b, int signal)
{
    for (int s = 0; s < DRAFT_SIGNALS; s++)
        b->offered[s] *= SIGNAL_DECAY;
    b->offered[signal]++;
}

bool budget_chain_probe(budget *b)
{
    bool probe = b->chain_probe;
    b->chain_probe = false;
    return probe;
}

int budget_choose_chain(const budget *b, const int *room, const int *signal, int n, int max_rows)
{
    double chance[BUDGET_MAX_REQUESTS], tokens = n;
    int drafts = 0, most = 0, choice = 0, fits = 0;
    if (n > BUDGET_MAX_REQUESTS)
        return 0;
    for (int i = 0; i < n; i++) {
        most = room[i] > most ? room[i] : most;
        chance[i] = 1;
    }
    if (b->fixed >= 0 && most > b->fixed)
        most = b->fixed;
    else if (b->fixed < 0 && b->chain_most > 0 && most > b->chain_most)
        most = b->chain_most;
    /* The rows that made the drafter ready are spent: what counts is the time from here. */
    double best = tokens / (budget_cost_ns(b, n) + b->chain_ns[1] * b->ratio[n]);
    for (int k = 1; k <= most; k++) {
        for (int i = 0; i < n; i++)
            if (room[i] >= k) {
                tokens += chance[i] *= budget_survival(b, signal[i], k - 1);
                drafts++;
            }
        if (n + drafts > max_rows)
            break;
        fits = k;
        double value = tokens / round_ns(b, n, drafts, k);
        if (value > best || b->fixed >= 0) {
            best = value;
            choice = k;
        }
    }
    return choice == 0 && b->chain_probe && fits > 0 ? 1 : choice;
}

void budget_observe_other(budget *b, double wall_ns)
{
    b->total_ns += wall_ns > 0 ? wall_ns : 0;
}

void budget_observe_chain(budget *b, int drafts, int n, int rows, double wall_ns)
{
    if (drafts < 1 || drafts > DRAFT_MAX || rows < 1 || rows > BUDGET_MAX_ROWS || wall_ns <= 0)
        return;
    b->total_ns += wall_ns;
    double expected = round_ns(b, n, rows - n, drafts);
    double seen = wall_ns < expected / 2 ? expected / 2 : wall_ns > expected * 2 ? expected * 2 : wall_ns;
    double extra = (seen - budget_cost_ns(b, rows)) / b->ratio[n];
    b->chain_ns[drafts] += CHAIN_RATE * ((extra > 0 ? extra : 0) - b->chain_ns[drafts]);
}
