/* tiny_v4_names.c: published names turned into those of other programs, and the settings of a tiny DeepSeek-V4 model as
 * config.json and as GGUF keys. Renaming is a list of replacements, each made where its text stands.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "support/tiny.h"
#include "support/tiny_text.h"
#include "support/tiny_v4_parts.h"

typedef struct {
    const char *from, *to;
} replacement;

static const replacement vllm[] = {
    { ".attn.", ".self_attn." },
    { ".ffn.", ".mlp." },
    { ".attn_norm.", ".input_layernorm." },
    { ".ffn_norm.", ".post_attention_layernorm." },
    { "self_attn.wq_a.", "self_attn.q_a_proj." },
    { "self_attn.wq_b.", "self_attn.q_b_proj." },
    { ".q_norm.", ".q_a_layernorm." },
    { ".kv_norm.", ".kv_a_layernorm." },
    { ".w1.", ".gate_proj." },
    { ".w2.", ".down_proj." },
    { ".w3.", ".up_proj." },
    { "gate.bias", "gate.e_score_correction_bias" },
    { ".scale", ".weight_scale_inv" },
    { "model.embed.", "model.embed_tokens." },
    { "model.head.", "lm_head." },
    { NULL, NULL },
};

static const replacement transformers[] = {
    { ".attn.indexer.compressor.wkv.", ".self_attn.compressor.indexer.kv_proj." },
    { ".attn.indexer.compressor.wgate.", ".self_attn.compressor.indexer.gate_proj." },
    { ".attn.indexer.compressor.ape", ".self_attn.compressor.indexer.position_bias" },
    { ".attn.indexer.compressor.norm.", ".self_attn.compressor.indexer.kv_norm." },
    { ".attn.indexer.wq_b.", ".self_attn.compressor.indexer.q_b_proj." },
    { ".attn.indexer.weights_proj.", ".self_attn.compressor.indexer.weights_proj." },
    { ".attn.compressor.wkv.", ".self_attn.compressor.kv_proj." },
    { ".attn.compressor.wgate.", ".self_attn.compressor.gate_proj." },
    { ".attn.compressor.ape", ".self_attn.compressor.position_bias" },
    { ".attn.compressor.norm.", ".self_attn.compressor.kv_norm." },
    { ".attn.wq_a.", ".self_attn.q_a_proj." },
    { ".attn.q_norm.", ".self_attn.q_a_norm." },
    { ".attn.wq_b.", ".self_attn.q_b_proj." },
    { ".attn.wkv.", ".self_attn.kv_proj." },
    { ".attn.kv_norm.", ".self_attn.kv_norm." },
    { ".attn.wo_a.", ".self_attn.o_a_proj." },
    { ".attn.wo_b.", ".self_attn.o_b_proj." },
    { ".attn.attn_sink", ".self_attn.sinks" },
    { ".attn_norm.", ".input_layernorm." },
    { ".ffn_norm.", ".post_attention_layernorm." },
    { ".hc_attn_", ".attn_hc." },
    { ".hc_ffn_", ".ffn_hc." },
    { "model.hc_head_", "model.hc_head.hc_" },
    { ".ffn.", ".mlp." },
    { ".experts.0.w1.weight", ".experts.gate_up_proj" },
    { ".experts.0.w2.weight", ".experts.down_proj" },
    { ".w1.", ".gate_proj." },
    { ".w2.", ".down_proj." },
    { ".w3.", ".up_proj." },
    { "gate.bias", "gate.e_score_correction_bias" },
    { "model.embed.", "model.embed_tokens." },
    { "model.head.", "lm_head." },
    { NULL, NULL },
};

static const replacement gguf[] = {
    { ".attn.indexer.compressor.wkv.", ".indexer_compressor_kv." },
    { ".attn.indexer.compressor.wgate.", ".indexer_compressor_gate." },
    { ".attn.indexer.compressor.ape", ".indexer_compressor_ape.weight" },
    { ".attn.indexer.compressor.norm.", ".indexer_compressor_norm." },
    { ".attn.indexer.wq_b.", ".indexer.attn_q_b." },
    { ".attn.indexer.weights_proj.", ".indexer.proj." },
    { ".attn.compressor.wkv.", ".attn_compressor_kv." },
    { ".attn.compressor.wgate.", ".attn_compressor_gate." },
    { ".attn.compressor.ape", ".attn_compressor_ape.weight" },
    { ".attn.compressor.norm.", ".attn_compressor_norm." },
    { ".attn.wq_a.", ".attn_q_a." },
    { ".attn.q_norm.", ".attn_q_a_norm." },
    { ".attn.wq_b.", ".attn_q_b." },
    { ".attn.wkv.", ".attn_kv." },
    { ".attn.kv_norm.", ".attn_kv_a_norm." },
    { ".attn.wo_a.", ".attn_output_a." },
    { ".attn.wo_b.", ".attn_output_b." },
    { ".attn.attn_sink", ".attn_sinks.weight" },
    { ".hc_attn_fn", ".hc_attn_fn.weight" },
    { ".hc_attn_base", ".hc_attn_base.weight" },
    { ".hc_attn_scale", ".hc_attn_scale.weight" },
    { ".hc_ffn_fn", ".hc_ffn_fn.weight" },
    { ".hc_ffn_base", ".hc_ffn_base.weight" },
    { ".hc_ffn_scale", ".hc_ffn_scale.weight" },
    { ".ffn.gate.weight", ".ffn_gate_inp.weight" },
    { ".ffn.gate.bias", ".exp_probs_b.bias" },
    { ".ffn.gate.tid2eid", ".ffn_gate_tid2eid.weight" },
    { ".ffn.experts.0.w1.", ".ffn_gate_exps." },
    { ".ffn.experts.0.w2.", ".ffn_down_exps." },
    { ".ffn.experts.0.w3.", ".ffn_up_exps." },
    { ".ffn.shared_experts.w1.", ".ffn_gate_shexp." },
    { ".ffn.shared_experts.w2.", ".ffn_down_shexp." },
    { ".ffn.shared_experts.w3.", ".ffn_up_shexp." },
    { ".e_proj.", ".nextn.eh_proj." },
    { ".enorm.", ".nextn.enorm." },
    { ".hnorm.", ".nextn.hnorm." },
    { NULL, NULL },
};

/* Puts `to` in the place of the first `from`. */
static void replace(char name[V4T_NAME_BYTES], const char *from, const char *to)
{
    char out[2 * V4T_NAME_BYTES], *at = strstr(name, from);
    if (!at)
        return;
    int bytes = snprintf(out, sizeof out, "%.*s%s%s", (int)(at - name), name, to, at + strlen(from));
    assert_in_range(bytes, 1, V4T_NAME_BYTES - 1);
    memcpy(name, out, (size_t)bytes + 1);
}

