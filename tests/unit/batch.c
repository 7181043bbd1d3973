/* The step loop: who is admitted, who takes part in a step, what a release, a refusal or a failure leaves behind. On a
 * tiny model with a cache that is too small for all. */
#include "support/stack.h"

#include <string.h>

#include "base/mem.h"
#include "support/tiny.h"

static const char *path;
static const int32_t ids[] = { 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51,
                               52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63 };

static int make_model(void **state)
{
    (void)state;
    tiny_spec spec = tiny_default();
    spec.layers = 1;
    spec.no_text = true;
    path = tiny_gguf(&spec);
    return 0;
}

static foray_request_config asking(int prompt, int most)
{
    return (foray_request_config) { .prompt = ids,
                                    .prompt_count = (size_t)prompt,
                                    .max_tokens = most,
                                    .sampling = { .top_p = 1, .repeat_penalty = 1, .seed = 1 },
                                    .logprobs = 0 };
}

static foray_request submit(stack *s, int prompt, int most)
{
    foray_request_config c = asking(prompt, most);
    return stack_submit(s, &c);
}

static request_state state_of(const stack *s, foray_request r)
{
    const request *found = batch_find(s->batch, r);
    assert_non_null(found);
    return found->state;
}

static int step(stack *s)
{
    request *const *delivered;
    int count;
    foray_error err = { 0 };
    int active = batch_step(s->batch, &delivered, &count, &err);
    for (int i = 0; i < count; i++)
        if (delivered[i]->finish == FORAY_FAILED)
            fail_msg("%s", delivered[i]->error.text);
    return active;
}

static void requests_run_in_the_order_of_their_submission(void **state)
{
    (void)state;
    stack s;
    stack_open(&s, path, (stack_config) { .slots = 2 });
    foray_request r[5];
    for (int i = 0; i < 5; i++) {
        r[i] = submit(&s, 3, 4);
        assert_int_equal(r[i], i + 1);
        assert_int_equal(state_of(&s, r[i]), REQUEST_WAITS);
    }
    assert_int_equal(step(&s), 5);
    int begun = 2;
    do {
        int runs = 0;
        for (int i = 0; i < 5; i++) {
            runs += state_of(&s, r[i]) == REQUEST_RUNS;
            if (state_of(&s, r[i]) != REQUEST_WAITS && i >= begun)
                begun = i + 1;
            assert_true(i < begun || state_of(&s, r[i]) == REQUEST_WAITS);
        }
        assert_true(runs <= 2);
        for (int i = 0; i < begun; i++) /* nobody was passed over */
            assert_int_not_equal(state_of(&s, r[i]), REQUEST_WAITS);
    } while (step(&s) > 0);
    assert_int_equal(begun, 5);
    stack_close(&s);
}

/* A request is admitted when the pages of its worst case are free, so none runs out in the middle; one that does not
 * fit yet is not overtaken by a smaller one behind it. */
static void pages_are_promised_before_a_request_runs(void **state)
{
    (void)state;
    stack s;
    /* 64 tokens: four pages, and one per slot on top: seven. */
    stack_open(&s, path, (stack_config) { .slots = 3, .context = 64, .cache_tokens = 64 });
    assert_int_equal(cache_bytes(s.cache), 8 * cache_bytes_for(s.cache, 1)); /* and the reserved one */
    foray_request big = submit(&s, 10, 54), bigger = submit(&s, 10, 50), small = submit(&s, 2, 4);
    step(&s);
    assert_int_equal(state_of(&s, big), REQUEST_RUNS);     /* four pages promised */
    assert_int_equal(state_of(&s, bigger), REQUEST_WAITS); /* four more are not there */
    assert_int_equal(state_of(&s, small), REQUEST_WAITS);  /* one would be, but it is not its turn */
    while (state_of(&s, big) == REQUEST_RUNS) {
        assert_true(cache_pages_in_use(s.cache) <= 4);
        step(&s);
    }
    step(&s);
    assert_int_equal(state_of(&s, bigger), REQUEST_RUNS);
    assert_int_equal(state_of(&s, small), REQUEST_RUNS);
    stack_run(&s);
    int count;
    stack_tokens(&s, bigger, &count);
    assert_int_equal(count, 50);
    assert_int_equal(cache_pages_in_use(s.cache), 0);
    stack_close(&s);
}

