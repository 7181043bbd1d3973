/* tiny_v4.c: writes the tensors of a tiny DeepSeek-V4 model in one of its formats. See tiny_v4.h.
 *
 * Tensors pass one by one: made, encoded, appended. Where a format stacks experts or puts two matrices side by side, the
 * first one brings the others with it and they are skipped when their turn comes.
 */
#include "support/tiny_v4.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "format/model_file.h"
#include "support/quantise.h"
#include "support/safetensors_write.h"
#include "support/tiny.h"
#include "support/tiny_v4_parts.h"

enum { SHARDS = 2 };

typedef struct {
    const tiny_v4_spec *s;
    tiny_v4_format format;
    safetensors_writer shard[SHARDS];
    buf index, description; /* MODELSLIM */
    gguf_writer gguf;
    int shard_now;
} writer;

static bool is_gguf(const writer *w)
{
    return w->format == TINY_V4_GGUF || w->format == TINY_V4_GGUF_MXFP4;
}

/* Encoding ---------------------------------------------------------------------------------------- */

/* The code of a whole number that e4m3 has, below 64. */
static uint8_t e4m3_code(int unit)
{
    int size = unit < 0 ? -unit : unit, power = 0;
    if (size == 0)
        return 0;
    while (size >> (power + 1) != 0)
        power++;
    int mantissa = power >= 3 ? (size >> (power - 3)) - 8 : (size << (3 - power)) - 8;
    return (uint8_t)((unit < 0 ? 0x80 : 0) | (power + 7) << 3 | mantissa);
}

static uint8_t e2m1_code(int twice)
{
    static const uint8_t code[13] = { 0, 1, 2, 3, 4, 0, 5, 0, 6, 0, 0, 0, 7 };
    return (uint8_t)(code[twice < 0 ? -twice : twice] | (twice < 0 ? 8 : 0));
}

/* Appends to a folder: to the shard, its index and description. */
static void put(writer *w, const char *official, const char *type, int dims, const int64_t *shape,
                const void *data, size_t bytes, const char *scheme)
{
    char name[V4T_NAME_BYTES];
    v4t_rename(w->s, w->format, official, name);
    safetensors_add(&w->shard[w->shard_now], name, type, dims, shape, data, bytes);
    if (w->format != TINY_V4_MODELSLIM)
        return;
    buf_printf(&w->index, "%s\"%s\":\"quant_model_weights-%05d-of-%05d.safetensors\"",
               w->index.len ? "," : "", name, w->shard_now + 1, SHARDS);
    buf_printf(&w->description, "%s\"%s\":\"%s\"", w->description.len ? "," : "", name, scheme);
}

/* X of X.weight, with another ending. */
static void beside(const char *name, const char *ending, char out[V4T_NAME_BYTES])
{
    snprintf(out, V4T_NAME_BYTES, "%.*s%s", (int)(strlen(name) - strlen(".weight")), name, ending);
}

/* FP8 with a scale per tile of 128 x 128. */
static void put_fp8(writer *w, const v4t_tensor *t, const v4t_values *v, arena *a)
{
    int tiles[2] = { (t->rows + 127) / 128, (t->cols + 127) / 128 };
    int64_t shape[2] = { t->rows, t->cols }, scales[2] = { tiles[0], tiles[1] };
    size_t n = (size_t)t->rows * (size_t)t->cols;
    uint8_t *code = arena_alloc(a, n), *scale = arena_alloc(a, (size_t)(tiles[0] * tiles[1]));
    char name[V4T_NAME_BYTES];
    assert_true(code && scale);
    for (size_t i = 0; i < n; i++)
        code[i] = e4m3_code(v->unit[i]);
    for (int r = 0; r < tiles[0]; r++)
        for (int c = 0; c < tiles[1]; c++)
            scale[r * tiles[1] + c] = (uint8_t)(127 + v->exponent + v4t_shift(w->s, t, 128 * r, 128 * c));
    put(w, t->name, "F8_E4M3", 2, shape, code, n, "");
    beside(t->name, ".scale", name);
    put(w, name, "F8_E8M0", 2, scales, scale, (size_t)(tiles[0] * tiles[1]), "");
}

