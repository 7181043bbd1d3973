/* from_gguf.c: a tokenizer from the arrays of a GGUF file (tokenizer.ggml.*).
 *
 * Model "gpt2" is byte-level BPE with merges and a named pre-tokenizer; "llama" is SentencePiece-style BPE with
 * scores. Every array is checked against the others before use. Threads: one.
 */
#include <string.h>

#include "base/mem.h"
#include "text/tokenizer_impl.h"

#define KEY(name) "tokenizer.ggml." name

static int read_tokens(tokenizer *t, const model_file *f, foray_error *err)
{
    const char *path = model_file_path(f);
    size_t count = 0, types = 0;
    if (!model_file_array(f, KEY("tokens"), &count) || count == 0)
        return fail(err, FORAY_EFILE, "%s: %s is missing: the file has no tokenizer", path, KEY("tokens"));
    bool typed = model_file_array(f, KEY("token_type"), &types);
    if (typed && types != count)
        return fail(err, FORAY_EFILE, "%s: %s has %zu entries, but there are %zu tokens", path,
                    KEY("token_type"), types, count);
    for (size_t i = 0; i < count; i++) {
        const char *spelling = NULL;
        size_t bytes = 0;
        int64_t type = TOKEN_NORMAL;
        if (!model_file_array_string(f, KEY("tokens"), i, &spelling, &bytes))
            return fail(err, FORAY_EFILE, "%s: %s[%zu] is not a string", path, KEY("tokens"), i);
        if (typed && !model_file_array_int(f, KEY("token_type"), i, &type))
            return fail(err, FORAY_EFILE, "%s: %s[%zu] is not a number", path, KEY("token_type"), i);
        if (type < TOKEN_NORMAL || type > TOKEN_BYTE)
            return fail(err, FORAY_EFILE, "%s: %s[%zu] is %lld; types go from 1 to 6", path,
                        KEY("token_type"), i, (long long)type);
        int rc = vocab_set(&t->v, (int64_t)i, spelling, bytes, (token_type)type, 0, err);
        if (rc != 0)
            return rc;
    }
    return vocab_index(&t->v, err);
}

static int read_merges(tokenizer *t, const model_file *f, foray_error *err)
{
    const char *path = model_file_path(f);
    size_t count = 0, n = 0;
    vocab_pair pair[VOCAB_BATCH]; /* points into the file */
    if (!model_file_array(f, KEY("merges"), &count))
        return fail(err, FORAY_EFILE, "%s: %s is missing", path, KEY("merges"));
    int rc = vocab_reserve_merges(&t->v, count, err);
    for (size_t i = 0; i < count && rc == 0; i++) {
        const char *text = NULL;
        size_t bytes = 0;
        if (!model_file_array_string(f, KEY("merges"), i, &text, &bytes))
            return fail(err, FORAY_EFILE, "%s: %s[%zu] is not a string", path, KEY("merges"), i);
        const char *space = bytes > 2 ? memchr(text + 1, ' ', bytes - 2) : NULL;
        if (space == NULL)
            return fail(err, FORAY_EFILE,
                        "%s: %s[%zu], \"%.*s\", is not two tokens with a space between them", path,
                        KEY("merges"), i, bytes < 60 ? (int)bytes : 60, text);
        size_t left = (size_t)(space - text);
        pair[n++] = (vocab_pair) { text, space + 1, left, bytes - left - 1 };
        if (n == VOCAB_BATCH || i + 1 == count) {
            rc = vocab_add_merges(&t->v, (uint32_t)(i + 1 - n), pair, n, err);
            n = 0;
        }
    }
    return rc;
}

static int read_scores(tokenizer *t, const model_file *f, foray_error *err)
{
    const char *path = model_file_path(f);
    size_t count = 0;
    if (!model_file_array(f, KEY("scores"), &count) || count != t->v.count)
        return fail(err, FORAY_EFILE, "%s: %s has %zu entries, but there are %zu tokens", path, KEY("scores"),
                    count, t->v.count);
    float *score = mem_alloc(MEM_TEXT, count * sizeof *score);
    if (score == NULL)
        return fail(err, FORAY_ENOMEM, "%s: tokenizer: out of memory", path);
    int rc = 0;
    for (size_t i = 0; i < count && rc == 0; i++) {
        double value = 0;
        if (!model_file_array_float(f, KEY("scores"), i, &value) || value != value)
            rc = fail(err, FORAY_EFILE, "%s: %s[%zu] is not a number", path, KEY("scores"), i);
        score[i] = (float)value;
    }
    if (rc == 0)
        vocab_set_scores(&t->v, score);
    mem_free(MEM_TEXT, score, count * sizeof *score);
    return rc;
}

