/* Tests of model/deepseek4_config: three spellings give one config; whatever is missing, wrong or contradictory is said at
 * once; what the tensors say wins over keys that lie; rotary frequencies are the reference's.
 */
#include "model/deepseek4_config.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "support/tiny.h"
#include "support/tiny_v4.h"

#include <cmocka.h> /* last: base/error.h has a fail() too */

/* ---- files to read ---- */

static void write_text(const char *path, const char *text, size_t bytes)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, bytes, f), bytes);
    assert_int_equal(fclose(f), 0);
}

static void read_text(const char *path, char **text, size_t *bytes)
{
    foray_error err;
    if (file_read(path, 64 << 20, text, bytes, &err) != 0)
        fail_msg("%s", err.text);
}

static const char *folder_of(deepseek4_drafter drafter)
{
    tiny_v4_spec spec = tiny_v4_small();
    spec.no_text = true;
    spec.drafter = drafter;
    return tiny_v4_model(&spec, TINY_V4_PLAIN);
}

/* Replaces text in a folder's config.json; it must be there. */
static void edit(const char *folder, const char *from, const char *to)
{
    const char *path = tiny_path(folder, "config.json");
    size_t bytes;
    char *text, edited[8192];
    read_text(path, &text, &bytes);
    const char *at = strstr(text, from);
    if (!at)
        fail_msg("%s is not in %s", from, text);
    int n = snprintf(edited, sizeof edited, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    assert_in_range(n, 1, sizeof edited - 1);
    mem_free(MEM_GENERAL, text, bytes + 1);
    write_text(path, edited, (size_t)n);
}

static int read_config(const char *path, deepseek4_config *c, foray_error *err)
{
    model_file *f;
    if (model_file_open(path, &f, err) != 0)
        fail_msg("%s", err->text);
    int rc = deepseek4_config_read(f, c, err);
    model_file_close(f);
    return rc;
}

static deepseek4_config config_of(const char *path)
{
    deepseek4_config c;
    foray_error err;
    if (read_config(path, &c, &err) != 0)
        fail_msg("%s", err.text);
    return c;
}

static void assert_says(const foray_error *err, const char *text)
{
    if (!strstr(err->text, text))
        fail_msg("\"%s\" is not in: %s", text, err->text);
}

/* All but the name. */
static void assert_same(deepseek4_config a, deepseek4_config b)
{
    memset(a.name, 0, sizeof a.name);
    memset(b.name, 0, sizeof b.name);
    a.kind = b.kind;
    assert_memory_equal(a.ratio, b.ratio, sizeof a.ratio);
    assert_true(a.rope_dim == b.rope_dim && a.context == b.context && a.hash_layers == b.hash_layers);
    assert_true(a.yarn == b.yarn && a.yarn_factor == b.yarn_factor && a.yarn_original == b.yarn_original);
    assert_memory_equal(&a, &b, sizeof a);
}

/* ---- what is read ---- */

static void the_settings_of_published_files_are_read(void **state)
{
    (void)state;
    static const int ratios[] = { 0, 4, 16, 4, 128, 4, 0 };
    deepseek4_config c = config_of(FORAY_TESTS "/golden/deepseek4/t0-quant");
    assert_string_equal(c.name, "t0-quant");
    assert_true(c.layers == 6 && c.vocab == 256 && c.dim == 128 && c.context == 512);
    assert_true(c.streams == 4 && c.sinkhorn == 20 && c.hyper_eps == 1e-6f && c.rms_eps == 1e-6f);
    assert_true(c.heads == 4 && c.head_dim == 128 && c.rope_dim == 64 && c.window == 8);
    assert_true(c.q_rank == 128 && c.groups == 2 && c.o_rank == 128);
    assert_memory_equal(c.ratio, ratios, sizeof ratios);
    assert_true(c.index_heads == 4 && c.index_dim == 128 && c.index_top == 3);
    assert_true(c.experts == 8 && c.chosen == 2 && c.ffn == 128 && c.hash_layers == 1);
    assert_true(c.route_scale == 1.5f && c.swiglu_limit == 1);
    assert_true(c.theta == 10000 && c.compress_theta == 160000 && c.yarn);
    assert_true(c.yarn_factor == 4 && c.yarn_original == 64 && c.yarn_beta_fast == 32 &&
                c.yarn_beta_slow == 1);
    assert_true(c.drafter == DEEPSEEK4_NEXTN && c.drafter_stages == 1 &&
                c.rounding == DEEPSEEK4_ROUND_FP8_FP4);
    assert_true(!c.tied && c.end_count == 1 && c.end_ids[0] == 1);
    assert_int_equal(config_of(FORAY_TESTS "/golden/deepseek4/t0-w8a8").rounding, DEEPSEEK4_ROUND_INT8);
    c = config_of(FORAY_TESTS "/golden/deepseek4/d0-plain");
    assert_true(c.rounding == DEEPSEEK4_ROUND_NOTHING && c.drafter == DEEPSEEK4_NO_DRAFTER &&
                c.hash_layers == 0);
}

/* The small model's settings as the reference code's own config.json has them. */
static const char reference_spelling[] =
    "{\"dim\":48,\"n_layers\":3,\"vocab_size\":512,\"max_seq_len\":512,\"n_heads\":6,\"head_dim\":80,"
    "\"rope_head_dim\":16,\"q_lora_rank\":40,\"o_groups\":3,\"o_lora_rank\":24,\"window_size\":6,"
    "\"index_n_heads\":2,\"index_head_dim\":32,\"index_topk\":3,\"n_routed_experts\":5,"
    "\"n_activated_experts\":3,\"n_shared_experts\":1,\"moe_inter_dim\":64,\"n_hash_layers\":1,"
    "\"score_func\":\"sqrtsoftplus\",\"route_scale\":1.5,\"swiglu_limit\":1.0,\"hc_mult\":4,"
    "\"hc_sinkhorn_iters\":20,\"hc_eps\":1e-6,\"norm_eps\":1e-6,\"rope_theta\":10000,"
    "\"compress_rope_theta\":160000,\"original_seq_len\":128,\"rope_factor\":4,\"beta_fast\":32,"
    "\"beta_slow\":1,\"compress_ratios\":[0,4,8,0],\"n_mtp_layers\":1,\"dtype\":\"fp8\","
    "\"scale_fmt\":\"ue8m0\",\"expert_dtype\":\"fp4\",\"eos_token_id\":2}";

/* And as newer versions of transformers write them. */
static const char newer_spelling[] =
    "{\"architectures\":[\"DeepseekV4ForCausalLM\"],\"model_type\":\"deepseek_v4\",\"hidden_size\":48,"
    "\"num_hidden_layers\":3,\"vocab_size\":512,\"max_position_embeddings\":512,\"num_attention_heads\":6,"
    "\"head_dim\":80,\"partial_rotary_factor\":0.2,\"q_lora_rank\":40,\"o_groups\":3,\"o_lora_rank\":24,"
    "\"sliding_window\":6,\"index_n_heads\":2,\"index_head_dim\":32,\"index_topk\":3,"
    "\"n_routed_experts\":5,\"num_experts_per_tok\":3,\"moe_intermediate_size\":64,"
    "\"mlp_layer_types\":[\"hash_moe\",\"moe\",\"moe\"],\"routed_scaling_factor\":1.5,"
    "\"swiglu_limit\":1.0,\"layer_types\":[\"sliding_attention\",\"compressed_sparse_attention\","
    "\"heavily_compressed_attention\"],\"compress_rates\":{\"compressed_sparse_attention\":4,"
    "\"heavily_compressed_attention\":8},\"rope_parameters\":{\"main\":{\"rope_type\":\"default\","
    "\"rope_theta\":10000.0},\"compress\":{\"rope_type\":\"yarn\",\"rope_theta\":160000.0,\"factor\":4,"
    "\"original_max_position_embeddings\":128,\"attention_factor\":1.0}},\"eos_token_id\":[2]}";

static void every_spelling_gives_the_same_config(void **state)
{
    (void)state;
    const char *folder = folder_of(DEEPSEEK4_NEXTN);
    deepseek4_config usual = config_of(folder);
    write_text(tiny_path(folder, "config.json"), reference_spelling, sizeof reference_spelling - 1);
    assert_same(usual, config_of(folder));
    write_text(tiny_path(folder, "config.json"), newer_spelling, sizeof newer_spelling - 1);
    assert_same(usual, config_of(folder));
    tiny_v4_spec spec = tiny_v4_small();
    assert_same(usual, config_of(tiny_v4_model(&spec, TINY_V4_GGUF)));
}

static void no_rope_scaling_means_no_yarn(void **state)
{
    (void)state;
    static const char *const ways[] = { "\"rope_scaling\":null", "\"rope_scaling\":{\"type\":\"default\"}",
                                        "\"x\":0" };
    float plain[8], compressed[8];
    for (int i = 0; i < 3; i++) {
        const char *folder = folder_of(DEEPSEEK4_NEXTN);
        edit(folder,
             "\"rope_scaling\":{\"type\":\"yarn\",\"factor\":4,\"original_max_position_embeddings\":128,"
             "\"beta_fast\":32,\"beta_slow\":1}",
             ways[i]);
        deepseek4_config c = config_of(folder);
        assert_false(c.yarn);
        deepseek4_frequencies(&c, false, plain);
        deepseek4_frequencies(&c, true, compressed);
        assert_true(plain[0] == 1 && compressed[0] == 1);
        assert_float_equal(compressed[7], pow(160000, -14.0 / 16), 1e-9f);
    }
}

static void end_ids_are_those_of_generation(void **state)
{
    (void)state;
    static const char ids[] = "{\"eos_token_id\":[1,7,1]}", far[] = "{\"eos_token_id\":512}";
    const char *folder = folder_of(DEEPSEEK4_NO_DRAFTER);
    foray_error err;
    deepseek4_config c;
    write_text(tiny_path(folder, "generation_config.json"), ids, sizeof ids - 1);
    c = config_of(folder);
    assert_true(c.end_count == 2 && c.end_ids[0] == 1 && c.end_ids[1] == 7);
    write_text(tiny_path(folder, "generation_config.json"), far, sizeof far - 1);
    assert_int_equal(read_config(folder, &c, &err), FORAY_EFILE);
    assert_says(&err, "generation.eos_token_id is not a token id below 512");
}

/* ---- what tensors say (cases.md S05) ---- */

static void the_drafter_is_told_by_its_tensors(void **state)
{
    (void)state;
    const char *folder = folder_of(DEEPSEEK4_DSPARK);
    deepseek4_config c = config_of(folder); /* which says one NextN layer, as published files do */
    assert_true(c.drafter == DEEPSEEK4_DSPARK && c.drafter_stages == 3);
    folder = folder_of(DEEPSEEK4_NEXTN);
    edit(folder, "\"num_nextn_predict_layers\":1", "\"num_nextn_predict_layers\":0");
    c = config_of(folder);
    assert_true(c.drafter == DEEPSEEK4_NEXTN && c.drafter_stages == 1);
    folder = folder_of(DEEPSEEK4_NO_DRAFTER);
    edit(folder, "\"num_nextn_predict_layers\":0", "\"num_nextn_predict_layers\":1");
    assert_int_equal(config_of(folder).drafter, DEEPSEEK4_NO_DRAFTER);
    /* One more entry of the ratios is there for a drafter that was left out. */
    edit(folder, "[0,4,8]", "[0,4,8,0]");
    assert_int_equal(config_of(folder).layers, 3);
}

/* ---- what is refused ---- */

static void every_fault_is_listed_at_once(void **state)
{
    (void)state;
    foray_error err;
    deepseek4_config c, before;
    const char *folder = folder_of(DEEPSEEK4_NEXTN);
    memset(&c, 0x5a, sizeof c);
    before = c;
    edit(folder, "\"q_lora_rank\":40,", "");
    edit(folder, "\"num_experts_per_tok\":3,", "");
    edit(folder, "\"routed_scaling_factor\":1.5,", "");
    edit(folder, "\"o_lora_rank\":24", "\"o_lora_rank\":\"wide\"");
    edit(folder, "\"sliding_window\":6", "\"sliding_window\":0");
    edit(folder, "\"o_groups\":3", "\"o_groups\":4");
    edit(folder, "\"num_key_value_heads\":1", "\"num_key_value_heads\":2");
    assert_int_equal(read_config(folder, &c, &err), FORAY_EFILE);
    assert_says(&err, "missing q_lora_rank, num_experts_per_tok, routed_scaling_factor; ");
    assert_says(&err, "o_lora_rank has type string, expected a whole number");
    assert_says(&err, "sliding_window is 0; 1 to 16777216 are possible");
    assert_says(&err, "num_key_value_heads is 2; foray runs 1");
    assert_says(&err, "6 heads do not divide into 4 output groups");
    assert_memory_equal(&c, &before, sizeof c);
}

/* One change of a good config.json each (cases.md S04, S06 among them). */
static const struct {
    const char *from, *to, *said;
    int code;
} faults[] = {
    { "[0,4,8,0]", "[0,4,8]", "compress_ratios has 3 entries for 3 layers and 1 of the drafter",
      FORAY_EFILE },
    { "[0,4,8,0]", "[0,4,8,4]", "compress_ratios[3] is not a ratio: behind the trunk's layers only 0",
      FORAY_EFILE },
    { "[0,4,8,0]", "[0,-4,8,0]", "compress_ratios[1] is not a ratio from 0 to 4096", FORAY_EFILE },
    { "[0,4,8,0]", "[0,4,1e9,0]", "compress_ratios[2] is not a ratio", FORAY_EFILE },
    { "[0,4,8,0]", "[0,0,8,0]", "layer 1 has a compressor, but its ratio is 0", FORAY_EFILE },
    { "[0,4,8,0]", "[0,0,0,0]",
      "layer 1 has a compressor, but its ratio is 0; layer 2 has a compressor, but its ratio is 0",
      FORAY_EFILE },
    { "[0,4,8,0]", "[0,4,8,0,2]", "compress_ratios[4] is not a ratio: behind the trunk's layers only 0",
      FORAY_EFILE },
    { "[0,4,8,0]", "[0,\"4\",8,0]", "compress_ratios[1] is not a ratio from 0 to 4096", FORAY_EFILE },
    { "[0,4,8,0]", "[0,4.5,8,0]", "compress_ratios[1] is not a ratio from 0 to 4096", FORAY_EFILE },
    { "[0,4,8,0]", "128", "compress_ratios has type integer, expected a list", FORAY_EFILE },
    { "\"num_hidden_layers\":3", "\"num_hidden_layers\":2",
      "num_hidden_layers is 2, but there are tensors of 3 layers", FORAY_EFILE },
    { "\"num_hidden_layers\":3", "\"num_hidden_layers\":1e99", "num_hidden_layers", FORAY_EFILE },
    { "\"num_hidden_layers\":3", "\"num_hidden_layers\":9223372036854775807",
      "num_hidden_layers is 9.22337e+18", FORAY_EFILE },
    { "\"head_dim\":80", "\"head_dim\":8", "heads of 8 channels cannot rotate 16", FORAY_EFILE },
    { "\"qk_rope_head_dim\":16", "\"qk_rope_head_dim\":15", "15 rotated channels are not pairs",
      FORAY_EFILE },
    { "\"index_head_dim\":32", "\"index_head_dim\":48", "index heads of 48: a power of two", FORAY_EFILE },
    { "\"index_head_dim\":32", "\"index_head_dim\":16", "index heads of 16: a power of two, at least 32",
      FORAY_EFILE },
    { "\"index_topk\":3,", "", "missing index_topk", FORAY_EFILE },
    { "\"num_experts_per_tok\":3", "\"num_experts_per_tok\":6", "6 experts per token out of 5", FORAY_EFILE },
    { "\"num_hash_layers\":1", "\"num_hash_layers\":2",
      "2 layers are to route by token id, but 1 have a table (tid2eid)", FORAY_EFILE },
    { "\"num_hash_layers\":1", "\"num_hash_layers\":4", "4 layers of 3 route by token id", FORAY_EFILE },
    { "\"sqrtsoftplus\"", "\"sigmoid\"", "scoring_func is sigmoid; foray runs sqrtsoftplus",
      FORAY_EUNSUPPORTED },
    { "\"noaux_tc\"", "\"greedy\"", "topk_method is greedy; foray runs noaux_tc", FORAY_EUNSUPPORTED },
    { "\"norm_topk_prob\":true", "\"norm_topk_prob\":false", "norm_topk_prob is false; foray runs true",
      FORAY_EUNSUPPORTED },
    { "\"silu\"", "\"gelu\"", "hidden_act is gelu; foray runs silu", FORAY_EUNSUPPORTED },
    { "\"attention_bias\":false", "\"attention_bias\":true", "attention_bias is true", FORAY_EUNSUPPORTED },
    { "\"n_shared_experts\":1", "\"n_shared_experts\":2", "n_shared_experts is 2", FORAY_EUNSUPPORTED },
    { "\"type\":\"yarn\"", "\"type\":\"linear\"", "rope scaling of type linear", FORAY_EUNSUPPORTED },
    { "\"type\":\"yarn\",", "", "rope_scaling says no type", FORAY_EFILE },
    { "\"factor\":4,", "", "missing rope_scaling.factor", FORAY_EFILE },
    { "\"beta_slow\":1", "\"beta_slow\":33", "YaRN's beta_fast is 32, below its beta_slow, 33", FORAY_EFILE },
    { "\"attention_bias\":false", "\"expert_dtype\":\"int3\"", "expert_dtype is int3; foray runs fp4 and fp8",
      FORAY_EUNSUPPORTED },
    { "\"attention_bias\":false", "\"expert_dtype\":4", "expert_dtype has type integer, expected text",
      FORAY_EFILE },
    { "\"num_nextn_predict_layers\":1", "\"num_nextn_predict_layers\":-1",
      "num_nextn_predict_layers is -1; 0 to 256 are possible", FORAY_EFILE },
    { "\"hc_mult\":4", "\"hc_mult\":9", "hc_mult is 9; 1 to 8 are possible", FORAY_EFILE },
    { "\"eos_token_id\":2", "\"eos_token_id\":-1", "eos_token_id is not a token id below 512", FORAY_EFILE },
    { "\"hidden_act\":\"silu\"",
      "\"quantization_config\":{\"quant_method\":\"awq\",\"weight_block_size\":[64,64]}",
      "quantization_config.quant_method is awq; foray runs fp8; quantization_config.weight_block_size is not",
      FORAY_EUNSUPPORTED },
};

static void what_is_wrong_or_contradictory_is_said(void **state)
{
    (void)state;
    const char *folder = folder_of(DEEPSEEK4_NEXTN), *path = tiny_path(folder, "config.json");
    size_t bytes;
    char *good;
    read_text(path, &good, &bytes);
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        deepseek4_config c;
        foray_error err;
        edit(folder, faults[i].from, faults[i].to);
        if (read_config(folder, &c, &err) != faults[i].code)
            fail_msg("%s: not refused as it should be: %s", faults[i].to, err.text);
        assert_says(&err, faults[i].said);
        write_text(path, good, bytes);
    }
    mem_free(MEM_GENERAL, good, bytes + 1);
}

