/* Tokenizers read from tokenizer.json: settings that change ids, and files that are refused by name. That whole
 * vocabularies agree with the reference is the business of golden/tokenizers.
 */
#include "text/tokenizer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "support/hf_folder.h"
#include "text/vocab.h"

#define FOLDER FORAY_BUILD "/unit_tokenizer_json.folder"

enum { BYTES = 256, A = 'a', SPACE = ' ' };

/* The pieces of a byte-level file; NULL takes the usual one. */
typedef struct {
    const char *normalizer, *pre, *post, *decoder, *added, *merges, *more_vocab, *more_model, *type;
    const char *config, *generation;
} pieces;

static const char *or_usual(const char *piece, const char *usual)
{
    return piece != NULL ? piece : usual;
}

static void write_file(const pieces *p)
{
    buf b = { 0 };
    buf_printf(&b, "{\"version\":\"1.0\",\"added_tokens\":[%s],\"normalizer\":%s,", or_usual(p->added, ""),
               or_usual(p->normalizer, "null"));
    buf_printf(&b, "\"pre_tokenizer\":%s,\"post_processor\":%s,\"decoder\":%s,",
               or_usual(p->pre, "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":true}"),
               or_usual(p->post, "null"), or_usual(p->decoder, "{\"type\":\"ByteLevel\"}"));
    /* The merges stand in front of the vocabulary on purpose: the order of a file's keys is free. */
    buf_printf(&b, "\"model\":{\"type\":\"%s\",%s\"merges\":[%s],\"vocab\":{", or_usual(p->type, "BPE"),
               or_usual(p->more_model, ""), or_usual(p->merges, ""));
    for (int i = 0; i < BYTES; i++) {
        char byte = (char)i, spelling[8];
        size_t n = vocab_alphabet_write(&byte, 1, spelling);
        buf_puts(&b, i != 0 ? "," : "");
        buf_json_string(&b, spelling, n);
        buf_printf(&b, ":%d", i);
    }
    buf_printf(&b, "%s}}}", or_usual(p->more_vocab, ""));
    hf_folder_write(FOLDER, b.data, b.len, p->config, p->generation);
    buf_free(&b);
}

static tokenizer *load(const pieces *p, foray_error *err)
{
    write_file(p);
    model_file *f = NULL;
    tokenizer *t = NULL;
    err->code = 0;
    err->text[0] = '\0';
    if (model_file_open(FOLDER, &f, err) == 0)
        (void)tokenizer_load(f, &t, err);
    model_file_close(f);
    hf_folder_remove(FOLDER);
    return t;
}

static tokenizer *load_good(const pieces *p)
{
    foray_error err;
    tokenizer *t = load(p, &err);
    if (t == NULL)
        fail_msg("%s", err.text);
    return t;
}

static void assert_refused(const pieces *p, int code, const char *words)
{
    foray_error err;
    int64_t before = mem_get_stats().blocks;
    tokenizer *t = load(p, &err);
    if (t != NULL || err.code != code || strstr(err.text, words) == NULL)
        fail_msg("expected code %d with \"%s\", got %d: %s", code, words, err.code, err.text);
    assert_int_equal(mem_get_stats().blocks, before);
}

static void assert_ids(const tokenizer *t, const char *text, bool special, bool begin, const int32_t *ids,
                       size_t count)
{
    id_list l = { 0 };
    foray_error err;
    if (tokenizer_encode(t, text, strlen(text), special, begin, &l, &err) != 0)
        fail_msg("%s", err.text);
    assert_int_equal(l.count, count);
    assert_memory_equal(l.ids, ids, count * sizeof *ids);
    id_list_free(&l);
}

#define ASSERT_IDS(t, text, special, begin, ...)                                                             \
    assert_ids(t, text, special, begin, (const int32_t[]) { __VA_ARGS__ },                                   \
               sizeof((const int32_t[]) { __VA_ARGS__ }) / sizeof(int32_t))

#define ADDED(id, text, more)                                                                                \
    "{\"id\":" #id ",\"content\":\"" text                                                                    \
    "\",\"single_word\":false,\"normalized\":false,\"special\":true" more "}"

static void both_spellings_of_merges_are_read(void **state)
{
    (void)state;
    tokenizer *t = load_good(&(pieces) { .more_vocab = ",\"ab\":256,\"abc\":257,\"\\\"\\\"\":258",
                                         .merges = "\"a b\",[\"ab\",\"c\"],[\"\\\"\",\"\\u0022\"]" });
    ASSERT_IDS(t, "abcab\"\"", false, false, 257, 256, 258);
    assert_int_equal(tokenizer_vocab(t), 259);
    tokenizer_free(t);
}

