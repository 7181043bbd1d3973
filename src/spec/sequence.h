/* sequence.h: one request as the device sees it: its tokens, what is computed, how the next one is chosen.
 *
 *      tokens   p0 p1 p2 p3 g0 g1 …            count = 6
 *      entries  e0 e1 e2 e3 e4                 computed = 5: the last token has no cache entry yet
 *
 * A prompt that is not computed yet is the same thing with more tokens pending. Lives in device memory; the
 * commit kernel writes count, computed and finished, so that the next round needs nothing from the host.
 * Threads: kernels of class host in stream order; the host while none of its rounds is in flight, but for what never changes
 * (prompt, limit, parameters).
 */
#ifndef FORAY_SPEC_SEQUENCE_H
#define FORAY_SPEC_SEQUENCE_H

#include "kernel/kernel.h"

enum { SEQUENCE_MAX_END_IDS = 32 };

typedef enum { SEQUENCE_RUNS, SEQUENCE_END_ID, SEQUENCE_LENGTH } sequence_finish;

typedef struct {
    int32_t *tokens; /* [limit] device memory */
    int32_t count, computed;
    int32_t prompt;    /* tokens of the prompt */
    int32_t limit;     /* count may not exceed this: prompt + max_tokens, or the context */
    int32_t min_count; /* below this count no end id may come */
    int32_t slot;
    sequence_finish finished;
    int32_t end_count, end_ids[SEQUENCE_MAX_END_IDS];
    sample_params params[2]; /* [1]: end ids banned (min_tokens) */
    const int32_t *script;   /* [script_count] the script drafter's proposals by output position, or NULL */
    int32_t script_count;
} sequence;

/* Tokens that wait to be computed: 1 in decode, more while a prompt is being read. */
static inline int sequence_pending(const sequence *s)
{
    return s->count - s->computed;
}

/* Drafts that could still be delivered: one place is for the token that follows them. */
static inline int sequence_draft_room(const sequence *s)
{
    int room = s->limit - s->count - 1;
    return room > 0 ? room : 0;
}

/* Of tokens that stand, in order, how many the sequence takes: up to the first end id, which is itself taken, or the limit.
 * *finish: what ends it there, else SEQUENCE_RUNS. Changes nothing. */
int sequence_takes(const sequence *s, const int32_t *tokens, int count, sequence_finish *finish);
/* Appends the tokens that it takes. Their entries exist, but for the newest one's. */
void sequence_grow(sequence *s, const int32_t *tokens, int taken, sequence_finish finish);

#endif