/* Reads an id; leaves *out alone where the key is absent. */
static int read_id(const tokenizer *t, const model_file *f, const char *key, int32_t *out, foray_error *err)
{
    int64_t id;
    if (!model_file_int(f, key, &id))
        return 0;
    if (id < 0 || (size_t)id >= t->v.count)
        return fail(err, FORAY_EFILE, "%s: %s is %lld, but there are %zu tokens", model_file_path(f), key,
                    (long long)id, t->v.count);
    *out = (int32_t)id;
    return 0;
}

static int read_ends(tokenizer *t, const model_file *f, foray_error *err)
{
    static const char *const keys[] = { KEY("eos_token_id"), KEY("eot_token_id"), KEY("eom_token_id") };
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        int32_t id = -1;
        int rc = read_id(t, f, keys[i], &id, err);
        if (rc == 0 && id >= 0)
            rc = tokenizer_add_end(t, id, err);
        if (rc != 0)
            return rc;
    }
    return 0;
}

static int read_byte_level(tokenizer *t, const model_file *f, foray_error *err)
{
    const char *path = model_file_path(f), *pre = NULL;
    size_t bytes = 0;
    bool prefix = false;
    if (!model_file_string(f, KEY("pre"), &pre, &bytes))
        return fail(err, FORAY_EUNSUPPORTED,
                    "%s: %s is missing, so the pre-tokenizer is not known (known: %s)", path, KEY("pre"),
                    splitter_names());
    if (model_file_bool(f, KEY("add_space_prefix"), &prefix) && prefix)
        return fail(err, FORAY_EUNSUPPORTED, "%s: %s is true; byte-level tokenizers are read without", path,
                    KEY("add_space_prefix"));
    int rc = splitter_open(pre, bytes, path, &t->split, err);
    if (rc != 0)
        return rc;
    t->alphabet = VOCAB_BYTE_LEVEL;
    t->mode = BPE_BYTES;
    t->whole_words = t->add_begin = strcmp(t->split.name, "llama-bpe") == 0;
    t->nfc = strcmp(t->split.name, "qwen2") == 0;
    return read_merges(t, f, err);
}

static int read_sentencepiece(tokenizer *t, const model_file *f, foray_error *err)
{
    bool prefix = true;
    (void)model_file_bool(f, KEY("add_space_prefix"), &prefix);
    t->prefix = prefix ? PREFIX_EVERY : PREFIX_NONE;
    t->alphabet = VOCAB_SENTENCEPIECE;
    t->mode = BPE_CHARACTERS_SCORE;
    t->add_begin = true;
    return read_scores(t, f, err);
}

int tokenizer_fill_from_gguf(tokenizer *t, const model_file *f, foray_error *err)
{
    const char *path = model_file_path(f), *model = NULL;
    size_t bytes = 0;
    if (!model_file_string(f, KEY("model"), &model, &bytes))
        return fail(err, FORAY_EFILE, "%s: %s is missing: the file has no tokenizer", path, KEY("model"));
    bool byte_level = bytes == 4 && memcmp(model, "gpt2", 4) == 0;
    if (!byte_level && !(bytes == 5 && memcmp(model, "llama", 5) == 0))
        return fail(err, FORAY_EUNSUPPORTED,
                    "%s: the tokenizer model \"%.*s\" is not known (known: gpt2, llama)", path,
                    bytes < 60 ? (int)bytes : 60, model);
    int rc = read_tokens(t, f, err);
    if (rc == 0)
        rc = byte_level ? read_byte_level(t, f, err) : read_sentencepiece(t, f, err);
    if (rc == 0)
        rc = read_id(t, f, KEY("bos_token_id"), &t->begin_id, err);
    if (rc == 0)
        (void)model_file_bool(f, KEY("add_bos_token"), &t->add_begin);
    return rc == 0 ? read_ends(t, f, err) : rc;
}
