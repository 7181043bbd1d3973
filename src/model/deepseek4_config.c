/* deepseek4_config.c: three spellings of the same settings (a folder's config.json as published, the one of the reference
 * code beside it, GGUF keys) are read through one table, and what must fit together is checked over the result.
 *
 * Reading goes on after a fault, so that one error lists everything. What tensors say better than keys (drafter, end of
 * the trunk, layers routed by token id, kinds of weights) comes from deepseek4_look.
 * Threads: any.
 */
#include "model/deepseek4_config.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "kernel/args_experts.h"
#include "kernel/args_hyper.h"
#include "model/deepseek4_faults.h"
#include "model/deepseek4_look.h"
#include "model/precise.h"

enum { MAX_RATIO = 4096, NEEDED = -1, KEY_BYTES = 128 };

typedef struct {
    const model_file *f;
    deepseek4_config *c;
    deepseek4_contents contents;
    fault_list faults;
} reader;

/* The spellings of one setting: a folder's, separated by '|', and GGUF's behind "deepseek4.". */
typedef struct {
    const char *hf, *gguf;
} spelling;

/* Writes the first spelling that the file has; or, returning false, the usual one, for messages. */
static bool find_key(const reader *r, spelling s, char out[KEY_BYTES])
{
    if (r->c->kind == MODEL_FILE_GGUF) {
        snprintf(out, KEY_BYTES, "deepseek4.%s", s.gguf ? s.gguf : "");
        return s.gguf && model_file_key_type(r->f, out);
    }
    for (const char *p = s.hf; p; p = strchr(p, '|') ? strchr(p, '|') + 1 : NULL) {
        snprintf(out, KEY_BYTES, "%.*s", (int)strcspn(p, "|"), p);
        if (model_file_key_type(r->f, out))
            return true;
    }
    snprintf(out, KEY_BYTES, "%.*s", (int)strcspn(s.hf ? s.hf : "", "|"), s.hf ? s.hf : "");
    return false;
}

static void wrong_type(reader *r, const char *key, const char *wanted)
{
    faults_wrong(&r->faults, FORAY_EFILE, "%s has type %s, expected %s", key, model_file_key_type(r->f, key),
                 wanted);
}

/* A single number, or an array with one value per layer, all of them the same. */
static bool read_number(const model_file *f, const char *key, double *out)
{
    size_t count = 0;
    if (model_file_float(f, key, out))
        return true;
    if (!model_file_array(f, key, &count) || count == 0 || !model_file_array_float(f, key, 0, out))
        return false;
    for (size_t i = 1; i < count; i++) {
        double other = 0;
        if (!model_file_array_float(f, key, i, &other) || other != *out)
            return false;
    }
    return true;
}

/* usual NEEDED: absent is a fault. Returns 0 where there was one. */
static int read_int(reader *r, spelling s, int low, int high, int usual)
{
    char key[KEY_BYTES];
    double x = 0;
    if (!find_key(r, s, key)) {
        if (usual == NEEDED)
            faults_missing(&r->faults, key);
        return usual == NEEDED ? 0 : usual;
    }
    if (!read_number(r->f, key, &x) || x != floor(x)) {
        wrong_type(r, key, "a whole number, the same for every layer");
        return 0;
    }
    if (!(x >= low && x <= high)) {
        faults_wrong(&r->faults, FORAY_EFILE, "%s is %g; %d to %d are possible", key, x, low, high);
        return 0;
    }
    return (int)x;
}

/* usual NaN: needed. */
static double read_float(reader *r, spelling s, double low, double high, double usual)
{
    char key[KEY_BYTES];
    double x = 0;
    if (!find_key(r, s, key)) {
        if (isnan(usual))
            faults_missing(&r->faults, key);
        return usual;
    }
    if (!read_number(r->f, key, &x)) {
        wrong_type(r, key, "a number, the same for every layer");
        return usual;
    }
    if (!(x >= low && x <= high)) { /* a NaN too */
        faults_wrong(&r->faults, FORAY_EFILE, "%s is %g; %g to %g are possible", key, x, low, high);
        return usual;
    }
    return x;
}

/* Sizes ------------------------------------------------------------------------------------------- */

