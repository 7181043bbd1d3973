/* The long ring: random rounds. Requests come, are released in the middle, stop and fail to; every round has a drafter, a
 * number of drafts, a route, pauses and a number of threads of its own, tasks are delayed at random and the clock leaps. Texts
 * are those of plain decoding, the cache is the one of a fresh prefill, and nothing is left over.
 *
 * A machine (one shuffle, one shape, one way of making rounds) lives for some rounds, then the next one is drawn: drafts by
 * the host, by a model for itself, by a NextN layer in turn. 450 rounds in the tests, 10 000 under SOAK; a failure names
 * its machine, so that FIRST can be set to it.
 */
#include "support/generate.h"

#include <stdio.h>
#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"
#include "device/cpu/hooks.h"
#include "engine/score.h"
#include "support/mutate.h"
#include "support/stack.h"
#include "support/tiny.h"
#include "support/tiny_v4.h"

enum {
    MACHINES = 6,
    ROUNDS_EACH = 76,
    MANY_MACHINES = 132,
    FIRST = 1,
    MOST = 8,
    PROMPT = 60,
    LONGEST = 48,
    CONTEXT = 128
};

enum { MODELS = 3, V4 = 2, KINDS = 3 };
static const char *const kinds[KINDS] = { "ngram", "draft", "nextn" };

static char paths[MODELS][512];
/* The oracles, by model: of texts, and of caches, which a NextN layer adds something to. */
static foray_engine *plain[MODELS], *fresh[MODELS];

/* A request under way and what it must say. */
typedef struct {
    foray_request handle; /* 0: none */
    text expected;
    int32_t ids[PROMPT + LONGEST], script[LONGEST], stop_id;
    char stop[8];
    const char *stops[1];
    foray_request_config config;
    char shown[1024];
    size_t shown_bytes;
} job;

typedef struct {
    uint32_t machine, drawn;
    uint32_t kept; /* what the device draws: it runs beside the host */
    int model;
    stack s;
    const char *kind;
    bool chain;
    drafter *drafters[2]; /* of the host */
    job jobs[MOST];
    int rounds, finished, released, digests;
    int last_release;        /* the round in which a request went, which may have left one in flight */
    int64_t replays, drafts; /* rounds and tokens */
} soak;

static uint32_t draw(soak *k, uint32_t below)
{
    return rng_philox(k->drawn++, k->machine, 0x736f616b, 0, 3, 0).word[0] % below;
}

static int no_row(void *user, size_t position, const float *logits)
{
    (void)user;
    (void)position;
    (void)logits;
    return 0;
}

static foray_engine *open_oracle(int m, const char *spec)
{
    foray_config c = { .spec = spec, .threads = 1, .context = CONTEXT, .graph = "off" };
    foray_engine *e = engine_open_path(paths[m], c);
    static text first; /* afterwards it has all the memory that it will ever want */
    uint64_t digest;
    foray_error err;
    foray_request_config r = request_of((int32_t[]) { 1 }, 1, CONTEXT - 2);
    generate(e, &r, &first);
    if (engine_score(e, first.ids, (size_t)first.count, 0, (size_t)first.count, no_row, NULL, &digest, &err))
        fail_msg("%s", err.text);
    return e;
}

static int open_oracles(void **state)
{
    (void)state;
    for (int m = 0; m < V4; m++) {
        tiny_spec spec = m ? tiny_family(MODEL_MISTRAL) : tiny_default();
        spec.layers = 2;
        spec.dim = 32;
        spec.ffn = 64;
        spec.heads = 2;
        spec.kv_heads = 1;
        spec.type = m ? DTYPE_Q8_0 : DTYPE_F32;
        snprintf(paths[m], sizeof paths[m], "%s", tiny_gguf(&spec));
        plain[m] = fresh[m] = open_oracle(m, "off");
    }
    tiny_v4_spec spec = tiny_v4_small();
    snprintf(paths[V4], sizeof paths[V4], "%s", tiny_v4_model(&spec, TINY_V4_GGUF));
    plain[V4] = open_oracle(V4, "off");
    fresh[V4] = open_oracle(V4, "nextn");
    return 0;
}