/* In a file of FP8 with FP4 experts, whose config may say so, or nothing. */
static void the_experts_type_must_be_what_the_config_says(void **state)
{
    (void)state;
    deepseek4_config c;
    foray_error err;
    tiny_v4_spec spec = tiny_v4_default();
    spec.no_text = true;
    const char *folder = tiny_v4_model(&spec, TINY_V4_QUANT);
    edit(folder, "\"expert_dtype\":\"fp4\"", "\"expert_dtype\":\"fp8\"");
    assert_int_equal(read_config(folder, &c, &err), FORAY_EFILE);
    assert_says(&err, "expert_dtype is fp8, but the experts' tensors are fp4");
    edit(folder, "\"expert_dtype\":\"fp8\"", "\"expert_dtype\":null");
    assert_int_equal(read_config(folder, &c, &err), 0);
}

/* Latents are rounded in groups of 64 where the file is of that kind. */
static void groups_of_latents_must_be_whole_in_rounded_files(void **state)
{
    (void)state;
    deepseek4_config c;
    foray_error err;
    tiny_v4_spec spec = tiny_v4_default();
    spec.no_text = true;
    spec.rope_dim = 32;
    assert_int_equal(read_config(tiny_v4_model(&spec, TINY_V4_PLAIN), &c, &err), 0);
    assert_int_equal(read_config(tiny_v4_model(&spec, TINY_V4_QUANT), &c, &err), FORAY_EFILE);
    assert_says(&err, "96 channels that are not rotated");
}

