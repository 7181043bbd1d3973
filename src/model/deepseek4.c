/* deepseek4.c: the forward passes. See deepseek4.h; numbers in brackets are sections of the spec.
 *
 * Each line that launches is one kernel. Few rows: norms and activation rounding happen inside the matmuls, privately
 * per worker. Many rows: they are a kernel of their own. The bits are the same.
 */
#include "model/deepseek4.h"

/* From this many rows on, preparing activations once is cheaper than once per worker. */
#ifdef FORAY_TORTURE
enum { FEW_ROWS = 2 }; /* so that verify rounds fall on both sides */
#else
enum { FEW_ROWS = 16 };
#endif

/* What the launches of one pass share. Errors stick: after the first, launches do nothing. */
typedef struct {
    const deepseek4 *m;
    const deepseek4_config *c;
    const pass *p;
    const deepseek4_buffers *b;
    const cache *cache;
    stream *main, *stream; /* the pass's; where launches go now */
    fork_streams *fork;    /* NULL: all on main */
    void *ready;           /* of that stream */
    row_count rows;
    int max_length;
    int rc;
    foray_error *err;
} v4_pass;

static void launch(v4_pass *t, kernel_id id, const kernel_args *args)
{
    if (t->rc == 0)
        t->rc = stream_launch(t->stream, id, args, t->err);
}

/* What follows runs beside the main stream, behind what that has been given so far … */
static void begin_side(v4_pass *t, int side)
{
    if (!t->fork || t->rc != 0)
        return;
    t->rc = fork_begin(t->fork, side, t->main, &t->stream, t->err);
    t->ready = t->b->ready_side[side];
}

/* … and what follows on the main one again, … */
static void end_side(v4_pass *t)
{
    t->stream = t->main;
    t->ready = t->b->ready;
}

/* … from here on behind the side. */
static void join_side(v4_pass *t, int side)
{
    if (t->fork && t->rc == 0)
        t->rc = fork_join(t->fork, side, t->main, t->err);
}

/* ---- products ---- */

typedef struct {
    const float *x; /* [rows, w->cols] with stride */
    size_t x_stride;
    const float *norm; /* RMSNorm in front, or NULL */
    float *out;
    size_t out_stride;
    matmul_epilogue epilogue;
    float limit;
} product;

static void matmul_rows(v4_pass *t, row_count rows, const packed_weight *w, product y)
{
    args_matmul a = { .rows = rows,
                      .w = w,
                      .x = y.x,
                      .x_stride = y.x_stride ? y.x_stride : (size_t)w->cols,
                      .norm = y.norm,
                      .eps = t->c->rms_eps,
                      .epilogue = y.epilogue,
                      .limit = y.limit,
                      .out = y.out,
                      .out_stride = y.out_stride ? y.out_stride : (size_t)w->rows };
    if (rows.max > FEW_ROWS) {
        a.ready = activation_at(w->form, rows.max, w->cols, t->ready);
        a.x = NULL;
        launch(t, KERNEL_QUANT,
               &(kernel_args) { .quant = { .rows = rows,
                                           .x = y.x,
                                           .x_stride = a.x_stride,
                                           .cols = w->cols,
                                           .norm = y.norm,
                                           .eps = a.eps,
                                           .form = w->form,
                                           .out = a.ready } });
    }
    launch(t, KERNEL_MATMUL, &(kernel_args) { .matmul = a });
}

/* out = norm(x) w. */
static void matmul(v4_pass *t, const packed_weight *w, const float *x, const float *norm, float *out)
{
    matmul_rows(t, t->rows, w, (product) { .x = x, .norm = norm, .out = out });
}

/* ---- hyper-connections (2.3) ---- */

