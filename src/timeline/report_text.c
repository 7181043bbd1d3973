/* report_text.c: three screens for a terminal: what can be trusted, where the time of a step goes, and the critical path. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "timeline/beside.h"
#include "timeline/cycle.h"
#include "timeline/ranks.h"
#include "timeline/report.h"
#include "timeline/symptoms.h"

static double ms(int64_t ns)
{
    return (double)ns / 1e6;
}

static void headline(buf *out, const char *text)
{
    buf_printf(out, "\n── %s ", text);
    for (size_t n = strlen(text); n < 90; n++)
        buf_puts(out, "─");
    buf_puts(out, "\n");
}

/* ---- screen 1 --------------------------------------------------------------------------------- */

static const char *boundary_text(step_boundary b)
{
    static const char *const text[] = { "the whole file", "annotations", "graph replays", "foray's rounds",
                                        "step records" };
    return text[b];
}

static void put_bytes(buf *out, uint64_t bytes)
{
    if (bytes >= (uint64_t)10 << 20)
        buf_printf(out, "%" PRIu64 " MiB", bytes >> 20);
    else if (bytes >= 10 << 10)
        buf_printf(out, "%" PRIu64 " KiB", bytes >> 10);
    else
        buf_printf(out, "%" PRIu64 " bytes", bytes);
}

static void put_files(const report *r, buf *out)
{
    const store *s = &r->input->events;
    for (size_t p = 0; p < s->part_count; p++) {
        const part *x = &s->parts[p];
        if (x->format == FORMAT_UNKNOWN)
            continue;
        const char *slash = strrchr(x->path, '/');
        buf_printf(out, "%s: %s, %" PRIu64 " events, %" PRIu64 " device tasks, ",
                   slash != NULL ? slash + 1 : x->path, trace_format_name(x->format), x->events, x->tasks);
        put_bytes(out, x->bytes);
        buf_puts(out, "\n");
    }
    for (size_t f = 0; f < r->input->steps.file_count; f++) {
        const steps_source *x = &r->input->steps.files[f];
        buf_printf(out, "%s: %zu step records\n", x->path, x->count);
    }
}

static void put_quality(const report *r, size_t which, buf *out)
{
    const analysis *a = &r->analyses[which];
    const group *g = &r->groups->groups[which];
    quality_line lines[QUALITY_MOST];
    size_t n = report_quality(r, which, lines), kept = 0;
    for (size_t i = 0; i < a->step_count; i++)
        kept += a->steps[i].reason == STEP_KEPT;
    buf_printf(out, "rank %d%s: %zu steps by %s", g->rank, g->rank_guessed ? " (not stated)" : "",
               a->step_count, boundary_text(a->boundary));
    if (a->boundary_set != NULL)
        buf_printf(out, " (rules %s)", a->boundary_set);
    buf_printf(out, ", %zu kept; %zu tasks, %zu graph replays\n", kept, a->graph.count,
               a->graph.replay_count);
    if (a->step_count > 0)
        buf_printf(out, "  sums: the parts of %zu of %zu steps add up to their wall time to the nanosecond\n",
                   a->sums_checked - a->sums_wrong, a->sums_checked);
    if (a->graph.count > 0)
        buf_printf(out,
                   "  stages of tasks: %zu by the file's own word, %zu by graph, %zu by order or name, %zu "
                   "unknown\n",
                   a->phases_annotated, a->phases_by_graph, a->phases_by_order, a->phases_none);
    for (int warning = 1; warning >= 0; warning--)
        for (size_t i = 0; i < n; i++)
            if (lines[i].warning == (warning == 1))
                buf_printf(out, "  %s %s\n", warning == 1 ? "!" : "·", lines[i].text);
}

/* ---- screen 2 --------------------------------------------------------------------------------- */

/* A column of the table of steps: a phase, or another figure. */
typedef struct {
    const char *title;
    int phase; /* -1: by `what` */
    int what;
} column;

enum { WHAT_PEER, WHAT_TRANSFER };