static const struct {
    spelling key;
    size_t at; /* in deepseek4_config, an int */
    int low, high, usual;
} sizes[] = {
#define AT(member) offsetof(deepseek4_config, member)
    { { "hidden_size|dim", "embedding_length" }, AT(dim), 2, MODEL_MAX_DIM, NEEDED },
    { { "hc_mult", "hyper_connection.count" }, AT(streams), 1, HYPER_MAX_STREAMS, 4 },
    { { "hc_sinkhorn_iters", "hyper_connection.sinkhorn_iterations" }, AT(sinkhorn), 1, 1000, 20 },
    { { "num_attention_heads|n_heads", "attention.head_count" }, AT(heads), 1, MODEL_MAX_HEADS, NEEDED },
    { { "head_dim", "attention.key_length" }, AT(head_dim), 2, MODEL_MAX_HEAD_DIM, NEEDED },
    { { "q_lora_rank", "attention.q_lora_rank" }, AT(q_rank), 1, MODEL_MAX_DIM, NEEDED },
    { { "o_groups", "attention.output_group_count" }, AT(groups), 1, MODEL_MAX_HEADS, NEEDED },
    { { "o_lora_rank", "attention.output_lora_rank" }, AT(o_rank), 1, MODEL_MAX_DIM, NEEDED },
    { { "sliding_window|window_size", "attention.sliding_window" }, AT(window), 1, MODEL_MAX_CONTEXT, 128 },
    { { "n_routed_experts", "expert_count" }, AT(experts), 1, EXPERTS_MAX, NEEDED },
    { { "num_experts_per_tok|n_activated_experts", "expert_used_count" },
      AT(chosen),
      1,
      EXPERTS_MAX_CHOSEN,
      NEEDED },
    { { "moe_intermediate_size|moe_inter_dim", "expert_feed_forward_length" },
      AT(ffn),
      1,
      MODEL_MAX_FFN,
      NEEDED },
#undef AT
};

/* The number of entries in a GGUF file's vocabulary stands in for the key. */
static void read_vocab(reader *r)
{
    size_t tokens = 0;
    int usual = NEEDED;
    if (model_file_array(r->f, "tokenizer.ggml.tokens", &tokens) && tokens > 0 && tokens <= MODEL_MAX_VOCAB)
        usual = (int)tokens;
    r->c->vocab = read_int(r, (spelling) { "vocab_size", "vocab_size" }, 1, MODEL_MAX_VOCAB, usual);
}

static void read_sizes(reader *r)
{
    deepseek4_config *c = r->c;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        int n = read_int(r, sizes[i].key, sizes[i].low, sizes[i].high, sizes[i].usual);
        memcpy((char *)c + sizes[i].at, &n, sizeof n);
    }
    read_vocab(r);

    bool indexed = false;
    for (int i = 0; i < c->layers; i++)
        indexed = indexed || c->ratio[i] == 4;
    int usual = indexed ? NEEDED : 0;
    c->index_heads = read_int(r, (spelling) { "index_n_heads", "attention.indexer.head_count" }, 1,
                              MODEL_MAX_HEADS, usual);
    c->index_dim = read_int(r, (spelling) { "index_head_dim", "attention.indexer.key_length" }, 1,
                            MODEL_MAX_HEAD_DIM, usual);
    c->index_top =
        read_int(r, (spelling) { "index_topk", "attention.indexer.top_k" }, 1, MODEL_MAX_CONTEXT, usual);

    /* Newer folders give a fraction of the head instead. */
    double part = read_float(r, (spelling) { "partial_rotary_factor", NULL }, 0, 1, 0);
    int rope = part > 0 ? (int)(c->head_dim * part + 0.5) : 64;
    c->rope_dim = read_int(r, (spelling) { "qk_rope_head_dim|rope_head_dim", "rope.dimension_count" }, 2,
                           MODEL_MAX_HEAD_DIM, rope);
    c->hash_layers = read_int(r, (spelling) { "num_hash_layers|n_hash_layers", "hash_layer_count" }, 0,
                              MODEL_MAX_LAYERS, r->contents.hash_layers);
}

/* Numbers ----------------------------------------------------------------------------------------- */

