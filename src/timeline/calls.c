/* calls.c: see calls.h. */
#include "timeline/calls.h"

#include "base/mem.h"

enum { BITS_PER_SLOT = 4 };

static size_t wanted_words(const call_index *c)
{
    return c->slots * BITS_PER_SLOT / 64;
}

int calls_open(size_t wanted, size_t most, call_index *out, foray_error *err)
{
    call_index c = { .room = most, .slots = 16 };
    while (c.slots < wanted * 2)
        c.slots *= 2;
    c.slot = mem_alloc_zeroed(MEM_RECORDS, c.slots * sizeof *c.slot);
    c.wanted = mem_alloc_zeroed(MEM_RECORDS, wanted_words(&c) * sizeof *c.wanted);
    c.event = mem_alloc(MEM_RECORDS, c.room * sizeof *c.event);
    c.next = mem_alloc(MEM_RECORDS, c.room * sizeof *c.next);
    *out = c;
    if (c.slot != NULL && c.wanted != NULL && c.event != NULL && c.next != NULL)
        return FORAY_OK;
    calls_close(out);
    return fail(err, FORAY_ENOMEM, "out of memory for %zu calls", most);
}

void calls_close(call_index *c)
{
    mem_free(MEM_RECORDS, c->slot, c->slots * sizeof *c->slot);
    mem_free(MEM_RECORDS, c->wanted, wanted_words(c) * sizeof *c->wanted);
    mem_free(MEM_RECORDS, c->event, c->room * sizeof *c->event);
    mem_free(MEM_RECORDS, c->next, c->room * sizeof *c->next);
    *c = (call_index) { 0 };
}

/* Links mostly count up: those that are near lie near, so that going through them in order stays in the caches. */
static size_t place_of(const call_index *c, uint32_t link)
{
    const uint32_t near = 64;
    return (size_t)((link / near * 0x9e3779b1u >> 7) * near + link % near) & (c->slots - 1);
}

/* The slot that holds a link, else the free one where it would stand. */
static call_slot *slot_of(const call_index *c, uint32_t link)
{
    size_t at = place_of(c, link);
    while (c->slot[at].link != 0 && c->slot[at].link != link)
        at = (at + 1) & (c->slots - 1);
    return &c->slot[at];
}

static size_t bit_of(const call_index *c, uint32_t link)
{
    return (size_t)(link * 0x9e3779b97f4a7c15u >> 24) & (c->slots * BITS_PER_SLOT - 1);
}

void calls_expect(const call_index *c, uint32_t link)
{
    __builtin_prefetch(&c->slot[place_of(c, link)]);
}

void calls_want(call_index *c, uint32_t link)
{
    if (link == 0)
        return;
    size_t bit = bit_of(c, link);
    c->wanted[bit / 64] |= (uint64_t)1 << bit % 64;
    slot_of(c, link)->link = link;
}

uint32_t calls_with(const call_index *c, uint32_t link)
{
    return link != 0 ? slot_of(c, link)->call : 0;
}

/* A few calls at a time: their slots are on the way from memory while the others' are looked for. */
enum { AT_ONCE = 64 };

typedef struct {
    uint32_t event, link;
} linked_call;

static size_t enter_some(call_index *c, const linked_call *some, size_t count, size_t n)
{
    for (size_t i = 0; i < count; i++) {
        call_slot *slot = slot_of(c, some[i].link);
        if (slot->link == 0)
            continue;
        uint32_t *before = slot->call != 0 ? &c->next[slot->call - 1] : &slot->call;
        c->event[n] = some[i].event;
        c->next[n] = *before;
        *before = (uint32_t)++n;
    }
    return n;
}

void calls_enter(call_index *c, const store *s, const settled *t, uint32_t of_group)
{
    linked_call some[AT_ONCE];
    size_t n = 0, count = 0;
    for (size_t l = 0; l < t->lanes; l++) {
        size_t end = t->lane_group[l] == of_group ? t->first[l + 1] : 0;
        for (size_t i = t->first[l]; (i = settled_find(t, i, end, CALL_KINDS)) < end; i++) {
            uint32_t link = store_event(s, t->order[i])->link;
            size_t bit = bit_of(c, link);
            if (link == 0 || (c->wanted[bit / 64] >> bit % 64 & 1) == 0)
                continue;
            some[count++] = (linked_call) { t->order[i], link };
            calls_expect(c, link);
            if (count == AT_ONCE) {
                n = enter_some(c, some, count, n);
                count = 0;
            }
        }
    }
    enter_some(c, some, count, n);
}
