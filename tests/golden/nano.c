/* nano, the small trained model that comes with foray, against golden.json and golden.safetensors of its folder, which
 * other code computed from the same weights in F32 without rounding of activations: logits of six prompts, streams, 64
 * greedy tokens each, and the drafts of its NextN layer.
 *
 * The file says by how much each greedy token won. Where that is less than near_tie both choices are right, and the
 * texts may part.
 */
#include "support/stack.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "format/safetensors.h"
#include "model/deepseek4.h"
#include "support/generate.h"
#include "support/nano.h"

#include <cmocka.h> /* last: its macro fail() hides ours */

enum { VOCAB = 4096, WIDTH = 4 * 256, PROMPTS = 6, MOST_PROMPT = 300, GREEDY = 64, DRAFTS = 3, TOP = 5 };

static const double limit_logits = 2e-4, limit_streams = 1e-4, near_tie = 5e-4;

typedef struct {
    int32_t ids[MOST_PROMPT], greedy[GREEDY], drafts[DRAFTS], top[TOP];
    double top_logits[TOP], margins[GREEDY], logsumexp;
    int count;
} prompt;

static prompt prompts[PROMPTS];

static int read_list(const json_t *object, const char *key, int most, int32_t *whole, double *number)
{
    const json_t *list = json_object_get(object, key);
    int n = (int)json_array_size(list);
    assert_in_range(n, 1, most);
    for (int i = 0; i < n; i++) {
        const json_t *v = json_array_get(list, (size_t)i);
        if (whole)
            whole[i] = (int32_t)json_integer_value(v);
        else
            number[i] = json_number_value(v);
    }
    return n;
}

static int read_golden(void **state)
{
    (void)state;
    char path[512];
    json_error_t problem;
    snprintf(path, sizeof path, "%s/golden.json", nano_folder());
    json_t *root = json_load_file(path, 0, &problem);
    assert_non_null(root);
    const json_t *list = json_object_get(root, "prompts");
    assert_int_equal(json_array_size(list), PROMPTS);
    for (size_t i = 0; i < PROMPTS; i++) {
        const json_t *from = json_array_get(list, i), *top = json_object_get(from, "top5");
        prompt *p = &prompts[i];
        p->count = read_list(from, "prompt", MOST_PROMPT, p->ids, NULL);
        assert_int_equal(read_list(from, "greedy", GREEDY, p->greedy, NULL), GREEDY);
        assert_int_equal(read_list(from, "margins", GREEDY, NULL, p->margins), GREEDY);
        assert_int_equal(read_list(from, "mtp_drafts", DRAFTS, p->drafts, NULL), DRAFTS);
        assert_int_equal(read_list(top, "ids", TOP, p->top, NULL), TOP);
        assert_int_equal(read_list(top, "logits", TOP, NULL, p->top_logits), TOP);
        p->logsumexp = json_number_value(json_object_get(from, "logsumexp"));
    }
    json_decref(root);
    return 0;
}

/* A tensor of golden.safetensors: floats that the file keeps alive. */
static const float *golden_floats(const tensor_view *tensors, size_t count, const char *kind, int n,
                                  size_t floats)
{
    char name[32];
    snprintf(name, sizeof name, "%s.%d", kind, n);
    for (size_t i = 0; i < count; i++)
        if (strcmp(tensors[i].name, name) == 0) {
            assert_int_equal(tensors[i].bytes, floats * sizeof(float));
            assert_int_equal((uintptr_t)tensors[i].data % sizeof(float), 0);
            return tensors[i].data;
        }
    fail_msg("golden.safetensors has no %s", name);
    return NULL;
}

static void check_last_row(const prompt *p, const float *got, const float *want)
{
    double sum = 0;
    for (int i = 0; i < VOCAB; i++) {
        if (!(fabs((double)got[i] - (double)want[i]) <= limit_logits))
            fail_msg("prompt of %d: logit %d is %.6f, not %.6f", p->count, i, (double)got[i],
                     (double)want[i]);
        sum += exp((double)got[i]);
    }
    assert_true(fabs(log(sum) - p->logsumexp) <= limit_logits);
    for (int i = 0; i < TOP; i++) {
        assert_true(fabs((double)got[p->top[i]] - p->top_logits[i]) <= limit_logits);
        int above = 0;
        for (int id = 0; id < VOCAB; id++)
            above += (double)got[id] > p->top_logits[i] + limit_logits;
        assert_true(above <= i);
    }
}

