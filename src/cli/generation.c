/* generation.c: the loop around foray_step for a single request.
 *
 * The account is asked for before the request is released, and also after an interrupt or an error: what ran is
 * counted. An error of a step (a steps file that cannot be written) ends nothing: it is reported at the end.
 */
#include "cli/generation.h"

#include <errno.h>
#include <string.h>

#include "cli/terminal.h"
#include "text/utf8_stream.h"

/* stream NULL: nothing is written. */
static int write_text(FILE *stream, const char *text, size_t bytes, foray_error *err)
{
    if (stream && bytes > 0 && (fwrite(text, 1, bytes, stream) != bytes || fflush(stream)))
        return fail(err, FORAY_ESYSTEM, "standard output: %s", strerror(errno));
    return 0;
}

/* Takes in what a step delivered to the request. */
static int take(generation *g, const foray_event *event, FILE *stream, foray_error *err)
{
    if (event->finish == FORAY_FAILED)
        return fail(err, event->error.code, "%s", event->error.text);
    /* The first delivery ends the prefill: no round of speculation made it. */
    if (event->count > 0 && g->tokens.len > 0) {
        size_t n = event->count - 1;
        g->delivered[n < GENERATION_HISTOGRAM ? n : GENERATION_HISTOGRAM - 1]++;
    }
    buf_append(&g->tokens, event->tokens, event->count * sizeof(int32_t));
    buf_append(&g->text, event->text, event->text_bytes);
    g->finish = event->finish;
    if (g->tokens.failed || g->text.failed)
        return fail(err, FORAY_ENOMEM, "out of memory for the text");
    return write_text(stream, event->text, event->text_bytes, err);
}

/* Ends an interrupted text: what was held back in case a stop string or a character was to come stands now, so that
 * text and ids say the same. */
static int take_held(foray_engine *engine, generation *g, FILE *stream, foray_error *err)
{
    utf8_stream whole;
    buf text = { 0 };
    utf8_stream_init(&whole, NULL, 0);
    for (size_t i = 0; i < g->tokens.len; i += sizeof(int32_t)) {
        int32_t id;
        size_t bytes;
        memcpy(&id, g->tokens.data + i, sizeof id);
        const char *part = foray_token_bytes(engine, id, &bytes);
        utf8_stream_feed(&whole, part, bytes, &text);
    }
    utf8_stream_finish(&whole, &text);
    utf8_stream_free(&whole);
    int rc = text.failed ? fail(err, FORAY_ENOMEM, "out of memory for the text") : 0;
    if (rc == 0 && text.len > g->text.len)
        rc = write_text(stream, text.data + g->text.len, text.len - g->text.len, err);
    if (rc == 0) {
        buf_free(&g->text);
        g->text = text;
    } else {
        buf_free(&text);
    }
    return rc;
}

/* One step. A step that fails still delivers: its error is kept in g and the request goes on. */
static int step(foray_engine *engine, foray_request request, FILE *stream, generation *g, foray_error *err)
{
    const foray_event *events = NULL;
    foray_error fault = { 0 };
    size_t count = 0;
    int rc = 0, active = foray_step(engine, &events, &count, &fault);
    for (size_t i = 0; i < count && rc == 0; i++)
        if (events[i].request == request)
            rc = take(g, &events[i], stream, err);
    if (active < 0) {
        /* Failing twice without a delivery between, it will not end by itself. */
        bool again = g->fault.code && count == 0;
        g->fault = g->fault.code ? g->fault : fault;
        if (rc == 0 && again)
            rc = fail(err, fault.code, "%s", fault.text);
    }
    return rc;
}

int generation_run(foray_engine *engine, const foray_request_config *config, FILE *stream, generation *g,
                   foray_error *err)
{
    foray_request request;
    int rc = foray_submit(engine, config, &request, err);
    if (rc)
        return rc;
    terminal_interrupt_arm();
    while (rc == 0 && g->finish == FORAY_RUNNING && !g->interrupted) {
        if (terminal_interrupted())
            g->interrupted = true;
        else
            rc = step(engine, request, stream, g, err);
    }
    if (g->interrupted)
        rc = take_held(engine, g, stream, err);
    int asked = foray_request_account(engine, request, &g->account, rc ? NULL : err);
    terminal_interrupt_disarm();
    foray_release(engine, request);
    return rc ? rc : asked;
}

void generation_free(generation *g)
{
    buf_free(&g->text);
    buf_free(&g->tokens);
}

const char *generation_finish_name(const generation *g)
{
    switch (g->finish) {
    case FORAY_STOP:
        return "stop";
    case FORAY_LENGTH:
        return "length";
    case FORAY_RUNNING:
        return "interrupted";
    case FORAY_FAILED:
        break;
    }
    return "failed";
}
