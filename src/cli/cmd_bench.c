/* cmd_bench.c: `foray bench`: how fast prompts are read, tokens made and drafts verified, and whether speculation
 * pays, on this machine, now.
 *
 * Rows: load (opening the model, and the memory that takes), pp (prompt), tg (generation), pg (both), verify (a round
 * of R rows against a round of one) and sd (speculation against plain decoding, pair by pair). What is compared runs
 * interleaved in one process; each row states its spread, and read bandwidth is measured between the repetitions.
 */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "cli/bench_ab.h"
#include "cli/bench_graphs.h"
#include "cli/bench_load.h"
#include "cli/bench_prompts.h"
#include "cli/bench_report.h"
#include "cli/bench_requests.h"
#include "cli/bench_roofline.h"
#include "cli/bench_table.h"
#include "cli/commands.h"
#include "cli/model_path.h"
#include "cli/setup.h"
#include "engine/score.h"
#include "format/model_file.h"
#include "measure/compare.h"
#include "measure/peaks.h"
#include "observe/manifest.h"
#include "spec/round.h"

enum {
    MOST_ROWS_OUT = 128,
    MOST_COUNTS = DRAFT_MAX + 1,
    MOST_LOADS = 5,
    ROWS_DEPTH = 32, /* least context that rounds of rows are timed at (engine/timing.c) */
    SD_TOKENS = 160,
    ROOFLINE_TOKENS = 128
};

typedef struct {
    const options *o;
    foray_engine *engine;
    bench_setting setting;
    bench_account account;
    bench_row *rows; /* [MOST_ROWS_OUT] */
    int count, reps, requests;
    team *team;
    peaks *peaks;
    bool quantised;
    double bandwidth[BENCH_MOST_SAMPLES]; /* B2, measured between repetitions */
    int bandwidths;
    foray_error *err;
} bench;

/* NULL, with b->err filled, where there are too many. number 0: the test has none in its name. */
static bench_row *add_row(bench *b, const char *test, int number, int depth)
{
    char digits[16] = "", at[24] = "";
    if (b->count == MOST_ROWS_OUT) {
        fail(b->err, FORAY_ELIMIT, "bench: more than %d rows (ask for fewer tests)", MOST_ROWS_OUT);
        return NULL;
    }
    bench_row *r = &b->rows[b->count++];
    *r = (bench_row) { .n_depth = depth, .n_requests = b->requests };
    if (number > 0)
        snprintf(digits, sizeof digits, "%d", number);
    if (depth > 0)
        snprintf(at, sizeof at, " @ d%d", depth);
    snprintf(r->test, sizeof r->test, "%s%s%s", test, digits, at);
    return r;
}

static void measure_bandwidth(bench *b)
{
    if (b->bandwidths < BENCH_MOST_SAMPLES)
        b->bandwidth[b->bandwidths++] = peaks_read(b->peaks, b->setting.threads);
}

static double median_bandwidth(const bench *b)
{
    return bench_spread_of(b->bandwidth, b->bandwidths).median;
}

/* What products of this model's kind run at where they need nothing from memory. */
static double compute_peak(bench *b)
{
    return b->quantised ? peaks_int8(b->peaks, b->setting.threads) : peaks_fma(b->peaks, b->setting.threads);
}

/* ---- pp, tg, pg ------------------------------------------------------------------------------ */

static int bench_prompt_row(bench *b, int n, int depth)
{
    double ns = 0;
    bench_row *r = add_row(b, "pp", n, depth);
    if (!r)
        return b->err->code;
    double products = 0;
    int rc = engine_time_prefill(b->engine, depth, n, &ns, &products, b->err); /* warm */
    r->n_prompt = n;
    r->tokens = n;
    r->operations = 2 * products;
    r->compute[0] = compute_peak(b);
    for (int i = 0; i < b->reps && rc == 0; i++) {
        rc = engine_time_prefill(b->engine, depth, n, &ns, &products, b->err);
        if (rc != 0)
            break;
        r->ms[r->samples++] = ns / 1e6;
        r->compute[r->samples] = compute_peak(b);
        measure_bandwidth(b);
    }
    return rc;
}