/* FP4, two columns per byte, the even one low, with a scale per 32 columns. */
static void put_fp4(writer *w, const v4t_tensor *t, const v4t_values *v, arena *a)
{
    int64_t shape[2] = { t->rows, t->cols / 2 }, scales[2] = { t->rows, t->cols / 32 };
    size_t n = (size_t)(shape[0] * shape[1]), m = (size_t)(scales[0] * scales[1]);
    uint8_t *code = arena_alloc(a, n), *scale = arena_alloc(a, m);
    char name[V4T_NAME_BYTES];
    assert_true(code && scale && t->cols % 32 == 0);
    for (size_t i = 0; i < n; i++)
        code[i] = (uint8_t)(e2m1_code(v->unit[2 * i]) | e2m1_code(v->unit[2 * i + 1]) << 4);
    for (int row = 0; row < t->rows; row++)
        for (int g = 0; g < t->cols / 32; g++)
            scale[row * (t->cols / 32) + g] =
                (uint8_t)(127 + v->exponent + 1 + v4t_shift(w->s, t, row, 32 * g));
    put(w, t->name, "I8", 2, shape, code, n, "");
    beside(t->name, ".scale", name);
    put(w, name, "F8_E8M0", 2, scales, scale, m, "");
}

/* int8 with one scale per row: a power of two here, so that the values stay what they are. */
static void put_int8(writer *w, const v4t_tensor *t, const v4t_values *v, arena *a)
{
    int64_t shape[2] = { t->rows, t->cols }, column[2] = { t->rows, 1 };
    size_t n = (size_t)t->rows * (size_t)t->cols, column_bytes = sizeof(float) * (size_t)t->rows;
    int8_t *code = arena_alloc(a, n);
    float *scale = arena_alloc(a, column_bytes), *offset = arena_alloc(a, column_bytes);
    char name[V4T_NAME_BYTES];
    assert_true(code && scale && offset);
    for (int row = 0; row < t->rows; row++) {
        scale[row] = ldexpf(1, v->exponent);
        for (int col = 0, shift = 0; col < t->cols; col++) {
            size_t i = (size_t)row * (size_t)t->cols + (size_t)col;
            shift = col % 32 == 0 ? v4t_shift(w->s, t, row, col) : shift;
            code[i] = (int8_t)(v->unit[i] * (1 << shift));
        }
    }
    put(w, t->name, "I8", 2, shape, code, n, "W8A8_DYNAMIC");
    beside(t->name, ".weight_scale", name);
    put(w, name, "F32", 2, column, scale, column_bytes, "W8A8_DYNAMIC");
    beside(t->name, ".weight_offset", name);
    put(w, name, "F32", 2, column, offset, column_bytes, "W8A8_DYNAMIC");
}

/* The values as a plain type; returns their bytes. */
static void *encode(dtype type, const float *x, size_t n, size_t *bytes, arena *a)
{
    uint64_t size = 0;
    assert_true(dtype_bytes(type, n, &size));
    *bytes = (size_t)size;
    void *out = arena_alloc(a, *bytes);
    assert_non_null(out);
    quantise(type, x, n, out);
    return out;
}

/* GGUF's blocks: the scale, then columns 0 … 15 low and 16 … 31 high. */
static void encode_mxfp4(const tiny_v4_spec *s, const v4t_tensor *t, const v4t_values *v, uint8_t *out)
{
    for (int row = 0; row < t->rows; row++) {
        for (int col = 0; col < t->cols; col += 32, out += 17) {
            const int8_t *unit = v->unit + (size_t)row * (size_t)t->cols + (size_t)col;
            out[0] = (uint8_t)(127 + v->exponent + 1 + v4t_shift(s, t, row, col));
            for (int i = 0; i < 16; i++)
                out[1 + i] = (uint8_t)(e2m1_code(unit[i]) | e2m1_code(unit[i + 16]) << 4);
        }
    }
}

