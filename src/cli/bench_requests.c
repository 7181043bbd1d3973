/* bench_requests.c: see bench_requests.h. */
#include "cli/bench_requests.h"

#include "base/error.h"

foray_request_config bench_plain_request(const int32_t *ids, int prompt, int n)
{
    return (foray_request_config) { .prompt = ids,
                                    .prompt_count = (size_t)prompt,
                                    .max_tokens = n,
                                    .ignore_eos = true,
                                    .sampling = { .top_p = 1, .repeat_penalty = 1 },
                                    .logprobs = -1 };
}

int bench_run_requests(foray_engine *e, const foray_request_config *c, int n, bench_answer *out,
                       foray_error *err)
{
    foray_request handle[BENCH_MOST_REQUESTS];
    const foray_event *events;
    size_t count;
    int rc = 0, submitted = 0, active = 1;
    out->count = 0;
    while (submitted < n && rc == 0) {
        rc = foray_submit(e, c, &handle[submitted], err);
        submitted += rc == 0;
    }
    while (rc == 0 && active > 0) {
        active = foray_step(e, &events, &count, err);
        rc = active < 0 ? active : 0;
        for (size_t i = 0; i < count && rc == 0; i++) {
            if (events[i].finish == FORAY_FAILED)
                rc = fail(err, events[i].error.code, "%s", events[i].error.text);
            for (size_t k = 0;
                 k < events[i].count && events[i].request == handle[0] && out->count < BENCH_MOST_TOKENS; k++)
                out->tokens[out->count++] = events[i].tokens[k];
        }
    }
    if (rc == 0)
        rc = foray_request_account(e, handle[0], &out->account, err);
    for (int i = 0; i < submitted; i++)
        foray_release(e, handle[i]);
    return rc;
}
