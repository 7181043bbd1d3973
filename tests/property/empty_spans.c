/* Requests without rows in a pass: whole models, eager and replayed. With empty spans in any place every row has the bits that
 * it has without them, and a pass of no rows at all, the NextN layer's too, writes nothing and leaves the next pass as it is.
 */
#include "support/stack.h"

#include <string.h>
#include <xxhash.h>

#include "model/deepseek4.h"
#include "support/generate.h"
#include "support/tiny.h"
#include "support/tiny_v4.h"

#include <cmocka.h> /* last: its macro fail() hides ours */

enum { MEMBERS = 3, SLOTS = 8, ROWS = 6, TIER = 8, WIDE = 32, CONTEXT = 64 };

static const row_span full[MEMBERS] = { { 0, 2, 0, 9 }, { 2, 1, 4, 21 }, { 3, 3, 2, 6 } };

typedef struct {
    stack s;
    int32_t ids[SLOTS][CONTEXT];
    fork_streams *fork; /* NULL: the model has no side streams */
    graph_pool *pool;
    int rows; /* bound of a pass: TIER, or WIDE, where activations are prepared by a kernel of their own */
    graph *graph; /* of so many rows and SLOTS spans */
    float *want;  /* [ROWS, vocab] */
    uint64_t digest[MEMBERS];
} fixture;

static void check(int rc, const foray_error *err)
{
    if (rc != 0)
        fail_msg("%s", err->text);
}

/* Side streams are for passes of few rows. */
static void launch(fixture *f, int rows, int spans)
{
    foray_error err = { 0 };
    stack *s = &f->s;
    pass *p = round_pass(s->round);
    stream *main = round_stream(s->round);
    fork_streams *fork = rows <= TIER ? f->fork : NULL;
    check(model_trunk(s->model, p, s->cache, rows, spans, CONTEXT, main, fork, &err), &err);
    check(model_head(s->model, p, rows < TIER ? rows : TIER, main, &err), &err);
}

static void run(fixture *f, bool replay)
{
    foray_error err = { 0 };
    stream *main = round_stream(f->s.round);
    if (replay)
        check(graph_launch(f->graph, main, &err), &err);
    else
        launch(f, f->rows, SLOTS);
    check(stream_sync(main, &err), &err);
}

/* Bit i: an empty span in front of member i; bit MEMBERS: behind the last. without_rows: the others have none either. */
static void fill_pass(fixture *f, unsigned places, bool without_rows)
{
    pass *p = round_pass(f->s.round);
    memset(p->spans, 0x7f, sizeof *p->spans * SLOTS);
    *p->count = (pass_counts) { 0 };
    for (int i = 0; i <= MEMBERS; i++) {
        if (places >> i & 1)
            p->spans[p->count->spans++].rows = 0;
        if (i == MEMBERS)
            break;
        row_span *span = &p->spans[p->count->spans++];
        *span = full[i];
        span->rows = without_rows ? 0 : full[i].rows;
        for (int k = 0; k < span->rows; k++) {
            const int row = p->count->rows++;
            p->ids[row] = f->ids[full[i].slot][full[i].first_position + k];
            p->position[row] = full[i].first_position + k;
            p->slot[row] = full[i].slot;
            p->head_row[p->count->heads++] = row;
        }
    }
}

static uint64_t hash_pages(const cache *c)
{
    uint64_t hash = 1;
    for (int p = 0; p < cache_pools(c); p++)
        hash = XXH3_64bits_withSeed(cache_pages(c, p), cache_pool_bytes(c, p), hash);
    return hash;
}

static void assert_as_alone(fixture *f, const char *how, unsigned places)
{
    const pass *p = round_pass(f->s.round);
    const size_t bytes = sizeof(float) * ROWS * (size_t)f->s.model->info.vocab;
    if (memcmp(p->logits, f->want, bytes) != 0)
        fail_msg("%s, places %x: other logits", how, places);
    for (int i = 0; i < MEMBERS; i++)
        if (cache_digest(f->s.cache, full[i].slot, full[i].first_position + full[i].rows) != f->digest[i])
            fail_msg("%s, places %x: another cache of member %d", how, places, i);
}

