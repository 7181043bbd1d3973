/* read.c: finds out what a file is and hands it to its reader; walks folders.
 *
 * Recognised by the first bytes, unpacked: SQLite's mark; step records; else Chrome-style JSON, whose reader tells its
 * dialects apart as it goes. A file's name decides nothing, but that of a folder of graph captures does: those are no
 * serving traces, and inside a folder they are passed over.
 */
#include "timeline/read.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/mem.h"
#include "timeline/list.h"

enum { PEEK_BYTES = 4096, DEEPEST_FOLDER = 6 };
static const size_t MOST_STEP_TEXT = (size_t)1 << 30;

void trace_input_init(trace_input *in)
{
    *in = (trace_input) { 0 };
    store_init(&in->events);
}

void trace_input_free(trace_input *in)
{
    store_free(&in->events);
    steps_file_free(&in->steps);
    side_free(&in->sides);
    buf_free(&in->notes);
}

/* Fills out with the beginning of a file, unpacked. */
static int peek(const char *path, char *out, size_t *bytes, foray_error *err)
{
    source *s;
    int rc = source_open(path, &s, err);
    if (rc != FORAY_OK)
        return rc;
    *bytes = 0;
    for (size_t n; *bytes < PEEK_BYTES && (n = source_read(s, out + *bytes, PEEK_BYTES - *bytes)) > 0;)
        *bytes += n;
    source_close(s);
    return FORAY_OK;
}

static int read_all(const char *path, char **text, size_t *bytes, size_t *cap, foray_error *err)
{
    source *s;
    int rc = source_open(path, &s, err);
    if (rc != FORAY_OK)
        return rc;
    *text = NULL;
    *bytes = *cap = 0;
    for (;;) {
        if (*bytes > MOST_STEP_TEXT || !list_reserve(text, cap, *bytes + (64 << 10), 1)) {
            rc = fail(err, FORAY_ELIMIT, "%s: more than %zu MiB of step records", path, MOST_STEP_TEXT >> 20);
            break;
        }
        size_t n = source_read(s, *text + *bytes, *cap - *bytes);
        if (n == 0)
            break;
        *bytes += n;
    }
    if (rc == FORAY_OK && source_problem(s)[0] != '\0' && *bytes == 0)
        rc = fail(err, FORAY_EFILE, "%s: %s", path, source_problem(s));
    source_close(s);
    if (rc != FORAY_OK)
        list_free(text, cap, 1);
    return rc;
}

static int read_steps(trace_input *in, const char *path, foray_error *err)
{
    char *text;
    size_t bytes, cap;
    int rc = read_all(path, &text, &bytes, &cap, err);
    if (rc != FORAY_OK)
        return rc;
    rc = steps_file_read(&in->steps, path, text, bytes, err);
    list_free(&text, &cap, 1);
    return rc;
}

/* Refuses a part that turned out to be another kind than wanted. */
static int check_wanted(trace_input *in, size_t parts_before, const char *path, trace_format wanted,
                        foray_error *err)
{
    trace_format got = in->events.part_count > parts_before
                           ? in->events.parts[in->events.part_count - 1].format
                           : FORMAT_STEPS;
    if (wanted == FORMAT_UNKNOWN || got == wanted || (wanted == FORMAT_FORAY && got == FORMAT_STEPS))
        return FORAY_OK;
    if (in->events.part_count > parts_before) /* its events stand in the store and are looked at no more */
        in->events.parts[in->events.part_count - 1].format = FORMAT_UNKNOWN;
    return fail(err, FORAY_EFILE, "%s: is a %s file, not %s (--format auto takes any)", path,
                trace_format_name(got), trace_format_name(wanted));
}

static bool same_events(const store *s, const part *a, const part *b)
{
    if (a->kept == 0 || a->kept != b->kept || (a->rank >= 0 && b->rank >= 0 && a->rank != b->rank))
        return false;
    for (size_t i = 0; i < a->kept; i++) {
        const event *x = store_event(s, a->first + i), *y = store_event(s, b->first + i);
        if (x->start != y->start || x->dur != y->dur || x->name != y->name)
            return false;
    }
    return true;
}

/* Refuses the newest part where an earlier file, whatever its name and packing, held the same events: counted twice, they
 * would double every sum. */
static int check_new(trace_input *in, foray_error *err)
{
    store *s = &in->events;
    part *p = &s->parts[s->part_count - 1];
    p->kept = s->count - p->first;
    for (size_t i = 0; i + 1 < s->part_count; i++) {
        if (s->parts[i].format == FORMAT_UNKNOWN || !same_events(s, &s->parts[i], p))
            continue;
        p->format = FORMAT_UNKNOWN; /* its events stand in the store and are looked at no more */
        return fail(err, FORAY_EFILE, "%s: holds the events of %s once more (give one of them)", p->path,
                    s->parts[i].path);
    }
    return FORAY_OK;
}

