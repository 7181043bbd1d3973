/* tiny_v4.h: tiny random models of the DeepSeek-V4 family: the same weights in every naming and format. For tests.
 *
 * A spec says everything, its seed included, so the same spec gives the same bytes on every machine. Every weight has one
 * exact value, which each format can hold: e4m3 times a power of two per tile, e2m1 times one per 32 columns, int8 times
 * one per row, and BF16. So all formats of a spec give the same logits where activations are not rounded. Sites of the
 * hyper-connections, position biases and sinks are spread widely, so that mistakes with them show.
 * Names and shapes are written down here independently of src/model. Everything that fails asserts.
 */
#ifndef FORAY_TESTS_SUPPORT_TINY_V4_H
#define FORAY_TESTS_SUPPORT_TINY_V4_H

#include "model/deepseek4_config.h"

typedef enum {
    TINY_V4_PLAIN,        /* folder, names as published: BF16 and F32 */
    TINY_V4_QUANT,        /* folder, names as published: FP8 linears, FP4 experts */
    TINY_V4_VLLM,         /* the same as vLLM and SGLang name it, the drafter behind the last layer */
    TINY_V4_TRANSFORMERS, /* BF16 and F32 as transformers names and stacks it; leaves the drafter out, as it does */
    TINY_V4_MODELSLIM,  /* folder, W8A8_DYNAMIC; two shards; the drafter has copies of embedding and head */
    TINY_V4_GGUF,       /* GGUF: BF16 and F32 */
    TINY_V4_GGUF_MXFP4, /* GGUF: experts in MXFP4 */
    TINY_V4_FORMATS
} tiny_v4_format;

enum { TINY_V4_MAX_LAYERS = 16 };

typedef struct {
    int layers, vocab, dim, context; /* vocab >= 259 unless no_text */
    int heads, head_dim, rope_dim, q_rank, groups, o_rank, window;
    int ratio[TINY_V4_MAX_LAYERS];
    int index_heads, index_dim, index_top;
    int experts, chosen, ffn, hash_layers;
    float swiglu_limit, route_scale;
    bool yarn; /* factor 4 on a quarter of the context */
    deepseek4_drafter drafter;
    bool no_text; /* leave the tokenizer out */
    uint64_t seed;
} tiny_v4_spec;

/* Six layers of all kinds (ratios 0, 4, 16, 4, 128, 4; the first routes by token id), window 8, index top 4, 8 experts of
 * which 2, widths of 128, vocabulary 512, context 512, a NextN layer. Fits every format; about 4 M weights. */
tiny_v4_spec tiny_v4_default(void);
/* Three layers (ratios 0, 4, 8), every width another, about 150 k weights. Not for QUANT, VLLM and MXFP4, whose groups
 * need widths of 128. */
tiny_v4_spec tiny_v4_small(void);

/* Writes the model: a folder, which is made, or a GGUF file. */
void tiny_v4_write(const tiny_v4_spec *spec, tiny_v4_format format, const char *path);

/* Writes it into a folder of its own and returns the path: of a folder until the process ends, of a GGUF file static like
 * tiny_path's. */
const char *tiny_v4_model(const tiny_v4_spec *spec, tiny_v4_format format);

/* A BF16 folder of the values of an official FP8 and FP4 one (the golden t0-quant): its trunk, drafter and settings. */
void tiny_v4_widen(const char *quantised, const char *folder);

#endif
