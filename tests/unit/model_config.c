/* Tests of model/model_config: both kinds of file say the same model; frequencies are those of the definition; what is
 * missing, absurd or unsupported is refused by its key.
 */
#include "model/model_config.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "support/gguf_write.h"
#include "support/tiny.h"

#include <cmocka.h> /* last: base/error.h has a fail() too */

static const char *const goldens[] = { "llama2",  "llama3", "llama-linear", "llama-yarn",
                                       "mistral", "qwen2",  "qwen3",        "gemma3" };

enum { GOLDENS = sizeof goldens / sizeof goldens[0] };

/* The caller closes *f. */
static model_config read_config(const char *path, model_file **f)
{
    model_config c = { 0 };
    foray_error err;
    if (model_file_open(path, f, &err) != 0 || model_config_read(*f, &c, &err) != 0)
        fail_msg("%s", err.text);
    return c;
}

static model_config read_golden(const char *name, const char *tail, model_file **f)
{
    char path[512];
    snprintf(path, sizeof path, "%s/golden/models/%s%s", FORAY_TESTS, name, tail);
    return read_config(path, f);
}

/* Makes the fields marked (file) equal, and llama3's two spellings. */
static void level(model_config *c)
{
    c->arch = MODEL_LLAMA;
    c->arch_name = NULL;
    c->kind = MODEL_FILE_HF;
    c->norm_offset = 0;
    c->qk_interleaved = false;
    c->chat_template = NULL;
    c->end_count = 0;
    memset(c->name, 0, sizeof c->name);
    memset(c->end_ids, 0, sizeof c->end_ids);
    if (c->rope.kind == ROPE_LLAMA3) {
        float pair[MODEL_MAX_HEAD_DIM / 2];
        memcpy(pair, c->rope.pair, sizeof pair);
        memset(&c->rope, 0, sizeof c->rope);
        memcpy(c->rope.pair, pair, sizeof pair);
        c->rope.kind = ROPE_FACTORS;
        c->rope.factor = c->rope.attention_factor = 1;
    }
}

static void assert_same_frequencies(const model_config *a, const model_config *b)
{
    float x[MODEL_MAX_HEAD_DIM / 2], y[MODEL_MAX_HEAD_DIM / 2], mx, my;
    for (int local = 0; local < 2; local++) {
        model_rope_frequencies(a, local, x, &mx);
        model_rope_frequencies(b, local, y, &my);
        assert_memory_equal(x, y, (size_t)a->rope_dim / 2 * sizeof *x);
        assert_true(mx == my);
    }
}

static void both_kinds_of_file_say_the_same_model(void **state)
{
    (void)state;
    for (int i = 0; i < GOLDENS; i++) {
        model_file *f, *g;
        model_config a = read_golden(goldens[i], "", &f), b = read_golden(goldens[i], ".gguf", &g);
        assert_same_frequencies(&a, &b);
        level(&a);
        level(&b);
        a.chat_template_bytes = b.chat_template_bytes = 0;
        if (memcmp(&a, &b, sizeof a) != 0) {
            const uint8_t *x = (const uint8_t *)&a, *y = (const uint8_t *)&b;
            size_t at = 0;
            while (x[at] == y[at])
                at++;
            fail_msg("%s: the configurations differ at byte %zu", goldens[i], at);
        }
        model_file_close(f);
        model_file_close(g);
    }
}

