/* P7: a steady round waits for nothing. From submission to the end of the last text the host finds the device idle once, before
 * the first round, and waits once for each round, for its result: whoever drafts, however many requests there are, wherever
 * they end. Counted; no clock is looked at.
 */
#include "support/stack.h"

#include <stdio.h>
#include <string.h>

#include "support/generate.h"
#include "support/tiny.h"
#include "support/tiny_v4.h"

enum { MOST = 8, PROMPT = 40, DRAFTS = 3, CHUNK = 16, END_IDS = 24 };

static char llama[512], v4[512];
static int stopped; /* texts that ended by an id */

static int make_models(void **state)
{
    (void)state;
    tiny_spec spec = tiny_default();
    tiny_v4_spec spec4 = tiny_v4_small();
    spec.layers = 1;
    spec.no_text = spec4.no_text = true;
    snprintf(llama, sizeof llama, "%s", tiny_gguf(&spec));
    snprintf(v4, sizeof v4, "%s", tiny_v4_model(&spec4, TINY_V4_PLAIN));
    return 0;
}

/* Texts of all lengths, greedy and sampled, some of which end where nobody can tell before. Returns how many rounds they took. */
static int64_t run(stack *s, int requests)
{
    static int32_t ids[PROMPT];
    const int64_t rounds = round_get_counters(s->round).rounds;
    for (int i = 0; i < requests; i++) {
        random_ids(i + 1, PROMPT, s->model->info.vocab, ids);
        foray_request_config c = request_of(ids, 1 + i * 5, 12 + i % 3 * 9);
        int32_t ends[END_IDS];
        random_ids(90 + i, END_IDS, s->model->info.vocab, ends);
        c.sampling.temperature = (float)(i % 2);
        c.stop_ids = ends;
        c.stop_id_count = i % 2 ? END_IDS : 0;
        c.ignore_eos = true;
        stack_submit(s, &c);
    }
    stack_run(s);
    assert_int_equal(round_in_flight(s->round), 0);
    for (int handle = 1, left = requests; left > 0; handle++) {
        const request *q = batch_find(s->batch, handle);
        if (!q)
            continue;
        assert_true(q->finish == FORAY_LENGTH || q->finish == FORAY_STOP);
        stopped += q->finish == FORAY_STOP;
        batch_release(s->batch, handle);
        left--;
    }
    return round_get_counters(s->round).rounds - rounds;
}

/* The first run captures its graphs on the way, and waits for nothing either; the second one finds them. */
static void assert_steady(const char *path, const char *spec, int requests, bool eager)
{
    stack s;
    stack_open(&s, path,
               (stack_config) { .slots = MOST,
                                .threads = 1 + requests % 3,
                                .prefill_chunk = CHUNK,
                                .drafter = spec,
                                .spec_tokens = DRAFTS,
                                .spec_budget = DRAFTS,
                                .eager = eager });
    const int64_t idle = device_get_counters(s.device).syncs, first = run(&s, requests);
    if (!spec && requests == 1)
        assert_int_equal(first, 12); /* one for each token, none in vain */
    assert_int_equal(round_get_counters(s.round).waited, 1);
    assert_int_equal(device_get_counters(s.device).syncs - idle, first);
    const round_counters before = round_get_counters(s.round);
    const int64_t syncs = device_get_counters(s.device).syncs;
    const int64_t again = run(&s, requests);
    const round_counters now = round_get_counters(s.round);
    assert_int_equal(again, first);
    assert_int_equal(now.captures, before.captures);
    assert_int_equal(now.waited - before.waited, 1);
    assert_int_equal(device_get_counters(s.device).syncs - syncs, again);
    assert_int_equal(now.captures > 0 && now.replays > 0, !eager);
    stack_close(&s);
}

static void a_text_waits_for_the_device_once(void **state)
{
    (void)state;
    static const struct {
        const char *path, *spec;
    } rows[] = { { llama, NULL }, { llama, "ngram" }, { llama, "draft" }, { v4, NULL }, { v4, "nextn" } };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int requests = 1; requests <= MOST; requests++)
            assert_steady(rows[i].path, rows[i].spec, requests, requests % 3 == 0);
    assert_true(stopped > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_text_waits_for_the_device_once),
    };
    return cmocka_run_group_tests(tests, make_models, NULL);
}
