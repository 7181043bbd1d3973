/* drafter.h: something that proposes tokens, behind one interface.
 *
 * Two kinds. A drafter of the host (`ngram`, `script` in tests) is asked for its drafts and keeps no state. A drafter of
 * the device (`nextn`, `draft`; chain.h) launches kernels: draft_now before part B, extend_now after accept, which makes it ready
 * for the next round; one that was left out owes rows and is not ready until an extend has made them.
 *
 * A drafter sees a sequence's tokens and writes drafts; it never decides what stands. It says how sure it is by a
 * signal, a small class for which the budget keeps a running estimate of survival (for n-grams: the length of
 * the match; for NextN: how likely it thinks its first draft).
 * Threads: propose, is_ready and signal_now in kernels of class host in stream order, one call at a time; the rest on the
 * host thread.
 */
#ifndef FORAY_SPEC_DRAFTER_H
#define FORAY_SPEC_DRAFTER_H

#include "device/device.h"
#include "spec/sequence.h"

enum { DRAFT_MAX = 15, DRAFT_SIGNALS = 8 };

/* What a drafter says in one round about one request. */
typedef struct {
    int32_t count;             /* 0 … max: may be none */
    int32_t tokens[DRAFT_MAX]; /* [count] */
    int32_t signal;            /* 0 … DRAFT_SIGNALS - 1, higher is surer */
    /* What each was drawn from, drawn_stride probabilities apart; NULL: no other token could have come. */
    const float *drawn;
    size_t drawn_stride;
} draft;

struct round_plan;
struct plan_parts;

typedef struct drafter {
    const char *name;
    int default_tokens; /* drafts per round when the user does not say */

    /* Of the host. Proposes up to max tokens to follow s. NULL: a drafter of the device. */
    void (*propose)(struct drafter *d, const sequence *s, int max, draft *out);

    /* Of the device. draft_now: in stream order, the drafts of members with room, at most p->draft_steps. extend_now: the
     * rows of the members of the extension, up to what accept left as computed. What they launch may be captured, is a
     * function of p's bounds alone and reads the parts, of which a round loop has one set. A drafter outlives the last
     * round that it takes part in. */
    int (*draft_now)(struct drafter *d, const struct round_plan *p, const struct plan_parts *parts, stream *s,
                     foray_error *err);
    int (*extend_now)(struct drafter *d, const struct round_plan *p, const struct plan_parts *parts,
                      stream *s, foray_error *err);
    bool (*is_ready)(const struct drafter *d, const sequence *s);  /* could draft for s now */
    int (*signal_now)(const struct drafter *d, const sequence *s); /* the signal of those drafts */
    const float *drawn; /* the device buffer in which drafts have theirs; NULL: they have none */
    int most_extended;  /* rows that one extend can make */
    int lead, window;   /* drafter_rows_from */
    /* The slot begins a new text, or an earlier place of one. No round of the slot is in flight. */
    void (*open_slot)(struct drafter *d, int slot);

    void (*destroy)(struct drafter *d);
} drafter;

/* The first row that an extend must make for a text of `prompt` and `computed` tokens, of which `done` rows are made: where
 * the last one stopped, or a window back, from where on its attention sees everything again (window 0: it sees all). It
 * can make computed + lead rows. Never falls as done or computed grow. */
static inline int drafter_rows_from(const drafter *d, int prompt, int computed, int done)
{
    int needed = (computed < prompt ? prompt : computed) - d->window;
    return d->window == 0 || done > needed ? done : needed > 0 ? needed : 0;
}

/* Opens a drafter by name: "ngram" or "script". EUSAGE names the choices. *out is owned: (*out)->destroy. */
int drafter_open(const char *name, drafter **out, foray_error *err);

/* The longest suffix of tokens[0 … count) that occurs earlier, at most `longest` long; among equally long
 * ones the latest. Returns its length (0: none) and in *next the index of the token that followed it. Pure. */
int ngram_search(const int32_t *tokens, int count, int longest, int *next);

#endif