static int close_oracles(void **state)
{
    (void)state;
    foray_close(fresh[V4]);
    for (int m = 0; m < MODELS; m++)
        foray_close(plain[m]);
    return 0;
}

/* ---- the hooks ---- */

static int any_keep(void *user, const plan_member *m)
{
    soak *k = user;
    uint32_t any = rng_philox(k->kept++, k->machine, 0x6b656570, 0, 3, 0).word[0];
    return m->draft.count > 0 ? (int)(any % ((uint32_t)m->draft.count + 1)) : 0;
}

static bool any_route(void *user, const round_plan *p)
{
    (void)p;
    return draw(user, 3) == 0;
}

static void any_drafter(void *user, const round_plan *p, drafter **d)
{
    (void)p;
    soak *k = user;
    if (!k->chain)
        *d = k->drafters[draw(k, 2)];
    device_set_threads(k->s.device, 1 + (int)draw(k, (uint32_t)k->s.config.threads));
}

static bool any_pause(void *user, const round_plan *p)
{
    (void)p;
    return draw(user, 4) == 0;
}

static int64_t leaping_clock(void *user)
{
    static _Atomic int64_t now = 1000;
    (void)user;
    int64_t at = atomic_fetch_add(&now, 1) + 1, leap = at % 7 == 0 ? 1000000 : at % 5;
    return atomic_fetch_add(&now, leap) + leap;
}

/* ---- requests ---- */

/* What the request says with plain decoding, and drafts that are mostly that. */
static void expect(soak *k, job *j)
{
    static text whole;
    foray_request_config *c = &j->config;
    c->ignore_eos = true;
    generate(plain[k->model], c, &whole);
    int wrong = 1 + (int)draw(k, 9);
    for (int i = 0; i < whole.count; i++)
        j->script[i] = whole.ids[i] ^ ((int)draw(k, 10) < wrong - 1);
    c->script = j->script;
    c->script_count = (size_t)whole.count;
    if (draw(k, 3) == 0) { /* an end that it will meet, perhaps */
        j->stop_id = draw(k, 2) ? whole.ids[draw(k, (uint32_t)whole.count)] : (int32_t)draw(k, 512);
        c->stop_ids = &j->stop_id;
        c->stop_id_count = 1;
        c->min_tokens = draw(k, 2) ? (int)draw(k, 12) : 0;
    }
    if (draw(k, 3) == 0 && whole.length > 6) { /* a stop string out of its own text */
        size_t from = draw(k, (uint32_t)whole.length - 4), n = 1 + draw(k, 3);
        memcpy(j->stop, whole.bytes + from, n);
        j->stop[n] = 0;
        j->stops[0] = j->stop;
        c->stop = j->stops;
        c->stop_count = j->stop[0] != 0; /* a NUL ends a C string */
    }
    generate(plain[k->model], c, &j->expected);
}

static void submit(soak *k, job *j)
{
    memset(j, 0, sizeof *j);
    int n = 1 + (int)draw(k, PROMPT), period = 1 + (int)draw(k, 20);
    for (int i = 0; i < n; i++)
        j->ids[i] = i < period ? (int32_t)draw(k, 512) : j->ids[i - period];
    foray_request_config *c = &j->config;
    *c = request_of(j->ids, n, 1 + (int)draw(k, LONGEST));
    /* A NextN layer of random weights is right only where the noise decides, which both draw with. */
    c->sampling.temperature = draw(k, 2) ? (float)draw(k, 20) / (k->model == V4 ? 0.5f : 10) : 0;
    c->sampling.seed = draw(k, 1000);
    c->sampling.top_k = draw(k, 4) ? 0 : 1 + (int)draw(k, 60);
    c->sampling.top_p = draw(k, 4) ? 1 : (float)draw(k, 100) / 100;
    c->sampling.presence_penalty = draw(k, 4) ? 0 : (float)draw(k, 30) / 10 - 1;
    c->sampling.repeat_penalty = draw(k, 4) ? 1 : 0.7f + (float)draw(k, 10) / 10;
    expect(k, j);
    j->handle = stack_submit(&k->s, c);
}

static void wrong(const soak *k, const char *what)
{
    fail_msg("machine %u (%s), round %d: %s", k->machine, k->kind, k->rounds, what);
}

