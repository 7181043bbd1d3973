/* kernel.c: what can be said of a kernel without running it: its name, class, cost and the memory it touches.
 *
 * Costs are of the launched rows, not the live ones: they order tasks and feed the roofline report, and a
 * report that needs live rows scales them. Accesses are what the happens-before check of debug builds goes by.
 * Threads: any; no state.
 */
#include "kernel/describe.h"

#include <assert.h>

static const struct {
    const char *name;
    kernel_class class;
    size_t args_bytes;
} kernels[KERNEL_COUNT] = {
    [KERNEL_EMBED] = { "embed", CLASS_COPY, sizeof(args_embed) },
    [KERNEL_QUANT] = { "quant", CLASS_COMPUTE, sizeof(args_quant) },
    [KERNEL_MATMUL] = { "matmul", CLASS_COMPUTE, sizeof(args_matmul) },
    [KERNEL_ROPE_ANGLES] = { "rope_angles", CLASS_COMPUTE, sizeof(args_rope_angles) },
    [KERNEL_ROPE_STORE] = { "rope_store", CLASS_COMPUTE, sizeof(args_rope_store) },
    [KERNEL_ATTENTION] = { "attention", CLASS_ATTENTION, sizeof(args_attention) },
    [KERNEL_NORM_ADD] = { "norm_add", CLASS_COMPUTE, sizeof(args_norm_add) },
    [KERNEL_GATHER] = { "gather", CLASS_COPY, sizeof(args_gather) },
    [KERNEL_SAMPLE] = { "sample", CLASS_COMPUTE, sizeof(args_sample) },
    [KERNEL_HYPER_PRE] = { "hyper_pre", CLASS_COMPUTE, sizeof(args_hyper_pre) },
    [KERNEL_HYPER_POST] = { "hyper_post", CLASS_COMPUTE, sizeof(args_hyper_post) },
    [KERNEL_HEAD_ROPE] = { "head_rope", CLASS_COMPUTE, sizeof(args_head_rope) },
    [KERNEL_LATENT_STORE] = { "latent_store", CLASS_COMPUTE, sizeof(args_latent_store) },
    [KERNEL_STATE_STORE] = { "state_store", CLASS_COMPUTE, sizeof(args_state_store) },
    [KERNEL_COMPRESS] = { "compress", CLASS_COMPUTE, sizeof(args_compress) },
    [KERNEL_INDEX_SCORE] = { "index_score", CLASS_ATTENTION, sizeof(args_index_score) },
    [KERNEL_INDEX_SELECT] = { "index_select", CLASS_COMPUTE, sizeof(args_index_select) },
    [KERNEL_SPARSE_ATTENTION] = { "sparse_attention", CLASS_ATTENTION, sizeof(args_sparse_attention) },
    [KERNEL_ENTRY_STORE] = { "entry_store", CLASS_COPY, sizeof(args_entry_copy) },
    [KERNEL_ENTRY_LOAD] = { "entry_load", CLASS_COPY, sizeof(args_entry_copy) },
    [KERNEL_ROUTE] = { "route", CLASS_COMPUTE, sizeof(args_route) },
    [KERNEL_GROUP] = { "group", CLASS_COMPUTE, sizeof(args_group) },
    [KERNEL_EXPERTS] = { "experts", CLASS_COMPUTE, sizeof(args_experts) },
    [KERNEL_COMBINE] = { "combine", CLASS_COMPUTE, sizeof(args_combine) },
    [KERNEL_HOST] = { "host", CLASS_HOST, sizeof(args_host) },
};

const char *kernel_name(kernel_id id, const kernel_args *args)
{
    assert(id >= 0 && id < KERNEL_COUNT);
    return id == KERNEL_HOST && args && args->host.name ? args->host.name : kernels[id].name;
}

kernel_class kernel_get_class(kernel_id id)
{
    assert(id >= 0 && id < KERNEL_COUNT);
    return kernels[id].class;
}

size_t kernel_args_bytes(kernel_id id)
{
    assert(id >= 0 && id < KERNEL_COUNT);
    return kernels[id].args_bytes;
}

/* ---- cost ---- */

/* Bytes of one row of activations in a form. */
static double activation_row_bytes(activation_form form, int cols)
{
    return form == ACTIVATION_Q8 ? 1.5 * cols : form == ACTIVATION_I8 ? 1.0 * cols : 4.0 * cols;
}

