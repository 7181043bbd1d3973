/* ngram.c: drafts copied from the text itself: where its end occurred before, what came next comes again.
 *
 * A plain search over prompt and output, longest match first, the latest among equals. It costs a few
 * microseconds on thousands of tokens, keeps no state and owes no cache rows.
 */
#include <string.h>

#include "base/mem.h"
#include "spec/drafter.h"

/* Longer matches are no surer than this one. */
#ifdef FORAY_TORTURE
enum { LONGEST = 3 }; /* so that matches are cut off, and many are equally long */
#else
enum { LONGEST = 24 };
#endif

int ngram_search(const int32_t *tokens, int count, int longest, int *next)
{
    int best = 0;
    if (count < 2)
        return 0;
    int32_t last = tokens[count - 1];
    for (int i = count - 2; i >= 0 && best < longest; i--) {
        if (tokens[i] != last)
            continue;
        int n = 1;
        while (n < longest && i - n >= 0 && tokens[i - n] == tokens[count - 1 - n])
            n++;
        if (n > best) {
            best = n;
            *next = i + 1;
        }
    }
    return best;
}

/* Match lengths 1, 2, 3, 4-5, 6-8, 9-14, 15-23, 24: rarer lengths share a class. */
static int signal_of(int length)
{
    static const int from[DRAFT_SIGNALS] = { 1, 2, 3, 4, 6, 9, 15, 24 };
    int s = DRAFT_SIGNALS - 1;
    while (s > 0 && length < from[s])
        s--;
    return s;
}

static void ngram_propose(drafter *d, const sequence *s, int max, draft *out)
{
    (void)d;
    int next = 0, length = ngram_search(s->tokens, s->count, LONGEST, &next);
    out->count = 0;
    if (length == 0)
        return;
    out->signal = signal_of(length);
    /* A match that overlaps the end is a loop: what was drafted is then itself the continuation. */
    for (int i = 0; i < max; i++) {
        int from = next + i;
        out->tokens[i] = from < s->count ? s->tokens[from] : out->tokens[from - s->count];
    }
    out->count = max;
}

static void script_propose(drafter *d, const sequence *s, int max, draft *out)
{
    (void)d;
    out->count = 0;
    out->signal = 0;
    for (int at = s->count - s->prompt; out->count < max && at < s->script_count; at++)
        out->tokens[out->count++] = s->script[at];
}

static void drafter_destroy(drafter *d)
{
    mem_free(MEM_GENERAL, d, sizeof *d);
}

int drafter_open(const char *name, drafter **out, foray_error *err)
{
    drafter d = { .destroy = drafter_destroy };
    if (strcmp(name, "ngram") == 0) {
        d.name = "ngram";
        d.default_tokens = 7;
        d.propose = ngram_propose;
    } else if (strcmp(name, "script") == 0) {
        d.name = "script";
        d.default_tokens = 5;
        d.propose = script_propose;
    } else {
        return fail(err, FORAY_EUSAGE, "--spec %s: no such drafter (auto, off, ngram, nextn)", name);
    }
    *out = mem_alloc(MEM_GENERAL, sizeof d);
    if (!*out)
        return fail(err, FORAY_ENOMEM, "drafter %s: no memory", name);
    **out = d;
    return 0;
}
