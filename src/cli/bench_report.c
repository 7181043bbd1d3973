/* bench_report.c: printing what was measured. See bench_report.h. */
#include "cli/bench_report.h"

#include <math.h>
#include <string.h>

double bench_bandwidth_share(const bench_row *r, double median_ms)
{
    if (r->bytes_touched <= 0 || r->read_bandwidth <= 0 || median_ms <= 0)
        return 0;
    double runs = r->n_gen > 0 && r->n_rows == 0 ? r->n_gen : 1;
    return r->bytes_touched * runs / (median_ms / 1e3) / r->read_bandwidth;
}

bench_spread bench_compute_share(const bench_row *r)
{
    double share[BENCH_MOST_SAMPLES];
    for (int i = 0; i < r->samples; i++)
        share[i] = r->operations / (r->ms[i] / 1e3) / ((r->compute[i] + r->compute[i + 1]) / 2);
    return bench_spread_of(share, r->samples);
}

static double granted(const bench_row *r)
{
    return r->file_bytes + r->packed_bytes + r->kv_bytes + BENCH_SPARE_BYTES;
}

static void put_notes(const bench_row *r, buf *out)
{
    if (r->speculative)
        buf_printf(out, "accepted length %.2f, net %+.1f ms, text %s", r->accepted_length, r->net_ms_saved,
                   r->same_text ? "equal" : "DIFFERS");
    if (r->peak_bytes > 0)
        buf_printf(out, "peak %.1f MB, %s file %.1f + packed %.1f + K/V %.1f + %.0f", r->peak_bytes / 1e6,
                   r->peak_bytes <= granted(r) ? "within" : "MORE THAN", r->file_bytes / 1e6,
                   r->packed_bytes / 1e6, r->kv_bytes / 1e6, BENCH_SPARE_BYTES / 1e6);
}

static void put_share(double rate, double peak, const char *unit, buf *out)
{
    buf_printf(out, " %.1f %s", rate / 1e9, unit);
    if (peak > 0)
        buf_printf(out, " (%.2f)", rate / peak);
    buf_puts(out, " |");
}

static void markdown_roofline(const bench_roofline *r, buf *out)
{
    buf_printf(out,
               "\nroofline of plain decoding, %d rounds; peaks %.1f GB/s read, %.1f GFLOP/s f32 (shares in "
               "brackets)\n\n",
               r->rounds, r->peak_bytes / 1e9, r->peak_flops / 1e9);
    buf_puts(out,
             "| kernel | calls | us per round | share | moved | computed |\n|---|---|---|---|---|---|\n");
    for (int i = 0; i < r->count; i++) {
        const bench_kernel *k = &r->kernels[i];
        buf_printf(out, "| %s | %.1f | %.1f | %.1f %% |", k->name, (double)k->calls / r->rounds,
                   k->ns / 1e3 / r->rounds, 100 * k->ns / r->span_ns);
        put_share(k->bytes / (k->ns / 1e9), r->peak_bytes, "GB/s", out);
        put_share(k->flops / (k->ns / 1e9), r->peak_flops, "GFLOP/s", out);
        buf_puts(out, "\n");
    }
    double between = bench_roofline_between_ns(r);
    buf_printf(out, "| between kernels | | %.1f | %.1f %% | | |\n", between / 1e3 / r->rounds,
               100 * between / r->span_ns);
}

static void markdown(const bench_setting *s, const bench_row *rows, int count, buf *out)
{
    buf_printf(out, "%s, %s, %.1f MB; %s, %d threads; foray %s; %s\n\n", s->model, s->type,
               (double)s->model_bytes / 1e6, s->isa, s->threads, s->commit, s->machine);
    buf_puts(out, "| test | ms median (p10 – p90) | tokens/s | share of read bandwidth or of arithmetic peak "
                  "| ratio (interval) | notes |\n"
                  "|---|---|---|---|---|---|\n");
    for (int i = 0; i < count; i++) {
        const bench_row *r = &rows[i];
        bench_spread spread = bench_spread_of(r->ms, r->samples);
        double share = bench_bandwidth_share(r, spread.median);
        buf_printf(out, "| %s | %.3f (%.3f – %.3f) | ", r->test, spread.median, spread.low, spread.high);
        if (r->tokens > 0)
            buf_printf(out, "%.1f", r->tokens / (spread.median / 1e3));
        buf_puts(out, " | ");
        if (share > 0)
            buf_printf(out, "%.2f of %.1f GB/s", share, r->read_bandwidth / 1e9);
        else if (r->operations > 0 && r->compute[0] > 0) {
            const bench_spread computed = bench_compute_share(r);
            buf_printf(out, "%.2f (%.2f – %.2f) of %.0f GOP/s", computed.median, computed.low, computed.high,
                       bench_spread_of(r->compute, r->samples).median / 1e9);
        }
        buf_puts(out, " | ");
        if (r->ratio > 0)
            buf_printf(out, "%.3f (%.3f – %.3f)", r->ratio, r->ratio_low, r->ratio_high);
        buf_puts(out, " | ");
        put_notes(r, out);
        buf_puts(out, " |\n");
    }
}

