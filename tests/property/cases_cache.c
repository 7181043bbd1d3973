/* cases.md D, E, N, O on a model with every kind of cache: what drafting, few-token pages, batches, moves and chunks must not
 * change. Each by the way in which an engine once did: see the letter and number at each test.
 */
#include "support/stack.h"

#include <stdio.h>
#include <string.h>

#include "spec/nextn.h"
#include "support/generate.h"
#include "support/tiny_v4.h"

#include <cmocka.h> /* last: its macro fail() hides ours */

enum { MOST = 1024, WINDOW = 6 };

/* Everything is checked there, and slow. */
#ifdef FORAY_CHECKS
enum { STRIDE = 5 };
#else
enum { STRIDE = 1 };
#endif

static char model_path[512];

static int write_model(void **state)
{
    (void)state;
    tiny_v4_spec spec = tiny_v4_small();
    int ratios[] = { 0, 4, 16, 128 };
    spec.no_text = true;
    spec.context = MOST;
    spec.layers = 4;
    memcpy(spec.ratio, ratios, sizeof ratios);
    spec.drafter = DEEPSEEK4_NEXTN;
    assert_int_equal(spec.window, WINDOW);
    snprintf(model_path, sizeof model_path, "%s", tiny_v4_model(&spec, TINY_V4_PLAIN));
    return 0;
}

static foray_request_config asking(const int32_t *ids, int n, int most)
{
    foray_request_config c = request_of(ids, n, most);
    c.ignore_eos = true;
    return c;
}

/* Drafts that are right but for each one behind `accept` right ones: with at least so many verified, every round accepts
 * just as many. */
static void script_of(const int32_t *said, int n, int accept, int vocab, int32_t *script)
{
    for (int i = 0; i < n; i++)
        script[i] = i > 0 && (i - 1) % (accept + 1) == accept ? (said[i] + 1) % vocab : said[i];
}

static const sequence *sequence_of(stack *s, foray_request r)
{
    return batch_find(s->batch, r)->sequence;
}

static int64_t pages_of(const cache *c, int length)
{
    int64_t pages = 0;
    for (int i = 0; i < cache_pools(c); i++)
        pages += pool_pages(cache_pool(c, i), length);
    return pages;
}

/* ---- D: rejected rows, pages ---- */

/* D06: with every draft wrong, a token a step, and nothing else is different. */
static void drafts_that_are_all_wrong_cost_a_step_a_token(void **state)
{
    (void)state;
    enum { TEXT = 51 };
    int32_t ids[20], said[TEXT], script[TEXT];
    stack s, plain;
    stack_open(&plain, model_path, (stack_config) { 0 });
    stack_open(&s, model_path, (stack_config) { .slots = 2, .drafter = "script", .spec_budget = 5 });
    poison_pages(s.cache);
    int vocab = s.model->info.vocab, steps = 0;
    random_ids(1, 20, vocab, ids);
    foray_request_config c = asking(ids, 20, TEXT);
    stack_text(&plain, &c, said);
    script_of(said, TEXT, 0, vocab, script);
    c.script = script;
    c.script_count = TEXT;
    foray_request r = stack_submit(&s, &c);
    for (int active = stack_step(&s), count; active > 0; steps++) {
        active = stack_step(&s);
        assert_int_equal(round_get_plan(s.round)->member[0].accepted, 0);
        assert_memory_equal(stack_tokens(&s, r, &count), said, sizeof *said * (size_t)(steps + 2));
        assert_int_equal(count, steps + 2);
        stack_assert_fresh(&s, r, 1);
    }
    assert_int_equal(steps, TEXT - 1);
    batch_release(s.batch, r);
    stack_close(&plain);
    stack_close(&s);
}

/* In the middle of a round of one request: it holds what the round may need at most, not a page more. */
static int keep_and_count(void *user, const plan_member *m)
{
    stack *s = user;
    int most = m->sequence->computed + m->chunk + m->draft_room;
    assert_int_equal(cache_pages_in_use(s->cache), pages_of(s->cache, most));
    return m->draft.count;
}

