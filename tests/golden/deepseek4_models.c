/* The DeepSeek-V4 trunk against what the family's reference model code computes for the same weights: logits, and, layer
 * by layer, streams, routes, index sets and what the caches hold. Files and tolerances: golden/deepseek4/README.md.
 *
 * Layers are looked into by running the first k of them alone. The prompts have no thin decision, so sets are exact.
 */
#include "support/stack.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernel/ref/entry_pack.h"
#include "model/deepseek4.h"
#include "support/tensor_file.h"
#include "support/tiny.h"
#include "support/tiny_v4.h"

#include <cmocka.h> /* last: its macro fail() hides ours */

enum { MOST_ROWS = 160, MOST_VOCAB = 256, CONTEXT = 192, SLOTS = 2 };

/* Where everything is checked, and slow, some chunkings do. */
#ifdef FORAY_CHECKS
enum { CHUNKINGS = 4 };
#else
enum { CHUNKINGS = 6 };
#endif

static const double limit_logits = 2e-4, limit_streams = 1e-4, limit_values = 1e-4;

/* A model, and the file with what it gives. */
typedef struct {
    const char *folder, *file;
    const char *prefix; /* of the file's prefills */
    int rows, vocab, layers, dim;
    int index_layer[4];  /* with a set in the file; then -1 */
    bool widened, off;   /* made into a BF16 folder; activations are not rounded */
    bool details, trace; /* the file has routes and sets; streams after every block */
    int decode[3];       /* first row and number of rows of decode.*; 0: none */
    int decode_rows[3];
} golden;

static const golden goldens[] = {
    { .folder = "t0-quant",
      .file = "trunk-f32",
      .rows = 150,
      .vocab = 256,
      .layers = 6,
      .dim = 128,
      .index_layer = { 1, 3, 5, -1 },
      .off = true,
      .details = true,
      .trace = true,
      .decode = { 6, 150 },
      .decode_rows = { 40, 10 } },
    { .folder = "t0-quant",
      .file = "trunk-f32aq",
      .rows = 150,
      .vocab = 256,
      .layers = 6,
      .dim = 128,
      .index_layer = { 1, 3, 5, -1 },
      .details = true,
      .trace = true,
      .decode = { 150 },
      .decode_rows = { 10 } },
    { .folder = "t0-quant", .file = "trunk-f32", .rows = 150, .vocab = 256, .widened = true },
    { .folder = "d0-plain",
      .file = "trunk-d0-f32",
      .rows = 70,
      .vocab = 64,
      .layers = 2,
      .dim = 48,
      .index_layer = { 0, -1 },
      .details = true,
      .trace = true,
      .decode = { 7, 70 },
      .decode_rows = { 20, 10 } },
    { .folder = "t0-w8a8",
      .file = "trunk-w8a8",
      .rows = 150,
      .vocab = 256,
      .layers = 4,
      .dim = 128,
      .index_layer = { 1, 3, -1 },
      .details = true },
    { .folder = "t0-w8a8", .file = "trunk-w8a8", .prefix = "off.", .rows = 150, .vocab = 256, .off = true },
};
enum { GOLDENS = sizeof goldens / sizeof *goldens };

static stack stacks[GOLDENS];
static tensor_file files[GOLDENS];

static int open_models(void **state)
{
    (void)state;
    for (int i = 0; i < GOLDENS; i++) {
        const golden *g = &goldens[i];
        char path[512], name[64];
        snprintf(path, sizeof path, "%s/golden/deepseek4/%s", FORAY_TESTS, g->folder);
        snprintf(name, sizeof name, "deepseek4/%s.safetensors", g->file);
        if (g->widened) {
            const char *plain = tiny_path(tiny_folder(), "plain");
            tiny_v4_widen(path, plain);
            snprintf(path, sizeof path, "%s", plain);
        }
        tensor_file_open(name, &files[i]);
        stack_open(
            &stacks[i], path,
            (stack_config) {
                .slots = SLOTS, .context = CONTEXT, .prefill_chunk = MOST_ROWS, .act_quant_off = g->off });
        assert_int_equal(stacks[i].model->info.vocab, g->vocab);
    }
    return 0;
}

