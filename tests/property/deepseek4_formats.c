/* The same weights in every naming and format give the same bits, where activations are not rounded; and the texts that
 * rounding gives do not depend on the naming. */
#include "support/generate.h"

#include <string.h>

#include "engine/score.h"
#include "support/tiny_v4.h"

enum { IDS = 150, VOCAB = 512 };

typedef struct {
    float logits[IDS][VOCAB];
    size_t rows;
} scores;

static int keep_row(void *user, size_t position, const float *logits)
{
    scores *s = user;
    memcpy(s->logits[position], logits, sizeof s->logits[position]);
    s->rows++;
    return 0;
}

static void score(const tiny_v4_spec *spec, tiny_v4_format format, const char *act_quant, scores *out)
{
    int32_t ids[IDS];
    foray_error err;
    foray_engine *e = engine_open_path(
        tiny_v4_model(spec, format), (foray_config) { .spec = "off", .threads = 1, .act_quant = act_quant });
    for (int i = 0; i < IDS; i++)
        ids[i] = (i * 37 + i * i) % VOCAB;
    out->rows = 0;
    if (engine_score(e, ids, IDS, 0, 0, keep_row, out, NULL, &err) != 0)
        fail_msg("%s", err.text);
    assert_int_equal(out->rows, IDS);
    foray_close(e);
}

static scores plain, other;

static void every_format_gives_the_same_bits(void **state)
{
    (void)state;
    tiny_v4_spec spec = tiny_v4_default();
    score(&spec, TINY_V4_PLAIN, "off", &plain);
    for (int format = TINY_V4_PLAIN + 1; format < TINY_V4_FORMATS; format++) {
        score(&spec, (tiny_v4_format)format, "off", &other);
        for (int i = 0; i < IDS; i++)
            if (memcmp(plain.logits[i], other.logits[i], sizeof plain.logits[i]) != 0)
                fail_msg("format %d differs from row %d on", format, i);
    }
}

static void rounding_does_not_depend_on_the_names(void **state)
{
    (void)state;
    tiny_v4_spec spec = tiny_v4_default();
    score(&spec, TINY_V4_QUANT, "model", &plain);
    score(&spec, TINY_V4_VLLM, "model", &other);
    assert_memory_equal(plain.logits, other.logits, sizeof plain.logits);
    score(&spec, TINY_V4_QUANT, "off", &other);
    assert_memory_not_equal(plain.logits, other.logits, sizeof plain.logits);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_format_gives_the_same_bits),
        cmocka_unit_test(rounding_does_not_depend_on_the_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