/* Page 0 is nobody's: what is beyond a request's pages is neither written nor, full of poison, read. */
static void assert_page_0_untouched(const cache *c)
{
    for (int i = 0; i < cache_pools(c); i++) {
        const uint8_t *page = cache_pages(c, i);
        for (size_t k = 0; k < pool_page_bytes(cache_pool(c, i)); k++)
            assert_int_equal(page[k], cache_pool(c, i)->poison);
    }
}

/* D07, D12: in pages of four tokens, wherever a round, a group or a page ends, behind prompts of every length: the fresh
 * cache, and never a page beyond the reserved ones. */
static void rounds_may_end_anywhere_in_pages_of_few_tokens(void **state)
{
    (void)state;
    enum { TEXT = 13 };
    static const char *const drafters[] = { "script", "nextn" };
    int32_t ids[48], said[TEXT], script[TEXT];
    stack plain;
    stack_open(&plain, model_path, (stack_config) { 0 });
    for (int d = 0; d < 2; d++) {
        stack s;
        stack_open(&s, model_path,
                   (stack_config) { .slots = 2,
                                    .drafter = drafters[d],
                                    .spec_tokens = 3,
                                    .spec_budget = 3,
                                    .page_tokens = 4,
                                    .lockstep = true });
        round_hooks hooks = { .user = &s, .keep = keep_and_count };
        round_set_hooks(s.round, &hooks);
        poison_pages(s.cache);
        int vocab = s.model->info.vocab;
        random_ids(2, 48, vocab, ids);
        for (int n = 1; n <= 40; n += STRIDE) {
            foray_request_config c = asking(ids, n, TEXT);
            stack_text(&plain, &c, said);
            script_of(said, TEXT, n % 4, vocab, script);
            c.script = script;
            c.script_count = TEXT;
            foray_request r = stack_submit(&s, &c);
            int count;
            while (stack_step(&s) > 0)
                stack_assert_fresh(&s, r, 1);
            assert_memory_equal(stack_tokens(&s, r, &count), said, sizeof said);
            batch_release(s.batch, r);
        }
        assert_page_0_untouched(s.cache);
        stack_close(&s);
    }
    stack_close(&plain);
}

/* D09: rings end: a long text, and then several, hold no more of them than a short one; and growing pools what they need. */
static void windows_do_not_grow_with_the_text(void **state)
{
    (void)state;
    enum { TEXT = 900, SEVERAL = 8, SHORT = 120 };
    static int32_t ids[SEVERAL][16], said[TEXT];
    stack s, plain;
    stack_open(&plain, model_path, (stack_config) { .context = MOST });
    stack_open(&s, model_path,
               (stack_config) { .slots = SEVERAL,
                                .context = MOST,
                                .cache_tokens = 2 * MOST,
                                .drafter = "script",
                                .spec_tokens = 7,
                                .spec_budget = 7,
                                .page_tokens = 4,
                                .lockstep = true });
    for (int i = 0; i < cache_pools(s.cache); i++) {
        const pool_desc *p = cache_pool(s.cache, i);
        if (p->ring) /* the window, or a group, and what one pass may reject */
            assert_in_range(pool_pages(p, MOST), 1, (128 + round_most_rows(32)) / p->page_rows + 1);
    }
    int count;
    foray_request r[SEVERAL];
    random_ids(3, 16, s.model->info.vocab, ids[0]);
    foray_request_config c = asking(ids[0], 16, TEXT);
    stack_text(&plain, &c, said);
    c.script = said;
    c.script_count = TEXT;
    r[0] = stack_submit(&s, &c);
    for (const sequence *q = sequence_of(&s, r[0]); stack_step(&s) > 0;)
        assert_int_equal(cache_pages_in_use(s.cache), pages_of(s.cache, q->computed));
    assert_memory_equal(stack_tokens(&s, r[0], &count), said, sizeof said);
    batch_release(s.batch, r[0]);
    for (int i = 0; i < SEVERAL; i++) {
        random_ids(4 + i, 16, s.model->info.vocab, ids[i]);
        c = asking(ids[i], 16, SHORT);
        r[i] = stack_submit(&s, &c);
    }
    while (stack_step(&s) > 0) {
        int64_t pages = 0;
        for (int i = 0; i < SEVERAL; i++)
            if (sequence_of(&s, r[i])->slot >= 0)
                pages += pages_of(s.cache, sequence_of(&s, r[i])->computed);
        assert_int_equal(cache_pages_in_use(s.cache), pages);
    }
    for (int i = 0; i < SEVERAL; i++)
        batch_release(s.batch, r[i]);
    stack_close(&plain);
    stack_close(&s);
}

