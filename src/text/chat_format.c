/* chat_format.c: the known chat formats, and how a model's Jinja template is recognised as one of them.
 *
 * DeepSeek-V4 is told by the model's type. Else recognition looks for the literals that a template writes. Nothing is run. A template that writes the markers
 * of a format in a way that is not in the table is not recognised: better a refusal than a format that is nearly
 * right. Several entries share a name; the first is the one a user gets by that name. Threads: any.
 */
#include "text/chat_format.h"

#include <string.h>

#include "text/chat.h"

#define CHATML(begin_, think_, silence)                                                                      \
    {                                                                                                        \
        .name = "chatml", .required = { "<|im_start|>", "<|im_end|>" },                                      \
        .turn = { { "<|im_start|>system\n", "<|im_end|>\n", false },                                         \
                  { "<|im_start|>user\n", "<|im_end|>\n", false },                                           \
                  { "<|im_start|>assistant\n", "<|im_end|>\n", false } },                                    \
        .reply = "<|im_start|>assistant\n" silence, .begin = begin_, .think = think_                         \
    }

#define LLAMA3_HEADER(role) "<|start_header_id|>" role "<|end_header_id|>\n\n"
#define LLAMA3(system_open, system_)                                                                         \
    {                                                                                                        \
        .name = "llama3", .required = { "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>" },          \
        .turn = { { system_open, "<|eot_id|>", true },                                                       \
                  { LLAMA3_HEADER("user"), "<|eot_id|>", true },                                             \
                  { LLAMA3_HEADER("assistant"), "<|eot_id|>", true } },                                      \
        .reply = LLAMA3_HEADER("assistant"), .begin = BEGIN_ALWAYS, .system = system_                        \
    }

#define GEMMA(system_)                                                                                       \
    {                                                                                                        \
        .name = "gemma", .required = { "<start_of_turn>", "<end_of_turn>" },                                 \
        .turn = { { "", "\n\n", false },                                                                     \
                  { "<start_of_turn>user\n", "<end_of_turn>\n", true },                                      \
                  { "<start_of_turn>model\n", "<end_of_turn>\n", true } },                                   \
        .reply = "<start_of_turn>model\n", .begin = BEGIN_ALWAYS, .system = system_, .alternate = true       \
    }

#define MISTRAL(user_open, user_close, reply_open, reply_close, trim_reply, system_)                         \
    {                                                                                                        \
        .name = "mistral",                                                                                   \
        .turn = { { "", "\n\n", false },                                                                     \
                  { user_open, user_close, false },                                                          \
                  { reply_open, reply_close, trim_reply } },                                                 \
        .reply = "", .begin = BEGIN_ALWAYS, .system = system_, .alternate = true                             \
    }

#define PHI(sep, turn_end, begin_)                                                                           \
    {                                                                                                        \
        .name = "phi", .required = { "<|user|>", "<|assistant|>", "<|end|>" },                               \
        .turn = { { "<|system|>" sep, turn_end, false },                                                     \
                  { "<|user|>" sep, turn_end, false },                                                       \
                  { "<|assistant|>" sep, turn_end, false } },                                                \
        .reply = "<|assistant|>" sep, .begin = begin_                                                        \
    }

#define DEEPSEEK(reply_, think_, reasons_)                                                                   \
    {                                                                                                        \
        .name = "deepseek", .required = { "<｜User｜>", "<｜Assistant｜>", "<｜end▁of▁sentence｜>" },        \
        .turn = { { "", "", false },                                                                         \
                  { "<｜User｜>", "", false },                                                               \
                  { "<｜Assistant｜>", "<｜end▁of▁sentence｜>", false } },                                   \
        .reply = reply_, .begin = BEGIN_ALWAYS, .system = SYSTEM_IN_FRONT, .think = think_,                  \
        .reasons = reasons_                                                                                  \
    }

/* What DeepSeek-V4's own encoder writes; its files have no template. Nothing stands between the parts. */
#define DEEPSEEK4(reply_, reasons_)                                                                          \
    {                                                                                                        \
        .name = "deepseek4",                                                                                 \
        .required = { "<｜User｜>", "<｜Assistant｜>", "<｜end▁of▁sentence｜>", "<think>", "</think>" },     \
        .turn = { { "", "", false }, { "<｜User｜>", "", false }, { "", "<｜end▁of▁sentence｜>", false } },  \
        .reply = reply_, .past = "<｜Assistant｜></think>", .begin = BEGIN_ALWAYS, .system = SYSTEM_TURN,    \
        .think = THINK_DEEPSEEK4, .reasons = reasons_                                                        \
    }

