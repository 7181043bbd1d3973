/* deepseek4_config.h: what a DeepSeek-V4 type model is made of, read from a folder's config.json or a GGUF file's keys,
 * validated once (spec: DeepSeek-V4 1, 5.5).
 *
 * Threads: any; a config never changes once read.
 */
#ifndef FORAY_MODEL_DEEPSEEK4_CONFIG_H
#define FORAY_MODEL_DEEPSEEK4_CONFIG_H

#include "format/model_file.h"
#include "model/model_config.h"

/* Which drafter stands in the model's own files: told by the names of its tensors, never by a key. */
typedef enum { DEEPSEEK4_NO_DRAFTER, DEEPSEEK4_NEXTN, DEEPSEEK4_DSPARK } deepseek4_drafter;

/* What the checkpoint was trained to have done to activations. */
typedef enum {
    DEEPSEEK4_ROUND_NOTHING, /* BF16, F32 files; GGUF */
    DEEPSEEK4_ROUND_FP8_FP4, /* official quantised files: linear inputs, latents, indexer */
    DEEPSEEK4_ROUND_INT8,    /* W8A8_DYNAMIC: inputs of int8 linears, nothing else */
} deepseek4_rounding;

typedef struct {
    char name[64];
    model_file_kind kind;
    int layers; /* of the trunk; layer number `layers` is the NextN layer */
    int vocab, dim, context;
    int streams, sinkhorn;         /* residual streams; iterations */
    int heads, head_dim, rope_dim; /* the last rope_dim of head_dim are rotated */
    int q_rank, groups, o_rank;    /* grouped low-rank output: groups of heads * head_dim / groups */
    int window;
    int ratio[MODEL_MAX_LAYERS +
              1]; /* [layers + 1]: 0 window only; 4 overlapped, with an indexer; else plain */
    int index_heads, index_dim, index_top; /* 0 where no layer has ratio 4 and the file does not say */
    int experts, chosen, ffn;              /* routed experts, per token; width of routed and shared ones */
    int hash_layers;                       /* the first so many layers route by token id */
    float route_scale, rms_eps, hyper_eps;
    float swiglu_limit;           /* 0: no clamp */
    double theta, compress_theta; /* of ratio 0; of the others, with YaRN if there is any */
    bool yarn;
    double yarn_factor, yarn_original, yarn_beta_fast, yarn_beta_slow;
    deepseek4_drafter drafter;
    int drafter_stages; /* layers of the drafter in the file: NextN 1, DSpark usually 3 */
    deepseek4_rounding rounding;
    bool tied; /* the output matrix is the embedding */
    int32_t end_ids[MODEL_MAX_END_IDS];
    int end_count;
} deepseek4_config;

/* Whether the file says that it is of this family (deepseek_v4, GGUF deepseek4), or of one that is easily mistaken for it
 * (deepseek_v41, GGUF deepseek41 and deepseek4_mtp_support), which deepseek4_config_read refuses by name. Says nothing
 * of what the file holds. */
bool deepseek4_recognise(const model_file *f);

/* Reads and validates: every missing, wrong or contradictory key is listed in one error: EFILE, or EUNSUPPORTED where all
 * of them are things that the format knows and foray does not run. *out is unchanged on error. */
int deepseek4_config_read(const model_file *f, deepseek4_config *out, foray_error *err);

/* Rotary frequencies of a layer kind (compressed: ratio != 0), in radians per position: out[rope_dim / 2]. Same bits
 * on every machine (spec 2.4). */
void deepseek4_frequencies(const deepseek4_config *c, bool compressed, float *out);

#endif
