/* config_gguf.c: what the keys of GGUF files mean for each family. Keys are `<architecture>.KEY`; the defaults are
 * those of the format's own description. Mistral models are stored under `llama`. Facts about the weights
 * (tied output, biases, llama3's divisors) are read off the tensors, since no key says them.
 * Threads: any.
 */
#include "model/config_gguf.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "model/precise.h"
#include "model/settings.h"

static bool find_arch(const char *name, model_arch *out)
{
    for (int a = 0; a < MODEL_ARCH_COUNT; a++) {
        if (a != MODEL_MISTRAL && strcmp(name, model_arch_name((model_arch)a)) == 0) {
            *out = (model_arch)a;
            return true;
        }
    }
    return false;
}

static void read_sizes(settings *s, model_config *c)
{
    c->layers = (int)settings_int(s, "block_count", 1, MODEL_MAX_LAYERS, SETTING_REQUIRED);
    c->context = (int)settings_int(s, "context_length", 1, MODEL_MAX_CONTEXT, SETTING_REQUIRED);
    c->dim = (int)settings_int(s, "embedding_length", 1, MODEL_MAX_DIM, SETTING_REQUIRED);
    c->ffn = (int)settings_int(s, "feed_forward_length", 1, MODEL_MAX_FFN, SETTING_REQUIRED);
    c->heads = (int)settings_int(s, "attention.head_count", 1, MODEL_MAX_HEADS, SETTING_REQUIRED);
    c->kv_heads = (int)settings_int(s, "attention.head_count_kv", 1, MODEL_MAX_HEADS, c->heads);
    c->head_dim = (int)settings_int(s, "attention.key_length", 1, MODEL_MAX_HEAD_DIM, 0);
    int64_t value_dim = settings_int(s, "attention.value_length", 1, MODEL_MAX_HEAD_DIM, c->head_dim);
    if (value_dim != c->head_dim && settings_has(s, "attention.key_length"))
        settings_fault(s, FORAY_EUNSUPPORTED, "attention.value_length", "is %d, but keys have %d dimensions",
                       (int)value_dim, c->head_dim);
    c->rms_eps = (float)settings_float(s, "attention.layer_norm_rms_epsilon", 0, 1, NAN);
    if (settings_int(s, "expert_count", 0, INT32_MAX, 0) > 0)
        settings_fault(s, FORAY_EUNSUPPORTED, "expert_count",
                       "models with experts are not supported for this architecture");

    size_t tokens = 0;
    int64_t vocab = 0;
    if (model_file_array(s->f, "tokenizer.ggml.tokens", &tokens))
        vocab = tokens < MODEL_MAX_VOCAB ? (int64_t)tokens : MODEL_MAX_VOCAB + 1;
    c->vocab = (int)settings_int(s, "vocab_size", 1, MODEL_MAX_VOCAB, vocab > 0 ? vocab : SETTING_REQUIRED);
    if (s->rc == 0 && c->vocab > MODEL_MAX_VOCAB)
        settings_fault(s, FORAY_ELIMIT, "vocab_size", "%zu tokens; the limit is %d", tokens, MODEL_MAX_VOCAB);
}

/* rope_freqs.weight: one divisor per pair, how llama3 scaling is stored. */
static void read_rope_factors(settings *s, model_config *c)
{
    const tensor_view *v = model_file_tensor(s->f, "rope_freqs.weight");
    if (!v || s->rc < 0)
        return;
    int pairs = c->rope_dim / 2;
    if (v->type != DTYPE_F32 || v->dims != 1 || v->shape[0] != pairs) {
        s->rc = fail(s->err, FORAY_EFILE, "%s: tensor rope_freqs.weight: expected F32 [%d]", v->file, pairs);
        return;
    }
    if (c->rope.kind != ROPE_PLAIN) {
        s->rc = fail(s->err, FORAY_EUNSUPPORTED,
                     "%s: tensor rope_freqs.weight: together with another kind of rope scaling", v->file);
        return;
    }
    dtype_to_f32(DTYPE_F32, v->data, (size_t)pairs, c->rope.pair);
    for (int i = 0; i < pairs; i++)
        if (!(c->rope.pair[i] >= 1e-3f && c->rope.pair[i] <= 1e6f)) {
            s->rc = fail(s->err, FORAY_EFILE, "%s: tensor rope_freqs.weight: element %d is %g", v->file, i,
                         (double)c->rope.pair[i]);
            return;
        }
    c->rope.kind = ROPE_FACTORS;
}

