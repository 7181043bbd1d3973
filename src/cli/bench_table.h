/* bench_table.h: `foray bench --spec-table`: does the budget choose well? For each class of prompts and each number of
 * requests: plain decoding, each fixed number of drafts, and the budget's own choice, as speeds against plain.
 *
 * All settings answer the same prompts in turn in one process, each with a budget of its own, so that none learns from
 * another. The best fixed number is chosen on one half of a class's prompts and compared with `auto` on the other half,
 * both ways round. Threads: the host thread.
 */
#ifndef FORAY_CLI_BENCH_TABLE_H
#define FORAY_CLI_BENCH_TABLE_H

#include "base/buf.h"
#include "base/options.h"

/* base: the command line. Appends the tables to out, one for each number of requests. */
int bench_table(const options *base, buf *out, foray_error *err);

#endif