static void a_family_has_its_features(void **state)
{
    (void)state;
    model_file *f;
    model_config c = read_golden("gemma3", "", &f);
    assert_int_equal(c.arch, MODEL_GEMMA3);
    assert_true(c.post_norms && c.qk_norm && c.tied && !c.qkv_bias && c.gate == GATE_GELU_TANH &&
                c.norm_offset == 1);
    assert_true(c.embedding_scale == sqrtf(32) && c.attention_scale == 1 / sqrtf(32));
    assert_true(c.rope_theta == 1e6 && c.rope_theta_local == 1e4 && c.rope.kind == ROPE_LINEAR &&
                c.rope.factor == 8);
    for (int l = 0; l < 6; l++)
        assert_true(c.window[l] == (l == 5 ? 0 : 8) && c.rope_local[l] == (l != 5));
    assert_true(c.end_count == 2 && c.end_ids[0] == 1 && c.end_ids[1] == 106);
    assert_string_equal(c.name, "gemma3");
    model_file_close(f);
    c = read_golden("mistral", ".gguf", &f);
    assert_true(c.arch == MODEL_LLAMA && c.qk_interleaved && c.window[0] == 8 && c.window[1] == 8 &&
                !c.rope_local[0] && !c.tied);
    assert_true(c.attention_scale == 0.25f && c.embedding_scale == 1 && c.gate == GATE_SILU);
    model_file_close(f);
    c = read_golden("qwen2", "", &f);
    assert_true(c.qkv_bias && !c.qk_norm && c.window[0] == 0 && c.rms_eps == 1e-6f && !c.qk_interleaved);
    model_file_close(f);
    c = read_golden("qwen3", ".gguf", &f);
    assert_true(c.qk_norm && !c.qkv_bias && c.head_dim == 32 && c.heads == 4 && c.dim == 64 &&
                !c.qk_interleaved);
    model_file_close(f);
}

/* What transformers 5.24 computes for the golden folders, in f32. */
static const struct {
    const char *name;
    double frequency[8], mscale;
} reference[] = {
    { "llama3",
      { 1, 0.079403013, 0.00470075384, 0.000911583134, 0.000176776681, 3.42810235e-05, 6.64786967e-06,
        1.28917316e-06 },
      1 },
    { "llama-yarn",
      { 1, 0.237170815, 0.049999997, 0.00790569466, 0.00249999994, 0.000790569466, 0.000250000012,
        7.90569466e-05 },
      1.138629436111989 },
    { "llama-linear",
      { 0.25, 0.079056941, 0.0250000004, 0.00790569466, 0.00249999994, 0.000790569466, 0.000250000012,
        7.90569466e-05 },
      1 },
};

static void scaled_frequencies_are_those_of_transformers(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof reference / sizeof reference[0]; i++) {
        model_file *f;
        model_config c = read_golden(reference[i].name, "", &f);
        float out[8], mscale;
        model_rope_frequencies(&c, false, out, &mscale);
        assert_int_equal(c.rope_dim, 16);
        for (int p = 0; p < 8; p++)
            if (!(fabs((double)out[p] / reference[i].frequency[p] - 1) < 2e-7))
                fail_msg("%s: pair %d: %.9g, not %.9g", reference[i].name, p, (double)out[p],
                         reference[i].frequency[p]);
        assert_true(fabs((double)mscale - reference[i].mscale) < 1e-7);
        model_rope_frequencies(&c, true, out, &mscale);
        for (int p = 0; p < 8; p++) /* a local layer is never scaled */
            assert_true(fabs((double)out[p] * pow(c.rope_theta, p / 8.0) - 1) < 1e-6);
        assert_true(mscale == 1);
        model_file_close(f);
    }
}

/* GGUF: one key left out or changed ---------------------------------------------------------------- */

typedef enum { VALUE_U32, VALUE_F32, VALUE_TEXT, VALUE_NONE } value_kind;

typedef struct {
    const char *key;
    value_kind kind;
    double number;
    const char *text;
} setting;

static const setting base[] = {
    { "general.architecture", VALUE_TEXT, 0, "llama" },
    { "llama.block_count", VALUE_U32, 2, NULL },
    { "llama.context_length", VALUE_U32, 128, NULL },
    { "llama.embedding_length", VALUE_U32, 64, NULL },
    { "llama.feed_forward_length", VALUE_U32, 96, NULL },
    { "llama.attention.head_count", VALUE_U32, 4, NULL },
    { "llama.attention.head_count_kv", VALUE_U32, 2, NULL },
    { "llama.attention.layer_norm_rms_epsilon", VALUE_F32, 1e-5, NULL },
    { "llama.vocab_size", VALUE_U32, 300, NULL },
};

static void write_setting(gguf_writer *w, const setting *s)
{
    switch (s->kind) {
    case VALUE_U32:
        gguf_key_u32(w, s->key, (uint32_t)s->number);
        break;
    case VALUE_F32:
        gguf_key_f32(w, s->key, (float)s->number);
        break;
    case VALUE_TEXT:
        gguf_key_string(w, s->key, s->text);
        break;
    case VALUE_NONE:
        break;
    }
}

