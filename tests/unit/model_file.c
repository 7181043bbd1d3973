/* Tests of format/model_file: one face for both kinds of files; shards; settings by key; what is refused on opening. */
#include "format/model_file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "support/gguf_write.h"
#include "support/tiny.h"

#include <cmocka.h> /* last: base/error.h has a fail() too */

static void write_text(const char *path, const char *text)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static model_file *open_or_fail(const char *path)
{
    model_file *f = NULL;
    foray_error err;
    if (model_file_open(path, &f, &err) != 0)
        fail_msg("%s", err.text);
    return f;
}

static void expect_refusal(const char *path, int code, const char *word)
{
    int64_t before = mem_get_stats().blocks;
    model_file *f = NULL;
    foray_error err = { 0 };
    int rc = model_file_open(path, &f, &err);
    if (rc != code || !strstr(err.text, word))
        fail_msg("got %d (%s), expected %d with '%s'", rc, err.text, code, word);
    assert_null(f);
    assert_int_equal(mem_get_stats().blocks, before);
}

static void a_gguf_file_gives_tensors_and_settings_by_name(void **state)
{
    (void)state;
    tiny_spec spec = tiny_default();
    model_file *f = open_or_fail(tiny_gguf(&spec));
    int64_t n = 0;
    double x = 0;
    bool b = true;
    const char *text;
    size_t bytes, count = 0;
    assert_int_equal(model_file_get_kind(f), MODEL_FILE_GGUF);
    assert_int_equal(model_file_tensor_count(f), 2 + 3 * 9);
    const tensor_view *v = model_file_tensor(f, "blk.2.ffn_down.weight");
    assert_non_null(v);
    assert_true(v->dims == 2 && v->shape[0] == spec.dim && v->shape[1] == spec.ffn && v->type == DTYPE_F32);
    assert_string_equal(v->file, model_file_path(f));
    assert_null(model_file_tensor(f, "blk.3.ffn_down.weight"));
    assert_true(model_file_int(f, "llama.block_count", &n) && n == 3);
    assert_true(model_file_float(f, "llama.block_count", &x) && x == 3);
    assert_false(model_file_int(f, "llama.rope.freq_base", &n));
    assert_false(model_file_int(f, "llama.no_such_key", &n));
    assert_true(model_file_bool(f, "tokenizer.ggml.add_bos_token", &b) && !b);
    assert_true(model_file_string(f, "general.architecture", &text, &bytes) && bytes == 5);
    assert_false(
        model_file_string(f, "tokenizer.ggml.tokens", &text, &bytes)); /* an array is no single value */
    assert_false(model_file_array(f, "general.architecture", &count));
    assert_true(model_file_array(f, "tokenizer.ggml.tokens", &count) && count == 512);
    assert_true(model_file_array_string(f, "tokenizer.ggml.tokens", 3 + 'a', &text, &bytes) && bytes == 1 &&
                *text == 'a');
    assert_false(model_file_array_string(f, "tokenizer.ggml.tokens", 512, &text, &bytes));
    assert_true(model_file_array_int(f, "tokenizer.ggml.token_type", 0, &n) && n == 3);
    assert_string_equal(model_file_key_at(f, 0), "general.architecture");
    assert_string_equal(model_file_key_type(f, "tokenizer.ggml.tokens"), "array of string");
    assert_string_equal(model_file_key_type(f, "llama.block_count"), "uint32");
    assert_null(model_file_key_type(f, "nothing"));
    assert_null(model_file_tokenizer_json(f, &bytes));
    model_file_close(f);
}

