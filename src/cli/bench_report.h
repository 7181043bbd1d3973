/* bench_report.h: the rows of `foray bench`, and how they are printed: md, csv, json or jsonl.
 *
 * Fields are llama-bench's names plus foray's (design.md 11). Pure but for printing. Threads: one.
 */
#ifndef FORAY_CLI_BENCH_REPORT_H
#define FORAY_CLI_BENCH_REPORT_H

#include "base/buf.h"
#include "cli/bench_roofline.h"

enum { BENCH_MOST_SAMPLES = 512 };

/* One test. Samples are milliseconds per test run (pp, tg, pg), per round (verify), per pair (sd), or of opening
 * the model (load). */
typedef struct {
    char test[64]; /* "pp512", "tg128 @ d64", "verify4", "sd edit ngram", "load" */
    int n_prompt, n_gen, n_depth, n_rows, n_requests;
    double ms[BENCH_MOST_SAMPLES];
    int samples;
    double tokens;        /* per sample: for tokens per second */
    double bytes_touched; /* per token or round; 0: not known */
    double operations;    /* of one sample, two per multiply-add of matrices and attention; 0: not counted */
    /* Operations/s in registers, measured before the first sample and behind each: f32, or int8 for quantised weights. */
    double compute[BENCH_MOST_SAMPLES + 1];
    double read_bandwidth; /* B2 of the same run, bytes/s; 0: not measured */
    /* verify rows: to the round of one row; sd rows: speed against plain, with its interval. */
    double ratio, ratio_low, ratio_high;
    double accepted_length, net_ms_saved; /* sd rows */
    bool speculative, same_text;
    /* load row: most memory that a process had resident, and what may be: the file, packed weights, K/V in use. */
    double peak_bytes, file_bytes, packed_bytes, kv_bytes;
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

/* Memory beyond file, packed weights and K/V that a load row grants before it says so. */
enum { BENCH_SPARE_BYTES = 64000000 };

/* Appends all rows in a form; roofline (NULL: none) follows them, as a table or as rows of its own (not csv). */
void bench_report(const bench_setting *s, const bench_row *rows, int count, const bench_roofline *roofline,
                  const char *form, buf *out);

#endif