static kernel_cost cost_matmul(const args_matmul *a, bool live)
{
    double rows = count_rows(a->rows, live), n = a->w->rows, k = a->w->cols;
    bool gated = a->epilogue == EPILOGUE_SWIGLU || a->epilogue == EPILOGUE_GEGLU;
    double in = a->x ? 4.0 * k : activation_row_bytes(a->w->form, a->w->cols);
    double out = 4.0 * n * (gated ? 0.5 : a->epilogue == EPILOGUE_ADD ? 2.0 : 1.0);
    double weights = rows > 0 ? (double)a->w->bytes : 0;
    return (kernel_cost) { .flops = 2.0 * rows * n * k, .bytes = weights + rows * (in + out) };
}

/* Each span reads its keys and values once, whatever its rows: the upper bound is max_length entries. */
static kernel_cost cost_attention(const args_attention *a)
{
    double span = a->window && a->window < a->max_length ? a->window : a->max_length;
    double d = a->kv.head_dim, rows = a->max_rows;
    return (kernel_cost) { .flops = 4.0 * rows * a->heads * d * span,
                           .bytes =
                               4.0 * a->max_spans * span * a->kv.kv_heads * d + 8.0 * rows * a->heads * d };
}

/* Attention over the entries that the live spans really see. */
static kernel_cost live_attention(const args_attention *a)
{
    kernel_cost cost = { 0 };
    double d = a->kv.head_dim;
    int spans = rows_live((row_count) { a->span_count, a->max_spans });
    for (int i = 0; i < spans; i++) {
        const row_span *s = &a->spans[i];
        if (s->rows == 0)
            continue;
        int last = s->first_position + s->rows;
        double seen = a->window && a->window < last ? a->window : last;
        double each = a->window && a->window < last ? a->window : last - (s->rows - 1) / 2.0;
        cost.flops += 4.0 * s->rows * a->heads * d * each;
        cost.bytes += 4.0 * seen * a->kv.kv_heads * d + 8.0 * s->rows * a->heads * d;
    }
    return cost;
}

/* Of the rows launched, or of those that are live. */
static kernel_cost cost_of(kernel_id id, const kernel_args *args, bool live)
{
    switch (id) {
    case KERNEL_EMBED: {
        const args_embed *a = &args->embed;
        double n = count_rows(a->rows, live) * a->copies * a->dim;
        return (kernel_cost) { .flops = n, .bytes = 8.0 * n };
    }
    case KERNEL_QUANT: {
        const args_quant *a = &args->quant;
        double rows = count_rows(a->rows, live), n = rows * a->cols;
        return (kernel_cost) { .flops = 6.0 * n,
                               .bytes = 4.0 * n + rows * activation_row_bytes(a->form, a->cols) };
    }
    case KERNEL_MATMUL:
        return cost_matmul(&args->matmul, live);
    case KERNEL_ROPE_ANGLES: {
        double n = count_rows(args->rope_angles.rows, live) * args->rope_angles.half;
        return (kernel_cost) { .flops = 40.0 * n, .bytes = 8.0 * n };
    }
    case KERNEL_ROPE_STORE: {
        const args_rope_store *a = &args->rope_store;
        double rows = count_rows(a->rows, live), q = rows * a->heads * a->kv.head_dim;
        double k = rows * a->kv.kv_heads * a->kv.head_dim;
        return (kernel_cost) { .flops = 6.0 * (q + k), .bytes = 8.0 * q + 16.0 * k };
    }
    case KERNEL_ATTENTION:
        return live ? live_attention(&args->attention) : cost_attention(&args->attention);
    case KERNEL_NORM_ADD: {
        double n = count_rows(args->norm_add.rows, live) * args->norm_add.dim;
        return (kernel_cost) { .flops = 5.0 * n, .bytes = 12.0 * n };
    }
    case KERNEL_GATHER: {
        double n = count_rows(args->gather.rows, live) * args->gather.dim;
        return (kernel_cost) { .flops = 0, .bytes = 8.0 * n };
    }
    case KERNEL_SAMPLE: {
        double n = count_rows(args->sample.rows, live) * args->sample.vocab;
        return (kernel_cost) { .flops = 4.0 * n, .bytes = 4.0 * n };
    }
    case KERNEL_HYPER_PRE:
    case KERNEL_HYPER_POST:
        return hyper_cost(id, args, live);
    case KERNEL_HEAD_ROPE:
    case KERNEL_LATENT_STORE:
    case KERNEL_STATE_STORE:
    case KERNEL_COMPRESS:
    case KERNEL_INDEX_SCORE:
    case KERNEL_INDEX_SELECT:
    case KERNEL_SPARSE_ATTENTION:
    case KERNEL_ENTRY_STORE:
    case KERNEL_ENTRY_LOAD:
        return sparse_cost(id, args, live);
    case KERNEL_ROUTE:
    case KERNEL_GROUP:
    case KERNEL_EXPERTS:
    case KERNEL_COMBINE:
        return experts_cost(id, args, live);
    case KERNEL_HOST:
    case KERNEL_COUNT:
        break;
    }
    return (kernel_cost) { 0 };
}