/* in = the mixture of the streams that a sub-layer reads; post and comb for afterwards. */
static void hyper_pre(v4_pass *t, const v4_mixer *w)
{
    const deepseek4_config *c = t->c;
    const deepseek4_buffers *b = t->b;
    matmul(t, &w->fn, b->x, NULL, b->mix);
    launch(t, KERNEL_HYPER_PRE,
           &(kernel_args) { .hyper_pre = { .rows = t->rows,
                                           .x = b->x,
                                           .mix = b->mix,
                                           .scale = w->scale,
                                           .base = w->base,
                                           .streams = c->streams,
                                           .dim = c->dim,
                                           .iterations = c->sinkhorn,
                                           .norm_eps = c->rms_eps,
                                           .eps = c->hyper_eps,
                                           .y = b->in,
                                           .post = b->post,
                                           .comb = b->comb } });
}

/* x = post out + comb^T x. */
static void hyper_post(v4_pass *t)
{
    const deepseek4_buffers *b = t->b;
    launch(t, KERNEL_HYPER_POST,
           &(kernel_args) { .hyper_post = { .rows = t->rows,
                                            .x = b->x,
                                            .y = b->out,
                                            .post = b->post,
                                            .comb = b->comb,
                                            .streams = t->c->streams,
                                            .dim = t->c->dim } });
}

/* p->logits = head(norm(collapsed streams of the head rows)) (2.9). */
static void head(v4_pass *t, row_count heads, const v4_mixer *w, const float *norm, const packed_weight *out)
{
    const deepseek4_config *c = t->c;
    const deepseek4_buffers *b = t->b;
    matmul_rows(t, heads, &w->fn, (product) { .x = b->heads, .out = b->mix });
    launch(t, KERNEL_HYPER_PRE,
           &(kernel_args) { .hyper_pre = { .rows = heads,
                                           .x = b->heads,
                                           .mix = b->mix,
                                           .scale = w->scale,
                                           .base = w->base,
                                           .streams = c->streams,
                                           .dim = c->dim,
                                           .norm_eps = c->rms_eps,
                                           .eps = c->hyper_eps,
                                           .y = t->p->hidden } });
    matmul_rows(t, heads, out, (product) { .x = t->p->hidden, .norm = norm, .out = t->p->logits });
}

/* ---- attention (2.4 to 2.7) ---- */

static const float *angles_of(const v4_pass *t, int ratio)
{
    return ratio ? t->b->angles_compressed : t->b->angles;
}

/* The row's latent, key and value at once, into the window ring. */
static void keys_values(v4_pass *t, const v4_layer *w, int layer)
{
    const deepseek4_config *c = t->c;
    const deepseek4_buffers *b = t->b;
    matmul(t, &w->wkv, b->in, w->attn_norm, b->kv); /* [rows, d] */
    launch(
        t, KERNEL_LATENT_STORE,
        &(kernel_args) { .latent_store = { .rows = t->rows,
                                           .x = b->kv,
                                           .x_stride = (size_t)c->head_dim,
                                           .width = c->head_dim,
                                           .rope_dim = c->rope_dim,
                                           .norm = w->kv_norm,
                                           .eps = c->rms_eps,
                                           .cos_sin = angles_of(t, c->ratio[layer]),
                                           .position = t->p->position,
                                           .slot = t->p->slot,
                                           .rounding = t->m->rounded && c->rounding == DEEPSEEK4_ROUND_FP8_FP4
                                                           ? ROUND_F8
                                                           : ROUND_NONE,
                                           .out = sparse_window(t->cache, &t->m->shape, layer) } });
}

static void rope_heads(v4_pass *t, float *x, int heads, int width, int layer, bool norm, bool inverse,
                       vector_rounding rounding)
{
    launch(t, KERNEL_HEAD_ROPE,
           &(kernel_args) { .head_rope = { .rows = t->rows,
                                           .x = x,
                                           .heads = heads,
                                           .width = width,
                                           .rope_dim = t->c->rope_dim,
                                           .norm = norm,
                                           .eps = t->c->rms_eps,
                                           .cos_sin = angles_of(t, t->c->ratio[layer]),
                                           .inverse = inverse,
                                           .rounding = rounding } });
}

static void queries(v4_pass *t, const v4_layer *w, int layer)
{
    const deepseek4_config *c = t->c;
    const deepseek4_buffers *b = t->b;
    matmul(t, &w->wq_b, b->qr, w->q_norm, b->q); /* [rows, H, d] */
    rope_heads(t, b->q, c->heads, c->head_dim, layer, true, false, ROUND_NONE);
}