static const column columns[] = {
    { "draft", PHASE_DRAFT, 0 },       { "plan", PHASE_PLAN, 0 },       { "verify", PHASE_TARGET_VERIFY, 0 },
    { "decode", PHASE_DECODE, 0 },     { "prefill", PHASE_PREFILL, 0 }, { "accept", PHASE_ACCEPT, 0 },
    { "sync", PHASE_SYNC, 0 },         { "commit", PHASE_COMMIT, 0 },   { "extend", PHASE_DRAFT_EXTEND, 0 },
    { "tail", PHASE_EAGER_TAIL, 0 },   { "peer wait", -1, WHAT_PEER },  { "transfer", -1, WHAT_TRANSFER },
    { "host gap", PHASE_HOST_GAP, 0 }, { "idle", PHASE_IDLE, 0 },       { "unattr.", PHASE_UNATTRIBUTED, 0 },
};
enum { COLUMNS = sizeof columns / sizeof *columns };

static int64_t step_value(const step *s, const column *c)
{
    return c->phase >= 0 ? s->phases_ns[c->phase] : c->what == WHAT_PEER ? s->peer_ns : s->transfer_ns;
}

static int64_t bucket_value(const bucket *b, const column *c)
{
    return c->phase >= 0 ? b->phases_ns[c->phase] : c->what == WHAT_PEER ? b->peer_ns : b->transfer_ns;
}

/* Columns that are zero everywhere are not shown. */
static void choose_columns(const analysis *a, bool shown[COLUMNS])
{
    for (int c = 0; c < COLUMNS; c++) {
        shown[c] = false;
        for (size_t i = 0; i < a->step_count; i++)
            shown[c] = shown[c] || step_value(&a->steps[i], &columns[c]) > 0;
    }
}

static void put_titles(const bool shown[COLUMNS], const char *first, buf *out)
{
    buf_printf(out, "%-22s %9s", first, "wall");
    for (int c = 0; c < COLUMNS; c++)
        if (shown[c])
            buf_printf(out, " %9s", columns[c].title);
    buf_printf(out, " %7s %9s\n", "tokens", "TPOT");
}

static void put_commit(double length, int64_t tpot, buf *out)
{
    if (length > 0)
        buf_printf(out, " %7.2f %9.3f\n", length, ms(tpot));
    else
        buf_printf(out, " %7s %9s\n", "-", "-");
}

static void put_steps(const report *r, const analysis *a, const bool shown[COLUMNS], buf *out)
{
    enum { FEW = 12 };
    size_t rows = 0;
    put_titles(shown, "step", out);
    for (size_t i = 0; i < a->step_count; i++) {
        const step *s = &a->steps[i];
        char name[64];
        if (r->only_step >= 0 ? (size_t)r->only_step != i : rows >= FEW)
            continue;
        rows++;
        const char *label = names_text(&a->graph.s->names, s->label);
        if (s->round >= 0)
            snprintf(name, sizeof name, "%zu round %" PRId64, i, s->round);
        else
            snprintf(name, sizeof name, "%zu %s", i, label);
        if (strlen(name) > 20)
            strcpy(name + 19, "…");
        buf_printf(out, "%-*s%c %9.3f", 21 + (int)(strlen(name) > 20 ? 2 : 0), name,
                   s->reason == STEP_KEPT ? ' ' : '*', ms(s->end - s->start));
        for (int c = 0; c < COLUMNS; c++)
            if (shown[c])
                buf_printf(out, " %9.3f", ms(step_value(s, &columns[c])));
        int64_t tpot = s->commit_length > 0 ? (int64_t)((double)(s->end - s->start) / s->commit_length) : 0;
        put_commit(s->commit_length, tpot, out);
    }
    if (r->only_step < 0 && a->step_count > rows)
        buf_printf(out, "… %zu more steps (--report csv has all; --step N shows one)\n",
                   a->step_count - rows);
}