static int read_file(trace_input *in, const char *path, trace_format wanted, foray_error *err)
{
    char start[PEEK_BYTES];
    size_t bytes, parts = in->events.part_count;
    int rc = peek(path, start, &bytes, err);
    if (rc != FORAY_OK)
        return rc;
    side_kind side = side_kind_of(start, bytes);
    if (side != SIDE_NONE)
        return side_read(&in->sides, &in->events, side, path, err);
    if (bytes >= 16 && memcmp(start, "SQLite format 3", 16) == 0) {
#ifdef FORAY_SQLITE
        rc = read_database(&in->events, path, err);
#else
        rc = fail(err, FORAY_EUNSUPPORTED,
                  "%s: a database, which this build leaves out (export the profile as JSON)", path);
#endif
    } else if (steps_file_looks_like(start, bytes)) {
        rc = read_steps(in, path, err);
    } else {
        source *s;
        rc = source_open(path, &s, err);
        if (rc == FORAY_OK) {
            rc = read_chrome(&in->events, s, path, err);
            source_close(s);
        }
    }
    if (rc == FORAY_OK)
        rc = check_wanted(in, parts, path, wanted, err);
    return rc == FORAY_OK && in->events.part_count > parts ? check_new(in, err) : rc;
}

/* ---- folders ---------------------------------------------------------------------------------- */

static bool is_capture(const char *path)
{
    return strstr(path, "capture_traces/") != NULL || strstr(path, "graph_capture") != NULL;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The names in a folder, in order, in memory. */
static int list_folder(const char *path, arena *memory, const char ***out, size_t *count, size_t *cap,
                       foray_error *err)
{
    DIR *folder = opendir(path);
    if (folder == NULL)
        return fail(err, FORAY_EFILE, "%s: cannot list the folder", path);
    int rc = FORAY_OK;
    for (const struct dirent *e; rc == FORAY_OK && (e = readdir(folder)) != NULL;) {
        const char *name = e->d_name[0] != '.' ? arena_strndup(memory, e->d_name, strlen(e->d_name)) : "";
        if (name == NULL || !list_reserve(out, cap, *count + 1, sizeof **out))
            rc = fail(err, FORAY_ENOMEM, "%s: out of memory", path);
        else if (name[0] != '\0')
            (*out)[(*count)++] = name;
    }
    closedir(folder);
    if (*count > 0)
        qsort(*out, *count, sizeof **out, by_name);
    return rc;
}

/* Could a file of this name hold a trace at all? Spares opening what a profiler leaves beside it. */
static bool is_candidate(const char *name)
{
    static const char *const ends[] = { ".json", ".json.gz", ".json.zst", ".jsonl", ".jsonl.gz",
                                        ".db",   ".sqlite",  ".gz",       ".zst",   ".csv" };
    size_t bytes = strlen(name);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (bytes > strlen(ends[i]) && strcmp(name + bytes - strlen(ends[i]), ends[i]) == 0)
            return true;
    return false;
}

static int read_folder(trace_input *in, const char *path, trace_format wanted, int depth, size_t *found,
                       foray_error *err)
{
    arena memory;
    const char **list = NULL;
    size_t n = 0, cap = 0;
    if (depth == DEEPEST_FOLDER)
        return FORAY_OK;
    arena_init(&memory, MEM_RECORDS, 0);
    int rc = list_folder(path, &memory, &list, &n, &cap, err);
    for (size_t i = 0; i < n && rc == FORAY_OK; i++) {
        char full[4096];
        foray_error why;
        size_t sides = in->sides.count;
        if (snprintf(full, sizeof full, "%s/%s", path, list[i]) >= (int)sizeof full)
            continue;
        if (file_is_folder(full)) {
            rc = read_folder(in, full, wanted, depth + 1, found, err);
        } else if (is_candidate(list[i])) {
            int got = is_capture(full) ? fail(&why, FORAY_EFILE, "%s: a graph capture, not a run", full)
                                       : read_file(in, full, wanted, &why);
            if (got == FORAY_OK)
                *found += in->sides.count == sides;
            else if (got == FORAY_ENOMEM)
                rc = fail(err, got, "%s", why.text);
            else
                buf_printf(&in->notes, "%s\n", why.text);
        }
    }
    list_free(&list, &cap, sizeof *list);
    arena_free(&memory);
    return rc;
}

int trace_input_read(trace_input *in, const char *path, trace_format wanted, foray_error *err)
{
    if (!file_is_folder(path))
        return read_file(in, path, wanted, err);
    size_t found = 0;
    int rc = read_folder(in, path, wanted, 0, &found, err);
    if (rc == FORAY_OK && found == 0)
        rc = fail(err, FORAY_EFILE, "%s: no trace in this folder, only %zu companions of one%s%.*s", path,
                  in->sides.count, in->notes.len > 0 ? "; the first file passed over: " : "",
                  (int)strcspn(in->notes.len > 0 ? in->notes.data : "", "\n"),
                  in->notes.len > 0 ? in->notes.data : "");
    return rc;
}
