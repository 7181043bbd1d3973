/* One run, every way in which rounds can be made: replayed or eager, folded or not, planned on a stream of their own or not,
 * with side streams or without, ahead or in step, packed or of fixed width, in either order of submission. Texts and
 * log-probabilities have the same bits. That each way is really taken is looked at, and so is what was replayed.
 *
 * Every pair of settings meets in every combination (eight runs of seven switches: an orthogonal array); under SOAK all
 * combinations run.
 */
#include "support/stack.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "device/cpu/hooks.h"
#include "support/generate.h"
#include "support/mutate.h"
#include "support/tiny.h"
#include "support/tiny_v4.h"
#include "support/varied_run.h"

enum { REQUESTS = VARIED_MOST, DRAFTS = VARIED_DRAFTS };
enum { EAGER = 1, UNFOLDED = 2, ONE_STREAM = 4, SERIAL = 8, LOCKSTEP = 16, FIXED = 32, BACKWARDS = 64 };
enum { SWITCHES = 7, WAYS = 1 << SWITCHES, PAIRWISE = 8 };

static char llama[512], v4[512];

static int make_models(void **state)
{
    (void)state;
    tiny_spec spec = tiny_default();
    tiny_v4_spec spec4 = tiny_v4_small();
    spec.no_text = spec4.no_text = true;
    snprintf(llama, sizeof llama, "%s", tiny_gguf(&spec));
    snprintf(v4, sizeof v4, "%s", tiny_v4_model(&spec4, TINY_V4_PLAIN));
    log_set_level(LOG_QUIET);
    return 0;
}

/* The settings of run i of eight: switch n is the parity of the bits that i and n + 1 share. */
static int pairwise(int i)
{
    int way = 0;
    for (int n = 0; n < SWITCHES; n++)
        way |= __builtin_parity((unsigned)(i & (n + 1))) << n;
    return way;
}

static stack_config config_of(const char *spec, int way, int i)
{
    return (stack_config) { .slots = REQUESTS,
                            .threads = 1 + i % 3,
                            .shuffle_seed = i % 2 ? 1 + (uint64_t)i : 0,
                            .drafter = spec,
                            .spec_tokens = DRAFTS,
                            .spec_budget = DRAFTS,
                            .eager = way & EAGER,
                            .unfolded = way & UNFOLDED,
                            .one_stream = way & ONE_STREAM,
                            .serial = way & SERIAL,
                            .lockstep = way & LOCKSTEP,
                            .fixed_width = way & FIXED };
}

/* ---- whether it was done that way ---- */

/* Everything that could be replayed was, or nothing. N-grams are looked for in every round: nearly none is plain. */
static void assert_replayed(stack *s, bool chain, bool eager)
{
    for (int f = 0; f < GRAPH_FAMILIES; f++) {
        const graph_counters *c = round_graph_counters(s->round, (graph_family)f);
        const bool runs = chain || f == GRAPH_VERIFY;
        int64_t refused = 0;
        for (int why = 0; why < ROUTE_REASONS; why++) /* an extend behind a prompt is of no tier */
            refused += why == ROUTE_PREFILL || why == ROUTE_OFF ? 0 : c->refused[why];
        assert_int_equal(refused, 0);
        assert_true(eager ? c->replays == 0 : c->refused[ROUTE_OFF] == 0);
        if (runs)
            assert_true(eager ? c->refused[ROUTE_OFF] > 8 : c->replays > 8);
    }
}

static bool has_stream(const stack *s, const char *name)
{
    const char *const *names;
    int count = device_streams(s->device, &names), found = 0;
    for (int i = 0; i < count; i++)
        found += names[i] && strcmp(names[i], name) == 0;
    return found > 0;
}

static void assert_way(stack *s, int way, bool sides)
{
    const round_counters c = round_get_counters(s->round);
    assert_int_equal(has_stream(s, "plan"), !(way & ONE_STREAM));
    assert_int_equal(has_stream(s, "kv"), sides && !(way & SERIAL));
    assert_int_equal(c.waited, way & LOCKSTEP ? c.rounds : 1);
    if (way & EAGER)
        return;
    buf json = { 0 };
    round_graphs_json(s->round, &json);
    buf_append(&json, "", 1);
    assert_int_equal(strstr(json.data, "\"commit\"") == NULL, (way & UNFOLDED) != 0);
    assert_int_equal(strstr(json.data, "\"kv\"") != NULL, sides && !(way & SERIAL));
    buf_free(&json);
}

/* ---- */

static void every_way(const char *path, const char *spec)
{
    static varied_text first, now;
    const bool chain = strcmp(spec, "ngram") != 0, sides = strcmp(spec, "nextn") == 0;
    const int runs = (int)mutate_count(PAIRWISE, WAYS);
    for (int i = 0; i < runs; i++) {
        const int way = runs == WAYS ? i : pairwise(i);
        stack s;
        memset(&now, 0, sizeof now);
        stack_open(&s, path, config_of(spec, way, i));
        if (i % 3 == 0)
            device_set_checks(s.device, true);
        varied_run(&s, REQUESTS, way & BACKWARDS, i == 0 ? &first : &now);
        if (i > 0 && memcmp(&now, &first, sizeof now) != 0)
            fail_msg("%s, way %d: other bits", spec, way);
        assert_replayed(&s, chain, way & EAGER);
        assert_way(&s, way, sides);
        stack_close(&s);
    }
}

static void ngram_drafts_for_llama(void **state)
{
    (void)state;
    every_way(llama, "ngram");
}

static void a_model_drafts_for_llama(void **state)
{
    (void)state;
    every_way(llama, "draft");
}

static void nextn_drafts_for_deepseek4(void **state)
{
    (void)state;
    every_way(v4, "nextn");
}

static void two_settings_meet_in_every_combination(void **state)
{
    (void)state;
    for (int a = 0; a < SWITCHES; a++)
        for (int b = 0; b < a; b++) {
            int met = 0;
            for (int i = 0; i < PAIRWISE; i++)
                met |= 1 << ((pairwise(i) >> a & 1) * 2 + (pairwise(i) >> b & 1));
            assert_int_equal(met, 15);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_settings_meet_in_every_combination),
        cmocka_unit_test(ngram_drafts_for_llama),
        cmocka_unit_test(a_model_drafts_for_llama),
        cmocka_unit_test(nextn_drafts_for_deepseek4),
    };
    return cmocka_run_group_tests(tests, make_models, NULL);
}
