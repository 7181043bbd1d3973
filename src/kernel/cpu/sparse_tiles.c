/* sparse_tiles.c: lays out a tile's scratch; scalar, no instruction set.
 *
 * Scratch of a worker: addresses of keys | weights | unpacked entries. Rows of weights are an odd number of cache lines apart, so that those
 * of several heads do not fall on each other in the first-level cache.
 * Threads: as the header says.
 */
#include "kernel/cpu/sparse_tiles.h"

static int padded_keys(const args_sparse_attention *a)
{
    return sparse_divide_up(sparse_max_keys(a), SPARSE_KEYS) * SPARSE_KEYS;
}

static size_t weight_stride(const args_sparse_attention *a)
{
    return (size_t)(sparse_divide_up(sparse_max_keys(a), SPARSE_KEYS) | 1) * SPARSE_KEYS;
}

int sparse_attention_tiles(const kernel_args *args)
{
    return sparse_head_tiles(args->sparse_attention.rows, args->sparse_attention.heads);
}

size_t sparse_attention_scratch(const kernel_args *args)
{
    const args_sparse_attention *a = &args->sparse_attention;
    return (size_t)padded_keys(a) * sizeof(float *) + SPARSE_HEADS * weight_stride(a) * sizeof(float) +
           sparse_room(a) * sizeof(float);
}

void sparse_begin(const args_sparse_attention *a, int tile, entry_loader load, void *scratch, sparse_work *w)
{
    const sparse_tile at = sparse_head_tile(a->heads, tile);
    const size_t offset = ((size_t)at.row * (size_t)a->heads + (size_t)at.first) * (size_t)a->width;
    const float **key = scratch;
    float *weight = (float *)(void *)(key + padded_keys(a));
    *w = (sparse_work) { .heads = at.count,
                         .width = a->width,
                         .keys =
                             sparse_find_keys(a, at.row, load, key, weight + SPARSE_HEADS * weight_stride(a)),
                         .scale = a->scale,
                         .key = key,
                         .q = a->q + offset,
                         .sink = a->sink + at.first,
                         .weight = weight,
                         .stride = weight_stride(a),
                         .out = a->out + offset };
    for (int k = w->keys; k % SPARSE_KEYS != 0; k++)
        key[k] = key[w->keys - 1];
}
