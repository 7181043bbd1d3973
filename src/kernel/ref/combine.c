/* combine.c (ref): defines how a row's results are added up: ((y0 + y1) + y2) + …, then + add.
 *
 * Element by element, so that vectors change nothing: every instruction set uses it. Tiles are rows.
 * Threads: tiles at once.
 */
#include "kernel/cpu/entries.h"

static int combine_tiles(const kernel_args *args)
{
    return rows_live(args->combine.rows);
}

static void combine_run(const kernel_args *args, int tile, void *scratch)
{
    (void)scratch;
    const args_combine *a = &args->combine;
    const size_t dim = (size_t)a->dim;
    const float *y = a->y + (size_t)tile * (size_t)a->chosen * dim;
    const float *add = a->add ? a->add + (size_t)tile * dim : NULL;
    float *out = a->out + (size_t)tile * dim;
    for (size_t k = 0; k < dim; k++) {
        float sum = y[k];
        for (int i = 1; i < a->chosen; i++)
            sum += y[(size_t)i * dim + k];
        out[k] = add ? sum + add[k] : sum;
    }
}

const kernel_impl ref_combine = { .tiles = combine_tiles, .run = combine_run };