/* n tokens after depth others; with pg, the prompt counts too. */
static int bench_generate_row(bench *b, int prompt, int n, int depth, bool with_prompt)
{
    bench_row *r = add_row(b, with_prompt ? "pg" : "tg", with_prompt ? prompt + n : n, depth);
    int rc = 0;
    if (!r)
        return b->err->code;
    int have = with_prompt ? prompt : depth > 0 ? depth : 1;
    size_t bytes = sizeof(int32_t) * (size_t)have;
    int32_t *ids = mem_alloc(MEM_GENERAL, bytes);
    bench_answer *a = mem_alloc(MEM_GENERAL, sizeof *a);
    if (!ids || !a)
        rc = fail(b->err, FORAY_ENOMEM, "bench: no memory");
    for (int i = 0; ids && i < have; i++)
        ids[i] = i * 7 % foray_engine_info(b->engine).vocab;
    for (int i = -1; i < b->reps && rc == 0; i++) { /* the first one warms up */
        foray_request_config c = bench_plain_request(ids, have, n + 1);
        rc = bench_run_requests(b->engine, &c, b->requests, a, b->err);
        if (rc == 0 && i >= 0) {
            r->ms[r->samples++] = (double)(with_prompt ? a->account.wall_ns : a->account.decode_ns) / 1e6;
            measure_bandwidth(b);
        }
    }
    if (rc == 0) {
        r->n_prompt = with_prompt ? prompt : 0;
        r->n_gen = a->account.completion_tokens - 1; /* the first one is the prompt's */
        r->tokens = (double)(r->n_prompt + r->n_gen) * b->requests;
        r->bytes_touched = with_prompt ? 0 : (double)foray_engine_info(b->engine).bytes_per_token;
    }
    mem_free(MEM_GENERAL, a, sizeof *a);
    mem_free(MEM_GENERAL, ids, bytes);
    return rc;
}

/* ---- verify ---------------------------------------------------------------------------------- */

/* Rounds of each row count in turn; ratios to rounds of one row, pair by pair. */
static int bench_verify_rows(bench *b, const int *counts, int n, int depth)
{
    int rounds = b->reps * 20 < BENCH_MOST_SAMPLES ? b->reps * 20 : BENCH_MOST_SAMPLES;
    int batches = b->reps < 4 ? b->reps : 4, each = rounds / batches;
    bench_row *first = &b->rows[b->count];
    for (int i = 0; i < n; i++) {
        bench_row *r = add_row(b, "verify", counts[i], depth);
        if (!r)
            return b->err->code;
        r->n_rows = counts[i];
        r->tokens = counts[i];
        r->bytes_touched = (double)foray_engine_info(b->engine).bytes_per_token;
    }
    size_t bytes = sizeof(double) * (size_t)(n * rounds);
    double *ns = mem_alloc(MEM_GENERAL, bytes);
    if (!ns)
        return fail(b->err, FORAY_ENOMEM, "bench: no memory");
    int rc = engine_time_rows(b->engine, depth, counts, n, 3, ns, b->err); /* warm */
    for (int k = 0; k < batches && rc == 0; k++) {
        measure_bandwidth(b);
        rc = engine_time_rows(b->engine, depth, counts, n, each, ns, b->err);
        for (int i = 0; i < n * each && rc == 0; i++)
            first[i / each].ms[first[i / each].samples++] = ns[i] / 1e6;
    }
    for (int i = 0; i < n && rc == 0; i++) {
        compare_ratio c = compare_pairs(first[i].ms, first[0].ms, first[i].samples);
        first[i].ratio = c.ratio;
        first[i].ratio_low = c.low;
        first[i].ratio_high = c.high;
    }
    mem_free(MEM_GENERAL, ns, bytes);
    return rc;
}

/* ---- speculation ----------------------------------------------------------------------------- */

