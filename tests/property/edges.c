/* The edges of a round: every wait between its streams is needed, and the happens-before check finds each one that is left
 * out, between rounds and inside a graph, and says which kernels met. Nobody gets a wrong token by it: the round is refused,
 * the one in flight stands, and the next request runs as if nothing had been. No edge implies another.
 */
#include "support/stack.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "device/cpu/hooks.h"
#include "model/deepseek4.h"
#include "support/generate.h"
#include "support/tiny.h"
#include "support/tiny_v4.h"

#include <cmocka.h> /* last: its macro fail() hides ours */

enum { PROMPT = 6, TOKENS = 100, DRAFTS = 2, STEADY = 6 };

typedef struct {
    const char *drafter;
    char path[512];
    int32_t plain[TOKENS];
} machine;

static machine chain = { .drafter = "draft" }, forked = { .drafter = "nextn" };

/* Edges of every round with a drafter of the device, and where its sides join: who meets without them. */
enum { PLANS = 4, EDGES = PLANS + V4_SIDES };
static const struct {
    const char *stream, *event, *later, *earlier;
} edges[EDGES] = {
    { "plan", "given read", "plan", "commit" },
    { "main", "given ready", "begin", "plan" },
    { "plan", "extension read", "plan_extend", "extend_begin" },
    { "main", "extension ready", "extend_begin", "plan_extend" },
    { "main", "kv", "sparse_attention", "latent_store" },
    { "main", "q", "sparse_attention", "head_rope" },
    { "main", "shared expert", "combine", "matmul" },
};

static foray_request_config asking(const stack *s)
{
    static int32_t ids[PROMPT];
    random_ids(3, PROMPT, s->model->info.vocab, ids);
    foray_request_config c = request_of(ids, PROMPT, TOKENS);
    c.ignore_eos = true;
    return c;
}

static void open_machine(const machine *m, bool eager, stack *s)
{
    stack_open(s, m->path,
               (stack_config) {
                   .drafter = m->drafter, .spec_tokens = DRAFTS, .spec_budget = DRAFTS, .eager = eager });
    device_set_checks(s->device, true);
}

static void plain_text(machine *m)
{
    stack s;
    stack_open(&s, m->path, (stack_config) { .eager = true, .lockstep = true });
    foray_request_config c = asking(&s);
    stack_text(&s, &c, m->plain);
    stack_close(&s);
}

static int make_models(void **state)
{
    (void)state;
    tiny_spec llama = tiny_default();
    tiny_v4_spec v4 = tiny_v4_small();
    llama.no_text = v4.no_text = true;
    snprintf(chain.path, sizeof chain.path, "%s", tiny_gguf(&llama));
    snprintf(forked.path, sizeof forked.path, "%s", tiny_v4_model(&v4, TINY_V4_PLAIN));
    plain_text(&chain);
    plain_text(&forked);
    return 0;
}

/* A text in the middle, its rounds one like the other, one of them in flight. */
static foray_request steady(stack *s)
{
    foray_request_config c = asking(s);
    foray_request r = stack_submit(s, &c);
    for (int i = 0; i < STEADY; i++)
        stack_step(s);
    assert_int_equal(round_get_plan(s->round)->phase, PHASE_TARGET_VERIFY);
    assert_int_equal(round_in_flight(s->round), 1);
    return r;
}

static int waits_of_a_round(stack *s)
{
    foray_request r = steady(s);
    const int64_t rounds = round_get_counters(s->round).rounds;
    device_leave_out_wait(s->device, INT_MAX);
    stack_step(s);
    assert_int_equal(round_get_counters(s->round).rounds, rounds + 1);
    const int waits = device_get_left_out(s->device).waits;
    device_leave_out_wait(s->device, 0);
    batch_release(s->batch, r);
    return waits;
}

/* said begins with a kernel (NULL: any) on this stream. */
static void assert_begins(const char *said, const char *kernel, const char *on)
{
    char expected[128];
    const char *at = said ? strstr(said, " on stream ") : NULL;
    snprintf(expected, sizeof expected, " on stream %s ", on);
    if (!at || strncmp(at, expected, strlen(expected)) != 0)
        fail_msg("not%sbut: %s", expected, said ? said : "nothing");
    if (kernel && ((size_t)(at - said) != strlen(kernel) || memcmp(said, kernel, strlen(kernel)) != 0))
        fail_msg("not kernel %s but: %s", kernel, said);
}

/* Which edge it was; EDGES: a side that began. */
static int edge_of(device_left_out out)
{
    int edge = 0;
    while (edge < EDGES &&
           (strcmp(out.event, edges[edge].event) != 0 || strcmp(out.stream, edges[edge].stream) != 0))
        edge++;
    return edge;
}

