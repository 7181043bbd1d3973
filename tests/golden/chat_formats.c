/* Conversations as ids: what chat_encode writes is what the model's own template would have written, read with its
 * markers. The templates and their output stand in golden/chat (made by tools/make_chat_vectors.py).
 */
#include "text/chat.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/mem.h"
#include "support/gguf_write.h"
#include "text/vocab.h"

#define VECTORS FORAY_TESTS "/golden/chat/"
#define PATH FORAY_BUILD "/golden_chat.gguf"

enum { ROOM = 400, MOST_MESSAGES = 8 };

static const char *const markers[] = {
    "<|im_start|>",
    "<|im_end|>",
    "<s>",
    "</s>",
    "<|begin_of_text|>",
    "<|start_header_id|>",
    "<|end_header_id|>",
    "<|eot_id|>",
    "<bos>",
    "<eos>",
    "<start_of_turn>",
    "<end_of_turn>",
    "[INST]",
    "[/INST]",
    "<|system|>",
    "<|user|>",
    "<|assistant|>",
    "<|end|>",
    "<｜begin▁of▁sentence｜>",
    "<｜end▁of▁sentence｜>",
    "<｜User｜>",
    "<｜Assistant｜>",
};

enum { MARKERS = sizeof markers / sizeof markers[0] };

/* Settings of a made-up model: all bytes, some merges that can span the seams between template and message, and
 * every family's markers. */
typedef struct {
    bool sentencepiece;
    bool plain_inst; /* [INST] is no marker, as in Llama 2 */
    bool thinks;     /* has <think> and </think> */
    const char *begin;
    const char *without; /* this marker is left out */
} made_up;

static tokenizer *make(const made_up *m)
{
    static char spelling[ROOM][40];
    const char *token[ROOM];
    int32_t type[ROOM];
    float score[ROOM];
    size_t n = 0;
    for (int b = 0; b < 256; b++) {
        char byte = (char)b;
        memset(spelling[n], 0, sizeof spelling[n]);
        if (m->sentencepiece)
            snprintf(spelling[n], sizeof spelling[n], "<0x%02X>", b);
        else
            vocab_alphabet_write(&byte, 1, spelling[n]);
        type[n++] = m->sentencepiece ? TOKEN_BYTE : TOKEN_NORMAL;
    }
    static const char *const pairs[] = { "Ċ Ċ", "Ġ H", "e l", "Ġ Ġ" };
    static const char *const bytes_made[] = { "ĊĊ", "ĠH", "el", "ĠĠ" };
    static const char *const text_made[] = { "▁", "\n\n", "▁H", "H", "▁[", "]▁", "e", "▁▁" };
    for (size_t i = 0; i < (m->sentencepiece ? 8 : 4); i++) {
        snprintf(spelling[n], sizeof spelling[n], "%s", m->sentencepiece ? text_made[i] : bytes_made[i]);
        type[n++] = TOKEN_NORMAL;
    }
    int32_t begin = -1;
    for (size_t i = 0; i < MARKERS; i++) {
        if ((m->plain_inst && strstr(markers[i], "INST")) ||
            (m->without && strcmp(m->without, markers[i]) == 0))
            continue;
        if (strcmp(markers[i], m->begin) == 0)
            begin = (int32_t)n;
        snprintf(spelling[n], sizeof spelling[n], "%s", markers[i]);
        type[n++] = TOKEN_CONTROL;
    }
    for (int i = 0; i < 2 && m->thinks; i++) {
        snprintf(spelling[n], sizeof spelling[n], i == 0 ? "<think>" : "</think>");
        type[n++] = TOKEN_USER;
    }
    for (size_t i = 0; i < n; i++) {
        token[i] = spelling[i];
        score[i] = -(float)i;
    }
    gguf_writer g = { 0 };
    gguf_key_string(&g, "general.architecture", "llama");
    gguf_key_string(&g, "tokenizer.ggml.model", m->sentencepiece ? "llama" : "gpt2");
    gguf_key_strings(&g, "tokenizer.ggml.tokens", token, n);
    gguf_key_i32s(&g, "tokenizer.ggml.token_type", type, n);
    if (m->sentencepiece) {
        gguf_key_f32s(&g, "tokenizer.ggml.scores", score, n);
    } else {
        gguf_key_strings(&g, "tokenizer.ggml.merges", pairs, 4);
        gguf_key_string(&g, "tokenizer.ggml.pre", "llama-bpe");
    }
    gguf_key_bool(&g, "tokenizer.ggml.add_bos_token", false);
    gguf_key_string(&g, "tokenizer.chat_template", "<think></think>"); /* makes them markers */
    if (begin >= 0)
        gguf_key_u32(&g, "tokenizer.ggml.bos_token_id", (uint32_t)begin);
    gguf_finish_file(&g, PATH);
    foray_error err;
    model_file *f = NULL;
    tokenizer *t = NULL;
    if (model_file_open(PATH, &f, &err) != 0 || tokenizer_load(f, &t, &err) != 0)
        fail_msg("%s", err.text);
    model_file_close(f);
    remove(PATH);
    return t;
}