static void a_folder_gives_tensors_and_settings_by_path(void **state)
{
    (void)state;
    tiny_spec spec = tiny_default();
    const char *folder = tiny_folder();
    spec.rope = ROPE_LINEAR;
    tiny_write_hf(&spec, folder);
    write_text(tiny_path(folder, "generation_config.json"),
               "{\"eos_token_id\":[7,8],\"temperature\":0.5,\"top_k\":null}");
    model_file *f = open_or_fail(folder);
    int64_t n = 0;
    double x = 0;
    bool b = true;
    const char *text;
    size_t bytes = 0, count = 0;
    assert_int_equal(model_file_get_kind(f), MODEL_FILE_HF);
    const tensor_view *v = model_file_tensor(f, "model.layers.2.mlp.down_proj.weight");
    assert_true(v && v->dims == 2 && v->shape[0] == spec.dim && v->shape[1] == spec.ffn);
    assert_true(model_file_int(f, "num_hidden_layers", &n) && n == 3);
    assert_true(model_file_string(f, "rope_scaling.rope_type", &text, &bytes) && strcmp(text, "linear") == 0);
    assert_true(model_file_float(f, "rope_scaling.factor", &x) && x == 4);
    assert_true(model_file_float(f, "generation.temperature", &x) && x == 0.5);
    assert_false(model_file_int(f, "generation.top_k", &n)); /* null */
    assert_true(model_file_key_is_null(f, "generation.top_k"));
    assert_false(model_file_key_is_null(f, "generation.top_p"));
    assert_true(model_file_array(f, "generation.eos_token_id", &count) && count == 2);
    assert_true(model_file_array_int(f, "generation.eos_token_id", 1, &n) && n == 8);
    assert_false(model_file_array_int(f, "generation.eos_token_id", 2, &n));
    assert_true(model_file_bool(f, "tokenizer.add_bos_token", &b) && !b);
    assert_true(model_file_string(f, "tokenizer.chat_template", &text, &bytes) &&
                strstr(text, "<|im_start|>"));
    assert_false(model_file_int(f, "no.such.path", &n));
    assert_string_equal(model_file_key_type(f, "rope_scaling"), "object");
    text = model_file_tokenizer_json(f, &bytes);
    assert_true(text && bytes > 1000 && text[0] == '{');
    model_file_close(f);

    /* The file of its own wins; in a list, the entry called default does. */
    write_text(tiny_path(folder, "tokenizer_config.json"),
               "{\"chat_template\":[{\"name\":\"tool\",\"template\":\"T\"},"
               "{\"name\":\"default\",\"template\":\"D\"}]}");
    f = open_or_fail(folder);
    assert_true(model_file_string(f, "tokenizer.chat_template", &text, &bytes) && bytes == 1 && *text == 'D');
    model_file_close(f);
    write_text(tiny_path(folder, "chat_template.jinja"), "JINJA");
    f = open_or_fail(folder);
    assert_true(model_file_string(f, "tokenizer.chat_template", &text, &bytes) && bytes == 5 && *text == 'J');
    model_file_close(f);
}

static void write_shard(const char *folder, const char *name, int number, int count, const char *tensor,
                        int promised)
{
    static const int64_t shape[] = { 4 };
    const float data[4] = { (float)number, 1, 2, 3 };
    gguf_writer w = { 0 };
    uint16_t n = (uint16_t)number, c = (uint16_t)count;
    gguf_key_raw(&w, "split.no", GW_U16, &n, 2);
    gguf_key_raw(&w, "split.count", GW_U16, &c, 2);
    const int32_t total = promised;
    gguf_key_raw(&w, "split.tensors.count", GW_I32, &total, 4);
    gguf_key_u32(&w, "only.in.the.first", (uint32_t)number);
    gguf_tensor(&w, tensor, 0, 1, shape, data, sizeof data);
    gguf_finish_file(&w, tiny_path(folder, name));
}

static void shards_are_found_from_any_of_them(void **state)
{
    (void)state;
    const char *folder = tiny_folder();
    write_shard(folder, "m-00001-of-00003.gguf", 0, 3, "a", 3);
    write_shard(folder, "m-00002-of-00003.gguf", 1, 3, "b", 3);
    expect_refusal(tiny_path(folder, "m-00001-of-00003.gguf"), FORAY_EFILE, "m-00003-of-00003.gguf");
    write_shard(folder, "m-00003-of-00003.gguf", 2, 3, "c", 3);
    for (int i = 1; i <= 3; i++) {
        char name[64];
        int64_t n = -1;
        snprintf(name, sizeof name, "m-%05d-of-00003.gguf", i);
        model_file *f = open_or_fail(tiny_path(folder, name));
        assert_int_equal(model_file_tensor_count(f), 3);
        assert_true(*(const float *)model_file_tensor(f, "c")->data == 2);
        assert_non_null(strstr(model_file_tensor(f, "b")->file, "m-00002-of-00003.gguf"));
        assert_true(model_file_int(f, "only.in.the.first", &n) && n == 0);
        model_file_close(f);
    }
    write_shard(folder, "m-00003-of-00003.gguf", 2, 3, "a", 3);
    expect_refusal(tiny_path(folder, "m-00002-of-00003.gguf"), FORAY_EFILE, "tensor a: is there twice");
    write_shard(folder, "m-00003-of-00003.gguf", 1, 3, "c", 3);
    expect_refusal(tiny_path(folder, "m-00001-of-00003.gguf"), FORAY_EFILE, "expected 3 of 3");
    write_shard(folder, "m-00003-of-00003.gguf", 2, 3, "c", 3);
    write_shard(folder, "m-00001-of-00003.gguf", 0, 3, "a", 5);
    expect_refusal(tiny_path(folder, "m-00001-of-00003.gguf"), FORAY_EFILE, "split.tensors.count says 5");
    write_shard(folder, "renamed.gguf", 1, 3, "b", 3);
    expect_refusal(tiny_path(folder, "renamed.gguf"), FORAY_EFILE, "shard 2 of 3");
    write_shard(folder, "m-00004-of-00003.gguf", 0, 3, "b", 3);
    expect_refusal(tiny_path(folder, "m-00004-of-00003.gguf"), FORAY_EFILE, "cannot be");
}

