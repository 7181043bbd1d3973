/* options_text.c: help and documentation, made from the table of options. Pure. */
#include "base/options.h"

#include <stdio.h>
#include <string.h>

#include "base/options_table.h"

enum { HELP_COLUMN = 30, HELP_WIDTH = 80 };

/* Columns that a text takes: its characters, not its bytes. */
static int columns(const char *text)
{
    int n = 0;
    for (; *text != '\0'; text++)
        n += ((unsigned char)*text & 0xc0) != 0x80;
    return n;
}

/* Appends words, wrapped between HELP_COLUMN and HELP_WIDTH. column: where the line stands. */
static void append_wrapped(buf *out, int column, const char *text)
{
    if (column >= HELP_COLUMN) {
        buf_puts(out, "\n");
        column = 0;
    }
    buf_printf(out, "%*s", HELP_COLUMN - column, "");
    column = HELP_COLUMN;
    while (*text != '\0') {
        char word[64];
        size_t length = strcspn(text, " ");
        snprintf(word, sizeof word, "%.*s", (int)length, text);
        int width = columns(word);
        if (column > HELP_COLUMN && column + 1 + width > HELP_WIDTH) {
            buf_printf(out, "\n%*s", HELP_COLUMN, "");
            column = HELP_COLUMN;
        }
        buf_printf(out, "%s%s", column > HELP_COLUMN ? " " : "", word);
        column += width + (column > HELP_COLUMN);
        text += length;
        text += strspn(text, " ");
    }
    buf_puts(out, "\n");
}

static const char *value_name(const option_row *r)
{
    return r->kind == KIND_FLAG ? NULL : r->choices != NULL ? r->choices : r->argument;
}

static void help_row(const option_row *r, buf *out)
{
    char left[128], right[256];
    const char *value = value_name(r);
    snprintf(left, sizeof left, "  %s%s%s--%s%s%s", r->letter != NULL ? "-" : "    ",
             r->letter != NULL ? r->letter : "", r->letter != NULL ? ", " : "", r->name,
             value != NULL ? " " : "", value != NULL ? value : "");
    snprintf(right, sizeof right, "%s%s%s%s", r->help, r->fallback != NULL ? " (default: " : "",
             r->fallback != NULL ? r->fallback : "", r->fallback != NULL ? ")" : "");
    buf_puts(out, left);
    append_wrapped(out, columns(left), right);
}

void options_help(command c, buf *out)
{
    buf_printf(out, "usage: foray %s %s [options]\n%s %s.\n", option_commands[c].name,
               option_commands[c].synopsis, option_commands[c].name, option_commands[c].about);
    for (int s = 0; s < SECTION_COUNT; s++) {
        bool opened = false;
        for (int id = 0; id < OPT_COUNT; id++) {
            if (!options_table_takes(c, id) || option_rows[id].section != (option_section)s)
                continue;
            if (!opened)
                buf_printf(out, "\n%s\n", option_sections[s]);
            opened = true;
            help_row(&option_rows[id], out);
        }
    }
    buf_puts(out, "\nEvery long option has a twin in the environment: --spec-tokens is FORAY_SPEC_TOKENS.\n");
}

void options_help_all(buf *out)
{
    buf_puts(out, "usage: foray COMMAND [options]\n\n");
    for (int c = 0; c < COMMAND_COUNT; c++) {
        buf_printf(out, "  %-10s%s\n", option_commands[c].name, option_commands[c].about);
    }
    buf_puts(out, "\nforay COMMAND --help lists a command's options.\n");
}

/* Text of a table's cell: '|' would end it. */
static void append_cell(buf *out, const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '|')
            buf_puts(out, "\\");
        buf_append(out, text, 1);
    }
}

static void markdown_row(const option_row *r, buf *out)
{
    const char *value = value_name(r);
    buf_puts(out, "| `");
    if (r->letter != NULL)
        buf_printf(out, "-%s`, `", r->letter);
    buf_printf(out, "--%s", r->name);
    if (value != NULL) {
        buf_puts(out, " ");
        append_cell(out, value);
    }
    buf_puts(out, "` | ");
    const char *between = "";
    for (int c = 0; c < COMMAND_COUNT; c++) {
        if ((r->commands >> c & 1) != 0) {
            buf_printf(out, "%s%s", between, option_commands[c].name);
            between = ", ";
        }
    }
    buf_printf(out, " | %s | ", r->fallback != NULL ? r->fallback : r->kind == KIND_FLAG ? "off" : "");
    append_cell(out, r->help);
    if (r->kind == KIND_INT || r->kind == KIND_FLOAT || r->kind == KIND_INTS)
        buf_printf(out, " (%.15g … %.15g)", r->low, r->high);
    buf_puts(out, " |\n");
}

void options_markdown(buf *out)
{
    for (int s = 0; s < SECTION_COUNT; s++) {
        buf_printf(out, "%s### %s\n\n| option | commands | default | meaning |\n|---|---|---|---|\n",
                   s != 0 ? "\n" : "", option_sections[s]);
        for (int id = 0; id < OPT_COUNT; id++)
            if (option_rows[id].section == (option_section)s)
                markdown_row(&option_rows[id], out);
    }
}
