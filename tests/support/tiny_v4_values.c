/* tiny_v4_values.c: the tensors of a tiny DeepSeek-V4 model and their values.
 *
 * Element i of a tensor is a function of (seed, name, i), so that no order of writing matters. Uniform distributions with
 * the deviations that the family's reference vectors have.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "support/quantise.h"
#include "support/tiny_v4_parts.h"

tiny_v4_spec tiny_v4_default(void)
{
    return (tiny_v4_spec) { .layers = 6,
                            .vocab = 512,
                            .dim = 128,
                            .context = 512,
                            .heads = 4,
                            .head_dim = 128,
                            .rope_dim = 64,
                            .q_rank = 128,
                            .groups = 2,
                            .o_rank = 64,
                            .window = 8,
                            .ratio = { 0, 4, 16, 4, 128, 4 },
                            .index_heads = 4,
                            .index_dim = 64,
                            .index_top = 4,
                            .experts = 8,
                            .chosen = 2,
                            .ffn = 128,
                            .hash_layers = 1,
                            .swiglu_limit = 1,
                            .route_scale = 1.5f,
                            .yarn = true,
                            .drafter = DEEPSEEK4_NEXTN,
                            .seed = 1 };
}

tiny_v4_spec tiny_v4_small(void)
{
    tiny_v4_spec s = tiny_v4_default();
    s.layers = 3;
    s.dim = 48;
    s.heads = 6;
    s.head_dim = 80;
    s.rope_dim = 16;
    s.q_rank = 40;
    s.groups = 3;
    s.o_rank = 24;
    s.window = 6;
    memset(s.ratio, 0, sizeof s.ratio);
    s.ratio[1] = 4;
    s.ratio[2] = 8;
    s.index_heads = 2;
    s.index_dim = 32;
    s.index_top = 3;
    s.experts = 5;
    s.chosen = 3;
    s.ffn = 64;
    return s;
}

int v4t_stages(const tiny_v4_spec *s)
{
    return s->drafter == DEEPSEEK4_DSPARK ? 3 : s->drafter == DEEPSEEK4_NEXTN ? 1 : 0;
}

/* The list of tensors ----------------------------------------------------------------------------- */

enum { STREAMS = 4 };

/* Half the width of a uniform distribution with this deviation. */
static float uniform(float deviation)
{
    return deviation * sqrtf(3);
}

typedef struct {
    const tiny_v4_spec *s;
    void (*call)(void *user, const v4t_tensor *t);
    void *user;
    char prefix[32];
} walk;

static void emit(const walk *w, const char *name, v4t_kind kind, int rows, int cols, float centre, float half)
{
    v4t_tensor t = { .kind = kind, .rows = rows, .cols = cols, .centre = centre, .half = half, .gain = half };
    snprintf(t.name, sizeof t.name, "%s%s", w->prefix, name);
    t.experts = w->s->experts;
    w->call(w->user, &t);
}

static void norm(const walk *w, const char *name, int width)
{
    emit(w, name, V4T_BF16, width, 0, 1, uniform(0.2f));
}

static void bf16(const walk *w, const char *name, int rows, int cols, float gain)
{
    emit(w, name, V4T_BF16, rows, cols, 0, uniform(gain / sqrtf((float)cols)));
}

static void linear(const walk *w, const char *name, int rows, int cols, float gain)
{
    emit(w, name, V4T_LINEAR, rows, cols, 0, gain);
}

static void head_site(const walk *w)
{
    emit(w, "hc_head_fn", V4T_F32, STREAMS, STREAMS * w->s->dim, 0, uniform(0.02f));
    emit(w, "hc_head_base", V4T_F32, STREAMS, 0, 0, uniform(1));
    emit(w, "hc_head_scale", V4T_F32, 1, 0, 1.25f, 0.75f);
}

static void layer_site(const walk *w, const char *site)
{
    char name[32];
    int mix = (2 + STREAMS) * STREAMS;
    snprintf(name, sizeof name, "hc_%s_fn", site);
    emit(w, name, V4T_F32, mix, STREAMS * w->s->dim, 0, uniform(0.02f));
    snprintf(name, sizeof name, "hc_%s_base", site);
    emit(w, name, V4T_F32, mix, 0, 0, uniform(1));
    snprintf(name, sizeof name, "hc_%s_scale", site);
    emit(w, name, V4T_F32, 3, 0, 1.25f, 0.75f);
}

static void compressor(const walk *w, const char *at, int ratio, int width)
{
    char name[64];
    int wide = ratio == 4 ? 2 * width : width;
    snprintf(name, sizeof name, "%scompressor.wkv.weight", at);
    bf16(w, name, wide, w->s->dim, 1);
    snprintf(name, sizeof name, "%scompressor.wgate.weight", at);
    bf16(w, name, wide, w->s->dim, 1);
    snprintf(name, sizeof name, "%scompressor.ape", at);
    emit(w, name, V4T_F32, ratio, wide, 0, uniform(1));
    snprintf(name, sizeof name, "%scompressor.norm.weight", at);
    norm(w, name, width);
}

