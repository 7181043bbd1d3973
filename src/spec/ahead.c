/* ahead.c: see ahead.h. */
#include "spec/ahead.h"

static int smaller(int a, int b)
{
    return a < b ? a : b;
}

static int larger(int a, int b)
{
    return a > b ? a : b;
}

void ahead_open(ahead *a)
{
    *a = (ahead) { 0 };
}

void ahead_look(ahead *a, const sequence *s)
{
    if (a->in_flight == 0)
        a->least = a->most = s->computed;
}

int ahead_draft_room(const ahead *a, const sequence *s)
{
    return larger(s->limit - (a->least + 1) - 1, 0);
}

void ahead_growth(const ahead *a, plan_member *m)
{
    const sequence *s = m->sequence;
    m->least = m->most = m->chunk;
    if (a->least >= s->prompt) /* the newest token never gets its entry in the round that brings it */
        m->most = smaller(m->chunk + m->draft_room, larger(s->limit - 1 - a->least, m->chunk));
}

int ahead_owed(const ahead *a, const drafter *d, const sequence *s)
{
    return a->ready ? 0
                    : larger(a->most + d->lead - drafter_rows_from(d, s->prompt, a->least, a->done_least), 0);
}

int ahead_extends(const ahead *a, const drafter *d, const plan_member *m)
{
    int from = drafter_rows_from(d, m->sequence->prompt, a->least + m->least, a->done_least);
    int rows = larger(a->most + m->most + d->lead - from, 0);
    return a->ready ? smaller(rows, m->most) : rows;
}

void ahead_launch(ahead *a, const drafter *d, const plan_member *m, int extend_room)
{
    const sequence *s = m->sequence;
    const int rows = d && extend_room > 0 ? ahead_extends(a, d, m) : 0;
    if (d && a->ready)
        a->done_least = larger(a->done_least, a->least + d->lead);
    a->in_flight++;
    a->least += m->least;
    a->most = smaller(a->most + m->most, s->limit - 1);
    a->ready = false;
    if (!d || extend_room == 0)
        return;
    int from = drafter_rows_from(d, s->prompt, a->least, a->done_least), known = a->least + d->lead;
    if (rows <= extend_room) {
        a->done_least = larger(from, known);
        a->ready = a->least >= s->prompt;
    } else {
        a->done_least = larger(from, smaller(from + extend_room, known));
    }
}

void ahead_retire(ahead *a, const plan_member *m, const plan_member *later)
{
    a->in_flight--;
    a->least = a->most = m->computed;
    if (later && m->finished == SEQUENCE_RUNS) {
        a->least += later->least;
        a->most = smaller(a->most + later->most, m->sequence->limit - 1);
    }
}