/* The drafter's own rows for the tokens [length - WINDOW, length) of a slot. */
static size_t drafter_rows(const stack *s, int slot, int length, uint8_t *out)
{
    size_t bytes = 0;
    for (int i = 0; i < cache_pools(s->cache); i++) {
        const pool_desc *p = cache_pool(s->cache, i);
        if (strcmp(p->name, "draft window") != 0)
            continue;
        const int32_t *pages = cache_table(s->cache, i) + slot * cache_table_stride(s->cache, i);
        for (int e = length > WINDOW ? length - WINDOW : 0; e < length; e++, bytes += pool_entry_bytes(p)) {
            int at = e % p->ring;
            pool_save(p, cache_pages(s->cache, i) + (size_t)pages[at / p->page_rows] * pool_page_bytes(p),
                      at % p->page_rows, out + bytes);
        }
    }
    assert_true(bytes > 0);
    return bytes;
}

/* D11: behind every round, the drafter's rows are those that a fresh drafter makes of the true tokens and streams. */
static void drafter_rows_are_made_of_what_was_committed(void **state)
{
    (void)state;
    enum { TEXT = 40, ROWS_BYTES = 1 << 16 };
    static uint8_t rows[ROWS_BYTES], fresh_rows[ROWS_BYTES];
    static const int lengths[] = { 1, 5, 30 };
    int32_t ids[32];
    stack s, fresh;
    stack_config config = { .drafter = "nextn", .spec_budget = 3, .page_tokens = 4 };
    stack_open(&s, model_path, config);
    stack_open(&fresh, model_path, config);
    random_ids(5, 32, s.model->info.vocab, ids);
    for (int i = 0; i < 3; i++) {
        int compared = 0;
        foray_request_config c = asking(ids, lengths[i], TEXT);
        foray_request r = stack_submit(&s, &c);
        while (stack_step(&s) > 0) {
            const sequence *q = sequence_of(&s, r), *p;
            if (q->slot < 0 || !s.drafter->is_ready(s.drafter, q))
                continue;
            foray_request_config prompt = asking(q->tokens, q->computed, 8);
            foray_request f = stack_submit(&fresh, &prompt);
            for (p = sequence_of(&fresh, f); p->computed < q->computed;)
                stack_step(&fresh);
            assert_int_equal(p->tokens[p->computed], q->tokens[q->computed]);
            size_t bytes = drafter_rows(&s, q->slot, q->computed, rows);
            assert_int_equal(drafter_rows(&fresh, p->slot, p->computed, fresh_rows), bytes);
            assert_memory_equal(rows, fresh_rows, bytes);
            batch_release(fresh.batch, f);
            compared++;
        }
        assert_true(compared >= TEXT / 4);
        batch_release(s.batch, r);
    }
    stack_close(&s);
    stack_close(&fresh);
}

/* D13: one request fills its context to the last place, in pages of one token, while others decode and others come. */
static void a_full_context_takes_nothing_from_others(void **state)
{
    (void)state;
    enum { REQUESTS = 5, CONTEXT = 64 };
    static const int prompts[REQUESTS] = { 30, 9, 14, 50, 3 }, texts[REQUESTS] = { 34, 25, 20, 14, 40 };
    static int32_t ids[REQUESTS][MOST], said[REQUESTS][MOST];
    stack s, plain;
    stack_open(&plain, model_path, (stack_config) { .context = CONTEXT });
    stack_open(&s, model_path,
               (stack_config) { .slots = 3,
                                .context = CONTEXT,
                                .drafter = "nextn",
                                .spec_tokens = 7,
                                .spec_budget = 7,
                                .page_tokens = 1 });
    poison_pages(s.cache);
    for (int again = 0; again < 2; again++) {
        foray_request r[REQUESTS];
        for (int i = 0; i < REQUESTS; i++) {
            random_ids(10 + i, prompts[i], s.model->info.vocab, ids[i]);
            foray_request_config c = asking(ids[i], prompts[i], texts[i]);
            stack_text(&plain, &c, said[i]);
            r[i] = stack_submit(&s, &c);
        }
        stack_run(&s);
        for (int i = 0; i < REQUESTS; i++) {
            int count;
            const int32_t *got = stack_tokens(&s, r[i], &count);
            assert_int_equal(count, texts[i]);
            assert_memory_equal(got, said[i], sizeof *got * (size_t)count);
            batch_release(s.batch, r[i]);
        }
        assert_int_equal(cache_pages_in_use(s.cache), 0);
    }
    assert_page_0_untouched(s.cache);
    stack_close(&plain);
    stack_close(&s);
}