/* While some read prompts and some decode, the two alternate; prompts are read one at a time, the earliest first. */
static void prompts_and_decoding_alternate(void **state)
{
    (void)state;
    stack s;
    stack_open(&s, path, (stack_config) { .slots = 3, .prefill_chunk = 4 });
    submit(&s, 2, 40);
    step(&s);
    foray_request second = submit(&s, 20, 3), third = submit(&s, 20, 3);
    bool last_was_prefill = true;
    for (int i = 0; i < 20; i++) {
        step(&s);
        const round_plan *p = round_get_plan(s.round);
        bool prefill = p->phase == PHASE_PREFILL;
        assert_int_equal(prefill, !last_was_prefill);
        last_was_prefill = prefill;
        if (!prefill)
            continue;
        assert_int_equal(p->members, 1);
        assert_int_equal(p->rows, 4);
        assert_ptr_equal(p->member[0].sequence, batch_find(s.batch, i < 10 ? second : third)->sequence);
    }
    stack_run(&s);
    stack_close(&s);
}

static void a_prompt_of_one_token_and_one_of_whole_chunks_are_read_in_the_right_number_of_steps(void **state)
{
    (void)state;
    stack s;
    stack_open(&s, path, (stack_config) { .prefill_chunk = 8 });
    static const struct {
        int prompt, steps;
    } rows[] = { { 1, 1 }, { 7, 1 }, { 8, 1 }, { 9, 2 }, { 16, 2 }, { 17, 3 } };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        foray_request r = submit(&s, rows[i].prompt, 1);
        assert_int_equal(stack_run(&s), rows[i].steps);
        batch_release(s.batch, r);
    }
    stack_close(&s);
}

/* Waiting, in the middle of a prompt, decoding, ended: a release gives everything back, and the others do not notice. */
static void release_at_any_moment(const char *spec)
{
    int32_t alone[12];
    int count;
    stack s;
    stack_open(&s, path,
               (stack_config) { .slots = 2, .prefill_chunk = 4, .drafter = spec, .spec_budget = 5 });
    foray_request r = submit(&s, 9, 12);
    stack_run(&s);
    memcpy(alone, stack_tokens(&s, r, &count), sizeof alone);
    assert_int_equal(count, 12);
    batch_release(s.batch, r);
    int64_t blocks = 0;
    for (int i = 0; i < 2 * 17; i++) { /* twice: the first time, graphs are captured on the way */
        int at = i % 17;
        if (i == 17)
            blocks = mem_get_stats().blocks;
        foray_request stays = submit(&s, 9, 12), goes = submit(&s, 20, 10), waits = submit(&s, 3, 2);
        int done = 0;
        while (done < at && step(&s) > 0)
            done++;
        batch_release(s.batch, goes);
        assert_null(batch_find(s.batch, goes));
        batch_release(s.batch, goes); /* a dead handle: nothing */
        if (at % 2)
            batch_release(s.batch, waits);
        stack_run(&s);
        assert_memory_equal(stack_tokens(&s, stays, &count), alone, sizeof alone);
        assert_int_equal(count, 12);
        batch_release(s.batch, stays);
        batch_release(s.batch, waits);
        assert_int_equal(cache_pages_in_use(s.cache), 0);
        if (i >= 17)
            assert_int_equal(mem_get_stats().blocks, blocks);
    }
    batch_release(s.batch, 0);
    batch_release(s.batch, -1);
    batch_release(s.batch, INT32_MAX);
    stack_close(&s);
}

static void a_release_at_any_moment_gives_everything_back(void **state)
{
    (void)state;
    release_at_any_moment("ngram");
    release_at_any_moment("draft");
}

static void handles_are_never_used_twice(void **state)
{
    (void)state;
    stack s;
    stack_open(&s, path, (stack_config) { 0 });
    foray_request last = 0;
    for (int i = 0; i < 20; i++) {
        foray_request r = submit(&s, 2, 1);
        assert_true(r > last);
        last = r;
        stack_run(&s);
        batch_release(s.batch, r);
    }
    stack_close(&s);
}

