/* score.c: `foray score` as a script meets it: the fields, the file of logits, and windows that add up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "support/cli_program.h"
#include "support/tiny.h"

#define RUN(setting, ...) cli_run((const char *const[]) { __VA_ARGS__, NULL }, NULL, setting)
#define IDS "5,9,300,17,5,9,300,17,42,8"

static char model[512];

static int make_model(void **state)
{
    (void)state;
    tiny_spec spec = tiny_default();
    snprintf(model, sizeof model, "%s", tiny_gguf(&spec));
    return 0;
}

/* The object that a run printed, which must have succeeded. The caller's. */
static json_t *object(cli_result r)
{
    if (r.status)
        fail_msg("status %d: %s", r.status, r.err.data);
    json_t *value = json_loadb(r.out.data, r.out.len, 0, NULL);
    assert_true(json_is_object(value));
    cli_free(&r);
    return value;
}

static double number(const json_t *o, const char *key)
{
    json_t *value = json_object_get(o, key);
    if (!json_is_number(value))
        fail_msg("%s is missing or no number", key);
    return json_number_value(value);
}

/* -log of the softmax's value at id. */
static double surprise(const float *logits, int vocab, int id)
{
    double sum = 0;
    for (int i = 0; i < vocab; i++)
        sum += exp((double)logits[i]);
    return log(sum) - (double)logits[id];
}

static void the_score_is_that_of_the_logits_it_writes(void **state)
{
    (void)state;
    static const int ids[] = { 5, 9, 300, 17, 5, 9, 300, 17, 42, 8 };
    enum { COUNT = sizeof ids / sizeof *ids };
    const int vocab = tiny_default().vocab;
    const char *path = tiny_path(tiny_folder(), "logits");
    json_t *o =
        object(RUN(NULL, "score", "-m", model, "--ids", IDS, "--logits", path, "--logits-rows", "all"));
    char *data;
    size_t bytes;
    assert_int_equal(file_read(path, 1 << 24, &data, &bytes, NULL), 0);
    assert_int_equal(bytes, sizeof(float) * (size_t)vocab * COUNT);
    double nll = 0;
    for (int i = 0; i + 1 < COUNT; i++)
        nll += surprise((const float *)(const void *)data + (size_t)i * (size_t)vocab, vocab, ids[i + 1]);
    assert_int_equal((int)number(o, "tokens"), COUNT - 1);
    assert_true(fabs(number(o, "nll") - nll) < 1e-3);
    assert_true(fabs(number(o, "ppl") - exp(nll / (COUNT - 1))) < 1e-2 * number(o, "ppl"));
    assert_true(number(o, "wall_ns") > 0);
    mem_free(MEM_GENERAL, data, bytes + 1);
    json_decref(o);

    json_decref(object(RUN(NULL, "score", "-m", model, "--ids", IDS, "--logits", path)));
    assert_int_equal(file_read(path, 1 << 24, &data, &bytes, NULL), 0);
    assert_int_equal(bytes, sizeof(float) * (size_t)vocab);
    mem_free(MEM_GENERAL, data, bytes + 1);
}

static void a_score_that_fails_leaves_the_logits_of_before(void **state)
{
    (void)state;
    const char *folder = tiny_folder(), *path = tiny_path(folder, "logits");
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs("before", f);
    fclose(f);
    cli_result r = RUN(NULL, "score", "-m", model, "--ids", "1,2,100000", "--logits", path);
    char *data;
    size_t bytes;
    assert_int_not_equal(r.status, 0);
    assert_int_equal(file_read(path, 1 << 24, &data, &bytes, NULL), 0);
    assert_string_equal(data, "before");
    assert_false(file_exists(tiny_path(folder, "logits.partial")));
    mem_free(MEM_GENERAL, data, bytes + 1);
    cli_free(&r);
}

static void windows_score_every_token_but_their_first(void **state)
{
    (void)state;
    json_t *apart = object(RUN(NULL, "score", "-m", model, "--ids", IDS, "-c", "5"));
    json_t *first = object(RUN(NULL, "score", "-m", model, "--ids", "5,9,300,17,5"));
    json_t *second = object(RUN(NULL, "score", "-m", model, "--ids", "9,300,17,42,8"));
    json_t *over = object(RUN(NULL, "score", "-m", model, "--ids", IDS, "-c", "5", "--stride", "2"));
    assert_int_equal((int)number(apart, "tokens"), 8);
    assert_true(fabs(number(apart, "nll") - number(first, "nll") - number(second, "nll")) < 1e-4);
    assert_int_equal((int)number(over, "tokens"), 9); /* overlapping ones score every token once */
    json_decref(apart);
    json_decref(first);
    json_decref(second);
    json_decref(over);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_score_is_that_of_the_logits_it_writes),
        cmocka_unit_test(a_score_that_fails_leaves_the_logits_of_before),
        cmocka_unit_test(windows_score_every_token_but_their_first),
    };
    return cmocka_run_group_tests(tests, make_model, NULL);
}
