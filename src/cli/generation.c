/* generation.c: the loop around foray_step for a single request.
 *
 * The account is asked for before the request is released, and also after an interrupt: what ran is counted.
 */
#include "cli/generation.h"

#include <errno.h>
#include <string.h>

#include "cli/terminal.h"

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
    if (stream && event->text_bytes > 0 &&
        (fwrite(event->text, 1, event->text_bytes, stream) != event->text_bytes || fflush(stream)))
        return fail(err, FORAY_ESYSTEM, "standard output: %s", strerror(errno));
    return 0;
}

int generation_run(foray_engine *engine, const foray_request_config *config, FILE *stream, generation *g,
                   foray_error *err)
{
    foray_request request;
    int rc = foray_submit(engine, config, &request, err);
    if (rc)
        return rc;
    terminal_interrupt_arm();
    while (g->finish == FORAY_RUNNING) {
        if (terminal_interrupted()) {
            g->interrupted = true;
            break;
        }
        const foray_event *events;
        size_t count;
        rc = foray_step(engine, &events, &count, err);
        if (rc < 0)
            goto done;
        for (size_t i = 0; i < count; i++)
            if (events[i].request == request && (rc = take(g, &events[i], stream, err)) < 0)
                goto done;
    }
    rc = foray_request_account(engine, request, &g->account, err);
done:
    terminal_interrupt_disarm();
    foray_release(engine, request);
    return rc;
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