/* A compressor: this pass's rows into its state, completed groups into entries. */
static void compress(v4_pass *t, const v4_compressor *w, const v4_layer *l, int ratio, int width, float *comp,
                     vector_rounding rounding, entry_rows state, entry_rows entries)
{
    const pass *p = t->p;
    int channels = w->kv_gate.rows / 2;
    matmul(t, &w->kv_gate, t->b->in, l->attn_norm, comp); /* [rows, kv | score] */
    launch(t, KERNEL_STATE_STORE,
           &(kernel_args) { .state_store = { .rows = t->rows,
                                             .x = comp,
                                             .x_stride = (size_t)w->kv_gate.rows,
                                             .ape = w->ape,
                                             .width = channels,
                                             .ratio = ratio,
                                             .position = p->position,
                                             .slot = p->slot,
                                             .state = state } });
    launch(t, KERNEL_COMPRESS,
           &(kernel_args) { .compress = { .rows = t->rows,
                                          .position = p->position,
                                          .slot = p->slot,
                                          .ratio = ratio,
                                          .width = width,
                                          .rope_dim = t->c->rope_dim,
                                          .overlap = channels > width,
                                          .norm = w->norm,
                                          .eps = t->c->rms_eps,
                                          .frequency = t->m->frequency_compressed,
                                          .rounding = rounding,
                                          .state = state,
                                          .out = entries } });
}

/* Ratio 4: which compressed entries each row attends to. */
static void index_entries(v4_pass *t, const v4_layer *w, int layer)
{
    const deepseek4_config *c = t->c;
    const deepseek4_buffers *b = t->b;
    const pass *p = t->p;
    const sparse_shape *shape = &t->m->shape;
    entry_rows keys = sparse_index(t->cache, shape, layer);
    vector_rounding rounding =
        t->m->rounded && c->rounding == DEEPSEEK4_ROUND_FP8_FP4 ? ROUND_HADAMARD_FP4 : ROUND_HADAMARD;
    compress(t, &w->index, w, 4, c->index_dim, b->index_comp, rounding,
             sparse_index_state(t->cache, shape, layer), keys);
    matmul(t, &w->index_q, b->qr, w->q_norm, b->index_q); /* [rows, h, n] */
    rope_heads(t, b->index_q, c->index_heads, c->index_dim, layer, false, false, rounding);
    matmul(t, &w->index_weights, b->in, w->attn_norm, b->index_weights); /* [rows, h] */
    launch(t, KERNEL_INDEX_SCORE,
           &(kernel_args) { .index_score = { .rows = t->rows,
                                             .position = p->position,
                                             .slot = p->slot,
                                             .q = b->index_q,
                                             .weight = b->index_weights,
                                             .scale = t->m->index_scale,
                                             .heads = c->index_heads,
                                             .width = c->index_dim,
                                             .ratio = 4,
                                             .top = c->index_top,
                                             .keys = keys,
                                             .max_entries = b->max_entries,
                                             .score = b->score } });
    launch(t, KERNEL_INDEX_SELECT,
           &(kernel_args) { .index_select = { .rows = t->rows,
                                              .position = p->position,
                                              .ratio = 4,
                                              .top = c->index_top,
                                              .max_entries = b->max_entries,
                                              .score = b->score,
                                              .chosen = b->chosen,
                                              .count = b->chosen_count } });
}

/* out = wo_b of wo_a, group by group, of the heads turned back (2.5). */
static void output(v4_pass *t, const v4_layer *w, int layer)
{
    const deepseek4_config *c = t->c;
    const deepseek4_buffers *b = t->b;
    size_t heads = (size_t)c->heads * (size_t)c->head_dim, low = (size_t)c->groups * (size_t)c->o_rank;
    rope_heads(t, b->att, c->heads, c->head_dim, layer, false, true, ROUND_NONE);
    for (int g = 0; g < c->groups; g++) /* [rows, o_rank] each */
        matmul_rows(t, t->rows, &w->wo_a[g],
                    (product) { .x = b->att + (size_t)g * (heads / (size_t)c->groups),
                                .x_stride = heads,
                                .out = b->low + (size_t)(g * c->o_rank),
                                .out_stride = low });
    matmul(t, &w->wo_b, b->low, NULL, b->out); /* [rows, dim] */
}