static const chat_format chatml = CHATML(BEGIN_ASKED, THINK_KEEP, "");
static const chat_format chatml_bare = CHATML(BEGIN_NEVER, THINK_KEEP, "");
static const chat_format chatml_begin = CHATML(BEGIN_ALWAYS, THINK_KEEP, "");
static const chat_format chatml_qwen3 = CHATML(BEGIN_NEVER, THINK_QWEN3, "");
static const chat_format chatml_qwen3_silent = CHATML(BEGIN_NEVER, THINK_QWEN3, "<think>\n\n</think>\n\n");

static const chat_format llama2 = {
    .name = "llama2",
    .turn = { { "<<SYS>>\n", "\n<</SYS>>\n\n", false },
              { "[INST] ", " [/INST]", true },
              { " ", " </s>", true } },
    .reply = "",
    .begin = BEGIN_ALWAYS,
    .system = SYSTEM_FIRST_USER,
    .alternate = true,
    .begin_every_user = true,
    .trim_whole_turn = true,
};

static const chat_format llama3 = LLAMA3(LLAMA3_HEADER("system"), SYSTEM_TURN);
/* Llama 3.1 and later state two dates. Today's would make a text depend on the day, so it is the template's own
 * fallback. */
static const chat_format llama3_dated =
    LLAMA3(LLAMA3_HEADER("system") "Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n",
           SYSTEM_ONE_TURN);

static const chat_format gemma = GEMMA(SYSTEM_FIRST_USER);
static const chat_format gemma_no_system = GEMMA(SYSTEM_REFUSED);

static const chat_format mistral_v3 = MISTRAL("[INST] ", "[/INST]", " ", "</s>", true, SYSTEM_LAST_USER);
static const chat_format mistral_v3_tekken =
    MISTRAL("[INST]", "[/INST]", "", "</s>", false, SYSTEM_LAST_USER);
static const chat_format mistral_v2 = MISTRAL(" [INST] ", " [/INST]", " ", "</s>", false, SYSTEM_FIRST_USER);
static const chat_format mistral_v1 = MISTRAL("[INST] ", " [/INST]", "", "</s>", false, SYSTEM_REFUSED);
static const chat_format mistral_v1_spaced =
    MISTRAL("[INST] ", " [/INST]", "", "</s> ", false, SYSTEM_REFUSED);

static const chat_format phi3 = PHI("\n", "<|end|>\n", BEGIN_ASKED);
static const chat_format phi3_bare = PHI("\n", "<|end|>\n", BEGIN_NEVER);
static const chat_format phi3_begin = PHI("\n", "<|end|>\n", BEGIN_ALWAYS);
static const chat_format phi4_mini = PHI("", "<|end|>", BEGIN_NEVER);

static const chat_format deepseek = DEEPSEEK("<｜Assistant｜>", THINK_KEEP, false);
static const chat_format deepseek_r1 = DEEPSEEK("<｜Assistant｜><think>\n", THINK_CUT, true);

static const chat_format deepseek4 = DEEPSEEK4("<｜Assistant｜></think>", false);
static const chat_format deepseek4_reasoning = DEEPSEEK4("<｜Assistant｜><think>", true);

/* One entry per name. */
static const chat_format *const named[] = { &chatml,     &llama2, &llama3,   &gemma,
                                            &mistral_v3, &phi3,   &deepseek, &deepseek4 };

/* One entry per model that can be told whether to reason; NULL: it does so always. */
static const struct {
    const chat_format *silent, *reasoning;
} thinking[] = {
    { &deepseek4, &deepseek4_reasoning },
    { &chatml_qwen3_silent, &chatml_qwen3 },
    { NULL, &deepseek_r1 },
};

const char *chat_format_names(void)
{
    return "chatml, llama2, llama3, gemma, mistral, phi, deepseek, deepseek4";
}

const chat_format *chat_format_thinking(const chat_format *f, bool on)
{
    for (size_t i = 0; i < sizeof thinking / sizeof thinking[0]; i++)
        if (f == thinking[i].silent || f == thinking[i].reasoning)
            return on ? thinking[i].reasoning : thinking[i].silent;
    return NULL;
}

bool chat_format_reasons(const chat_format *f)
{
    return f->reasons;
}

const char *chat_format_name(const chat_format *f)
{
    return f->name;
}

const chat_format *chat_format_named(const char *name)
{
    for (size_t i = 0; i < sizeof named / sizeof named[0]; i++)
        if (strcmp(named[i]->name, name) == 0)
            return named[i];
    return NULL;
}

/* ---- templates ------------------------------------------------------------------------------- */

typedef struct {
    const char *text;
    size_t bytes;
} template_view;

static bool has(const template_view *t, const char *word)
{
    return memmem(t->text, t->bytes, word, strlen(word)) != NULL;
}

static bool has_either(const template_view *t, const char *a, const char *b)
{
    return has(t, a) || has(t, b);
}