static void put_buckets(const analysis *a, const bool shown[COLUMNS], buf *out)
{
    buf_puts(out, "\n");
    put_titles(shown, "bucket, medians", out);
    for (size_t b = 0; b < a->bucket_count; b++) {
        const bucket *k = &a->buckets[b];
        char name[64];
        snprintf(name, sizeof name, "%.40s x%u", names_text(&a->graph.s->names, k->key), k->steps);
        buf_printf(out, "%-22s %9.3f", name, ms(k->wall_median));
        for (int c = 0; c < COLUMNS; c++)
            if (shown[c])
                buf_printf(out, " %9.3f", ms(bucket_value(k, &columns[c])));
        put_commit(k->commit_length, k->tpot_ns, out);
    }
    for (size_t b = 0; b < a->bucket_count; b++) {
        const bucket *k = &a->buckets[b];
        size_t rows = 0;
        for (int p = 0; p < PHASE_COUNT; p++)
            rows += k->stages[p].tasks > 0 || k->gap_before_ns[p] > 0;
        if (rows == 0)
            continue;
        buf_printf(out, "\n%-22s %9s %9s %9s %9s %10s %6s   (%s: three numbers that differ on purpose)\n",
                   "stage", "elapsed", "busy", "sum", "on path", "gap before", "tasks",
                   names_text(&a->graph.s->names, k->key));
        for (int p = 0; p < PHASE_COUNT; p++) {
            const stage_figures *f = &k->stages[p];
            if (f->tasks == 0 && k->gap_before_ns[p] == 0)
                continue;
            buf_printf(out, "%-22s %9.3f %9.3f %9.3f %9.3f %10.3f %6u\n", phase_name((phase)p),
                       ms(f->elapsed_ns), ms(f->busy_ns), ms(f->sum_ns), ms(f->path_ns),
                       ms(k->gap_before_ns[p]), f->tasks);
        }
        if (k->comm_ns > 0)
            buf_printf(out,
                       "communication: %.3f in flight, %.3f exposed (%.3f waiting for peers, %.3f transfer), "
                       "%.3f hidden\n",
                       ms(k->comm_ns), ms(k->peer_ns + k->transfer_ns), ms(k->peer_ns), ms(k->transfer_ns),
                       ms(k->hidden_comm_ns));
    }
}

/* ---- screen 3 --------------------------------------------------------------------------------- */

/* The step whose path is shown: the one asked for, else the kept one nearest to the median of the largest bucket. */
size_t report_shown_step(const report *r, const analysis *a)
{
    if (r->only_step >= 0 && (size_t)r->only_step < a->step_count)
        return (size_t)r->only_step;
    size_t best = 0, most = 0;
    for (size_t b = 0; b < a->bucket_count; b++)
        if (a->buckets[b].steps > most) {
            most = a->buckets[b].steps;
            best = b;
        }
    size_t chosen = SIZE_MAX;
    int64_t least = INT64_MAX;
    for (size_t i = 0; i < a->step_count; i++) {
        if (most == 0 || a->steps[i].bucket != (int)best)
            continue;
        int64_t off = llabs(a->steps[i].end - a->steps[i].start - a->buckets[best].wall_median);
        if (off < least) {
            least = off;
            chosen = i;
        }
    }
    return chosen != SIZE_MAX ? chosen : a->step_count > 0 ? 0 : SIZE_MAX;
}

/* Segments that are told in one line: those of a stage's own work, or equal ones. */
static bool joins_line(const segment *first, const segment *next)
{
    bool work = first->kind == SEGMENT_TASK || first->kind == SEGMENT_DISPATCH ||
                first->kind == SEGMENT_HANDOVER || first->kind == SEGMENT_RESOURCE;
    bool next_work = next->kind == SEGMENT_TASK || next->kind == SEGMENT_DISPATCH ||
                     next->kind == SEGMENT_HANDOVER || next->kind == SEGMENT_RESOURCE;
    if (first->owner != next->owner)
        return false;
    return (work && next_work) || (first->kind == next->kind && first->words == next->words);
}

/* The longest segment of a stretch names it. */
static const segment *longest_of(const analysis *a, size_t first, size_t n)
{
    const segment *best = path_at(a, first);
    for (size_t i = 1; i < n; i++)
        if (path_at(a, first + i)->to - path_at(a, first + i)->from > best->to - best->from)
            best = path_at(a, first + i);
    return best;
}

