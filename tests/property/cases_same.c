/* cases.md A, E: greedy and sampled texts that must not differ, each by the way in which an engine once differed. */
#include "support/generate.h"

#include <string.h>

#include "cache/cache.h"
#include "engine/score.h"
#include "model/llama.h"
#include "spec/round.h"
#include "support/chain.h"
#include "support/stack.h"
#include "support/tiny.h"

static const char *tiny_file;
static foray_engine *plain;

static int open_plain(void **state)
{
    (void)state;
    tiny_spec spec = tiny_default();
    spec.no_text = true;
    spec.layers = 2;
    tiny_file = tiny_gguf(&spec);
    plain = engine_open_path(tiny_file, (foray_config) { .spec = "off", .threads = 1 });
    return 0;
}

static int close_plain(void **state)
{
    (void)state;
    foray_close(plain);
    return 0;
}

/* A prompt in which things come back, so that n-grams find something. */
static void prompt_of(uint32_t seed, int n, int32_t *ids)
{
    for (int i = 0; i < n; i++)
        ids[i] =
            (int32_t)((seed * 131 + (uint32_t)(i % (5 + (int)(seed % 11))) * 37 + (uint32_t)(i / 29)) % 512);
}

static foray_request_config asking(const int32_t *ids, int n, int most, float temperature)
{
    foray_request_config c = request_of(ids, n, most);
    c.sampling.temperature = temperature;
    c.ignore_eos = true;
    return c;
}

static int no_row(void *user, size_t position, const float *logits)
{
    (void)user;
    (void)position;
    (void)logits;
    return 0;
}

/* A01: with every draft right, the cache after each step is that of a fresh prefill, to the end of a long text. */
static void long_texts_of_accepted_drafts_leave_the_fresh_cache(void **state)
{
    (void)state;
    static text base;
    int32_t ids[500];
    foray_error err;
    const foray_event *events;
    size_t count;
    foray_engine *e = engine_open_path(
        tiny_file,
        (foray_config) {
            .spec = "script", .spec_tokens = 5, .spec_budget = 5, .prefill_chunk = 64, .threads = 1 });
    round_set_ahead(engine_round(e), 1);
    prompt_of(3, 20, ids);
    foray_request_config c = asking(ids, 20, 440, 0.8f);
    generate(plain, &c, &base);
    memcpy(ids + 20, base.ids, sizeof(int32_t) * (size_t)base.count);
    c.script = base.ids;
    c.script_count = (size_t)base.count;
    foray_request r;
    assert_int_equal(foray_submit(e, &c, &r, &err), 0);
    for (int step = 0, got = 0; foray_step(e, &events, &count, &err) > 0; step++) {
        assert_memory_equal(events[0].tokens, base.ids + got, sizeof(int32_t) * events[0].count);
        got += (int)events[0].count;
        if (step % 5 != 0)
            continue;
        int computed = 0;
        uint64_t fresh, now = engine_request_digest(e, r, &computed);
        assert_int_equal(computed, 20 + got - 1);
        assert_int_equal(
            engine_score(plain, ids, (size_t)computed, 0, (size_t)computed, no_row, NULL, &fresh, &err), 0);
        assert_true(now == fresh);
    }
    foray_release(e, r);
    foray_close(e);
}

/* A03: the logits behind the prompt have the same bits with a drafter loaded, prompts of one token included. */
static void a_prompts_last_logits_do_not_depend_on_speculation(void **state)
{
    (void)state;
    static text a, b;
    int32_t ids[300];
    foray_engine *e = engine_open_path(
        tiny_file, (foray_config) { .spec = "ngram", .spec_budget = 7, .threads = 1, .prefill_chunk = 37 });
    for (int i = 0; i < 200; i++) {
        int n = i < 40 ? 1 + i : 1 + i * 37 % 300;
        prompt_of((uint32_t)i, n, ids);
        foray_request_config c = asking(ids, n, 1, 0);
        generate(plain, &c, &a);
        generate(e, &c, &b);
        assert_same_text(&a, &b);
        assert_memory_equal(round_pass(engine_round(plain))->logits, round_pass(engine_round(e))->logits,
                            512 * sizeof(float));
    }
    foray_close(e);
}

