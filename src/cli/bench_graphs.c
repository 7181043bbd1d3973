/* bench_graphs.c: replayed against eager, round by round. See bench_graphs.h.
 *
 * Rounds run replayed and eager in turn (which of the two goes first alternates), in one process, on real requests. Two
 * runs of a phase make a pair where graph key and live rows are the same and none came between them. What is compared is
 * the phase's time on the device's clock, so that captures and the host's other work stay outside.
 */
#include "cli/bench_graphs.h"

#include <math.h>
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

enum { MOST_PAIRS = 2000, ENOUGH_PAIRS = 300, LEAST_PAIRS = 20, MOST_WAITING = 64, TOKENS = 128 };
enum { WHOLE = GRAPH_FAMILIES, ALL }; /* beside the families: rounds as a whole */

/* A run that waits for its counterpart. */
typedef struct {
    graph_key key;
    int live;
    bool eager;
    double us;
} waiting;

typedef struct {
    waiting waits[MOST_WAITING];
    int waiting, pairs;
    double eager[MOST_PAIRS], replay[MOST_PAIRS]; /* us */
    graph_counters before;
} family;

typedef struct {
    const options *o;
    foray_engine *engine;
    round_loop *round;
    family *of; /* [ALL] */
    uint32_t turn;
    foray_error *err;
} report;

/* Eager, replayed, replayed, eager, … A round that reads a prompt is of no pair. */
static bool in_turn(void *user, const round_plan *p)
{
    report *x = user;
    return p->phase != PHASE_PREFILL && (x->turn++ + 1) / 2 % 2 == 0;
}

static void note(family *f, waiting now)
{
    int i = 0;
    while (i < f->waiting && (f->waits[i].key.slots != now.key.slots ||
                              f->waits[i].key.size != now.key.size || f->waits[i].live != now.live))
        i++;
    if (i == f->waiting || f->waits[i].eager == now.eager) {
        if (i < MOST_WAITING)
            f->waits[i] = now;
        f->waiting += i == f->waiting && i < MOST_WAITING;
        return;
    }
    if (f->pairs < MOST_PAIRS) {
        f->eager[f->pairs] = now.eager ? now.us : f->waits[i].us;
        f->replay[f->pairs++] = now.eager ? f->waits[i].us : now.us;
    }
    f->waits[i] = f->waits[--f->waiting];
}

/* The parts of the round that has just run. */
static bool note_round(void *user)
{
    report *x = user;
    const round_plan *p = round_get_plan(x->round);
    const round_times *t = round_get_times(x->round);
    const route *r = round_get_route(x->round);
    const int64_t ns[ROUTE_PARTS] = { t->verified - t->packed, t->drafted - t->drafting,
                                      t->extended - t->committed };
    if (p->phase == PHASE_PREFILL || p->rows == 0) /* nobody was there any more */
        return true;
    note(&x->of[WHOLE], (waiting) { .key = { .slots = p->draft_steps, .size = p->extend_launched },
                                    .live = p->rows,
                                    .eager = r->why[ROUTE_TARGET] == ROUTE_HOOK,
                                    .us = (double)(t->extended - t->drafting) / 1e3 });
    for (int part = 0; part < ROUTE_PARTS; part++) {
        const graph_key k = route_key(p, part, NULL);
        if (route_runs(p, part) && (r->why[part] == ROUTE_REPLAY || r->why[part] == ROUTE_HOOK))
            note(&x->of[k.family], (waiting) { .key = k,
                                               .live = r->live[part],
                                               .eager = r->why[part] == ROUTE_HOOK,
                                               .us = (double)ns[part] / 1e3 });
    }
    return true;
}

static int ask(report *x, int prompt, int requests)
{
    foray_request_config c[BENCH_MOST_REQUESTS];
    int32_t ids[BENCH_MOST_PROMPT];
    int count;
    int rc = bench_encode(x->engine, &BENCH_PROMPTS[prompt], ids, &count, x->err);
    int room = foray_engine_info(x->engine).context - count;
    for (int i = 0; i < requests && rc == 0; i++)
        c[i] = bench_plain_request(ids, count, room < TOKENS ? room : TOKENS);
    return rc == 0 ? bench_run_batch(x->engine, c, requests, NULL, 0, note_round, x, x->err) : rc;
}

/* Whether every family that runs now and then has been seen often enough, or one of them as often as can be. */
static bool enough(const report *x)
{
    bool rare = false, full = false;
    for (int f = 0; f < GRAPH_FAMILIES; f++) {
        rare = rare || (x->of[f].pairs >= LEAST_PAIRS && x->of[f].pairs < ENOUGH_PAIRS);
        full = full || x->of[f].pairs == MOST_PAIRS;
    }
    return full || !rare;
}

static int measure(report *x)
{
    round_hooks hooks = { .user = x, .eager = in_turn };
    const int kind = BENCH_PROMPT_COUNT / 4; /* the four kinds in turn */
    int rc = 0, runs = options_int(x->o, OPT_REPS) * BENCH_PROMPT_COUNT;
    round_set_hooks(x->round, &hooks);
    for (int i = 0; i < runs && rc == 0 && (i < 4 || !enough(x)); i++)
        rc = ask(x, i % 4 * kind + i / 4 % kind, options_int(x->o, OPT_REQUESTS));
    round_set_hooks(x->round, NULL);
    return rc;
}

/* ---- what it says ---- */

