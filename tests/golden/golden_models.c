/* Every model family against logits that transformers computed for the same weights, from both kinds of file.
 *
 * The checkpoints, how they were made, and where the two limits come from: tests/golden/models/README.md. In
 * short: the reference rounds K and V to f16 as foray's cache does, so only the order of sums and an entry that
 * rounds the other way here and there are left.
 */
#include "support/generate.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/score.h"

enum { IDS = 44, VOCAB = 256 };

static const double limit_largest = 6e-3, limit_mean = 2e-4;

static const char *const families[] = { "llama2",  "llama3", "llama-linear", "llama-yarn",
                                        "mistral", "qwen2",  "qwen3",        "gemma3" };
enum { FAMILIES = sizeof families / sizeof *families };

typedef struct {
    float at[IDS][VOCAB];
    size_t rows; /* received, in order */
} logits;

static int keep_row(void *user, size_t position, const float *row)
{
    logits *l = user;
    assert_int_equal(position, l->rows);
    memcpy(l->at[l->rows++], row, sizeof l->at[0]);
    return 0;
}

/* The logits of a checkpoint's own ids: model is a folder or file of tests/golden/models. */
static void score(const char *model, foray_config config, int chunk, logits *out)
{
    foray_error err = { 0 };
    int count;
    const int32_t *ids = golden_ids(model, &count);
    config.spec = "off";
    foray_engine *e = engine_open(model, config);
    assert_int_equal(count, IDS);
    assert_int_equal(foray_engine_info(e).vocab, VOCAB);
    out->rows = 0;
    if (engine_score(e, ids, IDS, chunk, 0, keep_row, out, NULL, &err) != 0)
        fail_msg("%s: %s", model, err.text);
    assert_int_equal(out->rows, IDS);
    foray_close(e);
}

static void read_reference(const char *family, logits *out)
{
    char path[512];
    snprintf(path, sizeof path, "%s/golden/models/%s.logits", FORAY_TESTS, family);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    assert_int_equal(fread(out->at, sizeof out->at[0], IDS, f), IDS);
    fclose(f);
}

static void logits_are_those_of_transformers(void **state)
{
    (void)state;
    static logits ours, reference;
    for (int i = 0; i < FAMILIES; i++) {
        double largest = 0, sum = 0;
        score(families[i], (foray_config) { .threads = 1 }, 0, &ours);
        read_reference(families[i], &reference);
        for (int row = 0; row < IDS; row++)
            for (int id = 0; id < VOCAB; id++) {
                double off = fabs((double)ours.at[row][id] - (double)reference.at[row][id]);
                assert_false(isnan(off));
                largest = off > largest ? off : largest;
                sum += off;
            }
        if (largest > limit_largest || sum / (IDS * VOCAB) > limit_mean)
            fail_msg("%s: logits differ by up to %.1e (limit %.0e), %.1e in the mean (limit %.0e)",
                     families[i], largest, limit_largest, sum / (IDS * VOCAB), limit_mean);
    }
}

static void assert_same_bits(const char *family, const logits *a, const logits *b)
{
    for (int row = 0; row < IDS; row++)
        if (memcmp(a->at[row], b->at[row], sizeof a->at[row]) != 0)
            fail_msg("%s: the logits of position %d differ in their bits", family, row);
}

static void gguf_and_safetensors_give_the_same_bits(void **state)
{
    (void)state;
    static logits folder, file;
    for (int i = 0; i < FAMILIES; i++) {
        char gguf[64];
        snprintf(gguf, sizeof gguf, "%s.gguf", families[i]);
        score(families[i], (foray_config) { .threads = 1 }, 0, &folder);
        score(gguf, (foray_config) { .threads = 1 }, 0, &file);
        assert_same_bits(families[i], &folder, &file);
    }
}

/* One instruction set, one thread, one row at a time, against the machine's best, two threads, many rows. */
static void neither_machine_nor_shape_changes_the_bits(void **state)
{
    (void)state;
    static logits plain, other;
    static const int chunks[] = { 3, 8, 43 };
    for (int i = 0; i < FAMILIES; i++) {
        score(families[i], (foray_config) { .threads = 1, .isa = "portable" }, 1, &plain);
        for (int c = 0; c < 3; c++) {
            score(families[i], (foray_config) { .threads = 2, .graph = c == 1 ? "off" : NULL }, chunks[c],
                  &other);
            assert_same_bits(families[i], &plain, &other);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logits_are_those_of_transformers),
        cmocka_unit_test(gguf_and_safetensors_give_the_same_bits),
        cmocka_unit_test(neither_machine_nor_shape_changes_the_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
