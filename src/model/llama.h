/* llama.h: Llama-type dense models: weights, and the forward pass that reads like the paper.
 *
 * Llama 2 and 3, SmolLM2, Mistral, Qwen 2, Qwen 3 and Gemma 3 differ in a few switches of model_config: biases on
 * q, k, v; norms on q and k; norms behind the sub-layers; the gate's function; windows and a second rotary base.
 * Weights are packed for the device's kernels at load and never change.
 * Threads: load may be called once; forward from the host thread of the device.
 */
#ifndef FORAY_MODEL_LLAMA_H
#define FORAY_MODEL_LLAMA_H

#include "base/arena.h"
#include "cache/kv.h"
#include "model/model.h"
#include "model/model_config.h"

typedef struct {
    packed_weight qkv[3]; /* [(H + 2 Hkv) d, dim]  q | k | v, in as few matrices as their types allow */
    int qkv_parts;
    packed_weight o;                       /* [dim, H d] */
    packed_weight gate_up;                 /* [2 ffn, dim]          gate and up interleaved by group */
    packed_weight down;                    /* [dim, ffn] */
    float *attn_norm, *ffn_norm;           /* [dim] */
    float *post_attn_norm, *post_ffn_norm; /* [dim] or NULL */
    float *q_norm, *k_norm;                /* [d] or NULL */
    float *qkv_bias;                       /* [(H + 2 Hkv) d] or NULL */
} llama_layer;

typedef struct llama {
    model_config config;
    kv_shape kv;                            /* of the cache's pool */
    llama_layer *layer;                     /* [layers] */
    packed_weight head;                     /* [vocab, dim] */
    float *output_norm;                     /* [dim] */
    const tensor_view *embedding;           /* [vocab, dim] in the file */
    float *frequency, *frequency_local;     /* [rope_dim / 2] */
    float rope_scale;                       /* of cos and sin */
    arena memory;                           /* vectors; lives as long as the model */
    uint64_t weight_bytes, bytes_per_token; /* packed; read by one decode step */
    double products;                        /* multiply-adds of a row in the trunk's matrices */
} llama;

/* Activations of a pass. */
typedef struct llama_buffers {
    float *x;                     /* [max_rows, dim]                residual stream */
    float *angles, *angles_local; /* [max_rows, rope_dim]           cos, sin */
    float *qkv;                   /* [max_rows, (H + 2 Hkv) d] */
    float *att;                   /* [max_rows, H d] */
    float *ffn;                   /* [max_rows, ffn] */
    float *y;                     /* [max_rows, dim]                sub-layer output before a post-norm */
    void *ready;                  /* activations prepared by KERNEL_QUANT, widest input */
} llama_buffers;

/* Checks every tensor (all faults in one error), then packs. f stays open as long as the model. *out is
 * owned: llama_free. */
int llama_load(const model_file *f, const model_options *o, llama **out, foray_error *err);
void llama_free(llama *m); /* m may be NULL */

/* *out is owned: llama_buffers_destroy (NULL is let pass). */
int llama_buffers_create(const llama *m, device *d, int max_rows, llama_buffers **out, foray_error *err);
void llama_buffers_destroy(device *d, llama_buffers *b);

/* Launches the trunk over the pass's rows: x becomes the last layer's residual stream, K and V are stored. `rows`,
 * `spans` bound what is live (a graph's tier); max_length bounds position + 1. */
int llama_trunk(const llama *m, const pass *p, const cache *c, int rows, int spans, int max_length, stream *s,
                foray_error *err);

/* Launches the head over the rows named in p->head_row: hidden and logits. */
int llama_head(const llama *m, const pass *p, int heads, stream *s, foray_error *err);

double llama_attention_products(const llama *m, int first, int rows); /* see model.h */

#endif
