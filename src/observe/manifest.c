/* manifest.c: puts the conditions of a run into one JSON object.
 *
 * The machine's name, its instruction sets and its load are read once, at the first call; the commit is the
 * one that was built. Threads: any.
 */
#include "observe/manifest.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "base/thread.h"

#ifndef FORAY_COMMIT
#define FORAY_COMMIT ""
#endif

static pthread_once_t once = PTHREAD_ONCE_INIT;
static char machine[192];
static double load_at_start;

/* The value of the first line of /proc/cpuinfo that starts with key; "" where there is none. */
static void processor_field(const char *key, char *out, size_t bytes)
{
    char line[8192];
    FILE *f = fopen("/proc/cpuinfo", "re");
    out[0] = '\0';
    if (f == NULL)
        return;
    while (out[0] == '\0' && fgets(line, sizeof line, f) != NULL) {
        char *colon = strchr(line, ':');
        if (strncmp(line, key, strlen(key)) != 0 || colon == NULL)
            continue;
        char *value = colon + 1 + strspn(colon + 1, " \t");
        value[strcspn(value, "\n")] = '\0';
        snprintf(out, bytes, "%s", value);
    }
    fclose(f);
}

static const char *best_set(const char *flags)
{
    if (strstr(flags, "avx512f") != NULL)
        return strstr(flags, "avx512_vnni") != NULL ? "avx512+vnni" : "avx512";
    if (strstr(flags, "avx2") != NULL)
        return strstr(flags, "avx_vnni") != NULL ? "avx2+vnni" : "avx2";
    return strstr(flags, "asimd") != NULL ? "neon" : "no vector set";
}

static void read_machine(void)
{
    char name[96], flags[8192];
    struct utsname u;
    processor_field("model name", name, sizeof name);
    processor_field("flags", flags, sizeof flags);
    if (flags[0] == '\0')
        processor_field("Features", flags, sizeof flags);
    if (name[0] == '\0')
        snprintf(name, sizeof name, "%s", uname(&u) == 0 ? u.machine : "unknown processor");
    snprintf(machine, sizeof machine, "%dx %s, %s", thread_cores(), name, best_set(flags));
    if (getloadavg(&load_at_start, 1) != 1)
        load_at_start = -1;
}

const char *manifest_machine(void)
{
    pthread_once(&once, read_machine);
    return machine;
}

const char *manifest_commit(void)
{
    return FORAY_COMMIT[0] != '\0' ? FORAY_COMMIT : "unknown";
}

static void append_field(buf *out, const char *name, const char *text)
{
    buf_printf(out, ",\"%s\":", name);
    if (text == NULL)
        buf_puts(out, "null");
    else
        buf_json_string(out, text, strlen(text));
}

/* A length that holds for the whole file, or null where requests differ. */
static void append_length(buf *out, const char *name, int tokens)
{
    if (tokens > 0)
        buf_printf(out, ",\"%s\":%d", name, tokens);
    else
        buf_printf(out, ",\"%s\":null", name);
}

void manifest_json(const manifest *m, buf *out)
{
    /* The envelope of SGLang's records; components are those that foray's step records carry. */
    buf_printf(out,
               "{\"mode\":\"compact\",\"gamma\":%d,\"verify_num_draft_tokens\":%d,\"components\":[\"core\","
               "\"draft_gpu_time\",\"reqs\",\"step_cpu_time\",\"step_gpu_time\",\"target_verify_gpu_time\"],"
               "\"simulate_acc_len\":null",
               m->spec_tokens, m->spec_tokens + 1);
    append_field(out, "program", "foray");
    append_field(out, "version", FORAY_VERSION);
    append_field(out, "commit", manifest_commit());
    append_field(out, "machine", manifest_machine());
    buf_puts(out, ",\"load\":");
    buf_json_double(out, load_at_start);
    append_field(out, "isa", m->isa);
    buf_printf(out, ",\"threads\":%d", m->threads);
    append_field(out, "model", m->model);
    buf_printf(out, ",\"model_checksum\":\"%016llx\"", (unsigned long long)m->model_checksum);
    append_field(out, "drafter", m->drafter);
    append_field(out, "graph", m->graph_state);
    buf_printf(out, ",\"concurrency\":%d", m->concurrency);
    append_length(out, "prompt_tokens", m->prompt_tokens);
    append_length(out, "max_tokens", m->max_tokens);
    append_field(out, "recorded", m->recorded);
    buf_puts(out, ",\"options\":{");
    for (size_t i = 0; i < m->options; i++) {
        buf_puts(out, i != 0 ? "," : "");
        buf_json_string(out, m->option_names[i], strlen(m->option_names[i]));
        buf_puts(out, ":");
        const char *value = m->option_values[i];
        if (value == NULL)
            buf_puts(out, "null");
        else
            buf_json_string(out, value, strlen(value));
    }
    buf_puts(out, "}}");
}
