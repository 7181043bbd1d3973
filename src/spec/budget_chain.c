/* budget_chain.c: the choice for a drafter that costs time of its own. See budget.h.
 *
 * Its cost, per number of requests and drafts, are its rows before and behind the verify pass, beyond the plain round of as
 * many rows. Its choice is made before it drafts. While it does not pay it is left out of rounds altogether, but for
 * probes: a round to get ready and a round with one draft. Once it is in, it stays in until it loses, and comes back only
 * when it promises more than the margin: getting ready again costs time.
 */
#include <string.h>

#include "spec/budget.h"

static const double CHAIN_RATE = .10;
static const double SIGNAL_DECAY = .99; /* the last hundred count */

void budget_set_chain(budget *b, int n, const double *ns, int most)
{
    const int crowd = budget_crowd(n);
    b->chain_most = n == 1 || most < b->chain_most ? most : b->chain_most;
    b->chains_set = n == 1 ? 1 : b->chains_set | 1u << crowd;
    for (int k = 1; k <= most; k++) {
        float *chain = &b->chain[crowd][k];
        *chain = (float)(ns[k - 1] > 0 ? ns[k - 1] / b->plain_ns[crowd] : 0);
        if (*chain < chain[-1] && k > 1) /* more drafts are never cheaper: that was noise */
            *chain = chain[-1];
    }
    /* Not measured: rows of requests cost alike, so a chain's own rows do too. */
    for (int c = 0; c < BUDGET_CROWDS; c++)
        if (!(b->chains_set >> c & 1))
            memcpy(b->chain[c], b->chain[crowd], sizeof b->chain[c]);
}

void budget_set_catch_up(budget *b, double ns)
{
    b->catch_up = ns / b->plain_ns[0];
}

/* What k drafts take, as a ratio to a plain round of one request. */
static double chain_ratio(const budget *b, int n, int k)
{
    return k > 0 ? (double)b->chain[budget_crowd(n)][k] : 0;
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

/* A round of n requests with `drafts` drafts in all, at most k each. */
static double round_ratio(const budget *b, int n, int drafts, int k)
{
    return budget_ratio(b, n, n + drafts) + chain_ratio(b, n, k);
}

/* Whether some number of drafts that the credit covers promises more than plain rounds do. */
static bool pays(const budget *b, int n)
{
    const double plain = budget_ratio(b, n, n), caution = b->chain_in ? 1 : BUDGET_CAUTION;
    double tokens = 1, chance = 1;
    for (int k = 1; k <= b->chain_most && n <= BUDGET_MAX_ROWS / (1 + k); k++) {
        const double ratio = round_ratio(b, n, n * k, k);
        tokens += chance *= mean_survival(b, k - 1);
        if (budget_stake(b, n, ratio) > b->credit)
            return false;
        if (tokens * plain > plain + caution * (ratio - plain))
            return true;
    }
    return false;
}

bool budget_wants_chain(budget *b, int n, int owed, bool may_probe)
{
    if (b->fixed >= 0)
        return b->fixed > 0;
    if (b->chain_most == 0)
        return true;
    if (!may_probe && n < b->requests) /* whose prompt is read decodes among the others */
        n = b->requests;
    const double catch_up = may_probe ? owed * b->catch_up * b->plain_ns[0] / budget_cost_ns(b, n) : 0;
    const bool was_in = b->chain_in;
    b->chain_in = pays(b, n) && (was_in || budget_invest(b, catch_up));
    if (b->chain_in || !may_probe)
        return b->chain_in;
    /* Getting ready, a round with one draft, getting ready again. */
    const double probe = catch_up + budget_stake(b, n, 2 * chain_ratio(b, n, 1) + budget_ratio(b, n, 2 * n));
    budget_offer_probe(b);
    b->chain_probe = b->probe_allowance > 0 && probe <= b->probe_allowance;
    b->probe_allowance = 0;
    if (b->chain_probe) {
        budget_take_probe(b, probe * budget_cost_ns(b, b->requests));
        b->credit -= catch_up < b->credit ? catch_up : b->credit;
    }
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
    const double plain = budget_ratio(b, n, n);
    double best = tokens / (plain + chain_ratio(b, n, 1));
    for (int k = 1; k <= most; k++) {
        for (int i = 0; i < n; i++)
            if (room[i] >= k) {
                tokens += chance[i] *= budget_survival(b, signal[i], k - 1);
                drafts++;
            }
        if (n + drafts > max_rows)
            break;
        fits = k;
        const double ratio = round_ratio(b, n, drafts, k);
        if (b->fixed >= 0 || (tokens / ratio > best && budget_stake(b, n, ratio) <= b->credit)) {
            best = tokens / ratio;
            choice = k;
        }
    }
    if (b->fixed < 0 && budget_plain_due(b, best * plain / n - 1))
        choice = 0;
    return choice == 0 && b->chain_probe && fits > 0 ? 1 : choice;
}

void budget_observe_chain(budget *b, int n, int drafts, double ns)
{
    if (drafts < 0 || drafts > DRAFT_MAX || n < 1 || n > BUDGET_MAX_REQUESTS || ns < 0)
        return;
    float *chain = &b->chain[budget_crowd(n)][drafts > 0 ? drafts : 1];
    b->chained = budget_credible(ns / b->plain_ns[budget_crowd(n)], (double)*chain);
    if (drafts > 0)
        *chain += (float)(CHAIN_RATE * (b->chained - (double)*chain));
}
