/* P2 for whole models: a row has the same bits alone, among others, in any chunks, on any threads, with any
 * instruction set that the machine has; and texts are the same on every machine. */
#include "support/generate.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "engine/score.h"
#include "kernel/impl.h"
#include "support/tiny.h"

enum { IDS = 200 };

/* The reference is slow, and very slow where everything is checked: it sees some of the chunkings and families. */
#ifdef FORAY_CHECKS
enum { FIRST_SLOW = 8, SLOW_STEP = 99, FAMILIES_SLOW = 2 };
#else
enum { FIRST_SLOW = 0, SLOW_STEP = 4, FAMILIES_SLOW = 99 };
#endif

static const char *const isas[] = { "portable", "avx2", "avx512" };

static bool have(const char *isa)
{
    const kernel_table *table;
    return kernel_table_get(isa, &table, NULL) == 0;
}

static int hash_row(void *user, size_t position, const float *logits)
{
    uint64_t *hash = user;
    (void)position;
    *hash = XXH3_64bits_withSeed(logits, 512 * sizeof *logits, *hash);
    return 0;
}

static uint64_t score_hash(foray_engine *e, int chunk)
{
    int32_t ids[IDS];
    uint64_t hash = 1, digest = 0;
    foray_error err;
    for (int i = 0; i < IDS; i++)
        ids[i] = (i * 37 + i / 7) % 500;
    assert_int_equal(engine_score(e, ids, IDS, chunk, 0, hash_row, &hash, &digest, &err), 0);
    return hash ^ digest * 3;
}

static void chunks_threads_and_instruction_sets_give_the_same_bits(void **state)
{
    (void)state;
    static const int chunks[] = { 1, 2, 3, 5, 8, 64, 127, 128, 129, 200 };
    static const dtype types[] = { DTYPE_Q4_1, DTYPE_F16 };
    for (int t = 0; t < 2; t++) {
        tiny_spec spec = tiny_default();
        spec.type = spec.embd_type = types[t];
        spec.no_text = true;
        const char *path = tiny_gguf(&spec);
        uint64_t expected = 0;
        for (int i = 0; i < 3; i++)
            for (int threads = 1; have(isas[i]) && threads <= 2; threads++) {
                foray_engine *e = engine_open_path(
                    path, (foray_config) { .threads = threads, .isa = isas[i], .spec = "off" });
                for (size_t k = i == 0 ? FIRST_SLOW : 0; k < sizeof chunks / sizeof *chunks;
                     k += i == 0 ? SLOW_STEP : 1) {
                    uint64_t hash = score_hash(e, chunks[k]);
                    expected = expected ? expected : hash;
                    if (hash != expected)
                        fail_msg("%s, %s, %d threads, chunk %d", isas[i], dtype_get(types[t])->name, threads,
                                 chunks[k]);
                }
                foray_close(e);
            }
    }
}

/* Decode rows, replayed and eager, equal the rows of a prompt: the log-probabilities of a generated text are those
 * that the same text has as a prompt. */
static int want_row(void *user, size_t position, const float *logits)
{
    (void)position;
    memcpy(user, logits, 512 * sizeof *logits);
    return 1;
}

static void a_generated_row_equals_a_prompt_row(void **state)
{
    (void)state;
    tiny_spec spec = tiny_default();
    spec.no_text = true;
    const char *path = tiny_gguf(&spec);
    foray_engine *score = engine_open_path(path, (foray_config) { .threads = 2, .spec = "off" });
    static text replayed, eager;
    int32_t ids[64];
    for (int i = 0; i < 64; i++)
        ids[i] = (i * 37) % 500;
    foray_request_config c = request_of(ids, 20, 40);
    c.ignore_eos = true;
    for (int graphs = 0; graphs <= 1; graphs++) {
        foray_engine *e = engine_open_path(
            path, (foray_config) { .threads = 2, .spec = "off", .graph = graphs ? "auto" : "off" });
        generate(e, &c, graphs ? &replayed : &eager);
        foray_close(e);
    }
    assert_same_text(&replayed, &eager);
    memcpy(ids + 20, replayed.ids, sizeof(int32_t) * 40);
    for (int at = 20; at < 60; at += 13) {
        float row[512];
        foray_error err;
        assert_int_equal(engine_score(score, ids, (size_t)at, 7, (size_t)at - 1, want_row, row, NULL, &err),
                         1);
        int best = 0;
        for (int i = 1; i < 512; i++)
            best = row[i] > row[best] ? i : best;
        assert_int_equal(best, ids[at]);
        double sum = 0;
        for (int i = 0; i < 512; i++)
            sum += exp((double)row[i] - (double)row[best]);
        assert_true(fabs(-log(sum) - (double)replayed.logprobs[at - 20]) < 1e-5);
    }
    foray_close(score);
}

/* Committed: what these seeds say, on any machine and instruction set. Rewrite only when the bits are meant to
 * change: a failure prints the hash that it got. */
static void texts_are_the_same_on_every_machine(void **state)
{
    (void)state;
    static const struct {
        model_arch arch;
        dtype type;
        uint64_t hash;
    } expected[] = {
#include "texts.inc"
    };
    int differ = 0;
    for (size_t k = 0; k < sizeof expected / sizeof *expected; k++) {
        tiny_spec spec = tiny_family(expected[k].arch);
        spec.type = expected[k].type;
        spec.no_text = true;
        const char *path = tiny_gguf(&spec);
        for (int i = 0; i < 3; i++) {
            if (!have(isas[i]) || (i == 0 && k >= FAMILIES_SLOW))
                continue;
            static text out;
            uint64_t hash = 1;
            int32_t ids[12] = { 1, 50, 300, 7, 9, 450, 33, 2, 80, 81, 82, 83 };
            foray_engine *e =
                engine_open_path(path, (foray_config) { .threads = 2, .isa = isas[i], .spec = "ngram" });
            for (uint64_t seed = 0; seed < 3; seed++) {
                foray_request_config c = request_of(ids, 12, 32);
                c.ignore_eos = true;
                c.sampling.temperature = seed == 0 ? 0.0f : 0.9f;
                c.sampling.top_k = seed == 2 ? 40 : 0;
                c.sampling.seed = seed;
                generate(e, &c, &out);
                hash = XXH3_64bits_withSeed(out.ids, sizeof *out.ids * (size_t)out.count, hash);
            }
            foray_close(e);
            if (hash != expected[k].hash) {
                print_error("%s, %s, %s: 0x%016llx\n", model_arch_name(expected[k].arch),
                            dtype_get(expected[k].type)->name, isas[i], (unsigned long long)hash);
                differ++;
            }
        }
    }
    assert_int_equal(differ, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chunks_threads_and_instruction_sets_give_the_same_bits),
        cmocka_unit_test(a_generated_row_equals_a_prompt_row),
        cmocka_unit_test(texts_are_the_same_on_every_machine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
