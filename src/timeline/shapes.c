/* shapes.c: the tree of ways in which events are written; see shapes.h.
 *
 * Equal glue in front of equal kinds of values means that a full reading would have gone the same way up to here: glue holds
 * every byte between two values, keys and blanks included. So nothing that a full reading checks is left out.
 * A string's glue ends with its quote, that of an object or array with its brace.
 */
#include "timeline/shapes.h"

#include <string.h>

#include "timeline/scan_text.h"

enum { MOST_WAYS = 16 }; /* at one place: bounds the time that an odd file can cost */

void shapes_init(shapes *t)
{
    t->node[0] = (shape_node) { 0 };
    t->count = 1;
}

/* Looks at up to GLUE_BYTES bytes behind p, which are fewer than the window's padding. */
static inline bool has_glue(const shape_node *n, const char *p)
{
#ifdef __SSE2__
    for (unsigned i = 0, left = n->bytes;; i += 16, left -= 16) {
        unsigned equal = (unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(
            _mm_loadu_si128((const __m128i *)(p + i)), _mm_loadu_si128((const __m128i *)(n->glue + i))));
        if (left <= 16)
            return (~equal & ((1u << left) - 1)) == 0;
        if (equal != 0xffff)
            return false;
    }
#else
    return memcmp(n->glue, p, n->bytes) == 0;
#endif
}

bool shapes_follow(shapes *t, const char **at, const char *end, scan_event *e, uint64_t *bad_escapes)
{
    const char *p = *at;
    for (shape_node *n = &t->node[0];;) {
        for (uint16_t i = n->child;; i = n->next) {
            if (i == 0)
                return false;
            n = &t->node[i];
            if (has_glue(n, p) && (n->kind != '0' || !ends_literal(p[n->bytes])))
                break;
        }
        p += n->bytes;
        if (n->kind == '}') {
            *at = p;
            return true;
        }
        scan_value v = { .text = p, .kind = n->kind };
        const char *to;
        if (n->kind == '"') {
            to = string_end(p, end, &v.escaped, bad_escapes);
            if (to == NULL)
                return false;
            v.bytes = (uint32_t)(to - p);
        } else if (n->kind == '0') {
            to = literal_end(p);
            v.bytes = (uint32_t)(to - p);
        } else {
            to = v.text = p - 1;
            if (skip_nested(&to, end, bad_escapes) != TOOK)
                return false;
        }
        memcpy((char *)e + n->member, &v, sizeof v);
        e->have |= n->have;
        /* Mostly a value is as long as the last one here. Going on from where that ended does not wait for this one's end to be
         * found, as long as the compiler does not see that the two are equal. */
        uint32_t bytes = (uint32_t)(to - p), last = n->last, guess = last;
        __asm__("" : "+r"(guess));
        if (bytes == last) {
            p += guess;
            continue;
        }
        n->last = bytes;
        p = to;
    }
}

/* The node behind `parent` for this glue and value, made where it is new; 0: it has no room. */
static uint16_t enter(shapes *t, uint16_t parent, const char *glue, size_t bytes, const shape_piece *value)
{
    uint16_t *link = &t->node[parent].child;
    char kind = value != NULL ? value->kind : '}';
    if (bytes == 0 || bytes > GLUE_BYTES)
        return 0;
    for (int ways = 0; *link != 0; ways++) {
        const shape_node *n = &t->node[*link];
        if (n->kind == kind && n->bytes == bytes && memcmp(n->glue, glue, bytes) == 0)
            return *link;
        if (ways == MOST_WAYS)
            return 0;
        link = &t->node[*link].next;
    }
    if (t->count == SHAPE_NODES)
        return 0;
    shape_node *n = &t->node[t->count];
    *n = (shape_node) { .bytes = (uint16_t)bytes, .kind = kind };
    memcpy(n->glue, glue, bytes);
    if (value != NULL) {
        n->member = value->member;
        n->have = value->have;
    }
    return *link = t->count++;
}

void shapes_learn(shapes *t, const char *from, const char *to, const shape_piece *pieces, size_t count)
{
    uint16_t at = 0;
    for (size_t i = 0; i < count; i++) {
        bool nested = pieces[i].kind == '{' || pieces[i].kind == '[';
        const char *until = pieces[i].from + nested;
        at = enter(t, at, from, (size_t)(until - from), &pieces[i]);
        if (at == 0)
            return;
        from = pieces[i].to;
    }
    enter(t, at, from, (size_t)(to - from), NULL);
}
