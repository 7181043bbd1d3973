/* Graphs of rounds, family by family: whichever are replayed, texts and log-probabilities have the same bits; what was wanted
 * is really replayed, and what ran eagerly says why. Keys are captured once, and memory is bounded. A chain drafter, so that
 * all four families run.
 */
#include "support/generate.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "engine/score.h"
#include "support/nano.h"
#include "support/stack.h"
#include "support/tiny_v4.h"
#include "support/varied_run.h"

enum { REQUESTS = 4, DRAFTS = VARIED_DRAFTS, PROMPT = 6, EVERY = (1 << GRAPH_FAMILIES) - 1 };

static char path[512];

static int make_model(void **state)
{
    (void)state;
    tiny_v4_spec spec = tiny_v4_small();
    spec.no_text = true;
    snprintf(path, sizeof path, "%s", tiny_v4_model(&spec, TINY_V4_PLAIN));
    log_set_level(LOG_QUIET);
    return 0;
}

static void open_stack(stack *s, unsigned families, size_t graph_bytes)
{
    stack_open(s, path,
               (stack_config) { .slots = REQUESTS,
                                .drafter = "nextn",
                                .spec_tokens = DRAFTS,
                                .spec_budget = DRAFTS,
                                .no_graphs = EVERY & ~families,
                                .graph_bytes = graph_bytes });
}

static int capture_usual(stack *s, int drafts)
{
    foray_error err;
    round_set_budget(s->round, -1);
    int rc = round_capture_usual(s->round, REQUESTS, drafts, NULL, NULL, &err);
    round_set_budget(s->round, DRAFTS);
    return rc;
}

/* An extend behind a prompt's rows is of a round that nobody captures. */
static int64_t refused(const graph_counters *c)
{
    int64_t sum = 0;
    for (int why = 0; why < ROUTE_REASONS; why++)
        sum += why == ROUTE_PREFILL ? 0 : c->refused[why];
    return sum;
}

static void every_family_replays_the_bits_of_the_eager_one(void **state)
{
    (void)state;
    static varied_text eager, now;
    stack s;
    open_stack(&s, 0, 0);
    varied_run(&s, REQUESTS, false, &eager);
    stack_close(&s);
    for (unsigned families = 1; families <= EVERY; families = families == 8 ? EVERY : families * 2) {
        memset(&now, 0, sizeof now);
        open_stack(&s, families, 0);
        varied_run(&s, REQUESTS, false, &now);
        assert_memory_equal(&now, &eager, sizeof now);
        for (int f = 0; f < GRAPH_FAMILIES; f++) {
            const graph_counters *c = round_graph_counters(s.round, (graph_family)f);
            bool wanted = families >> f & 1;
            assert_true(wanted ? c->replays > 8 : c->replays == 0);
            assert_true(wanted ? refused(c) == 0 : c->refused[ROUTE_PHASES] > 8);
            assert_int_equal(c->graphs > 0, wanted);
            assert_true(c->rows_live > 0 && c->rows_live <= c->rows_launched);
        }
        stack_close(&s);
    }
}

/* What is captured at the start is what rounds of any number of requests and drafts replay, until texts end. */
static void usual_rounds_find_their_graphs(void **state)
{
    (void)state;
    foray_request r[REQUESTS];
    int32_t ids[PROMPT];
    stack s;
    open_stack(&s, EVERY, 0);
    assert_int_equal(capture_usual(&s, DRAFTS), 0);
    const int64_t captured = round_get_counters(s.round).captures;
    for (int i = 0; i < REQUESTS; i++) {
        random_ids(i + 1, PROMPT, s.model->info.vocab, ids);
        foray_request_config c = request_of(ids, PROMPT, 100);
        c.ignore_eos = true;
        r[i] = stack_submit(&s, &c);
        for (int k = 0; k < 7; k++) { /* with 1 … REQUESTS requests, widths alternate */
            round_set_budget(s.round, 1 + k % DRAFTS);
            varied_step(&s);
        }
    }
    for (int f = 0; f < GRAPH_FAMILIES; f++) {
        const graph_counters *c = round_graph_counters(s.round, (graph_family)f);
        assert_true(c->graphs > 2);
        assert_true(f == GRAPH_DECODE || c->replays > 8);
        assert_int_equal(refused(c), 0);
    }
    assert_int_equal(round_get_counters(s.round).captures, captured);
    for (int i = 0; i < REQUESTS; i++)
        batch_release(s.batch, r[i]);
    stack_close(&s);
}

