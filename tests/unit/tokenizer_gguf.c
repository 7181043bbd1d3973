/* Tokenizers read from GGUF arrays: what they encode, and what a damaged file gets. The vocabularies are small
 * enough to work the ids out by hand; that they agree with real models is the business of golden/tokenizers.
 */
#include "text/tokenizer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/rng.h"
#include "support/gguf_write.h"
#include "text/vocab.h"

#define PATH FORAY_BUILD "/tokenizer_gguf.gguf"
#define KEY(name) "tokenizer.ggml." name

enum { BYTES = 256, ROOM = 320 };

/* A vocabulary that is put together token by token. */
typedef struct {
    char spelling[ROOM][40];
    const char *token[ROOM];
    int32_t type[ROOM];
    float score[ROOM];
    size_t count;
    const char *merge[32];
    size_t merges;
    const char *pre, *model, *template;
    bool no_prefix, no_scores;
} sketch;

static int32_t add(sketch *s, const char *spelling, token_type type, float score)
{
    size_t i = s->count++;
    assert_true(i < ROOM);
    snprintf(s->spelling[i], sizeof s->spelling[i], "%s", spelling);
    s->token[i] = s->spelling[i];
    s->type[i] = type;
    s->score[i] = score;
    return (int32_t)i;
}

static void put_common(gguf_writer *g, const sketch *s)
{
    gguf_key_string(g, "general.architecture", "llama");
    gguf_key_string(g, KEY("model"), s->model);
    gguf_key_strings(g, KEY("tokens"), s->token, s->count);
    gguf_key_i32s(g, KEY("token_type"), s->type, s->count);
    if (s->pre != NULL)
        gguf_key_string(g, KEY("pre"), s->pre);
    if (strcmp(s->model, "gpt2") == 0)
        gguf_key_strings(g, KEY("merges"), s->merge, s->merges);
    else if (!s->no_scores)
        gguf_key_f32s(g, KEY("scores"), s->score, s->count);
    if (s->template != NULL)
        gguf_key_string(g, "tokenizer.chat_template", s->template);
    if (s->no_prefix)
        gguf_key_bool(g, KEY("add_space_prefix"), false);
}

/* Writes the file and loads it; err->text says why not. */
static tokenizer *load_file(gguf_writer *g, foray_error *err)
{
    gguf_finish_file(g, PATH);
    model_file *f = NULL;
    tokenizer *t = NULL;
    err->code = 0;
    err->text[0] = '\0';
    int rc = model_file_open(PATH, &f, err);
    if (rc == 0)
        rc = tokenizer_load(f, &t, err);
    assert_int_equal(rc, err->code);
    assert_int_equal(rc == 0, t != NULL);
    model_file_close(f);
    remove(PATH);
    return t;
}

static tokenizer *load(const sketch *s, foray_error *err)
{
    gguf_writer g = { 0 };
    put_common(&g, s);
    return load_file(&g, err);
}

static int64_t blocks_of(const gguf_writer *g)
{
    return (g->keys.data != NULL) + (g->tensors.data != NULL) + (g->data.data != NULL);
}

static void assert_refused(gguf_writer *g, int code, const char *words)
{
    foray_error err;
    int64_t before = mem_get_stats().blocks - blocks_of(g); /* load_file frees them */
    tokenizer *t = load_file(g, &err);
    if (t != NULL || err.code != code || strstr(err.text, words) == NULL)
        fail_msg("expected code %d with \"%s\", got %d: %s", code, words, err.code, err.text);
    assert_int_equal(mem_get_stats().blocks, before);
}

static void assert_sketch_refused(const sketch *s, int code, const char *words)
{
    gguf_writer g = { 0 };
    put_common(&g, s);
    assert_refused(&g, code, words);
}

/* All bytes, in order, then further tokens. */
static void start_byte_level(sketch *s)
{
    *s = (sketch) { .model = "gpt2", .pre = "gpt-2" };
    for (int b = 0; b < BYTES; b++) {
        char byte = (char)b, spelling[8] = { 0 };
        vocab_alphabet_write(&byte, 1, spelling);
        add(s, spelling, TOKEN_NORMAL, 0);
    }
}