static void read_rope(settings *s, model_config *c)
{
    char type[64];
    double usual = c->arch == MODEL_GEMMA3 ? 1e6 : 1e4;
    c->rope_dim =
        (int)settings_int(s, "rope.dimension_count", 2, MODEL_MAX_HEAD_DIM, 0); /* 0: head_dim, set later */
    c->rope_theta = settings_float(s, "rope.freq_base", 1, 1e12, usual);
    c->rope_theta_local = c->rope_theta;
    if (c->arch == MODEL_GEMMA3)
        c->rope_theta_local = settings_float(s, "rope.freq_base_swa", 1, 1e12, 1e4);

    double factor = settings_float(s, "rope.scale_linear", 1, 1e6, 1); /* the old name of scaling.factor */
    factor = settings_float(s, "rope.scaling.factor", 1, 1e6, factor);
    settings_text(s, "rope.scaling.type", type);
    c->rope.factor = factor;
    c->rope.attention_factor = 1;
    if (strcmp(type, "none") == 0 || (type[0] == 0 && factor == 1)) {
        c->rope.kind = ROPE_PLAIN;
    } else if (strcmp(type, "linear") == 0 || type[0] == 0) {
        c->rope.kind = ROPE_LINEAR;
    } else if (strcmp(type, "yarn") == 0) {
        c->rope.kind = ROPE_YARN;
        c->rope.original_context =
            settings_float(s, "rope.scaling.original_context_length", 1, MODEL_MAX_CONTEXT, NAN);
        c->rope.beta_fast = settings_float(s, "rope.scaling.yarn_beta_fast", 0.001, 1e6, 32);
        c->rope.beta_slow = settings_float(s, "rope.scaling.yarn_beta_slow", 0.001, 1e6, 1);
        double given = settings_float(s, "rope.scaling.attn_factor", 0, 1e3, 1);
        given = settings_float(s, "rope.scaling.yarn_attn_factor", 0, 1e3, given);
        c->rope.attention_factor = given * (1 + 0.1 * precise_log(factor));
        c->rope.truncate = true;
        if (settings_float(s, "rope.scaling.yarn_log_multiplier", -1e6, 1e6, 0) != 0)
            settings_fault(s, FORAY_EUNSUPPORTED, "rope.scaling.yarn_log_multiplier",
                           "is not supported for this architecture");
    } else {
        settings_fault(s, FORAY_EUNSUPPORTED, "rope.scaling.type", "is %s; foray knows none, linear and yarn",
                       type);
    }
}

/* Gemma 3: every sixth layer sees everything, unless a pattern (a period, or a flag per layer) says otherwise. */
static void read_windows(settings *s, model_config *c)
{
    static const char key[] = "gemma3.attention.sliding_window_pattern";
    bool gemma = c->arch == MODEL_GEMMA3;
    int window =
        (int)settings_int(s, "attention.sliding_window", 0, MODEL_MAX_CONTEXT, gemma ? SETTING_REQUIRED : 0);
    size_t flags = 0;
    bool per_layer = gemma && model_file_array(s->f, key, &flags);
    int period = !gemma || per_layer
                     ? 1
                     : (int)settings_int(s, "attention.sliding_window_pattern", 1, MODEL_MAX_LAYERS, 6);
    if (s->rc < 0 || window == 0)
        return;
    if (per_layer && flags < (size_t)c->layers) {
        settings_fault(s, FORAY_EFILE, "attention.sliding_window_pattern", "has %zu elements for %d layers",
                       flags, c->layers);
        return;
    }
    for (int l = 0; l < c->layers; l++) {
        bool local = !gemma || (l + 1) % period != 0;
        if (per_layer && !model_file_array_bool(s->f, key, (size_t)l, &local))
            settings_fault(s, FORAY_EFILE, "attention.sliding_window_pattern",
                           "has type %s, expected array of bool", model_file_key_type(s->f, key));
        c->window[l] = local ? window : 0;
        c->rope_local[l] = gemma && local;
    }
}

