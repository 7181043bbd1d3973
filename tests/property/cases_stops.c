/* cases.md B, C, L: ends inside accepted blocks, counts, and text that arrives in pieces. Plain and speculative must
 * agree; where the case says more, that is checked too. Chains (support/chain.h) choose the text beforehand. */
#include "support/generate.h"

#include <stdio.h>
#include <string.h>

#include "cache/cache.h"
#include "engine/score.h"
#include "spec/round.h"
#include "support/chain.h"
#include "support/tiny.h"
#include "support/tiny_text.h"

enum { K = 12 };

/* A chain that says a text, opened plainly and with right drafts. Bytes of the text are all different. */
typedef struct {
    foray_engine *plain, *spec;
    int32_t ids[300];
    int n;
} pair;

static void pair_open_ids(pair *p, const int32_t *ids, int n)
{
    memcpy(p->ids, ids, sizeof *ids * (size_t)n);
    p->n = n;
    const char *path = chain_gguf(ids, n);
    p->plain = engine_open_path(path, (foray_config) { .spec = "off", .threads = 1, .context = 160 });
    p->spec = engine_open_path(
        path, (foray_config) {
                  .spec = "script", .spec_tokens = K, .spec_budget = K, .threads = 1, .context = 160 });
}

static void pair_open(pair *p, const char *says)
{
    int32_t ids[300];
    pair_open_ids(p, ids, chain_bytes(says, ids));
}

static void pair_close(pair *p)
{
    assert_int_equal(cache_pages_in_use(engine_cache(p->spec)), 0);
    foray_close(p->plain);
    foray_close(p->spec);
}

/* So many tokens of the chain from its start, drafts all right. */
static foray_request_config says(const pair *p, int tokens)
{
    foray_request_config c = request_of(&p->ids[p->n - 1], 1, tokens);
    c.ignore_eos = true;
    c.script = p->ids;
    c.script_count = (size_t)p->n;
    return c;
}

static int keep_of(void *user, const plan_member *m)
{
    int wanted = *(const int *)user;
    return wanted < m->draft.count ? wanted : m->draft.count;
}

/* Both ways and in rounds of every size; what was shown after each step must be the beginning of what is shown at last.
 * Returns the text. */
static const text *both(const pair *p, const foray_request_config *c)
{
    static text plain, spec;
    static const int keeps[] = { 0, 1, 2, 3, 5, 8, K };
    generate(p->plain, c, &plain);
    for (size_t i = 0; i < sizeof keeps / sizeof *keeps; i++) {
        int keep = keeps[i];
        round_hooks hooks = { .user = &keep, .keep = keep_of };
        round_set_hooks(engine_round(p->spec), &hooks);
        generate(p->spec, c, &spec);
        round_set_hooks(engine_round(p->spec), NULL);
        assert_same_text(&plain, &spec);
        assert_int_equal(spec.account.completion_tokens, spec.count);
        assert_true(spec.account.accepted < spec.count);
    }
    return &plain;
}

static const char LINE[] = "abcdefghijklmnopqrstuvwxyz";

/* B01: two end ids in one accepted block: the first one in the text ends it, however they are listed. */
static void the_first_of_two_ends_in_a_block_counts(void **state)
{
    (void)state;
    pair p;
    pair_open(&p, LINE);
    for (int first = 0; first < 8; first++)
        for (int second = first + 1; second < 10; second += 3)
            for (int order = 0; order < 2; order++) {
                int32_t ends[2] = { p.ids[order ? second : first], p.ids[order ? first : second] };
                foray_request_config c = says(&p, 26);
                c.stop_ids = ends;
                c.stop_id_count = 2;
                const text *t = both(&p, &c);
                assert_int_equal(t->count, first + 1);
                assert_int_equal(t->finish, FORAY_STOP);
                assert_int_equal(strlen(t->bytes), first); /* an end has no text */
            }
    pair_close(&p);
}

