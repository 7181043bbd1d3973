/* cmd_trace.c: `foray trace`: profiles and step records in, a report out.
 *
 * Reads all operands into one store, analyses each rank, and prints the report that was asked for. Exit status 0 where
 * there was something to attribute; 1 for files that are no traces or hold no device work.
 */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "cli/commands.h"
#include "timeline/report.h"

enum { MOST_RULES = 16 << 20 };

/* Everything that is made of the operands. */
typedef struct {
    trace_input input;
    rules rules;
    settled groups;
    analysis *analyses; /* [count] */
    size_t count, made;
} run;

static trace_format wanted_format(const char *name)
{
    return strcmp(name, "foray") == 0    ? FORMAT_FORAY
           : strcmp(name, "kineto") == 0 ? FORMAT_KINETO
           : strcmp(name, "ascend") == 0 ? FORMAT_ASCEND
           : strcmp(name, "nsys") == 0   ? FORMAT_NSYS
                                         : FORMAT_UNKNOWN;
}

static int open_rules(const options *o, rules *out, foray_error *err)
{
    const char *path = options_string(o, OPT_RULES);
    char *text = NULL;
    size_t bytes = 0;
    int rc = path != NULL ? file_read(path, MOST_RULES, &text, &bytes, err) : FORAY_OK;
    if (rc != FORAY_OK)
        return rc;
    rc = rules_open(path, text, out, err);
    if (text != NULL)
        mem_free(MEM_GENERAL, text, bytes + 1);
    return rc;
}

static void run_free(run *r)
{
    for (size_t i = 0; i < r->made; i++)
        analysis_free(&r->analyses[i]);
    mem_free(MEM_RECORDS, r->analyses, r->count * sizeof *r->analyses);
    settle_free(&r->groups);
    rules_free(&r->rules);
    trace_input_free(&r->input);
}

/* Reads the files and analyses every rank. On error *out may be freed all the same. */
static int run_make(const options *o, const char *const *paths, size_t count, run *out, foray_error *err)
{
    *out = (run) { 0 };
    trace_input_init(&out->input);
    int rc = open_rules(o, &out->rules, err);
    for (size_t i = 0; i < count && rc == FORAY_OK; i++) {
        log_note("reading %s", paths[i]);
        rc = trace_input_read(&out->input, paths[i], wanted_format(options_string(o, OPT_FORMAT)), err);
    }
    if (rc == FORAY_OK)
        rc = settle(&out->input.events, &out->rules, &out->groups, err);
    if (rc != FORAY_OK)
        return rc;
    out->count = out->groups.group_count;
    out->analyses = mem_alloc_zeroed(MEM_RECORDS, out->count * sizeof *out->analyses);
    if (out->analyses == NULL)
        return fail(err, FORAY_ENOMEM, "out of memory for %zu ranks", out->count);
    for (; out->made < out->count && rc == FORAY_OK; out->made += rc == FORAY_OK)
        rc = analyse(&out->input.events, &out->groups, &out->rules, (uint32_t)out->made, &out->analyses[out->made], err);
    return rc;
}

int cmd_trace(const options *o)
{
    foray_error err;
    buf text = { 0 };
    run r;
    int rc = run_make(o, o->operands, o->operand_count, &r, &err);
    if (rc == FORAY_OK) {
        report what = { .input = &r.input, .groups = &r.groups, .analyses = r.analyses, .count = r.count,
                        .only_step = options_has(o, OPT_STEP) ? options_int(o, OPT_STEP) : -1 };
        const char *form = options_string(o, OPT_REPORT);
        (strcmp(form, "json") == 0 ? report_json : strcmp(form, "csv") == 0 ? report_csv : report_text)(&what, &text);
        rc = commands_print(&text, &err);
        if (rc == FORAY_OK && report_first_group(&what) == SIZE_MAX && r.input.steps.count == 0)
            rc = fail(&err, FORAY_EFILE, "%s: no device work in it, so nothing to attribute", o->operands[0]);
    }
    run_free(&r);
    buf_free(&text);
    return rc == FORAY_OK ? STATUS_OK : commands_fail(&err);
}
