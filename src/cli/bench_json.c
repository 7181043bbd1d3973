/* bench_json.c: the results of `foray bench` as an array of objects, or one a line. See bench_report.h. */
#include <math.h>
#include <string.h>

#include "cli/bench_report.h"

static void json_samples(const char *name, const bench_row *r, double (*value)(const bench_row *, double),
                         buf *out)
{
    buf_printf(out, ",\"%s\":[", name);
    for (int i = 0; i < r->samples; i++) {
        buf_puts(out, i ? "," : "");
        buf_json_double(out, value(r, r->ms[i]));
    }
    buf_puts(out, "]");
}

static double as_ms(const bench_row *r, double ms)
{
    (void)r;
    return ms;
}

static double as_ns(const bench_row *r, double ms)
{
    (void)r;
    return floor(ms * 1e6 + .5);
}

static double as_rate(const bench_row *r, double ms)
{
    return r->tokens / (ms / 1e3);
}

static void json_text(const char *name, const char *value, buf *out)
{
    buf_printf(out, ",\"%s\":", name);
    buf_json_string(out, value, strlen(value));
}

static void json_number(const char *name, double value, buf *out)
{
    buf_printf(out, ",\"%s\":", name);
    buf_json_double(out, value);
}

static void json_whole(const char *name, int value, buf *out)
{
    buf_printf(out, ",\"%s\":%d", name, value);
}

/* Begins an object with its test and what stands in every row. part: a kernel or phase, or "". */
static void json_open(const bench_setting *s, const char *test, const char *part, buf *out)
{
    buf name = { 0 };
    buf_printf(&name, "%s%s", test, part);
    buf_puts(out, "{\"test\":");
    buf_json_string(out, name.data ? name.data : "", name.len);
    buf_free(&name);
    json_text("build_commit", s->commit, out);
    json_text("commit", s->commit, out);
    json_text("machine", s->machine, out);
    json_text("cpu_info", s->machine, out);
    json_text("model_filename", s->model, out);
    json_text("model_type", s->type, out);
    buf_printf(out, ",\"model_size\":%llu,\"model_n_params\":%llu", s->model_bytes, s->parameters);
    json_text("isa", s->isa, out);
    buf_printf(out, ",\"threads\":%d,\"n_threads\":%d", s->threads, s->threads);
}

static void json_row(const bench_setting *s, const bench_row *r, buf *out)
{
    double rates[BENCH_MOST_SAMPLES];
    bench_spread ms = bench_spread_of(r->ms, r->samples);
    for (int i = 0; i < r->samples; i++)
        rates[i] = as_rate(r, r->ms[i]);
    bench_spread rate = bench_spread_of(rates, r->samples);
    double share = bench_bandwidth_share(r, ms.median);
    json_open(s, r->test, "", out);
    buf_printf(out, ",\"n_prompt\":%d,\"n_gen\":%d,\"n_depth\":%d,\"n_rows\":%d,\"n_requests\":%d",
               r->n_prompt, r->n_gen, r->n_depth, r->n_rows, r->n_requests);
    json_number("avg_ns", ms.mean * 1e6, out);
    json_number("stddev_ns", ms.deviation * 1e6, out);
    json_number("avg_ts", rate.mean, out);
    json_number("stddev_ts", rate.deviation, out);
    json_number("ms_median", ms.median, out);
    json_number("bytes_touched", r->bytes_touched, out);
    json_number("read_bandwidth", r->read_bandwidth, out);
    json_number("bandwidth_share", share, out);
    if (r->operations > 0 && r->compute[0] > 0) {
        json_number("compute_peak", bench_spread_of(r->compute, r->samples).median, out);
        json_number("compute_share", bench_compute_share(r).median, out);
    }
    if (r->ratio > 0) {
        json_number("ratio", r->ratio, out);
        json_number("ratio_low", r->ratio_low, out);
        json_number("ratio_high", r->ratio_high, out);
    }
    if (r->speculative) {
        json_number("mean_acceptance_length", r->accepted_length, out);
        json_number("net_ms_saved", r->net_ms_saved, out);
        buf_printf(out, ",\"same_text\":%s", r->same_text ? "true" : "false");
    }
    if (r->peak_bytes > 0) {
        json_number("peak_bytes", r->peak_bytes, out);
        json_number("file_bytes", r->file_bytes, out);
        json_number("packed_bytes", r->packed_bytes, out);
        json_number("kv_bytes", r->kv_bytes, out);
    }
    json_samples("samples_ns", r, as_ns, out);
    json_samples("samples_ts", r, as_rate, out);
    json_samples("ms_samples", r, as_ms, out);
    buf_puts(out, "}");
}

