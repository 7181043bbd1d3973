/* llama_load.c: from a model's files to packed weights. See llama.h. */
#include "model/llama.h"

#include <string.h>

#include "base/mem.h"
#include "model/finite.h"
#include "model/names.h"

typedef struct {
    const model_file *f;
    const model_config *c;
    llama *m;
    const model_options *o;
    uint64_t done, total;
    foray_error *err;
} loader;

static int read_vector(loader *l, model_role role, int layer, size_t n, float *out)
{
    model_names_vector(l->f, l->c, role, layer, out);
    return finite_check_floats(l->f, model_names_find(l->f, l->c, role, layer)->name, out, n, l->err);
}

/* A vector role as f32 in the model's arena, or NULL where the family has none. */
static int load_vector(loader *l, model_role role, int layer, float **out)
{
    int64_t shape[2];
    *out = NULL;
    if (!model_role_used(l->c, role))
        return 0;
    model_role_shape(l->c, role, shape);
    *out = arena_array(&l->m->memory, (size_t)shape[0], sizeof(float));
    if (!*out)
        return fail(l->err, FORAY_ENOMEM, "%s: no memory for a vector of %lld", model_file_path(l->f),
                    (long long)shape[0]);
    return read_vector(l, role, layer, (size_t)shape[0], *out);
}

/* Several matrices of a layer as one packed matrix. */
static int load_matrices(loader *l, const model_role *roles, int count, int layer, bool interleave,
                         packed_weight *out)
{
    weight_source source[3];
    int32_t *order[3] = { NULL, NULL, NULL };
    size_t order_bytes[3] = { 0, 0, 0 };
    int rc = 0;
    for (int i = 0; i < count && rc == 0; i++) {
        const tensor_view *v = model_names_find(l->f, l->c, roles[i], layer);
        source[i] = (weight_source) {
            .data = v->data, .type = v->type, .rows = (int)v->shape[0], .cols = (int)v->shape[1]
        };
        rc = finite_check_matrix(l->f, &source[i], l->err);
        if (rc != 0)
            break;
        if (roles[i] == ROLE_Q || roles[i] == ROLE_K) {
            order_bytes[i] = sizeof(int32_t) * (size_t)source[i].rows;
            order[i] = mem_alloc(MEM_GENERAL, order_bytes[i]);
            if (!order[i])
                rc = fail(l->err, FORAY_ENOMEM, "%s: no memory", model_file_path(l->f));
            else if (model_qk_row_order(l->c, source[i].rows / l->c->head_dim, order[i]))
                source[i].order = order[i];
        }
    }
    if (rc == 0)
        rc = weight_pack(source, count, interleave, true, l->o->lanes, out, l->err);
    for (int i = 0; i < 3; i++)
        mem_free(MEM_GENERAL, order[i], order_bytes[i]);
    if (rc == 0) {
        l->m->weight_bytes += out->bytes;
        l->m->bytes_per_token += out->bytes;
        l->m->products += roles[0] == ROLE_OUTPUT ? 0 : (double)out->rows * out->cols;
        l->done += out->file_bytes;
        if (l->o->progress)
            l->o->progress(l->o->user, l->done, l->total);
    }
    return rc;
}

/* q, k and v: one matrix, or, where a file mixes types, one for each run of equal types. */
static int load_qkv(loader *l, int layer, llama_layer *w)
{
    static const model_role roles[3] = { ROLE_Q, ROLE_K, ROLE_V };
    for (int i = 0, n; i < 3; i += n) {
        dtype type = model_names_find(l->f, l->c, roles[i], layer)->type;
        for (n = 1; i + n < 3 && model_names_find(l->f, l->c, roles[i + n], layer)->type == type;)
            n++;
        int rc = load_matrices(l, roles + i, n, layer, false, &w->qkv[w->qkv_parts]);
        if (rc != 0)
            return rc;
        w->qkv_parts++;
    }
    return 0;
}

