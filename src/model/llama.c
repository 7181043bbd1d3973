/* llama.c: the forward pass. See llama.h.
 *
 * Each line that launches is one kernel. Few rows: norms and activation rounding happen inside the matmuls,
 * privately per worker (fewer barriers). Many rows: they are a kernel of their own. The bits are the same.
 */
#include "model/llama.h"

/* From this many rows on, preparing activations once is cheaper than once per worker. */
#ifdef FORAY_TORTURE
enum { FEW_ROWS = 2 }; /* so that verify rounds fall on both sides */
#else
enum { FEW_ROWS = 16 };
#endif

/* What the layers of one trunk share. Errors stick: after the first, launches do nothing. */
typedef struct {
    const llama *m;
    const pass *p;
    const llama_buffers *b;
    const cache *cache;
    stream *stream;
    row_count rows;
    int spans, max_length;
    int rc;
    foray_error *err;
} trunk;

static void launch(trunk *t, kernel_id id, const kernel_args *args)
{
    if (t->rc == 0)
        t->rc = stream_launch(t->stream, id, args, t->err);
}

/* out (+)= epilogue(norm(x) w). x: [rows, w->cols]. */
static void matmul(trunk *t, const packed_weight *w, const float *x, const float *norm, const float *bias,
                   matmul_epilogue epilogue, float *out, int out_width)
{
    args_matmul a = { .rows = t->rows,
                      .w = w,
                      .x = x,
                      .x_stride = (size_t)w->cols,
                      .norm = norm,
                      .eps = t->m->config.rms_eps,
                      .bias = bias,
                      .epilogue = epilogue,
                      .out = out,
                      .out_stride = (size_t)out_width };
    if (t->rows.max > FEW_ROWS) {
        a.ready = activation_at(w->form, t->rows.max, w->cols, t->b->ready);
        a.x = NULL;
        launch(t, KERNEL_QUANT,
               &(kernel_args) { .quant = { .rows = t->rows,
                                           .x = x,
                                           .x_stride = (size_t)w->cols,
                                           .cols = w->cols,
                                           .norm = norm,
                                           .eps = a.eps,
                                           .form = w->form,
                                           .out = a.ready } });
    }
    launch(t, KERNEL_MATMUL, &(kernel_args) { .matmul = a });
}

/* x += y w, with the family's norm in between if it has one. */
static void matmul_residual(trunk *t, const packed_weight *w, const float *in, const float *post_norm)
{
    const llama_buffers *b = t->b;
    int dim = t->m->config.dim;
    if (!post_norm) {
        matmul(t, w, in, NULL, NULL, EPILOGUE_ADD, b->x, dim);
        return;
    }
    matmul(t, w, in, NULL, NULL, EPILOGUE_STORE, b->y, dim);
    launch(t, KERNEL_NORM_ADD,
           &(kernel_args) { .norm_add = { .rows = t->rows,
                                          .x = b->x,
                                          .y = b->y,
                                          .norm = post_norm,
                                          .eps = t->m->config.rms_eps,
                                          .dim = dim } });
}

static void angles(trunk *t, const float *frequency, float scale, float *out)
{
    launch(t, KERNEL_ROPE_ANGLES,
           &(kernel_args) { .rope_angles = { .rows = t->rows,
                                             .position = t->p->position,
                                             .frequency = frequency,
                                             .half = t->m->config.rope_dim / 2,
                                             .mscale = scale,
                                             .cos_sin = out } });
}

/* b->qkv = norm(x) [q | k | v], in as many matrices as the file's types need. */
static void matmul_qkv(trunk *t, const llama_layer *w, int width)
{
    for (int i = 0, at = 0; i < w->qkv_parts; at += w->qkv[i++].rows)
        matmul(t, &w->qkv[i], t->b->x, w->attn_norm, w->qkv_bias ? w->qkv_bias + at : NULL, EPILOGUE_STORE,
               t->b->qkv + at, width);
}

static void rope_store(trunk *t, const llama_layer *w, int layer, const kv_layer *kv)
{
    const model_config *c = &t->m->config;
    const pass *p = t->p;
    const llama_buffers *b = t->b;
    args_rope_store a = { .rows = t->rows,
                          .qkv = b->qkv,
                          .heads = c->heads,
                          .rope_dim = c->rope_dim,
                          .cos_sin = c->rope_local[layer] ? b->angles_local : b->angles,
                          .q_norm = w->q_norm,
                          .k_norm = w->k_norm,
                          .eps = c->rms_eps,
                          .position = p->position,
                          .slot = p->slot,
                          .kv = *kv };
    launch(t, KERNEL_ROPE_STORE, &(kernel_args) { .rope_store = a });
}

