/* session.c: read, settle, analyse. */
#include "timeline/session.h"

#include "base/mem.h"
#include "timeline/beside.h"
#include "timeline/ranks.h"
#include "timeline/records.h"

int session_open(const char *rules_name, const char *rules_text, session *out, foray_error *err)
{
    session s = { 0 };
    int rc = rules_open(rules_name, rules_text, &s.rules, err);
    if (rc != FORAY_OK)
        return rc;
    trace_input_init(&s.input);
    *out = s;
    return FORAY_OK;
}

int session_add(session *s, const char *path, trace_format wanted, foray_error *err)
{
    return trace_input_read(&s->input, path, wanted, err);
}

int session_add_text(session *s, const char *name, const char *text, size_t bytes, foray_error *err)
{
    source *from;
    int rc = source_memory(name, text, bytes, &from, err);
    if (rc != FORAY_OK)
        return rc;
    rc = read_chrome(&s->input.events, from, name, err);
    source_close(from);
    return rc;
}

/* The host's threads, found beside the task graphs. */
typedef struct {
    const session *s;
    host_side found;
    int rc;
    foray_error err;
} host_search;

static void find_host_side(void *user)
{
    host_search *h = user;
    h->rc = host_side_find(&h->s->input.events, &h->s->groups, &h->s->rules, &h->found, &h->err);
}

static int analyse_groups(session *s, const host_side *h, foray_error *err)
{
    int rc = FORAY_OK;
    for (size_t i = 0; i < s->count && rc == FORAY_OK; i++)
        rc = analyse_steps(&s->analyses[i], &s->rules, h, err);
    if (rc ==
        FORAY_OK) /* before the paths: a collective's wait for its last rank is known from all of them */
        rc = ranks_align(s->analyses, s->count, err);
    for (size_t i = 0; i < s->count && rc == FORAY_OK; i++)
        rc = analyse_path(&s->analyses[i], &s->rules, h, &s->input.steps, err);
    return rc == FORAY_OK ? ranks_charge(s->analyses, s->count, err) : rc;
}

static int analyse_profile(session *s, foray_error *err)
{
    host_search host = { .s = s };
    beside search;
    int rc = FORAY_OK;
    beside_start(&search, beside_worth(s->input.events.count), find_host_side, &host);
    for (; s->made < s->count && rc == FORAY_OK; s->made += rc == FORAY_OK)
        rc = task_graph_build(&s->input.events, &s->groups, (uint32_t)s->made, &s->analyses[s->made].graph,
                              err);
    beside_wait(&search);
    if (rc == FORAY_OK && host.rc != FORAY_OK) {
        *err = host.err;
        rc = host.rc;
    }
    if (rc == FORAY_OK)
        rc = analyse_groups(s, &host.found, err);
    host_side_free(&host.found);
    return rc;
}

/* Step records without a profile. */
static int analyse_records(session *s, foray_error *err)
{
    int rank = s->input.steps.entries[0].rank, rc = settle_add_group(&s->groups, rank, err);
    if (rc == FORAY_OK)
        rc = records_analyse(&s->input.events, &s->groups, &s->input.steps, rank, &s->analyses[0], err);
    s->made += rc == FORAY_OK;
    return rc;
}

int session_finish(session *s, foray_error *err)
{
    const side_files *sides = &s->input.sides;
    if (s->input.events.part_count == 0 && s->input.steps.count == 0 && sides->count > 0)
        return fail(err, FORAY_EFILE,
                    "%s: a companion of a trace, which says nothing alone (give the folder that holds both)",
                    sides->files[0].path);
    side_apply(sides, &s->input.events);
    int rc = settle(&s->input.events, &s->rules, &s->groups, err);
    if (rc != FORAY_OK)
        return rc;
    bool alone = s->input.events.part_count == 0 && s->input.steps.count > 0;
    s->count = alone ? 1 : s->groups.group_count;
    s->analyses = mem_alloc_zeroed(MEM_RECORDS, s->count * sizeof *s->analyses);
    if (s->analyses == NULL)
        return fail(err, FORAY_ENOMEM, "out of memory for %zu ranks", s->count);
    return alone ? analyse_records(s, err) : analyse_profile(s, err);
}

void session_free(session *s)
{
    for (size_t i = 0; i < s->made; i++)
        analysis_free(&s->analyses[i]);
    mem_free(MEM_RECORDS, s->analyses, s->count * sizeof *s->analyses);
    settle_free(&s->groups);
    rules_free(&s->rules);
    trace_input_free(&s->input);
    *s = (session) { 0 };
}