/* The biases of q, k and v, one behind the other as the packed rows stand. */
static int load_qkv_bias(loader *l, int layer, float **out)
{
    const model_config *c = l->c;
    size_t q = (size_t)c->heads * (size_t)c->head_dim, kv = (size_t)c->kv_heads * (size_t)c->head_dim;
    *out = NULL;
    if (!c->qkv_bias)
        return 0;
    *out = arena_array(&l->m->memory, q + 2 * kv, sizeof(float));
    if (!*out)
        return fail(l->err, FORAY_ENOMEM, "%s: no memory", model_file_path(l->f));
    int rc = read_vector(l, ROLE_Q_BIAS, layer, q, *out);
    if (rc == 0)
        rc = read_vector(l, ROLE_K_BIAS, layer, kv, *out + q);
    if (rc == 0)
        rc = read_vector(l, ROLE_V_BIAS, layer, kv, *out + q + kv);
    return rc;
}

static int load_layer(loader *l, int i)
{
    llama_layer *w = &l->m->layer[i];
    int rc = load_vector(l, ROLE_ATTN_NORM, i, &w->attn_norm);
    if (rc == 0)
        rc = load_vector(l, ROLE_FFN_NORM, i, &w->ffn_norm);
    if (rc == 0)
        rc = load_vector(l, ROLE_POST_ATTN_NORM, i, &w->post_attn_norm);
    if (rc == 0)
        rc = load_vector(l, ROLE_POST_FFN_NORM, i, &w->post_ffn_norm);
    if (rc == 0)
        rc = load_vector(l, ROLE_Q_NORM, i, &w->q_norm);
    if (rc == 0)
        rc = load_vector(l, ROLE_K_NORM, i, &w->k_norm);
    if (rc == 0)
        rc = load_qkv_bias(l, i, &w->qkv_bias);
    if (rc == 0)
        rc = load_qkv(l, i, w);
    if (rc == 0)
        rc = load_matrices(l, (model_role[]) { ROLE_O }, 1, i, false, &w->o);
    if (rc == 0)
        rc = load_matrices(l, (model_role[]) { ROLE_GATE, ROLE_UP }, 2, i, true, &w->gate_up);
    if (rc == 0)
        rc = load_matrices(l, (model_role[]) { ROLE_DOWN }, 1, i, false, &w->down);
    return rc;
}

static int load_frequencies(loader *l)
{
    llama *m = l->m;
    const model_config *c = l->c;
    size_t half = (size_t)c->rope_dim / 2;
    bool any_local = false;
    for (int i = 0; i < c->layers; i++)
        any_local = any_local || c->rope_local[i];
    m->frequency = arena_array(&m->memory, half, sizeof(float));
    m->frequency_local = any_local ? arena_array(&m->memory, half, sizeof(float)) : NULL;
    if (!m->frequency || (any_local && !m->frequency_local))
        return fail(l->err, FORAY_ENOMEM, "%s: no memory", model_file_path(l->f));
    float unscaled;
    model_rope_frequencies(c, false, m->frequency, &m->rope_scale);
    if (any_local)
        model_rope_frequencies(c, true, m->frequency_local, &unscaled);
    return 0;
}

static int load_all(loader *l)
{
    llama *m = l->m;
    m->layer = arena_array(&m->memory, (size_t)l->c->layers, sizeof *m->layer);
    if (!m->layer)
        return fail(l->err, FORAY_ENOMEM, "%s: no memory", model_file_path(l->f));
    for (size_t i = 0; i < model_file_tensor_count(l->f); i++)
        l->total += model_file_tensor_at(l->f, i)->bytes;
    int rc = load_frequencies(l);
    for (int i = 0; i < l->c->layers && rc == 0; i++)
        rc = load_layer(l, i);
    if (rc == 0)
        rc = load_vector(l, ROLE_OUTPUT_NORM, 0, &m->output_norm);
    if (rc == 0)
        rc = load_matrices(l, (model_role[]) { ROLE_OUTPUT }, 1, 0, false, &m->head);
    m->embedding = model_names_find(l->f, l->c, ROLE_TOKEN_EMBD, 0);
    const tensor_view *v = m->embedding;
    weight_source rows = {
        .data = v->data, .type = v->type, .rows = (int)v->shape[0], .cols = (int)v->shape[1]
    };
    if (rc == 0 && v->data != model_names_find(l->f, l->c, ROLE_OUTPUT, 0)->data)
        rc = finite_check_matrix(l->f, &rows, l->err);
    return rc;
}