/* A04, A05, Q04: any number of drafts, several requests at once: one text. More than a drafter may be asked for is refused. */
static void the_number_of_drafts_changes_nothing(void **state)
{
    (void)state;
    static text base[4], spec[4];
    static int32_t ids[4][40], script[4][48];
    foray_request_config c[4];
    for (int i = 0; i < 4; i++) {
        prompt_of((uint32_t)i + 50, 10 * (i + 1), ids[i]);
        c[i] = asking(ids[i], 10 * (i + 1), 48, i % 2 ? 0.9f : 0.0f);
        generate(plain, &c[i], &base[i]);
        for (int j = 0; j < 48; j++) /* right, but for every 7th, 8th, … */
            script[i][j] = base[i].ids[j] ^ (j % (7 + i) == 6);
        c[i].script = script[i];
        c[i].script_count = 48;
    }
    for (int k = 1; k <= DRAFT_MAX; k++) {
        static const char *const drafters[] = { "script", "ngram" };
        foray_engine *e = engine_open_path(tiny_file, (foray_config) { .spec = drafters[k % 2],
                                                                       .spec_tokens = k,
                                                                       .spec_budget = k,
                                                                       .threads = 1,
                                                                       .max_requests = 4 });
        generate_all(e, c, 4, k % 3, spec);
        for (int i = 0; i < 4; i++)
            assert_same_text(&base[i], &spec[i]);
        foray_close(e);
    }
    foray_engine *e;
    foray_error err;
    foray_config config = { .model = tiny_file, .spec = "ngram", .spec_tokens = DRAFT_MAX + 1 };
    assert_int_equal(foray_open(&config, &e, &err), FORAY_EUSAGE);
    assert_non_null(strstr(err.text, "--spec-tokens"));
}

/* ---- A06 ---- */

static int keep_of(void *user, const plan_member *m)
{
    int wanted = *(const int *)user;
    return wanted < m->draft.count ? wanted : m->draft.count;
}

/* A06: six rows as 1 x 6, 6 x 1, 2 x 3, in batches of 1, 2, 4 and 7, replayed and eager: the same bits. The log-probability
 * of a token is a sum over its whole row of logits, so equal bits of it stand for the row. */
static void rows_have_the_same_bits_in_every_shape(void **state)
{
    (void)state;
    static text base[7], spec[7];
    static int32_t ids[7][20];
    static const int batches[] = { 1, 2, 4, 7 }, keeps[] = { 5, 0, 2 };
    foray_request_config c[7];
    for (int i = 0; i < 7; i++) {
        prompt_of((uint32_t)i + 9, 14 + i, ids[i]);
        c[i] = asking(ids[i], 14 + i, 13, 0);
        generate(plain, &c[i], &base[i]);
        c[i].script = base[i].ids;
        c[i].script_count = 13;
    }
    for (int eager = 0; eager <= 1; eager++)
        for (int b = 0; b < 4; b++) {
            foray_engine *e = engine_open_path(tiny_file, (foray_config) { .spec = "script",
                                                                           .threads = 2,
                                                                           .graph = eager ? "off" : "auto",
                                                                           .spec_budget = 5,
                                                                           .max_requests = batches[b] });
            for (int k = 0; k < 3; k++) {
                int keep = keeps[k];
                round_hooks hooks = { .user = &keep, .keep = keep_of };
                round_set_hooks(engine_round(e), &hooks);
                generate_all(e, c, batches[b], 0, spec);
                for (int i = 0; i < batches[b]; i++) {
                    assert_same_text(&base[i], &spec[i]);
                    assert_int_equal(spec[i].account.steps, 12 / (keep + 1));
                }
            }
            round_set_hooks(engine_round(e), NULL);
            foray_close(e);
        }
}

/* A07: with an exact tie at the top of every row, all paths take the lowest id; drafting the other one is a rejection. */
static void ties_go_to_the_lowest_id_on_every_path(void **state)
{
    (void)state;
    static text base, spec[8];
    static int32_t ids[8][12], script[40];
    const char *twins = twins_gguf();
    foray_engine *b = engine_open_path(twins, (foray_config) { .spec = "off", .threads = 1 });
    foray_request_config c[8];
    for (int i = 0; i < 8; i++) {
        prompt_of((uint32_t)i, 12, ids[i]);
        c[i] = asking(ids[i], 12, 40, 0);
    }
    generate(b, &c[0], &base);
    for (int i = 0; i < 40; i++) {
        assert_int_equal(base.ids[i] % 2, 0);
        script[i] = base.ids[i] + 1; /* its twin */
    }
    for (int i = 0; i < 8; i++) {
        c[i].script = script;
        c[i].script_count = 40;
    }
    for (int way = 0; way < 6; way++) {
        static const int requests[] = { 1, 3, 8 };
        foray_engine *e = engine_open_path(twins, (foray_config) { .spec = "script",
                                                                   .spec_budget = 5,
                                                                   .threads = 1,
                                                                   .max_requests = 8,
                                                                   .graph = way % 2 ? "off" : "auto" });
        generate_all(e, c, requests[way / 2], 0, spec);
        assert_same_text(&base, &spec[0]);
        assert_int_equal(spec[0].account.accepted, 0);
        for (int i = 1; i < requests[way / 2]; i++)
            for (int j = 0; j < spec[i].count; j++)
                assert_int_equal(spec[i].ids[j] % 2, 0);
        foray_close(e);
    }
    foray_close(b);
}