static void logits_and_streams_of_every_prompt(void **state)
{
    (void)state;
    static float got[MOST_PROMPT * VOCAB];
    char path[512];
    foray_error err;
    file_map map;
    arena views;
    tensor_view *tensors;
    size_t count;
    snprintf(path, sizeof path, "%s/golden.safetensors", nano_folder());
    arena_init(&views, MEM_GENERAL, 0);
    assert_int_equal(file_map_open(path, &map, &err), 0);
    assert_int_equal(safetensors_parse(map.data, map.size, path, &views, &tensors, &count, &err), 0);
    stack s;
    stack_open(
        &s, nano_folder(),
        (stack_config) { .threads = 2, .context = 320, .prefill_chunk = MOST_PROMPT, .act_quant_off = true });
    for (int i = 0; i < PROMPTS; i++) {
        const prompt *p = &prompts[i];
        stack_rows(&s, s.model, 0, p->ids, 0, p->count, got);
        check_last_row(p, got + (size_t)(p->count - 1) * VOCAB,
                       golden_floats(tensors, count, "logits", p->count, VOCAB));
        const float *x = round_pass(s.round)->deepseek4->x + (size_t)(p->count - 1) * WIDTH;
        const float *want = golden_floats(tensors, count, "streams", p->count, WIDTH);
        double off = 0, size = 0;
        for (int k = 0; k < WIDTH; k++) {
            off += pow((double)x[k] - (double)want[k], 2);
            size += pow((double)want[k], 2);
        }
        assert_true(sqrt(off) <= limit_streams * sqrt(size));
        cache_release(s.cache, 0);
    }
    stack_close(&s);
    arena_free(&views);
    file_unmap(&map);
}

/* Up to a near-tie at which they part. */
static void assert_greedy(const prompt *p, const int32_t *got, int count)
{
    assert_int_equal(count, GREEDY);
    for (int i = 0; i < GREEDY; i++)
        if (got[i] != p->greedy[i]) {
            if (p->margins[i] >= near_tie)
                fail_msg("prompt of %d: token %d is %d, not %d, which won by %g", p->count, i, got[i],
                         p->greedy[i], p->margins[i]);
            return;
        }
}

/* Greedy texts, and the drafts that are made first of all. */
static void write_all(const char *spec)
{
    stack s;
    stack_open(&s, nano_folder(),
               (stack_config) { .threads = 2,
                                .context = 400,
                                .prefill_chunk = 128,
                                .drafter = spec,
                                .spec_tokens = DRAFTS,
                                .spec_budget = DRAFTS,
                                .act_quant_off = true });
    for (int i = 0; i < PROMPTS; i++) {
        const prompt *p = &prompts[i];
        request *const *delivered;
        int n, count;
        bool drafted = false;
        foray_error err;
        foray_request_config c = request_of(p->ids, p->count, GREEDY);
        c.ignore_eos = true;
        foray_request r = stack_submit(&s, &c);
        while (batch_step(s.batch, &delivered, &n, &err) > 0) {
            const round_plan *plan = round_get_plan(s.round);
            if (drafted || plan->phase != PHASE_TARGET_VERIFY)
                continue;
            assert_int_equal(plan->member[0].draft.count, DRAFTS);
            assert_memory_equal(plan->member[0].draft.tokens, p->drafts, sizeof p->drafts);
            drafted = true;
        }
        assert_true(drafted == (spec != NULL));
        const int32_t *tokens = stack_tokens(&s, r, &count);
        assert_greedy(p, tokens, count);
        batch_release(s.batch, r);
    }
    stack_close(&s);
}

static void greedy_tokens(void **state)
{
    (void)state;
    write_all(NULL);
}

static void greedy_tokens_and_first_drafts_with_nextn(void **state)
{
    (void)state;
    write_all("nextn");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logits_and_streams_of_every_prompt),
        cmocka_unit_test(greedy_tokens),
        cmocka_unit_test(greedy_tokens_and_first_drafts_with_nextn),
    };
    return cmocka_run_group_tests(tests, read_golden, NULL);
}
