/* One request: what is refused, what is copied, what a delivery says. No round: the tokens are put in by hand. */
#include "support/stack.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"

enum { CONTEXT = 32, VOCAB = 100 };

static device *dev;
static request_limits limits;
static const int32_t prompt[] = { 5, 6, 7 };
static const int32_t model_ends[] = { 1, 2 };

static int open_device(void **state)
{
    (void)state;
    device_config config = { .threads = 1, .isa = "portable" };
    limits = (request_limits) { .vocab = VOCAB, .context = CONTEXT, .end_ids = model_ends, .end_count = 2 };
    int rc = device_open(&config, &dev, NULL);
    limits.device = dev;
    return rc;
}

static int close_device(void **state)
{
    (void)state;
    assert_int_equal(device_bytes(dev), 0);
    device_close(dev);
    return 0;
}

static foray_request_config good(void)
{
    return (foray_request_config) { .prompt = prompt,
                                    .prompt_count = 3,
                                    .max_tokens = 4,
                                    .sampling = { .top_p = 1, .repeat_penalty = 1, .seed = 1 },
                                    .logprobs = 0 };
}

static request *create(const foray_request_config *c)
{
    request *r;
    foray_error err;
    if (request_create(c, &limits, &r, &err) != 0)
        fail_msg("%s", err.text);
    return r;
}

static void assert_refused(const foray_request_config *c, int code, const char *says)
{
    request *r = NULL;
    foray_error err = { 0 };
    int64_t blocks = mem_get_stats().blocks;
    assert_int_equal(request_create(c, &limits, &r, &err), code);
    assert_null(r);
    if (!strstr(err.text, says))
        fail_msg("'%s' does not say '%s'", err.text, says);
    assert_int_equal(mem_get_stats().blocks, blocks);
}

static void what_cannot_run_is_refused_by_name(void **state)
{
    (void)state;
    static const int32_t odd[] = { 3, VOCAB }, negative[] = { -1 };
    static int32_t many[CONTEXT];
    static const float nan[] = { NAN };
    static const char *const stops[] = { "x" };
    foray_request_config c = good();
    c.prompt_count = 0;
    assert_refused(&c, FORAY_EUSAGE, "prompt is empty");
    c = good();
    c.prompt = many;
    c.prompt_count = CONTEXT;
    assert_refused(&c, FORAY_ELIMIT, "the context holds 32");
    c = good();
    c.prompt = odd;
    c.prompt_count = 2;
    assert_refused(&c, FORAY_EUSAGE, "prompt token 1 is 100");
    c.prompt = negative;
    c.prompt_count = 1;
    assert_refused(&c, FORAY_EUSAGE, "prompt token 0 is -1");
    c = good();
    c.sampling.bias_ids = odd;
    c.sampling.bias = nan;
    c.sampling.bias_count = 1;
    assert_refused(&c, FORAY_EUSAGE, "bias for token 3 is not a number");
    c.sampling.bias_ids = negative;
    assert_refused(&c, FORAY_EUSAGE, "bias for token -1");
    c = good();
    c.stop_ids = many;
    c.stop_id_count = SEQUENCE_MAX_END_IDS - 1;
    assert_refused(&c, FORAY_ELIMIT, "end-of-text ids");
    c = good();
    c.stop = stops;
    c.stop_count = 1;
    assert_refused(&c, FORAY_EUNSUPPORTED, "tokenizer");
    c = good();
    c.sampling.presence_penalty = INFINITY;
    assert_refused(&c, FORAY_EUSAGE, "must be finite");
    c.sampling.presence_penalty = 0;
    c.sampling.frequency_penalty = NAN;
    assert_refused(&c, FORAY_EUSAGE, "must be finite");
    c = good();
    c.sampling.repeat_penalty = NAN;
    assert_refused(&c, FORAY_EUSAGE, "repeat_penalty");
}

/* B09: stop strings that cannot be meant: refused as documented; a duplicate is harmless. */
static void stop_strings_are_checked_before_anything_runs(void **state)
{
    (void)state;
    static char huge[20001];
    memset(huge, 'a', sizeof huge - 1);
    const char *stops[17];
    for (int i = 0; i < 17; i++)
        stops[i] = "ab";
    foray_request_config c = good();
    c.stop = stops;
    c.stop_count = 17;
    assert_refused(&c, FORAY_ELIMIT, "17 stop strings");
    c.stop_count = 2;
    stops[1] = "";
    assert_refused(&c, FORAY_EUSAGE, "stop string 1");
    stops[1] = NULL;
    assert_refused(&c, FORAY_EUSAGE, "stop string 1");
    stops[1] = huge;
    assert_refused(&c, FORAY_EUSAGE, "stop string 1");
}

