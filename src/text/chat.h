/* chat.h: conversations as token ids. A few known formats, written in C; no template language is run.
 *
 * The format is that of the model's type or of its chat template (or named by the user). Markers are put in as
 * ids; a message's own text is encoded with special == false, so that a user cannot forge a marker
 * (cases.md R02). Pure. Threads: any.
 */
#ifndef FORAY_TEXT_CHAT_H
#define FORAY_TEXT_CHAT_H

#include "text/tokenizer.h"

typedef struct chat_format chat_format;

/* The format of that name, or NULL: chatml, llama2, llama3, gemma, mistral, phi, deepseek, deepseek4. */
const chat_format *chat_format_named(const char *name);
/* The format that a Jinja template is recognised as, or NULL. */
const chat_format *chat_format_recognise(const char *template_text, size_t bytes);
/* The format of a model: that of its type, where the type has one whatever template a file may bring (DeepSeek-V4),
 * else what its template is recognised as; NULL: none. */
const chat_format *chat_format_of_model(const model_file *f);
const char *chat_format_name(const chat_format *f);
/* The same format with replies that open with reasoning, or with none; NULL: it has no such form. */
const chat_format *chat_format_thinking(const chat_format *f, bool on);
/* Whether a reply begins inside a block of reasoning, which ends at </think>: the format has written <think>. */
bool chat_format_reasons(const chat_format *f);
/* All names, separated by ", ", for messages. */
const char *chat_format_names(void);

/* Appends the ids of the conversation, ending where the assistant is to speak. An assistant's text may hold its
 * reasoning in front, up to </think>; which of it is written is the format's business. system_default: what the
 * model's template says when no system message is given (SmolLM2 and Qwen2 have one), or NULL. EUSAGE names a
 * role that the format does not know; EUNSUPPORTED names a marker that the vocabulary lacks. */
int chat_encode(const chat_format *f, const tokenizer *t, const char *system_default,
                const foray_message *messages, size_t n, id_list *out, foray_error *err);

/* The default system message written in a template, or NULL. Returned text is owned by the caller through b. */
const char *chat_default_system(const char *template_text, size_t bytes, buf *b);

#endif
