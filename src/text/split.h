/* split.h: pre-tokenizers: text cut into the pieces inside which tokens may merge.
 *
 * A known pre-tokenizer is one to three regular expressions, applied in sequence: matches and the gaps between
 * them both become pieces, and a later expression sees each earlier piece as a text of its own. Patterns are
 * the models' own with white space spelled out, since PCRE2's \s counts U+180E and the models' does not.
 * Unknown pre-tokenizers are refused by name, never guessed. Threads: a splitter any, a scratch one.
 */
#ifndef FORAY_TEXT_SPLIT_H
#define FORAY_TEXT_SPLIT_H

#include "base/error.h"

enum { SPLIT_STAGES = 3 };

typedef struct {
    const char *name;          /* static; NULL: none */
    void *stage[SPLIT_STAGES]; /* compiled patterns */
    int stages;
} splitter;

/* Working memory for matching. */
typedef struct {
    void *match, *context, *stack;
} split_scratch;

/* Opens the pre-tokenizer of a name as GGUF files write it. EUNSUPPORTED lists the known names. where: the
 * file, for messages. */
int splitter_open(const char *name, size_t bytes, const char *where, splitter *out, foray_error *err);
void splitter_close(splitter *s);

/* The name of the pre-tokenizer whose expressions, as tokenizer.json writes them, are these; NULL: unknown. The
 * two that are not written as expressions are "(digits)" and "(byte-level)". */
const char *splitter_recognise(const char *const *expression, size_t count);
/* All names, separated by ", ". */
const char *splitter_names(void);

int split_scratch_init(split_scratch *s, foray_error *err);
void split_scratch_free(split_scratch *s);

/* Calls emit for every piece of text (valid UTF-8) in order; stops at the first result that is not 0 and returns
 * it. ELIMIT where an expression exceeds its bounds. */
int splitter_run(const splitter *s, split_scratch *scratch, const char *text, size_t bytes,
                 int (*emit)(void *user, const char *piece, size_t bytes), void *user, foray_error *err);

#endif