static void attention(const walk *w, int ratio)
{
    const tiny_v4_spec *s = w->s;
    emit(w, "attn.attn_sink", V4T_F32, s->heads, 0, 0, uniform(1));
    linear(w, "attn.wq_a.weight", s->q_rank, s->dim, 1);
    norm(w, "attn.q_norm.weight", s->q_rank);
    linear(w, "attn.wq_b.weight", s->heads * s->head_dim, s->q_rank, 1);
    linear(w, "attn.wkv.weight", s->head_dim, s->dim, 1);
    norm(w, "attn.kv_norm.weight", s->head_dim);
    linear(w, "attn.wo_a.weight", s->groups * s->o_rank, s->heads * s->head_dim / s->groups, 1);
    linear(w, "attn.wo_b.weight", s->dim, s->groups * s->o_rank, 2);
    if (ratio != 0)
        compressor(w, "attn.", ratio, s->head_dim);
    if (ratio == 4) {
        linear(w, "attn.indexer.wq_b.weight", s->index_heads * s->index_dim, s->q_rank, 1);
        bf16(w, "attn.indexer.weights_proj.weight", s->index_heads, s->dim, 1);
        compressor(w, "attn.indexer.", ratio, s->index_dim);
    }
}

static void experts(const walk *w, bool hash)
{
    static const char *const matrices[] = { "w1", "w3", "w2" };
    const tiny_v4_spec *s = w->s;
    char name[64];
    bf16(w, "ffn.gate.weight", s->experts, s->dim, 2);
    if (hash)
        emit(w, "ffn.gate.tid2eid", V4T_IDS, s->vocab, s->chosen, 0, 0);
    else
        emit(w, "ffn.gate.bias", V4T_F32, s->experts, 0, 0, uniform(0.5f));
    for (int e = 0; e <= s->experts; e++) {
        for (int m = 0; m < 3; m++) {
            bool down = m == 2, shared = e == s->experts;
            if (shared)
                snprintf(name, sizeof name, "ffn.shared_experts.%s.weight", matrices[m]);
            else
                snprintf(name, sizeof name, "ffn.experts.%d.%s.weight", e, matrices[m]);
            emit(w, name, shared ? V4T_LINEAR : V4T_EXPERT, down ? s->dim : s->ffn, down ? s->ffn : s->dim, 0,
                 down ? 2 : 1);
        }
    }
}

static void layer(const walk *w, int ratio, bool hash)
{
    norm(w, "attn_norm.weight", w->s->dim);
    norm(w, "ffn_norm.weight", w->s->dim);
    layer_site(w, "attn");
    layer_site(w, "ffn");
    attention(w, ratio);
    experts(w, hash);
}

static void drafter(const walk *w, int stage)
{
    const tiny_v4_spec *s = w->s;
    bool nextn = s->drafter == DEEPSEEK4_NEXTN;
    layer(w, 0, false);
    if (nextn) {
        linear(w, "e_proj.weight", s->dim, s->dim, 1);
        linear(w, "h_proj.weight", s->dim, s->dim, 1);
        norm(w, "enorm.weight", s->dim);
        norm(w, "hnorm.weight", s->dim);
    } else if (stage == 0) {
        linear(w, "main_proj.weight", s->dim, 3 * s->dim, 1);
        norm(w, "main_norm.weight", s->dim);
    }
    if (nextn || stage == 2) {
        norm(w, "norm.weight", s->dim);
        head_site(w);
    }
    if (!nextn && stage == 2) {
        bf16(w, "markov_head.markov_w1.weight", s->vocab, 16, 1);
        bf16(w, "markov_head.markov_w2.weight", s->vocab, 16, 1);
        bf16(w, "confidence_head.proj.weight", 1, s->dim + 16, 1);
    }
}

void v4t_each(const tiny_v4_spec *s, void (*call)(void *user, const v4t_tensor *t), void *user)
{
    walk w = { .s = s, .call = call, .user = user };
    bf16(&w, "embed.weight", s->vocab, s->dim, 2);
    for (int i = 0; i < s->layers; i++) {
        snprintf(w.prefix, sizeof w.prefix, "layers.%d.", i);
        layer(&w, s->ratio[i], i < s->hash_layers);
    }
    for (int i = 0; i < v4t_stages(s); i++) {
        snprintf(w.prefix, sizeof w.prefix, "mtp.%d.", i);
        drafter(&w, i);
    }
    w.prefix[0] = 0;
    norm(&w, "norm.weight", s->dim);
    bf16(&w, "head.weight", s->vocab, s->dim, 3);
    head_site(&w);
}

/* Values ------------------------------------------------------------------------------------------ */

