/* quality.c: the head of every report: what of this file can be trusted, and what was done about the rest. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "timeline/report.h"

/* Where the lines of one group gather. */
typedef struct {
    quality_line *out;
    size_t count;
} lines;

static void add(lines *l, const char *name, uint64_t count, bool warning, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

static void add(lines *l, const char *name, uint64_t count, bool warning, const char *format, ...)
{
    if (l->count == QUALITY_MOST)
        return;
    quality_line *q = &l->out[l->count++];
    q->name = name;
    q->count = count;
    q->warning = warning;
    va_list list;
    va_start(list, format);
    vsnprintf(q->text, sizeof q->text, format, list);
    va_end(list);
}

/* How each fault is said; %N stands for the count. In the order of their weight. */
static const struct {
    fault what;
    const char *name;
    bool warning;
    const char *text;
} fault_lines[] = {
    { FAULT_PACKING, "damaged_packing", true, NULL },
    { FAULT_NO_COLUMN, "missing_columns", true, NULL },
    { FAULT_TRUNCATED, "truncated", true, "the file ends inside (at byte %A): what came before is used" },
    { FAULT_DAMAGED, "damaged_events", true,
      "%N places could not be read as JSON (the first at byte %A); the events around them are used" },
    { FAULT_LOST_TASKS, "lost_tasks", true, "the recorder itself lost %N tasks" },
    { FAULT_LOST_REPLAY, "lost_replays", true,
      "%N graph launches without any of their tasks: lost, or not traced; idle time around them is not "
      "idle" },
    { FAULT_THIN_REPLAY, "thin_replays", true,
      "%N replays with far fewer nodes than their like: tasks were dropped" },
    { FAULT_CAPTURE, "graph_capture", true,
      "%N calls of graph capture: parts of this file show warm-up, not serving" },
    { FAULT_ABSURD, "absurd_events", true, "%N events longer than the whole file or at time 0: left out" },
    { FAULT_UNFINISHED, "unfinished_events", true,
      "%N events without an end (the first at byte %A): left out" },
    { FAULT_BAD_TIME, "bad_times", true,
      "%N events whose time is no number, or on no clock (the first at byte %A): left out" },
    { FAULT_UNPAIRED, "unpaired", true, "%N begins or ends without their other half" },
    { FAULT_NO_LINK, "tasks_without_launch", true, "%N tasks without the call that launched them" },
    { FAULT_LOST_LAUNCH, "launches_without_task", true, "%N launch calls whose task is not in the file" },
    { FAULT_EARLY_TASK, "early_tasks", true,
      "%N tasks start before their launch does: the clocks of host and device differ" },
    { FAULT_SAME_LINK, "shared_correlations", true,
      "%N tasks whose correlation belongs to several launches: the latest before the task is taken" },
    { FAULT_UNRESOLVED, "unresolved_waits", true,
      "%N stream waits that blocked and whose record is not in the file" },
    { FAULT_OVERLAP, "overlapping_tasks", false, "%N tasks start while another one runs on their stream" },
    { FAULT_DUPLICATE, "duplicate_tasks", false,
      "%N communication tasks stand twice in the file and count once" },
    { FAULT_ASYNC, "async_ranges", false,
      "%N async ranges whose names no rule knows (requests, queues): not used" },
    { FAULT_COUNTERS, "counters", false, "%N counter samples: not used" },
    { FAULT_INSTANTS, "instants", false, "%N instants: not used" },
    { FAULT_BAD_ESCAPES, "bad_escapes", false, "%N backslashes that JSON does not know: kept as they are" },
};

/* Writes text with %N and %A replaced. */
static void fill_text(const char *text, uint64_t count, uint64_t at, char *out, size_t room)
{
    size_t n = 0;
    for (const char *p = text; *p != '\0' && n + 24 < room; p++) {
        if (p[0] == '%' && (p[1] == 'N' || p[1] == 'A'))
            n += (size_t)snprintf(out + n, room - n, "%" PRIu64, *++p == 'N' ? count : at);
        else
            out[n++] = *p;
    }
    out[n] = '\0';
}

static void add_faults(lines *l, const store *s, const settled *t, size_t which)
{
    for (size_t p = 0; p < s->part_count; p++) {
        const part *x = &s->parts[p];
        bool mine = which == 0 && x->events == 0; /* of no rank: told with the first */
        for (size_t i = 0; i < s->lane_count && !mine; i++)
            mine = s->lanes[i].part == p && t->lane_group[i] == which;
        for (size_t i = 0; mine && i < sizeof fault_lines / sizeof *fault_lines; i++) {
            uint64_t count = x->faults[fault_lines[i].what];
            char text[240];
            if (count == 0)
                continue;
            if (fault_lines[i].what == FAULT_NO_COLUMN)
                snprintf(text, sizeof text, "the database lacks %s: what stands there is unknown",
                         x->lacking);
            else if (fault_lines[i].text == NULL)
                snprintf(text, sizeof text, "%s: what came before is used", x->problem);
            else
                fill_text(fault_lines[i].text, count, x->fault_at[fault_lines[i].what], text, sizeof text);
            add(l, fault_lines[i].name, count, fault_lines[i].warning, "%s", text);
        }
    }
    if (s->names.faulty > 0)
        add(l, "faulty_names", s->names.faulty, false,
            "%u names with control bytes or invalid UTF-8: shown escaped", s->names.faulty);
}

static const char *short_path(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

/* What was wrong in files of step records; they belong to no rank alone. */
static void add_step_files(lines *l, const steps_file *f)
{
    for (size_t i = 0; i < f->file_count; i++) {
        const steps_source *x = &f->files[i];
        if (x->truncated)
            add(l, "records_truncated", 1, true, "%.80s: cut short inside a record: those before it are used",
                short_path(x->path));
        if (x->broken > 0)
            add(l, "records_broken", x->broken, true,
                "%.80s: %" PRIu64 " lines are no JSON objects (the first is line %" PRIu64 "): left out",
                short_path(x->path), x->broken, x->first_broken);
        if (x->unfit > 0)
            add(l, "records_unfit", x->unfit, true,
                "%.80s: %" PRIu64 " records with values that no step can have (the first is %s %" PRIu64
                "): left out",
                short_path(x->path), x->unfit, x->answer ? "record" : "line", x->first_unfit);
    }
}

static void add_steps(lines *l, const analysis *a)
{
    size_t reasons[STEP_REASONS] = { 0 };
    int64_t wall = 0, inferred = 0, unknown = 0;
    for (size_t i = 0; i < a->step_count; i++) {
        const step *s = &a->steps[i];
        reasons[s->reason]++;
        if (s->reason == STEP_KEPT) {
            wall += s->end - s->start;
            inferred += s->inferred_ns;
            unknown += s->phases_ns[PHASE_UNATTRIBUTED];
        }
    }
    for (int r = STEP_KEPT + 1; r < STEP_REASONS; r++)
        if (reasons[r] > 0)
            add(l, "steps_left_out", reasons[r], false, "%zu steps left out: %s", reasons[r],
                step_reason_text((step_reason)r));
    if (wall > 0) {
        double share = 100.0 * (double)inferred / (double)wall, lost = 100.0 * (double)unknown / (double)wall;
        add(l, "inferred_share", (uint64_t)inferred, share > 5,
            "%.1f %% of the kept steps' time stands behind edges that are only inferred", share);
        if (lost > 2)
            add(l, "unattributed_share", (uint64_t)unknown, true,
                "%.1f %% of the kept steps' time is not attributed", lost);
    }
    if (a->trimmed_ns > 0)
        add(l, "clipped_head", (uint64_t)a->trimmed_ns, false,
            "step 0 begins %.3f ms late: until then it waits for work that is not in the file",
            (double)a->trimmed_ns / 1e6);
    if (a->replay_error_ns > 0)
        add(l, "replay_error", (uint64_t)a->replay_error_ns, false,
            "run again unchanged, times come out up to %.3f ms off: what-ifs are that uncertain",
            (double)a->replay_error_ns / 1e6);
    if (a->sums_wrong > 0)
        add(l, "sums_wrong", a->sums_wrong, true,
            "the parts of %zu steps do not add up: a fault of foray's, please report it", a->sums_wrong);
}

/* Is a stretch of the path outside of the segments that records measure: draft and verify, without the gaps before them? */
static bool outside_records(const segment *x)
{
    bool gap = x->kind == SEGMENT_HOST || x->kind == SEGMENT_LAUNCH || x->kind == SEGMENT_RETURN;
    return gap || (x->owner != PHASE_DRAFT && x->owner != PHASE_TARGET_VERIFY);
}

/* What a recorded step holds beside its recorded segments, by what the profile has there. */
static void add_remainder(lines *l, const analysis *a)
{
    enum { SHOWN = 6 };
    int64_t wall = 0, rest = 0, has[PHASE_COUNT] = { 0 }, steps = 0;
    for (size_t i = 0; i < a->step_count; i++) {
        const step *s = &a->steps[i];
        if (!s->has_record || s->reason != STEP_KEPT || s->record_step_ns <= 0 || s->record_verify_ns <= 0)
            continue;
        steps++;
        wall += s->record_step_ns;
        rest += s->record_step_ns - s->record_verify_ns - (s->record_draft_ns > 0 ? s->record_draft_ns : 0);
        for (size_t k = 0; k < s->segments; k++) {
            const segment *x = path_at(a, s->first_segment + k);
            has[x->phase] += outside_records(x) ? x->to - x->from : 0;
        }
    }
    if (steps == 0 || rest <= 0)
        return;
    char text[160] = "";
    size_t n = 0;
    for (int shown = 0; shown < SHOWN; shown++) {
        int top = 0;
        for (int p = 1; p < PHASE_COUNT; p++)
            top = has[p] > has[top] ? p : top;
        if ((double)has[top] < (double)rest / 100 || n + 40 > sizeof text)
            break;
        n += (size_t)snprintf(text + n, sizeof text - n, "%s %s %.3f", n > 0 ? "," : "",
                              phase_name((phase)top), (double)(has[top] / steps) / 1e6);
        has[top] = 0;
    }
    add(l, "records_remainder", (uint64_t)(rest / steps), false,
        "%.3f of %.3f ms per step lie outside of the recorded draft and verify; the path has there:%s",
        (double)(rest / steps) / 1e6, (double)(wall / steps) / 1e6, n > 0 ? text : " nothing");
}

/* Step records: where they were laid, and whether what they measured agrees with the profile. */
static void add_records(lines *l, const analysis *a)
{
    const record_fit *f = &a->records;
    if (!f->tried)
        return;
    if (!f->aligned) {
        add(l, "records_not_aligned", f->pairs, true,
            "the step records fit nowhere (best mean difference %.3f ms over %zu pairs): not used",
            f->residual_ns < 0 ? 0.0 : (double)f->residual_ns / 1e6, f->pairs);
        return;
    }
    add(l, "records_aligned", f->pairs, false,
        "step records laid at offset %" PRId64
        ": durations differ by %.4f ms in the mean over %zu steps (next best offset: %.4f ms)",
        f->offset, (double)f->residual_ns / 1e6, f->pairs,
        f->second_ns < 0 ? 0.0 : (double)f->second_ns / 1e6);
    int64_t draft = 0, verify = 0;
    size_t drafts = 0, verifies = 0;
    for (size_t i = 0; i < a->step_count; i++) {
        const step *s = &a->steps[i];
        if (!s->has_record || s->reason != STEP_KEPT)
            continue;
        if (s->record_draft_ns > 0 && s->stages[PHASE_DRAFT].elapsed_ns > 0) {
            draft += s->stages[PHASE_DRAFT].elapsed_ns - s->record_draft_ns;
            drafts++;
        }
        if (s->record_verify_ns > 0 && s->stages[PHASE_TARGET_VERIFY].elapsed_ns > 0) {
            verify += s->stages[PHASE_TARGET_VERIFY].elapsed_ns - s->record_verify_ns;
            verifies++;
        }
    }
    if (drafts + verifies > 0)
        add(l, "records_segments", drafts + verifies, false,
            "elapsed against the recorded segments: draft %+.4f ms, verify %+.4f ms in the mean",
            drafts > 0 ? (double)draft / (double)drafts / 1e6 : 0.0,
            verifies > 0 ? (double)verify / (double)verifies / 1e6 : 0.0);
    add_remainder(l, a);
}

/* What lies beside the traces of a group, and what it tells. */
static void add_sides(lines *l, const report *r, size_t which)
{
    const settled *t = r->groups;
    const store *s = &r->input->events;
    const task_graph *g = &r->analyses[which].graph;
    for (size_t i = 0; i < r->input->sides.count; i++) {
        const side_file *f = &r->input->sides.files[i];
        bool mine = false, warning;
        for (size_t k = 0; k < s->lane_count && !mine; k++)
            mine = t->lane_group[k] == which && side_belongs(f, &s->parts[s->lanes[k].part]);
        if (!mine || g->count == 0)
            continue;
        char text[200];
        const char *slash = strrchr(f->path, '/');
        side_describe(f, g, text, sizeof text, &warning);
        add(l, "companion", 1, warning, "%.60s: %s", slash != NULL ? slash + 1 : f->path, text);
    }
}

/* For whom this rank waits most. */
static void add_peers(lines *l, const analysis *a)
{
    int64_t all = 0, kept = 0;
    for (size_t i = 0; i < a->step_count; i++)
        if (a->steps[i].reason == STEP_KEPT) {
            all += a->steps[i].peer_ns;
            kept++;
        }
    if (a->peer_count == 0 || a->peers[0].path_ns == 0 || kept == 0)
        return;
    const peer_charge *c = &a->peers[0];
    add(l, "late_peer", (uint64_t)c->path_ns, false,
        "of %.3f ms per step on the path that wait for peers %.3f wait for rank %d (%s)",
        (double)(all / kept) / 1e6, (double)(c->path_ns / kept) / 1e6, c->rank,
        c->exact ? "the waits say so" : "it comes last, by aligned clocks");
}

/* Other ranks: the offset of the clocks, and who waited for whom. */
static void add_ranks(lines *l, const analysis *a)
{
    if (!a->clock_tried)
        return;
    if (!a->clock_aligned) {
        add(l, "clock_not_aligned", a->clock_pairs, true,
            "%zu collectives in common with rank %d: too few to align the clocks, ranks are not compared",
            a->clock_pairs, a->clock_against);
        return;
    }
    add(l, "clock_offset", a->clock_pairs, false,
        "clock %+.3f ms against rank %d, by the ends of %zu collectives (median deviation %.3f ms)",
        (double)a->clock_offset_ns / 1e6, a->clock_against, a->clock_pairs,
        (double)a->clock_residual_ns / 1e6);
    add(l, "peer_order", a->clock_pairs, false,
        "it came to them %.3f ms later than rank %d in sum, and %.3f ms earlier: so long the other one "
        "waited, or it did itself",
        (double)a->peer_late_ns / 1e6, a->clock_against, (double)a->peer_early_ns / 1e6);
}

/* Graph dumps: over which replays they were laid, and how surely. */
static void add_dumps(lines *l, const analysis *a)
{
    const task_graph *g = &a->graph;
    for (size_t i = 0; i < g->dump_count; i++) {
        const dump_fit *f = &g->dumps[i];
        const char *path = g->s->parts[f->part].path, *slash = strrchr(path, '/');
        char what[120];
        snprintf(what, sizeof what, "%.60s (model %" PRId64 ", %u nodes on %u streams)",
                 slash != NULL ? slash + 1 : path, f->model, f->nodes, f->streams);
        if (f->replays > 0)
            add(l, "graph_dump", f->replays, false,
                "%s laid over %u replays %s, %u of %u tasks are nodes: %" PRIu64 " edges %s", what,
                f->replays, f->by_number > 0 ? "by model, stream and task" : "by the order of names",
                f->paired, f->of, f->edges, evidence_name((evidence)f->how));
        else if (g->replay_count == 0)
            add(l, "graph_dump_unused", 1, true, "%s: the profile shows no graph replay to lay it over",
                what);
        else if (f->contradicted > 0)
            add(l, "graph_dump_unused", 1, true, "%s: the times of %u replays contradict its edges: not used",
                what, f->contradicted);
        else
            add(l, "graph_dump_unused", 1, true,
                "%s fits none of %zu replays (at best %u of %u tasks are nodes): not used", what,
                g->replay_count, f->paired, f->of);
        if (f->waits_named < f->waits)
            add(l, "graph_dump_open", f->waits - f->waits_named, false,
                "%u of %u waits of the dump have no single record in it: they stay inferred",
                f->waits - f->waits_named, f->waits);
    }
}

static void add_waits(lines *l, const analysis *a)
{
    const task_graph *g = &a->graph;
    if (g->waits > 0)
        add(l, "event_waits", g->waits, false,
            "%zu event waits, %zu of them blocked, %zu of those matched with their record", g->waits,
            g->waits_blocking, g->waits_resolved);
    size_t exact = 0, good = 0, inferred = 0;
    for (size_t i = 0; i < g->count; i++) {
        exact += g->tasks[i].cause != 0 && g->tasks[i].cause_how == HOW_EXACT;
        good += g->tasks[i].cause != 0 && g->tasks[i].cause_how == HOW_GOOD;
        inferred += g->tasks[i].cause != 0 && g->tasks[i].cause_how == HOW_INFERRED;
    }
    if (exact + good + inferred > 0)
        add(l, "stream_edges", exact + good + inferred, false,
            "edges between streams: %zu exact, %zu good, %zu inferred", exact, good, inferred);
    else if (g->wait_calls > 0)
        add(l, "blind_waits", g->wait_calls, true,
            "%zu calls make a stream wait and the file does not say for what: profile with cuda_sync "
            "records, or with nsys",
            g->wait_calls);
}

size_t report_quality(const report *r, size_t which, quality_line *out)
{
    lines l = { .out = out };
    const analysis *a = &r->analyses[which];
    const store *s = &r->input->events;
    add_faults(&l, s, r->groups, which);
    add_step_files(&l, &r->input->steps);
    uint64_t events = 0;
    for (size_t i = 0; i < s->part_count; i++)
        events += s->parts[i].events;
    if (a->graph.count == 0 && a->boundary != BOUNDARY_RECORDS)
        add(&l, "no_device_work", 1, true, "%s",
            r->groups->groups[which].format == FORMAT_DUMP
                ? "a graph dump has names and edges and no times: give it together with a profile of its "
                  "graph"
            : events > 0 ? "no device task in it: nothing can be attributed (was the device profiled?)"
                         : "no device task in it: nothing can be attributed");
    if (a->boundary == BOUNDARY_WHOLE && a->step_count > 0)
        add(&l, "no_steps", 1, true,
            "no steps found: neither an annotation that a rule knows nor repeating graphs; the whole file is "
            "one");
    if (a->boundary == BOUNDARY_GRAPH)
        add(&l, "steps_by_graph", a->step_count, false,
            "steps and stages come from the order of graph replays, not from annotations");
    add_steps(&l, a);
    add_dumps(&l, a);
    add_waits(&l, a);
    add_records(&l, a);
    add_sides(&l, r, which);
    add_ranks(&l, a);
    add_peers(&l, a);
    return l.count;
}

size_t report_first_group(const report *r)
{
    size_t best = SIZE_MAX, most = 0;
    for (size_t i = 0; i < r->count; i++) {
        size_t n = r->analyses[i].graph.count + (r->analyses[i].boundary == BOUNDARY_RECORDS);
        if (n > most) {
            most = n;
            best = i;
        }
    }
    return best;
}

void report_what_if(const what_if *w, char *out, size_t room)
{
    const char *stage = phase_name((phase)w->phase);
    switch (w->kind) {
    case WHAT_NO_GAP:
        snprintf(out, room, "no host gap before %s",
                 w->phase == PHASE_UNATTRIBUTED ? "tasks without a stage" : stage);
        break;
    case WHAT_NO_PEER:
        snprintf(out, room, "peers always there");
        break;
    case WHAT_NO_COMM:
        snprintf(out, room, "communication free");
        break;
    case WHAT_NO_STAGE:
        snprintf(out, room, "%s takes no time", stage);
        break;
    default:
        snprintf(out, room, "a worker always free");
        break;
    }
}

void report_short_name(const char *name, char *out, size_t room)
{
    size_t n = 0;
    int depth = 0;
    if (strncmp(name, "void ", 5) == 0)
        name += 5;
    for (const char *p = name; *p != '\0' && n + 1 < room; p++) {
        if (strncmp(p, "(anonymous namespace)::", 23) == 0) {
            p += 22;
            continue;
        }
        if (*p == '<' && n > 0)
            depth++;
        else if (*p == '>')
            depth -= depth > 0;
        else if (*p == '(' && depth == 0 && n > 0)
            break;
        else if (depth == 0)
            out[n++] = (unsigned char)*p < 0x20 || *p == 0x7f ? '?' : *p;
    }
    while (n > 0 && ((unsigned char)out[n - 1] & 0xc0) == 0x80 &&
           n + 1 == room) /* a character that was cut */
        n--;
    out[n] = '\0';
    if (n == 0)
        snprintf(out, room, "%s", "unnamed");
}
