/* bench_table.c: blocks of answers, setting after setting. See bench_table.h.
 *
 * A block is one run of the requests, each with a prompt of one half of one class, under one setting. What is timed are the
 * rounds in which all of them decode, in time per token; it ends with the first that ends, for the rest is a smaller batch,
 * whose size would depend on the setting. The settings of a block follow each other, begun one later each time.
 */
#include "cli/bench_table.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "cli/bench_prompts.h"
#include "cli/bench_requests.h"
#include "cli/model_path.h"
#include "cli/setup.h"
#include "cli/terminal.h"
#include "engine/score.h"
#include "measure/compare.h"
#include "observe/step_record.h"
#include "spec/round.h"

enum { KINDS = 4, EACH = 5, HALVES = 2, MOST_REPS = 40, MOST_BLOCKS = EACH * MOST_REPS };
enum { PLAIN, AUTO, FRESH, FIXED, MOST_FIXED = 6, MOST_SETTINGS = FIXED + MOST_FIXED };
enum { MOST_AT_ONCE = 8, BATCHES = 3 };

static const char *const KIND[KINDS] = { "edit", "prose", "list", "code" };
static const int BATCH[BATCHES] = { 1, 4, MOST_AT_ONCE };
static const int DRAFTS[MOST_FIXED] = { 1, 2, 3, 5, 7, 15 };
static const double OF_BEST = .95, OF_PLAIN = .97; /* the gates of `auto` */

/* What the blocks of a class took. */
typedef struct {
    double ms[MOST_SETTINGS][MOST_BLOCKS]; /* per token */
    int half[MOST_BLOCKS];
    int blocks, same;        /* blocks; of those, the texts were equal under all settings */
    int64_t drafts, members; /* of auto: drafts verified, and requests times rounds */
} class_times;

typedef struct {
    const options *base;
    foray_engine *engine;
    round_loop *round;
    drafter *drafter;
    int requests, reps, tokens, settings, blocks_done, blocks_all;
    budget opened, budget[MOST_SETTINGS]; /* as the engine came up; as each setting left it */
    class_times *of;                      /* [KINDS] */
    bench_answer *answer;                 /* [MOST_SETTINGS][MOST_AT_ONCE] of the block */
    int32_t ids[MOST_AT_ONCE][BENCH_MOST_PROMPT];
    /* The run in progress. */
    int64_t last, wall_ns, tokens_made, drafts, members;
    int missed_gates;
    foray_error *err;
} table;

/* ---- blocks ---------------------------------------------------------------------------------- */

/* Behind every step: its record. False: a request has ended, and the batch is another one from here on. */
static bool note_step(void *user)
{
    table *t = user;
    const step_record *s = engine_last_step(t->engine);
    if (s->forward_ct == t->last)
        return true;
    t->last = s->forward_ct;
    if (!s->decode || s->requests < t->requests)
        return t->tokens_made == 0;
    t->wall_ns += s->wall_ns;
    t->members += s->requests;
    for (int i = 0; i < s->requests; i++) {
        t->drafts += s->request[i].draft_count;
        t->tokens_made += s->request[i].commit_len;
    }
    return true;
}

static void use_setting(table *t, int setting)
{
    if (setting == FRESH)
        t->budget[setting] = t->opened;
    round_set_drafter(t->round, setting == PLAIN ? NULL : t->drafter);
    *round_edit_budget(t->round) = t->budget[setting];
}

static bench_answer *answers_of(const table *t, int setting)
{
    return t->answer + (size_t)setting * MOST_AT_ONCE;
}

static int run_setting(table *t, int setting, const foray_request_config *c)
{
    t->wall_ns = t->tokens_made = t->drafts = t->members = 0;
    use_setting(t, setting);
    int rc =
        bench_run_batch(t->engine, c, t->requests, answers_of(t, setting), t->requests, note_step, t, t->err);
    t->budget[setting] = *round_get_budget(t->round);
    return rc;
}

