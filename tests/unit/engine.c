/* The engine's own rules: settings that cannot be, any chunk of a prompt, errors that change nothing, records that cannot be
 * written, text for which memory runs out. */
#include "support/generate.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "cache/cache.h"
#include "engine/score.h"
#include "support/tiny.h"

static const char *model, *silent; /* with and without a tokenizer */
static foray_engine *engine;
static const int32_t prompt[] = { 70, 80, 90, 100, 71, 81 };

static int open_engine(void **state)
{
    (void)state;
    tiny_spec spec = tiny_default();
    spec.layers = 1;
    model = tiny_gguf(&spec);
    spec.no_text = true;
    silent = tiny_gguf(&spec);
    engine = engine_open_path(model, (foray_config) { .spec = "ngram", .spec_budget = 3, .threads = 1 });
    return 0;
}

static int close_engine(void **state)
{
    (void)state;
    foray_close(engine);
    return 0;
}

static void settings_that_cannot_be_are_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        foray_config c;
        int code;
        const char *says;
    } rows[] = {
        { { .max_requests = -1 }, FORAY_EUSAGE, "-1 requests" },
        { { .max_requests = 65 }, FORAY_EUSAGE, "65 requests" },
        { { .spec_tokens = 16 }, FORAY_EUSAGE, "--spec-tokens 16" },
        { { .spec_tokens = -1 }, FORAY_EUSAGE, "--spec-tokens -1" },
        { { .spec_budget = 16 }, FORAY_EUSAGE, "--spec-budget 16" },
        { { .accept = "best" }, FORAY_EUSAGE, "--accept best" },
        { { .context = -1 }, FORAY_EUSAGE, "negative" },
        { { .threads = -1 }, FORAY_EUSAGE, "negative" },
        { { .prefill_chunk = -1 }, FORAY_EUSAGE, "negative" },
        { { .context = 513 }, FORAY_ELIMIT, "-c 513: the model was made for 512 tokens (lower -c" },
        { { .graph = "on" }, FORAY_EUSAGE, "--graph on" },
        { { .spec = "magic" }, FORAY_EUSAGE, "--spec magic" },
        { { .isa = "sse9" }, FORAY_EUSAGE, "sse9" },
        { { .chat_template = "pidgin" }, FORAY_EUSAGE, "pidgin" },
        { { .thinking = "hard" }, FORAY_EUSAGE, "hard" },
        { { .thinking = "on" }, FORAY_EUSAGE, "chatml of this model has no such form" },
        { { .option_count = 1000 }, FORAY_EUSAGE, "options" },
    };
    int64_t blocks = mem_get_stats().blocks;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        foray_config c = rows[i].c;
        foray_engine *e = NULL;
        foray_error err = { 0 };
        c.model = model;
        assert_int_equal(foray_open(&c, &e, &err), rows[i].code);
        assert_null(e);
        if (!strstr(err.text, rows[i].says))
            fail_msg("'%s' does not say '%s'", err.text, rows[i].says);
        assert_int_equal(mem_get_stats().blocks, blocks);
    }
    foray_config none = { 0 };
    foray_engine *e;
    assert_int_equal(foray_open(&none, &e, NULL), FORAY_EUSAGE);
}

/* Chunks of one token and of more than any prompt has, with and without measured costs, small contexts. */
static void any_chunk_and_any_context_give_the_text(void **state)
{
    (void)state;
    static text expected, t;
    static const int chunks[] = { 1, 2, 5, 1000, INT_MAX }, contexts[] = { 8, 48, 49, 50, 512 };
    foray_request_config c = request_of(prompt, 6, 12);
    c.ignore_eos = true;
    generate(engine, &c, &expected);
    for (int i = 0; i < 5; i++)
        for (int budget = i % 2; budget < 2; budget++) {
            foray_engine *e = engine_open_path(model, (foray_config) { .spec = "ngram",
                                                                       .spec_budget = budget * 3,
                                                                       .threads = 1,
                                                                       .prefill_chunk = chunks[i],
                                                                       .context = contexts[4 - i] });
            generate(e, &c, &t);
            assert_memory_equal(t.ids, expected.ids, sizeof(int32_t) * (size_t)t.count);
            assert_int_equal(t.count, contexts[4 - i] == 8 ? 2 : 12);
            foray_close(e);
        }
}

