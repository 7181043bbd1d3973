/* report_html.c: one page that needs nothing else: the tables, and a timeline that can be zoomed.
 *
 * All steps are in the tables; the tasks and the path are in the page for a few steps around the one shown first, up to
 * MOST_TASKS, so that a page stays small whatever the trace was. Texts go in as JSON and reach the page as text nodes: a
 * kernel's name can never become markup.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "timeline/cycle.h"
#include "timeline/ranks.h"
#include "timeline/report.h"
#include "timeline/report_page.inc"
#include "timeline/symptoms.h"

enum { MOST_TASKS = 30000, MOST_STEPS_SHOWN = 40 };

/* Names used by the page, numbered in the order of their first use. */
typedef struct {
    const store *s;
    uint32_t *number; /* [names] + 1; 0: not used yet */
    uint32_t *order;  /* [names] */
    size_t count, room;
} page_names;

/* As JSON that is safe inside a script element: "</" must not occur in it. */
static void put_text(buf *out, const char *text)
{
    size_t from = out->len;
    buf_json_string(out, text, strlen(text));
    for (size_t i = from; i + 1 < out->len && !out->failed; i++)
        if (out->data[i] == '<') { /* an escape that JSON and JavaScript both know */
            buf rest = { 0 };
            buf_append(&rest, out->data + i + 1, out->len - i - 1);
            out->len = i;
            buf_puts(out, "\\u003c");
            buf_append(out, rest.data != NULL ? rest.data : "", rest.len);
            buf_free(&rest);
            i += 5;
        }
}

static uint32_t use_name(page_names *n, uint32_t name)
{
    if (n->number[name] == 0) {
        n->order[n->count] = name;
        n->number[name] = (uint32_t)++n->count;
    }
    return n->number[name] - 1;
}

static void put_phases(buf *out, const int64_t *ns)
{
    const char *between = "";
    buf_puts(out, ",\"phases\":{");
    for (int p = 0; p < PHASE_COUNT; p++)
        if (ns[p] != 0) {
            buf_printf(out, "%s\"%s\":%" PRId64, between, phase_name((phase)p), ns[p]);
            between = ",";
        }
    buf_puts(out, "}");
}

/* What was read, one text a file. */
static void put_files(const trace_input *in, buf *out)
{
    const char *between = "";
    buf_puts(out, "{\"files\":[");
    for (size_t i = 0; i < in->events.part_count + in->steps.file_count; i++) {
        const part *p = i < in->events.part_count ? &in->events.parts[i] : NULL;
        if (p != NULL && p->format == FORMAT_UNKNOWN)
            continue;
        const char *path = p != NULL ? p->path : in->steps.files[i - in->events.part_count].path,
                   *slash = strrchr(path, '/');
        buf_puts(out, between);
        put_text(out, slash != NULL ? slash + 1 : path);
        between = ",";
    }
    buf_puts(out, "]");
}

static void put_quality(const report *r, buf *out)
{
    buf_puts(out, ",\"quality\":[");
    for (size_t i = 0; i < r->count; i++) {
        quality_line lines[QUALITY_MOST];
        const analysis *a = &r->analyses[i];
        size_t n = report_quality(r, i, lines);
        buf_printf(out,
                   "%s{\"title\":\"rank %d: %zu steps, %zu tasks, %zu graph replays; the parts of %zu of %zu "
                   "steps add up to the nanosecond\",\"lines\":[",
                   i != 0 ? "," : "", r->groups->groups[i].rank, a->step_count, a->graph.count,
                   a->graph.replay_count, a->sums_checked - a->sums_wrong, a->sums_checked);
        for (size_t k = 0; k < n; k++) {
            buf_printf(out, "%s{\"warning\":%s,\"text\":", k != 0 ? "," : "",
                       lines[k].warning ? "true" : "false");
            put_text(out, lines[k].text);
            buf_puts(out, "}");
        }
        buf_puts(out, "]}");
    }
    buf_puts(out, "]");
}

