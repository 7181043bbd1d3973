/* config_hf.c: what config.json means for each family. A key that is absent means what the family's class in
 * `transformers` takes then. Rotary settings are read in both spellings: rope_theta and rope_scaling beside
 * each other, and rope_parameters, which newer files have (by kind of layer for Gemma 3).
 * Threads: any.
 */
#include "model/config_hf.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "model/precise.h"
#include "model/settings.h"

/* What is known by architecture and said by no key. 0, NULL: no default, the key must be there. */
static const struct {
    const char *class_name, *model_type;
    int head_dim; /* 0: hidden_size / heads */
    double theta, theta_local;
    bool tied;
} families[MODEL_ARCH_COUNT] = {
    [MODEL_LLAMA] = { "LlamaForCausalLM", "llama", 0, 1e4, 0, false },
    [MODEL_MISTRAL] = { "MistralForCausalLM", "mistral", 0, 1e4, 0, false },
    [MODEL_QWEN2] = { "Qwen2ForCausalLM", "qwen2", 0, 1e4, 0, false },
    [MODEL_QWEN3] = { "Qwen3ForCausalLM", "qwen3", 128, 1e4, 0, false },
    [MODEL_GEMMA3] = { "Gemma3ForCausalLM", "gemma3_text", 256, 1e6, 1e4, true },
};

static void read_arch(settings *s, model_config *c)
{
    char name[64] = "", type[64];
    const char *text;
    size_t bytes, count;
    if (model_file_array(s->f, "architectures", &count) &&
        model_file_array_string(s->f, "architectures", 0, &text, &bytes))
        snprintf(name, sizeof name, "%.*s", (int)(bytes < 63 ? bytes : 63), text);
    settings_text(s, "model_type", type);
    for (int a = 0; a < MODEL_ARCH_COUNT; a++) {
        if (name[0] ? strcmp(name, families[a].class_name) == 0 : strcmp(type, families[a].model_type) == 0) {
            c->arch = (model_arch)a;
            return;
        }
    }
    if (name[0] == 0 && type[0] == 0)
        settings_fault(s, FORAY_EFILE, "architectures",
                       "is missing, and model_type too (not a language model's config.json?)");
    else
        settings_fault(s, FORAY_EUNSUPPORTED, name[0] ? "architectures" : "model_type",
                       "%s is not a model that foray runs (%s)", name[0] ? name : type, model_arch_names());
}

static void read_sizes(settings *s, model_config *c)
{
    bool llama_like = c->arch == MODEL_LLAMA || c->arch == MODEL_MISTRAL;
    c->layers = (int)settings_int(s, "num_hidden_layers", 1, MODEL_MAX_LAYERS, SETTING_REQUIRED);
    c->context = (int)settings_int(s, "max_position_embeddings", 1, MODEL_MAX_CONTEXT, SETTING_REQUIRED);
    c->dim = (int)settings_int(s, "hidden_size", 1, MODEL_MAX_DIM, SETTING_REQUIRED);
    c->ffn = (int)settings_int(s, "intermediate_size", 1, MODEL_MAX_FFN, SETTING_REQUIRED);
    c->vocab = (int)settings_int(s, "vocab_size", 1, MODEL_MAX_VOCAB, SETTING_REQUIRED);
    c->heads = (int)settings_int(s, "num_attention_heads", 1, MODEL_MAX_HEADS, SETTING_REQUIRED);
    c->kv_heads = (int)settings_int(s, "num_key_value_heads", 1, MODEL_MAX_HEADS,
                                    llama_like ? c->heads : SETTING_REQUIRED);
    c->head_dim = (int)settings_int(s, "head_dim", 1, MODEL_MAX_HEAD_DIM, families[c->arch].head_dim);
    if (c->head_dim == 0 && c->heads > 0)
        c->head_dim = c->dim % c->heads == 0 ? c->dim / c->heads : -1;
    c->rms_eps = (float)settings_float(s, "rms_norm_eps", 0, 1, NAN);
    c->tied = settings_bool(s, "tie_word_embeddings", families[c->arch].tied);
}

/* YaRN's factor for cos and sin, where it is not given: from two scales, or the paper's. */
static double yarn_attention_factor(settings *s, double factor)
{
    double mscale = settings_float(s, "mscale", 0, 1e3, 0),
           all = settings_float(s, "mscale_all_dim", 0, 1e3, 0);
    double log_factor = factor > 1 ? precise_log(factor) : 0;
    if (mscale != 0 && all != 0)
        return (0.1 * mscale * log_factor + 1) / (0.1 * all * log_factor + 1);
    return 0.1 * log_factor + 1;
}

