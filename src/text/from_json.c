/* from_json.c: a tokenizer from the tokenizer.json of a Hugging Face folder, with the begin and end tokens that
 * the folder's other files name.
 *
 * The file is read once, as a stream, since vocabulary and merges are megabytes; only the merges are returned to
 * when all tokens are known, wherever they stand. Model "BPE" alone is read, byte-level or with byte fallback.
 * Threads: one.
 */
#include <stdio.h>
#include <string.h>

#include "base/json_reader.h"
#include "text/json_parts.h"

enum { DEPTH = 64, SPELLING = 4096 };

typedef struct {
    tokenizer *t;
    foray_error *err;
    json_reader r;
    uint8_t stack[DEPTH];
    json_reader merges; /* r as it stood in front of the merges */
    uint8_t merges_stack[DEPTH];
    bool has_merges, has_vocab, byte_fallback;
    char unknown[128]; /* the spelling of the unknown token; "": none */
    bool fuse_unknown;
    struct {
        size_t at, bytes; /* in the file; bytes 0: absent */
    } normalizer, pre_tokenizer, post_processor, decoder;
    char spelling[SPELLING];
} loader;

/* The last token as text. */
static bool take_text(json_reader *r, char *out, size_t room, size_t *bytes)
{
    if (r->bytes > room)
        return json_reader_reject(r, "a token of %zu bytes; at most %zu are read", r->bytes, room);
    *bytes = json_reader_unescape(r, out);
    return true;
}

static bool take_flag(json_reader *r, bool *out)
{
    json_kind kind = json_reader_next(r);
    if (kind != JR_TRUE && kind != JR_FALSE)
        return json_reader_reject(r, "true or false is expected here");
    *out = kind == JR_TRUE;
    return true;
}

/* Outcome of a step: what the reader says went wrong, else the step's own code. */
static int outcome(loader *l, int rc)
{
    return rc != 0 ? rc : json_reader_error(&l->r, l->err);
}

/* A token of the vocabulary; what an added token has said about the same id stands. */
static int set_normal(loader *l, int64_t id, size_t bytes)
{
    vocab *v = &l->t->v;
    token_type type = TOKEN_NORMAL;
    unsigned flags = 0;
    if (id >= 0 && (size_t)id < v->count && v->token[id].type != TOKEN_HOLE) {
        type = v->token[id].type;
        flags = v->token[id].flags;
    } else if (l->byte_fallback && bytes > 3 && memcmp(l->spelling, "<0x", 3) == 0 &&
               l->spelling[bytes - 1] == '>') {
        type = TOKEN_BYTE;
    }
    return vocab_set(v, id, l->spelling, bytes, type, flags, l->err);
}

static int read_vocab(loader *l)
{
    json_reader *r = &l->r;
    if (!json_reader_expect(r, JR_OBJECT))
        return outcome(l, 0);
    while (json_reader_next(r) == JR_KEY) {
        size_t bytes = 0;
        if (!take_text(r, l->spelling, SPELLING, &bytes) || !json_reader_expect(r, JR_NUMBER))
            break;
        if (!r->whole) {
            json_reader_reject(r, "a token's id is a whole number");
            break;
        }
        int rc = set_normal(l, r->integer, bytes);
        if (rc != 0)
            return rc;
    }
    l->has_vocab = true;
    return outcome(l, 0);
}