static void put_lists(buf *out)
{
    buf_puts(out, ",\"phases\":[");
    for (int p = 0; p < PHASE_COUNT; p++)
        buf_printf(out, "%s\"%s\"", p != 0 ? "," : "", phase_name((phase)p));
    buf_puts(out, "],\"kinds\":[");
    for (int k = 0; k < SEGMENT_KINDS; k++)
        buf_printf(out, "%s\"%s\"", k != 0 ? "," : "", segment_kind_name((segment_kind)k));
    buf_puts(out, "],\"taskkinds\":[");
    for (int k = 0; k < EVENT_KINDS; k++)
        buf_printf(out, "%s\"%s\"", k != 0 ? "," : "", event_kind_name((event_kind)k));
    buf_puts(out, "],\"how\":[");
    for (int k = HOW_NONE; k <= HOW_EXACT; k++)
        buf_printf(out, "%s\"%s\"", k != 0 ? "," : "", evidence_name((evidence)k));
    buf_puts(out, "]");
}

static void put_tables(const analysis *a, buf *out)
{
    buf_puts(out, ",\"steps\":[");
    for (size_t i = 0; i < a->step_count; i++) {
        const step *s = &a->steps[i];
        buf_printf(out,
                   "%s{\"index\":%zu,\"wall\":%" PRId64 ",\"commit\":%.4f,\"label\":", i != 0 ? ",\n" : "", i,
                   s->end - s->start, s->commit_length);
        put_text(out, names_text(&a->graph.s->names, s->label));
        put_phases(out, s->phases_ns);
        if (s->reason != STEP_KEPT)
            buf_printf(out, ",\"reason\":\"%s\"", step_reason_text((step_reason)s->reason));
        buf_puts(out, "}");
    }
    buf_puts(out, "],\"buckets\":[");
    for (size_t b = 0; b < a->bucket_count; b++) {
        const bucket *k = &a->buckets[b];
        buf_printf(out, "%s{\"steps\":%u,\"wall\":%" PRId64 ",\"commit\":%.4f,\"name\":", b != 0 ? ",\n" : "",
                   k->steps, k->wall_median, k->commit_length);
        put_text(out, names_text(&a->graph.s->names, k->key));
        put_phases(out, k->phases_ns);
        buf_puts(out, ",\"stages\":[");
        const char *between = "";
        for (int p = 0; p < PHASE_COUNT; p++) {
            const stage_figures *f = &k->stages[p];
            if (f->tasks == 0 && k->gap_before_ns[p] == 0)
                continue;
            buf_printf(out,
                       "%s{\"stage\":\"%s\",\"elapsed\":%" PRId64 ",\"busy\":%" PRId64 ",\"sum\":%" PRId64
                       ",\"path\":%" PRId64 ",\"gap\":%" PRId64 ",\"tasks\":%u}",
                       between, phase_name((phase)p), f->elapsed_ns, f->busy_ns, f->sum_ns, f->path_ns,
                       k->gap_before_ns[p], f->tasks);
            between = ",";
        }
        buf_puts(out, "]}");
    }
    buf_puts(out, "],\"what\":[");
    for (size_t i = 0; i < a->what_if_count; i++) {
        char name[80];
        report_what_if(&a->what_ifs[i], name, sizeof name);
        buf_printf(out, "%s{\"change\":\"%s\",\"saved\":%" PRId64 ",\"token\":", i != 0 ? "," : "", name,
                   a->what_ifs[i].saved_ns);
        if (a->what_ifs[i].token_ns > 0)
            buf_printf(out, "%" PRId64 "}", a->what_ifs[i].token_ns);
        else
            buf_puts(out, "null}");
    }
    buf_puts(out, "],\"forks\":[");
    const task_graph *g = &a->graph;
    for (size_t i = 0; i < a->fork_count; i++) {
        char name[80];
        const uint32_t of[] = { a->forks[i].join, a->forks[i].won, a->forks[i].lost };
        static const char *const key[] = { "join", "last", "earlier" };
        buf_printf(out, "%s{\"count\":%u,\"slack\":%" PRId64 ",\"evidence\":\"%s\"", i != 0 ? ",\n" : "",
                   a->forks[i].count, a->forks[i].slack_sum / a->forks[i].count,
                   evidence_name((evidence)a->forks[i].how));
        for (int k = 0; k < 3; k++) {
            report_short_name(task_name(g, &g->tasks[of[k]]), name, sizeof name);
            buf_printf(out, ",\"%s\":", key[k]);
            put_text(out, name);
        }
        buf_puts(out, "}");
    }
    buf_puts(out, "]");
}

