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

/* Operations that were done against what the machine could do just before and just after: over all samples. Neighbours
 * change the one as they change the other. */
static bench_spread compute_share(const bench_row *r)
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
        double share = bandwidth_share(r, spread.median);
        buf_printf(out, "| %s | %.3f (%.3f – %.3f) | ", r->test, spread.median, spread.low, spread.high);
        if (r->tokens > 0)
            buf_printf(out, "%.1f", r->tokens / (spread.median / 1e3));
        buf_puts(out, " | ");
        if (share > 0)
            buf_printf(out, "%.2f of %.1f GB/s", share, r->read_bandwidth / 1e9);
        else if (r->operations > 0 && r->compute[0] > 0) {
            const bench_spread computed = compute_share(r);
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

/* Begins an object with its test and what stands in every row. kernel: of a roofline row, else "". */
static void json_open(const bench_setting *s, const char *test, const char *kernel, buf *out)
{
    buf name = { 0 };
    buf_printf(&name, "%s%s", test, kernel);
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
    double share = bandwidth_share(r, ms.median);
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
        json_number("compute_share", compute_share(r).median, out);
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

static void json(const bench_setting *s, const bench_row *rows, int count, const bench_roofline *roofline,
                 bool lines, buf *out)
{
    int kernels = roofline ? roofline->count + 1 : 0;
    buf_puts(out, lines ? "" : "[\n");
    for (int i = 0; i < count + kernels; i++) {
        if (i < count)
            json_row(s, &rows[i], out);
        else
            json_roofline(s, roofline, i + 1 < count + kernels ? &roofline->kernels[i - count] : NULL, out);
        buf_puts(out, lines || i + 1 == count + kernels ? "\n" : ",\n");
    }
    buf_puts(out, lines ? "" : "]\n");
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

void bench_report(const bench_setting *s, const bench_row *rows, int count, const bench_roofline *roofline,
                  const char *form, buf *out)
{
    if (roofline && roofline->rounds == 0)
        roofline = NULL;
    if (strcmp(form, "csv") == 0) {
        csv(s, rows, count, out);
    } else if (strcmp(form, "md") == 0) {
        markdown(s, rows, count, out);
        if (roofline)
            markdown_roofline(roofline, out);
    } else {
        json(s, rows, count, roofline, strcmp(form, "jsonl") == 0, out);
    }
}
