/* options.c: parses a command line and its twins in the environment by the table of options.
 *
 * Does not know what an option does, only what it may be. A value is checked where it is read, by its row;
 * combinations that no single row can judge (-p with -f) are in `exclusive`. Threads: see options.h.
 */
#include "base/options.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/options_table.h"

extern char **environ;

/* Pairs of which a command takes one. */
static const struct {
    option_id a, b;
} exclusive[] = { { OPT_PROMPT, OPT_FILE }, { OPT_FILE, OPT_IDS }, { OPT_QUIET, OPT_VERBOSE } };

/* ---- names ------------------------------------------------------------------------------------ */

/* Edits from a to b: insertions, deletions, replacements, swaps of neighbours. Long names compare by their start. */
static int edit_distance(const char *a, const char *b)
{
    enum { LONGEST = 48 };
    int d[LONGEST + 1][LONGEST + 1];
    int na = (int)strnlen(a, LONGEST), nb = (int)strnlen(b, LONGEST);
    for (int i = 0; i <= na; i++) {
        for (int j = 0; j <= nb; j++) {
            if (i == 0 || j == 0) {
                d[i][j] = i + j;
                continue;
            }
            int best = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
            if (d[i - 1][j] + 1 < best)
                best = d[i - 1][j] + 1;
            if (d[i][j - 1] + 1 < best)
                best = d[i][j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && d[i - 2][j - 2] + 1 < best)
                best = d[i - 2][j - 2] + 1;
            d[i][j] = best;
        }
    }
    return d[na][nb];
}

/* The variable that is a row's twin: FORAY_SPEC_TOKENS. */
static void twin_name(const option_row *r, char out[64])
{
    size_t n = 0;
    for (const char *p = "FORAY_"; *p != '\0'; p++)
        out[n++] = *p;
    for (const char *p = r->name; *p != '\0' && n < 63; p++)
        out[n++] = (char)(*p == '-' ? '_' : *p >= 'a' && *p <= 'z' ? *p - 'a' + 'A' : *p);
    out[n] = '\0';
}

static int find_name(command c, const char *name, size_t length)
{
    for (int id = 0; id < OPT_COUNT; id++)
        if (options_table_takes(c, id) && strlen(option_rows[id].name) == length &&
            memcmp(option_rows[id].name, name, length) == 0)
            return id;
    return -1;
}

static int find_letter(command c, const char *letter, size_t length)
{
    for (int id = 0; id < OPT_COUNT; id++)
        if (options_table_takes(c, id) && option_rows[id].letter != NULL &&
            strlen(option_rows[id].letter) == length && memcmp(option_rows[id].letter, letter, length) == 0)
            return id;
    return -1;
}

int options_command(const char *name, command *out, foray_error *err)
{
    int nearest = 0, least = INT_MAX;
    for (int c = 0; c < COMMAND_COUNT; c++) {
        int distance = edit_distance(name, option_commands[c].name);
        if (distance < least) {
            least = distance;
            nearest = c;
        }
    }
    if (strcmp(name, option_commands[nearest].name) != 0)
        return fail(err, FORAY_EUSAGE, "%s: no such command (the nearest is %s; foray --help lists them)",
                    name, option_commands[nearest].name);
    *out = (command)nearest;
    return FORAY_OK;
}

const char *options_command_name(command c)
{
    return option_commands[c].name;
}

/* argument: as written, with its dashes. */
static int fail_unknown(command c, const char *argument, foray_error *err)
{
    const char *name = argument + strspn(argument, "-");
    size_t length = strcspn(name, "=");
    bool is_long = argument[1] == '-';
    for (int other = 0; other < COMMAND_COUNT; other++)
        if (is_long ? find_name((command)other, name, length) >= 0
                    : find_letter((command)other, name, length) >= 0)
            return fail(err, FORAY_EUSAGE, "%.*s: an option of foray %s, not of foray %s",
                        (int)(name - argument + length), argument, option_commands[other].name,
                        option_commands[c].name);
    char wanted[64];
    snprintf(wanted, sizeof wanted, "%.*s", (int)(length < 63 ? length : 63), name);
    int nearest = OPT_HELP, least = INT_MAX;
    for (int id = 0; id < OPT_COUNT; id++) {
        int distance = options_table_takes(c, id) ? edit_distance(wanted, option_rows[id].name) : INT_MAX;
        if (distance < least) {
            least = distance;
            nearest = id;
        }
    }
    return fail(
        err, FORAY_EUSAGE, "%.*s: unknown option of foray %s (the nearest is --%s; --help lists them)",
        (int)(name - argument + length), argument, option_commands[c].name, option_rows[nearest].name);
}

/* ---- values ----------------------------------------------------------------------------------- */

