/* deepseek4_load.c: from a model's files to packed weights, and the buffers of its passes. See deepseek4.h. */
#include "model/deepseek4.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "model/deepseek4_names.h"
#include "model/deepseek4_pools.h"
#include "model/finite.h"

typedef struct {
    const model_file *f;
    const deepseek4_config *c;
    const model_options *o;
    deepseek4 *m;
    uint64_t done, total;
    int rc; /* errors stick */
    foray_error *err;
} loader;

static void no_memory(loader *l)
{
    if (l->rc == 0)
        l->rc = fail(l->err, FORAY_ENOMEM, "%s: no memory for the weights", model_file_path(l->f));
}

/* ---- vectors ---- */

static float *vector(loader *l, v4_role role, int layer, size_t count)
{
    if (l->rc != 0)
        return NULL;
    float *out = arena_array(&l->m->memory, count, sizeof(float));
    if (!out) {
        no_memory(l);
        return NULL;
    }
    const char *name = v4_floats(l->f, l->c, role, layer, out);
    l->rc = finite_check_floats(l->f, name, out, count, l->err);
    return out;
}

/* ---- matrices ---- */

static void packed(loader *l, uint64_t bytes, uint64_t file_bytes, double products, double per_token)
{
    l->m->products += products * per_token;
    l->m->weight_bytes += bytes;
    l->m->bytes_per_token += (uint64_t)((double)bytes * per_token);
    l->done += file_bytes;
    if (l->o->progress)
        l->o->progress(l->o->user, l->done, l->total);
}

static void check_finite(loader *l, const weight_source *s)
{
    if (l->rc == 0)
        l->rc = finite_check_matrix(l->f, s, l->err);
}

/* per_token: which part of it one decode step reads. */
static void pack(loader *l, const weight_source *sources, int count, bool interleave, bool rounded,
                 double per_token, packed_weight *out)
{
    if (l->rc != 0)
        return;
    for (int i = 1; i < count; i++)
        if (sources[i].type != sources[0].type) {
            l->rc = fail(
                l->err, FORAY_EUNSUPPORTED,
                "%s: matrices that are multiplied together have types %s and %s (convert them to one)",
                model_file_path(l->f), dtype_get(sources[0].type)->name, dtype_get(sources[i].type)->name);
            return;
        }
    for (int i = 0; i < count; i++)
        check_finite(l, &sources[i]);
    if (l->rc == 0)
        l->rc = weight_pack(sources, count, interleave, rounded, l->o->lanes, out, l->err);
    if (l->rc == 0)
        packed(l, out->bytes, out->file_bytes, (double)out->rows * out->cols, per_token);
}

static void matrix(loader *l, v4_role role, int layer, packed_weight *out)
{
    weight_source s = v4_matrix(l->f, l->c, role, layer, 0);
    pack(l, &s, 1, false, l->m->rounded, 1, out);
}

/* Two matrices one below the other, or row group by row group. */
static void pair(loader *l, v4_role first, v4_role second, int layer, bool interleave, packed_weight *out)
{
    weight_source s[2] = { v4_matrix(l->f, l->c, first, layer, 0), v4_matrix(l->f, l->c, second, layer, 0) };
    pack(l, s, 2, interleave, l->m->rounded, 1, out);
}

/* Group g of wo_a is rows g o_rank …; its input is not rounded but where it is int8 (2.5). */
static void grouped(loader *l, int layer, v4_layer *w)
{
    const deepseek4_config *c = l->c;
    if (l->rc != 0)
        return;
    w->wo_a = arena_array(&l->m->memory, (size_t)c->groups, sizeof *w->wo_a);
    if (!w->wo_a) {
        no_memory(l);
        return;
    }
    weight_source whole = v4_matrix(l->f, c, V4_WO_A, layer, 0);
    const dtype_info *info = dtype_get(whole.type);
    size_t row_bytes = (size_t)(whole.cols / info->block) * (size_t)info->bytes;
    for (int g = 0; g < c->groups; g++) {
        weight_source s = whole;
        s.first_row = g * c->o_rank;
        s.rows = c->o_rank;
        s.data = (const char *)whole.data + (size_t)s.first_row * row_bytes;
        pack(l, &s, 1, false, l->m->rounded && whole.type == DTYPE_I8, 1, &w->wo_a[g]);
    }
}

