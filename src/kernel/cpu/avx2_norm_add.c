/* avx2_norm_add.c: x += rmsnorm(y), eight floats at a time; the bits of kernel/ref/norm_add.c. The AVX-512
 * table uses it too: memory sets the pace.
 *
 * One tile per row. Threads: tiles at once.
 */
#include <immintrin.h>

#include "kernel/cpu/avx2_reduce.h"
#include "kernel/cpu/entries.h"

static int norm_add_tiles(const kernel_args *args)
{
    return rows_live(args->norm_add.rows);
}

static void norm_add_run(const kernel_args *args, int tile, void *scratch)
{
    (void)scratch;
    const args_norm_add *a = &args->norm_add;
    float *x = a->x + (size_t)tile * a->dim;
    const float *y = a->y + (size_t)tile * a->dim;
    const __m256 scale = _mm256_set1_ps(reduce_rms_scale(avx2_sum_squares(y, a->dim), a->dim, a->eps));
    for (int i = 0; i < a->dim; i += 8) {
        const __m256i m = avx2_mask_below(a->dim - i);
        const __m256 scaled = _mm256_mul_ps(_mm256_maskload_ps(y + i, m), scale);
        const __m256 sum =
            _mm256_fmadd_ps(scaled, _mm256_maskload_ps(a->norm + i, m), _mm256_maskload_ps(x + i, m));
        _mm256_maskstore_ps(x + i, m, sum);
    }
}

const kernel_impl avx2_norm_add = { .tiles = norm_add_tiles, .run = norm_add_run };