static void a_marker_may_swallow_the_space_around_it(void **state)
{
    (void)state;
    tokenizer *t =
        load_good(&(pieces) { .added = ADDED(256, "<r>", ",\"rstrip\":true,\"lstrip\":false") "," ADDED(
                                  257, "<l>", ",\"lstrip\":true") "," ADDED(258, "<n>", "") });
    ASSERT_IDS(t, " <r> \n\t a", true, false, SPACE, 256, A);
    ASSERT_IDS(t, "a \xe2\x80\x83<l> a", true, false, A, 257, SPACE, A);
    ASSERT_IDS(t, "a <n> a", true, false, A, SPACE, 258, SPACE, A);
    ASSERT_IDS(t, "<r>  <n>", true, false, 256, 258);
    tokenizer_free(t);
}

static void ends_and_begin_come_from_the_folders_other_files(void **state)
{
    (void)state;
    pieces p = { .added = ADDED(256, "<s>", "") "," ADDED(257, "</s>", "") "," ADDED(258, "<|im_end|>", ""),
                 .config =
                     "{\"bos_token\":{\"content\":\"<s>\"},\"eos_token\":\"</s>\",\"add_bos_token\":true,"
                     "\"chat_template\":\"{{'<|im_end|>'}}\"}",
                 .generation = "{\"eos_token_id\":[258,97]}" };
    tokenizer *t = load_good(&p);
    size_t n;
    const int32_t *end = tokenizer_end_ids(t, &n), expected[] = { 258, 97, 257 };
    assert_int_equal(n, 3);
    assert_memory_equal(end, expected, sizeof expected);
    ASSERT_IDS(t, "a", false, true, 256, A);
    tokenizer_free(t);
    p.generation = "{\"eos_token_id\":97}";
    t = load_good(&p);
    end = tokenizer_end_ids(t, &n);
    assert_int_equal(end[0], 97);
    assert_int_equal(n, 3);
    tokenizer_free(t);
    p.generation = "{\"eos_token_id\":[1,-3]}";
    assert_refused(&p, FORAY_EFILE, "eos_token_id");
}

