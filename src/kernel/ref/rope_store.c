/* rope_store.c: norms and rotates q and k, stores k and v in the cache: the bits (design.md P2).
 *
 * Per head: optionally x = (x * s) * norm with s of kernel/ref/reduce.h over the head; then for each pair
 * (a, b) = (x[i], x[i + half]):
 *   a' = fma(a, cos, -(b sin))        b' = fma(b, cos, a sin)
 * K and V are rounded to f16, nearest even. One tile per row; scalar. Threads: tiles at once (they write
 * different entries).
 */
#include <math.h>

#include "kernel/cpu/entries.h"
#include "kernel/ref/attention.h"
#include "kernel/ref/reduce.h"

static int rope_store_tiles(const kernel_args *args)
{
    return rows_live(args->rope_store.rows);
}

static void norm_head(float *x, const float *norm, int n, float eps)
{
    if (!norm)
        return;
    const float scale = reduce_rms_scale(reduce_sum_squares(x, n), n, eps);
    for (int i = 0; i < n; i++)
        x[i] = x[i] * scale * norm[i];
}

static void rotate_head(float *x, const float *cos_sin, int half)
{
    for (int i = 0; i < half; i++) {
        const float a = x[i], b = x[i + half], c = cos_sin[i], s = cos_sin[i + half];
        x[i] = fmaf(a, c, -(b * s));
        x[i + half] = fmaf(b, c, a * s);
    }
}

static void rope_store_run(const kernel_args *args, int tile, void *scratch)
{
    (void)scratch;
    const args_rope_store *a = &args->rope_store;
    const kv_layer *kv = &a->kv;
    const int d = kv->head_dim, position = a->position[tile];
    const float *cos_sin = a->cos_sin + (size_t)tile * a->rope_dim;
    float *q = a->qkv + (size_t)tile * (size_t)(a->heads + 2 * kv->kv_heads) * d;
    float *k = q + (size_t)a->heads * d, *v = k + (size_t)kv->kv_heads * d;

    for (int h = 0; h < a->heads + kv->kv_heads; h++) {
        norm_head(q + (size_t)h * d, h < a->heads ? a->q_norm : a->k_norm, d, a->eps);
        rotate_head(q + (size_t)h * d, cos_sin, a->rope_dim / 2);
    }
    for (int h = 0; h < kv->kv_heads; h++) {
        uint16_t *keys = attention_keys(kv, a->slot[tile], h, position / KV_TILE);
        uint16_t *values = keys + attention_values(kv) + (size_t)(position % KV_TILE) * d;
        for (int i = 0; i < d; i++) {
            keys[i * KV_TILE + position % KV_TILE] = dtype_f32_to_f16(k[h * d + i]);
            values[i] = dtype_f32_to_f16(v[h * d + i]);
        }
    }
}

const kernel_impl ref_rope_store = { .tiles = rope_store_tiles, .run = rope_store_run };
