/* deepseek4_roles.c: one table of names and shapes. A name is written as a shell would write it: {a,b} is a or b, the
 * usual one first; % is the layer, # the expert. So a file may mix namings, and nothing has to be told which it uses.
 *
 *   layers.3.attn.wq_a.weight                     as published
 *   model.layers.3.self_attn.q_a_proj.weight      by vLLM, SGLang, transformers
 *   blk.3.attn_q_a.weight                         GGUF
 *
 * Threads: any; no state.
 */
#include "model/deepseek4_roles.h"

#include <stdio.h>
#include <string.h>

/* Which layers have it. */
typedef enum { MODEL, LAYER, RATIO, INDEX, HASH, SCORED, NEXTN } scope;

typedef enum {
    ONE,
    THREE,
    FOUR,
    VOCAB,
    DIM,
    STREAMS, /* S */
    MIX,     /* (2 + S) S */
    FLAT,    /* S dim */
    Q_RANK,
    Q, /* heads head_dim */
    HEAD_DIM,
    HEADS,
    O_RANKS, /* groups o_rank */
    GROUP,   /* heads head_dim / groups */
    EXPERTS,
    CHOSEN,
    FFN,
    GROUP_OF, /* ratio */
    COMP,     /* head_dim, twice that for ratio 4 */
    INDEX_Q,  /* index_heads index_dim */
    INDEX_HEADS,
    INDEX_COMP, /* 2 index_dim */
    INDEX_DIM,
} size;

#define A "{attn,self_attn}."
#define F "{ffn,mlp}."
#define C A "compressor."
#define I A "{indexer,compressor.indexer}."
#define IC A "{indexer.compressor,compressor.indexer}."
#define M "{,model.}"
#define END "{.weight,}"

