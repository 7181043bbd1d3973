/* step_record.c: one step as a line of JSON. First the fields of SGLang's DecodeStepRecord, which leaves out
 * a field that has its default; then foray's own, which are always there. Pure.
 */
#include "observe/step_record.h"

#include <inttypes.h>
#include <string.h>

static const int64_t LONGEST_NS = 1000000000; /* their records show no time above a second */

bool step_record_sums(const step_record *s)
{
    int64_t sum = 0;
    for (int p = 0; p < PHASE_COUNT; p++)
        sum += s->phases_ns[p];
    return sum == s->wall_ns;
}

/* Milliseconds with four decimals, or nothing where there is no time to show. */
static void append_ms(buf *out, const char *name, int64_t ns)
{
    if (ns >= 0 && ns <= LONGEST_NS)
        buf_printf(out, ",\"%s\":%.4f", name, (double)ns / 1e6);
}

static void append_text(buf *out, const char *text, size_t room)
{
    buf_json_string(out, text, strnlen(text, room));
}

static void append_request(buf *out, const step_request *r)
{
    buf_printf(
        out,
        "{\"req_pool_index\":%d,\"prefix_len\":%d,\"verify_len\":%d,\"acc_len\":%d,\"correct_drafts\":%d,"
        "\"cap_trim\":0,\"bonus_token\":%d,\"draft_tokens\":[",
        r->slot, r->prefix_len, r->verify_len, r->commit_len, r->correct_drafts, r->bonus_token);
    for (int i = 0; i < r->draft_count && i < STEP_MAX_DRAFT; i++)
        buf_printf(out, "%s%d", i != 0 ? "," : "", r->draft_tokens[i]);
    buf_puts(out, "],\"rid\":");
    append_text(out, r->rid, sizeof r->rid);
    buf_puts(out, "}");
}

static void append_shared_fields(buf *out, const step_record *s)
{
    bool verifies = s->route[PHASE_TARGET_VERIFY][0] != '\0';
    buf_printf(out, "\"forward_ct\":%" PRId64 ",\"bs\":%d", s->forward_ct, s->requests);
    if (verifies)
        buf_puts(out, ",\"mode\":\"compact\"");
    if (s->budget >= 0)
        buf_printf(out, ",\"budget\":%d", s->budget);
    buf_printf(out, ",\"num_running_reqs\":%d", s->requests);
    if (s->decode)
        buf_printf(out, ",\"num_verify_tokens\":%d,\"verify_tokens_local\":%d,\"verify_tokens_graph_key\":%d",
                   s->rows_launched, s->rows_live, s->rows_launched);
    append_ms(out, "step_cpu_ms", s->decode ? s->wall_ns : -1);
    append_ms(out, "step_gpu_ms", s->step_segment_ns);
    append_ms(out, "draft_gpu_ms", s->draft_segment_ns);
    append_ms(out, "target_verify_gpu_ms", s->verify_segment_ns);
    if (s->requests > 0) {
        buf_puts(out, ",\"reqs\":[");
        for (int i = 0; i < s->requests && i < STEP_MAX_REQUESTS; i++) {
            buf_puts(out, i != 0 ? "," : "");
            append_request(out, &s->request[i]);
        }
        buf_puts(out, "]");
    }
}

/* waited_ns counts from the end of the stream's own work before each join; joins of one task overlap. */
static void append_waits(buf *out, const step_record *s)
{
    buf_puts(out, "\"waits\":[");
    for (int i = 0; i < s->waits && i < STEP_MAX_WAITS; i++) {
        const step_wait *w = &s->wait[i];
        buf_puts(out, i != 0 ? ",{\"stream\":" : "{\"stream\":");
        append_text(out, w->stream, strlen(w->stream));
        buf_puts(out, ",\"event\":");
        append_text(out, w->event, strlen(w->event));
        buf_puts(out, ",\"from\":");
        append_text(out, w->from, strlen(w->from));
        buf_printf(out, ",\"joins\":%d,\"waited_ns\":%" PRId64 "}", w->joins, w->waited_ns);
    }
    buf_printf(out, "],\"waits_left_out\":%d", s->waits_left_out);
}

void step_record_json(const step_record *s, buf *out)
{
    buf_puts(out, "{");
    append_shared_fields(out, s);
    buf_printf(out, ",\"rank\":%d,\"kind\":\"%s\",\"wall_ns\":%" PRId64 ",\"phases_ns\":{", s->rank,
               s->decode ? "decode" : "prefill", s->wall_ns);
    for (int p = 0; p < PHASE_COUNT; p++)
        buf_printf(out, "%s\"%s\":%" PRId64, p != 0 ? "," : "", phase_name((phase)p), s->phases_ns[p]);
    buf_printf(out, "},\"plan_ns\":%" PRId64 ",\"update_ns\":%" PRId64 ",", s->plan_ns, s->update_ns);
    append_waits(out, s);
    buf_puts(out, ",\"route\":{");
    const char *between = "";
    for (int p = 0; p < PHASE_COUNT; p++) {
        if (s->route[p][0] == '\0')
            continue;
        buf_printf(out, "%s\"%s\":", between, phase_name((phase)p));
        append_text(out, s->route[p], sizeof s->route[p]);
        between = ",";
    }
    buf_printf(out,
               "},\"rows_live\":%d,\"rows_launched\":%d,\"rows_computed\":%d,\"experts_distinct\":%d,"
               "\"sum_nq\":%" PRId64 ",\"sum_nkv\":%" PRId64 ",\"net_saved_ns\":%" PRId64 "}",
               s->rows_live, s->rows_launched, s->rows_computed, s->experts_distinct, s->sum_nq, s->sum_nkv,
               s->net_saved_ns);
}