static int read_added_token(loader *l)
{
    json_reader *r = &l->r;
    size_t bytes = 0;
    int64_t id = -1;
    bool single_word = false, left = false, right = false, special = false, ignored = false, good = true;
    while (good && json_reader_next(r) == JR_KEY) {
        if (json_reader_is(r, "id")) {
            good = json_reader_expect(r, JR_NUMBER);
            id = r->whole ? r->integer : -1;
        } else if (json_reader_is(r, "content")) {
            good = json_reader_expect(r, JR_STRING) && take_text(r, l->spelling, SPELLING, &bytes);
        } else if (json_reader_is(r, "single_word")) {
            good = take_flag(r, &single_word);
        } else if (json_reader_is(r, "lstrip")) {
            good = take_flag(r, &left);
        } else if (json_reader_is(r, "rstrip")) {
            good = take_flag(r, &right);
        } else if (json_reader_is(r, "special")) {
            good = take_flag(r, &special);
        } else if (json_reader_is(r, "normalized")) {
            good = take_flag(r, &ignored); /* markers are looked for in the text as it is */
        } else {
            good = json_reader_reject(r, "a field of added tokens that is not known");
        }
    }
    int rc = outcome(l, 0);
    if (rc != 0)
        return rc;
    if (single_word)
        return fail(l->err, FORAY_EUNSUPPORTED, "%s: added token \"%.*s\": single_word is not known to foray",
                    r->name, bytes < 40 ? (int)bytes : 40, l->spelling);
    unsigned flags = (left ? TOKEN_EATS_LEFT : 0u) | (right ? TOKEN_EATS_RIGHT : 0u);
    return vocab_set(&l->t->v, id, l->spelling, bytes, special ? TOKEN_CONTROL : TOKEN_USER, flags, l->err);
}

static int read_added_tokens(loader *l)
{
    json_reader *r = &l->r;
    if (!json_reader_expect(r, JR_ARRAY))
        return outcome(l, 0);
    while (json_reader_next(r) == JR_OBJECT) {
        int rc = read_added_token(l);
        if (rc != 0)
            return rc;
    }
    if (r->kind != JR_ARRAY_END)
        json_reader_reject(r, "an added token is an object");
    return outcome(l, 0);
}

/* A field of the model that must be null, false, 0 or "" because foray does without. */
static int read_must_be_off(loader *l, const char *key)
{
    json_reader *r = &l->r;
    json_kind kind = json_reader_next(r);
    if (kind == JR_ERROR || kind == JR_NULL || kind == JR_FALSE || (kind == JR_STRING && r->bytes == 0) ||
        (kind == JR_NUMBER && r->number == 0))
        return outcome(l, 0);
    return fail(l->err, FORAY_EUNSUPPORTED, "%s: model: \"%s\" is set, which is not known to foray", r->name,
                key);
}

static int read_model_type(loader *l)
{
    json_reader *r = &l->r;
    if (json_reader_expect(r, JR_STRING) && !json_reader_is(r, "BPE"))
        return fail(l->err, FORAY_EUNSUPPORTED,
                    "%s: a tokenizer model of type \"%.*s\" is not known (known: BPE)", r->name,
                    r->bytes < 40 ? (int)r->bytes : 40, r->text);
    return outcome(l, 0);
}

static int read_unknown(loader *l)
{
    json_reader *r = &l->r;
    if (json_reader_next(r) == JR_STRING) {
        size_t bytes = 0;
        if (take_text(r, l->unknown, sizeof l->unknown - 1, &bytes))
            l->unknown[bytes] = '\0';
    } else if (r->kind != JR_NULL) {
        json_reader_reject(r, "a token or null is expected here");
    }
    return outcome(l, 0);
}

static int read_model(loader *l)
{
    json_reader *r = &l->r;
    int rc = 0;
    if (!json_reader_expect(r, JR_OBJECT))
        return outcome(l, 0);
    while (rc == 0 && json_reader_next(r) == JR_KEY) {
        if (json_reader_is(r, "type")) {
            rc = read_model_type(l);
        } else if (json_reader_is(r, "byte_fallback")) {
            take_flag(r, &l->byte_fallback);
        } else if (json_reader_is(r, "ignore_merges")) {
            take_flag(r, &l->t->whole_words);
        } else if (json_reader_is(r, "unk_token")) {
            rc = read_unknown(l);
        } else if (json_reader_is(r, "fuse_unk")) {
            take_flag(r, &l->fuse_unknown);
        } else if (json_reader_is(r, "vocab")) {
            rc = read_vocab(l);
        } else if (json_reader_is(r, "merges")) {
            l->has_merges = true;
            l->merges = *r;
            memcpy(l->merges_stack, l->stack, sizeof l->stack);
            l->merges.stack = l->merges_stack;
            json_reader_skip(r);
        } else if (json_reader_is(r, "dropout")) {
            rc = read_must_be_off(l, "dropout");
        } else if (json_reader_is(r, "continuing_subword_prefix")) {
            rc = read_must_be_off(l, "continuing_subword_prefix");
        } else if (json_reader_is(r, "end_of_word_suffix")) {
            rc = read_must_be_off(l, "end_of_word_suffix");
        } else {
            return fail(l->err, FORAY_EUNSUPPORTED, "%s: model: \"%.*s\" is not known to foray", r->name,
                        r->bytes < 40 ? (int)r->bytes : 40, r->text);
        }
    }
    return outcome(l, rc);
}