static void load_mixer(loader *l, v4_role fn, v4_role base, v4_role scale, int layer, bool whole,
                       v4_mixer *out)
{
    size_t s = (size_t)l->c->streams;
    matrix(l, fn, layer, &out->fn);
    out->base = vector(l, base, layer, whole ? (2 + s) * s : s);
    out->scale = vector(l, scale, layer, whole ? 3 : 1);
}

static void load_compressor(loader *l, v4_role kv, v4_role gate, v4_role ape, v4_role norm, int layer,
                            int ratio, int width, v4_compressor *out)
{
    size_t channels = (size_t)width * (ratio == 4 ? 2 : 1);
    pair(l, kv, gate, layer, false, &out->kv_gate);
    out->ape = vector(l, ape, layer, (size_t)ratio * channels);
    out->norm = vector(l, norm, layer, (size_t)width);
}

static void load_experts(loader *l, int layer, v4_layer *w)
{
    const deepseek4_config *c = l->c;
    size_t bytes = sizeof(expert_source) * (size_t)c->experts;
    expert_source *s = l->rc == 0 ? mem_alloc(MEM_GENERAL, bytes) : NULL;
    if (!s) {
        no_memory(l);
        return;
    }
    for (int e = 0; e < c->experts; e++)
        s[e] = (expert_source) { .gate = v4_matrix(l->f, c, V4_EXPERT_W1, layer, e),
                                 .up = v4_matrix(l->f, c, V4_EXPERT_W3, layer, e),
                                 .down = v4_matrix(l->f, c, V4_EXPERT_W2, layer, e) };
    for (int e = 0; e < c->experts; e++) {
        check_finite(l, &s[e].gate);
        check_finite(l, &s[e].up);
        check_finite(l, &s[e].down);
    }
    if (l->rc == 0)
        l->rc = experts_pack(s, c->experts, l->m->rounded, l->o->lanes, &w->experts, l->err);
    if (l->rc == 0)
        packed(l, w->experts.bytes, w->experts.file_bytes, 3.0 * c->ffn * c->dim * c->experts,
               (double)c->chosen / c->experts);
    mem_free(MEM_GENERAL, s, bytes);
}

static void load_hash(loader *l, int layer, v4_layer *w)
{
    if (l->rc != 0)
        return;
    w->hash = arena_array(&l->m->memory, (size_t)l->c->vocab * (size_t)l->c->chosen, sizeof(int32_t));
    if (w->hash)
        v4_ids(l->f, l->c, layer, w->hash);
    else
        no_memory(l);
}

static void load_attention(loader *l, int i, v4_layer *w)
{
    const deepseek4_config *c = l->c;
    w->attn_norm = vector(l, V4_ATTN_NORM, i, (size_t)c->dim);
    matrix(l, V4_WQ_A, i, &w->wq_a);
    w->q_norm = vector(l, V4_Q_NORM, i, (size_t)c->q_rank);
    matrix(l, V4_WQ_B, i, &w->wq_b);
    matrix(l, V4_WKV, i, &w->wkv);
    w->kv_norm = vector(l, V4_KV_NORM, i, (size_t)c->head_dim);
    w->sink = vector(l, V4_SINK, i, (size_t)c->heads);
    grouped(l, i, w);
    matrix(l, V4_WO_B, i, &w->wo_b);
    if (c->ratio[i])
        load_compressor(l, V4_COMP_WKV, V4_COMP_WGATE, V4_COMP_APE, V4_COMP_NORM, i, c->ratio[i], c->head_dim,
                        &w->compressor);
    if (c->ratio[i] == 4) {
        matrix(l, V4_INDEX_WQ_B, i, &w->index_q);
        matrix(l, V4_INDEX_WEIGHTS, i, &w->index_weights);
        load_compressor(l, V4_INDEX_WKV, V4_INDEX_WGATE, V4_INDEX_APE, V4_INDEX_NORM, i, 4, c->index_dim,
                        &w->index);
    }
}

