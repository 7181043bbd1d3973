/* The NextN layer of DeepSeek-V4 type models against what the family's reference model code computes: rows of a prompt,
 * drafts made of the layer's own streams, and rows made again once it is known what stands. Files and tolerances:
 * golden/deepseek4/README.md.
 *
 * Passes are made by hand: neither the drafter nor a round has a part in this.
 */
#include "support/stack.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "model/deepseek4.h"
#include "support/tensor_file.h"

#include <cmocka.h> /* last: its macro fail() hides ours */

enum { VOCAB = 256, WIDTH = 4 * 128, MOST_ROWS = 32, DRAFTS = 4 };

static const double limit_logits = 2e-4, limit_streams = 1e-4;

/* A model, with a pass of its own for the layer, and the file of what it gives. */
typedef struct {
    stack s;
    tensor_file file;
    const char *prefix; /* of the file's names */
    pass pass;
    entry_rows self;
    int32_t *table, *head_slot;
    float logits[MOST_ROWS * VOCAB];
} bench;

static bench one;

static void check(int rc, const foray_error *err)
{
    if (rc != 0)
        fail_msg("%s", err->text);
}

static void open_bench(bench *b, const char *folder, const char *file, bool act_quant_off)
{
    char path[512];
    foray_error err = { 0 };
    snprintf(path, sizeof path, "%s/golden/deepseek4/%s", FORAY_TESTS, folder);
    stack_open(&b->s, path, (stack_config) { .prefill_chunk = MOST_ROWS, .act_quant_off = act_quant_off });
    tensor_file_open(file, &b->file);
    device *d = b->s.device;
    check(model_pass_create(b->s.model, d, MOST_ROWS, 1, MOST_ROWS, 128, &b->pass, &err), &err);
    b->self = (entry_rows) {
        .page_stride = sizeof(float) * WIDTH, .table_stride = 1, .page_rows = 1, .width = WIDTH, .ring = 1
    };
    int rc = 0;
    pass_buffer(d, "self", MOST_ROWS, WIDTH, sizeof(float), &b->self.base, &rc, &err);
    pass_buffer(d, "table", MOST_ROWS, 1, sizeof *b->table, &b->table, &rc, &err);
    pass_buffer(d, "head slot", MOST_ROWS, 1, sizeof *b->head_slot, &b->head_slot, &rc, &err);
    check(rc, &err);
    for (int i = 0; i < MOST_ROWS; i++)
        b->table[i] = i;
    b->self.table = b->table;
}

static void close_bench(bench *b)
{
    cache_release(b->s.cache, 0);
    model_pass_destroy(b->s.model, b->s.device, &b->pass);
    void *buffers[] = { b->self.base, b->table, b->head_slot };
    pass_free_buffers(b->s.device, buffers, 3);
    tensor_file_close(&b->file);
    stack_close(&b->s);
}

/* The layer over rows [from, from + n), of which each is followed by a token: b->logits, and the rows' streams in self.
 * self_fed: its input are the streams in self[0]. */
static void nextn_rows(bench *b, int from, int n, const int32_t *followed_by, bool self_fed)
{
    foray_error err = { 0 };
    pass *p = &b->pass;
    stream *main = round_stream(b->s.round);
    *p->count = (pass_counts) { .rows = n, .heads = n, .stream_rows = 4 * n };
    for (int i = 0; i < n; i++) {
        p->ids[i] = followed_by[i];
        p->position[i] = from + i;
        p->slot[i] = 0;
        p->head_row[i] = b->head_slot[i] = i;
    }
    check(deepseek4_nextn(b->s.model->deepseek4, p, b->s.cache, n, n, cache_max_length(b->s.cache), self_fed,
                          &b->self, b->head_slot, main, &err),
          &err);
    check(stream_sync(main, &err), &err);
    memcpy(b->logits, p->logits, sizeof(float) * VOCAB * (size_t)n);
}

static const float *self_of(const bench *b, int row)
{
    return entry_at(&b->self, row, 0);
}

static const char *name_of(const bench *b, const char *name)
{
    static char full[64];
    snprintf(full, sizeof full, "%s%s", b->prefix, name);
    return full;
}

static const float *floats(bench *b, const char *name, int rows, int width)
{
    return tensor_file_data(&b->file, name_of(b, name), DTYPE_F32, (size_t)rows * (size_t)width);
}

