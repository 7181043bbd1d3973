/* vocab.c: token table, spelling table and merge table, filled once and then only read.
 *
 * Both tables are open addressing with linear probing at a load of at most one half. A slot of the spelling
 * table keeps the hash, so that a miss rarely touches the pool. Invariants after vocab_finish: every offset
 * lies in the pool, every id in a table is below count. Threads: any after loading.
 */
#include "text/vocab.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/mem.h"
#include "base/utf8.h"

enum { SHOWN = 40, SPELLING_LIMIT = 4096 }; /* bytes of a spelling: in a message, at all */

void vocab_init(vocab *v, const char *source)
{
    *v = (vocab) { .source = source, .last_made = -1 };
    for (int b = 0; b < 256; b++)
        v->byte_id[b] = -1;
}

void vocab_free(vocab *v)
{
    mem_free(MEM_TEXT, v->token, v->cap * sizeof *v->token);
    mem_free(MEM_TEXT, v->pool, v->pool_cap);
    mem_free(MEM_TEXT, v->slot, v->slots * sizeof *v->slot);
    mem_free(MEM_TEXT, v->merge, v->merge_slots * sizeof *v->merge);
    mem_free(MEM_TEXT, v->marker, v->marker_count * sizeof *v->marker);
    vocab_init(v, NULL);
}

static int no_memory(const vocab *v, foray_error *err)
{
    return fail(err, FORAY_ENOMEM, "%s: tokenizer: out of memory", v->source);
}

static int shown(size_t bytes)
{
    return bytes < SHOWN ? (int)bytes : SHOWN;
}

/* Grows *data to hold want elements. */
static bool grow(void **data, size_t *cap, size_t want, size_t size)
{
    if (want <= *cap)
        return true;
    size_t next = *cap != 0 ? *cap : 1024;
    while (next < want)
        next *= 2;
    void *p = mem_resize(MEM_TEXT, *data, *cap * size, next * size);
    if (p == NULL)
        return false;
    *data = p;
    *cap = next;
    return true;
}

/* Puts bytes into the pool; false: no memory. */
static bool keep(vocab *v, const char *bytes, size_t count, uint32_t *offset)
{
    if (count > UINT32_MAX - v->pool_bytes ||
        !grow((void **)&v->pool, &v->pool_cap, v->pool_bytes + count + 1, 1))
        return false;
    if (count != 0)
        memcpy(v->pool + v->pool_bytes, bytes, count);
    *offset = (uint32_t)v->pool_bytes;
    v->pool_bytes += count;
    return true;
}

int vocab_set(vocab *v, int64_t id, const char *spelling, size_t bytes, token_type type, unsigned flags,
              foray_error *err)
{
    if (id < 0 || id >= VOCAB_LIMIT)
        return fail(err, FORAY_ELIMIT, "%s: token \"%.*s\" has the id %lld; ids go from 0 to %d", v->source,
                    shown(bytes), spelling, (long long)id, VOCAB_LIMIT - 1);
    if (bytes > SPELLING_LIMIT)
        return fail(err, FORAY_ELIMIT, "%s: token %lld has %zu bytes; at most %d are read", v->source,
                    (long long)id, bytes, SPELLING_LIMIT);
    if (!grow((void **)&v->token, &v->cap, (size_t)id + 1, sizeof *v->token))
        return no_memory(v, err);
    if ((size_t)id >= v->count) {
        memset(v->token + v->count, 0, ((size_t)id + 1 - v->count) * sizeof *v->token);
        v->count = (size_t)id + 1;
    }
    vocab_token *t = &v->token[id];
    if (t->type != TOKEN_HOLE) {
        if (t->spelling_bytes != bytes || memcmp(v->pool + t->spelling, spelling, bytes) != 0)
            return fail(err, FORAY_EFILE, "%s: token %lld is both \"%.*s\" and \"%.*s\"", v->source,
                        (long long)id, shown(t->spelling_bytes), v->pool + t->spelling, shown(bytes),
                        spelling);
    } else {
        uint32_t offset = 0;
        if (!keep(v, spelling, bytes, &offset))
            return no_memory(v, err);
        t->spelling = offset;
        t->spelling_bytes = (uint32_t)bytes;
    }
    t->type = (uint8_t)type;
    t->flags = (uint8_t)flags;
    return 0;
}