/* B02: a stop of one character at the first token of a long accepted block; two stops in one block, the shorter first. */
static void the_earliest_stop_in_the_text_cuts(void **state)
{
    (void)state;
    pair p;
    pair_open(&p, LINE);
    static const struct {
        const char *stops[2];
        const char *shown;
        int tokens;
    } rows[] = {
        { { "a", "zz" }, "", 1 },         { { "b", "zz" }, "a", 2 },
        { { "fgh", "c" }, "ab", 3 },      { { "c", "fgh" }, "ab", 3 },
        { { "bcd", "cd" }, "a", 4 },      { { "cd", "bcd" }, "a", 4 },
        { { "cdefg", "ef" }, "abcd", 6 }, { { "lmn", "k" }, "abcdefghij", 11 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        foray_request_config c = says(&p, 26);
        c.stop = rows[i].stops;
        c.stop_count = 2;
        const text *t = both(&p, &c);
        assert_string_equal(t->bytes, rows[i].shown);
        assert_int_equal(t->count, rows[i].tokens);
        assert_int_equal(t->finish, FORAY_STOP);
    }
    pair_close(&p);
}

/* B04, B10: a stop of three tokens at every place, whole in one block or split over two rounds in every way: nothing of it
 * is shown and no token is added. What begins like a stop and is none is shown whole. */
static void a_stop_of_three_tokens_is_found_wherever_rounds_divide_it(void **state)
{
    (void)state;
    pair p;
    pair_open(&p, LINE);
    for (int at = 0; at + 3 <= 26; at++) {
        char stop[4] = { 0 }, near[4] = { 0 }, shown[27] = { 0 };
        memcpy(stop, LINE + at, 3);
        memcpy(near, LINE + at, 2);
        near[2] = '!';
        const char *stops[] = { stop, near };
        foray_request_config c = says(&p, 26);
        c.stop = stops;
        c.stop_count = 2;
        const text *t = both(&p, &c);
        memcpy(shown, LINE, (size_t)at);
        assert_string_equal(t->bytes, shown);
        assert_int_equal(t->count, at + 3);
        c.stop = &stops[1];
        c.stop_count = 1;
        t = both(&p, &c);
        assert_string_equal(t->bytes, LINE);
        assert_int_equal(t->finish, FORAY_LENGTH);
    }
    pair_close(&p);
}

/* B08: a stop inside a longer token: the text ends in front of it; the ids end with the token that completed it. */
static void a_stop_inside_a_token_cuts_the_token(void **state)
{
    (void)state;
    arena a;
    arena_init(&a, MEM_GENERAL, 0);
    tiny_vocabulary v = tiny_vocabulary_make(&a, 512);
    int32_t ids[20];
    int n = 0, from = -1;
    for (int i = 0; i < 8; i++)
        ids[n++] = TINY_FIRST_BYTE + 'A' + i;
    for (int id = TINY_FIRST_MERGE; id < v.count && from < 0; id++)
        if (strcmp(v.tokens[id], "ther") == 0 || strcmp(v.tokens[id], "ing") == 0)
            from = id;
    assert_true(from >= 0);
    const char *word = v.tokens[from];
    ids[4] = from; /* ABCD word FGH */
    pair p;
    pair_open_ids(&p, ids, n);
    for (size_t at = 0; word[at]; at++)
        for (size_t bytes = 1; at + bytes <= strlen(word); bytes++) {
            char stop[8] = { 0 }, shown[16] = "ABCD";
            memcpy(stop, word + at, bytes);
            strncat(shown, word, at);
            const char *stops[] = { stop };
            foray_request_config c = says(&p, 8);
            c.stop = stops;
            c.stop_count = 1;
            const text *t = both(&p, &c);
            assert_string_equal(t->bytes, shown);
            assert_int_equal(t->count, 5);
            assert_int_equal(t->ids[4], from);
        }
    pair_close(&p);
    arena_free(&a);
}

/* C01, C02, C03: exactly as many tokens as were asked for, with right drafts and with wrong ones; none asked for: to the
 * end of the context. Entries, usage and counters agree. */
static void as_many_tokens_as_were_asked_for(void **state)
{
    (void)state;
    pair p;
    pair_open(&p, LINE);
    int32_t wrong[256];
    memset(wrong, 0, sizeof wrong);
    for (int most = 0; most <= 128; most += most < 20 ? 1 : 108)
        for (int anti = 0; anti < 2; anti++) {
            foray_request_config c = says(&p, most);
            if (anti) {
                c.script = wrong;
                c.script_count = 256;
            }
            const text *t = both(&p, &c);
            assert_int_equal(t->count, most ? most : 160 - 1);
            assert_int_equal(t->finish, FORAY_LENGTH);
            static text once;
            generate(p.spec, &c, &once);
            assert_int_equal(once.count, 1 + once.account.steps + once.account.accepted);
            if (anti)
                assert_int_equal(once.account.accepted, 0);
        }
    pair_close(&p);
}

/* L01: characters of two, three and four bytes, cut at every place by blocks of every size: whole in every event. */
static void characters_arrive_whole_whatever_a_round_brings(void **state)
{
    (void)state;
    static const char word[] = "a\xc3\xa9"
                               "b\xe2\x82\xac"
                               "c\xf0\x9f\x98\x80z"; /* é, a euro, a smile; no byte twice */
    pair p;
    pair_open(&p, word);
    for (int tokens = 1; tokens <= (int)strlen(word); tokens++) {
        foray_request_config c = says(&p, tokens);
        const text *t = both(&p, &c);
        size_t whole = (size_t)tokens;
        while (whole > 0 && word[whole] && ((unsigned char)word[whole] & 0xc0) == 0x80)
            whole--; /* to the start of a character that was not finished */
        char shown[32] = { 0 };
        memcpy(shown, word, whole);
        if (whole < (size_t)tokens)
            strcat(shown, "\xef\xbf\xbd"); /* at the end it is certain */
        assert_string_equal(t->bytes, shown);
    }
    /* A stop that ends, or begins, inside the run of bytes of a character is found as text. */
    const char *stops[] = { "b\xe2\x82\xac" };
    foray_request_config c = says(&p, (int)strlen(word));
    c.stop = stops;
    c.stop_count = 1;
    assert_string_equal(both(&p, &c)->bytes, "a\xc3\xa9");
    pair_close(&p);
}

/* Text of a request after each token, one token per step. */
static void shown_by_step(const pair *p, int tokens, size_t *bytes)
{
    foray_error err;
    const foray_event *events;
    size_t count, sum = 0;
    foray_request r;
    foray_request_config c = says(p, tokens);
    assert_int_equal(foray_submit(p->plain, &c, &r, &err), 0);
    for (int i = 0; i < tokens; i++) {
        foray_step(p->plain, &events, &count, &err);
        assert_int_equal(count, 1);
        bytes[i] = sum += events[0].text_bytes;
    }
    foray_release(p->plain, r);
}

/* L03: what can no longer become a character is shown as U+FFFD at once, and at most three bytes are held. */
static void broken_bytes_are_held_no_longer_than_needed(void **state)
{
    (void)state;
    size_t bytes[32];
    pair p;
    pair_open(&p, "a\xe2"
                  "bc"); /* a lone lead byte, then ASCII */
    shown_by_step(&p, 4, bytes);
    assert_memory_equal(bytes, ((size_t[]) { 1, 1, 1 + 3 + 1, 6 }), 4 * sizeof *bytes);
    foray_request_config c = says(&p, 4);
    assert_string_equal(both(&p, &c)->bytes, "a\xef\xbf\xbd"
                                             "bc");
    pair_close(&p);

    pair_open(&p, "\x80\x81\x82\x83\x84\x85\x86\x87\x88\x89"); /* ten continuations of nothing */
    shown_by_step(&p, 10, bytes);
    for (size_t i = 0; i < 10; i++)
        assert_int_equal(bytes[i], 3 * (i + 1));
    pair_close(&p);

    pair_open(
        &p,
        "x\xf0\x9f\x98y"); /* an unfinished character in front of an end id, of max_tokens, of a release */
    shown_by_step(&p, 5, bytes);
    assert_int_equal(bytes[3], 1);
    c = says(&p, 4);
    assert_string_equal(both(&p, &c)->bytes, "x\xef\xbf\xbd");
    c = says(&p, 5);
    c.stop_ids = &p.ids[4];
    c.stop_id_count = 1;
    assert_string_equal(both(&p, &c)->bytes, "x\xef\xbf\xbd");
    pair_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_of_two_ends_in_a_block_counts),
        cmocka_unit_test(the_earliest_stop_in_the_text_cuts),
        cmocka_unit_test(a_stop_of_three_tokens_is_found_wherever_rounds_divide_it),
        cmocka_unit_test(a_stop_inside_a_token_cuts_the_token),
        cmocka_unit_test(as_many_tokens_as_were_asked_for),
        cmocka_unit_test(characters_arrive_whole_whatever_a_round_brings),
        cmocka_unit_test(broken_bytes_are_held_no_longer_than_needed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
