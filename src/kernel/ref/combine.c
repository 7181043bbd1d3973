/* combine.c (ref): defines how a row's results are added up: ((y0 + y1) + y2) + …, then + add.
 *
 * Element by element, so that vectors change nothing: every instruction set uses it. Tiles are rows.
 * Threads: tiles at once.
 */
#include "kernel/cpu/entries.h"

enum { PIECE = 64 }; /* sums side by side */

static int combine_tiles(const kernel_args *args)
{
    return rows_live(args->combine.rows);
}

static void combine_run(const kernel_args *args, int tile, void *scratch)
{
    (void)scratch;
    const args_combine *a = &args->combine;
    const size_t dim = (size_t)a->dim, first = (size_t)tile * dim;
    const float *y = a->y + first * (size_t)a->chosen;
    for (size_t k = 0; k < dim; k += PIECE) {
        const size_t n = dim - k < PIECE ? dim - k : PIECE;
        float sum[PIECE];
        for (size_t j = 0; j < n; j++)
            sum[j] = y[k + j];
        for (int i = 1; i < a->chosen; i++)
            for (size_t j = 0; j < n; j++)
                sum[j] += y[(size_t)i * dim + k + j];
        for (size_t j = 0; a->add && j < n; j++)
            sum[j] += a->add[first + k + j];
        for (size_t j = 0; j < n; j++)
            a->out[first + k + j] = sum[j];
    }
}

const kernel_impl ref_combine = { .tiles = combine_tiles, .run = combine_run };