static const struct {
    const char *hf, *gguf; /* behind the layer's prefix */
    scope scope;
    v4_form form;
    size rows, cols;
} roles[V4_ROLE_COUNT] = {
    [V4_EMBED] = { M "{embed,embed_tokens}.weight", "token_embd.weight", MODEL, V4_ROWS, VOCAB, DIM },
    [V4_HEAD] = { M "{head,lm_head}.weight", "output.weight", MODEL, V4_MATRIX, VOCAB, DIM },
    [V4_NORM] = { M "norm.weight", "output_norm.weight", MODEL, V4_FLOATS, DIM, ONE },
    [V4_HEAD_FN] = { M "hc_head{_,.hc_}fn", "output_hc_fn" END, MODEL, V4_MATRIX, STREAMS, FLAT },
    [V4_HEAD_BASE] = { M "hc_head{_,.hc_}base", "output_hc_base" END, MODEL, V4_FLOATS, STREAMS, ONE },
    [V4_HEAD_SCALE] = { M "hc_head{_,.hc_}scale", "output_hc_scale" END, MODEL, V4_FLOATS, ONE, ONE },

    [V4_ATTN_FN] = { "{hc_attn_,attn_hc.}fn", "hc_attn_fn" END, LAYER, V4_MATRIX, MIX, FLAT },
    [V4_FFN_FN] = { "{hc_ffn_,ffn_hc.}fn", "hc_ffn_fn" END, LAYER, V4_MATRIX, MIX, FLAT },
    [V4_ATTN_BASE] = { "{hc_attn_,attn_hc.}base", "hc_attn_base" END, LAYER, V4_FLOATS, MIX, ONE },
    [V4_FFN_BASE] = { "{hc_ffn_,ffn_hc.}base", "hc_ffn_base" END, LAYER, V4_FLOATS, MIX, ONE },
    [V4_ATTN_SCALE] = { "{hc_attn_,attn_hc.}scale", "hc_attn_scale" END, LAYER, V4_FLOATS, THREE, ONE },
    [V4_FFN_SCALE] = { "{hc_ffn_,ffn_hc.}scale", "hc_ffn_scale" END, LAYER, V4_FLOATS, THREE, ONE },
    [V4_ATTN_NORM] = { "{attn_norm,input_layernorm}.weight", "attn_norm.weight", LAYER, V4_FLOATS, DIM, ONE },
    [V4_FFN_NORM] = { "{ffn_norm,post_attention_layernorm}.weight", "ffn_norm.weight", LAYER, V4_FLOATS, DIM,
                      ONE },
    [V4_WQ_A] = { A "{wq_a,q_a_proj}.weight", "attn_q_a.weight", LAYER, V4_MATRIX, Q_RANK, DIM },
    [V4_Q_NORM] = { A "{q_norm,q_a_layernorm,q_a_norm}.weight", "attn_q_a_norm.weight", LAYER, V4_FLOATS,
                    Q_RANK, ONE },
    [V4_WQ_B] = { A "{wq_b,q_b_proj}.weight", "attn_q_b.weight", LAYER, V4_MATRIX, Q, Q_RANK },
    [V4_WKV] = { A "{wkv,kv_proj}.weight", "attn_kv.weight", LAYER, V4_MATRIX, HEAD_DIM, DIM },
    [V4_KV_NORM] = { A "{kv_norm,kv_a_layernorm}.weight", "attn_kv_a_norm.weight", LAYER, V4_FLOATS, HEAD_DIM,
                     ONE },
    [V4_SINK] = { A "{attn_sink,sinks}", "attn_sinks" END, LAYER, V4_FLOATS, HEADS, ONE },
    [V4_WO_A] = { A "{wo_a,o_a_proj}.weight", "attn_output_a.weight", LAYER, V4_MATRIX, O_RANKS, GROUP },
    [V4_WO_B] = { A "{wo_b,o_b_proj}.weight", "attn_output_b.weight", LAYER, V4_MATRIX, DIM, O_RANKS },

    [V4_GATE] = { F "gate.weight", "ffn_gate_inp.weight", LAYER, V4_MATRIX, EXPERTS, DIM },
    [V4_GATE_BIAS] = { F "gate.{bias,e_score_correction_bias}", "exp_probs_b{.bias,}", SCORED, V4_FLOATS,
                       EXPERTS, ONE },
    [V4_HASH] = { F "gate.tid2eid", "ffn_gate_tid2eid" END, HASH, V4_IDS, VOCAB, CHOSEN },
    [V4_SHARED_W1] = { F "shared_experts.{w1,gate_proj}.weight", "ffn_gate_shexp.weight", LAYER, V4_MATRIX,
                       FFN, DIM },
    [V4_SHARED_W3] = { F "shared_experts.{w3,up_proj}.weight", "ffn_up_shexp.weight", LAYER, V4_MATRIX, FFN,
                       DIM },
    [V4_SHARED_W2] = { F "shared_experts.{w2,down_proj}.weight", "ffn_down_shexp.weight", LAYER, V4_MATRIX,
                       DIM, FFN },
    [V4_EXPERT_W1] = { F "experts.#.{w1,gate_proj}.weight", NULL, LAYER, V4_MATRIX, FFN, DIM },
    [V4_EXPERT_W3] = { F "experts.#.{w3,up_proj}.weight", NULL, LAYER, V4_MATRIX, FFN, DIM },
    [V4_EXPERT_W2] = { F "experts.#.{w2,down_proj}.weight", NULL, LAYER, V4_MATRIX, DIM, FFN },

    [V4_COMP_WKV] = { C "{wkv,kv_proj}.weight", "attn_compressor_kv.weight", RATIO, V4_MATRIX, COMP, DIM },
    [V4_COMP_WGATE] = { C "{wgate,gate_proj}.weight", "attn_compressor_gate.weight", RATIO, V4_MATRIX, COMP,
                        DIM },
    [V4_COMP_APE] = { C "{ape,position_bias}", "attn_compressor_ape" END, RATIO, V4_FLOATS, GROUP_OF, COMP },
    [V4_COMP_NORM] = { C "{norm,kv_norm}.weight", "attn_compressor_norm.weight", RATIO, V4_FLOATS, HEAD_DIM,
                       ONE },
    [V4_INDEX_WQ_B] = { I "{wq_b,q_b_proj}.weight", "indexer.attn_q_b.weight", INDEX, V4_MATRIX, INDEX_Q,
                        Q_RANK },
    [V4_INDEX_WEIGHTS] = { I "{,scorer.}weights_proj.weight", "indexer.proj.weight", INDEX, V4_MATRIX,
                           INDEX_HEADS, DIM },
    [V4_INDEX_WKV] = { IC "{wkv,kv_proj}.weight", "indexer_compressor_kv.weight", INDEX, V4_MATRIX,
                       INDEX_COMP, DIM },
    [V4_INDEX_WGATE] = { IC "{wgate,gate_proj}.weight", "indexer_compressor_gate.weight", INDEX, V4_MATRIX,
                         INDEX_COMP, DIM },
    [V4_INDEX_APE] = { IC "{ape,position_bias}", "indexer_compressor_ape" END, INDEX, V4_FLOATS, FOUR,
                       INDEX_COMP },
    [V4_INDEX_NORM] = { IC "{norm,kv_norm}.weight", "indexer_compressor_norm.weight", INDEX, V4_FLOATS,
                        INDEX_DIM, ONE },

    [V4_NEXTN_E_PROJ] = { "e_proj.weight", "{nextn.,}e_proj.weight", NEXTN, V4_MATRIX, DIM, DIM },
    [V4_NEXTN_H_PROJ] = { "h_proj.weight", "{nextn.,}h_proj.weight", NEXTN, V4_MATRIX, DIM, DIM },
    [V4_NEXTN_E_NORM] = { "enorm.weight", "{nextn.,}enorm.weight", NEXTN, V4_FLOATS, DIM, ONE },
    [V4_NEXTN_H_NORM] = { "hnorm.weight", "{nextn.,}hnorm.weight", NEXTN, V4_FLOATS, DIM, ONE },
    [V4_NEXTN_NORM] = { "{norm,shared_head.norm}.weight", "{nextn.shared_head_norm,norm}.weight", NEXTN,
                        V4_FLOATS, DIM, ONE },
    [V4_NEXTN_HEAD_FN] = { "hc_head{_,.hc_}fn", "{nextn.,}hc_head_fn" END, NEXTN, V4_MATRIX, STREAMS, FLAT },
    [V4_NEXTN_HEAD_BASE] = { "hc_head{_,.hc_}base", "{nextn.,}hc_head_base" END, NEXTN, V4_FLOATS, STREAMS,
                             ONE },
    [V4_NEXTN_HEAD_SCALE] = { "hc_head{_,.hc_}scale", "{nextn.,}hc_head_scale" END, NEXTN, V4_FLOATS, ONE,
                              ONE },
    [V4_NEXTN_EMBED] = { "{emb.tok_emb,embed,embed_tokens,emb}.weight", "nextn.embed_tokens.weight", NEXTN,
                         V4_ROWS, VOCAB, DIM },
    [V4_NEXTN_HEAD] = { "{head,lm_head,shared_head.head}.weight", "nextn.shared_head_head.weight", NEXTN,
                        V4_MATRIX, VOCAB, DIM },
};