static uint32_t name_number(const char *name)
{
    uint32_t n = 2166136261u; /* FNV-1a */
    for (; *name; name++)
        n = (n ^ (uint8_t)*name) * 16777619u;
    return n;
}

static rng_block block_of(const tiny_v4_spec *s, uint32_t tensor, uint32_t use, uint32_t i)
{
    return rng_philox(i, tensor, 0x74763400u + use, 0, (uint32_t)s->seed, (uint32_t)(s->seed >> 32));
}

int v4t_shift(const tiny_v4_spec *s, const v4t_tensor *t, int row, int col)
{
    bool linear = t->kind == V4T_LINEAR;
    uint32_t at = linear ? (uint32_t)(row / 128 * 4096 + col / 128) : (uint32_t)(row * 4096 + col / 32);
    return (int)(block_of(s, name_number(t->name), 1, at).word[0] % (linear ? 2 : 3));
}

/* The nearest number towards 0 that e4m3 has, of a whole number up to 60. */
static int e4m3_whole(int n)
{
    int size = abs(n), step = size >= 32 ? 4 : size >= 16 ? 2 : 1;
    return n < 0 ? -(size / step * step) : size / step * step;
}

/* Twice the magnitudes of e2m1. */
static const int8_t twice_e2m1[8] = { 0, 1, 2, 3, 4, 6, 8, 12 };

static void make_units(const tiny_v4_spec *s, const v4t_tensor *t, v4t_values *v)
{
    size_t n = (size_t)t->rows * (size_t)t->cols;
    bool linear = t->kind == V4T_LINEAR;
    uint32_t number = name_number(t->name);
    /* Of a unit times 2^shift; so that outputs are `gain` times as large as inputs. */
    double rms = linear ? 55 : 15.6;
    v->exponent = (int)lround(log2((double)t->gain / (rms * sqrt(t->cols))));
    for (size_t i = 0; i < n; i += 16) { /* a byte each */
        rng_block b = block_of(s, number, 0, (uint32_t)(i / 16));
        for (size_t k = 0; k < 16 && i + k < n; k++) {
            int byte = (int)(b.word[k / 4] >> (8 * (k % 4)) & 255);
            v->unit[i + k] = (int8_t)(linear     ? e4m3_whole(byte % 121 - 60)
                                      : byte & 8 ? -twice_e2m1[byte & 7]
                                                 : twice_e2m1[byte & 7]);
        }
    }
    for (int row = 0; row < t->rows; row++) {
        for (int col = 0, step = linear ? 128 : 32; col < t->cols; col += step) {
            float scale = ldexpf(1, v->exponent + v4t_shift(s, t, row, col));
            for (int k = col; k < col + step && k < t->cols; k++) {
                size_t i = (size_t)row * (size_t)t->cols + (size_t)k;
                v->value[i] = (float)v->unit[i] * scale;
            }
        }
    }
}

static void make_ids(const tiny_v4_spec *s, const v4t_tensor *t, v4t_values *v)
{
    for (int row = 0; row < t->rows; row++) {
        /* One expert, and those that follow it at a distance: all different. */
        rng_block b = block_of(s, name_number(t->name), 0, (uint32_t)row);
        for (int k = 0; k < t->cols; k++)
            v->id[row * t->cols + k] =
                (int32_t)((b.word[0] % (uint32_t)t->experts + (uint32_t)k) % (uint32_t)t->experts);
    }
}

static void make_uniform(const tiny_v4_spec *s, const v4t_tensor *t, size_t n, float *out)
{
    uint32_t number = name_number(t->name);
    for (size_t i = 0; i < n; i += 4) {
        rng_block b = block_of(s, number, 0, (uint32_t)(i / 4));
        for (size_t k = 0; k < 4 && i + k < n; k++) {
            uint8_t rounded[4];
            out[i + k] = t->centre + t->half * ((float)(int32_t)b.word[k] * 0x1p-31f);
            if (t->kind == V4T_BF16) {
                quantise(DTYPE_BF16, &out[i + k], 1, rounded);
                dtype_to_f32(DTYPE_BF16, rounded, 1, &out[i + k]);
            }
        }
    }
}

v4t_values v4t_make(const tiny_v4_spec *s, const v4t_tensor *t, arena *a)
{
    size_t n = (size_t)t->rows * (size_t)(t->cols ? t->cols : 1);
    v4t_values v = { .value = arena_array(a, n, sizeof(float)),
                     .id = arena_array(a, n, sizeof(int32_t)),
                     .unit = arena_array(a, n, 1) };
    assert_true(v.value && v.id && v.unit);
    if (t->kind == V4T_IDS)
        make_ids(s, t, &v);
    else if (t->kind == V4T_LINEAR || t->kind == V4T_EXPERT)
        make_units(s, t, &v);
    else
        make_uniform(s, t, n, v.value);
    return v;
}