static void load_layer(loader *l, int i)
{
    const deepseek4_config *c = l->c;
    v4_layer *w = &l->m->layer[i];
    load_mixer(l, V4_ATTN_FN, V4_ATTN_BASE, V4_ATTN_SCALE, i, true, &w->attn);
    load_attention(l, i, w);
    load_mixer(l, V4_FFN_FN, V4_FFN_BASE, V4_FFN_SCALE, i, true, &w->ffn);
    w->ffn_norm = vector(l, V4_FFN_NORM, i, (size_t)c->dim);
    matrix(l, V4_GATE, i, &w->gate);
    if (v4_role_used(c, V4_HASH, i))
        load_hash(l, i, w);
    else
        w->gate_bias = vector(l, V4_GATE_BIAS, i, (size_t)c->experts);
    load_experts(l, i, w);
    pair(l, V4_SHARED_W1, V4_SHARED_W3, i, true, &w->shared_up);
    matrix(l, V4_SHARED_W2, i, &w->shared_down);
}

static void load_nextn(loader *l)
{
    deepseek4 *m = l->m;
    const deepseek4_config *c = l->c;
    int i = c->layers;
    v4_nextn *w = l->rc == 0 ? arena_array(&m->memory, 1, sizeof *w) : NULL;
    if (!w) {
        no_memory(l);
        return;
    }
    memset(w, 0, sizeof *w);
    m->nextn = w;
    /* What drafting reads is not what a plain step reads. */
    uint64_t plain = m->bytes_per_token;
    double products = m->products;
    load_layer(l, i);
    matrix(l, V4_NEXTN_E_PROJ, i, &w->e_proj);
    matrix(l, V4_NEXTN_H_PROJ, i, &w->h_proj);
    w->e_norm = vector(l, V4_NEXTN_E_NORM, i, (size_t)c->dim);
    w->h_norm = vector(l, V4_NEXTN_H_NORM, i, (size_t)c->dim);
    w->norm = vector(l, V4_NEXTN_NORM, i, (size_t)c->dim);
    load_mixer(l, V4_NEXTN_HEAD_FN, V4_NEXTN_HEAD_BASE, V4_NEXTN_HEAD_SCALE, i, false, &w->collapse);
    w->embedding = v4_matrix(l->f, c, V4_NEXTN_EMBED, i, 0);
    if (w->embedding.data != m->embedding.data)
        check_finite(l, &w->embedding);
    w->head = &m->head;
    weight_source own = v4_matrix(l->f, c, V4_NEXTN_HEAD, i, 0);
    if (own.data != v4_matrix(l->f, c, V4_HEAD, 0, 0).data) {
        pack(l, &own, 1, false, m->rounded, 1, &w->own_head);
        w->head = &w->own_head;
    }
    m->bytes_per_token = plain;
    m->products = products;
}

/* ---- whole models ---- */

static void load_all(loader *l)
{
    deepseek4 *m = l->m;
    const deepseek4_config *c = l->c;
    size_t layers = (size_t)c->layers + 1, half = (size_t)c->rope_dim / 2;
    for (size_t i = 0; i < model_file_tensor_count(l->f); i++)
        l->total += model_file_tensor_at(l->f, i)->bytes;
    m->layer = arena_array(&m->memory, layers, sizeof *m->layer);
    m->frequency = arena_array(&m->memory, half, sizeof(float));
    m->frequency_compressed = arena_array(&m->memory, half, sizeof(float));
    if (!m->layer || !m->frequency || !m->frequency_compressed) {
        no_memory(l);
        return;
    }
    memset(m->layer, 0, layers * sizeof *m->layer);
    deepseek4_frequencies(c, false, m->frequency);
    deepseek4_frequencies(c, true, m->frequency_compressed);
    m->attention_scale = 1.0f / sqrtf((float)c->head_dim);
    m->index_scale = c->index_heads ? 1.0f / sqrtf((float)c->index_dim * (float)c->index_heads) : 0;
    m->embedding = v4_matrix(l->f, c, V4_EMBED, 0, 0);
    check_finite(l, &m->embedding);
    for (int i = 0; i < c->layers; i++)
        load_layer(l, i);
    load_mixer(l, V4_HEAD_FN, V4_HEAD_BASE, V4_HEAD_SCALE, 0, false, &m->collapse);
    m->norm = vector(l, V4_NORM, 0, (size_t)c->dim);
    double trunk = m->products;
    matrix(l, V4_HEAD, 0, &m->head);
    m->products = trunk;
    if (c->drafter == DEEPSEEK4_NEXTN && l->o->drafter)
        load_nextn(l);
}