static void nothing_is_captured_twice(void **state)
{
    (void)state;
    static varied_text first, again;
    stack s;
    open_stack(&s, EVERY, 0);
    varied_run(&s, REQUESTS, false, &first);
    const int64_t captured = round_get_counters(s.round).captures;
    varied_run(&s, REQUESTS, false, &again);
    assert_memory_equal(first.ids, again.ids, sizeof first.ids);
    assert_int_equal(round_get_counters(s.round).captures, captured);
    assert_int_equal(capture_usual(&s, DRAFTS), 0);
    const int64_t all = round_get_counters(s.round).captures;
    assert_int_equal(capture_usual(&s, DRAFTS), 0);
    assert_int_equal(round_get_counters(s.round).captures, all);
    stack_close(&s);
}

/* cases.md F10: what there was no memory for is counted, for as long as it runs eagerly. */
static void memory_bounds_all_graphs_together(void **state)
{
    (void)state;
    static varied_text free_run, bounded;
    stack s;
    open_stack(&s, EVERY, 0);
    varied_run(&s, REQUESTS, false, &free_run);
    const size_t all = round_graph_bytes(s.round);
    uint64_t sum = 0;
    for (int f = 0; f < GRAPH_FAMILIES; f++)
        sum += round_graph_counters(s.round, (graph_family)f)->bytes;
    assert_int_equal(sum, all);
    stack_close(&s);
    for (size_t limit = 1; limit < all; limit += all / 5) {
        int64_t replays = 0, for_memory = 0;
        open_stack(&s, EVERY, limit);
        varied_run(&s, REQUESTS, false, &bounded);
        assert_memory_equal(&bounded, &free_run, sizeof bounded);
        assert_true(round_graph_bytes(s.round) <= limit);
        for (int f = 0; f < GRAPH_FAMILIES; f++) {
            const graph_counters *c = round_graph_counters(s.round, (graph_family)f);
            replays += c->replays;
            for_memory += c->refused[ROUTE_MEMORY];
            assert_int_equal(refused(c), c->refused[ROUTE_MEMORY]);
            assert_int_equal(c->keys_refused > 0, c->refused[ROUTE_MEMORY] > 0);
        }
        assert_true(for_memory > 0);
        assert_int_equal(replays > 0, limit > 1);
        stack_close(&s);
    }
}

typedef struct {
    uint64_t calls, done, total;
} watched;

static void watch(void *user, const char *what, uint64_t done, uint64_t total)
{
    watched *w = user;
    if (strcmp(what, "capturing graphs") != 0)
        return;
    assert_int_equal(done, w->done + 1);
    assert_true(done <= total && (w->calls == 0 || total == w->total));
    *w = (watched) { w->calls + 1, done, total };
}

/* An engine for many requests captures from the largest down, shows how far it is, and says what did not fit. */
static void an_engine_says_what_its_memory_holds(void **state)
{
    (void)state;
    static const char *const phases[] = { "decode", "verify", "draft", "draft-extend" };
    watched w = { 0 };
    foray_config c = { .spec = "nextn",
                       .threads = 1,
                       .context = 128,
                       .max_requests = 64,
                       .graph_memory = 1,
                       .progress = watch,
                       .progress_user = &w };
    foray_engine *e = engine_open_path(nano_folder(), c);
    assert_true(w.calls > 20 && w.done == w.total);
    const char *line = foray_engine_info(e).graphs;
    int partly = 0;
    for (int f = 0; f < GRAPH_FAMILIES; f++) {
        const graph_counters *g = round_graph_counters(engine_round(e), (graph_family)f);
        char expected[96] = "";
        assert_true(g->graphs > 0);
        if (g->keys_refused > 0)
            snprintf(expected, sizeof expected, "%s on but for ", phases[f]);
        else
            snprintf(expected, sizeof expected, "%s on, ", phases[f]);
        partly += g->keys_refused > 0;
        assert_non_null(strstr(line, expected));
    }
    assert_true(partly > 0);
    assert_true(foray_engine_info(e).graph_bytes <= 1000000);
    foray_close(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_family_replays_the_bits_of_the_eager_one),
        cmocka_unit_test(usual_rounds_find_their_graphs),
        cmocka_unit_test(nothing_is_captured_twice),
        cmocka_unit_test(memory_bounds_all_graphs_together),
        cmocka_unit_test(an_engine_says_what_its_memory_holds),
    };
    return cmocka_run_group_tests(tests, make_model, NULL);
}