/* One prompt with and without the drafter; speed[*n] grows by plain / speculative time. */
static int bench_pair(bench *b, const bench_prompt *p, bench_row *r, double *speed, int tokens)
{
    foray_message message = { "user", p->text };
    int32_t *ids;
    size_t count;
    bench_answer *a = mem_alloc(MEM_GENERAL, 2 * sizeof *a);
    if (!a)
        return fail(b->err, FORAY_ENOMEM, "bench: no memory");
    int rc = foray_encode_chat(b->engine, &message, 1, &ids, &count, b->err);
    int context = foray_engine_info(b->engine).context;
    if (rc == 0 && count + (size_t)tokens > (size_t)context) {
        foray_free(ids);
        rc = fail(
            b->err, FORAY_ELIMIT,
            "sd rows: a prompt of %zu tokens and %d more, the context holds %d (raise -c, or --spec off)",
            count, tokens, context);
    }
    if (rc == 0) {
        foray_request_config c = bench_plain_request(ids, (int)count, tokens);
        c.ignore_eos = false; /* an answer ends where it ends */
        drafter *d = round_get_drafter(engine_round(b->engine));
        for (int turn = 0; turn < 2 && rc == 0; turn++) { /* which goes first alternates */
            bool speculate = (r->samples + turn) % 2 == 0;
            round_set_drafter(engine_round(b->engine), speculate ? d : NULL);
            rc = bench_run_requests(b->engine, &c, b->requests, &a[speculate], b->err);
        }
        round_set_drafter(engine_round(b->engine), d);
        foray_free(ids);
    }
    if (rc == 0 && a[0].account.decode_ns > 0 &&
        a[1].account.steps > 0) { /* else it ended with its first token */
        r->same_text = r->same_text && a[0].count == a[1].count &&
                       memcmp(a[0].tokens, a[1].tokens, sizeof(int32_t) * (size_t)a[0].count) == 0;
        speed[r->samples] = (double)a[0].account.decode_ns / (double)a[1].account.decode_ns;
        r->ms[r->samples++] = (double)a[1].account.decode_ns / 1e6;
        r->tokens += (double)(a[1].count - 1) * b->requests;
        r->accepted_length +=
            (double)(a[1].account.accepted + a[1].account.steps) / (double)a[1].account.steps;
        r->net_ms_saved += (double)(a[0].account.decode_ns - a[1].account.decode_ns) / 1e6;
    }
    mem_free(MEM_GENERAL, a, 2 * sizeof *a);
    return rc;
}

/* Speculation on one class of prompts, each `reps` times, against plain decoding. */
static int bench_class_row(bench *b, const char *kind, int tokens)
{
    double speed[BENCH_MOST_SAMPLES];
    bench_row *r = add_row(b, kind, 0, 0);
    int rc = 0;
    if (!r)
        return b->err->code;
    snprintf(r->test, sizeof r->test, "sd %s %s", kind, foray_engine_info(b->engine).spec);
    r->speculative = r->same_text = true;
    r->n_gen = tokens;
    for (int k = 0; k < b->reps && rc == 0; k++)
        for (int i = 0; i < BENCH_PROMPT_COUNT && rc == 0 && r->samples < BENCH_MOST_SAMPLES; i++)
            if (strcmp(BENCH_PROMPTS[i].kind, kind) == 0)
                rc = bench_pair(b, &BENCH_PROMPTS[i], r, speed, tokens);
    if (rc == 0 && r->samples == 0) {
        log_warning("no row %s: every answer ended with its first token", r->test);
        b->count--;
    }
    if (rc != 0 || r->samples == 0)
        return rc;
    double ones[BENCH_MOST_SAMPLES];
    for (int i = 0; i < r->samples; i++)
        ones[i] = 1;
    compare_ratio c = compare_pairs(speed, ones, r->samples);
    r->ratio = c.ratio;
    r->ratio_low = c.low;
    r->ratio_high = c.high;
    r->tokens /= r->samples;
    r->accepted_length /= r->samples;
    r->net_ms_saved /= r->samples;
    return 0;
}

/* ---- the command ----------------------------------------------------------------------------- */

/* An engine for one kind of rows. */
static int reopen(bench *b, const char *path, const char *spec, int spec_tokens)
{
    foray_config c;
    int rc = setup_config(b->o, path, &c, b->err);
    c.spec = spec;
    c.spec_tokens = spec_tokens;
    c.max_requests = b->requests;
    c.progress = NULL;
    c.record = options_flag(b->o, OPT_ROOFLINE);
    foray_close(b->engine);
    b->engine = NULL;
    return rc == 0 ? foray_open(&c, &b->engine, b->err) : rc;
}

/* Refuses a test of one option that needs more tokens than the context holds. */
static int check_length(bench *b, const char *option, int64_t n, int64_t depth, int64_t needed)
{
    int context = foray_engine_info(b->engine).context;
    if (needed <= context)
        return 0;
    char at[48] = "";
    if (depth > 0)
        snprintf(at, sizeof at, " after --n-depth %lld", (long long)depth);
    return fail(b->err, FORAY_ELIMIT,
                "%s %lld%s: needs %lld tokens, the context holds %d (raise -c or ask for less)", option,
                (long long)n, at, (long long)needed, context);
}