/* What a request has said so far is how its expected text begins; all of it when it has ended. */
static void check_text(soak *k, job *j)
{
    const request *r = batch_find(k->s.batch, j->handle);
    assert_non_null(r);
    if (r->finish == FORAY_FAILED)
        wrong(k, r->error.text);
    if (r->delivered > j->expected.count || memcmp(r->sequence->tokens + r->sequence->prompt, j->expected.ids,
                                                   sizeof(int32_t) * (size_t)r->delivered) != 0)
        wrong(k, "another text");
    if (j->shown_bytes > j->expected.length || memcmp(j->expected.bytes, j->shown, j->shown_bytes) != 0)
        wrong(k, "shown what is not its text");
    if (r->state == REQUEST_ENDED && (r->delivered != j->expected.count || r->finish != j->expected.finish ||
                                      j->expected.length != j->shown_bytes))
        wrong(k, "another end");
}

static void check_digest(soak *k, const job *j)
{
    const request *r = batch_find(k->s.batch, j->handle);
    foray_error err;
    uint64_t expected;
    round_settle(k->s.round);
    if (!r || r->sequence->slot < 0 || r->sequence->computed == 0)
        return;
    const sequence *s = r->sequence;
    if (engine_score(fresh[k->model], s->tokens, (size_t)s->computed, 0, (size_t)s->computed, no_row, NULL,
                     &expected, &err) != 0)
        wrong(k, err.text);
    if (cache_digest(k->s.cache, s->slot, s->computed) != expected)
        wrong(k, "another cache than a fresh prefill");
    k->digests++;
}

/* ---- a machine's life ---- */

static void open_machine(soak *k)
{
    static const int chunks[] = { 1, 3, 16, 33, 128 };
    k->kind = kinds[k->machine % KINDS];
    k->chain = strcmp(k->kind, "ngram") != 0;
    stack_config c = { .threads = 1 + (int)draw(k, 3),
                       .shuffle_seed = draw(k, 4) ? 1 + draw(k, 1 << 20) : 0,
                       .slots = 1 + (int)draw(k, MOST),
                       .context = CONTEXT,
                       .prefill_chunk = chunks[draw(k, 5)],
                       .spec_tokens = 1 + (int)draw(k, k->chain ? 6 : DRAFT_MAX),
                       .drafter = k->kind,
                       .eager = draw(k, 6) == 0,
                       .serial = draw(k, 4) == 0,
                       .lockstep = draw(k, 6) == 0,
                       .unfolded = draw(k, 4) == 0,
                       .one_stream = draw(k, 4) == 0,
                       .fixed_width = draw(k, 4) == 0 };
    c.cache_tokens = CONTEXT * (int64_t)(1 + draw(k, (uint32_t)c.slots)); /* pages for some of them only */
    k->model = strcmp(k->kind, "nextn") == 0 ? V4 : (int)draw(k, 2);
    stack_open(&k->s, paths[k->model], c);
    if (draw(k, 2))
        device_set_checks(k->s.device, true);
    poison_pages(k->s.cache);
    for (int i = 0; i < 2; i++)
        assert_int_equal(drafter_open(i ? "ngram" : "script", &k->drafters[i], NULL), 0);
}

static void close_machine(soak *k)
{
    k->replays = round_get_counters(k->s.round).replays;
    round_set_drafter(k->s.round, k->s.drafter);
    stack_close(&k->s);
    for (int i = 0; i < 2; i++)
        k->drafters[i]->destroy(k->drafters[i]);
}

static void release(soak *k, job *j)
{
    batch_release(k->s.batch, j->handle);
    j->handle = 0;
    k->last_release = k->rounds;
}

/* No more pages are held than what is in flight may need: the surplus has come back. */
static void check_pages(soak *k)
{
    int64_t needed = 0;
    for (int n = 0; n < MOST; n++) {
        const request *r = k->jobs[n].handle ? batch_find(k->s.batch, k->jobs[n].handle) : NULL;
        if (r && r->sequence->slot >= 0) /* one more than will be computed: the newest token's */
            needed += round_known(k->s.round, r->sequence).most / 16 + 1;
    }
    if (k->model != V4 && k->rounds > k->last_release + 1 && cache_pages_in_use(k->s.cache) > needed)
        wrong(k, "pages that nobody needs");
}

