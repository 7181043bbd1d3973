/* Tests of model/deepseek4_names: whatever program named, stacked and quantised the tensors of a model, every role has the
 * same values; and every fault of a file's tensors is said at once.
 */
#include "model/deepseek4_names.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "model/deepseek4_roles.h"
#include "support/gguf_write.h"
#include "support/quantise.h"
#include "support/safetensors_write.h"
#include "support/tiny.h"
#include "support/tiny_v4.h"

#include <cmocka.h> /* last: base/error.h has a fail() too */

static void open_model(const char *path, model_file **f, deepseek4_config *c)
{
    foray_error err;
    if (model_file_open(path, f, &err) != 0 || deepseek4_config_read(*f, c, &err) != 0 ||
        v4_names_check(*f, c, &err) != 0)
        fail_msg("%s", err.text);
}

/* ---- what a weight_source means, read plainly ---- */

static float e8m0_values[256], e4m3_values[256], e2m1_values[16];

static int make_tables(void **state)
{
    static const float size[8] = { 0, 0.5f, 1, 1.5f, 2, 3, 4, 6 };
    (void)state;
    for (int code = 0; code < 256; code++) {
        int exponent = code >> 3 & 15, mantissa = code & 7;
        float x = exponent == 0 ? ldexpf((float)mantissa, -9) : ldexpf((float)(8 + mantissa), exponent - 10);
        e4m3_values[code] = code & 0x80 ? -x : x;
        e8m0_values[code] = ldexpf(1, code - 127);
    }
    for (int code = 0; code < 16; code++)
        e2m1_values[code] = code & 8 ? -size[code & 7] : size[code & 7];
    return 0;
}

static size_t row_bytes_of(const weight_source *s)
{
    if (s->row_bytes)
        return s->row_bytes;
    switch (s->type) {
    case DTYPE_F4_E2M1:
        return (size_t)s->cols / 2;
    case DTYPE_MXFP4:
        return (size_t)s->cols / 32 * 17;
    case DTYPE_F32:
        return (size_t)s->cols * 4;
    case DTYPE_BF16:
        return (size_t)s->cols * 2;
    default:
        return (size_t)s->cols;
    }
}

/* Row `row` as numbers: out[cols] */
static void read_row(const weight_source *s, int row, float *out)
{
    const uint8_t *at = (const uint8_t *)s->data + (size_t)row * row_bytes_of(s), *scale = s->scale;
    float x = 0;
    switch (s->type) {
    case DTYPE_F32:
        memcpy(out, at, 4 * (size_t)s->cols);
        return;
    case DTYPE_BF16:
        for (int col = 0; col < s->cols; col++)
            out[col] = dtype_bf16_to_f32((uint16_t)(at[2 * col] | at[2 * col + 1] << 8));
        return;
    case DTYPE_F8_E4M3:
        scale += (size_t)(row / 128) * s->scale_stride;
        for (int col = 0; col < s->cols; col++)
            out[col] = e4m3_values[at[col]] * e8m0_values[scale[col / 128]];
        return;
    case DTYPE_F4_E2M1:
        scale += (size_t)row * s->scale_stride;
        for (int col = 0; col < s->cols; col++)
            out[col] = e2m1_values[at[col / 2] >> (col % 2 * 4) & 15] * e8m0_values[scale[col / 32]];
        return;
    case DTYPE_I8:
        memcpy(&x, scale + 4 * row, 4);
        for (int col = 0; col < s->cols; col++)
            out[col] = x * (float)(int8_t)at[col];
        return;
    case DTYPE_MXFP4:
        for (int col = 0; col < s->cols; col++) {
            const uint8_t *block = at + col / 32 * 17;
            out[col] = e2m1_values[block[1 + col % 16] >> (col % 32 / 16 * 4) & 15] * e8m0_values[block[0]];
        }
        return;
    default:
        fail_msg("type %s", dtype_get(s->type)->name);
    }
}

enum { MAX_COLS = 1024 };

static void assert_same_matrix(const weight_source *v, const weight_source *w, const char *name)
{
    float x[MAX_COLS], y[MAX_COLS];
    assert_true(v->rows == w->rows && v->cols == w->cols && v->cols <= MAX_COLS);
    for (int row = 0; row < v->rows; row++) {
        read_row(v, row, x);
        read_row(w, row, y);
        for (int col = 0; col < v->cols; col++)
            if (x[col] != y[col])
                fail_msg("%s differs at %d, %d: %g, %g", name, row, col, (double)x[col], (double)y[col]);
    }
}

