/* chat.h: a conversation at the terminal: lines in, answers out, the history kept.
 * Threads: the main thread.
 */
#ifndef FORAY_CLI_CHAT_H
#define FORAY_CLI_CHAT_H

#include "base/options.h"

/* Talks until /exit or the end of input. stdin is a terminal. Answers go to stdout, everything else to
 * stderr. Ctrl-C ends an answer, not the chat; what was said of it stays in the history. */
int chat_run(const options *o, foray_engine *engine, foray_error *err);

#endif
