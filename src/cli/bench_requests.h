/* bench_requests.h: requests as benchmarks run them: together, from submission to their end.
 * Threads: the engine's host thread. */
#ifndef FORAY_CLI_BENCH_REQUESTS_H
#define FORAY_CLI_BENCH_REQUESTS_H

#include "base/options.h"
#include "cli/bench_prompts.h"

enum { BENCH_MOST_REQUESTS = 64, BENCH_MOST_TOKENS = 4096, BENCH_MOST_PROMPT = 1024 };

/* What a request got. */
typedef struct {
    int32_t tokens[BENCH_MOST_TOKENS];
    int count;
    foray_account account;
} bench_answer;

/* Warns of options of the usual rows, a line for each but `used`: why they have no effect. */
void bench_warn_rows(const options *o, option_id used, const char *why);

/* A greedy request of n generated tokens after a prompt of `prompt` ids. */
foray_request_config bench_plain_request(const int32_t *ids, int prompt, int n);

/* The ids of a prompt in the model's chat format; where it has none, its first bytes as ids. ids: [BENCH_MOST_PROMPT]. */
int bench_encode(foray_engine *e, const bench_prompt *prompt, int32_t *ids, int *count, foray_error *err);

/* Runs c[0 … n) together to their end, n <= BENCH_MOST_REQUESTS. out: what the first `answers` of them got. step, which
 * may be NULL, is called behind every step; where it says false, none follows. */
int bench_run_batch(foray_engine *e, const foray_request_config *c, int n, bench_answer *out, int answers,
                    bool (*step)(void *user), void *user, foray_error *err);

/* Runs n <= BENCH_MOST_REQUESTS equal requests together to their end; out: the first one's answer. */
int bench_run_requests(foray_engine *e, const foray_request_config *c, int n, bench_answer *out,
                       foray_error *err);

#endif
