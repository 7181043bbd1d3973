/* kernel.h: the kernels of foray: their names, their arguments, their cost. Not how they run: that is
 * kernel/ref (which defines the bits, design.md P2) and kernel/cpu, through kernel/impl.h.
 *
 * Rows: a pass computes `rows` activation rows. The number of live rows stands in device memory and may be
 * smaller than the number launched; kernels read it when they start and do not compute padding.
 * Pointers in argument structs are device memory, borrowed until the kernel has run (a captured kernel:
 * until its graph is destroyed). Argument structs are copied at launch.
 */
#ifndef FORAY_KERNEL_KERNEL_H
#define FORAY_KERNEL_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rng.h"
#include "kernel/args_experts.h"
#include "kernel/args_hyper.h"
#include "kernel/args_sparse.h"
#include "kernel/rows.h"
#include "kernel/weight.h"

typedef enum { CLASS_COMPUTE, CLASS_ATTENTION, CLASS_COPY, CLASS_COMM, CLASS_HOST } kernel_class;

typedef enum {
    KERNEL_EMBED,            /* token ids to rows of the residual stream */
    KERNEL_QUANT,            /* optional RMSNorm, then activations in the form the weights want */
    KERNEL_MATMUL,           /* rows x packed weights, with norm in front and an epilogue behind */
    KERNEL_ROPE_ANGLES,      /* cos and sin for each row's position */
    KERNEL_ROPE_STORE,       /* rotate q and k, k and v into the cache */
    KERNEL_ATTENTION,        /* softmax(q k) v over paged entries */
    KERNEL_NORM_ADD,         /* x += rmsnorm(y): the post-norm of Gemma */
    KERNEL_GATHER,           /* rows picked by index */
    KERNEL_SAMPLE,           /* logits to one token per row */
    KERNEL_HYPER_PRE,        /* residual streams to a sub-layer's input (args_hyper.h) */
    KERNEL_HYPER_POST,       /* a sub-layer's output into the residual streams */
    KERNEL_HEAD_ROPE,        /* norm, rotate, round each head (args_sparse.h) */
    KERNEL_LATENT_STORE,     /* a row's latent into the window ring */
    KERNEL_STATE_STORE,      /* a row's share of a compressor's state */
    KERNEL_COMPRESS,         /* completed groups to compressed entries */
    KERNEL_INDEX_SCORE,      /* the indexer's score of every visible entry */
    KERNEL_INDEX_SELECT,     /* the entries a row attends to */
    KERNEL_SPARSE_ATTENTION, /* window and compressed entries in one softmax */
    KERNEL_ENTRY_STORE,      /* rows to whole entries */
    KERNEL_ENTRY_LOAD,       /* whole entries to rows */
    KERNEL_ROUTE,            /* which experts a row goes to (args_experts.h) */
    KERNEL_GROUP,            /* rows by expert */
    KERNEL_EXPERTS,          /* each expert over its rows */
    KERNEL_COMBINE,          /* a row's results added up */
    KERNEL_HOST,             /* a C function in stream order */
    KERNEL_COUNT
} kernel_id;

/* out[row] = table[id[row]] * scale. The table stands as in the file. */
typedef struct {
    row_count rows;
    const int32_t *ids; /* [rows] an id outside the vocabulary gives zeros */
    int dtype;          /* of format/dtype.h */
    const void *table;  /* [vocab, dim] */
    int vocab, dim;
    float scale; /* 1, or sqrt(dim) for Gemma */
    int copies;  /* residual streams, each a copy: 1 but for hyper-connections */
    float *out;  /* [rows, copies, dim] */
} args_embed;

/* Activations as the weights want them (kernel/weight.h says which form belongs to which weight type). */
typedef struct {
    row_count rows;
    const float *x; /* [rows, cols], stride between rows in floats */
    size_t x_stride;
    int cols;
    const float *norm; /* [cols] RMSNorm weight, or NULL: no norm */
    float eps;
    activation_form form;
    activation out; /* [rows, cols] */
} args_quant;

