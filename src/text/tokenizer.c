/* tokenizer.c: the tokenizer object: loading, the entry to encoding, and what callers ask about tokens.
 *
 * The two file forms are read by from_gguf.c and from_json.c; encoding is encode.c. Threads: any, once loaded.
 */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "text/tokenizer_impl.h"

int id_list_push(id_list *l, int32_t id)
{
    if (l->count == l->cap) {
        size_t cap = l->cap != 0 ? l->cap * 2 : 64;
        int32_t *ids = mem_resize(MEM_TEXT, l->ids, l->cap * sizeof *ids, cap * sizeof *ids);
        if (ids == NULL)
            return FORAY_ENOMEM;
        l->ids = ids;
        l->cap = cap;
    }
    l->ids[l->count++] = id;
    return 0;
}

void id_list_free(id_list *l)
{
    mem_free(MEM_TEXT, l->ids, l->cap * sizeof *l->ids);
    *l = (id_list) { 0 };
}

/* ---- loading --------------------------------------------------------------------------------- */

int tokenizer_add_end(tokenizer *t, int32_t id, foray_error *err)
{
    for (size_t i = 0; i < t->end_count; i++)
        if (t->end[i] == id)
            return 0;
    id_list l = { t->end, t->end_count, t->end_cap };
    if (id_list_push(&l, id) != 0)
        return fail(err, FORAY_ENOMEM, "tokenizer: out of memory");
    t->end = l.ids;
    t->end_count = l.count;
    t->end_cap = l.cap;
    return 0;
}

static bool contains(const char *text, size_t bytes, const char *word, size_t word_bytes)
{
    return text != NULL && word_bytes != 0 && memmem(text, bytes, word, word_bytes) != NULL;
}

static bool is_blank(const char *text, size_t bytes)
{
    return strspn(text, " \t\r\n") >= bytes;
}

/* Shaped like a marker: <|…|>, with full-width bars <｜User｜> and ｜DSML｜, or a tag around reasoning, which models
 * without a chat template have too. */
static bool is_shaped_as_marker(const char *s, size_t n)
{
    static const char wide[] = "\xef\xbd\x9c";
    if (n > 6 && memcmp(s, wide, 3) == 0)
        return true;
    if (n > 2 && s[0] == '<' && (s[1] == '|' || (n > 4 && memcmp(s + 1, wide, 3) == 0)))
        return true;
    return (n == 7 && memcmp(s, "<think>", n) == 0) || (n == 8 && memcmp(s, "</think>", n) == 0);
}

/* A token that was added by hand is a marker when it is shaped like one or when the chat template writes it; others,
 * such as Gemma's line breaks and HTML tags, are text. */
static void find_markers(vocab *v, const char *template_text, size_t template_bytes)
{
    for (size_t i = 0; i < v->count; i++) {
        vocab_token *token = &v->token[i];
        if (token->type != TOKEN_USER)
            continue;
        const char *s = vocab_spelling(v, (int32_t)i);
        size_t n = token->spelling_bytes;
        char head[64] = { 0 };
        memcpy(head, s, n < sizeof head ? n : sizeof head - 1);
        if (is_shaped_as_marker(s, n) ||
            (!is_blank(head, n) && contains(template_text, template_bytes, s, n)))
            token->flags |= TOKEN_MARKER;
    }
}

/* Markers that end a text in any model, and those that end a turn where the template writes them. */
static int add_known_ends(tokenizer *t, const char *template_text, size_t template_bytes, foray_error *err)
{
    static const char *const always[] = { "<|endoftext|>", "<|end_of_text|>", "<｜end▁of▁sentence｜>" };
    static const char *const turns[] = { "<|im_end|>",    "<|eot_id|>", "<|eom_id|>",
                                         "<end_of_turn>", "<|end|>",    "</s>" };
    enum { ALWAYS = sizeof always / sizeof always[0], TURNS = sizeof turns / sizeof turns[0] };
    for (int i = 0; i < ALWAYS + TURNS; i++) {
        const char *word = i < ALWAYS ? always[i] : turns[i - ALWAYS];
        int32_t id = vocab_find(&t->v, word, strlen(word));
        if (id < 0 || !(t->v.token[id].flags & TOKEN_MARKER))
            continue;
        if (i >= ALWAYS && !contains(template_text, template_bytes, word, strlen(word)))
            continue;
        int rc = tokenizer_add_end(t, id, err);
        if (rc != 0)
            return rc;
    }
    return 0;
}

