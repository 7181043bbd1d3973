/* bench_report.h: the rows of `foray bench`, and how they are printed: md, csv, json or jsonl.
 *
 * Fields are llama-bench's names plus foray's (design.md 11). Pure but for printing. Threads: one.
 */
#ifndef FORAY_CLI_BENCH_REPORT_H
#define FORAY_CLI_BENCH_REPORT_H

#include "base/buf.h"

enum { BENCH_MOST_SAMPLES = 512 };

/* One test. Samples are milliseconds per test run (pp, tg, pg), per round (verify), or per pair (sd). */
typedef struct {
    char test[32]; /* "pp512", "tg128 @ d64", "verify4", "sd edit ngram" */
    int n_prompt, n_gen, n_depth, n_rows, n_requests;
    double ms[BENCH_MOST_SAMPLES];
    int samples;
    double tokens;         /* per sample: for tokens per second */
    double bytes_touched;  /* per token or round; 0: not known */
    double read_bandwidth; /* B2 of the same run, bytes/s; 0: not measured */
    /* verify rows: to the round of one row; sd rows: speed against plain, with its interval. */
    double ratio, ratio_low, ratio_high;
    double accepted_length, net_ms_saved; /* sd rows */
    bool speculative, same_text;
} bench_row;

/* What stands in every row. */
typedef struct {
    const char *model, *type, *isa, *machine, *commit;
    unsigned long long model_bytes, parameters;
    int threads;
} bench_setting;

/* Median, mean and standard deviation of a row's samples. */
typedef struct {
    double median, mean, deviation, low, high; /* low, high: 10th and 90th percentile */
} bench_spread;
bench_spread bench_spread_of(const double *samples, int count);

/* Appends all rows in a form. */
void bench_report(const bench_setting *s, const bench_row *rows, int count, const char *form, buf *out);

#endif