static void put_verdict(const graph_counters *c, const compare_difference *d, int pairs, buf *out)
{
    if (c->graphs == 0)
        buf_puts(out, c->keys_refused > 0 ? route_reason_name(c->key_reason) : "no graphs");
    else if (pairs < LEAST_PAIRS)
        buf_puts(out, "ran too rarely to tell");
    else if (d->low > 0)
        buf_printf(out, "worth its memory: a capture is paid after %.0f replays",
                   ceil((double)c->capture_ns / 1e3 / (double)c->captures / d->difference));
    else if (d->high < 0)
        buf_puts(out, "costs time: leave it out (--graph-phases)");
    else
        buf_puts(out, "not worth its memory: no gain is to be told");
}

/* Returns what a replay saves. */
static compare_difference put_pairs(const family *m, buf *out)
{
    compare_difference d = { 0 };
    if (m->pairs == 0) {
        buf_puts(out, "0 | | | | ");
        return d;
    }
    d = compare_differences(m->eager, m->replay, m->pairs);
    buf_printf(out, "%d | %.1f | %.1f | %+.1f (%+.1f … %+.1f) | ", m->pairs,
               compare_summarise(m->eager, m->pairs).median, compare_summarise(m->replay, m->pairs).median,
               d.difference, d.low, d.high);
    return d;
}

static void put_family(const report *x, graph_family f, buf *out)
{
    const family *m = &x->of[f];
    const graph_counters *c = round_graph_counters(x->round, f);
    const int64_t live = c->rows_live - m->before.rows_live,
                  launched = c->rows_launched - m->before.rows_launched;
    compare_difference d;
    buf_printf(out, "| %s | %d | %.1f | %.2f | ", phase_name(graph_family_phase(f)), c->graphs,
               (double)c->bytes / 1e3, (double)c->capture_ns / 1e6);
    d = put_pairs(m, out);
    if (launched > 0)
        buf_printf(out, "%lld of %lld (%.0f %%)", (long long)live, (long long)launched,
                   100 * (double)live / (double)launched);
    buf_puts(out, " | ");
    put_verdict(c, &d, m->pairs, out);
    buf_puts(out, " |\n");
}

/* "eager otherwise: 12 for memory"; those that this report asked for are none. */
static void put_refusals(const report *x, buf *out)
{
    const char *before = "; ran eagerly otherwise: ";
    for (int why = ROUTE_REPLAY + 1; why < ROUTE_REASONS; why++) {
        int64_t sum = 0;
        for (int f = 0; f < GRAPH_FAMILIES; f++)
            sum +=
                round_graph_counters(x->round, (graph_family)f)->refused[why] - x->of[f].before.refused[why];
        if (sum == 0 || why == ROUTE_HOOK)
            continue;
        buf_printf(out, "%s%lld (%s)", before, (long long)sum, route_reason_name((route_reason)why));
        before = ", ";
    }
}

static void put_all(const report *x, buf *out)
{
    buf_printf(out, "graphs: %s\n\n", foray_engine_info(x->engine).graphs);
    buf_puts(out,
             "| family | graphs | KB | capture ms | pairs | eager us | replayed us | saved per replay us "
             "(interval) | rows live of launched | verdict |\n|---|---|---|---|---|---|---|---|---|---|\n");
    for (int f = 0; f < GRAPH_FAMILIES; f++)
        put_family(x, (graph_family)f, out);
    buf_puts(out, "| whole rounds | | | | ");
    put_pairs(&x->of[WHOLE], out);
    buf_puts(out, " | |\n");
    buf_printf(out, "\nall families: %.2f of %d MB (--graph-memory)",
               (double)round_graph_bytes(x->round) / 1e6, options_int(x->o, OPT_GRAPH_MEMORY));
    put_refusals(x, out);
    buf_puts(out,
             "\nrows that are launched and not live are padding of a tier, which kernels do not compute\n");
}

static int open_engine(report *x)
{
    const char *name = options_has(x->o, OPT_MODEL) ? options_string(x->o, OPT_MODEL) : MODEL_PATH_DEFAULT;
    buf path = { 0 };
    int rc = model_path_find(name, &path, x->err);
    if (rc == 0) {
        foray_config c;
        rc = setup_config(x->o, path.data, &c, x->err);
        c.max_requests = options_int(x->o, OPT_REQUESTS);
        rc = rc == 0 ? foray_open(&c, &x->engine, x->err) : rc;
    }
    buf_free(&path);
    return rc;
}

int bench_graphs(const options *o, buf *out, foray_error *err)
{
    report x = { .o = o, .err = err };
    const size_t bytes = ALL * sizeof *x.of;
    if (strcmp(options_string(o, OPT_GRAPH), "off") == 0)
        return fail(err, FORAY_EUSAGE, "--graph-report: --graph off leaves no graphs to report on");
    if (strcmp(options_string(o, OPT_OUTPUT), "md") != 0)
        return fail(err, FORAY_EUSAGE, "--graph-report: there is no other form than -o md");
    bench_warn_rows(o, OPT_COUNT, "--graph-report measures graphs and nothing else");
    x.of = mem_alloc_zeroed(MEM_GENERAL, bytes);
    if (!x.of)
        return fail(err, FORAY_ENOMEM, "bench: no memory");
    int rc = open_engine(&x);
    if (rc == 0) {
        x.round = engine_round(x.engine);
        for (int f = 0; f < GRAPH_FAMILIES; f++)
            x.of[f].before = *round_graph_counters(x.round, (graph_family)f);
        rc = measure(&x);
    }
    if (rc == 0)
        put_all(&x, out);
    foray_close(x.engine);
    mem_free(MEM_GENERAL, x.of, bytes);
    return rc;
}
