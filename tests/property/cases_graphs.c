/* cases.md F: what tiers, padding, captures and ragged packing must not change, each by the way in which an engine once
 * did: see the letter and number at each test. Every request says what plain decoding, eager and alone, says.
 */
#include "support/job.h"

#include <string.h>
#include <xxhash.h>

#include "base/rng.h"
#include "support/generate.h"
#include "support/mutate.h"

/* Everything is checked there, and slow. */
#ifdef FORAY_CHECKS
enum { FEW = 1 };
#else
enum { FEW = 0 };
#endif

enum { CROWD = PLAN_MAX_MEMBERS + 1 };

static job jobs[CROWD];

/* ---- tiers ---- */

/* F03, X06: requests times 1 + K on both sides of the largest tier, 64 rows: it is drafts that give way, for all rounds replay.
 * As many requests as there can be, and one that waits. */
static void behind_the_largest_tier_there_are_fewer_drafts(void **state)
{
    (void)state;
    static const struct {
        int k, requests;
    } rows[] = { { 7, 8 }, { 7, 9 }, { 1, 31 }, { 1, 32 }, { 1, 33 }, { 1, 63 }, { 1, 64 }, { 7, 65 } };
    for (int chain = 0; chain < 2; chain++)
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i += 1 + 3 * FEW) {
            const int k = rows[i].k, n = rows[i].requests, run = n < CROWD ? n : CROWD - 1;
            int most = 0;
            stack s;
            stack_open(&s, job_model(JOB_LLAMA),
                       (stack_config) { .slots = PLAN_MAX_MEMBERS,
                                        .drafter = chain ? "draft" : "script",
                                        .spec_tokens = k,
                                        .spec_budget = k });
            for (int j = 0; j < n; j++) /* whoever comes first waits for all others */
                job_prepare(&jobs[j], JOB_LLAMA, j, 3, n - j + 24);
            jobs_fill(&s, jobs, run);
            for (int j = run; j < n; j++)
                job_submit(&s, &jobs[j]);
            for (int active = n; active > 0;) {
                active = stack_step(&s);
                const round_plan *p = round_get_plan(s.round);
                assert_in_range(p->rows_launched, 1, 64);
                most = p->phase != PHASE_PREFILL && p->rows > most ? p->rows : most;
            }
            /* Each of a chain's members makes as many as the others; one of the host may have one more. */
            const int want = run * (1 + k) <= 64 ? run * (1 + k) : chain ? run * (64 / run) : 64;
            if (most != want)
                fail_msg("chain %d, K %d, %d requests: %d rows at most", chain, k, n, most);
            assert_int_equal(jobs_eager_parts(&s), 0);
            for (int j = 0; j < n; j++)
                job_assert_said(&s, &jobs[j]);
            stack_close(&s);
        }
}

/* F04: with windows shorter than the texts, every number of requests from 16 down to 1. */
static void a_batch_may_shrink_to_one_through_every_size(void **state)
{
    (void)state;
    enum { REQUESTS = 16, K = 2 };
    for (int m = JOB_WINDOWED; m <= JOB_SPARSE; m++) {
        bool seen[REQUESTS + 1] = { false };
        stack s;
        stack_open(&s, job_model(m),
                   (stack_config) {
                       .slots = REQUESTS, .drafter = job_chain(m), .spec_tokens = K, .spec_budget = K });
        for (int i = 0; i < REQUESTS;
             i++) /* while they come, each step adds a token to those that are there */
            job_prepare(&jobs[i], m, 2 * i + 1, 3 + i, 4 + (REQUESTS - i) * (K + 2));
        jobs_fill(&s, jobs, REQUESTS);
        while (stack_step(&s) > 0) {
            int runs = 0;
            const round_plan *p = round_get_plan(s.round);
            for (int i = 0; i < p->members; i++)
                runs += p->member[i].committed > 0;
            seen[runs] = true;
        }
        for (int n = 2; n <= REQUESTS; n++)
            if (!seen[n])
                fail_msg("%s: never %d at once", job_chain(m), n);
        assert_int_equal(jobs_eager_parts(&s), 0);
        for (int i = 0; i < REQUESTS; i++)
            job_assert_said(&s, &jobs[i]);
        stack_close(&s);
    }
}