static void put_path_line(const analysis *a, const step *s, size_t first, size_t n, buf *out)
{
    const segment *top = longest_of(a, first, n), *head = path_at(a, first);
    int64_t ns = path_at(a, first + n - 1)->to - head->from;
    char name[64];
    size_t tasks = 0;
    for (size_t i = 0; i < n; i++)
        tasks += path_at(a, first + i)->kind == SEGMENT_TASK || path_at(a, first + i)->kind == SEGMENT_COMM;
    report_short_name(names_text(&a->graph.s->names, top->words), name, sizeof name);
    buf_printf(out, "%10.3f %+10.3f  %-14s", ms(head->from - s->start), ms(ns),
               phase_name((phase)head->phase));
    if (head->kind == SEGMENT_HOST || head->kind == SEGMENT_LAUNCH || head->kind == SEGMENT_RETURN)
        buf_printf(out, " %s before %s: %s", segment_kind_name((segment_kind)head->kind),
                   phase_name((phase)head->owner), name);
    else if (tasks > 1)
        buf_printf(out, " %zu tasks, the longest %s %.3f", tasks, name, ms(top->to - top->from));
    else
        buf_printf(out, " %s %s", segment_kind_name((segment_kind)top->kind), name);
    if (top->how == HOW_INFERRED)
        buf_puts(out, " (inferred)");
    buf_puts(out, "\n");
}

static void put_path(const report *r, const analysis *a, buf *out)
{
    enum { LINES = 28 };
    size_t number = report_shown_step(r, a);
    if (number == SIZE_MAX)
        return;
    const step *s = &a->steps[number];
    buf_printf(out, "step %zu, %.3f ms%s\n%10s %10s\n", number, ms(s->end - s->start),
               r->only_step < 0 ? " (nearest to its bucket's median)" : "", "at", "for");
    size_t lines = 0;
    for (size_t i = 0; i < s->segments && lines <= LINES;
         i++) /* small stretches are told only where there is room */
        lines +=
            i == 0 || !joins_line(path_at(a, s->first_segment + i - 1), path_at(a, s->first_segment + i));
    int64_t least = lines > LINES ? (s->end - s->start) / 200 : 0, left = 0;
    size_t left_lines = 0;
    for (size_t i = 0; i < s->segments;) {
        size_t n = 1;
        while (i + n < s->segments &&
               joins_line(path_at(a, s->first_segment + i), path_at(a, s->first_segment + i + n)))
            n++;
        int64_t ns = path_at(a, s->first_segment + i + n - 1)->to - path_at(a, s->first_segment + i)->from;
        if (ns >= least) {
            put_path_line(a, s, s->first_segment + i, n, out);
        } else {
            left += ns;
            left_lines++;
        }
        i += n;
    }
    if (left_lines > 0)
        buf_printf(out, "%10s %+10.3f  in %zu stretches shorter than %.3f\n", "", ms(left), left_lines,
                   ms(least));
}

/* What the host did in the gaps of the shown step, summed by words. */
static void put_host_work(const report *r, const analysis *a, buf *out)
{
    enum { KINDS = 256, SHOWN = 10 };
    struct {
        uint32_t words;
        uint8_t owner;
        int64_t ns;
    } list[KINDS];
    size_t number = report_shown_step(r, a), n = 0;
    int64_t total = 0;
    if (number == SIZE_MAX)
        return;
    const step *s = &a->steps[number];
    for (size_t i = 0; i < s->segments; i++) {
        const segment *x = path_at(a, s->first_segment + i);
        if (x->phase != PHASE_HOST_GAP)
            continue;
        uint32_t words = x->words;
        size_t k = 0;
        while (k < n && (list[k].words != words || list[k].owner != x->owner))
            k++;
        if (k == KINDS)
            continue;
        if (k == n) {
            n++;
            list[k].words = words;
            list[k].owner = x->owner;
            list[k].ns = 0;
        }
        list[k].ns += x->to - x->from;
        total += x->to - x->from;
    }
    if (total < (s->end - s->start) / 50)
        return;
    buf_printf(out, "\nhost gap of step %zu: %.3f ms, by what the thread was doing\n", number, ms(total));
    for (size_t shown = 0; shown < SHOWN && shown < n; shown++) {
        size_t top = shown;
        for (size_t k = shown + 1; k < n; k++)
            if (list[k].ns > list[top].ns)
                top = k;
        uint32_t words = list[top].words;
        uint8_t owner = list[top].owner;
        int64_t ns = list[top].ns;
        list[top] = list[shown];
        buf_printf(out, "  %10.3f  before %-14s %.70s\n", ms(ns), phase_name((phase)owner),
                   names_text(&a->graph.s->names, words));
    }
}

static int compare_forks(const void *a, const void *b)
{
    const fork_join *x = *(const fork_join *const *)a, *y = *(const fork_join *const *)b;
    return x->slack_sum < y->slack_sum ? 1 : x->slack_sum > y->slack_sum ? -1 : 0;
}