/* Who was waited for, and what that rank did. */
static void put_peers(const analysis *a, buf *out)
{
    buf_puts(out, ",\"peers\":[");
    for (size_t i = 0; i < a->peer_count; i++) {
        const peer_charge *c = &a->peers[i];
        char name[80] = "not in these files", longest[80] = "";
        if (c->given) {
            int top, stage;
            ranks_late_in(c, &top, &stage);
            snprintf(name, sizeof name, "%s of %s", phase_name((phase)top), phase_name((phase)stage));
            report_short_name(names_text(&a->graph.s->names, c->longest_words), longest, sizeof longest);
        }
        buf_printf(out, "%s[%d,%" PRId64 ",%" PRId64 ",\"%s\",\"%s\",", i != 0 ? "," : "", c->rank,
                   c->path_ns, c->all_ns, c->exact ? "the waits say so" : "it came last", name);
        put_text(out, longest);
        buf_printf(out, ",%" PRId64 "]", c->longest_ns);
    }
    buf_puts(out, "]");
}

/* A graph-mode cycle, for the lines right under the quality head. */
static void put_cycle(const analysis *a, buf *out)
{
    graph_cycle c;
    foray_error err;
    if (cycle_measure(a, &c, &err) != FORAY_OK)
        out->failed = true;
    else if (c.steps > 0) {
        buf_printf(out,
                   ",\"cycle\":{\"steps\":%zu,\"kept\":%s,\"wall\":%" PRId64 ",\"host\":%" PRId64
                   ",\"eager\":%" PRId64 ",\"graphs\":[",
                   c.steps, c.kept ? "true" : "false", c.wall_ns, c.host_ns, c.eager_launches);
        for (size_t i = 0; i < c.graphs; i++)
            buf_printf(
                out, "%s[\"%s\",%d,%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 "]",
                i != 0 ? "," : "", phase_name((phase)c.graph[i].phase), c.graph[i].place, c.graph[i].pieces,
                c.graph[i].nodes, c.graph[i].launch_ns, c.graph[i].span_ns, c.graph[i].busy_ns,
                c.graph[i].sum_ns);
        buf_puts(out, "]}");
    }
}

static void put_symptoms(const analysis *a, buf *out)
{
    symptom list[SYMPTOM_MOST];
    size_t n;
    foray_error err;
    if (symptoms_find(a, list, &n, &err) != FORAY_OK)
        out->failed = true;
    buf_puts(out, ",\"symptoms\":[");
    for (size_t i = 0; i < n; i++) {
        char name[80];
        symptom_title(&list[i], name, sizeof name);
        buf_printf(out,
                   "%s{\"title\":\"%s\",\"step\":%" PRId64 ",\"share\":%.6f,\"token\":", i != 0 ? ",\n" : "",
                   name, list[i].step_ns, list[i].share);
        if (list[i].token_ns > 0)
            buf_printf(out, "%" PRId64, list[i].token_ns);
        else
            buf_puts(out, "null");
        buf_puts(out, ",\"mostly\":[");
        for (size_t k = 0; k < list[i].parts; k++) {
            report_short_name(names_text(&a->graph.s->names, list[i].part[k]), name, sizeof name);
            buf_puts(out, k != 0 ? "," : "");
            put_text(out, name);
        }
        buf_puts(out, "],\"check\":[");
        for (size_t k = 0; k < SYMPTOM_CHECKS && list[i].check[k] != NULL; k++) {
            buf_puts(out, k != 0 ? "," : "");
            put_text(out, list[i].check[k]);
        }
        buf_puts(out, "]}");
    }
    buf_puts(out, "]");
}

/* The tasks of a lane that touch a step, relative to its start. on_path: [tasks] bits. */
static void put_lane(const analysis *a, const step *s, size_t l, const uint8_t *on_path, page_names *n,
                     const char **between, buf *out)
{
    const task_graph *g = &a->graph;
    bool opened = false;
    for (size_t i = g->lane_first[l]; i < g->lane_first[l + 1]; i++) {
        uint32_t index = g->by_lane[i];
        const task *x = &g->tasks[index];
        if (x->start >= s->end)
            break;
        if (x->end <= s->start)
            continue;
        if (!opened) {
            buf_printf(out, "%s{\"name\":", *between);
            put_text(out, store_lane_name(g->s, l));
            buf_puts(out, ",\"tasks\":[");
        }
        buf_printf(out, "%s[%" PRId64 ",%" PRId64 ",%u,%u,%u,%u]", opened ? "," : "", x->start - s->start,
                   x->end - x->start, use_name(n, x->name), x->phase, x->kind, on_path[index] != 0);
        opened = true;
    }
    if (opened) {
        buf_puts(out, "]}");
        *between = ",";
    }
}