static void read_numbers(reader *r)
{
    deepseek4_config *c = r->c;
    c->route_scale = (float)read_float(
        r, (spelling) { "routed_scaling_factor|route_scale", "expert_weights_scale" }, 0, 1e6, NAN);
    c->rms_eps = (float)read_float(
        r, (spelling) { "rms_norm_eps|norm_eps", "attention.layer_norm_rms_epsilon" }, 0, 1, 1e-6);
    c->hyper_eps = (float)read_float(r, (spelling) { "hc_eps", "hyper_connection.epsilon" }, 0, 1, 1e-6);
    double limit = read_float(r, (spelling) { "swiglu_limit", "swiglu_clamp_exp" }, -1e30, 1e30, 10);
    double shared = read_float(r, (spelling) { NULL, "swiglu_clamp_shexp" }, -1e30, 1e30, limit);
    if (shared != limit)
        faults_wrong(
            &r->faults, FORAY_EUNSUPPORTED,
            "deepseek4.swiglu_clamp_shexp is %g, the routed experts' %g; foray runs them with one limit",
            shared, limit);
    c->swiglu_limit = limit > 0 ? (float)limit : 0;
}

/* The kind of rotary scaling: "" for none. */
static void read_scaling_kind(reader *r, char out[64])
{
    static const spelling key = {
        "rope_scaling.rope_type|rope_scaling.type|rope_parameters.compress.rope_type|rope_parameters.rope_"
        "type",
        "rope.scaling.type",
    };
    char name[KEY_BYTES];
    const char *text = "";
    size_t bytes = 0;
    out[0] = 0;
    if (find_key(r, key, name)) {
        if (!model_file_string(r->f, name, &text, &bytes))
            wrong_type(r, name, "text");
        snprintf(out, 64, "%.*s", (int)(bytes < 63 ? bytes : 63), text);
    } else if (read_float(r, (spelling) { "original_seq_len", NULL }, 0, MODEL_MAX_CONTEXT, 0) > 0) {
        snprintf(out, 64, "yarn"); /* the reference code's spelling: 0 turns it off */
    } else if (r->c->kind == MODEL_FILE_HF && model_file_key_type(r->f, "rope_scaling")) {
        faults_wrong(&r->faults, FORAY_EFILE, "rope_scaling says no type");
    }
    if (strcmp(out, "default") == 0 || strcmp(out, "none") == 0)
        out[0] = 0;
}

static void read_rope(reader *r)
{
    deepseek4_config *c = r->c;
    char kind[64];
    c->theta = read_float(r, (spelling) { "rope_theta|rope_parameters.main.rope_theta", "rope.freq_base" }, 1,
                          1e12, 1e4);
    c->compress_theta = read_float(r,
                                   (spelling) { "compress_rope_theta|rope_parameters.compress.rope_theta",
                                                "attention.compress_rope_freq_base" },
                                   1.001, 1e12, 160000);
    read_scaling_kind(r, kind);
    c->yarn = kind[0] != 0;
    if (c->yarn && strcmp(kind, "yarn") != 0)
        faults_wrong(&r->faults, FORAY_EUNSUPPORTED, "rope scaling of type %s; this family has yarn or none",
                     kind);
    if (!c->yarn || strcmp(kind, "yarn") != 0)
        return;
    static const spelling factor = {
        "rope_scaling.factor|rope_factor|rope_parameters.compress.factor|rope_parameters.factor",
        "rope.scaling.factor"
    };
    static const spelling original = { "rope_scaling.original_max_position_embeddings|original_seq_len|"
                                       "rope_parameters.compress.original_max_position_embeddings|"
                                       "rope_parameters.original_max_position_embeddings",
                                       "rope.scaling.original_context_length" };
    static const spelling fast = { "rope_scaling.beta_fast|beta_fast|rope_parameters.compress.beta_fast|"
                                   "rope_parameters.beta_fast",
                                   "rope.scaling.yarn_beta_fast" };
    static const spelling slow = { "rope_scaling.beta_slow|beta_slow|rope_parameters.compress.beta_slow|"
                                   "rope_parameters.beta_slow",
                                   "rope.scaling.yarn_beta_slow" };
    c->yarn_factor = read_float(r, factor, 1, 1e6, NAN);
    c->yarn_original = read_float(r, original, 1, MODEL_MAX_CONTEXT, NAN);
    c->yarn_beta_fast = read_float(r, fast, 0.001, 1e6, 32);
    c->yarn_beta_slow = read_float(r, slow, 0.001, 1e6, 1);
    if (c->yarn_beta_fast < c->yarn_beta_slow)
        faults_wrong(&r->faults, FORAY_EFILE, "YaRN's beta_fast is %g, below its beta_slow, %g",
                     c->yarn_beta_fast, c->yarn_beta_slow);
}