static void unknown_parts_are_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        pieces p;
        const char *words;
    } rows[] = {
        { { .normalizer = "{\"type\":\"Lowercase\"}" }, "normalizer: \"Lowercase\"" },
        { { .normalizer = "{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFKC\"}]}" }, "\"NFKC\"" },
        { { .pre = "{\"type\":\"Whitespace\"}" }, "pre_tokenizer: \"Whitespace\"" },
        { { .pre = "{\"type\":\"ByteLevel\",\"add_prefix_space\":true}" }, "add_prefix_space" },
        { { .pre = "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":\"x+"
                   "\"},"
                   "\"behavior\":\"Isolated\",\"invert\":false},{\"type\":\"ByteLevel\",\"add_prefix_space\":"
                   "false,"
                   "\"use_regex\":false}]}" },
          "pre-tokenizer is not known: \"x+\"" },
        { { .pre = "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"x+\"},\"behavior\":\"Removed\"}" },
          "Split in this form" },
        { { .post = "{\"type\":\"BertProcessing\"}" }, "post_processor: \"BertProcessing\"" },
        { { .post = "{\"type\":\"TemplateProcessing\",\"single\":[{\"Sequence\":{\"id\":\"A\"}},"
                    "{\"SpecialToken\":{\"id\":\"</s>\"}}]}" },
          "TemplateProcessing that is not" },
        { { .decoder = "{\"type\":\"WordPiece\"}" }, "decoder: \"WordPiece\"" },
        { { .type = "Unigram" }, "type \"Unigram\"" },
        { { .more_model = "\"dropout\":0.1," }, "\"dropout\" is set" },
        { { .more_model = "\"byte_fallback\":true," },
          "byte-level tokenizer with parts of a SentencePiece one" },
        { { .more_model = "\"surprise\":1," }, "\"surprise\" is not known" },
        { { .added = "{\"id\":256,\"content\":\"<w>\",\"single_word\":true,\"special\":true}" },
          "single_word" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_refused(&rows[i].p, FORAY_EUNSUPPORTED, rows[i].words);
}

static void damage_is_refused_with_its_place(void **state)
{
    (void)state;
    static const struct {
        pieces p;
        int code;
        const char *words;
    } rows[] = {
        { { .more_vocab = ",\"x1\":-1" }, FORAY_ELIMIT, "\"x1\" has the id -1" },
        { { .more_vocab = ",\"x1\":4194304" }, FORAY_ELIMIT, "ids go from 0 to 4194303" },
        { { .more_vocab = ",\"x1\":1.5" }, FORAY_EFILE, "whole number" },
        { { .more_vocab = ",\"x1\":65" }, FORAY_EFILE, "token 65 is both \"A\" and \"x1\"" },
        { { .more_vocab = ",\"A\":256" }, FORAY_EFILE, "tokens 65 and 256 are both \"A\"" },
        { { .added = ADDED(65, "<s>", "") }, FORAY_EFILE, "token 65 is both" },
        { { .merges = "\"a b\"" }, FORAY_EFILE, "merge 0 makes \"ab\", which is not a token" },
        { { .merges = "\"ab\"" }, FORAY_EFILE, "two tokens with a space" },
        { { .merges = "7" }, FORAY_EFILE, "a string or a pair" },
        { { .merges = "[\"a\",\"b\",\"c\"]" }, FORAY_EFILE, "byte" },
        { { .more_vocab = "]" }, FORAY_EFILE, "byte" },
        { { .post = "{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"<q>\"}},"
                    "{\"Sequence\":{\"id\":\"A\"}}]}" },
          FORAY_EFILE,
          "\"<q>\" is not a token" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_refused(&rows[i].p, rows[i].code, rows[i].words);
}

/* cases.md R04, for vocabularies with byte fallback. */
static void bad_byte_tokens_are_named(void **state)
{
    (void)state;
    static const char *const bad[] = { "<0x-1>", "<0xGG>", "<0x100>" };
    for (size_t i = 0; i < 3; i++) {
        buf b = { 0 };
        buf_printf(
            &b,
            "{\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"▁\"},"
            "\"model\":{\"type\":\"BPE\",\"byte_fallback\":true,\"merges\":[],\"vocab\":{\"%s\":0,\"a\":1}}}",
            bad[i]);
        hf_folder_write(FOLDER, b.data, b.len, NULL, NULL);
        buf_free(&b);
        model_file *f = NULL;
        tokenizer *t = NULL;
        foray_error err;
        assert_int_equal(model_file_open(FOLDER, &f, &err), 0);
        assert_int_equal(tokenizer_load(f, &t, &err), FORAY_EFILE);
        assert_non_null(strstr(err.text, bad[i]));
        model_file_close(f);
    }
    hf_folder_remove(FOLDER);
}

static void bytes_that_the_vocabulary_lacks_become_the_unknown_token_or_nothing(void **state)
{
    (void)state;
    static const char *const unknown[] = { "null", "\"?\"" };
    for (int i = 0; i < 2; i++) {
        buf b = { 0 };
        buf_printf(&b,
                   "{\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},\"model\":{"
                   "\"type\":\"BPE\","
                   "\"unk_token\":%s,\"merges\":[\"a a\"],\"vocab\":{\"?\":0,\"a\":1,\"aa\":2}}}",
                   unknown[i]);
        hf_folder_write(FOLDER, b.data, b.len, NULL, NULL);
        buf_free(&b);
        model_file *f = NULL;
        tokenizer *t = NULL;
        foray_error err;
        assert_int_equal(model_file_open(FOLDER, &f, &err), 0);
        assert_int_equal(tokenizer_load(f, &t, &err), 0);
        if (i == 0)
            ASSERT_IDS(t, "aba", false, false, 2); /* as the reference does: the neighbours meet */
        else
            ASSERT_IDS(t, "aba", false, false, 1, 0, 1);
        tokenizer_free(t);
        model_file_close(f);
    }
    hf_folder_remove(FOLDER);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_spellings_of_merges_are_read),
        cmocka_unit_test(a_marker_may_swallow_the_space_around_it),
        cmocka_unit_test(ends_and_begin_come_from_the_folders_other_files),
        cmocka_unit_test(unknown_parts_are_refused_by_name),
        cmocka_unit_test(damage_is_refused_with_its_place),
        cmocka_unit_test(bad_byte_tokens_are_named),
        cmocka_unit_test(bytes_that_the_vocabulary_lacks_become_the_unknown_token_or_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
