/* avx2_latent.c: heads, latents and compressed entries, eight floats at a time; the bits of kernel/ref/latent.c and
 * compress.c. The AVX-512 table uses them too: each value is touched a few times only.
 *
 * Tiles as in kernel/ref. Threads: tiles at once.
 */
#include <immintrin.h>
#include <math.h>

#include "kernel/cpu/avx2_reduce.h"
#include "kernel/cpu/avx2_vmath.h"
#include "kernel/cpu/entries.h"
#include "kernel/ref/compress.h"
#include "kernel/ref/entry_pack.h"
#include "kernel/ref/latent.h"
#include "kernel/ref/round.h"
#include "kernel/ref/sparse.h"

/* y may be x. weight NULL: none. */
static void norm_vector(const float *x, int width, const float *weight, float eps, float *y)
{
    const __m256 scale = _mm256_set1_ps(reduce_rms_scale(avx2_sum_squares(x, width), width, eps));
    for (int i = 0; i < width; i += 8) {
        const __m256i m = avx2_mask_below(width - i);
        __m256 v = _mm256_mul_ps(_mm256_maskload_ps(x + i, m), scale);
        if (weight)
            v = _mm256_mul_ps(v, _mm256_maskload_ps(weight + i, m));
        _mm256_maskstore_ps(y + i, m, v);
    }
}

/* Four pairs at a time: each cos and sin serves two lanes; even lanes subtract, odd ones add. */
static void rotate_tail(float *x, int width, int rope_dim, const float *cos_sin, bool inverse)
{
    const __m256 sign = _mm256_set1_ps(inverse ? -0.0f : 0.0f);
    const __m256i twice = _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3);
    float *tail = x + width - rope_dim;
    for (int i = 0; i < rope_dim; i += 8) {
        const __m256i m = avx2_mask_below(rope_dim - i);
        const __m128i half = _mm256_castsi256_si128(avx2_mask_below((rope_dim - i) / 2));
        const __m256 c = _mm256_castps128_ps256(_mm_maskload_ps(cos_sin + i / 2, half));
        const __m256 s = _mm256_castps128_ps256(_mm_maskload_ps(cos_sin + rope_dim / 2 + i / 2, half));
        const __m256 v = _mm256_maskload_ps(tail + i, m);
        const __m256 turned = _mm256_mul_ps(_mm256_permute_ps(v, 0xb1),
                                            _mm256_xor_ps(_mm256_permutevar8x32_ps(s, twice), sign));
        _mm256_maskstore_ps(tail + i, m, _mm256_fmaddsub_ps(v, _mm256_permutevar8x32_ps(c, twice), turned));
    }
}

/* Pairs 1, 2 and 4 apart inside a register: the other lane plus this one, its sign changed where it is subtracted. */
static inline __m256 hadamard_inside(__m256 v)
{
    const __m256 minus1 = _mm256_setr_ps(0, -0.0f, 0, -0.0f, 0, -0.0f, 0, -0.0f);
    const __m256 minus2 = _mm256_setr_ps(0, 0, -0.0f, -0.0f, 0, 0, -0.0f, -0.0f);
    const __m256 minus4 = _mm256_setr_ps(0, 0, 0, 0, -0.0f, -0.0f, -0.0f, -0.0f);
    v = _mm256_add_ps(_mm256_permute_ps(v, 0xb1), _mm256_xor_ps(v, minus1));
    v = _mm256_add_ps(_mm256_permute_ps(v, 0x4e), _mm256_xor_ps(v, minus2));
    return _mm256_add_ps(_mm256_permute2f128_ps(v, v, 0x01), _mm256_xor_ps(v, minus4));
}