static void a_refused_request_changes_nothing(void **state)
{
    (void)state;
    static text before, after;
    foray_error err = { 0 };
    foray_request r = 0, running;
    const foray_event *events;
    size_t count;
    foray_request_config c = request_of(prompt, 6, 8), bad = c;
    c.ignore_eos = true;
    generate(engine, &c, &before);
    assert_int_equal(foray_submit(engine, &c, &running, &err), 0);
    foray_step(engine, &events, &count, &err);
    int64_t blocks = mem_get_stats().blocks;
    bad.prompt_count = 0;
    assert_int_equal(foray_submit(engine, &bad, &r, &err), FORAY_EUSAGE);
    bad = c;
    bad.sampling.top_p = 2;
    assert_int_equal(foray_submit(engine, &bad, &r, NULL), FORAY_EUSAGE);
    mem_fail_nth(1, false);
    assert_int_equal(foray_submit(engine, &c, &r, &err), FORAY_ENOMEM);
    mem_fail_nth(0, false);
    assert_int_equal(r, 0);
    assert_int_equal(mem_get_stats().blocks, blocks);
    assert_int_equal(foray_step(engine, &events, &count, &err), 1); /* the one that runs */
    foray_release(engine, running);
    generate(engine, &c, &after);
    assert_same_text(&before, &after);
}

static void dead_handles_are_errors_or_nothing(void **state)
{
    (void)state;
    foray_error err = { 0 };
    foray_account a;
    foray_request r;
    int computed = 5;
    foray_request_config c = request_of(prompt, 6, 8);
    assert_int_equal(foray_submit(engine, &c, &r, &err), 0);
    foray_release(engine, r);
    foray_release(engine, r);
    foray_release(engine, 0);
    assert_int_equal(foray_request_account(engine, r, &a, &err), FORAY_ESTATE);
    assert_non_null(strstr(err.text, "none of that handle"));
    assert_true(engine_request_digest(engine, r, &computed) == 0);
    const foray_event *events;
    size_t count = 9;
    assert_int_equal(foray_step(engine, &events, &count, &err), 0);
    assert_int_equal(count, 0);
    assert_int_equal(cache_pages_in_use(engine_cache(engine)), 0);
}

static void count_loading(void *user, const char *what, uint64_t done, uint64_t total)
{
    (void)what;
    (void)done;
    (void)total;
    ++*(int *)user;
}

/* What the caller will need is looked for before the weights are read. */
static void a_missing_tokenizer_is_said_before_the_weights_are_read(void **state)
{
    (void)state;
    static const foray_input inputs[] = { FORAY_IDS, FORAY_TEXT, FORAY_CHAT };
    for (int i = 0; i < 3; i++) {
        int loading = 0;
        foray_engine *e = NULL;
        foray_error err = { 0 };
        foray_config c = { .model = silent,
                           .spec = "off",
                           .threads = 1,
                           .input = inputs[i],
                           .progress = count_loading,
                           .progress_user = &loading };
        assert_int_equal(foray_open(&c, &e, &err), i == 0 ? 0 : FORAY_EUNSUPPORTED);
        assert_int_equal(loading > 0, i == 0);
        assert_int_equal(strstr(err.text, "no tokenizer") != NULL, i > 0);
        foray_close(e);
    }
    tiny_spec spec = tiny_default();
    const char *folder = tiny_folder();
    tiny_write_hf(&spec, folder);
    tiny_write_text(folder, spec.vocab, NULL); /* a tokenizer, no chat template */
    foray_error err = { 0 };
    foray_engine *e = NULL;
    int loading = 0;
    foray_config c = { .model = folder,
                       .spec = "off",
                       .input = FORAY_CHAT,
                       .progress = count_loading,
                       .progress_user = &loading };
    assert_int_equal(foray_open(&c, &e, &err), FORAY_EUNSUPPORTED);
    assert_non_null(strstr(err.text, "--chat-template"));
    assert_int_equal(loading, 0);
}

static void what_a_model_lacks_is_said(void **state)
{
    (void)state;
    foray_error err = { 0 };
    int32_t *ids;
    size_t count, bytes = 7;
    foray_message m = { "user", "hello" };
    foray_engine *e = engine_open_path(silent, (foray_config) { .spec = "off", .threads = 1 });
    assert_int_equal(foray_encode(e, "x", 1, false, false, &ids, &count, &err), FORAY_EUNSUPPORTED);
    assert_int_equal(foray_encode_chat(e, &m, 1, &ids, &count, &err), FORAY_EUNSUPPORTED);
    assert_string_equal(foray_token_bytes(e, 5, &bytes), "");
    assert_int_equal(bytes, 0);
    assert_int_equal(foray_timeline_write(e, "never.json", &err), FORAY_ESTATE);
    assert_non_null(strstr(err.text, "record"));
    assert_string_equal(foray_engine_info(e).spec, "off");
    foray_close(e);
}

