/* tiny.h: tiny random models, written as GGUF files and as Hugging Face folders with the same weights. For tests.
 *
 * A spec says everything, its seed included, so the same spec gives the same bytes on every machine. Weights are
 * scaled so that the logits have a spread of a few units and the text wanders. Everything that fails asserts.
 */
#ifndef FORAY_TESTS_SUPPORT_TINY_H
#define FORAY_TESTS_SUPPORT_TINY_H

#include "format/dtype.h"
#include "model/model_config.h"
#include "support/gguf_write.h"

typedef struct {
    model_arch arch;
    int layers, dim, ffn, heads, kv_heads, head_dim, vocab, context; /* vocab >= 259 */
    dtype
        type; /* of the matrices; rows must be whole blocks: K-quants need dim, ffn, heads * head_dim in 256s */
    dtype embd_type; /* of the embedding and, untied, of the output */
    bool untied;
    int window; /* Mistral, Gemma 3 (which must have one); 0: none */
    rope_kind
        rope; /* plain, linear, llama3, yarn; the factor is 4, the original context a quarter of context */
    double rope_theta; /* 0: 10000 */
    bool no_text;      /* leave the tokenizer out */
    uint64_t seed;
} tiny_spec;

/* A SmolLM2-like model: llama, 3 layers, dim 64, heads 4/2 of 16, ffn 128, vocab 512, context 512, F32, tied. */
tiny_spec tiny_default(void);
/* The same for any family, with what the family needs (Gemma 3: six layers, so that one of them is global). */
tiny_spec tiny_family(model_arch arch);

void tiny_write_gguf(const tiny_spec *spec, const char *path);
/* type and embd_type must be plain ones (F32, F16, BF16), as folders have no others; both the same. Makes the folder. */
void tiny_write_hf(const tiny_spec *spec, const char *folder);

/* The tokenizer of tiny_text.h alone: tokenizer.json and tokenizer_config.json of a folder, or a GGUF file's keys.
 * chat_template may be NULL. */
void tiny_write_text(const char *folder, int vocab, const char *chat_template);
void tiny_gguf_text(gguf_writer *w, int vocab, const char *chat_template);

/* A new folder below the system's place for temporary files; removed, with its contents, when the process ends. */
const char *tiny_folder(void);
/* folder/name, in one of eight static buffers that take turns. */
const char *tiny_path(const char *folder, const char *name);

/* Writes the model as GGUF into a folder of its own and returns its path, static like tiny_path's. */
const char *tiny_gguf(const tiny_spec *spec);

#endif
