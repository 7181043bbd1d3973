/* sparse_attention.c: window and compressed entries in one softmax with a sink, as foray defines its bits (design.md
 * P2).
 *
 * The keys of a row stand in one list, k = 0 … n - 1: the window in ascending position, then entries in ascending id
 * (sparse.h). Keys are values. For one head:
 *   s[k] = (q . key_k) * scale                              lanes and tree of kernel/ref/reduce.h, with fma
 *   m    = the largest of the sink and all s[k]             NaN is never the largest
 *   w[k] = exp(s[k] - m)                                    kernel/ref/vmath.h
 *   sum  = the w[k] in virtual lanes k mod 16, then + exp(sink - m)
 *   o[c] = (((0 + w key) + w key) + …) * (1 / sum)          one chain of fma over the keys
 * A tile is some heads of a row; scalar. Threads: tiles at once.
 */
#include <math.h>

#include "kernel/cpu/entries.h"
#include "kernel/ref/entry_pack.h"
#include "kernel/ref/reduce.h"
#include "kernel/ref/sparse.h"
#include "kernel/ref/vmath.h"

static int sparse_attention_tiles(const kernel_args *args)
{
    return sparse_head_tiles(args->sparse_attention.rows, args->sparse_attention.heads);
}

/* Addresses of the keys | their weights | unpacked entries. */
static size_t sparse_attention_scratch(const kernel_args *args)
{
    return (size_t)sparse_max_keys(&args->sparse_attention) * (sizeof(float *) + sizeof(float)) +
           sparse_room(&args->sparse_attention) * sizeof(float);
}

/* Scores to weights, in place; returns 1 / sum. */
static float weigh(float *weight, int n, float sink)
{
    float lane[REDUCE_LANES] = { 0 }, max = sink;
    for (int k = 0; k < n; k++)
        max = weight[k] > max ? weight[k] : max;
    for (int k = 0; k < n; k++) {
        weight[k] = vmath_exp(weight[k] - max);
        lane[k % REDUCE_LANES] += weight[k];
    }
    return 1.0f / (reduce_tree(lane) + vmath_exp(sink - max));
}

static void sparse_attention_run(const kernel_args *args, int tile, void *scratch)
{
    const args_sparse_attention *a = &args->sparse_attention;
    const sparse_tile at = sparse_head_tile(a->heads, tile);
    const float **keys = scratch;
    float *weight = (float *)(void *)(keys + sparse_max_keys(a));
    const int n = sparse_find_keys(a, at.row, entry_load, keys, weight + sparse_max_keys(a));
    for (int h = at.first; h < at.first + at.count; h++) {
        const size_t offset = ((size_t)at.row * a->heads + h) * a->width;
        for (int k = 0; k < n; k++)
            weight[k] = reduce_dot(a->q + offset, keys[k], a->width) * a->scale;
        const float scale = weigh(weight, n, a->sink[h]);
        for (int c = 0; c < a->width; c++) {
            float o = 0;
            for (int k = 0; k < n; k++)
                o = fmaf(weight[k], keys[k][c], o);
            a->out[offset + c] = o * scale;
        }
    }
}

const kernel_impl ref_sparse_attention = { .tiles = sparse_attention_tiles,
                                           .scratch = sparse_attention_scratch,
                                           .run = sparse_attention_run };
