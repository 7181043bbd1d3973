/* names.c: the table of names and shapes. A shape is written in terms of the configuration, so that one table serves
 * every family and both kinds of file.
 * Threads: any; no state.
 */
#include "model/names.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"

typedef enum { SIZE_ONE, SIZE_VOCAB, SIZE_DIM, SIZE_FFN, SIZE_Q, SIZE_KV, SIZE_HEAD } size_name;
typedef enum { USED_ALWAYS, USED_QKV_BIAS, USED_QK_NORM, USED_POST_NORMS } used_when;

/* Names without their layer: `blk.N.` and `model.layers.N.` stand in front of those of a layer. Gemma's folders call
 * the norm before the FFN otherwise, because there the usual name is the norm behind attention. */
static const struct {
    const char *gguf, *hf, *hf_gemma; /* hf_gemma NULL: as hf */
    size_name rows, cols;             /* vectors: cols is SIZE_ONE */
    used_when used;
    bool per_layer;
} roles[ROLE_COUNT] = {
    [ROLE_TOKEN_EMBD] = { "token_embd.weight", "model.embed_tokens.weight", NULL, SIZE_VOCAB, SIZE_DIM,
                          USED_ALWAYS, false },
    [ROLE_OUTPUT] = { "output.weight", "lm_head.weight", NULL, SIZE_VOCAB, SIZE_DIM, USED_ALWAYS, false },
    [ROLE_OUTPUT_NORM] = { "output_norm.weight", "model.norm.weight", NULL, SIZE_DIM, SIZE_ONE, USED_ALWAYS,
                           false },
    [ROLE_ATTN_NORM] = { "attn_norm.weight", "input_layernorm.weight", NULL, SIZE_DIM, SIZE_ONE, USED_ALWAYS,
                         true },
    [ROLE_Q] = { "attn_q.weight", "self_attn.q_proj.weight", NULL, SIZE_Q, SIZE_DIM, USED_ALWAYS, true },
    [ROLE_K] = { "attn_k.weight", "self_attn.k_proj.weight", NULL, SIZE_KV, SIZE_DIM, USED_ALWAYS, true },
    [ROLE_V] = { "attn_v.weight", "self_attn.v_proj.weight", NULL, SIZE_KV, SIZE_DIM, USED_ALWAYS, true },
    [ROLE_O] = { "attn_output.weight", "self_attn.o_proj.weight", NULL, SIZE_DIM, SIZE_Q, USED_ALWAYS, true },
    [ROLE_Q_BIAS] = { "attn_q.bias", "self_attn.q_proj.bias", NULL, SIZE_Q, SIZE_ONE, USED_QKV_BIAS, true },
    [ROLE_K_BIAS] = { "attn_k.bias", "self_attn.k_proj.bias", NULL, SIZE_KV, SIZE_ONE, USED_QKV_BIAS, true },
    [ROLE_V_BIAS] = { "attn_v.bias", "self_attn.v_proj.bias", NULL, SIZE_KV, SIZE_ONE, USED_QKV_BIAS, true },
    [ROLE_Q_NORM] = { "attn_q_norm.weight", "self_attn.q_norm.weight", NULL, SIZE_HEAD, SIZE_ONE,
                      USED_QK_NORM, true },
    [ROLE_K_NORM] = { "attn_k_norm.weight", "self_attn.k_norm.weight", NULL, SIZE_HEAD, SIZE_ONE,
                      USED_QK_NORM, true },
    [ROLE_POST_ATTN_NORM] = { "post_attention_norm.weight", "post_attention_layernorm.weight", NULL, SIZE_DIM,
                              SIZE_ONE, USED_POST_NORMS, true },
    [ROLE_FFN_NORM] = { "ffn_norm.weight", "post_attention_layernorm.weight",
                        "pre_feedforward_layernorm.weight", SIZE_DIM, SIZE_ONE, USED_ALWAYS, true },
    [ROLE_GATE] = { "ffn_gate.weight", "mlp.gate_proj.weight", NULL, SIZE_FFN, SIZE_DIM, USED_ALWAYS, true },
    [ROLE_UP] = { "ffn_up.weight", "mlp.up_proj.weight", NULL, SIZE_FFN, SIZE_DIM, USED_ALWAYS, true },
    [ROLE_DOWN] = { "ffn_down.weight", "mlp.down_proj.weight", NULL, SIZE_DIM, SIZE_FFN, USED_ALWAYS, true },
    [ROLE_POST_FFN_NORM] = { "post_ffw_norm.weight", "post_feedforward_layernorm.weight", NULL, SIZE_DIM,
                             SIZE_ONE, USED_POST_NORMS, true },
};

static int64_t size_of(const model_config *c, size_name name)
{
    switch (name) {
    case SIZE_ONE:
        return 1;
    case SIZE_VOCAB:
        return c->vocab;
    case SIZE_DIM:
        return c->dim;
    case SIZE_FFN:
        return c->ffn;
    case SIZE_Q:
        return (int64_t)c->heads * c->head_dim;
    case SIZE_KV:
        return (int64_t)c->kv_heads * c->head_dim;
    case SIZE_HEAD:
        return c->head_dim;
    }
    return 0;
}

bool model_role_used(const model_config *c, model_role role)
{
    switch (roles[role].used) {
    case USED_ALWAYS:
        return true;
    case USED_QKV_BIAS:
        return c->qkv_bias;
    case USED_QK_NORM:
        return c->qk_norm;
    case USED_POST_NORMS:
        return c->post_norms;
    }
    return false;
}

bool model_role_per_layer(model_role role)
{
    return roles[role].per_layer;
}

