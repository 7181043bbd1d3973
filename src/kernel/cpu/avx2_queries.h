/* avx2_queries.h: puts the queries of an attention tile side by side, four numbers at a time.
 *
 * Shared by the AVX2 and AVX-512 attention; the tile itself is laid out by attention_tiles.c. Threads: any,
 * each on its own work.
 */
#ifndef FORAY_KERNEL_CPU_AVX2_QUERIES_H
#define FORAY_KERNEL_CPU_AVX2_QUERIES_H

#include <immintrin.h>

#include "kernel/cpu/attention_tiles.h"

/* w->q[d][i] = source[i][d]. Places past the last query repeat it, up to a multiple of four. */
static inline void avx2_place_queries(const attention_work *w)
{
    const int last = w->queries - 1;
    for (int i = 0; i <= last; i += 4) {
        const float *a = w->source[i], *b = w->source[i + 1 < last ? i + 1 : last];
        const float *c = w->source[i + 2 < last ? i + 2 : last], *e = w->source[i + 3 < last ? i + 3 : last];
        for (int d = 0; d < w->head_dim; d += 4) {
            __m128 p = _mm_loadu_ps(a + d), q = _mm_loadu_ps(b + d), r = _mm_loadu_ps(c + d),
                   s = _mm_loadu_ps(e + d);
            _MM_TRANSPOSE4_PS(p, q, r, s);
            float *to = w->q + d * ATTENTION_QUERIES + i;
            _mm_storeu_ps(to, p);
            _mm_storeu_ps(to + ATTENTION_QUERIES, q);
            _mm_storeu_ps(to + 2 * ATTENTION_QUERIES, r);
            _mm_storeu_ps(to + 3 * ATTENTION_QUERIES, s);
        }
    }
}

#endif