/* What the rounds were, and what they made. */
static void put_rounds(const bench_account *a, buf *out)
{
    buf_printf(out, "\n%.2f requests, %.2f rows live of %.2f launched", a->members, a->rows_live,
               a->rows_launched);
    buf_printf(out, "; accepted length %.2f; %.1f tokens/s; plan %.2f us, update %.2f us a round\n",
               a->accepted_length, a->tokens_per_second, a->plan_us, a->update_us);
    for (int i = 0; i < a->waits; i++) {
        const bench_wait *w = &a->wait[i];
        const bool own = strcmp(w->event, w->from) == 0; /* a fork's branch, all of it */
        buf_printf(out, "%s %s %.2f us a round for %s%s%s (%d joins in %d rounds)%s",
                   i == 0 ? "longest waits:" : "", w->stream, w->us, w->event, own ? "" : " of ",
                   own ? "" : w->from, w->joins, w->steps, i + 1 == a->waits ? "\n" : ";");
    }
    if (a->waits_unseen > 0)
        buf_printf(out, "%d waits found no place in their round's record\n", a->waits_unseen);
    buf_printf(out, "not counted: %d rounds that warmed up, %d that read prompts", a->warm_steps,
               a->prompt_steps);
    if (a->unseen > 0)
        buf_printf(out,
                   ", %d without a record: in vain for requests that had just ended, or more than are kept",
                   a->unseen);
    buf_puts(out, "\n");
}

static void markdown_account(const bench_account *a, buf *out)
{
    const bool exact = a->exact == a->steps;
    buf_printf(out, "\na round of up to %d request%s, speculation %s: %d rounds\n\n", a->requests,
               a->requests == 1 ? "" : "s", a->spec, a->steps);
    buf_puts(out, "| phase | rounds with it | ms in those, median (p10 – p90) | ms a round, mean | share | "
                  "replayed |\n|---|---|---|---|---|---|\n");
    for (int i = 0; i < a->phases; i++) {
        const bench_phase *p = &a->phase[i];
        buf_printf(out, "| %s | %d | %.4f (%.4f – %.4f) | %.4f | %.1f %% | ", p->name, p->steps, p->ms.median,
                   p->ms.low, p->ms.high, p->mean_ms, 100 * p->share);
        if (p->runs > 0)
            buf_printf(out, "%d of %d (%.1f %%)", p->replays, p->runs, 100.0 * p->replays / p->runs);
        buf_puts(out, " |\n");
    }
    if (exact)
        buf_printf(out, "| sum | %d | %.4f (%.4f – %.4f) | %.4f | 100.0 %% | |\n", a->steps, a->ms.median,
                   a->ms.low, a->ms.high, a->ms.mean);
    if (exact)
        buf_printf(out, "\nthe parts sum to the wall of the round in each of the %d, to the nanosecond\n",
                   a->steps);
    else
        buf_printf(out, "\nNO SUM: in %d of the %d the parts do not sum to the wall of the round\n",
                   a->steps - a->exact, a->steps);
    put_rounds(a, out);
}

static void csv_setting(const bench_setting *s, buf *out)
{
    buf_printf(out, "%s,\"%s\",\"%s\",%s,%d", s->commit, s->model, s->type, s->isa, s->threads);
}

static void csv(const bench_results *results, buf *out)
{
    const bench_account *a = results->account;
    buf_puts(
        out,
        "build_commit,model_filename,model_type,isa,n_threads,test,n_prompt,n_gen,n_depth,n_rows,n_requests,"
        "samples,ms_median,ms_p10,ms_p90,tokens_per_second,bandwidth_share,ratio,mean_acceptance_length,"
        "net_ms_saved,share_of_round,runs,replays\n");
    for (int i = 0; i < results->count; i++) {
        const bench_row *r = &results->rows[i];
        bench_spread m = bench_spread_of(r->ms, r->samples);
        csv_setting(&results->setting, out);
        buf_printf(out, ",\"%s\",%d,%d,%d,%d,%d,%d,%.4f,%.4f,%.4f,%.2f,%.4f,%.4f,%.3f,%.3f,,,\n", r->test,
                   r->n_prompt, r->n_gen, r->n_depth, r->n_rows, r->n_requests, r->samples, m.median, m.low,
                   m.high, r->tokens / (m.median / 1e3), bench_bandwidth_share(r, m.median), r->ratio,
                   r->accepted_length, r->net_ms_saved);
    }
    for (int i = -1; i < a->phases && a->steps > 0; i++) {
        const bench_phase *p = i < 0 ? NULL : &a->phase[i];
        const bench_spread *ms = p ? &p->ms : &a->ms;
        csv_setting(&results->setting, out);
        buf_printf(out, ",\"round%s%s\",,,,,%d,%d,%.4f,%.4f,%.4f,", p ? " " : "", p ? p->name : "",
                   a->requests, p ? p->steps : a->steps, ms->median, ms->low, ms->high);
        if (p)
            buf_printf(out, ",,,,,%.4f,%d,%d\n", p->share, p->runs, p->replays);
        else
            buf_printf(out, "%.2f,,,%.3f,,%s,,\n", a->tokens_per_second, a->accepted_length,
                       a->exact == a->steps ? "1" : "");
    }
}

void bench_report(const bench_results *r, const char *form, buf *out)
{
    if (strcmp(form, "csv") == 0) {
        csv(r, out);
    } else if (strcmp(form, "md") == 0) {
        markdown(&r->setting, r->rows, r->count, out);
        if (r->account->steps > 0)
            markdown_account(r->account, out);
        if (r->roofline->rounds > 0)
            markdown_roofline(r->roofline, out);
    } else {
        bench_report_json(r, strcmp(form, "jsonl") == 0, out);
    }
}
