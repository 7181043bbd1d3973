/* bench_requests.h: requests as benchmarks run them: several equal ones together, from submission to their end.
 * Threads: the engine's host thread. */
#ifndef FORAY_CLI_BENCH_REQUESTS_H
#define FORAY_CLI_BENCH_REQUESTS_H

#include "foray.h"

enum { BENCH_MOST_REQUESTS = 64, BENCH_MOST_TOKENS = 4096 };

/* What the first of some equal requests got. */
typedef struct {
    int32_t tokens[BENCH_MOST_TOKENS];
    int count;
    foray_account account;
} bench_answer;

/* A greedy request of n generated tokens after a prompt of `prompt` ids. */
foray_request_config bench_plain_request(const int32_t *ids, int prompt, int n);

/* Runs n <= BENCH_MOST_REQUESTS equal requests together to their end. */
int bench_run_requests(foray_engine *e, const foray_request_config *c, int n, bench_answer *out,
                       foray_error *err);

#endif