static void hadamard(float *x, int width)
{
    for (int i = 0; i < width; i += 8)
        _mm256_storeu_ps(x + i, hadamard_inside(_mm256_loadu_ps(x + i)));
    for (int half = 8; half < width; half *= 2)
        for (int block = 0; block < width; block += 2 * half)
            for (int i = block; i < block + half; i += 8) {
                const __m256 a = _mm256_loadu_ps(x + i), b = _mm256_loadu_ps(x + i + half);
                _mm256_storeu_ps(x + i, _mm256_add_ps(a, b));
                _mm256_storeu_ps(x + i + half, _mm256_sub_ps(a, b));
            }
    const __m256 scale = _mm256_set1_ps(1.0f / sqrtf((float)width));
    for (int i = 0; i < width; i += 8)
        _mm256_storeu_ps(x + i, _mm256_mul_ps(_mm256_loadu_ps(x + i), scale));
}

/* A format of kernel/ref/round.h. */
typedef struct {
    float most, floor, least, steps;
} number_format;

static const number_format e4m3 = { ROUND_F8_MOST, ROUND_F8_FLOOR, 0x1p-6f, 8 };
static const number_format e2m1 = { ROUND_FP4_MOST, ROUND_FP4_FLOOR, 1, 2 };

/* round_scale over x [n], n a multiple of 8. */
static float group_scale(const float *x, int n, const number_format *f)
{
    __m256i top = _mm256_castps_si256(_mm256_set1_ps(f->floor));
    for (int i = 0; i < n; i += 8) {
        const __m256i bits = _mm256_loadu_si256((const __m256i *)(const void *)(x + i));
        top = _mm256_max_epi32(top, _mm256_and_si256(bits, _mm256_set1_epi32(0x7fffffff)));
    }
    __m128i four = _mm_max_epi32(_mm256_castsi256_si128(top), _mm256_extracti128_si256(top, 1));
    four = _mm_max_epi32(four, _mm_shuffle_epi32(four, 0x4e));
    four = _mm_max_epi32(four, _mm_shuffle_epi32(four, 0xb1));
    const uint32_t most = (uint32_t)_mm_cvtsi128_si32(four);
    const float least = vmath_float(most < 0x7f800000 ? most : 0x7f800000) * (1 / f->most);
    return vmath_float((vmath_bits(least) + 0x7fffff) & 0x7f800000);
}

/* round_group_f8 and round_group_fp4, in place; n a multiple of 8. */
static inline __attribute__((always_inline)) void round_group(float *x, int n, const number_format *f)
{
    const __m256 scale = _mm256_set1_ps(group_scale(x, n, f)), sign = _mm256_set1_ps(-0.0f);
    const __m256 exponent = _mm256_castsi256_ps(_mm256_set1_epi32(0x7f800000));
    for (int i = 0; i < n; i += 8) {
        const __m256 v = _mm256_div_ps(_mm256_loadu_ps(x + i), scale);
        const __m256 size =
            _mm256_min_ps(_mm256_set1_ps(f->most), _mm256_andnot_ps(sign, v)); /* a NaN stays one */
        const __m256 power = _mm256_max_ps(_mm256_and_ps(size, exponent), _mm256_set1_ps(f->least));
        const __m256 magic = _mm256_mul_ps(power, _mm256_set1_ps(0x1p23f / f->steps));
        const __m256 rounded = _mm256_sub_ps(_mm256_add_ps(size, magic), magic);
        const __m256 back = _mm256_or_ps(_mm256_andnot_ps(sign, rounded), _mm256_and_ps(sign, v));
        _mm256_storeu_ps(x + i, _mm256_mul_ps(back, scale));
    }
}

static void round_vector(float *x, int width, int rope_dim, vector_rounding rounding)
{
    if (rounding == ROUND_F8) {
        int i = 0, n = width - rope_dim;
        for (; i + LATENT_F8_GROUP <= n; i += LATENT_F8_GROUP)
            round_group(x + i, LATENT_F8_GROUP, &e4m3);
        if (i < n)
            round_group_f8(x + i, n - i, x + i);
    } else if (rounding >= ROUND_HADAMARD && width < LATENT_FP4_GROUP) {
        latent_round(x, width, rope_dim, rounding);
    } else if (rounding >= ROUND_HADAMARD) {
        hadamard(x, width);
        for (int i = 0; rounding == ROUND_HADAMARD_FP4 && i < width; i += LATENT_FP4_GROUP)
            round_group(x + i, LATENT_FP4_GROUP, &e2m1);
    }
}

