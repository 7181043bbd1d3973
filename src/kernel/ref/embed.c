/* embed.c (ref): token ids to rows of the residual stream. The values are format/dtype.h's, times the scale.
 *
 * A token is a row of the table as it stands in the file, so nothing here depends on packing, and an id outside
 * the vocabulary gives zeros. One tile per row. Threads: tiles are rows.
 */
#include <string.h>

#include "kernel/cpu/entries.h"

static int embed_tiles(const kernel_args *args)
{
    return rows_live(args->embed.rows);
}

static void embed_run(const kernel_args *args, int tile, void *scratch)
{
    const args_embed *a = &args->embed;
    const dtype_info *info = dtype_get((dtype)a->dtype);
    const size_t row_bytes = (size_t)(a->dim / info->block) * (size_t)info->bytes;
    float *out = a->out + (size_t)tile * (size_t)a->copies * (size_t)a->dim;
    const int32_t id = a->ids[tile];
    (void)scratch;
    if (id < 0 || id >= a->vocab) {
        memset(out, 0, (size_t)a->copies * (size_t)a->dim * sizeof(float));
        return;
    }
    dtype_to_f32((dtype)a->dtype, (const char *)a->table + (size_t)id * row_bytes, (size_t)a->dim, out);
    if (a->scale != 1.0f)
        for (int i = 0; i < a->dim; i++)
            out[i] *= a->scale;
    for (int c = 1; c < a->copies; c++)
        memcpy(out + (size_t)c * (size_t)a->dim, out, (size_t)a->dim * sizeof(float));
}

const kernel_impl ref_embed = { .tiles = embed_tiles, .run = embed_run };
