/* Ends with a round in flight: many requests on few slots, drafts that all stand, so that texts end inside accepted blocks: by
 * an end id, by max_tokens, by the context, by a stop string. Each is cut where plain decoding ends; what was launched for
 * it in vain brings nothing; its pages and its slot come back, and the next one runs in the next step.
 */
#include "support/stack.h"

#include <stdio.h>
#include <string.h>

#include "base/rng.h"
#include "support/generate.h"
#include "support/tiny.h"

enum { SLOTS = 3, REQUESTS = 40, LENGTH = 30, CONTEXT = 64, PROMPT = 12, K = 6 };
enum { BY_LENGTH, BY_ID, BY_CONTEXT, BY_STRING, WAYS };

typedef struct {
    int way, at; /* tokens that are to come; BY_STRING: at least */
    int32_t ids[CONTEXT], script[CONTEXT];
    char stop[4];
    const char *stops[1];
    foray_request_config config;
    text whole, expected; /* of plain decoding: without that end, and with it */
    foray_request handle;
    bool lingers; /* has ended, and a round of its is in flight */
    char shown[1024];
    size_t length;
} job;

static char path[512];
static foray_engine *plain;
static job jobs[REQUESTS];

static uint32_t draw(uint32_t below)
{
    static uint32_t drawn;
    return rng_philox(drawn++, 0, 0x656e6473, 0, 5, 0).word[0] % below;
}

static int first_place(const text *t, int32_t id)
{
    int i = 0;
    while (t->ids[i] != id)
        i++;
    return i;
}

static void prepare(job *j, int way)
{
    foray_request_config *c = &j->config;
    const int n = 1 + (int)draw(PROMPT);
    j->way = way;
    random_ids((int)draw(1000), n, 256, j->ids);
    *c = request_of(j->ids, n, way == BY_CONTEXT ? 2 * CONTEXT : LENGTH);
    c->ignore_eos = true;
    c->sampling.temperature = (float)draw(2);
    c->sampling.seed = draw(100);
    generate(plain, c, &j->whole);
    memcpy(j->script, j->whole.ids, sizeof *j->script * (size_t)j->whole.count);
    c->script = j->script;
    c->script_count = (size_t)j->whole.count;
    j->at = j->whole.count;
    if (way == BY_LENGTH)
        j->at = c->max_tokens = 1 + (int)draw(LENGTH);
    if (way == BY_ID) {
        const int at = (int)draw((uint32_t)j->whole.count);
        c->stop_ids = &j->script[at];
        c->stop_id_count = 1;
        j->at = first_place(&j->whole, j->script[at]) + 1;
    }
    if (way == BY_STRING && j->whole.length > 3) {
        memcpy(j->stop, j->whole.bytes + draw((uint32_t)j->whole.length - 2), 2);
        j->stops[0] = j->stop;
        c->stop = j->stops;
        c->stop_count = strlen(j->stop) == 2;
        j->at = 1;
    }
    generate(plain, c, &j->expected);
    assert_true(way == BY_STRING ? j->expected.count >= j->at : j->expected.count == j->at);
}

static int prepare_all(void **state)
{
    (void)state;
    tiny_spec spec = tiny_default();
    spec.layers = 1;
    snprintf(path, sizeof path, "%s", tiny_gguf(&spec));
    plain = engine_open_path(
        path, (foray_config) { .spec = "off", .threads = 1, .context = CONTEXT, .graph = "off" });
    for (int i = 0; i < REQUESTS; i++)
        prepare(&jobs[i], i % WAYS);
    return 0;
}

static int close_plain(void **state)
{
    (void)state;
    foray_close(plain);
    return 0;
}

/* ---- one step, and what must hold behind it ---- */

static void take(job *j, const request *r)
{
    assert_true(j->length + r->out_text.len <= sizeof j->shown);
    if (r->out_text.len > 0)
        memcpy(j->shown + j->length, r->out_text.data, r->out_text.len);
    j->length += r->out_text.len;
}

static void assert_ended(const stack *s, const job *j, const request *r)
{
    int count;
    const int32_t *tokens = stack_tokens(s, j->handle, &count);
    if (count != j->expected.count || r->finish != j->expected.finish)
        fail_msg("way %d: %d tokens and end %d instead of %d and %d", j->way, count, r->finish,
                 j->expected.count, j->expected.finish);
    assert_memory_equal(tokens, j->expected.ids, sizeof *tokens * (size_t)count);
    assert_int_equal(j->length, j->expected.length);
    assert_memory_equal(j->shown, j->expected.bytes, j->length);
}