kernel_cost kernel_get_cost(kernel_id id, const kernel_args *args)
{
    return cost_of(id, args, false);
}

kernel_cost kernel_get_live_cost(kernel_id id, const kernel_args *args)
{
    return cost_of(id, args, true);
}

/* ---- accesses ---- */

void access_add(access_list *l, const void *start, size_t bytes, bool write)
{
    if (!start)
        return;
    assert(l->count < KERNEL_MAX_ACCESSES);
    l->out[l->count++] = (kernel_access) { .start = start, .bytes = bytes, .write = write };
}

/* Bytes from the first to the end of the last of rows that are stride elements of `size` bytes apart. */
static size_t strided(int rows, size_t stride, size_t width, size_t size)
{
    return rows > 0 ? ((size_t)(rows - 1) * stride + width) * size : 0;
}

void access_add_rows(access_list *l, row_count rows)
{
    access_add(l, rows.live, sizeof(int32_t), false);
}

/* Which pages are touched is known only when the kernel runs. The layer's share of page 0 stands for all of
 * them: every kernel on the layer names the same bytes, and other layers name other bytes. */
static void add_kv(access_list *l, const kv_layer *kv, bool write)
{
    size_t page = 2 * sizeof(uint16_t) * (size_t)kv->page_rows * (size_t)kv->kv_heads * (size_t)kv->head_dim;
    access_add(l, kv->base, page < kv->page_stride ? page : kv->page_stride, write);
    access_add(l, kv->table, sizeof(int32_t), false);
}

void access_add_entries(access_list *l, const entry_rows *e, bool write)
{
    size_t page = (size_t)e->page_rows * e->stride;
    if (!e->base)
        return;
    access_add(l, e->base, page, write);
    access_add(l, e->table, sizeof(int32_t), false);
}

static void accesses_matmul(access_list *l, const args_matmul *a)
{
    int rows = a->rows.max;
    bool gated = a->epilogue == EPILOGUE_SWIGLU || a->epilogue == EPILOGUE_GEGLU;
    access_add_rows(l, a->rows);
    if (a->x)
        access_add(l, a->x, strided(rows, a->x_stride, (size_t)a->w->cols, sizeof(float)), false);
    else
        access_add(l, a->ready.data, a->ready.bytes, false);
    access_add(l, a->out,
               strided(rows, a->out_stride, (size_t)(gated ? a->w->rows / 2 : a->w->rows), sizeof(float)),
               true);
}

static void accesses_attention(access_list *l, const args_attention *a)
{
    size_t width = (size_t)a->heads * (size_t)a->kv.head_dim;
    access_add(l, a->span_count, sizeof(int32_t), false);
    access_add(l, a->spans, (size_t)a->max_spans * sizeof(row_span), false);
    access_add(l, a->q, strided(a->max_rows, a->q_stride, width, sizeof(float)), false);
    add_kv(l, &a->kv, false);
    access_add(l, a->out, (size_t)a->max_rows * width * sizeof(float), true);
}

static void accesses_rope_store(access_list *l, const args_rope_store *a)
{
    size_t rows = (size_t)a->rows.max;
    size_t width = (size_t)(a->heads + 2 * a->kv.kv_heads) * (size_t)a->kv.head_dim;
    access_add_rows(l, a->rows);
    access_add(l, a->qkv, rows * width * sizeof(float), true);
    access_add(l, a->cos_sin, rows * (size_t)a->rope_dim * sizeof(float), false);
    access_add(l, a->position, rows * sizeof(int32_t), false);
    access_add(l, a->slot, rows * sizeof(int32_t), false);
    add_kv(l, &a->kv, true);
}