static void the_caller_may_forget_what_it_gave(void **state)
{
    (void)state;
    int32_t ids[] = { 9, 8 }, ends[] = { 40 }, bias_ids[] = { 11 }, script[] = { 3, 4, 5 };
    float bias[] = { 2.5f };
    foray_request_config c = good();
    c.prompt = ids;
    c.prompt_count = 2;
    c.stop_ids = ends;
    c.stop_id_count = 1;
    c.script = script;
    c.script_count = 3;
    c.sampling.bias_ids = bias_ids;
    c.sampling.bias = bias;
    c.sampling.bias_count = 1;
    request *r = create(&c);
    memset(ids, 0, sizeof ids);
    memset(ends, 0, sizeof ends);
    memset(bias_ids, 0, sizeof bias_ids);
    memset(bias, 0, sizeof bias);
    memset(script, 0, sizeof script);
    const sequence *s = r->sequence;
    assert_int_equal(s->tokens[0], 9);
    assert_int_equal(s->tokens[1], 8);
    assert_int_equal(s->end_count, 3);
    assert_int_equal(s->end_ids[2], 40);
    assert_int_equal(s->params[1].bias_ids[0], 11);
    assert_true(s->params[1].bias[0] == 2.5f);
    assert_int_equal(s->script[2], 5);
    request_free(dev, r);
}