static void relatives_are_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *type;
        bool recognised;
    } types[] = {
        { "deepseek_v4", true }, { "deepseek_v41", true }, { "deepseek_v3", false }, { "llama", false }
    };
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        const char *folder = folder_of(DEEPSEEK4_NO_DRAFTER);
        model_file *f;
        deepseek4_config c;
        foray_error err;
        char text[64];
        snprintf(text, sizeof text, "\"model_type\":\"%s\"", types[i].type);
        edit(folder, "\"model_type\":\"deepseek_v4\"", text);
        assert_int_equal(model_file_open(folder, &f, &err), 0);
        assert_int_equal(deepseek4_recognise(f), types[i].recognised);
        int rc = deepseek4_config_read(f, &c, &err);
        assert_int_equal(rc, i == 0 ? 0 : FORAY_EUNSUPPORTED);
        if (rc != 0)
            assert_says(&err, types[i].type);
        model_file_close(f);
    }
}

/* ---- GGUF ---- */

/* Finds a key's value in a GGUF file's bytes; where is behind its type. */
static char *find_value(char *bytes, size_t size, const char *key)
{
    size_t length = strlen(key);
    for (size_t i = 0; i + length + 8 < size; i++)
        if (memcmp(bytes + i, key, length) == 0 && bytes[i - 8] == (char)length)
            return bytes + i + length + 4;
    fail_msg("no key %s", key);
    return NULL;
}