void vocab_set_scores(vocab *v, const float *score)
{
    for (size_t i = 0; i < v->count; i++) {
        uint32_t u;
        memcpy(&u, &score[i], sizeof u);
        /* The bits of floats, turned so that they sort as unsigned numbers: highest score, lowest order. */
        v->token[i].order = u & 0x80000000u ? u : ~u & 0x7fffffffu;
    }
}

static uint32_t hash_of(const char *spelling, size_t bytes)
{
    return (uint32_t)XXH3_64bits(spelling, bytes);
}

static size_t table_size(size_t entries)
{
    size_t size = 64;
    while (size < entries * 2)
        size *= 2;
    return size;
}

/* The slot that holds the spelling, or the free one where it belongs. */
static vocab_slot *slot_of(const vocab *v, const char *spelling, size_t bytes, uint32_t hash)
{
    for (size_t i = hash & (v->slots - 1);; i = (i + 1) & (v->slots - 1)) {
        vocab_slot *s = &v->slot[i];
        if (s->id_plus_1 == 0)
            return s;
        const vocab_token *t = &v->token[s->id_plus_1 - 1];
        if (s->hash == hash && t->spelling_bytes == bytes &&
            memcmp(v->pool + t->spelling, spelling, bytes) == 0)
            return s;
    }
}

int vocab_index(vocab *v, foray_error *err)
{
    if (v->count == 0)
        return fail(err, FORAY_EFILE, "%s: the vocabulary is empty", v->source);
    v->slots = table_size(v->count);
    v->slot = mem_alloc_zeroed(MEM_TEXT, v->slots * sizeof *v->slot);
    if (v->slot == NULL) {
        v->slots = 0;
        return no_memory(v, err);
    }
    for (size_t i = 0; i < v->count; i++) {
        const vocab_token *t = &v->token[i];
        if (t->type == TOKEN_HOLE)
            continue;
        const char *spelling = v->pool + t->spelling;
        uint32_t hash = hash_of(spelling, t->spelling_bytes);
        vocab_slot *s = slot_of(v, spelling, t->spelling_bytes, hash);
        if (s->id_plus_1 == 0)
            *s = (vocab_slot) { hash, (uint32_t)i + 1 };
        else if (t->type != TOKEN_UNUSED)
            return fail(err, FORAY_EFILE, "%s: tokens %u and %zu are both \"%.*s\"", v->source,
                        s->id_plus_1 - 1, i, shown(t->spelling_bytes), spelling);
    }
    return 0;
}

int32_t vocab_find(const vocab *v, const char *spelling, size_t bytes)
{
    return (int32_t)slot_of(v, spelling, bytes, hash_of(spelling, bytes))->id_plus_1 - 1;
}

int32_t vocab_find_plain(const vocab *v, const char *spelling, size_t bytes)
{
    int32_t id = vocab_find(v, spelling, bytes);
    if (id < 0)
        return -1;
    const vocab_token *t = &v->token[id];
    return t->type == TOKEN_NORMAL || (t->type == TOKEN_USER && !(t->flags & TOKEN_MARKER)) ? id : -1;
}

/* ---- merges ---------------------------------------------------------------------------------- */

/* Fibonacci hashing: the high bits are the good ones. */
static size_t merge_hash(int32_t left, int32_t right)
{
    uint64_t key = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    return key * 0x9e3779b97f4a7c15u >> 32;
}

static vocab_merge *merge_slot_of(const vocab *v, int32_t left, int32_t right)
{
    for (size_t i = merge_hash(left, right) & (v->merge_slots - 1);; i = (i + 1) & (v->merge_slots - 1)) {
        vocab_merge *m = &v->merge[i];
        if (m->left < 0 || (m->left == left && m->right == right))
            return m;
    }
}

int vocab_reserve_merges(vocab *v, size_t count, foray_error *err)
{
    if (count > 4 * (size_t)VOCAB_LIMIT)
        return fail(err, FORAY_ELIMIT, "%s: %zu merges; at most %d are read", v->source, count,
                    4 * VOCAB_LIMIT);
    vocab_merge *old = v->merge;
    size_t old_slots = v->merge_slots, slots = table_size(count);
    if (old != NULL && slots <= old_slots)
        return 0;
    vocab_merge *merge = mem_alloc(MEM_TEXT, slots * sizeof *merge);
    if (merge == NULL)
        return no_memory(v, err);
    memset(merge, 0xff, slots * sizeof *merge);
    v->merge = merge;
    v->merge_slots = slots;
    for (size_t i = 0; i < old_slots; i++)
        if (old[i].left >= 0)
            *merge_slot_of(v, old[i].left, old[i].right) = old[i];
    mem_free(MEM_TEXT, old, old_slots * sizeof *old);
    return 0;
}