/* Folders ----------------------------------------------------------------------------------------- */

/* What ModelSlim's recipe for the family makes int8. */
static bool is_int8(const v4t_tensor *t)
{
    return t->kind == V4T_EXPERT || (t->kind == V4T_LINEAR && !strstr(t->name, ".wo_"));
}

static void put_ids(writer *w, const v4t_tensor *t, const v4t_values *v, arena *a)
{
    int64_t shape[2] = { t->rows, t->cols };
    size_t n = (size_t)t->rows * (size_t)t->cols;
    int64_t *wide = arena_array(a, n, sizeof *wide);
    assert_non_null(wide);
    for (size_t i = 0; i < n; i++)
        wide[i] = v->id[i];
    if (w->format == TINY_V4_MODELSLIM)
        put(w, t->name, "I32", 2, shape, v->id, n * sizeof *v->id, "FLOAT");
    else
        put(w, t->name, "I64", 2, shape, wide, n * sizeof *wide, "");
}

/* All experts of a layer: [experts, rows of gate and then up, or of down; cols]. t is the first expert's w1 or w2. */
static void put_stack(writer *w, const v4t_tensor *t, arena *a)
{
    bool down = strstr(t->name, ".w2.") != NULL;
    int parts = down ? 1 : 2;
    size_t n = (size_t)t->rows * (size_t)t->cols, bytes = 0, at = 0;
    int64_t shape[3] = { w->s->experts, parts * t->rows, t->cols };
    float *x = arena_array(a, n * (size_t)(parts * w->s->experts), sizeof *x);
    assert_non_null(x);
    for (int e = 0; e < w->s->experts; e++) {
        for (int part = 0; part < parts; part++, at += n) {
            v4t_tensor one = *t;
            const char *dot = strstr(t->name, ".experts.0.");
            snprintf(one.name, sizeof one.name, "%.*s.experts.%d.%s.weight", (int)(dot - t->name), t->name, e,
                     down        ? "w2"
                     : part == 0 ? "w1"
                                 : "w3");
            memcpy(x + at, v4t_make(w->s, &one, a).value, n * sizeof *x);
        }
    }
    void *data = encode(DTYPE_BF16, x, at, &bytes, a);
    put(w, t->name, "BF16", 3, shape, data, bytes, "");
}

static void folder_one(void *user, const v4t_tensor *t)
{
    writer *w = user;
    arena a;
    bool stacks = w->format == TINY_V4_TRANSFORMERS, described = w->format == TINY_V4_MODELSLIM;
    if (stacks && strncmp(t->name, "mtp.", 4) == 0)
        return;
    if (stacks && t->kind == V4T_EXPERT && !strstr(t->name, ".experts.0.w1.") &&
        !strstr(t->name, ".experts.0.w2."))
        return; /* written with the first ones */
    arena_init(&a, MEM_GENERAL, 0);
    w->shard_now = described && strncmp(t->name, "mtp.", 4) == 0;
    v4t_values v = v4t_make(w->s, t, &a);
    bool scaled = w->format == TINY_V4_QUANT || w->format == TINY_V4_VLLM;
    if (t->kind == V4T_IDS) {
        put_ids(w, t, &v, &a);
    } else if (stacks && t->kind == V4T_EXPERT) {
        put_stack(w, t, &a);
    } else if (scaled && t->kind == V4T_LINEAR) {
        put_fp8(w, t, &v, &a);
    } else if (scaled && t->kind == V4T_EXPERT) {
        put_fp4(w, t, &v, &a);
    } else if (described && is_int8(t)) {
        put_int8(w, t, &v, &a);
    } else {
        size_t bytes = 0, n = (size_t)t->rows * (size_t)(t->cols ? t->cols : 1);
        int64_t shape[2] = { t->rows, t->cols };
        /* ModelSlim leaves some tensors in F32. */
        bool wide = t->kind == V4T_F32 || (described && t->cols == 0);
        void *data = encode(wide ? DTYPE_F32 : DTYPE_BF16, v.value, n, &bytes, &a);
        put(w, t->name, wide ? "F32" : "BF16", t->cols ? 2 : 1, shape, data, bytes, "FLOAT");
        if (described && w->s->drafter == DEEPSEEK4_NEXTN && strcmp(t->name, "embed.weight") == 0)
            put(w, "mtp.0.emb.tok_emb.weight", "BF16", 2, shape, data, bytes, "FLOAT");
        if (described && w->s->drafter == DEEPSEEK4_NEXTN && strcmp(t->name, "head.weight") == 0)
            put(w, "mtp.0.head.weight", "BF16", 2, shape, data, bytes, "FLOAT");
    }
    arena_free(&a);
}