/* s->prefix stands on the object that holds rope_type and its parameters. */
static void read_scaling(settings *s, model_config *c)
{
    char type[64];
    rope_scaling *r = &c->rope;
    r->factor = r->attention_factor = 1;
    settings_text(s, "rope_type", type);
    if (type[0] == 0)
        settings_text(s, "type", type);
    if (s->rc < 0 || type[0] == 0 || strcmp(type, "default") == 0)
        return;
    r->factor = settings_float(s, "factor", 1, 1e6, NAN);
    if (strcmp(type, "linear") == 0) {
        r->kind = ROPE_LINEAR;
    } else if (strcmp(type, "llama3") == 0) {
        r->kind = ROPE_LLAMA3;
        r->original_context =
            settings_float(s, "original_max_position_embeddings", 1, MODEL_MAX_CONTEXT, NAN);
        r->low_freq_factor = settings_float(s, "low_freq_factor", 0.001, 1e6, NAN);
        r->high_freq_factor = settings_float(s, "high_freq_factor", 0.001, 1e6, NAN);
        if (r->high_freq_factor <= r->low_freq_factor)
            settings_fault(s, FORAY_EFILE, "high_freq_factor", "is %g, not above low_freq_factor, %g",
                           r->high_freq_factor, r->low_freq_factor);
    } else if (strcmp(type, "yarn") == 0) {
        r->kind = ROPE_YARN;
        r->original_context =
            settings_float(s, "original_max_position_embeddings", 1, MODEL_MAX_CONTEXT, c->context);
        r->beta_fast = settings_float(s, "beta_fast", 0.001, 1e6, 32);
        r->beta_slow = settings_float(s, "beta_slow", 0.001, 1e6, 1);
        r->truncate = settings_bool(s, "truncate", true);
        r->attention_factor =
            settings_float(s, "attention_factor", 0, 1e3, yarn_attention_factor(s, r->factor));
    } else {
        settings_fault(s, FORAY_EUNSUPPORTED, "rope_type",
                       "is %s; foray knows default, linear, llama3 and yarn", type);
    }
}

static void read_rope(settings *s, model_config *c)
{
    double theta = families[c->arch].theta, local = families[c->arch].theta_local;
    static const char *const places[] = { "rope_parameters.full_attention.", "rope_parameters.",
                                          "rope_scaling." };
    double part = settings_float(s, "partial_rotary_factor", 0, 1, 1);
    theta = settings_float(s, "rope_theta", 1, 1e12, theta);
    c->rope.factor = c->rope.attention_factor = 1;
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        s->prefix = places[i];
        if (!settings_has(s, "rope_type") && !settings_has(s, "type") && !settings_has(s, "rope_theta"))
            continue;
        theta = settings_float(s, "rope_theta", 1, 1e12, theta);
        part = settings_float(s, "partial_rotary_factor", 0, 1, part);
        read_scaling(s, c);
        break;
    }
    s->prefix = "rope_parameters.sliding_attention.";
    if (local != 0) {
        char type[64];
        settings_text(s, "rope_type", type);
        if (type[0] && strcmp(type, "default") != 0)
            settings_fault(s, FORAY_EUNSUPPORTED, "rope_type", "is %s; local layers are not scaled", type);
        local = settings_float(s, "rope_theta", 1, 1e12, local);
    }
    s->prefix = "";
    if (local != 0)
        local = settings_float(s, "rope_local_base_freq", 1, 1e12, local);
    c->rope_theta = theta;
    c->rope_theta_local = local != 0 ? local : theta;
    c->rope_dim = c->head_dim > 0 ? (int)(c->head_dim * part) : 0;
}

/* One entry per layer, where the file lists them. Returns whether it does. */
static bool read_layer_types(settings *s, model_config *c, int window)
{
    size_t count = 0;
    if (s->rc < 0 || !model_file_array(s->f, "layer_types", &count))
        return false;
    if (count < (size_t)c->layers) {
        settings_fault(s, FORAY_EFILE, "layer_types", "has %zu elements for %d layers", count, c->layers);
        return true;
    }
    for (int l = 0; l < c->layers; l++) {
        const char *text = "";
        size_t bytes = 0;
        model_file_array_string(s->f, "layer_types", (size_t)l, &text, &bytes);
        bool local = bytes == 17 && memcmp(text, "sliding_attention", 17) == 0;
        if (!local && (bytes != 14 || memcmp(text, "full_attention", 14) != 0)) {
            settings_fault(s, FORAY_EUNSUPPORTED, "layer_types",
                           "layer %d is %.*s; foray knows full_attention and "
                           "sliding_attention",
                           l, (int)(bytes < 40 ? bytes : 40), text);
            return true;
        }
        c->window[l] = local ? window : 0;
    }
    return true;
}