/* A request for more pages than there are is refused at once; the queue is as before. */
static void a_request_that_could_never_run_is_refused(void **state)
{
    (void)state;
    stack s;
    stack_open(&s, path, (stack_config) { .context = 64 });
    cache *small;
    pool_desc pools[CACHE_MAX_POOLS];
    int pool_count = model_pools(s.model, 32, pools);
    assert_int_equal(cache_create(s.device, pools, pool_count, 1, 16, 16, &small, NULL), 0);
    batch_config config = {
        .device = s.device, .cache = small, .round = s.round, .slots = 1, .prefill_chunk = 8
    };
    batch *b;
    assert_int_equal(batch_create(&config, &b, NULL), 0);
    foray_request_config c = asking(10, 54);
    request *r;
    foray_error err = { 0 };
    assert_int_equal(request_create(&c, &s.limits, &r, &err), 0);
    assert_int_equal(batch_submit(b, r, &err), FORAY_ELIMIT);
    assert_non_null(strstr(err.text, "needs 4 pages of cache kv, it may have 1"));
    assert_int_equal(r->handle, 0);
    request *const *delivered;
    int count;
    assert_int_equal(batch_step(b, &delivered, &count, &err), 0);
    assert_int_equal(count, 0);
    request_free(s.device, r); /* still the caller's */
    batch_destroy(b);
    cache_destroy(small);
    stack_close(&s);
}

/* Runs three requests while the n-th allocation fails. Those that were in the refused round end with its error, the
 * others as if nothing had been. Returns how many failed. */
static int run_with_failure(const char *spec, int n, const int32_t *expected, int waiting)
{
    stack s;
    int failed = 0, count;
    stack_open(&s, path,
               (stack_config) { .slots = 3, .prefill_chunk = 4, .drafter = spec, .spec_budget = 5 });
    foray_request r[3];
    for (int i = 0; i < 3; i++)
        r[i] = submit(&s, 9, 12);
    for (int i = 0; i < waiting; i++)
        step(&s);
    mem_fail_nth(n, false);
    request *const *delivered;
    int active = 1;
    while (active > 0) {
        foray_error err = { 0 };
        active = batch_step(s.batch, &delivered, &count, &err);
        for (int i = 0; i < count; i++)
            if (delivered[i]->finish == FORAY_FAILED) {
                assert_int_equal(delivered[i]->error.code, FORAY_ENOMEM);
                if (strstr(delivered[i]->error.text, "no memory for the text")) /* its own misfortune */
                    continue;
                assert_string_equal(delivered[i]->error.text, err.text);
                assert_int_equal(delivered[i]->sequence->slot, -1);
                failed++;
            }
    }
    mem_fail_nth(0, false);
    for (int i = 0; i < 3; i++) {
        const request *q = batch_find(s.batch, r[i]);
        assert_int_equal(q->state, REQUEST_ENDED);
        const int32_t *tokens = stack_tokens(&s, r[i], &count);
        assert_true(q->finish == FORAY_FAILED || count == 12);
        assert_memory_equal(tokens, expected, sizeof *expected * (size_t)count);
    }
    assert_int_equal(cache_pages_in_use(s.cache), 0);
    foray_request again = submit(&s, 9, 12); /* the round is of use again */
    stack_run(&s);
    assert_memory_equal(stack_tokens(&s, again, &count), expected, sizeof *expected * 12);
    assert_int_equal(count, 12);
    stack_close(&s);
    return failed;
}

static void a_refused_round_ends_its_own_requests_only(void **state)
{
    (void)state;
    int32_t expected[12];
    int count, rounds_of_one = 0;
    stack s;
    stack_open(&s, path, (stack_config) { 0 });
    foray_request r = submit(&s, 9, 12);
    stack_run(&s);
    memcpy(expected, stack_tokens(&s, r, &count), sizeof expected);
    stack_close(&s);
    for (int waiting = 0; waiting <= 12; waiting += 4)
        for (int n = 1; n <= 40; n += 1 + n / 3)
            for (int chain = 0; chain < 2; chain++)
                rounds_of_one += run_with_failure(chain ? "draft" : "script", n, expected, waiting) == 1;
    assert_true(rounds_of_one > 0); /* reading a prompt: the others were not in it */
}