static void attention(trunk *t, int layer, int width, const kv_layer *kv)
{
    const model_config *c = &t->m->config;
    const pass *p = t->p;
    const llama_buffers *b = t->b;
    args_attention a = { .span_count = &p->count->spans,
                         .spans = p->spans,
                         .max_spans = t->spans,
                         .max_rows = t->rows.max,
                         .max_length = t->max_length,
                         .q = b->qkv,
                         .q_stride = (size_t)width,
                         .heads = c->heads,
                         .scale = c->attention_scale,
                         .window = c->window[layer],
                         .kv = *kv,
                         .out = b->att };
    launch(t, KERNEL_ATTENTION, &(kernel_args) { .attention = a });
}

/* One block over the rows of the pass. b->x is updated in place. */
static void block(trunk *t, int layer)
{
    const model_config *c = &t->m->config;
    const llama_layer *w = &t->m->layer[layer];
    const llama_buffers *b = t->b;
    kv_layer kv = kv_layer_of(t->cache, 0, &t->m->kv, layer);
    int width = (c->heads + 2 * c->kv_heads) * c->head_dim;
    matmul_epilogue gated = c->gate == GATE_SILU ? EPILOGUE_SWIGLU : EPILOGUE_GEGLU;

    matmul_qkv(t, w, width);                              /* [rows, (H + 2 Hkv) d]  q | k | v */
    rope_store(t, w, layer, &kv);                         /* q rotated; k, v into the cache */
    attention(t, layer, width, &kv);                      /* [rows, H d]            att */
    matmul_residual(t, &w->o, b->att, w->post_attn_norm); /* x += att o */

    matmul(t, &w->gate_up, b->x, w->ffn_norm, NULL, gated, b->ffn, c->ffn); /* [rows, ffn]  act(gate) * up */
    matmul_residual(t, &w->down, b->ffn, w->post_ffn_norm);                 /* x += ffn down */
}

int llama_trunk(const llama *m, const pass *p, const cache *c, int rows, int spans, int max_length, stream *s,
                foray_error *err)
{
    const model_config *config = &m->config;
    const llama_buffers *b = p->llama;
    trunk t = { .m = m,
                .p = p,
                .b = p->llama,
                .cache = c,
                .stream = s,
                .rows = { .live = &p->count->rows, .max = rows },
                .spans = spans,
                .max_length = max_length,
                .err = err };

    launch(&t, KERNEL_EMBED,
           &(kernel_args) { .embed = { .rows = t.rows,
                                       .ids = p->ids,
                                       .dtype = m->embedding->type,
                                       .table = m->embedding->data,
                                       .vocab = config->vocab,
                                       .dim = config->dim,
                                       .scale = config->embedding_scale,
                                       .copies = 1,
                                       .out = b->x } });
    angles(&t, m->frequency, m->rope_scale, b->angles);
    if (m->frequency_local)
        angles(&t, m->frequency_local, 1.0f, b->angles_local);
    for (int layer = 0; layer < config->layers; layer++)
        block(&t, layer);
    return t.rc;
}

int llama_head(const llama *m, const pass *p, int heads, stream *s, foray_error *err)
{
    const llama_buffers *b = p->llama;
    trunk t = {
        .m = m, .p = p, .b = b, .stream = s, .rows = { .live = &p->count->heads, .max = heads }, .err = err
    };

    launch(
        &t, KERNEL_GATHER,
        &(kernel_args) {
            .gather = {
                .rows = t.rows, .index = p->head_row, .x = b->x, .dim = m->config.dim, .out = p->hidden } });
    matmul(&t, &m->head, p->hidden, m->output_norm, NULL, EPILOGUE_STORE, p->logits, m->config.vocab);
    return t.rc;
}

double llama_attention_products(const llama *m, int first, int rows)
{
    const model_config *c = &m->config;
    double seen = 0;
    for (int layer = 0; layer < c->layers; layer++)
        for (int p = first; p < first + rows; p++)
            seen += c->window[layer] && c->window[layer] < p + 1 ? c->window[layer] : p + 1;
    return 2.0 * c->heads * c->head_dim * seen;
}
