/* What step records say of the waits of streams: every branch of every layer parts once and joins once, in the round that it
 * is of, whether that is replayed or eager, the plan stream hands over once, and nothing else waits.
 */
#include "support/stack.h"

#include <stdio.h>
#include <string.h>

#include "model/deepseek4.h"
#include "support/generate.h"
#include "support/tiny_v4.h"

#include <cmocka.h> /* last: its macro fail() hides ours */

enum { REQUESTS = 2, PROMPT = 6, TOKENS = 12 };

static char path[512];

static int make_model(void **state)
{
    (void)state;
    tiny_v4_spec spec = tiny_v4_small();
    spec.no_text = true;
    snprintf(path, sizeof path, "%s", tiny_v4_model(&spec, TINY_V4_PLAIN));
    return 0;
}

static const step_wait *find(const step_record *s, const char *waiting, const char *awaited, const char *from)
{
    for (int i = 0; i < s->waits; i++) {
        const step_wait *w = &s->wait[i];
        if (strcmp(w->stream, waiting) == 0 && strcmp(w->event, awaited) == 0 && strcmp(w->from, from) == 0)
            return w;
    }
    return NULL;
}

/* The main stream waits for part A once, the plan stream for what reads it at most once. Returns the number of other waits. */
static int assert_planned(const step_record *s)
{
    int others = 0;
    const step_wait *ready = find(s, "main", "given ready", "plan");
    assert_non_null(ready);
    for (int i = 0; i < s->waits; i++) {
        const bool plan = strcmp(s->wait[i].stream, "plan") == 0 || strcmp(s->wait[i].from, "plan") == 0;
        if (plan)
            assert_int_equal(s->wait[i].joins, 1);
        others += !plan;
    }
    return others;
}

static void assert_forks(const step_record *s, int layers)
{
    for (int i = 0; i < V4_SIDES; i++) {
        const char *side = deepseek4_sides[i];
        const step_wait *parted = find(s, side, side, "main"), *joined = find(s, "main", side, side);
        assert_non_null(parted);
        assert_non_null(joined);
        assert_int_equal(parted->joins, layers);
        assert_int_equal(joined->joins, layers);
        assert_true(parted->waited_ns >= 0 && joined->waited_ns >= 0);
        assert_true(joined->waited_ns <= s->wall_ns * layers);
    }
}

/* Returns how many rounds decoded or verified. */
static int run(stack *s, bool forks)
{
    int rounds = 0;
    for (int i = 0; i < REQUESTS; i++) {
        int32_t ids[PROMPT];
        random_ids(i, PROMPT, s->model->info.vocab, ids);
        foray_request_config c = request_of(ids, PROMPT, TOKENS);
        stack_submit(s, &c);
    }
    while (stack_step(s) > 0) {
        const step_record *r = batch_last_step(s->batch);
        assert_int_equal(r->waits_left_out, 0);
        assert_int_equal(assert_planned(r), forks && r->decode ? 2 * V4_SIDES : 0);
        if (forks && r->decode)
            assert_forks(r, s->model->info.layers);
        rounds += r->decode;
    }
    return rounds;
}

static void every_branch_parts_once_and_joins_once_in_a_layer(void **state)
{
    (void)state;
    for (int eager = 0; eager < 2; eager++) {
        for (int threads = 1; threads <= 3; threads++) {
            stack s;
            stack_open(&s, path,
                       (stack_config) { .threads = threads,
                                        .slots = REQUESTS,
                                        .drafter = "nextn",
                                        .spec_tokens = 2,
                                        .spec_budget = 2,
                                        .eager = eager });
            assert_true(run(&s, true) > 3);
            stack_close(&s);
        }
    }
}

static void nothing_waits_where_nothing_parts(void **state)
{
    (void)state;
    stack s;
    stack_open(&s, path, (stack_config) { .slots = REQUESTS, .serial = true });
    assert_true(run(&s, false) > 3);
    stack_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_branch_parts_once_and_joins_once_in_a_layer),
        cmocka_unit_test(nothing_waits_where_nothing_parts),
    };
    return cmocka_run_group_tests(tests, make_model, NULL);
}