static void put_forks(const analysis *a, buf *out)
{
    enum { MOST = 512, SHOWN = 8 };
    const fork_join *list[MOST];
    size_t n = 0;
    const task_graph *g = &a->graph;
    for (size_t i = 0; i < a->fork_count && n < MOST; i++)
        list[n++] = &a->forks[i];
    if (n == 0)
        return;
    qsort(list, n, sizeof *list, compare_forks);
    buf_puts(out, "\njoins: the branch that came last, and how much slack the other one had\n");
    for (size_t i = 0; i < n && i < SHOWN; i++) {
        char join[40], won[40], lost[40];
        report_short_name(task_name(g, &g->tasks[list[i]->join]), join, sizeof join);
        report_short_name(task_name(g, &g->tasks[list[i]->won]), won, sizeof won);
        report_short_name(task_name(g, &g->tasks[list[i]->lost]), lost, sizeof lost);
        buf_printf(out, "  %4ux %s waits for %s; %s had %.3f ms to spare (mean, %s)\n", list[i]->count, join,
                   won, lost, ms(list[i]->slack_sum / list[i]->count), evidence_name((evidence)list[i]->how));
    }
}

static void put_what_ifs(const analysis *a, buf *out)
{
    enum { SHOWN = 8 };
    if (a->what_if_count == 0)
        return;
    buf_puts(out, "\nwhat if (the kept steps run again with the same edges; mean per step)\n");
    for (size_t i = 0; i < a->what_if_count && i < SHOWN; i++) {
        char name[80];
        report_what_if(&a->what_ifs[i], name, sizeof name);
        buf_printf(out, "  %-40s −%.3f ms per step", name, ms(a->what_ifs[i].saved_ns));
        if (a->what_ifs[i].token_ns > 0)
            buf_printf(out, ", −%.3f ms per token", ms(a->what_ifs[i].token_ns));
        buf_puts(out, "\n");
    }
}

/* Who was waited for, and what that rank was doing. */
static void put_peers(const analysis *a, buf *out)
{
    enum { SHOWN = 8 };
    size_t kept = 0;
    for (size_t i = 0; i < a->step_count; i++)
        kept += a->steps[i].reason == STEP_KEPT;
    if (a->peer_count == 0 || kept == 0)
        return;
    buf_puts(out, "\npeers: who was waited for (ms)\n");
    for (size_t i = 0; i < a->peer_count && i < SHOWN; i++) {
        const peer_charge *c = &a->peers[i];
        buf_printf(out, "  rank %d: %.3f per step on the path, %.3f in all waits (%s)", c->rank,
                   ms(c->path_ns / (int64_t)kept), ms(c->all_ns),
                   c->exact ? "the waits say so" : "it came last, by aligned clocks");
        if (!c->given) {
            buf_puts(out, "; what it did then is not in these files\n");
            continue;
        }
        int top, stage;
        ranks_late_in(c, &top, &stage);
        char name[48];
        report_short_name(names_text(&a->graph.s->names, c->longest_words), name, sizeof name);
        buf_printf(out, "\n      meanwhile it was in %s of %s (%.3f); its longest stretch: %s %.3f\n",
                   phase_name((phase)top), phase_name((phase)stage), ms(c->phases_ns[top]), name,
                   ms(c->longest_ns));
    }
}

/* What is wrong, what it costs, and what to look at next. */
static void put_symptoms(const analysis *a, buf *out)
{
    symptom list[SYMPTOM_MOST];
    size_t n;
    foray_error err;
    if (a->bucket_count == 0 || symptoms_find(a, list, &n, &err) != FORAY_OK)
        return;
    headline(out, "symptoms, and what to check next (ms, mean of the kept steps)");
    if (n == 0)
        buf_printf(out, "none that takes %.3f ms and %d %% of a step\n", ms(SYMPTOM_LEAST_NS),
                   SYMPTOM_LEAST_PERCENT);
    for (size_t i = 0; i < n; i++) {
        const symptom *s = &list[i];
        char title[80];
        symptom_title(s, title, sizeof title);
        buf_printf(out, "%s: %.3f per step (%.1f %%)", title, ms(s->step_ns), s->share * 100);
        if (s->token_ns > 0)
            buf_printf(out, ", %.3f per token", ms(s->token_ns));
        if (s->hidden_ns > 0)
            buf_printf(out, "; %.3f more is hidden", ms(s->hidden_ns));
        for (size_t k = 0; k < s->parts; k++) {
            char name[48];
            report_short_name(names_text(&a->graph.s->names, s->part[k]), name, sizeof name);
            buf_printf(out, "%s %s %.3f", k == 0 ? "; mostly" : ",", name, ms(s->part_ns[k]));
        }
        buf_puts(out, "\n");
        for (size_t k = 0; k < SYMPTOM_CHECKS && s->check[k] != NULL; k++)
            buf_printf(out, "    check: %s\n", s->check[k]);
    }
}