/* What the last round's pass was given: spans one behind the other, rows of each in order, as many as its members had. */
static void assert_geometry(stack *s)
{
    const round_plan *p = round_get_plan(s->round);
    const pass *in = round_pass(s->round);
    int row = 0, rows = 0, spans = 0;
    for (int i = 0; i < p->members; i++) {
        const plan_member *m = &p->member[i];
        const bool runs = p->phase == PHASE_PREFILL || m->committed > 0;
        assert_in_range(m->chunk, 1, s->config.prefill_chunk);
        rows += runs ? m->chunk + m->keep : 0;
        spans += runs;
    }
    assert_int_equal(p->rows, rows);
    assert_int_equal(in->count->rows, rows);
    assert_int_equal(in->count->spans, spans);
    for (int i = 0; i < spans; i++) {
        const row_span *a = &in->spans[i];
        assert_int_equal(a->first_row, row);
        assert_in_range(a->rows, 1, rows - row);
        for (int k = 0; k < a->rows; k++, row++) {
            assert_int_equal(in->position[row], a->first_position + k);
            assert_int_equal(in->slot[row], a->slot);
        }
    }
    assert_int_equal(row, rows);
}

/* F06: one of three or four ends and a prompt of 20 joins, before, behind and in the same step, within a tier and across one. */
static void one_may_end_and_another_join_in_the_same_step(void **state)
{
    (void)state;
    enum { STEPS = 9, NEXT = 5 };
    int same_step = 0;
    for (int m = JOB_LLAMA; m <= JOB_SPARSE; m += JOB_SPARSE) {
        for (int i = 0; i < NEXT; i++)
            job_prepare(&jobs[i], m, i, 4 + i, 16 + 7 * i);
        job_prepare(&jobs[NEXT], m, NEXT, 20, 12);
        for (int slots = 3; slots <= 5; slots++) {
            const int others = slots == 3 ? 3 : slots - 1;
            for (int at = 0; at < STEPS; at += 1 + 3 * FEW) {
                stack s;
                int before = 0;
                stack_open(&s, job_model(m),
                           (stack_config) { .slots = slots,
                                            .drafter = at % 2 ? "script" : job_chain(m),
                                            .spec_tokens = 3,
                                            .spec_budget = 3,
                                            .lockstep = at % 3 > 0 });
                jobs_fill(&s, jobs, others);
                for (int step = 0, active = 1; active > 0; step++) {
                    if (step == at)
                        job_submit(&s, &jobs[NEXT]);
                    active = stack_step(&s) + (step < at);
                    const round_plan *p = round_get_plan(s.round);
                    same_step += before < others && p->phase == PHASE_PREFILL;
                    before = 0;
                    for (int i = 0; i < p->members; i++)
                        before += p->member[i].finished == SEQUENCE_RUNS;
                    if (s.config.lockstep)
                        assert_geometry(&s);
                }
                for (int i = 0; i < others; i++)
                    job_assert_said(&s, &jobs[i]);
                job_assert_said(&s, &jobs[NEXT]);
                stack_close(&s);
            }
        }
    }
    assert_true(same_step > 0);
}

/* ---- captures ---- */

/* All pages, the reserved ones too. */
static uint64_t hash_pages(const cache *c)
{
    uint64_t hash = 1;
    for (int i = 0; i < cache_pools(c); i++)
        hash = XXH3_64bits_withSeed(cache_pages(c, i), cache_pool_bytes(c, i), hash);
    return hash;
}

/* The reserved page is in nobody's table, and nobody has written it. */
static void assert_page_0_is_nobodys(const stack *s, int requests)
{
    for (int p = 0; p < cache_pools(s->cache); p++) {
        const pool_desc *pool = cache_pool(s->cache, p);
        const uint8_t *page = cache_pages(s->cache, p);
        for (size_t k = 0; k < pool_page_bytes(pool); k++)
            assert_int_equal(page[k], pool->poison);
        for (int i = 0; i < requests; i++) {
            const sequence *q = batch_find(s->batch, jobs[i].handle)->sequence;
            for (int k = 0; q->slot >= 0 && k < pool_pages(pool, q->computed); k++)
                assert_true(cache_table(s->cache, p)[q->slot * cache_table_stride(s->cache, p) + k] > 0);
        }
    }
}

static void capture_everything(stack *s)
{
    foray_error err;
    const int slots = s->config.slots;
    round_settle(s->round);
    assert_int_equal(round_capture_usual(s->round, slots, s->config.spec_tokens, NULL, NULL, &err), 0);
    for (int n = 1; n <= slots; n++)
        assert_int_equal(round_capture_all(s->round, n, &err), 0);
}