typedef enum {
    EPILOGUE_STORE,  /* out  = y (+ bias) */
    EPILOGUE_ADD,    /* out += y (+ bias): the residual */
    EPILOGUE_SWIGLU, /* weights are gate and up interleaved: out = silu(gate) * up, half as wide */
    EPILOGUE_GEGLU,  /* the same with gelu (tanh form) */
} matmul_epilogue;

/* y[row, n] = sum_k x[row, k] * w[n, k]. Input: either x (with an optional norm, prepared privately by each
 * worker: few rows) or `ready`, written by KERNEL_QUANT (many rows). Both give the same bits. */
typedef struct {
    row_count rows;
    const packed_weight *w;
    const float *x; /* [rows, w->cols]; NULL: use ready */
    size_t x_stride;
    const float *norm; /* [w->cols] or NULL */
    float eps;
    activation ready;
    const float *bias; /* [w->rows] or NULL; gated: of all gates, then of all ups */
    matmul_epilogue epilogue;
    float limit; /* SWIGLU: gate is cut at +limit, up at +-limit; 0: neither */
    float *out;  /* [rows, w->rows] (half of that for the gated ones), stride in floats */
    size_t out_stride;
} args_matmul;

/* cos_sin[row] = { cos(p f_i) * mscale … , sin(p f_i) * mscale … } for i < half, p = position[row]. */
typedef struct {
    row_count rows;
    const int32_t *position; /* [rows] */
    const float *frequency;  /* [half] */
    int half;
    float mscale;   /* YaRN's attention factor, else 1 */
    float *cos_sin; /* [rows, 2 half] */
} args_rope_angles;

/* The paged K/V of one layer. A page holds `page_rows` entries of every KV head:
 *
 *   page:  K [kv_heads][page_rows / 16][head_dim][16 entries] f16    lane = entry
 *          V [kv_heads][page_rows][head_dim]                  f16    lane = dimension
 *
 * page_rows is a multiple of 16. Entry t of a request lies in page table[t / page_rows], at t % page_rows. */
typedef struct {
    uint8_t *base;        /* page p starts at base + p * page_stride */
    size_t page_stride;   /* bytes */
    const int32_t *table; /* [slots, table_stride] page numbers of each request slot */
    int table_stride;
    int page_rows, kv_heads, head_dim;
} kv_layer;

/* Rotates (half-split pairs: i with i + half) q in place and k, after an optional RMSNorm per head, then
 * stores k and v at position[row] of slot[row]. qkv row: [heads d | kv_heads d | kv_heads d]. */
typedef struct {
    row_count rows;
    float *qkv; /* [rows, (heads + 2 kv_heads) d] */
    int heads;
    int rope_dim;                 /* <= head_dim: the rest is not rotated; 0: no rotation */
    const float *cos_sin;         /* [rows, rope_dim] of KERNEL_ROPE_ANGLES */
    const float *q_norm, *k_norm; /* [head_dim] or NULL */
    float eps;
    const int32_t *position, *slot; /* [rows] */
    kv_layer kv;
} args_rope_store;

/* Row i of a span at position p sees the entries max(0, p - window + 1) … p (window 0: from 0).
 * out[row, h] = sum_t softmax_t(scale q.k_t) v_t. */
typedef struct {
    const int32_t *span_count; /* live spans, device memory */
    const row_span *spans;     /* [max_spans] */
    int max_spans, max_rows;
    int max_length; /* upper bound of p + 1: sizes the scratch */
    const float *q; /* [rows, heads d] with q_stride */
    size_t q_stride;
    int heads;
    float scale;
    int window;
    kv_layer kv;
    float *out; /* [rows, heads d] */
} args_attention;

/* x[row] += rmsnorm(y[row]) * norm. */
typedef struct {
    row_count rows;
    float *x;       /* [rows, dim] */
    const float *y; /* [rows, dim] */
    const float *norm;
    float eps;
    int dim;
} args_norm_add;

/* out[i] = x[index[i]]. */
typedef struct {
    row_count rows;
    const int32_t *index; /* [rows] */
    const float *x;       /* [*, dim] */
    int dim;
    float *out; /* [rows, dim] */
} args_gather;

