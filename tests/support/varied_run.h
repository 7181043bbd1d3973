/* varied_run.h: a run in which everything about rounds changes from one to the next: requests come one step after another,
 * greedy and sampled, the drafts per request vary, and so do those that are verified; pauses leave a chain drafter out. All
 * families of graphs have their rounds, and most rounds are smaller than their tier. The same in every call.
 *
 * Asserts (cmocka) on errors. Threads: one.
 */
#ifndef FORAY_TESTS_SUPPORT_VARIED_RUN_H
#define FORAY_TESTS_SUPPORT_VARIED_RUN_H

#include "support/stack.h"

enum { VARIED_MOST = 4, VARIED_DRAFTS = 3, VARIED_TOKENS = 40 };

typedef struct {
    int32_t ids[VARIED_MOST][VARIED_TOKENS];
    float logprobs[VARIED_MOST][VARIED_TOKENS];
} varied_text;

/* s: of VARIED_DRAFTS drafts and a budget; up to VARIED_MOST requests, whose texts go to their numbers. backwards: the last one
 * comes first. */
void varied_run(stack *s, int requests, bool backwards, varied_text *out);

/* A step of a stack with a drafter. Of a chain: a graph of fewer drafts, or of more, would leave another number of them. */
int varied_step(stack *s);

#endif