typedef struct {
    const char *key; /* of the file */
    uint32_t value;  /* HIDE: the key is called otherwise, and so is missing */
} gguf_edit;

enum { HIDE = 0x7fffffff };

/* A small GGUF model with single numbers of its keys changed. */
static const char *gguf_with(const gguf_edit *edits, size_t count)
{
    tiny_v4_spec spec = tiny_v4_small();
    const char *path = tiny_v4_model(&spec, TINY_V4_GGUF);
    size_t bytes;
    char *text;
    read_text(path, &text, &bytes);
    for (size_t i = 0; i < count; i++) {
        char *at = find_value(text, bytes, edits[i].key);
        if (edits[i].value == HIDE)
            at[-5] = '#'; /* the last letter of the key */
        else
            memcpy(at, &edits[i].value, 4);
    }
    write_text(path, text, bytes);
    mem_free(MEM_GENERAL, text, bytes + 1);
    return path;
}

static void missing_optional_keys_have_the_familys_values(void **state)
{
    (void)state;
    static const gguf_edit edits[] = {
        { "deepseek4.hyper_connection.count", HIDE },
        { "deepseek4.hyper_connection.sinkhorn_iterations", HIDE },
        { "deepseek4.hyper_connection.epsilon", HIDE },
        { "deepseek4.attention.layer_norm_rms_epsilon", HIDE },
        { "deepseek4.rope.freq_base", HIDE },
        { "deepseek4.attention.compress_rope_freq_base", HIDE },
        { "deepseek4.rope.scaling.yarn_beta_fast", HIDE },
        { "deepseek4.hash_layer_count", HIDE },
        { "deepseek4.vocab_size", HIDE },
        { "deepseek4.expert_gating_func", HIDE },
        { "deepseek4.expert_weights_norm", HIDE },
        { "deepseek4.nextn_predict_layers", HIDE },
    };
    tiny_v4_spec spec = tiny_v4_small();
    deepseek4_config usual = config_of(tiny_v4_model(&spec, TINY_V4_GGUF));
    assert_int_equal(usual.drafter, DEEPSEEK4_NEXTN);
    assert_same(usual, config_of(gguf_with(edits, sizeof edits / sizeof edits[0])));
    /* The drafter's block may be counted among the blocks, or not. */
    assert_same(usual, config_of(gguf_with(&(gguf_edit) { "deepseek4.block_count", 3 }, 1)));
}