static void replace_at_start(char name[V4T_NAME_BYTES], const char *from, const char *to)
{
    if (strncmp(name, from, strlen(from)) == 0)
        replace(name, from, to);
}

void v4t_rename(const tiny_v4_spec *s, tiny_v4_format format, const char *official, char out[V4T_NAME_BYTES])
{
    char front[32];
    const replacement *list = format == TINY_V4_VLLM           ? vllm
                              : format == TINY_V4_TRANSFORMERS ? transformers
                                                               : gguf;
    bool blocks = format == TINY_V4_GGUF || format == TINY_V4_GGUF_MXFP4;
    snprintf(out, V4T_NAME_BYTES, "%s", official);
    if (format == TINY_V4_PLAIN || format == TINY_V4_QUANT || format == TINY_V4_MODELSLIM)
        return;
    snprintf(front, sizeof front, blocks ? "blk.%d." : "layers.%d.", s->layers);
    if (strncmp(out, "mtp.0.", 6) == 0) { /* the last layer of all */
        replace_at_start(out, "mtp.0.norm.",
                         blocks ? "mtp.0.nextn.shared_head_norm." : "mtp.0.shared_head.norm.");
        replace_at_start(out, "mtp.0.hc_head_fn",
                         blocks ? "mtp.0.nextn.hc_head_fn.weight" : "mtp.0.hc_head_fn");
        replace_at_start(out, "mtp.0.hc_head_base",
                         blocks ? "mtp.0.nextn.hc_head_base.weight" : "mtp.0.hc_head_base");
        replace_at_start(out, "mtp.0.hc_head_scale",
                         blocks ? "mtp.0.nextn.hc_head_scale.weight" : "mtp.0.hc_head_scale");
        replace_at_start(out, "mtp.0.", front);
    }
    if (blocks) {
        replace_at_start(out, "layers.", "blk.");
        replace_at_start(out, "embed.", "token_embd.");
        replace_at_start(out, "norm.", "output_norm.");
        replace_at_start(out, "head.", "output.");
        replace_at_start(out, "hc_head_fn", "output_hc_fn.weight");
        replace_at_start(out, "hc_head_base", "output_hc_base.weight");
        replace_at_start(out, "hc_head_scale", "output_hc_scale.weight");
    } else {
        char inner[V4T_NAME_BYTES];
        snprintf(inner, sizeof inner, "%s", out);
        assert_in_range(snprintf(out, V4T_NAME_BYTES, "model.%.120s", inner), 1, V4T_NAME_BYTES - 1);
    }
    for (; list->from; list++)
        replace(out, list->from, list->to);
}