static void start_sentencepiece(sketch *s)
{
    *s = (sketch) { .model = "llama" };
    add(s, "<unk>", TOKEN_UNKNOWN, 0);
    add(s, "<s>", TOKEN_CONTROL, 0);
    add(s, "</s>", TOKEN_CONTROL, 0);
    for (int b = 0; b < BYTES; b++) {
        char spelling[8];
        snprintf(spelling, sizeof spelling, "<0x%02X>", b);
        add(s, spelling, TOKEN_BYTE, 0);
    }
}

static void assert_ids(const tokenizer *t, const char *text, size_t bytes, const char *flags,
                       const int32_t *ids, size_t count)
{
    id_list l = { 0 };
    foray_error err = { 0 };
    int rc =
        tokenizer_encode(t, text, bytes, strchr(flags, 's') != NULL, strchr(flags, 'b') != NULL, &l, &err);
    if (rc != 0)
        fail_msg("%s", err.text);
    assert_int_equal(l.count, count);
    if (count != 0)
        assert_memory_equal(l.ids, ids, count * sizeof *ids);
    id_list_free(&l);
}

#define ASSERT_IDS(t, text, flags, ...)                                                                      \
    assert_ids(t, text, sizeof(text) - 1, flags, (const int32_t[]) { __VA_ARGS__ },                          \
               sizeof((const int32_t[]) { __VA_ARGS__ }) / sizeof(int32_t))

static void decode(const tokenizer *t, const id_list *l, buf *out)
{
    for (size_t i = 0; i < l->count; i++) {
        size_t n;
        const char *bytes = tokenizer_bytes(t, l->ids[i], &n);
        buf_append(out, bytes, n);
    }
}

static void merges_go_by_rank_and_from_the_left(void **state)
{
    (void)state;
    sketch s;
    foray_error err;
    start_byte_level(&s);
    int32_t aa = add(&s, "aa", TOKEN_NORMAL, 0), ab = add(&s, "ab", TOKEN_NORMAL, 0);
    int32_t aab = add(&s, "aab", TOKEN_NORMAL, 0), space_a = add(&s, "Ġa", TOKEN_NORMAL, 0);
    s.merge[s.merges++] = "a b";
    s.merge[s.merges++] = "a a";
    s.merge[s.merges++] = "a ab";
    s.merge[s.merges++] = "Ġ a";
    tokenizer *t = load(&s, &err);
    assert_string_equal(tokenizer_kind(t), "bpe/gpt-2");
    ASSERT_IDS(t, "aaa", "", aa, 'a');
    ASSERT_IDS(t, "aab", "", aab); /* "ab" first, though "aa" stands to its left */
    ASSERT_IDS(t, "aaab", "", aa, ab);
    ASSERT_IDS(t, "aaaab", "", aa, aab);
    ASSERT_IDS(t, "x a", "", 'x', space_a);
    ASSERT_IDS(t, "a  a", "", 'a', ' ', space_a); /* the pre-tokenizer cuts in front of the last space */
    tokenizer_free(t);
}

static void any_bytes_come_back(void **state)
{
    (void)state;
    static const char *const pre[] = { "smollm", "gpt-2", "llama-bpe", "deepseek-v3" };
    for (size_t p = 0; p < sizeof pre / sizeof pre[0]; p++) {
        sketch s;
        foray_error err;
        start_byte_level(&s);
        s.pre = pre[p];
        add(&s, "ÿÿ", TOKEN_NORMAL, 0);
        s.merge[s.merges++] = "ÿ ÿ";
        tokenizer *t = load(&s, &err);
        for (uint32_t round = 0; round < 300; round++) {
            char text[64];
            size_t n = round % sizeof text;
            for (uint32_t i = 0; i < n; i++) {
                uint32_t r = rng_at(2, round, RNG_TEST, i, 0).word[0];
                text[i] = round % 3 == 0 ? (char)r : ("a \xff\xe6\xbc\xa2\xc3\xa9\n1"[r % 11]);
            }
            id_list l = { 0 };
            buf b = { 0 };
            assert_int_equal(tokenizer_encode(t, text, n, true, true, &l, &err), 0);
            decode(t, &l, &b);
            assert_int_equal(b.len, n);
            if (n != 0)
                assert_memory_equal(b.data, text, n);
            id_list_free(&l);
            buf_free(&b);
        }
        tokenizer_free(t);
    }
}