/* F08: while two requests are there, in their middle: a capture runs nothing, so no byte of any page changes. */
static void captures_leave_every_page_alone(void **state)
{
    (void)state;
    for (int m = JOB_LLAMA; m <= JOB_SPARSE; m += JOB_SPARSE)
        for (int unfolded = 0; unfolded < 2; unfolded++) {
            stack s;
            stack_open(&s, job_model(m),
                       (stack_config) { .slots = 3,
                                        .drafter = job_chain(m),
                                        .spec_tokens = 4,
                                        .spec_budget = 2,
                                        .page_tokens = m == JOB_SPARSE ? 4 : 0,
                                        .lockstep = true,
                                        .unfolded = unfolded });
            poison_pages(s.cache);
            for (int i = 0; i < 2; i++) {
                job_prepare(&jobs[i], m, 30 + i, 9 + i, 40);
                job_submit(&s, &jobs[i]);
            }
            for (int step = 0; step < 9; step++)
                stack_step(&s);
            const round_counters before = round_get_counters(s.round);
            round_settle(s.round);
            const uint64_t pages = hash_pages(s.cache);
            for (int again = 0; again < 2; again++) {
                capture_everything(&s);
                assert_true(hash_pages(s.cache) == pages);
            }
            const round_counters captured = round_get_counters(s.round);
            assert_true(captured.captures > before.captures + 8);
            while (stack_step(&s) > 0)
                assert_page_0_is_nobodys(&s, 2);
            assert_int_equal(round_get_counters(s.round).captures, captured.captures);
            for (int i = 0; i < 2; i++)
                job_assert_said(&s, &jobs[i]);
            stack_close(&s);
        }
}

/* F09: graphs of few rows, then a prompt of many chunks, then those graphs again: they hold addresses that never change, for
 * nothing is taken from the device or given back meanwhile. */
static void graphs_outlive_a_longer_prompt(void **state)
{
    (void)state;
    for (int m = 0; m < JOB_MODELS; m++) {
        stack s;
        stack_open(&s, job_model(m),
                   (stack_config) { .slots = 4,
                                    .context = JOB_CONTEXT,
                                    .prefill_chunk = 64,
                                    .drafter = job_chain(m),
                                    .spec_tokens = 3,
                                    .spec_budget = 3 });
        for (int i = 0; i < 4; i++)
            job_prepare(&jobs[i], m, 40 + i, i == 3 ? 200 : 4, i == 3 ? 20 : 60);
        capture_everything(&s);
        jobs_fill(&s, jobs, 3);
        const uint64_t bytes = device_bytes(s.device) + round_graph_bytes(s.round);
        const int64_t captures = round_get_counters(s.round).captures;
        job_submit(&s, &jobs[3]);
        while (!job_decodes(&s, &jobs[3])) /* a chunk of it, and the others, in turn */
            stack_step(&s);
        stack_run(&s);
        for (int i = 0; i < 4; i++)
            job_assert_said(&s, &jobs[i]);
        assert_int_equal(round_get_counters(s.round).captures, captures);
        assert_int_equal(jobs_eager_parts(&s), 0);
        /* The requests are gone: their own memory came with them. */
        assert_true(device_bytes(s.device) + round_graph_bytes(s.round) < bytes);
        stack_close(&s);
    }
}

/* F10: the first rounds that are padded come when the cache has no page left: padding needs none, so they replay, then and
 * when there are pages again. */
static void padding_needs_no_page(void **state)
{
    (void)state;
    enum { REQUESTS = 3, THIEF = REQUESTS, TOKENS = 40 }; /* three pages of 16 tokens each, of twelve */
    for (int m = JOB_LLAMA; m <= JOB_SPARSE; m += JOB_SPARSE) {
        foray_error err;
        stack s;
        int taken = 0, full = 0;
        stack_open(&s, job_model(m),
                   (stack_config) { .slots = REQUESTS + 1,
                                    .context = 64,
                                    .cache_tokens = 128,
                                    .page_tokens = m == JOB_SPARSE ? 16 : 0,
                                    .drafter = job_chain(m),
                                    .spec_tokens = 2,
                                    .spec_budget = 2 });
        batch_config config = { .device = s.device,
                                .cache = s.cache,
                                .round = s.round,
                                .slots = REQUESTS,
                                .prefill_chunk = s.config.prefill_chunk };
        batch_destroy(s.batch);
        assert_int_equal(batch_create(&config, &s.batch, &err), 0);
        for (int i = 0; i < REQUESTS; i++) {
            job_prepare(&jobs[i], m, 50 + i, 5, TOKENS);
            job_submit(&s, &jobs[i]);
        }
        stack_step(&s); /* now all have been promised what they will need */
        while (taken < s.config.context && cache_promise(s.cache, THIEF, taken + 1))
            taken++;
        if (taken > 0)
            assert_int_equal(cache_reserve_extend(s.cache, THIEF, 0, taken, &err), 0);
        while (stack_step(&s) > 0) {
            full += !cache_promise(s.cache, THIEF, s.config.context);
            if (batch_find(s.batch, jobs[0].handle)->delivered > TOKENS / 2)
                cache_release(s.cache, THIEF);
        }
        assert_true(full > 4);
        assert_int_equal(jobs_eager_parts(&s), 0);
        assert_true(round_get_counters(s.round).replays > 4);
        for (int i = 0; i < REQUESTS; i++)
            job_assert_said(&s, &jobs[i]);
        stack_close(&s);
    }
}

