/* sparse.c: what the compressed sparse attention kernels cost and which memory they touch. See describe.h.
 *
 * Costs of live rows count what those rows see; without, every row counts as if it saw all that its arguments allow.
 * Threads: any; no state.
 */
#include "kernel/describe.h"
#include "kernel/ref/sparse.h"

/* ---- cost ---- */

static kernel_cost cost_head_rope(const args_head_rope *a, bool live)
{
    double n = count_rows(a->rows, live) * a->heads * a->width;
    double hadamard = a->rounding >= ROUND_HADAMARD ? 8.0 : 0;
    return (kernel_cost) { .flops = n * (6.0 + hadamard), .bytes = 8.0 * n };
}

/* One group in `ratio` rows is completed. */
static kernel_cost cost_compress(const args_compress *a, bool live)
{
    double groups = count_rows(a->rows, live) / a->ratio;
    if (live) {
        groups = 0;
        for (int row = 0; row < rows_live(a->rows); row++)
            groups += (a->position[row] + 1) % a->ratio == 0;
    }
    double n = groups * a->width, tokens = (double)a->ratio * (a->overlap ? 2 : 1);
    return (kernel_cost) { .flops = n * (20.0 * tokens + 6.0), .bytes = n * (8.0 * tokens + 4.0) };
}

/* Rows of one request share their keys; how many requests there are is not known here, so each row counts its own. */
static kernel_cost cost_index_score(const args_index_score *a, bool live)
{
    double entries = (double)a->rows.max * a->max_entries, rows = count_rows(a->rows, live);
    if (live) {
        entries = 0;
        for (int row = 0; row < rows_live(a->rows); row++)
            entries += sparse_scored(a, row);
    }
    double q = rows * a->heads * a->width;
    return (kernel_cost) { .flops = entries * a->heads * (2.0 * a->width + 3.0),
                           .bytes = 4.0 * (entries * (a->width + 1.0) + q) };
}

static kernel_cost cost_index_select(const args_index_select *a, bool live)
{
    double entries = (double)a->rows.max * a->max_entries, rows = count_rows(a->rows, live);
    if (live) {
        entries = 0;
        for (int row = 0; row < rows_live(a->rows); row++)
            entries += sparse_visible(a->position[row], a->ratio);
    }
    return (kernel_cost) { .flops = 5.0 * entries, .bytes = 4.0 * (entries + rows * a->top) };
}

static kernel_cost cost_sparse_attention(const args_sparse_attention *a, bool live)
{
    double keys = (double)a->rows.max * sparse_max_keys(a), rows = count_rows(a->rows, live);
    if (live) {
        keys = 0;
        for (int row = 0; row < rows_live(a->rows); row++)
            keys += sparse_count_keys(a, row);
    }
    return (kernel_cost) { .flops = 4.0 * keys * a->heads * a->width,
                           .bytes = 4.0 * a->width * (keys + 2.0 * rows * a->heads) };
}

kernel_cost sparse_cost(kernel_id id, const kernel_args *args, bool live)
{
    switch (id) {
    case KERNEL_HEAD_ROPE:
        return cost_head_rope(&args->head_rope, live);
    case KERNEL_LATENT_STORE: {
        double n = count_rows(args->latent_store.rows, live) * args->latent_store.width;
        return (kernel_cost) { .flops = 8.0 * n, .bytes = 8.0 * n };
    }
    case KERNEL_STATE_STORE: {
        double n = count_rows(args->state_store.rows, live) * args->state_store.width;
        return (kernel_cost) { .flops = n, .bytes = 16.0 * n };
    }
    case KERNEL_COMPRESS:
        return cost_compress(&args->compress, live);
    case KERNEL_INDEX_SCORE:
        return cost_index_score(&args->index_score, live);
    case KERNEL_INDEX_SELECT:
        return cost_index_select(&args->index_select, live);
    case KERNEL_SPARSE_ATTENTION:
        return cost_sparse_attention(&args->sparse_attention, live);
    case KERNEL_ENTRY_STORE:
    case KERNEL_ENTRY_LOAD: {
        const args_entry_copy *a = &args->entry_copy;
        return (kernel_cost) { .bytes = 8.0 * count_rows(a->rows, live) * a->entries.width };
    }
    default:
        return (kernel_cost) { 0 };
    }
}

/* ---- accesses ---- */

static void access_row_ids(access_list *l, row_count rows, const int32_t *position, const int32_t *slot)
{
    access_add_rows(l, rows);
    access_add(l, position, (size_t)rows.max * sizeof(int32_t), false);
    access_add(l, slot, (size_t)rows.max * sizeof(int32_t), false);
}