static void assert_no_trace(fixture *f, bool replay, bool spans)
{
    const model *m = f->s.model;
    pass *p = round_pass(f->s.round);
    const size_t logits = sizeof(float) * TIER * (size_t)m->info.vocab,
                 hidden = sizeof(float) * TIER * (size_t)m->info.dim;
    const uint64_t before = hash_pages(f->s.cache);
    memset(p->logits, 0x7f, logits);
    memset(p->hidden, 0x7f, hidden);
    fill_pass(f, 0xf, true);
    memset(p->ids, 0x7f, sizeof *p->ids * TIER);
    memset(p->position, 0x7f, sizeof *p->position * TIER);
    memset(p->slot, 0x7f, sizeof *p->slot * TIER);
    memset(p->head_row, 0x7f, sizeof *p->head_row * TIER);
    if (!spans)
        p->count->spans = 0;
    run(f, replay);
    assert_true(hash_pages(f->s.cache) == before);
    for (size_t i = 0; i < logits; i++)
        assert_int_equal(((const uint8_t *)p->logits)[i], 0x7f);
    for (size_t i = 0; i < hidden; i++)
        assert_int_equal(((const uint8_t *)p->hidden)[i], 0x7f);
    assert_int_equal(model_distinct_experts(m, p), 0);
}

static void open_fixture(fixture *f, const char *path, int rows)
{
    foray_error err = { 0 };
    *f = (fixture) { .rows = rows };
    stack_open(&f->s, path, (stack_config) { .threads = 2, .slots = SLOTS, .context = CONTEXT });
    stack *s = &f->s;
    const char *const *sides;
    const int side_count = model_sides(s->model, &sides);
    if (side_count > 0)
        check(fork_create(s->device, sides, side_count, &f->fork, &err), &err);
    poison_pages(s->cache);
    for (int i = 0; i < SLOTS; i++)
        random_ids(i, CONTEXT, s->model->info.vocab, f->ids[i]);
    for (int i = 0; i < MEMBERS; i++) {
        const row_span *m = &full[i];
        stack_rows(s, s->model, m->slot, f->ids[m->slot], 0, m->first_position, NULL);
        check(cache_reserve_extend(s->cache, m->slot, m->first_position, m->first_position + m->rows, &err),
              &err);
    }
    const size_t bytes = sizeof(float) * ROWS * (size_t)s->model->info.vocab;
    f->want = test_malloc(bytes);
    fill_pass(f, 0, false);
    launch(f, ROWS, MEMBERS);
    check(stream_sync(round_stream(s->round), &err), &err);
    memcpy(f->want, round_pass(s->round)->logits, bytes);
    for (int i = 0; i < MEMBERS; i++)
        f->digest[i] = cache_digest(s->cache, full[i].slot, full[i].first_position + full[i].rows);

    check(graph_pool_create(s->device, 0, &f->pool, &err), &err);
    check(stream_capture_begin(round_stream(s->round), f->pool, &err), &err);
    launch(f, rows, SLOTS);
    check(stream_capture_end(round_stream(s->round), &f->graph, &err), &err);
}

static void close_fixture(fixture *f)
{
    test_free(f->want);
    graph_destroy(f->graph);
    graph_pool_destroy(f->pool);
    fork_destroy(f->fork);
    for (int i = 0; i < MEMBERS; i++)
        cache_release(f->s.cache, full[i].slot);
    stack_close(&f->s);
}

static void check_rows(const char *path, int rows)
{
    fixture f;
    open_fixture(&f, path, rows);
    assert_true(round_pass(f.s.round)->max_heads >= TIER);
    for (unsigned places = 0; places < 1u << (MEMBERS + 1); places++)
        for (int replay = 0; replay <= 1; replay++) {
            memset(round_pass(f.s.round)->logits, 0x7f, sizeof(float) * ROWS * (size_t)f.s.model->info.vocab);
            fill_pass(&f, places, false);
            run(&f, replay);
            assert_as_alone(&f, replay ? "replayed" : "eager", places);
        }
    for (int way = 0; way < 4; way++) {
        assert_no_trace(&f, way % 2, way / 2);
        fill_pass(&f, 1u << way, false);
        run(&f, way % 2);
        assert_as_alone(&f, "behind a pass of no rows", 1u << way);
    }
    close_fixture(&f);
}

