/* P1 and P2 for DeepSeek-V4 type models: rows have the same bits alone, among others and in any chunks, across windows,
 * groups of 4, 16 and 128 and the rings' ends; rejected rows leave no trace; drafts do not depend on which rounds the
 * drafter took part in; requests wait for pages and lose nothing.
 */
#include "support/stack.h"

#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "base/rng.h"
#include "engine/score.h"
#include "kernel/impl.h"
#include "support/generate.h"
#include "support/tiny_v4.h"

#include <cmocka.h> /* last: its macro fail() hides ours */

enum { MOST = 640 };

/* Everything is checked there, and slow. */
#ifdef FORAY_CHECKS
enum { STRIDE = 5 };
#else
enum { STRIDE = 1 };
#endif

static char quantised[512], small[512];

static int write_models(void **state)
{
    (void)state;
    tiny_v4_spec spec = tiny_v4_default();
    spec.no_text = true;
    snprintf(quantised, sizeof quantised, "%s", tiny_v4_model(&spec, TINY_V4_QUANT));
    spec = tiny_v4_small();
    spec.no_text = true;
    spec.context = 1024;
    spec.layers = 4;
    int ratios[] = { 0, 4, 16, 128 };
    memcpy(spec.ratio, ratios, sizeof ratios);
    spec.drafter = DEEPSEEK4_NEXTN;
    snprintf(small, sizeof small, "%s", tiny_v4_model(&spec, TINY_V4_PLAIN));
    return 0;
}

/* ---- rows ---- */

static int hash_row(void *user, size_t position, const float *logits)
{
    uint64_t *hash = user;
    (void)position;
    *hash = XXH3_64bits_withSeed(logits, 64 * sizeof *logits, *hash);
    return 0;
}

static uint64_t hash_of(foray_engine *e, const int32_t *ids, int n, int chunk)
{
    uint64_t hash = 1, digest;
    foray_error err;
    assert_int_equal(engine_score(e, ids, (size_t)n, chunk, 0, hash_row, &hash, &digest, &err), 0);
    return hash ^ digest * 3;
}

static void chunks_threads_and_instruction_sets_give_the_same_bits(void **state)
{
    (void)state;
    static const int chunks[] = { 64, 1, 129, 3, 5, 16, 127, 128, 200 };
    static const char *const isas[] = { "avx2", "avx512", "portable" };
    enum { N = 200, FEW = 3 };
    int32_t ids[N];
    random_ids(1, N, 60, ids);
    for (int which = 0; which < 2; which++) {
        uint64_t expected = 0;
        for (int i = 0; i < (which == 0 ? 3 : 2); i++) /* the reference is slow */
            for (int threads = 1; threads <= (i == 2 ? 1 : 2); threads++) {
                const kernel_table *table;
                if (kernel_table_get(isas[i], &table, NULL) != 0)
                    continue;
                foray_engine *e =
                    engine_open_path(which == 0 ? small : quantised,
                                     (foray_config) { .threads = threads, .isa = isas[i], .spec = "off" });
                for (int c = 0; c < (which == 0 && i < 2 ? 9 : FEW); c += STRIDE) {
                    uint64_t hash = hash_of(e, ids, N, chunks[c]);
                    expected = expected ? expected : hash;
                    if (hash != expected)
                        fail_msg("%s, %d threads, chunk %d: other bits", isas[i], threads, chunks[c]);
                }
                foray_close(e);
            }
    }
}

/* One pass: row or rows of several requests, each at a place of its own. logits: [rows, vocab]. */
static void mixed_rows(stack *s, int requests, int32_t (*ids)[MOST], const int *from, const int *count,
                       float *logits)
{
    foray_error err;
    pass *p = round_pass(s->round);
    *p->count = (pass_counts) { .spans = requests };
    int row = 0;
    for (int r = 0; r < requests; r++) {
        p->spans[r] = (row_span) { .first_row = row, .rows = count[r], .slot = r, .first_position = from[r] };
        assert_int_equal(cache_reserve_extend(s->cache, r, from[r], from[r] + count[r], &err), 0);
        assert_true(row + count[r] <= p->max_heads);
        for (int i = 0; i < count[r]; i++, row++) {
            p->ids[row] = ids[r][from[r] + i];
            p->position[row] = from[r] + i;
            p->slot[row] = r;
            p->head_row[row] = row;
        }
    }
    p->count->rows = p->count->heads = row;
    int max_length = cache_max_length(s->cache);
    stream *main = round_stream(s->round);
    assert_int_equal(model_trunk(s->model, p, s->cache, row, requests, max_length, main, NULL, &err), 0);
    assert_int_equal(model_head(s->model, p, row, main, &err), 0);
    assert_int_equal(stream_sync(main, &err), 0);
    memcpy(logits, p->logits, sizeof(float) * (size_t)row * (size_t)s->model->info.vocab);
}