/* Requests that have the state. */
static int in_state(const stack *s, request_state state, bool with_slot)
{
    int count = 0;
    for (int i = 0; i < REQUESTS; i++) {
        const request *r = batch_find(s->batch, jobs[i].handle);
        count += r && r->state == state && (!with_slot || r->sequence->slot >= 0);
    }
    return count;
}

/* Nobody's drafter goes on behind an end, and a round of texts that had all ended computes nothing. */
static void assert_nothing_in_vain(const stack *s)
{
    const round_plan *p = round_get_plan(s->round);
    bool brought = false;
    for (int i = 0; i < p->members; i++) {
        if (p->member[i].finished == SEQUENCE_RUNS)
            return;
        brought = brought || p->member[i].committed > 0;
    }
    assert_int_equal(p->extended, 0);
    assert_true(brought || p->rows == 0);
}

/* Returns how many texts ended with a round of theirs in flight. */
static int step(stack *s)
{
    request *const *delivered;
    int count, in_vain = 0;
    foray_error err = { 0 };
    const int waiting = in_state(s, REQUEST_WAITS, false);
    const int slots = SLOTS - in_state(s, REQUEST_RUNS, true) - in_state(s, REQUEST_ENDED, true);
    const int rc = batch_step(s->batch, &delivered, &count, &err);
    if (rc < 0)
        fail_msg("%s", err.text);
    assert_true(waiting - in_state(s, REQUEST_WAITS, false) >= (slots < waiting ? slots : waiting));
    for (int n = 0; n < count; n++)
        for (int i = 0; i < REQUESTS; i++)
            if (jobs[i].handle == delivered[n]->handle) {
                const request *r = delivered[n];
                take(&jobs[i], r);
                if (r->state == REQUEST_ENDED) {
                    assert_ended(s, &jobs[i], r);
                    in_vain += r->in_flight > 0;
                }
            }
    for (int i = 0; i < REQUESTS; i++) {
        const request *r = batch_find(s->batch, jobs[i].handle);
        const bool lingers = r->state == REQUEST_ENDED && r->in_flight > 0;
        if (r->state == REQUEST_ENDED)
            assert_int_equal(r->sequence->slot >= 0, lingers);
        assert_false(lingers && jobs[i].lingers); /* one round in vain, and no more */
        jobs[i].lingers = lingers;
    }
    assert_nothing_in_vain(s);
    return in_vain;
}

static void run_all(const char *spec, bool eager)
{
    stack s;
    int in_vain = 0, most_pages = 0;
    stack_open(&s, path,
               (stack_config) { .slots = SLOTS,
                                .threads = 2,
                                .context = CONTEXT,
                                .prefill_chunk = 8,
                                .drafter = spec,
                                .spec_tokens = K,
                                .spec_budget = K,
                                .eager = eager });
    for (int i = 0; i < REQUESTS; i++) {
        jobs[i].length = 0;
        jobs[i].handle = stack_submit(&s, &jobs[i].config);
    }
    for (int active = 1; active > 0;
         active = in_state(&s, REQUEST_WAITS, false) + in_state(&s, REQUEST_RUNS, false)) {
        in_vain += step(&s);
        const int pages = (int)cache_pages_in_use(s.cache);
        most_pages = pages > most_pages ? pages : most_pages;
    }
    assert_int_equal(round_in_flight(s.round), 0);
    assert_int_equal(cache_pages_in_use(s.cache), 0);
    assert_true(most_pages > 0 && most_pages <= SLOTS * CONTEXT / 16);
    assert_true(in_vain > REQUESTS / 5);
    const round_counters c = round_get_counters(s.round);
    assert_int_equal(c.waited, 1);
    for (int i = 0; i < REQUESTS; i++) {
        const request *r = batch_find(s.batch, jobs[i].handle);
        assert_int_equal(r->delivered, jobs[i].expected.count);
        assert_true(r->account.accepted < r->delivered);
        batch_release(s.batch, jobs[i].handle);
    }
    stack_close(&s);
}

static void drafts_of_the_host_behind_an_end_bring_nothing(void **state)
{
    (void)state;
    run_all("script", false);
    run_all("script", true);
}

static void drafts_of_the_device_behind_an_end_bring_nothing(void **state)
{
    (void)state;
    run_all("draft", false);
    run_all("draft", true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(drafts_of_the_host_behind_an_end_bring_nothing),
        cmocka_unit_test(drafts_of_the_device_behind_an_end_bring_nothing),
    };
    return cmocka_run_group_tests(tests, prepare_all, close_plain);
}
