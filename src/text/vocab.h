/* vocab.h: the tokens of a model and the pairs that merge: what an encoder looks up.
 *
 * Filled by a loader (text/from_gguf.c, text/from_json.c): tokens by id, then vocab_index, then merges, then
 * vocab_finish; immutable afterwards. Spellings and bytes live in one pool; lookups are open-addressing
 * tables that are built once. Does not know about files or text.
 * Threads: one while it is filled, any number afterwards.
 */
#ifndef FORAY_TEXT_VOCAB_H
#define FORAY_TEXT_VOCAB_H

#include "base/error.h"

/* What a token is, numbered as GGUF does. */
typedef enum {
    TOKEN_HOLE = 0, /* an id that nothing was said about */
    TOKEN_NORMAL = 1,
    TOKEN_UNKNOWN = 2,
    TOKEN_CONTROL = 3,
    TOKEN_USER = 4, /* added by hand: text, but matched whole */
    TOKEN_UNUSED = 5,
    TOKEN_BYTE = 6
} token_type;

enum {
    TOKEN_MARKER = 1,    /* recognised only where markers are asked for */
    TOKEN_EATS_LEFT = 2, /* swallows white space in front of it */
    TOKEN_EATS_RIGHT = 4 /* … and after it */
};

enum { VOCAB_LIMIT = 1 << 22 }; /* tokens; merges: four times that */

typedef struct {
    uint32_t spelling, spelling_bytes; /* offset in the pool, length */
    uint32_t bytes, byte_count;        /* what it adds to running text */
    uint32_t order;                    /* score models: of two merges the lower order goes first */
    uint8_t type, flags;
} vocab_token;

typedef struct {
    uint32_t hash, id_plus_1; /* 0: free */
} vocab_slot;

typedef struct {
    int32_t left, right; /* left -1: free */
    int32_t id;
    uint32_t rank; /* lower goes first */
} vocab_merge;

typedef struct {
    const char *source; /* path, for messages; borrowed until vocab_finish */
    vocab_token *token; /* [count], room for cap */
    size_t count, cap;
    char *pool;
    size_t pool_bytes, pool_cap;
    vocab_slot *slot; /* [slots] by spelling; slots is a power of two */
    size_t slots;
    vocab_merge *merge; /* [merge_slots] by (left, right) */
    size_t merge_slots, merge_count;
    int32_t last_made;    /* the token that the last merge makes: the next one mostly makes the next */
    int32_t byte_id[256]; /* the token of one byte, -1: none */
    int32_t *marker;      /* [marker_count] tokens that are matched whole, sorted by spelling */
    size_t marker_count;
    uint8_t begins[256]; /* a marker begins with that byte: 1 any, 2 one that plain text may become */
} vocab;

/* How spellings stand for bytes. */
typedef enum {
    VOCAB_BYTE_LEVEL,   /* each byte is a printable character of GPT-2's alphabet */
    VOCAB_SENTENCEPIECE /* text with U+2581 for the space; single bytes are <0xHH> */
} vocab_alphabet;

void vocab_init(vocab *v, const char *source);
void vocab_free(vocab *v);

/* Says what token id is. An id may be said again with the same spelling (the later type and flags stand).
 * EFILE names an id with two spellings, ELIMIT an id beyond VOCAB_LIMIT. */
int vocab_set(vocab *v, int64_t id, const char *spelling, size_t bytes, token_type type, unsigned flags,
              foray_error *err);
/* Sets the orders of all tokens from their scores [count]: the highest score goes first. */
void vocab_set_scores(vocab *v, const float *score);

/* Builds the table of spellings. EFILE: it is empty, or two ids have one spelling (unused ids may). */
int vocab_index(vocab *v, foray_error *err);
/* The id of a spelling, or -1. After vocab_index. */
int32_t vocab_find(const vocab *v, const char *spelling, size_t bytes);
/* The same among tokens that plain text may become: normal ones, and user tokens that are no markers. */
int32_t vocab_find_plain(const vocab *v, const char *spelling, size_t bytes);

/* Two neighbours that merge. */
typedef struct {
    const char *left, *right;
    size_t left_bytes, right_bytes;
} vocab_pair;

enum { VOCAB_BATCH = 64 };

/* Makes room for count merges; more may follow. */
int vocab_reserve_merges(vocab *v, size_t count, foray_error *err);
/* Takes count <= VOCAB_BATCH merges of ranks rank, rank + 1, …: many at once, so that their lookups overlap.
 * EFILE names the merge and the part that is no token. A pair that was said before keeps its first rank. */
int vocab_add_merges(vocab *v, uint32_t rank, const vocab_pair *pair, size_t count, foray_error *err);
/* The merge of two neighbours, or NULL. */
const vocab_merge *vocab_find_merge(const vocab *v, int32_t left, int32_t right);

/* Works out what every token adds to running text, the token of every byte, and the list of markers. EFILE
 * names a byte token that is not <0x00> … <0xFF> in capitals, that repeats, or (SentencePiece) is missing. */
int vocab_finish(vocab *v, vocab_alphabet alphabet, foray_error *err);

/* The longest token among those matched whole that text starts with, or -1; plain: only those that are no
 * markers. bytes >= 1. */
int32_t vocab_match(const vocab *v, const char *text, size_t bytes, bool plain);

static inline const char *vocab_spelling(const vocab *v, int32_t id)
{
    return v->pool + v->token[id].spelling;
}

/* Writes the characters of GPT-2's alphabet for bytes; out holds 2 * count. Returns the length. */
size_t vocab_alphabet_write(const char *bytes, size_t count, char *out);

#endif
