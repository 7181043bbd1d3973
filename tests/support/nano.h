/* nano.h: the model that comes with foray, for tests that want a trained one, and 20 prompts that suit it
 * (golden/nano_prompts.txt). Threads: one at a time.
 */
#ifndef FORAY_TESTS_SUPPORT_NANO_H
#define FORAY_TESTS_SUPPORT_NANO_H

#include "foray.h"

enum {
    NANO_PROMPTS = 20,
    NANO_SHORT = 4, /* the first so many are those of the short tests; all of them are for SOAK */
    NANO_PROMPT_ROOM = 256
};

typedef struct {
    char text[NANO_PROMPT_ROOM];
    bool chat; /* a request, for the chat format; else a beginning to be continued */
} nano_prompt;

const char *nano_folder(void);
/* Prompt i of 0 … NANO_PROMPTS-1. Fails the test where the file is not as it should be. */
nano_prompt nano_prompt_at(int i);
/* The same as ids for an engine that has nano open, begin-of-sentence included. The caller's: foray_free. */
int32_t *nano_prompt_ids(foray_engine *engine, int i, size_t *count);

#endif
