/* inspect.c: `foray inspect` over files that foray cannot run: it still says what is in them; and over models with caches
 * of many kinds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "support/cli_program.h"
#include "support/gguf_write.h"
#include "support/tiny.h"
#include "support/tiny_v4.h"

#define RUN(setting, ...) cli_run((const char *const[]) { __VA_ARGS__, NULL }, NULL, setting)

static void types_that_foray_does_not_know_are_listed_by_the_files_name(void **state)
{
    (void)state;
    enum { GGUF_F32 = 0, GGUF_IQ2_XS = 17, GGUF_NEXT = 99 };
    const int64_t shape[] = { 2, 256 }, small[] = { 4 };
    static const uint8_t data[148] = { 0 };
    const char *path = tiny_path(tiny_folder(), "strange.gguf");
    gguf_writer w = { 0 };
    gguf_key_string(&w, "general.architecture", "llama");
    gguf_tensor(&w, "known", GGUF_F32, 1, small, data, 16);
    gguf_tensor(&w, "two.bits", GGUF_IQ2_XS, 2, shape, data, sizeof data);
    gguf_tensor(&w, "future", GGUF_NEXT, 1, small, data, 32);
    gguf_finish_file(&w, path);

    cli_result text = RUN(NULL, "inspect", path), r = RUN(NULL, "inspect", path, "--json");
    assert_int_equal(text.status, 0);
    assert_non_null(strstr(text.out.data, "\"IQ2_XS\" [2,256] "));
    assert_non_null(strstr(text.out.data, "\"type 99\" [4] "));
    assert_non_null(strstr(text.out.data, "2 of types that foray does not know"));
    assert_int_equal(r.status, 0);
    json_t *all = json_loadb(r.out.data, r.out.len, 0, NULL);
    json_t *tensors = json_object_get(all, "tensors"), *tensor;
    static const char *const types[] = { "F32", "IQ2_XS", "type 99" };
    size_t i;
    assert_int_equal(json_array_size(tensors), 3);
    json_array_foreach(tensors, i, tensor)
        assert_string_equal(json_string_value(json_object_get(tensor, "type")), types[i]);
    json_decref(all);
    cli_free(&text);
    cli_free(&r);
}

/* What the config's ratios and widths say, for each kind of cache; entries of a checkpoint that expects them rounded are
 * packed: 64 codes, a scale and 64 floats; two codes per byte and two scales; and what one token more costs. */
static void the_caches_of_a_compressed_model_are_planned(void **state)
{
    (void)state;
    enum { HEAD = 64 + 1 + 3 + 4 * 64, INDEX = 32 + 2 + 2, CONTEXT = 1000, FOURS = 3, LONG = 2, RATIO = 128 };
    const char *nano = FORAY_TESTS "/../models/nano";
    cli_result r = RUN(NULL, "inspect", nano, "--json", "-c", "1000"), text = RUN(NULL, "inspect", nano);
    json_t *all = json_loadb(r.out.data, r.out.len, 0, NULL), *memory = json_object_get(all, "memory"), *pool;
    double per_token = FOURS * (HEAD + INDEX) / 4. + LONG * HEAD / (double)RATIO, sum = 0;
    json_int_t rings = json_integer_value(json_object_get(memory, "ring_bytes")), ring_sum = 0;
    size_t i;
    assert_true(json_number_value(json_object_get(memory, "kv_bytes_per_token")) == per_token);
    assert_int_equal(json_integer_value(json_object_get(memory, "context")), CONTEXT);
    assert_int_equal(json_integer_value(json_object_get(memory, "kv_bytes")),
                     FOURS * (HEAD + INDEX) * (CONTEXT / 4) + LONG * HEAD * (CONTEXT / RATIO) + rings);
    json_array_foreach(json_object_get(memory, "pools"), i, pool)
    {
        bool ring = strcmp(json_string_value(json_object_get(pool, "kind")), "ring") == 0;
        assert_true(ring == (json_integer_value(json_object_get(pool, "ring_bytes")) > 0));
        assert_true(ring == (json_number_value(json_object_get(pool, "bytes_per_token")) == 0));
        ring_sum += json_integer_value(json_object_get(pool, "ring_bytes"));
        sum += json_number_value(json_object_get(pool, "bytes_per_token"));
        assert_non_null(strstr(text.out.data, json_string_value(json_object_get(pool, "name"))));
    }
    assert_int_equal(i, 9);
    assert_true(sum == per_token);
    assert_true(ring_sum == rings && rings > 0);
    assert_non_null(strstr(text.out.data, "K/V takes 275.0625 bytes a token and "));
    json_decref(all);
    cli_free(&text);
    cli_free(&r);
}