static void attention(v4_pass *t, const v4_layer *w, int layer)
{
    const deepseek4_config *c = t->c;
    const deepseek4_buffers *b = t->b;
    const sparse_shape *shape = &t->m->shape;
    int ratio = c->ratio[layer];

    begin_side(t, V4_SIDE_KV);
    keys_values(t, w, layer);
    end_side(t);
    matmul(t, &w->wq_a, b->in, w->attn_norm, b->qr); /* [rows, q_rank] */
    begin_side(t, V4_SIDE_Q);
    queries(t, w, layer);
    end_side(t);
    if (ratio == 4)
        index_entries(t, w, layer);
    if (ratio)
        compress(t, &w->compressor, w, ratio, c->head_dim, b->comp,
                 t->m->rounded && c->rounding == DEEPSEEK4_ROUND_FP8_FP4 ? ROUND_F8 : ROUND_NONE,
                 sparse_state(t->cache, shape, layer), sparse_entries(t->cache, shape, layer));
    join_side(t, V4_SIDE_KV);
    join_side(t, V4_SIDE_Q);

    int most = ratio == 4 ? c->index_top : ratio ? t->max_length / ratio : 0;
    launch(t, KERNEL_SPARSE_ATTENTION,
           &(kernel_args) { .sparse_attention = { .rows = t->rows,
                                                  .position = t->p->position,
                                                  .slot = t->p->slot,
                                                  .q = b->q,
                                                  .heads = c->heads,
                                                  .width = c->head_dim,
                                                  .scale = t->m->attention_scale,
                                                  .sink = w->sink,
                                                  .window = c->window,
                                                  .ring = sparse_window(t->cache, shape, layer),
                                                  .ratio = ratio,
                                                  .entries = sparse_entries(t->cache, shape, layer),
                                                  .chosen = ratio == 4 ? b->chosen : NULL,
                                                  .count = ratio == 4 ? b->chosen_count : NULL,
                                                  .top = c->index_top,
                                                  .max_entries = most,
                                                  .out = b->att } });
    output(t, w, layer);
}

/* ---- feed-forward (2.8) ---- */

static void route(v4_pass *t, const v4_layer *w, int layer)
{
    const deepseek4_config *c = t->c;
    const deepseek4_buffers *b = t->b;
    matmul(t, &w->gate, b->in, w->ffn_norm, b->gate); /* [rows, experts] */
    launch(t, KERNEL_ROUTE,
           &(kernel_args) { .route = { .rows = t->rows,
                                       .logits = b->gate,
                                       .bias = w->gate_bias,
                                       .ids = t->p->ids,
                                       .table = w->hash,
                                       .vocab = c->vocab,
                                       .experts = c->experts,
                                       .chosen = c->chosen,
                                       .scale = c->route_scale,
                                       .choice = b->choice,
                                       .weight = b->weight } });
    launch(t, KERNEL_GROUP,
           &(kernel_args) { .group = { .rows = t->rows,
                                       .choice = b->choice,
                                       .experts = c->experts,
                                       .chosen = c->chosen,
                                       .first = b->first,
                                       .pair = b->pair,
                                       .distinct = b->distinct + layer } });
}

static void experts(v4_pass *t, const v4_layer *w)
{
    const deepseek4_config *c = t->c;
    const deepseek4_buffers *b = t->b;
    args_experts up = { .max_rows = t->rows.max,
                        .experts = c->experts,
                        .chosen = c->chosen,
                        .first = b->first,
                        .pair = b->pair,
                        .w = w->experts.gate_up,
                        .x = b->in,
                        .norm = w->ffn_norm,
                        .eps = c->rms_eps,
                        .weight = b->weight,
                        .limit = c->swiglu_limit,
                        .out = b->act };
    args_experts down = up;
    down.w = w->experts.down;
    down.x = b->act;
    down.by_pair = true;
    down.norm = down.weight = NULL;
    down.out = b->result;
    launch(t, KERNEL_EXPERTS, &(kernel_args) { .experts = up });   /* [rows E, ffn]  silu(gate) up weight */
    launch(t, KERNEL_EXPERTS, &(kernel_args) { .experts = down }); /* [rows E, dim] */
}

