/* records.c: step records as JSON lines, task records as a timeline. See foray.h. */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "engine/engine.h"
#include "observe/chrome.h"
#include "observe/manifest.h"

_Static_assert((int)FORAY_PHASES == (int)PHASE_COUNT, "the public header counts the phases");

enum { VALUE_BYTES = 32 };

static const char *whole(char *text, int64_t value)
{
    snprintf(text, VALUE_BYTES, "%lld", (long long)value);
    return text;
}

static const char *number(char *text, float value)
{
    snprintf(text, VALUE_BYTES, "%g", (double)value);
    return text;
}

/* What an option's word ("auto", "model") came to, or its value as it was given. text: [VALUE_BYTES]. */
static const char *resolved(const foray_engine *e, const char *name, const char *value, char *text)
{
    const foray_config *c = &e->config;
    foray_sampling s = foray_sampling_default(e);
    bool open = strcmp(value, "auto") == 0 || strcmp(value, "model") == 0;
    if (!open)
        return value;
    if (strcmp(name, "context") == 0)
        return whole(text, e->context);
    if (strcmp(name, "threads") == 0)
        return whole(text, c->threads);
    if (strcmp(name, "isa") == 0)
        return device_isa(e->device);
    if (strcmp(name, "spec") == 0)
        return e->drafter ? e->drafter->name : "off";
    if (strcmp(name, "spec-tokens") == 0)
        return whole(text, e->drafter ? c->spec_tokens : 0);
    if (strcmp(name, "temp") == 0)
        return number(text, s.temperature);
    if (strcmp(name, "top-k") == 0)
        return whole(text, s.top_k);
    if (strcmp(name, "top-p") == 0)
        return number(text, s.top_p);
    if (strcmp(name, "min-p") == 0)
        return number(text, s.min_p);
    if (strcmp(name, "repeat-penalty") == 0)
        return number(text, s.repeat_penalty);
    return value;
}

void engine_manifest(const foray_engine *e, buf *out)
{
    const char *slash = strrchr(e->config.model, '/');
    const char *values[ENGINE_MOST_OPTIONS];
    char text[ENGINE_MOST_OPTIONS][VALUE_BYTES];
    buf states = { 0 };
    for (size_t i = 0; i < e->config.option_count; i++)
        values[i] = resolved(e, e->option_names[i], e->option_values[i], text[i]);
    engine_graph_states(e, &states);
    manifest m = { .model = slash ? slash + 1 : e->config.model,
                   .model_checksum = model_file_checksum(e->file),
                   .isa = device_isa(e->device),
                   .drafter = e->drafter ? e->drafter->name : "off",
                   .graph_state = states.data,
                   .recorded = e->ring ? "steps, tasks" : "steps",
                   .threads = device_threads(e->device),
                   .concurrency = e->config.max_requests,
                   .spec_tokens = e->config.spec_tokens,
                   .option_names = e->option_names,
                   .option_values = values,
                   .options = e->config.option_count };
    manifest_json(&m, out);
    buf_free(&states);
}

int foray_steps_open(foray_engine *e, const char *path, foray_error *err)
{
    file_writer w;
    int rc = file_create(path, &w, err);
    if (rc != 0)
        return rc;
    engine_manifest(e, &w.pending);
    buf_puts(&w.pending, "\n");
    rc = file_flush(&w, true, err);
    if (rc != 0) {
        file_abandon(&w);
        return rc;
    }
    engine_close_steps(e);
    e->steps = w;
    e->writes_steps = true;
    return 0;
}

int engine_write_step(void *user, const step_record *s, foray_error *err)
{
    foray_engine *e = user;
    foray_error problem;
    if (!e->writes_steps)
        return 0;
    step_record_json(s, &e->steps.pending);
    buf_puts(&e->steps.pending, "\n");
    if (file_flush(&e->steps, true, &problem) == 0)
        return 0;
    file_abandon(&e->steps);
    e->writes_steps = false;
    return fail(err, problem.code, "step %lld of the steps file: %s (no further steps are written)",
                (long long)s->forward_ct, problem.text);
}

void engine_close_steps(foray_engine *e)
{
    foray_error problem;
    if (e->writes_steps && file_commit(&e->steps, &problem) != 0)
        log_warning("the steps file: %s", problem.text);
    e->writes_steps = false;
}

/* Leaves out what ran while the engine opened. Nothing of the rest is lost where the oldest record is older than that. */
static size_t drop_measuring(const foray_engine *e, task_record *tasks, size_t count, uint64_t *lost)
{
    size_t kept = 0;
    if (count > 0 && tasks[0].start_ns < e->ready_ns)
        *lost = 0;
    for (size_t i = 0; i < count; i++)
        if (tasks[i].start_ns >= e->ready_ns)
            tasks[kept++] = tasks[i];
    return kept;
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
    count = drop_measuring(e, tasks, count, &lost);
    buf line = { 0 };
    engine_manifest(e, &line);
    const char *const *streams;
    int named = device_streams(e->device, &streams);
    int rc = chrome_write(path, line.data, tasks, count, lost, streams, named, err);
    buf_free(&line);
    mem_free(MEM_RECORDS, tasks, capacity * sizeof *tasks);
    return rc;
}
