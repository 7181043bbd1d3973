/* accept.h: which draft tokens of a round survive.
 *
 * Compares a request's drafts with the target's own tokens and says how many stand. Pure: no allocation, no
 * device, no clock; the accept kernel calls it, and so do the tests. Threads: any.
 */
#ifndef FORAY_SPEC_ACCEPT_H
#define FORAY_SPEC_ACCEPT_H

#include <stdint.h>

/* The rows of one request that went through the head. Row 0 holds the token that the request already had, row i
 * the i-th draft.
 *
 *      rows      0        1        2        3
 *      input     last     draft0   draft1   draft2
 *      target    t0       t1       t2       t3          t_i follows row i
 *                         draft0 stands if t0 == draft0, then draft1 if t1 == draft1, …
 *
 * Returns the number of drafts that stand, 0 … rows - 1; the request then publishes that many and one more token,
 * target[result]. Cutting the rows short never changes a text, only how much of it this round delivers
 * (design.md 5, rule `coupled`). draft: [rows - 1]; target: [rows]; rows >= 1: the live ones. */
int accept_coupled(const int32_t *draft, const int32_t *target, int rows);

#endif