static void shared_expert(v4_pass *t, const v4_layer *w)
{
    const deepseek4_config *c = t->c;
    const deepseek4_buffers *b = t->b;
    matmul_rows(t, t->rows, &w->shared_up,
                (product) { .x = b->in,
                            .norm = w->ffn_norm,
                            .out = b->shared_act,
                            .out_stride = (size_t)c->ffn,
                            .epilogue = EPILOGUE_SWIGLU,
                            .limit = c->swiglu_limit });
    matmul(t, &w->shared_down, b->shared_act, NULL, b->shared);
}

static void feed_forward(v4_pass *t, const v4_layer *w, int layer)
{
    const deepseek4_buffers *b = t->b;
    begin_side(t, V4_SIDE_SHARED);
    shared_expert(t, w);
    end_side(t);
    route(t, w, layer);
    experts(t, w);
    join_side(t, V4_SIDE_SHARED);
    launch(t, KERNEL_COMBINE,
           &(kernel_args) { .combine = { .rows = t->rows,
                                         .y = b->result,
                                         .add = b->shared,
                                         .chosen = t->c->chosen,
                                         .dim = t->c->dim,
                                         .out = b->out } });
}

/* ---- passes ---- */

/* One block over the rows of the pass (2.2): the streams are updated in place. */
static void block(v4_pass *t, int layer)
{
    const v4_layer *w = &t->m->layer[layer];
    hyper_pre(t, &w->attn);
    attention(t, w, layer);
    hyper_post(t);
    hyper_pre(t, &w->ffn);
    feed_forward(t, w, layer);
    hyper_post(t);
}

static void embed(v4_pass *t, const weight_source *table, int copies, float *out)
{
    launch(t, KERNEL_EMBED,
           &(kernel_args) { .embed = { .rows = t->rows,
                                       .ids = t->p->ids,
                                       .dtype = (int)table->type,
                                       .table = table->data,
                                       .vocab = t->c->vocab,
                                       .dim = t->c->dim,
                                       .scale = 1,
                                       .copies = copies,
                                       .out = out } });
}

static void angles(v4_pass *t, const float *frequency, float *out)
{
    launch(t, KERNEL_ROPE_ANGLES,
           &(kernel_args) { .rope_angles = { .rows = t->rows,
                                             .position = t->p->position,
                                             .frequency = frequency,
                                             .half = t->c->rope_dim / 2,
                                             .mscale = 1,
                                             .cos_sin = out } });
}

static v4_pass open_pass(const deepseek4 *m, const pass *p, const cache *c, int rows, int max_length,
                         stream *s, fork_streams *fork, foray_error *err)
{
    return (v4_pass) { .m = m,
                       .c = &m->config,
                       .p = p,
                       .b = p->deepseek4,
                       .cache = c,
                       .main = s,
                       .stream = s,
                       .fork = fork,
                       .ready = p->deepseek4->ready,
                       .rows = { .live = &p->count->rows, .max = rows },
                       .max_length = max_length,
                       .err = err };
}

/* heads = the streams of the head rows. */
static void pick_heads(v4_pass *t, row_count heads)
{
    launch(t, KERNEL_GATHER,
           &(kernel_args) { .gather = { .rows = heads,
                                        .index = t->p->head_row,
                                        .x = t->b->x,
                                        .dim = t->c->streams * t->c->dim,
                                        .out = t->b->heads } });
}

const char *const deepseek4_sides[V4_SIDES] = { "kv", "q", "shared expert" };

