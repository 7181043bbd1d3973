/* report_json.c: the report for programs: quality, steps, buckets, path, forks; times are integer ns. */
#include <inttypes.h>
#include <string.h>

#include "timeline/cycle.h"
#include "timeline/report.h"
#include "timeline/symptoms.h"

static void put_text(buf *out, const char *text)
{
    buf_json_string(out, text, strlen(text));
}

static void put_phases(buf *out, const char *key, const int64_t *ns)
{
    buf_printf(out, ",\"%s\":{", key);
    for (int p = 0; p < PHASE_COUNT; p++)
        buf_printf(out, "%s\"%s\":%" PRId64, p != 0 ? "," : "", phase_name((phase)p), ns[p]);
    buf_puts(out, "}");
}

static void put_stages(buf *out, const stage_figures *stages)
{
    const char *between = "";
    buf_puts(out, ",\"stages\":{");
    for (int p = 0; p < PHASE_COUNT; p++) {
        const stage_figures *f = &stages[p];
        if (f->tasks == 0)
            continue;
        buf_printf(out,
                   "%s\"%s\":{\"elapsed_ns\":%" PRId64 ",\"busy_ns\":%" PRId64 ",\"kernel_sum_ns\":%" PRId64
                   ",\"path_ns\":%" PRId64 ",\"tasks\":%u}",
                   between, phase_name((phase)p), f->elapsed_ns, f->busy_ns, f->sum_ns, f->path_ns, f->tasks);
        between = ",";
    }
    buf_puts(out, "}");
}

static void put_length(buf *out, double length, int64_t tpot)
{
    buf_puts(out, ",\"commit_length\":");
    if (length > 0)
        buf_printf(out, "%.4f,\"tpot_ns\":%" PRId64, length, tpot);
    else
        buf_puts(out, "null,\"tpot_ns\":null");
}

static void put_step(const analysis *a, size_t i, int rank, int64_t base, buf *out)
{
    const step *s = &a->steps[i];
    buf_printf(out, "{\"index\":%zu,\"rank\":%d,\"label\":", i, rank);
    put_text(out, names_text(&a->graph.s->names, s->label));
    buf_printf(out,
               ",\"round\":%" PRId64 ",\"start_ns\":%" PRId64 ",\"wall_ns\":%" PRId64
               ",\"kept\":%s,\"reason\":",
               s->round, s->start + base, s->end - s->start, s->reason == STEP_KEPT ? "true" : "false");
    if (s->reason == STEP_KEPT)
        buf_puts(out, "null");
    else
        put_text(out, step_reason_text((step_reason)s->reason));
    buf_printf(out, ",\"prefill\":%s,\"requests\":%d,\"rows\":%d,\"keys\":%" PRId64 ",\"bucket\":",
               s->prefill ? "true" : "false", s->requests, s->rows, s->keys);
    if (s->bucket >= 0)
        put_text(out, names_text(&a->graph.s->names, a->buckets[s->bucket].key));
    else
        buf_puts(out, "null");
    put_phases(out, "phases_ns", s->phases_ns);
    put_phases(out, "gap_before_ns", s->gap_before_ns);
    put_stages(out, s->stages);
    buf_printf(out,
               ",\"peer_wait_ns\":%" PRId64 ",\"transfer_ns\":%" PRId64 ",\"comm_ns\":%" PRId64
               ",\"hidden_comm_ns\":%" PRId64 ",\"inferred_ns\":%" PRId64
               ",\"graph_nodes\":%u,\"graph_launch_ns\":%" PRId64 ",\"replays\":%u,\"eager_launches\":%u",
               s->peer_ns, s->transfer_ns, s->comm_ns, s->hidden_comm_ns, s->inferred_ns, s->graph_nodes,
               s->launch_call_ns, s->replays, s->eager_launches);
    put_length(out, s->commit_length,
               s->commit_length > 0 ? (int64_t)((double)(s->end - s->start) / s->commit_length) : 0);
    buf_puts(out, "}");
}

