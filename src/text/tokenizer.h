/* tokenizer.h: text to token ids and back.
 *
 * Two models: byte-level BPE (with a pre-tokenizer pattern) and SentencePiece-style BPE with byte fallback.
 * Loaded from GGUF arrays or from tokenizer.json. Immutable after loading.
 * Threads: encode takes its scratch from the caller's arena or the heap; any number at once.
 */
#ifndef FORAY_TEXT_TOKENIZER_H
#define FORAY_TEXT_TOKENIZER_H

#include "base/buf.h"
#include "base/error.h"
#include "format/model_file.h"

typedef struct tokenizer tokenizer;

typedef struct {
    int32_t *ids; /* owned: ids_free */
    size_t count, cap;
} id_list;

int id_list_push(id_list *l, int32_t id); /* FORAY_ENOMEM or 0 */
void id_list_free(id_list *l);

/* Builds the tokenizer of a model. EUNSUPPORTED names a model or pre-tokenizer that is not known. */
int tokenizer_load(const model_file *f, tokenizer **out, foray_error *err);
void tokenizer_free(tokenizer *t);

/* Appends the ids of text[0 … bytes). special: control tokens written in the text become their ids, else
 * they are plain text. begin: the begin-of-text id is put in front where the model asks for it, once even
 * when the text itself starts with it (cases.md R01). Any bytes are accepted; decode(encode(x)) == x for
 * byte-level models. */
int tokenizer_encode(const tokenizer *t, const char *text, size_t bytes, bool special, bool begin,
                     id_list *out, foray_error *err);

int tokenizer_vocab(const tokenizer *t);
/* The bytes a token adds to running text (control tokens: none). Lives as long as the tokenizer. */
const char *tokenizer_bytes(const tokenizer *t, int32_t id, size_t *bytes);
/* The token's spelling in the vocabulary, for inspection. */
const char *tokenizer_spelling(const tokenizer *t, int32_t id, size_t *bytes);
bool tokenizer_is_control(const tokenizer *t, int32_t id);
int32_t tokenizer_find(const tokenizer *t, const char *spelling); /* -1: none */
int32_t tokenizer_begin_id(const tokenizer *t);                   /* -1: none */
/* Ids that end a text: the file's eos list, and end-of-turn markers that the file names. */
const int32_t *tokenizer_end_ids(const tokenizer *t, size_t *count);
const char *tokenizer_kind(const tokenizer *t); /* "bpe/smollm", "spm", … for inspect */

#endif
