/* bench_requests.c: see bench_requests.h. */
#include "cli/bench_requests.h"

#include <string.h>

#include "base/error.h"
#include "base/log.h"

void bench_warn_rows(const options *o, option_id used, const char *why)
{
    static const struct {
        option_id id;
        const char *name;
    } rows[] = { { OPT_N_PROMPT, "n-prompt" }, { OPT_N_GEN, "n-gen" },
                 { OPT_N_DEPTH, "n-depth" },   { OPT_PG, "pg" },
                 { OPT_ROWS, "rows" },         { OPT_ROOFLINE, "roofline" } };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].id != used && options_has(o, rows[i].id))
            log_warning("--%s has no effect: %s", rows[i].name, why);
}

foray_request_config bench_plain_request(const int32_t *ids, int prompt, int n)
{
    return (foray_request_config) { .prompt = ids,
                                    .prompt_count = (size_t)prompt,
                                    .max_tokens = n,
                                    .ignore_eos = true,
                                    .sampling = { .top_p = 1, .repeat_penalty = 1 },
                                    .logprobs = -1 };
}

int bench_encode(foray_engine *e, const bench_prompt *prompt, int32_t *ids, int *count, foray_error *err)
{
    enum { BYTES = 64 };
    const foray_info info = foray_engine_info(e);
    foray_message message = { "user", prompt->text };
    int32_t *encoded;
    size_t n = 0;
    int rc = info.chat_format ? foray_encode_chat(e, &message, 1, &encoded, &n, err) : FORAY_EUNSUPPORTED;
    if (rc == FORAY_EUNSUPPORTED || rc == FORAY_EUSAGE) { /* there is no asking in words: any ids will do */
        n = 0;
        for (; n < BYTES && prompt->text[n]; n++)
            ids[n] = (unsigned char)prompt->text[n] * 7 % info.vocab;
        *count = (int)n;
        return 0;
    }
    if (rc != 0)
        return rc;
    if (n > BENCH_MOST_PROMPT)
        rc = fail(err, FORAY_ELIMIT, "bench: prompt %s has %zu tokens (at most %d)", prompt->id, n,
                  BENCH_MOST_PROMPT);
    else
        memcpy(ids, encoded, n * sizeof *ids);
    foray_free(encoded);
    *count = (int)n;
    return rc;
}

/* What the events of one step bring to the answers. */
static int take(const foray_event *events, size_t count, const foray_request *handle, bench_answer *out,
                int answers, foray_error *err)
{
    for (size_t i = 0; i < count; i++) {
        if (events[i].finish == FORAY_FAILED)
            return fail(err, events[i].error.code, "%s", events[i].error.text);
        int k = 0;
        while (k < answers && handle[k] != events[i].request)
            k++;
        for (size_t j = 0; k < answers && j < events[i].count && out[k].count < BENCH_MOST_TOKENS; j++)
            out[k].tokens[out[k].count++] = events[i].tokens[j];
    }
    return 0;
}

int bench_run_batch(foray_engine *e, const foray_request_config *c, int n, bench_answer *out, int answers,
                    bool (*step)(void *user), void *user, foray_error *err)
{
    foray_request handle[BENCH_MOST_REQUESTS];
    const foray_event *events;
    size_t count;
    int rc = 0, submitted = 0, active = 1;
    for (int i = 0; i < answers; i++)
        out[i].count = 0;
    for (; submitted < n && rc == 0; submitted += rc == 0)
        rc = foray_submit(e, &c[submitted], &handle[submitted], err);
    while (rc == 0 && active > 0) {
        active = foray_step(e, &events, &count, err);
        rc = active < 0 ? active : take(events, count, handle, out, answers, err);
        if (rc == 0 && step && !step(user))
            break;
    }
    for (int i = 0; i < answers && rc == 0; i++)
        rc = foray_request_account(e, handle[i], &out[i].account, err);
    for (int i = 0; i < submitted; i++)
        foray_release(e, handle[i]);
    return rc;
}

int bench_run_requests(foray_engine *e, const foray_request_config *c, int n, bench_answer *out,
                       foray_error *err)
{
    foray_request_config equal[BENCH_MOST_REQUESTS];
    for (int i = 0; i < n; i++)
        equal[i] = *c;
    return bench_run_batch(e, equal, n, out, 1, NULL, NULL, err);
}