static void put_bucket(const analysis *a, const bucket *k, int rank, buf *out)
{
    buf_puts(out, "{\"bucket\":");
    put_text(out, names_text(&a->graph.s->names, k->key));
    buf_printf(out,
               ",\"rank\":%d,\"steps\":%u,\"wall_ns\":%" PRId64 ",\"wall_low_ns\":%" PRId64
               ",\"wall_high_ns\":%" PRId64,
               rank, k->steps, k->wall_median, k->wall_low, k->wall_high);
    put_phases(out, "phases_ns", k->phases_ns);
    put_phases(out, "gap_before_ns", k->gap_before_ns);
    put_stages(out, k->stages);
    buf_printf(out,
               ",\"peer_wait_ns\":%" PRId64 ",\"transfer_ns\":%" PRId64 ",\"comm_ns\":%" PRId64
               ",\"hidden_comm_ns\":%" PRId64,
               k->peer_ns, k->transfer_ns, k->comm_ns, k->hidden_comm_ns);
    put_length(out, k->commit_length, k->tpot_ns);
    buf_puts(out, "}");
}

static void put_segment(const analysis *a, size_t number, const segment *x, int rank, int64_t base, buf *out)
{
    buf_printf(out,
               "{\"step\":%zu,\"rank\":%d,\"start_ns\":%" PRId64 ",\"ns\":%" PRId64
               ",\"kind\":\"%s\",\"phase\":\"%s\",\"stage\":\"%s\",\"evidence\":\"%s\",\"lane\":",
               number, rank, x->from + base, x->to - x->from, segment_kind_name((segment_kind)x->kind),
               phase_name((phase)x->phase), phase_name((phase)x->owner), evidence_name((evidence)x->how));
    put_text(out, store_lane_name(a->graph.s, x->lane));
    buf_puts(out, ",\"name\":");
    put_text(out, names_text(&a->graph.s->names, x->words));
    if (x->peer != 0)
        buf_printf(out, ",\"peer\":%d", x->peer - 1);
    buf_puts(out, "}");
}

static void put_fork(const analysis *a, const fork_join *f, int rank, buf *out)
{
    const task_graph *g = &a->graph;
    buf_printf(out,
               "{\"rank\":%d,\"stage\":\"%s\",\"evidence\":\"%s\",\"count\":%u,\"slack_ns\":%" PRId64
               ",\"join\":",
               rank, phase_name((phase)f->phase), evidence_name((evidence)f->how), f->count,
               f->slack_sum / f->count);
    put_text(out, task_name(g, &g->tasks[f->join]));
    buf_puts(out, ",\"last\":");
    put_text(out, task_name(g, &g->tasks[f->won]));
    buf_puts(out, ",\"earlier\":");
    put_text(out, task_name(g, &g->tasks[f->lost]));
    buf_puts(out, "}");
}

static void put_quality(const report *r, buf *out)
{
    const store *s = &r->input->events;
    buf_puts(out, "{\"quality\":{\"files\":[");
    for (size_t p = 0; p < s->part_count; p++) {
        const part *x = &s->parts[p];
        buf_puts(out, p != 0 ? ",{\"path\":" : "{\"path\":");
        put_text(out, x->path);
        buf_printf(out,
                   ",\"format\":\"%s\",\"events\":%" PRIu64 ",\"tasks\":%" PRIu64 ",\"bytes\":%" PRIu64 "}",
                   trace_format_name(x->format), x->events, x->tasks, x->bytes);
    }
    buf_puts(out, "],\"ranks\":[");
    for (size_t i = 0; i < r->count; i++) {
        const analysis *a = &r->analyses[i];
        static const char *const boundaries[] = { "whole_file", "annotations", "graphs", "rounds",
                                                  "records" };
        quality_line lines[QUALITY_MOST];
        size_t n = report_quality(r, i, lines);
        buf_printf(out, "%s{\"rank\":%d,\"stated\":%s,\"boundary\":\"%s\",\"rules\":", i != 0 ? "," : "",
                   r->groups->groups[i].rank, r->groups->groups[i].rank_guessed ? "false" : "true",
                   boundaries[a->boundary]);
        put_text(out, a->boundary_set != NULL ? a->boundary_set : "");
        buf_printf(out,
                   ",\"steps\":%zu,\"tasks\":%zu,\"replays\":%zu,\"sums_checked\":%zu,\"sums_wrong\":%zu,"
                   "\"lines\":[",
                   a->step_count, a->graph.count, a->graph.replay_count, a->sums_checked, a->sums_wrong);
        for (size_t k = 0; k < n; k++) {
            buf_printf(out,
                       "%s{\"name\":\"%s\",\"warning\":%s,\"count\":%" PRIu64 ",\"text\":", k != 0 ? "," : "",
                       lines[k].name, lines[k].warning ? "true" : "false", lines[k].count);
            put_text(out, lines[k].text);
            buf_puts(out, "}");
        }
        buf_puts(out, "]}");
    }
    buf_puts(out, "]}");
}

