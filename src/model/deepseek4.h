/* deepseek4.h: DeepSeek-V4 type models: weights, the trunk and its head, and the NextN layer that drafts for it
 * (spec: DeepSeek-V4 2 and 3). Reads like that section.
 *
 * A row is S residual streams. Each sub-layer reads a mixture of them and is mixed back in (hyper-connections).
 * Attention sees a window of latents and, by the layer's ratio, compressed entries, which an indexer may choose among.
 * The feed-forward part is a shared expert beside a few routed ones. Branches (K/V; Q; indexer and compressor; shared
 * expert) are kernels with inputs and outputs of their own, so that they can be forked.
 * Weights are packed at load and never change. Threads: load may be called once; passes from the host thread.
 */
#ifndef FORAY_MODEL_DEEPSEEK4_H
#define FORAY_MODEL_DEEPSEEK4_H

#include "base/arena.h"
#include "cache/sparse.h"
#include "kernel/expert_block.h"
#include "model/deepseek4_config.h"
#include "model/model.h"

/* A hyper-connection site. */
typedef struct {
    packed_weight fn;    /* [(2 + S) S, S dim]; in front of a head [S, S dim] */
    float *base, *scale; /* [(2 + S) S], [3]; [S], [1] */
} v4_mixer;

typedef struct {
    packed_weight kv_gate; /* [2 C, dim]  wkv | wgate; C = width, overlapped: twice that */
    float *ape;            /* [ratio, C] */
    float *norm;           /* [width] */
} v4_compressor;

typedef struct {
    v4_mixer attn, ffn;
    float *attn_norm, *ffn_norm; /* [dim] */

    packed_weight wq_a, wq_b, wkv;  /* [q_rank, dim], [H d, q_rank], [d, dim] */
    packed_weight *wo_a;            /* [groups]: [o_rank, H d / groups] each */
    packed_weight wo_b;             /* [dim, groups o_rank] */
    float *q_norm, *kv_norm, *sink; /* [q_rank], [d], [H] */

    v4_compressor compressor; /* ratio != 0 */
    /* ratio 4: the indexer */
    packed_weight index_q, index_weights; /* [h n, q_rank], [h, dim] */
    v4_compressor index;

    packed_weight gate; /* [experts, dim] */
    float *gate_bias;   /* [experts], or NULL: */
    int32_t *hash;      /* [vocab, chosen] */
    expert_block experts;
    packed_weight shared_up, shared_down; /* [2 ffn, dim] gate and up interleaved, [dim, ffn] */
} v4_layer;

typedef struct {
    packed_weight e_proj, h_proj;  /* [dim, dim] */
    float *e_norm, *h_norm, *norm; /* [dim] */
    v4_mixer collapse;
    const packed_weight *head; /* [vocab, dim] its own, or the trunk's */
    packed_weight own_head;    /* data NULL: none */
    weight_source embedding;   /* its own, or the trunk's */
} v4_nextn;

typedef struct deepseek4 {
    deepseek4_config config;
    sparse_shape shape; /* of the cache's pools */
    v4_layer *layer;    /* [layers + 1]: the last is NextN's, empty without it */
    v4_mixer collapse;
    float *norm;                             /* [dim] */
    packed_weight head;                      /* [vocab, dim] */
    weight_source embedding;                 /* [vocab, dim] in the file */
    v4_nextn *nextn;                         /* NULL: no drafter in the files, or not wanted */
    bool rounded;                            /* activations are rounded as the checkpoint expects it */
    float *frequency, *frequency_compressed; /* [rope_dim / 2] */
    float attention_scale, index_scale;
    arena memory; /* vectors; lives as long as the model */
    uint64_t weight_bytes, bytes_per_token;
    double products; /* multiply-adds of a row in the trunk's matrices */
} deepseek4;

