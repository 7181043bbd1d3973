/* chat.c: line editing (libedit), commands that start with a slash, and the growing list of messages.
 *
 * Every turn encodes the whole conversation again. A turn that fails (too long for the context, say) is taken
 * out of the history and the chat goes on.
 */
#include "cli/chat.h"

#include <errno.h>
#include <histedit.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/account.h"
#include "cli/setup.h"
#include "cli/terminal.h"

enum { HISTORY_LINES = 500 };

static const char HELP[] =
    "/reset forgets the conversation, /exit (or Ctrl-D) leaves, Ctrl-C ends an answer\n";

/* What was said, in order. Texts are owned. */
typedef struct {
    foray_message *messages; /* [count] */
    size_t count, cap;
} conversation;

static void drop_last(conversation *c)
{
    const char *text = c->messages[--c->count].content;
    mem_free(MEM_TEXT, (void *)text, strlen(text) + 1);
}

static void forget(conversation *c)
{
    while (c->count > 0)
        drop_last(c);
}

/* Adds a message; role is static, text is copied up to its first NUL. */
static int say(conversation *c, const char *role, const char *text, size_t bytes, foray_error *err)
{
    bytes = strnlen(text, bytes);
    if (c->count == c->cap) {
        size_t cap = c->cap ? 2 * c->cap : 16;
        foray_message *grown = mem_resize(MEM_TEXT, c->messages, c->cap * sizeof *grown, cap * sizeof *grown);
        if (!grown)
            return fail(err, FORAY_ENOMEM, "out of memory for the conversation");
        c->messages = grown;
        c->cap = cap;
    }
    char *copy = mem_alloc(MEM_TEXT, bytes + 1);
    if (!copy)
        return fail(err, FORAY_ENOMEM, "out of memory for the conversation");
    memcpy(copy, text, bytes);
    copy[bytes] = 0;
    c->messages[c->count++] = (foray_message) { role, copy };
    return 0;
}

static int begin(conversation *c, const options *o, foray_error *err)
{
    const char *system = options_string(o, OPT_SYSTEM);
    return system ? say(c, "system", system, strlen(system), err) : 0;
}

/* Makes the answer a message. One that began inside its reasoning, which <think> in the prompt had opened, says so:
 * the format then tells reasoning from answer even if it was interrupted before </think>. */
static int say_answer(conversation *c, const foray_engine *engine, const generation *g, foray_error *err)
{
    buf text = { 0 };
    if (foray_engine_info(engine).reasons)
        buf_puts(&text, "<think>");
    buf_append(&text, g->text.data ? g->text.data : "", g->text.len);
    int rc = text.failed ? fail(err, FORAY_ENOMEM, "out of memory for the conversation")
                         : say(c, "assistant", text.data, text.len, err);
    buf_free(&text);
    return rc;
}

/* Answers the last message, which is the user's. The answer becomes a message. */
static int answer(conversation *c, const options *o, foray_engine *engine, foray_error *err)
{
    int32_t *ids = NULL;
    size_t count = 0;
    generation g = { 0 };
    foray_request_config config;
    int rc = foray_encode_chat(engine, c->messages, c->count, &ids, &count, err);
    if (rc)
        return rc;
    setup_request(o, engine, &config);
    config.prompt = ids;
    config.prompt_count = count;
    rc = generation_run(engine, &config, stdout, &g, err);
    fputs("\n", stdout);
    fflush(stdout);
    if (!rc)
        rc = say_answer(c, engine, &g, err);
    if (!rc && !options_flag(o, OPT_QUIET)) {
        account a = { .g = &g,
                      .drafter = foray_engine_info(engine).spec,
                      .accept = foray_engine_info(engine).accept,
                      .spec_tokens = foray_engine_info(engine).spec_tokens,
                      .sampled = config.sampling.temperature > 0 };
        buf line = { 0 };
        account_line(&a, &line);
        fprintf(stderr, "%s%s%s", terminal_dim(), line.data ? line.data : "", terminal_plain());
        buf_free(&line);
    }
    if (!rc && g.fault.code) /* of the steps file, say: the answer stands */
        fprintf(stderr, "foray: %s\n", g.fault.text);
    generation_free(&g);
    foray_free(ids);
    return rc;
}

static const char *prompt(EditLine *editor)
{
    (void)editor;
    return "> ";
}

/* Reads a line without its end; NULL at the end of input. Ctrl-C empties the line. */
static const char *read_line(EditLine *editor, buf *line)
{
    for (;;) {
        int n = 0;
        terminal_interrupt_arm();
        errno = 0;
        const char *text = el_gets(editor, &n);
        bool interrupted = terminal_interrupted();
        terminal_interrupt_disarm();
        if (interrupted) {
            fputs("\n", stderr);
            el_reset(editor);
            continue;
        }
        if (!text || n <= 0)
            return NULL;
        buf_clear(line);
        buf_append(line, text, (size_t)n);
        while (!line->failed && line->len > 0 && strchr("\r\n", line->data[line->len - 1]))
            line->data[--line->len] = 0;
        return line->failed ? NULL : line->data;
    }
}

/* One line of the user: a command or a message. Returns false when the chat is over. */
static bool turn(conversation *c, const char *line, const options *o, foray_engine *engine)
{
    foray_error err;
    int rc = 0;
    if (strcmp(line, "/exit") == 0 || strcmp(line, "/quit") == 0)
        return false;
    if (line[0] == 0)
        return true;
    if (line[0] == '/') {
        if (strcmp(line, "/reset") != 0) {
            fputs(HELP, stderr);
            return true;
        }
        forget(c);
        rc = begin(c, o, &err);
    } else {
        size_t before = c->count;
        rc = say(c, "user", line, strlen(line), &err);
        if (!rc && (rc = answer(c, o, engine, &err)))
            while (c->count > before)
                drop_last(c);
    }
    if (rc)
        fprintf(stderr, "foray: %s%s\n", err.text, err.code == FORAY_ELIMIT ? " (/reset starts afresh)" : "");
    return true;
}

int chat_run(const options *o, foray_engine *engine, foray_error *err)
{
    conversation c = { 0 };
    buf line = { 0 };
    HistEvent event;
    /* The editor reads characters: only of this may the locale decide, numbers stay in "C". */
    if (!setlocale(LC_CTYPE, "") || MB_CUR_MAX == 1)
        setlocale(LC_CTYPE, "C.UTF-8");
    EditLine *editor = el_init("foray", stdin, stderr, stderr);
    History *past = history_init();
    int rc = editor && past ? begin(&c, o, err) : fail(err, FORAY_ENOMEM, "out of memory for line editing");
    if (rc)
        goto done;
    history(past, &event, H_SETSIZE, HISTORY_LINES);
    history(past, &event, H_SETUNIQUE, 1);
    el_set(editor, EL_PROMPT, prompt);
    el_set(editor, EL_EDITOR, "emacs");
    el_set(editor, EL_HIST, history, past);
    el_set(editor, EL_BIND, "^R", "em-inc-search-prev", NULL);
    el_source(editor, NULL);
    fprintf(stderr, "%s%s%s", terminal_dim(), HELP, terminal_plain());
    for (const char *text; (text = read_line(editor, &line));) {
        if (text[0])
            history(past, &event, H_ENTER, text);
        if (!turn(&c, text, o, engine))
            break;
    }
done:
    if (past)
        history_end(past);
    if (editor)
        el_end(editor);
    forget(&c);
    mem_free(MEM_TEXT, c.messages, c.cap * sizeof *c.messages);
    buf_free(&line);
    return rc;
}