/* The kernel that would have waited and the one that it did not wait for are named. Returns which edge it was. */
static int assert_found(const char *said, device_left_out out)
{
    const char *first = strstr(said, "kernel "), *second = strstr(said, ", which kernel ");
    const int edge = edge_of(out);
    assert_begins(first ? first + strlen("kernel ") : NULL, edge < EDGES ? edges[edge].later : NULL,
                  out.stream);
    assert_begins(second ? second + strlen(", which kernel ") : NULL,
                  edge < EDGES ? edges[edge].earlier : NULL, out.from);
    assert_non_null(strstr(said, "without being known to be over"));
    return edge;
}

/* Leaves out the nth wait of the next round, which is refused. */
static device_left_out leave_out(const machine *m, stack *s, int nth, foray_error *said)
{
    foray_request r = steady(s);
    int before, count;
    stack_tokens(s, r, &before);
    device_leave_out_wait(s->device, nth);
    stack_step(s); /* launches it, and delivers the one before */
    const device_left_out out = device_get_left_out(s->device);
    device_leave_out_wait(s->device, 0);
    const int32_t *tokens = stack_tokens(s, r, &count);
    assert_true(count > before);
    stack_step(s);
    const request *q = batch_find(s->batch, r);
    if (q->finish != FORAY_FAILED)
        fail_msg("%s did not wait for %s, which nobody found", out.stream, out.event);
    assert_memory_equal(tokens, m->plain, sizeof *tokens * (size_t)count);
    *said = q->error;
    batch_release(s->batch, r);
    return out;
}

/* Returns how many waits there are. */
static int leave_out_each(const machine *m, bool eager)
{
    stack s;
    foray_error said;
    int seen[EDGES + 1] = { 0 };
    open_machine(m, eager, &s);
    const int waits = waits_of_a_round(&s);
    for (int nth = 1; nth <= waits; nth++) {
        const device_left_out out = leave_out(m, &s, nth, &said);
        seen[assert_found(said.text, out)]++;
    }
    for (int edge = 0; edge < PLANS; edge++)
        assert_int_equal(seen[edge], 1);
    foray_request_config c = asking(&s);
    int32_t again[TOKENS];
    stack_text(&s, &c, again);
    assert_memory_equal(again, m->plain, sizeof again);
    stack_close(&s);
    return waits;
}

/* cases.md F17: that a text is right under every delay (soak.c) is no luck: each edge is there, and each is needed. */
static void each_wait_of_a_round_is_missed_when_it_is_left_out(void **state)
{
    (void)state;
    for (int eager = 0; eager < 2; eager++)
        assert_int_equal(leave_out_each(&chain, eager), PLANS);
    /* Its forks are in the graph, or in the round: each side of each layer parts and joins. */
    assert_int_equal(leave_out_each(&forked, false), PLANS);
    assert_int_equal(leave_out_each(&forked, true), PLANS + 3 * 2 * V4_SIDES);
}

/* ---- inside a graph ---- */

/* Captures what rounds of one request replay; what is said of it. */
static void capture_saying(stack *s, char *said, size_t size)
{
    foray_error err;
    FILE *f = tmpfile();
    assert_non_null(f);
    fflush(stderr);
    const int own = dup(STDERR_FILENO);
    dup2(fileno(f), STDERR_FILENO);
    const int rc = round_capture(s->round, 1, 1 + DRAFTS, DRAFTS, DRAFTS + 1, &err);
    fflush(stderr);
    dup2(own, STDERR_FILENO);
    close(own);
    rewind(f);
    said[fread(said, 1, size - 1, f)] = 0;
    fclose(f);
    assert_int_equal(rc, 0);
}

static void each_edge_of_a_graph_is_missed_when_it_is_left_out(void **state)
{
    (void)state;
    int waits = INT_MAX;
    for (int nth = 0; nth <= waits; nth++) {
        stack s;
        char said[1024];
        int32_t again[TOKENS];
        open_machine(&forked, false, &s);
        device_leave_out_wait(s.device, nth ? nth : INT_MAX);
        capture_saying(&s, said, sizeof said);
        const device_left_out out = device_get_left_out(s.device);
        device_leave_out_wait(s.device, 0);
        const graph_counters *c = round_graph_counters(s.round, GRAPH_VERIFY);
        assert_int_equal(c->keys_refused, nth > 0);
        assert_int_equal(c->graphs, nth == 0);
        if (nth == 0)
            waits = out.waits;
        else
            assert_found(said, out);
        if (nth % 5 == 1) { /* it runs eagerly, with all of its edges */
            foray_request_config r = asking(&s);
            stack_text(&s, &r, again);
            assert_memory_equal(again, forked.plain, sizeof again);
            assert_true(c->refused[ROUTE_CAPTURE] > 8);
        }
        stack_close(&s);
    }
    assert_int_equal(waits, 3 * 2 * V4_SIDES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_wait_of_a_round_is_missed_when_it_is_left_out),
        cmocka_unit_test(each_edge_of_a_graph_is_missed_when_it_is_left_out),
    };
    return cmocka_run_group_tests(tests, make_models, NULL);
}