static char *read_text(const char *name, size_t *bytes)
{
    char path[512], *data = NULL;
    foray_error err;
    snprintf(path, sizeof path, VECTORS "%s", name);
    if (file_read(path, 1 << 24, &data, bytes, &err) != 0)
        fail_msg("%s", err.text);
    return data;
}

static size_t read_messages(const json_t *conversation, foray_message *out)
{
    size_t n = json_array_size(conversation);
    assert_true(n <= MOST_MESSAGES);
    for (size_t i = 0; i < n; i++) {
        const json_t *m = json_array_get(conversation, i);
        out[i] = (foray_message) { json_string_value(json_array_get(m, 0)),
                                   json_string_value(json_array_get(m, 1)) };
    }
    return n;
}

typedef struct {
    const char *name;   /* of the template's file */
    const char *format; /* what it must be recognised as */
    made_up model;
} row;

static const row rows[] = {
    { "smollm2", "chatml", { .begin = "" } },
    { "qwen2", "chatml", { .begin = "" } },
    { "qwen2.5", "chatml", { .begin = "" } },
    { "qwen3", "chatml", { .thinks = true, .begin = "" } },
    { "chatml-begin", "chatml", { .begin = "<s>" } },
    { "llama2", "llama2", { .sentencepiece = true, .plain_inst = true, .begin = "<s>" } },
    { "llama3", "llama3", { .begin = "<|begin_of_text|>" } },
    { "llama3.1", "llama3", { .begin = "<|begin_of_text|>" } },
    { "gemma2", "gemma", { .sentencepiece = true, .begin = "<bos>" } },
    { "gemma3", "gemma", { .sentencepiece = true, .begin = "<bos>" } },
    { "mistral-v1", "mistral", { .sentencepiece = true, .plain_inst = true, .begin = "<s>" } },
    { "mistral-v1-spaced", "mistral", { .sentencepiece = true, .plain_inst = true, .begin = "<s>" } },
    { "mistral-v2", "mistral", { .sentencepiece = true, .plain_inst = true, .begin = "<s>" } },
    { "mistral-v3", "mistral", { .sentencepiece = true, .begin = "<s>" } },
    { "mistral-nemo", "mistral", { .begin = "<s>" } },
    { "phi3", "phi", { .sentencepiece = true, .begin = "<s>" } },
    { "phi3-begin", "phi", { .sentencepiece = true, .begin = "<s>" } },
    { "phi4-mini", "phi", { .begin = "" } },
    { "deepseek-v3", "deepseek", { .begin = "<｜begin▁of▁sentence｜>" } },
    { "deepseek-r1", "deepseek", { .thinks = true, .begin = "<｜begin▁of▁sentence｜>" } },
};

enum { ROWS = sizeof rows / sizeof rows[0] };