/* A number written with digits only (strtod would also take "nan", "0x1p3" and white space). */
static bool read_float(const char *text, double *out)
{
    if (text[0] == '\0' || text[strspn(text, "+-.0123456789eE")] != '\0')
        return false;
    char *end;
    *out = strtod(text, &end);
    return *end == '\0';
}

/* A whole number of length characters. Out-of-range ones come back clamped, so that a range check refuses them. */
static bool read_int(const char *text, size_t length, int64_t *out)
{
    size_t i = length > 0 && (text[0] == '-' || text[0] == '+');
    if (i == length)
        return false;
    int64_t value = 0;
    bool negative = text[0] == '-';
    for (; i < length; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        int digit = text[i] - '0';
        if (__builtin_mul_overflow(value, 10, &value) ||
            (negative ? __builtin_sub_overflow(value, digit, &value)
                      : __builtin_add_overflow(value, digit, &value)))
            value = negative ? INT64_MIN / 10 : INT64_MAX / 10;
    }
    *out = value;
    return true;
}

static bool read_seed(const char *text, uint64_t *out)
{
    uint64_t value = 0;
    if (text[0] == '\0')
        return false;
    for (const char *p = text; *p != '\0'; p++)
        if (*p < '0' || *p > '9' || __builtin_mul_overflow(value, 10u, &value) ||
            __builtin_add_overflow(value, (unsigned)(*p - '0'), &value))
            return false;
    *out = value;
    return true;
}

/* Refuses text for a row that wants a number. from: the option or variable, as the user wrote it. */
static int fail_number(const option_row *r, const char *from, const char *text, foray_error *err)
{
    const char *also = r->word != NULL ? " or " : "", *word = r->word != NULL ? r->word : "";
    if (r->kind == KIND_SEED)
        return fail(err, FORAY_EUSAGE, "%s: %s: not a seed (0 … 18446744073709551615%s%s)", from, text, also,
                    word);
    const char *what = r->kind == KIND_FLOAT ? "a number"
                       : r->kind == KIND_INT ? "a whole number"
                                             : "a list of whole numbers";
    if (r->kind == KIND_INTS && r->group != 0)
        return fail(err, FORAY_EUSAGE,
                    "%s: %s: not %d whole numbers with commas between (each %.15g … %.15g)", from, text,
                    r->group, r->low, r->high);
    return fail(err, FORAY_EUSAGE, "%s: %s: not %s from %.15g to %.15g%s%s", from, text, what, r->low,
                r->high, also, word);
}

static bool is_choice(const char *choices, const char *text)
{
    size_t length = strlen(text);
    for (const char *p = choices;; p++) {
        size_t n = strcspn(p, "|");
        if (n == length && n != 0 && memcmp(p, text, n) == 0)
            return true;
        p += n;
        if (*p == '\0')
            return false;
    }
}

static bool read_flag(const char *text, bool *out)
{
    static const char yes[] = "1|on|true|yes", no[] = "0|off|false|no";
    *out = is_choice(yes, text);
    return *out || is_choice(no, text);
}

/* Appends the numbers of text ("1,2,4") to v. */
static int read_ints(const option_row *r, const char *from, const char *text, option_value *v, arena *memory,
                     foray_error *err)
{
    size_t more = 1;
    for (const char *p = text; *p != '\0'; p++)
        more += *p == ',';
    int64_t *ints = arena_array(memory, v->count + more, sizeof *ints);
    if (ints == NULL)
        return fail(err, FORAY_ENOMEM, "%s: out of memory for %zu numbers", from, v->count + more);
    if (v->count != 0)
        memcpy(ints, v->ints, v->count * sizeof *ints);
    const char *p = text;
    for (size_t i = 0; i < more; i++) {
        size_t length = strcspn(p, ",");
        int64_t *value = &ints[v->count + i];
        if (!read_int(p, length, value) || (double)*value < r->low || (double)*value > r->high)
            return fail_number(r, from, text, err);
        p += length + 1;
    }
    if (r->group != 0 && more != (size_t)r->group)
        return fail_number(r, from, text, err);
    v->ints = ints;
    v->count += more;
    return FORAY_OK;
}

static int add_string(const char *from, const char *text, option_value *v, arena *memory, foray_error *err)
{
    const char **strings = arena_array(memory, v->count + 1, sizeof *strings);
    if (strings == NULL)
        return fail(err, FORAY_ENOMEM, "%s: out of memory", from);
    if (v->count != 0)
        memcpy(strings, v->strings, v->count * sizeof *strings);
    strings[v->count++] = text;
    v->strings = strings;
    return FORAY_OK;
}