/* Settings ---------------------------------------------------------------------------------------- */

void v4t_write_config(const tiny_v4_spec *s, tiny_v4_format format, const char *folder)
{
    FILE *f = fopen(tiny_path(folder, "config.json"), "wb");
    assert_non_null(f);
    fprintf(
        f,
        "{\"architectures\":[\"DeepseekV4ForCausalLM\"],\"model_type\":\"deepseek_v4\",\"hidden_size\":%d,"
        "\"num_hidden_layers\":%d,\"vocab_size\":%d,\"max_position_embeddings\":%d,",
        s->dim, s->layers, s->vocab, s->context);
    fprintf(f,
            "\"num_attention_heads\":%d,\"num_key_value_heads\":1,\"head_dim\":%d,\"qk_rope_head_dim\":%d,"
            "\"q_lora_rank\":%d,\"o_groups\":%d,\"o_lora_rank\":%d,\"sliding_window\":%d,",
            s->heads, s->head_dim, s->rope_dim, s->q_rank, s->groups, s->o_rank, s->window);
    fprintf(f,
            "\"index_n_heads\":%d,\"index_head_dim\":%d,\"index_topk\":%d,\"n_routed_experts\":%d,"
            "\"num_experts_per_tok\":%d,\"n_shared_experts\":1,\"moe_intermediate_size\":%d,"
            "\"num_hash_layers\":%d,",
            s->index_heads, s->index_dim, s->index_top, s->experts, s->chosen, s->ffn, s->hash_layers);
    fprintf(f,
            "\"scoring_func\":\"sqrtsoftplus\",\"topk_method\":\"noaux_tc\",\"norm_topk_prob\":true,"
            "\"routed_scaling_factor\":%.9g,\"swiglu_limit\":%.9g,\"hc_mult\":4,\"hc_sinkhorn_iters\":20,"
            "\"hc_eps\":1e-6,\"rms_norm_eps\":1e-6,\"rope_theta\":10000,\"compress_rope_theta\":160000,",
            (double)s->route_scale, (double)s->swiglu_limit);
    if (s->yarn)
        fprintf(f,
                "\"rope_scaling\":{\"type\":\"yarn\",\"factor\":4,\"original_max_position_embeddings\":%d,"
                "\"beta_fast\":32,\"beta_slow\":1},",
                s->context / 4);
    else
        fprintf(f, "\"rope_scaling\":null,");
    fprintf(f, "\"compress_ratios\":[");
    for (int i = 0; i < s->layers + v4t_stages(s); i++)
        fprintf(f, "%s%d", i ? "," : "", i < s->layers ? s->ratio[i] : 0);
    fprintf(f,
            "],\"num_nextn_predict_layers\":%d,\"hidden_act\":\"silu\",\"attention_bias\":false,"
            "\"tie_word_embeddings\":false,\"bos_token_id\":%d,\"eos_token_id\":%d",
            s->drafter != DEEPSEEK4_NO_DRAFTER, TINY_IM_START, TINY_IM_END);
    if (format == TINY_V4_QUANT || format == TINY_V4_VLLM)
        fprintf(f,
                ",\"quantization_config\":{\"quant_method\":\"fp8\",\"fmt\":\"e4m3\",\"scale_fmt\":\"ue8m0\","
                "\"weight_block_size\":[128,128],\"activation_scheme\":\"dynamic\"}");
    if (format == TINY_V4_QUANT || format == TINY_V4_VLLM || format == TINY_V4_MODELSLIM)
        fprintf(f, ",\"expert_dtype\":\"fp4\"");
    fprintf(f, "}\n");
    assert_int_equal(fclose(f), 0);
}

