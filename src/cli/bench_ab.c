/* bench_ab.c: two engines, pair by pair. See bench_ab.h. */
#include "cli/bench_ab.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "cli/bench_prompts.h"
#include "cli/bench_requests.h"
#include "cli/model_path.h"
#include "cli/setup.h"
#include "engine/score.h"
#include "measure/compare.h"
#include "spec/round.h"

enum { MOST_PAIRS = 2000, WORDS = 64 };

/* One of the two. Times are per token behind the first, in us. */
typedef struct {
    const char *text; /* its options, as the user wrote them */
    char words[1024], base[OPT_COUNT][512];
    options o;
    bool parsed;
    foray_engine *engine;
    bench_answer answer;
    double all[MOST_PAIRS], phase[FORAY_PHASES][MOST_PAIRS];
    round_counters before; /* the warm-up is over */
} side;

typedef struct {
    side *s; /* [2] */
    int requests, tokens, pairs, same;
    foray_error *err;
} ab;

/* ---- two configurations ---- */

/* What the two cannot differ in, since they are asked together: it stands beside --ab or has no effect. */
static const struct {
    option_id id;
    const char *name;
    bool used; /* beside --ab */
} SHARED[] = { { OPT_HELP, "help", true },
               { OPT_AB, "ab", true },
               { OPT_REQUESTS, "requests", true },
               { OPT_REPS, "reps", true },
               { OPT_N_GEN, "n-gen", true },
               { OPT_N_PROMPT, "n-prompt", false },
               { OPT_N_DEPTH, "n-depth", false },
               { OPT_PG, "pg", false },
               { OPT_ROWS, "rows", false },
               { OPT_ROOFLINE, "roofline", false },
               { OPT_GRAPH_REPORT, "graph-report", false },
               { OPT_SPEC_TABLE, "spec-table", false },
               { OPT_OUTPUT, "output", false } };
enum { SHARED_COUNT = sizeof SHARED / sizeof *SHARED };

static const char *const nothing[] = { NULL }; /* the environment has had its say in base */

static bool was_given(const options *o, option_id id)
{
    return o->value[id].source != OPTION_UNSET || (id == OPT_HELP && options_flag(o, id)); /* has no source */
}

static void warn_unused(const options *base)
{
    for (int i = 0; i < SHARED_COUNT; i++)
        if (!SHARED[i].used && was_given(base, SHARED[i].id))
            log_warning("--%s has no effect: --ab compares two sets of options and nothing else",
                        SHARED[i].name);
}

/* The words of a side, which must leave alone what both share. */
static int check_words(const options *base, int words, const char *const *argv, foray_error *err)
{
    options own;
    int rc = options_parse(base->command, words, argv, nothing, &own, err);
    if (rc != 0)
        return rc;
    for (int i = 0; i < SHARED_COUNT && rc == 0; i++)
        if (was_given(&own, SHARED[i].id))
            rc = fail(err, FORAY_EUSAGE, "--ab: --%s cannot be an option of one side%s", SHARED[i].name,
                      SHARED[i].used ? " (put it beside --ab)" : "");
    options_free(&own);
    return rc;
}

/* The command line's options, then the words of the side's. */
static int parse_side(const options *base, side *s, foray_error *err)
{
    const char *names[OPT_COUNT], *values[OPT_COUNT], *argv[OPT_COUNT + WORDS];
    size_t count = options_list(base, names, values);
    int argc = 0, words = 0;
    for (size_t i = 0; i < count; i++) {
        if (values[i][0] == '\0' || strcmp(names[i], "ab") == 0)
            continue;
        int n = snprintf(s->base[argc], sizeof s->base[argc], "--%s=%s", names[i], values[i]);
        if (n < 0 || (size_t)n >= sizeof s->base[argc])
            return fail(err, FORAY_ELIMIT, "--%s: too long for --ab (at most 500 bytes)", names[i]);
        argv[argc] = s->base[argc];
        argc++;
    }
    if (snprintf(s->words, sizeof s->words, "%s", s->text) >= (int)sizeof s->words)
        return fail(err, FORAY_ELIMIT, "--ab: more than %zu bytes of options", sizeof s->words - 1);
    for (char *save, *word = strtok_r(s->words, " \t", &save); word; word = strtok_r(NULL, " \t", &save)) {
        if (words == WORDS)
            return fail(err, FORAY_ELIMIT, "--ab: more than %d words", WORDS);
        argv[argc + words++] = word;
    }
    int rc = check_words(base, words, argv + argc, err);
    if (rc == 0)
        rc = options_parse(base->command, argc + words, argv, nothing, &s->o, err);
    s->parsed = rc == 0;
    return rc;
}

