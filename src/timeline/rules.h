/* rules.h: how names in a trace become steps, stages and communication: lines of text, ours and the user's.
 *
 *     set NAME                      the lines that follow belong together
 *     step PATTERN [prefill]        an annotation that opens a step at its start
 *     stage PATTERN PHASE           an annotation: what is launched inside it belongs to PHASE
 *     kernel PATTERN PHASE          a device task that no annotation and no graph assigns
 *     comm PATTERN                  a device task that moves data between ranks
 *     host PATTERN WORDS…           what a host thread is doing in such a range or call
 *
 * In a pattern * stands for any stretch and ? for any byte; a pattern with blanks stands in double quotes. '#' begins a
 * comment. The user's sets come first. Of all sets the first with a step line that occurs in the trace tells the
 * steps; every other kind of line counts in all sets, and the first that fits wins.
 * Threads: any, once parsed.
 */
#ifndef FORAY_TIMELINE_RULES_H
#define FORAY_TIMELINE_RULES_H

#include "base/arena.h"
#include "base/error.h"

typedef enum { RULE_STEP, RULE_STAGE, RULE_KERNEL, RULE_COMM, RULE_HOST, RULE_KINDS } rule_kind;

typedef struct {
    rule_kind kind;
    int set;             /* index of its set */
    const char *pattern; /* in the rules' memory */
    int phase;           /* stage, kernel; -1 elsewhere */
    bool prefill;        /* step */
    const char *words;   /* host */
} rule;

typedef struct {
    rule *rules;
    size_t count, cap;
    const char **sets;
    size_t set_count, set_cap;
    arena memory;
} rules;

/* Parses the user's text (NULL: none; name is for messages) and adds the built-in sets. EUSAGE naming the line. */
int rules_open(const char *name, const char *text, rules *out, foray_error *err);
void rules_free(rules *r);

/* The first rule of a kind whose pattern fits; NULL: none. */
const rule *rules_find(const rules *r, rule_kind kind, const char *text);
/* The built-in sets as text, for --rules users to start from. */
const char *rules_builtin(void);

#endif