static void faults_of_gguf_keys_are_said(void **state)
{
    (void)state;
    static const struct {
        gguf_edit edit;
        const char *said;
        int code;
    } cases[] = {
        { { "deepseek4.attention.q_lora_rank", HIDE },
          "missing deepseek4.attention.q_lora_rank",
          FORAY_EFILE },
        { { "deepseek4.block_count", 5 },
          "deepseek4.block_count is 5, but the drafter is layer 3",
          FORAY_EFILE },
        { { "deepseek4.expert_gating_func", 2 },
          "expert_gating_func is 2; foray runs 4",
          FORAY_EUNSUPPORTED },
        { { "deepseek4.attention.value_length", 64 }, "value_length is 64, of keys 80", FORAY_EUNSUPPORTED },
        { { "deepseek4.attention.compress_ratios", HIDE },
          "missing deepseek4.attention.compress_ratios",
          FORAY_EFILE },
        { { "deepseek4.attention.head_count_kv", 3 },
          "head_count_kv is 3; foray runs 1",
          FORAY_EUNSUPPORTED },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        deepseek4_config c;
        foray_error err;
        assert_int_equal(read_config(gguf_with(&cases[i].edit, 1), &c, &err), cases[i].code);
        assert_says(&err, cases[i].said);
    }
}