int deepseek4_load(const model_file *f, const model_options *o, deepseek4 **out, foray_error *err)
{
    deepseek4 *m = mem_alloc_zeroed(MEM_WEIGHTS, sizeof *m);
    if (!m)
        return fail(err, FORAY_ENOMEM, "%s: no memory", model_file_path(f));
    arena_init(&m->memory, MEM_WEIGHTS, 0);
    loader l = { .f = f, .c = &m->config, .o = o, .m = m, .err = err };
    l.rc = deepseek4_config_read(f, &m->config, err);
    if (l.rc == 0)
        l.rc = v4_names_check(f, &m->config, err);
    m->rounded = o->act_quant && m->config.rounding != DEEPSEEK4_ROUND_NOTHING;
    if (l.rc == 0)
        load_all(&l);
    if (l.rc == 0) {
        m->shape = deepseek4_shape(&m->config, m->nextn != NULL, m->rounded);
        pool_desc pools[CACHE_MAX_POOLS];
        if (sparse_pools(&m->shape, 1, pools) == 0)
            l.rc = fail(err, FORAY_EUNSUPPORTED, "%s: more than %d different compression ratios",
                        model_file_path(f), SPARSE_MAX_RATIOS);
    }
    if (l.rc != 0) {
        deepseek4_free(m);
        return l.rc;
    }
    *out = m;
    return 0;
}