static int32_t find_hashed(const vocab *v, const char *spelling, size_t bytes, uint32_t hash)
{
    return (int32_t)slot_of(v, spelling, bytes, hash)->id_plus_1 - 1;
}

/* The token that a pair makes, or -1. Merges and tokens mostly stand in the same order: the guess saves a lookup. */
static int32_t find_joined(const vocab *v, const vocab_pair *p)
{
    size_t bytes = p->left_bytes + p->right_bytes;
    size_t guess = (size_t)v->last_made + 1;
    if (guess < v->count && v->token[guess].spelling_bytes == bytes && v->token[guess].type != TOKEN_HOLE) {
        const char *s = vocab_spelling(v, (int32_t)guess);
        if (memcmp(s, p->left, p->left_bytes) == 0 &&
            memcmp(s + p->left_bytes, p->right, p->right_bytes) == 0)
            return (int32_t)guess;
    }
    char joined[SPELLING_LIMIT];
    if (bytes > sizeof joined)
        return -1;
    memcpy(joined, p->left, p->left_bytes);
    memcpy(joined + p->left_bytes, p->right, p->right_bytes);
    return vocab_find(v, joined, bytes);
}

static int add_merge(vocab *v, uint32_t rank, const vocab_pair *p, int32_t left, int32_t right,
                     foray_error *err)
{
    if (left < 0 || right < 0)
        return fail(err, FORAY_EFILE, "%s: merge %u joins \"%.*s\" and \"%.*s\", but the %s is not a token",
                    v->source, rank, shown(p->left_bytes), p->left, shown(p->right_bytes), p->right,
                    left < 0 ? "first" : "second");
    int32_t id = find_joined(v, p);
    if (id < 0)
        return fail(err, FORAY_EFILE, "%s: merge %u makes \"%.*s%.*s\", which is not a token", v->source,
                    rank, shown(p->left_bytes), p->left, shown(p->right_bytes), p->right);
    v->last_made = id;
    if (2 * (v->merge_count + 1) > v->merge_slots) {
        int rc = vocab_reserve_merges(v, 2 * (v->merge_count + 1), err);
        if (rc != 0)
            return rc;
    }
    vocab_merge *m = merge_slot_of(v, left, right);
    if (m->left < 0) {
        *m = (vocab_merge) { left, right, id, rank };
        v->merge_count++;
    }
    return 0;
}

int vocab_add_merges(vocab *v, uint32_t rank, const vocab_pair *pair, size_t count, foray_error *err)
{
    assert(count <= VOCAB_BATCH);
    uint32_t hash[VOCAB_BATCH][2];
    /* Each lookup goes slot, token, spelling, and each of the three is a miss in a cold table: fetch them ahead. */
    for (size_t i = 0; i < count; i++) {
        hash[i][0] = hash_of(pair[i].left, pair[i].left_bytes);
        hash[i][1] = hash_of(pair[i].right, pair[i].right_bytes);
        __builtin_prefetch(&v->slot[hash[i][0] & (v->slots - 1)]);
        __builtin_prefetch(&v->slot[hash[i][1] & (v->slots - 1)]);
    }
    for (int step = 0; step < 2; step++)
        for (size_t i = 0; i < 2 * count; i++) {
            uint32_t id_plus_1 = v->slot[hash[i / 2][i % 2] & (v->slots - 1)].id_plus_1;
            const vocab_token *t = &v->token[id_plus_1 != 0 ? id_plus_1 - 1 : 0];
            if (step == 0)
                __builtin_prefetch(t);
            else
                __builtin_prefetch(v->pool + t->spelling);
        }
    int32_t id[VOCAB_BATCH][2];
    for (size_t i = 0; i < count; i++) {
        const vocab_pair *p = &pair[i];
        id[i][0] = find_hashed(v, p->left, p->left_bytes, hash[i][0]);
        id[i][1] = find_hashed(v, p->right, p->right_bytes, hash[i][1]);
        __builtin_prefetch(&v->merge[merge_hash(id[i][0], id[i][1]) & (v->merge_slots - 1)], 1);
    }
    int rc = 0;
    for (size_t i = 0; i < count && rc == 0; i++)
        rc = add_merge(v, rank + (uint32_t)i, &pair[i], id[i][0], id[i][1], err);
    return rc;
}