/* Reads text into v by the rules of the row. */
static int read_value(const option_row *r, const char *from, const char *text, option_value *v, arena *memory,
                      foray_error *err)
{
    v->text = text;
    v->word = r->word != NULL && strcmp(text, r->word) == 0;
    if (v->word && r->kind == KIND_INT)
        v->whole = r->word_value;
    if (v->word)
        return FORAY_OK;
    switch (r->kind) {
    case KIND_FLAG:
        if (!read_flag(text, &v->on))
            return fail(err, FORAY_EUSAGE, "%s: %s: neither on nor off", from, text);
        v->text = v->on ? "on" : "off";
        return FORAY_OK;
    case KIND_INT:
        if (!read_int(text, strlen(text), &v->whole) || (double)v->whole < r->low ||
            (double)v->whole > r->high)
            return fail_number(r, from, text, err);
        return FORAY_OK;
    case KIND_FLOAT:
        if (!read_float(text, &v->number) || !(v->number >= r->low && v->number <= r->high))
            return fail_number(r, from, text, err);
        return FORAY_OK;
    case KIND_SEED:
        return read_seed(text, &v->seed) ? FORAY_OK : fail_number(r, from, text, err);
    case KIND_CHOICE:
        if (!is_choice(r->choices, text))
            return fail(err, FORAY_EUSAGE, "%s: %s: not one of %s", from, text, r->choices);
        return FORAY_OK;
    case KIND_STRINGS:
        if (text[0] == '\0')
            return fail(err, FORAY_EUSAGE, "%s: an empty text", from);
        return add_string(from, text, v, memory, err);
    case KIND_INTS:
        return read_ints(r, from, text, v, memory, err);
    case KIND_STRING:
        break;
    }
    return FORAY_OK;
}

/* As read_value, from a source that beats weaker ones: a list starts anew when the stronger source first speaks. */
static int set_value(options *o, int id, option_source source, const char *from, const char *text,
                     foray_error *err)
{
    option_value fresh = o->value[id];
    if (fresh.source != source)
        fresh = (option_value) { .source = source };
    int code = read_value(&option_rows[id], from, text, &fresh, &o->memory, err);
    if (code == FORAY_OK)
        o->value[id] = fresh;
    return code;
}

static void set_default(options *o, int id)
{
    const option_row *r = &option_rows[id];
    o->value[id] = (option_value) { 0 };
    const char *text = r->kind == KIND_FLAG ? "off" : r->fallback;
    if (text != NULL)
        (void)read_value(r, r->name, text, &o->value[id], &o->memory, NULL); /* a test reads every default */
}

/* ---- parsing ---------------------------------------------------------------------------------- */

/* Every FORAY_… variable must be the twin of some option; those of this command's options are read. */
static int read_environment(options *o, const char *const *environment, foray_error *err)
{
    for (const char *const *entry = environment; *entry != NULL; entry++) {
        const char *equals = strchr(*entry, '=');
        if (strncmp(*entry, "FORAY_", 6) != 0 || equals == NULL)
            continue;
        size_t length = (size_t)(equals - *entry);
        char variable[64], twin[64];
        snprintf(variable, sizeof variable, "%.*s", (int)(length < 63 ? length : 63), *entry);
        bool known = false;
        int nearest = 0, least = INT_MAX;
        for (int id = 0; id < OPT_COUNT; id++) {
            if (option_rows[id].no_twin)
                continue;
            twin_name(&option_rows[id], twin);
            int distance = edit_distance(variable, twin);
            if (distance < least) {
                least = distance;
                nearest = id;
            }
            if (strcmp(variable, twin) != 0)
                continue;
            known = true;
            if (options_table_takes(o->command, id)) {
                int code = set_value(o, id, OPTION_FROM_ENVIRONMENT, variable, equals + 1, err);
                if (code != FORAY_OK)
                    return code;
            }
        }
        twin_name(&option_rows[nearest], twin);
        if (!known)
            return fail(err, FORAY_EUSAGE, "%s: unknown variable in the environment (the nearest is %s)",
                        variable, twin);
    }
    return FORAY_OK;
}

/* Reads one option at argv[*i] and steps past it and its value. */
static int read_option(options *o, int argc, const char *const *argv, int *i, foray_error *err)
{
    const char *argument = argv[(*i)++], *value = NULL;
    char from[72];
    int id;
    if (argument[1] == '-') {
        const char *name = argument + 2;
        size_t length = strcspn(name, "=");
        id = find_name(o->command, name, length);
        value = name[length] == '=' ? name + length + 1 : NULL;
    } else {
        id = find_letter(o->command, argument + 1, strlen(argument + 1));
        if (id < 0 && argument[2] != '\0') { /* -n64 */
            id = find_letter(o->command, argument + 1, 1);
            value = argument + 2;
            if (id >= 0 && option_rows[id].kind == KIND_FLAG)
                id = -1;
        }
    }
    if (id < 0)
        return fail_unknown(o->command, argument, err);
    snprintf(from, sizeof from, "--%s", option_rows[id].name);
    if (value == NULL && option_rows[id].kind == KIND_FLAG)
        value = "on";
    if (value == NULL) {
        if (*i >= argc)
            return fail(err, FORAY_EUSAGE, "%s: needs a value (%s)", from, option_rows[id].argument);
        value = argv[(*i)++];
    }
    return set_value(o, id, OPTION_FROM_COMMAND_LINE, from, value, err);
}