/* Reads the base with one key changed, added or (VALUE_NONE) left out. */
static int read_changed(const setting *change, model_config *c, foray_error *err)
{
    static char path[512];
    gguf_writer w = { 0 };
    model_file *f;
    bool used = false;
    if (path[0] == 0)
        snprintf(path, sizeof path, "%s", tiny_path(tiny_folder(), "m.gguf"));
    for (size_t i = 0; i < sizeof base / sizeof base[0]; i++) {
        bool this = change && strcmp(change->key, base[i].key) == 0;
        write_setting(&w, this ? change : &base[i]);
        used = used || this;
    }
    if (change && !used)
        write_setting(&w, change);
    gguf_finish_file(&w, path);
    assert_int_equal(model_file_open(path, &f, NULL), 0);
    *err = (foray_error) { 0 };
    int rc = model_config_read(f, c, err);
    model_file_close(f);
    return rc;
}

static void a_missing_absurd_or_mistyped_key_is_named(void **state)
{
    (void)state;
    static const setting changes[] = {
        { "general.architecture", VALUE_NONE, 0, NULL },
        { "general.architecture", VALUE_U32, 3, NULL },
        { "llama.block_count", VALUE_NONE, 0, NULL },
        { "llama.block_count", VALUE_U32, 0, NULL },
        { "llama.block_count", VALUE_U32, 257, NULL },
        { "llama.block_count", VALUE_TEXT, 0, "2" },
        { "llama.block_count", VALUE_F32, 2, NULL },
        { "llama.context_length", VALUE_NONE, 0, NULL },
        { "llama.context_length", VALUE_U32, 4294967295.0, NULL },
        { "llama.embedding_length", VALUE_NONE, 0, NULL },
        { "llama.embedding_length", VALUE_U32, 0, NULL },
        { "llama.embedding_length", VALUE_U32, 65537, NULL },
        { "llama.feed_forward_length", VALUE_NONE, 0, NULL },
        { "llama.feed_forward_length", VALUE_U32, 0, NULL },
        { "llama.attention.head_count", VALUE_NONE, 0, NULL },
        { "llama.attention.head_count", VALUE_U32, 0, NULL },
        { "llama.attention.head_count_kv", VALUE_U32, 0, NULL },
        { "llama.attention.layer_norm_rms_epsilon", VALUE_NONE, 0, NULL },
        { "llama.attention.layer_norm_rms_epsilon", VALUE_F32, -1, NULL },
        { "llama.attention.layer_norm_rms_epsilon", VALUE_F32, (double)NAN, NULL },
        { "llama.attention.layer_norm_rms_epsilon", VALUE_TEXT, 0, "x" },
        { "llama.attention.key_length", VALUE_U32, 1024, NULL },
        { "llama.vocab_size", VALUE_NONE, 0, NULL },
        { "llama.vocab_size", VALUE_U32, 1 << 21, NULL },
        { "llama.rope.freq_base", VALUE_F32, 0, NULL },
        { "llama.rope.freq_base", VALUE_F32, (double)INFINITY, NULL },
        { "llama.rope.scaling.factor", VALUE_F32, 0, NULL },
        { "tokenizer.ggml.eos_token_id", VALUE_U32, 300, NULL },
    };
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        model_config c;
        foray_error err;
        memset(&c, 0x5a, sizeof c);
        int rc = read_changed(&changes[i], &c, &err);
        if (rc != FORAY_EFILE || !strstr(err.text, changes[i].key))
            fail_msg("change %zu, %s: got %d (%s)", i, changes[i].key, rc, err.text);
        for (size_t k = 0; k < sizeof c; k++)
            assert_int_equal(((const uint8_t *)&c)[k], 0x5a); /* unchanged on error */
    }
}