static void accesses_sample(access_list *l, const args_sample *a)
{
    size_t rows = (size_t)a->rows.max;
    access_add_rows(l, a->rows);
    access_add(l, a->logits, strided(a->rows.max, a->logits_stride, (size_t)a->vocab, sizeof(float)), true);
    access_add(l, a->position, rows * sizeof(int32_t), false);
    access_add(l, a->params, rows * sizeof(a->params[0]), false);
    access_add(l, a->history, rows * sizeof(sample_history), false);
    access_add(l, a->token, rows * sizeof(int32_t), true);
    access_add(l, a->logprob, rows * sizeof(float), true);
    access_add(l, a->reads, 0, false);
    access_add(l, a->writes, 0, true);
}

int kernel_accesses(kernel_id id, const kernel_args *args, kernel_access out[KERNEL_MAX_ACCESSES])
{
    access_list l = { .out = out };
    switch (id) {
    case KERNEL_EMBED: {
        const args_embed *a = &args->embed;
        access_add_rows(&l, a->rows);
        access_add(&l, a->ids, (size_t)a->rows.max * sizeof(int32_t), false);
        access_add(&l, a->out, (size_t)a->rows.max * (size_t)a->copies * (size_t)a->dim * sizeof(float),
                   true);
        break;
    }
    case KERNEL_QUANT: {
        const args_quant *a = &args->quant;
        access_add_rows(&l, a->rows);
        access_add(&l, a->x, strided(a->rows.max, a->x_stride, (size_t)a->cols, sizeof(float)), false);
        access_add(&l, a->out.data, a->out.bytes, true);
        break;
    }
    case KERNEL_MATMUL:
        accesses_matmul(&l, &args->matmul);
        break;
    case KERNEL_ROPE_ANGLES: {
        const args_rope_angles *a = &args->rope_angles;
        access_add_rows(&l, a->rows);
        access_add(&l, a->position, (size_t)a->rows.max * sizeof(int32_t), false);
        access_add(&l, a->cos_sin, 2 * (size_t)a->rows.max * (size_t)a->half * sizeof(float), true);
        break;
    }
    case KERNEL_ROPE_STORE:
        accesses_rope_store(&l, &args->rope_store);
        break;
    case KERNEL_ATTENTION:
        accesses_attention(&l, &args->attention);
        break;
    case KERNEL_NORM_ADD: {
        const args_norm_add *a = &args->norm_add;
        access_add_rows(&l, a->rows);
        access_add(&l, a->x, (size_t)a->rows.max * (size_t)a->dim * sizeof(float), true);
        access_add(&l, a->y, (size_t)a->rows.max * (size_t)a->dim * sizeof(float), false);
        break;
    }
    case KERNEL_GATHER: {
        const args_gather *a = &args->gather;
        access_add_rows(&l, a->rows);
        access_add(&l, a->index, (size_t)a->rows.max * sizeof(int32_t), false);
        access_add(&l, a->x, (size_t)a->dim * sizeof(float), false);
        access_add(&l, a->out, (size_t)a->rows.max * (size_t)a->dim * sizeof(float), true);
        break;
    }
    case KERNEL_SAMPLE:
        accesses_sample(&l, &args->sample);
        break;
    case KERNEL_HYPER_PRE:
    case KERNEL_HYPER_POST:
        hyper_accesses(&l, id, args);
        break;
    case KERNEL_HEAD_ROPE:
    case KERNEL_LATENT_STORE:
    case KERNEL_STATE_STORE:
    case KERNEL_COMPRESS:
    case KERNEL_INDEX_SCORE:
    case KERNEL_INDEX_SELECT:
    case KERNEL_SPARSE_ATTENTION:
    case KERNEL_ENTRY_STORE:
    case KERNEL_ENTRY_LOAD:
        sparse_accesses(&l, id, args);
        break;
    case KERNEL_ROUTE:
    case KERNEL_GROUP:
    case KERNEL_EXPERTS:
    case KERNEL_COMBINE:
        experts_accesses(&l, id, args);
        break;
    case KERNEL_HOST:
        /* 0 bytes: the whole device buffer that the address lies in. */
        for (int i = 0; i < 6; i++) {
            access_add(&l, args->host.reads[i], 0, false);
            access_add(&l, args->host.writes[i], 0, true);
        }
        break;
    case KERNEL_COUNT:
        break;
    }
    return l.count;
}
