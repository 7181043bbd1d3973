/* avx2_route.c: eight experts at a time; the bits and the choice of kernel/ref/route.c.
 *
 * One tile per row. Threads: tiles at once.
 */
#include <immintrin.h>

#include "kernel/cpu/avx2_reduce.h"
#include "kernel/cpu/avx2_vmath.h"
#include "kernel/cpu/entries.h"
#include "kernel/ref/route.h"

static __m256 scores(__m256 logit)
{
    const __m256 away = _mm256_or_ps(logit, _mm256_set1_ps(-0.0f)); /* -|logit| */
    const __m256 plus = _mm256_max_ps(_mm256_setzero_ps(), logit);
    const __m256 s = _mm256_sqrt_ps(_mm256_add_ps(avx2_log1p(avx2_exp(away)), plus));
    const __m256 linear = _mm256_cmp_ps(logit, _mm256_set1_ps(ROUTE_LINEAR), _CMP_LT_OQ);
    return _mm256_blendv_ps(s, avx2_exp(_mm256_mul_ps(_mm256_set1_ps(0.5f), logit)), linear);
}

static __m256i ranks(__m256 key)
{
    const __m256i bits = _mm256_castps_si256(key);
    const __m256i flip = _mm256_and_si256(_mm256_srai_epi32(bits, 31), _mm256_set1_epi32(0x7fffffff));
    const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(key, key, _CMP_UNORD_Q));
    return _mm256_blendv_epi8(_mm256_xor_si256(bits, flip), _mm256_set1_epi32(ROUTE_TAKEN + 1), nan);
}

static __m256i load_keys(const int32_t *key)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)key);
}

/* The first of the largest of key [padded]. */
static int largest(const int32_t *key, int padded)
{
    __m256i top = load_keys(key);
    for (int e = 8; e < padded; e += 8)
        top = _mm256_max_epi32(top, load_keys(key + e));
    top = _mm256_max_epi32(top, _mm256_permute2x128_si256(top, top, 1));
    top = _mm256_max_epi32(top, _mm256_shuffle_epi32(top, 0x4e));
    top = _mm256_max_epi32(top, _mm256_shuffle_epi32(top, 0xb1));
    for (int e = 0;; e += 8) {
        const __m256i same = _mm256_cmpeq_epi32(load_keys(key + e), top);
        const int found = _mm256_movemask_ps(_mm256_castsi256_ps(same));
        if (found)
            return e + __builtin_ctz((unsigned)found);
    }
}

static void route_run(const kernel_args *args, int tile, void *scratch)
{
    const args_route *a = &args->route;
    const int padded = route_padded(a->experts);
    float *score = scratch;                             /* [padded] */
    int32_t *key = (int32_t *)(void *)(score + padded); /* [padded], what is no expert taken */
    if (!route_by_table(a, tile, score)) {
        const float *logits = a->logits + (size_t)tile * (size_t)a->experts;
        for (int e = 0; e < padded; e += 8) {
            const __m256i here = avx2_mask_below(a->experts - e);
            const __m256 s = scores(_mm256_maskload_ps(logits + e, here));
            const __m256 k = a->bias ? _mm256_add_ps(s, _mm256_maskload_ps(a->bias + e, here)) : s;
            const __m256i rank = _mm256_blendv_epi8(_mm256_set1_epi32(ROUTE_TAKEN), ranks(k), here);
            _mm256_storeu_ps(score + e, s);
            _mm256_storeu_si256((__m256i *)(void *)(key + e), rank);
        }
        for (int i = 0; i < a->chosen; i++) {
            const int best = largest(key, padded);
            a->choice[(size_t)tile * (size_t)a->chosen + (size_t)i] = best;
            key[best] = ROUTE_TAKEN;
        }
    }
    route_weigh(a, tile, score);
}

const kernel_impl avx2_route = { .tiles = route_tiles, .scratch = route_scratch, .run = route_run };
