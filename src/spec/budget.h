/* budget.h: how many drafts are worth verifying, from measured costs: including none.
 *
 * Two kinds of tables. Cost (budget_costs.c): what a round of n requests and r rows takes, as a ratio to a plain round of about
 * as many requests, by how long the texts are; measured at start and refreshed by every round. The time of that plain
 * round drifts with the machine and is kept apart. Survival: how often the j-th draft stands if those before it did,
 * per drafter signal. A choice maximises expected tokens per time.
 *
 *      value(rows) = (requests + sum of survival of the chosen drafts) / cost(requests, rows)
 *
 * Estimates can be wrong, so a choice is a stake: what the round loses if no draft stands. It may not exceed the credit, which
 * begins below one round's time, grows by 1 % of plain decoding and by what drafts win, up to a few rounds, and shrinks by
 * what they cost: whatever the tables believe, no more is lost, but for what a round in flight stakes. Now and then a round
 * tries one draft more than its choice, at doubling intervals and for at most 1.5 % of plain decoding: a class which once looked
 * like a loss can be found to pay; and among rounds with drafts one has none now and then: that is what they are compared with.
 * Any signal may be used under `coupled` and `target`, where a text does not depend on what is chosen. Under `exact` it must
 * not depend on how the drafts fell that it decides about: what drafters say of those is a round old, or of the text alone.
 * A drafter of the device (a chain) costs time of its own, and is left out of rounds while it does not pay: budget_chain.c.
 * Plain data without pointers: a copy can choose on the device while the original observes. Pure but for its own state; no
 * clock: callers bring the times. Threads: one at a time.
 */
#ifndef FORAY_SPEC_BUDGET_H
#define FORAY_SPEC_BUDGET_H

#include "spec/drafter.h"

enum {
    BUDGET_MAX_ROWS = 64,
    BUDGET_MAX_REQUESTS = 64,
    BUDGET_CROWDS = 7,   /* requests: 1, 2, 3 – 4, 5 – 8, … 33 – 64 */
    BUDGET_COLUMNS = 20, /* row counts that have an entry: budget_costs.c */
    BUDGET_DEPTHS = 5    /* tokens of a text on average: < 256, < 1024, … */
};

/* Rounds between probes: at first, and when they have doubled often. */
#ifdef FORAY_TORTURE
enum { BUDGET_PROBE_FIRST = 1, BUDGET_PROBE_LAST = 4 }; /* so that probes are common */
#else
enum { BUDGET_PROBE_FIRST = 16, BUDGET_PROBE_LAST = 1024 };
#endif

typedef struct {
    double plain_ns[BUDGET_CROWDS]; /* a plain round of the whole crowd, now */
    double spread; /* how far rounds lately lay from what was expected of them, as a share of it */
    float ratio[BUDGET_DEPTHS][BUDGET_CROWDS][BUDGET_COLUMNS]; /* to that */
    float plain_doubt[BUDGET_CROWDS],
        doubt[BUDGET_CROWDS][BUDGET_COLUMNS]; /* variances of logarithms of those */
    int depth;                                /* in use */
    unsigned depths_known, crowds_set;        /* bits */
    bool measured;

    /* Survival per signal and position: decayed counts of tries and successes; and of first drafts, what was believed
     * of them before anything was seen and what came. */
    float tried[DRAFT_SIGNALS][DRAFT_MAX], stood[DRAFT_SIGNALS][DRAFT_MAX];
    double believed, came;

    /* Credit and probes, in plain rounds of as many requests. */
    double credit, probe_spent, rounds;
    int won;                        /* of the round that is being observed: drafts that stood */
    double chained;                 /* and what a chain took in it, as a ratio to plain_ns */
    int requests;                   /* of the last round that decoded */
    int plain_wait;                 /* rounds since one without drafts */
    int probe_wait, probe_interval; /* rounds since the last probe, rounds to wait */
    double probe_allowance; /* what a probe of the next round may take beyond its choice; 0: none is due */
    bool probing;           /* the round that is being observed is a probe */
    bool no_probes;         /* while something else is measured */

    /* Distinct experts by rows, running means; products of how many more there were with how much later the round was, and
     * with themselves. */
    float usual_experts[BUDGET_COLUMNS];
    double expert_slope, expert_spread;

    /* A chain drafter. */
    float chain[BUDGET_CROWDS][DRAFT_MAX + 1]; /* [drafts] beyond a round of as many rows; [0] unused */
    unsigned chains_set;                       /* bits, by crowd */
    int chain_most;                            /* measured up to; 0: not measured */
    double catch_up;                           /* a row that a chain owes */
    bool chain_in;                             /* it paid when it was asked last */
    bool chain_probe;              /* the drafter was made ready for a round with one draft, to see */
    double offered[DRAFT_SIGNALS]; /* how often chains had this signal: a decayed count */
    int fixed;                     /* >= 0: always that many drafts per request; -1: by cost */
} budget;