/* Whether all settings gave the texts of plain decoding, as far as both went. */
static bool same_texts(const table *t)
{
    for (int s = PLAIN + 1; s < t->settings; s++)
        for (int i = 0; i < t->requests; i++) {
            const bench_answer *a = &answers_of(t, PLAIN)[i], *b = &answers_of(t, s)[i];
            const int count = a->count < b->count ? a->count : b->count;
            if (memcmp(a->tokens, b->tokens, sizeof(int32_t) * (size_t)count) != 0)
                return false;
        }
    return true;
}

/* Prompts of the half to which `number` belongs, from that one on. */
static int encode_block(table *t, int kind, int number, foray_request_config *c)
{
    const int half = number % HALVES, size = (EACH - half + 1) / HALVES;
    const int context = foray_engine_info(t->engine).context;
    for (int i = 0; i < t->requests; i++) {
        int count, which = (number / HALVES + i) % size * HALVES + half;
        const bench_prompt *p = &BENCH_PROMPTS[kind * EACH + which];
        int rc = bench_encode(t->engine, p, t->ids[i], &count, t->err);
        if (rc == 0 && count + t->tokens > context)
            rc = fail(t->err, FORAY_ELIMIT,
                      "--spec-table: prompt %s has %d tokens, and %d more: the context holds %d (raise -c or "
                      "lower -n)",
                      p->id, count, t->tokens, context);
        if (rc != 0)
            return rc;
        c[i] = bench_plain_request(t->ids[i], count, t->tokens);
        c[i].ignore_eos = false; /* an answer ends where it ends */
    }
    return 0;
}

/* All settings on the same prompts; the first to run is another one each time. A block whose answers end with their first
 * tokens has nothing to time. */
static int run_block(table *t, int kind, int number, int turn, bool counts)
{
    foray_request_config c[MOST_AT_ONCE];
    class_times *k = &t->of[kind];
    double ms[MOST_SETTINGS];
    int64_t drafts = 0, members = 0;
    bool timed = true;
    int rc = encode_block(t, kind, number, c);
    for (int i = 0; i < t->settings && rc == 0; i++) {
        const int setting = (turn + i) % t->settings;
        rc = run_setting(t, setting, c);
        timed = timed && t->tokens_made > 0;
        ms[setting] = timed ? (double)t->wall_ns / 1e6 / (double)t->tokens_made : 0;
        drafts += setting == AUTO ? t->drafts : 0;
        members += setting == AUTO ? t->members : 0;
    }
    if (rc != 0 || !counts || !timed)
        return rc;
    for (int i = 0; i < t->settings; i++)
        k->ms[i][k->blocks] = ms[i];
    k->drafts += drafts;
    k->members += members;
    k->same += same_texts(t);
    k->half[k->blocks++] = number % HALVES;
    terminal_progress(NULL, "speed table", (uint64_t)++t->blocks_done, (uint64_t)t->blocks_all);
    return 0;
}

static void reset_budgets(table *t)
{
    for (int i = 0; i < t->settings; i++) {
        t->budget[i] = t->opened;
        t->budget[i].fixed = i >= FIXED ? DRAFTS[i - FIXED] : -1;
    }
}

static int run_blocks(table *t)
{
    int rc = 0, turn = 0;
    t->opened = *round_get_budget(t->round);
    reset_budgets(t);
    for (int kind = 0; kind < KINDS && rc == 0; kind++)
        rc = run_block(t, kind, 0, 0, false); /* captures, first touches */
    reset_budgets(t);
    for (int k = 0; k < t->reps; k++)
        for (int number = 0; number < EACH; number++)
            for (int kind = 0; kind < KINDS && rc == 0; kind++)
                rc = run_block(t, kind, number, turn++, true);
    round_set_drafter(t->round, t->drafter);
    return rc;
}

/* ---- what it says ---------------------------------------------------------------------------- */

/* The fixed setting with the largest geometric mean of speeds on one half. */
static int best_of_half(const table *t, const class_times *k, int half)
{
    int best = FIXED;
    double most = -HUGE_VAL;
    for (int s = FIXED; s < t->settings; s++) {
        double sum = 0;
        for (int i = 0; i < k->blocks; i++)
            if (k->half[i] == half)
                sum += log(k->ms[PLAIN][i] / k->ms[s][i]);
        if (sum > most) {
            most = sum;
            best = s;
        }
    }
    return best;
}

