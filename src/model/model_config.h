/* model_config.h: what a dense model is made of: one struct for every family, read from a GGUF file's keys or a
 * folder's config.json, validated once.
 *
 * Families: Llama 2 and 3 and SmolLM2 (llama), Mistral (llama in GGUF files, mistral in folders), Qwen 2,
 * Qwen 3, Gemma 3 (text). Reading the same model from either kind of file gives the same struct but for the
 * fields marked (file), and for llama3 scaling, of which GGUF files keep the divisors only. Numbers that decide a token (rotary frequencies) come from arithmetic of our own, so
 * that they have the same bits on every machine.
 * Threads: any; a config never changes once read.
 */
#ifndef FORAY_MODEL_MODEL_CONFIG_H
#define FORAY_MODEL_MODEL_CONFIG_H

#include "format/model_file.h"

enum {
    MODEL_MAX_LAYERS = 256,
    MODEL_MAX_HEAD_DIM = 512,
    MODEL_MAX_HEADS = 512,
    MODEL_MAX_DIM = 1 << 16,
    MODEL_MAX_FFN = 1 << 18,
    MODEL_MAX_VOCAB = 1 << 20,
    MODEL_MAX_CONTEXT = 1 << 24,
    MODEL_MAX_END_IDS = 16,
};

typedef enum {
    MODEL_LLAMA,
    MODEL_MISTRAL,
    MODEL_QWEN2,
    MODEL_QWEN3,
    MODEL_GEMMA3,
    MODEL_ARCH_COUNT
} model_arch;
typedef enum { ROPE_PLAIN, ROPE_LINEAR, ROPE_LLAMA3, ROPE_YARN, ROPE_FACTORS } rope_kind;
typedef enum { GATE_SILU, GATE_GELU_TANH } gate_kind;

/* How positions are stretched beyond the trained context. Frequencies of pair i start as theta^(-2i/d). */
typedef struct {
    rope_kind kind;
    double factor;               /* linear, llama3, yarn: >= 1 */
    double low_freq_factor;      /* llama3 */
    double high_freq_factor;     /* llama3 */
    double original_context;     /* llama3, yarn: tokens */
    double beta_fast, beta_slow; /* yarn: rotations within the original context */
    double attention_factor;     /* yarn: multiplies cos and sin; 0: 0.1 ln(factor) + 1 */
    bool truncate;               /* yarn: the ramp's ends are whole pairs */
    float pair[MODEL_MAX_HEAD_DIM /
               2]; /* factors: [rope_dim / 2] divisors that the file gives (rope_freqs.weight) */
} rope_scaling;

typedef struct {
    model_arch arch;       /* (file) GGUF files store Mistral as llama */
    const char *arch_name; /* (file) model_arch_name(arch) */
    model_file_kind kind;  /* (file) */
    char name[64];         /* (file) general.name, or the folder's */

    int layers, dim, ffn, vocab;
    int heads, kv_heads, head_dim; /* heads % kv_heads == 0 */
    int context;                   /* tokens that the model was made for */
    float rms_eps;

    int rope_dim; /* <= head_dim, even: the first rope_dim of a head are rotated */
    double rope_theta;
    double rope_theta_local; /* of local layers; rope_theta where the family has one only */
    rope_scaling rope;       /* of layers that are not local */

    int window[MODEL_MAX_LAYERS];      /* [layers] a row sees that many entries, itself included; 0: all */
    bool rope_local[MODEL_MAX_LAYERS]; /* [layers] uses rope_theta_local, unscaled */

    float attention_scale; /* softmax(scale q k) */
    gate_kind gate;
    bool qkv_bias, qk_norm, post_norms; /* post_norms: a norm behind attention and behind the FFN (Gemma) */
    float embedding_scale;              /* 1, or sqrt(dim) */
    float norm_offset;                  /* (file) added to every norm weight: 1 for Gemma folders, else 0 */
    bool qk_interleaved;                /* (file) q and k rows are stored for interleaved rotation */
    bool tied;                          /* the output matrix is the embedding */

    const char *chat_template; /* borrowed from the file, no NUL at its end; NULL: none */
    size_t chat_template_bytes;
    int32_t end_ids[MODEL_MAX_END_IDS]; /* (file) ids that end a text */
    int end_count;
} model_config;

/* Reads and validates. *out borrows strings from f. EFILE names a key that is missing, of a wrong type or
 * absurd; EUNSUPPORTED names an architecture or feature that foray does not run. *out is unchanged on error. */
int model_config_read(const model_file *f, model_config *out, foray_error *err);

/* "llama", "mistral", … */
const char *model_arch_name(model_arch arch);
/* All families, separated by ", ", for messages. */
const char *model_arch_names(void);

/* The rotary frequencies of a kind of layer, in radians per position: out[i], i < rope_dim / 2, rounded to f32
 * once at the end, and the factor for cos and sin (YaRN's; else 1). Same bits on every machine. */
void model_rope_frequencies(const model_config *c, bool local, float *out, float *mscale);

#endif
