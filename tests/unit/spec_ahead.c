/* What the host believes of rounds in flight (ahead.h), against a device that is simulated: it accepts what it likes, texts end,
 * prompts come in chunks, drafters are left out and owe rows, passes are too small for them. Bounds hold the truth, are exact
 * when nothing is in flight, and nobody is called ready who is not. The device's rules are written down here again.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/rng.h"
#include "spec/ahead.h"
#include "support/mutate.h"

enum { SLOTS = 3, IN_FLIGHT = 2, LONGEST = 90, MOST_DRAFTS = 6 };

/* A text as the device has it. rows: of the drafter; it can draft once all that can be made are. */
typedef struct {
    sequence s;
    int rows;
    bool drafts;
} text;

typedef struct {
    plan_member m;
    int slot;
    int could, owed,
        extend_most;     /* the host's bounds: drafts to deliver, rows missing before and made behind */
    int32_t least, most; /* computed behind the round */
    bool ready;
} member;

typedef struct {
    int members, extend_launched;
    bool whole; /* one extend holds all of what the bounds say */
    member member[SLOTS];
} flight;

typedef struct {
    uint32_t seed, drawn;
    drafter d;
    bool chains; /* false: a drafter of the host */
    text text[SLOTS];
    ahead ahead[SLOTS];
    flight flight[IN_FLIGHT];
    int launched, ran, retired;
    int drafted, extended, cut, ended; /* what has been seen, so that it is not nothing */
} world;

static int draw(world *w, int below)
{
    return (int)(rng_philox(w->drawn++, w->seed, 0x61686561, 0, 3, 0).word[0] % (uint32_t)below);
}

static int smaller(int a, int b)
{
    return a < b ? a : b;
}

static void new_text(world *w, int slot)
{
    text *t = &w->text[slot];
    *t = (text) { 0 };
    t->s.slot = slot;
    t->s.prompt = t->s.count = 1 + draw(w, 40);
    t->s.limit = t->s.prompt + 1 + draw(w, LONGEST - t->s.prompt);
    if (draw(w, 3) == 0) { /* it goes on at an earlier place, of which the drafter knows nothing */
        t->s.count += draw(w, t->s.limit - t->s.prompt);
        t->s.computed = t->s.count - 1;
    }
    ahead_open(&w->ahead[slot]);
}

/* ---- the device ---- */

/* Rows that can be made of what stands. */
static int known(const world *w, const text *t)
{
    return t->s.computed + w->d.lead;
}

/* The row at which extend begins: where it stopped, or a window before the first row that anybody will ask for. */
static int begins(const world *w, const text *t)
{
    const int asked = t->s.computed > t->s.prompt ? t->s.computed : t->s.prompt;
    const int back = asked > w->d.window ? asked - w->d.window : 0;
    return w->d.window > 0 && back > t->rows ? back : t->rows;
}

/* Accepts any number of drafts, and the text may end. */
static void verify(world *w, member *x)
{
    text *t = &w->text[x->slot];
    plan_member *m = &x->m;
    const int room = t->s.limit - t->s.count - 1;
    const bool ends = m->chunk == t->s.count - t->s.computed;
    m->committed = 0;
    if (t->s.finished == SEQUENCE_RUNS && ends) {
        const int drafts = w->chains && !t->drafts ? 0 : smaller(m->draft_room, room);
        assert_true(room <= x->could);
        m->committed = 1 + (drafts > 0 ? draw(w, drafts + 1) : 0);
        if (t->s.count + m->committed == t->s.limit)
            t->s.finished = SEQUENCE_LENGTH;
        else if (draw(w, 25) == 0)
            t->s.finished = SEQUENCE_END_ID;
        t->s.count += m->committed;
        t->s.computed = t->s.count - 1;
        w->drafted += drafts;
    } else if (t->s.finished == SEQUENCE_RUNS)
        t->s.computed += m->chunk;
    m->count = t->s.count;
    m->computed = t->s.computed;
    m->finished = t->s.finished;
}

static void extend(world *w, flight *f)
{
    int left = f->extend_launched;
    for (int i = 0; i < f->members; i++) {
        member *x = &f->member[i];
        text *t = &w->text[x->slot];
        if (!x->m.extend || t->s.finished != SEQUENCE_RUNS)
            continue;
        const int from = begins(w, t), needed = known(w, t) > from ? known(w, t) - from : 0;
        const int rows = smaller(needed, left);
        if (f->whole)
            assert_true(needed <= x->extend_most && needed <= left);
        t->rows = from + rows;
        left -= rows;
        t->drafts = t->s.count - t->s.computed == 1 && t->rows == known(w, t);
        w->extended += rows;
        w->cut += rows < needed;
    }
}

/* The next round that is in flight runs. */
static void run(world *w)
{
    flight *f = &w->flight[w->ran++ % IN_FLIGHT];
    for (int i = 0; i < f->members; i++) {
        const text *t = &w->text[f->member[i].slot];
        const int missing = known(w, t) - begins(w, t);
        if (w->chains && t->s.finished == SEQUENCE_RUNS)
            assert_true(missing <= f->member[i].owed);
    }
    for (int i = 0; i < f->members; i++) {
        member *x = &f->member[i];
        text *t = &w->text[x->slot];
        const bool ran = t->s.finished == SEQUENCE_RUNS;
        const int before = t->s.computed;
        verify(w, x);
        t->drafts = false;
        if (t->s.computed > x->most || t->s.computed - before > x->m.most)
            fail_msg("at most %d, %d more: now %d, %d more", x->most, x->m.most, t->s.computed,
                     t->s.computed - before);
        if (t->s.finished == SEQUENCE_RUNS)
            assert_true(t->s.computed >= x->least);
        if (ran && t->s.finished == SEQUENCE_RUNS)
            assert_true(t->s.computed - before >= x->m.least);
    }
    extend(w, f);
    for (int i = 0; i < f->members; i++) {
        const text *t = &w->text[f->member[i].slot];
        assert_true(!f->member[i].ready || t->drafts || t->s.finished != SEQUENCE_RUNS);
    }
}

