/* bench_load.h: how long opening a model takes once its file is in memory, and how much memory a process needs. */
#ifndef FORAY_CLI_BENCH_LOAD_H
#define FORAY_CLI_BENCH_LOAD_H

#include "base/error.h"
#include "cli/bench_report.h"

/* Fills the load row: samples are `repeats` openings of c->model (plain decoding) after one that does not count;
 * the memory is the peak of a process of its own that opens it and generates 16 tokens. Call before any thread
 * runs and before anything large is allocated: that process is forked. file_bytes is left to the caller.
 * From here on engines open quietly: what there is to say has been said once. */
int bench_load(const foray_config *c, int repeats, bench_row *row, foray_error *err);

#endif
