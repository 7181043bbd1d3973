/* round.c: what a round costs beside its arithmetic: rounds of a model with SmolLM2's launches (30 layers) whose kernels do
 * nothing but those of class host, for 1 and 8 requests, plain and with drafts by n-gram, replayed and eager, on 1 and on all
 * threads.
 *
 *   bench_round [ROUNDS]
 *
 * A figure is the wall of a whole step, from choosing members to delivered tokens: planning, launching, walking the graph on
 * the workers, acceptance, publishing. The cases run in turn, BLOCK steps at a time: medians and quartiles of the blocks'
 * means, and the median of the pairs' ratios with its interval.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "device/cpu/hooks.h"
#include "measure/compare.h"
#include "support/generate.h"
#include "support/stack.h"
#include "support/tiny.h"

enum { BLOCK = 16, MOST_ROUNDS = 2000, LAYERS = 30, CONTEXT = 4096, DRAFTS = 3, WARM = 8, CASES = 8 };

/* One stack whose requests decode. */
typedef struct {
    stack s;
    foray_request request[8];
    int requests;
} running;

static int one_tile(const kernel_args *args)
{
    (void)args;
    return 1;
}

static void run_nothing(const kernel_args *args, int tile, void *scratch)
{
    (void)args, (void)tile, (void)scratch;
}

static const kernel_table *idle_table(const device *d)
{
    static kernel_table table;
    const kernel_table *own;
    foray_error err;
    if (kernel_table_get(device_isa(d), &own, &err) != 0)
        abort();
    table = *own;
    for (int id = 0; id < KERNEL_COUNT; id++)
        if (id != KERNEL_HOST)
            table.kernel[id] = (kernel_impl) { .tiles = one_tile, .run = run_nothing };
    return &table;
}

static void submit_all(running *r)
{
    const int32_t prompt[1] = { 1 };
    foray_request_config c = request_of(prompt, 1, r->s.config.context - 1);
    c.ignore_eos = true;
    c.logprobs = -1;
    for (int i = 0; i < r->requests; i++)
        r->request[i] = stack_submit(&r->s, &c);
    while (round_get_plan(r->s.round)->members < r->requests) /* prompts come one by one */
        stack_step(&r->s);
    for (int i = 0; i < WARM; i++)
        stack_step(&r->s);
}

/* Tokens are all 0, so n-grams are found and drafts stand. */
static void open_running(running *r, const char *path, int requests, int threads, bool drafts, bool eager)
{
    *r = (running) { .requests = requests };
    stack_open(&r->s, path,
               (stack_config) { .threads = threads,
                                .slots = requests,
                                .context = CONTEXT,
                                .drafter = drafts ? "ngram" : NULL,
                                .spec_tokens = DRAFTS,
                                .spec_budget = DRAFTS,
                                .eager = eager });
    device_set_kernels(r->s.device, idle_table(r->s.device));
    submit_all(r);
}

static void end_all(running *r)
{
    for (int i = 0; i < r->requests; i++)
        batch_release(r->s.batch, r->request[i]);
}

/* Microseconds per step of a block; new requests where the context would end. */
static double run_block(void *user)
{
    running *r = user;
    int count;
    stack_tokens(&r->s, r->request[0], &count);
    if (count + (BLOCK + 1) * (DRAFTS + 1) >= r->s.config.context) {
        end_all(r);
        submit_all(r);
    }
    const int64_t start = clock_ns();
    for (int i = 0; i < BLOCK; i++)
        stack_step(&r->s);
    return (double)(clock_ns() - start) / (1e3 * BLOCK);
}

/* Rounds as they were meant to be, or figures would be of others. */
static void check_rounds(const running *r, bool drafts, bool eager)
{
    const round_plan *p = round_get_plan(r->s.round);
    const round_counters c = round_get_counters(r->s.round);
    if (p->rows != r->requests * (drafts ? DRAFTS + 1 : 1) || (eager ? c.replays : c.eager) > 0)
        fail_msg("a round of %d rows, %lld replays, %lld eager", p->rows, (long long)c.replays,
                 (long long)c.eager);
}

/* Kernels that an eager round launches. */
static long long count_launches(running *r)
{
    const int64_t before = device_get_counters(r->s.device).launches;
    stack_step(&r->s);
    return (long long)(device_get_counters(r->s.device).launches - before);
}

/* Returns the kernels of a plain round of one request. */
static long long bench_threads(const char *path, int threads, int rounds)
{
    static running r[CASES];
    static double us[CASES * MOST_ROUNDS];
    compare_case cases[CASES];
    long long launches = 0;
    for (int i = 0; i < CASES; i++) {
        open_running(&r[i], path, i / 2 % 2 ? 8 : 1, threads, i / 4, i % 2);
        cases[i] = (compare_case) { .run = run_block, .user = &r[i] };
    }
    compare_interleaved(cases, CASES, 2, rounds, us);
    for (int i = 0; i < CASES; i += 2) {
        const double *replayed = us + (size_t)i * (size_t)rounds, *eager = replayed + rounds;
        const compare_summary a = compare_summarise(replayed, rounds), b = compare_summarise(eager, rounds);
        const compare_ratio c = compare_pairs(replayed, eager, rounds);
        printf("| %s, %d, %d | %.1f (%.1f – %.1f) | %.1f (%.1f – %.1f) | %.3f (%.3f – %.3f) |\n",
               i / 4 ? "3 drafts by n-gram" : "plain", r[i].requests, threads, a.median, a.low, a.high,
               b.median, b.low, b.high, c.ratio, c.low, c.high);
    }
    for (int i = 0; i < CASES; i++) {
        if (i == 1)
            launches = count_launches(&r[i]);
        check_rounds(&r[i], i / 4, i % 2);
        end_all(&r[i]);
        stack_close(&r[i].s);
    }
    return launches;
}

int main(int argc, char **argv)
{
    const int rounds = argc > 1 ? atoi(argv[1]) : 200, cores = thread_cores();
    if (rounds < 1 || rounds > MOST_ROUNDS) {
        fprintf(stderr, "usage: bench_round [ROUNDS, 1 to %d]\n", MOST_ROUNDS);
        return 2;
    }
    log_set_level(LOG_QUIET);
    tiny_spec spec = tiny_default();
    spec.layers = LAYERS;
    spec.context = CONTEXT;
    spec.no_text = true;
    const char *path = tiny_gguf(&spec);
    printf("| rounds, requests, threads | us per round, replayed | eager | replayed to eager (95 %%) "
           "|\n|---|---|---|---|\n");
    const long long launches = bench_threads(path, 1, rounds);
    if (cores > 1)
        bench_threads(path, cores, rounds);
    printf("a plain round has %lld kernels\n", launches);
    return 0;
}
