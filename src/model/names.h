/* names.h: which tensor of a file plays which role, under the names of GGUF and of Hugging Face.
 *
 * Also what shape each must have, in which order its rows stand, and the one check that reports everything
 * that is missing or misshapen at once. Holds nothing; reads views of the mapped files.
 * Threads: any.
 */
#ifndef FORAY_MODEL_NAMES_H
#define FORAY_MODEL_NAMES_H

#include "format/model_file.h"
#include "model/model_config.h"

typedef enum {
    /* once per model */
    ROLE_TOKEN_EMBD,  /* [vocab, dim] */
    ROLE_OUTPUT,      /* [vocab, dim]; the embedding itself in tied models */
    ROLE_OUTPUT_NORM, /* [dim] */
    /* once per layer */
    ROLE_ATTN_NORM,      /* [dim] */
    ROLE_Q,              /* [heads d, dim] */
    ROLE_K,              /* [kv_heads d, dim] */
    ROLE_V,              /* [kv_heads d, dim] */
    ROLE_O,              /* [dim, heads d] */
    ROLE_Q_BIAS,         /* [heads d]         qkv_bias */
    ROLE_K_BIAS,         /* [kv_heads d]      qkv_bias */
    ROLE_V_BIAS,         /* [kv_heads d]      qkv_bias */
    ROLE_Q_NORM,         /* [d]               qk_norm */
    ROLE_K_NORM,         /* [d]               qk_norm */
    ROLE_POST_ATTN_NORM, /* [dim]             post_norms: before the residual is added */
    ROLE_FFN_NORM,       /* [dim] */
    ROLE_GATE,           /* [ffn, dim] */
    ROLE_UP,             /* [ffn, dim] */
    ROLE_DOWN,           /* [dim, ffn] */
    ROLE_POST_FFN_NORM,  /* [dim]             post_norms */
    ROLE_COUNT
} model_role;

/* Whether the model has this role at all. */
bool model_role_used(const model_config *c, model_role role);
bool model_role_per_layer(model_role role);
/* The shape a role must have. Returns its number of dimensions, 1 or 2; shape[1] is 1 for vectors. */
int model_role_shape(const model_config *c, model_role role, int64_t shape[2]);

enum { MODEL_NAME_BYTES = 96 };

/* Writes the role's name in files of this kind, NUL included. layer is ignored for roles of the whole model.
 * ROLE_OUTPUT of a tied model gives the embedding's name. */
void model_role_name(const model_config *c, model_role role, int layer, char out[MODEL_NAME_BYTES]);

/* The tensor of a role, or NULL: not in the file, or a role that the model does not use. */
const tensor_view *model_names_find(const model_file *f, const model_config *c, model_role role, int layer);

/* Checks that every tensor of every role is there, has its shape and a type that foray multiplies with.
 * EFILE lists the first few faults and counts the rest; EUNSUPPORTED names tensor and type. */
int model_names_check(const model_file *f, const model_config *c, foray_error *err);

/* Fills order[heads * head_dim]: row i of the matrix that foray packs (half-split rotation: i turns with
 * i + rope_dim / 2) is row order[i] of the file's q (or, with kv_heads, k). Returns false, leaving order alone, when
 * the rows stand in that order already: GGUF files of `llama` are the ones that do not. */
bool model_qk_row_order(const model_config *c, int heads, int32_t *order);

/* Reads a vector role (norms, biases) as f32: out[shape[0]], norm_offset added to norms. The role must have passed
 * model_names_check. (No family has biases and interleaved rows both.) */
void model_names_vector(const model_file *f, const model_config *c, model_role role, int layer, float *out);

#endif