int deepseek4_trunk(const deepseek4 *m, const pass *p, const cache *c, int rows, int max_length, stream *s,
                    fork_streams *fork, foray_error *err)
{
    v4_pass t = open_pass(m, p, c, rows, max_length, s, fork, err);
    embed(&t, &m->embedding, m->config.streams, t.b->x); /* [rows, S, dim] */
    angles(&t, m->frequency, t.b->angles);
    angles(&t, m->frequency_compressed, t.b->angles_compressed);
    for (int layer = 0; layer < m->config.layers; layer++)
        block(&t, layer);
    if (m->nextn)
        launch(&t, KERNEL_ENTRY_STORE,
               &(kernel_args) { .entry_copy = { .rows = t.rows,
                                                .position = p->position,
                                                .slot = p->slot,
                                                .entries = sparse_streams(c, &m->shape),
                                                .x = t.b->x } });
    return t.rc;
}

int deepseek4_head(const deepseek4 *m, const pass *p, int heads, stream *s, foray_error *err)
{
    v4_pass t = open_pass(m, p, NULL, 0, 0, s, NULL, err);
    row_count rows = { .live = &p->count->heads, .max = heads };
    pick_heads(&t, rows);
    head(&t, rows, &m->collapse, m->norm, &m->head);
    return t.rc;
}

/* x[s] = e_proj norm(embedding) + h_proj norm(streams[s]) (3.1). */
static void nextn_input(v4_pass *t, bool from_self, const entry_rows *self)
{
    const deepseek4_config *c = t->c;
    const deepseek4_buffers *b = t->b;
    const v4_nextn *w = t->m->nextn;
    const pass *p = t->p;
    row_count streams = { .live = &p->count->stream_rows, .max = t->rows.max * c->streams };
    launch(t, KERNEL_ENTRY_LOAD,
           &(kernel_args) {
               .entry_copy = { .rows = t->rows,
                               .position = from_self ? NULL : p->position,
                               .slot = p->slot,
                               .entries = from_self ? *self : sparse_streams(t->cache, &t->m->shape),
                               .x = b->source } });
    embed(t, &w->embedding, 1, b->embedded);
    matmul(t, &w->e_proj, b->embedded, w->e_norm, b->in); /* [rows, dim] */
    launch(
        t, KERNEL_GATHER,
        &(kernel_args) {
            .gather = { .rows = streams, .index = b->stream_row, .x = b->in, .dim = c->dim, .out = b->x } });
    matmul_rows(t, streams, &w->h_proj,
                (product) { .x = b->source, .norm = w->h_norm, .out = b->x, .epilogue = EPILOGUE_ADD });
}

int deepseek4_nextn(const deepseek4 *m, const pass *p, const cache *c, int rows, int heads, int max_length,
                    bool from_self, const entry_rows *self, const int32_t *head_slot, stream *s,
                    foray_error *err)
{
    v4_pass t = open_pass(m, p, c, rows, max_length, s, NULL, err);
    row_count picked = { .live = &p->count->heads, .max = heads };
    angles(&t, m->frequency, t.b->angles);
    nextn_input(&t, from_self, self);
    block(&t, m->config.layers);
    pick_heads(&t, picked);
    launch(&t, KERNEL_ENTRY_STORE,
           &(kernel_args) {
               .entry_copy = { .rows = picked, .slot = head_slot, .entries = *self, .x = t.b->heads } });
    head(&t, picked, &m->nextn->collapse, m->nextn->norm, m->nextn->head);
    return t.rc;
}

double deepseek4_attention_products(const deepseek4 *m, int first, int rows)
{
    const deepseek4_config *c = &m->config;
    double seen = 0, indexed = 0;
    for (int layer = 0; layer < c->layers; layer++)
        for (int p = first; p < first + rows; p++) {
            const int ratio = c->ratio[layer], groups = ratio ? (p + 1) / ratio : 0;
            seen += (p + 1 < c->window ? p + 1 : c->window) +
                    (ratio == 4 && groups > c->index_top ? c->index_top : groups);
            indexed += ratio == 4 ? groups : 0;
        }
    return 2.0 * c->heads * c->head_dim * seen + 1.0 * c->index_heads * c->index_dim * indexed;
}