static void write_text(const char *folder, const char *name, const char *before, const buf *b,
                       const char *after)
{
    FILE *f = fopen(tiny_path(folder, name), "wb");
    assert_non_null(f);
    fprintf(f, "%s%s%s\n", before, b->data, after);
    assert_int_equal(fclose(f), 0);
}

static void write_folder(writer *w, const char *folder)
{
    mkdir(folder, 0700);
    v4t_each(w->s, folder_one, w);
    v4t_write_config(w->s, w->format, folder);
    if (!w->s->no_text)
        tiny_write_text(folder, w->s->vocab, NULL);
    if (w->format != TINY_V4_MODELSLIM) {
        safetensors_finish_file(&w->shard[0], tiny_path(folder, "model.safetensors"));
        return;
    }
    for (int i = 0; i < SHARDS; i++) {
        char name[64];
        snprintf(name, sizeof name, "quant_model_weights-%05d-of-%05d.safetensors", i + 1, SHARDS);
        safetensors_finish_file(&w->shard[i], tiny_path(folder, name));
    }
    /* An index may not promise a shard that nothing is in; without a drafter the second one is empty, and unnamed. */
    write_text(folder, "quant_model_weights.safetensors.index.json", "{\"metadata\":{},\"weight_map\":{",
               &w->index, "}}");
    write_text(
        folder, "quant_model_description.json",
        "{\"version\":\"1.0.0\",\"model_quant_type\":\"W8A8_DYNAMIC\",\"group_size\":0,\"metadata\":{},"
        "\"optional\":{},",
        &w->description, "}");
    buf_free(&w->index);
    buf_free(&w->description);
}

/* GGUF -------------------------------------------------------------------------------------------- */

enum { NUMBER_MXFP4 = 39, NUMBER_I32 = 26 };

/* Experts of one matrix on top of each other; t is the first one's. */
static void gguf_stack(writer *w, const v4t_tensor *t, const char *name, arena *a)
{
    bool packed = w->format == TINY_V4_GGUF_MXFP4;
    size_t n = (size_t)t->rows * (size_t)t->cols, one_bytes = packed ? n / 32 * 17 : 2 * n;
    int64_t shape[3] = { w->s->experts, t->rows, t->cols };
    uint8_t *data = arena_alloc(a, one_bytes * (size_t)w->s->experts);
    assert_non_null(data);
    for (int e = 0; e < w->s->experts; e++) {
        v4t_tensor one = *t;
        const char *dot = strstr(t->name, ".experts.0.");
        snprintf(one.name, sizeof one.name, "%.*s.experts.%d.%s", (int)(dot - t->name), t->name, e,
                 dot + strlen(".experts.0."));
        v4t_values v = v4t_make(w->s, &one, a);
        uint8_t *at = data + one_bytes * (size_t)e;
        if (packed)
            encode_mxfp4(w->s, &one, &v, at);
        else
            quantise(DTYPE_BF16, v.value, n, at);
    }
    gguf_tensor(&w->gguf, name, packed ? NUMBER_MXFP4 : quantise_gguf_number(DTYPE_BF16), 3, shape, data,
                one_bytes * (size_t)w->s->experts);
}

