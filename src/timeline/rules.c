/* rules.c: parses rule text; built-in and user's rules have the same form. */
#include "timeline/rules.h"

#include <string.h>

#include "observe/phase.h"
#include "timeline/list.h"
#include "timeline/names.h"

static const char *const kind_names[RULE_KINDS] = { "step", "stage", "kernel", "comm", "host" };

/* One line being taken apart. */
typedef struct {
    const char *name;
    int number;
    const char *at, *end;
} line;

/* The next word (or quoted text) of the line, copied into memory; NULL: none left. */
static const char *next_word(line *l, arena *memory)
{
    while (l->at < l->end && (*l->at == ' ' || *l->at == '\t'))
        l->at++;
    if (l->at == l->end || *l->at == '#')
        return NULL;
    const char *from = l->at;
    if (*from == '"') {
        from++;
        l->at++;
        while (l->at < l->end && *l->at != '"')
            l->at++;
        size_t bytes = (size_t)(l->at - from);
        l->at += l->at < l->end;
        return arena_strndup(memory, from, bytes);
    }
    while (l->at < l->end && *l->at != ' ' && *l->at != '\t')
        l->at++;
    return arena_strndup(memory, from, (size_t)(l->at - from));
}

/* The rest of the line, without blanks around it. */
static const char *rest_of(line *l, arena *memory)
{
    while (l->at < l->end && (*l->at == ' ' || *l->at == '\t'))
        l->at++;
    const char *end = l->end;
    while (end > l->at && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    return end > l->at ? arena_strndup(memory, l->at, (size_t)(end - l->at)) : NULL;
}

static int bad(const line *l, foray_error *err, const char *what)
{
    return fail(err, FORAY_EUSAGE, "%s: line %d: %s", l->name, l->number, what);
}

static int take_set(rules *r, line *l, foray_error *err)
{
    const char *name = next_word(l, &r->memory);
    if (name == NULL)
        return bad(l, err, "set needs a name");
    if (!list_reserve(&r->sets, &r->set_cap, r->set_count + 1, sizeof *r->sets))
        return fail(err, FORAY_ENOMEM, "%s: out of memory", l->name);
    r->sets[r->set_count++] = name;
    return FORAY_OK;
}

static int take_phase(const rules *r, line *l, rule *out, foray_error *err)
{
    const char *word = next_word(l, (arena *)&r->memory);
    out->phase = word != NULL ? phase_parse(word) : -1;
    if (out->phase < 0)
        return bad(l, err,
                   "the last word must be a phase (draft, plan, target-verify, accept, sync, commit, "
                   "draft-extend, decode, prefill, eager-tail)");
    return FORAY_OK;
}

static int take_rule(rules *r, const char *word, line *l, foray_error *err)
{
    int kind = 0;
    while (kind < RULE_KINDS && strcmp(word, kind_names[kind]) != 0)
        kind++;
    if (kind == RULE_KINDS)
        return bad(l, err, "a line begins with set, step, stage, kernel, comm or host");
    rule next = { .kind = (rule_kind)kind, .phase = -1 };
    next.pattern = next_word(l, &r->memory);
    if (next.pattern == NULL)
        return bad(l, err, "the pattern is missing");
    if (r->set_count == 0) {
        line user = { .name = l->name, .at = "user", .end = strchr("user", '\0') };
        int rc = take_set(r, &user, err);
        if (rc != FORAY_OK)
            return rc;
    }
    next.set = (int)r->set_count - 1;
    if (kind == RULE_STAGE || kind == RULE_KERNEL) {
        int rc = take_phase(r, l, &next, err);
        if (rc != FORAY_OK)
            return rc;
    } else if (kind == RULE_HOST) {
        next.words = rest_of(l, &r->memory);
        if (next.words == NULL)
            return bad(l, err, "say in words what the host does there");
    } else if (kind == RULE_STEP) {
        const char *word2 = next_word(l, &r->memory);
        if (word2 != NULL && strcmp(word2, "prefill") != 0)
            return bad(l, err, "behind a step's pattern only 'prefill' may stand");
        next.prefill = word2 != NULL;
    }
    if (!list_reserve(&r->rules, &r->cap, r->count + 1, sizeof *r->rules))
        return fail(err, FORAY_ENOMEM, "%s: out of memory", l->name);
    r->rules[r->count++] = next;
    return FORAY_OK;
}

static int take_text(rules *r, const char *name, const char *text, foray_error *err)
{
    line l = { .name = name };
    while (*text != '\0') {
        size_t bytes = strcspn(text, "\r\n");
        l.number++;
        l.at = text;
        l.end = text + bytes;
        const char *word = next_word(&l, &r->memory);
        if (word != NULL) {
            int rc = strcmp(word, "set") == 0 ? take_set(r, &l, err) : take_rule(r, word, &l, err);
            if (rc != FORAY_OK)
                return rc;
        }
        text += bytes;
        text += *text == '\r';
        text += *text == '\n';
    }
    return FORAY_OK;
}

int rules_open(const char *name, const char *text, rules *out, foray_error *err)
{
    rules r = { 0 };
    arena_init(&r.memory, MEM_RECORDS, 16 << 10);
    int rc = text != NULL ? take_text(&r, name, text, err) : FORAY_OK;
    if (rc == FORAY_OK)
        rc = take_text(&r, "built-in rules", rules_builtin(), err);
    if (rc != FORAY_OK) {
        rules_free(&r);
        return rc;
    }
    *out = r;
    return FORAY_OK;
}

void rules_free(rules *r)
{
    list_free(&r->rules, &r->cap, sizeof *r->rules);
    list_free(&r->sets, &r->set_cap, sizeof *r->sets);
    arena_free(&r->memory);
    *r = (rules) { 0 };
}

const rule *rules_find(const rules *r, rule_kind kind, const char *text)
{
    for (size_t i = 0; i < r->count; i++)
        if (r->rules[i].kind == kind && names_match(r->rules[i].pattern, text))
            return &r->rules[i];
    return NULL;
}
