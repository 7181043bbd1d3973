/* options_table.h: the rows of the table of options, for the parser and the texts only. Constant; pure. */
#ifndef FORAY_BASE_OPTIONS_TABLE_H
#define FORAY_BASE_OPTIONS_TABLE_H

#include "base/options.h"

typedef enum {
    KIND_FLAG,
    KIND_INT,
    KIND_FLOAT,
    KIND_SEED,
    KIND_STRING,
    KIND_CHOICE,
    KIND_STRINGS,
    KIND_INTS
} option_kind;

typedef enum {
    SECTION_MODEL,
    SECTION_TEXT,
    SECTION_SAMPLING,
    SECTION_SPEC,
    SECTION_MEASURE,
    SECTION_TRACE,
    SECTION_MACHINE,
    SECTION_OUTPUT,
    SECTION_COUNT
} option_section;

typedef struct {
    const char *name, *letter; /* --name, -letter (NULL: none) */
    option_kind kind;
    option_section section;
    unsigned commands;    /* bits */
    const char *argument; /* what help calls the value */
    const char *choices;  /* choice: "auto|off|ngram" */
    double low, high;     /* numbers: inclusive */
    const char *word;     /* numbers: accepted in place of one, and then worth word_value */
    int word_value;
    int group;            /* lists of numbers: entries per use (2 for -pg); 0: any */
    bool no_twin;         /* a row without a variable in the environment */
    const char *fallback; /* default, as a user would write it; NULL: none */
    const char *help;
} option_row;

#define OPERANDS_ANY SIZE_MAX

typedef struct {
    const char *name, *synopsis, *about;
    size_t operands; /* at most so many, or OPERANDS_ANY */
    size_t needed;   /* of them */
} option_command;

extern const option_row option_rows[OPT_COUNT]; /* by option_id, grouped by section */
extern const option_command option_commands[COMMAND_COUNT];
extern const char *const option_sections[SECTION_COUNT];

/* Does the command take the option? */
bool options_table_takes(command c, int id);

#endif