const vocab_merge *vocab_find_merge(const vocab *v, int32_t left, int32_t right)
{
    const vocab_merge *m = merge_slot_of(v, left, right);
    return m->left >= 0 ? m : NULL;
}

/* ---- bytes ----------------------------------------------------------------------------------- */

/* GPT-2's alphabet: printable Latin-1 bytes stand for themselves, the others for U+0100 onwards in order. */
static uint32_t alphabet_point(int byte)
{
    if ((byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte != 0xad))
        return (uint32_t)byte;
    if (byte <= 0x20)
        return 0x100u + (uint32_t)byte;
    return byte == 0xad ? 0x143u : 0x121u + (uint32_t)(byte - 0x7f);
}

static int alphabet_byte(uint32_t point)
{
    if (point >= 0x100 && point <= 0x120)
        return (int)point - 0x100;
    if (point >= 0x121 && point <= 0x142)
        return (int)point - 0x121 + 0x7f;
    if (point == 0x143)
        return 0xad;
    return point < 0x100 && alphabet_point((int)point) == point ? (int)point : -1;
}

size_t vocab_alphabet_write(const char *bytes, size_t count, char *out)
{
    size_t n = 0;
    for (size_t i = 0; i < count; i++)
        n += (size_t)utf8_write(alphabet_point((unsigned char)bytes[i]), out + n);
    return n;
}

/* Reads a spelling in GPT-2's alphabet; false where a character is not of it. out: room for count bytes. */
static bool alphabet_read(const char *spelling, size_t count, char *out, size_t *length)
{
    size_t n = 0;
    for (size_t i = 0; i < count;) {
        uint32_t point = 0;
        int used = utf8_read(spelling + i, count - i, &point);
        int byte = used > 0 ? alphabet_byte(point) : -1;
        if (byte < 0)
            return false;
        out[n++] = (char)byte;
        i += (size_t)used;
    }
    *length = n;
    return true;
}

