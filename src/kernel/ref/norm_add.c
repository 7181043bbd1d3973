/* norm_add.c: x += rmsnorm(y), the post-norm of Gemma: x[i] = fma(y[i] * s, norm[i], x[i]), s of
 * kernel/ref/reduce.h. Defines the bits (design.md P2). One tile per row; scalar.
 * Threads: tiles at once.
 */
#include <math.h>

#include "kernel/cpu/entries.h"
#include "kernel/ref/reduce.h"

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
    const float scale = reduce_rms_scale(reduce_sum_squares(y, a->dim), a->dim, a->eps);
    for (int i = 0; i < a->dim; i++)
        x[i] = fmaf(y[i] * scale, a->norm[i], x[i]);
}

const kernel_impl ref_norm_add = { .tiles = norm_add_tiles, .run = norm_add_run };
