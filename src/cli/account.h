/* account.h: what a generation cost and whether speculation paid, for a person and for a program.
 *
 * Only puts numbers into words; every figure is the engine's. Pure. Threads: any.
 */
#ifndef FORAY_CLI_ACCOUNT_H
#define FORAY_CLI_ACCOUNT_H

#include "cli/generation.h"

typedef struct {
    const generation *g;
    const char *drafter; /* foray_info.spec */
    const char *accept;  /* foray_info.accept */
    int spec_tokens;     /* most drafts per request and round; 0: nobody drafts */
    bool sampled;        /* the temperature is above 0: the seed matters */
} account;

/* Appends the account as some lines: tokens, speculation, where the time went. */
void account_text(const account *a, buf *out);
/* Appends it as one short line, for a chat. */
void account_line(const account *a, buf *out);
/* Appends the object of `run --json` (docs/cli.md) and a line end. */
void account_json(const account *a, buf *out);

#endif
