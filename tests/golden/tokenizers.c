/* Every kind of tokenizer gives the ids that the reference library gives, over texts chosen to be awkward.
 *
 * The tokenizers are small ones of each family; texts and ids were made by tools/make_tokenizer_vectors.py.
 */
#include "text/tokenizer.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/mem.h"
#include "support/gguf_write.h"
#include "support/hf_folder.h"

#define VECTORS FORAY_TESTS "/golden/tokenizers/"
#define FOLDER FORAY_BUILD "/golden_tokenizers.folder"

enum { MOST_TOKENS = 2048, FILE_LIMIT = 1 << 24 };

typedef struct {
    char *data;
    size_t bytes;
} text;

static text read_text(const char *name, const char *suffix)
{
    char path[512];
    text t = { 0 };
    foray_error err;
    snprintf(path, sizeof path, VECTORS "%s%s", name, suffix);
    if (file_read(path, FILE_LIMIT, &t.data, &t.bytes, &err) != 0)
        fail_msg("%s", err.text);
    return t;
}

static void free_text(text t)
{
    mem_free(MEM_GENERAL, t.data, t.bytes + 1);
}

static tokenizer *open_tokenizer(const char *path)
{
    foray_error err;
    model_file *f = NULL;
    tokenizer *t = NULL;
    if (model_file_open(path, &f, &err) != 0 || tokenizer_load(f, &t, &err) != 0)
        fail_msg("%s", err.text);
    model_file_close(f);
    return t;
}

static tokenizer *open_json(const char *name)
{
    text json = read_text(name, ".json");
    hf_folder_write(FOLDER, json.data, json.bytes, NULL, NULL);
    free_text(json);
    tokenizer *t = open_tokenizer(FOLDER);
    hf_folder_remove(FOLDER);
    return t;
}

/* Reads one line of ids and moves on to the next. */
static void read_ids(const char **line, id_list *out)
{
    while (**line != '\n') {
        char *end;
        long id = strtol(*line, &end, 10);
        assert_true(end != *line);
        assert_int_equal(id_list_push(out, (int32_t)id), 0);
        *line = *end == ' ' ? end + 1 : end;
    }
    (*line)++;
}

static void assert_case(const tokenizer *t, const char *name, size_t index, const json_t *string,
                        const id_list *want)
{
    id_list got = { 0 };
    foray_error err;
    if (tokenizer_encode(t, json_string_value(string), json_string_length(string), true, false, &got, &err) !=
        0)
        fail_msg("%s", err.text);
    for (size_t i = 0; i < want->count || i < got.count; i++)
        if (i >= want->count || i >= got.count || want->ids[i] != got.ids[i])
            fail_msg("%s: text %zu, place %zu: %d instead of %d (%zu ids, expected %zu)", name, index, i,
                     i < got.count ? got.ids[i] : -1, i < want->count ? want->ids[i] : -1, got.count,
                     want->count);
    id_list_free(&got);
}

/* All texts through t against the ids of that name. */
static void assert_vectors(const tokenizer *t, const char *name)
{
    text cases = read_text("cases", ".json"), ids = read_text(name, ".ids");
    json_t *list = json_loadb(cases.data, cases.bytes, JSON_ALLOW_NUL, NULL);
    assert_true(json_array_size(list) >= 300);
    const char *line = ids.data;
    for (size_t i = 0; i < json_array_size(list); i++) {
        id_list want = { 0 };
        read_ids(&line, &want);
        assert_case(t, name, i, json_array_get(list, i), &want);
        id_list_free(&want);
    }
    assert_true(*line == '\0');
    json_decref(list);
    free_text(cases);
    free_text(ids);
}

static void every_kind_gives_the_ids_of_the_reference(void **state)
{
    (void)state;
    static const char *const names[][2] = {
        { "smollm", "bpe/smollm" },
        { "gpt-2", "bpe/gpt-2" },
        { "llama-bpe", "bpe/llama-bpe" },
        { "qwen2", "bpe/qwen2" },
        { "spm-llama", "spm" },
        { "spm-gemma", "spm" },
        { "deepseek-v3", "bpe/deepseek-v3" },
        { "spm-first", "spm" },
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        tokenizer *t = open_json(names[i][0]);
        assert_string_equal(tokenizer_kind(t), names[i][1]);
        assert_vectors(t, names[i][0]);
        tokenizer_free(t);
    }
}

/* The model that comes with foray: a whole vocabulary of DeepSeek-V4's kind, and its added tokens, which the file
 * does not call special. */
static void the_built_in_model_has_the_ids_of_the_reference(void **state)
{
    (void)state;
    tokenizer *t = open_tokenizer(FORAY_TESTS "/../models/nano");
    assert_string_equal(tokenizer_kind(t), "bpe/deepseek-v3");
    assert_vectors(t, "nano");
    tokenizer_free(t);
}