enum { MAX_VALUES = 1 << 16 };

static void assert_same_role(const model_file *f, const deepseek4_config *c, const model_file *g,
                             const deepseek4_config *d, v4_role role, int layer)
{
    static float x[MAX_VALUES], y[MAX_VALUES];
    static int32_t i[MAX_VALUES], j[MAX_VALUES];
    int64_t shape[2];
    char name[V4_NAME_BYTES];
    v4_role_shape(c, role, layer, shape);
    v4_role_name(c, role, layer, 0, 0, name);
    size_t n = (size_t)(shape[0] * shape[1]);
    if (v4_role_form(role) == V4_FLOATS) {
        assert_in_range(n, 1, MAX_VALUES);
        v4_floats(f, c, role, layer, x);
        v4_floats(g, d, role, layer, y);
        if (memcmp(x, y, n * sizeof *x) != 0)
            fail_msg("%s differs", name);
    } else if (v4_role_form(role) == V4_IDS) {
        v4_ids(f, c, layer, i);
        v4_ids(g, d, layer, j);
        if (memcmp(i, j, n * sizeof *i) != 0)
            fail_msg("%s differs", name);
    } else {
        for (int e = 0; e < (v4_role_of_expert(role) ? c->experts : 1); e++) {
            weight_source v = v4_matrix(f, c, role, layer, e), w = v4_matrix(g, d, role, layer, e);
            assert_same_matrix(&v, &w, name);
        }
    }
}

/* Every role of every layer that both have. */
static void assert_same_weights(const model_file *f, const deepseek4_config *c, const model_file *g,
                                const deepseek4_config *d)
{
    for (int role = 0; role < V4_ROLE_COUNT; role++)
        for (int layer = 0; layer <= (v4_role_of_model(role) ? 0 : c->layers); layer++)
            if (v4_role_used(c, role, layer) && v4_role_used(d, role, layer))
                assert_same_role(f, c, g, d, role, layer);
}

static void assert_same_config(const deepseek4_config *a, const deepseek4_config *b)
{
    deepseek4_config x = *a, y = *b;
    x.kind = y.kind = MODEL_FILE_HF;
    x.rounding = y.rounding = 0;
    x.drafter = y.drafter = 0;
    x.drafter_stages = y.drafter_stages = 0;
    memset(x.name, 0, sizeof x.name);
    memset(y.name, 0, sizeof y.name);
    assert_memory_equal(x.ratio, y.ratio, sizeof x.ratio);
    assert_true(x.layers == y.layers && x.vocab == y.vocab && x.dim == y.dim && x.context == y.context);
    assert_true(x.hyper_eps == y.hyper_eps && x.rms_eps == y.rms_eps && x.swiglu_limit == y.swiglu_limit);
    assert_true(x.end_count == y.end_count && x.end_ids[0] == y.end_ids[0]);
    assert_memory_equal(&x, &y, sizeof x);
}

/* ---- the same weights ---- */

static void every_naming_and_format_gives_the_same_weights(void **state)
{
    (void)state;
    static const deepseek4_rounding rounding[TINY_V4_FORMATS] = {
        [TINY_V4_QUANT] = DEEPSEEK4_ROUND_FP8_FP4,
        [TINY_V4_VLLM] = DEEPSEEK4_ROUND_FP8_FP4,
        [TINY_V4_MODELSLIM] = DEEPSEEK4_ROUND_INT8,
    };
    tiny_v4_spec spec = tiny_v4_default();
    model_file *f, *g;
    deepseek4_config c, d;
    open_model(tiny_v4_model(&spec, TINY_V4_PLAIN), &f, &c);
    assert_int_equal(c.drafter, DEEPSEEK4_NEXTN);
    for (tiny_v4_format format = TINY_V4_PLAIN; format < TINY_V4_FORMATS; format++) {
        open_model(tiny_v4_model(&spec, format), &g, &d);
        assert_int_equal(d.rounding, rounding[format]);
        assert_int_equal(d.drafter, format == TINY_V4_TRANSFORMERS ? DEEPSEEK4_NO_DRAFTER : DEEPSEEK4_NEXTN);
        assert_same_config(&c, &d);
        assert_same_weights(f, &c, g, &d);
        model_file_close(g);
    }
    model_file_close(f);
}