/* In front of a layer's names. */
static const char trunk_hf[] = M "layers.%.", trunk_gguf[] = "blk.%.";
static const char nextn_hf[] = "{mtp.0,model.mtp.0,layers.%,model.layers.%}.{,mtp_block.}",
                  nextn_gguf[] = "{blk.%,mtp.0}.";

v4_form v4_role_form(v4_role role)
{
    return roles[role].form;
}

bool v4_role_of_model(v4_role role)
{
    return roles[role].scope == MODEL;
}

bool v4_role_of_expert(v4_role role)
{
    return role == V4_EXPERT_W1 || role == V4_EXPERT_W2 || role == V4_EXPERT_W3;
}

bool v4_role_used(const deepseek4_config *c, v4_role role, int layer)
{
    bool nextn = layer == c->layers;
    if (roles[role].scope == MODEL)
        return true;
    if (layer < 0 || layer > c->layers || (nextn && c->drafter != DEEPSEEK4_NEXTN))
        return false;
    switch (roles[role].scope) {
    case RATIO:
        return c->ratio[layer] != 0;
    case INDEX:
        return c->ratio[layer] == 4;
    case HASH:
        return layer < c->hash_layers;
    case SCORED:
        return layer >= c->hash_layers;
    case NEXTN:
        return nextn;
    default:
        return true;
    }
}

static int64_t size_of(const deepseek4_config *c, size s, int layer)
{
    int64_t streams = c->streams;
    switch (s) {
    case ONE:
        return 1;
    case THREE:
        return 3;
    case FOUR:
        return 4;
    case VOCAB:
        return c->vocab;
    case DIM:
        return c->dim;
    case STREAMS:
        return streams;
    case MIX:
        return (2 + streams) * streams;
    case FLAT:
        return streams * c->dim;
    case Q_RANK:
        return c->q_rank;
    case Q:
        return (int64_t)c->heads * c->head_dim;
    case HEAD_DIM:
        return c->head_dim;
    case HEADS:
        return c->heads;
    case O_RANKS:
        return (int64_t)c->groups * c->o_rank;
    case GROUP:
        return (int64_t)c->heads * c->head_dim / c->groups;
    case EXPERTS:
        return c->experts;
    case CHOSEN:
        return c->chosen;
    case FFN:
        return c->ffn;
    case GROUP_OF:
        return c->ratio[layer];
    case COMP:
        return (int64_t)c->head_dim * (c->ratio[layer] == 4 ? 2 : 1);
    case INDEX_Q:
        return (int64_t)c->index_heads * c->index_dim;
    case INDEX_HEADS:
        return c->index_heads;
    case INDEX_COMP:
        return 2 * (int64_t)c->index_dim;
    case INDEX_DIM:
        return c->index_dim;
    }
    return 0;
}

