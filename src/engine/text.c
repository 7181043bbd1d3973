/* text.c: text and conversations as ids, and back. See foray.h. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "engine/engine.h"

/* A block that foray_free can give back without being told its size: the size stands in front. */
typedef struct {
    size_t bytes;
    char pad[64 - sizeof(size_t)];
} block_head;

static void *block_alloc(size_t bytes)
{
    block_head *h = mem_alloc(MEM_TEXT, sizeof *h + bytes);
    if (!h)
        return NULL;
    h->bytes = sizeof *h + bytes;
    return h + 1;
}

void foray_free(void *p)
{
    if (p)
        mem_free(MEM_TEXT, (block_head *)p - 1, ((block_head *)p - 1)->bytes);
}

int engine_check_input(const foray_engine *e, foray_input input, foray_error *err)
{
    if (input >= FORAY_TEXT && !e->tokenizer)
        return fail(err, FORAY_EUNSUPPORTED,
                    "%s: the model's files have no tokenizer (only token ids can be used)", e->config.model);
    if (input >= FORAY_CHAT && !e->chat)
        return fail(
            err, FORAY_EUNSUPPORTED,
            "%s: its chat template is %s (name one with --chat-template: %s; or --raw for plain text)",
            e->config.model,
            model_file_key_type(e->file, "tokenizer.chat_template") ? "none that foray knows" : "missing",
            chat_format_names());
    return 0;
}

/* Hands a list over to the caller as a plain block. The list is freed either way. */
static int hand_over(id_list *list, int rc, int32_t **ids, size_t *count, foray_error *err)
{
    int32_t *copy = rc == 0 ? block_alloc(sizeof(int32_t) * (list->count + 1)) : NULL;
    if (rc == 0 && !copy)
        rc = fail(err, FORAY_ENOMEM, "no memory for %zu tokens", list->count);
    if (rc == 0) {
        if (list->count > 0)
            memcpy(copy, list->ids, sizeof(int32_t) * list->count);
        *ids = copy;
        *count = list->count;
    }
    id_list_free(list);
    return rc;
}

int foray_encode(foray_engine *e, const char *text, size_t bytes, bool special, bool begin, int32_t **ids,
                 size_t *count, foray_error *err)
{
    int rc = engine_check_input(e, FORAY_TEXT, err);
    if (rc != 0)
        return rc;
    id_list list = { 0 };
    return hand_over(&list, tokenizer_encode(e->tokenizer, text, bytes, special, begin, &list, err), ids,
                     count, err);
}

int foray_encode_chat(foray_engine *e, const foray_message *messages, size_t n, int32_t **ids, size_t *count,
                      foray_error *err)
{
    int rc = engine_check_input(e, FORAY_CHAT, err);
    if (rc != 0)
        return rc;
    id_list list = { 0 };
    const char *system = e->system_default.len > 0 ? e->system_default.data : NULL;
    return hand_over(&list, chat_encode(e->chat, e->tokenizer, system, messages, n, &list, err), ids, count,
                     err);
}

const char *foray_token_bytes(foray_engine *e, int32_t id, size_t *bytes)
{
    *bytes = 0;
    return e->tokenizer ? tokenizer_bytes(e->tokenizer, id, bytes) : "";
}