static void what_does_not_fit_together_is_refused(void **state)
{
    (void)state;
    static const struct {
        setting change;
        const char *word;
    } changes[] = {
        { { "llama.attention.head_count", VALUE_U32, 5, NULL }, "does not divide into 5 heads" },
        { { "llama.attention.head_count_kv", VALUE_U32, 3, NULL }, "3 key-value heads" },
        { { "llama.attention.key_length", VALUE_U32, 17, NULL }, "even" },
        { { "llama.rope.dimension_count", VALUE_U32, 18, NULL }, "18 of a head's 16" },
        { { "llama.rope.dimension_count", VALUE_U32, 15, NULL }, "even" },
    };
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        model_config c;
        foray_error err;
        int rc = read_changed(&changes[i].change, &c, &err);
        if (rc >= 0 || !strstr(err.text, changes[i].word))
            fail_msg("%s: got %d (%s)", changes[i].change.key, rc, err.text);
    }
}

static void what_foray_does_not_run_is_refused_with_the_choices(void **state)
{
    (void)state;
    static const struct {
        setting change;
        const char *word;
    } changes[] = {
        { { "general.architecture", VALUE_TEXT, 0, "mamba" }, "mamba" },
        { { "general.architecture", VALUE_TEXT, 0, "mamba" }, "qwen2, qwen3, gemma3" },
        { { "general.architecture", VALUE_TEXT, 0, "mistral" },
          "mistral" }, /* GGUF has no such architecture */
        { { "llama.expert_count", VALUE_U32, 8, NULL }, "experts" },
        { { "llama.rope.scaling.type", VALUE_TEXT, 0, "longrope" }, "longrope" },
        { { "llama.final_logit_softcapping", VALUE_F32, 30, NULL }, "final_logit_softcapping" },
        { { "llama.attn_logit_softcapping", VALUE_F32, 50, NULL }, "attn_logit_softcapping" },
    };
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        model_config c;
        foray_error err;
        int rc = read_changed(&changes[i].change, &c, &err);
        if (rc != FORAY_EUNSUPPORTED || !strstr(err.text, changes[i].word))
            fail_msg("%s: got %d (%s)", changes[i].change.key, rc, err.text);
    }
}

static void optional_keys_have_the_formats_defaults(void **state)
{
    (void)state;
    model_config c;
    foray_error err;
    static const setting no_kv = { "llama.attention.head_count_kv", VALUE_NONE, 0, NULL };
    static const setting wide = { "llama.attention.key_length", VALUE_U32, 32, NULL };
    static const setting linear = { "llama.rope.scaling.factor", VALUE_F32, 2, NULL };
    static const setting old_linear = { "llama.rope.scale_linear", VALUE_F32, 2, NULL };
    assert_int_equal(read_changed(&no_kv, &c, &err), 0);
    assert_true(c.kv_heads == 4 && c.head_dim == 16 && c.rope_dim == 16 && c.rope_theta == 1e4 &&
                c.rope.kind == ROPE_PLAIN);
    assert_true(c.tied && c.end_count == 0 && c.chat_template == NULL);
    assert_string_equal(c.name, "llama");
    assert_int_equal(read_changed(&linear, &c, &err), 0);
    assert_true(c.rope.kind == ROPE_LINEAR && c.rope.factor == 2);
    assert_int_equal(read_changed(&old_linear, &c, &err), 0);
    assert_true(c.rope.kind == ROPE_LINEAR && c.rope.factor == 2);
    /* Heads wider than dim / heads, as in Qwen 3: values need not be said. */
    assert_int_equal(read_changed(&wide, &c, &err), 0);
    assert_true(c.head_dim == 32 && c.rope_dim == 32);
}

/* Folders ----------------------------------------------------------------------------------------- */

/* Reads a folder whose config.json is the text; the tensors are those of a tiny model. */
static int read_json(const char *text, model_config *c, foray_error *err)
{
    static char folder[512];
    model_file *f;
    if (folder[0] == 0) {
        tiny_spec spec = tiny_default();
        spec.no_text = true;
        snprintf(folder, sizeof folder, "%s", tiny_folder());
        tiny_write_hf(&spec, folder);
    }
    FILE *out = fopen(tiny_path(folder, "config.json"), "wb");
    assert_non_null(out);
    assert_true(fputs(text, out) >= 0);
    assert_int_equal(fclose(out), 0);
    *err = (foray_error) { 0 };
    if (model_file_open(folder, &f, err) != 0)
        fail_msg("%s", err->text);
    int rc = model_config_read(f, c, err);
    model_file_close(f);
    return rc;
}

