/* head_rope.c: norms, rotates and rounds each head of a row in place: the bits (design.md P2) are those of latent.h,
 * in this order. A tile is some heads of a row (sparse.h); scalar. Threads: tiles at once.
 */
#include "kernel/cpu/entries.h"
#include "kernel/ref/latent.h"
#include "kernel/ref/sparse.h"

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
            latent_norm(x, a->width, NULL, a->eps, x);
        latent_rotate(x, a->width, a->rope_dim, cos_sin, a->inverse);
        latent_round(x, a->width, a->rope_dim, a->rounding);
    }
}

const kernel_impl ref_head_rope = { .tiles = head_rope_tiles, .run = head_rope_run };