static int read_arguments(options *o, int argc, const char *const *argv, foray_error *err)
{
    o->operands = arena_array(&o->memory, (size_t)argc + 1, sizeof *o->operands);
    if (o->operands == NULL)
        return fail(err, FORAY_ENOMEM, "command line: out of memory");
    bool only_operands = false;
    for (int i = 0; i < argc;) {
        if (only_operands || argv[i][0] != '-' || argv[i][1] == '\0') {
            o->operands[o->operand_count++] = argv[i++];
        } else if (strcmp(argv[i], "--") == 0) {
            only_operands = true;
            i++;
        } else {
            int code = read_option(o, argc, argv, &i, err);
            if (code != FORAY_OK)
                return code;
        }
    }
    return FORAY_OK;
}

/* What no single option can be blamed for. */
static int check_together(options *o, foray_error *err)
{
    for (size_t i = 0; i < sizeof exclusive / sizeof *exclusive; i++) {
        option_id a = exclusive[i].a, b = exclusive[i].b;
        const option_value *va = &o->value[a], *vb = &o->value[b];
        bool flags = option_rows[a].kind == KIND_FLAG;
        if (va->source == OPTION_UNSET || vb->source == OPTION_UNSET || (flags && !(va->on && vb->on)))
            continue;
        if (va->source == vb->source)
            return fail(err, FORAY_EUSAGE, "--%s and --%s exclude each other: give one of them",
                        option_rows[a].name, option_rows[b].name);
        set_default(o, va->source < vb->source ? (int)a : (int)b);
    }
    size_t wanted = option_commands[o->command].operands;
    if (o->operand_count > wanted && !option_commands[o->command].more)
        return fail(err, FORAY_EUSAGE, "%s: not an option, and foray %s takes %s", o->operands[wanted],
                    option_commands[o->command].name, wanted == 0 ? "no operand" : "one operand only");
    if (o->operand_count < wanted)
        return fail(err, FORAY_EUSAGE, "foray %s: say which: foray %s %s", option_commands[o->command].name,
                    option_commands[o->command].name, option_commands[o->command].synopsis);
    return FORAY_OK;
}

static bool asks_for_help(int argc, const char *const *argv)
{
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return true;
    return false;
}

int options_parse(command c, int argc, const char *const *argv, const char *const *environment, options *out,
                  foray_error *err)
{
    *out = (options) { .command = c };
    arena_init(&out->memory, MEM_GENERAL, 4096);
    for (int id = 0; id < OPT_COUNT; id++)
        if (options_table_takes(c, id))
            set_default(out, id);
    if (asks_for_help(argc, argv)) {
        out->value[OPT_HELP].on = true;
        return FORAY_OK;
    }
    int code = read_environment(out, environment != NULL ? environment : (const char *const *)environ, err);
    if (code == FORAY_OK)
        code = read_arguments(out, argc, argv, err);
    if (code == FORAY_OK)
        code = check_together(out, err);
    if (code != FORAY_OK)
        options_free(out);
    return code;
}

void options_free(options *o)
{
    arena_free(&o->memory);
    *o = (options) { .command = o->command };
}

/* ---- reading what was set --------------------------------------------------------------------- */

bool options_has(const options *o, option_id id)
{
    return o->value[id].source != OPTION_UNSET && !o->value[id].word;
}

bool options_flag(const options *o, option_id id)
{
    return o->value[id].on;
}

int options_int(const options *o, option_id id)
{
    return (int)o->value[id].whole;
}

double options_float(const options *o, option_id id)
{
    return o->value[id].number;
}

uint64_t options_seed(const options *o, option_id id)
{
    return o->value[id].seed;
}

const char *options_string(const options *o, option_id id)
{
    return o->value[id].text;
}

const char *const *options_strings(const options *o, option_id id, size_t *count)
{
    *count = o->value[id].count;
    return o->value[id].strings;
}

const int64_t *options_ints(const options *o, option_id id, size_t *count)
{
    *count = o->value[id].count;
    return o->value[id].ints;
}

size_t options_list(const options *o, const char **names, const char **values)
{
    size_t n = 0;
    for (int id = 0; id < OPT_COUNT; id++) {
        if (!options_table_takes(o->command, id) || id == OPT_HELP)
            continue;
        names[n] = option_rows[id].name;
        values[n++] = o->value[id].text != NULL ? o->value[id].text : "";
    }
    return n;
}

const char *options_environment(const char *name)
{
    const char *value = getenv(name);
    return value != NULL && value[0] != '\0' ? value : NULL;
}
