/* split.c: the patterns of the known pre-tokenizers, compiled with PCRE2 and its JIT.
 *
 * Each rule carries the expressions that tokenizer.json files of its family contain (to recognise them) and
 * ours (to run them). The subject has been checked to be UTF-8, so PCRE2 does not check it again. Match and heap
 * limits bound what a hostile text can cost. Threads: compiled patterns are read only.
 */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/split.h"

#include <pcre2.h>
#include <string.h>

#include "text/unicode_gap.h"

enum { MATCH_LIMIT = 50000000, HEAP_LIMIT_KIB = 65536, JIT_STACK = 1 << 20 };

/* Unicode's White_Space, for use inside a class. */
#define SPACE                                                                                                \
    "\\x09-\\x0D\\x20\\x85\\xA0\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}\\x{205F}\\x{3000}"
#define TRAILING_SPACE "[" SPACE "]+(?![^" SPACE "])|[" SPACE "]+"
#define CONTRACTIONS "'s|'t|'re|'ve|'m|'ll|'d"

#define L CLASS_LETTER
#define N CLASS_NUMBER
#define PS CLASS_PUNCTUATION CLASS_SYMBOL

/* GPT-2's expression; "(byte-level)" stands for it in tokenizer.json. */
#define GPT2 CONTRACTIONS "| ?[" L "]+| ?[" N "]+| ?[^" SPACE L N "]+|" TRAILING_SPACE

/* The family of GPT-4's expression: words take one character in front, digits come in groups. */
#define GPT4(digits)                                                                                         \
    "(?i:" CONTRACTIONS ")|[^\\r\\n" L N "]?[" L "]+|[" N "]" digits "| ?[^" SPACE L N "]+[\\r\\n]*|[" SPACE \
    "]*[\\r\\n]+|" TRAILING_SPACE
#define GPT4_REFERENCE(digits)                                                                               \
    "(?i:" CONTRACTIONS ")|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" digits                                            \
    "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

typedef struct {
    const char *name;
    const char *reference[SPLIT_STAGES]; /* as tokenizer.json has them */
    const char *pattern[SPLIT_STAGES];
} rule;

static const rule rules[] = {
    { "smollm", { "(digits)", "(byte-level)" }, { "[" N "]", GPT2 } },
    { "gpt-2", { "(byte-level)" }, { GPT2 } },
    { "llama-bpe", { GPT4_REFERENCE("\\p{N}{1,3}") }, { GPT4("{1,3}") } },
    { "qwen2", { GPT4_REFERENCE("\\p{N}") }, { GPT4("") } },
    { "deepseek-v3",
      { "\\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+",
        "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
        "| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+" },
      { "[" N "]{1,3}", "[\\x{4E00}-\\x{9FA5}\\x{3040}-\\x{309F}\\x{30A0}-\\x{30FF}]+",
        "[!-/:-@\\[-`{-~][A-Za-z]+|[^\\r\\n" L PS "]?[" L CLASS_MARK "]+| ?[" PS "]+[\\r\\n]*|[" SPACE
        "]*[\\r\\n]+|" TRAILING_SPACE } },
};

enum { RULES = sizeof rules / sizeof rules[0] };

/* Other names under which GGUF files ask for the same rules. */
static const char *const aliases[][2] = {
    { "gpt2", "gpt-2" },
    { "llama3", "llama-bpe" },
    { "llama-v3", "llama-bpe" },
    { "deepseek-r1-qwen", "qwen2" },
    { "joyai-llm", "deepseek-v3" },
};

const char *splitter_names(void)
{
    return "smollm, gpt-2, llama-bpe, qwen2, deepseek-v3";
}

static bool same(const char *name, const char *text, size_t bytes)
{
    return strlen(name) == bytes && memcmp(name, text, bytes) == 0;
}

static const rule *find_rule(const char *name, size_t bytes)
{
    for (size_t i = 0; i < sizeof aliases / sizeof aliases[0]; i++)
        if (same(aliases[i][0], name, bytes)) {
            name = aliases[i][1];
            bytes = strlen(name);
        }
    for (size_t i = 0; i < RULES; i++)
        if (same(rules[i].name, name, bytes))
            return &rules[i];
    return NULL;
}