/* Remembers where the value that follows stands. */
static void note_section(json_reader *r, size_t *at, size_t *bytes)
{
    json_reader_next(r);
    *at = r->offset;
    json_reader_skip(r);
    *bytes = r->at - *at;
}

static int read_file(loader *l)
{
    json_reader *r = &l->r;
    int rc = 0;
    if (!json_reader_expect(r, JR_OBJECT))
        return outcome(l, 0);
    while (rc == 0 && json_reader_next(r) == JR_KEY) {
        if (json_reader_is(r, "added_tokens"))
            rc = read_added_tokens(l);
        else if (json_reader_is(r, "model"))
            rc = read_model(l);
        else if (json_reader_is(r, "normalizer"))
            note_section(r, &l->normalizer.at, &l->normalizer.bytes);
        else if (json_reader_is(r, "pre_tokenizer"))
            note_section(r, &l->pre_tokenizer.at, &l->pre_tokenizer.bytes);
        else if (json_reader_is(r, "post_processor"))
            note_section(r, &l->post_processor.at, &l->post_processor.bytes);
        else if (json_reader_is(r, "decoder"))
            note_section(r, &l->decoder.at, &l->decoder.bytes);
        else
            json_reader_skip(r); /* version, truncation, padding: not about ids */
    }
    if (rc == 0 && r->kind == JR_OBJECT_END)
        json_reader_expect(r, JR_END);
    rc = outcome(l, rc);
    if (rc == 0 && (!l->has_vocab || !l->has_merges))
        return fail(l->err, FORAY_EFILE, "%s: the model has no %s", r->name,
                    l->has_vocab ? "merges" : "vocab");
    return rc;
}

/* Merges on their way into the vocabulary. Their text stands in the file, or, where it has escapes, in copy. */
typedef struct {
    vocab_pair pair[VOCAB_BATCH];
    size_t count;
    uint32_t rank; /* of pair[0] */
    char copy[4 * SPELLING];
    size_t copied;
} batch;

static int flush(loader *l, batch *b)
{
    int rc = vocab_add_merges(&l->t->v, b->rank, b->pair, b->count, l->err);
    b->rank += (uint32_t)b->count;
    b->count = b->copied = 0;
    return rc;
}

/* The last token's text, which stays until the next flush. */
static const char *keep_text(json_reader *r, batch *b, size_t *bytes)
{
    if (r->bytes > SPELLING) {
        json_reader_reject(r, "a token of %zu bytes; at most %d are read", r->bytes, SPELLING);
        return NULL;
    }
    if (!r->escaped) {
        *bytes = r->bytes;
        return r->text;
    }
    char *text = b->copy + b->copied;
    *bytes = json_reader_unescape(r, text);
    b->copied += *bytes;
    return text;
}

