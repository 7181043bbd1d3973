/* budget.h: how many drafts are worth verifying, from measured costs: including none.
 *
 * Two tables. Cost: what a round of r rows takes, as a ratio to a round of one row, measured at start and
 * refreshed by every round; and the absolute time of one row, which drifts with the machine. Survival: how often
 * the j-th draft stands if those before it did, per drafter signal. A choice maximises expected tokens per time.
 *
 *      value(rows) = (requests + sum of survival of the chosen drafts) / cost(rows)
 *
 * Any signal may be used under `coupled` and `target`, where a text does not depend on what is chosen. Under `exact` it must
 * not depend on how the drafts fell that it decides about: what drafters say of those is a round old, or of the text alone.
 * Now and then one draft more than that is verified, at doubling intervals and for at most 2 % of the time, so that
 * a class which once looked like a loss can be found to pay.
 * A drafter of the device (a chain) costs time of its own: per number of drafts, its rows before and behind the verify
 * pass, as a time beyond the plain round of as many rows. Its choice is made before it drafts. While it does not pay it
 * is left out of rounds altogether, but for such a probe, which is a round to get ready and a round with one draft.
 * Plain data without pointers: a copy can choose on the device while the original observes.
 * Pure but for its own state; no clock: callers bring the times. Threads: one at a time.
 */
#ifndef FORAY_SPEC_BUDGET_H
#define FORAY_SPEC_BUDGET_H

#include "spec/drafter.h"

enum { BUDGET_MAX_ROWS = 64, BUDGET_MAX_REQUESTS = 64 };

/* Rounds between probes: at first, and when they have doubled often. */
#ifdef FORAY_TORTURE
enum { BUDGET_PROBE_FIRST = 1, BUDGET_PROBE_LAST = 4 }; /* so that probes are common */
#else
enum { BUDGET_PROBE_FIRST = 16, BUDGET_PROBE_LAST = 1024 };
#endif

typedef struct {
    double one_row_ns;                 /* a whole round of one row, now */
    double ratio[BUDGET_MAX_ROWS + 1]; /* [rows] cost of a round to one of one row; [1] == 1 */
    bool measured;
    /* Survival per signal and position: a decayed count of tries and successes. */
    double tried[DRAFT_SIGNALS][DRAFT_MAX], stood[DRAFT_SIGNALS][DRAFT_MAX];
    /* Probing. */
    int probe_wait, probe_interval; /* rounds since the last probe, rounds to wait */
    double probe_spent_ns, total_ns;
    double probe_allowance_ns; /* what a probe of the next round may take beyond its choice; 0: none is due */
    bool probing;              /* the last round observed was a probe */
    bool no_probes;            /* while something else is measured */
    /* A chain drafter. */
    double chain_ns[DRAFT_MAX + 1]; /* [drafts] beyond a round of drafts + 1 rows, one request; [0] unused */
    int chain_most;                 /* measured up to; 0: not measured */
    bool chain_probe;               /* the drafter was made ready for a round with one draft, to see */
    double offered[DRAFT_SIGNALS];  /* how often chains had this signal: a decayed count */
    int fixed;                      /* >= 0: always that many drafts per request; -1: by cost */
} budget;

void budget_init(budget *b, int fixed);

/* Puts measured times in: rows[i] rows took ns[i]; rows[0] must be 1. Ratios in between are interpolated,
 * beyond the last extrapolated in proportion. */
void budget_set_costs(budget *b, const int *rows, const double *ns, int count);

/* Expected time of a round of so many rows. */
double budget_cost_ns(const budget *b, int rows);
/* The chance that draft j (from 0) stands if those before it did. */
double budget_survival(const budget *b, int signal, int j);

/* Speculation must promise this much more than a plain round, or the round stays plain. */
#define BUDGET_MARGIN 1.02

/* Whether a probe that takes extra_ns beyond the choice is due and affordable; then it counts as made. Once per chance
 * to probe. */
bool budget_probe_due(budget *b, double extra_ns);
/* The same in two steps, for choices that are made on the device, from a copy of the tables: an allowance before the round,
 * and what a probe took, if there was one, behind it. */
void budget_offer_probe(budget *b);
void budget_take_probe(budget *b, double extra_ns);

/* Chooses keep[i] <= drafts[i].count for each of n requests. max_rows bounds n + sum of keep. Returns true when
 * the choice is a probe: one row more than it would be. */
bool budget_choose(const budget *b, const draft *drafts, int n, int max_rows, int *keep);

/* Chains. extra_ns[k]: what k drafts take beyond a round of k + 1 rows, k = 1 … most. */
void budget_set_chain(budget *b, const double *extra_ns, int most);
/* Whether the drafter should be ready for the next round of n requests. Once per round; may_probe: not while a prompt is
 * read. owed: rows that it must make first. */
bool budget_wants_chain(budget *b, int n, int owed, bool may_probe);
/* Whether this round is the probe that budget_wants_chain got ready for; asked once. */
bool budget_chain_probe(budget *b);
/* How many drafts each of n requests makes in this round, as far as its room[i] goes (0: it cannot). max_rows bounds
 * all rows. A chain that does not pay makes one in a probe. */
int budget_choose_chain(const budget *b, const int *room, const int *signal, int n, int max_rows);
/* A chain could have drafted under this signal. */
void budget_observe_signal(budget *b, int signal);
/* A round of `rows` rows with chains of `drafts` for n requests took wall_ns. */
void budget_observe_chain(budget *b, int drafts, int n, int rows, double wall_ns);

/* A round of another kind took wall_ns: it counts for the share that probes may take, and teaches no cost. */
void budget_observe_other(budget *b, double wall_ns);

/* A round of `rows` rows took wall_ns. */
void budget_observe_round(budget *b, int rows, double wall_ns);
/* Of `verified` drafts under `signal`, the first `accepted` stood. */
void budget_observe_accept(budget *b, int signal, int verified, int accepted);

#endif