static void read_features(settings *s, model_config *c)
{
    const model_file *f = s->f;
    bool gemma = c->arch == MODEL_GEMMA3;
    c->gate = gemma ? GATE_GELU_TANH : GATE_SILU;
    c->qk_norm = gemma || c->arch == MODEL_QWEN3;
    c->post_norms = gemma;
    c->qk_interleaved = c->arch == MODEL_LLAMA;
    c->tied = model_file_tensor(f, "output.weight") == NULL;
    c->qkv_bias = c->arch == MODEL_QWEN2;
    static const char *const biases[] = {
        "blk.0.attn_output.bias", "blk.0.ffn_gate.bias", "blk.0.ffn_up.bias",
        "blk.0.ffn_down.bias",    "output.bias",         "blk.0.attn_q.bias"
    };
    size_t refused = sizeof biases / sizeof biases[0] - (c->qkv_bias ? 1 : 0);
    for (size_t i = 0; i < refused && s->rc == 0; i++)
        if (model_file_tensor(f, biases[i]))
            s->rc = fail(s->err, FORAY_EUNSUPPORTED,
                         "%s: tensor %s: foray runs this architecture without such a bias",
                         model_file_path(f), biases[i]);
    if (settings_float(s, "attn_logit_softcapping", 0, 1e6, 0) != 0)
        settings_fault(s, FORAY_EUNSUPPORTED, "attn_logit_softcapping", "soft-capping is not supported");
    if (settings_float(s, "final_logit_softcapping", 0, 1e6, 0) != 0)
        settings_fault(s, FORAY_EUNSUPPORTED, "final_logit_softcapping", "soft-capping is not supported");
    c->attention_scale = (float)settings_float(s, "attention.scale", 0, 1e3, 0);
    /* The one Gemma 3 whose queries are not scaled by its head's size, known by its 62 layers only. */
    if (c->attention_scale == 0 && gemma && c->layers == 62 && c->heads > 0)
        c->attention_scale = (float)(1 / sqrt((double)c->dim / c->heads));
}

static void read_end_ids(settings *s, model_config *c)
{
    static const char *const keys[] = { "tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                        "tokenizer.ggml.eom_token_id" };
    s->prefix = "";
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        int64_t id = settings_int(s, keys[i], 0, c->vocab - 1, -1);
        bool known = id < 0;
        for (int k = 0; k < c->end_count; k++)
            known = known || c->end_ids[k] == id;
        if (!known)
            c->end_ids[c->end_count++] = (int32_t)id;
    }
}

int config_gguf_read(const model_file *f, model_config *c, foray_error *err)
{
    char arch[64], prefix[80];
    settings s = { .f = f, .prefix = "", .err = err };
    settings_text(&s, "general.architecture", arch);
    if (s.rc == 0 && arch[0] == 0)
        settings_fault(&s, FORAY_EFILE, "general.architecture", "is missing (damaged or incomplete model?)");
    if (s.rc == 0 && !find_arch(arch, &c->arch))
        settings_fault(&s, FORAY_EUNSUPPORTED, "general.architecture",
                       "%s is not a model that foray runs (%s)", arch, model_arch_names());
    if (s.rc < 0)
        return s.rc;
    c->arch_name = model_arch_name(c->arch);
    snprintf(prefix, sizeof prefix, "%s.", arch);
    s.prefix = prefix;
    read_sizes(&s, c);
    if (c->head_dim == 0 && c->heads > 0)
        c->head_dim = c->dim % c->heads == 0 ? c->dim / c->heads : -1;
    read_rope(&s, c);
    if (c->rope_dim == 0)
        c->rope_dim = c->head_dim;
    if (c->rope_dim <= MODEL_MAX_HEAD_DIM)
        read_rope_factors(&s, c);
    read_windows(&s, c);
    read_features(&s, c);
    read_end_ids(&s, c);
    s.prefix = "";
    settings_text(&s, "general.name", c->name);
    if (c->name[0] == 0)
        snprintf(c->name, sizeof c->name, "%s", c->arch_name);
    if (!model_file_string(f, "tokenizer.chat_template", &c->chat_template, &c->chat_template_bytes))
        c->chat_template = NULL;
    return s.rc;
}