#define SIZES                                                                                                \
    "\"num_hidden_layers\":4,\"hidden_size\":64,\"intermediate_size\":128,\"num_attention_heads\":4,"        \
    "\"num_key_value_heads\":2,\"vocab_size\":512,\"max_position_embeddings\":512,\"rms_norm_eps\":1e-5"
#define ARCH(name) "{\"architectures\":[\"" name "\"]," SIZES

static void a_folder_that_foray_does_not_run_is_refused_by_its_key(void **state)
{
    (void)state;
    static const struct {
        const char *json, *word;
        int code;
    } cases[] = {
        { "{" SIZES "}", "architectures", FORAY_EFILE },
        { ARCH("PhiForCausalLM") "}", "PhiForCausalLM", FORAY_EUNSUPPORTED },
        { "{\"model_type\":\"phi\"," SIZES "}", "model_type", FORAY_EUNSUPPORTED },
        { ARCH("LlamaForCausalLM") ",\"attention_bias\":true}", "attention_bias", FORAY_EUNSUPPORTED },
        { ARCH("LlamaForCausalLM") ",\"mlp_bias\":true}", "mlp_bias", FORAY_EUNSUPPORTED },
        { ARCH("LlamaForCausalLM") ",\"hidden_act\":\"gelu\"}", "hidden_act", FORAY_EUNSUPPORTED },
        { ARCH("LlamaForCausalLM") ",\"quantization_config\":{\"bits\":4}}", "quantization_config",
          FORAY_EUNSUPPORTED },
        { ARCH("LlamaForCausalLM") ",\"rope_scaling\":{\"type\":\"dynamic\",\"factor\":2}}", "dynamic",
          FORAY_EUNSUPPORTED },
        { ARCH("LlamaForCausalLM") ",\"rope_scaling\":{\"type\":\"linear\"}}", "rope_scaling.factor",
          FORAY_EFILE },
        { ARCH("LlamaForCausalLM") ",\"rope_scaling\":{\"type\":\"linear\",\"factor\":0.5}}",
          "rope_scaling.factor", FORAY_EFILE },
        { ARCH("LlamaForCausalLM") ",\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":8,\"low_freq_"
                                   "factor\":4,"
                                   "\"high_freq_factor\":1,\"original_max_position_embeddings\":64}}",
          "high_freq_factor", FORAY_EFILE },
        { ARCH("LlamaForCausalLM") ",\"eos_token_id\":512}", "eos_token_id", FORAY_EFILE },
        { ARCH("LlamaForCausalLM") ",\"eos_token_id\":[1,-1]}", "eos_token_id", FORAY_EFILE },
        { ARCH("LlamaForCausalLM") ",\"eos_token_id\":\"x\"}", "eos_token_id", FORAY_EFILE },
        { ARCH("LlamaForCausalLM") ",\"head_dim\":\"x\"}", "head_dim", FORAY_EFILE },
        { ARCH("Gemma3ForCausalLM") "}", "sliding_window", FORAY_EFILE },
        { ARCH("Gemma3ForCausalLM") ",\"sliding_window\":8,\"final_logit_softcapping\":30.0}", "final_logit",
          FORAY_EUNSUPPORTED },
        { ARCH("Gemma3ForCausalLM") ",\"sliding_window\":8,\"use_bidirectional_attention\":true}",
          "bidirectional", FORAY_EUNSUPPORTED },
        { ARCH("Qwen2ForCausalLM") ",\"use_sliding_window\":true,\"sliding_window\":8,\"layer_types\":["
                                   "\"full_attention\"]}",
          "layer_types", FORAY_EFILE },
        { ARCH("Qwen2ForCausalLM") ",\"use_sliding_window\":true,\"sliding_window\":8,\"layer_types\":["
                                   "\"full_attention\","
                                   "\"linear_attention\",\"full_attention\",\"full_attention\"]}",
          "linear_attention", FORAY_EUNSUPPORTED },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        model_config c;
        foray_error err;
        int rc = read_json(cases[i].json, &c, &err);
        if (rc != cases[i].code || !strstr(err.text, cases[i].word))
            fail_msg("case %zu, %s: got %d (%s)", i, cases[i].word, rc, err.text);
    }
}