static int fill(tokenizer *t, const model_file *f, foray_error *err)
{
    bool gguf = model_file_get_kind(f) == MODEL_FILE_GGUF;
    int rc = gguf ? tokenizer_fill_from_gguf(t, f, err) : tokenizer_fill_from_json(t, f, err);
    if (rc != 0)
        return rc;
    const char *text = NULL;
    size_t bytes = 0;
    (void)model_file_string(f, "tokenizer.chat_template", &text, &bytes);
    find_markers(&t->v, text, bytes);
    rc = vocab_finish(&t->v, t->alphabet, err);
    for (int b = 0; b < 256 && rc == 0; b++)
        if (t->v.byte_id[b] < 0)
            t->v.byte_id[b] = t->unknown_id;
    if (rc == 0)
        rc = add_known_ends(t, text, bytes, err);
    if (t->alphabet == VOCAB_BYTE_LEVEL)
        snprintf(t->kind, sizeof t->kind, "bpe/%s", t->split.name);
    else
        snprintf(t->kind, sizeof t->kind, "spm");
    return rc;
}

int tokenizer_load(const model_file *f, tokenizer **out, foray_error *err)
{
    tokenizer *t = mem_alloc_zeroed(MEM_TEXT, sizeof *t);
    if (t == NULL)
        return fail(err, FORAY_ENOMEM, "%s: tokenizer: out of memory", model_file_path(f));
    vocab_init(&t->v, model_file_path(f));
    t->begin_id = t->unknown_id = -1;
    int rc = fill(t, f, err);
    if (rc != 0) {
        tokenizer_free(t);
        return rc;
    }
    *out = t;
    return 0;
}

void tokenizer_free(tokenizer *t)
{
    if (t == NULL)
        return;
    vocab_free(&t->v);
    splitter_close(&t->split);
    mem_free(MEM_TEXT, t->end, t->end_cap * sizeof *t->end);
    mem_free(MEM_TEXT, t, sizeof *t);
}

/* ---- encoding -------------------------------------------------------------------------------- */

int tokenizer_encode(const tokenizer *t, const char *text, size_t bytes, bool special, bool begin,
                     id_list *out, foray_error *err)
{
    size_t before = out->count;
    bool add = begin && t->add_begin && t->begin_id >= 0;
    encoder e;
    int rc = encoder_open(&e, t, out, err);
    if (rc != 0)
        return rc;
    if (add && id_list_push(out, t->begin_id) != 0)
        rc = fail(err, FORAY_ENOMEM, "tokenizer: out of memory");
    if (rc == 0)
        rc = encoder_text(&e, text, bytes, special);
    if (rc == 0)
        rc = encoder_finish(&e);
    encoder_close(&e);
    if (rc != 0) {
        out->count = before;
        return rc;
    }
    if (add && out->count > before + 1 && out->ids[before + 1] == t->begin_id) {
        out->count--; /* the text brought its own */
        memmove(out->ids + before, out->ids + before + 1, (out->count - before) * sizeof *out->ids);
    }
    return 0;
}

/* ---- questions ------------------------------------------------------------------------------- */

int tokenizer_vocab(const tokenizer *t)
{
    return (int)t->v.count;
}

static bool is_id(const tokenizer *t, int32_t id)
{
    return id >= 0 && (size_t)id < t->v.count;
}

const char *tokenizer_bytes(const tokenizer *t, int32_t id, size_t *bytes)
{
    *bytes = is_id(t, id) ? t->v.token[id].byte_count : 0;
    return *bytes != 0 ? t->v.pool + t->v.token[id].bytes : "";
}

const char *tokenizer_spelling(const tokenizer *t, int32_t id, size_t *bytes)
{
    *bytes = is_id(t, id) ? t->v.token[id].spelling_bytes : 0;
    return *bytes != 0 ? vocab_spelling(&t->v, id) : "";
}

bool tokenizer_is_control(const tokenizer *t, int32_t id)
{
    return is_id(t, id) && (t->v.token[id].type == TOKEN_CONTROL || t->v.token[id].type == TOKEN_UNKNOWN);
}

int32_t tokenizer_find(const tokenizer *t, const char *spelling)
{
    return vocab_find(&t->v, spelling, strlen(spelling));
}

int32_t tokenizer_begin_id(const tokenizer *t)
{
    return t->begin_id;
}

const int32_t *tokenizer_end_ids(const tokenizer *t, size_t *count)
{
    *count = t->end_count;
    return t->end;
}

const char *tokenizer_kind(const tokenizer *t)
{
    return t->kind;
}
