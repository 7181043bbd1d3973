/* bench_graphs.h: `foray bench --graph-report`: what captured graphs take and what they save, family by family.
 * Threads: the main thread. */
#ifndef FORAY_CLI_BENCH_GRAPHS_H
#define FORAY_CLI_BENCH_GRAPHS_H

#include "base/buf.h"
#include "base/error.h"
#include "base/options.h"

/* Runs the benchmark's prompts with o's options, rounds replayed and eager in turn, and appends the report. */
int bench_graphs(const options *o, buf *out, foray_error *err);

#endif
