/* graphs.c: which phases replay captured graphs: what was asked for, what came of it, and why. See engine.h. */
#include <string.h>

#include "engine/engine.h"

/* As users write them. */
static const char *const names[GRAPH_FAMILIES] = { [GRAPH_DECODE] = "decode",
                                                   [GRAPH_VERIFY] = "verify",
                                                   [GRAPH_DRAFT] = "draft",
                                                   [GRAPH_EXTEND] = "draft-extend" };

static int parse_one(const char *list, const char *word, size_t bytes, unsigned *families, foray_error *err)
{
    for (int f = 0; f < GRAPH_FAMILIES; f++)
        if (strlen(names[f]) == bytes && memcmp(names[f], word, bytes) == 0) {
            *families |= 1u << f;
            return 0;
        }
    return fail(err, FORAY_EUSAGE, "--graph-phases %s: no phase '%.*s' (decode, verify, draft, draft-extend)",
                list, bytes < 40 ? (int)bytes : 40, word);
}

int engine_parse_phases(const char *list, unsigned *families, foray_error *err)
{
    const unsigned drafting = 1u << GRAPH_DRAFT | 1u << GRAPH_EXTEND;
    *families = 0;
    for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        int rc = parse_one(list, at, strcspn(at, ","), families, err);
        if (rc != 0)
            return rc;
    }
    if (*families & drafting && !(*families >> GRAPH_VERIFY & 1))
        return fail(
            err, FORAY_EUSAGE,
            "--graph-phases %s: graphs of a drafter need those of verify (add verify, or leave draft and "
            "draft-extend out)",
            list);
    return 0;
}

/* "on", or "off" and why. */
static void put_state(const foray_engine *e, graph_family f, buf *out)
{
    const graph_counters *c = round_graph_counters(e->round, f);
    if (strcmp(e->config.graph, "off") == 0)
        buf_puts(out, "off (--graph off)");
    else if (!(e->graph_families >> f & 1))
        buf_puts(out, "off (--graph-phases)");
    else if (f != GRAPH_DECODE && !e->drafter)
        buf_puts(out, "off (nobody drafts)");
    else if (f != GRAPH_DECODE && f != GRAPH_VERIFY && e->drafter->propose)
        buf_printf(out, "off (%s runs on the host)", e->drafter->name);
    else if (c->graphs == 0 && c->keys_refused > 0)
        buf_printf(out, "off (%s)", route_reason_name(c->key_reason));
    else if (c->keys_refused > 0)
        buf_printf(out, "on but for %d of %d sizes (%s)", c->keys_refused, c->graphs + c->keys_refused,
                   route_reason_name(c->key_reason));
    else
        buf_puts(out, "on");
}

void engine_graph_states(const foray_engine *e, buf *out)
{
    for (int f = 0; f < GRAPH_FAMILIES; f++) {
        buf_printf(out, "%s ", names[f]);
        put_state(e, (graph_family)f, out);
        buf_puts(out, ", ");
    }
    buf_puts(out, "prefill eager");
}

/* What was asked for, what came of it, and what it took. */
static void put_line(foray_engine *e)
{
    const foray_config *c = &e->config;
    buf *out = &e->graph_line;
    int captured = 0;
    int64_t ns = 0;
    for (int f = 0; f < GRAPH_FAMILIES; f++) {
        captured += round_graph_counters(e->round, (graph_family)f)->graphs;
        ns += round_graph_counters(e->round, (graph_family)f)->capture_ns;
    }
    engine_graph_states(e, out);
    buf_printf(out, "; asked for: %s",
               strcmp(c->graph_phases, ENGINE_GRAPH_PHASES) == 0 ? "all" : c->graph_phases);
    if (captured > 0)
        buf_printf(out, "; %d captured in %.1f ms, %.2f of %d MB", captured, (double)ns / 1e6,
                   (double)round_graph_bytes(e->round) / 1e6, c->graph_memory);
}

int engine_capture_graphs(foray_engine *e, foray_error *err)
{
    const foray_config *c = &e->config;
    int rc = 0;
    if (strcmp(c->graph, "off") != 0)
        rc = round_capture_usual(e->round, e->slots, c->spec_tokens, c->progress, c->progress_user, err);
    put_line(e);
    return rc == 0 && e->graph_line.failed ? fail(err, FORAY_ENOMEM, "no memory for an engine") : rc;
}