/* From the first to the end of the last of rows that are `stride` floats apart. */
static size_t strided(row_count rows, size_t stride, size_t width)
{
    return rows.max > 0 ? ((size_t)(rows.max - 1) * stride + width) * sizeof(float) : 0;
}

static void accesses_stores(access_list *l, kernel_id id, const kernel_args *args)
{
    if (id == KERNEL_LATENT_STORE) {
        const args_latent_store *a = &args->latent_store;
        access_row_ids(l, a->rows, a->position, a->slot);
        access_add(l, a->x, strided(a->rows, a->x_stride, (size_t)a->width), false);
        access_add(l, a->cos_sin, (size_t)a->rows.max * (size_t)a->rope_dim * sizeof(float), false);
        access_add_entries(l, &a->out, true);
    } else if (id == KERNEL_STATE_STORE) {
        const args_state_store *a = &args->state_store;
        access_row_ids(l, a->rows, a->position, a->slot);
        access_add(l, a->x, strided(a->rows, a->x_stride, 2 * (size_t)a->width), false);
        access_add_entries(l, &a->state, true);
    } else {
        const args_compress *a = &args->compress;
        access_row_ids(l, a->rows, a->position, a->slot);
        access_add_entries(l, &a->state, false);
        access_add_entries(l, &a->out, true);
    }
}

static void accesses_index(access_list *l, kernel_id id, const kernel_args *args)
{
    if (id == KERNEL_INDEX_SCORE) {
        const args_index_score *a = &args->index_score;
        const size_t rows = (size_t)a->rows.max, heads = (size_t)a->heads;
        access_row_ids(l, a->rows, a->position, a->slot);
        access_add(l, a->q, rows * heads * (size_t)a->width * sizeof(float), false);
        access_add(l, a->weight, rows * heads * sizeof(float), false);
        access_add_entries(l, &a->keys, false);
        access_add(l, a->score, rows * (size_t)a->max_entries * sizeof(float), true);
    } else {
        const args_index_select *a = &args->index_select;
        const size_t rows = (size_t)a->rows.max;
        access_row_ids(l, a->rows, a->position, NULL);
        access_add(l, a->score, rows * (size_t)a->max_entries * sizeof(float), false);
        access_add(l, a->chosen, rows * (size_t)a->top * sizeof(int32_t), true);
        access_add(l, a->count, rows * sizeof(int32_t), true);
    }
}

static void accesses_sparse_attention(access_list *l, const args_sparse_attention *a)
{
    const size_t rows = (size_t)a->rows.max, width = (size_t)a->heads * (size_t)a->width;
    access_row_ids(l, a->rows, a->position, a->slot);
    access_add(l, a->q, rows * width * sizeof(float), false);
    access_add_entries(l, &a->ring, false);
    if (a->ratio > 0) {
        access_add_entries(l, &a->entries, false);
        access_add(l, a->chosen, rows * (size_t)a->top * sizeof(int32_t), false);
        access_add(l, a->chosen ? a->count : NULL, rows * sizeof(int32_t), false);
    }
    access_add(l, a->out, rows * width * sizeof(float), true);
}

void sparse_accesses(access_list *l, kernel_id id, const kernel_args *args)
{
    switch (id) {
    case KERNEL_HEAD_ROPE: {
        const args_head_rope *a = &args->head_rope;
        const size_t rows = (size_t)a->rows.max;
        access_add_rows(l, a->rows);
        access_add(l, a->x, rows * (size_t)a->heads * (size_t)a->width * sizeof(float), true);
        access_add(l, a->cos_sin, rows * (size_t)a->rope_dim * sizeof(float), false);
        break;
    }
    case KERNEL_LATENT_STORE:
    case KERNEL_STATE_STORE:
    case KERNEL_COMPRESS:
        accesses_stores(l, id, args);
        break;
    case KERNEL_INDEX_SCORE:
    case KERNEL_INDEX_SELECT:
        accesses_index(l, id, args);
        break;
    case KERNEL_SPARSE_ATTENTION:
        accesses_sparse_attention(l, &args->sparse_attention);
        break;
    case KERNEL_ENTRY_STORE:
    case KERNEL_ENTRY_LOAD: {
        const args_entry_copy *a = &args->entry_copy;
        size_t rows = (size_t)a->rows.max;
        access_add_rows(l, a->rows);
        access_add(l, a->position, rows * sizeof(int32_t), false);
        access_add(l, a->slot, rows * sizeof(int32_t), false);
        access_add_entries(l, &a->entries, id == KERNEL_ENTRY_STORE);
        access_add(l, a->x, rows * (size_t)a->entries.width * sizeof(float), id == KERNEL_ENTRY_LOAD);
        break;
    }
    default:
        break;
    }
}