static void keys_and_tensors_may_not_come_twice(void **state)
{
    (void)state;
    static const int64_t shape[] = { 4 };
    static const float data[4];
    const char *path = tiny_path(tiny_folder(), "m.gguf");
    gguf_writer w = { 0 };
    gguf_key_u32(&w, "key.a", 1);
    gguf_key_u32(&w, "key.b", 1);
    gguf_key_u32(&w, "key.a", 2);
    gguf_finish_file(&w, path);
    expect_refusal(path, FORAY_EFILE, "key.a: is there twice");
    gguf_tensor(&w, "t", 0, 1, shape, data, sizeof data);
    gguf_tensor(&w, "t", 0, 1, shape, data, sizeof data);
    gguf_finish_file(&w, path);
    expect_refusal(path, FORAY_EFILE, "tensor t: is there twice");
}

/* cases.md S05: an index that leaves out what a file has, or promises what none has: a drafter's layer is tensors like others. */
static void an_index_must_agree_with_its_files(void **state)
{
    (void)state;
    tiny_spec spec = tiny_default();
    const char *folder = tiny_folder(), *index = tiny_path(folder, "model.safetensors.index.json");
    char name[512];
    snprintf(name, sizeof name, "%s", index);
    tiny_write_hf(&spec, folder);
    write_text(name, "{\"weight_map\":{\"model.norm.weight\":\"model.safetensors\"}}");
    expect_refusal(folder, FORAY_EFILE, "does not list it");
    write_text(name, "{\"weight_map\":{\"model.norm.weight\":\"model.safetensors\",\"lm_head.weight\":"
                     "\"model.safetensors\"}}");
    expect_refusal(folder, FORAY_EFILE, "lm_head.weight");
    write_text(name, "{\"weight_map\":{\"model.norm.weight\":\"missing.safetensors\"}}");
    expect_refusal(folder, FORAY_EFILE, "missing.safetensors");
    static const char *const outside[] = { "../model.safetensors", "/etc/passwd", "", ".hidden" };
    for (int i = 0; i < 4; i++) {
        char text[256];
        snprintf(text, sizeof text, "{\"weight_map\":{\"model.norm.weight\":\"%s\"}}", outside[i]);
        write_text(name, text);
        expect_refusal(folder, FORAY_EFILE, "plain file name");
    }
    static const char *const odd[] = { "{}", "{\"weight_map\":[]}", "{\"weight_map\":{}}" };
    for (int i = 0; i < 3; i++) {
        write_text(name, odd[i]);
        expect_refusal(folder, FORAY_EFILE, "weight_map");
    }
    write_text(name, "{\"weight_map\":{\"model.norm.weight\":3}}");
    expect_refusal(folder, FORAY_EFILE, "plain file name");
}

