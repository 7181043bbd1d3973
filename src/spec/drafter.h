/* drafter.h: something that proposes tokens, behind one interface.
 *
 * A drafter sees a sequence's tokens and writes drafts; it never decides what stands. It says how sure it is by a
 * signal, a small class for which the budget keeps a running estimate of survival (for n-grams: the length of
 * the match). Drafters: `ngram`, `script` (tests). Neither keeps state, so there is nothing to commit or to reset.
 * Threads: called from kernels of class host in stream order, one call at a time.
 */
#ifndef FORAY_SPEC_DRAFTER_H
#define FORAY_SPEC_DRAFTER_H

#include "base/error.h"
#include "spec/sequence.h"

enum { DRAFT_MAX = 15, DRAFT_SIGNALS = 8 };

/* What a drafter says in one round about one request. */
typedef struct {
    int32_t count;             /* 0 … max: may be none */
    int32_t tokens[DRAFT_MAX]; /* [count] */
    int32_t signal;            /* 0 … DRAFT_SIGNALS - 1, higher is surer */
} draft;

typedef struct drafter {
    const char *name;
    int default_tokens; /* drafts per round when the user does not say */
    /* Proposes up to max tokens to follow s. */
    void (*propose)(struct drafter *d, const sequence *s, int max, draft *out);
    void (*destroy)(struct drafter *d);
} drafter;

/* Opens a drafter by name: "ngram" or "script". EUSAGE names the choices. *out is owned: (*out)->destroy. */
int drafter_open(const char *name, drafter **out, foray_error *err);

/* The longest suffix of tokens[0 … count) that occurs earlier, at most `longest` long; among equally long
 * ones the latest. Returns its length (0: none) and in *next the index of the token that followed it. Pure. */
int ngram_search(const int32_t *tokens, int count, int longest, int *next);

#endif
