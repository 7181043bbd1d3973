/* bench_report.h: the rows of `foray bench`, and how they are printed: md, csv, json or jsonl.
 *
 * Fields are llama-bench's names plus foray's (design.md 11). Pure but for printing. Threads: one.
 */
#ifndef FORAY_CLI_BENCH_REPORT_H
#define FORAY_CLI_BENCH_REPORT_H

#include "base/buf.h"
#include "cli/bench_account.h"
#include "cli/bench_roofline.h"

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

/* Memory beyond file, packed weights and K/V that a load row grants before it says so. */
enum { BENCH_SPARE_BYTES = 64000000 };

/* Everything that was measured. */
typedef struct {
    bench_setting setting;
    const bench_row *rows; /* [count] */
    int count;
    const bench_account *account;   /* steps 0: none */
    const bench_roofline *roofline; /* rounds 0: none */
} bench_results;

/* Appends the rows in a form; the account of a round and the roofline follow them, as tables or as rows of their own (the
 * roofline not in csv). */
void bench_report(const bench_results *r, const char *form, buf *out);
/* bench_json.c: the same as json, or one object a line. */
void bench_report_json(const bench_results *r, bool lines, buf *out);

/* Bytes that moved against what the machine can read, or 0. */
double bench_bandwidth_share(const bench_row *r, double median_ms);
/* Operations that were done against what the machine could do just before and just after: over all samples. Neighbours
 * change the one as they change the other. */
bench_spread bench_compute_share(const bench_row *r);

#endif
