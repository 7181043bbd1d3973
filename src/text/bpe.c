/* bpe.c: see bpe.h. A candidate in the heap is stale when one of its symbols has changed since: it is
 * recognised by the neighbours and the length, and dropped when it comes up. So nothing is ever searched for
 * in the heap, and each merge pushes at most two candidates. Threads: one per scratch.
 */
#include "text/bpe.h"

#include "base/mem.h"
#include "base/utf8.h"

#define NONE UINT32_MAX

void bpe_scratch_free(bpe_scratch *s)
{
    mem_free(MEM_TEXT, s->symbol, s->symbol_cap * sizeof *s->symbol);
    mem_free(MEM_TEXT, s->heap, s->heap_cap * sizeof *s->heap);
    *s = (bpe_scratch) { 0 };
}

/* Room for the symbols of bytes bytes and for every candidate they can lead to: n - 1 at first, then two for
 * each of at most n - 1 merges, of which one was popped. */
static bool reserve(bpe_scratch *s, size_t bytes)
{
    if (bytes > s->symbol_cap) {
        size_t cap = bytes < 64 ? 64 : bytes;
        mem_free(MEM_TEXT, s->symbol, s->symbol_cap * sizeof *s->symbol);
        s->symbol = mem_alloc(MEM_TEXT, cap * sizeof *s->symbol);
        s->symbol_cap = s->symbol != NULL ? cap : 0;
    }
    if (2 * bytes > s->heap_cap) {
        size_t cap = bytes < 64 ? 128 : 2 * bytes;
        mem_free(MEM_TEXT, s->heap, s->heap_cap * sizeof *s->heap);
        s->heap = mem_alloc(MEM_TEXT, cap * sizeof *s->heap);
        s->heap_cap = s->heap != NULL ? cap : 0;
    }
    return s->symbol != NULL && s->heap != NULL;
}

static void heap_push(bpe_scratch *s, bpe_candidate c)
{
    size_t i = s->heap_count++;
    while (i > 0) {
        size_t up = (i - 1) / 2;
        if (s->heap[up].key <= c.key)
            break;
        s->heap[i] = s->heap[up];
        i = up;
    }
    s->heap[i] = c;
}

static bpe_candidate heap_pop(bpe_scratch *s)
{
    bpe_candidate top = s->heap[0], last = s->heap[--s->heap_count];
    size_t n = s->heap_count, i = 0;
    for (size_t down = 1; down < n; down = 2 * i + 1) {
        down += down + 1 < n && s->heap[down + 1].key < s->heap[down].key;
        if (last.key <= s->heap[down].key)
            break;
        s->heap[i] = s->heap[down];
        i = down;
    }
    s->heap[i] = last;
    return top;
}

static void consider(const vocab *v, bpe_mode mode, bpe_scratch *s, const char *piece, uint32_t left)
{
    const bpe_symbol *a = &s->symbol[left];
    if (a->next == NONE)
        return;
    const bpe_symbol *b = &s->symbol[a->next];
    uint32_t bytes = a->bytes + b->bytes, order;
    int32_t id;
    if (mode == BPE_CHARACTERS_SCORE) {
        id = vocab_find_plain(v, piece + a->start, bytes);
        if (id < 0)
            return;
        order = v->token[id].order;
    } else {
        const vocab_merge *m = vocab_find_merge(v, a->id, b->id);
        if (m == NULL)
            return;
        id = m->id;
        order = m->rank;
    }
    heap_push(s, (bpe_candidate) { (uint64_t)order << 32 | left, left, a->next, bytes, id });
}

static size_t add_symbol(bpe_scratch *s, size_t n, size_t start, size_t bytes, int32_t id)
{
    s->symbol[n] =
        (bpe_symbol) { n == 0 ? NONE : (uint32_t)n - 1, NONE, (uint32_t)start, (uint32_t)bytes, id };
    if (n != 0)
        s->symbol[n - 1].next = (uint32_t)n;
    return n + 1;
}

/* The symbols to start from; returns their number. */
static size_t first_symbols(const vocab *v, bpe_mode mode, bpe_scratch *s, const char *piece, size_t bytes)
{
    size_t n = 0;
    for (size_t i = 0; i < bytes;) {
        int32_t byte_id = v->byte_id[(unsigned char)piece[i]];
        if (mode == BPE_BYTES) {
            if (byte_id >= 0)
                n = add_symbol(s, n, i, 1, byte_id);
            i++;
            continue;
        }
        uint32_t point;
        int used = utf8_read(piece + i, bytes - i, &point);
        if (used < 0) {
            n = add_symbol(s, n, i++, 1, byte_id);
            continue;
        }
        int32_t id = vocab_find_plain(v, piece + i, (size_t)used);
        if (id >= 0 || mode == BPE_CHARACTERS_SCORE) {
            n = add_symbol(s, n, i, (size_t)used, id);
            i += (size_t)used;
            continue;
        }
        for (int k = 0; k < used; k++, i++)
            n = add_symbol(s, n, i, 1, v->byte_id[(unsigned char)piece[i]]);
    }
    return n;
}

static void merge_all(const vocab *v, bpe_mode mode, bpe_scratch *s, const char *piece, size_t n)
{
    s->heap_count = 0;
    for (size_t i = 0; i + 1 < n; i++)
        consider(v, mode, s, piece, (uint32_t)i);
    while (s->heap_count != 0) {
        bpe_candidate c = heap_pop(s);
        bpe_symbol *a = &s->symbol[c.left], *b = &s->symbol[c.right];
        if (a->bytes == 0 || a->next != c.right || a->bytes + b->bytes != c.bytes)
            continue;
        a->id = c.id;
        a->bytes = c.bytes;
        a->next = b->next;
        if (b->next != NONE)
            s->symbol[b->next].prev = c.left;
        b->bytes = 0; /* gone */
        consider(v, mode, s, piece, c.left);
        if (a->prev != NONE)
            consider(v, mode, s, piece, a->prev);
    }
}

int bpe_encode(const vocab *v, bpe_mode mode, bpe_scratch *s, const char *piece, size_t bytes, id_list *out)
{
    if (bytes == 0)
        return 0;
    if (!reserve(s, bytes))
        return FORAY_ENOMEM;
    size_t n = first_symbols(v, mode, s, piece, bytes);
    if (n == 0)
        return 0;
    merge_all(v, mode, s, piece, n);
    for (uint32_t i = 0; i != NONE; i = s->symbol[i].next) {
        const bpe_symbol *a = &s->symbol[i];
        if (a->id >= 0) {
            if (id_list_push(out, a->id) != 0)
                return FORAY_ENOMEM;
            continue;
        }
        for (uint32_t k = 0; k < a->bytes; k++)
            if (id_list_push(out, v->byte_id[(unsigned char)piece[a->start + k]]) != 0)
                return FORAY_ENOMEM;
    }
    return 0;
}
