/* recording.c: what it costs to record every task of a step: pairs of blocks of steps of one request, with recording on and off
 * in turn in one process, and instructions counted by the processor where it lets us.
 *
 *   bench_recording MODEL [PAIRS]
 *   bench_recording steps MODEL on|off STEPS      only runs so many steps, on one thread: for a counter of instructions
 *
 * Which block of a pair goes first alternates, so that the growing context weighs on both alike. Instructions are those of
 * steps on one thread: with more, threads that wait count too.
 */
#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "device/device.h"
#include "engine/score.h"
#include "measure/compare.h"

enum { BLOCK = 4, MOST_PAIRS = 2000, CONTEXT = 512, TURNS = 9 };

typedef struct {
    foray_engine *e;
    foray_request request;
    int left; /* steps before its context ends */
} running;

static void check(int rc, const foray_error *err)
{
    if (rc >= 0)
        return;
    fprintf(stderr, "bench_recording: %s\n", err->text);
    exit(1);
}

static void step(running *r)
{
    const foray_event *events;
    size_t count;
    foray_error err;
    check(foray_step(r->e, &events, &count, &err), &err);
    r->left--;
}

/* A request that decodes from its second step on. */
static void submit(running *r)
{
    static const int32_t prompt[1] = { 1 };
    foray_error err;
    foray_request_config c = { .prompt = prompt,
                               .prompt_count = 1,
                               .max_tokens = CONTEXT - 1,
                               .ignore_eos = true,
                               .logprobs = -1,
                               .sampling = { .top_p = 1, .repeat_penalty = 1 } };
    check(foray_submit(r->e, &c, &r->request, &err), &err);
    r->left = CONTEXT - 1;
    step(r);
}

static running open_running(const char *model, int threads)
{
    running r = { .left = 0 };
    foray_error err;
    foray_config c = { .model = model,
                       .threads = threads,
                       .context = CONTEXT,
                       .spec = "off",
                       .record = true,
                       .input = FORAY_IDS };
    check(foray_open(&c, &r.e, &err), &err);
    submit(&r);
    return r;
}

static void record(running *r, bool on)
{
    device_set_recording(engine_device(r->e), on ? engine_ring(r->e) : NULL);
}

/* Room for so many steps, in a new request if need be. */
static void make_room(running *r, int steps)
{
    if (r->left >= steps)
        return;
    foray_release(r->e, r->request);
    submit(r);
}

/* ---- time ---- */

static double block_us(running *r, bool on)
{
    record(r, on);
    const int64_t start = clock_ns();
    for (int i = 0; i < BLOCK; i++)
        step(r);
    return (double)(clock_ns() - start) / (1e3 * BLOCK);
}

static void compare_times(const char *model, int pairs)
{
    static double us[2][MOST_PAIRS];
    running r = open_running(model, 0);
    for (int i = -4; i < pairs; i++) {
        make_room(&r, 2 * BLOCK);
        for (int turn = 0; turn < 2; turn++) {
            const bool on = (i + turn) % 2 != 0;
            const double each = block_us(&r, on);
            if (i >= 0)
                us[on][i] = each;
        }
    }
    const compare_ratio c = compare_pairs(us[1], us[0], pairs);
    printf("%s, %d threads, %d pairs of blocks of %d steps\n", foray_engine_info(r.e).name,
           device_threads(engine_device(r.e)), pairs, BLOCK);
    printf("us per step, not recorded, recorded: %.1f, %.1f\n", compare_summarise(us[0], pairs).median,
           compare_summarise(us[1], pairs).median);
    printf("recorded to not recorded: %.4f (%.4f – %.4f, %.0f %%)\n", c.ratio, c.low, c.high,
           100 * c.confidence);
    foray_close(r.e);
}

/* ---- instructions ---- */

static void count_instructions(const char *model)
{
    struct perf_event_attr attr = { .type = PERF_TYPE_HARDWARE,
                                    .size = sizeof attr,
                                    .config = PERF_COUNT_HW_INSTRUCTIONS,
                                    .exclude_kernel = 1,
                                    .exclude_hv = 1 };
    const int fd = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);
    if (fd < 0) {
        printf(
            "instructions: not counted here (perf_event_open: %s); two runs under a simulator count them:\n"
            "  valgrind --tool=callgrind --callgrind-out-file=/dev/null --toggle-collect=foray_step "
            "bench_recording steps MODEL on|off 8\n",
            strerror(errno));
        return;
    }
    double counts[2][TURNS];
    running r = open_running(model, 1);
    for (int i = 0; i < 2 * TURNS; i++) {
        uint64_t before, after;
        make_room(&r, BLOCK);
        record(&r, i % 2);
        const bool good = read(fd, &before, sizeof before) == sizeof before;
        for (int k = 0; k < BLOCK; k++)
            step(&r);
        if (!good || read(fd, &after, sizeof after) != sizeof after) {
            fprintf(stderr, "bench_recording: cannot read the counter of instructions\n");
            exit(1);
        }
        counts[i % 2][i / 2] = (double)(after - before) / BLOCK;
    }
    const double off = compare_summarise(counts[0], TURNS).median,
                 on = compare_summarise(counts[1], TURNS).median;
    printf("instructions per step on one thread, not recorded, recorded: %.0f, %.0f: %+.3f %%\n", off, on,
           100 * (on / off - 1));
    foray_close(r.e);
    close(fd);
}

static void run_steps(const char *model, bool on, int steps)
{
    running r = open_running(model, 1);
    record(&r, on);
    for (int i = 0; i < steps; i++) {
        make_room(&r, 1);
        step(&r);
    }
    foray_close(r.e);
}

int main(int argc, char **argv)
{
    if (argc == 5 && strcmp(argv[1], "steps") == 0 && atoi(argv[4]) > 0 &&
        (strcmp(argv[3], "on") == 0 || strcmp(argv[3], "off") == 0)) {
        run_steps(argv[2], strcmp(argv[3], "on") == 0, atoi(argv[4]));
        return 0;
    }
    const int pairs = argc == 3 ? atoi(argv[2]) : 400;
    if (argc < 2 || argc > 3 || pairs < 1 || pairs > MOST_PAIRS) {
        fprintf(stderr,
                "usage: bench_recording MODEL [PAIRS, 1 to %d]\n       bench_recording steps MODEL on|off "
                "STEPS\n",
                MOST_PAIRS);
        return 2;
    }
    compare_times(argv[1], pairs);
    count_instructions(argv[1]);
    return 0;
}