/* ModelSlim's files: a stem of their own, and a description of the tensors. */
static void described_folders_are_read_under_their_own_names(void **state)
{
    (void)state;
    tiny_spec spec = tiny_default();
    const char *folder = tiny_folder();
    char from[512], to[512];
    model_file *f;
    foray_error err;
    tiny_write_hf(&spec, folder);
    snprintf(from, sizeof from, "%s", tiny_path(folder, "model.safetensors"));
    snprintf(to, sizeof to, "%s", tiny_path(folder, "quant_model_weights-00001-of-00001.safetensors"));
    assert_int_equal(model_file_open(folder, &f, &err), 0);
    assert_false(model_file_described(f));
    assert_null(model_file_scheme(f, "model.norm.weight"));
    model_file_close(f);

    assert_int_equal(rename(from, to), 0);
    write_text(tiny_path(folder, "quant_model_weights.safetensors.index.json"),
               "{\"weight_map\":{\"model.norm.weight\":\"quant_model_weights-00001-of-00001.safetensors\"}}");
    expect_refusal(folder, FORAY_EFILE, "quant_model_weights.safetensors.index.json does not list it");
    assert_int_equal(remove(tiny_path(folder, "quant_model_weights.safetensors.index.json")), 0);
    snprintf(from, sizeof from, "%s", tiny_path(folder, "quant_model_weights.safetensors"));
    assert_int_equal(rename(to, from), 0);
    /* The files that it was made from may still lie there: those of the description are meant. */
    write_text(tiny_path(folder, "model.safetensors"), "not a tensor file");
    expect_refusal(folder, FORAY_EFILE, "model.safetensors");
    write_text(tiny_path(folder, "quant_model_description.json"),
               "{\"version\":\"1.0.0\",\"metadata\":{},\"model.norm.weight\":\"FLOAT\"}");
    assert_int_equal(model_file_open(folder, &f, &err), 0);
    assert_true(model_file_described(f));
    assert_string_equal(model_file_scheme(f, "model.norm.weight"), "FLOAT");
    assert_null(model_file_scheme(f, "metadata"));
    assert_null(model_file_scheme(f, "lm_head.weight"));
    assert_non_null(model_file_tensor(f, "model.norm.weight"));
    model_file_close(f);
    write_text(tiny_path(folder, "quant_model_description.json"), "[]");
    expect_refusal(folder, FORAY_EFILE, "quant_model_description.json: is not a JSON object");
}

static void what_is_no_model_is_refused_with_the_remedy(void **state)
{
    (void)state;
    const char *folder = tiny_folder();
    char path[512];
    snprintf(path, sizeof path, "%s", tiny_path(folder, "config.json"));
    expect_refusal(folder, FORAY_EFILE, "config.json");
    expect_refusal(tiny_path(folder, "nothing.gguf"), FORAY_EFILE, "nothing.gguf");
    write_text(path, "{\"a\":1,\"a\":2}");
    expect_refusal(folder, FORAY_EFILE, "config.json: line 1");
    write_text(path, "{\"a\":1");
    expect_refusal(folder, FORAY_EFILE, "config.json: line 1");
    write_text(path, "[1]");
    expect_refusal(folder, FORAY_EFILE, "not a JSON object");
    write_text(path, "{}");
    expect_refusal(folder, FORAY_EFILE, "model.safetensors");
    expect_refusal(path, FORAY_EFILE, "GGUF");
    write_text(path, "");
    expect_refusal(path, FORAY_EFILE, "GGUF");
}

static void the_checksum_sees_names_and_contents(void **state)
{
    (void)state;
    tiny_spec spec = tiny_default();
    model_file *a = open_or_fail(tiny_gguf(&spec)), *b = open_or_fail(tiny_gguf(&spec));
    assert_true(model_file_checksum(a) == model_file_checksum(b));
    model_file_close(b);
    spec.seed++;
    b = open_or_fail(tiny_gguf(&spec));
    assert_true(model_file_checksum(a) != model_file_checksum(b));
    model_file_close(b);
    model_file_close(a);
}

static void running_out_of_memory_is_an_error_and_leaks_nothing(void **state)
{
    (void)state;
    tiny_spec spec = tiny_default();
    char folder[512];
    snprintf(folder, sizeof folder, "%s", tiny_folder());
    tiny_write_hf(&spec, folder);
    const char *gguf = tiny_gguf(&spec);
    for (int kind = 0; kind < 2; kind++) {
        int rc = -1;
        for (int n = 1; rc != 0; n++) {
            model_file *f = NULL;
            int64_t before = mem_get_stats().blocks;
            mem_fail_nth(n, false);
            rc = model_file_open(kind ? folder : gguf, &f, NULL);
            mem_fail_nth(0, false);
            assert_true(rc == 0 ? n > 1 : rc == FORAY_ENOMEM);
            model_file_close(f);
            assert_int_equal(mem_get_stats().blocks, before);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_gguf_file_gives_tensors_and_settings_by_name),
        cmocka_unit_test(a_folder_gives_tensors_and_settings_by_path),
        cmocka_unit_test(shards_are_found_from_any_of_them),
        cmocka_unit_test(keys_and_tensors_may_not_come_twice),
        cmocka_unit_test(an_index_must_agree_with_its_files),
        cmocka_unit_test(described_folders_are_read_under_their_own_names),
        cmocka_unit_test(what_is_no_model_is_refused_with_the_remedy),
        cmocka_unit_test(the_checksum_sees_names_and_contents),
        cmocka_unit_test(running_out_of_memory_is_an_error_and_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