/* F11: with any number of drafts, graphs that were captured before there was any round; then a hundred rounds in which three
 * requests fill a tier of four. */
static void a_hundred_padded_rounds_on_end(void **state)
{
    (void)state;
    enum { REQUESTS = 3, ROUNDS = 100 };
    for (int m = JOB_LLAMA; m <= JOB_SPARSE; m += JOB_SPARSE)
        for (int k = 1; k <= 4; k++) {
            int padded = 0;
            stack s;
            stack_open(&s, job_model(m),
                       (stack_config) { .slots = 4,
                                        .context = JOB_CONTEXT,
                                        .drafter = job_chain(m),
                                        .spec_tokens = k,
                                        .spec_budget = k });
            capture_everything(&s);
            for (int again = 0; padded < ROUNDS; again++) {
                for (int i = 0; i < REQUESTS; i++)
                    job_prepare(&jobs[i], m, 60 + 3 * again + i, 3, JOB_MOST);
                jobs_fill(&s, jobs, REQUESTS);
                while (stack_step(&s) > 0) {
                    const round_plan *p = round_get_plan(s.round);
                    if (p->members < REQUESTS)
                        continue;
                    assert_int_equal(p->slots_launched, 4);
                    assert_true(p->rows < p->rows_launched);
                    padded++;
                }
                for (int i = 0; i < REQUESTS; i++)
                    job_assert_said(&s, &jobs[i]);
            }
            assert_int_equal(jobs_eager_parts(&s), 0);
            stack_close(&s);
        }
}

/* ---- chunks, ragged lengths ---- */

/* F12: eager or replayed, prompts whole or in chunks of 8, of any sort of drafter or none: one set of ten texts. */
static void graphs_chunks_and_drafts_do_not_meet_in_the_text(void **state)
{
    (void)state;
    enum { PROMPTS = 10, TOKENS = 20 };
    static const int chunks[] = { 8, 128, 200 };
    for (int m = JOB_LLAMA; m <= JOB_SPARSE; m += JOB_SPARSE) {
        for (int i = 0; i < PROMPTS; i++)
            job_prepare(&jobs[i], m, 70 + i, 1 + i * i * 2, TOKENS);
        for (int cell = 0; cell < 24; cell += 1 + 4 * FEW) {
            const char *const drafters[] = { NULL, "ngram", "script", job_chain(m) };
            const bool eager = cell % 2;
            stack s;
            stack_open(&s, job_model(m),
                       (stack_config) { .slots = 4,
                                        .context = JOB_CONTEXT,
                                        .prefill_chunk = chunks[cell / 2 % 3],
                                        .drafter = drafters[cell / 6],
                                        .spec_budget = 4,
                                        .eager = eager });
            for (int i = 0; i < PROMPTS; i++)
                job_submit(&s, &jobs[i]);
            stack_run(&s);
            for (int i = 0; i < PROMPTS; i++)
                job_assert_said(&s, &jobs[i]);
            const round_counters c = round_get_counters(s.round);
            assert_true(eager ? c.replays == 0 : c.replays > 10 && jobs_eager_parts(&s) == 0);
            stack_close(&s);
        }
    }
}

/* Shares of a round's rows: `left` for `members` more requests, of at least one row each. */
typedef struct {
    int members, left;
    int each; /* >= 0: so many drafts for everybody */
    uint32_t drawn;
} shares;