/* One kernel, or with kernel NULL what lies between them. */
static void json_roofline(const bench_setting *s, const bench_roofline *r, const bench_kernel *kernel,
                          buf *out)
{
    double ns = kernel ? kernel->ns : bench_roofline_between_ns(r);
    json_open(s, "roofline ", kernel ? kernel->name : "between kernels", out);
    buf_printf(out, ",\"rounds\":%d", r->rounds);
    json_number("calls_per_round", kernel ? (double)kernel->calls / r->rounds : 0, out);
    json_number("us_per_round", ns / 1e3 / r->rounds, out);
    json_number("time_share", ns / r->span_ns, out);
    json_number("bytes_per_second", kernel ? kernel->bytes / (ns / 1e9) : 0, out);
    json_number("flops_per_second", kernel ? kernel->flops / (ns / 1e9) : 0, out);
    json_number("read_bandwidth", r->peak_bytes, out);
    json_number("peak_flops", r->peak_flops, out);
    buf_puts(out, "}");
}

/* The round as a whole. */
static void json_account(const bench_setting *s, const bench_account *a, buf *out)
{
    json_open(s, "round", "", out);
    json_text("spec", a->spec, out);
    json_whole("n_requests", a->requests, out);
    json_whole("steps", a->steps, out);
    json_whole("warm_steps", a->warm_steps, out);
    json_whole("prompt_steps", a->prompt_steps, out);
    json_whole("unseen_steps", a->unseen, out);
    buf_printf(out, ",\"sums_exactly\":%s", a->exact == a->steps ? "true" : "false");
    json_number("ms_median", a->ms.median, out);
    json_number("ms_p10", a->ms.low, out);
    json_number("ms_p90", a->ms.high, out);
    json_number("ms_mean", a->ms.mean, out);
    json_number("requests_per_step", a->members, out);
    json_number("rows_live", a->rows_live, out);
    json_number("rows_launched", a->rows_launched, out);
    json_number("mean_acceptance_length", a->accepted_length, out);
    json_number("tokens_per_second", a->tokens_per_second, out);
    json_number("plan_us", a->plan_us, out);
    json_number("update_us", a->update_us, out);
    buf_puts(out, ",\"waits\":[");
    for (int i = 0; i < a->waits; i++) {
        const bench_wait *w = &a->wait[i];
        buf_printf(out, "%s{\"steps\":%d,\"joins\":%d", i > 0 ? "," : "", w->steps, w->joins);
        json_text("stream", w->stream, out);
        json_text("event", w->event, out);
        json_text("from", w->from, out);
        json_number("us_per_step", w->us, out);
        buf_puts(out, "}");
    }
    buf_puts(out, "]");
    json_whole("waits_unseen", a->waits_unseen, out);
    buf_puts(out, "}");
}

static void json_phase(const bench_setting *s, const bench_account *a, const bench_phase *p, buf *out)
{
    json_open(s, "round ", p->name, out);
    json_whole("n_requests", a->requests, out);
    json_whole("steps", p->steps, out);
    json_number("ms_median", p->ms.median, out);
    json_number("ms_p10", p->ms.low, out);
    json_number("ms_p90", p->ms.high, out);
    json_number("ms_mean_per_step", p->mean_ms, out);
    json_number("share", p->share, out);
    json_whole("runs", p->runs, out);
    json_whole("replays", p->replays, out);
    buf_puts(out, "}");
}

void bench_report_json(const bench_results *r, bool lines, buf *out)
{
    const bench_setting *s = &r->setting;
    const bench_account *a = r->account;
    const bench_roofline *roofline = r->roofline;
    const int kernels = roofline->rounds > 0 ? roofline->count + 1 : 0,
              parts = a->steps > 0 ? a->phases + 1 : 0, all = r->count + parts + kernels;
    buf_puts(out, lines ? "" : "[\n");
    for (int i = 0; i < all; i++) {
        const int part = i - r->count, kernel = part - parts;
        if (part < 0)
            json_row(s, &r->rows[i], out);
        else if (part == 0 && parts > 0)
            json_account(s, a, out);
        else if (part < parts)
            json_phase(s, a, &a->phase[part - 1], out);
        else
            json_roofline(s, roofline, kernel + 1 < kernels ? &roofline->kernels[kernel] : NULL, out);
        buf_puts(out, lines || i + 1 == all ? "\n" : ",\n");
    }
    buf_puts(out, lines ? "" : "]\n");
}
