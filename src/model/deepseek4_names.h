/* deepseek4_names.h: which tensor of a file plays which role in a DeepSeek-V4 model, under every naming there is:
 * official, with `model.` in front, vLLM's and SGLang's, ModelSlim's, GGUF's (spec: DeepSeek-V4 5).
 *
 * Also what shape each must have, where its scales are, and the one check that reports all faults at once. Finds
 * views of the mapped files; packs nothing. Threads: any.
 */
#ifndef FORAY_MODEL_DEEPSEEK4_NAMES_H
#define FORAY_MODEL_DEEPSEEK4_NAMES_H

#include "kernel/weight.h"
#include "model/deepseek4_config.h"

typedef enum {
    /* once per model */
    V4_EMBED,      /* [vocab, dim] */
    V4_HEAD,       /* [vocab, dim] */
    V4_NORM,       /* [dim] */
    V4_HEAD_FN,    /* [S, S dim] */
    V4_HEAD_BASE,  /* [S] */
    V4_HEAD_SCALE, /* [1] */
    /* once per layer, the NextN layer included */
    V4_ATTN_FN,
    V4_FFN_FN, /* [(2 + S) S, S dim] */
    V4_ATTN_BASE,
    V4_FFN_BASE, /* [(2 + S) S] */
    V4_ATTN_SCALE,
    V4_FFN_SCALE, /* [3] */
    V4_ATTN_NORM,
    V4_FFN_NORM,  /* [dim] */
    V4_WQ_A,      /* [q_rank, dim] */
    V4_Q_NORM,    /* [q_rank] */
    V4_WQ_B,      /* [heads head_dim, q_rank] */
    V4_WKV,       /* [head_dim, dim] */
    V4_KV_NORM,   /* [head_dim] */
    V4_SINK,      /* [heads] */
    V4_WO_A,      /* [groups o_rank, heads head_dim / groups] */
    V4_WO_B,      /* [dim, groups o_rank] */
    V4_GATE,      /* [experts, dim] */
    V4_GATE_BIAS, /* [experts]             not of hash layers */
    V4_HASH,      /* [vocab, chosen] ids    hash layers only */
    V4_SHARED_W1,
    V4_SHARED_W3, /* [ffn, dim] gate, up */
    V4_SHARED_W2, /* [dim, ffn] */
    V4_EXPERT_W1,
    V4_EXPERT_W3, /* [ffn, dim] of each expert */
    V4_EXPERT_W2, /* [dim, ffn] */
    /* layers with a ratio; width C = head_dim, twice that for ratio 4 */
    V4_COMP_WKV,
    V4_COMP_WGATE, /* [C, dim] */
    V4_COMP_APE,   /* [ratio, C] */
    V4_COMP_NORM,  /* [head_dim] */
    /* layers of ratio 4; width C = 2 index_dim */
    V4_INDEX_WQ_B,    /* [index_heads index_dim, q_rank] */
    V4_INDEX_WEIGHTS, /* [index_heads, dim] */
    V4_INDEX_WKV,
    V4_INDEX_WGATE, /* [C, dim] */
    V4_INDEX_APE,   /* [4, C] */
    V4_INDEX_NORM,  /* [index_dim] */
    /* the NextN layer only */
    V4_NEXTN_E_PROJ,
    V4_NEXTN_H_PROJ, /* [dim, dim] */
    V4_NEXTN_E_NORM,
    V4_NEXTN_H_NORM, /* [dim] */
    V4_NEXTN_NORM,   /* [dim] */
    V4_NEXTN_HEAD_FN,
    V4_NEXTN_HEAD_BASE,
    V4_NEXTN_HEAD_SCALE, /* as V4_HEAD_… */
    V4_NEXTN_EMBED,
    V4_NEXTN_HEAD, /* the drafter's own copies, or the trunk's where there are none */
    V4_ROLE_COUNT
} v4_role;

/* Whether the layer has this role at all (layer is ignored for roles of the model). */
bool v4_role_used(const deepseek4_config *c, v4_role role, int layer);

/* Checks that everything is there with its shape, a type that foray multiplies with, and its scales. EFILE lists the
 * faults (the first few, and counts the rest); EUNSUPPORTED names a scheme or type. */
int v4_names_check(const model_file *f, const deepseek4_config *c, foray_error *err);

/* The matrix of a role, ready for weight_pack: type as foray multiplies it (an I8 tensor may be F4_E2M1), rows, cols,
 * scales. expert: of the V4_EXPERT_… roles, else 0. Pointers borrow the mapped file. The model has passed
 * v4_names_check. */
weight_source v4_matrix(const model_file *f, const deepseek4_config *c, v4_role role, int layer, int expert);

/* A role as f32: out[all its elements] (vectors, ape, hash ids with v4_ids). Returns the tensor's name, the file's. */
const char *v4_floats(const model_file *f, const deepseek4_config *c, v4_role role, int layer, float *out);
void v4_ids(const model_file *f, const deepseek4_config *c, int layer, int32_t *out); /* V4_HASH */

#endif