static void read_context(reader *r)
{
    deepseek4_config *c = r->c;
    double stretched = c->yarn ? c->yarn_factor * c->yarn_original : 0;
    /* The reference code's file gives no context but what YaRN stretches. */
    int usual = c->kind == MODEL_FILE_HF && stretched >= 1 && stretched <= MODEL_MAX_CONTEXT ? (int)stretched
                                                                                             : NEEDED;
    c->context = read_int(r, (spelling) { "max_position_embeddings|max_seq_len", "context_length" }, 1,
                          MODEL_MAX_CONTEXT, usual);
}

/* Layers ------------------------------------------------------------------------------------------ */

static void read_layers(reader *r)
{
    static const spelling key = { "num_hidden_layers|n_layers", "block_count" };
    const deepseek4_contents *t = &r->contents;
    deepseek4_config *c = r->c;
    char name[KEY_BYTES];
    int said = read_int(r, key, 1, MODEL_MAX_LAYERS, NEEDED);
    find_key(r, key, name);
    c->layers = said;
    if (said == 0)
        return;
    /* GGUF writers count the drafter's block among the blocks, or do not. */
    if (c->kind == MODEL_FILE_GGUF && t->drafter_at >= 1 && said == t->drafter_at + 1)
        c->layers = t->drafter_at;
    if (t->drafter_at >= 0 && t->drafter_at != c->layers)
        faults_wrong(&r->faults, FORAY_EFILE, "%s is %d, but the drafter is layer %d", name, said,
                     t->drafter_at);
    else if (t->layers > c->layers)
        faults_wrong(&r->faults, FORAY_EFILE, "%s is %d, but there are tensors of %d layers", name, said,
                     t->layers);
}

/* A list of kinds of layers, as newer folders have it, instead of one of ratios. */
static bool ratio_of_kind(reader *r, const char *text, size_t bytes, int64_t *out)
{
    static const struct {
        const char *kind, *key;
        int usual;
    } kinds[] = {
        { "sliding_attention", NULL, 0 },
        { "compressed_sparse_attention", "compress_rates.compressed_sparse_attention", 4 },
        { "heavily_compressed_attention", "compress_rates.heavily_compressed_attention", 128 },
    };
    for (int i = 0; i < 3; i++) {
        if (strlen(kinds[i].kind) != bytes || memcmp(kinds[i].kind, text, bytes) != 0)
            continue;
        *out =
            kinds[i].key ? read_int(r, (spelling) { kinds[i].key, NULL }, 1, MAX_RATIO, kinds[i].usual) : 0;
        return true;
    }
    return false;
}

static void read_ratios(reader *r)
{
    static const spelling ratios = { "compress_ratios|layer_types", "attention.compress_ratios" };
    deepseek4_config *c = r->c;
    char key[KEY_BYTES];
    size_t count = 0;
    if (!find_key(r, ratios, key)) {
        faults_missing(&r->faults, key);
        return;
    }
    if (!model_file_array(r->f, key, &count)) {
        wrong_type(r, key, "a list with one ratio per layer");
        return;
    }
    bool kinds = strcmp(key, "layer_types") == 0;
    size_t least = (size_t)c->layers + (kinds || c->kind == MODEL_FILE_GGUF ? 0 : (size_t)c->drafter_stages);
    if (count < least)
        faults_wrong(&r->faults, FORAY_EFILE, "%s has %zu entries for %d layers and %d of the drafter", key,
                     count, c->layers, c->drafter_stages);
    for (size_t i = 0; i < count; i++) {
        int64_t n = -1;
        const char *text;
        size_t bytes;
        bool known =
            kinds ? model_file_array_string(r->f, key, i, &text, &bytes) && ratio_of_kind(r, text, bytes, &n)
                  : model_file_array_int(r->f, key, i, &n);
        bool trunk = i < (size_t)c->layers;
        if (!known || n < 0 || n > (trunk ? MAX_RATIO : 0)) {
            faults_wrong(&r->faults, FORAY_EFILE, "%s[%zu] is not a ratio%s", key, i,
                         trunk ? " from 0 to 4096" : ": behind the trunk's layers only 0 is possible");
            return; /* the others are likely as wrong */
        }
        if (trunk)
            c->ratio[i] = (int)n;
    }
}

/* What must be so ---------------------------------------------------------------------------------- */

