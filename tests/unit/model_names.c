/* Tests of model/names: the same weights are found, in the same order, in both kinds of file; and every fault of a file's
 * tensors is said at once.
 */
#include "model/names.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "support/gguf_write.h"
#include "support/tiny.h"

#include <cmocka.h> /* last: base/error.h has a fail() too */

enum { MAX_ROWS = 1024 };

static void open_model(const char *path, model_file **f, model_config *c)
{
    foray_error err;
    if (model_file_open(path, f, &err) != 0 || model_config_read(*f, c, &err) != 0 ||
        model_names_check(*f, c, &err) != 0)
        fail_msg("%s", err.text);
}

/* Row i as foray packs it. */
static const uint8_t *row_at(const tensor_view *v, const int32_t *order, int64_t i)
{
    int64_t row = order ? order[i] : i;
    return (const uint8_t *)v->data + (size_t)row * (v->bytes / (uint64_t)v->shape[0]);
}

static void assert_same_matrix(const tensor_view *v, const model_config *c, const tensor_view *w,
                               const model_config *d, model_role role)
{
    int32_t order_v[MAX_ROWS], order_w[MAX_ROWS];
    bool qk = role == ROLE_Q || role == ROLE_K;
    int heads = role == ROLE_Q ? c->heads : c->kv_heads;
    const int32_t *ov = qk && model_qk_row_order(c, heads, order_v) ? order_v : NULL;
    const int32_t *ow = qk && model_qk_row_order(d, heads, order_w) ? order_w : NULL;
    assert_int_equal(v->bytes, w->bytes);
    assert_int_equal(v->type, w->type);
    for (int64_t i = 0; i < v->shape[0]; i++)
        if (memcmp(row_at(v, ov, i), row_at(w, ow, i), v->bytes / (uint64_t)v->shape[0]) != 0)
            fail_msg("%s and %s differ in row %d", v->name, w->name, (int)i);
}

/* Every role of every layer in two models: bits of matrices, values of vectors. */
static void assert_same_weights(const model_file *f, const model_config *c, const model_file *g,
                                const model_config *d)
{
    for (int role = 0; role < ROLE_COUNT; role++) {
        assert_int_equal(model_role_used(c, role), model_role_used(d, role));
        for (int layer = 0; model_role_used(c, role) && layer < (model_role_per_layer(role) ? c->layers : 1);
             layer++) {
            const tensor_view *v = model_names_find(f, c, role, layer),
                              *w = model_names_find(g, d, role, layer);
            assert_true(v && w);
            if (v->dims == 2) {
                assert_same_matrix(v, c, w, d, role);
                continue;
            }
            float x[MAX_ROWS], y[MAX_ROWS];
            model_names_vector(f, c, role, layer, x);
            model_names_vector(g, d, role, layer, y);
            assert_memory_equal(x, y, (size_t)v->shape[0] * sizeof *x);
        }
    }
}

static void both_kinds_of_file_give_the_same_weights(void **state)
{
    (void)state;
    static const dtype types[] = { DTYPE_F32, DTYPE_F16, DTYPE_BF16 };
    for (int arch = 0; arch < MODEL_ARCH_COUNT; arch++) {
        tiny_spec spec = tiny_family(arch);
        spec.type = spec.embd_type = types[arch % 3];
        spec.untied = arch == MODEL_MISTRAL;
        spec.no_text = true;
        model_file *f, *g;
        model_config c, d;
        const char *folder = tiny_folder();
        tiny_write_hf(&spec, folder);
        open_model(folder, &f, &c);
        open_model(tiny_gguf(&spec), &g, &d);
        assert_true(c.kind == MODEL_FILE_HF && d.kind == MODEL_FILE_GGUF);
        assert_int_equal(c.tied, !spec.untied);
        assert_same_weights(f, &c, g, &d);
        model_file_close(f);
        model_file_close(g);
    }
}

/* Written by other programs: transformers, and the gguf package. */
static void the_golden_files_give_the_same_weights(void **state)
{
    (void)state;
    static const char *const names[] = { "llama2",  "llama3", "llama-linear", "llama-yarn",
                                         "mistral", "qwen2",  "qwen3",        "gemma3" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char path[512];
        model_file *f, *g;
        model_config c, d;
        snprintf(path, sizeof path, "%s/golden/models/%s", FORAY_TESTS, names[i]);
        open_model(path, &f, &c);
        snprintf(path, sizeof path, "%s/golden/models/%s.gguf", FORAY_TESTS, names[i]);
        open_model(path, &g, &d);
        assert_same_weights(f, &c, g, &d);
        model_file_close(f);
        model_file_close(g);
    }
}

