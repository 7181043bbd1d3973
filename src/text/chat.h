/* chat.h: conversations as token ids. A few known formats, written in C; no template language is run.
 *
 * The format is recognised from the model's chat template (or named by the user). Markers are put in as
 * ids; a message's own text is encoded with special == false, so that a user cannot forge a marker
 * (cases.md R02). Pure. Threads: any.
 */
#ifndef FORAY_TEXT_CHAT_H
#define FORAY_TEXT_CHAT_H

#include "text/tokenizer.h"

typedef struct chat_format chat_format;

/* The format of that name, or NULL: chatml, llama2, llama3, gemma, mistral, phi, deepseek. */
const chat_format *chat_format_named(const char *name);
/* The format that a Jinja template is recognised as, or NULL. */
const chat_format *chat_format_recognise(const char *template_text, size_t bytes);
const char *chat_format_name(const chat_format *f);
/* All names, separated by ", ", for messages. */
const char *chat_format_names(void);

/* Appends the ids of the conversation, ending where the assistant is to speak. system_default: what the
 * model's template says when no system message is given (SmolLM2 and Qwen2 have one), or NULL. EUSAGE names a
 * role that the format does not know; EUNSUPPORTED names a marker that the vocabulary lacks. */
int chat_encode(const chat_format *f, const tokenizer *t, const char *system_default,
                const foray_message *messages, size_t n, id_list *out, foray_error *err);

/* The default system message written in a template, or NULL. Returned text is owned by the caller through b. */
const char *chat_default_system(const char *template_text, size_t bytes, buf *b);

#endif