static void rows_among_others_have_the_bits_of_rows_alone(void **state)
{
    (void)state;
    enum { REQUESTS = 8 };
    static int32_t ids[REQUESTS][MOST];
    static float together[32 * 512], alone[32 * 512];
    static const int from[REQUESTS] = { 3, 0, 7, 15, 30, 71, 126, 127 };
    static const int counts[3][REQUESTS] = { { 1, 1, 1, 1, 1, 1, 1, 1 },
                                             { 4, 1, 2, 1, 6, 3, 4, 1 },
                                             { 1, 9, 1, 1, 2, 1, 1, 3 } };
    for (int threads = 1; threads <= 2; threads++) {
        stack s;
        /* A drafter makes room for more head rows. */
        stack_open(
            &s, quantised,
            (stack_config) { .threads = threads, .slots = REQUESTS, .context = 160, .drafter = "script" });
        poison_pages(s.cache);
        int vocab = s.model->info.vocab;
        for (int r = 0; r < REQUESTS; r++) {
            random_ids(r, MOST, vocab, ids[r]);
            for (int at = 0, n; at < from[r]; at += n) {
                n = from[r] - at < 32 ? from[r] - at : 32;
                stack_rows(&s, s.model, r, ids[r], at, n, NULL);
            }
        }
        for (int c = 0; c < 3; c++)
            for (int requests = 2; requests <= REQUESTS; requests += 3) {
                mixed_rows(&s, requests, ids, from, counts[c], together);
                for (int r = 0, row = 0; r < requests; row += counts[c][r++]) {
                    stack_rows(&s, s.model, r, ids[r], from[r], counts[c][r], alone);
                    for (int i = 0; i < counts[c][r]; i++)
                        if (memcmp(together + (size_t)((row + i) * vocab), alone + (size_t)(i * vocab),
                                   sizeof(float) * (size_t)vocab) != 0)
                            fail_msg("%d requests: row %d of request %d differs", requests, i, r);
                }
            }
        for (int r = 0; r < REQUESTS; r++)
            cache_release(s.cache, r);
        stack_close(&s);
    }
}

/* ---- texts ---- */

static foray_request_config asking(const int32_t *ids, int n, int most)
{
    foray_request_config c = request_of(ids, n, most);
    c.ignore_eos = true;
    return c;
}

/* D02, D04: verify 6 rows, accept 0 to 5, wherever a group of 4, 16 or 128 or a ring ends: rings of 8 + 64 tokens (window, guard)
 * and of 4, 16 or 128 + 64 have ends at 68, 72, 80, 144, 192. */
static void rejected_rows_leave_no_trace(void **state)
{
    (void)state;
    static const int lengths[] = { 2,  3,  4,  6,  11,  13,  14,  15,  16,  63,  65,  67,  70, 71,
                                   72, 76, 79, 80, 123, 125, 126, 127, 128, 143, 190, 191, 255 };
    enum { TEXT = 14 };
    static int32_t ids[MOST];
    int32_t said[TEXT], script[TEXT], got[TEXT];
    stack plain, s;
    stack_open(&plain, small, (stack_config) { .context = 288, .prefill_chunk = 64 });
    stack_open(&s, small,
               (stack_config) {
                   .slots = 2, .context = 288, .prefill_chunk = 64, .drafter = "script", .spec_budget = 5 });
    poison_pages(s.cache);
    int vocab = s.model->info.vocab, ringed = 0;
    for (int p = 0; p < cache_pools(s.cache); p++)
        ringed += cache_pool(s.cache, p)->ring == 72;
    assert_true(ringed > 0); /* or the lengths above are others */
    random_ids(3, MOST, vocab, ids);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i += STRIDE) {
        foray_request_config c = asking(ids, lengths[i], TEXT);
        stack_text(&plain, &c, said);
        for (int accept = 0; accept <= 5; accept++) {
            for (int k = 0; k < TEXT; k++)
                script[k] = (k - 1) % 6 == accept ? (said[k] + 1) % vocab : said[k];
            c.script = script;
            c.script_count = TEXT;
            foray_request r = stack_submit(&s, &c);
            bool first = true;
            while (stack_step(&s) > 0) {
                const plan_member *m = &round_get_plan(s.round)->member[0];
                bool now = first && m->keep == 5;
                if (now)
                    assert_int_equal(m->accepted, accept);
                first = first && !now;
                if (now || STRIDE == 1)
                    stack_assert_fresh(&s, r, 1);
            }
            assert_false(first);
            int count;
            memcpy(got, stack_tokens(&s, r, &count), sizeof got);
            assert_memory_equal(got, said, sizeof said);
            batch_release(s.batch, r);
        }
    }
    stack_close(&plain);
    stack_close(&s);
}