static void a_megabyte_of_one_letter_is_no_burden(void **state)
{
    (void)state;
    enum { N = 1 << 20 };
    sketch s;
    foray_error err;
    start_byte_level(&s);
    int32_t a2 = add(&s, "aa", TOKEN_NORMAL, 0), a4 = add(&s, "aaaa", TOKEN_NORMAL, 0);
    s.merge[s.merges++] = "a a";
    s.merge[s.merges++] = "aa aa";
    tokenizer *t = load(&s, &err);
    char *text = mem_alloc(MEM_GENERAL, N);
    memset(text, 'a', N);
    id_list l = { 0 };
    assert_int_equal(tokenizer_encode(t, text, N - 1, false, false, &l, &err), 0);
    assert_int_equal(l.count, N / 4 + 1);
    assert_int_equal(l.ids[0], a4);
    assert_int_equal(l.ids[N / 4 - 1], a2);
    assert_int_equal(l.ids[N / 4], 'a');
    id_list_free(&l);
    memset(text, ' ', N); /* and of white space, where patterns look back and forth */
    assert_int_equal(tokenizer_encode(t, text, N, false, false, &l, &err), 0);
    assert_int_equal(l.count, N);
    id_list_free(&l);
    mem_free(MEM_GENERAL, text, N);
    tokenizer_free(t);
}

static void markers_count_only_where_they_are_asked_for(void **state)
{
    (void)state;
    sketch s;
    foray_error err;
    start_byte_level(&s);
    int32_t end = add(&s, "<|end|>", TOKEN_CONTROL, 0), longer = add(&s, "<|end|>x", TOKEN_USER, 0);
    int32_t tag = add(&s, "<b>", TOKEN_USER, 0), think = add(&s, "<think>", TOKEN_USER, 0);
    s.template = "{{ '<think>' }}";
    tokenizer *t = load(&s, &err);
    ASSERT_IDS(t, "a<|end|>b", "s", 'a', end, 'b');
    ASSERT_IDS(t, "<|end|>xy", "s", longer, 'y'); /* longest first */
    ASSERT_IDS(t, "<|end|>", "", '<', '|', 'e', 'n', 'd', '|', '>');
    ASSERT_IDS(t, "<think>", "", '<', 't', 'h', 'i', 'n', 'k', '>'); /* the template writes it: a marker */
    ASSERT_IDS(t, "<think>", "s", think);
    ASSERT_IDS(t, "<b>", "", tag); /* text that was added whole stays whole */
    ASSERT_IDS(t, "<|en<|end|>", "s", '<', '|', 'e', 'n', end);
    size_t n;
    (void)tokenizer_bytes(t, end, &n);
    assert_int_equal(n, 0);
    assert_true(tokenizer_is_control(t, end));
    assert_false(tokenizer_is_control(t, think));
    assert_memory_equal(tokenizer_bytes(t, think, &n), "<think>", 7);
    assert_int_equal(tokenizer_find(t, "<b>"), tag);
    assert_int_equal(tokenizer_find(t, "no such"), -1);
    tokenizer_free(t);
}

static void begin_of_text_comes_exactly_once(void **state)
{
    (void)state;
    sketch s;
    foray_error err;
    for (int asked = 0; asked < 2; asked++) {
        gguf_writer g = { 0 };
        start_byte_level(&s);
        int32_t begin = add(&s, "<s>", TOKEN_CONTROL, 0);
        put_common(&g, &s);
        gguf_key_u32(&g, KEY("bos_token_id"), (uint32_t)begin);
        gguf_key_bool(&g, KEY("add_bos_token"), asked);
        tokenizer *t = load_file(&g, &err);
        assert_int_equal(tokenizer_begin_id(t), begin);
        if (asked) {
            ASSERT_IDS(t, "a", "b", begin, 'a');
            ASSERT_IDS(t, "<s>a", "sb", begin, 'a');
            ASSERT_IDS(t, "<s>a", "b", begin, '<', 's', '>', 'a'); /* plain text is no begin */
            assert_ids(t, "", 0, "b", &begin, 1);
        } else {
            ASSERT_IDS(t, "a", "b", 'a');
        }
        ASSERT_IDS(t, "<s>a", "s", begin, 'a');
        ASSERT_IDS(t, "a", "", 'a');
        tokenizer_free(t);
    }
}