static void put_peer(const analysis *a, const peer_charge *c, int rank, buf *out)
{
    buf_printf(out,
               "{\"rank\":%d,\"peer\":%d,\"evidence\":\"%s\",\"path_ns\":%" PRId64 ",\"all_ns\":%" PRId64
               ",\"clock_residual_ns\":%" PRId64 ",\"given\":%s",
               rank, c->rank, evidence_name(c->exact ? HOW_EXACT : HOW_GOOD), c->path_ns, c->all_ns,
               a->clock_residual_ns, c->given ? "true" : "false");
    put_phases(out, "phases_ns", c->phases_ns);
    put_phases(out, "stages_ns", c->stage_ns);
    buf_puts(out, ",\"longest\":");
    put_text(out, names_text(&a->graph.s->names, c->longest_words));
    buf_printf(out, ",\"longest_ns\":%" PRId64 "}", c->longest_ns);
}

static void put_symptom(const analysis *a, const symptom *s, int rank, buf *out)
{
    buf_printf(out,
               "{\"rank\":%d,\"symptom\":\"%s\",\"stage\":\"%s\",\"step_ns\":%" PRId64
               ",\"share\":%.6f,\"hidden_ns\":%" PRId64 ",\"token_ns\":",
               rank, symptom_name(s->kind), phase_name(s->stage), s->step_ns, s->share, s->hidden_ns);
    if (s->token_ns > 0)
        buf_printf(out, "%" PRId64, s->token_ns);
    else
        buf_puts(out, "null");
    buf_puts(out, ",\"mostly\":[");
    for (size_t k = 0; k < s->parts; k++) {
        buf_puts(out, k != 0 ? ",{\"what\":" : "{\"what\":");
        put_text(out, names_text(&a->graph.s->names, s->part[k]));
        buf_printf(out, ",\"step_ns\":%" PRId64 "}", s->part_ns[k]);
    }
    buf_puts(out, "],\"check\":[");
    for (size_t k = 0; k < SYMPTOM_CHECKS && s->check[k] != NULL; k++) {
        buf_puts(out, k != 0 ? "," : "");
        put_text(out, s->check[k]);
    }
    buf_puts(out, "]}");
}

static void put_symptoms(const report *r, buf *out)
{
    const char *between = "";
    for (size_t i = 0; i < r->count; i++) {
        symptom list[SYMPTOM_MOST];
        size_t n;
        foray_error err;
        if (symptoms_find(&r->analyses[i], list, &n, &err) != FORAY_OK)
            out->failed = true;
        for (size_t k = 0; k < n; k++) {
            buf_puts(out, between);
            between = ",\n";
            put_symptom(&r->analyses[i], &list[k], r->groups->groups[i].rank, out);
        }
    }
}