static int open_side(side *s, int requests, foray_error *err)
{
    const char *name = options_has(&s->o, OPT_MODEL) ? options_string(&s->o, OPT_MODEL) : MODEL_PATH_DEFAULT;
    buf path = { 0 };
    int rc = model_path_find(name, &path, err);
    if (rc == 0) {
        foray_config c;
        rc = setup_config(&s->o, path.data, &c, err);
        c.max_requests = requests;
        c.progress = NULL;
        c.input = FORAY_IDS;
        rc = rc == 0 ? foray_open(&c, &s->engine, err) : rc;
    }
    buf_free(&path);
    return rc;
}

/* "--multi-stream-rows: off, 64". Returns how many options differ. */
static int put_differences(const side *s, buf *out)
{
    const char *names[OPT_COUNT], *a[OPT_COUNT], *b[OPT_COUNT];
    size_t count = options_list(&s[0].o, names, a);
    int differ = 0;
    options_list(&s[1].o, names, b);
    for (size_t i = 0; i < count; i++)
        if (strcmp(a[i], b[i]) != 0) {
            buf_printf(out, "%s--%s: %s, %s\n", differ == 0 ? "differences (A, B):\n" : "", names[i],
                       a[i][0] ? a[i] : "not set", b[i][0] ? b[i] : "not set");
            differ++;
        }
    if (differ == 0)
        buf_puts(out, "no option differs: what follows is how far two equal runs differ here\n");
    return differ;
}

/* ---- pairs ---- */

/* An answer that the context cut short would be other work than the rest. */
static int ask_ids(ab *x, side *s, const int32_t *ids, int count)
{
    foray_request_config c = bench_plain_request(ids, count, x->tokens);
    int rc = bench_run_requests(s->engine, &c, x->requests, &s->answer, x->err);
    if (rc == 0 && s->answer.count < x->tokens)
        rc = fail(x->err, FORAY_ELIMIT,
                  "--ab: a prompt of %d tokens and %d more: the context holds %d (raise -c or lower -n)",
                  count, x->tokens, foray_engine_info(s->engine).context);
    return rc;
}

static int ask(ab *x, side *s, const bench_prompt *prompt)
{
    int32_t ids[BENCH_MOST_PROMPT];
    int count;
    int rc = bench_encode(s->engine, prompt, ids, &count, x->err);
    return rc == 0 ? ask_ids(x, s, ids, count) : rc;
}

static void note(side *s, int pair)
{
    const foray_account *a = &s->answer.account;
    const double tokens = s->answer.count - 1;
    s->all[pair] = (double)a->decode_ns / tokens / 1e3;
    for (int p = 0; p < FORAY_PHASES; p++)
        s->phase[p][pair] = (double)a->phases_ns[p] / tokens / 1e3;
}

static int run_pair(ab *x, const bench_prompt *prompt, bool counts)
{
    const bench_answer *a = &x->s[0].answer, *b = &x->s[1].answer;
    for (int turn = 0; turn < 2; turn++) {
        int rc = ask(x, &x->s[(x->pairs + turn) % 2], prompt);
        if (rc != 0)
            return rc;
    }
    if (!counts)
        return 0;
    note(&x->s[0], x->pairs);
    note(&x->s[1], x->pairs++);
    x->same += a->count == b->count && memcmp(a->tokens, b->tokens, sizeof(int32_t) * (size_t)a->count) == 0;
    return 0;
}

static int run_pairs(ab *x, int reps)
{
    int rc = 0;
    for (int i = 0; i < BENCH_PROMPT_COUNT && rc == 0; i += BENCH_PROMPT_COUNT / 4)
        rc = run_pair(x, &BENCH_PROMPTS[i],
                      false); /* captures what will be replayed; probes find out what they can */
    for (int i = 0; i < 2; i++) {
        round_loop *r = engine_round(x->s[i].engine);
        round_set_probing(r, false);
        x->s[i].before = round_get_counters(r);
    }
    for (int k = 0; k < reps && rc == 0; k++)
        for (int i = 0; i < BENCH_PROMPT_COUNT && rc == 0 && x->pairs < MOST_PAIRS; i++)
            rc = run_pair(x, &BENCH_PROMPTS[i], true);
    return rc;
}

