/* tiny_text.c: merges are learned from a paragraph, most frequent pair first, ties to the one seen first: the
 * textbook's byte pair encoding, done slowly over a few hundred words. */
#include "support/tiny_text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/utf8.h"

const char tiny_chat_template[] = "{% for message in messages %}{% if loop.first and messages[0]['role'] != "
                                  "'system' %}{{ '<|im_start|>system\n"
                                  "You are a small test.<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + "
                                  "message['role'] + '\n' + message['content'] + "
                                  "'<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ "
                                  "'<|im_start|>assistant\n' }}{% endif %}";

static const char lesson[] =
    "the cat and the dog went to the river in the morning and there they saw that the water was rising over "
    "the stones "
    "so they waited for an hour or two under the old tree where the other animals were sleeping and when the "
    "rain was "
    "over they walked home together through the wet grass telling each other stories about the sun and the "
    "moon and "
    "the stars that are in the sky at night while the wind was singing in the leaves and nobody was there to "
    "hear it "
    "all but the owl who had been watching them from the first step to the last one said nothing and thought "
    "about "
    "what it means to have a friend with whom one can be silent in this strange and beautiful world of ours";

enum { MAX_SYMBOLS = 1024 };

void tiny_byte_spelling(uint8_t byte, char out[3])
{
    bool printable = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    uint32_t point = byte;
    if (!printable) { /* the others get the points from 256 on, in order */
        point = 256;
        for (int b = 0; b < byte; b++)
            point += !((b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174);
    }
    char utf8[4];
    int n = utf8_write(point, utf8);
    memcpy(out, utf8, (size_t)n);
    out[n] = 0;
}

/* Merges never cross the start of a word; a word's space belongs to it. */
static bool may_merge(const tiny_vocabulary *v, int right)
{
    return strncmp(v->tokens[right], "\xc4\xa0", 2) != 0; /* U+0120, the space */
}

/* The most frequent pair of neighbours; false when no pair comes twice. */
static bool best_pair(const tiny_vocabulary *v, const int *ids, int n, int *left, int *right)
{
    int best = 1;
    for (int i = 0; i + 1 < n; i++) {
        int count = 0;
        if (!may_merge(v, ids[i + 1]))
            continue;
        for (int j = i; j + 1 < n; j++)
            count += ids[j] == ids[i] && ids[j + 1] == ids[i + 1];
        if (count > best) {
            best = count;
            *left = ids[i];
            *right = ids[i + 1];
        }
    }
    return best > 1;
}

static int replace_pair(int *ids, int n, int left, int right, int merged)
{
    int kept = 0;
    for (int i = 0; i < n; i++) {
        if (i + 1 < n && ids[i] == left && ids[i + 1] == right) {
            ids[kept++] = merged;
            i++;
        } else {
            ids[kept++] = ids[i];
        }
    }
    return kept;
}

tiny_vocabulary tiny_vocabulary_make(arena *a, int count)
{
    static const char *const special[] = { "<|endoftext|>", "<|im_start|>", "<|im_end|>" };
    tiny_vocabulary v = { .tokens = arena_array(a, (size_t)count, sizeof *v.tokens),
                          .merges = arena_array(a, (size_t)count, sizeof *v.merges),
                          .count = count };
    assert_true(count >= TINY_FIRST_MERGE && v.tokens && v.merges);
    int n = 0, ids[MAX_SYMBOLS], left = 0, right = 0, next = 0;
    for (; next < TINY_FIRST_BYTE; next++)
        v.tokens[next] = special[next];
    for (; next < TINY_FIRST_MERGE; next++) {
        char text[3];
        tiny_byte_spelling((uint8_t)(next - TINY_FIRST_BYTE), text);
        v.tokens[next] = arena_strndup(a, text, strlen(text));
    }
    for (const char *p = lesson; *p; p++)
        ids[n++] = TINY_FIRST_BYTE + (uint8_t)*p;
    for (; next < count && best_pair(&v, ids, n, &left, &right); next++) {
        char text[128];
        int bytes = snprintf(text, sizeof text, "%s %s", v.tokens[left], v.tokens[right]);
        v.merges[v.merge_count++] = arena_strndup(a, text, (size_t)bytes);
        bytes = snprintf(text, sizeof text, "%s%s", v.tokens[left], v.tokens[right]);
        v.tokens[next] = arena_strndup(a, text, (size_t)bytes);
        n = replace_pair(ids, n, left, right, next);
    }
    for (; next < count; next++) { /* in the vocabulary, but nothing is encoded as them */
        char text[32];
        int bytes = snprintf(text, sizeof text, "~filler%d~", next);
        v.tokens[next] = arena_strndup(a, text, (size_t)bytes);
    }
    return v;
}
