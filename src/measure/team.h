/* team.h: a few threads that run one function together, for measuring.
 *
 * The caller is thread 0. Between runs the others spin for a moment and then sleep: runs that follow one another
 * start within a microsecond, and an idle team disturbs nobody. Never part of an engine (the device has its workers).
 * Threads: one caller at a time.
 */
#ifndef FORAY_MEASURE_TEAM_H
#define FORAY_MEASURE_TEAM_H

#include "base/error.h"

typedef struct team team;

/* threads >= 1, the caller included. *out is owned: team_close. */
int team_open(int threads, team **out, foray_error *err);
void team_close(team *t); /* NULL is fine */
int team_threads(const team *t);

/* Runs f(user, thread) on threads 0 … threads-1 (at most the team's) and returns when all have. */
void team_run(team *t, int threads, void (*f)(void *user, int thread), void *user);

/* Inside a run: waits until all of the run's threads are here. Spins, then yields. */
void team_barrier(team *t);

#endif
