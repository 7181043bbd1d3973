/* generate.c: see generate.h. */
#include "support/generate.h"

#include <stdio.h>
#include <string.h>

#include "base/rng.h"

foray_engine *engine_open(const char *golden, foray_config config)
{
    char path[512];
    snprintf(path, sizeof path, "%s/golden/models/%s", FORAY_TESTS, golden);
    return engine_open_path(path, config);
}

foray_engine *engine_open_path(const char *path, foray_config config)
{
    foray_engine *e = NULL;
    foray_error err;
    config.model = path;
    if (foray_open(&config, &e, &err) != 0)
        fail_msg("%s: %s", path, err.text);
    return e;
}

const int32_t *golden_ids(const char *golden, int *count)
{
    static int32_t ids[256];
    char path[512], base[64];
    snprintf(base, sizeof base, "%s", golden);
    char *dot = strstr(base, ".gguf");
    if (dot)
        *dot = 0;
    snprintf(path, sizeof path, "%s/golden/models/%s.ids", FORAY_TESTS, base);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    *count = (int)fread(ids, sizeof *ids, 256, f);
    fclose(f);
    assert_true(*count > 8);
    return ids;
}

foray_request_config request_of(const int32_t *prompt, int n, int max_tokens)
{
    return (foray_request_config) { .prompt = prompt,
                                    .prompt_count = (size_t)n,
                                    .max_tokens = max_tokens,
                                    .sampling = { .top_p = 1, .repeat_penalty = 1, .seed = 1 },
                                    .logprobs = 0 };
}

void random_ids(int seed, int n, int vocab, int32_t *ids)
{
    for (int i = 0; i < n; i++)
        ids[i] = (int32_t)(rng_philox((uint32_t)i, 0, 0, 0, (uint32_t)seed, 4).word[0] % (uint32_t)vocab);
}

/* Adds one event to its text. */
static void take(text *t, const foray_event *v)
{
    assert_true(t->count + (int)v->count <= TEXT_MOST);
    memcpy(t->ids + t->count, v->tokens, v->count * sizeof *v->tokens);
    if (v->logprobs)
        memcpy(t->logprobs + t->count, v->logprobs, v->count * sizeof *v->logprobs);
    t->count += (int)v->count;
    assert_true(t->length + v->text_bytes < sizeof t->bytes);
    memcpy(t->bytes + t->length, v->text, v->text_bytes);
    t->length += v->text_bytes;
    t->bytes[t->length] = 0;
    t->finish = v->finish;
    if (v->finish == FORAY_FAILED)
        fail_msg("request %d: %s", v->request, v->error.text);
}

void generate_all(foray_engine *e, const foray_request_config *configs, int n, int every, text *out)
{
    foray_request handle[64] = { 0 };
    const foray_event *events;
    size_t count;
    foray_error err = { 0 };
    int submitted = 0, active = 1;
    memset(out, 0, sizeof *out * (size_t)n);
    for (int step = 0; active > 0 || submitted < n; step++) {
        while (submitted < n && step >= submitted * every) {
            if (foray_submit(e, &configs[submitted], &handle[submitted], &err) != 0)
                fail_msg("submit %d: %s", submitted, err.text);
            submitted++;
        }
        active = foray_step(e, &events, &count, &err);
        for (size_t i = 0; i < count; i++)
            for (int r = 0; r < submitted; r++)
                if (handle[r] == events[i].request)
                    take(&out[r], &events[i]);
    }
    for (int r = 0; r < n; r++) {
        assert_int_equal(foray_request_account(e, handle[r], &out[r].account, &err), 0);
        foray_release(e, handle[r]);
    }
}

void generate(foray_engine *e, const foray_request_config *config, text *out)
{
    generate_all(e, config, 1, 0, out);
}

void assert_same_text(const text *a, const text *b)
{
    int n = a->count < b->count ? a->count : b->count;
    for (int i = 0; i < n; i++)
        if (a->ids[i] != b->ids[i])
            fail_msg("token %d is %d and %d", i, a->ids[i], b->ids[i]);
    assert_int_equal(a->count, b->count);
    assert_int_equal(a->finish, b->finish);
    assert_memory_equal(a->logprobs, b->logprobs, sizeof(float) * (size_t)n);
    assert_int_equal(a->length, b->length);
    assert_memory_equal(a->bytes, b->bytes, a->length);
}