/* Where a text may end, from prompt, context and settings; nothing overflows. */
static void limits_are_those_of_settings_and_context(void **state)
{
    (void)state;
    static const struct {
        int max, min, limit, min_count;
    } rows[] = {
        { 4, 0, 7, 0 },
        { 0, 0, CONTEXT, 0 },
        { -5, -5, CONTEXT, 0 },
        { INT32_MAX, 0, CONTEXT, 0 },
        { 29, 0, CONTEXT, 0 },
        { 28, 0, 31, 0 },
        { 4, 3, 7, 6 },
        { 4, 4, 7, 7 },
        { 4, INT32_MAX, 7, 7 },
        { 0, INT32_MAX, CONTEXT, CONTEXT },
        { INT32_MIN, INT32_MIN, CONTEXT, 0 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        foray_request_config c = good();
        c.max_tokens = rows[i].max;
        c.min_tokens = rows[i].min;
        request *r = create(&c);
        assert_int_equal(r->sequence->limit, rows[i].limit);
        assert_int_equal(r->sequence->min_count, rows[i].min_count);
        assert_int_equal(r->sequence->count, 3);
        assert_int_equal(r->sequence->slot, -1);
        assert_int_equal(r->state, REQUEST_WAITS);
        request_free(dev, r);
    }
}

static void an_ignored_end_is_no_end_but_stop_ids_are(void **state)
{
    (void)state;
    static const int32_t stop[] = { 50 };
    foray_request_config c = good();
    c.ignore_eos = true;
    c.stop_ids = stop;
    c.stop_id_count = 1;
    request *r = create(&c);
    assert_int_equal(r->sequence->end_count, 1);
    assert_int_equal(r->sequence->end_ids[0], 50);
    assert_int_equal(r->sequence->params[0].banned_count, 0);
    assert_int_equal(r->sequence->params[1].banned_count, 1);
    request_free(dev, r);
}

/* Puts tokens behind the sequence as a round does, and delivers what was taken. */
static void commit(request *r, const int32_t *ids, int n)
{
    plan_member m = { .sequence = r->sequence, .logprobs = { -1, -2, -3, -4, -5, -6 } };
    m.committed = sequence_takes(r->sequence, ids, n, &m.finished);
    memcpy(m.tokens, ids, sizeof *ids * (size_t)n);
    sequence_grow(r->sequence, ids, m.committed, m.finished);
    request_deliver(r, &m);
}

static void a_delivery_ends_at_an_end_id_or_the_limit(void **state)
{
    (void)state;
    foray_request_config c = good();
    request *r = create(&c);
    commit(r, (int32_t[]) { 30, 31 }, 2);
    assert_int_equal(r->finish, FORAY_RUNNING);
    assert_int_equal(r->out_count, 2);
    commit(r, (int32_t[]) { 32, 2, 33, 34 }, 4);
    assert_int_equal(r->finish, FORAY_STOP);
    assert_int_equal(r->out_count, 2);
    assert_int_equal(r->out_tokens[1], 2);
    assert_true(r->out_logprobs[1] == -2);
    assert_int_equal(r->state, REQUEST_ENDED);
    assert_int_equal(r->account.completion_tokens, 4);
    request_free(dev, r);

    r = create(&c);
    commit(r, (int32_t[]) { 30, 31, 32, 33, 34, 35 }, 6);
    assert_int_equal(r->finish, FORAY_LENGTH);
    assert_int_equal(r->out_count, 4);
    request_free(dev, r);

    r = create(&c);
    commit(r, (int32_t[]) { 30, 31, 32, 1 }, 4); /* both at once: the end was the model's choice */
    assert_int_equal(r->finish, FORAY_STOP);
    request_free(dev, r);
}

static void a_failed_request_keeps_its_error_and_what_it_delivered(void **state)
{
    (void)state;
    foray_request_config c = good();
    request *r = create(&c);
    commit(r, (int32_t[]) { 30 }, 1);
    foray_error why = { .code = FORAY_ENOMEM, .text = "the device is on fire" };
    request_fail(r, &why);
    assert_int_equal(r->finish, FORAY_FAILED);
    assert_int_equal(r->state, REQUEST_ENDED);
    assert_int_equal(r->out_count, 0);
    assert_string_equal(r->error.text, why.text);
    assert_int_equal(r->account.completion_tokens, 1);
    request_free(dev, r);
}

/* Time is the request's from its submission on only, and the first token divides it. */
static void an_account_begins_at_admission_and_is_split_at_the_first_token(void **state)
{
    (void)state;
    foray_request_config c = good();
    request *r = create(&c);
    r->admitted_ns = 1000;
    request_account(r, PHASE_IDLE, 0, 900);
    request_account(r, PHASE_PREFILL, 500, 1500);
    commit(r, (int32_t[]) { 30 }, 1);
    request_account(r, PHASE_DECODE, 1500, 1700);
    request_account(r, PHASE_DECODE, 1700, 1600);
    assert_int_equal(r->account.wall_ns, 700);
    assert_int_equal(r->account.prefill_ns, 500);
    assert_int_equal(r->account.decode_ns, 200);
    assert_int_equal(r->account.phases_ns[PHASE_PREFILL], 500);
    assert_int_equal(r->account.phases_ns[PHASE_DECODE], 200);
    assert_int_equal(r->account.phases_ns[PHASE_IDLE], 0);
    request_free(dev, r);
}

static void memory_that_runs_out_is_an_error_and_leaks_nothing(void **state)
{
    (void)state;
    static const float bias[] = { 1 };
    foray_request_config c = good();
    c.script = c.stop_ids = c.sampling.bias_ids = prompt;
    c.script_count = 3;
    c.sampling.bias = bias;
    c.sampling.bias_count = 1;
    for (int n = 1;; n++) {
        request *r = NULL;
        foray_error err = { 0 };
        mem_fail_nth(n, false);
        int rc = request_create(&c, &limits, &r, &err);
        mem_fail_nth(0, false);
        assert_true(rc == 0 || (rc == FORAY_ENOMEM && !r && err.text[0]));
        request_free(dev, r);
        assert_int_equal(device_bytes(dev), 0);
        if (rc == 0) {
            assert_true(n > 3);
            break;
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_cannot_run_is_refused_by_name),
        cmocka_unit_test(stop_strings_are_checked_before_anything_runs),
        cmocka_unit_test(the_caller_may_forget_what_it_gave),
        cmocka_unit_test(limits_are_those_of_settings_and_context),
        cmocka_unit_test(an_ignored_end_is_no_end_but_stop_ids_are),
        cmocka_unit_test(a_delivery_ends_at_an_end_id_or_the_limit),
        cmocka_unit_test(a_failed_request_keeps_its_error_and_what_it_delivered),
        cmocka_unit_test(an_account_begins_at_admission_and_is_split_at_the_first_token),
        cmocka_unit_test(memory_that_runs_out_is_an_error_and_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