/* No room on the disk: the step that could not be written is an error once; its events stand and the request goes on. */
static void a_step_that_cannot_be_written_is_said_once(void **state)
{
    (void)state;
    foray_error err = { 0 };
    foray_engine *e = engine_open_path(model, (foray_config) { .spec = "off", .threads = 1 });
    const char *path = tiny_path(tiny_folder(), "steps");
    const foray_event *events;
    size_t count;
    foray_request r;
    foray_request_config c = request_of(prompt, 6, 4);
    c.ignore_eos = true;
    assert_int_equal(foray_steps_open(e, tiny_path(path, "none"), &err), FORAY_EFILE);
    assert_int_equal(foray_steps_open(e, path, &err), 0);
    assert_int_equal(foray_submit(e, &c, &r, &err), 0);
    assert_int_equal(foray_step(e, &events, &count, &err), 1);

    struct stat file;
    struct rlimit before, room;
    char partial[512];
    snprintf(partial, sizeof partial, "%s.partial", path);
    assert_int_equal(stat(partial, &file), 0);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    room = (struct rlimit) { .rlim_cur = (rlim_t)file.st_size + 10, .rlim_max = before.rlim_max };
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &room), 0);
    int rc = foray_step(e, &events, &count, &err);
    setrlimit(RLIMIT_FSIZE, &before);
    assert_int_equal(rc, FORAY_EFILE);
    assert_non_null(strstr(err.text, "step 2 of the steps file"));
    assert_int_equal(count, 1);
    assert_int_equal(events[0].count, 1);
    assert_int_equal(foray_step(e, &events, &count, &err), 1);
    foray_release(e, r);
    foray_close(e);
    assert_int_not_equal(stat(path, &file), 0); /* nothing half-written */
    assert_int_not_equal(stat(partial, &file), 0);
}

/* Whichever allocation fails while a text is delivered: either it is whole, or its request has failed and what was shown
 * is its beginning. */
static void text_is_never_lost_silently(void **state)
{
    (void)state;
    const char *stops[] = { "no such text" };
    static text expected;
    foray_error err;
    const foray_event *events;
    size_t count;
    int failures = 0;
    for (int with_stop = 0; with_stop < 2; with_stop++) {
        foray_request_config c = request_of(prompt, 6, 40);
        c.ignore_eos = true;
        c.stop = stops;
        c.stop_count = (size_t)with_stop;
        generate(engine, &c, &expected);
        assert_true(strlen(expected.bytes) > 20);
        for (int n = 1; n <= 6; n++) {
            char shown[1024] = { 0 };
            foray_finish finish = FORAY_RUNNING;
            foray_request r;
            assert_int_equal(foray_submit(engine, &c, &r, &err), 0);
            mem_fail_nth(n, false);
            while (foray_step(engine, &events, &count, &err) > 0 || count > 0) {
                for (size_t i = 0; i < count; i++) {
                    strncat(shown, events[i].text, events[i].text_bytes);
                    finish = events[i].finish;
                    if (finish == FORAY_FAILED)
                        assert_int_equal(events[i].error.code, FORAY_ENOMEM);
                }
                if (finish != FORAY_RUNNING)
                    break;
            }
            mem_fail_nth(0, false);
            if (finish == FORAY_FAILED)
                assert_memory_equal(shown, expected.bytes, strlen(shown));
            else
                assert_string_equal(shown, expected.bytes);
            failures += finish == FORAY_FAILED;
            foray_release(engine, r);
        }
    }
    assert_true(failures >= 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(settings_that_cannot_be_are_refused_by_name),
        cmocka_unit_test(any_chunk_and_any_context_give_the_text),
        cmocka_unit_test(a_refused_request_changes_nothing),
        cmocka_unit_test(dead_handles_are_errors_or_nothing),
        cmocka_unit_test(a_missing_tokenizer_is_said_before_the_weights_are_read),
        cmocka_unit_test(what_a_model_lacks_is_said),
        cmocka_unit_test(a_step_that_cannot_be_written_is_said_once),
        cmocka_unit_test(text_is_never_lost_silently),
    };
    return cmocka_run_group_tests(tests, open_engine, close_engine);
}
