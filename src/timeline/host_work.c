/* host_work.c: see host_work.h. */
#include "timeline/host_work.h"

#include <string.h>

#include "base/mem.h"
#include "timeline/search.h"

int host_work_open(store *s, const task_graph *g, const rules *r, const host_side *h, host_work *out,
                   foray_error *err)
{
    static const char UNTRACED[] = "nothing traced", QUEUE[] = "operator queue";
    host_work w = { .g = g, .r = r, .h = h };
    int rc = FORAY_OK;
    w.word_name = mem_alloc_zeroed(MEM_RECORDS, (r->count + 1) * sizeof *w.word_name);
    for (size_t i = 0; w.word_name != NULL && i < r->count; i++)
        if (r->rules[i].kind == RULE_HOST)
            w.word_name[i] = names_add(&s->names, r->rules[i].words, strlen(r->rules[i].words));
    w.untraced = names_add(&s->names, UNTRACED, sizeof UNTRACED - 1);
    w.queue_words = names_add(&s->names, QUEUE, sizeof QUEUE - 1);
    w.names = s->names.count;
    w.words_of = mem_alloc_zeroed(MEM_RECORDS, w.names * sizeof *w.words_of);
    if (w.word_name == NULL || w.words_of == NULL || s->names.failed)
        rc = fail(err, FORAY_ENOMEM, "out of memory for the path");
    *out = w;
    if (rc != FORAY_OK)
        host_work_close(out);
    return rc;
}

int host_work_twin(const host_work *of, host_work *twin, foray_error *err)
{
    *twin = *of;
    twin->is_twin = true;
    twin->words_of = mem_alloc_zeroed(MEM_RECORDS, of->names * sizeof *twin->words_of);
    return twin->words_of != NULL ? FORAY_OK : fail(err, FORAY_ENOMEM, "out of memory for the path");
}

void host_work_close(host_work *w)
{
    if (w->g == NULL)
        return;
    if (!w->is_twin)
        mem_free(MEM_RECORDS, w->word_name, (w->r->count + 1) * sizeof *w->word_name);
    mem_free(MEM_RECORDS, w->words_of, w->names * sizeof *w->words_of);
    *w = (host_work) { 0 };
}

static uint32_t words_for(host_work *w, uint32_t name)
{
    if (w->words_of[name] == 0) {
        w->words_of[name] = 1;
        for (size_t i = 0; i < w->r->count && w->words_of[name] == 1; i++)
            if (w->r->rules[i].kind == RULE_HOST &&
                names_match(w->r->rules[i].pattern, names_text(&w->g->s->names, name)))
                w->words_of[name] = (uint16_t)(i + 2);
    }
    return w->words_of[name] == 1 ? 0 : w->word_name[w->words_of[name] - 2];
}

static bool starts_before(const void *user, size_t place, int64_t ns)
{
    const task_graph *g = user;
    return store_event(g->s, g->t->order[place])->start < ns;
}

size_t host_work_place(const host_work *w, size_t l, int64_t ns, size_t near)
{
    return search_near(w->g->t->first[l], w->g->t->first[l + 1], near, starts_before, w->g, ns);
}

int64_t host_work_piece(host_work *w, size_t l, size_t at, int64_t from, int64_t to, uint32_t *words)
{
    enum { LOOK_BACK = 160 };
    const task_graph *g = w->g;
    size_t first = g->t->first[l], least = at - first > LOOK_BACK ? at - LOOK_BACK : first;
    int64_t since = from, plain_since = from;
    uint32_t plain = 0;
    *words = 0;
    for (size_t i = at; i > least && *words == 0;) {
        if (i % HOST_REACH == 0) {
            int64_t before = i < g->t->first[l + 1] ? w->h->reach[i / HOST_REACH] : INT64_MAX;
            if (before < to) { /* nothing from before this place reaches up to here */
                since = before > since ? before : since;
                break;
            }
            int64_t inside = w->h->inside[i / HOST_REACH - 1];
            if (i >= least + HOST_REACH && inside < to) {
                since = inside > since ? inside : since;
                i -= HOST_REACH;
                continue;
            }
        }
        const event *e = store_event(g->s, g->t->order[--i]);
        if (e->kind == EVENT_OTHER)
            continue;
        int64_t end = event_end(e);
        if (end < to) { /* over before: what comes behind it began there at the earliest */
            since = end > since ? end : since;
            continue;
        }
        uint32_t found = words_for(w, e->name);
        if (found != 0) {
            *words = found;
            if (e->start > since)
                since = e->start;
        } else if (plain == 0) {
            plain = e->name;
            plain_since = e->start;
        }
    }
    if (*words == 0 && plain != 0) {
        *words = plain;
        since = plain_since > since ? plain_since : since;
    } else if (*words == 0) {
        *words = w->untraced;
    }
    return since < to ? since : from;
}
