/* options.h: every option of the command line, in one table, and what a user set.
 *
 * The table (options.c) gives an option's name, short form, kind, range, default, help line and the commands
 * that take it; parsing, help, docs and the manifest are all read off it. A short form or a name may mean
 * different things to different commands (bench's -p): those are two rows. Command line beats environment
 * beats default; the twin of --spec-tokens is FORAY_SPEC_TOKENS. Nothing else in foray reads the environment.
 * Threads: parse before threads start; reading an options object is safe from any.
 */
#ifndef FORAY_BASE_OPTIONS_H
#define FORAY_BASE_OPTIONS_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/error.h"

typedef enum {
    COMMAND_RUN,
    COMMAND_SCORE,
    COMMAND_BENCH,
    COMMAND_TRACE,
    COMMAND_INSPECT,
    COMMAND_MODEL,
    COMMAND_COUNT
} command;

typedef enum {
    OPT_MODEL,
    OPT_CHAT_TEMPLATE,
    OPT_THINKING,
    OPT_ACT_QUANT,
    OPT_PROMPT,
    OPT_FILE,
    OPT_SYSTEM,
    OPT_RAW,
    OPT_MAX_TOKENS,
    OPT_IGNORE_EOS,
    OPT_STOP,
    OPT_TEMP,
    OPT_TOP_K,
    OPT_TOP_P,
    OPT_MIN_P,
    OPT_REPEAT_PENALTY,
    OPT_PRESENCE_PENALTY,
    OPT_FREQUENCY_PENALTY,
    OPT_SEED,
    OPT_SPEC,
    OPT_DRAFT_MODEL,
    OPT_SPEC_TOKENS,
    OPT_SPEC_BUDGET,
    OPT_ACCEPT,
    OPT_IDS,          /* score */
    OPT_LOGITS,       /* score */
    OPT_LOGITS_ROWS,  /* score */
    OPT_CHUNK,        /* score */
    OPT_STRIDE,       /* score */
    OPT_N_PROMPT,     /* bench -p */
    OPT_N_GEN,        /* bench -n */
    OPT_PG,           /* bench -pg */
    OPT_N_DEPTH,      /* bench -d */
    OPT_REPS,         /* bench -r */
    OPT_ROWS,         /* bench */
    OPT_REQUESTS,     /* bench */
    OPT_ROOFLINE,     /* bench */
    OPT_AB,           /* bench */
    OPT_GRAPH_REPORT, /* bench */
    OPT_SPEC_TABLE,   /* bench */
    OPT_FORMAT,       /* trace */
    OPT_RULES,        /* trace */
    OPT_REPORT,       /* trace */
    OPT_OVERLAY,      /* trace */
    OPT_DIFF,         /* trace */
    OPT_STEP,         /* trace */
    OPT_CONTEXT,
    OPT_THREADS,
    OPT_ISA,
    OPT_VERIFY,
    OPT_GRAPH, /* run, score, bench: auto or off */
    OPT_GRAPH_PHASES,
    OPT_GRAPH_MEMORY,
    OPT_MULTI_STREAM_ROWS,
    OPT_INSPECT_GRAPH, /* inspect: a flag, --graph as well */
    OPT_STEPS,
    OPT_TIMELINE,
    OPT_JSON,
    OPT_OUTPUT, /* bench -o */
    OPT_QUIET,
    OPT_VERBOSE,
    OPT_HELP,
    OPT_COUNT
} option_id;

typedef enum { OPTION_UNSET, OPTION_FROM_ENVIRONMENT, OPTION_FROM_COMMAND_LINE } option_source;

typedef struct {
    const char *text;     /* as the user wrote it, or the default; NULL: unset and without default */
    option_source source; /* OPTION_UNSET: the default stands */
    bool word;            /* text is the row's word ("auto", "model", …) and no number */
    union {
        bool on;       /* flag */
        int64_t whole; /* int; a word's value where the word stands */
        uint64_t seed;
        double number; /* float */
    };
    const char **strings; /* [count] repeatable strings */
    int64_t *ints;        /* [count] lists of numbers */
    size_t count;
} option_value;

/* What one invocation asked for. Texts are borrowed from argv and the environment, lists live in memory. */
typedef struct {
    command command;
    option_value value[OPT_COUNT];
    const char **operands; /* [operand_count] what is not an option (inspect FILE) */
    size_t operand_count;
    arena memory;
} options;

/* The command of a name ("run"); EUSAGE naming the nearest one. */
int options_command(const char *name, command *out, foray_error *err);
const char *options_command_name(command c);

/* Parses argv[0 … argc-1], what follows the command's name, and the twins in environment ("NAME=value" …, NULL;
 * or NULL for the process's own). EUSAGE, naming option, value, what is allowed or the nearest known name.
 * --help anywhere: OK with OPT_HELP on, nothing else checked. Of two options that exclude each other the one on
 * the command line beats the one in the environment. On error *out is empty. */
int options_parse(command c, int argc, const char *const *argv, const char *const *environment, options *out,
                  foray_error *err);
void options_free(options *o);

/* Was it set by the user, and not to its word, such as "auto"? */
bool options_has(const options *o, option_id id);
bool options_flag(const options *o, option_id id);
int options_int(const options *o,
                option_id id); /* "auto" and the like: the value that foray_config gives them */
double options_float(const options *o,
                     option_id id); /* call only where options_has or the default is a number */
uint64_t options_seed(const options *o, option_id id);
const char *options_string(const options *o, option_id id); /* strings and choices; NULL: unset */
const char *const *options_strings(const options *o, option_id id, size_t *count);
const int64_t *options_ints(const options *o, option_id id, size_t *count);

/* For the manifest: names and values of all options of o's command, in the table's order ("" for an unset one).
 * Fills at most OPT_COUNT entries of each array and returns how many. */
size_t options_list(const options *o, const char **names, const char **values);

/* Appends the help text of a command, and that of the whole program. */
void options_help(command c, buf *out);
void options_help_all(buf *out);
/* Appends the tables of all options in Markdown, for docs/. */
void options_markdown(buf *out);

/* A variable of the environment that is not foray's own (HOME, XDG_CACHE_HOME, HF_HOME); NULL: unset or empty. */
const char *options_environment(const char *name);

#endif