/* Settings that the family's arithmetic has one value for; absent is that value. */
static const struct {
    spelling key;
    enum { IS_TEXT, IS_NUMBER, IS_BOOL } kind;
    const char *text;
    int number; /* bool: 0, 1 */
} fixed[] = {
    { { "num_key_value_heads", "attention.head_count_kv" }, IS_NUMBER, NULL, 1 },
    { { "n_shared_experts", "expert_shared_count" }, IS_NUMBER, NULL, 1 },
    { { "scoring_func|score_func", NULL }, IS_TEXT, "sqrtsoftplus", 0 },
    { { NULL, "expert_gating_func" }, IS_NUMBER, NULL, 4 },
    { { "topk_method", NULL }, IS_TEXT, "noaux_tc", 0 },
    { { "norm_topk_prob", "expert_weights_norm" }, IS_BOOL, NULL, 1 },
    { { "hidden_act", NULL }, IS_TEXT, "silu", 0 },
    { { "attention_bias", NULL }, IS_BOOL, NULL, 0 },
    { { "mlp_bias", NULL }, IS_BOOL, NULL, 0 },
    { { "quantization_config.quant_method", NULL }, IS_TEXT, "fp8", 0 },
    { { "quantization_config.fmt", NULL }, IS_TEXT, "e4m3", 0 },
    { { "quantization_config.scale_fmt|scale_fmt", NULL }, IS_TEXT, "ue8m0", 0 },
};

static void check_fixed(reader *r)
{
    for (size_t i = 0; i < sizeof fixed / sizeof fixed[0]; i++) {
        char key[KEY_BYTES];
        const char *text = "";
        size_t bytes = 0;
        double x = 0;
        bool flag = false;
        if (!find_key(r, fixed[i].key, key))
            continue;
        if (fixed[i].kind == IS_TEXT) {
            if (!model_file_string(r->f, key, &text, &bytes))
                wrong_type(r, key, "text");
            else if (strlen(fixed[i].text) != bytes || memcmp(fixed[i].text, text, bytes) != 0)
                faults_wrong(&r->faults, FORAY_EUNSUPPORTED, "%s is %.*s; foray runs %s", key,
                             (int)(bytes < 40 ? bytes : 40), text, fixed[i].text);
        } else if (fixed[i].kind == IS_NUMBER) {
            if (!read_number(r->f, key, &x))
                wrong_type(r, key, "a number, the same for every layer");
            else if (x != fixed[i].number)
                faults_wrong(&r->faults, FORAY_EUNSUPPORTED, "%s is %g; foray runs %d", key, x,
                             fixed[i].number);
        } else {
            if (!model_file_bool(r->f, key, &flag))
                wrong_type(r, key, "true or false");
            else if (flag != (fixed[i].number != 0))
                faults_wrong(&r->faults, FORAY_EUNSUPPORTED, "%s is %s; foray runs %s", key,
                             flag ? "true" : "false", flag ? "false" : "true");
        }
    }
    static const char block[] = "quantization_config.weight_block_size";
    size_t count;
    for (size_t i = 0; i < 2 && model_file_array(r->f, block, &count); i++) {
        int64_t n = 0;
        if (count != 2 || !model_file_array_int(r->f, block, i, &n) || n != 128) {
            faults_wrong(&r->faults, FORAY_EUNSUPPORTED, "%s is not [128, 128]", block);
            break;
        }
    }
}

/* Routing in groups, and values of another width than keys: GGUF keys that other families use. */
static void check_gguf(reader *r)
{
    if (r->c->kind != MODEL_FILE_GGUF)
        return;
    int value =
        read_int(r, (spelling) { NULL, "attention.value_length" }, 1, MODEL_MAX_HEAD_DIM, r->c->head_dim);
    if (value != r->c->head_dim)
        faults_wrong(&r->faults, FORAY_EUNSUPPORTED, "deepseek4.attention.value_length is %d, of keys %d",
                     value, r->c->head_dim);
    if (read_int(r, (spelling) { NULL, "expert_group_count" }, 0, EXPERTS_MAX, 0) > 1)
        faults_wrong(&r->faults, FORAY_EUNSUPPORTED,
                     "deepseek4.expert_group_count: foray does not route in groups");
}

