/* tiny_text.h: a small byte-level vocabulary, so that tiny models can read and write real text. For tests.
 *
 *   id 0 <|endoftext|>   1 <|im_start|>   2 <|im_end|>   3 … 258 the bytes   259 … merges of English, then fillers
 */
#ifndef FORAY_TESTS_SUPPORT_TINY_TEXT_H
#define FORAY_TESTS_SUPPORT_TINY_TEXT_H

#include "base/arena.h"

enum { TINY_END = 0, TINY_IM_START = 1, TINY_IM_END = 2, TINY_FIRST_BYTE = 3, TINY_FIRST_MERGE = 259 };

typedef struct {
    const char **tokens; /* [count] spelled as byte-level BPE does, UTF-8 */
    int count;
    const char **merges; /* [merge_count] "left right" */
    int merge_count;
} tiny_vocabulary;

/* count >= 259. Lives in a. */
tiny_vocabulary tiny_vocabulary_make(arena *a, int count);

/* What byte-level BPE writes for a byte: one character of at most two bytes of UTF-8, NUL included. */
void tiny_byte_spelling(uint8_t byte, char out[3]);

/* A ChatML template, the one of SmolLM2 with a default system message. */
extern const char tiny_chat_template[];

#endif