/* Before anything is measured: every test must fit into the context. */
static int check_lengths(bench *b)
{
    enum { LISTS = 3 };
    static const option_id lists[LISTS] = { OPT_N_PROMPT, OPT_N_GEN, OPT_ROWS };
    static const char *const names[LISTS] = { "--n-prompt", "--n-gen", "--rows" };
    size_t depths, count, pairs;
    const int64_t *d = options_ints(b->o, OPT_N_DEPTH, &depths), *pg = options_ints(b->o, OPT_PG, &pairs);
    int rc = 0;
    for (int l = 0; l < LISTS; l++) {
        const int64_t *n = options_ints(b->o, lists[l], &count);
        for (size_t i = 0; i < count * depths && rc == 0; i++) {
            int64_t value = n[i % count], depth = d[i / count], least = depth;
            if (lists[l] == OPT_N_GEN)
                least = (depth > 0 ? depth : 1) + 1; /* a prompt, and the token that it gives */
            else if (lists[l] == OPT_ROWS)
                least = (depth > ROWS_DEPTH ? depth : ROWS_DEPTH) + 1;
            rc = value > 0 ? check_length(b, names[l], value, depth, least + value) : 0;
        }
    }
    for (size_t i = 0; i + 1 < pairs && rc == 0; i += 2)
        rc = pg[i] > 0 ? check_length(b, "--pg", pg[i], 0, pg[i] + pg[i + 1] + 1)
                       : fail(b->err, FORAY_EUSAGE,
                              "--pg 0,%lld: a prompt has at least one token (-n %lld is that)",
                              (long long)pg[i + 1], (long long)pg[i + 1]);
    return rc;
}

static int bench_lists(bench *b, const char *path)
{
    size_t prompts, gens, depths, pairs;
    const int64_t *p = options_ints(b->o, OPT_N_PROMPT, &prompts), *n = options_ints(b->o, OPT_N_GEN, &gens);
    const int64_t *d = options_ints(b->o, OPT_N_DEPTH, &depths), *pg = options_ints(b->o, OPT_PG, &pairs);
    int rc = reopen(b, path, "off", 0);
    for (size_t k = 0; k < depths && rc == 0; k++) {
        for (size_t i = 0; i < prompts && rc == 0; i++)
            rc = p[i] > 0 ? bench_prompt_row(b, (int)p[i], (int)d[k]) : 0;
        for (size_t i = 0; i < gens && rc == 0; i++)
            rc = n[i] > 0 ? bench_generate_row(b, 0, (int)n[i], (int)d[k], false) : 0;
    }
    for (size_t i = 0; i + 1 < pairs && rc == 0; i += 2)
        rc = bench_generate_row(b, (int)pg[i], (int)pg[i + 1], 0, true);
    return rc;
}

/* The row counts to time: one, which the others are compared with, then those that were asked for. */
static int read_counts(bench *b, int counts[MOST_COUNTS], int *count)
{
    size_t n;
    const int64_t *rows = options_ints(b->o, OPT_ROWS, &n);
    *count = 0;
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < i; k++)
            if (rows[k] == rows[i])
                return fail(b->err, FORAY_EUSAGE, "--rows: %lld stands there twice", (long long)rows[i]);
        if (*count == 0)
            counts[(*count)++] = 1;
        if (rows[i] > 1)
            counts[(*count)++] = (int)rows[i];
    }
    return 0;
}

static int bench_verify(bench *b, const char *path)
{
    size_t depths;
    const int64_t *d = options_ints(b->o, OPT_N_DEPTH, &depths);
    int counts[MOST_COUNTS], count, most = 1;
    int rc = read_counts(b, counts, &count);
    if (rc != 0 || count == 0)
        return rc;
    for (int i = 0; i < count; i++)
        most = counts[i] > most ? counts[i] : most;
    rc = reopen(b, path, "script", most > 1 ? most - 1 : 1);
    for (size_t k = 0; k < depths && rc == 0; k++)
        rc = bench_verify_rows(b, counts, count, (int)d[k]);
    return rc;
}