/* Relations between settings; those whose own reading failed are 0 and left out. */
static void check_relations(reader *r)
{
    const deepseek4_config *c = r->c;
    fault_list *w = &r->faults;
    if (c->groups > 0 && c->heads % c->groups != 0)
        faults_wrong(w, FORAY_EFILE, "%d heads do not divide into %d output groups", c->heads, c->groups);
    if (c->head_dim > 0 && c->rope_dim > c->head_dim)
        faults_wrong(w, FORAY_EFILE, "heads of %d channels cannot rotate %d", c->head_dim, c->rope_dim);
    if (c->rope_dim % 2 != 0)
        faults_wrong(w, FORAY_EFILE, "%d rotated channels are not pairs", c->rope_dim);
    if (c->rounding == DEEPSEEK4_ROUND_FP8_FP4 && c->head_dim >= c->rope_dim &&
        (c->head_dim - c->rope_dim) % 64 != 0)
        faults_wrong(w, FORAY_EFILE,
                     "%d channels that are not rotated (head size less rotated ones) are not groups of 64",
                     c->head_dim - c->rope_dim);
    if (c->index_dim > 0 &&
        ((c->index_dim & (c->index_dim - 1)) != 0 || c->index_dim < 32 || c->index_dim < c->rope_dim))
        faults_wrong(
            w, FORAY_EFILE,
            "index heads of %d: a power of two, at least 32 and the %d rotated channels, is possible",
            c->index_dim, c->rope_dim);
    if (c->experts > 0 && c->chosen > c->experts)
        faults_wrong(w, FORAY_EFILE, "%d experts per token out of %d", c->chosen, c->experts);
    if (c->hash_layers > c->layers)
        faults_wrong(w, FORAY_EFILE, "%d layers of %d route by token id", c->hash_layers, c->layers);
    else if (c->hash_layers != r->contents.hash_layers)
        faults_wrong(w, FORAY_EFILE,
                     "%d layers are to route by token id, but %d have a table (tid2eid) for it",
                     c->hash_layers, r->contents.hash_layers);
}

/* What tensors say -------------------------------------------------------------------------------- */

/* Layers whose ratio says that nothing is compressed must have nothing to compress with: the other way round, tensors are
 * missing. */
static void check_ratios(reader *r)
{
    for (int i = 0; i < r->c->layers; i++)
        if (r->c->ratio[i] == 0 && r->contents.compressed[i])
            faults_wrong(&r->faults, FORAY_EFILE, "layer %d has a compressor, but its ratio is 0", i);
}

/* Formats are those of the tensors. A setting that speaks of another quantisation was made for other files; one that speaks of
 * some where there is none is a left-over of a conversion. */
static void check_formats(reader *r)
{
    const deepseek4_contents *t = &r->contents;
    const char *path = model_file_path(r->f), *text, *type = dtype_get(t->experts)->name;
    size_t bytes;
    if (r->c->kind == MODEL_FILE_GGUF || model_file_described(r->f))
        return;
    if (model_file_key_type(r->f, "quantization_config.quant_method") && !t->fp8)
        log_info("%s: quantization_config has no effect: no tensor is FP8 or FP4", path);
    if (!model_file_key_type(r->f, "expert_dtype") || t->experts == DTYPE_UNKNOWN)
        return;
    if (!model_file_string(r->f, "expert_dtype", &text, &bytes)) {
        wrong_type(r, "expert_dtype", "text");
        return;
    }
    bool fp4 = bytes == 3 && memcmp(text, "fp4", 3) == 0, fp8 = bytes == 3 && memcmp(text, "fp8", 3) == 0;
    bool are_fp8 = t->experts == DTYPE_F8_E4M3;
    bool are_fp4 = t->experts == DTYPE_F4_E2M1 || t->experts == DTYPE_I8 || t->experts == DTYPE_U8;
    if (!fp4 && !fp8)
        faults_wrong(&r->faults, FORAY_EUNSUPPORTED, "expert_dtype is %.*s; foray runs fp4 and fp8",
                     (int)(bytes < 40 ? bytes : 40), text);
    else if ((fp4 && are_fp8) || (fp8 && are_fp4))
        faults_wrong(&r->faults, FORAY_EFILE, "expert_dtype is %.3s, but the experts' tensors are %s (%s)",
                     text, are_fp8 ? "fp8" : "fp4", type);
    else if (!are_fp4 && !are_fp8)
        log_info("%s: expert_dtype %.3s has no effect: the experts are %s", path, text, type);
}