/* ---- heads and latents ---- */

static int head_rope_tiles(const kernel_args *args)
{
    return sparse_head_tiles(args->head_rope.rows, args->head_rope.heads);
}

static void head_rope_run(const kernel_args *args, int tile, void *scratch)
{
    (void)scratch;
    const args_head_rope *a = &args->head_rope;
    const sparse_tile at = sparse_head_tile(a->heads, tile);
    const float *cos_sin = a->cos_sin + (size_t)at.row * a->rope_dim;
    for (int h = at.first; h < at.first + at.count; h++) {
        float *x = a->x + ((size_t)at.row * a->heads + h) * a->width;
        if (a->norm)
            norm_vector(x, a->width, NULL, a->eps, x);
        rotate_tail(x, a->width, a->rope_dim, cos_sin, a->inverse);
        round_vector(x, a->width, a->rope_dim, a->rounding);
    }
}

const kernel_impl avx2_head_rope = { .tiles = head_rope_tiles, .run = head_rope_run };

static int latent_store_tiles(const kernel_args *args)
{
    return rows_live(args->latent_store.rows);
}

static void latent_store_run(const kernel_args *args, int tile, void *scratch)
{
    (void)scratch;
    const args_latent_store *a = &args->latent_store;
    float *entry = entry_at(&a->out, a->slot[tile], a->position[tile]);
    norm_vector(a->x + (size_t)tile * a->x_stride, a->width, a->norm, a->eps, entry);
    rotate_tail(entry, a->width, a->rope_dim, a->cos_sin + (size_t)tile * a->rope_dim, false);
    round_vector(entry, a->width, a->rope_dim, a->rounding);
}

const kernel_impl avx2_latent_store = { .tiles = latent_store_tiles, .run = latent_store_run };

/* ---- compressed entries ---- */

/* Eight channels of a group from `channel` on. */
static __m256 pool_channels(const compress_group *g, int channel, __m256i m)
{
    __m256 max = _mm256_set1_ps(-INFINITY), sum = _mm256_setzero_ps(), pooled = _mm256_setzero_ps();
    for (int t = 0; t < g->tokens; t++) /* the second operand stays where the first is NaN */
        max = _mm256_max_ps(_mm256_maskload_ps(g->kv[t] + g->to_score + channel, m), max);
    for (int t = 0; t < g->tokens; t++) {
        const __m256 score = _mm256_maskload_ps(g->kv[t] + g->to_score + channel, m);
        const __m256 w = avx2_exp(_mm256_sub_ps(score, max));
        sum = _mm256_add_ps(sum, w);
        pooled = _mm256_fmadd_ps(w, _mm256_maskload_ps(g->kv[t] + channel, m), pooled);
    }
    return _mm256_div_ps(pooled, sum);
}

static void compress_run(const kernel_args *args, int tile, void *scratch)
{
    const args_compress *a = &args->compress;
    compress_group g;
    if (!compress_begin(a, tile, scratch, &g))
        return;
    for (int c = 0; c < a->width; c += 8) {
        const __m256i m = avx2_mask_below(a->width - c);
        _mm256_maskstore_ps(g.entry + c, m, pool_channels(&g, c, m));
    }
    norm_vector(g.entry, a->width, a->norm, a->eps, g.entry);
    rotate_tail(g.entry, a->width, a->rope_dim, g.cos_sin, false);
    round_vector(g.entry, a->width, a->rope_dim, a->rounding);
    entry_store(&a->out, g.slot, g.index, g.entry);
}

const kernel_impl avx2_compress = { .tiles = compress_tiles,
                                    .scratch = compress_scratch,
                                    .run = compress_run };