static int close_models(void **state)
{
    (void)state;
    for (int i = 0; i < GOLDENS; i++) {
        stack_close(&stacks[i]);
        tensor_file_close(&files[i]);
    }
    return 0;
}

static const tensor_view *find(const tensor_file *f, const char *name)
{
    for (size_t i = 0; i < f->count; i++)
        if (strcmp(f->tensors[i].name, name) == 0)
            return &f->tensors[i];
    return NULL;
}

static const float *floats(int g, const char *name, size_t count)
{
    return tensor_file_data(&files[g], name, DTYPE_F32, count);
}

static const int32_t *ids_of(int g, const char *name, size_t count)
{
    return tensor_file_data(&files[g], name, DTYPE_I32, count);
}

static const int32_t *tokens(int g)
{
    const tensor_view *t = tensor_file_view(&files[g], "tokens");
    return ids_of(g, "tokens", (size_t)t->shape[0]);
}

static void assert_logits(int g, const char *name, const float *got, const float *want, int rows)
{
    int vocab = goldens[g].vocab;
    for (int i = 0; i < rows * vocab; i++)
        if (!(fabs((double)got[i] - (double)want[i]) <= limit_logits))
            fail_msg("%s, %s: row %d, logit %d is %.9g, not %.9g", goldens[g].folder, name, i / vocab,
                     i % vocab, (double)got[i], (double)want[i]);
}

/* The whole row as one vector: |got - want| <= limit |want|. */
static void assert_near(int g, const char *name, int row, const float *got, const float *want, size_t n,
                        double limit)
{
    double off = 0, size = 0;
    for (size_t i = 0; i < n; i++) {
        off += pow((double)got[i] - (double)want[i], 2);
        size += pow((double)want[i], 2);
    }
    if (!(sqrt(off) <= limit * sqrt(size)))
        fail_msg("%s, %s: row %d is off by %.2e of its norm", goldens[g].folder, name, row, sqrt(off / size));
}

static void logits_of_every_row_and_prefill(void **state)
{
    (void)state;
    static float got[MOST_ROWS * MOST_VOCAB];
    for (int g = 0; g < GOLDENS; g++) {
        stack *s = &stacks[g];
        const char *prefix = goldens[g].prefix ? goldens[g].prefix : "";
        size_t vocab = (size_t)goldens[g].vocab;
        int rows = goldens[g].rows, prefills = 0;
        if (!goldens[g].prefix) {
            stack_rows(s, s->model, 0, tokens(g), 0, rows, got);
            assert_logits(g, "rows.logits", got, floats(g, "rows.logits", (size_t)rows * vocab), rows);
            cache_release(s->cache, 0);
        }
        for (int n = 1; n <= rows; n++) {
            char name[64];
            snprintf(name, sizeof name, "%sprefill.%d.logits", prefix, n);
            if (!find(&files[g], name))
                continue;
            stack_rows(s, s->model, 0, tokens(g), 0, n, got);
            assert_logits(g, name, got + (size_t)(n - 1) * vocab, floats(g, name, vocab), 1);
            cache_release(s->cache, 0);
            prefills++;
        }
        assert_true(prefills >= 4);
    }
}

static void decoding_row_by_row(void **state)
{
    (void)state;
    static float got[MOST_ROWS * MOST_VOCAB];
    for (int g = 0; g < GOLDENS; g++)
        for (int d = 0; goldens[g].decode[d]; d++) {
            stack *s = &stacks[g];
            size_t vocab = (size_t)goldens[g].vocab;
            int from = goldens[g].decode[d], rows = goldens[g].decode_rows[d];
            char name[64];
            snprintf(name, sizeof name, "decode.%d.logits", from);
            stack_rows(s, s->model, 0, tokens(g), 0, from, NULL);
            for (int i = 0; i < rows; i++)
                stack_rows(s, s->model, 0, tokens(g), from + i, 1, got + (size_t)i * vocab);
            assert_logits(g, name, got, floats(g, name, (size_t)rows * vocab), rows);
            cache_release(s->cache, 0);
        }
}