/* Four requests with up to five drafts each, so that rounds fall on both sides of where activations are prepared by a
 * kernel of their own, on two and three threads whose tasks run in a random order as far as the edges allow. */
static void branches_beside_each_other_give_the_bits_of_one_stream(void **state)
{
    (void)state;
    enum { TEXT = 24, REQUESTS = 4 };
    static int32_t ids[REQUESTS][MOST];
    int32_t said[REQUESTS][TEXT], script[REQUESTS][TEXT];
    stack serial;
    stack_open(&serial, small, (stack_config) { .context = 256, .serial = true });
    for (int i = 0; i < REQUESTS; i++) {
        random_ids(40 + i, MOST, serial.model->info.vocab, ids[i]);
        foray_request_config c = asking(ids[i], 20 + 9 * i, TEXT);
        stack_text(&serial, &c, said[i]);
        for (int k = 0; k < TEXT; k++)
            script[i][k] = k % 7 == i ? (said[i][k] + 1) % serial.model->info.vocab : said[i][k];
    }
    for (uint64_t seed = 1; seed <= 12; seed++) {
        stack s;
        stack_open(&s, small,
                   (stack_config) { .threads = 2 + (int)(seed % 2),
                                    .shuffle_seed = seed,
                                    .slots = REQUESTS + 1,
                                    .context = 256,
                                    .drafter = seed % 4 ? "script" : "nextn",
                                    .spec_budget = 5,
                                    .eager = seed % 3 == 0 });
        foray_request r[REQUESTS];
        foray_error err = { 0 };
        buf json = { 0 };
        assert_int_equal(round_capture(s.round, 1, 4, 0, 0, &err), 0);
        round_graphs_json(s.round, &json);
        if (s.config.eager)
            assert_string_equal(json.data, "[]");
        else
            assert_non_null(strstr(json.data, "\"name\":\"shared expert\""));
        buf_free(&json);
        for (int i = 0; i < REQUESTS; i++) {
            foray_request_config c = asking(ids[i], 20 + 9 * i, TEXT);
            c.script = script[i];
            c.script_count = TEXT;
            r[i] = stack_submit(&s, &c);
        }
        for (int steps = 0; stack_step(&s) > 0; steps++)
            if (steps % (4 * STRIDE) == 0)
                stack_assert_fresh(&s, r[steps % REQUESTS], REQUESTS);
        for (int i = 0; i < REQUESTS; i++) {
            int count;
            assert_memory_equal(stack_tokens(&s, r[i], &count), said[i], sizeof said[i]);
            batch_release(s.batch, r[i]);
        }
        stack_close(&s);
    }
    stack_close(&serial);
}

/* D10: chunks of 3 and of 256 tokens, between which rings are longer by as much: every row sees its window and no more. */
static void prompts_around_groups_of_128_and_beyond_every_ring(void **state)
{
    (void)state;
    static const int lengths[] = { 1, 127, 128, 129, 513 };
    enum { TEXT = 20 };
    static int32_t ids[MOST];
    int32_t said[TEXT], got[TEXT];
    stack plain, s;
    stack_open(&plain, small, (stack_config) { .context = 600, .prefill_chunk = 3 });
    stack_open(&s, small,
               (stack_config) { .slots = 2,
                                .threads = 2,
                                .context = 600,
                                .prefill_chunk = 256,
                                .drafter = "nextn",
                                .spec_budget = 3 });
    poison_pages(s.cache);
    random_ids(5, MOST, s.model->info.vocab, ids);
    for (int i = 0; i < 5; i++) {
        foray_request_config c = asking(ids, lengths[i], TEXT);
        stack_text(&plain, &c, said);
        foray_request r = stack_submit(&s, &c);
        for (int steps = 0; stack_step(&s) > 0; steps++)
            if (steps % STRIDE == 0)
                stack_assert_fresh(&s, r, 1);
        int count;
        memcpy(got, stack_tokens(&s, r, &count), sizeof got);
        assert_memory_equal(got, said, sizeof said);
        batch_release(s.batch, r);
    }
    stack_close(&plain);
    stack_close(&s);
}

/* ---- the drafter's catch-up ---- */

typedef struct {
    uint32_t seed, draws;
    int pauses;
} pauser;

static bool pause_often(void *user, const round_plan *p)
{
    (void)p;
    pauser *u = user;
    bool pause = rng_philox(u->draws++, 3, 0, 0, u->seed, 6).word[0] % 8 < 5;
    u->pauses += pause;
    return pause;
}

/* Whatever rounds it was left out of, and whichever drafts were rejected before, it drafts what it would draft if the
 * text so far were a prompt: first tokens, later ones and how sure it is. */
