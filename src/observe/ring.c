/* ring.c: a ring of slots, each guarded by its own sequence number.
 *
 *     slot of ticket t = t mod capacity      sequence 2t+1: being written      2t+2: holds record t
 *
 * A record travels as words of atomics, so a reader that meets a writer reads a mixture, sees the sequence
 * number change and throws it away; there is no data race in the language's sense either. Threads: ring.h.
 */
#include "observe/ring.h"

#include <stdatomic.h>
#include <string.h>

#include "base/mem.h"

enum { RECORD_WORDS = (sizeof(task_record) + 7) / 8 };
static const size_t CAPACITY_MAX = (size_t)1 << 26;

typedef struct {
    _Atomic uint64_t sequence;
    _Atomic uint64_t word[RECORD_WORDS];
} slot;

struct ring {
    size_t capacity;                    /* a power of two */
    slot *slots;                        /* [capacity] */
    _Alignas(64) _Atomic uint64_t head; /* the next ticket */
};

int ring_create(size_t capacity, ring **out, foray_error *err)
{
    if (capacity > CAPACITY_MAX)
        return fail(err, FORAY_ELIMIT, "record ring: %zu records, the most is %zu", capacity, CAPACITY_MAX);
    size_t rounded = 1;
    while (rounded < capacity)
        rounded *= 2;
    ring *r = mem_alloc_zeroed(MEM_RECORDS, sizeof *r);
    slot *slots = mem_alloc_zeroed(MEM_RECORDS, rounded * sizeof *slots);
    if (r == NULL || slots == NULL) {
        mem_free(MEM_RECORDS, slots, rounded * sizeof *slots);
        mem_free(MEM_RECORDS, r, sizeof *r);
        return fail(err, FORAY_ENOMEM, "record ring: out of memory for %zu records", rounded);
    }
    r->capacity = rounded;
    r->slots = slots;
    *out = r;
    return FORAY_OK;
}

void ring_free(ring *r)
{
    if (r == NULL)
        return;
    mem_free(MEM_RECORDS, r->slots, r->capacity * sizeof *r->slots);
    mem_free(MEM_RECORDS, r, sizeof *r);
}

size_t ring_capacity(const ring *r)
{
    return r->capacity;
}

void ring_write(ring *r, const task_record *t)
{
    uint64_t words[RECORD_WORDS] = { 0 };
    memcpy(words, t, sizeof *t);
    uint64_t ticket = atomic_fetch_add_explicit(&r->head, 1, memory_order_relaxed);
    slot *s = &r->slots[ticket & (r->capacity - 1)];
    uint64_t before = atomic_load_explicit(&s->sequence, memory_order_relaxed);
    /* Odd: a writer of another lap is inside. Larger: this one was overtaken. Neither may be waited for. */
    do
        if ((before & 1) != 0 || before > 2 * ticket)
            return;
    while (!atomic_compare_exchange_weak_explicit(&s->sequence, &before, 2 * ticket + 1, memory_order_acq_rel,
                                                  memory_order_relaxed));
    for (int i = 0; i < RECORD_WORDS; i++)
        atomic_store_explicit(&s->word[i], words[i], memory_order_release);
    atomic_store_explicit(&s->sequence, 2 * ticket + 2, memory_order_release);
    /* The next slot was last touched a lap ago: by the time that it is wanted it is in a cache. */
    const char *next = (const char *)&r->slots[(ticket + 1) & (r->capacity - 1)];
    __builtin_prefetch(next, 1);
    __builtin_prefetch(next + sizeof *s - 1, 1);
}

/* Copies record `ticket` out, if it is there and whole. */
static bool copy_out(slot *s, uint64_t ticket, task_record *out)
{
    uint64_t words[RECORD_WORDS];
    if (atomic_load_explicit(&s->sequence, memory_order_acquire) != 2 * ticket + 2)
        return false;
    for (int i = 0; i < RECORD_WORDS; i++)
        words[i] = atomic_load_explicit(&s->word[i], memory_order_acquire);
    if (atomic_load_explicit(&s->sequence, memory_order_relaxed) != 2 * ticket + 2)
        return false;
    memcpy(out, words, sizeof *out);
    return true;
}

size_t ring_read(const ring *r, task_record *out, size_t max, uint64_t *lost)
{
    uint64_t head = atomic_load_explicit(&r->head, memory_order_acquire);
    uint64_t window = head < r->capacity ? head : r->capacity;
    size_t count = 0, present = 0; /* newest first: out fills from its end */
    for (uint64_t back = 1; back <= window; back++) {
        uint64_t ticket = head - back;
        slot *s = &r->slots[ticket & (r->capacity - 1)];
        if (count < max) {
            bool whole = copy_out(s, ticket, &out[max - 1 - count]);
            count += whole;
            present += whole;
        } else {
            present += atomic_load_explicit(&s->sequence, memory_order_relaxed) == 2 * ticket + 2;
        }
    }
    if (count < max)
        memmove(out, out + (max - count), count * sizeof *out);
    *lost = head - present;
    return count;
}