static int bench_speculation(bench *b, const char *path)
{
    static const char *const kinds[] = { "edit", "prose", "list", "code" };
    if (strcmp(options_string(b->o, OPT_SPEC), "off") == 0)
        return 0;
    int rc = reopen(b, path, options_string(b->o, OPT_SPEC), options_int(b->o, OPT_SPEC_TOKENS));
    if (rc == 0 && !foray_engine_info(b->engine).chat_format) {
        log_warning("no sd rows: %s has no chat format that foray knows (--chat-template)", path);
        return 0;
    }
    for (int i = 0; i < 4 && rc == 0; i++)
        rc = bench_class_row(b, kinds[i], SD_TOKENS);
    return rc;
}

/* Where the time of a round goes, with the drafter that was asked for. */
static int measure_account(bench *b, const char *path)
{
    int rc = reopen(b, path, options_string(b->o, OPT_SPEC), options_int(b->o, OPT_SPEC_TOKENS));
    if (rc == 0)
        rc = bench_account_measure(b->engine, b->requests, b->reps, &b->account, b->err);
    if (rc == 0 && b->account.steps == 0)
        log_warning("no account of a round: a context of %d tokens is too short for it (-c)",
                    foray_engine_info(b->engine).context);
    return rc;
}

/* Plain decoding once more, with every task recorded. */
static int measure_roofline(bench *b, const char *path, bench_roofline *out)
{
    int32_t id = 1;
    int rc = reopen(b, path, "off", 0);
    if (rc != 0)
        return rc;
    size_t capacity = ring_capacity(engine_ring(b->engine));
    int room = foray_engine_info(b->engine).context - 1;
    task_record *tasks = mem_alloc(MEM_GENERAL, capacity * sizeof *tasks);
    bench_answer *a = mem_alloc(MEM_GENERAL, sizeof *a);
    if (!tasks || !a)
        rc = fail(b->err, FORAY_ENOMEM, "bench: no memory for %zu task records", capacity);
    if (rc == 0) {
        foray_request_config c = bench_plain_request(&id, 1, room < ROOFLINE_TOKENS ? room : ROOFLINE_TOKENS);
        rc = bench_run_requests(b->engine, &c, b->requests, a, b->err);
    }
    if (rc == 0) {
        uint64_t lost;
        bench_roofline_add_up(tasks, ring_read(engine_ring(b->engine), tasks, capacity, &lost), out);
        out->peak_bytes = median_bandwidth(b);
        out->peak_flops = peaks_fma(b->peaks, b->setting.threads);
    }
    mem_free(MEM_GENERAL, a, sizeof *a);
    mem_free(MEM_GENERAL, tasks, capacity * sizeof *tasks);
    return rc;
}

/* The first row, while this process is still small. What the last rows need is looked for here. */
static int bench_load_row(bench *b, const char *path)
{
    struct stat info;
    foray_config c;
    int rc = setup_config(b->o, path, &c, b->err);
    if (rc != 0)
        return rc;
    c.input = strcmp(c.spec, "off") == 0 ? FORAY_IDS : FORAY_TEXT;
    c.spec = "off";
    c.spec_tokens = 0;
    c.progress = NULL;
    bench_row *r = add_row(b, "load", 0, 0);
    if (!r)
        return b->err->code;
    r->n_requests = 1;
    bool one_file = stat(path, &info) == 0 && S_ISREG(info.st_mode);
    r->file_bytes = one_file ? (double)info.st_size : (double)b->setting.model_bytes;
    return bench_load(&c, b->reps < MOST_LOADS ? b->reps : MOST_LOADS, r, b->err);
}

/* What every row says: read off the model's file. */
static int describe(bench *b, const char *path)
{
    model_file *f;
    int rc = model_file_open(path, &f, b->err);
    if (rc != 0)
        return rc;
    const char *slash = strrchr(path, '/');
    uint64_t of_type[DTYPE_COUNT] = { 0 };
    dtype most = DTYPE_F32;
    b->setting.model = slash ? slash + 1 : path;
    for (size_t i = 0; i < model_file_tensor_count(f); i++) {
        const tensor_view *t = model_file_tensor_at(f, i);
        unsigned long long n = 1;
        for (int d = 0; d < t->dims; d++)
            n *= (unsigned long long)t->shape[d];
        b->setting.parameters += n;
        b->setting.model_bytes += t->bytes;
        bool ends = strstr(t->name, "embd") || strstr(t->name, "embed") || strstr(t->name, "head") ||
                    strcmp(t->name, "output.weight") == 0;
        if (t->dims >= 2 && !ends && t->type >= 0)
            of_type[t->type] += n;
    }
    for (int i = 0; i < DTYPE_COUNT; i++)
        most = of_type[i] > of_type[most] ? (dtype)i : most;
    /* Two FP4 numbers to a byte stand as I8 in folders. */
    bool fp4 = of_type[DTYPE_F8_E4M3] > 0 && of_type[DTYPE_I8] > 0;
    b->setting.type = fp4 ? "FP8+FP4" : dtype_get(most)->name;
    b->quantised = !fp4 && (most == DTYPE_I8 || (dtype_get(most)->block > 1 && most != DTYPE_MXFP4));
    model_file_close(f);
    return 0;
}