/* Pages that were promised are gone (somebody else took them): the round that needs one is refused, with both of its
 * requests; the one that waited runs when they are back. */
static void a_round_without_pages_ends_all_of_its_requests(void **state)
{
    (void)state;
    stack s;
    foray_error err = { 0 };
    request *const *delivered;
    int count = 0, thief = 2, taken = 0;
    /* Three slots of the cache, of which the batch uses two. */
    stack_open(&s, path, (stack_config) { .slots = 3, .context = 64, .cache_tokens = 64 });
    batch_config two = {
        .device = s.device, .cache = s.cache, .round = s.round, .slots = 2, .prefill_chunk = 32
    };
    batch_destroy(s.batch);
    assert_int_equal(batch_create(&two, &s.batch, NULL), 0);
    foray_request a = submit(&s, 9, 20), b = submit(&s, 9, 20), waits = submit(&s, 9, 2);
    while (state_of(&s, b) == REQUEST_WAITS || batch_find(s.batch, b)->delivered < 2)
        step(&s);
    while (cache_reserve_extend(s.cache, thief, taken, taken + 16, NULL) == 0)
        taken += 16;
    do
        batch_step(s.batch, &delivered, &count, &err);
    while (count == 0 || delivered[0]->finish != FORAY_FAILED);
    assert_int_equal(count, 2);
    assert_int_equal(err.code, FORAY_ENOMEM);
    assert_non_null(strstr(delivered[1]->error.text, "no pages"));
    assert_int_equal(state_of(&s, a), REQUEST_ENDED);
    assert_int_equal(state_of(&s, b), REQUEST_ENDED);
    assert_int_equal(batch_find(s.batch, b)->finish, FORAY_FAILED);
    cache_release(s.cache, thief);
    stack_run(&s);
    assert_int_equal(batch_find(s.batch, waits)->finish, FORAY_LENGTH);
    stack_close(&s);
}

/* The step's record and the accounts say the same: rounds, drafts, tokens. */
static void counters_add_up_to_the_tokens(void **state)
{
    (void)state;
    stack s;
    foray_request_config c = asking(6, 30);
    stack_open(&s, path, (stack_config) { .slots = 3, .drafter = "script", .spec_budget = 4 });
    foray_request first = stack_submit(&s, &c);
    stack_run(&s);
    int count;
    int32_t script[30];
    memcpy(script, stack_tokens(&s, first, &count), sizeof script);
    script[11]++;
    c.script = script;
    c.script_count = 30;
    for (int i = 0; i < 3; i++) {
        c.max_tokens = 10 + i * 10;
        stack_submit(&s, &c);
    }
    int64_t committed = 0, correct = 0, drafted = 0;
    while (step(&s) > 0 || committed == 0) {
        const step_record *record = batch_last_step(s.batch);
        for (int i = 0; i < record->requests; i++) {
            committed += record->request[i].commit_len;
            correct += record->request[i].correct_drafts;
            drafted += record->request[i].draft_count;
        }
    }
    const step_record *record = batch_last_step(s.batch);
    for (int i = 0; i < record->requests; i++) {
        committed += record->request[i].commit_len;
        correct += record->request[i].correct_drafts;
        drafted += record->request[i].draft_count;
    }
    assert_int_equal(committed, 10 + 20 + 30);
    int64_t tokens = 0, accepted = 0, verified = 0;
    for (foray_request r = first + 1; r <= first + 3; r++) {
        const foray_account *a = &batch_find(s.batch, r)->account;
        tokens += a->completion_tokens;
        accepted += a->accepted;
        verified += a->drafted;
        assert_int_equal(a->completion_tokens, 1 + a->steps + a->accepted);
        assert_true(a->accepted > 0 && a->accepted <= a->drafted);
    }
    assert_int_equal(tokens, committed);
    assert_int_equal(accepted, correct);
    assert_int_equal(verified, drafted);
    stack_close(&s);
}