/* Speed of one setting against what `than` says for each block. */
static compare_ratio speed(const class_times *k, const double *than, int setting)
{
    return compare_pairs(than, k->ms[setting], k->blocks);
}

static void put_ratio(const compare_ratio *r, buf *out)
{
    buf_printf(out, " %.3f (%.3f – %.3f) |", r->ratio, r->low, r->high);
}

static void put_class(table *t, int kind, buf *out)
{
    const class_times *k = &t->of[kind];
    double best[MOST_BLOCKS];
    if (k->blocks == 0) {
        buf_printf(out, "| %s | no round in which all of them decode |\n", KIND[kind]);
        return;
    }
    const int chosen[HALVES] = { best_of_half(t, k, 0), best_of_half(t, k, 1) };
    for (int i = 0; i < k->blocks; i++) /* the choice of the other half */
        best[i] = k->ms[chosen[1 - k->half[i]]][i];
    buf_printf(out, "| %s | %.1f |", KIND[kind], 1e3 / compare_summarise(k->ms[PLAIN], k->blocks).median);
    for (int s = FIXED; s < t->settings; s++)
        buf_printf(out, " %.3f |", speed(k, k->ms[PLAIN], s).ratio);
    const compare_ratio fixed = compare_pairs(k->ms[PLAIN], best, k->blocks);
    buf_printf(out, " %.3f (K %d, %d) |", fixed.ratio, DRAFTS[chosen[0] - FIXED], DRAFTS[chosen[1] - FIXED]);
    bool within = true;
    for (int s = AUTO; s <= FRESH; s++) {
        const compare_ratio to_plain = speed(k, k->ms[PLAIN], s), to_best = speed(k, best, s);
        put_ratio(&to_plain, out);
        put_ratio(&to_best, out);
        within = within && to_plain.ratio >= OF_PLAIN && to_best.ratio >= OF_BEST;
    }
    t->missed_gates += !within;
    buf_printf(out, " %.2f | ", (double)k->drafts / (double)k->members);
    buf_puts(out, within ? "within" : "MISSED");
    if (fixed.ratio < 1)
        buf_puts(out, "; drafting does not pay here");
    if (k->same < k->blocks)
        buf_printf(out, "; TEXTS DIFFER in %d of %d blocks", k->blocks - k->same, k->blocks);
    buf_puts(out, " |\n");
}

static void put_table(table *t, buf *out)
{
    const foray_info info = foray_engine_info(t->engine);
    buf_printf(out, "\n%s, %s, %d request%s at once, answers of at most %d tokens, %d blocks a class\n\n",
               info.name, info.spec, t->requests, t->requests == 1 ? "" : "s", t->tokens, t->of[0].blocks);
    buf_puts(out, "| class | plain, tokens/s |");
    for (int s = FIXED; s < t->settings; s++)
        buf_printf(out, " K %d |", DRAFTS[s - FIXED]);
    buf_puts(out, " best K of the other half | auto | auto to best | auto, new | new to best | drafts | "
                  "verdict |\n|---|---|");
    for (int s = FIXED; s < t->settings; s++)
        buf_puts(out, "---|");
    buf_puts(out, "---|---|---|---|---|---|---|\n");
    for (int kind = 0; kind < KINDS; kind++)
        put_class(t, kind, out);
}

/* ---- the command ----------------------------------------------------------------------------- */

static int open_engine(table *t, const char *path)
{
    foray_config c;
    int rc = setup_config(t->base, path, &c, t->err);
    c.max_requests = t->requests;
    c.progress = NULL;
    c.input = FORAY_IDS;
    rc = rc == 0 ? foray_open(&c, &t->engine, t->err) : rc;
    if (rc != 0)
        return rc;
    t->round = engine_round(t->engine);
    t->drafter = round_get_drafter(t->round);
    t->last = engine_last_step(t->engine)->forward_ct;
    const int most = round_upper_rows(t->round, 1) - 1;
    for (t->settings = FIXED; t->settings < MOST_SETTINGS && DRAFTS[t->settings - FIXED] <= most;)
        t->settings++;
    return 0;
}