static int measure(bench *b, const char *path, bench_roofline *roofline)
{
    foray_info info = foray_engine_info(b->engine);
    b->setting.isa = info.isa;
    b->setting.threads = info.threads;
    b->setting.machine = manifest_machine();
    b->setting.commit = manifest_commit();
    int rc = team_open(info.threads, &b->team, b->err);
    if (rc == 0)
        rc = peaks_open(info.isa, 0, b->team, &b->peaks, b->err);
    if (rc == 0)
        rc = bench_lists(b, path);
    if (rc == 0)
        rc = bench_verify(b, path);
    if (rc == 0)
        rc = bench_speculation(b, path);
    if (rc == 0)
        rc = measure_account(b, path);
    if (rc == 0 && b->bandwidths == 0)
        measure_bandwidth(b);
    for (int i = 0; i < b->count; i++)
        b->rows[i].read_bandwidth = median_bandwidth(b);
    return rc == 0 && options_flag(b->o, OPT_ROOFLINE) ? measure_roofline(b, path, roofline) : rc;
}

static int run_all(bench *b, const char *path, buf *out)
{
    int counts[MOST_COUNTS], count;
    const char *form = options_string(b->o, OPT_OUTPUT);
    bench_roofline roofline = { 0 };
    if (options_flag(b->o, OPT_ROOFLINE) && strcmp(form, "csv") == 0)
        return fail(b->err, FORAY_EUSAGE, "--roofline: csv has no room for it (-o md, json or jsonl)");
    int rc = read_counts(b, counts, &count);
    if (rc == 0)
        rc = describe(b, path);
    if (rc == 0)
        rc = bench_load_row(b, path);
    if (rc == 0)
        rc = reopen(b, path, "off", 0);
    if (rc == 0)
        rc = check_lengths(b);
    if (rc == 0)
        rc = measure(b, path, &roofline);
    if (rc == 0)
        bench_report(&(bench_results) { .setting = b->setting,
                                        .rows = b->rows,
                                        .count = b->count,
                                        .account = &b->account,
                                        .roofline = &roofline },
                     form, out);
    return rc;
}

int cmd_bench(const options *o)
{
    foray_error err;
    bench b = {
        .o = o, .reps = options_int(o, OPT_REPS), .requests = options_int(o, OPT_REQUESTS), .err = &err
    };
    size_t bytes = sizeof(bench_row) * MOST_ROWS_OUT;
    buf path = { 0 }, text = { 0 };
    b.reps = b.reps < BENCH_MOST_SAMPLES ? b.reps : BENCH_MOST_SAMPLES;
    b.rows = mem_alloc_zeroed(MEM_GENERAL, bytes);
    int rc = b.rows ? 0 : fail(&err, FORAY_ENOMEM, "bench: no memory");
    setup_warn_unused(o);
    if (rc == 0 && options_has(o, OPT_AB))
        rc = bench_ab(o, &text, &err);
    else if (rc == 0 && options_flag(o, OPT_GRAPH_REPORT))
        rc = bench_graphs(o, &text, &err);
    else if (rc == 0 && options_flag(o, OPT_SPEC_TABLE))
        rc = bench_table(o, &text, &err);
    else if (rc == 0) {
        rc = model_path_find(options_has(o, OPT_MODEL) ? options_string(o, OPT_MODEL) : MODEL_PATH_DEFAULT,
                             &path, &err);
        rc = rc == 0 ? run_all(&b, path.data, &text) : rc;
    }
    if (rc == 0)
        rc = commands_print(&text, &err);
    foray_close(b.engine);
    peaks_close(b.peaks);
    team_close(b.team);
    mem_free(MEM_GENERAL, b.rows, bytes);
    buf_free(&text);
    buf_free(&path);
    return rc == 0 ? STATUS_OK : commands_fail(&err);
}