static void put_shown(const analysis *a, size_t i, const uint8_t *on_path, page_names *n, buf *out)
{
    const step *s = &a->steps[i];
    buf_printf(out, "{\"index\":%zu,\"path\":[", i);
    for (size_t k = 0; k < s->segments; k++) {
        const segment *x = path_at(a, s->first_segment + k);
        buf_printf(out, "%s[%" PRId64 ",%" PRId64 ",%u,%u,%u,%u,%u]", k != 0 ? "," : "", x->from - s->start,
                   x->to - x->from, x->phase, x->kind, x->owner, use_name(n, x->words), x->how);
    }
    buf_puts(out, "],\"lanes\":[");
    const char *between = "";
    for (size_t l = 0; a->graph.lane_first != NULL && l < a->graph.t->lanes; l++)
        put_lane(a, s, l, on_path, n, &between, out);
    buf_puts(out, "]}");
}

/* The steps whose tasks are in the page: around the first one shown, while there is room. */
static void put_timeline(const report *r, const analysis *a, buf *out)
{
    size_t first = report_shown_step(r, a);
    page_names n = { .s = a->graph.s, .room = a->graph.s->names.count };
    n.number = mem_alloc_zeroed(MEM_RECORDS, n.room * sizeof *n.number);
    n.order = mem_alloc(MEM_RECORDS, n.room * sizeof *n.order);
    uint8_t *on_path = mem_alloc_zeroed(MEM_RECORDS, a->graph.count + 1);
    if (n.number == NULL || n.order == NULL || on_path == NULL) {
        out->failed = true;
    } else {
        for (size_t k = 0; k < path_count(a); k++)
            if (path_at(a, k)->task != 0 && path_at(a, k)->kind <= SEGMENT_WAIT)
                on_path[path_at(a, k)->task - 1] = 1;
        size_t put = 0, shown = 0;
        buf_printf(out, ",\"first\":%zu,\"shown\":[", first == SIZE_MAX ? 0 : first);
        for (size_t away = 0; first != SIZE_MAX && away < a->step_count && shown < MOST_STEPS_SHOWN; away++) {
            for (int side = 0; side < (away == 0 ? 1 : 2); side++) {
                size_t i = side == 0 ? first + away : first - away;
                if (i >= a->step_count || (side == 1 && away > first) ||
                    (r->only_step >= 0 && (size_t)r->only_step != i))
                    continue;
                size_t tasks = a->steps[i].segments;
                for (int p = 0; p < PHASE_COUNT; p++)
                    tasks += a->steps[i].stages[p].tasks;
                if (shown > 0 && put + tasks > MOST_TASKS)
                    continue;
                put += tasks;
                buf_puts(out, shown++ > 0 ? ",\n" : "");
                put_shown(a, i, on_path, &n, out);
            }
        }
        buf_puts(out, "],\"names\":[");
        for (size_t k = 0; k < n.count; k++) {
            char name[120];
            report_short_name(names_text(&n.s->names, n.order[k]), name, sizeof name);
            buf_puts(out, k != 0 ? "," : "");
            put_text(out, name);
        }
        buf_puts(out, "]");
    }
    mem_free(MEM_RECORDS, n.number, n.room * sizeof *n.number);
    mem_free(MEM_RECORDS, n.order, n.room * sizeof *n.order);
    mem_free(MEM_RECORDS, on_path, a->graph.count + 1);
}

void report_html(const report *r, buf *out)
{
    size_t first = report_first_group(r);
    buf_puts(out, page_head);
    put_files(r->input, out);
    put_quality(r, out);
    put_lists(out);
    if (first != SIZE_MAX) {
        put_tables(&r->analyses[first], out);
        put_symptoms(&r->analyses[first], out);
        put_peers(&r->analyses[first], out);
        put_cycle(&r->analyses[first], out);
        put_timeline(r, &r->analyses[first], out);
    } else {
        buf_puts(
            out,
            ",\"steps\":[],\"buckets\":[],\"what\":[],\"forks\":[],\"symptoms\":[],\"peers\":[],\"first\":0,"
            "\"shown\":[],\"names\":[]");
    }
    buf_puts(out, "}");
    buf_puts(out, page_tail);
}