static void ends_are_the_files_and_the_turn_markers_of_the_template(void **state)
{
    (void)state;
    sketch s;
    foray_error err;
    gguf_writer g = { 0 };
    start_byte_level(&s);
    int32_t eos = add(&s, "<eos>", TOKEN_CONTROL, 0), eot = add(&s, "<eot>", TOKEN_CONTROL, 0);
    int32_t im_end = add(&s, "<|im_end|>", TOKEN_CONTROL, 0), end = add(&s, "<|end|>", TOKEN_CONTROL, 0);
    s.template = "<|im_end|>";
    put_common(&g, &s);
    gguf_key_u32(&g, KEY("eos_token_id"), (uint32_t)eos);
    gguf_key_u32(&g, KEY("eot_token_id"), (uint32_t)eot);
    tokenizer *t = load_file(&g, &err);
    size_t n;
    const int32_t *ends = tokenizer_end_ids(t, &n), expected[] = { eos, eot, im_end };
    assert_int_equal(n, 3);
    assert_memory_equal(ends, expected, sizeof expected);
    assert_int_equal(tokenizer_find(t, "<|end|>"),
                     end); /* known, but this model's template does not use it */
    tokenizer_free(t);
}

static void scores_choose_the_merge_and_bytes_stand_in(void **state)
{
    (void)state;
    sketch s;
    foray_error err;
    start_sentencepiece(&s);
    int32_t a = add(&s, "a", TOKEN_NORMAL, -10), b = add(&s, "b", TOKEN_NORMAL, -11);
    int32_t mark = add(&s, "▁", TOKEN_NORMAL, -9), ab = add(&s, "ab", TOKEN_NORMAL, -2);
    int32_t mark_a = add(&s, "▁a", TOKEN_NORMAL, -1), ba = add(&s, "ba", TOKEN_NORMAL, -2);
    tokenizer *t = load(&s, &err);
    assert_string_equal(tokenizer_kind(t), "spm");
    ASSERT_IDS(t, "ab", "", mark_a, b);    /* the higher score goes first */
    ASSERT_IDS(t, "bab", "", mark, ba, b); /* equal scores: from the left */
    ASSERT_IDS(t, "b ab", "", mark, b, mark_a, b);
    ASSERT_IDS(t, "bé", "", mark, b, 3 + 0xc3, 3 + 0xa9);
    ASSERT_IDS(t, "b\xff", "", mark, b, 3 + 0xff);
    ASSERT_IDS(t, "<s>ab", "s", 1, mark_a, b); /* a space in front also after a marker */
    ASSERT_IDS(t, "<0x41>", "", mark, 3 + '<', 3 + '0', 3 + 'x', 3 + '4', 3 + '1', 3 + '>');
    size_t n;
    assert_memory_equal(tokenizer_bytes(t, mark_a, &n), " a", 2);
    assert_int_equal(n, 2);
    (void)tokenizer_bytes(t, 3 + 0xc3, &n);
    assert_int_equal(n, 1);
    tokenizer_free(t);
    s.no_prefix = true;
    t = load(&s, &err);
    ASSERT_IDS(t, "ab a", "", ab, mark_a);
    ASSERT_IDS(t, " a", "", mark_a);
    ASSERT_IDS(t, "a", "", a);
    tokenizer_free(t);
}

/* cases.md R04: the entry is named. */
static void bad_byte_tokens_are_named(void **state)
{
    (void)state;
    static const char *const bad[] = { "<0x-1>", "<0xGG>", "<0x100>", "<0xa0>", "", "<0x0>" };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        sketch s;
        start_sentencepiece(&s);
        s.token[3 + 0x41] = bad[i];
        char words[32];
        snprintf(words, sizeof words, "token %d, \"%s\"", 3 + 0x41, bad[i]);
        assert_sketch_refused(&s, FORAY_EFILE, words);
    }
    sketch s;
    start_sentencepiece(&s);
    s.token[3 + 0x41] = "<0x42>";
    assert_sketch_refused(&s, FORAY_EFILE, "tokens 68 and 69 are both \"<0x42>\"");
    start_sentencepiece(&s);
    s.count--;
    assert_sketch_refused(&s, FORAY_EFILE, "lacks the byte token <0xFF>");
}