static void key(gguf_writer *w, const char *name, int value)
{
    char full[96];
    snprintf(full, sizeof full, "deepseek4.%s", name);
    gguf_key_u32(w, full, (uint32_t)value);
}

static void key_float(gguf_writer *w, const char *name, float value)
{
    char full[96];
    snprintf(full, sizeof full, "deepseek4.%s", name);
    gguf_key_f32(w, full, value);
}

void v4t_write_keys(const tiny_v4_spec *s, gguf_writer *w)
{
    int blocks = s->layers + (s->drafter == DEEPSEEK4_NEXTN);
    int32_t ratios[TINY_V4_MAX_LAYERS + 1] = { 0 };
    float limits[TINY_V4_MAX_LAYERS + 1];
    for (int i = 0; i < blocks; i++) {
        ratios[i] = i < s->layers ? s->ratio[i] : 0;
        limits[i] = s->swiglu_limit;
    }
    gguf_key_string(w, "general.architecture", "deepseek4");
    gguf_key_string(w, "general.name", "tiny");
    key(w, "block_count", blocks);
    key(w, "context_length", s->context);
    key(w, "embedding_length", s->dim);
    key(w, "vocab_size", s->vocab);
    key(w, "attention.head_count", s->heads);
    key(w, "attention.head_count_kv", 1);
    key(w, "attention.key_length", s->head_dim);
    key(w, "attention.value_length", s->head_dim);
    key(w, "attention.q_lora_rank", s->q_rank);
    key(w, "attention.output_lora_rank", s->o_rank);
    key(w, "attention.output_group_count", s->groups);
    key(w, "attention.sliding_window", s->window);
    key_float(w, "attention.layer_norm_rms_epsilon", 1e-6f);
    gguf_key_i32s(w, "deepseek4.attention.compress_ratios", ratios, (size_t)blocks);
    key_float(w, "attention.compress_rope_freq_base", 160000);
    key(w, "attention.indexer.head_count", s->index_heads);
    key(w, "attention.indexer.key_length", s->index_dim);
    key(w, "attention.indexer.top_k", s->index_top);
    key(w, "rope.dimension_count", s->rope_dim);
    key_float(w, "rope.freq_base", 10000);
    if (s->yarn) {
        gguf_key_string(w, "deepseek4.rope.scaling.type", "yarn");
        key_float(w, "rope.scaling.factor", 4);
        key(w, "rope.scaling.original_context_length", s->context / 4);
        key_float(w, "rope.scaling.yarn_beta_fast", 32);
        key_float(w, "rope.scaling.yarn_beta_slow", 1);
    }
    key(w, "expert_count", s->experts);
    key(w, "expert_used_count", s->chosen);
    key(w, "expert_shared_count", 1);
    key(w, "expert_feed_forward_length", s->ffn);
    key_float(w, "expert_weights_scale", s->route_scale);
    gguf_key_bool(w, "deepseek4.expert_weights_norm", true);
    key(w, "expert_gating_func", 4);
    key(w, "hash_layer_count", s->hash_layers);
    key(w, "hyper_connection.count", 4);
    key(w, "hyper_connection.sinkhorn_iterations", 20);
    key_float(w, "hyper_connection.epsilon", 1e-6f);
    gguf_key_f32s(w, "deepseek4.swiglu_clamp_exp", limits, (size_t)blocks);
    key(w, "nextn_predict_layers", s->drafter == DEEPSEEK4_NEXTN);
}