/* Drafts that stood behind an end are not counted: a text of three tokens has not accepted five. */
static void drafts_behind_an_end_are_not_counted_as_accepted(void **state)
{
    (void)state;
    stack s;
    foray_request_config c = asking(6, 30);
    stack_open(&s, path, (stack_config) { .drafter = "script", .spec_budget = 5 });
    foray_request r = stack_submit(&s, &c);
    stack_run(&s);
    int count;
    int32_t script[30];
    memcpy(script, stack_tokens(&s, r, &count), sizeof script);
    c.script = script;
    c.script_count = 30;
    c.stop_ids = &script[2];
    c.stop_id_count = 1;
    r = stack_submit(&s, &c);
    stack_run(&s);
    const foray_account *a = &batch_find(s.batch, r)->account;
    assert_int_equal(a->completion_tokens, 3);
    assert_true(a->accepted <= 2);
    assert_true(a->drafted >= 2);
    stack_close(&s);
}

static bool disk_full;

static int keep_record(void *user, const step_record *s, foray_error *err)
{
    *(int *)user += 1;
    return disk_full ? (fail)(err, FORAY_EFILE, "step %d", (int)s->forward_ct) : 0;
}

/* A release ends the round in flight. What its record came to, the next step says: once. */
static void a_record_that_could_not_be_kept_is_said(void **state)
{
    (void)state;
    stack s;
    stack_open(&s, path, (stack_config) { .context = 64 });
    batch_destroy(s.batch);
    int records = 0;
    const batch_config c = { .device = s.device,
                             .cache = s.cache,
                             .round = s.round,
                             .slots = 1,
                             .prefill_chunk = 8,
                             .record = keep_record,
                             .user = &records };
    assert_int_equal(batch_create(&c, &s.batch, NULL), 0);
    const foray_request first = submit(&s, 4, 20);
    assert_int_equal(step(&s), 1);
    assert_int_equal(records, 1);
    disk_full = true;
    batch_release(s.batch, first);
    disk_full = false;
    assert_int_equal(records, 2);
    submit(&s, 4, 2);
    request *const *delivered;
    int count;
    foray_error err = { 0 };
    assert_int_equal(batch_step(s.batch, &delivered, &count, &err), FORAY_EFILE);
    assert_string_equal(err.text, "step 2");
    assert_int_equal(step(&s), 0);
    stack_close(&s);
}

/* What came of a probe is known a round later: until then it is not tried again. Drafts are too dear to be chosen. */
static void a_probe_is_read_before_the_next_one(void **state)
{
    (void)state;
    enum { TOKENS = 700 };
    static int32_t script[TOKENS];
    static const int rows[] = { 1, 2 };
    static const double ns[] = { 1e6, 3e6 };
    stack s;
    stack_open(&s, path, (stack_config) { .context = 768, .drafter = "script" });
    for (int i = 0; i < TOKENS; i++)
        script[i] = 3;
    foray_request_config c = asking(8, TOKENS);
    c.script = script;
    c.script_count = TOKENS;
    c.ignore_eos = true;
    stack_submit(&s, &c);
    int probes = 0;
    bool before = false;
    for (bool goes_on = true; goes_on;) {
        budget_set_costs(round_edit_budget(s.round), 1, rows, ns, 2);
        goes_on = step(&s) > 0;
        const bool probed = round_get_plan(s.round)->probed;
        assert_false(before && probed);
        probes += probed;
        before = probed;
    }
    assert_in_range(probes, 2, 5); /* each takes 2 rounds, of .015 a round */
    stack_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_run_in_the_order_of_their_submission),
        cmocka_unit_test(pages_are_promised_before_a_request_runs),
        cmocka_unit_test(prompts_and_decoding_alternate),
        cmocka_unit_test(a_prompt_of_one_token_and_one_of_whole_chunks_are_read_in_the_right_number_of_steps),
        cmocka_unit_test(a_release_at_any_moment_gives_everything_back),
        cmocka_unit_test(handles_are_never_used_twice),
        cmocka_unit_test(a_request_that_could_never_run_is_refused),
        cmocka_unit_test(a_refused_round_ends_its_own_requests_only),
        cmocka_unit_test(a_round_without_pages_ends_all_of_its_requests),
        cmocka_unit_test(counters_add_up_to_the_tokens),
        cmocka_unit_test(drafts_behind_an_end_are_not_counted_as_accepted),
        cmocka_unit_test(a_record_that_could_not_be_kept_is_said),
        cmocka_unit_test(a_probe_is_read_before_the_next_one),
    };
    return cmocka_run_group_tests(tests, make_model, NULL);
}