static int keep_share(void *user, const plan_member *m)
{
    shares *w = user;
    const int others = --w->members, room = m->draft.count;
    int least = w->left - 1 - others * (1 + room), most = w->left - 1 - others;
    least = least > 0 ? least : 0;
    most = most < 0 ? 0 : most < room ? most : room;
    least = least < most ? least : most;
    const uint32_t any = rng_philox(w->drawn++, 0, 0x72616767, 0, 1, 0).word[0];
    const int keep = least + (int)(any % (uint32_t)(most - least + 1));
    if (w->each >= 0)
        return w->each < room ? w->each : room;
    w->left -= 1 + keep;
    return keep;
}

/* F13: ragged rows in total one less than a tier, a tier, one more; lengths of requests at random, then all equal; packed,
 * then of fixed width. */
static void ragged_rows_may_end_on_the_edge_of_a_tier(void **state)
{
    (void)state;
    enum { REQUESTS = 8, K = 5, ROWS = REQUESTS * (1 + K) };
    static const int totals[] = { 7, 8, 9, 15, 16, 17, 31, 32, 33, 47, 48 };
    const int rounds = (int)mutate_count(FEW ? 100 : 330, 2000);
    for (int m = JOB_LLAMA; m <= JOB_SPARSE; m += JOB_SPARSE)
        for (int way = 0; way < 4; way++) {
            int seen[ROWS + 1] = { 0 }, done = 0;
            shares w = { .each = -1 };
            round_hooks hooks = { .user = &w, .keep = keep_share };
            stack s;
            stack_open(&s, job_model(m),
                       (stack_config) { .slots = REQUESTS,
                                        .drafter = way % 2 ? "script" : job_chain(m),
                                        .spec_tokens = K,
                                        .spec_budget = K,
                                        .lockstep = true,
                                        .fixed_width = way / 2 });
            for (int again = 0; done < rounds / 8; again++) {
                for (int i = 0; i < REQUESTS; i++)
                    job_prepare(&jobs[i], m, 90 + i + 8 * again, 2 + i, 40 + 6 * i);
                jobs_fill(&s, jobs, REQUESTS);
                round_set_hooks(s.round, &hooks);
                for (int active = REQUESTS; active > 0; done++) {
                    const int total = totals[(done + again) % (int)(sizeof totals / sizeof *totals)];
                    w.members = active;
                    w.left = total > active ? total : active;
                    w.each = way % 2 ? w.left / active - 1 : -1;
                    active = stack_step(&s);
                    seen[round_get_plan(s.round)->rows]++;
                    assert_geometry(&s);
                }
                round_set_hooks(s.round, NULL);
                for (int i = 0; i < REQUESTS; i++)
                    job_assert_said(&s, &jobs[i]);
            }
            for (int tier = 8; tier <= 32; tier *= 2)
                assert_true(way % 2 || (seen[tier - 1] && seen[tier] && seen[tier + 1]));
            assert_int_equal(jobs_eager_parts(&s), 0);
            stack_close(&s);
        }
}

/* ---- the drafter's rows ---- */

static const int accepts[3] = { 0, 2, 1 };

static int keep_accepts(void *user, const plan_member *m)
{
    const int *turn = user, wanted = accepts[(m->sequence->slot + *turn) % 3];
    return wanted < m->draft.count ? wanted : m->draft.count;
}

/* F15: three requests of which 0, 2 and 1 drafts stand: the next drafts of each are those that a prompt of its text has, alone:
 * they start from the row of its own last token that stands. */