static void assert_windows(const model_config *c, int w0, int w1, int w2, int w3)
{
    assert_true(c->window[0] == w0 && c->window[1] == w1 && c->window[2] == w2 && c->window[3] == w3);
}

static void windows_fall_on_the_layers_that_the_folder_says(void **state)
{
    (void)state;
    model_config c;
    foray_error err;
    assert_int_equal(read_json(ARCH("MistralForCausalLM") "}", &c, &err), 0);
    assert_windows(&c, 4096, 4096, 4096, 4096);
    assert_int_equal(read_json(ARCH("MistralForCausalLM") ",\"sliding_window\":null}", &c, &err), 0);
    assert_windows(&c, 0, 0, 0, 0);
    assert_int_equal(
        read_json(ARCH("Qwen3ForCausalLM") ",\"sliding_window\":8,\"max_window_layers\":2}", &c, &err), 0);
    assert_windows(&c, 0, 0, 0, 0);
    assert_int_equal(read_json(ARCH("Qwen3ForCausalLM") ",\"use_sliding_window\":true,\"sliding_window\":8,"
                                                        "\"max_window_layers\":2}",
                               &c, &err),
                     0);
    assert_windows(&c, 0, 0, 8, 8);
    assert_int_equal(
        read_json(ARCH("Gemma3ForCausalLM") ",\"sliding_window\":8,\"sliding_window_pattern\":2}", &c, &err),
        0);
    assert_windows(&c, 8, 0, 8, 0);
    assert_true(c.rope_local[0] && !c.rope_local[1] && c.head_dim == 256 && c.tied);
    assert_int_equal(
        read_json(ARCH("Gemma3ForCausalLM") ",\"sliding_window\":8,\"layer_types\":[\"full_attention\","
                                            "\"sliding_attention\",\"full_attention\",\"full_attention\"]}",
                  &c, &err),
        0);
    assert_windows(&c, 0, 8, 0, 0);
}

static void rotary_settings_are_read_in_both_spellings(void **state)
{
    (void)state;
    model_config a, b;
    foray_error err;
#define YARN "\"rope_type\":\"yarn\",\"factor\":4.0,\"original_max_position_embeddings\":128,\"beta_fast\":16"
    assert_int_equal(
        read_json(ARCH("LlamaForCausalLM") ",\"rope_theta\":5e5,\"rope_scaling\":{" YARN "}}", &a, &err), 0);
    assert_int_equal(
        read_json(ARCH("LlamaForCausalLM") ",\"rope_parameters\":{\"rope_theta\":5e5," YARN "}}", &b, &err),
        0);
    assert_true(a.rope.kind == ROPE_YARN && a.rope_theta == 5e5 && a.rope.beta_fast == 16 &&
                a.rope.beta_slow == 1);
    assert_memory_equal(&a.rope, &b.rope, sizeof a.rope);
    assert_true(b.rope_theta == 5e5);
    assert_int_equal(read_json(ARCH("LlamaForCausalLM") ",\"rope_scaling\":{" YARN
                                                        ",\"attention_factor\":1.25}}",
                               &a, &err),
                     0);
    assert_true(a.rope.attention_factor == 1.25);
    assert_int_equal(read_json(ARCH("LlamaForCausalLM") ",\"rope_scaling\":{" YARN
                                                        ",\"mscale\":1.0,\"mscale_all_dim\":1.0}}",
                               &a, &err),
                     0);
    assert_true(a.rope.attention_factor == 1);
    assert_int_equal(
        read_json(ARCH("LlamaForCausalLM") ",\"rope_scaling\":{" YARN ",\"beta_slow\":17}}", &a, &err),
        FORAY_EFILE);
    assert_non_null(strstr(err.text, "beta_fast is 16, below its beta_slow, 17"));
    assert_int_equal(read_json(ARCH("LlamaForCausalLM") ",\"rope_scaling\":null}", &a, &err), 0);
    assert_true(a.rope.kind == ROPE_PLAIN && a.rope_theta == 1e4);
    assert_int_equal(
        read_json(ARCH("Gemma3ForCausalLM") ",\"sliding_window\":8,\"rope_parameters\":{\"full_attention\":{"
                                            "\"rope_type\":\"linear\",\"factor\":8.0,\"rope_theta\":2e6},"
                                            "\"sliding_attention\":{\"rope_type\":"
                                            "\"default\",\"rope_theta\":3e4}}}",
                  &a, &err),
        0);
    assert_true(a.rope_theta == 2e6 && a.rope_theta_local == 3e4 && a.rope.kind == ROPE_LINEAR &&
                a.rope.factor == 8);
    assert_int_equal(read_json(ARCH("LlamaForCausalLM") ",\"partial_rotary_factor\":0.5}", &a, &err), 0);
    assert_true(a.rope_dim == 8 && a.head_dim == 16);
}

