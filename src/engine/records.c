/* records.c: step records as JSON lines, task records as a timeline. See foray.h. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "engine/engine.h"
#include "observe/chrome.h"
#include "observe/manifest.h"

_Static_assert((int)FORAY_PHASES == (int)PHASE_COUNT, "the public header counts the phases");

void engine_manifest(const foray_engine *e, buf *out)
{
    const char *slash = strrchr(e->config.model, '/');
    manifest m = { .model = slash ? slash + 1 : e->config.model,
                   .model_checksum = e->checksum,
                   .isa = device_isa(e->device),
                   .drafter = e->drafter ? e->drafter->name : "off",
                   .graph_state = strcmp(e->config.graph, "auto") == 0
                                      ? "decode, target_verify: on; prefill: eager"
                                      : "off",
                   .recorded = e->ring ? "steps, tasks" : "steps",
                   .threads = device_threads(e->device),
                   .concurrency = e->config.max_requests,
                   .spec_tokens = e->config.spec_tokens,
                   .option_names = e->option_names,
                   .option_values = e->option_values,
                   .options = e->config.option_count };
    manifest_json(&m, out);
}

int foray_steps_open(foray_engine *e, const char *path, foray_error *err)
{
    FILE *f = fopen(path, "w");
    if (!f)
        return fail(err, FORAY_EFILE, "%s: cannot be written: %s", path, strerror(errno));
    buf_clear(&e->line);
    engine_manifest(e, &e->line);
    buf_puts(&e->line, "\n");
    if (e->line.failed || fwrite(e->line.data, 1, e->line.len, f) != e->line.len || fflush(f) != 0) {
        int reason = e->line.failed ? ENOMEM : errno;
        fclose(f);
        return fail(err, FORAY_EFILE, "%s: the manifest could not be written: %s", path, strerror(reason));
    }
    if (e->steps)
        fclose(e->steps);
    e->steps = f;
    return 0;
}

int engine_write_step(foray_engine *e, foray_error *err)
{
    if (!e->steps)
        return 0;
    buf_clear(&e->line);
    step_record_json(batch_last_step(e->batch), &e->line);
    buf_puts(&e->line, "\n");
    if (!e->line.failed && fwrite(e->line.data, 1, e->line.len, e->steps) == e->line.len &&
        fflush(e->steps) == 0)
        return 0;
    int reason = e->line.failed ? ENOMEM : errno;
    fclose(e->steps);
    e->steps = NULL;
    return fail(err, FORAY_EFILE, "the steps file: step %lld could not be written: %s (no further steps are)",
                (long long)batch_last_step(e->batch)->forward_ct, strerror(reason));
}

int foray_timeline_write(foray_engine *e, const char *path, foray_error *err)
{
    if (!e->ring)
        return fail(err, FORAY_ESTATE, "%s: tasks were not recorded (open the engine with record)", path);
    size_t capacity = ring_capacity(e->ring);
    task_record *tasks = mem_alloc(MEM_RECORDS, capacity * sizeof *tasks);
    if (!tasks)
        return fail(err, FORAY_ENOMEM, "%s: no memory for %zu records", path, capacity);
    uint64_t lost = 0;
    size_t count = ring_read(e->ring, tasks, capacity, &lost);
    buf line = { 0 };
    engine_manifest(e, &line);
    const char *streams[] = { "main" };
    int rc = chrome_write(path, line.data, tasks, count, lost, streams, 1, err);
    buf_free(&line);
    mem_free(MEM_RECORDS, tasks, capacity * sizeof *tasks);
    return rc;
}