static void drafts_after_a_pause_are_those_without_one(void **state)
{
    (void)state;
    enum { TEXT = 70 };
    static int32_t ids[MOST];
    stack s, fresh;
    int seen = 0;
    pauser u = { .seed = 1 };
    stack_config c = { .context = 256, .prefill_chunk = 64, .drafter = "nextn", .spec_budget = 3 };
    stack_open(&fresh, small, c);
    stack_open(&s, small, c);
    poison_pages(s.cache);
    poison_pages(fresh.cache);
    random_ids(6, MOST, s.model->info.vocab, ids);
    round_hooks hooks = { .user = &u, .pause = pause_often };
    round_set_hooks(s.round, &hooks);
    for (int n = 1; n < 140; n += 45 * STRIDE) {
        foray_request_config config = asking(ids, n, TEXT);
        foray_request r = stack_submit(&s, &config);
        for (int before = 0; stack_step(&s) > 0; before = batch_find(s.batch, r)->sequence->computed) {
            const round_plan *p = round_get_plan(s.round);
            const plan_member *m = &p->member[0];
            if (p->phase != PHASE_TARGET_VERIFY || m->draft.count < 3)
                continue;
            draft expected;
            stack_first_drafts(&fresh, m->sequence->tokens, before, &expected);
            assert_int_equal(m->draft.count, expected.count);
            assert_int_equal(m->draft.signal, expected.signal);
            if (memcmp(m->draft.tokens, expected.tokens, sizeof(int32_t) * 3) != 0)
                fail_msg("after %d tokens it drafts %d %d %d, not %d %d %d", before, m->draft.tokens[0],
                         m->draft.tokens[1], m->draft.tokens[2], expected.tokens[0], expected.tokens[1],
                         expected.tokens[2]);
            seen++;
        }
        batch_release(s.batch, r);
    }
    assert_true(seen >= 10 && u.pauses >= 10);
    stack_close(&s);
    stack_close(&fresh);
}

/* ---- pages ---- */

/* A cache for one long request at a time serves many: they wait, and nothing of them is lost; one that could never run
 * is refused at once. */
static void requests_wait_for_pages_and_lose_nothing(void **state)
{
    (void)state;
    enum { REQUESTS = 6, TEXT = 30 };
    static int32_t ids[REQUESTS][MOST];
    int32_t said[REQUESTS][TEXT];
    stack plain, s;
    stack_open(&plain, small, (stack_config) { .context = 600, .prefill_chunk = 64 });
    stack_open(&s, small,
               (stack_config) { .slots = 4,
                                .threads = 2,
                                .context = 600,
                                .cache_tokens = 600,
                                .prefill_chunk = 64,
                                .drafter = "nextn",
                                .spec_budget = 2 });
    foray_request handle[REQUESTS];
    for (int i = 0; i < REQUESTS; i++) {
        random_ids(20 + i, MOST, s.model->info.vocab, ids[i]);
        foray_request_config c = asking(ids[i], i % 2 ? 9 + i : 520 + i, TEXT);
        stack_text(&plain, &c, said[i]);
        handle[i] = stack_submit(&s, &c);
    }
    foray_error err;
    request *r;
    foray_request_config c = asking(ids[0], 601, 1);
    assert_int_equal(request_create(&c, &s.limits, &r, &err), FORAY_ELIMIT);
    assert_int_equal(cache_check_length(s.cache, cache_max_length(s.cache) + 1, &err), FORAY_ELIMIT);
    int most_at_once = 0, waited = 0;
    while (stack_step(&s) > 0) {
        int runs = 0;
        for (int i = 0; i < REQUESTS; i++) {
            const request *q = batch_find(s.batch, handle[i]);
            runs += q->state == REQUEST_RUNS;
            waited += q->state == REQUEST_WAITS;
        }
        most_at_once = runs > most_at_once ? runs : most_at_once;
    }
    assert_true(waited > 0 && most_at_once < 4);
    for (int i = 0; i < REQUESTS; i++) {
        int count;
        const int32_t *got = stack_tokens(&s, handle[i], &count);
        assert_int_equal(count, TEXT);
        assert_memory_equal(got, said[i], sizeof said[i]);
    }
    assert_int_equal(cache_pages_in_use(s.cache), 0);
    stack_close(&plain);
    stack_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chunks_threads_and_instruction_sets_give_the_same_bits),
        cmocka_unit_test(rows_among_others_have_the_bits_of_rows_alone),
        cmocka_unit_test(rejected_rows_leave_no_trace),
        cmocka_unit_test(branches_beside_each_other_give_the_bits_of_one_stream),
        cmocka_unit_test(prompts_around_groups_of_128_and_beyond_every_ring),
        cmocka_unit_test(drafts_after_a_pause_are_those_without_one),
        cmocka_unit_test(requests_wait_for_pages_and_lose_nothing),
    };
    return cmocka_run_group_tests(tests, write_models, NULL);
}
