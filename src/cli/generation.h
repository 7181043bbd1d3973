/* generation.h: one prompt, continued until it ends or Ctrl-C, over the public header.
 *
 * The text streams to a file as it becomes certain; ids, text and the account are kept for the caller.
 * Threads: the main thread.
 */
#ifndef FORAY_CLI_GENERATION_H
#define FORAY_CLI_GENERATION_H

#include <stdio.h>

#include "base/buf.h"
#include "base/error.h"

enum { GENERATION_HISTOGRAM = 17 };

typedef struct {
    buf text;                                /* what was delivered */
    buf tokens;                              /* its ids: int32_t [tokens.len / 4] */
    int64_t delivered[GENERATION_HISTOGRAM]; /* [n]: rounds after the first that delivered n + 1 tokens */
    foray_finish finish;
    bool interrupted;  /* by Ctrl-C; finish is then FORAY_RUNNING */
    foray_error fault; /* the first step that failed without ending the request; code 0: none */
    foray_account account;
} generation;

/* Submits config and steps the engine until the request ends. Text goes to stream as it comes (NULL: only
 * kept). *g must be zeroed; generation_free frees it, after an error too; what was delivered before one is in it,
 * with its account. An interrupt is no error, and neither is g->fault, which the caller reports. */
int generation_run(foray_engine *engine, const foray_request_config *config, FILE *stream, generation *g,
                   foray_error *err);
void generation_free(generation *g);

/* "stop", "length", "interrupted", "failed". */
const char *generation_finish_name(const generation *g);

#endif