/* ---- what it says ---- */

static void put_phases(const ab *x, buf *out)
{
    const side *s = x->s;
    buf_puts(out, "\n| us per token | A | B | B - A (interval) |\n|---|---|---|---|\n");
    for (int p = -1; p < FORAY_PHASES; p++) {
        const double *a = p < 0 ? s[0].all : s[0].phase[p], *b = p < 0 ? s[1].all : s[1].phase[p];
        const double of_a = compare_summarise(a, x->pairs).median,
                     of_b = compare_summarise(b, x->pairs).median;
        const compare_difference d = compare_differences(b, a, x->pairs);
        if (of_a == 0 && of_b == 0)
            continue;
        buf_printf(out, "| %s | %.2f | %.2f | %+.2f (%+.2f … %+.2f)%s |\n",
                   p < 0 ? "all, behind the first token" : foray_phase_name(p), of_a, of_b, d.difference,
                   d.low, d.high, d.low <= 0 && d.high >= 0 ? ", none to be told" : "");
    }
}

static void put_verdict(const ab *x, int differ, buf *out)
{
    const compare_ratio r = compare_pairs(x->s[1].all, x->s[0].all, x->pairs);
    int64_t captures = 0;
    buf_printf(out, "\ntexts equal in %d of %d pairs", x->same, x->pairs);
    for (int i = 0; i < 2; i++) {
        const round_counters now = round_get_counters(engine_round(x->s[i].engine)), *was = &x->s[i].before;
        captures += now.captures - was->captures;
        buf_printf(out, "; %c: %lld replays, %lld eager rounds, %lld captures", 'A' + i,
                   (long long)(now.replays - was->replays), (long long)(now.eager - was->eager),
                   (long long)(now.captures - was->captures));
    }
    buf_printf(out, "\nB takes %.3f of A's time (%.3f … %.3f, %.0f %%)", r.ratio, r.low, r.high,
               100 * r.confidence);
    if (x->same < x->pairs)
        buf_puts(out, ": not the same work, nothing is claimed\n");
    else if (captures > 0)
        buf_puts(out, ": graphs were captured meanwhile, nothing is claimed\n");
    else if (r.low <= 1 && r.high >= 1)
        buf_puts(out, ": the interval holds 1, no difference is claimed\n");
    else if (differ > 1)
        buf_puts(out, "; several options differ, none of them is named as the cause\n");
    else
        buf_puts(out, "\n");
}

/* Tokens of each answer: those behind the first are timed, and all are compared. */
static int read_length(ab *x, const options *base)
{
    size_t count;
    const int64_t *lengths = options_ints(base, OPT_N_GEN, &count);
    if (count != 1 || lengths[0] < 2 || lengths[0] > BENCH_MOST_TOKENS)
        return fail(x->err, FORAY_EUSAGE, "--n-gen: with --ab it is one number from 2 to %d",
                    BENCH_MOST_TOKENS);
    x->tokens = (int)lengths[0];
    return 0;
}

int bench_ab(const options *base, buf *out, foray_error *err)
{
    size_t count;
    const char *const *texts = options_strings(base, OPT_AB, &count);
    if (count != 2)
        return fail(err, FORAY_EUSAGE, "--ab: give it twice, once with the options of each side");
    size_t bytes = 2 * sizeof(side);
    side *s = mem_alloc_zeroed(MEM_GENERAL, bytes);
    if (!s)
        return fail(err, FORAY_ENOMEM, "bench: no memory");
    ab x = { .s = s, .requests = options_int(base, OPT_REQUESTS), .err = err };
    int rc = read_length(&x, base);
    warn_unused(base);
    for (int i = 0; i < 2 && rc == 0; i++) {
        s[i].text = texts[i];
        rc = parse_side(base, &s[i], err);
    }
    for (int i = 0; i < 2 && rc == 0; i++)
        rc = open_side(&s[i], x.requests, err);
    if (rc == 0) {
        buf_printf(out, "A: %s\nB: %s\n", s[0].text, s[1].text);
        int differ = put_differences(s, out);
        rc = run_pairs(&x, options_int(base, OPT_REPS));
        if (rc == 0) {
            put_phases(&x, out);
            put_verdict(&x, differ, out);
        }
    }
    for (int i = 0; i < 2; i++) {
        foray_close(s[i].engine);
        if (s[i].parsed)
            options_free(&s[i].o);
    }
    mem_free(MEM_GENERAL, s, bytes);
    return rc;
}