static const int32_t *ids(bench *b, const char *name, int n)
{
    return tensor_file_data(&b->file, name_of(b, name), DTYPE_I32, (size_t)n);
}

static bool has(const bench *b, const char *name)
{
    const char *full = name_of(b, name);
    for (size_t i = 0; i < b->file.count; i++)
        if (strcmp(b->file.tensors[i].name, full) == 0)
            return true;
    return false;
}

static int best(const float *logits)
{
    int at = 0;
    for (int i = 1; i < VOCAB; i++)
        at = logits[i] > logits[at] ? i : at;
    return at;
}

static void assert_logits(bench *b, const char *name, const float *got, const float *want, int rows)
{
    for (int i = 0; i < rows * VOCAB; i++)
        if (!(fabs((double)got[i] - (double)want[i]) <= limit_logits))
            fail_msg("%s%s: row %d, logit %d is %.9g, not %.9g", b->prefix, name, i / VOCAB, i % VOCAB,
                     (double)got[i], (double)want[i]);
}

static void assert_streams(bench *b, const char *name, const float *got, const float *want)
{
    double off = 0, size = 0;
    for (int i = 0; i < WIDTH; i++) {
        off += pow((double)got[i] - (double)want[i], 2);
        size += pow((double)want[i], 2);
    }
    if (!(sqrt(off) <= limit_streams * sqrt(size)))
        fail_msg("%s%s: off by %.2e of the norm", b->prefix, name, sqrt(off / size));
}

/* Reads the prompt; then the layer over all of it. `all` gets the prompt, the anchor behind it. */
static void read_prompt(bench *b, int n, int32_t *all)
{
    static float target[MOST_ROWS * VOCAB];
    cache_release(b->s.cache, 0);
    memcpy(all, ids(b, "tokens", n), sizeof *all * (size_t)n);
    all[n] = *ids(b, "anchor", 1);
    stack_rows(&b->s, b->s.model, 0, all, 0, n, target);
    assert_int_equal(best(target + (size_t)(n - 1) * VOCAB), all[n]);
    if (has(b, "target.logits"))
        assert_logits(b, "target.logits", target + (size_t)(n - 1) * VOCAB,
                      floats(b, "target.logits", 1, VOCAB), 1);
    if (has(b, "target.X")) { /* what the layer reads: the streams of every row that it can see */
        entry_rows kept = sparse_streams(b->s.cache, &b->s.model->deepseek4->shape);
        const float *want = floats(b, "target.X", n, WIDTH);
        for (int i = 0; i < n; i++)
            assert_streams(b, "target.X", entry_at(&kept, 0, i), want + i * WIDTH);
    }
    nextn_rows(b, 0, n, all + 1, false);
}

/* drafts: [DRAFTS]; the first follows the prompt's last row, the others the layer's own streams (cases.md Q04). */
static void self_feed(bench *b, int n, int32_t *drafts)
{
    const float *logits = floats(b, "selffed.logits", DRAFTS - 1, VOCAB);
    const float *x = floats(b, "selffed.X", DRAFTS - 1, WIDTH);
    drafts[0] = best(b->logits + (size_t)(n - 1) * VOCAB);
    memcpy(entry_at(&b->self, 0, 0), self_of(b, n - 1), sizeof(float) * WIDTH);
    for (int k = 1; k < DRAFTS; k++) {
        nextn_rows(b, n + k - 1, 1, &drafts[k - 1], true);
        assert_logits(b, "selffed.logits", b->logits, logits + (size_t)(k - 1) * VOCAB, 1);
        assert_streams(b, "selffed.X", self_of(b, 0), x + (k - 1) * WIDTH);
        drafts[k] = best(b->logits);
    }
    assert_memory_equal(drafts, ids(b, "drafts", DRAFTS), sizeof *drafts * DRAFTS);
}

