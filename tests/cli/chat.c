/* chat.c: a conversation at a terminal, which is one end of a pseudoterminal here: turns, history, and the end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <jansson.h>
#include <poll.h>
#include <pty.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "foray.h"
#include "support/cli_program.h"
#include "support/tiny.h"

enum { WAIT_MS = 60000 };

typedef struct {
    int terminal;
    pid_t process;
    buf shown; /* all that came so far */
} chat;

/* Starts a chat with its steps recorded. */
static chat chat_start(const char *model, const char *steps)
{
    chat c = { 0 };
    c.process = forkpty(&c.terminal, NULL, NULL, NULL);
    assert_true(c.process >= 0);
    if (c.process == 0) {
        setenv("TERM", "dumb", 1);
        setenv("HOME", "/nonexistent", 1);
        execl(FORAY_BUILD "/foray", "foray", "run", "-m", model, "-n", "8", "--temp", "0", "--ignore-eos",
              "--steps", steps, (char *)NULL);
        _exit(127);
    }
    return c;
}

/* Reads until text stands for the n-th time in what was shown, or the end where text is NULL. */
static void chat_wait(chat *c, const char *text, int n)
{
    for (;;) {
        int found = 0;
        for (const char *at = c->shown.data; text && at && (at = strstr(at, text)); at++)
            found++;
        if (text && found >= n)
            return;
        struct pollfd end = { .fd = c->terminal, .events = POLLIN };
        char block[4096];
        if (poll(&end, 1, WAIT_MS) <= 0)
            fail_msg("no '%s' in time after: %s", text ? text : "end", c->shown.data);
        ssize_t got = read(c->terminal, block, sizeof block);
        if (got <= 0 && !text)
            return;
        if (got <= 0)
            fail_msg("the chat ended without '%s': %s", text, c->shown.data);
        for (ssize_t i = 0; i < got; i++) /* strstr must see all of it */
            block[i] = block[i] ? block[i] : ' ';
        buf_append(&c->shown, block, (size_t)got);
    }
}

static void chat_type(chat *c, const char *line)
{
    assert_int_equal(write(c->terminal, line, strlen(line)), (ssize_t)strlen(line));
}

/* The lengths of the prompts that were read, in order; returns how many. A prompt may be read in several chunks. */
static int read_prompts(const char *path, json_int_t lengths[], int most)
{
    char *data;
    size_t bytes;
    int count = 0;
    bool reading = false;
    assert_int_equal(file_read(path, 1 << 20, &data, &bytes, NULL), 0);
    for (char *line = data, *end; (end = strchr(line, '\n')); line = end + 1) {
        json_t *step = json_loadb(line, (size_t)(end - line), 0, NULL);
        const char *kind = json_string_value(json_object_get(step, "kind"));
        bool prefill = kind && strcmp(kind, "prefill") == 0;
        if (prefill && !reading && count < most)
            lengths[count++] = 0;
        if (prefill && count > 0)
            lengths[count - 1] += json_integer_value(json_object_get(step, "rows_computed"));
        reading = prefill;
        json_decref(step);
    }
    mem_free(MEM_GENERAL, data, bytes + 1);
    return count;
}

/* What the program answers to one message. The caller's. */
static json_t *answer_to(const char *model, const char *text)
{
    const char *const arguments[] = { "run",    "-m", model,          "-p",     text, "-n", "8",
                                      "--temp", "0",  "--ignore-eos", "--json", "-q", NULL };
    cli_result r = cli_run(arguments, NULL, NULL);
    json_t *o = json_loadb(r.out.data, r.out.len, 0, NULL);
    assert_non_null(o);
    cli_free(&r);
    return o;
}

static json_int_t conversation_tokens(const char *model, const foray_message *messages, size_t n)
{
    foray_engine *e;
    int32_t *ids;
    size_t count;
    foray_config c = { .model = model, .spec = "off", .threads = 1 };
    assert_int_equal(foray_open(&c, &e, NULL), 0);
    assert_int_equal(foray_encode_chat(e, messages, n, &ids, &count, NULL), 0);
    foray_free(ids);
    foray_close(e);
    return (json_int_t)count;
}

static void the_second_turn_is_asked_with_the_first(void **state)
{
    (void)state;
    json_int_t lengths[4];
    int status;
    tiny_spec spec = tiny_default();
    const char *model = tiny_gguf(&spec), *steps = tiny_path(tiny_folder(), "steps.jsonl");
    chat c = chat_start(model, steps);
    chat_wait(&c, "> ", 1);
    chat_type(&c, "first\n");
    chat_wait(&c, "tok/s", 1);
    chat_type(&c, "second\n");
    chat_wait(&c, "tok/s", 2);
    chat_type(&c, "/exit\n");
    chat_wait(&c, NULL, 0);
    assert_int_equal(waitpid(c.process, &status, 0), c.process);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);

    json_t *answer = answer_to(model, "first");
    const foray_message messages[] = { { "user", "first" },
                                       { "assistant", json_string_value(json_object_get(answer, "text")) },
                                       { "user", "second" } };
    assert_int_equal(read_prompts(steps, lengths, 4), 2);
    assert_int_equal(lengths[0], conversation_tokens(model, messages, 1));
    assert_int_equal(lengths[1], conversation_tokens(model, messages, 3));
    json_decref(answer);
    close(c.terminal);
    buf_free(&c.shown);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_second_turn_is_asked_with_the_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
