/* tokenizer_impl.h: what the files of text/ share of a tokenizer: the object, its loaders, and the encoder that
 * tokenizer_encode and chat_encode drive. Not for other rooms.
 *
 * A loader fills a zeroed tokenizer up to and including its merges; tokenizer_load does the rest (markers,
 * bytes, end ids). Threads: a tokenizer is read only once loaded; an encoder belongs to one thread.
 */
#ifndef FORAY_TEXT_TOKENIZER_IMPL_H
#define FORAY_TEXT_TOKENIZER_IMPL_H

#include "text/bpe.h"
#include "text/split.h"
#include "text/tokenizer.h"

/* Where a SentencePiece-style model puts a space in front. */
typedef enum { PREFIX_NONE, PREFIX_FIRST, PREFIX_EVERY } space_prefix;

struct tokenizer {
    vocab v;
    vocab_alphabet alphabet;
    bpe_mode mode;
    bool whole_words; /* a piece that is a token is that token, whatever its merges */
    bool nfc;
    space_prefix prefix;      /* PREFIX_FIRST: at the start of a text; EVERY: also after each marker */
    bool prefix_unless_space; /* … but not in front of a space */
    bool add_begin;           /* the model asks for begin_id in front of a text */
    int32_t unknown_id;       /* stands for bytes that a byte-level vocabulary lacks; -1: they are left out */
    int32_t begin_id;         /* -1: none */
    splitter split;           /* byte-level models */
    int32_t *end;             /* [end_count], room for end_cap */
    size_t end_count, end_cap;
    char kind[48];
};

int tokenizer_fill_from_gguf(tokenizer *t, const model_file *f, foray_error *err);
int tokenizer_fill_from_json(tokenizer *t, const model_file *f, foray_error *err);

/* Adds an end id, once. FORAY_ENOMEM or 0. */
int tokenizer_add_end(tokenizer *t, int32_t id, foray_error *err);

/* A text on its way to ids. Pieces of text are handed in one after the other and read as one text, so that
 * tokens may span their seams; each piece says whether markers in it count. */
typedef struct {
    const tokenizer *t;
    id_list *out;
    foray_error *err;
    buf pending; /* text since the last marker */
    buf work;    /* normalised or escaped */
    bool fresh;  /* nothing was put out yet */
    bool eating; /* the last marker swallows white space after it */
    bpe_scratch bpe;
    split_scratch split;
} encoder;

int encoder_open(encoder *e, const tokenizer *t, id_list *out, foray_error *err);
int encoder_text(encoder *e, const char *text, size_t bytes, bool special);
/* Puts out one id, after what is pending. */
int encoder_id(encoder *e, int32_t id);
/* Puts out what is pending: the text is over. */
int encoder_finish(encoder *e);
void encoder_close(encoder *e);

#endif