static void widths_that_all_differ_are_not_mixed_up(void **state)
{
    (void)state;
    static const tiny_v4_format formats[] = { TINY_V4_TRANSFORMERS, TINY_V4_MODELSLIM, TINY_V4_GGUF };
    tiny_v4_spec spec = tiny_v4_small();
    model_file *f, *g;
    deepseek4_config c, d;
    open_model(tiny_v4_model(&spec, TINY_V4_PLAIN), &f, &c);
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        open_model(tiny_v4_model(&spec, formats[i]), &g, &d);
        assert_same_weights(f, &c, g, &d);
        model_file_close(g);
    }
    model_file_close(f);
}

/* Named, quantised and described by other programs. */
static void the_golden_folders_are_read(void **state)
{
    (void)state;
    model_file *f, *g;
    deepseek4_config c, d;
    const char *wide = tiny_path(tiny_folder(), "t0-plain");
    tiny_v4_widen(FORAY_TESTS "/golden/deepseek4/t0-quant", wide);
    open_model(FORAY_TESTS "/golden/deepseek4/t0-quant", &f, &c);
    open_model(wide, &g, &d);
    assert_int_equal(c.rounding, DEEPSEEK4_ROUND_FP8_FP4);
    assert_int_equal(d.rounding, DEEPSEEK4_ROUND_NOTHING);
    assert_int_equal(v4_matrix(f, &c, V4_EXPERT_W2, 6, 7).type, DTYPE_F4_E2M1);
    assert_same_weights(f, &c, g, &d);
    model_file_close(f);
    model_file_close(g);
    open_model(FORAY_TESTS "/golden/deepseek4/d0-plain", &f, &c);
    assert_int_equal(c.drafter, DEEPSEEK4_NO_DRAFTER);
    model_file_close(f);
}

static void modelslim_decides_per_tensor(void **state)
{
    (void)state;
    model_file *f;
    deepseek4_config c;
    open_model(FORAY_TESTS "/golden/deepseek4/t0-w8a8", &f, &c);
    assert_int_equal(c.rounding, DEEPSEEK4_ROUND_INT8);
    assert_int_equal(v4_matrix(f, &c, V4_WQ_A, 0, 0).type, DTYPE_I8);
    assert_int_equal(v4_matrix(f, &c, V4_WO_B, 0, 0).type, DTYPE_BF16);
    assert_int_equal(v4_matrix(f, &c, V4_WQ_A, c.layers, 0).type,
                     DTYPE_BF16); /* the drafter's recipe is another */
    assert_int_equal(v4_matrix(f, &c, V4_WO_B, c.layers, 0).type, DTYPE_I8);
    assert_int_equal(v4_matrix(f, &c, V4_EXPERT_W1, 2, 3).type, DTYPE_I8);
    assert_int_equal(v4_matrix(f, &c, V4_HEAD, 0, 0).type, DTYPE_F32);
    /* The drafter's own embedding and head are there and are not the trunk's. */
    assert_ptr_equal(v4_matrix(f, &c, V4_NEXTN_HEAD, c.layers, 0).data,
                     model_file_tensor(f, "mtp.0.head.weight")->data);
    assert_ptr_equal(v4_matrix(f, &c, V4_NEXTN_EMBED, c.layers, 0).data,
                     model_file_tensor(f, "mtp.0.emb.tok_emb.weight")->data);
    model_file_close(f);
    /* Where there are none, they are the trunk's. */
    open_model(FORAY_TESTS "/golden/deepseek4/t0-quant", &f, &c);
    assert_ptr_equal(v4_matrix(f, &c, V4_NEXTN_HEAD, c.layers, 0).data,
                     model_file_tensor(f, "head.weight")->data);
    assert_ptr_equal(v4_matrix(f, &c, V4_NEXTN_EMBED, c.layers, 0).data,
                     model_file_tensor(f, "embed.weight")->data);
    model_file_close(f);
}