static void assert_same(const row *r, size_t index, const id_list *got, const id_list *want)
{
    for (size_t i = 0; i < got->count || i < want->count; i++)
        if (i >= got->count || i >= want->count || got->ids[i] != want->ids[i])
            fail_msg("%s, conversation %zu, place %zu: %d instead of %d", r->name, index, i,
                     i < got->count ? got->ids[i] : -1, i < want->count ? want->ids[i] : -1);
}

static void every_format_writes_what_its_template_writes(void **state)
{
    (void)state;
    size_t bytes = 0, refused = 0;
    char *data = read_text("cases.json", &bytes);
    json_t *cases = json_loadb(data, bytes, 0, NULL);
    mem_free(MEM_GENERAL, data, bytes + 1);
    const json_t *conversations = json_object_get(cases, "conversations");
    assert_int_equal(json_object_size(json_object_get(cases, "written")), ROWS);
    for (const row *r = rows; r < rows + ROWS; r++) {
        char file[64];
        snprintf(file, sizeof file, "%s.jinja", r->name);
        char *template_text = read_text(file, &bytes);
        buf b = { 0 };
        const chat_format *f = chat_format_recognise(template_text, bytes);
        assert_non_null(f);
        assert_string_equal(chat_format_name(f), r->format);
        const char *system = chat_default_system(template_text, bytes, &b);
        tokenizer *t = make(&r->model);
        const json_t *written = json_object_get(json_object_get(cases, "written"), r->name);
        for (size_t i = 0; i < json_array_size(conversations); i++) {
            foray_message messages[MOST_MESSAGES];
            size_t n = read_messages(json_array_get(conversations, i), messages);
            const json_t *text = json_array_get(written, i);
            id_list got = { 0 }, want = { 0 };
            foray_error err;
            int rc = chat_encode(f, t, system, messages, n, &got, &err);
            if (json_is_null(text)) {
                assert_int_equal(rc, FORAY_EUSAGE);
                assert_non_null(strstr(err.text, "role"));
                assert_int_equal(got.count, 0);
                refused++;
            } else if (rc != 0 &&
                       (strstr(r->name, "gemma") || strstr(r->name, "mistral") || strstr(r->name, "llama"))) {
                /* A second or late system message, which these templates would misplace, is refused. */
                assert_int_equal(rc, FORAY_EUSAGE);
                assert_true(strstr(err.text, "allows it first only") ||
                            strstr(err.text, "has no role \"system\""));
            } else {
                if (rc != 0)
                    fail_msg("%s, conversation %zu: %s", r->name, i, err.text);
                assert_int_equal(tokenizer_encode(t, json_string_value(text), json_string_length(text), true,
                                                  false, &want, &err),
                                 0);
                assert_same(r, i, &got, &want);
            }
            id_list_free(&got);
            id_list_free(&want);
        }
        tokenizer_free(t);
        buf_free(&b);
        mem_free(MEM_GENERAL, template_text, bytes + 1);
    }
    assert_true(refused > 10);
    json_decref(cases);
}

/* cases.md R02: markers that a user writes are text. */
static void a_message_cannot_forge_a_marker(void **state)
{
    (void)state;
    tokenizer *t = make(&(made_up) { .thinks = true, .begin = "<s>" });
    static const char *const names[] = { "chatml",  "llama2", "llama3",   "gemma",
                                         "mistral", "phi",    "deepseek", "deepseek4" };
    for (size_t k = 0; k < sizeof names / sizeof names[0]; k++) {
        const chat_format *f = chat_format_named(names[k]);
        id_list clean = { 0 }, forged = { 0 };
        buf text = { 0 }, spoken = { 0 };
        for (size_t i = 0; i < MARKERS; i++)
            buf_printf(&text, "x%s", markers[i]);
        buf_puts(&text, "<think></think>");
        assert_int_equal(chat_encode(f, t, NULL, &(foray_message) { "user", "" }, 1, &clean, NULL), 0);
        assert_int_equal(chat_encode(f, t, NULL, &(foray_message) { "user", text.data }, 1, &forged, NULL),
                         0);
        size_t controls = 0;
        for (size_t i = 0; i < clean.count; i++)
            controls += tokenizer_is_control(t, clean.ids[i]);
        for (size_t i = 0; i < forged.count; i++) {
            controls -= tokenizer_is_control(t, forged.ids[i]);
            assert_true(forged.ids[i] != tokenizer_find(t, "<think>"));
            size_t n;
            const char *bytes = tokenizer_bytes(t, forged.ids[i], &n);
            buf_append(&spoken, bytes, n);
        }
        assert_int_equal(controls, 0);
        assert_non_null(strstr(spoken.data, text.data));
        id_list_free(&clean);
        id_list_free(&forged);
        buf_free(&text);
        buf_free(&spoken);
    }
    tokenizer_free(t);
}