/* The drafter is what its tensors are. */
static void check_drafter(reader *r)
{
    static const spelling announced = { "num_nextn_predict_layers|n_mtp_layers", "nextn_predict_layers" };
    char key[KEY_BYTES];
    int stages = r->c->drafter_stages, said = read_int(r, announced, 0, MODEL_MAX_LAYERS, stages);
    if (said == stages || r->c->drafter == DEEPSEEK4_DSPARK || !find_key(r, announced, key))
        return; /* published files with three stages of DSpark announce one layer */
    if (stages > 0)
        log_info("%s: %s is %d; what drafts is the NextN layer that the files have", model_file_path(r->f),
                 key, said);
    else
        log_info("%s: %s is %d, but the files have no tensors of a NextN layer: it cannot draft",
                 model_file_path(r->f), key, said);
}

/* Ends and names ------------------------------------------------------------------------------------ */

static void add_end(reader *r, const char *key, bool valid, int64_t id)
{
    deepseek4_config *c = r->c;
    if (!valid || id < 0 || id >= c->vocab) {
        faults_wrong(&r->faults, FORAY_EFILE, "%s is not a token id below %d", key, c->vocab);
        return;
    }
    for (int i = 0; i < c->end_count; i++)
        if (c->end_ids[i] == id)
            return;
    if (c->end_count < MODEL_MAX_END_IDS)
        c->end_ids[c->end_count++] = (int32_t)id;
    else
        faults_wrong(&r->faults, FORAY_EFILE, "%s has more than %d ids", key, MODEL_MAX_END_IDS);
}

