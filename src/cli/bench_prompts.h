/* bench_prompts.h: twenty prompts in four classes: `edit` (long verbatim copying, where n-gram drafting shines),
 * `prose`, `list` and `code` (where it mostly should stay out of the way). */
#ifndef FORAY_CLI_BENCH_PROMPTS_H
#define FORAY_CLI_BENCH_PROMPTS_H

typedef struct {
    const char *id, *kind, *text;
} bench_prompt;

extern const bench_prompt BENCH_PROMPTS[];
extern const int BENCH_PROMPT_COUNT;

#endif