int splitter_open(const char *name, size_t bytes, const char *where, splitter *out, foray_error *err)
{
    const rule *r = find_rule(name, bytes);
    if (r == NULL)
        return fail(err, FORAY_EUNSUPPORTED, "%s: the pre-tokenizer \"%.*s\" is not known (known: %s)", where,
                    bytes < 60 ? (int)bytes : 60, name, splitter_names());
    splitter s = { .name = r->name };
    while (s.stages < SPLIT_STAGES && r->pattern[s.stages] != NULL) {
        int code;
        PCRE2_SIZE at;
        pcre2_code *p = pcre2_compile((PCRE2_SPTR)r->pattern[s.stages], PCRE2_ZERO_TERMINATED, PCRE2_UTF,
                                      &code, &at, NULL);
        if (p == NULL) {
            splitter_close(&s);
            return fail(err, FORAY_ENOMEM, "%s: pre-tokenizer %s: PCRE2 error %d at %zu of pattern %d", where,
                        r->name, code, (size_t)at, s.stages);
        }
        /* Where the system forbids making code at run time, the interpreter serves. */
        (void)pcre2_jit_compile(p, PCRE2_JIT_COMPLETE);
        s.stage[s.stages++] = p;
    }
    *out = s;
    return 0;
}

void splitter_close(splitter *s)
{
    for (int i = 0; i < s->stages; i++)
        pcre2_code_free(s->stage[i]);
    *s = (splitter) { 0 };
}

const char *splitter_recognise(const char *const *expression, size_t count)
{
    for (size_t i = 0; i < RULES; i++) {
        size_t k = 0;
        while (k < count && k < SPLIT_STAGES && rules[i].reference[k] != NULL &&
               strcmp(rules[i].reference[k], expression[k]) == 0)
            k++;
        if (k == count && (k == SPLIT_STAGES || rules[i].reference[k] == NULL))
            return rules[i].name;
    }
    return NULL;
}

int split_scratch_init(split_scratch *s, foray_error *err)
{
    *s = (split_scratch) { 0 };
    s->match = pcre2_match_data_create(1, NULL);
    s->context = pcre2_match_context_create(NULL);
    s->stack = pcre2_jit_stack_create(32768, JIT_STACK, NULL);
    if (s->match == NULL || s->context == NULL) {
        split_scratch_free(s);
        return fail(err, FORAY_ENOMEM, "tokenizer: out of memory");
    }
    pcre2_set_match_limit(s->context, MATCH_LIMIT);
    pcre2_set_heap_limit(s->context, HEAP_LIMIT_KIB);
    if (s->stack != NULL)
        pcre2_jit_stack_assign(s->context, NULL, s->stack);
    return 0;
}

void split_scratch_free(split_scratch *s)
{
    pcre2_match_data_free(s->match);
    pcre2_match_context_free(s->context);
    pcre2_jit_stack_free(s->stack);
    *s = (split_scratch) { 0 };
}

typedef struct {
    const splitter *s;
    split_scratch *scratch;
    int (*emit)(void *user, const char *piece, size_t bytes);
    void *user;
    foray_error *err;
} run;

/* Cuts text by pattern stage, and each piece by the later ones. */
static int cut(const run *r, int stage, const char *text, size_t bytes)
{
    if (bytes == 0)
        return 0;
    if (stage == r->s->stages)
        return r->emit(r->user, text, bytes);
    size_t done = 0, from = 0;
    while (from < bytes) {
        int n = pcre2_match(r->s->stage[stage], (PCRE2_SPTR)text, bytes, from, PCRE2_NO_UTF_CHECK,
                            r->scratch->match, r->scratch->context);
        if (n == PCRE2_ERROR_NOMATCH)
            break;
        if (n < 0)
            return fail(r->err, FORAY_ELIMIT,
                        "tokenizer: pre-tokenizer %s gave up at byte %zu of a text of %zu (PCRE2 error %d)",
                        r->s->name, from, bytes, n);
        const PCRE2_SIZE *span = pcre2_get_ovector_pointer(r->scratch->match);
        size_t start = span[0], end = span[1];
        int rc = cut(r, stage + 1, text + done, start - done);
        if (rc == 0)
            rc = cut(r, stage + 1, text + start, end - start);
        if (rc != 0)
            return rc;
        done = from = end; /* no pattern matches the empty text */
    }
    return cut(r, stage + 1, text + done, bytes - done);
}

int splitter_run(const splitter *s, split_scratch *scratch, const char *text, size_t bytes,
                 int (*emit)(void *user, const char *piece, size_t bytes), void *user, foray_error *err)
{
    run r = { s, scratch, emit, user, err };
    return cut(&r, 0, text, bytes);
}
