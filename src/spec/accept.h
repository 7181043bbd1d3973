/* accept.h: which draft tokens of a round survive, by which rule.
 *
 * Pure: no allocation, no device, no clock; the accept kernel calls it, and so do the tests. Threads: any.
 */
#ifndef FORAY_SPEC_ACCEPT_H
#define FORAY_SPEC_ACCEPT_H

#include <stdint.h>

#include "base/error.h"

/* How the token of each row is come by; what stands follows from that alone (design.md 5).
 *
 *   rule      a drafter draws with    the row's token                               a text is that of plain decoding
 *   coupled   the target's noise      the target's own                              always
 *   target    noise of its own        the target's own                              always
 *   exact     noise of its own        the draft with min(1, p / q), else a draw     when greedy; else a draw from the
 *                                     from (p - q)+                                 same distribution */
typedef enum { ACCEPT_COUPLED, ACCEPT_EXACT, ACCEPT_TARGET } accept_rule;

/* The rule of that name; EUSAGE names the choices. */
int accept_rule_named(const char *name, accept_rule *out, foray_error *err);

/* The rows of one request that went through the head. Row 0 holds the token that the request already had, row i
 * the i-th draft.
 *
 *      rows      0        1        2        3
 *      input     last     draft0   draft1   draft2
 *      token     t0       t1       t2       t3          t_i follows row i
 *                         draft0 stands if t0 == draft0, then draft1 if t1 == draft1, …
 *
 * Returns the number of drafts that stand, 0 … rows - 1; the request then publishes that many and one more token,
 * token[result]. Under `exact` a draft that was rejected never replaces itself (sample.h), so the same comparison tells.
 * draft: [rows - 1]; token: [rows]; rows >= 1: the live ones. */
int accept_drafts(const int32_t *draft, const int32_t *token, int rows);

#endif