/* e_proj and h_proj as one matrix of twice the columns. */
static void gguf_eh_proj(writer *w, const v4t_tensor *e, const char *name, arena *a)
{
    v4t_tensor h = *e;
    memcpy(strstr(h.name, "e_proj"), "h_proj", 6);
    const float *left = v4t_make(w->s, e, a).value, *right = v4t_make(w->s, &h, a).value;
    size_t cols = (size_t)e->cols, bytes = 0;
    int64_t shape[2] = { e->rows, 2 * e->cols };
    float *x = arena_array(a, (size_t)(shape[0] * shape[1]), sizeof *x);
    assert_non_null(x);
    for (size_t row = 0; row < (size_t)e->rows; row++) {
        memcpy(x + 2 * row * cols, left + row * cols, cols * sizeof *x);
        memcpy(x + (2 * row + 1) * cols, right + row * cols, cols * sizeof *x);
    }
    void *data = encode(DTYPE_BF16, x, (size_t)(shape[0] * shape[1]), &bytes, a);
    gguf_tensor(&w->gguf, name, quantise_gguf_number(DTYPE_BF16), 2, shape, data, bytes);
}

static void gguf_one(void *user, const v4t_tensor *t)
{
    writer *w = user;
    arena a;
    char name[V4T_NAME_BYTES];
    v4t_rename(w->s, w->format, t->name, name);
    arena_init(&a, MEM_GENERAL, 0);
    if (t->kind == V4T_EXPERT) {
        if (strstr(t->name, ".experts.0."))
            gguf_stack(w, t, name, &a);
    } else if (strcmp(t->name, "mtp.0.e_proj.weight") == 0) {
        gguf_eh_proj(w, t, name, &a);
    } else if (strcmp(t->name, "mtp.0.h_proj.weight") != 0) {
        v4t_values v = v4t_make(w->s, t, &a);
        size_t n = (size_t)t->rows * (size_t)(t->cols ? t->cols : 1), bytes = 4 * n;
        int64_t shape[2] = { t->rows, t->cols };
        bool ids = t->kind == V4T_IDS, wide = t->kind == V4T_F32 || t->cols == 0;
        dtype type = wide ? DTYPE_F32 : DTYPE_BF16;
        const void *data = ids ? v.id : encode(type, v.value, n, &bytes, &a);
        gguf_tensor(&w->gguf, name, ids ? NUMBER_I32 : quantise_gguf_number(type), t->cols ? 2 : 1, shape,
                    data, bytes);
    }
    arena_free(&a);
}

/* ------------------------------------------------------------------------------------------------- */

void tiny_v4_write(const tiny_v4_spec *s, tiny_v4_format format, const char *path)
{
    writer w = { .s = s, .format = format };
    assert_in_range(s->layers, 1, TINY_V4_MAX_LAYERS);
    if (!is_gguf(&w)) {
        write_folder(&w, path);
        return;
    }
    assert_true(s->drafter != DEEPSEEK4_DSPARK);
    v4t_write_keys(s, &w.gguf);
    if (!s->no_text)
        tiny_gguf_text(&w.gguf, s->vocab, NULL);
    v4t_each(s, gguf_one, &w);
    gguf_finish_file(&w.gguf, path);
}

const char *tiny_v4_model(const tiny_v4_spec *s, tiny_v4_format format)
{
    bool gguf = format == TINY_V4_GGUF || format == TINY_V4_GGUF_MXFP4;
    const char *folder = tiny_folder(), *path = gguf ? tiny_path(folder, "tiny-v4.gguf") : folder;
    tiny_v4_write(s, format, path);
    return path;
}
