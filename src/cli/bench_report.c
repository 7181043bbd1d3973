/* bench_report.c: printing what was measured. See bench_report.h. */
#include "cli/bench_report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int compare_double(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

bench_spread bench_spread_of(const double *samples, int count)
{
    double sorted[BENCH_MOST_SAMPLES], sum = 0, squares = 0;
    bench_spread s = { 0 };
    if (count < 1)
        return s;
    memcpy(sorted, samples, sizeof *samples * (size_t)count);
    qsort(sorted, (size_t)count, sizeof *sorted, compare_double);
    for (int i = 0; i < count; i++)
        sum += sorted[i];
    s.mean = sum / count;
    for (int i = 0; i < count; i++)
        squares += (sorted[i] - s.mean) * (sorted[i] - s.mean);
    s.deviation = count > 1 ? sqrt(squares / (count - 1)) : 0;
    s.median = count % 2 ? sorted[count / 2] : (sorted[count / 2 - 1] + sorted[count / 2]) / 2;
    s.low = sorted[count / 10];
    s.high = sorted[count - 1 - count / 10];
    return s;
}

/* Bytes that moved against what the machine can read, or 0. */
static double bandwidth_share(const bench_row *r, double median_ms)
{
    if (r->bytes_touched <= 0 || r->read_bandwidth <= 0 || median_ms <= 0)
        return 0;
    double runs = r->n_gen > 0 && r->n_rows == 0 ? r->n_gen : 1;
    return r->bytes_touched * runs / (median_ms / 1e3) / r->read_bandwidth;
}

static void markdown(const bench_setting *s, const bench_row *rows, int count, buf *out)
{
    buf_printf(out, "%s, %s, %.1f MB; %s, %d threads; foray %s; %s\n\n", s->model, s->type,
               (double)s->model_bytes / 1e6, s->isa, s->threads, s->commit, s->machine);
    buf_puts(out, "| test | ms median (p10 – p90) | tokens/s | share of B2 | ratio (interval) | notes |\n"
                  "|---|---|---|---|---|---|\n");
    for (int i = 0; i < count; i++) {
        const bench_row *r = &rows[i];
        bench_spread spread = bench_spread_of(r->ms, r->samples);
        double share = bandwidth_share(r, spread.median);
        buf_printf(out, "| %s | %.3f (%.3f – %.3f) | %.1f | ", r->test, spread.median, spread.low,
                   spread.high, r->tokens / (spread.median / 1e3));
        if (share > 0)
            buf_printf(out, "%.2f of %.1f GB/s", share, r->read_bandwidth / 1e9);
        buf_puts(out, " | ");
        if (r->ratio > 0)
            buf_printf(out, "%.3f (%.3f – %.3f)", r->ratio, r->ratio_low, r->ratio_high);
        buf_puts(out, " | ");
        if (r->speculative)
            buf_printf(out, "accepted length %.2f, net %+.1f ms, text %s", r->accepted_length,
                       r->net_ms_saved, r->same_text ? "equal" : "DIFFERS");
        buf_puts(out, " |\n");
    }
}

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

static void json_row(const bench_setting *s, const bench_row *r, buf *out)
{
    double rates[BENCH_MOST_SAMPLES];
    bench_spread ms = bench_spread_of(r->ms, r->samples);
    for (int i = 0; i < r->samples; i++)
        rates[i] = as_rate(r, r->ms[i]);
    bench_spread rate = bench_spread_of(rates, r->samples);
    double share = bandwidth_share(r, ms.median);
    buf_puts(out, "{\"test\":");
    buf_json_string(out, r->test, strlen(r->test));
    json_text("build_commit", s->commit, out);
    json_text("commit", s->commit, out);
    json_text("machine", s->machine, out);
    json_text("cpu_info", s->machine, out);
    json_text("model_filename", s->model, out);
    json_text("model_type", s->type, out);
    buf_printf(out, ",\"model_size\":%llu,\"model_n_params\":%llu", s->model_bytes, s->parameters);
    json_text("isa", s->isa, out);
    buf_printf(out, ",\"threads\":%d,\"n_threads\":%d,\"n_prompt\":%d,\"n_gen\":%d,\"n_depth\":%d",
               s->threads, s->threads, r->n_prompt, r->n_gen, r->n_depth);
    buf_printf(out, ",\"n_rows\":%d,\"n_requests\":%d", r->n_rows, r->n_requests);
    json_number("avg_ns", ms.mean * 1e6, out);
    json_number("stddev_ns", ms.deviation * 1e6, out);
    json_number("avg_ts", rate.mean, out);
    json_number("stddev_ts", rate.deviation, out);
    json_number("ms_median", ms.median, out);
    json_number("bytes_touched", r->bytes_touched, out);
    json_number("read_bandwidth", r->read_bandwidth, out);
    json_number("bandwidth_share", share, out);
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
    json_samples("samples_ns", r, as_ns, out);
    json_samples("samples_ts", r, as_rate, out);
    json_samples("ms_samples", r, as_ms, out);
    buf_puts(out, "}");
}

static void csv(const bench_setting *s, const bench_row *rows, int count, buf *out)
{
    buf_puts(
        out,
        "build_commit,model_filename,model_type,isa,n_threads,test,n_prompt,n_gen,n_depth,n_rows,n_requests,"
        "samples,ms_median,ms_p10,ms_p90,tokens_per_second,bandwidth_share,ratio,mean_acceptance_length,"
        "net_ms_saved\n");
    for (int i = 0; i < count; i++) {
        const bench_row *r = &rows[i];
        bench_spread m = bench_spread_of(r->ms, r->samples);
        buf_printf(
            out, "%s,\"%s\",\"%s\",%s,%d,\"%s\",%d,%d,%d,%d,%d,%d,%.4f,%.4f,%.4f,%.2f,%.4f,%.4f,%.3f,%.3f\n",
            s->commit, s->model, s->type, s->isa, s->threads, r->test, r->n_prompt, r->n_gen, r->n_depth,
            r->n_rows, r->n_requests, r->samples, m.median, m.low, m.high, r->tokens / (m.median / 1e3),
            bandwidth_share(r, m.median), r->ratio, r->accepted_length, r->net_ms_saved);
    }
}

void bench_report(const bench_setting *s, const bench_row *rows, int count, const char *form, buf *out)
{
    if (strcmp(form, "md") == 0) {
        markdown(s, rows, count, out);
    } else if (strcmp(form, "csv") == 0) {
        csv(s, rows, count, out);
    } else {
        bool lines = strcmp(form, "jsonl") == 0;
        buf_puts(out, lines ? "" : "[\n");
        for (int i = 0; i < count; i++) {
            json_row(s, &rows[i], out);
            buf_puts(out, lines ? "\n" : i + 1 < count ? ",\n" : "\n]\n");
        }
    }
}