/* ---- the host ---- */

/* Of a slot whose text may go on: how it takes part. */
static void add(world *w, flight *f, int slot)
{
    member *x = &f->member[f->members];
    ahead *a = &w->ahead[slot];
    const drafter *d = w->chains ? &w->d : NULL;
    sequence *s = &w->text[slot].s;
    ahead_look(a, s);
    if (a->in_flight == 0 && (a->least != s->computed || a->most != s->computed))
        fail_msg("%d … %d, and it is %d", a->least, a->most, s->computed);
    if (a->least >= s->limit - 1)
        return;
    f->members++;
    const int pending = s->prompt - a->least;
    *x = (member) { .slot = slot, .m = { .sequence = s, .chunk = pending < 2 ? 1 : 1 + draw(w, pending) } };
    x->could = ahead_draft_room(a, s);
    if (pending <= 0 && (!d || a->ready)) /* nobody drafts while a prompt is read */
        x->m.draft_room = smaller(draw(w, MOST_DRAFTS + 1), x->could);
    x->owed = d ? ahead_owed(a, d, s) : 0;
    ahead_growth(a, &x->m);
}

static void launch(world *w)
{
    flight *f = &w->flight[w->launched % IN_FLIGHT];
    const drafter *d = w->chains ? &w->d : NULL;
    int sum = 0;
    *f = (flight) { 0 };
    for (int slot = 0; slot < SLOTS; slot++)
        if (draw(w, 5))
            add(w, f, slot);
    if (f->members == 0)
        return;
    const bool paused = draw(w, 4) == 0;
    for (int i = 0; i < f->members && d && !paused; i++) {
        member *x = &f->member[i];
        x->extend_most = ahead_extends(&w->ahead[x->slot], d, &x->m);
        x->m.extend = x->extend_most > 0 && sum < d->most_extended;
        sum += x->m.extend ? x->extend_most : 0;
    }
    f->whole = sum <= w->d.most_extended;
    f->extend_launched = smaller(plan_tier(sum), w->d.most_extended);
    int room = d ? d->most_extended : 0;
    for (int i = 0; i < f->members; i++) {
        member *x = &f->member[i];
        ahead *a = &w->ahead[x->slot];
        const int flying = a->in_flight;
        ahead_launch(a, d, &x->m, x->m.extend ? room : 0);
        room -= x->m.extend ? smaller(x->extend_most, room) : 0;
        x->least = a->least;
        x->most = a->most;
        x->ready = a->ready;
        assert_int_equal(a->in_flight, flying + 1);
        assert_true(x->most <= x->m.sequence->limit - 1);
    }
    w->launched++;
}

static void retire(world *w)
{
    flight *f = &w->flight[w->retired++ % IN_FLIGHT];
    const flight *next = w->launched > w->retired ? &w->flight[w->retired % IN_FLIGHT] : NULL;
    for (int i = 0; i < f->members; i++) {
        const member *x = &f->member[i];
        const plan_member *later = NULL;
        for (int k = 0; next && k < next->members; k++)
            if (next->member[k].slot == x->slot)
                later = &next->member[k].m;
        ahead *a = &w->ahead[x->slot];
        ahead_retire(a, &x->m, later);
        if (a->in_flight > 0)
            continue;
        assert_int_equal(a->least, x->m.computed);
        assert_int_equal(a->most, x->m.computed);
        if (w->text[x->slot].s.finished != SEQUENCE_RUNS) {
            w->ended++;
            new_text(w, x->slot);
        }
    }
}

static void live(world *w, int steps)
{
    for (int slot = 0; slot < SLOTS; slot++)
        new_text(w, slot);
    for (int i = 0; i < steps; i++) {
        const int any = draw(w, 3);
        if (any == 0 && w->launched - w->retired < IN_FLIGHT)
            launch(w);
        else if (any == 1 && w->ran < w->launched)
            run(w);
        else if (any == 2 && w->retired < w->ran)
            retire(w);
    }
}

static void bounds_hold_what_the_device_does(void **state)
{
    (void)state;
    static world w;
    static const struct {
        bool chains;
        int lead, window, most_extended;
    } drafters[] = { { false, 0, 0, 1 }, { true, 0, 8, 64 }, { true, 1, 0, 64 },
                     { true, 1, 0, 8 },  { true, 0, 8, 16 }, { true, 0, 24, 128 } };
    const uint32_t seeds = mutate_count(40, 2000);
    for (size_t k = 0; k < sizeof drafters / sizeof *drafters; k++) {
        int drafted = 0, extended = 0, cut = 0, ended = 0;
        for (uint32_t seed = 0; seed < seeds; seed++) {
            w = (world) { .seed = seed,
                          .chains = drafters[k].chains,
                          .d = { .lead = drafters[k].lead,
                                 .window = drafters[k].window,
                                 .most_extended = drafters[k].most_extended } };
            live(&w, 600);
            drafted += w.drafted;
            extended += w.extended;
            cut += w.cut;
            ended += w.ended;
        }
        print_message("%d drafts, %d rows, %d cut, %d ends\n", drafted, extended, cut, ended);
        assert_true(drafted > (int)seeds * 10 && ended > (int)seeds);
        assert_true(!w.chains || extended > (int)seeds * 20);
        assert_true(w.d.most_extended > 16 || !w.chains || cut > 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bounds_hold_what_the_device_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