static void a_dspark_file_gives_its_trunk(void **state)
{
    (void)state;
    tiny_v4_spec spec = tiny_v4_small();
    model_file *f, *g;
    deepseek4_config c, d;
    open_model(tiny_v4_model(&spec, TINY_V4_PLAIN), &f, &c);
    spec.drafter = DEEPSEEK4_DSPARK;
    open_model(tiny_v4_model(&spec, TINY_V4_PLAIN), &g, &d);
    assert_int_equal(d.drafter, DEEPSEEK4_DSPARK);
    assert_int_equal(d.drafter_stages, 3);
    assert_false(v4_role_used(&d, V4_WKV, d.layers)); /* not driven as NextN */
    assert_same_weights(f, &c, g, &d);
    model_file_close(f);
    model_file_close(g);
}

/* ---- faults ---- */

/* A changed copy of a folder's tensors: change returns false to leave one out, and may alter the copy. */
typedef struct {
    const char *name, *type;
    int dims;
    int64_t shape[4];
    uint8_t *data;
    size_t bytes;
} changed;

static void rewrite(const char *from, const char *to, bool (*change)(changed *t))
{
    model_file *f;
    foray_error err;
    safetensors_writer w = { 0 };
    if (model_file_open(from, &f, &err) != 0)
        fail_msg("%s", err.text);
    for (size_t i = 0; i < model_file_tensor_count(f); i++) {
        const tensor_view *v = model_file_tensor_at(f, i);
        changed t = { .name = v->name, .type = v->type_name, .dims = v->dims, .bytes = (size_t)v->bytes };
        memcpy(t.shape, v->shape, sizeof t.shape);
        t.data = mem_alloc(MEM_GENERAL, t.bytes);
        memcpy(t.data, v->data, t.bytes);
        if (change(&t))
            safetensors_add(&w, t.name, t.type, t.dims, t.shape, t.data, t.bytes);
        mem_free(MEM_GENERAL, t.data, (size_t)v->bytes);
    }
    safetensors_finish_file(&w, to);
    model_file_close(f);
}

/* Changes model.safetensors of a fresh folder of the golden W8A8 model, or of a tiny one, and returns what is said. */
static int check_changed(const char *folder, bool (*change)(changed *t), foray_error *err)
{
    model_file *f;
    deepseek4_config c;
    const char *copy = tiny_path(folder, "changed"), *place = tiny_path(folder, "model.safetensors");
    rewrite(folder, copy, change);
    assert_int_equal(rename(copy, place), 0);
    if (model_file_open(folder, &f, err) != 0)
        fail_msg("%s", err->text);
    int rc = deepseek4_config_read(f, &c, err);
    rc = rc ? rc : v4_names_check(f, &c, err);
    model_file_close(f);
    return rc;
}

static const char *small_folder(tiny_v4_format format)
{
    tiny_v4_spec spec = tiny_v4_small();
    spec.no_text = true;
    return tiny_v4_model(&spec, format);
}

static void assert_says(const foray_error *err, const char *text)
{
    if (!strstr(err->text, text))
        fail_msg("\"%s\" is not in: %s", text, err->text);
}

static bool several_faults(changed *t)
{
    if (strcmp(t->name, "layers.1.attn.wkv.weight") == 0 || strcmp(t->name, "mtp.0.hnorm.weight") == 0)
        return false;
    if (strcmp(t->name, "layers.2.ffn.experts.4.w2.weight") == 0) { /* [48, 64] as [64, 48] */
        t->shape[0] = 64;
        t->shape[1] = 48;
    }
    if (strcmp(t->name, "layers.1.attn.indexer.wq_b.weight") == 0) { /* BF16 said to be I16 */
        t->type = "I16";
    }
    return true;
}

static void all_faults_are_said_at_once(void **state)
{
    (void)state;
    foray_error err;
    assert_int_equal(check_changed(small_folder(TINY_V4_PLAIN), several_faults, &err), FORAY_EFILE);
    assert_says(&err, "missing layers.1.attn.wkv.weight, mtp.0.hnorm.weight");
    assert_says(&err, "layers.2.ffn.experts.4.w2.weight is BF16 [64, 48], expected [48, 64]");
    assert_says(&err, "layers.1.attn.indexer.wq_b.weight has type I16");
}

static bool no_experts(changed *t)
{
    return !strstr(t->name, ".experts.");
}

static void many_faults_are_counted(void **state)
{
    (void)state;
    foray_error err;
    assert_int_equal(check_changed(small_folder(TINY_V4_PLAIN), no_experts, &err), FORAY_EFILE);
    assert_says(&err, "missing layers.0.ffn.experts.0.w1.weight, ");
    assert_says(&err, "more (was the download complete");
}

