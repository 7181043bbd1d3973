/* rope_angles.c: cos and sin of every row's rotary angles; one implementation for all instruction sets.
 *
 * The angle is that of rope.h, times mscale. One tile per row: a pass computes this once for all layers.
 * Threads: tiles at once.
 */
#include "kernel/cpu/entries.h"
#include "kernel/ref/rope.h"

static int rope_angles_tiles(const kernel_args *args)
{
    return rows_live(args->rope_angles.rows);
}

static void rope_angles_run(const kernel_args *args, int tile, void *scratch)
{
    (void)scratch;
    const args_rope_angles *a = &args->rope_angles;
    float *cosines = a->cos_sin + (size_t)tile * 2 * a->half, *sines = cosines + a->half;
    for (int i = 0; i < a->half; i++) {
        const vmath_angle angle = rope_angle(a->position[tile], a->frequency[i]);
        cosines[i] = angle.cos * a->mscale;
        sines[i] = angle.sin * a->mscale;
    }
}

const kernel_impl ref_rope_angles = { .tiles = rope_angles_tiles, .run = rope_angles_run };
