/* bpe.h: byte-pair merging of one piece of text: the cheapest pair first, leftmost among equals.
 *
 * Pairs are chosen either by rank (a list of merges) or by score (any two neighbours whose joined text is a
 * token). A heap of candidates and a linked list of symbols: n log n for any piece, also for a megabyte of one
 * letter. Does not split text into pieces. Threads: one per scratch.
 */
#ifndef FORAY_TEXT_BPE_H
#define FORAY_TEXT_BPE_H

#include "text/tokenizer.h"
#include "text/vocab.h"

typedef struct {
    uint32_t prev, next; /* neighbours; NONE at the ends */
    uint32_t start, bytes;
    int32_t id; /* -1: text without a token of its own (by score only) */
} bpe_symbol;

typedef struct {
    uint64_t key; /* order of the merge, then place of the left symbol: lowest first */
    uint32_t left, right, bytes;
    int32_t id;
} bpe_candidate;

/* Working memory, kept between pieces. {0} is empty. */
typedef struct {
    bpe_symbol *symbol; /* [symbol_cap] */
    size_t symbol_cap;
    bpe_candidate *heap; /* [heap_cap], heap_count in use */
    size_t heap_cap, heap_count;
} bpe_scratch;

void bpe_scratch_free(bpe_scratch *s);

typedef enum { BPE_BYTES, BPE_CHARACTERS_RANK, BPE_CHARACTERS_SCORE } bpe_mode;

/* Appends the ids of piece[0 … bytes) to out; bytes < 2^31. BPE_BYTES starts from single bytes, and leaves out
 * those that the vocabulary lacks, as its maker's encoder does; the others start from characters, and from byte
 * tokens where a character is none (or is invalid). Returns 0 or FORAY_ENOMEM, out then holding a part. */
int bpe_encode(const vocab *v, bpe_mode mode, bpe_scratch *s, const char *piece, size_t bytes, id_list *out);

#endif
