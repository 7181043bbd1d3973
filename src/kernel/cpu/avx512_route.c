/* avx512_route.c: sixteen experts at a time; the bits and the choice of kernel/ref/route.c.
 *
 * One tile per row. Threads: tiles at once.
 */
#include <immintrin.h>

#include "kernel/cpu/avx512_reduce.h"
#include "kernel/cpu/avx512_vmath.h"
#include "kernel/cpu/entries.h"
#include "kernel/ref/route.h"

static __m512 scores(__m512 logit)
{
    const __m512 away = _mm512_or_ps(logit, _mm512_set1_ps(-0.0f)); /* -|logit| */
    const __m512 plus = _mm512_max_ps(_mm512_setzero_ps(), logit);
    const __m512 s = _mm512_sqrt_ps(_mm512_add_ps(avx512_log1p(avx512_exp(away)), plus));
    const __mmask16 linear = _mm512_cmp_ps_mask(logit, _mm512_set1_ps(ROUTE_LINEAR), _CMP_LT_OQ);
    return _mm512_mask_blend_ps(linear, s, avx512_exp(_mm512_mul_ps(_mm512_set1_ps(0.5f), logit)));
}

static __m512i ranks(__m512 key)
{
    const __m512i bits = _mm512_castps_si512(key);
    const __m512i flip = _mm512_and_si512(_mm512_srai_epi32(bits, 31), _mm512_set1_epi32(0x7fffffff));
    const __mmask16 nan = _mm512_cmp_ps_mask(key, key, _CMP_UNORD_Q);
    return _mm512_mask_blend_epi32(nan, _mm512_xor_si512(bits, flip), _mm512_set1_epi32(ROUTE_TAKEN + 1));
}

/* The first of the largest of key [padded]. */
static int largest(const int32_t *key, int padded)
{
    __m512i top = _mm512_loadu_si512(key);
    for (int e = 16; e < padded; e += 16)
        top = _mm512_max_epi32(top, _mm512_loadu_si512(key + e));
    const __m512i best = _mm512_set1_epi32(_mm512_reduce_max_epi32(top));
    for (int e = 0;; e += 16) {
        const __mmask16 found = _mm512_cmpeq_epi32_mask(_mm512_loadu_si512(key + e), best);
        if (found)
            return e + __builtin_ctz(found);
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
        for (int e = 0; e < a->experts; e += 16) {
            const __mmask16 here = a->experts - e < 16 ? avx512_mask_below(a->experts - e) : 0xffff;
            const __m512 s = scores(_mm512_maskz_loadu_ps(here, logits + e));
            const __m512 k = a->bias ? _mm512_add_ps(s, _mm512_maskz_loadu_ps(here, a->bias + e)) : s;
            _mm512_storeu_ps(score + e, s);
            _mm512_storeu_si512(key + e,
                                _mm512_mask_blend_epi32(here, _mm512_set1_epi32(ROUTE_TAKEN), ranks(k)));
        }
        for (int i = 0; i < a->chosen; i++) {
            const int best = largest(key, padded);
            a->choice[(size_t)tile * (size_t)a->chosen + (size_t)i] = best;
            key[best] = ROUTE_TAKEN;
        }
    }
    route_weigh(a, tile, score);
}

const kernel_impl avx512_route = { .tiles = route_tiles, .scratch = route_scratch, .run = route_run };
