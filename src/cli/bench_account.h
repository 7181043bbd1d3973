/* bench_account.h: where the time of a round goes, phase by phase, from the step records of timed rounds.
 *
 * Requests with prompts of their own decode together, several times over. What is timed are rounds that decode: those of
 * a first, shorter pass (captures, first touches) and those that read a prompt are counted apart.
 * Threads: the engine's host thread.
 */
#ifndef FORAY_CLI_BENCH_ACCOUNT_H
#define FORAY_CLI_BENCH_ACCOUNT_H

#include "cli/bench_spread.h"
#include "foray.h"

enum { BENCH_MOST_WAITS = 4 };

/* One phase of the rounds. */
typedef struct {
    const char *name;
    int steps;       /* rounds that spent time on it */
    bench_spread ms; /* in those */
    double mean_ms;  /* over all rounds: these add up to the step's */
    double share;    /* of the walls */
    int runs,
        replays; /* rounds that ran it as a graph or eagerly instead; those that replayed; 0, 0: it is no graph's */
} bench_phase;

/* A stream that stood still for an event of another one. */
typedef struct {
    const char *stream, *event, *from; /* as a step record's */
    int steps, joins;                  /* rounds with this wait, and how often in all of them */
    double us;                         /* per round, over all rounds */
} bench_wait;

typedef struct {
    char spec[32];
    int requests;
    int steps, warm_steps, prompt_steps; /* timed; left out */
    int unseen;                          /* timed rounds without a record */
    int exact;                           /* timed rounds whose parts sum to their wall to the nanosecond */
    bench_spread ms;                     /* of the walls */
    bench_phase phase[FORAY_PHASES];
    int phases;
    double members, rows_live, rows_launched;  /* per round */
    double accepted_length, tokens_per_second; /* tokens per request and round; of all requests together */
    double plan_us, update_us;                 /* per round */
    bench_wait wait[BENCH_MOST_WAITS];         /* the longest first, none of them for the main stream */
    int waits, waits_unseen;                   /* those that the records had no place for */
} bench_account;

/* Runs and times the rounds. passes: how often so many requests run together. steps 0: the context of the engine is too
 * short for it, which is no error. */
int bench_account_measure(foray_engine *e, int requests, int passes, bench_account *out, foray_error *err);

#endif