int v4_role_shape(const deepseek4_config *c, v4_role role, int layer, int64_t shape[2])
{
    shape[0] = size_of(c, roles[role].rows, layer);
    shape[1] = size_of(c, roles[role].cols, layer);
    return roles[role].cols == ONE ? 1 : 2;
}

/* Names ------------------------------------------------------------------------------------------- */

/* The part of {a,b,c} that `way` picks; way loses the digit. p is behind the brace; returns behind the other one. */
static const char *pick(const char *p, int *way, const char **part, size_t *bytes)
{
    size_t length = strcspn(p, "}");
    int count = 1, at = 0;
    for (size_t i = 0; i < length; i++)
        count += p[i] == ',';
    int wanted = *way % count;
    *way /= count;
    for (*part = p; at < wanted; at++)
        *part += strcspn(*part, ",") + 1;
    *bytes = strcspn(*part, ",}");
    return p + length + 1;
}

/* Appends text, with % and # as numbers. The table has no name that is too long. */
static void append(const char *text, size_t bytes, int layer, int expert, char out[V4_NAME_BYTES],
                   size_t *used)
{
    for (size_t i = 0; i < bytes && *used < V4_NAME_BYTES - 12; i++) {
        if (text[i] == '%' || text[i] == '#')
            *used += (size_t)snprintf(out + *used, 12, "%d", text[i] == '%' ? layer : expert);
        else
            out[(*used)++] = text[i];
    }
    out[*used] = 0;
}

/* Appends the pattern in one of its ways. The digits of `way`, in as many systems as there are braces, choose: what is
 * left of it is not 0 when there are fewer ways. */
static void expand(const char *p, int *way, int layer, int expert, char out[V4_NAME_BYTES], size_t *used)
{
    while (*p) {
        const char *part = p;
        size_t bytes = strcspn(p, "{");
        p = bytes == 0 ? pick(p + 1, way, &part, &bytes) : p + bytes;
        append(part, bytes, layer, expert, out, used);
    }
}

static bool name_of(const deepseek4_config *c, const char *pattern, bool of_model, int layer, int expert,
                    int way, char out[V4_NAME_BYTES])
{
    bool gguf = c->kind == MODEL_FILE_GGUF;
    size_t used = 0;
    out[0] = 0;
    if (!pattern)
        return false;
    if (!of_model && layer == c->layers)
        expand(gguf ? nextn_gguf : nextn_hf, &way, layer, expert, out, &used);
    else if (!of_model)
        expand(gguf ? trunk_gguf : trunk_hf, &way, layer, expert, out, &used);
    expand(pattern, &way, layer, expert, out, &used);
    return way == 0;
}

bool v4_role_name(const deepseek4_config *c, v4_role role, int layer, int expert, int way,
                  char out[V4_NAME_BYTES])
{
    const char *pattern = c->kind == MODEL_FILE_GGUF ? roles[role].gguf : roles[role].hf;
    return name_of(c, pattern, roles[role].scope == MODEL, layer, expert, way, out);
}

bool v4_role_stack_name(const deepseek4_config *c, v4_role role, int layer, int way, char out[V4_NAME_BYTES])
{
    bool gguf = c->kind == MODEL_FILE_GGUF;
    const char *pattern = NULL;
    if (role == V4_EXPERT_W1)
        pattern = gguf ? "ffn_gate_exps.weight" : F "experts.gate_up_proj{,.weight}";
    else if (role == V4_EXPERT_W3)
        pattern = gguf ? "ffn_up_exps.weight" : F "experts.gate_up_proj{,.weight}";
    else if (role == V4_EXPERT_W2)
        pattern = gguf ? "ffn_down_exps.weight" : F "experts.down_proj{,.weight}";
    else if (gguf && (role == V4_NEXTN_E_PROJ || role == V4_NEXTN_H_PROJ))
        pattern = "{nextn.,}eh_proj.weight";
    return name_of(c, pattern, false, layer, 0, way, out);
}
