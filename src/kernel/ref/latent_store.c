/* latent_store.c: a row's latent into the window ring: norm, rotation, rounding (latent.h defines the bits), then
 * stored as it is, in f32. One tile per row; scalar. Threads: tiles at once (they write different entries).
 */
#include "kernel/cpu/entries.h"
#include "kernel/ref/latent.h"

static int latent_store_tiles(const kernel_args *args)
{
    return rows_live(args->latent_store.rows);
}

static void latent_store_run(const kernel_args *args, int tile, void *scratch)
{
    (void)scratch;
    const args_latent_store *a = &args->latent_store;
    float *entry = entry_at(&a->out, a->slot[tile], a->position[tile]);
    latent_norm(a->x + (size_t)tile * a->x_stride, a->width, a->norm, a->eps, entry);
    latent_rotate(entry, a->width, a->rope_dim, a->cos_sin + (size_t)tile * a->rope_dim, false);
    latent_round(entry, a->width, a->rope_dim, a->rounding);
}

const kernel_impl ref_latent_store = { .tiles = latent_store_tiles, .run = latent_store_run };