int model_role_shape(const model_config *c, model_role role, int64_t shape[2])
{
    shape[0] = size_of(c, roles[role].rows);
    shape[1] = size_of(c, roles[role].cols);
    return roles[role].cols == SIZE_ONE ? 1 : 2;
}

void model_role_name(const model_config *c, model_role role, int layer, char out[MODEL_NAME_BYTES])
{
    if (role == ROLE_OUTPUT && c->tied)
        role = ROLE_TOKEN_EMBD;
    const char *name = roles[role].gguf, *layers = "blk.";
    if (c->kind == MODEL_FILE_HF) {
        layers = "model.layers.";
        name = c->post_norms && roles[role].hf_gemma ? roles[role].hf_gemma : roles[role].hf;
    }
    if (roles[role].per_layer)
        snprintf(out, MODEL_NAME_BYTES, "%s%d.%s", layers, layer, name);
    else
        snprintf(out, MODEL_NAME_BYTES, "%s", name);
}

const tensor_view *model_names_find(const model_file *f, const model_config *c, model_role role, int layer)
{
    char name[MODEL_NAME_BYTES];
    if (!model_role_used(c, role))
        return NULL;
    model_role_name(c, role, layer, name);
    return model_file_tensor(f, name);
}

/* Checking ---------------------------------------------------------------------------------------- */

enum { FAULTS_SHOWN = 4 };

typedef struct {
    buf text; /* the first faults, separated by "; " */
    int count;
} faults;

static void check_one(const model_file *f, const model_config *c, model_role role, int layer, faults *bad)
{
    char name[MODEL_NAME_BYTES];
    int64_t shape[2];
    const tensor_view *v = model_names_find(f, c, role, layer);
    int dims = model_role_shape(c, role, shape);
    model_role_name(c, role, layer, name);
    bool shaped = v && v->dims == dims && v->shape[0] == shape[0] && v->shape[1] == shape[1];
    bool typed = v && dtype_get(v->type)->weight && (dims == 2 || dtype_get(v->type)->block == 1);
    if (shaped && typed)
        return;
    if (bad->count++ >= FAULTS_SHOWN)
        return;
    buf_puts(&bad->text, bad->count > 1 ? "; " : "");
    if (!v)
        buf_printf(&bad->text, "%s is missing", name);
    else if (!shaped && dims == 1)
        buf_printf(&bad->text, "%s has %d dimensions [%" PRId64 ", %" PRId64 "], expected [%" PRId64 "]",
                   name, v->dims, v->shape[0], v->shape[1], shape[0]);
    else if (!shaped)
        buf_printf(&bad->text,
                   "%s has %d dimensions [%" PRId64 ", %" PRId64 "], expected [%" PRId64 ", %" PRId64 "]",
                   name, v->dims, v->shape[0], v->shape[1], shape[0], shape[1]);
    else
        buf_printf(&bad->text, "%s has type %s, which foray does not compute with", name, v->type_name);
}

int model_names_check(const model_file *f, const model_config *c, foray_error *err)
{
    faults bad = { 0 };
    int rc = 0, unsupported = 0;
    for (int role = 0; role < ROLE_COUNT; role++) {
        if (!model_role_used(c, (model_role)role) || (role == ROLE_OUTPUT && c->tied))
            continue;
        for (int layer = 0; layer < (roles[role].per_layer ? c->layers : 1); layer++) {
            const tensor_view *v = model_names_find(f, c, (model_role)role, layer);
            int before = bad.count;
            check_one(f, c, (model_role)role, layer, &bad);
            unsupported += bad.count > before && v && !dtype_get(v->type)->weight;
        }
    }
    if (bad.count > 0) {
        char more[32] = "";
        if (bad.count > FAULTS_SHOWN)
            snprintf(more, sizeof more, "; and %d more", bad.count - FAULTS_SHOWN);
        rc = fail(err, unsupported == bad.count ? FORAY_EUNSUPPORTED : FORAY_EFILE, "%s: tensors: %s%s",
                  model_file_path(f), bad.text.data ? bad.text.data : "", more);
    }
    buf_free(&bad.text);
    return rc;
}

/* Row order --------------------------------------------------------------------------------------- */

/* One head of rope_dim 8 and head_dim 10:      file   0 1 2 3 4 5 6 7 8 9     pairs (0,1) (2,3) (4,5) (6,7)
 *                                              foray  0 2 4 6 1 3 5 7 8 9     pairs (0,4) (1,5) (2,6) (3,7) */
static int32_t source_row(const model_config *c, int32_t row)
{
    int32_t head = row / c->head_dim, in = row % c->head_dim, half = c->rope_dim / 2;
    if (in < half)
        in = 2 * in;
    else if (in < c->rope_dim)
        in = 2 * (in - half) + 1;
    return head * c->head_dim + in;
}

bool model_qk_row_order(const model_config *c, int heads, int32_t *order)
{
    if (!c->qk_interleaved)
        return false;
    for (int32_t row = 0; row < heads * c->head_dim; row++)
        order[row] = source_row(c, row);
    return true;
}

void model_names_vector(const model_file *f, const model_config *c, model_role role, int layer, float *out)
{
    const tensor_view *v = model_names_find(f, c, role, layer);
    assert(v && v->dims == 1 && dtype_get(v->type)->block == 1);
    bool bias = role == ROLE_Q_BIAS || role == ROLE_K_BIAS || role == ROLE_V_BIAS;
    dtype_to_f32(v->type, v->data, (size_t)v->shape[0], out);
    for (int64_t i = 0; !bias && i < v->shape[0]; i++)
        out[i] += c->norm_offset;
}
