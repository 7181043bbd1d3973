/* cmd_trace.c: `foray trace`: profiles and step records in, a report out.
 *
 * Reads all operands into one store, analyses each rank, and prints the report that was asked for. Exit status 0 where
 * there was something to attribute; 1 for files that are no traces or hold no device work.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "cli/commands.h"
#include "timeline/diff.h"
#include "timeline/overlay.h"
#include "timeline/report.h"
#include "timeline/session.h"

enum { MOST_RULES = 16 << 20 };

static trace_format wanted_format(const char *name)
{
    return strcmp(name, "foray") == 0    ? FORMAT_FORAY
           : strcmp(name, "kineto") == 0 ? FORMAT_KINETO
           : strcmp(name, "ascend") == 0 ? FORMAT_ASCEND
           : strcmp(name, "nsys") == 0   ? FORMAT_NSYS
                                         : FORMAT_UNKNOWN;
}

/* Opens a session with the user's rules. */
static int open_session(const options *o, session *out, foray_error *err)
{
    const char *path = options_string(o, OPT_RULES);
    char *text = NULL;
    size_t bytes = 0;
    int rc = path != NULL ? file_read(path, MOST_RULES, &text, &bytes, err) : FORAY_OK;
    if (rc != FORAY_OK)
        return rc;
    rc = session_open(path, text, out, err);
    if (text != NULL)
        mem_free(MEM_GENERAL, text, bytes + 1);
    return rc;
}

/* Files only: a server's timeline is saved first. */
static int refuse_address(const char *path, foray_error *err)
{
    if (strncmp(path, "http://", 7) != 0 && strncmp(path, "https://", 8) != 0)
        return FORAY_OK;
    return fail(
        err, FORAY_EUSAGE,
        "%s: an address; trace reads files (save the answer of the server's GET /trace and give that)", path);
}

/* Reads the files and analyses every rank. On error *out is empty. */
static int analyse_files(const options *o, const char *const *paths, size_t count, session *out,
                         foray_error *err)
{
    int rc = open_session(o, out, err);
    if (rc != FORAY_OK)
        return rc;
    for (size_t i = 0; i < count && rc == FORAY_OK; i++) {
        log_note("reading %s", paths[i]);
        rc = refuse_address(paths[i], err);
        if (rc == FORAY_OK)
            rc = session_add(out, paths[i], wanted_format(options_string(o, OPT_FORMAT)), err);
    }
    if (rc == FORAY_OK)
        rc = session_finish(out, err);
    if (rc != FORAY_OK)
        session_free(out);
    return rc;
}

static report report_of(const session *s, const options *o)
{
    return (report) { .input = &s->input,
                      .groups = &s->groups,
                      .analyses = s->analyses,
                      .count = s->count,
                      .only_step = options_has(o, OPT_STEP) ? options_int(o, OPT_STEP) : -1 };
}

/* Is there a step of the number that was asked for? */
static int check_step(const session *s, const options *o, foray_error *err)
{
    size_t most = 0;
    for (size_t i = 0; i < s->count; i++)
        most = s->analyses[i].step_count > most ? s->analyses[i].step_count : most;
    int64_t wanted = options_has(o, OPT_STEP) ? options_int(o, OPT_STEP) : 0;
    if (!options_has(o, OPT_STEP) || most == 0 || (uint64_t)wanted < most)
        return FORAY_OK;
    return fail(err, FORAY_EUSAGE, "--step %" PRId64 ": the steps here are 0 to %zu", wanted, most - 1);
}

/* Why there was nothing to attribute: what could not be read, before what was not there. */
static int refuse_empty(const session *s, const options *o, foray_error *err)
{
    for (size_t i = 0; i < s->input.events.part_count; i++) {
        const part *p = &s->input.events.parts[i];
        if (p->tasks > 0 || p->format == FORMAT_UNKNOWN)
            continue;
        if (p->faults[FAULT_PACKING] > 0)
            return fail(err, FORAY_EFILE, "%s: %s; no device work before it", p->path, p->problem);
        if (p->faults[FAULT_DAMAGED] > 0)
            return fail(err, FORAY_EFILE,
                        "%s: byte %" PRIu64
                        ": no event of a trace; what could be read beside it holds no device work",
                        p->path, p->fault_at[FAULT_DAMAGED]);
        if (p->faults[FAULT_TRUNCATED] > 0)
            return fail(err, FORAY_EFILE, "%s: byte %" PRIu64 ": the file ends inside; no device work before",
                        p->path, p->fault_at[FAULT_TRUNCATED]);
    }
    return fail(err, FORAY_EFILE, "%s: no device work in it, so nothing to attribute", o->operands[0]);
}

/* --diff: the operands are run A, the option names run B. */
static int compare(const options *o, const report *a, buf *out, foray_error *err)
{
    const char *const other[] = { options_string(o, OPT_DIFF) };
    session s;
    int rc = analyse_files(o, other, 1, &s, err);
    if (rc != FORAY_OK)
        return rc;
    report b = report_of(&s, o);
    const char *form = options_string(o, OPT_REPORT);
    if (strcmp(form, "json") == 0)
        rc = diff_json(a, &b, out, err);
    else if (strcmp(form, "text") == 0)
        rc = diff_text(a, &b, out, err);
    else
        rc = fail(err, FORAY_EUSAGE, "--report %s: a comparison is text or json", form);
    session_free(&s);
    return rc;
}

static void make_report(const options *o, const report *what, buf *out)
{
    const char *form = options_string(o, OPT_REPORT);
    void (*make)(const report *, buf *) = strcmp(form, "json") == 0   ? report_json
                                          : strcmp(form, "csv") == 0  ? report_csv
                                          : strcmp(form, "html") == 0 ? report_html
                                                                      : report_text;
    make(what, out);
}

int cmd_trace(const options *o)
{
    foray_error err;
    buf text = { 0 };
    session s;
    int rc = analyse_files(o, o->operands, o->operand_count, &s, &err);
    if (rc == FORAY_OK) {
        report what = report_of(&s, o);
        rc = check_step(&s, o, &err);
        if (rc == FORAY_OK && options_has(o, OPT_DIFF))
            rc = compare(o, &what, &text, &err);
        else if (rc == FORAY_OK)
            make_report(o, &what, &text);
        if (rc == FORAY_OK)
            rc = commands_print(&text, &err);
        if (rc == FORAY_OK && options_has(o, OPT_OVERLAY))
            rc = overlay_write(&what, options_string(o, OPT_OVERLAY), &err);
        if (rc == FORAY_OK && report_first_group(&what) == SIZE_MAX)
            rc = refuse_empty(&s, o, &err);
        session_free(&s);
    }
    buf_free(&text);
    return rc == FORAY_OK ? STATUS_OK : commands_fail(&err);
}