static void free_layer(const deepseek4_config *c, v4_layer *w)
{
    packed_weight *all[] = {
        &w->attn.fn,           &w->ffn.fn,        &w->wq_a,          &w->wq_b, &w->wkv,       &w->wo_b,
        &w->index_q,           &w->index_weights, &w->index.kv_gate, &w->gate, &w->shared_up, &w->shared_down,
        &w->compressor.kv_gate
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        weight_free(all[i]);
    for (int g = 0; w->wo_a && g < c->groups; g++)
        weight_free(&w->wo_a[g]);
    experts_free(&w->experts);
}

void deepseek4_free(deepseek4 *m)
{
    if (!m)
        return;
    for (int i = 0; m->layer && i <= m->config.layers; i++)
        free_layer(&m->config, &m->layer[i]);
    if (m->nextn) {
        packed_weight *all[] = { &m->nextn->e_proj, &m->nextn->h_proj, &m->nextn->collapse.fn,
                                 &m->nextn->own_head };
        for (size_t i = 0; i < sizeof all / sizeof *all; i++)
            weight_free(all[i]);
    }
    weight_free(&m->collapse.fn);
    weight_free(&m->head);
    arena_free(&m->memory);
    mem_free(MEM_WEIGHTS, m, sizeof *m);
}

/* ---- buffers ---- */

static int largest(const int *values, size_t count)
{
    int most = 0;
    for (size_t i = 0; i < count; i++)
        most = values[i] > most ? values[i] : most;
    return most;
}

int deepseek4_buffers_create(const deepseek4 *m, device *d, int max_rows, int max_heads, int max_length,
                             deepseek4_buffers **out, foray_error *err)
{
    const deepseek4_config *c = &m->config;
    deepseek4_buffers *b = mem_alloc_zeroed(MEM_GENERAL, sizeof *b);
    if (!b)
        return fail(err, FORAY_ENOMEM, "no memory for the buffers of a pass");
    size_t rows = (size_t)max_rows, s = (size_t)c->streams, dim = (size_t)c->dim, hd = (size_t)c->head_dim;
    size_t q = (size_t)c->heads * hd, low = (size_t)c->groups * (size_t)c->o_rank;
    size_t chosen = (size_t)c->chosen, mixed = max_heads > max_rows ? (size_t)max_heads : rows;
    int rc = 0;
    b->max_entries = max_length / 4 > 0 ? max_length / 4 : 1;
#define BUFFER(name, count, width) pass_buffer(d, #name, count, width, sizeof *b->name, &b->name, &rc, err)
    BUFFER(x, rows, s * dim);
    BUFFER(mix, mixed, (2 + s) * s);
    BUFFER(post, rows, s);
    BUFFER(comb, rows, s * s);
    BUFFER(in, rows, dim);
    BUFFER(out, rows, dim);
    BUFFER(angles, rows, (size_t)c->rope_dim);
    BUFFER(angles_compressed, rows, (size_t)c->rope_dim);
    BUFFER(qr, rows, (size_t)c->q_rank);
    BUFFER(q, rows, q);
    BUFFER(kv, rows, hd);
    BUFFER(comp, rows, 4 * hd);
    BUFFER(att, rows, q);
    BUFFER(low, rows, low);
    BUFFER(gate, rows, (size_t)c->experts);
    BUFFER(choice, rows, chosen);
    BUFFER(weight, rows, chosen);
    BUFFER(first, (size_t)c->experts + 1, 1);
    BUFFER(pair, rows, chosen);
    BUFFER(distinct, (size_t)c->layers + 1, 1);
    BUFFER(act, rows * chosen, (size_t)c->ffn);
    BUFFER(result, rows * chosen, dim);
    BUFFER(shared, rows, dim);
    BUFFER(shared_act, rows, (size_t)c->ffn);
    BUFFER(heads, (size_t)max_heads, s * dim);
    if (c->index_heads) {
        BUFFER(index_comp, rows, 4 * (size_t)c->index_dim);
        BUFFER(index_q, rows, (size_t)c->index_heads * (size_t)c->index_dim);
        BUFFER(index_weights, rows, (size_t)c->index_heads);
        BUFFER(score, rows, (size_t)b->max_entries);
        BUFFER(chosen, rows, (size_t)c->index_top);
        BUFFER(chosen_count, rows, 1);
    }
    if (m->nextn) {
        BUFFER(source, rows, s * dim);
        BUFFER(embedded, rows, dim);
        BUFFER(stream_row, rows, s);
    }
#undef BUFFER
    int widths[] = { c->streams * c->dim, c->q_rank, (int)q, (int)low, c->ffn };
    size_t widest =
        activation_bytes(ACTIVATION_F32, max_rows, largest(widths, sizeof widths / sizeof *widths));
    pass_buffer(d, "ready", 1, widest, 1, &b->ready, &rc, err);
    int side_widths[V4_SIDES] = { c->dim, c->q_rank, c->dim > c->ffn ? c->dim : c->ffn };
    for (int i = 0; i < V4_SIDES; i++)
        pass_buffer(d, deepseek4_sides[i], 1, activation_bytes(ACTIVATION_F32, max_heads, side_widths[i]), 1,
                    &b->ready_side[i], &rc, err);
    if (rc != 0) {
        deepseek4_buffers_destroy(d, b);
        return rc;
    }
    for (size_t i = 0; b->stream_row && i < rows * s; i++)
        b->stream_row[i] = (int32_t)(i / s);
    *out = b;
    return 0;
}

void deepseek4_buffers_destroy(device *d, deepseek4_buffers *b)
{
    if (!b)
        return;
    void *all[] = { b->x,      b->mix,        b->post,   b->comb,   b->in,         b->out,
                    b->angles, b->qr,         b->q,      b->kv,     b->comp,       b->index_comp,
                    b->att,    b->index_q,    b->score,  b->chosen, b->low,        b->chosen_count,
                    b->gate,   b->choice,     b->weight, b->first,  b->pair,       b->index_weights,
                    b->act,    b->distinct,   b->result, b->shared, b->shared_act, b->angles_compressed,
                    b->ready,  b->stream_row, b->heads,  b->source, b->embedded };
    pass_free_buffers(d, all, sizeof all / sizeof *all);
    pass_free_buffers(d, b->ready_side, V4_SIDES);
    mem_free(MEM_GENERAL, b, sizeof *b);
}