/* One round, and what must be true after it. */
static void one_round(soak *k)
{
    request *const *delivered;
    int count;
    foray_error err = { 0 };
    round_hooks hooks = {
        .user = k, .keep = any_keep, .eager = any_route, .pause = any_pause, .before_draft = any_drafter
    };
    round_set_hooks(k->s.round, draw(k, 5) ? &hooks : NULL);
    if (draw(k, 3) == 0) /* or by costs, which nobody has measured */
        round_set_budget(k->s.round, (int)draw(k, (uint32_t)k->s.config.spec_tokens + 2) - 1);
    clock_set(draw(k, 2) ? leaping_clock : NULL, k);
    batch_step(k->s.batch, &delivered, &count, &err);
    clock_set(NULL, NULL);
    k->rounds++;
    const step_record *record = batch_last_step(k->s.batch);
    for (int i = 0; count > 0 && i < record->requests; i++)
        k->drafts += record->request[i].correct_drafts;
    for (int i = 0; i < count; i++)
        for (int n = 0; n < MOST; n++) {
            job *j = &k->jobs[n];
            if (j->handle != delivered[i]->handle)
                continue;
            const buf *out = &delivered[i]->out_text;
            assert_true(j->shown_bytes + out->len <= sizeof j->shown);
            if (out->len > 0)
                memcpy(j->shown + j->shown_bytes, out->data, out->len);
            j->shown_bytes += out->len;
            check_text(k, j);
            if (delivered[i]->state == REQUEST_ENDED) {
                k->finished++;
                release(k, j);
            }
            break;
        }
    check_pages(k);
    for (int n = 0; n < MOST; n++)
        if (k->jobs[n].handle && draw(k, 3) == 0)
            check_digest(k, &k->jobs[n]);
}

static void live(soak *k, int rounds)
{
    open_machine(k);
    for (int i = 0; i < rounds; i++) {
        if (draw(k, 3) == 0) {
            job *j = &k->jobs[draw(k, MOST)];
            if (!j->handle)
                submit(k, j);
        }
        if (draw(k, 25) == 0) {
            job *j = &k->jobs[draw(k, MOST)];
            k->released += j->handle != 0;
            if (j->handle)
                release(k, j);
        }
        one_round(k);
    }
    for (int n = 0; n < MOST; n++)
        if (k->jobs[n].handle) {
            check_text(k, &k->jobs[n]);
            release(k, &k->jobs[n]);
        }
    close_machine(k);
}

static void random_rounds_give_plain_texts_and_fresh_caches(void **state)
{
    (void)state;
    static soak k;
    int64_t replays = 0, drafts[KINDS] = { 0 };
    int rounds = 0, finished = 0, released = 0, digests = 0,
        machines = (int)mutate_count(MACHINES, MANY_MACHINES);
    for (int m = FIRST; m < FIRST + machines; m++) {
        mem_stats before = mem_get_stats();
        memset(&k, 0, sizeof k);
        k.machine = (uint32_t)m;
        live(&k, ROUNDS_EACH);
        for (int tag = 0; tag < MEM_TAGS;
             tag++) /* the oracles' devices note what they see; the machine's is empty */
            assert_true(tag == MEM_DEVICE || mem_get_stats().bytes[tag] == before.bytes[tag]);
        replays += k.replays;
        drafts[m % KINDS] += k.drafts;
        rounds += k.rounds;
        finished += k.finished;
        released += k.released;
        digests += k.digests;
    }
    print_message(
        "%d rounds on %d machines: %d texts whole, %d released in the middle, %d digests, %d replays\n",
        rounds, machines, finished, released, digests, (int)replays);
    for (int i = 0; i < KINDS; i++)
        assert_true(drafts[i] > rounds / 60);
    assert_true(replays > rounds / 5);
    assert_true(rounds >= 450 && finished > rounds / 30 && digests > rounds / 4 && released > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_rounds_give_plain_texts_and_fresh_caches),
    };
    return cmocka_run_group_tests(tests, open_oracles, close_oracles);
}