static void each_next_draft_starts_from_its_own_last_row(void **state)
{
    (void)state;
    enum { REQUESTS = 3, K = 2, TOKENS = 60 };
    stack s, fresh;
    stack_config config = {
        .slots = REQUESTS, .drafter = "nextn", .spec_tokens = K, .spec_budget = K, .lockstep = true
    };
    stack_open(&s, job_model(JOB_SPARSE), config);
    stack_open(&fresh, job_model(JOB_SPARSE), config);
    int turn = 0, ragged = 0;
    round_hooks hooks = { .user = &turn, .keep = keep_accepts };
    for (int i = 0; i < REQUESTS; i++)
        job_prepare(&jobs[i], JOB_SPARSE, 200 + 2 * i, 5 + 3 * i, TOKENS);
    jobs_fill(&s, jobs, REQUESTS);
    round_set_hooks(s.round, &hooks);
    for (bool all = false; stack_step(&s) == REQUESTS; turn++) {
        const round_plan *p = round_get_plan(s.round);
        const bool compare = all;
        all = p->members == REQUESTS;
        for (int i = 0; i < p->members; i++)
            all = all && p->member[i].accepted == accepts[(p->member[i].sequence->slot + turn) % 3];
        for (int i = 0; compare && i < p->members; i++) {
            const plan_member *m = &p->member[i];
            foray_request_config c = jobs[i].config;
            draft alone;
            c.prompt = m->sequence->tokens;
            c.prompt_count = (size_t)(m->count - m->committed - 1);
            c.max_tokens = K + 3;
            foray_request r = stack_submit(&fresh, &c);
            while (round_get_plan(fresh.round)->phase != PHASE_TARGET_VERIFY)
                stack_step(&fresh);
            alone = round_get_plan(fresh.round)->member[0].draft;
            stack_run(&fresh);
            batch_release(fresh.batch, r);
            while (round_get_plan(fresh.round)->phase ==
                   PHASE_TARGET_VERIFY) { /* so that the next is another */
                foray_request_config one = request_of(m->sequence->tokens, 1, 1);
                r = stack_submit(&fresh, &one);
                stack_run(&fresh);
                batch_release(fresh.batch, r);
            }
            assert_int_equal(m->draft.count, alone.count);
            assert_int_equal(m->draft.signal, alone.signal);
            assert_memory_equal(m->draft.tokens, alone.tokens, sizeof *alone.tokens * (size_t)alone.count);
            ragged++;
        }
    }
    assert_true(ragged >= 6);
    stack_run(&s);
    for (int i = 0; i < REQUESTS; i++)
        job_assert_said(&s, &jobs[i]);
    stack_close(&s);
    stack_close(&fresh);
}

/* F16: every drafter with few and with the most drafts and requests: it comes up, or says what cannot be. */
static void engines_come_up_or_say_why_not(void **state)
{
    (void)state;
    static const struct {
        int drafts, requests;
        const char *refused;
    } rows[] = { { 1, 1, NULL },
                 { 4, 2, NULL },
                 { DRAFT_MAX, 7, NULL },
                 { 1, PLAN_MAX_MEMBERS, NULL },
                 { DRAFT_MAX, PLAN_MAX_MEMBERS, NULL },
                 { DRAFT_MAX + 1, 1, "--spec-tokens 16" },
                 { 1, PLAN_MAX_MEMBERS + 1, "65 requests" },
                 { 1, 512, "512 requests" } };
    static const char *const specs[] = { "off", "ngram", "script", "draft", "nextn" };
    for (int s = 0; s < 5; s++)
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i += 1 + 2 * FEW) {
            const bool own = strcmp(specs[s], "draft") == 0;
            const foray_config c = { .model =
                                         job_model(strcmp(specs[s], "nextn") == 0 ? JOB_SPARSE : JOB_LLAMA),
                                     .draft_model = own ? job_model(JOB_LLAMA) : NULL,
                                     .spec = specs[s],
                                     .spec_tokens = rows[i].drafts,
                                     .spec_budget = rows[i].drafts > DRAFT_MAX ? 1 : rows[i].drafts,
                                     .max_requests = rows[i].requests,
                                     .threads = 1,
                                     .context = 32 };
            foray_engine *e;
            foray_error err = { 0 };
            const int rc = foray_open(&c, &e, &err);
            if (rc != (rows[i].refused ? FORAY_EUSAGE : 0))
                fail_msg("%s, %d drafts, %d requests: %d %s", specs[s], rows[i].drafts, rows[i].requests, rc,
                         err.text);
            if (rows[i].refused)
                assert_non_null(strstr(err.text, rows[i].refused));
            else
                foray_close(e);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(behind_the_largest_tier_there_are_fewer_drafts),
        cmocka_unit_test(a_batch_may_shrink_to_one_through_every_size),
        cmocka_unit_test(one_may_end_and_another_join_in_the_same_step),
        cmocka_unit_test(captures_leave_every_page_alone),
        cmocka_unit_test(graphs_outlive_a_longer_prompt),
        cmocka_unit_test(padding_needs_no_page),
        cmocka_unit_test(a_hundred_padded_rounds_on_end),
        cmocka_unit_test(graphs_chunks_and_drafts_do_not_meet_in_the_text),
        cmocka_unit_test(ragged_rows_may_end_on_the_edge_of_a_tier),
        cmocka_unit_test(each_next_draft_starts_from_its_own_last_row),
        cmocka_unit_test(engines_come_up_or_say_why_not),
    };
    return cmocka_run_group_tests(tests, jobs_open, jobs_close);
}