static int run_requests(table *t, const char *path, int requests, buf *out)
{
    t->requests = requests;
    memset(t->of, 0, KINDS * sizeof *t->of);
    int rc = open_engine(t, path);
    if (rc == 0)
        rc = run_blocks(t);
    if (rc == 0)
        put_table(t, out);
    foray_close(t->engine);
    t->engine = NULL;
    return rc;
}

static int read_options(table *t)
{
    const options *o = t->base;
    size_t count;
    const int64_t *lengths = options_ints(o, OPT_N_GEN, &count);
    if (count != 1 || lengths[0] < 2 || lengths[0] > BENCH_MOST_TOKENS)
        return fail(t->err, FORAY_EUSAGE, "--n-gen: with --spec-table it is one number from 2 to %d",
                    BENCH_MOST_TOKENS);
    if (strcmp(options_string(o, OPT_SPEC), "off") == 0)
        return fail(t->err, FORAY_EUSAGE, "--spec-table: --spec off leaves nothing to compare");
    if (options_has(o, OPT_SPEC_BUDGET))
        return fail(t->err, FORAY_EUSAGE, "--spec-table: it tries budgets itself (leave --spec-budget out)");
    if (options_int(o, OPT_REQUESTS) > MOST_AT_ONCE)
        return fail(t->err, FORAY_EUSAGE, "--requests: with --spec-table at most %d", MOST_AT_ONCE);
    if (strcmp(options_string(o, OPT_OUTPUT), "md") != 0)
        return fail(t->err, FORAY_EUSAGE, "--spec-table: there is no other form than -o md");
    bench_warn_rows(o, OPT_N_GEN, "--spec-table makes its table and nothing else");
    t->tokens = (int)lengths[0];
    t->reps = options_int(o, OPT_REPS) < MOST_REPS ? options_int(o, OPT_REPS) : MOST_REPS;
    return 0;
}

static void put_verdict(const table *t, int classes, buf *out)
{
    buf_printf(
        out,
        "\nspeeds are medians over blocks against plain decoding in the same block, with their intervals; "
        "auto goes on from answer to answer, new begins each answer as the engine came up; drafts are "
        "those that auto verified per request and round\n"
        "gates: at least %.2f of the best fixed K and %.2f of plain: %d of %d rows within both\n",
        OF_BEST, OF_PLAIN, classes - t->missed_gates, classes);
}

int bench_table(const options *base, buf *out, foray_error *err)
{
    const size_t bytes = KINDS * sizeof(class_times),
                 answers = (size_t)MOST_SETTINGS * MOST_AT_ONCE * sizeof(bench_answer);
    buf path = { 0 };
    table *t = mem_alloc_zeroed(MEM_GENERAL, sizeof *t);
    if (!t)
        return fail(err, FORAY_ENOMEM, "bench: no memory");
    t->base = base;
    t->err = err;
    t->of = mem_alloc_zeroed(MEM_GENERAL, bytes);
    t->answer = mem_alloc(MEM_GENERAL, answers);
    int rc = t->of && t->answer ? read_options(t) : fail(err, FORAY_ENOMEM, "bench: no memory");
    if (rc == 0)
        rc = model_path_find(
            options_has(base, OPT_MODEL) ? options_string(base, OPT_MODEL) : MODEL_PATH_DEFAULT, &path, err);
    const bool one = options_has(base, OPT_REQUESTS);
    const int batches = one ? 1 : BATCHES;
    t->blocks_all = batches * t->reps * EACH * KINDS;
    for (int i = 0; i < batches && rc == 0; i++)
        rc = run_requests(t, path.data, one ? options_int(base, OPT_REQUESTS) : BATCH[i], out);
    if (rc == 0)
        put_verdict(t, batches * KINDS, out);
    buf_free(&path);
    mem_free(MEM_GENERAL, t->answer, answers);
    mem_free(MEM_GENERAL, t->of, bytes);
    mem_free(MEM_GENERAL, t, sizeof *t);
    return rc;
}