/* ---- layer by layer ---- */

static void check_streams(int g, int layer)
{
    const golden *m = &goldens[g];
    const float *x = round_pass(stacks[g].round)->deepseek4->x;
    size_t streams = 4, dim = (size_t)m->dim, width = streams * dim, layers = (size_t)m->layers;
    const float *sums = floats(g, "rows.xsum", layers * (size_t)m->rows * streams * 2);
    sums += (size_t)layer * (size_t)m->rows * streams * 2;
    for (size_t i = 0; i < (size_t)m->rows * streams; i++) {
        double sum = 0, squares = 0;
        for (size_t k = 0; k < dim; k++) {
            sum += (double)x[i * dim + k];
            squares += (double)x[i * dim + k] * (double)x[i * dim + k];
        }
        double rms = sqrt(squares / m->dim), off = fabs(sum / m->dim - (double)sums[2 * i]);
        if (!(off <= limit_streams * rms && fabs(rms - (double)sums[2 * i + 1]) <= limit_streams * rms))
            fail_msg("%s, %s: layer %d, row %zu, stream %zu has another mean or rms", m->folder, m->file,
                     layer, i / streams, i % streams);
    }
    for (int n = 1; n <= m->rows && m->trace; n++) {
        char name[64];
        snprintf(name, sizeof name, "prefill.%d.X", n);
        if (find(&files[g], name))
            assert_near(g, name, layer, x + (size_t)(n - 1) * width,
                        floats(g, name, layers * width) + (size_t)layer * width, width, limit_streams);
    }
}

/* The reference lists experts in ascending order. */
static void check_routes(int g, int layer)
{
    const golden *m = &goldens[g];
    const stack *s = &stacks[g];
    const deepseek4_buffers *b = round_pass(stacks[g].round)->deepseek4;
    int chosen = s->model->deepseek4->config.chosen;
    size_t all = (size_t)m->rows * (size_t)chosen, whole = all * (size_t)m->layers;
    const int32_t *want = ids_of(g, "rows.route.ids", whole) + (size_t)layer * all;
    const float *weight = find(&files[g], "rows.route.weights")
                              ? floats(g, "rows.route.weights", whole) + (size_t)layer * all
                              : NULL;
    for (int row = 0; row < m->rows; row++)
        for (int i = 0; i < chosen; i++) {
            int at = row * chosen + i, rank = 0;
            for (int j = row * chosen; j < (row + 1) * chosen; j++)
                rank += b->choice[j] < b->choice[at];
            int there = row * chosen + rank;
            if (b->choice[at] != want[there])
                fail_msg("%s: layer %d, row %d goes to expert %d", m->folder, layer, row, b->choice[at]);
            if (weight)
                assert_true(fabs((double)b->weight[at] - (double)weight[there]) <= limit_values);
        }
}

static void check_index_sets(int g, int layer)
{
    const golden *m = &goldens[g];
    const deepseek4_buffers *b = round_pass(stacks[g].round)->deepseek4;
    int top = stacks[g].model->deepseek4->config.index_top, most = m->rows / 4;
    char name[64];
    snprintf(name, sizeof name, "rows.index.sel.%d", layer);
    const int32_t *want = ids_of(g, name, (size_t)m->rows * (size_t)top);
    snprintf(name, sizeof name, "rows.index.score.%d", layer);
    const float *score = find(&files[g], name) ? floats(g, name, (size_t)(m->rows * most)) : NULL;
    for (int row = 0; row < m->rows; row++) {
        int visible = (row + 1) / 4;
        for (int i = 0; i < top; i++) {
            int got = i < b->chosen_count[row] ? b->chosen[row * top + i] : -1;
            if (got != want[row * top + i])
                fail_msg("%s: layer %d, row %d attends to entry %d, not %d", m->folder, layer, row, got,
                         want[row * top + i]);
        }
        if (score && visible > top)
            assert_near(g, name, row, b->score + (size_t)row * (size_t)b->max_entries, score + row * most,
                        (size_t)visible, limit_values);
    }
}