static const int ragged[4] = { 5, 2, 3, 5 }, accepts[4] = { 0, 1, 3, 5 };

static int keep_ragged(void *user, const plan_member *m)
{
    (void)user;
    int wanted = ragged[m->sequence->slot];
    return wanted < m->draft.count ? wanted : m->draft.count;
}

/* D14: four requests in one step, 5, 2, 3 and 5 drafts of them, of which 0, 1, 3 and 5 stand: each as alone. */
static void each_of_a_batch_accepts_its_own(void **state)
{
    (void)state;
    enum { TEXT = 40 };
    static int32_t ids[4][32], said[4][TEXT], script[4][TEXT];
    stack s, plain;
    stack_open(&plain, model_path, (stack_config) { 0 });
    stack_open(
        &s, model_path,
        (stack_config) { .slots = 5, .threads = 2, .drafter = "script", .spec_budget = 5, .page_tokens = 4 });
    round_hooks hooks = { .keep = keep_ragged };
    round_set_hooks(s.round, &hooks);
    poison_pages(s.cache);
    foray_request r[4];
    int vocab = s.model->info.vocab, seen = 0;
    for (int i = 0; i < 4; i++) {
        random_ids(20 + i, 32, vocab, ids[i]);
        foray_request_config c = asking(ids[i], 11 + 5 * i, TEXT);
        stack_text(&plain, &c, said[i]);
        script_of(said[i], TEXT, accepts[i], vocab, script[i]);
        c.script = script[i];
        c.script_count = TEXT;
        r[i] = stack_submit(&s, &c);
    }
    while (stack_step(&s) > 0) {
        const round_plan *p = round_get_plan(s.round);
        bool all = p->members == 4;
        for (int i = 0; i < p->members; i++) {
            const plan_member *m = &p->member[i];
            all = all && m->keep == ragged[i] && m->accepted == accepts[i];
        }
        seen += all;
        for (int i = 0; all && i < 4; i++)
            stack_assert_fresh(&s, r[i], 4);
    }
    assert_true(seen >= 2);
    for (int i = 0; i < 4; i++) {
        int count;
        assert_memory_equal(stack_tokens(&s, r[i], &count), said[i], sizeof said[i]);
        batch_release(s.batch, r[i]);
    }
    stack_close(&plain);
    stack_close(&s);
}

/* ---- N, D08: texts that move ---- */

/* Rounds of a sequence that no batch knows, until it has `tokens` tokens or ends. */
static void run_by_hand(stack *s, sequence *q, int tokens)
{
    while (q->count < tokens && q->finished == SEQUENCE_RUNS) {
        foray_error err;
        int pending = sequence_pending(q), chunk = s->config.prefill_chunk;
        round_begin(s->round);
        assert_int_equal(round_add(s->round, q, pending < chunk ? pending : chunk, true, &err), 0);
        assert_int_equal(round_run(s->round, &err), 0);
    }
}

/* D08, N02: a text that is saved behind its window's edge, behind wrapped rings, in the middle of its prompt, and goes on in
 * another cache with other pages, in a slot of which another text had drafts: the same tokens, and the drafts that a prompt
 * of them would have. */
