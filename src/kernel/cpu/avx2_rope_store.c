/* avx2_rope_store.c: norms and rotates q and k, stores k and v in the cache, eight floats at a time; the bits
 * of kernel/ref/rope_store.c. The AVX-512 table uses it too: the work is small and scatters halves.
 *
 * A tile is four rows. Threads: tiles at once (they write different entries).
 */
#include <immintrin.h>

#include "kernel/cpu/avx2_reduce.h"
#include "kernel/cpu/entries.h"
#include "kernel/ref/attention.h"

enum { TILE_ROWS = 4 };

static int rope_store_tiles(const kernel_args *args)
{
    return (rows_live(args->rope_store.rows) + TILE_ROWS - 1) / TILE_ROWS;
}

static void norm_head(float *x, const float *norm, int n, float eps)
{
    if (!norm)
        return;
    const __m256 scale = _mm256_set1_ps(reduce_rms_scale(avx2_sum_squares(x, n), n, eps));
    for (int i = 0; i < n; i += 8) {
        const __m256 y = _mm256_mul_ps(_mm256_loadu_ps(x + i), scale);
        _mm256_storeu_ps(x + i, _mm256_mul_ps(y, _mm256_loadu_ps(norm + i)));
    }
}

static void rotate_head(float *x, const float *cos_sin, int half)
{
    for (int i = 0; i < half; i += 8) {
        const __m256i m = avx2_mask_below(half - i);
        const __m256 a = _mm256_maskload_ps(x + i, m), b = _mm256_maskload_ps(x + i + half, m);
        const __m256 c = _mm256_maskload_ps(cos_sin + i, m), s = _mm256_maskload_ps(cos_sin + i + half, m);
        _mm256_maskstore_ps(x + i, m, _mm256_fmsub_ps(a, c, _mm256_mul_ps(b, s)));
        _mm256_maskstore_ps(x + i + half, m, _mm256_fmadd_ps(b, c, _mm256_mul_ps(a, s)));
    }
}

static void store_entry(const kv_layer *kv, int slot, int head, int position, const float *k, const float *v)
{
    uint16_t *keys = attention_keys(kv, slot, head, position / KV_TILE);
    uint16_t *values = keys + attention_values(kv) + (size_t)(position % KV_TILE) * kv->head_dim;
    keys += position % KV_TILE;
    for (int i = 0; i < kv->head_dim; i += 8) {
        uint16_t h[8];
        _mm_storeu_si128((__m128i *)(void *)h,
                         _mm256_cvtps_ph(_mm256_loadu_ps(k + i), _MM_FROUND_TO_NEAREST_INT));
        for (int j = 0; j < 8; j++)
            keys[(i + j) * KV_TILE] = h[j];
        _mm_storeu_si128((__m128i *)(void *)(values + i),
                         _mm256_cvtps_ph(_mm256_loadu_ps(v + i), _MM_FROUND_TO_NEAREST_INT));
    }
}

static void store_row(const args_rope_store *a, int row)
{
    const kv_layer *kv = &a->kv;
    const int d = kv->head_dim;
    float *q = a->qkv + (size_t)row * (size_t)(a->heads + 2 * kv->kv_heads) * d;
    const float *k = q + (size_t)a->heads * d, *v = k + (size_t)kv->kv_heads * d;
    for (int h = 0; h < a->heads + kv->kv_heads; h++) {
        norm_head(q + (size_t)h * d, h < a->heads ? a->q_norm : a->k_norm, d, a->eps);
        rotate_head(q + (size_t)h * d, a->cos_sin + (size_t)row * a->rope_dim, a->rope_dim / 2);
    }
    for (int h = 0; h < kv->kv_heads; h++)
        store_entry(kv, a->slot[row], h, a->position[row], k + (size_t)h * d, v + (size_t)h * d);
}

static void rope_store_run(const kernel_args *args, int tile, void *scratch)
{
    (void)scratch;
    const args_rope_store *a = &args->rope_store;
    const int rows = rows_live(a->rows);
    for (int row = tile * TILE_ROWS; row < rows && row < (tile + 1) * TILE_ROWS; row++)
        store_row(a, row);
}

const kernel_impl avx2_rope_store = { .tiles = rope_store_tiles, .run = rope_store_run };
