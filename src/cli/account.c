/* account.c: rates, shares and the verdict.
 *
 * Rates of decoding leave out the first token, which the prefill delivered. The verdict compares decode time
 * with what plain decoding would have taken, decode_ns + net_saved_ns, both measured by the engine; less than
 * a hundredth either way counts as no difference.
 */
#include "cli/account.h"

#include <string.h>

static double per_second(int64_t count, int64_t ns)
{
    return ns > 0 && count > 0 ? (double)count * 1e9 / (double)ns : 0.0;
}

static double share(int64_t part, int64_t whole)
{
    return whole > 0 ? (double)part / (double)whole : 0.0;
}

static double ms(int64_t ns)
{
    return (double)ns / 1e6;
}

static void put_duration(buf *out, int64_t ns)
{
    double t = ms(ns < 0 ? -ns : ns);
    if (t >= 1000)
        buf_printf(out, "%.2f s", t / 1000);
    else
        buf_printf(out, t >= 10 ? "%.0f ms" : "%.2f ms", t);
}

static int64_t decoded(const foray_account *t)
{
    return t->completion_tokens > 1 ? t->completion_tokens - 1 : 0;
}

/* The speed of what ran, as a multiple of plain decoding's; 0: nothing was decoded. */
static double against_plain(const foray_account *t)
{
    return share(t->decode_ns + t->net_saved_ns, t->decode_ns);
}

static bool off(const account *a)
{
    return !a->drafter || strcmp(a->drafter, "off") == 0;
}

static void put_verdict(const account *a, buf *out)
{
    const foray_account *t = &a->g->account;
    double ratio = against_plain(t);
    if (off(a))
        buf_puts(out, "off");
    else if (t->decode_ns <= 0)
        buf_puts(out, "nothing was decoded");
    else if (ratio > 0.99 && ratio < 1.01)
        buf_puts(out, t->drafted == 0 ? "stayed out of the way" : "made no difference");
    else
        buf_printf(out, "%s: %.2f times the speed of plain decoding", ratio > 1 ? "paid" : "cost time",
                   ratio);
}

static void put_saved(const foray_account *t, buf *out)
{
    put_duration(out, t->net_saved_ns);
    if (t->net_saved_error_ns > 0) {
        buf_puts(out, " (± ");
        put_duration(out, t->net_saved_error_ns);
        buf_puts(out, ")");
    }
    buf_puts(out, t->net_saved_ns < 0 ? " lost" : " saved");
}

/* The phases that took time, longest first; those below a thousandth of the whole together as the rest. */
static void put_phases(const foray_account *t, buf *out)
{
    bool shown[FORAY_PHASES] = { false };
    int64_t rest = t->wall_ns;
    for (int n = 0; n < FORAY_PHASES; n++) {
        int next = -1;
        for (int p = 0; p < FORAY_PHASES; p++)
            if (!shown[p] && t->phases_ns[p] > 0 && (next < 0 || t->phases_ns[p] > t->phases_ns[next]))
                next = p;
        if (next < 0 || share(t->phases_ns[next], t->wall_ns) < 0.001)
            break;
        shown[next] = true;
        rest -= t->phases_ns[next];
        buf_printf(out, "%s%s ", n ? " · " : "", foray_phase_name(next));
        put_duration(out, t->phases_ns[next]);
        buf_printf(out, " %.1f %%", 100 * share(t->phases_ns[next], t->wall_ns));
    }
    if (rest > 0) {
        buf_puts(out, " · rest ");
        put_duration(out, rest);
    }
}

void account_text(const account *a, buf *out)
{
    const foray_account *t = &a->g->account;
    buf_printf(out, "tokens       %d of prompt in ", t->prompt_tokens);
    put_duration(out, t->prefill_ns);
    buf_printf(out, " (%.0f tok/s) · %d generated, decoding took ",
               per_second(t->prompt_tokens, t->prefill_ns), t->completion_tokens);
    put_duration(out, t->decode_ns);
    buf_printf(out, " (%.1f tok/s) · %s", per_second(decoded(t), t->decode_ns), generation_finish_name(a->g));
    if (a->sampled)
        buf_printf(out, " · seed %llu", (unsigned long long)t->seed);
    buf_puts(out, "\nspeculation  ");
    if (!off(a)) {
        buf_printf(out, "%s: %lld rounds, %.2f tokens each, %lld of %lld drafts stood · ", a->drafter,
                   (long long)t->steps, 1 + share(t->accepted, t->steps), (long long)t->accepted,
                   (long long)t->drafted);
        put_saved(t, out);
        buf_puts(out, " against plain decoding · ");
    }
    put_verdict(a, out);
    buf_puts(out, "\ntime         ");
    put_duration(out, t->wall_ns);
    buf_puts(out, ": ");
    put_phases(t, out);
    buf_puts(out, "\n");
}