static void check_model(const char *path)
{
    check_rows(path, TIER);
    check_rows(path, WIDE);
}

static void empty_spans_change_no_row_of_any_family(void **state)
{
    (void)state;
    for (int arch = 0; arch < MODEL_ARCH_COUNT; arch++) {
        tiny_spec spec = tiny_family((model_arch)arch);
        spec.type = arch % 2 ? DTYPE_Q8_0 : DTYPE_F16;
        spec.no_text = true;
        check_model(tiny_gguf(&spec));
    }
}

static void empty_spans_change_no_row_of_deepseek4(void **state)
{
    (void)state;
    static const tiny_v4_format formats[] = { TINY_V4_QUANT, TINY_V4_PLAIN };
    for (int i = 0; i < 2; i++) {
        tiny_v4_spec spec = i == 0 ? tiny_v4_default() : tiny_v4_small();
        spec.no_text = true;
        check_model(tiny_v4_model(&spec, formats[i]));
    }
}

/* The layer over the streams of the target, and over its own of the step before. */
static void a_nextn_pass_of_no_rows_writes_nothing(void **state)
{
    (void)state;
    tiny_v4_spec spec = tiny_v4_small();
    spec.no_text = true;
    spec.drafter = DEEPSEEK4_NEXTN;
    fixture f;
    open_fixture(&f, tiny_v4_model(&spec, TINY_V4_PLAIN), TIER);
    const deepseek4 *m = f.s.model->deepseek4;
    const int width = m->config.streams * m->config.dim;
    const size_t bytes = sizeof(float) * (size_t)width;
    foray_error err = { 0 };
    int rc = 0;
    pass p;
    uint8_t *own = NULL;
    int32_t *entry = NULL, *head_slot = NULL;
    check(model_pass_create(f.s.model, f.s.device, TIER, SLOTS, TIER, CONTEXT, &p, &err), &err);
    pass_buffer(f.s.device, "own", SLOTS, 1, bytes, &own, &rc, &err);
    pass_buffer(f.s.device, "entry", SLOTS, 1, sizeof *entry, &entry, &rc, &err);
    pass_buffer(f.s.device, "head slot", TIER, 1, sizeof *head_slot, &head_slot, &rc, &err);
    check(rc, &err);
    const entry_rows self = { .base = own,
                              .page_stride = bytes,
                              .table = entry,
                              .table_stride = 1,
                              .page_rows = 1,
                              .width = width,
                              .ring = 1,
                              .stride = bytes };
    memset(own, 0x7f, SLOTS * bytes);
    memset(head_slot, 0x7f, sizeof *head_slot * TIER);
    memset(p.ids, 0x7f, sizeof *p.ids * TIER);
    memset(p.position, 0x7f, sizeof *p.position * TIER);
    memset(p.slot, 0x7f, sizeof *p.slot * TIER);
    memset(p.head_row, 0x7f, sizeof *p.head_row * TIER);
    memset(p.logits, 0x7f, sizeof(float) * TIER * (size_t)m->config.vocab);
    const uint64_t pages = hash_pages(f.s.cache);
    for (int from_self = 0; from_self <= 1; from_self++) {
        stream *main = round_stream(f.s.round);
        check(deepseek4_nextn(m, &p, f.s.cache, TIER, TIER, CONTEXT, from_self, &self, head_slot, main, &err),
              &err);
        check(stream_sync(main, &err), &err);
    }
    assert_true(hash_pages(f.s.cache) == pages);
    for (size_t i = 0; i < SLOTS * bytes; i++)
        assert_int_equal(own[i], 0x7f);
    for (size_t i = 0; i < sizeof(float) * TIER * (size_t)m->config.vocab; i++)
        assert_int_equal(((const uint8_t *)p.logits)[i], 0x7f);
    pass_free_buffers(f.s.device, (void *[]) { own, entry, head_slot }, 3);
    model_pass_destroy(f.s.model, f.s.device, &p);
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(empty_spans_change_no_row_of_any_family),
        cmocka_unit_test(empty_spans_change_no_row_of_deepseek4),
        cmocka_unit_test(a_nextn_pass_of_no_rows_writes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