static void damage_is_refused_with_its_place(void **state)
{
    (void)state;
    sketch s;
    gguf_writer g = { 0 };
    start_byte_level(&s);
    s.merge[s.merges++] = "a b";
    assert_sketch_refused(&s, FORAY_EFILE, "merge 0 makes \"ab\", which is not a token");
    add(&s, "ab", TOKEN_NORMAL, 0);
    s.merge[0] = "a bb";
    assert_sketch_refused(&s, FORAY_EFILE, "merge 0 joins \"a\" and \"bb\", but the second is not a token");
    s.merge[0] = "ab";
    assert_sketch_refused(&s, FORAY_EFILE, "merges[0], \"ab\", is not two tokens");
    s.merge[0] = "a b";
    s.type[7] = 9;
    assert_sketch_refused(&s, FORAY_EFILE, "token_type[7] is 9");
    s.type[7] = TOKEN_NORMAL;
    s.pre = "sideways";
    assert_sketch_refused(&s, FORAY_EUNSUPPORTED, "pre-tokenizer \"sideways\" is not known (known: smollm, ");
    s.pre = NULL;
    assert_sketch_refused(&s, FORAY_EUNSUPPORTED, "tokenizer.ggml.pre is missing");
    s.pre = "gpt-2";
    s.model = "unigram";
    assert_sketch_refused(&s, FORAY_EUNSUPPORTED, "tokenizer model \"unigram\" is not known");
    start_sentencepiece(&s);
    s.no_scores = true;
    assert_sketch_refused(&s, FORAY_EFILE, "scores");
    start_byte_level(&s);
    put_common(&g, &s);
    gguf_key_u32(&g, KEY("eos_token_id"), 256);
    assert_refused(&g, FORAY_EFILE, "eos_token_id is 256, but there are 256 tokens");
    gguf_key_string(&g, "general.architecture", "llama");
    assert_refused(&g, FORAY_EFILE, "no tokenizer");
}

static void memory_that_runs_out_is_an_error_and_leaks_nothing(void **state)
{
    (void)state;
    sketch s;
    foray_error err;
    start_byte_level(&s);
    add(&s, "aa", TOKEN_NORMAL, 0);
    add(&s, "<x>", TOKEN_CONTROL, 0);
    s.merge[s.merges++] = "a a";
    gguf_writer g = { 0 };
    put_common(&g, &s);
    gguf_finish_file(&g, PATH);
    model_file *f = NULL;
    assert_int_equal(model_file_open(PATH, &f, &err), 0);
    int64_t before = mem_get_stats().blocks;
    bool failed = true;
    for (int nth = 1; failed; nth++) {
        assert_true(nth < 100);
        tokenizer *t = NULL;
        id_list l = { 0 };
        mem_fail_nth(nth, false);
        int rc = tokenizer_load(f, &t, &err);
        if (rc == 0)
            rc = tokenizer_encode(t, "aaa<x>b\xff", 8, true, true, &l, &err);
        mem_fail_nth(0, false);
        failed = rc != 0;
        if (failed)
            assert_int_equal(rc, FORAY_ENOMEM);
        id_list_free(&l);
        tokenizer_free(t);
        assert_int_equal(mem_get_stats().blocks, before);
    }
    model_file_close(f);
    remove(PATH);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(merges_go_by_rank_and_from_the_left),
        cmocka_unit_test(any_bytes_come_back),
        cmocka_unit_test(a_megabyte_of_one_letter_is_no_burden),
        cmocka_unit_test(markers_count_only_where_they_are_asked_for),
        cmocka_unit_test(begin_of_text_comes_exactly_once),
        cmocka_unit_test(ends_are_the_files_and_the_turn_markers_of_the_template),
        cmocka_unit_test(scores_choose_the_merge_and_bytes_stand_in),
        cmocka_unit_test(bad_byte_tokens_are_named),
        cmocka_unit_test(damage_is_refused_with_its_place),
        cmocka_unit_test(memory_that_runs_out_is_an_error_and_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