static void streams_routes_and_index_sets_of_every_layer(void **state)
{
    (void)state;
    for (int g = 0; g < GOLDENS; g++)
        for (int layer = 0; layer < goldens[g].layers && goldens[g].details; layer++) {
            stack *s = &stacks[g];
            deepseek4 first = *s->model->deepseek4; /* its first layers alone */
            model shortened = *s->model;
            first.config.layers = layer + 1;
            first.nextn = NULL;
            shortened.deepseek4 = &first;
            stack_rows(s, &shortened, 0, tokens(g), 0, goldens[g].rows, NULL);
            check_streams(g, layer);
            check_routes(g, layer);
            for (const int *i = goldens[g].index_layer; *i >= 0; i++)
                if (*i == layer)
                    check_index_sets(g, layer);
            cache_release(s->cache, 0);
        }
}

/* ---- caches ---- */

/* `got` entries in the slot, `want` where the reference keeps them. */
static void check_entry(int g, const char *name, const float *got, const float *want, int width)
{
    for (int i = 0; i < width; i++)
        if (!(fabs((double)got[i] - (double)want[i]) <= limit_values * (1 + fabs((double)want[i]))))
            fail_msg("%s, %s: channel %d is %.9g, not %.9g", goldens[g].folder, name, i, (double)got[i],
                     (double)want[i]);
}

/* The compressor's rows of tokens that a later group may still need. The reference keeps those of ratio 4 by place in the
 * group before, then in this group; of other ratios by place in this group, of 128 the first 16. Returns how many. */
static int check_state(int g, const char *prefix, int n, int ratio, entry_rows state)
{
    char kv_name[96], score_name[96];
    snprintf(kv_name, sizeof kv_name, "%skv_state", prefix);
    snprintf(score_name, sizeof score_name, "%sscore_state", prefix);
    if (!find(&files[g], kv_name))
        return 0;
    int before = ratio == 4 ? 4 : 0, group = n - n % ratio, width = state.width / 2, checked = 0;
    size_t places = ratio == 4 ? 8 : 16, all = places * (size_t)width;
    const float *kv = floats(g, kv_name, all), *score = floats(g, score_name, all);
    for (int t = group - before < 0 ? 0 : group - before; t < n; t++, checked++) {
        const float *at = entry_at(&state, 0, t);
        size_t place = (size_t)(t - group + before) * (size_t)width;
        check_entry(g, kv_name, at, kv + place, width);
        check_entry(g, score_name, at + width, score + place, width);
    }
    return checked;
}

static int check_entries(int g, const char *name, int n, int ratio, entry_rows entries)
{
    if (!find(&files[g], name))
        return 0;
    const float *want = floats(g, name, (size_t)(n / ratio) * (size_t)entries.width);
    float room[512];
    assert_true(entries.width <= 512);
    for (int e = 0; e < n / ratio; e++)
        check_entry(g, name, entry_load(&entries, 0, e, room), want + e * entries.width, entries.width);
    return n / ratio;
}