static void every_weight_type_is_found(void **state)
{
    (void)state;
    for (int type = DTYPE_F32; type <= DTYPE_Q6_K; type++) {
        bool k = dtype_get(type)->block == 256;
        tiny_spec spec = tiny_default();
        spec.type = spec.embd_type = type;
        spec.no_text = true;
        spec.layers = 1;
        if (k) {
            spec.dim = spec.ffn = 256;
            spec.head_dim = 64;
        }
        model_file *f;
        model_config c;
        open_model(tiny_gguf(&spec), &f, &c);
        const tensor_view *v = model_names_find(f, &c, ROLE_GATE, 0);
        assert_int_equal(v->type, type);
        assert_string_equal(v->type_name, dtype_get(type)->name);
        /* Quantised weights are near the ones they were made from. */
        tiny_spec plain = spec;
        plain.type = plain.embd_type = DTYPE_F32;
        model_file *g;
        model_config d;
        open_model(tiny_gguf(&plain), &g, &d);
        const float *want = model_names_find(g, &d, ROLE_GATE, 0)->data;
        size_t n = (size_t)(v->shape[0] * v->shape[1]);
        float *got = malloc(n * sizeof *got);
        assert_non_null(got);
        dtype_to_f32(v->type, v->data, n, got);
        double off = 0, all = 0;
        for (size_t i = 0; i < n; i++) {
            off += (double)(got[i] - want[i]) * (double)(got[i] - want[i]);
            all += (double)want[i] * (double)want[i];
        }
        if (!(off < 0.01 * all))
            fail_msg("%s: relative error %g", dtype_get(type)->name, off / all);
        free(got);
        model_file_close(f);
        model_file_close(g);
    }
}

static void rows_of_interleaved_heads_are_split_in_halves(void **state)
{
    (void)state;
    static const int32_t want[20] = { 0, 2, 4, 6, 1, 3, 5, 7, 8, 9, 10, 12, 14, 16, 11, 13, 15, 17, 18, 19 };
    model_config c = { .head_dim = 10, .rope_dim = 8, .qk_interleaved = true };
    int32_t order[20];
    assert_true(model_qk_row_order(&c, 2, order));
    assert_memory_equal(order, want, sizeof want);
    c.qk_interleaved = false;
    assert_false(model_qk_row_order(&c, 2, order));
}

static void all_faults_are_said_at_once(void **state)
{
    (void)state;
    tiny_spec spec = tiny_default();
    model_file *f;
    model_config c;
    foray_error err;
    spec.no_text = true;
    open_model(tiny_gguf(&spec), &f, &c);
    int64_t before = mem_get_stats().blocks;
    model_config more = c;
    more.layers = 5; /* two layers of nine tensors are missing */
    assert_int_equal(model_names_check(f, &more, &err), FORAY_EFILE);
    assert_non_null(strstr(err.text, "blk.3.attn_norm.weight is missing"));
    assert_non_null(strstr(err.text, "and 14 more"));
    more = c;
    more.ffn = 96; /* gate, up, down of three layers */
    assert_int_equal(model_names_check(f, &more, &err), FORAY_EFILE);
    assert_non_null(strstr(err.text, "blk.0.ffn_gate.weight has 2 dimensions [128, 64], expected [96, 64]"));
    assert_non_null(strstr(err.text, "and 5 more"));
    more = c;
    more.qk_norm = true;
    assert_int_equal(model_names_check(f, &more, &err), FORAY_EFILE);
    assert_non_null(strstr(err.text, "blk.0.attn_q_norm.weight is missing"));
    more = c;
    more.tied = false;
    assert_int_equal(model_names_check(f, &more, &err), FORAY_EFILE);
    assert_non_null(strstr(err.text, "output.weight is missing"));
    assert_int_equal(mem_get_stats().blocks, before);
    model_file_close(f);
}

static void a_type_that_foray_does_not_know_is_named_with_its_tensor(void **state)
{
    (void)state;
    static const int64_t shape[] = { 4, 256 };
    static const uint8_t data[4 * 66];
    const char *path = tiny_path(tiny_folder(), "m.gguf");
    gguf_writer w = { 0 };
    model_file *f;
    foray_error err;
    model_config c = { .layers = 0, .dim = 256, .vocab = 4, .tied = true };
    static const float norm[256];
    gguf_tensor(&w, "token_embd.weight", 16, 2, shape, data, sizeof data);
    gguf_tensor(&w, "output_norm.weight", 0, 1, shape + 1, norm, sizeof norm);
    gguf_finish_file(&w, path);
    assert_int_equal(model_file_open(path, &f, &err), 0);
    assert_int_equal(model_names_check(f, &c, &err), FORAY_EUNSUPPORTED);
    assert_non_null(strstr(err.text, "token_embd.weight has type IQ2_XXS"));
    model_file_close(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_kinds_of_file_give_the_same_weights),
        cmocka_unit_test(the_golden_files_give_the_same_weights),
        cmocka_unit_test(every_weight_type_is_found),
        cmocka_unit_test(rows_of_interleaved_heads_are_split_in_halves),
        cmocka_unit_test(all_faults_are_said_at_once),
        cmocka_unit_test(a_type_that_foray_does_not_know_is_named_with_its_tensor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
