/* bench_load.c: opening a model, in time and in memory. See bench_load.h.
 *
 * Memory is what the system says was resident at most (VmHWM) of a forked process, which starts as small as this
 * one still is; pages of the mapped file count like any other. The fork also brings the file into the page cache,
 * so no opening that is timed waits for a disk.
 */
#include "cli/bench_load.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "cache/cache.h"
#include "engine/engine.h"
#include "engine/score.h"

enum { TOKENS = 16, MOST_STATUS = 1 << 16 };

/* What the forked process found; small enough to go through a pipe at once. */
typedef struct {
    int rc;
    foray_error err;
    double peak_bytes, packed_bytes, kv_bytes;
} finding;

/* This process's VmHWM. */
static int read_peak(double *bytes, foray_error *err)
{
    static const char path[] = "/proc/self/status";
    char *text;
    size_t count;
    unsigned long long kib;
    int rc = file_read(path, MOST_STATUS, &text, &count, err);
    if (rc != 0)
        return rc;
    const char *line = strstr(text, "VmHWM:");
    if (line && sscanf(line, "VmHWM: %llu kB", &kib) == 1)
        *bytes = (double)kib * 1024;
    else
        rc = fail(err, FORAY_EUNSUPPORTED, "%s: no VmHWM, so a load row cannot be made here", path);
    mem_free(MEM_GENERAL, text, count + 1);
    return rc;
}

/* A prompt of one token and TOKENS more. */
static int generate(foray_engine *e, foray_error *err)
{
    const foray_event *events;
    const int32_t id = 1;
    size_t count;
    foray_request handle;
    foray_request_config c = { .prompt = &id,
                               .prompt_count = 1,
                               .max_tokens = TOKENS,
                               .ignore_eos = true,
                               .sampling = { .top_p = 1, .repeat_penalty = 1 },
                               .logprobs = -1 };
    int active = foray_submit(e, &c, &handle, err);
    if (active < 0)
        return active;
    do
        active = foray_step(e, &events, &count, err);
    while (active > 0);
    foray_release(e, handle);
    return active;
}

static int find(const foray_config *c, finding *f, foray_error *err)
{
    foray_engine *e;
    int rc = foray_open(c, &e, err);
    if (rc != 0)
        return rc;
    rc = generate(e, err);
    f->packed_bytes = (double)foray_engine_info(e).weight_bytes;
    f->kv_bytes = (double)cache_bytes_for(engine_cache(e), 1 + TOKENS);
    rc = rc ? rc : read_peak(&f->peak_bytes, err);
    foray_close(e);
    return rc;
}

/* Runs find in a process of its own. */
static int find_apart(const foray_config *c, finding *f, foray_error *err)
{
    int ends[2];
    if (pipe(ends) != 0)
        return fail(err, FORAY_ESYSTEM, "bench: no pipe: %s", strerror(errno));
    pid_t child = fork();
    if (child == 0) {
        finding mine = { 0 };
        mine.rc = find(c, &mine, &mine.err);
        _exit(write(ends[1], &mine, sizeof mine) == sizeof mine ? 0 : 1);
    }
    int problem = errno;
    close(ends[1]);
    ssize_t got = 0;
    while (child > 0 && (got = read(ends[0], f, sizeof *f)) < 0 && errno == EINTR)
        continue;
    close(ends[0]);
    if (child < 0)
        return fail(err, FORAY_ESYSTEM, "bench: no process for the load row: %s", strerror(problem));
    while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
        continue;
    if (got != sizeof *f)
        return fail(err, FORAY_ESYSTEM, "bench: the process that opens the model was killed (memory?)");
    return f->rc ? fail(err, f->rc, "%s", f->err.text) : 0;
}

int bench_load(const foray_config *c, int repeats, bench_row *row, foray_error *err)
{
    finding f;
    int rc = find_apart(c, &f, err);
    if (rc != 0)
        return rc;
    log_set_level(LOG_QUIET); /* all engines from here on would say again what that one said */
    row->peak_bytes = f.peak_bytes;
    row->packed_bytes = f.packed_bytes;
    row->kv_bytes = f.kv_bytes;
    for (int i = -1; i < repeats && rc == 0; i++) { /* the first one in this process warms up */
        foray_engine *e;
        int64_t start = clock_ns();
        rc = foray_open(c, &e, err);
        if (rc == 0 && i >= 0)
            row->ms[row->samples++] = (double)(clock_ns() - start) / 1e6;
        if (rc == 0)
            foray_close(e);
    }
    return rc;
}
