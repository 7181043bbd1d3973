/* main.c: the program: finds the command, parses its options, calls it.
 *
 * `foray help [COMMAND]`, `foray COMMAND --help` and `foray --version` answer here; `foray help --markdown`
 * prints the tables of docs/options.md. Exit status: 0 done, 1 failed, 2 wrong usage.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "cli/commands.h"

static int (*const commands[COMMAND_COUNT])(const options *) = {
    [COMMAND_RUN] = cmd_run,     [COMMAND_SCORE] = cmd_score,     [COMMAND_BENCH] = cmd_bench,
    [COMMAND_TRACE] = cmd_trace, [COMMAND_INSPECT] = cmd_inspect, [COMMAND_MODEL] = cmd_model,
};

static const char MARKDOWN_HEAD[] =
    "# Options\n\nMade by `foray help --markdown`. Every long option has a twin in the environment: "
    "`--spec-tokens` is\n`FORAY_SPEC_TOKENS`. The command line beats the environment; there is no "
    "configuration "
    "file.\n\n";

int commands_fail(const foray_error *err)
{
    fprintf(stderr, "foray: %s\n", err->text);
    return err->code == FORAY_EUSAGE ? STATUS_USAGE : STATUS_FAILED;
}

int commands_print(const buf *text, foray_error *err)
{
    if (text->failed)
        return fail(err, FORAY_ENOMEM, "out of memory for the output");
    if (fwrite(text->data ? text->data : "", 1, text->len, stdout) != text->len || fflush(stdout))
        return fail(err, FORAY_ESYSTEM, "standard output: %s", strerror(errno));
    return 0;
}

/* Prints text and frees it; returns the exit status. */
static int answer(buf *text)
{
    foray_error err;
    int rc = commands_print(text, &err);
    buf_free(text);
    return rc ? commands_fail(&err) : STATUS_OK;
}

static int help(int argc, char **argv)
{
    buf text = { 0 };
    foray_error err;
    command c;
    if (argc == 0) {
        options_help_all(&text);
    } else if (strcmp(argv[0], "--markdown") == 0) {
        buf_puts(&text, MARKDOWN_HEAD);
        options_markdown(&text);
    } else {
        if (options_command(argv[0], &c, &err))
            return commands_fail(&err);
        options_help(c, &text);
    }
    return answer(&text);
}

static int run_command(command c, int argc, char **argv)
{
    options o;
    foray_error err;
    if (options_parse(c, argc, (const char **)argv, NULL, &o, &err))
        return commands_fail(&err);
    int status;
    if (options_flag(&o, OPT_HELP)) {
        buf text = { 0 };
        options_help(c, &text);
        status = answer(&text);
    } else {
        log_set_level(options_flag(&o, OPT_QUIET)     ? LOG_QUIET
                      : options_flag(&o, OPT_VERBOSE) ? LOG_VERBOSE
                                                      : LOG_NORMAL);
        status = commands[c](&o);
    }
    options_free(&o);
    return status;
}

int main(int argc, char **argv)
{
    signal(SIGPIPE, SIG_IGN); /* a closed pipe is an error of the write, with a line of its own */
    if (argc < 2) {
        buf text = { 0 };
        options_help_all(&text);
        fputs(text.data ? text.data : "", stderr);
        buf_free(&text);
        return STATUS_USAGE;
    }
    const char *name = argv[1];
    if (strcmp(name, "--version") == 0) {
        buf text = { 0 };
        buf_puts(&text, "foray " FORAY_VERSION "\n");
        return answer(&text);
    }
    if (strcmp(name, "help") == 0 || strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        return help(argc - 2, argv + 2);
    command c;
    foray_error err;
    if (options_command(name, &c, &err))
        return commands_fail(&err);
    return run_command(c, argc - 2, argv + 2);
}
