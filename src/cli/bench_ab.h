/* bench_ab.h: `foray bench --ab "OPTIONS" --ab "OPTIONS"`: two configurations against each other in one process.
 *
 * Both are open at once and answer the same prompts with the same seeds in turn, A B, B A, A B, …, so that a neighbour
 * hits both alike. What is said about them is the median over pairs with its interval, in all and per phase, and nothing
 * is claimed where the interval holds no difference, the texts differ, or a graph was captured meanwhile.
 * Threads: the host thread.
 */
#ifndef FORAY_CLI_BENCH_AB_H
#define FORAY_CLI_BENCH_AB_H

#include "base/buf.h"
#include "base/options.h"

/* base: the command line, whose other options hold for both sides. Appends the comparison to out. */
int bench_ab(const options *base, buf *out, foray_error *err);

#endif