/* Drafts are verified, some are accepted, and the layer makes its rows again from what the target says. */
static void extend_after_accept(bench *b, int n, int32_t *all)
{
    static float target[(DRAFTS + 1) * VOCAB];
    int accepted = *ids(b, "accepted", 1), bonus = *ids(b, "bonus", 1), rows = accepted + 1;
    stack_rows(&b->s, b->s.model, 0, all, n, DRAFTS + 1, target);
    assert_int_equal(best(target + (size_t)accepted * VOCAB), bonus);
    int compared = (int)tensor_file_view(&b->file, name_of(b, "verify.logits"))->shape[0];
    assert_true(compared >= rows);
    assert_logits(b, "verify.logits", target, floats(b, "verify.logits", compared, VOCAB), compared);
    entry_rows kept = sparse_streams(b->s.cache, &b->s.model->deepseek4->shape);
    const float *x = floats(b, "verify.X", compared, WIDTH);
    for (int i = 0; i < compared; i++)
        assert_streams(b, "verify.X", entry_at(&kept, 0, n + i), x + i * WIDTH);
    all[n + rows] = bonus; /* in place of a draft */
    nextn_rows(b, n, rows, all + n + 1, false);
    assert_logits(b, "extend.logits", b->logits, floats(b, "extend.logits", rows, VOCAB), rows);
}

static void whole_rounds_of_both_prompts(const char *file, bool act_quant_off)
{
    static const struct {
        const char *prefix;
        int n;
    } prompts[] = { { "p5.", 5 }, { "p21.", 21 } };
    bench *b = &one;
    open_bench(b, "t0-quant", file, act_quant_off);
    for (int i = 0; i < 2; i++) {
        int n = prompts[i].n;
        int32_t all[MOST_ROWS + DRAFTS + 2];
        b->prefix = prompts[i].prefix;
        read_prompt(b, n, all);
        assert_logits(b, "prefill.logits", b->logits, floats(b, "prefill.logits", n, VOCAB), n);
        if (has(b, "prefill.X")) {
            const float *x = floats(b, "prefill.X", n, WIDTH);
            for (int row = 0; row < n; row++)
                assert_streams(b, "prefill.X", self_of(b, row), x + row * WIDTH);
        } else {
            assert_streams(b, "prefill.X_last", self_of(b, n - 1), floats(b, "prefill.X_last", 1, WIDTH));
        }
        self_feed(b, n, all + n + 1);
        extend_after_accept(b, n, all);
    }
    close_bench(b);
}

static void plain_rows_drafts_and_rows_after_accept(void **state)
{
    (void)state;
    whole_rounds_of_both_prompts("deepseek4/mtp-f32.safetensors", true);
}

static void rounded_rows_drafts_and_rows_after_accept(void **state)
{
    (void)state;
    whole_rounds_of_both_prompts("deepseek4/mtp-f32aq.safetensors", false);
}

/* The layer has an embedding and a head of its own: with the trunk's, logits are off by 11 and 2. */
static void int8_rows_with_an_embedding_and_a_head_of_their_own(void **state)
{
    (void)state;
    enum { N = 12 };
    bench *b = &one;
    int32_t all[N + 1];
    open_bench(b, "t0-w8a8", "deepseek4/trunk-w8a8.safetensors", false);
    b->prefix = "mtp.";
    read_prompt(b, N, all);
    assert_logits(b, "logits", b->logits, floats(b, "logits", N, VOCAB), N);
    assert_streams(b, "X_last", self_of(b, N - 1), floats(b, "X_last", 1, WIDTH));
    close_bench(b);
}

/* Rows in chunks, alone, or all at once: the same bits, as long as they see the target's streams. */
static void chunks_give_the_bits_of_one_pass(void **state)
{
    (void)state;
    static float whole[21 * VOCAB];
    bench *b = &one;
    int32_t all[22];
    open_bench(b, "t0-quant", "deepseek4/mtp-f32aq.safetensors", false);
    b->prefix = "p21.";
    read_prompt(b, 21, all);
    memcpy(whole, b->logits, sizeof whole);
    for (int chunk = 1; chunk <= 20; chunk += chunk < 4 ? 1 : 8)
        for (int at = 0, n; at < 21; at += n) {
            n = chunk < 21 - at ? chunk : 21 - at;
            nextn_rows(b, at, n, all + at + 1, false);
            assert_memory_equal(b->logits, whole + (size_t)at * VOCAB, sizeof(float) * VOCAB * (size_t)n);
        }
    close_bench(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_rows_drafts_and_rows_after_accept),
        cmocka_unit_test(rounded_rows_drafts_and_rows_after_accept),
        cmocka_unit_test(int8_rows_with_an_embedding_and_a_head_of_their_own),
        cmocka_unit_test(chunks_give_the_bits_of_one_pass),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