static bool expert_out_of_range(changed *t)
{
    if (strcmp(t->name, "layers.0.ffn.gate.tid2eid") == 0)
        t->data[8 * (3 * 7 + 1)] = 5; /* token 7; there are experts 0 … 4 */
    return true;
}

static void a_hash_table_may_only_name_experts_that_exist(void **state)
{
    (void)state;
    foray_error err;
    assert_int_equal(check_changed(small_folder(TINY_V4_PLAIN), expert_out_of_range, &err), FORAY_EFILE);
    assert_says(&err, "layers.0.ffn.gate.tid2eid: token 7 is sent to expert 5 of 5");
}

static void write_json(const char *folder, const char *name, const char *text)
{
    FILE *f = fopen(tiny_path(folder, name), "wb");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

/* A small ModelSlim folder in one file, described by `schemes` where it is not the default. */
static const char *described_folder(const char *scheme_of_one)
{
    const char *folder = small_folder(TINY_V4_PLAIN);
    char text[256];
    snprintf(text, sizeof text, "{\"layers.1.attn.wq_b.weight\":\"%s\"}", scheme_of_one);
    write_json(folder, "quant_model_description.json", text);
    return folder;
}

static bool as_they_are(changed *t)
{
    (void)t;
    return true;
}

static void other_schemes_are_refused_by_name(void **state)
{
    (void)state;
    static const char *const schemes[] = { "W4A8_DYNAMIC",     "W8A8",   "W8A16", "W8A8_MIX",
                                           "WFP8AFP8_DYNAMIC", "W16A16S" };
    for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++) {
        foray_error err;
        char said[96];
        assert_int_equal(check_changed(described_folder(schemes[i]), as_they_are, &err), FORAY_EUNSUPPORTED);
        snprintf(said, sizeof said, "layers.1.attn.wq_b.weight has scheme %s", schemes[i]);
        assert_says(&err, said);
    }
}

/* W8A8 folders -------------------------------------------------------------------------------------- */

/* Copies the golden W8A8 folder, its tensors changed. */
static int check_w8a8(bool (*change)(changed *t), foray_error *err)
{
    static const char *const files[] = { "config.json", "quant_model_description.json" };
    const char *from = FORAY_TESTS "/golden/deepseek4/t0-w8a8", *folder = tiny_folder();
    for (int i = 0; i < 2; i++) {
        static char bytes[1 << 17];
        FILE *in = fopen(tiny_path(from, files[i]), "rb"), *out = fopen(tiny_path(folder, files[i]), "wb");
        assert_true(in && out);
        size_t n = fread(bytes, 1, sizeof bytes, in);
        assert_in_range(n, 1, sizeof bytes - 1);
        assert_int_equal(fwrite(bytes, 1, n, out), n);
        fclose(in);
        assert_int_equal(fclose(out), 0);
    }
    rewrite(from, tiny_path(folder, "quant_model_weights.safetensors"), change);
    model_file *f;
    deepseek4_config c;
    if (model_file_open(folder, &f, err) != 0)
        fail_msg("%s", err->text);
    int rc = deepseek4_config_read(f, &c, err);
    rc = rc ? rc : v4_names_check(f, &c, err);
    model_file_close(f);
    return rc;
}

static bool one_offset(changed *t)
{
    if (strcmp(t->name, "layers.1.attn.wkv.weight_offset") == 0)
        memcpy(t->data + 4 * 9, &(float) { -2 }, 4);
    return true;
}

static bool no_scale(changed *t)
{
    return strcmp(t->name, "layers.3.ffn.experts.6.w3.weight_scale") != 0;
}

static bool two_rows_per_byte(changed *t)
{
    if (strcmp(t->name, "layers.2.ffn.shared_experts.w1.weight_offset") == 0)
        t->name = "layers.2.ffn.shared_experts.w1.scale_bias";
    return true;
}

static bool fewer_drafter_ids(changed *t)
{
    bool head = strcmp(t->name, "mtp.0.head.weight") == 0,
         embed = strstr(t->name, "mtp.0.emb.tok_emb") != NULL;
    if (head || embed) {
        t->shape[0] -= 8;
        t->bytes -= 8 * t->bytes / 256;
    }
    return true;
}