static size_t read_spaces(const char *spelling, size_t count, char *out)
{
    size_t n = 0;
    for (size_t i = 0; i < count;) {
        if (count - i >= 3 && memcmp(spelling + i, "\xe2\x96\x81", 3) == 0) {
            out[n++] = ' ';
            i += 3;
        } else {
            out[n++] = spelling[i++];
        }
    }
    return n;
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* The byte that "<0xHH>" names, or -1. */
static int byte_of_spelling(const char *s, size_t bytes)
{
    if (bytes != 6 || memcmp(s, "<0x", 3) != 0 || s[5] != '>')
        return -1;
    int high = hex_digit(s[3]), low = hex_digit(s[4]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

/* Sets what token id adds to running text. scratch: room for its spelling. */
static int find_bytes(vocab *v, size_t id, vocab_alphabet alphabet, char *scratch, foray_error *err)
{
    vocab_token *t = &v->token[id];
    const char *spelling = v->pool + t->spelling;
    size_t n = t->spelling_bytes;
    switch (t->type) {
    case TOKEN_NORMAL:
    case TOKEN_USER:
        if (alphabet == VOCAB_SENTENCEPIECE)
            n = read_spaces(spelling, n, scratch);
        else if (t->type == TOKEN_USER || !alphabet_read(spelling, n, scratch, &n))
            memcpy(scratch, spelling, n = t->spelling_bytes);
        break;
    case TOKEN_BYTE: {
        int byte = byte_of_spelling(spelling, n);
        if (byte < 0)
            return fail(err, FORAY_EFILE, "%s: token %zu, \"%.*s\", is no byte: those are <0x00> to <0xFF>",
                        v->source, id, shown(n), spelling);
        if (v->byte_id[byte] >= 0)
            return fail(err, FORAY_EFILE, "%s: tokens %d and %zu are both the byte <0x%02X>", v->source,
                        v->byte_id[byte], id, byte);
        v->byte_id[byte] = (int32_t)id;
        scratch[0] = (char)byte;
        n = 1;
        break;
    }
    default: /* markers that say nothing, and ids that never occur */
        n = 0;
    }
    t->byte_count = (uint32_t)n;
    t->bytes = t->spelling;
    if (n == t->spelling_bytes && memcmp(scratch, spelling, n) == 0)
        return 0;
    uint32_t offset = 0;
    if (!keep(v, scratch, n, &offset))
        return no_memory(v, err);
    t->bytes = offset;
    return 0;
}

/* ---- tokens that are matched whole ------------------------------------------------------------ */

static int compare_spellings(const void *a, const void *b, void *user)
{
    const vocab *v = user;
    const vocab_token *x = &v->token[*(const int32_t *)a], *y = &v->token[*(const int32_t *)b];
    size_t n = x->spelling_bytes < y->spelling_bytes ? x->spelling_bytes : y->spelling_bytes;
    int order = memcmp(v->pool + x->spelling, v->pool + y->spelling, n);
    if (order != 0)
        return order;
    return (x->spelling_bytes > y->spelling_bytes) - (x->spelling_bytes < y->spelling_bytes);
}

static bool is_matched(const vocab_token *t)
{
    return t->spelling_bytes != 0 &&
           (t->type == TOKEN_CONTROL || t->type == TOKEN_USER || t->type == TOKEN_UNKNOWN);
}

static int list_markers(vocab *v, foray_error *err)
{
    size_t n = 0;
    for (size_t i = 0; i < v->count; i++)
        n += is_matched(&v->token[i]);
    if (n == 0)
        return 0;
    v->marker = mem_alloc(MEM_TEXT, n * sizeof *v->marker);
    if (v->marker == NULL)
        return no_memory(v, err);
    v->marker_count = n;
    n = 0;
    for (size_t i = 0; i < v->count; i++) {
        const vocab_token *t = &v->token[i];
        if (!is_matched(t))
            continue;
        v->marker[n++] = (int32_t)i;
        v->begins[(unsigned char)v->pool[t->spelling]] |= t->flags & TOKEN_MARKER ? 1 : 3;
    }
    qsort_r(v->marker, n, sizeof *v->marker, compare_spellings, v);
    return 0;
}

int32_t vocab_match(const vocab *v, const char *text, size_t bytes, bool plain)
{
    if (!(v->begins[(unsigned char)text[0]] & (plain ? 2 : 1)))
        return -1;
    /* marker[low, high) are the tokens that begin with text[0, depth); a token of just that length sorts first. */
    size_t low = 0, high = v->marker_count;
    int32_t best = -1;
    for (size_t depth = 0; depth < bytes && low < high; depth++) {
        unsigned char c = (unsigned char)text[depth];
        for (int edge = 0; edge < 2; edge++) { /* the first token not below c, then the first above it */
            size_t a = low, b = high;
            while (a < b) {
                size_t mid = a + (b - a) / 2;
                const vocab_token *t = &v->token[v->marker[mid]];
                int here = t->spelling_bytes > depth ? (unsigned char)v->pool[t->spelling + depth] : -1;
                if (here < c + edge)
                    a = mid + 1;
                else
                    b = mid;
            }
            if (edge == 0)
                low = a;
            else
                high = a;
        }
        if (low < high) {
            const vocab_token *t = &v->token[v->marker[low]];
            if (t->spelling_bytes == depth + 1 && !(plain && (t->flags & TOKEN_MARKER)))
                best = v->marker[low];
        }
    }
    return best;
}

int vocab_finish(vocab *v, vocab_alphabet alphabet, foray_error *err)
{
    size_t longest = 8;
    for (size_t i = 0; i < v->count; i++) {
        vocab_token *t = &v->token[i];
        if (t->spelling_bytes > longest)
            longest = t->spelling_bytes;
        if (t->type == TOKEN_CONTROL || t->type == TOKEN_UNKNOWN)
            t->flags |= TOKEN_MARKER;
    }
    char *scratch = mem_alloc(MEM_TEXT, longest);
    if (scratch == NULL)
        return no_memory(v, err);
    int rc = 0;
    for (size_t i = 0; i < v->count && rc == 0; i++)
        rc = find_bytes(v, i, alphabet, scratch, err);
    for (int byte = 0; byte < 256 && rc == 0; byte++) {
        if (alphabet == VOCAB_BYTE_LEVEL) {
            char character[4];
            size_t n = (size_t)utf8_write(alphabet_point(byte), character);
            v->byte_id[byte] = vocab_find_plain(v, character, n);
        } else if (v->byte_id[byte] < 0) {
            rc = fail(err, FORAY_EFILE, "%s: the vocabulary lacks the byte token <0x%02X>", v->source, byte);
        }
    }
    mem_free(MEM_TEXT, scratch, longest);
    if (rc == 0)
        rc = list_markers(v, err);
    v->source = NULL;
    return rc;
}