int llama_load(const model_file *f, const model_options *o, llama **out, foray_error *err)
{
    llama *m = mem_alloc_zeroed(MEM_WEIGHTS, sizeof *m);
    if (!m)
        return fail(err, FORAY_ENOMEM, "%s: no memory", model_file_path(f));
    arena_init(&m->memory, MEM_WEIGHTS, 0);
    loader l = { .f = f, .c = &m->config, .m = m, .o = o, .err = err };
    int rc = model_config_read(f, &m->config, err);
    if (rc == 0)
        rc = model_names_check(f, &m->config, err);
    if (rc == 0)
        rc = load_all(&l);
    if (rc != 0) {
        llama_free(m);
        return rc;
    }
    m->kv = (kv_shape) { .layers = m->config.layers,
                         .kv_heads = m->config.kv_heads,
                         .head_dim = m->config.head_dim,
                         .page_rows = o->page_rows };
    *out = m;
    return 0;
}

void llama_free(llama *m)
{
    if (!m)
        return;
    for (int i = 0; m->layer && i < m->config.layers; i++) {
        for (int k = 0; k < m->layer[i].qkv_parts; k++)
            weight_free(&m->layer[i].qkv[k]);
        weight_free(&m->layer[i].o);
        weight_free(&m->layer[i].gate_up);
        weight_free(&m->layer[i].down);
    }
    weight_free(&m->head);
    arena_free(&m->memory);
    mem_free(MEM_WEIGHTS, m, sizeof *m);
}

static int widest_input(const model_config *c)
{
    int widest = c->dim > c->ffn ? c->dim : c->ffn;
    int attention = c->heads * c->head_dim;
    return attention > widest ? attention : widest;
}

int llama_buffers_create(const llama *m, device *d, int max_rows, llama_buffers **out, foray_error *err)
{
    const model_config *c = &m->config;
    llama_buffers *b = mem_alloc_zeroed(MEM_GENERAL, sizeof *b);
    if (!b)
        return fail(err, FORAY_ENOMEM, "no memory for the buffers of a pass");
    size_t rows = (size_t)max_rows;
    size_t q = (size_t)c->heads * (size_t)c->head_dim, kv = (size_t)c->kv_heads * (size_t)c->head_dim;
    int rc = 0;
#define BUFFER(name, width) pass_buffer(d, #name, rows, width, sizeof *b->name, &b->name, &rc, err)
    BUFFER(x, (size_t)c->dim);
    BUFFER(angles, (size_t)c->rope_dim);
    BUFFER(angles_local, (size_t)c->rope_dim);
    BUFFER(qkv, q + 2 * kv);
    BUFFER(att, q);
    BUFFER(ffn, (size_t)c->ffn);
    BUFFER(y, (size_t)c->dim);
#undef BUFFER
    pass_buffer(d, "ready", 1, activation_bytes(ACTIVATION_F32, max_rows, widest_input(c)), 1, &b->ready, &rc,
                err);
    if (rc != 0) {
        llama_buffers_destroy(d, b);
        return rc;
    }
    *out = b;
    return 0;
}

void llama_buffers_destroy(device *d, llama_buffers *b)
{
    if (!b)
        return;
    void *all[] = { b->x, b->angles, b->angles_local, b->qkv, b->att, b->ffn, b->y, b->ready };
    pass_free_buffers(d, all, sizeof all / sizeof *all);
    mem_free(MEM_GENERAL, b, sizeof *b);
}