/* A08: each round starts where the last one ended: positions are contiguous, and a committed token has one position. */
static void positions_move_by_what_was_committed(void **state)
{
    (void)state;
    static text base;
    int32_t ids[16], script[60];
    foray_error err;
    const foray_event *events;
    size_t count;
    prompt_of(8, 16, ids);
    foray_request_config c = asking(ids, 16, 60, 0);
    generate(plain, &c, &base);
    foray_engine *e = engine_open_path(
        tiny_file,
        (foray_config) {
            .spec = "script", .spec_tokens = 4, .spec_budget = 4, .prefill_chunk = 64, .threads = 1 });
    round_set_ahead(engine_round(e), 1);
    for (int cut = 0; cut <= 2; cut++) { /* all wrong; right twice; all right */
        for (int i = 0; i < 60; i++)
            script[i] = base.ids[i] ^ (cut == 0 || (cut == 1 && i % 3 == 2));
        c.script = script;
        c.script_count = 60;
        foray_request r;
        assert_int_equal(foray_submit(e, &c, &r, &err), 0);
        for (int next = 0, active = 1; active > 0;) {
            active = foray_step(e, &events, &count, &err);
            const round_plan *p = round_get_plan(engine_round(e));
            const pass *in = round_pass(engine_round(e));
            const plan_member *m = &p->member[0];
            for (int i = 0; i < p->rows; i++)
                assert_int_equal(in->position[i], next + i);
            next += m->chunk + (p->phase == PHASE_PREFILL ? 0 : m->accepted);
            assert_int_equal(m->committed, m->accepted + 1);
        }
        foray_release(e, r);
    }
    foray_close(e);
}

/* A10: sessions of several turns, each turn's transcript fed back, all at once: every answer as if run alone. */
static void sessions_at_once_are_sessions_alone(void **state)
{
    (void)state;
    enum { SESSIONS = 6, TURNS = 5, SAID = 14 };
    static text alone[SESSIONS], together[SESSIONS];
    static int32_t history[SESSIONS][256];
    int length[SESSIONS];
    foray_request_config c[SESSIONS];
    foray_engine *e = engine_open_path(
        tiny_file, (foray_config) { .spec = "ngram", .spec_budget = 7, .threads = 2, .max_requests = 4 });
    for (int s = 0; s < SESSIONS; s++)
        prompt_of((uint32_t)s + 70, length[s] = 5 + s, history[s]);
    for (int turn = 0; turn < TURNS; turn++) {
        for (int s = 0; s < SESSIONS; s++) {
            c[s] = asking(history[s], length[s], SAID, s % 2 ? 0.7f : 0.0f);
            generate(plain, &c[s], &alone[s]);
        }
        generate_all(e, c, SESSIONS, turn % 3, together);
        for (int s = 0; s < SESSIONS; s++) {
            assert_same_text(&alone[s], &together[s]);
            memcpy(history[s] + length[s], alone[s].ids, SAID * sizeof(int32_t));
            length[s] += SAID;
            prompt_of((uint32_t)(s + turn), 6, history[s] + length[s]); /* the user again */
            length[s] += 6;
        }
    }
    assert_int_equal(cache_pages_in_use(engine_cache(e)), 0);
    foray_close(e);
}

/* A11: texts depend on no old contents: a fresh process's engine, one full of other traffic, pools full of poison. */
static void old_contents_of_the_pools_do_not_matter(void **state)
{
    (void)state;
    enum { REQUESTS = 10 };
    static text expected[REQUESTS], got[REQUESTS];
    static int32_t ids[REQUESTS][40];
    foray_request_config c[REQUESTS];
    for (int i = 0; i < REQUESTS; i++) {
        prompt_of((uint32_t)i + 21, 3 + 4 * i, ids[i]);
        c[i] = asking(ids[i], 3 + 4 * i, 20, i % 2 ? 1.0f : 0.0f);
        generate(plain, &c[i], &expected[i]);
    }
    for (int fresh = 0; fresh < 2; fresh++) {
        foray_engine *e = engine_open_path(
            tiny_file,
            (foray_config) {
                .spec = "ngram", .spec_budget = 7, .threads = 2, .max_requests = 3, .context = 128 });
        pass *p = round_pass(engine_round(e));
        for (int again = 0; again < 3; again++) {
            if (fresh || again) { /* as numbers these are huge, or not numbers at all */
                poison_pages(engine_cache(e));
                memset(p->logits, 0x7f, sizeof(float) * 512 * (size_t)p->max_heads);
                memset(p->llama->x, 0x7f, sizeof(float) * 64 * (size_t)p->max_rows);
            }
            generate_all(e, c, REQUESTS, again, got);
            for (int i = 0; i < REQUESTS; i++)
                assert_same_text(&expected[i], &got[i]);
        }
        foray_close(e);
    }
}