void report_json(const report *r, buf *out)
{
    put_quality(r, out);
    const char *between = "";
    buf_puts(out, ",\"steps\":[");
    for (size_t i = 0; i < r->count; i++)
        for (size_t k = 0; k < r->analyses[i].step_count; k++) {
            if (r->only_step >= 0 && (size_t)r->only_step != k)
                continue;
            buf_puts(out, between);
            between = ",\n";
            put_step(&r->analyses[i], k, r->groups->groups[i].rank, r->groups->groups[i].base_ns, out);
        }
    buf_puts(out, "],\"buckets\":[");
    between = "";
    for (size_t i = 0; i < r->count; i++)
        for (size_t k = 0; k < r->analyses[i].bucket_count; k++) {
            buf_puts(out, between);
            between = ",\n";
            put_bucket(&r->analyses[i], &r->analyses[i].buckets[k], r->groups->groups[i].rank, out);
        }
    buf_puts(out, "],\"path\":[");
    between = "";
    for (size_t i = 0; i < r->count; i++)
        for (size_t k = 0; k < r->analyses[i].step_count; k++) {
            const step *s = &r->analyses[i].steps[k];
            for (size_t n = 0; n < s->segments && (r->only_step < 0 || (size_t)r->only_step == k); n++) {
                buf_puts(out, between);
                between = ",\n";
                put_segment(&r->analyses[i], k, path_at(&r->analyses[i], s->first_segment + n),
                            r->groups->groups[i].rank, r->groups->groups[i].base_ns, out);
            }
        }
    buf_puts(out, "],\"forks\":[");
    between = "";
    for (size_t i = 0; i < r->count; i++)
        for (size_t k = 0; k < r->analyses[i].fork_count; k++) {
            buf_puts(out, between);
            between = ",\n";
            put_fork(&r->analyses[i], &r->analyses[i].forks[k], r->groups->groups[i].rank, out);
        }
    buf_puts(out, "],\"cycles\":[");
    between = "";
    for (size_t i = 0; i < r->count; i++) {
        graph_cycle c;
        foray_error err;
        if (cycle_measure(&r->analyses[i], &c, &err) != FORAY_OK || c.steps == 0)
            continue;
        buf_printf(out,
                   "%s{\"rank\":%d,\"steps\":%zu,\"kept\":%s,\"wall_ns\":%" PRId64 ",\"host_ns\":%" PRId64
                   ",\"eager_launches\":%" PRId64 ",\"graphs\":[",
                   between, r->groups->groups[i].rank, c.steps, c.kept ? "true" : "false", c.wall_ns,
                   c.host_ns, c.eager_launches);
        between = ",\n";
        for (size_t k = 0; k < c.graphs; k++)
            buf_printf(
                out,
                "%s{\"stage\":\"%s\",\"replays\":%" PRId64 ",\"nodes\":%" PRId64 ",\"launch_ns\":%" PRId64
                ",\"span_ns\":%" PRId64 ",\"busy_ns\":%" PRId64 ",\"kernel_sum_ns\":%" PRId64 "}",
                k != 0 ? "," : "", phase_name((phase)c.graph[k].phase), c.graph[k].pieces, c.graph[k].nodes,
                c.graph[k].launch_ns, c.graph[k].span_ns, c.graph[k].busy_ns, c.graph[k].sum_ns);
        buf_puts(out, "]}");
    }
    buf_puts(out, "],\"what_if\":[");
    between = "";
    for (size_t i = 0; i < r->count; i++)
        for (size_t k = 0; k < r->analyses[i].what_if_count; k++) {
            const what_if *w = &r->analyses[i].what_ifs[k];
            char name[80];
            report_what_if(w, name, sizeof name);
            buf_printf(out,
                       "%s{\"rank\":%d,\"change\":\"%s\",\"saved_ns\":%" PRId64 ",\"token_ns\":", between,
                       r->groups->groups[i].rank, name, w->saved_ns);
            between = ",\n";
            if (w->token_ns > 0)
                buf_printf(out, "%" PRId64 "}", w->token_ns);
            else
                buf_puts(out, "null}");
        }
    buf_puts(out, "],\"peers\":[");
    between = "";
    for (size_t i = 0; i < r->count; i++)
        for (size_t k = 0; k < r->analyses[i].peer_count; k++) {
            buf_puts(out, between);
            between = ",\n";
            put_peer(&r->analyses[i], &r->analyses[i].peers[k], r->groups->groups[i].rank, out);
        }
    buf_puts(out, "],\"symptoms\":[");
    put_symptoms(r, out);
    buf_puts(out, "]}\n");
}