/* generation_config.json's ids win over config.json's; each is one id or a list. GGUF files name several kinds of end. */
static void read_end_ids(reader *r)
{
    static const char *const gguf[] = { "tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                        "tokenizer.ggml.eom_token_id" };
    size_t count = 0;
    int64_t id = -1;
    if (r->c->vocab == 0)
        return;
    for (size_t i = 0; r->c->kind == MODEL_FILE_GGUF && i < sizeof gguf / sizeof gguf[0]; i++)
        if (model_file_key_type(r->f, gguf[i])) {
            bool valid = model_file_int(r->f, gguf[i], &id);
            add_end(r, gguf[i], valid, id);
        }
    const char *key =
        model_file_key_type(r->f, "generation.eos_token_id") ? "generation.eos_token_id" : "eos_token_id";
    if (r->c->kind == MODEL_FILE_GGUF || !model_file_key_type(r->f, key))
        return;
    if (!model_file_array(r->f, key, &count)) {
        bool valid = model_file_int(r->f, key, &id);
        add_end(r, key, valid, id);
    }
    for (size_t i = 0; i < count && r->faults.wrong_count == 0; i++) {
        bool valid = model_file_array_int(r->f, key, i, &id);
        add_end(r, key, valid, id);
    }
}

static void read_name(reader *r)
{
    deepseek4_config *c = r->c;
    const char *text;
    size_t bytes;
    if (c->kind == MODEL_FILE_GGUF) {
        if (model_file_string(r->f, "general.name", &text, &bytes) && bytes > 0)
            snprintf(c->name, sizeof c->name, "%.*s", (int)(bytes < 63 ? bytes : 63), text);
        else
            snprintf(c->name, sizeof c->name, "deepseek4");
        return;
    }
    const char *path = model_file_path(r->f);
    size_t end = strlen(path), start;
    while (end > 1 && path[end - 1] == '/')
        end--;
    for (start = end; start > 0 && path[start - 1] != '/'; start--)
        ;
    snprintf(c->name, sizeof c->name, "%.*s", (int)(end - start), path + start);
}

/* The family -------------------------------------------------------------------------------------- */

/* The name that the file gives its architecture; "" where it gives none. */
static void read_family(const model_file *f, char out[64])
{
    const char *key = model_file_get_kind(f) == MODEL_FILE_GGUF ? "general.architecture" : "model_type",
               *text;
    size_t bytes, count;
    bool found = model_file_string(f, key, &text, &bytes);
    if (!found && model_file_array(f, "architectures", &count))
        found = model_file_array_string(f, "architectures", 0, &text, &bytes);
    snprintf(out, 64, "%.*s", found ? (int)(bytes < 63 ? bytes : 63) : 0, found ? text : "");
}

static bool is_one_of(const char *name, const char *const *names)
{
    for (; *names; names++)
        if (strcmp(name, *names) == 0)
            return true;
    return false;
}

static const char *const ours[] = { "deepseek_v4", "DeepseekV4ForCausalLM", NULL };
static const char *const others[] = { "deepseek_v41", "DeepseekV41ForCausalLM", NULL };
static const char *const ours_gguf[] = { "deepseek4", NULL };
static const char *const others_gguf[] = { "deepseek41", "deepseek4_mtp_support", NULL };

/* The reference code's own config.json names no architecture: it is known by its keys. */
static bool is_reference_config(const model_file *f)
{
    return model_file_key_type(f, "n_layers") && model_file_key_type(f, "compress_ratios") &&
           model_file_key_type(f, "hc_mult");
}

static bool is_ours(const model_file *f, const char *family)
{
    if (model_file_get_kind(f) == MODEL_FILE_GGUF)
        return is_one_of(family, ours_gguf);
    return is_one_of(family, ours) || (family[0] == 0 && is_reference_config(f));
}

bool deepseek4_recognise(const model_file *f)
{
    char family[64];
    read_family(f, family);
    bool gguf = model_file_get_kind(f) == MODEL_FILE_GGUF;
    return is_ours(f, family) || is_one_of(family, gguf ? others_gguf : others);
}

int deepseek4_config_read(const model_file *f, deepseek4_config *out, foray_error *err)
{
    deepseek4_config c = { .kind = model_file_get_kind(f) };
    reader r = { .f = f, .c = &c };
    char family[64];
    read_family(f, family);
    if (!is_ours(f, family))
        return fail(err, FORAY_EUNSUPPORTED,
                    "%s: is of architecture %s, which is not DeepSeek-V4 (foray runs deepseek_v4 folders and "
                    "deepseek4 GGUF files)",
                    model_file_path(f), family);
    r.contents = deepseek4_look(f);
    c.drafter = r.contents.drafter;
    c.drafter_stages = r.contents.stages;
    c.rounding = c.kind == MODEL_FILE_GGUF ? DEEPSEEK4_ROUND_NOTHING
                 : r.contents.int8         ? DEEPSEEK4_ROUND_INT8
                 : r.contents.fp8          ? DEEPSEEK4_ROUND_FP8_FP4
                                           : DEEPSEEK4_ROUND_NOTHING;
    read_layers(&r);
    read_ratios(&r);
    read_sizes(&r);
    read_numbers(&r);
    read_rope(&r);
    read_context(&r);
    check_fixed(&r);
    check_gguf(&r);
    check_relations(&r);
    check_ratios(&r);
    check_formats(&r);
    check_drafter(&r);
    read_end_ids(&r);
    read_name(&r);
    if (c.kind == MODEL_FILE_GGUF)
        c.tied = model_file_tensor(f, "output.weight") == NULL;
    else
        model_file_bool(f, "tie_word_embeddings", &c.tied);
    int rc = faults_report(&r.faults, model_file_path(f), "config", "is it complete and of this model?", err);
    if (rc == 0)
        *out = c;
    return rc;
}

/* Rotary frequencies ------------------------------------------------------------------------------ */

/* YaRN: the pair that turns `rotations` times within the original context, as a fraction of an index. */
static double yarn_pair(const deepseek4_config *c, double rotations)
{
    static const double TWO_PI = 6.283185307179586;
    return c->rope_dim * precise_log(c->yarn_original / (rotations * TWO_PI)) /
           (2 * precise_log(c->compress_theta));
}

void deepseek4_frequencies(const deepseek4_config *c, bool compressed, float *out)
{
    double theta = compressed ? c->compress_theta : c->theta, low = 0, high = 0;
    bool yarn = compressed && c->yarn;
    if (yarn) {
        low = fmax(floor(yarn_pair(c, c->yarn_beta_fast)), 0);
        high = fmin(ceil(yarn_pair(c, c->yarn_beta_slow)), c->rope_dim - 1);
        if (low == high) /* a short original context: the reference's guard */
            high += 0.001;
    }
    for (int i = 0; i < c->rope_dim / 2; i++) {
        double f = precise_pow(theta, -2.0 * i / c->rope_dim);
        double ramp = yarn ? fmin(fmax((i - low) / (high - low), 0), 1) : 0;
        out[i] = (float)(yarn ? f / c->yarn_factor * ramp + f * (1 - ramp) : f);
    }
}
