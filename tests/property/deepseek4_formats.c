/* The same weights in every naming and format give the same bits, where activations are not rounded; and the texts that
 * rounding gives do not depend on the naming. */
#include "support/generate.h"

#include <stdio.h>
#include <stdlib.h>
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

/* One byte of a tensor's data in a folder with one file; the names stand in the file's head as JSON. */
static void set_byte(const char *folder, const char *tensor, int at, uint8_t byte)
{
    char path[512];
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    FILE *f = fopen(path, "r+b");
    uint64_t bytes;
    assert_non_null(f);
    assert_int_equal(fread(&bytes, sizeof bytes, 1, f), 1);
    char *head = test_malloc((size_t)bytes + 1);
    assert_int_equal(fread(head, 1, (size_t)bytes, f), bytes);
    head[bytes] = 0;
    const char *entry = strstr(head, tensor), *offsets = entry ? strstr(entry, "data_offsets") : NULL;
    assert_non_null(offsets);
    long first = strtol(strchr(offsets, '[') + 1, NULL, 10);
    assert_int_equal(fseek(f, (long)(8 + bytes) + first + at, SEEK_SET), 0);
    assert_int_equal(fputc(byte, f), byte);
    assert_int_equal(fclose(f), 0);
    test_free(head);
}

static void a_scale_that_is_not_a_number_is_refused(void **state)
{
    (void)state;
    static const char *const tensors[] = { "layers.0.attn.wo_b.scale\"",
                                           "layers.2.ffn.experts.1.w2.scale\"" };
    tiny_v4_spec spec = tiny_v4_default();
    for (int i = 0; i < 2; i++) {
        foray_engine *e;
        foray_error err;
        spec.seed++;
        const char *folder = tiny_v4_model(&spec, TINY_V4_QUANT);
        set_byte(folder, tensors[i], 0, 0xff);
        foray_config config = { .model = folder, .threads = 1 };
        if (foray_open(&config, &e, &err) != FORAY_EFILE)
            fail_msg("%s is let pass", tensors[i]);
        assert_non_null(strstr(err.text, "not a number"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_format_gives_the_same_bits),
        cmocka_unit_test(rounding_does_not_depend_on_the_names),
        cmocka_unit_test(a_scale_that_is_not_a_number_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