/* One merge: "a b" or ["a", "b"]; false: the reader says what is wrong. */
static bool read_merge(json_reader *r, batch *b)
{
    vocab_pair *p = &b->pair[b->count];
    if (r->kind == JR_ARRAY) {
        bool good = json_reader_expect(r, JR_STRING) && (p->left = keep_text(r, b, &p->left_bytes)) != NULL &&
                    json_reader_expect(r, JR_STRING) &&
                    (p->right = keep_text(r, b, &p->right_bytes)) != NULL &&
                    json_reader_expect(r, JR_ARRAY_END);
        b->count += good;
        return good;
    }
    if (r->kind != JR_STRING)
        return json_reader_reject(r, "a merge is a string or a pair of strings");
    size_t bytes = 0;
    const char *text = keep_text(r, b, &bytes), *space = text != NULL ? memchr(text, ' ', bytes) : NULL;
    if (space == NULL)
        return json_reader_reject(r, "a merge is two tokens with a space between them");
    p->left = text;
    p->left_bytes = (size_t)(space - text);
    p->right = space + 1;
    p->right_bytes = bytes - p->left_bytes - 1;
    b->count++;
    return true;
}

static int read_merges(loader *l)
{
    json_reader *r = &l->merges;
    batch b = { .count = 0 };
    int rc = vocab_reserve_merges(&l->t->v, l->t->v.count, l->err);
    if (rc != 0 || !json_reader_expect(r, JR_ARRAY))
        return rc != 0 ? rc : json_reader_error(r, l->err);
    while (json_reader_next(r) != JR_ARRAY_END) {
        if (r->kind == JR_ERROR || !read_merge(r, &b))
            return json_reader_error(r, l->err);
        bool full = b.count == VOCAB_BATCH || b.copied > sizeof b.copy - 2 * SPELLING;
        if (full && (rc = flush(l, &b)) != 0)
            return rc;
    }
    return flush(l, &b);
}

/* Turns what the sections say into the tokenizer's settings. */
static int apply_parts(loader *l, const json_parts *p)
{
    tokenizer *t = l->t;
    t->nfc = p->nfc;
    if (p->byte_level) {
        const char *name = splitter_recognise((const char *const *)p->expression, p->expressions);
        if (name == NULL)
            return fail(l->err, FORAY_EUNSUPPORTED,
                        "%s: the pre-tokenizer is not known: \"%.80s\" … (known: %s)", p->where,
                        p->expressions != 0 ? p->expression[0] : "no pattern", splitter_names());
        if (l->byte_fallback || p->escapes_spaces || p->prefix != PREFIX_NONE || p->fallback_decoder)
            return fail(l->err, FORAY_EUNSUPPORTED,
                        "%s: a byte-level tokenizer with parts of a SentencePiece one", p->where);
        t->alphabet = VOCAB_BYTE_LEVEL;
        t->mode = BPE_BYTES;
        return splitter_open(name, strlen(name), p->where, &t->split, l->err);
    }
    if (!l->byte_fallback || !p->escapes_spaces || p->expressions != 0 || p->nfc || p->byte_level_decoder)
        return fail(l->err, FORAY_EUNSUPPORTED,
                    "%s: neither a byte-level tokenizer nor a SentencePiece one with byte fallback",
                    p->where);
    t->alphabet = VOCAB_SENTENCEPIECE;
    t->mode = BPE_CHARACTERS_RANK;
    t->prefix = p->prefix;
    t->prefix_unless_space = p->metaspace;
    return 0;
}

static int read_sections(loader *l, json_parts *p)
{
    const char *data = l->r.data;
    int rc = 0;
    if (l->normalizer.bytes != 0)
        rc = json_parts_normalizer(p, data + l->normalizer.at, l->normalizer.bytes, l->err);
    if (rc == 0 && l->pre_tokenizer.bytes != 0)
        rc = json_parts_pre_tokenizer(p, data + l->pre_tokenizer.at, l->pre_tokenizer.bytes, l->err);
    if (rc == 0 && l->post_processor.bytes != 0)
        rc = json_parts_post_processor(p, data + l->post_processor.at, l->post_processor.bytes, l->err);
    if (rc == 0 && l->decoder.bytes != 0)
        rc = json_parts_decoder(p, data + l->decoder.at, l->decoder.bytes, l->err);
    return rc == 0 ? apply_parts(l, p) : rc;
}