/* ---- frequencies ---- */

/* cases.md O04: each kind of layer has its own; kernel_rope takes them on to far positions. */
static void frequencies_are_those_of_the_published_models(void **state)
{
    (void)state;
    deepseek4_config c = { .rope_dim = 64,
                           .theta = 10000,
                           .compress_theta = 160000,
                           .yarn = true,
                           .yarn_factor = 16,
                           .yarn_original = 65536,
                           .yarn_beta_fast = 32,
                           .yarn_beta_slow = 1 };
    float f[32];
    deepseek4_frequencies(&c, true, f);
    assert_float_equal(f[16], 0.00226562500, 1e-10f);
    assert_float_equal(f[20], 2.9697778e-4, 1e-10f);
    assert_float_equal(f[24], 1.953125e-5, 1e-12f);
    assert_float_equal(f[31], 5.6805290e-7, 1e-13f);
    for (int i = 0; i < 32; i++) { /* up to 15 as they are, from 25 on a sixteenth */
        double plain = pow(160000, -i / 32.0), expected = i <= 15 ? plain : i >= 25 ? plain / 16 : f[i];
        assert_true(fabs(f[i] - expected) <= 6e-8 * expected);
    }
    deepseek4_frequencies(&c, false, f);
    for (int i = 0; i < 32; i++)
        assert_true(fabs(f[i] - pow(10000, -i / 32.0)) <= 6e-8 * f[i]);
}