/* Everything that the file has of one layer's caches with n tokens in slot 0. Returns how many entries. */
static int check_layer(int g, const char *when, int n, int layer)
{
    const stack *s = &stacks[g];
    const deepseek4 *m = s->model->deepseek4;
    int ratio = m->config.ratio[layer], window = m->config.window, checked = 0;
    char prefix[64], name[96];
    snprintf(prefix, sizeof prefix, "%s.%d.", when, layer);
    snprintf(name, sizeof name, "%sring", prefix);
    if (!find(&files[g], name))
        return 0;
    entry_rows latents = sparse_window(s->cache, &m->shape, layer);
    const float *want = floats(g, name, (size_t)window * (size_t)latents.width);
    for (int t = n > window ? n - window : 0; t < n; t++, checked++)
        check_entry(g, name, entry_at(&latents, 0, t), want + t % window * latents.width, latents.width);
    snprintf(name, sizeof name, "%sentries", prefix);
    checked += check_entries(g, name, n, ratio, sparse_entries(s->cache, &m->shape, layer));
    checked += check_state(g, prefix, n, ratio, sparse_state(s->cache, &m->shape, layer));
    if (ratio != 4)
        return checked;
    snprintf(name, sizeof name, "%sindex.entries", prefix);
    checked += check_entries(g, name, n, 4, sparse_index(s->cache, &m->shape, layer));
    snprintf(name, sizeof name, "%sindex.", prefix);
    return checked + check_state(g, name, n, 4, sparse_index_state(s->cache, &m->shape, layer));
}

static void caches_hold_what_the_reference_holds(void **state)
{
    (void)state;
    static const int prefills[] = { 5, 9, 17, 150 };
    for (int g = 0; g < 2; g++) {
        stack *s = &stacks[g];
        int checked = 0;
        char when[64];
        for (int i = 0; i < 4; i++) {
            int n = prefills[i];
            stack_rows(s, s->model, 0, tokens(g), 0, n, NULL);
            snprintf(when, sizeof when, "prefill.%d.state", n);
            for (int layer = 0; layer < goldens[g].layers; layer++)
                checked += check_layer(g, when, n, layer);
            cache_release(s->cache, 0);
        }
        stack_rows(s, s->model, 0, tokens(g), 0, 6, NULL);
        for (int t = 6; t < 16; t++)
            stack_rows(s, s->model, 0, tokens(g), t, 1, NULL);
        checked += check_layer(g, "decode.6.state.16", 16, 1);
        cache_release(s->cache, 0);
        assert_int_equal(checked, g == 0 ? 176 : 108); /* all that the files have */
    }
}

/* The first lengths of chunks; the rest in chunks like the last one. */
static void chunks_give_the_bits_of_one_pass(void **state)
{
    (void)state;
    static const int chunks[][2] = { { 1, 149 }, { 64, 86 }, { 128, 22 }, { 3, 3 }, { 5, 145 }, { 1, 1 } };
    static float whole[MOST_ROWS * MOST_VOCAB], parts[MOST_ROWS * MOST_VOCAB];
    for (int g = 0; g < GOLDENS; g++) {
        stack *s = &stacks[g];
        int rows = goldens[g].rows;
        size_t vocab = (size_t)goldens[g].vocab;
        stack_rows(s, s->model, 0, tokens(g), 0, rows, whole);
        uint64_t digest = cache_digest(s->cache, 0, rows);
        for (int c = 0; c < CHUNKINGS; c++) {
            for (int at = 0, n; at < rows; at += n) {
                n = at == 0 ? chunks[c][0] : chunks[c][1];
                n = n < rows - at ? n : rows - at;
                stack_rows(s, s->model, 1, tokens(g), at, n, parts + (size_t)at * vocab);
            }
            if (memcmp(whole, parts, sizeof(float) * (size_t)rows * vocab) != 0)
                fail_msg("%s, %s: %d + %d: other logits", goldens[g].folder, goldens[g].file, chunks[c][0],
                         chunks[c][1]);
            assert_true(cache_digest(s->cache, 1, rows) == digest);
            cache_release(s->cache, 1);
        }
        cache_release(s->cache, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logits_of_every_row_and_prefill),
        cmocka_unit_test(decoding_row_by_row),
        cmocka_unit_test(streams_routes_and_index_sets_of_every_layer),
        cmocka_unit_test(caches_hold_what_the_reference_holds),
        cmocka_unit_test(chunks_give_the_bits_of_one_pass),
    };
    return cmocka_run_group_tests(tests, open_models, close_models);
}