/* ---- begin, end, unknown ----------------------------------------------------------------------- */

/* A special token of tokenizer_config.json: a string, or an object with its content. -1: none. */
static int32_t find_named(const tokenizer *t, const model_file *f, const char *key, const char *content_key)
{
    const char *text = NULL;
    size_t bytes = 0;
    if (model_file_string(f, key, &text, &bytes) || model_file_string(f, content_key, &text, &bytes))
        return vocab_find(&t->v, text, bytes);
    return -1;
}

static int read_begin(loader *l, const model_file *f, const json_parts *p)
{
    tokenizer *t = l->t;
    t->begin_id = find_named(t, f, "tokenizer.bos_token", "tokenizer.bos_token.content");
    if (p->begin[0] != '\0') {
        t->begin_id = vocab_find(&t->v, p->begin, strlen(p->begin));
        if (t->begin_id < 0)
            return fail(l->err, FORAY_EFILE, "%s: post_processor: \"%s\" is not a token", p->where, p->begin);
        t->add_begin = true;
    }
    (void)model_file_bool(f, "tokenizer.add_bos_token", &t->add_begin);
    return 0;
}

static int read_ends(loader *l, const model_file *f)
{
    static const char key[] = "generation.eos_token_id";
    int64_t id = -1;
    size_t count = 0;
    bool one = model_file_int(f, key, &id);
    if (!one)
        (void)model_file_array(f, key, &count);
    for (size_t i = 0; i < count + one; i++) {
        if ((!one && !model_file_array_int(f, key, i, &id)) || id < 0 || id >= VOCAB_LIMIT)
            return fail(l->err, FORAY_EFILE,
                        "%s: generation_config.json: eos_token_id holds something that is no token id",
                        model_file_path(f));
        int rc = tokenizer_add_end(l->t, (int32_t)id, l->err);
        if (rc != 0)
            return rc;
    }
    int32_t named = find_named(l->t, f, "tokenizer.eos_token", "tokenizer.eos_token.content");
    return named >= 0 ? tokenizer_add_end(l->t, named, l->err) : 0;
}

static int read_unknown_id(loader *l)
{
    tokenizer *t = l->t;
    if (l->unknown[0] == '\0' || t->alphabet != VOCAB_BYTE_LEVEL)
        return 0;
    t->unknown_id = vocab_find(&t->v, l->unknown, strlen(l->unknown));
    if (t->unknown_id < 0)
        return fail(l->err, FORAY_EFILE, "%s: unk_token \"%.40s\" is not a token", l->r.name, l->unknown);
    if (l->fuse_unknown)
        return fail(l->err, FORAY_EUNSUPPORTED,
                    "%s: fuse_unk in a byte-level tokenizer is not known to foray", l->r.name);
    return 0;
}

int tokenizer_fill_from_json(tokenizer *t, const model_file *f, foray_error *err)
{
    size_t bytes = 0;
    const char *json = model_file_tokenizer_json(f, &bytes);
    if (json == NULL)
        return fail(err, FORAY_EFILE, "%s: there is no tokenizer.json", model_file_path(f));
    char where[300];
    snprintf(where, sizeof where, "%.280s/tokenizer.json", model_file_path(f));
    loader l = { .t = t, .err = err };
    json_parts parts = { .where = where };
    json_reader_init(&l.r, where, json, bytes, l.stack, DEPTH);
    t->v.source = where;
    int rc = read_file(&l);
    if (rc == 0)
        rc = read_sections(&l, &parts);
    if (rc == 0)
        rc = vocab_index(&t->v, err);
    if (rc == 0)
        rc = read_merges(&l);
    if (rc == 0)
        rc = read_begin(&l, f, &parts);
    if (rc == 0)
        rc = read_ends(&l, f);
    if (rc == 0)
        rc = read_unknown_id(&l);
    json_parts_free(&parts);
    t->v.source = model_file_path(f);
    return rc;
}
