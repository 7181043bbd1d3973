/* names.c: an open-addressed table of 64-bit hashes over an arena of texts. */
#include "timeline/names.h"

#include <string.h>
#define XXH_INLINE_ALL /* most texts are short: a call would cost as much as the hash */
#include <xxhash.h>

#include "base/utf8.h"
#include "timeline/list.h"

enum { FIRST_SLOTS = 4096, LONGEST_ESCAPED = 1 << 20 };

void names_init(names *n)
{
    *n = (names) { 0 };
    arena_init(&n->memory, MEM_RECORDS, 256 << 10);
    names_add(n, "", 0);
}

void names_free(names *n)
{
    arena_free(&n->memory);
    list_free(&n->text, &n->text_cap, sizeof *n->text);
    list_free(&n->bytes, &n->bytes_cap, sizeof *n->bytes);
    list_free(&n->hash, &n->hash_cap, sizeof *n->hash);
    list_free(&n->slot, &n->slot_cap, sizeof *n->slot);
    *n = (names) { 0 };
}

/* Doubles the table of slots and enters every name again. */
static bool grow_slots(names *n)
{
    size_t slots = n->slots == 0 ? FIRST_SLOTS : n->slots * 2;
    if (!list_reserve(&n->slot, &n->slot_cap, slots, sizeof *n->slot))
        return false;
    memset(n->slot, 0, slots * sizeof *n->slot);
    n->slots = slots;
    for (size_t i = 0; i < n->count; i++) {
        size_t at = n->hash[i] & (slots - 1);
        while (n->slot[at] != 0)
            at = (at + 1) & (slots - 1);
        n->slot[at] = (uint32_t)i + 1;
    }
    return true;
}

static bool is_faulty(const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes;) {
        uint32_t point;
        int length = utf8_read(text + i, bytes - i, &point);
        if (length < 0 || point < 0x20 || point == 0x7f)
            return true;
        i += (size_t)length;
    }
    return false;
}

static uint32_t add_new(names *n, const char *text, size_t bytes, uint64_t hash, size_t at)
{
    size_t need = n->count + 1;
    char *copy = NULL;
    if (list_reserve(&n->text, &n->text_cap, need, sizeof *n->text) &&
        list_reserve(&n->bytes, &n->bytes_cap, need, sizeof *n->bytes) &&
        list_reserve(&n->hash, &n->hash_cap, need, sizeof *n->hash))
        copy = arena_strndup(&n->memory, text, bytes);
    if (copy == NULL || need > UINT32_MAX / 2) {
        n->failed = true;
        return 0;
    }
    n->faulty += is_faulty(text, bytes);
    n->text[n->count] = copy;
    n->bytes[n->count] = (uint32_t)bytes;
    n->hash[n->count] = hash;
    n->slot[at] = (uint32_t)++n->count;
    return (uint32_t)n->count - 1;
}

uint32_t names_add(names *n, const char *text, size_t bytes)
{
    if ((n->count + 1) * 2 > n->slots && !grow_slots(n)) {
        n->failed = true;
        return 0;
    }
    uint64_t hash = XXH3_64bits(text, bytes);
    for (size_t at = hash & (n->slots - 1);; at = (at + 1) & (n->slots - 1)) {
        uint32_t found = n->slot[at];
        if (found == 0)
            return add_new(n, text, bytes, hash, at);
        found--;
        if (n->hash[found] == hash && n->bytes[found] == bytes && memcmp(n->text[found], text, bytes) == 0)
            return found;
    }
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* The code unit of \uXXXX whose four digits start at text; -1: they are none. */
static int32_t code_unit(const char *text, const char *end)
{
    int32_t value = 0;
    if (end - text < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        int digit = hex_digit(text[i]);
        if (digit < 0)
            return -1;
        value = value * 16 + digit;
    }
    return value;
}

/* Reads one escape at p (behind the backslash) into out; returns how many bytes of p it took. */
static size_t take_escape(const char *p, const char *end, char *out, size_t *put)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    const char *known = *p != '\0' ? strchr(from, *p) : NULL;
    if (known != NULL) {
        out[(*put)++] = to[known - from];
        return 1;
    }
    int32_t unit = *p == 'u' ? code_unit(p + 1, end) : -1;
    if (unit < 0) { /* no escape of JSON's: keep both bytes as they stand */
        out[(*put)++] = '\\';
        out[(*put)++] = *p;
        return 1;
    }
    size_t took = 5;
    uint32_t c = (uint32_t)unit;
    if (c >= 0xd800 && c < 0xdc00 && end - p >= 11 && p[5] == '\\' && p[6] == 'u') {
        int32_t low = code_unit(p + 7, end);
        if (low >= 0xdc00 && low < 0xe000) {
            c = 0x10000 + ((c - 0xd800) << 10) + ((uint32_t)low - 0xdc00);
            took = 11;
        }
    }
    if (c >= 0xd800 && c < 0xe000)
        c = 0xfffd;
    *put += (size_t)utf8_write(c, out + *put);
    return took;
}

uint32_t names_add_escaped(names *n, const char *text, size_t bytes)
{
    char small[512] = "";
    if (bytes > LONGEST_ESCAPED)
        bytes = LONGEST_ESCAPED;
    char *out = bytes <= sizeof small ? small : mem_alloc(MEM_RECORDS, bytes);
    if (out == NULL) {
        n->failed = true;
        return 0;
    }
    size_t put = 0;
    for (const char *p = text, *end = text + bytes; p < end;) {
        if (*p != '\\' || p + 1 == end)
            out[put++] = *p++;
        else
            p += 1 + take_escape(p + 1, end, out, &put);
    }
    uint32_t number = names_add(n, out, put);
    if (out != small)
        mem_free(MEM_RECORDS, out, bytes);
    return number;
}

bool names_match(const char *pattern, const char *text)
{
    const char *star = NULL, *from = NULL;
    while (*text != '\0') {
        if (*pattern == '*') {
            star = ++pattern;
            from = text;
        } else if (*pattern == '?' || *pattern == *text) {
            pattern++;
            text++;
        } else if (star != NULL) {
            pattern = star;
            text = ++from;
        } else {
            return false;
        }
    }
    while (*pattern == '*')
        pattern++;
    return *pattern == '\0';
}