static void a_deepseek4_model_says_its_layers_and_drafter(void **state)
{
    (void)state;
    static const struct {
        deepseek4_drafter drafter;
        tiny_v4_format format;
        const char *name, *rounding, *text;
    } cases[] = {
        { DEEPSEEK4_NEXTN, TINY_V4_GGUF, "nextn", "off", "drafter nextn · rounding of activations off" },
        { DEEPSEEK4_DSPARK, TINY_V4_PLAIN, "dspark", "off", "drafter dspark of 3 layers" },
        { DEEPSEEK4_NO_DRAFTER, TINY_V4_MODELSLIM, "none", "int8",
          "1 of a window only, 1 of ratio 4, 1 of ratio 8" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tiny_v4_spec spec = tiny_v4_small();
        spec.drafter = cases[i].drafter;
        const char *path = tiny_v4_model(&spec, cases[i].format);
        cli_result text = RUN(NULL, "inspect", path), r = RUN(NULL, "inspect", path, "--json");
        json_t *all = json_loadb(r.out.data, r.out.len, 0, NULL), *c = json_object_get(all, "config");
        assert_string_equal(json_string_value(json_object_get(c, "architecture")), "deepseek4");
        assert_string_equal(json_string_value(json_object_get(c, "drafter")), cases[i].name);
        assert_string_equal(json_string_value(json_object_get(c, "act_quant")), cases[i].rounding);
        assert_int_equal(json_array_size(json_object_get(c, "ratios")), 3);
        assert_non_null(strstr(text.out.data, cases[i].text));
        assert_int_equal(text.err.len, 0); /* no tensor is left over */
        json_decref(all);
        cli_free(&text);
        cli_free(&r);
    }
}

/* config.json with one text exchanged. */
static void edit_config(const char *folder, const char *from, const char *to)
{
    const char *path = tiny_path(folder, "config.json");
    char *text;
    size_t bytes;
    assert_int_equal(file_read(path, 1 << 20, &text, &bytes, NULL), 0);
    char *at = strstr(text, from);
    assert_non_null(at);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    fprintf(f, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    assert_int_equal(fclose(f), 0);
    mem_free(MEM_GENERAL, text, bytes + 1);
}

static int times(const char *text, const char *word)
{
    int n = 0;
    for (const char *p = text; (p = strstr(p, word)); p += strlen(word))
        n++;
    return n;
}

/* S05: a config that announces what the files have not, or not what they have; and settings of a quantisation that is not
 * there. The files decide; it is said once; what was asked for and is not there is an error. */
static void what_a_config_says_in_vain_is_said_once(void **state)
{
    (void)state;
    tiny_v4_spec spec = tiny_v4_small();
    spec.drafter = DEEPSEEK4_NO_DRAFTER;
    const char *folder = tiny_v4_model(&spec, TINY_V4_PLAIN);
    edit_config(folder, "\"num_nextn_predict_layers\":0",
                "\"num_nextn_predict_layers\":1,\"expert_dtype\":\"fp4\","
                "\"quantization_config\":{\"quant_method\":\"fp8\"}");
    cli_result r = RUN(NULL, "run", "-m", folder, "--raw", "-p", "hello", "-n", "2");
    assert_int_equal(r.status, 0);
    assert_int_equal(times(r.err.data, "num_nextn_predict_layers is 1, but the files have no tensors"), 1);
    assert_int_equal(times(r.err.data, "expert_dtype fp4 has no effect: the experts are BF16"), 1);
    assert_int_equal(times(r.err.data, "quantization_config has no effect"), 1);
    assert_int_equal(times(r.err.data, "speculation ngram"), 1);
    cli_free(&r);
    r = RUN(NULL, "run", "-m", folder, "--raw", "-p", "hello", "-n", "2", "--spec", "nextn");
    assert_int_not_equal(r.status, 0);
    assert_int_equal(times(r.err.data, "has no NextN layer"), 1);
    cli_free(&r);

    r = RUN(NULL, "bench", "-m", folder, "-p", "4", "-n", "2", "-r", "2", "--spec", "off");
    assert_int_equal(r.status, 0);
    assert_int_equal(times(r.err.data, "num_nextn_predict_layers"), 1);
    cli_free(&r);

    static const char *const numbers[] = { "0", "3" };
    for (int i = 0; i < 2; i++) {
        char said[64], to[64];
        spec.drafter = DEEPSEEK4_NEXTN;
        folder = tiny_v4_model(&spec, TINY_V4_PLAIN);
        snprintf(to, sizeof to, "\"num_nextn_predict_layers\":%s", numbers[i]);
        snprintf(said, sizeof said, "num_nextn_predict_layers is %s; what drafts is", numbers[i]);
        edit_config(folder, "\"num_nextn_predict_layers\":1", to);
        r = RUN(NULL, "run", "-m", folder, "--raw", "-p", "hello", "-n", "2");
        assert_int_equal(r.status, 0);
        assert_int_equal(times(r.err.data, said), 1);
        assert_int_equal(times(r.err.data, "speculation nextn"), 1);
        cli_free(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_caches_of_a_compressed_model_are_planned),
        cmocka_unit_test(a_deepseek4_model_says_its_layers_and_drafter),
        cmocka_unit_test(types_that_foray_does_not_know_are_listed_by_the_files_name),
        cmocka_unit_test(what_a_config_says_in_vain_is_said_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