void account_line(const account *a, buf *out)
{
    const foray_account *t = &a->g->account;
    buf_printf(out, "%d tokens · %.1f tok/s", t->completion_tokens, per_second(decoded(t), t->decode_ns));
    if (!off(a)) {
        buf_printf(out, " · %.2f tokens a round · ", 1 + share(t->accepted, t->steps));
        put_saved(t, out);
    }
    if (a->g->finish != FORAY_STOP)
        buf_printf(out, " · %s", generation_finish_name(a->g));
    buf_puts(out, "\n");
}

static void json_number(buf *out, const char *before, double value)
{
    buf_puts(out, before);
    buf_json_double(out, value);
}

/* llama.cpp's names; predicted_ms is all of the decode time. */
static void json_timings(const foray_account *t, buf *out)
{
    buf_printf(out, "\"timings\":{\"cache_n\":0,\"prompt_n\":%d", t->prompt_tokens);
    json_number(out, ",\"prompt_ms\":", ms(t->prefill_ns));
    json_number(
        out, ",\"prompt_per_token_ms\":", ms(t->prefill_ns) / (t->prompt_tokens > 0 ? t->prompt_tokens : 1));
    json_number(out, ",\"prompt_per_second\":", per_second(t->prompt_tokens, t->prefill_ns));
    buf_printf(out, ",\"predicted_n\":%d", t->completion_tokens);
    json_number(out, ",\"predicted_ms\":", ms(t->decode_ns));
    json_number(out,
                ",\"predicted_per_token_ms\":", ms(t->decode_ns) / (double)(decoded(t) > 0 ? decoded(t) : 1));
    json_number(out, ",\"predicted_per_second\":", per_second(decoded(t), t->decode_ns));
    buf_printf(out, ",\"draft_n\":%lld,\"draft_n_accepted\":%lld}", (long long)t->drafted,
               (long long)t->accepted);
}

/* vLLM's names, and foray's own beside them. */
static void json_speculation(const account *a, buf *out)
{
    const foray_account *t = &a->g->account;
    buf verdict = { 0 };
    put_verdict(a, &verdict);
    buf_puts(out, "\"speculative_decoding\":{\"kind\":");
    buf_json_string(out, a->drafter ? a->drafter : "off", strlen(a->drafter ? a->drafter : "off"));
    buf_printf(out, ",\"accept\":\"%s\"", a->accept);
    json_number(out, ",\"mean_acceptance_length\":", 1 + share(t->accepted, t->steps));
    json_number(out, ",\"draft_acceptance_rate\":", share(t->accepted, t->drafted));
    buf_puts(out, ",\"acceptance_histogram\":[");
    int last = GENERATION_HISTOGRAM - 1;
    while (last > 0 && a->g->delivered[last] == 0)
        last--;
    for (int i = 0; i <= last; i++)
        buf_printf(out, "%s%lld", i ? "," : "", (long long)a->g->delivered[i]);
    buf_printf(out, "],\"num_spec_steps\":%lld,\"num_draft_tokens\":%lld,\"num_accepted_draft_tokens\":%lld",
               (long long)t->steps, (long long)t->drafted, (long long)t->accepted);
    if (a->spec_tokens > 0)
        buf_printf(out, ",\"num_spec_tokens\":%d", a->spec_tokens);
    else
        buf_puts(out, ",\"num_spec_tokens\":null");
    json_number(out, ",\"net_ms_saved\":", ms(t->net_saved_ns));
    json_number(out, ",\"net_ms_saved_error\":", ms(t->net_saved_error_ns));
    json_number(out, ",\"plain_step_ms\":", ms(t->plain_step_ns));
    buf_puts(out, ",\"verdict\":");
    buf_json_string(out, verdict.data ? verdict.data : "", verdict.len);
    buf_puts(out, "}");
    buf_free(&verdict);
}

void account_json(const account *a, buf *out)
{
    const foray_account *t = &a->g->account;
    buf_puts(out, "{\"text\":");
    buf_json_string(out, a->g->text.data ? a->g->text.data : "", a->g->text.len);
    buf_puts(out, ",\"tokens\":[");
    for (size_t i = 0; i < a->g->tokens.len / sizeof(int32_t); i++) {
        int32_t id;
        memcpy(&id, a->g->tokens.data + i * sizeof id, sizeof id);
        buf_printf(out, "%s%d", i ? "," : "", id);
    }
    buf_printf(out, "],\"finish_reason\":\"%s\",", generation_finish_name(a->g));
    buf_printf(out, "\"usage\":{\"prompt_tokens\":%d,\"completion_tokens\":%d,\"total_tokens\":%d},",
               t->prompt_tokens, t->completion_tokens, t->prompt_tokens + t->completion_tokens);
    json_timings(t, out);
    buf_puts(out, ",");
    json_speculation(a, out);
    buf_printf(out, ",\"seed\":%llu,\"wall_ns\":%lld,\"phases_ns\":{", (unsigned long long)t->seed,
               (long long)t->wall_ns);
    for (int p = 0; p < FORAY_PHASES; p++)
        buf_printf(out, "%s\"%s\":%lld", p ? "," : "", foray_phase_name(p), (long long)t->phases_ns[p]);
    buf_puts(out, "}}\n");
}