static const chat_format *recognise_mistral(const template_view *t)
{
    if (has(t, "[SYSTEM_PROMPT]"))
        return NULL;
    if (has_either(t, "\" [INST] \"", "' [INST] '"))
        return &mistral_v2;
    if (has_either(t, "\"[INST] \"", "'[INST] '")) {
        if (has_either(t, "\" [/INST]\"", "' [/INST]'"))
            return has_either(t, "eos_token + ' '", "eos_token + \" \"") ? &mistral_v1_spaced : &mistral_v1;
        return has_either(t, "\"[/INST]\"", "'[/INST]'") ? &mistral_v3 : NULL;
    }
    if (has_either(t, "\"[INST]\"", "'[INST]'") && has_either(t, "\"[/INST]\"", "'[/INST]'"))
        return &mistral_v3_tekken;
    return NULL;
}

static const chat_format *recognise_chatml(const template_view *t)
{
    if (!has(t, "<|im_end|>") || has(t, "<|im_sep|>"))
        return NULL;
    if (has(t, "reasoning_content") && has(t, "<think>"))
        return has(t, "last_query_index") ? &chatml_qwen3 : NULL;
    return has(t, "bos_token") ? &chatml_begin : &chatml_bare;
}

static const chat_format *recognise_phi(const template_view *t)
{
    /* A line break after a marker is written as itself or as an escape. */
    if (has_either(t, "<|assistant|>\\n", "<|assistant|>\n"))
        return has(t, "bos_token") ? &phi3_begin : &phi3_bare;
    return has_either(t, "'<|assistant|>'", "\"<|assistant|>\"") ? &phi4_mini : NULL;
}

static const chat_format *recognise_deepseek(const template_view *t)
{
    if (!has(t, "</think>"))
        return &deepseek;
    return has_either(t, "<｜Assistant｜><think>\\n", "<｜Assistant｜><think>\n") ? &deepseek_r1 : NULL;
}

const chat_format *chat_format_recognise(const char *template_text, size_t bytes)
{
    template_view t = { template_text, bytes };
    if (has(&t, "<|im_start|>"))
        return recognise_chatml(&t);
    if (has(&t, "<|start_header_id|>") && has(&t, "<|eot_id|>"))
        return has(&t, "Cutting Knowledge Date") ? &llama3_dated : &llama3;
    if (has(&t, "<start_of_turn>"))
        return has(&t, "first_user_prefix") ? &gemma : &gemma_no_system;
    if (has(&t, "<｜Assistant｜>") && has(&t, "<｜User｜>"))
        return recognise_deepseek(&t);
    if (has(&t, "[INST]"))
        return has(&t, "<<SYS>>") ? &llama2 : recognise_mistral(&t);
    if (has(&t, "<|end|>") && has(&t, "<|assistant|>"))
        return recognise_phi(&t);
    return NULL;
}

static bool says(const model_file *f, const char *key, const char *value)
{
    const char *text;
    size_t bytes;
    return model_file_string(f, key, &text, &bytes) && bytes == strlen(value) &&
           memcmp(text, value, bytes) == 0;
}

const chat_format *chat_format_of_model(const model_file *f)
{
    const char *text;
    size_t bytes;
    if (says(f, "model_type", "deepseek_v4") || says(f, "general.architecture", "deepseek4"))
        return &deepseek4;
    return model_file_string(f, "tokenizer.chat_template", &text, &bytes) ? chat_format_recognise(text, bytes)
                                                                          : NULL;
}

/* Length of the line break at text, written as itself or as an escape; 0: none. */
static size_t line_break(const char *text, size_t bytes)
{
    if (bytes >= 1 && text[0] == '\n')
        return 1;
    return bytes >= 2 && text[0] == '\\' && text[1] == 'n' ? 2 : 0;
}

const char *chat_default_system(const char *template_text, size_t bytes, buf *b)
{
    static const char open[] = "<|im_start|>system", close[] = "<|im_end|>";
    const char *end = template_text + bytes, *at = template_text;
    while ((at = memmem(at, (size_t)(end - at), open, sizeof open - 1)) != NULL) {
        char quote = at > template_text ? at[-1] : '\'';
        at += sizeof open - 1;
        size_t skip = line_break(at, (size_t)(end - at));
        const char *stop = memmem(at, (size_t)(end - at), close, sizeof close - 1);
        if (stop == NULL)
            return NULL;
        /* Not where the literal ends first: that one goes on with the conversation's own system message. */
        if (skip == 0 || memchr(at, quote, (size_t)(stop - at)) != NULL)
            continue;
        for (const char *p = at + skip; p < stop;) {
            size_t n = line_break(p, (size_t)(stop - p));
            buf_append(b, n != 0 ? "\n" : p, 1);
            p += n != 0 ? n : 1;
        }
        return b->failed ? NULL : b->data;
    }
    return NULL;
}