/* How one row's token is chosen (design.md 5). Filters in the order temperature, top-k, top-p, min-p. */
typedef struct {
    float temperature; /* 0 (or below 1e-6): greedy */
    int32_t top_k;
    float top_p, min_p;
    float repeat_penalty, presence_penalty, frequency_penalty;
    uint64_t seed;
    int32_t bias_count;
    const int32_t *bias_ids;
    const float *bias;
    const int32_t *banned; /* ids that may not come (end-of-text before min_tokens) */
    int32_t banned_count;
    int32_t want_logprob;
} sample_params;

/* What a row is told besides its logits. Penalties see the request's tokens so far, then the drafts in front of the row: the
 * repeat penalty all of them, presence and frequency what was generated. Where the next draft is on trial (rule `exact`), the
 * token is that draft or what replaces it, so that it has the row's distribution however the draft was drawn. */
typedef struct {
    const int32_t *tokens; /* [count] committed */
    int32_t count;
    int32_t prompt;       /* the first so many were not generated */
    const int32_t *draft; /* [draft_count], and one more where that is on trial */
    int32_t draft_count;
    bool trial;          /* of draft[draft_count] */
    const float *drawn;  /* [vocab] the distribution it was drawn from; NULL: no other could have come */
    float *distribution; /* [vocab] filled with the one that this row's token is drawn from, or NULL */
} sample_history;

/* token[row] = argmax over x of log p(x) + g(seed, position, x); ties go to the lowest id. */
typedef struct {
    row_count rows;
    float *logits; /* [rows, vocab]: penalties and bias are applied in place */
    size_t logits_stride;
    int vocab;
    const int32_t *position;            /* [rows] of the token being chosen */
    const sample_params *const *params; /* [rows] */
    const sample_history *history;      /* [rows] */
    rng_use use;                        /* of g: RNG_GUMBEL, or RNG_DRAFT for noise of a drafter's own */
    int32_t *token;                     /* [rows] */
    float *logprob;                     /* [rows] of the chosen token under the raw logits, or NULL */
    const void *reads, *writes;         /* the buffers of `drawn` and `distribution`, as in args_host */
} args_sample;

/* run(user), in stream order, on some worker. reads/writes are for the happens-before check only: each stands
 * for the whole device buffer that it lies in. */
typedef struct {
    const char *name; /* static */
    void (*run)(void *user);
    void *user;
    const void *reads[6], *writes[6]; /* any address inside a device buffer, or NULL */
} args_host;

typedef union {
    args_embed embed;
    args_quant quant;
    args_matmul matmul;
    args_rope_angles rope_angles;
    args_rope_store rope_store;
    args_attention attention;
    args_norm_add norm_add;
    args_gather gather;
    args_sample sample;
    args_host host;
    args_hyper_pre hyper_pre;
    args_hyper_post hyper_post;
    args_head_rope head_rope;
    args_latent_store latent_store;
    args_state_store state_store;
    args_compress compress;
    args_index_score index_score;
    args_index_select index_select;
    args_sparse_attention sparse_attention;
    args_entry_copy entry_copy;
    args_route route;
    args_group group;
    args_experts experts;
    args_combine combine;
} kernel_args;

const char *kernel_name(kernel_id id, const kernel_args *args);
kernel_class kernel_get_class(kernel_id id);
size_t kernel_args_bytes(kernel_id id);

typedef struct {
    double flops, bytes;
} kernel_cost;

/* Work of the launched rows, for the roofline report: floating or integer operations, bytes that must move. */
kernel_cost kernel_get_cost(kernel_id id, const kernel_args *args);

/* The same for the rows that are live, read from device memory: call it when the kernel has just run. */
kernel_cost kernel_get_live_cost(kernel_id id, const kernel_args *args);

/* One buffer that a kernel reads or writes. */
typedef struct {
    const void *start;
    size_t bytes; /* 0: the whole device buffer that start lies in */
    bool write;
} kernel_access;

enum { KERNEL_MAX_ACCESSES = 12 };

/* The device buffers a kernel touches (weights left out: they never change). Returns how many. */
int kernel_accesses(kernel_id id, const kernel_args *args, kernel_access out[KERNEL_MAX_ACCESSES]);

#endif