void budget_init(budget *b, int fixed);

/* Puts measured times of rounds of n requests in: rows[i] rows took ns[i], rows ascending, rows[0] == n. First those of one
 * request, which the others are compared with. Row counts in between are interpolated; crowds that were not measured follow
 * from what another request adds in one that was. */
void budget_set_costs(budget *b, int n, const int *rows, const double *ns, int count);
/* How long the texts of the next round are on average. */
void budget_set_context(budget *b, int tokens);

/* Expected time of a plain round of n requests; of one with more rows. */
double budget_cost_ns(const budget *b, int n);
double budget_round_ns(const budget *b, int n, int rows);
double budget_ratio(const budget *b, int n, int rows); /* the same to a plain round of n's whole crowd */
/* The chance that draft j (from 0) stands if those before it did. */
double budget_survival(const budget *b, int signal, int j);

/* What drafts take is weighed so much heavier than what they promise: both are estimates, and the choice picks the errors
 * that flatter. */
#define BUDGET_CAUTION 1.1

/* Before a round: whether it may be a probe, and at what price. */
void budget_offer_probe(budget *b);
/* Behind a round that was one: extra_ns is what it took beyond the choice. */
void budget_take_probe(budget *b, double extra_ns);

/* Chooses keep[i] <= drafts[i].count for each of n requests. max_rows bounds n + sum of keep. Returns true when
 * the choice is a probe: one row more than it would be. */
bool budget_choose(const budget *b, const draft *drafts, int n, int max_rows, int *keep);

/* Chains. ns[i]: what i + 1 drafts for each of n requests take before and behind the verify pass, i = 0 … most - 1. First those
 * of one request; behind the costs. */
void budget_set_chain(budget *b, int n, const double *ns, int most);
/* What a row takes that a chain owes. */
void budget_set_catch_up(budget *b, double ns);
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
/* Behind a round, first: of `verified` drafts of a request under `signal`, the first `accepted` stood. */
void budget_observe_accept(budget *b, int signal, int verified, int accepted);
/* Then: a chain of `drafts` drafts for each of n requests (0: it just got ready) took ns before and behind the verify pass.
 * Not where it made rows that it owed. */
void budget_observe_chain(budget *b, int n, int drafts, double ns);
/* At last: the rest of a round of n requests and `rows` rows took ns, with so many distinct experts over all layers (0: the
 * model has none). */
void budget_observe_round(budget *b, int n, int rows, int experts, double ns);

/* ---- between the files of the budget ---- */

/* A time as far as it can be believed: a disturbed round must not upset the tables. */
double budget_credible(double seen, double expected);
/* The account behind a round of n requests that took `ratio` beside what a chain took. */
void budget_settle(budget *b, int n, double ratio);
/* What such a round loses if no draft stands, in plain rounds. */
double budget_stake(const budget *b, int n, double ratio);
/* Whether the next round should have no drafts, so that it is seen what they are compared with: the sooner, the less they
 * promise beyond it. */
bool budget_plain_due(const budget *b, double advantage);
/* Takes what must be spent before anything can be won, in plain rounds, if the credit covers it or there is as much as there
 * can be. */
bool budget_invest(budget *b, double rounds);
int budget_crowd(int n);

#endif