static void a_text_that_moved_goes_on_as_if_it_had_stayed(void **state)
{
    (void)state;
    enum { PROMPT = 90, TEXT = 50, SLOT = 1 };
    static const int moved[] = { 1, WINDOW - 1, WINDOW, WINDOW + 1, 3 * WINDOW, 64, 89, 90, 101 };
    static int32_t ids[PROMPT], others[MOST], said[TEXT];
    static uint8_t saved[1 << 21];
    stack from, to, fresh;
    stack_config config = { .slots = 2, .context = 256, .drafter = "nextn", .spec_budget = 3 };
    stack_open(&from, model_path, config);
    stack_open(&fresh, model_path, config);
    config.page_tokens = 4;
    stack_open(&to, model_path, config);
    random_ids(30, PROMPT, from.model->info.vocab, ids);
    random_ids(31, MOST, from.model->info.vocab, others);
    foray_request_config c = asking(ids, PROMPT, TEXT), other = asking(others, 20, 90);
    for (size_t i = 0; i < sizeof moved / sizeof *moved; i += STRIDE) {
        request *a, *b, *before;
        foray_error err;
        draft expected;
        int compared = 0;
        assert_int_equal(request_create(&c, &from.limits, &a, &err), 0);
        assert_int_equal(request_create(&c, &to.limits, &b, &err), 0);
        assert_int_equal(request_create(&other, &to.limits, &before, &err), 0);
        stack_text(&fresh, &c, said);

        before->sequence->slot = SLOT;
        round_open_slot(to.round, SLOT);
        run_by_hand(&to, before->sequence, i % 2 ? 110 : 22); /* further, and less far, than what comes */
        cache_release(to.cache, SLOT);

        sequence *q = a->sequence;
        q->slot = 0;
        round_open_slot(from.round, 0);
        if (moved[i] < PROMPT) { /* a chunk that ends there */
            for (int at = 0, n; at < moved[i]; at += n) {
                n = moved[i] - at < 32 ? moved[i] - at : 32;
                stack_rows(&from, from.model, 0, ids, at, n, NULL);
            }
            q->computed = moved[i];
        } else {
            run_by_hand(&from, q, moved[i] + 1);
        }
        int length = q->computed;
        size_t bytes = cache_snapshot_bytes(from.cache, length);
        assert_true(bytes <= sizeof saved);
        cache_snapshot(from.cache, 0, length, saved);

        b->sequence->computed = length;
        b->sequence->count = q->count;
        memcpy(b->sequence->tokens, q->tokens, sizeof *q->tokens * (size_t)q->count);
        q = b->sequence;
        q->slot = SLOT;
        round_open_slot(to.round, SLOT);
        assert_int_equal(cache_restore(to.cache, SLOT, length, saved, bytes, &err), 0);
        while (q->finished == SEQUENCE_RUNS) {
            int computed = q->computed;
            run_by_hand(&to, q, q->count + 1);
            const round_plan *p = round_get_plan(to.round);
            const draft *d = &p->member[0].draft;
            if (p->phase != PHASE_TARGET_VERIFY || d->count < 3 || compared == 3)
                continue;
            /* Log-probabilities are asked for here and not there: how sure it is must not depend on it. */
            stack_first_drafts(&fresh, q->tokens, computed, &expected);
            assert_int_equal(d->signal, expected.signal);
            assert_memory_equal(d->tokens, expected.tokens, 3 * sizeof *d->tokens);
            compared++;
        }
        assert_int_equal(compared, 3);
        assert_int_equal(q->count, PROMPT + TEXT);
        assert_memory_equal(q->tokens + PROMPT, said, sizeof said);
        cache_release(from.cache, 0);
        cache_release(to.cache, SLOT);
        request_free(from.device, a);
        request_free(to.device, b);
        request_free(to.device, before);
    }
    stack_close(&from);
    stack_close(&to);
    stack_close(&fresh);
}

/* ---- E: the context's end ---- */

/* E03, E04: prompts of every length up to the context, and no end in sight: all of it is used, with the plain tokens; the
 * last rounds have fewer drafts. */