static void read_windows(settings *s, model_config *c)
{
    int window = 0, first_local = c->layers, period = 0;
    switch (c->arch) {
    case MODEL_LLAMA:
    case MODEL_ARCH_COUNT:
        return;
    case MODEL_MISTRAL: {
        /* Absent means 4096; null, which newer models have, no window. */
        bool said_none = model_file_key_is_null(s->f, "sliding_window");
        window = said_none ? 0 : (int)settings_int(s, "sliding_window", 1, MODEL_MAX_CONTEXT, 4096);
        first_local = 0;
        break;
    }
    case MODEL_QWEN2:
    case MODEL_QWEN3:
        if (!settings_bool(s, "use_sliding_window", false))
            return;
        window = (int)settings_int(s, "sliding_window", 1, MODEL_MAX_CONTEXT, 4096);
        first_local = (int)settings_int(s, "max_window_layers", 0, 1 << 20, 28);
        break;
    case MODEL_GEMMA3:
        window = (int)settings_int(s, "sliding_window", 1, MODEL_MAX_CONTEXT, SETTING_REQUIRED);
        period = (int)settings_int(s, "_sliding_window_pattern", 1, MODEL_MAX_LAYERS, 6);
        period = (int)settings_int(s, "sliding_window_pattern", 1, MODEL_MAX_LAYERS, period);
        first_local = 0;
        break;
    }
    if (s->rc < 0)
        return;
    if (!read_layer_types(s, c, window))
        for (int l = first_local; l < c->layers; l++)
            c->window[l] = period != 0 && (l + 1) % period == 0 ? 0 : window;
    for (int l = 0; l < c->layers; l++)
        c->rope_local[l] = c->arch == MODEL_GEMMA3 && c->window[l] != 0;
}

static void read_features(settings *s, model_config *c)
{
    bool gemma = c->arch == MODEL_GEMMA3;
    char act[64];
    const char *key = gemma && settings_has(s, "hidden_activation") ? "hidden_activation" : "hidden_act";
    const char *known = gemma ? "gelu_pytorch_tanh" : "silu";
    settings_text(s, key, act);
    if (act[0] && strcmp(act, known) != 0)
        settings_fault(s, FORAY_EUNSUPPORTED, key, "is %s; foray knows %s for this architecture", act, known);
    c->gate = gemma ? GATE_GELU_TANH : GATE_SILU;
    c->qk_norm = gemma || c->arch == MODEL_QWEN3;
    c->post_norms = gemma;
    c->norm_offset = gemma ? 1 : 0;
    c->qkv_bias = c->arch == MODEL_QWEN2;
    if (gemma)
        c->attention_scale = (float)(1 / sqrt(settings_float(s, "query_pre_attn_scalar", 1e-3, 1e6, 256)));
    static const char *const biases[] = { "attention_bias", "mlp_bias" };
    for (int i = 0; i < 2; i++)
        if (settings_bool(s, biases[i], false))
            settings_fault(s, FORAY_EUNSUPPORTED, biases[i], "is true; foray runs this architecture without");
    static const char *const caps[] = { "attn_logit_softcapping", "final_logit_softcapping" };
    for (int i = 0; i < 2; i++)
        if (settings_float(s, caps[i], 0, 1e6, 0) != 0)
            settings_fault(s, FORAY_EUNSUPPORTED, caps[i], "soft-capping is not supported");
    if (settings_bool(s, "use_bidirectional_attention", false))
        settings_fault(s, FORAY_EUNSUPPORTED, "use_bidirectional_attention",
                       "is true; foray generates text, left to right");
    if (settings_has(s, "quantization_config"))
        settings_fault(s, FORAY_EUNSUPPORTED, "quantization_config",
                       "weights of this kind are not supported (use the original "
                       "model, or a GGUF file)");
}

/* generation_config.json's ids win over config.json's; each is one id or a list. */
static void read_end_ids(settings *s, model_config *c)
{
    const char *key = settings_has(s, "generation.eos_token_id") ? "generation.eos_token_id" : "eos_token_id";
    size_t count = 0;
    bool list = model_file_array(s->f, key, &count);
    if (!list)
        count = settings_has(s, key) ? 1 : 0;
    if (count > MODEL_MAX_END_IDS)
        settings_fault(s, FORAY_ELIMIT, key, "has %zu ids; the limit is %d", count, MODEL_MAX_END_IDS);
    for (size_t i = 0; i < count && s->rc == 0; i++) {
        int64_t id = -1;
        if (!(list ? model_file_array_int(s->f, key, i, &id) : model_file_int(s->f, key, &id)) || id < 0 ||
            id >= c->vocab)
            settings_fault(s, FORAY_EFILE, key, "element %zu is not a token id below %d", i, c->vocab);
        else
            c->end_ids[c->end_count++] = (int32_t)id;
    }
}

int config_hf_read(const model_file *f, model_config *c, foray_error *err)
{
    settings s = { .f = f, .prefix = "", .err = err };
    read_arch(&s, c);
    if (s.rc < 0)
        return s.rc;
    c->arch_name = model_arch_name(c->arch);
    read_sizes(&s, c);
    read_rope(&s, c);
    read_windows(&s, c);
    read_features(&s, c);
    read_end_ids(&s, c);
    if (!model_file_string(f, "tokenizer.chat_template", &c->chat_template, &c->chat_template_bytes))
        c->chat_template = NULL;

    const char *path = model_file_path(f);
    size_t end = strlen(path), start;
    while (end > 1 && path[end - 1] == '/')
        end--;
    for (start = end; start > 0 && path[start - 1] != '/'; start--)
        ;
    snprintf(c->name, sizeof c->name, "%.*s", (int)(end - start), path + start);
    return s.rc;
}