/* So short a context that no pair turns often in it: the ramp has no length, and the reference gives it a thousandth. */
static void a_ramp_without_length_is_guarded(void **state)
{
    (void)state;
    deepseek4_config c = { .rope_dim = 16,
                           .theta = 10000,
                           .compress_theta = 160000,
                           .yarn = true,
                           .yarn_factor = 4,
                           .yarn_original = 6,
                           .yarn_beta_fast = 32,
                           .yarn_beta_slow = 1 };
    float f[8];
    deepseek4_frequencies(&c, true, f);
    assert_true(f[0] == 1);
    for (int i = 1; i < 8; i++)
        assert_true(fabs(f[i] - pow(160000, -i / 8.0) / 4) <= 6e-8 * f[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_settings_of_published_files_are_read),
        cmocka_unit_test(every_spelling_gives_the_same_config),
        cmocka_unit_test(no_rope_scaling_means_no_yarn),
        cmocka_unit_test(end_ids_are_those_of_generation),
        cmocka_unit_test(the_drafter_is_told_by_its_tensors),
        cmocka_unit_test(every_fault_is_listed_at_once),
        cmocka_unit_test(what_is_wrong_or_contradictory_is_said),
        cmocka_unit_test(the_experts_type_must_be_what_the_config_says),
        cmocka_unit_test(groups_of_latents_must_be_whole_in_rounded_files),
        cmocka_unit_test(relatives_are_refused_by_name),
        cmocka_unit_test(missing_optional_keys_have_the_familys_values),
        cmocka_unit_test(faults_of_gguf_keys_are_said),
        cmocka_unit_test(frequencies_are_those_of_the_published_models),
        cmocka_unit_test(a_ramp_without_length_is_guarded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