static void a_context_is_filled_to_its_last_place(void **state)
{
    (void)state;
    enum { CONTEXT = 32 };
    int32_t ids[CONTEXT], said[CONTEXT];
    stack s, plain;
    stack_open(&plain, model_path, (stack_config) { .context = CONTEXT });
    stack_open(
        &s, model_path,
        (stack_config) {
            .context = CONTEXT, .drafter = "nextn", .spec_tokens = 5, .spec_budget = 5, .page_tokens = 1 });
    random_ids(40, CONTEXT, s.model->info.vocab, ids);
    for (int n = 1; n < CONTEXT; n += STRIDE) {
        int count;
        foray_request_config c = asking(ids, n, CONTEXT - n);
        stack_text(&plain, &c, said);
        c.max_tokens = 1000;
        foray_request r = stack_submit(&s, &c);
        stack_run(&s);
        const int32_t *got = stack_tokens(&s, r, &count);
        assert_int_equal(count, CONTEXT - n);
        assert_memory_equal(got, said, sizeof *got * (size_t)count);
        assert_int_equal(batch_find(s.batch, r)->finish, FORAY_LENGTH);
        batch_release(s.batch, r);
    }
    foray_request_config c = asking(ids, CONTEXT, 1);
    foray_error err;
    request *refused;
    assert_int_equal(request_create(&c, &s.limits, &refused, &err), FORAY_ELIMIT);
    stack_close(&plain);
    stack_close(&s);
}

/* E05: which drafts stand does not depend on how much context there could be. */
static void acceptance_does_not_depend_on_the_capacity(void **state)
{
    (void)state;
    enum { TEXT = 30, ROUNDS = 40 };
    int32_t ids[20];
    int accepted[ROUNDS], rounds = 0;
    for (int context = 64; context <= MOST; context += 64 * STRIDE) {
        stack s;
        stack_open(
            &s, model_path,
            (stack_config) { .context = context, .drafter = "nextn", .spec_tokens = 2, .spec_budget = 2 });
        random_ids(41, 20, s.model->info.vocab, ids);
        foray_request_config c = asking(ids, 20, TEXT);
        foray_request r = stack_submit(&s, &c);
        int n = 0;
        for (int active = 1; active > 0; n++) {
            active = stack_step(&s);
            int now = round_get_plan(s.round)->member[0].accepted;
            assert_true(n < ROUNDS && (context == 64 || now == accepted[n]));
            accepted[n] = now;
        }
        assert_true(context == 64 || n == rounds);
        rounds = n;
        batch_release(s.batch, r);
        stack_close(&s);
    }
}

/* ---- O: chunks of prompts ---- */

/* O01: the drafts behind a prompt are the same however the prompt was cut. */
static void drafts_do_not_depend_on_how_the_prompt_was_cut(void **state)
{
    (void)state;
    enum { DRAFTS = 10 };
    static const int lengths[] = { 1, 127, 128, 129, 255, 256, 257, 513 }, chunks[] = { 600, 128, 1 };
    static int32_t ids[MOST];
    draft first[8] = { 0 }, d;
    for (int k = 0; k < 3; k++) {
        stack s;
        stack_open(&s, model_path,
                   (stack_config) { .context = 600,
                                    .prefill_chunk = chunks[k],
                                    .drafter = "nextn",
                                    .spec_tokens = DRAFTS,
                                    .spec_budget = DRAFTS });
        poison_pages(s.cache);
        random_ids(50, MOST, s.model->info.vocab, ids);
        for (int i = 0; i < 8; i += STRIDE) {
            stack_first_drafts(&s, ids, lengths[i], &d);
            assert_int_equal(d.count, DRAFTS);
            first[i] = k == 0 ? d : first[i];
            assert_int_equal(d.signal, first[i].signal);
            assert_memory_equal(d.tokens, first[i].tokens, sizeof *d.tokens * DRAFTS);
        }
        stack_close(&s);
    }
}