/* The symptoms, told beside the path. */
typedef struct {
    const analysis *a;
    buf text;
} symptom_text;

static void tell_symptoms(void *user)
{
    symptom_text *t = user;
    put_symptoms(t->a, &t->text);
}

static void put_screen_three(const report *r, const analysis *a, buf *out)
{
    symptom_text symptoms = { .a = a };
    beside second;
    beside_start(&second, beside_worth(path_count(a)), tell_symptoms, &symptoms);
    headline(out, "the critical path (ms)");
    put_path(r, a, out);
    put_host_work(r, a, out);
    put_forks(a, out);
    put_peers(a, out);
    put_what_ifs(a, out);
    beside_wait(&second);
    if (symptoms.text.len > 0)
        buf_append(out, symptoms.text.data, symptoms.text.len);
    out->failed = out->failed || symptoms.text.failed;
    buf_free(&symptoms.text);
}

/* A graph-mode cycle, as one would tabulate it by hand. */
static void put_cycle(const analysis *a, buf *out)
{
    graph_cycle c;
    foray_error err;
    if (cycle_measure(a, &c, &err) != FORAY_OK || c.steps == 0)
        return;
    bool whole = a->boundary == BOUNDARY_WHOLE;
    buf_printf(out, "\n%s %.3f ms (", whole ? "no cycle found, the whole file:" : "cycle", ms(c.wall_ns));
    buf_printf(out, c.kept ? "median of %zu" : "of %zu, left out of the medians below", c.steps);
    buf_printf(out, "); host from first to last launch %.3f ms; launches outside graphs %" PRId64 "\n",
               ms(c.host_ns), c.eager_launches);
    buf_printf(out, "%-22s %7s %12s %9s %9s %9s\n", "graph", "nodes", "launch call", "span", "busy", "sum");
    for (size_t i = 0; i < c.graphs; i++) {
        const cycle_graph *g = &c.graph[i];
        char name[48];
        if (g->place < 0)
            snprintf(name, sizeof name, "%s in %" PRId64, phase_name((phase)g->phase), g->pieces);
        else if (g->place > 0)
            snprintf(name, sizeof name, "%s %d", phase_name((phase)g->phase), g->place + 1);
        else
            snprintf(name, sizeof name, "%s", phase_name((phase)g->phase));
        buf_printf(out, "%-22s %7" PRId64 " %12.3f %9.3f %9.3f %9.3f\n", name, g->nodes, ms(g->launch_ns),
                   ms(g->span_ns), ms(g->busy_ns), ms(g->sum_ns));
    }
}

void report_text(const report *r, buf *out)
{
    size_t first = report_first_group(r);
    buf_puts(out, "trace quality: what can be trusted\n");
    put_files(r, out);
    for (size_t i = 0; i < r->count; i++)
        put_quality(r, i, out);
    if (r->input->notes.len > 0)
        buf_printf(out, "passed over:\n%s", r->input->notes.data);
    if (first == SIZE_MAX)
        return;
    const analysis *a = &r->analyses[first];
    bool shown[COLUMNS];
    put_cycle(a, out);
    choose_columns(a, shown);
    headline(out, "where the time of a step goes (ms; phases add up to the wall; tokens per request)");
    if (r->count > 1)
        buf_printf(out, "rank %d\n", r->groups->groups[first].rank);
    put_steps(r, a, shown, out);
    bool left_out = false;
    for (size_t i = 0; i < a->step_count; i++)
        left_out = left_out || a->steps[i].reason != STEP_KEPT;
    if (left_out)
        buf_puts(out, "* not in the medians, for the reasons above\n");
    put_buckets(a, shown, out);
    if (path_count(a) > 0)
        put_screen_three(r, a, out);
}