/* Q01, Q03: a drafter's own head and embedding are for the target's ids, all of them and no others. */
static void the_drafters_ids_are_the_targets(void **state)
{
    (void)state;
    foray_error err;
    assert_int_equal(check_w8a8(fewer_drafter_ids, &err), FORAY_EFILE);
    assert_says(&err, "mtp.0.head.weight is BF16 [248, 128], expected [256, 128]");
    assert_says(&err, "mtp.0.emb.tok_emb.weight is BF16 [248, 128], expected [256, 128]");
}

static void int8_needs_its_scale_and_no_offset(void **state)
{
    (void)state;
    foray_error err;
    assert_int_equal(check_w8a8(as_they_are, &err), 0); /* under the stem of real files */
    assert_int_equal(check_w8a8(one_offset, &err), FORAY_EUNSUPPORTED);
    assert_says(&err, "layers.1.attn.wkv.weight_offset: row 9 is -2");
    assert_int_equal(check_w8a8(no_scale, &err), FORAY_EFILE);
    assert_says(&err, "layers.3.ffn.experts.6.w3.weight has scheme W8A8_DYNAMIC, but no weight_scale");
    assert_int_equal(check_w8a8(two_rows_per_byte, &err), FORAY_EUNSUPPORTED);
    assert_says(&err, "layers.2.ffn.shared_experts.w1.weight has scheme W4A8_DYNAMIC");
}

static bool scales_gone(changed *t)
{
    return strcmp(t->name, "layers.0.ffn.experts.1.w1.scale") != 0 &&
           strcmp(t->name, "layers.2.attn.wkv.scale") != 0;
}

static bool scale_of_another_size(changed *t)
{
    if (strcmp(t->name, "layers.0.attn.wq_b.scale") == 0) { /* [4, 1] */
        t->shape[0] = 1;
        t->shape[1] = 4;
    }
    if (strcmp(t->name, "layers.0.attn.wq_a.scale") == 0)
        t->type = "U8";
    return true;
}

static void fp8_and_fp4_need_their_scales(void **state)
{
    (void)state;
    foray_error err;
    tiny_v4_spec spec = tiny_v4_default();
    spec.no_text = true;
    const char *folder = tiny_v4_model(&spec, TINY_V4_QUANT);
    assert_int_equal(check_changed(folder, scale_of_another_size, &err), FORAY_EFILE);
    assert_says(&err, "layers.0.attn.wq_b.scale is F8_E8M0 [1, 4], expected [4, 1]");
    assert_says(&err, "layers.0.attn.wq_a.scale has type U8; foray runs F8_E8M0 scales");
    assert_int_equal(check_changed(tiny_v4_model(&spec, TINY_V4_QUANT), scales_gone, &err), FORAY_EFILE);
    assert_says(&err, "layers.0.ffn.experts.1.w1.weight has type I8, but no scale stands beside it");
    assert_says(&err, "layers.2.attn.wkv.weight has type F8_E4M3, but no scale stands beside it");
}

static void running_out_of_memory_is_an_error(void **state)
{
    (void)state;
    model_file *f;
    deepseek4_config c;
    foray_error err;
    assert_int_equal(model_file_open(small_folder(TINY_V4_PLAIN), &f, &err), 0);
    assert_int_equal(deepseek4_config_read(f, &c, &err), 0);
    mem_fail_nth(1, true);
    int rc = v4_names_check(f, &c, &err);
    mem_fail_nth(0, false);
    assert_int_equal(rc, FORAY_ENOMEM);
    model_file_close(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_naming_and_format_gives_the_same_weights),
        cmocka_unit_test(widths_that_all_differ_are_not_mixed_up),
        cmocka_unit_test(the_golden_folders_are_read),
        cmocka_unit_test(modelslim_decides_per_tensor),
        cmocka_unit_test(a_dspark_file_gives_its_trunk),
        cmocka_unit_test(all_faults_are_said_at_once),
        cmocka_unit_test(many_faults_are_counted),
        cmocka_unit_test(a_hash_table_may_only_name_experts_that_exist),
        cmocka_unit_test(other_schemes_are_refused_by_name),
        cmocka_unit_test(the_drafters_ids_are_the_targets),
        cmocka_unit_test(int8_needs_its_scale_and_no_offset),
        cmocka_unit_test(fp8_and_fp4_need_their_scales),
        cmocka_unit_test(running_out_of_memory_is_an_error),
    };
    return cmocka_run_group_tests(tests, make_tables, NULL);
}