/* A12: windows: texts around the window's edge, drafted or not. */
static void windows_slide_the_same_under_drafts(void **state)
{
    (void)state;
    static text a, b;
    static const model_arch archs[] = { MODEL_MISTRAL, MODEL_GEMMA3 };
    static const int lengths[] = { 1, 15, 16, 17, 33 };
    int32_t ids[40], script[40];
    for (int k = 0; k < 2; k++) {
        tiny_spec spec = tiny_family(archs[k]);
        spec.no_text = true;
        const char *path = tiny_gguf(&spec);
        foray_engine *base = engine_open_path(path, (foray_config) { .spec = "off", .threads = 1 });
        foray_engine *e =
            engine_open_path(path, (foray_config) { .spec = "script", .spec_budget = 5, .threads = 1 });
        for (int i = 0; i < 5; i++) {
            prompt_of((uint32_t)i, lengths[i], ids);
            foray_request_config c = asking(ids, lengths[i], 40, 0);
            generate(base, &c, &a);
            for (int j = 0; j < 40; j++)
                script[j] = a.ids[j] ^ (j % 5 == 4);
            c.script = script;
            c.script_count = 40;
            generate(e, &c, &b);
            assert_same_text(&a, &b);
        }
        foray_close(base);
        foray_close(e);
    }
}

/* E05: what is accepted depends on the text, not on how much context was configured. */
static void acceptance_does_not_depend_on_the_capacity(void **state)
{
    (void)state;
    int32_t ids[20];
    int accepted[64], first = 0;
    foray_error err;
    const foray_event *events;
    size_t count;
    prompt_of(33, 20, ids);
    foray_request_config c = asking(ids, 20, 60, 0);
    for (int context = 96; context <= 512; context += 52) {
        foray_engine *e = engine_open_path(
            tiny_file,
            (foray_config) {
                .spec = "ngram", .spec_tokens = 2, .spec_budget = 2, .threads = 1, .context = context });
        foray_request r;
        int rounds = 0;
        assert_int_equal(foray_submit(e, &c, &r, &err), 0);
        for (int active = 1; active > 0; rounds++) {
            active = foray_step(e, &events, &count, &err);
            int now = round_get_plan(engine_round(e))->member[0].accepted;
            if (first == 0)
                accepted[rounds] = now;
            assert_int_equal(now, accepted[rounds]);
        }
        first = first ? first : rounds;
        assert_int_equal(rounds, first);
        foray_release(e, r);
        foray_close(e);
    }
}

/* E04: what plain decoding can fill to the last place, speculation can, with the same tokens. */
static void prompt_and_answer_may_fill_the_context_exactly(void **state)
{
    (void)state;
    static text a, b;
    int32_t ids[64];
    foray_engine *base =
        engine_open_path(tiny_file, (foray_config) { .spec = "off", .threads = 1, .context = 64 });
    foray_engine *e = engine_open_path(
        tiny_file, (foray_config) { .spec = "ngram", .spec_budget = 7, .threads = 1, .context = 64 });
    for (int n = 1; n < 64; n += 3) {
        prompt_of(5, n, ids);
        for (int over = -1; over <= 1; over++) {
            foray_request_config c = asking(ids, n, 64 - n + over, 0);
            if (c.max_tokens < 1)
                continue;
            generate(base, &c, &a);
            generate(e, &c, &b);
            assert_same_text(&a, &b);
            assert_int_equal(b.count, over > 0 ? 64 - n : 64 - n + over);
            assert_int_equal(b.finish, FORAY_LENGTH);
        }
    }
    foray_close(base);
    foray_close(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(long_texts_of_accepted_drafts_leave_the_fresh_cache),
        cmocka_unit_test(a_prompts_last_logits_do_not_depend_on_speculation),
        cmocka_unit_test(the_number_of_drafts_changes_nothing),
        cmocka_unit_test(rows_have_the_same_bits_in_every_shape),
        cmocka_unit_test(ties_go_to_the_lowest_id_on_every_path),
        cmocka_unit_test(positions_move_by_what_was_committed),
        cmocka_unit_test(sessions_at_once_are_sessions_alone),
        cmocka_unit_test(old_contents_of_the_pools_do_not_matter),
        cmocka_unit_test(windows_slide_the_same_under_drafts),
        cmocka_unit_test(acceptance_does_not_depend_on_the_capacity),
        cmocka_unit_test(prompt_and_answer_may_fill_the_context_exactly),
    };
    return cmocka_run_group_tests(tests, open_plain, close_plain);
}
