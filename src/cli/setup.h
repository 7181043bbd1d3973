/* setup.h: from options to an open engine and to a request's settings. Shared by the commands that generate.
 * Threads: the main thread.
 */
#ifndef FORAY_CLI_SETUP_H
#define FORAY_CLI_SETUP_H

#include "base/options.h"

/* What options say about an engine; path: the model's, borrowed like the options' strings. Where the drafter's model is
 * lies in a buffer that the next call fills. */
int setup_config(const options *o, const char *path, foray_config *out, foray_error *err);

/* Warns of options that --spec or --graph leaves without effect, a line for each. */
void setup_warn_unused(const options *o);

/* Finds the model and opens it with progress on a terminal; says on stderr what was opened (not with -q), warns of
 * options that others leave without effect, and opens the steps file where one is asked for. *out is owned: foray_close. */
int setup_open(const options *o, foray_input input, foray_engine **out, foray_error *err);

/* Fills what options decide about a request: length, stops, sampling over the model's own defaults. A seed
 * that was not given is drawn. Strings are borrowed from o; the prompt is left empty. */
void setup_request(const options *o, const foray_engine *engine, foray_request_config *out);

/* After the last request: writes the timeline where one is asked for. */
int setup_close(const options *o, foray_engine *engine, foray_error *err);

#endif