/* O03: two prompts in one pass are two prompts. */
static void prompts_of_one_pass_are_not_one_prompt(void **state)
{
    (void)state;
    static const int pairs[][2] = { { 128, 128 }, { 127, 129 }, { 64, 192 } };
    static int32_t ids[2][256];
    stack s;
    foray_error err;
    stack_open(&s, model_path, (stack_config) { .slots = 3, .context = 256, .prefill_chunk = 256 });
    poison_pages(s.cache);
    for (int i = 0; i < 2; i++)
        random_ids(60 + i, 256, s.model->info.vocab, ids[i]);
    for (int k = 0; k < 3; k++) {
        pass *p = round_pass(s.round);
        *p->count = (pass_counts) { .rows = 256, .spans = 2 };
        for (int r = 0, row = 0; r < 2; row += pairs[k][r++]) {
            p->spans[r] = (row_span) { .first_row = row, .rows = pairs[k][r], .slot = r };
            assert_int_equal(cache_reserve_extend(s.cache, r, 0, pairs[k][r], &err), 0);
            for (int i = 0; i < pairs[k][r]; i++) {
                p->ids[row + i] = ids[r][i];
                p->position[row + i] = i;
                p->slot[row + i] = r;
            }
        }
        stream *main = round_stream(s.round);
        assert_int_equal(
            model_trunk(s.model, p, s.cache, 256, 2, cache_max_length(s.cache), main, NULL, &err), 0);
        assert_int_equal(stream_sync(main, &err), 0);
        for (int r = 0; r < 2; r++) {
            stack_rows(&s, s.model, 2, ids[r], 0, pairs[k][r], NULL);
            assert_true(cache_digest(s.cache, r, pairs[k][r]) == cache_digest(s.cache, 2, pairs[k][r]));
            cache_release(s.cache, 2);
            cache_release(s.cache, r);
        }
    }
    stack_close(&s);
}

/* O05: prompts whose end lies around a group of 128, given up in their middle and come back; forty tokens later, a token far
 * behind every window still counts, and all is as if it had been read in one go. */
static void what_left_the_window_is_still_seen(void **state)
{
    (void)state;
    enum { TEXT = 40, NEEDLE = 5 };
    static int32_t ids[MOST], moved[MOST];
    static float logits[2][512];
    stack s, whole;
    stack_open(&whole, model_path, (stack_config) { .slots = 2, .context = 256, .prefill_chunk = 256 });
    stack_open(&s, model_path,
               (stack_config) {
                   .slots = 2, .context = 256, .prefill_chunk = 16, .drafter = "nextn", .spec_budget = 2 });
    int vocab = s.model->info.vocab;
    assert_in_range(vocab, 2, 512);
    random_ids(70, MOST, vocab, ids);
    for (int n = 120; n <= 140; n += 2 * STRIDE) {
        foray_request_config c = asking(ids, n, TEXT);
        foray_request r = stack_submit(&s, &c);
        for (int chunks = 0; chunks < 3; chunks++)
            stack_step(&s);
        batch_release(s.batch, r);
        r = stack_submit(&s, &c);
        while (sequence_of(&s, r)->count < n + TEXT - 4)
            stack_step(&s);
        stack_assert_fresh(&s, r, 1);
        const sequence *q = sequence_of(&s, r);
        int length = q->computed;
        memcpy(moved, q->tokens, sizeof *moved * (size_t)(length + 1));
        for (int k = 0; k < 2; k++) {
            stack_rows(&whole, whole.model, 0, moved, 0, length - 1, NULL);
            stack_rows(&whole, whole.model, 0, moved, length - 1, 1, logits[k]);
            cache_release(whole.cache, 0);
            moved[NEEDLE] = (moved[NEEDLE] + 1) % vocab;
        }
        int best = 0;
        for (int i = 1; i < vocab; i++)
            best = logits[0][i] > logits[0][best] ? i : best;
        assert_int_equal(best, q->tokens[length]);
        assert_memory_not_equal(logits[0], logits[1], sizeof(float) * (size_t)vocab);
        batch_release(s.batch, r);
    }
    stack_close(&s);
    stack_close(&whole);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(drafts_that_are_all_wrong_cost_a_step_a_token),
        cmocka_unit_test(rounds_may_end_anywhere_in_pages_of_few_tokens),
        cmocka_unit_test(windows_do_not_grow_with_the_text),
        cmocka_unit_test(drafter_rows_are_made_of_what_was_committed),
        cmocka_unit_test(a_full_context_takes_nothing_from_others),
        cmocka_unit_test(each_of_a_batch_accepts_its_own),
        cmocka_unit_test(a_text_that_moved_goes_on_as_if_it_had_stayed),
        cmocka_unit_test(a_context_is_filled_to_its_last_place),
        cmocka_unit_test(acceptance_does_not_depend_on_the_capacity),
        cmocka_unit_test(drafts_do_not_depend_on_how_the_prompt_was_cut),
        cmocka_unit_test(prompts_of_one_pass_are_not_one_prompt),
        cmocka_unit_test(what_left_the_window_is_still_seen),
    };
    return cmocka_run_group_tests(tests, write_model, NULL);
}
