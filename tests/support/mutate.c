/* mutate.c: every choice is a word of Philox at (number, choice), so that a failing number can be run alone. */
#include "support/mutate.h"

#include <stdlib.h>
#include <string.h>

#include "base/rng.h"

typedef struct {
    uint64_t seed;
    uint32_t number, drawn;
    uint8_t *bytes;
    size_t count, hot;
} mutation;

static uint32_t draw(mutation *m, uint32_t below)
{
    rng_block b =
        rng_philox(m->number, m->drawn++, 0x66757a7a, 0, (uint32_t)m->seed, (uint32_t)(m->seed >> 32));
    return below ? b.word[0] % below : b.word[0];
}

static size_t place(mutation *m)
{
    size_t within = m->hot && m->hot < m->count && draw(m, 8) ? m->hot : m->count;
    return draw(m, (uint32_t)within);
}

static uint64_t awkward(mutation *m)
{
    uint64_t power = 1ull << draw(m, 64);
    switch (draw(m, 6)) {
    case 0:
        return 0;
    case 1:
        return UINT64_MAX - draw(m, 40);
    case 2:
        return power;
    case 3:
        return power - 1;
    case 4:
        return power + draw(m, 3);
    default:
        return draw(m, 0);
    }
}

static void overwrite(mutation *m, size_t bytes)
{
    size_t at = place(m);
    uint64_t value = awkward(m);
    for (size_t i = 0; i < bytes && at + i < m->count; i++)
        m->bytes[at + i] = (uint8_t)(value >> 8 * i);
}

/* Moves the tail so that a piece disappears (delta < 0) or is there twice. */
static void shift(mutation *m, size_t at, size_t piece, int delta)
{
    if (piece > m->count - at)
        piece = m->count - at;
    if (delta < 0) {
        memmove(m->bytes + at, m->bytes + at + piece, m->count - at - piece);
        m->count -= piece;
    } else {
        memmove(m->bytes + at + piece, m->bytes + at, m->count - at);
        m->count += piece;
    }
}

size_t mutate(uint64_t seed, uint32_t number, const uint8_t *good, size_t count, size_t hot, uint8_t *out)
{
    mutation m = { .seed = seed, .number = number, .bytes = out, .count = count, .hot = hot };
    memcpy(out, good, count);
    for (uint32_t changes = 1 + draw(&m, 3); changes > 0 && m.count > 0; changes--) {
        switch (draw(&m, 8)) {
        case 0:
            m.bytes[place(&m)] ^= (uint8_t)(1u << draw(&m, 8));
            break;
        case 1:
            overwrite(&m, 1);
            break;
        case 2:
            overwrite(&m, 4);
            break;
        case 3:
        case 4:
            overwrite(&m, 8);
            break;
        case 5:
            shift(&m, place(&m), 1 + draw(&m, 12), -1);
            break;
        case 6:
            shift(&m, place(&m), 1 + draw(&m, 12), 1); /* three changes add 36 bytes at most */
            break;
        default:
            if (draw(&m, 4) == 0)
                m.count = place(&m);
            else
                m.bytes[place(&m)] = (uint8_t)draw(&m, 256);
        }
    }
    return m.count;
}

uint32_t mutate_count(uint32_t few, uint32_t many)
{
    const char *soak = getenv("SOAK");
    return soak && soak[0] ? many : few;
}