/* Side streams of decode and verify passes (spec execution.md 4.2): keys and values, queries, the shared expert. */
enum { V4_SIDE_KV, V4_SIDE_Q, V4_SIDE_SHARED, V4_SIDES };
extern const char *const deepseek4_sides[V4_SIDES];

/* Activations of a pass; S streams, H heads of d, E chosen experts. */
typedef struct deepseek4_buffers {
    float *x;                          /* [max_rows, S, dim]     residual streams */
    float *mix;                        /* [max_rows, (2 + S) S] */
    float *post, *comb;                /* [max_rows, S], [max_rows, S, S] */
    float *in, *out;                   /* [max_rows, dim]        of a sub-layer */
    float *angles, *angles_compressed; /* [max_rows, rope_dim] */
    float *qr, *q;                     /* [max_rows, q_rank], [max_rows, H, d] */
    float *kv;                         /* [max_rows, d] */
    float *comp, *index_comp;          /* [max_rows, 4 d], [max_rows, 4 index_dim]  kv | score */
    float *index_q, *index_weights;    /* [max_rows, h, n], [max_rows, h] */
    float *score;                      /* [max_rows, max_entries] */
    int32_t *chosen, *chosen_count;    /* [max_rows, index_top], [max_rows] */
    float *att, *low;                  /* [max_rows, H, d], [max_rows, groups o_rank] */
    float *gate;                       /* [max_rows, experts] */
    int32_t *choice;                   /* [max_rows, E] */
    float *weight;                     /* [max_rows, E] */
    int32_t *first, *pair, *distinct;  /* [experts + 1], [max_rows E], [layers + 1] */
    float *act, *result;               /* [max_rows E, ffn], [max_rows E, dim] */
    float *shared, *shared_act;        /* [max_rows, dim], [max_rows, ffn] */
    void *ready;                       /* prepared activations, widest input … */
    void *ready_side[V4_SIDES];        /* … and of what side streams compute, for [max_heads] rows */
    float *heads;                      /* [max_heads, S, dim]    rows picked for the head */
    /* of the NextN layer */
    float *source;       /* [max_rows, S, dim]  the streams it starts from */
    float *embedded;     /* [max_rows, dim] */
    int32_t *stream_row; /* [max_rows S]        i / S */
    int max_entries;
} deepseek4_buffers;

/* Checks every tensor (all faults in one error), then packs. f stays open as long as the model. *out is owned:
 * deepseek4_free (NULL is let pass). */
int deepseek4_load(const model_file *f, const model_options *o, deepseek4 **out, foray_error *err);
void deepseek4_free(deepseek4 *m);

/* max_length: the longest request there can be, which bounds the indexer's scores. *out is owned. */
int deepseek4_buffers_create(const deepseek4 *m, device *d, int max_rows, int max_heads, int max_length,
                             deepseek4_buffers **out, foray_error *err);
void deepseek4_buffers_destroy(device *d, deepseek4_buffers *b);

/* As model_trunk and model_head. With a NextN layer the trunk also stores each row's streams for it. */
int deepseek4_trunk(const deepseek4 *m, const pass *p, const cache *c, int rows, int max_length, stream *s,
                    fork_streams *fork, foray_error *err);
int deepseek4_head(const deepseek4 *m, const pass *p, int heads, stream *s, foray_error *err);

/* The NextN layer over the rows of p (a pass of its own): row i is made of the streams at its position and of ids[row],
 * the token that follows. Streams come from the cache's pool of the target's streams, or, `self` given, from entry 0 of
 * self[slot], the layer's own of the step before. Head rows: their streams go to self[slot of the row] and their
 * logits to p->logits. p->count->stream_rows holds live rows x S. */
int deepseek4_nextn(const deepseek4 *m, const pass *p, const cache *c, int rows, int heads, int max_length,
                    bool from_self, const entry_rows *self, const int32_t *head_slot, stream *s,
                    foray_error *err);

double deepseek4_attention_products(const deepseek4 *m, int first, int rows); /* see model.h */

#endif