/* The vocabulary of a tokenizer.json as arrays of a GGUF file. */
typedef struct {
    json_t *root;
    const char *token[MOST_TOKENS];
    int32_t type[MOST_TOKENS];
    float score[MOST_TOKENS];
    char merge[MOST_TOKENS][80];
    const char *merges[MOST_TOKENS];
    size_t count, merge_count;
} arrays;

static void read_arrays(const char *name, arrays *a)
{
    text json = read_text(name, ".json");
    a->root = json_loadb(json.data, json.bytes, 0, NULL);
    free_text(json);
    json_t *model = json_object_get(a->root, "model"), *value;
    const char *key;
    json_object_foreach(json_object_get(model, "vocab"), key, value)
    {
        size_t id = (size_t)json_integer_value(value);
        assert_true(id < MOST_TOKENS);
        a->token[id] = key;
        a->type[id] = strlen(key) == 6 && strncmp(key, "<0x", 3) == 0 ? 6 : 1;
        a->score[id] = -(float)id;
        a->count = id + 1 > a->count ? id + 1 : a->count;
    }
    json_t *added = json_object_get(a->root, "added_tokens");
    for (size_t i = 0; i < json_array_size(added); i++) {
        value = json_array_get(added, i);
        size_t id = (size_t)json_integer_value(json_object_get(value, "id"));
        assert_true(id < MOST_TOKENS);
        a->token[id] = json_string_value(json_object_get(value, "content"));
        a->type[id] = json_is_true(json_object_get(value, "special")) ? 3 : 4;
        a->count = id + 1 > a->count ? id + 1 : a->count;
    }
    json_t *merges = json_object_get(model, "merges");
    a->merge_count = json_array_size(merges);
    for (size_t i = 0; i < a->merge_count && i < MOST_TOKENS; i++) {
        value = json_array_get(merges, i);
        snprintf(a->merge[i], sizeof a->merge[i], "%s %s", json_string_value(json_array_get(value, 0)),
                 json_string_value(json_array_get(value, 1)));
        a->merges[i] = a->merge[i];
    }
}

/* The same tokenizer as GGUF arrays: the same ids. pre == NULL: a SentencePiece one with scores. */
static void assert_gguf_vectors(const char *name, const char *pre, bool prefix)
{
    static arrays a;
    memset(&a, 0, sizeof a);
    read_arrays(name, &a);
    gguf_writer g = { 0 };
    gguf_key_string(&g, "general.architecture", "llama");
    gguf_key_string(&g, "tokenizer.ggml.model", pre != NULL ? "gpt2" : "llama");
    gguf_key_strings(&g, "tokenizer.ggml.tokens", a.token, a.count);
    gguf_key_i32s(&g, "tokenizer.ggml.token_type", a.type, a.count);
    if (pre != NULL) {
        assert_true(a.merge_count <= MOST_TOKENS);
        gguf_key_string(&g, "tokenizer.ggml.pre", pre);
        gguf_key_strings(&g, "tokenizer.ggml.merges", a.merges, a.merge_count);
    } else {
        gguf_key_f32s(&g, "tokenizer.ggml.scores", a.score, a.count);
        gguf_key_bool(&g, "tokenizer.ggml.add_space_prefix", prefix);
    }
    gguf_finish_file(&g, FOLDER ".gguf");
    tokenizer *t = open_tokenizer(FOLDER ".gguf");
    remove(FOLDER ".gguf");
    assert_vectors(t, name);
    tokenizer_free(t);
    json_decref(a.root);
}

static void the_same_tokenizer_as_gguf_gives_the_same_ids(void **state)
{
    (void)state;
    assert_gguf_vectors("smollm", "smollm", false);
    assert_gguf_vectors("gpt-2", "gpt-2", false);
    assert_gguf_vectors("llama-bpe", "llama-bpe", false);
    assert_gguf_vectors("qwen2", "qwen2", false);
    assert_gguf_vectors("deepseek-v3", "joyai-llm", false);
    assert_gguf_vectors("spm-llama", NULL, true);
    assert_gguf_vectors("spm-gemma", NULL, false);
}

static void the_post_processor_says_whether_a_text_begins_with_a_token(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int32_t begin;
    } rows[] = { { "llama-bpe", 600 }, { "spm-llama", 1 }, { "gpt-2", -1 } };
    for (size_t i = 0; i < 3; i++) {
        tokenizer *t = open_json(rows[i].name);
        assert_int_equal(tokenizer_begin_id(t), rows[i].begin);
        id_list l = { 0 };
        assert_int_equal(tokenizer_encode(t, "<s>x", 4, true, true, &l, NULL), 0);
        assert_int_equal(l.ids[0], tokenizer_find(t, "<s>"));
        assert_true(l.ids[1] != l.ids[0]);
        id_list_free(&l);
        tokenizer_free(t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_gives_the_ids_of_the_reference),
        cmocka_unit_test(the_built_in_model_has_the_ids_of_the_reference),
        cmocka_unit_test(the_same_tokenizer_as_gguf_gives_the_same_ids),
        cmocka_unit_test(the_post_processor_says_whether_a_text_begins_with_a_token),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