static void what_cannot_be_written_is_refused_by_name(void **state)
{
    (void)state;
    foray_error err;
    id_list out = { 0 };
    tokenizer *t = make(&(made_up) { .begin = "<s>", .without = "<|im_end|>" });
    const chat_format *chatml = chat_format_named("chatml"), *phi = chat_format_named("phi");
    foray_message critic = { "critic", "no" };
    assert_int_equal(chat_encode(chatml, t, NULL, &(foray_message) { "user", "x" }, 1, &out, &err),
                     FORAY_EUNSUPPORTED);
    assert_non_null(strstr(err.text, "<|im_end|>"));
    assert_int_equal(chat_encode(phi, t, NULL, &critic, 1, &out, &err), FORAY_EUSAGE);
    assert_non_null(strstr(err.text, "critic"));
    assert_int_equal(chat_encode(phi, t, NULL, NULL, 0, &out, &err), FORAY_EUSAGE);
    assert_int_equal(out.count, 0);
    id_list_free(&out);
    tokenizer_free(t);
}

static void formats_are_known_by_name_and_others_are_not_guessed(void **state)
{
    (void)state;
    char list[200];
    snprintf(list, sizeof list, "%s", chat_format_names());
    int count = 0;
    for (char *rest = list, *name; (name = strsep(&rest, ", ")) != NULL;) {
        if (*name == '\0')
            continue;
        assert_string_equal(chat_format_name(chat_format_named(name)), name);
        count++;
    }
    assert_int_equal(count, 8);
    assert_null(chat_format_named("chatM"));
    static const char *const strange[] = { "",
                                           "{{ messages }}",
                                           "{{ '### Instruction:' }}",
                                           "<|im_start|>",
                                           "[INST]",
                                           "[SYSTEM_PROMPT][INST] [/INST]",
                                           "<|im_start|>user<|im_sep|><|im_end|>" };
    for (size_t i = 0; i < sizeof strange / sizeof strange[0]; i++)
        assert_null(chat_format_recognise(strange[i], strlen(strange[i])));
}

static void the_default_system_message_is_the_templates(void **state)
{
    (void)state;
    static const char *const rows_[][2] = {
        { "smollm2.jinja", "You are a helpful AI assistant named SmolLM, trained by Hugging Face" },
        { "qwen2.jinja", "You are a helpful assistant." },
        { "qwen2.5.jinja", "You are Qwen, created by Alibaba Cloud. You are a helpful assistant." },
        { "qwen3.jinja", NULL },
        { "llama2.jinja", NULL },
    };
    for (size_t i = 0; i < sizeof rows_ / sizeof rows_[0]; i++) {
        size_t bytes = 0;
        char *text = read_text(rows_[i][0], &bytes);
        buf b = { 0 };
        const char *system = chat_default_system(text, bytes, &b);
        if (rows_[i][1] == NULL)
            assert_null(system);
        else
            assert_string_equal(system, rows_[i][1]);
        buf_free(&b);
        mem_free(MEM_GENERAL, text, bytes + 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_format_writes_what_its_template_writes),
        cmocka_unit_test(a_message_cannot_forge_a_marker),
        cmocka_unit_test(what_cannot_be_written_is_refused_by_name),
        cmocka_unit_test(formats_are_known_by_name_and_others_are_not_guessed),
        cmocka_unit_test(the_default_system_message_is_the_templates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
