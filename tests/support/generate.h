/* generate.h: texts for property tests: open a model, run a request to its end, keep its tokens.
 *
 * Asserts (cmocka) on errors, so that tests read as promises.
 */
#ifndef FORAY_TESTS_GENERATE_H
#define FORAY_TESTS_GENERATE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "foray.h"

enum { TEXT_MOST = 1024 };

typedef struct {
    int32_t ids[TEXT_MOST];
    float logprobs[TEXT_MOST];
    int count;
    foray_finish finish;
    foray_account account;
    size_t length;             /* of the text, which may have NULs in it */
    char bytes[8 * TEXT_MOST]; /* the text, NUL at the end */
} text;

/* A golden checkpoint (tests/golden/models/NAME) with some settings; max_requests, spec, … from config. */
foray_engine *engine_open(const char *golden, foray_config config);

/* Any model file. */
foray_engine *engine_open_path(const char *path, foray_config config);

/* A request whose prompt is the first n golden ids of the model, greedy, max_tokens. */
foray_request_config request_of(const int32_t *prompt, int n, int max_tokens);

/* The golden ids of a model: [*count], static. */
const int32_t *golden_ids(const char *golden, int *count);

/* ids[n] below vocab, which the seed decides. */
void random_ids(int seed, int n, int vocab, int32_t *ids);

/* Runs one request to its end and releases it. */
void generate(foray_engine *e, const foray_request_config *config, text *out);
/* Runs n requests together, submitting the i-th after `every` further steps. */
void generate_all(foray_engine *e, const foray_request_config *configs, int n, int every, text *out);

void assert_same_text(const text *a, const text *b);

#endif