/* What transformers 5.24 computes for heads of 16, in f32. */
static void ramps_and_mixtures_are_those_of_transformers(void **state)
{
    (void)state;
    static const struct {
        const char *rope;
        double frequency[8];
    } cases[] = {
        { "\"rope_type\":\"yarn\",\"rope_theta\":1e4,\"factor\":4,\"original_max_position_embeddings\":4096",
          { 1, 0.316227764, 0.100000001, 0.025693506, 0.00624999963, 0.00138349656, 0.000250000012,
            7.90569466e-05 } },
        { "\"rope_type\":\"yarn\",\"rope_theta\":1e4,\"factor\":4,\"original_max_position_embeddings\":4096,"
          "\"truncate\":false",
          { 1, 0.316227764, 0.100000001, 0.0286136102, 0.006556971, 0.00128563191, 0.000250000012,
            7.90569466e-05 } },
        { "\"rope_type\":\"yarn\",\"rope_theta\":1e6,\"factor\":40,\"original_max_position_embeddings\":"
          "32768,"
          "\"beta_fast\":16,\"beta_slow\":2",
          { 1, 0.177827939, 0.0316227786, 0.00562341325, 0.000512500003, 4.44569832e-06, 7.90569402e-07,
            1.40585328e-07 } },
        { "\"rope_type\":\"llama3\",\"rope_theta\":5e5,\"factor\":32,\"original_max_position_embeddings\":"
          "8192,"
          "\"low_freq_factor\":1,\"high_freq_factor\":4",
          { 1, 0.193922758, 0.0376060307, 0.00729266508, 0.000429556705, 8.57025589e-06, 1.66196742e-06,
            3.22293289e-07 } },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[1024];
        model_config c;
        foray_error err;
        float out[8], mscale;
        snprintf(text, sizeof text, "%s,\"rope_parameters\":{%s}}", ARCH("LlamaForCausalLM"), cases[i].rope);
        if (read_json(text, &c, &err) != 0)
            fail_msg("%s", err.text);
        model_rope_frequencies(&c, false, out, &mscale);
        for (int p = 0; p < 8; p++)
            if (!(fabs((double)out[p] / cases[i].frequency[p] - 1) < 5e-7))
                fail_msg("case %zu, pair %d: %.9g, not %.9g", i, p, (double)out[p], cases[i].frequency[p]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_kinds_of_file_say_the_same_model),
        cmocka_unit_test(a_family_has_its_features),
        cmocka_unit_test(scaled_frequencies_are_those_of_transformers),
        cmocka_unit_test(a_missing_absurd_or_mistyped_key_is_named),
        cmocka_unit_test(what_does_not_fit_together_is_refused),
        cmocka_unit_test(what_foray_does_not_run_is_refused_with_the_choices),
        cmocka_unit_test(optional_keys_have_the_formats_defaults),
        cmocka_unit_test(a_folder_that_foray_does_not_run_is_refused_by_its_key),
        cmocka_unit_test(windows_fall_on_the_layers_that_the_folder_says),
        cmocka_unit_test(rotary_settings_are_read_in_both_spellings),
        cmocka_unit_test(ramps_and_mixtures_are_those_of_transformers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
