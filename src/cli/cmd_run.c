/* cmd_run.c: `foray run`: continues a prompt, or holds a chat, and says what it cost.
 *
 * The prompt comes from -p, from -f (one final line end is dropped), or from a pipe; on a terminal without
 * either it is a chat. The text alone goes to stdout; with --json one object does.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "cli/account.h"
#include "cli/chat.h"
#include "cli/commands.h"
#include "cli/setup.h"
#include "cli/terminal.h"

enum { PROMPT_BYTES = 64 << 20 };

/* Appends all of stdin. */
static int read_stdin(buf *out, foray_error *err)
{
    char block[4096];
    size_t n;
    while ((n = fread(block, 1, sizeof block, stdin)) > 0 && out->len <= PROMPT_BYTES)
        buf_append(out, block, n);
    if (ferror(stdin))
        return fail(err, FORAY_ESYSTEM, "standard input: %s", strerror(errno));
    if (out->len > PROMPT_BYTES)
        return fail(err, FORAY_ELIMIT, "standard input: a prompt has at most %d bytes", PROMPT_BYTES);
    return 0;
}

static int read_prompt(const options *o, buf *out, foray_error *err)
{
    const char *text = options_string(o, OPT_PROMPT), *file = options_string(o, OPT_FILE);
    int rc = 0;
    if (text) {
        buf_puts(out, text);
        goto check;
    }
    if (!file || strcmp(file, "-") == 0) {
        rc = read_stdin(out, err);
    } else {
        char *data;
        size_t bytes;
        if ((rc = file_read(file, PROMPT_BYTES, &data, &bytes, err)))
            return rc;
        buf_append(out, data, bytes);
        mem_free(MEM_GENERAL, data, bytes + 1);
    }
    if (!rc && out->len > 0 && out->data[out->len - 1] == '\n')
        out->data[--out->len] = 0;
check:
    if (!rc && out->failed)
        rc = fail(err, FORAY_ENOMEM, "out of memory for the prompt");
    if (!rc && out->len == 0)
        rc = fail(err, FORAY_EUSAGE, "%s: the prompt is empty (-p TEXT or -f FILE gives one)",
                  text   ? "-p"
                  : file ? file
                         : "standard input");
    return rc;
}

/* What cannot be meant together. */
static int check_options(const options *o, bool chat, foray_error *err)
{
    if (options_flag(o, OPT_RAW) && options_string(o, OPT_SYSTEM))
        return fail(err, FORAY_EUSAGE, "--system: --raw uses no chat format (leave one out)");
    if (options_flag(o, OPT_RAW) && options_string(o, OPT_CHAT_TEMPLATE))
        return fail(err, FORAY_EUSAGE, "--chat-template: --raw uses no chat format (leave one out)");
    if (options_flag(o, OPT_RAW) && options_has(o, OPT_THINKING))
        return fail(err, FORAY_EUSAGE, "--thinking: --raw uses no chat format (leave one out)");
    if (chat && options_flag(o, OPT_RAW))
        return fail(err, FORAY_EUSAGE, "--raw: a chat needs a chat format (give a prompt with -p or -f)");
    if (chat && options_flag(o, OPT_JSON))
        return fail(err, FORAY_EUSAGE, "--json: not in a chat (give a prompt with -p or -f)");
    return 0;
}

static int encode(const options *o, foray_engine *engine, const buf *text, int32_t **ids, size_t *count,
                  foray_error *err)
{
    if (options_flag(o, OPT_RAW))
        return foray_encode(engine, text->data, text->len, true, true, ids, count, err);
    if (strlen(text->data) != text->len)
        return fail(err, FORAY_EUSAGE, "the prompt has a zero byte at %zu (--raw takes any bytes)",
                    strlen(text->data));
    const char *system = options_string(o, OPT_SYSTEM);
    foray_message messages[] = { { "system", system }, { "user", text->data } };
    return foray_encode_chat(engine, system ? messages : messages + 1, system ? 2 : 1, ids, count, err);
}

/* Prints what there is to say after a generation; of one that failed, what it cost a person until then. */
static int report(const options *o, const account *a, bool failed, foray_error *err)
{
    buf text = { 0 };
    int rc = 0;
    if (failed && (options_flag(o, OPT_JSON) || a->g->tokens.len == 0))
        return 0;
    if (options_flag(o, OPT_JSON)) {
        account_json(a, &text);
        rc = commands_print(&text, err);
    } else if (!options_flag(o, OPT_QUIET)) {
        account_text(a, &text);
        fprintf(stderr, "\n%s%s%s", terminal_dim(), text.data ? text.data : "", terminal_plain());
    }
    buf_free(&text);
    return rc;
}

static int run_once(const options *o, foray_engine *engine, const buf *prompt, foray_error *err)
{
    int32_t *ids = NULL;
    size_t count = 0;
    generation g = { 0 };
    foray_request_config config;
    int rc = encode(o, engine, prompt, &ids, &count, err);
    if (rc)
        return rc;
    setup_request(o, engine, &config);
    config.prompt = ids;
    config.prompt_count = count;
    bool json = options_flag(o, OPT_JSON);
    rc = generation_run(engine, &config, json ? NULL : stdout, &g, err);
    if (!json && !rc && g.text.len > 0 && g.text.data[g.text.len - 1] != '\n') {
        buf end = { 0 };
        buf_puts(&end, "\n");
        rc = commands_print(&end, err);
        buf_free(&end);
    }
    account a = { .g = &g,
                  .drafter = foray_engine_info(engine).spec,
                  .accept = foray_engine_info(engine).accept,
                  .spec_tokens = foray_engine_info(engine).spec_tokens,
                  .sampled = config.sampling.temperature > 0 };
    foray_error ignored;
    int reported = report(o, &a, rc != 0, rc ? &ignored : err);
    rc = rc ? rc : reported;
    if (!rc && g.fault.code)
        rc = fail(err, g.fault.code, "%s", g.fault.text);
    int status = g.interrupted ? STATUS_FAILED : STATUS_OK;
    generation_free(&g);
    foray_free(ids);
    return rc ? rc : status;
}

int cmd_run(const options *o)
{
    foray_error err, ignored;
    foray_engine *engine = NULL;
    buf prompt = { 0 };
    bool chat = !options_string(o, OPT_PROMPT) && !options_string(o, OPT_FILE) && isatty(STDIN_FILENO);
    int rc = check_options(o, chat, &err);
    if (!rc && !chat)
        rc = read_prompt(o, &prompt, &err);
    if (!rc)
        rc = setup_open(o, options_flag(o, OPT_RAW) ? FORAY_TEXT : FORAY_CHAT, &engine, &err);
    if (rc)
        goto done;
    rc = chat ? chat_run(o, engine, &err) : run_once(o, engine, &prompt, &err);
    int closed = setup_close(o, engine, rc < 0 ? &ignored : &err);
    rc = rc < 0 || !closed ? rc : closed;
done:
    if (engine)
        foray_close(engine);
    buf_free(&prompt);
    return rc < 0 ? commands_fail(&err) : rc;
}
