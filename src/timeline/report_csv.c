/* report_csv.c: one line per step, for a spreadsheet: wall, accounts and stages in ns. */
#include <inttypes.h>
#include <string.h>

#include "timeline/report.h"

/* A cell in quotes; a quote in it is doubled. */
static void put_cell(buf *out, const char *text)
{
    buf_puts(out, "\"");
    for (; *text != '\0'; text++) {
        if (*text == '"')
            buf_puts(out, "\"");
        buf_append(out, (unsigned char)*text < 0x20 ? "?" : text, 1);
    }
    buf_puts(out, "\"");
}

void report_csv(const report *r, buf *out)
{
    buf_puts(out, "rank,step,label,kept,reason,requests,rows,keys,bucket,start_ns,wall_ns");
    for (int p = 0; p < PHASE_COUNT; p++)
        buf_printf(out, ",%s_ns", phase_name((phase)p));
    buf_puts(
        out,
        ",peer_wait_ns,transfer_ns,hidden_comm_ns,inferred_ns,graph_nodes,graph_launch_ns,eager_launches");
    for (int p = 0; p < PHASE_COUNT; p++)
        buf_printf(out, ",%s_elapsed_ns,%s_sum_ns", phase_name((phase)p), phase_name((phase)p));
    buf_puts(out, ",commit_length\n");
    for (size_t i = 0; i < r->count; i++) {
        const analysis *a = &r->analyses[i];
        for (size_t k = 0; k < a->step_count; k++) {
            const step *s = &a->steps[k];
            if (r->only_step >= 0 && (size_t)r->only_step != k)
                continue;
            buf_printf(out, "%d,%zu,", r->groups->groups[i].rank, k);
            put_cell(out, names_text(&a->graph.s->names, s->label));
            buf_printf(out, ",%d,", s->reason == STEP_KEPT);
            put_cell(out, s->reason == STEP_KEPT ? "" : step_reason_text((step_reason)s->reason));
            buf_printf(out, ",%d,%d,%" PRId64 ",", s->requests, s->rows, s->keys);
            put_cell(out, s->bucket >= 0 ? names_text(&a->graph.s->names, a->buckets[s->bucket].key) : "");
            buf_printf(out, ",%" PRId64 ",%" PRId64, s->start + r->groups->groups[i].base_ns,
                       s->end - s->start);
            for (int p = 0; p < PHASE_COUNT; p++)
                buf_printf(out, ",%" PRId64, s->phases_ns[p]);
            buf_printf(out, ",%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 ",%u,%" PRId64 ",%u", s->peer_ns,
                       s->transfer_ns, s->hidden_comm_ns, s->inferred_ns, s->graph_nodes, s->launch_call_ns,
                       s->eager_launches);
            for (int p = 0; p < PHASE_COUNT; p++)
                buf_printf(out, ",%" PRId64 ",%" PRId64, s->stages[p].elapsed_ns, s->stages[p].sum_ns);
            if (s->commit_length > 0)
                buf_printf(out, ",%.4f\n", s->commit_length);
            else
                buf_puts(out, ",\n");
        }
    }
}
